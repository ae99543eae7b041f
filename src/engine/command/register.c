/* register: executors register; which token owns an executor, and when another token may take over its name.
 *
 * An executor identifies its job records (`memory`). A new value means that it may have forgotten jobs that it started:
 * its grants are marked `forgotten` in the store, and one that it doesn't name any more is a lost attempt. */
#include "core/lease.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

static bool silent_since(const struct turn *turn, int64_t heard)
{
    return turn->boot >= silence_begins(heard, false, turn->engine->config.lease_ms);
}

static uint64_t memory_of(const struct command *command)
{
    return command->in.reg.memory.len && command->in.reg.executor.instance.len ? str_hash(command->in.reg.memory) | 1
                                                                               : 0;
}

/* The executor restarted without the job records it had: jobs that it doesn't name any more may have begun. Stored,
 * since another server may receive its next poll. */
static void memory_lost(struct turn *turn, const struct known_executor *known)
{
    active_grants_expect(turn, known, false);
    for (struct list_node *at = known->active_grants.first; at; at = at->next) {
        struct attempt attempt = *active_grant_read(turn, CONTAINER_OF(at, struct active_grant, executor_link));
        const struct pending_attempt *pending = map_find(&turn->attempts, (uint64_t)attempt.task);
        if (attempt.poll_seq < 0 || attempt.forgotten || (pending && (pending->ended || pending->removed)))
            continue;
        attempt.forgotten = true;
        attempt_change(turn, &attempt);
    }
}

void grants_forget(struct turn *turn)
{
    MAP_EACH (&turn->engine->cache->executors, e)
        memory_lost(turn, e->value);
}

bool executor_owned(const struct executor *executor, const struct command *command)
{
    return command->admin || executor->owner == command->token;
}

/* May the command's token take the name over from another one? At once when it is the same executor, by its `instance`,
 * which nobody else knows (tokens are exchanged); else when the executor is gone: silent for a lease, and nothing is
 * granted to it any more. */
static bool takes_over(const struct turn *turn, const struct known_executor *known, const struct command *command)
{
    const struct executor *wish = &command->in.reg.executor;
    int64_t since = known->heard ? known->heard : turn->engine->shared->began;
    if (known->row.owner < 0 || known->row.owner == command->token)
        return true;
    if (wish->instance.len && str_eq(wish->instance, known->row.instance))
        return true;
    return !known->active_grants.first && silent_since(turn, since);
}

bool command_register(struct turn *turn, struct command *command)
{
    struct engine *engine = turn->engine;
    struct executor *wish = &command->in.reg.executor;
    struct kept_answer kept = { 0 };
    if (idempotency_met(turn, command, &kept)) { /* the answer was lost: the executor has not restarted */
        command->out.reg.id = kept.n ? kept.numbers[0] : 0;
        command->out.reg.lease_ms = engine->config.lease_ms;
        return true;
    }
    struct known_executor *known = executor_named(engine, turn->arena, command->actor.tenant, wish->name);
    bool other = known && wish->instance.len && known->row.instance.len && !str_eq(wish->instance, known->row.instance);
    bool mine = !known || takes_over(turn, known, command);
    if (!mine && !command->admin)
        return turn_refuse(turn, command, ERR_name_taken,
            "an executor named '%.*s' was registered with another token, and is alive; choose another --name, or its "
            "token",
            STR_ARG(wish->name));
    if (!known && quota_refused(turn, command, QUOTA_executors, 1))
        return false;
    if (other && known->heard && !silent_since(turn, known->heard))
        return turn_refuse(turn, command, ERR_name_taken,
            "an executor named '%.*s' is alive on %.*s; choose another --name", STR_ARG(wish->name),
            STR_ARG(known->row.host));
    struct executor row = *wish;
    row.id = known ? known->row.id : turn->head.next_executor++;
    row.registered = turn->wall;
    row.owner = mine ? command->token : known->row.owner; /* `admin` doesn't become the owner */
    row.tenant = str_eqz(command->actor.tenant, TENANT_DEFAULT) ? (struct str){ 0 } : command->actor.tenant;
    row.processed = known ? known->row.processed : 0;
    row.failed = known ? known->row.failed : 0;
    row.state = known && known->row.state == EXECUTOR_PAUSED ? EXECUTOR_PAUSED : EXECUTOR_ACTIVE;
    if (known && known->parked) { /* from before the restart: its number can't be compared with new ones */
        poll_answer(turn, known->parked);
        known->parked = NULL;
    }
    known = cache_executor_put(engine, &row);
    bool remembers = memory_of(command) && memory_of(command) == known->memory && !other;
    guard_enter(engine, GUARD_heard);
    known->heard = turn->boot;
    crew_heard(known);
    known->seq_known = false;
    known->life++;
    guard_leave(engine, GUARD_heard);
    if (PLANT(forgetful_trusted))
        remembers = true;
    if (!remembers)
        memory_lost(turn, known);
    executor_changed(turn, known);
    slice_event(turn->slice, &(struct event){ .kind = EVENT_executor,
                                 .actor = command->actor.name,
                                 .subject = tenant_subject(turn->arena, row.tenant, row.name) });
    command->out.reg.id = row.id;
    command->out.reg.lease_ms = engine->config.lease_ms;
    command->status = 201;
    idempotency_keep(turn, command, &row.id, 1);
    return true;
}

void register_commit(struct engine *engine, const struct command *command)
{
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)command->out.reg.id);
    if (known && !command->err.code && !command->replay)
        known->memory = memory_of(command);
}
