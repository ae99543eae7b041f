/* changesets_check: what must hold of change sets, told from what was submitted and from what the repositories of the
 * world have, not from the engine's edges and lists:
 *   - no CSID is committed twice, and none by an attempt that isn't the task's own any more (RQ24);
 *   - per path, those that are committed are so in the order of their intake; a retry takes a new place (RQ20);
 *   - nothing is committed before what it depends on, or after that was rolled back (RQ22);
 *   - one change set of a target runs at a time, in the order of the sort key, none without its ticket (RQ25, RQ34);
 *   - a rollback undoes all applied members or none, and no member is applied when it is done (RQ27);
 *   - what is in the repository is done, and what is done is in the repository: nothing is lost;
 *   - the lists of paths have the change sets that haven't ended, and those that are applied, and no others. */
#include <string.h>

#include "core/rollback.h"
#include "world.h"

static const struct changeset *set_row(const struct world *w, const struct sim_set *set)
{
    return set->task ? map_find(&w->store->changesets, (uint64_t)set->task) : NULL;
}

/* As it is in the store; NULL: it isn't there yet. A client may not know. */
static const struct task *set_task(struct world *w, struct sim_set *set)
{
    return set->task ? store_task(w, set->task) : NULL;
}

static bool overlap(const struct sim_set *a, const struct sim_set *b)
{
    return a->repository == b->repository && (a->files & b->files) != 0;
}

static uint64_t bit_of(const struct sim_set *set)
{
    return UINT64_C(1) << set->number;
}

/* Behind it on a path, and not gone from there. */
static bool comes_later(struct world *w, struct sim_set *later, struct sim_set *set)
{
    const struct changeset *a = set_row(w, later), *b = set_row(w, set);
    const struct task *task = set_task(w, later);
    bool listed = task && (!state_ended(task->state) || (task->state == STATE_D && task->outcome != OUTCOME_skipped));
    return a && b && listed && overlap(later, set) && a->rank > b->rank;
}

uint64_t set_members(struct world *w, const struct sim_set *rollback, bool most)
{
    bool wide = most && rollback->overlapping;
    uint64_t members = rollback->depends & (most ? ~UINT64_C(0) : ~rollback->idle), before = 0;
    while (members != before) {
        before = members;
        for (size_t i = 0; i < w->n_sets; i++) {
            struct sim_set *set = &w->sets[i];
            if (set->movetype == MOVE_RB || !set_task(w, set))
                continue;
            if (!most && set_task(w, set)->outcome == OUTCOME_skipped)
                members &= ~bit_of(set); /* done without a commit: nothing to undo, and nobody has to join */
            else if (set->depends & members)
                members |= bit_of(set);
            for (size_t k = 0; k < w->n_sets && wide && !(members & bit_of(set)); k++)
                if (members >> k & 1 && w->sets[k].movetype != MOVE_RB && comes_later(w, set, &w->sets[k]))
                    members |= bit_of(set);
        }
    }
    return members & ~bit_of(rollback);
}

/* In the repository, and not undone. */
static bool in_force(const struct sim_set *set)
{
    return set->revision && set->undone_by < 0;
}

/* --- a commit --- */

static void check_undoes(struct world *w, const struct sim_set *rollback, uint64_t undoes)
{
    uint64_t members = set_members(w, rollback, false), most = set_members(w, rollback, true);
    for (size_t i = 0; i < w->n_sets; i++) {
        const struct sim_set *set = &w->sets[i];
        bool undone = undoes >> i & 1;
        if (undone && !in_force(set))
            world_fail(w, "RQ27 a rollback undoes what isn't in the repository", set->task);
        if (undone && !rollback->overlapping && !(most >> i & 1))
            world_fail(w, "RQ27 a rollback undoes a change set that is no member", set->task);
        if (undone && !(members >> i & 1))
            MARK(w, rollback_overlapping);
        if (!undone && members >> i & 1 && in_force(set) && set_task(w, &w->sets[i])->state != STATE_D) {
            w->unlooked = true;
            return;
        }
        if (!undone && members >> i & 1 && in_force(set))
            world_fail(w, "RQ27 a rollback leaves an applied member", set->task);
        if (undone && set->movetype == MOVE_RB)
            MARK(w, rollback_of_rollback);
    }
    MARK(w, rollback_done);
}

static void check_order(struct world *w, struct sim_set *set)
{
    for (size_t i = 0; i < w->n_sets; i++) {
        struct sim_set *other = &w->sets[i];
        const struct task *task = set_task(w, other);
        const struct changeset *row = set_row(w, other), *own = set_row(w, set);
        if (other == set || !overlap(other, set) || !task || set->movetype == MOVE_RB || other->movetype == MOVE_RB)
            continue;
        if (row->rank < own->rank && !state_ended(task->state))
            world_fail(w, "RQ20 applied before one that was accepted before it, on the same path", set->task);
        if (row->rank > own->rank && other->revision)
            world_fail(w, "RQ20 applied after one that was accepted after it, on the same path", set->task);
    }
}

void check_commit(struct world *w, const struct sim_executor *e, const struct job *job)
{
    struct sim_set *set = job->apply.set;
    const struct task *task = store_task(w, job->fence.task);
    set->task = job->fence.task;
    trace(w, "  task %lld %c grant %lld, committed by %lld of executor %d", (long long)task->id,
        state_letter(task->state), (long long)task->grant, (long long)job->fence.grant, e->index);
    if (set->revision)
        world_fail(w, "RQ24 a change set was applied twice", set->task);
    if (task->state != STATE_X || task->grant != job->fence.grant)
        world_fail(w, "RQ24 a change set was applied by an attempt that is over", set->task);
    if (task->ending == STATE_S)
        MARK(w, rollback_hup_applied);
    for (size_t i = 0; i < w->n_sets && set->movetype != MOVE_RB; i++) {
        if (!(set->depends >> i & 1))
            continue;
        if (!in_force(&w->sets[i]) && set_task(w, &w->sets[i])->outcome != OUTCOME_skipped)
            world_fail(w, "RQ22 applied without what it depends on", set->task);
        MARK(w, set_after_dependency);
    }
    if (set->movetype == MOVE_RB)
        check_undoes(w, set, job->apply.undoes);
    check_order(w, set);
    if (set->needs_ticket && !set->ticket)
        MARK(w, set_approved);
}

/* --- starts and ends --- */

static void check_queue(struct world *w, struct sim_set *set, const struct task *task, struct sim_set *other)
{
    enum task_state state = w->known.folded[other->task];
    if (state == STATE_X)
        world_fail(w, "RQ25 two change sets of one target run at once", task->id);
    const struct changeset *row = set_row(w, other), *own = map_find(&w->store->changesets, (uint64_t)task->id);
    bool unfinished = state && !state_ended(state);
    if (unfinished && overlap(other, set) && other->movetype != MOVE_RB && row->rank < own->rank)
        world_fail(w, "RQ20 started before one that was accepted before it, on the same path", task->id);
    bool promoted = w->known.promoted[task->id] || w->known.promoted[other->task];
    if (state != STATE_P || promoted || w->depth || w->at->overtaken || w->parked_tasks)
        return;
    if (other->prio > set->prio || (other->prio == set->prio && other->tai < set->tai))
        world_fail(w, "RQ25 started out of the order of the sort key", task->id);
    MARK(w, set_waited);
}

void changeset_start(struct world *w, const struct task *task)
{
    struct sim_set *set = set_of_task(w, task);
    if (!set)
        return;
    set->task = task->id;
    if (set->needs_ticket && !set->ticket && !set->approved)
        world_fail(w, "RQ34 started without its ticket", task->id);
    for (size_t i = 0; i < w->n_sets; i++) {
        struct sim_set *other = &w->sets[i];
        if (other == set || !other->task || other->repository != set->repository)
            continue;
        check_queue(w, set, task, other);
        const struct changeset *row = set_row(w, other);
        if (set->movetype != MOVE_RB && set->depends >> i & 1 && row->rolled_back_by)
            world_fail(w, "RQ22 started though what it depends on was rolled back", task->id);
    }
}

/* A rollback is done: its members are undone or abandoned, all of them in this turn. */
static void check_rolled_back(struct world *w, const struct sim_set *rollback)
{
    uint64_t members = set_members(w, rollback, false);
    for (size_t i = 0; i < w->n_sets; i++) {
        struct sim_set *set = &w->sets[i];
        const struct changeset *row = set_row(w, set);
        const struct task *task = set_task(w, set);
        if (!row || !task)
            continue;
        bool undone = rollback->undid >> i & 1, marked = row->rolled_back_by == rollback->task;
        if (undone != marked && set->undone_by == rollback->number)
            world_fail(w, "RQ27 a member that was undone isn't rolled back", set->task);
        if (marked && !undone)
            world_fail(w, "RQ27 a member is rolled back that wasn't undone", set->task);
        if (members >> i & 1 && !state_ended(task->state) && !set->again)
            world_fail(w, "RQ27 a member goes on though its rollback is done", set->task);
        if (members >> i & 1 && task->state == STATE_A && task->cause == rollback->task)
            MARK(w, rollback_abandoned);
    }
}

static void mark_end(struct world *w, const struct sim_set *set, const struct task *task, const struct event *e)
{
    if (str_starts(e->reason, STR("more than")))
        MARK(w, rollback_too_large);
    if (str_starts(e->reason, STR("quarantined")))
        MARK(w, set_quarantined);
    if (e->to == STATE_D && task->outcome == OUTCOME_skipped)
        MARK(w, set_skipped);
    if (set->movetype == MOVE_RB && e->to == STATE_D && task->outcome == OUTCOME_skipped)
        MARK(w, rollback_empty);
    for (size_t i = 0; i < w->n_holds_before && set->movetype == MOVE_RB && e->to == STATE_F; i++)
        if (w->holds_before[i].kind == HOLD_rollback && w->holds_before[i].key == task->id)
            MARK(w, rollback_failed);
    for (size_t i = 0; i < w->n_sets; i++)
        if (&w->sets[i] != set && !set->revision && overlap(&w->sets[i], set) &&
            comes_later(w, &w->sets[i], (struct sim_set *)(uintptr_t)set))
            MARK(w, set_inherited);
}

void changeset_end(struct world *w, const struct task *task, const struct event *e)
{
    struct sim_set *set = set_of_task(w, task);
    if (!set || !state_ended(task->state))
        return; /* a late result has taken it up in the same turn */
    set->task = task->id;
    bool skipped = task->outcome == OUTCOME_skipped;
    mark_end(w, set, task, e);
    if (e->to == STATE_D && !skipped && !set->revision)
        world_fail(w, "RQ28 done, and it isn't in the repository", task->id);
    if (e->to == STATE_D && skipped && set->revision)
        world_fail(w, "RQ28 skipped, and it is in the repository", task->id);
    if (e->to != STATE_D && set->revision) {
        w->unlooked = true; /* nobody has looked before this end */
        MARK(w, set_unlooked);
        return;
    }
    set->undone |= e->to == STATE_D && set->movetype == MOVE_RB;
}

void changeset_again(struct world *w, const struct task *task)
{
    struct sim_set *set = set_of_task(w, task);
    if (!set)
        return;
    set->again = true;
    for (size_t i = 0; i < w->n_sets; i++)
        w->sets[i].idle |= bit_of(set);
}

/* --- after each turn --- */

static bool file_listed(const struct world *w, const struct changeset *row, struct str path, bool applied)
{
    for (size_t i = 0; i < w->store->n_changeset_files; i++) {
        const struct changeset_file *file = &w->store->changeset_files[i];
        if (file->task == row->task && file->applied == applied && str_eq(file->path, path))
            return file->rank == row->rank && file->lane == row->lane;
    }
    return false;
}

/* RQ20: the index has all paths of those that haven't ended, and of those that are applied. */
static size_t check_files(struct world *w, const struct sim_set *set, const struct task *task)
{
    const struct changeset *row = set_row(w, set);
    bool ended = state_ended(task->state), applied = task->state == STATE_D && task->outcome != OUTCOME_skipped;
    size_t n = 0;
    for (int p = 0; p < SET_PATHS; p++) {
        if (!(set->files >> p & 1) || (ended && !applied))
            continue;
        n++;
        if (!file_listed(w, row, str_fmt(&w->arena, "p%d", p), applied))
            world_fail(w, "RQ20 a path isn't in its list", task->id);
    }
    return n;
}

static int64_t hold_rank(const struct task *task)
{
    return task->state == STATE_X ? MEMBER_RUNS : state_ended(task->state) ? MEMBER_APPLIED : MEMBER_WAITS;
}

static void check_members(struct world *w, struct sim_set *rollback, const struct task *task)
{
    bool starts = task->marks & MARK_BEGUN && !rollback->begun;
    for (size_t i = 0; i < w->n_sets && (!rollback->fixed || starts);
         i++) { /* until then only what has ended, in this turn too */
        const struct task *other = set_task(w, &w->sets[i]);
        enum task_state was = other ? w->before[other->id].state : STATE_NONE;
        const struct changeset *row = set_row(w, &w->sets[i]);
        bool idle = other && ((state_ended(other->state) && other->state != STATE_D) ||
                                 (state_ended(was) && was != STATE_D) || w->sets[i].again || row->rolled_back_by);
        rollback->idle = (rollback->idle & ~bit_of(&w->sets[i])) | (idle ? bit_of(&w->sets[i]) : 0);
    }
    rollback->fixed = task->marks & MARK_FIXED;
    rollback->begun = task->marks & MARK_BEGUN;
    uint64_t held = 0, most = set_members(w, rollback, true), members = set_members(w, rollback, false);
    for (size_t i = 0; i < w->store->n_holds; i++) {
        const struct hold *hold = &w->store->holds[i];
        const struct sim_set *set =
            hold->kind == HOLD_rollback && hold->key == task->id ? set_of_task(w, store_task(w, hold->task)) : NULL;
        if (!set || set == rollback)
            continue;
        held |= bit_of(set);
        if (state_ended(task->state))
            world_fail(w, "RQ27 a rollback has ended and holds a member", hold->task);
        if (hold->rank != hold_rank(store_task(w, hold->task)))
            world_fail(w, "RQ27 a rollback knows another state of its member", hold->task);
        if (hold->rank == MEMBER_RUNS && task->state != STATE_S)
            world_fail(w, "RQ27 a rollback goes on while a member runs", hold->task);
        if (hold->rank == MEMBER_RUNS)
            MARK(w, rollback_waited);
        if (!rollback->overlapping && !(most & bit_of(set))) /* else a retry has put it elsewhere since */
            world_fail(w, "RQ27 a rollback holds what is no member", hold->task);
    }
    for (size_t i = 0; i < w->n_sets && task->marks & MARK_FIXED && !state_ended(task->state); i++) {
        const struct task *member = members >> i & 1 ? set_task(w, &w->sets[i]) : NULL;
        bool counts = member && (!state_ended(member->state) || (member->state == STATE_D && in_force(&w->sets[i])));
        if (counts && !(rollback->begun && set_row(w, &w->sets[i])->rolled_back_by) && !(held >> i & 1))
            world_fail(w, "RQ27 a rollback has missed a member", member->id);
        if (counts && w->before[task->id].state && !w->before[member->id].state)
            MARK(w, rollback_joined);
    }
}

void check_changesets(struct world *w)
{
    size_t n_files = 0, running[REPOSITORIES_MAX] = { 0 };
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        struct sim_set *set = set_of_task(w, task);
        if (set)
            set->task = task->id;
    }
    for (size_t i = 0; i < w->n_sets; i++) {
        struct sim_set *set = &w->sets[i];
        const struct task *task = set_task(w, set);
        const struct changeset *row = set_row(w, set);
        if (set->task && (!task || !row || row->movetype != set->movetype))
            world_fail(w, "RQ1 a change set is gone", set->task);
        if (!task)
            continue;
        running[set->repository] += task->state == STATE_X;
        n_files += check_files(w, set, task);
        if (set->movetype == MOVE_RB)
            check_members(w, set, task);
        bool before = w->before[task->id].state && !state_ended(w->before[task->id].state);
        for (size_t k = 0; k < w->n_sets && !w->before[task->id].state; k++)
            if (&w->sets[k] != set && overlap(&w->sets[k], set) && set_row(w, &w->sets[k]) &&
                !state_ended(store_task(w, w->sets[k].task)->state))
                MARK(w, set_overlaps);
        if (!before && w->before[task->id].state && !state_ended(task->state))
            MARK(w, set_retried);
        if (task->state == STATE_S && task->outcome == OUTCOME_none && task->attempts > 0 &&
            task->holds & 1u << HOLD_time)
            MARK(w, set_temporary);
    }
    for (size_t i = 0; i < w->n_sets; i++)
        if (w->sets[i].undone)
            check_rolled_back(w, &w->sets[i]);
    for (size_t i = 0; i < w->n_sets; i++)
        w->sets[i].undone = w->sets[i].again = false;
    for (size_t i = 0; i < w->n_repositories; i++)
        if (running[i] > 1)
            world_fail(w, "RQ25 two change sets of one target run at once", 0);
    if (n_files != w->store->n_changeset_files)
        world_fail(w, "RQ20 a list of a path has a change set too many", 0);
}

/* --- the end --- */

void changesets_over(struct world *w)
{
    for (size_t i = 0; i < w->n_sets; i++) {
        struct sim_set *set = &w->sets[i];
        const struct task *task = set_task(w, set);
        const struct changeset *row = set_row(w, set);
        if (!task || !row)
            world_fail(w, "RQ1 an accepted change set is gone", set->task);
        bool applied = task->state == STATE_D && task->outcome != OUTCOME_skipped;
        if (applied != (set->revision != 0))
            world_fail(w,
                applied ? "RQ28 done, and it isn't in the repository" : "RQ26 in the repository, and not done",
                task->id);
        int64_t by = set->undone_by < 0 ? 0 : w->sets[set->undone_by].task;
        if (row->rolled_back_by != by)
            world_fail(w, "RQ27 rolled back in the store or in the repository, but not in both", task->id);
        if (applied && !str_eq(row->revision, str_fmt(&w->arena, "r%lld", (long long)set->revision)))
            world_fail(w, "RQ29 its revision is another one", task->id);
    }
}
