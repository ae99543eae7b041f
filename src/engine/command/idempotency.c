/* idempotency: one answer for one key. A command that creates asks idempotency_met before it looks at anything else,
 * and calls idempotency_keep when it is done; only the numbers of an answer are kept (ids first), the rest is rendered
 * again.
 *
 * A key belongs to the tenant, the actor and the route that used it, and lives for 31 days. A refused command keeps
 * nothing: the client may correct it and use the same key. */
#include <string.h>

#include "engine/command/command.h"
#include "engine/expiry.h"

static struct str key_text(struct turn *turn, const struct command *command)
{
    return str_fmt(turn->arena, "%.*s\x1f%.*s\x1f%.*s\x1f%.*s", STR_ARG(command->actor.tenant),
        STR_ARG(command->actor.name), STR_ARG(command->idempotency.route), STR_ARG(command->idempotency.key));
}

bool idempotency_met(struct turn *turn, struct command *command, struct kept_answer *out)
{
    command->replay = false; /* a turn may be played again */
    if (command->idempotency.key.len == 0)
        return false;
    const struct idempotency *row = smap_find(&turn->idempotents, key_text(turn, command)); /* twice within one turn */
    struct idempotency stored;
    bool found = false;
    struct store *store = turn->engine->store;
    if (!row &&
        !turn_read(turn, store->ops->idempotency_find(store, turn->arena, command->actor.tenant, command->actor.name,
                             command->idempotency.route, command->idempotency.key, &stored, &found, turn->err)))
        return true;
    if (!row && found && stored.expires > turn_past(turn))
        row = &stored;
    if (!row)
        return false;
    if (memcmp(row->body_hash, command->idempotency.body_hash, sizeof row->body_hash) != 0) {
        turn_refuse(turn, command, ERR_idempotency_mismatch, "Idempotency-Key '%.*s' was used with another body",
            STR_ARG(command->idempotency.key));
        return true;
    }
    command->replay = true;
    command->status = row->status;
    *out = (struct kept_answer){ row->ids, row->n_ids };
    return true;
}

void idempotency_keep(struct turn *turn, struct command *command, const int64_t *numbers, size_t n)
{
    if (PLANT(idempotency_dropped))
        return;
    if (command->idempotency.key.len == 0)
        return;
    int64_t *ids = ARENA_ARRAY(turn->arena, int64_t, n + 1);
    if (n)
        memcpy(ids, numbers, n * sizeof *ids);
    struct idempotency *row = ARENA_NEW(turn->arena, struct idempotency);
    *row = (struct idempotency){ .tenant = command->actor.tenant,
        .token = command->actor.name,
        .route = command->idempotency.route,
        .key = command->idempotency.key,
        .status = command->status,
        .ids = ids,
        .n_ids = n,
        .expires = turn_late(turn) + turn->engine->config.keys_ms };
    memcpy(row->body_hash, command->idempotency.body_hash, sizeof row->body_hash);
    *ARRAY_ADD(turn->arena, turn->changes.idempotency) = *row;
    smap_put(&turn->idempotents, key_text(turn, command), row);
}
