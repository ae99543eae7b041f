/* tokens: all tokens as of the last commit that this server knows; the API looks tokens up here (engine_token), on its
 * own thread.
 *
 * The engine reads all of them when it starts, and when it reads everything again. After that its own turns add and
 * remove tokens. Of other servers' turns, events name the tokens that were revoked, and only rows with a number above
 * the newest known one are read: a change costs the same however many tokens there are.
 *
 * Owns the tables; only turns change them, under GUARD_tokens, so turns read without it. */
#include <string.h>

#include "engine/cache/parts.h"
#include "engine/tenants.h"
#include "engine/tokens.h"

struct token_tenant { /* how many a tenant has; gone with the last */
    size_t n;
    char name[];
};

static uint64_t head_of(const uint8_t *hash)
{
    uint64_t head;
    memcpy(&head, hash, sizeof head);
    return head;
}

static void token_put(struct tokens *tokens, struct arena *scratch, const struct token *row)
{
    struct str subject = tenant_subject(scratch, row->tenant, row->name);
    struct known_token *known = mem_alloc(sizeof *known + row->name.len + row->tenant.len + subject.len);
    char *at = known->text;
    *known = (struct known_token){ .row = *row };
    known->row.name = text_keep(&at, row->name);
    known->row.tenant = text_keep(&at, row->tenant);
    known->subject = text_keep(&at, subject);
    map_put(&tokens->by_id, (uint64_t)row->id, known);
    map_put(&tokens->by_hash, head_of(row->hash), known);
    smap_put(&tokens->by_subject, known->subject, known);
    struct token_tenant *tenant = smap_find(&tokens->tenants, row->tenant);
    if (!tenant) {
        tenant = mem_alloc(sizeof *tenant + row->tenant.len);
        tenant->n = 0;
        memcpy(tenant->name, row->tenant.ptr, row->tenant.len);
        smap_put(&tokens->tenants, (struct str){ tenant->name, row->tenant.len }, tenant);
    }
    tenant->n++;
    if (row->id > tokens->newest)
        tokens->newest = row->id;
}

static void token_drop(struct tokens *tokens, struct known_token *known)
{
    struct token_tenant *tenant = smap_find(&tokens->tenants, known->row.tenant);
    map_take(&tokens->by_id, (uint64_t)known->row.id);
    if (map_find(&tokens->by_hash, head_of(known->row.hash)) == known)
        map_take(&tokens->by_hash, head_of(known->row.hash));
    if (smap_find(&tokens->by_subject, known->subject) == known)
        smap_take(&tokens->by_subject, known->subject);
    if (--tenant->n == 0) {
        smap_take(&tokens->tenants, known->row.tenant);
        mem_free(tenant);
    }
    if (PLANT(token_bytes_kept))
        return;
    mem_free(known);
}

static void tokens_drop(struct tokens *tokens)
{
    MAP_EACH (&tokens->by_id, e)
        mem_free(e->value);
    SMAP_EACH (&tokens->tenants, e)
        mem_free(e->value);
    map_clear(&tokens->by_id);
    map_clear(&tokens->by_hash);
    smap_clear(&tokens->by_subject);
    smap_clear(&tokens->tenants);
    tokens->newest = 0;
}

void tokens_release(struct engine *engine)
{
    struct tokens *tokens = engine->tokens;
    tokens_drop(tokens);
    map_release(&tokens->by_id);
    map_release(&tokens->by_hash);
    smap_release(&tokens->by_subject);
    smap_release(&tokens->tenants);
}

bool tokens_load(struct engine *engine, struct err *err)
{
    struct arena scratch = { 0 };
    struct token **rows;
    size_t n;
    bool ok = engine->store->ops->load_tokens(engine->store, &scratch, 0, SIZE_MAX, &rows, &n, err);
    guard_enter(engine, GUARD_tokens);
    if (ok)
        tokens_drop(engine->tokens);
    for (size_t i = 0; ok && i < n; i++)
        token_put(engine->tokens, &scratch, rows[i]);
    guard_leave(engine, GUARD_tokens);
    if (ok)
        tokens_tell(engine);
    arena_release(&scratch);
    return ok;
}

void tokens_tell(struct engine *engine)
{
    atomic_fetch_add(&engine->tokens_version, 1);
}

void tokens_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct tokens *tokens = engine->tokens;
    if (!turn->changes.tokens.n && !turn->changes.tokens_remove.n && !turn->changes.site.n)
        return;
    guard_enter(engine, GUARD_tokens);
    for (size_t i = 0; i < turn->changes.tokens_remove.n; i++) {
        struct known_token *known = map_find(&tokens->by_id, (uint64_t)turn->changes.tokens_remove.at[i]);
        if (known)
            token_drop(tokens, known);
    }
    for (size_t i = 0; i < turn->changes.tokens.n; i++)
        token_put(tokens, turn->arena, turn->changes.tokens.at[i]);
    guard_leave(engine, GUARD_tokens);
    tokens_tell(engine);
}

/* --- other servers' --- */

bool tokens_take(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    struct token **rows;
    size_t n;
    if (!engine->store->ops->load_tokens(engine->store, turn->arena, engine->tokens->newest, SIZE_MAX, &rows, &n, err))
        return false;
    guard_enter(engine, GUARD_tokens);
    for (size_t i = 0; i < n; i++)
        token_put(engine->tokens, turn->arena, rows[i]);
    guard_leave(engine, GUARD_tokens);
    tokens_tell(engine);
    return true;
}

/* A newer token may have the same name, so the row is read. */
void token_gone_elsewhere(struct turn *turn, struct str subject)
{
    struct engine *engine = turn->engine;
    struct known_token *known = smap_find(&engine->tokens->by_subject, subject);
    struct token **rows;
    size_t n;
    if (!known)
        return;
    if (!turn_read(turn,
            engine->store->ops->load_tokens(engine->store, turn->arena, known->row.id - 1, 1, &rows, &n, turn->err)))
        return;
    if (n && rows[0]->id == known->row.id)
        return;
    guard_enter(engine, GUARD_tokens);
    token_drop(engine->tokens, known);
    guard_leave(engine, GUARD_tokens);
}

/* --- for turns --- */

bool token_is_named(struct turn *turn, struct str tenant, struct str name)
{
    return smap_find(&turn->token_names, tenant_subject(turn->arena, tenant, name)) || token_named(turn, tenant, name);
}

void token_make(struct turn *turn, const struct token *token, struct str actor)
{
    struct str subject = tenant_subject(turn->arena, token->tenant, token->name);
    *ARRAY_ADD(turn->arena, turn->changes.tokens) = token;
    smap_put(&turn->token_names, subject, turn);
    tenant_now(turn, token->tenant)->tokens_more++;
    slice_event(turn->slice, &(struct event){ .kind = EVENT_token, .subject = subject, .actor = actor });
}

struct known_token *token_named(struct turn *turn, struct str tenant, struct str name)
{
    struct known_token *known = smap_find(&turn->engine->tokens->by_subject, tenant_subject(turn->arena, tenant, name));
    return known && known->gone != turn->engine->serial ? known : NULL;
}

void token_revoke(struct turn *turn, struct known_token *known, struct str actor, struct str reason)
{
    known->gone = turn->engine->serial;
    *ARRAY_ADD(turn->arena, turn->changes.tokens_remove) = known->row.id;
    slice_event(turn->slice, &(struct event){ .kind = EVENT_token_revoked,
                                 .actor = actor,
                                 .reason = reason,
                                 .subject = str_dup(turn->arena, known->subject) });
}

int64_t tokens_of(struct turn *turn, struct str tenant)
{
    const struct token_tenant *known = smap_find(&turn->engine->tokens->tenants, tenant);
    return (known ? (int64_t)known->n : 0) + tenant_now(turn, tenant)->tokens_more;
}

/* --- for the api --- */

bool engine_token(struct engine *engine, const uint8_t hash[32], struct arena *arena, struct token *out)
{
    guard_enter(engine, GUARD_tokens);
    const struct known_token *known = map_find(&engine->tokens->by_hash, head_of(hash));
    if (known) {
        *out = known->row;
        out->name = str_dup(arena, known->row.name);
        out->tenant = str_dup(arena, known->row.tenant);
    }
    guard_leave(engine, GUARD_tokens);
    return known != NULL;
}

bool engine_token_stands(struct engine *engine, int64_t id)
{
    guard_enter(engine, GUARD_tokens);
    bool stands = map_find(&engine->tokens->by_id, (uint64_t)id) != NULL;
    guard_leave(engine, GUARD_tokens);
    return stands;
}

bool engine_has_tokens(struct engine *engine)
{
    guard_enter(engine, GUARD_tokens);
    bool any = engine->tokens->by_id.n > 0;
    guard_leave(engine, GUARD_tokens);
    return any;
}

bool engine_tenant_has_token(struct engine *engine, struct str tenant)
{
    guard_enter(engine, GUARD_tokens);
    bool has = smap_find(&engine->tokens->tenants, tenant) != NULL;
    guard_leave(engine, GUARD_tokens);
    return has;
}

uint64_t engine_tokens_version(struct engine *engine)
{
    return atomic_load(&engine->tokens_version);
}

/* Another server may have revoked the token since the API checked it. */
bool token_refused(struct turn *turn, struct command *command)
{
    const struct engine *engine = turn->engine;
    if (PLANT(revoked_trusted))
        return false;
    if (!command->token || engine->store->exclusive)
        return false;
    if (map_find(&engine->tokens->by_id, (uint64_t)command->token))
        return false;
    return !turn_refuse(turn, command, ERR_unauthorized, "this needs a valid token: Authorization: Bearer TOKEN");
}
