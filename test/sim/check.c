/* check: what must hold after every turn, whatever happened. */
#include "core/hold.h"
#include "core/task_state.h"
#include "store/pack.h"
#include "world.h"

/* What a started task must not overtake: its predecessors' end (I4), and the death of what it supersedes. */
static void check_start(struct world *w, int64_t id)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)id);
    for (size_t i = 0; ins && i < ins->n; i++) {
        enum task_state pred = w->known.folded[ins->edges[i].pred];
        if (ins->edges[i].kind == EDGE_DEPENDS && pred != STATE_D)
            world_fail(w, "I4 started before its dependency was done", id);
        if (ins->edges[i].kind == EDGE_AFTER && !(ins->edges[i].flags & EDGE_SPENT) && !state_ended(pred))
            world_fail(w, "I4 started before its precursor had ended", id);
        /* unless it was retried since */
        bool waits = ins->edges[i].kind == EDGE_CANCELS && edge_counts(EDGE_CANCELS, ins->edges[i].flags);
        if (waits && !state_ended(pred))
            world_fail(w, "I15 started while what it supersedes lives", id);
    }
}

static void mark_move(struct world *w, const struct event *e)
{
    bool late = str_eqz(e->reason, "a late result"), superseded = str_eqz(e->reason, "superseded");
    if (late && e->to == STATE_X)
        MARK(w, late_result);
    if (late && e->from == STATE_F)
        MARK(w, late_after_failed);
    if (str_eqz(e->reason, "its lease was renewed late"))
        MARK(w, lease_revived);
    if (str_eqz(e->reason, "the grant did not arrive"))
        MARK(w, grant_undone);
    if (str_eqz(e->reason, "its executor doesn't have it any more"))
        MARK(w, grant_missed);
    if (superseded && e->from != STATE_X)
        MARK(w, superseded_waiting);
    if (e->to == STATE_T && e->from != STATE_X)
        MARK(w, cancel_waiting);
    if (str_starts(e->reason, STR("a dependency ")))
        MARK(w, passed_on);
    if (e->from == STATE_X && e->to == STATE_S && str_starts(e->reason, STR("temporary")))
        MARK(w, back_off);
    if (e->to == STATE_F && str_eqz(e->reason, "its executor fell silent"))
        MARK(w, limit_reached);
    if (e->from == STATE_P && str_starts(e->reason, STR("its archive was removed: the target")))
        w->parked_tasks = true;
    if (str_eqz(e->reason, "paused")) {
        MARK(w, parked_by_pause);
        w->parked_tasks = true;
    }
}

static void check_created(struct world *w, const struct event *e)
{
    const struct task *task = store_task(w, e->task);
    if (w->known.folded[e->task] != STATE_NONE)
        world_fail(w, "created twice", e->task);
    if (!task)
        world_fail(w, "I1 an event of a task that isn't there", e->task);
    MAP_EACH (&w->store->tasks, t) {
        const struct task *other = t->value;
        bool same = other->lane == task->lane && other->rev == task->rev && other->run == task->run &&
                    str_eq(other->name, task->name);
        if (same && other->id < task->id)
            world_fail(
                w, task->rev ? "R6 a revision has its task twice" : "R16 one call created its task twice", e->task);
    }
    if (w->quotas)
        quotas_created(w, task);
    w->known.folded[e->task] = e->to;
}

/* I11: the state of each task is the fold of its events; every move is legal, and has a cause that may cause it. */
static void check_move(struct world *w, const struct event *e)
{
    int64_t id = e->task;
    trace(w, "  %s %lld %c -> %c grant %lld %.*s", event_kind_name(e->kind), (long long)id,
        e->from ? state_letter(e->from) : '-', e->to ? state_letter(e->to) : '-', (long long)e->grant,
        STR_ARG(e->reason));
    if (id >= IDS_MAX)
        world_fail(w, "more tasks than were sent", id);
    if (e->kind == EVENT_created) {
        check_created(w, e);
        return;
    }
    if (e->kind == EVENT_promoted) {
        MARK(w, promoted);
        w->known.promoted[id] = true;
    }
    if (e->kind == EVENT_ending) {
        w->known.folded_ending[id] = e->to;
        if (str_eqz(e->reason, "superseded"))
            MARK(w, superseded_running);
        else
            MARK(w, cancel_running);
        const struct sim_executor *has = executor_of(w, w->known.watches[id].executor);
        if (has && has->server != w->at->index)
            MARK(w, cancel_elsewhere);
    }
    if (e->kind != EVENT_move)
        return;
    mark_move(w, e);
    if (w->known.folded[id] != e->from)
        world_fail(w, "I11 a move starts elsewhere than the last one ended", id);
    if (!move_legal(e->from, e->to))
        world_fail(w, "an illegal move", id);
    bool again = str_eqz(e->reason, "sim") || str_eqz(e->reason, "a late result");
    /* that one was, in a turn before */
    bool after = str_eqz(e->reason, "a dependency was retried") && w->known.retried[e->cause];
    if (state_ended(e->from) && !again && !after)
        world_fail(w, "an ended task went on by itself", id);
    if (state_ended(e->from) && str_eqz(e->reason, "sim"))
        MARK(w, retry);
    if (state_ended(e->from))
        w->known.retried[id] = true;
    if (state_ended(e->from) && w->before[id].holds & 1u << HOLD_telling)
        MARK(w, tell_retried);
    if (state_ended(e->from) && w->changesets)
        changeset_again(w, store_task(w, id));
    if (state_ended(e->from) && w->quotas)
        quotas_resumed(w, id);
    if (w->known.folded_ending[id] == STATE_S && e->to == STATE_P)
        w->known.folded_ending[id] = STATE_P; /* the rollback that stopped it has failed meanwhile */
    bool applied = e->to == STATE_D && store_task(w, id)->marks & MARK_CHANGESET; /* whatever was ordered */
    if (w->known.folded_ending[id] && e->from == STATE_X && e->to != w->known.folded_ending[id] && !applied)
        world_fail(w, "I6 a task that was to end went elsewhere", id);
    w->known.folded_ending[id] = STATE_NONE;
    w->known.folded[id] = e->to;
    if (state_ended(e->to))
        w->known.promoted[id] = false;
    if (state_ended(e->to) && w->changesets)
        changeset_end(w, store_task(w, id), e);
    if (e->from == STATE_S && e->to == STATE_D)
        check_begin(w, store_task(w, id)); /* there was nothing to run */
    if (e->to != STATE_X)
        return;
    if (e->grant < w->known.folded_grant[id])
        world_fail(w, "I3 a grant smaller than the one before", id);
    if (e->grant == w->known.folded_grant[id])
        return; /* no start: a late result, or a lease that was taken up again */
    w->known.folded_grant[id] = e->grant;
    check_start(w, id);
    check_begin(w, store_task(w, id));
    if (w->changesets)
        changeset_start(w, store_task(w, id));
}

static void check_events(struct world *w)
{
    struct memstore *m = w->store;
    for (; w->known.n_turns_checked < m->n_turns; w->known.n_turns_checked++) {
        const struct turn_row *row = &m->turns[w->known.n_turns_checked];
        struct arena arena = { 0 };
        struct event *events;
        size_t n;
        if (row->first_seq != w->known.events_checked + 1)
            world_fail(w, "seq has a hole", 0);
        if (!unpack_events(row->events, row->first_seq, row->time, &arena, &events, &n))
            world_fail(w, "a turn that can't be unpacked", 0);
        size_t retried = 0;
        for (size_t i = 0; i < n; i++) {
            retried += events[i].kind == EVENT_move && state_ended(events[i].from) && str_eqz(events[i].reason, "sim");
            if (events[i].task)
                check_move(w, &events[i]);
            if (events[i].kind == EVENT_executor_lost)
                MARK(w, executor_lost);
            if (events[i].kind == EVENT_resume)
                MARK(w, resume);
            bool revised = events[i].kind == EVENT_revision || events[i].kind == EVENT_archive ||
                           events[i].kind == EVENT_revision_skipped;
            if (revised || events[i].kind == EVENT_semaphore)
                w->revised |= 1u << events[i].lane; /* bit 0: a limit */
            if (events[i].kind == EVENT_scheduled)
                check_scheduled(w, &events[i]);
            if (events[i].kind == EVENT_archive_removed)
                MARK(w, archive_removed);
            if (events[i].kind == EVENT_archive && w->known.opened[events[i].lane] > 1)
                MARK(w, archive_again);
            if (events[i].kind != EVENT_incarnation || str_eqz(events[i].actor, "restore"))
                continue;
            if (++w->at->renewals > 1)
                world_fail(w, "R8 grants are made stale again and again", 0);
        }
        if (retried > 1)
            MARK(w, retry_dependents);
        w->known.events_checked += (int64_t)n;
        arena_release(&arena);
    }
}

/* Has the edge's waiter been told of the other's end? One that hasn't been waits for it all the same. */
bool edge_untold(const struct world *w, const struct edge *e)
{
    const struct memstore *m = w->store;
    for (size_t i = 0; i < m->n_holds; i++)
        if (m->holds[i].kind == HOLD_telling && m->holds[i].task == e->pred)
            return m->holds[i].rank < e->waiter;
    return false;
}

static int64_t waits_of(struct world *w, const struct task *task)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
    int64_t waits = 0;
    for (size_t i = 0; ins && i < ins->n; i++) {
        const struct edge *e = &ins->edges[i];
        const struct task *pred = map_find(&w->store->tasks, (uint64_t)e->pred);
        bool untold = edge_untold(w, e);
        if (e->kind == EDGE_DEPENDS)
            waits += pred->state != STATE_D || untold;
        if (e->kind != EDGE_DEPENDS && edge_counts(e->kind, e->flags))
            waits += !state_ended(pred->state) || untold;
    }
    return waits;
}

/* Who ended because of a dependency that has been retried since comes back, now or when the turns that bring them back
 * come to it. */
static void check_left_behind(struct world *w, const struct task *task)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
    if ((task->state != STATE_F && task->state != STATE_A) || task->outcome != OUTCOME_none || !task->cause)
        return;
    for (size_t i = 0; ins && i < ins->n; i++) {
        const struct edge *e = &ins->edges[i];
        const struct task *pred = e->kind == EDGE_DEPENDS && e->pred == task->cause ? store_task(w, e->pred) : NULL;
        bool due = false;
        for (size_t k = 0; pred && k < w->store->n_holds; k++) {
            const struct hold *hold = &w->store->holds[k];
            due |= hold->kind == HOLD_returning && hold->task == pred->id && hold->rank < task->id;
        }
        if (due)
            MARK(w, return_batches);
        if (pred && pred->state == STATE_D && pred->marks & MARK_CHANGESET)
            continue; /* it was rolled back */
        if (pred && !due && (!state_ended(pred->state) || pred->state == STATE_D))
            world_fail(w, "a dependent of what was retried is left behind", task->id);
    }
}

static void check_task(struct world *w, const struct task *task)
{
    struct memstore *m = w->store;
    const struct spec *spec = map_find(&m->specs, (uint64_t)task->spec);
    if (w->known.folded[task->id] != task->state)
        world_fail(w, "I11 state differs from the fold of events", task->id);
    size_t ready = 0, live = 0, held = 0;
    unsigned holds = 0;
    for (size_t i = 0; i < m->n_ready; i++)
        if (m->ready[i].task == task->id)
            ready++;
    for (size_t i = 0; i < m->n_attempts; i++)
        if (m->attempts[i].task == task->id && !m->attempts[i].finished)
            live += m->attempts[i].grant == task->grant ? 1 : 100;
    for (size_t i = 0; i < m->n_holds; i++)
        if (m->holds[i].task == task->id)
            holds |= 1u << m->holds[i].kind, held += m->holds[i].kind == HOLD_held;
    if (ready != (task->state == STATE_P))
        world_fail(w, "ready row without P, or P without ready row", task->id);
    bool needed = task->state == STATE_P || task->holds & 1u << HOLD_executor;
    if (needed && !map_find(&m->classes, (uint64_t)task->class_id))
        world_fail(w, "a class is gone that a task needs", task->id);
    if (live != (task->state == STATE_X))
        world_fail(w, "I7 not exactly one live grant of an executing task", task->id);
    if (holds != task->holds)
        world_fail(w, "holds differ from their rows", task->id);
    if (task->ending && task->state != STATE_X)
        world_fail(w, "ending beside a state that isn't X", task->id);
    if (state_ended(task->state) && task->holds & ~(unsigned)HOLDS_OUTLIVE)
        world_fail(w, "I9 an ended task holds something", task->id);
    bool telling = task->holds & 1u << HOLD_telling;
    if (!state_ended(task->state) && telling && !(task->state == STATE_S && task->marks & MARK_CANCELS))
        world_fail(w, "an end is told that isn't one", task->id);
    if ((task->state == STATE_P || task->state == STATE_X) &&
        held != spec->n_slots + (running_slot(w, task->lane) != 0))
        world_fail(w, "I8 started without its slots", task->id);
    if (task->state == STATE_S) {
        if (task->waits != waits_of(w, task)) {
            const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
            for (size_t i = 0; ins && i < ins->n; i++)
                trace(w, "  edge %s to %lld flags %u: %c", edge_kind_name(ins->edges[i].kind),
                    (long long)ins->edges[i].pred, ins->edges[i].flags,
                    state_letter(((struct task *)map_find(&w->store->tasks, (uint64_t)ins->edges[i].pred))->state));
            trace(w, "  waits %lld, counted %lld", (long long)task->waits, (long long)waits_of(w, task));
            world_fail(w, "waits is not the number of unsatisfied edges", task->id);
        }
        if (task->waits == 0 && !(task->holds & HOLDS_WAIT) && !telling)
            world_fail(w, "I10 a staged task without a reason", task->id);
    }
    check_left_behind(w, task);
    if (task->state == STATE_P && w->known.promoted[task->id] && task->vt != 0)
        world_fail(w, "a promotion was forgotten", task->id);
    if (task->state == STATE_Q && task->unique.len)
        world_fail(w, "R6 a unique key was taken before its revision's turn", task->id);
    if (task->state == STATE_Q && !task->rev)
        world_fail(w, "a queue's task left in Q", task->id);
    if (w->known.starts[task->id] > task->attempts)
        world_fail(w, "R1 a job began more often than attempts were counted", task->id);
    if (task->attempts - task->base > spec->attempts_max)
        world_fail(w, "more attempts than its limit", task->id);
    if (task->unique.len && (state_ended(task->state) || task->state == STATE_X || task->grant > 0))
        world_fail(w, "a unique key outlived its start", task->id);
    const struct edges *ins = map_find(&m->ins, (uint64_t)task->id);
    if (w->before[task->id].state && ins && ins->n > w->known.ins_before[task->id])
        MARK(w, cancels_inherited);
    w->known.ins_before[task->id] = ins ? ins->n : 0;
}

static void check_counts(struct world *w)
{
    struct memstore *m = w->store;
    MAP_EACH (&m->lanes, l) {
        const struct lane *lane = l->value;
        int64_t counts[STATE_COUNT] = { 0 };
        MAP_EACH (&m->tasks, t) {
            const struct task *task = t->value;
            if (task->lane == lane->id)
                counts[task->state]++;
        }
        for (size_t s = 1; s < STATE_COUNT; s++)
            if (counts[s] != lane->counts[s])
                world_fail(w, "a lane's counts are wrong", lane->id);
    }
    MAP_EACH (&m->slots, s) {
        const struct slot *slot = s->value;
        int64_t used = 0, waiting = 0;
        for (size_t i = 0; i < m->n_holds; i++) {
            if (m->holds[i].key != slot->id)
                continue;
            used += m->holds[i].kind == HOLD_held;
            waiting += m->holds[i].kind == HOLD_slot;
        }
        if (used != slot->used || waiting != slot->waiting)
            world_fail(w, "I9 a slot's counts are wrong", slot->id);
        if (waiting > 1)
            MARK(w, slot_waiters);
        if (used > 1)
            MARK(w, slot_shared);
        if (used > 1 && slot->id >= SLOT_KEYED)
            world_fail(w, "I8 two tasks have one concurrency key", slot->id);
    }
    for (size_t i = 0; i < m->n_holds; i++)
        if ((m->holds[i].kind == HOLD_held || m->holds[i].kind == HOLD_slot) &&
            !map_find(&m->slots, (uint64_t)m->holds[i].key))
            world_fail(w, "I9 a slot with somebody in it has gone", m->holds[i].task);
}

/* Its lane was paused since it came, or its executors are gone: it lets others pass. */
static bool gone_aside(struct world *w, int64_t id)
{
    return lane_shut(w, store_task(w, id)->lane) || !task_served(w, store_task(w, id));
}

/* Turns beside each other may give one rank twice: then the smaller number is first (slice_holds_first). */
static bool waits_ahead(const struct hold *a, const struct hold *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->task < b->task);
}

/* I10: who waits for slots does so because in one of them there is no room behind those who were there first. */
static void check_waiters(struct world *w)
{
    const struct memstore *m = w->store;
    for (size_t i = 0; i < m->n_holds; i++) {
        bool blocked = false;
        if (m->holds[i].kind != HOLD_slot || gone_aside(w, m->holds[i].task))
            continue;
        for (size_t k = 0; k < m->n_holds && !blocked; k++) {
            const struct hold *own = &m->holds[k];
            if (own->task != m->holds[i].task || own->kind != HOLD_slot)
                continue;
            const struct slot *slot = map_find(&m->slots, (uint64_t)own->key);
            int64_t ahead = 0;
            for (size_t a = 0; a < m->n_holds; a++)
                ahead += m->holds[a].kind == HOLD_slot && m->holds[a].key == own->key &&
                         waits_ahead(&m->holds[a], own) && !gone_aside(w, m->holds[a].task);
            blocked = ahead >= slot->limit - slot->used || ahead >= 16;
        }
        if (!blocked)
            world_fail(w, "I10 a waiter has room in all its slots and waits", m->holds[i].task);
    }
}

/* Does one of those that the task waits for wait for it in its turn? Who runs counts too: it waits again for what was
 * retried since it began, when its executor is lost. seen: 1 on the way, 2 looked at. */
static bool circle_from(struct world *w, int64_t id, char *seen)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)id);
    seen[id] = 1;
    for (size_t i = 0; ins && i < ins->n; i++) {
        const struct edge *e = &ins->edges[i];
        if (!edge_counts(e->kind, e->flags) || state_ended(store_task(w, e->pred)->state) || seen[e->pred] == 2)
            continue;
        if (seen[e->pred] == 1 || circle_from(w, e->pred, seen)) {
            trace(w, "  %lld waits for %lld", (long long)id, (long long)e->pred);
            return true;
        }
    }
    seen[id] = 2;
    return false;
}

static void check_circles(struct world *w)
{
    char seen[IDS_MAX] = { 0 };
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (state_ended(task->state) || seen[task->id])
            continue;
        if (circle_from(w, task->id, seen))
            world_fail(w, "tasks wait for each other", task->id);
    }
}

static void check_uniques(struct world *w)
{
    size_t keyed = 0;
    MAP_EACH (&w->store->tasks, t)
        keyed += ((const struct task *)t->value)->unique.len > 0;
    if (keyed != w->store->uniques.n)
        world_fail(w, "unique keys differ from the tasks that have them", 0);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3) + (hash >> 29);
}

/* The store as one number, for telling whether two runs of a seed are the same. */
void store_fold(struct world *w)
{
    struct memstore *m = w->store;
    uint64_t h = mix(w->hash, (uint64_t)m->head.seq);
    h = mix(mix(h, (uint64_t)m->head.v_now), (uint64_t)w->boot);
    MAP_EACH (&m->tasks, t) {
        const struct task *task = t->value;
        const int64_t fields[] = { task->id, task->lane, (int64_t)task->state, (int64_t)task->ending, task->waits,
            (int64_t)task->holds, task->prio, task->vt, task->grant, task->not_before, task->attempts, task->base,
            task->finished, (int64_t)task->outcome, task->cause };
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            h = mix(h, (uint64_t)fields[i]);
    }
    for (size_t i = 0; i < m->n_holds; i++)
        h = mix(mix(h, (uint64_t)m->holds[i].rank), (uint64_t)m->holds[i].task);
    for (size_t i = 0; i < m->n_attempts; i++) {
        /* numbers go on by chance after a store went back */
        const struct sim_executor *e = executor_of(w, m->attempts[i].executor);
        h = mix(mix(h, e ? (uint64_t)e->index : 99), (uint64_t)m->attempts[i].finished);
    }
    w->hash = h;
}

void check_store(struct world *w)
{
    w->parked_tasks = false;
    w->revised = 0;
    check_events(w);
    MAP_EACH (&w->store->tasks, t)
        check_task(w, t->value);
    check_counts(w);
    if (!admits_are_left(w))
        check_waiters(w);
    check_circles(w);
    check_uniques(w);
    check_archives(w);
    if (w->changesets)
        check_changesets(w);
    for (size_t i = 0; i < w->known.n_accepted; i++) {
        const struct task *task = store_task(w, w->known.accepted[i].id);
        if (!task)
            world_fail(w, "I1 an accepted task is gone", w->known.accepted[i].id);
        bool set = task->marks & MARK_CHANGESET; /* its finish says that it is in the repository */
        if (w->known.accepted[i].cancelled && task->state == STATE_D && !set)
            world_fail(w, "I6 a cancelled task was reported done", task->id);
    }
}
