/* token: tokens are made and revoked. */
#include "engine/command/command.h"
#include "engine/tenants.h"
#include "engine/tokens.h"

/* What is kept of a token's creation: the token itself can be had again from its seed, by the api alone and only while
 * the key lives. */
enum { TOKEN_NUMBERS = 5 };

static void token_answer(struct command *command, const int64_t *numbers)
{
    command->out.token_create.id = numbers[0];
    command->out.token_create.created = numbers[1];
    command->out.token_create.expires = numbers[2];
    command->out.token_create.seed[0] = (uint64_t)numbers[3];
    command->out.token_create.seed[1] = (uint64_t)numbers[4];
}

bool command_token_create(struct turn *turn, struct command *command)
{
    struct engine *engine = turn->engine;
    struct token *token = ARENA_NEW(turn->arena, struct token);
    struct kept_answer kept = { 0 };
    *token = command->in.token_create.token;
    if (idempotency_met(turn, command, &kept)) {
        token_answer(command, kept.n == TOKEN_NUMBERS ? kept.numbers : (const int64_t[TOKEN_NUMBERS]){ 0 });
        return true;
    }
    if (!tenant_is_listed(engine, token->tenant)) {
        command->err.arena = command->arena;
        err_item(&command->err, ERR_invalid, STR("/tenant"),
            "there is no tenant '%.*s': name it under 'tenants:' in weir.yaml and reload the server (SIGHUP)",
            STR_ARG(token->tenant));
        return true;
    }
    if (token_is_named(turn, token->tenant, token->name))
        return turn_refuse(
            turn, command, ERR_name_taken, "there is a token named '%.*s'; revoke it first", STR_ARG(token->name));
    struct command asked = { .actor = { command->actor.name, token->tenant } }; /* whose quota it is */
    if (quota_refused(turn, &asked, QUOTA_tokens, 1))
        return turn_refuse(turn, command, asked.err.code, "%s", asked.err.text);
    token->id = turn->head.next_token++;
    token->created = turn->wall;
    token_make(turn, token, command->actor.name);
    command->status = 201;
    const uint64_t *seed = command->in.token_create.seed;
    int64_t numbers[TOKEN_NUMBERS] = { token->id, token->created, token->expires, (int64_t)seed[0], (int64_t)seed[1] };
    token_answer(command, numbers);
    idempotency_keep(turn, command, numbers, TOKEN_NUMBERS);
    return true;
}

bool command_token_revoke(struct turn *turn, struct command *command)
{
    struct str name = command->in.token_revoke.name;
    struct known_token *known = token_named(turn, command->actor.tenant, name);
    if (!known)
        return turn_refuse(turn, command, ERR_not_found, "there is no token named '%.*s'", STR_ARG(name));
    token_revoke(turn, known, command->actor.name, (struct str){ 0 });
    command->status = 200;
    return true;
}
