/* check: what must hold after every turn, whatever happened. */
#include "core/task_state.h"
#include "store/pack.h"
#include "world.h"

/* I11: the state of each task is the fold of its events; I4: no start before its predecessors' end; every move is legal. */
static void check_move(struct world *w, const struct event *e)
{
    int64_t id = e->task;
    trace(w, "  %s %lld %c -> %c grant %lld %.*s", event_kind_name(e->kind), (long long)id, e->from ? state_letter(e->from) : '-', e->to ? state_letter(e->to) : '-',
          (long long)e->grant, STR_ARG(e->reason));
    if (id >= TASKS_MAX * 2) world_fail(w, "more tasks than were sent", id);
    if (e->kind == EVENT_created) {
        if (w->folded[id] != STATE_NONE) world_fail(w, "created twice", id);
        w->folded[id] = e->to;
        return;
    }
    if (e->kind != EVENT_move) return;
    if (w->folded[id] != e->from) world_fail(w, "I11 a move starts elsewhere than the last one ended", id);
    if (!move_legal(e->from, e->to)) world_fail(w, "an illegal move", id);
    w->folded[id] = e->to;
    if (e->to != STATE_X) return;
    if (e->grant < w->folded_grant[id]) world_fail(w, "I3 a grant smaller than the one before", id);
    if (e->grant == w->folded_grant[id]) return; /* no start: a late result, or a lease that was taken up again */
    w->folded_grant[id] = e->grant;
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)id);
    for (size_t i = 0; ins && i < ins->n; i++) {
        enum task_state pred = w->folded[ins->edges[i].pred];
        if (ins->edges[i].kind == EDGE_DEPENDS && pred != STATE_D) world_fail(w, "I4 started before its dependency was done", id);
        if (ins->edges[i].kind == EDGE_AFTER && !state_ended(pred)) world_fail(w, "I4 started before its precursor had ended", id);
        bool waits = ins->edges[i].kind == EDGE_CANCELS && ins->edges[i].flags == EDGE_FIRED; /* unless it was retried since */
        if (waits && !state_ended(pred)) world_fail(w, "started while what it supersedes lives", id);
    }
}

static void check_events(struct world *w)
{
    struct memstore *m = w->store;
    for (; w->n_turns_checked < m->n_turns; w->n_turns_checked++) {
        const struct turn_row *row = &m->turns[w->n_turns_checked];
        struct arena arena = { 0 };
        struct event *events;
        size_t n;
        if (row->first_seq != w->events_checked + 1) world_fail(w, "seq has a hole", 0);
        if (!unpack_events(row->events, row->first_seq, row->time, &arena, &events, &n)) world_fail(w, "a turn that can't be unpacked", 0);
        for (size_t i = 0; i < n; i++)
            if (events[i].task) check_move(w, &events[i]);
        w->events_checked += (int64_t)n;
        arena_release(&arena);
    }
}

static int64_t waits_of(struct world *w, const struct task *task)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
    int64_t waits = 0;
    for (size_t i = 0; ins && i < ins->n; i++) {
        const struct edge *e = &ins->edges[i];
        const struct task *pred = map_find(&w->store->tasks, (uint64_t)e->pred);
        if (e->kind == EDGE_DEPENDS) waits += pred->state != STATE_D;
        if (e->kind == EDGE_AFTER || (e->kind == EDGE_CANCELS && e->flags == EDGE_FIRED)) waits += !state_ended(pred->state);
    }
    return waits;
}

static void check_task(struct world *w, const struct task *task)
{
    struct memstore *m = w->store;
    if (w->folded[task->id] != task->state) world_fail(w, "I11 state differs from the fold of events", task->id);
    size_t ready = 0, live = 0, held = 0;
    unsigned holds = 0;
    for (size_t i = 0; i < m->n_ready; i++)
        if (m->ready[i].task == task->id) ready++;
    for (size_t i = 0; i < m->n_attempts; i++)
        if (m->attempts[i].task == task->id && !m->attempts[i].finished) live += m->attempts[i].grant == task->grant ? 1 : 100;
    for (size_t i = 0; i < m->n_holds; i++)
        if (m->holds[i].task == task->id) holds |= 1u << m->holds[i].kind, held += m->holds[i].kind == HOLD_held;
    if (ready != (task->state == STATE_P)) world_fail(w, "ready row without P, or P without ready row", task->id);
    if (live != (task->state == STATE_X)) world_fail(w, "I7 not exactly one live grant of an executing task", task->id);
    if (holds != task->holds) world_fail(w, "holds differ from their rows", task->id);
    if (task->ending && task->state != STATE_X) world_fail(w, "ending beside a state that isn't X", task->id);
    if (state_ended(task->state) && task->holds) world_fail(w, "I9 an ended task holds something", task->id);
    const struct spec *spec = map_find(&m->specs, (uint64_t)task->spec);
    if ((task->state == STATE_P || task->state == STATE_X) && held != spec->n_slots) world_fail(w, "I8 started without its slots", task->id);
    if (task->state == STATE_S) {
        if (task->waits != waits_of(w, task)) {
            const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
            for (size_t i = 0; ins && i < ins->n; i++)
                trace(w, "  edge %s to %lld flags %u: %c", edge_kind_name(ins->edges[i].kind), (long long)ins->edges[i].pred, ins->edges[i].flags,
                      state_letter(((struct task *)map_find(&w->store->tasks, (uint64_t)ins->edges[i].pred))->state));
            trace(w, "  waits %lld, counted %lld", (long long)task->waits, (long long)waits_of(w, task));
            world_fail(w, "waits is not the number of unsatisfied edges", task->id);
        }
        if (task->waits == 0 && !(task->holds & ~(1u << HOLD_held))) world_fail(w, "I10 a staged task without a reason", task->id);
    }
    if (task->state == STATE_Q) world_fail(w, "a queue's task left in Q", task->id);
}

static void check_counts(struct world *w)
{
    struct memstore *m = w->store;
    MAP_EACH(&m->lanes, l) {
        const struct lane *lane = l->value;
        int64_t counts[STATE_COUNT] = { 0 };
        MAP_EACH(&m->tasks, t) {
            const struct task *task = t->value;
            if (task->lane == lane->id) counts[task->state]++;
        }
        for (size_t s = 1; s < STATE_COUNT; s++)
            if (counts[s] != lane->counts[s]) world_fail(w, "a lane's counts are wrong", lane->id);
    }
    MAP_EACH(&m->slots, s) {
        const struct slot *slot = s->value;
        int64_t used = 0, waiting = 0;
        for (size_t i = 0; i < m->n_holds; i++) {
            if (m->holds[i].key != slot->id) continue;
            used += m->holds[i].kind == HOLD_held;
            waiting += m->holds[i].kind == HOLD_slot;
        }
        if (used != slot->used || waiting != slot->waiting) world_fail(w, "I9 a slot's counts are wrong", slot->id);
        if (used > slot->limit) world_fail(w, "I8 a slot's limit is exceeded", slot->id);
    }
}

void check_store(struct world *w)
{
    check_events(w);
    MAP_EACH(&w->store->tasks, t) check_task(w, t->value);
    check_counts(w);
    for (size_t i = 0; i < w->n_accepted; i++) {
        const struct task *task = map_find(&w->store->tasks, (uint64_t)w->accepted[i].id);
        if (!task) world_fail(w, "I1 an accepted task is gone", w->accepted[i].id);
        if (w->accepted[i].cancelled && task->state == STATE_D) world_fail(w, "I6 a cancelled task was reported done", task->id);
    }
}
