/* finish: how attempts end. Same fence and same finish: 200 for ever; same fence, other finish: already_finished; older
 * fence: stale_fence. A late result counts until the task is granted again. */
#include <string.h>

#include "core/changeset.h"
#include "core/retry.h"
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/targets.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

static bool hash_given(const uint8_t *hash)
{
    static const uint8_t zero[16];
    return memcmp(hash, zero, sizeof zero) != 0;
}

/* A task whose lease lapsed and that was not granted since moves back through P to X, so that it ends as any other. */
static bool late_return(struct turn *turn, struct node *node, const struct because *because)
{
    struct because why = { .actor = because->actor, .reason = STR("a late result") };
    if (node->row.state == STATE_F) {
        size_t from = turn->slice->restaged.n;
        heirs_finish(turn, node);
        dependents_finish(turn, node);
        circles_cut(turn->slice, node);
        task_restage(turn->slice, node, &why);
        locks_again(turn, from, node);
        node->row.base = node->row.attempts - 1; /* the attempt that brings this result counts */
    }
    task_unhold(turn->slice, node);
    if (node->row.state == STATE_S)
        slice_move(turn->slice, node, STATE_P, &why);
    if (node->row.state != STATE_P)
        return false;
    slice_move(turn->slice, node, STATE_X, &why);
    return true;
}

/* Executors of the tenant `default` serve all tenants; others may finish tasks of their own tenant only. */
static bool foreign(struct turn *turn, const struct actor *actor, const struct node *node)
{
    return !str_eqz(actor->tenant, TENANT_DEFAULT) &&
           !str_eq(slice_lane(turn->slice, node->row.lane)->tenant, actor->tenant);
}

static enum err_code finish_judge(struct turn *turn, const struct command *command, const struct finish_item *item,
    struct node **out_node, struct attempt *out_attempt)
{
    int64_t grant = item->fence.grant;
    bool stale = item->fence.incarnation != turn->head.incarnation;
    if (PLANT(incarnation_unchecked))
        stale = false;
    if (stale)
        return ERR_stale_fence;
    struct node *node = slice_find(turn->slice, item->fence.task);
    if (!node || foreign(turn, &command->actor, node))
        return ERR_not_found;
    if (PLANT(newest_grant))
        grant = node->row.grant;
    struct pending_attempt *found = attempt_find(turn, item->fence.task, grant);
    if (!found)
        return ERR_stale_fence; /* never granted, or undone because it did not arrive */
    const struct attempt *attempt = &found->attempt;
    const struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)attempt->executor);
    if (known && !executor_owned(&known->row, command))
        return ERR_forbidden;
    *out_attempt = *attempt;
    if (hash_given(attempt->finish_hash)) {
        if (memcmp(attempt->finish_hash, item->hash, sizeof item->hash) == 0)
            return ERR_none;
        return ERR_already_finished;
    }
    stale = node->row.grant != grant;
    if (PLANT(fence_unchecked))
        stale = false;
    if (PLANT(late_refused) && node->row.state != STATE_X)
        stale = true;
    if (stale)
        return ERR_stale_fence;
    /* it was stopped after its lease had lapsed */
    if (node->row.state != STATE_X && attempt->outcome != OUTCOME_lost)
        return ERR_already_ended;
    bool ended_otherwise =
        state_ended(node->row.state) && !(node->row.state == STATE_F && node->row.outcome == OUTCOME_lost);
    if (ended_otherwise)
        return ERR_already_ended;
    if (item->unproven)
        return ERR_artifact_unknown; /* checked last: a repeated or stale finish is answered as such */
    *out_node = node;
    return ERR_none;
}

static void finish_keep(struct turn *turn, struct node *node, const struct finish_item *item)
{
    outputs_keep(turn, node, item);
    if (item->log.len)
        *ARRAY_ADD(turn->arena, turn->changes.logs.tails) =
            (struct log_tail){ item->fence.task, item->fence.grant, item->log_offset, item->log };
}

/* Before the end is judged: it says that the change set is in the repository. Of another task it says nothing. */
static void revision_keep(struct turn *turn, struct node *node, struct finish_item *item)
{
    struct changeset *row = item->revision.len ? changeset_of(turn->slice, node) : NULL;
    if (!row)
        return;
    struct target target;
    struct str ignored;
    row->revision = item->revision;
    item->archive = target_of(turn, &node->row, &target, &ignored) ? target.archive->lane : 0;
    changeset_touch(turn->slice, node);
}

void finish_items(struct turn *turn, const struct command *command, struct finish_item *items, size_t n)
{
    for (size_t i = 0; i < n && !turn->slice->failed; i++) {
        struct finish_item *item = &items[i];
        struct node *node = NULL;
        struct attempt attempt;
        if (item->malformed)
            continue;
        item->task = item->fence.task;
        item->code = finish_judge(turn, command, item, &node, &attempt);
        if (!node || turn->slice->failed)
            continue;
        const struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)attempt.executor);
        struct because because = { .actor = known ? known->row.name : command->actor.name };
        bool returned = node->row.state == STATE_F; /* another task may hold the archive's lock since */
        int64_t waits = node->row.state == STATE_S ? node->row.waits : 0;
        if (node->row.state != STATE_X && !late_return(turn, node, &because)) {
            item->code = ERR_already_ended;
            continue;
        }
        struct attempt end = { .exit = item->exit,
            .signal = item->signal,
            .outcome = item->outcome,
            .cpu_ms = item->cpu_ms,
            .max_rss_bytes = item->max_rss_bytes,
            .log_bytes = log_counted(turn, node, &attempt, item->log_bytes) };
        memcpy(end.finish_hash, item->hash, sizeof end.finish_hash);
        turn->slice->tells_left += tells_more(turn->engine);
        revision_keep(turn, node, item);
        attempt_over(turn, node, &attempt, &end, item->reason, &because);
        /* a retry queued it for the lock again: it leaves that queue */
        if (state_ended(node->row.state))
            node->row.waits = waits;
        if (returned)
            archive_lock_again(turn, node); /* it queues again if it is retried */
        /* retried at once, but behind the other waiters for the lock */
        bool ahead = returned && node->row.state == STATE_P && node->row.waits;
        if (ahead)
            task_wait(turn->slice, node, 0, &because);
        outputs_finish(turn, node, item);
        kept_add(turn, node, &attempt, end.log_bytes, item->outputs);
        finish_keep(turn, node, item);
        turn->n_finished++;
        slice_settle(turn->slice);
    }
}

bool command_finish(struct turn *turn, struct command *command)
{
    finish_items(turn, command, command->in.finish.items, command->in.finish.n_items);
    command->status = 200;
    return true;
}
