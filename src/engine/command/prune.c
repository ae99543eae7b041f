/* prune: removes the results of old tasks: logs, outputs, artifacts. The task's own row (when it ran, how it ended)
 * stays for ever, so that PREV, dependencies and the history still find it.
 *
 * A task is old if it ended before the given time and was made before it. Tasks are numbered in the order in which
 * they were made, so no task is older than one with a smaller number, whatever the wall clock was when they were made.
 *
 * A turn prunes one batch; the caller continues after it. A task whose outputs may still be read (it has a dependent
 * that hasn't ended) is skipped. If the server crashes between the commit and the removal of a log, the server that
 * has the duty next removes it (api/retention.c). */
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/expiry.h"
#include "engine/grants.h"
#include "engine/tenants.h"

static bool wanted_still(struct turn *turn, struct node *node)
{
    size_t n = 0;
    const struct edge *outs = node->row.out ? slice_outs(turn->slice, node, &n) : NULL;
    if (PLANT(prune_wanted))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct node *waiter = slice_find(turn->slice, outs[i].waiter);
        if (waiter && !state_ended(waiter->row.state))
            return true;
    }
    return false;
}

static bool prunable(struct turn *turn, const struct command *command, struct node *node, const struct lane *lane)
{
    const struct task *row = &node->row;
    bool before = row->finished < command->in.prune.before && command->out.prune.newest < command->in.prune.before;
    if (PLANT(prune_recent))
        before = true;
    bool old = state_ended(row->state) && row->finished > 0 && before;
    bool left = row->grant > 0 || row->marks & MARK_CHANGESET; /* a tarball is there before any attempt */
    return old && left && !(row->marks & MARK_PRUNED) && (!lane || row->lane == lane->id) &&
           (!command->actor.tenant.len || str_eq(slice_lane(turn->slice, row->lane)->tenant, command->actor.tenant)) &&
           !wanted_still(turn, node);
}

static int64_t log_bytes_of(struct turn *turn, const struct node *node)
{
    int64_t bytes = 0;
    for (int64_t grant = task_pruned(&node->row) + 1; grant <= node->row.grant; grant++) {
        const struct pending_attempt *found = attempt_find(turn, node->row.id, grant);
        if (found && found->attempt.log_bytes > 0)
            bytes += found->attempt.log_bytes;
    }
    return bytes;
}

bool command_prune(struct turn *turn, struct command *command)
{
    struct store *store = turn->engine->store;
    struct str name = command->in.prune.lane;
    const struct lane *lane = name.len ? cache_lane_find(turn, command->actor.tenant, name) : NULL;
    int64_t *ids;
    size_t n;
    if (name.len && !lane)
        return turn_refuse(turn, command, ERR_not_found, "there is no archive or queue '%.*s'", STR_ARG(name));
    command->out.prune.tasks = command->out.prune.log_bytes = command->out.prune.after = 0;
    command->out.prune.newest = command->in.prune.newest;
    int64_t past = turn_past(turn);
    if (!turn_read(turn, store->ops->tasks_after(
                             store, turn->arena, command->in.prune.after, turn->engine->batch, &ids, &n, turn->err)))
        return true;
    for (size_t i = 0; i < n && !turn->slice->failed; i++) {
        struct node *node = slice_find(turn->slice, ids[i]);
        if (!node)
            continue;
        /* A task made later than now was made under a wrong clock: its time is ignored. */
        if (node->row.created <= past && node->row.created > command->out.prune.newest)
            command->out.prune.newest = node->row.created;
        if (!prunable(turn, command, node, lane))
            continue;
        command->out.prune.tasks++;
        int64_t bytes = log_bytes_of(turn, node);
        command->out.prune.log_bytes += bytes;
        if (command->in.prune.dry_run)
            continue;
        kept_drop(turn, node, bytes);
        node->row.marks = (node->row.marks | MARK_PRUNED) & ~(unsigned)MARK_OUTPUTS;
        for (int64_t grant = task_pruned(&node->row) + 1; grant <= node->row.grant; grant++)
            *ARRAY_ADD(turn->arena, turn->changes.logs.seals_remove) = (struct log_name){ node->row.id, grant };
        task_pruned_set(&node->row, node->row.grant);
        slice_touch(turn->slice, node);
        *ARRAY_ADD(turn->arena, turn->changes.results_remove) = node->row.id;
    }
    if (n == turn->engine->batch)
        command->out.prune.after = ids[n - 1];
    if (!command->in.prune.dry_run && command->out.prune.tasks)
        slice_event(
            turn->slice, &(struct event){ .kind = EVENT_pruned,
                             .subject = tenant_subject(turn->arena, command->actor.tenant, name),
                             .actor = command->actor.name,
                             .reason = str_fmt(turn->arena, "%lld tasks", (long long)command->out.prune.tasks) });
    command->status = 200;
    return true;
}

void prune_follow(struct turn *turn)
{
    for (size_t i = 0; i < turn->changes.results_remove.n && turn->engine->config.logs; i++) {
        const struct node *node = slice_find(turn->slice, turn->changes.results_remove.at[i]);
        for (int64_t grant = 1; node && grant <= node->row.grant; grant++)
            logs_remove(turn->engine->config.logs, node->row.id, grant);
    }
}
