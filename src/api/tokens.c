/* tokens: creating, listing and revoking bearer tokens.
 *
 * A token is `weir_` and 43 base64url characters of 32 bytes. It is in the answer to its creation and nowhere else: the
 * store gets its hash. The bytes are random; with an Idempotency-Key they are a keyed hash of a random seed that is
 * kept with the key for its 31 days, so that a client that lost the answer is given the same one again. The hash's key
 * is of the store's secret, which no backup carries: after a restore or a copy the same request is refused (409
 * conflict) instead of answered with a token that opens nothing. */
#include <sodium.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "base/when.h"
#include "io/clock.h"

#define TOKEN_PREFIX "weir_"
enum { TOKEN_RANDOM_BYTES = 32, NAME_BYTES_MAX = 100 };

/* The bytes of a token that was asked for with a key: another seed, another caller or another key gives another one. */
static void token_derive(const struct call *call, const uint64_t seed[2], unsigned char *out)
{
    crypto_generichash_state hash;
    struct str parts[] = { call->actor.tenant, call->actor.name, call->command.idempotency.key };
    crypto_generichash_init(&hash, call->api->token_key, sizeof call->api->token_key, TOKEN_RANDOM_BYTES);
    crypto_generichash_update(&hash, (const unsigned char *)seed, 2 * sizeof *seed);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        crypto_generichash_update(&hash, (const unsigned char *)&parts[i].len, sizeof parts[i].len);
        crypto_generichash_update(&hash, (const unsigned char *)parts[i].ptr, parts[i].len);
    }
    crypto_generichash_final(&hash, out, TOKEN_RANDOM_BYTES);
    sodium_memzero(&hash, sizeof hash);
}

static struct str token_make(struct call *call, const uint64_t seed[2])
{
    struct arena *arena = &call->arena;
    unsigned char random[TOKEN_RANDOM_BYTES];
    char text[sodium_base64_ENCODED_LEN(TOKEN_RANDOM_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING)];
    if (call->command.idempotency.key.len > 0)
        token_derive(call, seed, random);
    else
        clock_entropy(random, sizeof random);
    sodium_bin2base64(text, sizeof text, random, sizeof random, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    struct str token = str_fmt(arena, TOKEN_PREFIX "%s", text);
    sodium_memzero(random, sizeof random);
    sodium_memzero(text, sizeof text);
    return token;
}

static void scopes_render(struct json *json, unsigned scopes)
{
    json_array_begin(json);
    for (size_t i = 0; i < sizeof scope_names / sizeof scope_names[0]; i++)
        if (scopes & scope_names[i].bit)
            json_z(json, scope_names[i].name);
    json_array_end(json);
}

RENDERER(token_render, Token, struct json *json, const struct token *token)

/* token_again: the text of a token that was made before. False: its row is another token's, because the store's secret
 * has changed. */
static bool token_again(struct call *call, struct str *out)
{
    struct engine *engine = call->api->config.engine;
    struct token found;
    uint8_t hash[32];
    *out = token_make(call, call->command.out.token_create.seed);
    auth_token_hash(*out, hash);
    bool same = engine_token(engine, hash, &call->arena, &found) && sodium_memcmp(found.hash, hash, sizeof hash) == 0;
    if (!same && engine_token_stands(engine, call->command.out.token_create.id))
        return err_set(&call->err, ERR_conflict,
            "the token was made before this store was restored or copied, it can't be shown: "
            "revoke it and create another with another Idempotency-Key");
    return true; /* one that was revoked since is shown, and opens nothing */
}

static bool token_created(struct call *call)
{
    struct command *command = &call->command;
    struct token *token = &command->in.token_create.token; /* by the same body: name, scopes, tenant */
    struct str text = *(const struct str *)call->state;
    if (command->replay && !token_again(call, &text))
        return call_problem(call);
    token->created = command->out.token_create.created;
    token->expires = command->out.token_create.expires;
    ANSWER_RETURN(command->status != 0 ? command->status : 201, ANSWER_NewTokenAnswer);
}

static void scopes_read(struct json_reader *reader, unsigned *out)
{
    const struct doc_node *list;
    bool given = json_read_any(reader, "scopes") != NULL;
    if (given && !json_read_array(reader, "scopes", 16, &list))
        return;
    if (!given || list->n == 0) {
        err_item(reader->err, ERR_invalid, STR("/scopes"),
            "'scopes' is required: one or more of read, enqueue, execute, admin");
        return;
    }
    for (size_t i = 0; i < list->n; i++) {
        struct str word = { 0 };
        unsigned bit = 0;
        node_is_text(list->items[i], &word);
        for (size_t k = 0; k < sizeof scope_names / sizeof scope_names[0]; k++)
            if (str_eqz(word, scope_names[k].name))
                bit = scope_names[k].bit;
        if (bit == 0)
            err_item(reader->err, ERR_invalid, json_pointer_at(reader->arena, STR("/scopes"), i),
                "a scope is read, enqueue, execute or admin");
        *out |= bit;
    }
}

/* expires_read: a duration from now, or a time. */
static void expires_read(struct json_reader *reader, int64_t now, int64_t *out)
{
    struct str text;
    int64_t ms;
    if (!json_read_str(reader, "expires", 40, &text))
        return;
    if (duration_parse(text, &ms) && ms > 0 && ms < INT64_MAX / 2)
        *out = now + ms;
    else if (when_parse(text, &ms) && ms > now)
        *out = ms;
    else
        err_item(reader->err, ERR_invalid, STR("/expires"),
            "'expires' must be a duration such as \"90d\" or a time to come (RFC 3339), not \"%.*s\"", STR_ARG(text));
}

bool serve_tokens_create(struct call *call)
{
    struct json_reader reader;
    struct token *token = &call->command.in.token_create.token;
    if (!call_idempotency(call) || !call_object(call, &reader))
        return false;
    *token = (struct token){ .tenant = call->actor.tenant, .created = clock_wall_ms() };
    if (json_read_need(&reader, "name", ""))
        call_name(&reader, "name", "token", NAME_BYTES_MAX, name_check, &token->name);
    scopes_read(&reader, &token->scopes);
    expires_read(&reader, token->created, &token->expires);
    call_name(&reader, "tenant", "tenant", NAME_BYTES_MAX, name_check, &token->tenant);
    if (!call_read_done(call, &reader))
        return false;
    if (!call->site && !str_eq(token->tenant, call->actor.tenant))
        return call_refuse(call, ERR_forbidden, "a token of the tenant '%.*s' makes tokens of that tenant only",
            STR_ARG(call->actor.tenant));
    struct str *text = ARENA_NEW(&call->arena, struct str);
    clock_entropy(call->command.in.token_create.seed, sizeof call->command.in.token_create.seed);
    *text = token_make(call, call->command.in.token_create.seed);
    auth_token_hash(*text, token->hash);
    call->state = text;
    call->command.kind = CMD_TOKEN_CREATE;
    return call_submit(call, token_created);
}

bool serve_tokens_list(struct call *call)
{
    struct token **tokens;
    struct list_page page;
    size_t n;
    if (!call_page(call, INT64_MAX, &page))
        return false;
    page.all = call->site && !call->tenant_named;
    if (!reader_tokens_page(call->api->config.reader, &call->arena, &page, &tokens, &n, &call->err))
        return call_problem(call);
    struct str next = { 0 };
    if (n == page.limit)
        next = call_cursor(call, tokens[--n - 1]->id);
    ANSWER_RETURN(200, ANSWER_TokenList);
}

static bool token_revoked(struct call *call)
{
    ANSWER_RETURN(200, ANSWER_TokenRevoked);
}

bool serve_tokens_revoke(struct call *call)
{
    call->command.kind = CMD_TOKEN_REVOKE;
    call->command.in.token_revoke.name = str_dup(&call->arena, call->arg);
    return call_submit(call, token_revoked);
}
