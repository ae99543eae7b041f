/* operate: cancel, retry and promote tasks, pause lanes, set the state of executors. */
#include "core/retry.h"
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

static struct node *task_get(struct turn *turn, struct command *command)
{
    struct node *node = slice_find(turn->slice, command->in.task.task);
    if (node && str_eq(slice_lane(turn->slice, node->row.lane)->tenant, command->actor.tenant))
        return node;
    if (!turn->slice->failed)
        turn_refuse(turn, command, ERR_not_found, "there is no task %lld", (long long)command->in.task.task);
    return NULL;
}

static struct because because_of(const struct command *command, struct str reason)
{
    return (struct because){ .actor = command->actor.name, .reason = reason };
}

bool command_cancel(struct turn *turn, struct command *command)
{
    struct node *node = task_get(turn, command);
    if (!node)
        return false;
    if (state_ended(node->row.state))
        return turn_refuse(
            turn, command, ERR_already_ended, "task %lld is %s", (long long)node->row.id, state_word(node->row.state));
    struct because because = because_of(command, command->in.task.reason);
    if (node->row.state == STATE_X && node->row.ending != STATE_T)
        node->row.ending = STATE_NONE; /* an operator's cancel replaces a supersession, or a rollback's stop */
    task_stop(turn->slice, node, STATE_T, &because);
    command->status = 200;
    return true;
}

/* A dependency that has not succeeded would keep the task waiting for ever: retry that one, its dependents follow. */
static struct node *failed_dependency(struct turn *turn, struct node *node)
{
    size_t n;
    struct edge *ins = slice_ins(turn->slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        if (ins[i].kind != EDGE_DEPENDS)
            continue;
        struct node *pred = slice_find(turn->slice, ins[i].pred);
        if (pred && dependency_lost(turn->slice, pred))
            return pred;
    }
    return NULL;
}

bool command_retry(struct turn *turn, struct command *command)
{
    struct node *node = task_get(turn, command);
    if (!node)
        return false;
    if (!state_ended(node->row.state))
        return turn_refuse(turn, command, ERR_not_ended, "task %lld is %s; only an ended task can be retried",
            (long long)node->row.id, state_word(node->row.state));
    if (node->row.state == STATE_D)
        return turn_refuse(turn, command, ERR_already_ended, "task %lld is done; there is nothing to retry%s",
            (long long)node->row.id, node->row.rev ? "; weir run starts it anew" : "");
    if (node->row.rev && str_eqz(node->row.name, "WORKFLOW"))
        return turn_refuse(turn, command, ERR_conflict,
            "the workflow of revision %lld can't be read, and the next try would read the same files: "
            "commit a correction, and its revision brings the tasks",
            (long long)node->row.rev);
    heirs_finish(turn, node);
    dependents_finish(turn, node);
    if (turn->slice->failed)
        return true;
    struct node *pred = failed_dependency(turn, node);
    if (pred)
        return turn_refuse(turn, command, ERR_conflict,
            "task %lld depends on task %lld, which is %s: retry that one, and this one follows",
            (long long)node->row.id, (long long)pred->row.id, state_word(pred->row.state));
    const struct node *later = command->in.task.force ? NULL : order_passed(turn->slice, node);
    if (PLANT(order_unlooked))
        later = NULL;
    if (later)
        return turn_refuse(turn, command, ERR_order_passed,
            "task %lld ('%.*s' of revision %lld) was to come after it and has started; --force "
            "--reason TEXT retries all the same",
            (long long)later->row.id, STR_ARG(later->row.name), (long long)later->row.rev);
    const struct archive *archive = node->row.rev ? archive_own(turn, node->row.lane) : NULL;
    if (archive && (archive->removed || node->row.rev >= archive->next))
        return turn_refuse(turn, command, ERR_conflict,
            archive->removed ? "the archive of task %lld was removed"
                             : "the revision of task %lld waits for an earlier one",
            (long long)node->row.id);
    if (retry_circles(turn->slice, node))
        return turn_refuse(turn, command, ERR_conflict,
            "task %lld comes after one that was retried and comes after it by now: retry it when that "
            "has ended",
            (long long)node->row.id);
    if (quota_tasks_refused(turn, command, 1))
        return false;
    struct because because =
        because_of(command, command->in.task.reason.len ? command->in.task.reason : STR("retried"));
    size_t from = turn->slice->restaged.n;
    task_restage(turn->slice, node, &because);
    locks_again(turn, from, NULL);
    command->status = 200;
    return true;
}

bool command_promote(struct turn *turn, struct command *command)
{
    struct node *node = task_get(turn, command);
    if (!node)
        return false;
    if (node->row.state != STATE_P)
        return turn_refuse(turn, command, ERR_conflict, "task %lld is %s; only a pending one can be put to the front",
            (long long)node->row.id, state_word(node->row.state));
    struct because because = because_of(command, command->in.task.reason);
    node->row.vt = 0;
    node->row.marks |= MARK_PROMOTED;
    slice_fresh(turn->slice, node);
    slice_node_event(turn->slice, node, EVENT_promoted, STATE_P, STATE_P, &because);
    command->status = 200;
    return true;
}

/* lane_pause: one lane is paused or resumed, if it isn't so already. */
static void lane_pause(struct turn *turn, struct command *command, int64_t id)
{
    struct lane *lane = slice_lane(turn->slice, id);
    bool pause = command->in.pause.pause;
    if (pause == (lane->paused_since != 0))
        return;
    lane->paused_since = pause ? turn->wall : 0;
    lane->paused_by = pause ? str_dup(&turn->engine->cache->arena, command->actor.name) : (struct str){ 0 };
    lane->paused_reason = pause ? str_dup(&turn->engine->cache->arena, command->in.pause.reason) : (struct str){ 0 };
    slice_event(turn->slice, &(struct event){ .kind = pause ? EVENT_pause : EVENT_resume,
                                 .lane = lane->id,
                                 .subject = lane->name,
                                 .actor = command->actor.name,
                                 .reason = command->in.pause.reason });
    if (pause) {
        slots_pass(turn);
        return;
    }
    turn->engine->polls->left = true; /* waiting polls must see tasks that were pending before and weren't parked */
    *ARRAY_ADD(&turn->engine->arena, turn->engine->backlog->resuming) = lane->id;
}

/* A name means the archive or queue, and the target of that name, too. */
bool command_lane_pause(struct turn *turn, struct command *command)
{
    struct str name = command->in.pause.lane;
    struct lane *known = cache_lane_find(turn, command->actor.tenant, name);
    const struct lane *target =
        cache_lane_find(turn, command->actor.tenant, str_fmt(turn->arena, TARGET_LANE "%.*s", STR_ARG(name)));
    if (!known && !target && command->in.pause.pause && !str_eqz(name, "all"))
        /* paused before its first task, or before the archive is added */
        known = cache_lane_get(turn, command->actor.tenant, name);
    if (!known && !target)
        return turn_refuse(turn, command, ERR_not_found, "there is no archive or queue '%.*s'", STR_ARG(name));
    command->status = 200;
    if (known)
        lane_pause(turn, command, known->id);
    if (target)
        lane_pause(turn, command, target->id);
    return true;
}

void lanes_resume(struct turn *turn)
{
    struct engine *engine = turn->engine;
    size_t kept = 0;
    for (size_t i = 0; i < engine->backlog->resuming.n; i++) {
        int64_t id = engine->backlog->resuming.at[i];
        if (slice_lane(turn->slice, id)->paused_since)
            continue; /* paused again */
        struct hold *holds = ARENA_ARRAY(turn->arena, struct hold, engine->batch);
        size_t n = slice_holds_first(turn->slice, HOLD_pause, id, engine->batch, holds);
        for (size_t k = 0; k < n; k++) {
            struct node *node = slice_find(turn->slice, holds[k].task);
            if (node)
                task_consider(turn->slice, node);
        }
        slice_settle(turn->slice);
        if (PLANT(resume_once))
            continue;
        if (n >= engine->batch) /* more of them in the next turn */
            engine->backlog->resuming.at[kept++] = id;
    }
    engine->backlog->resuming.n = kept;
}

bool command_executor_state(struct turn *turn, struct command *command)
{
    struct known_executor *known =
        map_find(&turn->engine->cache->executors, (uint64_t)command->in.executor_state.executor);
    if (!known || !tenant_of_executor(&known->row, command->actor.tenant))
        return turn_refuse(
            turn, command, ERR_not_found, "there is no executor %lld", (long long)command->in.executor_state.executor);
    if (!executor_owned(&known->row, command))
        return turn_refuse(turn, command, ERR_forbidden, "the executor '%.*s' was registered with another token",
            STR_ARG(known->row.name));
    enum executor_state state = command->in.executor_state.state;
    command->status = 200;
    if (known->row.state == state)
        return true;
    known->row.state = state;
    crew_state(turn->engine, known);
    executor_changed(turn, known);
    slice_event(turn->slice, &(struct event){ .kind = EVENT_executor_state,
                                 .subject = tenant_subject(turn->arena, known->row.tenant, known->row.name),
                                 .actor = command->actor.name,
                                 .reason = str_of(executor_state_name(state)) });
    if (known->parked)
        poll_answer(turn, known->parked); /* the answer carries the executor's new state */
    if (state == EXECUTOR_ACTIVE)
        turn->engine->polls->left = true; /* its waiting poll may get tasks that were pending before */
    return true;
}
