/* revisions: what must hold of archives (R6, R15), told from the repositories and the workflows as they are written,
 * not from the edges that the engine made of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/when.h"
#include "core/settle.h"
#include "core/wall.h"
#include "engine/definition.h"
#include "world.h"

static const struct task *task_of(const struct world *w, int64_t lane, int64_t rev, struct str name)
{
    const struct task *task = memstore_task_upto(w->store, lane, name, rev);
    return task && task->rev == rev ? task : NULL;
}

/* --- starts --- */

/* It ran when the other, which it had come after, was retried and put behind it in the archive's lock: it doesn't wait
 * when it is lost. */
static bool ran_before(const struct world *w, const struct task *task, const struct task *other)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
    for (size_t i = 0; ins && i < ins->n; i++)
        if (ins->edges[i].pred == other->id && ins->edges[i].kind == EDGE_AFTER && ins->edges[i].flags & EDGE_SPENT)
            return true;
    return false;
}

static void begin_after(
    struct world *w, const struct task *task, const struct task *other, bool success, const char *invariant)
{
    enum task_state state = other ? w->known.folded[other->id] : STATE_D;
    if (!other || other->id == task->id)
        return;
    if (success ? state == STATE_D : state_ended(state))
        return;
    if (ran_before(w, task, other))
        return;
    trace(w, "  %lld (%.*s of revision %lld) begins, %lld (%.*s of revision %lld) is %c", (long long)task->id,
        STR_ARG(task->name), (long long)task->rev, (long long)other->id, STR_ARG(other->name), (long long)other->rev,
        state_letter(state));
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
    for (size_t i = 0; ins && i < ins->n; i++)
        trace(w, "  it has an edge (%s, %u) to %lld", edge_kind_name(ins->edges[i].kind), ins->edges[i].flags,
            (long long)ins->edges[i].pred);
    world_fail(w, invariant, task->id);
}

static const struct workflow_task *written_as(struct world *w, const struct task *task)
{
    const struct repository *repo = task->rev ? repository_of(w, task->lane) : NULL;
    const struct definition *definition = repo ? flow_definition(repo->commits[task->rev].flow) : NULL;
    return definition && definition->valid ? workflow_find(&definition->workflow, task->name) : NULL;
}

/* It left the queue without having run, and nobody has retried it. */
static bool never_ran(const struct world *w, const struct task *task)
{
    enum task_state state = w->known.folded[task->id];
    return state_ended(state) && state != STATE_D && task->grant == 0 && !w->known.retried[task->id];
}

/* What a task that never ran was to wait for by PREV is waited for in its place. */
static void begin_handed_on(struct world *w, const struct task *task, const struct task *stopped)
{
    const struct revision *revision = memstore_revision(w->store, stopped->lane, stopped->rev);
    const struct workflow_task *written = written_as(w, stopped);
    if (!never_ran(w, stopped) || !written || !revision)
        return;
    const struct workflow_refs *lists[] = { &written->depends, &written->after };
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; i < lists[l]->n; i++) {
            for (size_t p = 0; lists[l]->items[i].prev && p < revision->n_prevs; p++) {
                const struct task *earlier =
                    memstore_task_upto(w->store, task->lane, lists[l]->items[i].name, revision->prevs[p]);
                if (!earlier || w->known.retried[earlier->id] || earlier->id == task->id)
                    continue;
                MARK(w, prev_handed_on);
                begin_after(w, task, earlier, false, "R6 a task began before what its stopped PREV waited for");
                begin_handed_on(w, task, earlier);
            }
        }
    }
}

/* A task that starts finds dead what it cancels, and what those that never became ready were to cancel. */
static void begin_superseding(struct world *w, const struct task *task, const struct task *of)
{
    const struct revision *revision = memstore_revision(w->store, of->lane, of->rev);
    const struct workflow_task *written = written_as(w, of);
    if (!written || !revision || of->marks & MARK_SKIPPED)
        return;
    for (size_t i = 0; i < written->cancels.n; i++) {
        for (size_t p = 0; written->cancels.items[i].prev && p < revision->n_prevs; p++) {
            const struct task *other =
                memstore_task_upto(w->store, task->lane, written->cancels.items[i].name, revision->prevs[p]);
            while (other && other->marks & MARK_SKIPPED)
                other = memstore_task_upto(w->store, task->lane, other->name, other->rev - 1);
            if (!other || w->known.retried[other->id] || other->id == task->id)
                continue;
            begin_after(w, task, other, false, "I15 a task began beside one that it supersedes");
            const struct edges *ins = map_find(&w->store->ins, (uint64_t)other->id);
            bool fired = false;
            for (size_t k = 0; ins && k < ins->n; k++)
                fired |= ins->edges[k].kind == EDGE_CANCELS && ins->edges[k].flags & EDGE_FIRED;
            if (fired || !never_ran(w, other))
                continue;
            MARK(w, cancels_through);
            begin_superseding(w, task, other);
        }
    }
}

static void begin_refs(struct world *w, const struct task *task, const struct revision *revision,
    const struct workflow *workflow, const struct workflow_refs *refs, bool depends)
{
    for (size_t i = 0; i < refs->n; i++) {
        const struct workflow_ref *ref = &refs->items[i];
        const struct workflow_task *target = workflow_find(workflow, ref->name);
        bool tolerant = !target || target->allow_failure;
        bool success =
            depends && (ref->on == WORKFLOW_ON_SUCCESS || (ref->on == WORKFLOW_ON_DEFAULT && !ref->prev && !tolerant));
        for (size_t p = 0; ref->prev && p < revision->n_prevs; p++) {
            const struct task *earlier = memstore_task_upto(w->store, task->lane, ref->name, revision->prevs[p]);
            if (earlier)
                MARK(w, prev_waited);
            begin_after(w, task, earlier, success, "R6 a task began before its PREV had ended");
            if (earlier && !w->known.retried[task->id])
                begin_handed_on(w, task, earlier);
        }
        if (!ref->prev && task->run == 0)
            begin_after(w, task, task_of(w, task->lane, task->rev, ref->name), success,
                "R6 a task began before what it depends on");
    }
}

static bool run_later(const struct task *task)
{
    return task->run > 0 || str_eqz(task->name, "by-hand");
}

/* The lock is given in the order of the revisions; who is retried or run by hand comes last. */
static void begin_locked(struct world *w, const struct task *task)
{
    MAP_EACH (&w->store->tasks, t) {
        const struct task *other = t->value;
        bool before = other->lane == task->lane && other->rev < task->rev && locks_clash(task, other);
        bool moved = w->known.retried[task->id] || w->known.retried[other->id] || run_later(task) || run_later(other);
        if (before && !moved)
            begin_after(w, task, other, false, "R6 the archive's lock was taken past an older revision");
    }
}

void check_begin(struct world *w, const struct task *task)
{
    const struct repository *repo = task->rev ? repository_of(w, task->lane) : NULL;
    if (!repo)
        return;
    const struct revision *revision = memstore_revision(w->store, task->lane, task->rev);
    if (!revision || revision->state != REVISION_KNOWN)
        world_fail(w, "R6 a task began before its revision was known", task->id);
    if (str_eqz(task->name, "COMMIT")) {
        for (size_t p = 0; p < revision->n_prevs; p++)
            begin_after(w, task, memstore_task_upto(w->store, task->lane, task->name, revision->prevs[p]), false,
                "R6 a revision began before the one before it");
        return;
    }
    if (str_eqz(task->name, "WORKFLOW"))
        return; /* nobody waits for it, and it for nobody */
    begin_after(w, task, task_of(w, task->lane, task->rev, STR("COMMIT")), true, "R6 a task began before its COMMIT");
    const struct definition *definition = flow_definition(repo->commits[task->rev].flow);
    const struct workflow_task *written = definition ? workflow_find(&definition->workflow, task->name) : NULL;
    if (!written && str_eqz(task->name, "nightly"))
        return; /* the newest that could be read has it */
    if (!written)
        world_fail(w, "R6 a task that its workflow doesn't have", task->id);
    begin_refs(w, task, revision, &definition->workflow, &written->depends, true);
    begin_refs(w, task, revision, &definition->workflow, &written->after, false);
    begin_locked(w, task);
    if (!w->known.retried[task->id] && task->run == 0)
        begin_superseding(w, task, task);
}

/* A retry that isn't forced is refused when a later revision's task that was to come after it has begun. */
void check_again(struct world *w, const struct task *task)
{
    const struct edges *outs = task->rev ? map_find(&w->store->outs, (uint64_t)task->id) : NULL;
    for (size_t i = 0; outs && i < outs->n; i++) {
        const struct task *waiter = store_task(w, outs->edges[i].waiter);
        if (outs->edges[i].kind == EDGE_CANCELS || outs->edges[i].flags & EDGE_LOCK || waiter->lane != task->lane)
            continue;
        /* it wasn't taken back within the turn */
        bool runs = waiter->state == STATE_X && waiter->grant == w->before[waiter->id].grant;
        if (waiter->rev > task->rev && w->before[waiter->id].state == STATE_X && runs)
            world_fail(w, "R6 a retry went before what had started", task->id);
    }
}

/* --- the store --- */

/* Once for each revision, when it is opened: its tasks are all there, its depth is that of what caused it and one more.
 */
static void check_opened(struct world *w, const struct repository *repo, const struct revision *row)
{
    char names[100];
    const struct commit *commit = &repo->commits[row->rev];
    bool deep = row->depth > CAUSE_DEPTH_MAX;
    if (row->rev > repo->n)
        world_fail(w, "R6 a revision that nobody made", row->rev);
    if (!task_of(w, row->lane, row->rev, STR("COMMIT")))
        world_fail(w, "R6 a revision without its COMMIT", row->rev);
    const struct task *cause = row->cause ? store_task(w, row->cause) : NULL;
    const struct revision *made_in = cause && cause->rev ? memstore_revision(w->store, cause->lane, cause->rev) : NULL;
    bool person = cause && cause->marks & MARK_CHANGESET; /* has submitted it */
    int64_t depth = made_in ? made_in->depth + 1 : row->cause && !person ? 1 : 0;
    if (row->depth != depth)
        world_fail(w, "a revision's depth isn't that of its cause", row->rev);
    if (!w->backup.restored && row->cause != commit->cause)
        world_fail(w, "a revision's cause was forgotten", row->rev);
    snprintf(names, sizeof names, "%s", flow_tasks(commit->flow));
    for (char *at, *word = strtok_r(names, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        const struct task *made = task_of(w, row->lane, row->rev, str_of(word));
        bool fault = strcmp(word, "WORKFLOW") == 0;
        if (!made && (!deep || fault))
            world_fail(w, "R6 a revision without all its tasks", row->rev);
        if (made && deep && !fault)
            world_fail(w, "jobs start each other without an end", made->id);
        if (made && made->marks & MARK_SKIPPED)
            MARK(w, skipped_by_paths);
        const struct workflow_task *written = made ? written_as(w, made) : NULL;
        if (written && written->paths.n && commit->touched == ((made->marks & MARK_SKIPPED) != 0))
            world_fail(w, "R6 what a revision touched was forgotten", made->id);
        if (fault)
            MARK(w, workflow_bad);
    }
    if (row->cause)
        MARK(w, revision_caused);
    if (deep)
        MARK(w, cause_depth);
}

static void check_archive(struct world *w, const struct archive *archive)
{
    const struct repository *repo = repository_of(w, archive->lane);
    int64_t *opened = &w->known.opened[archive->lane];
    if (!repo || archive->lane >= LANES_MAX)
        world_fail(w, "an archive that nobody added", archive->lane);
    if (archive->next < *opened)
        world_fail(w, "R6 an archive went back", archive->next);
    for (int64_t rev = *opened > archive->first ? *opened : archive->first; rev < archive->next; rev++) {
        const struct revision *row = memstore_revision(w->store, archive->lane, rev);
        if (!row || row->state == REVISION_WAITING)
            world_fail(w, "R6 a revision was passed over", rev);
        if (row->state == REVISION_SKIPPED)
            MARK(w, revision_skipped);
        else
            check_opened(w, repo, row);
    }
    *opened = archive->next;
    for (size_t i = 0; i < w->store->n_revisions; i++) {
        const struct revision *row = &w->store->revisions[i];
        if (row->lane != archive->lane)
            continue;
        if (row->state == REVISION_KNOWN && row->rev >= archive->next)
            world_fail(w, "R6 initialised before an earlier revision", row->rev);
        if (row->state == REVISION_WAITING)
            MARK(w, revision_early);
    }
}

/* Nobody has the archive's lock beside one that has it alone. */
static void check_locks(struct world *w)
{
    size_t shared[LANES_MAX] = { 0 }, alone[LANES_MAX] = { 0 };
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (!(task->marks & MARK_LOCKED) || task->state != STATE_X)
            continue;
        if (task->marks & MARK_EXCLUSIVE)
            alone[task->lane]++;
        else
            shared[task->lane]++;
        if (alone[task->lane] > 1 || (alone[task->lane] && shared[task->lane]))
            world_fail(w, "I8 an archive's lock is held twice", task->id);
        if (shared[task->lane] > 1)
            MARK(w, lock_shared);
        if (alone[task->lane])
            MARK(w, lock_exclusive);
    }
}

/* Shared locks never wait for shared ones; no order leads from a revision to a later one (only the lock's, to which a
 * retry comes last). */
static void check_edges(struct world *w, const struct task *task)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
    bool waits = false, due = false;
    for (size_t i = 0; ins && i < ins->n; i++) {
        const struct edge *e = &ins->edges[i];
        const struct task *pred = store_task(w, e->pred);
        bool open = !state_ended(pred->state), lock = e->kind == EDGE_AFTER && e->flags & EDGE_LOCK;
        if (lock && edge_counts(e->kind, e->flags) && open && !locks_clash(task, pred))
            world_fail(w, "R6 a shared lock waits for a shared one", task->id);
        if (e->kind != EDGE_CANCELS && !lock && pred->lane == task->lane && pred->rev > task->rev)
            world_fail(w, "R6 a task waits for one of a later revision", task->id);
        due |= e->kind == EDGE_CANCELS && !(e->flags & EDGE_FIRED) && open;
        if (e->kind != EDGE_CANCELS && !lock && edge_counts(e->kind, e->flags))
            waits |= (e->kind == EDGE_DEPENDS ? pred->state != STATE_D : open) || edge_untold(w, e);
    }
    if (task->state != STATE_S || !due || waits || lane_shut(w, task->lane) || task->holds & (1u << HOLD_time))
        return;
    if (!(task->holds & (1u << HOLD_pause | 1u << HOLD_telling))) /* telling: it goes on with it in the next turn */
        world_fail(w, "I15 a task that is ready hasn't cancelled what it supersedes", task->id);
}

static bool clock_is_wrong(const struct world *w)
{
    int64_t away = w->wall - (INT64_C(1800000000000) + w->boot - 1000000);
    return (away < 0 ? -away : away) > WALL_JUMP_MS / 2;
}

/* Hours ahead, or by a clock that is, or was, so far from the truth: when it is put right, schedules go on from there.
 */
static bool fired_by_a_wrong_clock(const struct world *w, const struct fired *fired)
{
    return fired->wrong || clock_is_wrong(w) || w->clocks_differ || fired->slot * 1000 - w->wall > WALL_STEP_MS * 3 / 4;
}

static const struct schedule *schedule_find(const struct world *w, const struct fired *fired)
{
    for (size_t i = 0; i < w->store->n_schedules; i++) {
        const struct schedule *row = &w->store->schedules[i];
        struct str both = fired->task; /* TASK CRON */
        if (row->lane == fired->lane && both.len == row->task.len + 1 + row->cron.len && str_starts(both, row->task) &&
            str_eq(str_sub(both, row->task.len + 1, both.len), row->cron))
            return row;
    }
    return NULL;
}

void check_archives(struct world *w)
{
    if (!w->n_repositories)
        return;
    MAP_EACH (&w->store->archives, a)
        check_archive(w, a->value);
    check_locks(w);
    /* a line that a newer workflow doesn't have may come back, and counts from then */
    for (size_t i = 0; i < w->known.n_fired; i++) {
        struct fired *fired = &w->known.fired[i];
        const struct schedule *row = schedule_find(w, fired);
        if (fired->slot * 1000 > w->wall)
            MARK(w, scheduled_back);
        bool anew = w->revised & (1u << fired->lane) || fired_by_a_wrong_clock(w, fired);
        if (row && row->next <= fired->slot * 1000 && !anew)
            world_fail(w, "I14 a schedule wasn't moved on", fired->lane);
        if (!row || row->next <= fired->slot * 1000)
            *fired = w->known.fired[--w->known.n_fired], i--;
    }
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        const struct revision *row = task->rev ? memstore_revision(w->store, task->lane, task->rev) : NULL;
        if (task->rev && !row)
            world_fail(w, "R6 a task without its revision", task->id);
        if (task->rev && !state_ended(task->state))
            check_edges(w, task);
        bool early = row && row->state == REVISION_WAITING;
        if (early ? task->state != STATE_Q && !state_ended(task->state) : task->state == STATE_Q)
            world_fail(w, early ? "R6 a task of a revision that waits has begun to" : "a task was left in Q", task->id);
    }
}

/* --- the clock --- */

/* CRON for SLOT; NAME, epoch N: that of the duty's row when the turn began, and of the server whose turn it is. */
static void check_fired(struct world *w, const struct event *e)
{
    int64_t epoch = w->duties[DUTY_schedules].epoch;
    struct str holder = w->duties[DUTY_schedules].holder;
    for (size_t i = 0; w->store->head.commit > w->commit_before + 1 && i < w->store->n_duties; i++)
        /* after a failure each command has a turn of its own: */
        if (str_eqz(w->store->duties[i].name, engine_duty_name(DUTY_schedules)))
            /* it was taken in the first of them */
            epoch = w->store->duties[i].epoch, holder = w->store->duties[i].holder;
    if (!str_ends(e->reason, str_fmt(&w->arena, "; %s, epoch %lld", w->at->name, (long long)epoch)) ||
        !str_eqz(holder, w->at->name))
        world_fail(w, "I14 a schedule was fired by who hasn't the duty", e->task);
    if (epoch > 1)
        MARK(w, scheduled_after_takeover);
}

/* R15: each slot fires once. */
void check_scheduled(struct world *w, const struct event *e)
{
    const char *at = memmem(e->reason.ptr, e->reason.len, " for ", 5);
    if (memmem(e->reason.ptr, e->reason.len, SCHEDULE_AGAIN, strlen(SCHEDULE_AGAIN))) {
        MARK(w, schedule_again);
        return;
    }
    if (!at || !e->task)
        world_fail(w, "the clock started nothing", e->task);
    struct str cron = str_sub(e->reason, 0, (size_t)(at - e->reason.ptr));
    struct str when = str_sub(e->reason, cron.len + 5, e->reason.len);
    ptrdiff_t end = str_index(when, ';');
    int64_t slot_ms = 0;
    if (!when_parse(end < 0 ? when : str_sub(when, 0, (size_t)end), &slot_ms))
        world_fail(w, "a slot of a schedule isn't told", e->task);
    struct fired now = { .lane = e->lane,
        .wrong = clock_is_wrong(w),
        .slot = slot_ms / 1000,
        .task = str_fmt(&w->arena, "%.*s %.*s", STR_ARG(e->subject), STR_ARG(cron)) };
    MARK(w, scheduled);
    if (now.slot * 1000 + 60000 <= w->wall)
        MARK(w, scheduled_missed);
    if (several(w))
        check_fired(w, e);
    for (size_t i = 0; i < w->known.n_fired; i++) {
        struct fired *fired = &w->known.fired[i];
        if (fired->lane != now.lane || !str_eq(fired->task, now.task))
            continue;
        if (fired_by_a_wrong_clock(w, fired))
            MARK(w, scheduled_right);
        else if (now.slot <= fired->slot)
            world_fail(w, "I14 a slot of a schedule fired twice", e->task);
        *fired = now;
        return;
    }
    if (w->known.n_fired < FIRED_MAX)
        w->known.fired[w->known.n_fired++] = now;
}

void check_schedules(struct world *w)
{
    for (size_t i = 0; i < w->store->n_schedules; i++) {
        const struct schedule *row = &w->store->schedules[i];
        if (row->next <= w->wall && duty_acted(w, DUTY_schedules))
            world_fail(w, "I14 a slot of a schedule wasn't fired", row->lane);
        if (!w->clocks_differ && row->next < INT64_MAX && row->next - w->wall > 2 * WALL_STEP_MS + 120000 &&
            duty_acted(w, DUTY_schedules))
            world_fail(w, "R15 a schedule was left in the wrong future", row->lane);
        int64_t in = row->next - w->wall < 60000 ? row->next - w->wall : 60000; /* the wall clock may be set */
        if (in < 0)
            in = 0;
        if (w->at->next_turn > w->boot + in && duty_had(w, DUTY_schedules))
            world_fail(w, "I10 no wake-up for a schedule", row->lane);
    }
    MAP_EACH (&w->store->archives, a) {
        const struct archive *archive = a->value;
        bool due = !several(w) && !archive->removed && archive->next <= archive->youngest &&
                   memstore_revision(w->store, archive->lane, archive->next);
        if (due && w->at->next_turn > w->boot)
            world_fail(w, "I10 a revision that is due isn't opened", archive->next);
    }
}

/* --- limits --- */

static bool held_before(const struct world *w, const struct hold *hold)
{
    for (size_t i = 0; i < w->n_holds_before; i++)
        if (w->holds_before[i].kind == HOLD_held && w->holds_before[i].key == hold->key &&
            w->holds_before[i].task == hold->task)
            return true;
    return false;
}

/* R28: nobody gets a slot beyond its limit; one that is lowered below its holders gives nothing out until enough of
 * them have ended. */
void check_limits(struct world *w, struct command **commands, size_t n)
{
    int64_t configured = 0; /* within the turn it may have been more than before and after it */
    for (size_t i = 0; i < n; i++)
        if (commands[i]->kind == CMD_SITE && commands[i]->in.site.conf.semaphores.items[0].limit > configured)
            configured = commands[i]->in.site.conf.semaphores.items[0].limit;
    for (size_t i = 0; i < w->n_slots_before; i++) {
        const struct slot *was = &w->slots_before[i], *is = map_find(&w->store->slots, (uint64_t)was->id);
        if (!is) { /* nobody was in it any more: check_counts sees to that */
            MARK(w, slot_gone);
            continue;
        }
        int64_t limit = was->limit > is->limit ? was->limit : is->limit; /* within the turn: either of them */
        if (str_eqz(is->name, "two") && configured > limit)
            limit = configured;
        if (str_eqz(is->name, "one") && w->revised && limit < 2)
            limit = 2;
        if (is->limit < was->limit && is->used > is->limit)
            MARK(w, limit_lowered);
        if (is->limit > was->limit && was->waiting > 0)
            MARK(w, limit_raised);
        for (size_t k = 0; k < w->store->n_holds && is->used > limit; k++) {
            const struct hold *hold = &w->store->holds[k];
            if (hold->kind == HOLD_held && hold->key == is->id && !held_before(w, hold))
                world_fail(w, "I8 a slot was given out beyond its limit", hold->task);
        }
    }
}
