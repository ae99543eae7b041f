/* memstore_shared: the store in memory as several servers have it. See memstore.h.
 *
 * There is one thread, so a turn has the lock from begin to commit without a word; that nobody committed in between is asserted. A port
 * whose connection is lost in a turn answers ERR_unavailable until the turn is over, as the driver of PostgreSQL does. */
#include <string.h>

#include "base/plant.h"
#include "memstore.h"
#include "store/pack.h"

static struct memport *port_of(struct store *store)
{
    return (struct memport *)(void *)store;
}

int64_t memstore_touched(const struct memstore *m, enum mem_kind kind, int64_t id)
{
    return (int64_t)(intptr_t)map_find(&m->touched, MEM_KEY(kind, id));
}

static void touch(struct memstore *m, enum mem_kind kind, int64_t id)
{
    map_put(&m->touched, MEM_KEY(kind, id), (void *)(intptr_t)m->head.commit);
}

static bool lost(struct memport *port, struct err *err)
{
    if (port->real) port->real->ops->rollback(port->real);
    port->in_turn = false;
    port->n_cut++;
    return err_set(err, ERR_unavailable, "simulated: the connection is lost");
}

/* A read of the turn: true: the connection is lost with it. */
bool memport_read_fails(struct store *store, struct err *err)
{
    struct memport *port = port_of(store);
    if (port->reads_left == 0 || --port->reads_left > 0) return false;
    lost(port, err);
    return true;
}

static bool shared_begin(struct store *store, struct err *err)
{
    struct memport *port = port_of(store);
    if (port->away) return lost(port, err);
    if (port->real && !port->real->ops->begin(port->real, err)) return false;
    port->in_turn = true;
    store->commit = port->rows->head.commit;
    return true;
}

static void shared_rollback(struct store *store)
{
    struct memport *port = port_of(store);
    port->in_turn = false;
    if (port->real) port->real->ops->rollback(port->real);
}

/* As head_same and the queue of statements say it there: a turn that changes nothing isn't committed. */
static bool changes_any(const struct memstore *m, const struct changes *c)
{
    struct store_head a = c->head, b = m->head;
    a.commit = b.commit;
    memcpy(a.hash, b.hash, sizeof a.hash);
    a.time = b.time;
    size_t rows = c->n_lanes + c->n_classes + c->n_specs + c->n_slots + c->n_tasks_new + c->n_tasks_changed + c->n_ready_add +
                  c->n_ready_remove + c->n_edges_new + c->n_edges_changed + c->n_holds_add + c->n_holds_remove + c->n_attempts_new +
                  c->n_attempts_changed + c->n_attempts_remove + c->n_outputs + c->n_unique_add + c->n_unique_remove + c->n_idempotency +
                  c->n_executors + c->n_tokens + c->n_tokens_remove + c->n_site + c->n_archives + c->n_revisions + c->n_latest +
                  c->n_schedules + c->n_schedules_remove + c->n_duties + c->n_notes + c->n_results_remove;
    return rows > 0 || c->server || c->events.len > 0 || memcmp(&a, &b, sizeof a) != 0;
}

static void duties_apply(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->n_duties; i++) {
        size_t at = 0;
        while (at < m->n_duties && !str_eq(m->duties[at].name, c->duties[i].name)) at++;
        ASSERT(at < MEM_DUTIES_MAX);
        if (at == m->n_duties) m->n_duties++;
        m->duties[at] = c->duties[i];
        m->duties[at].name = str_dup(&m->arena, c->duties[i].name);
        m->duties[at].holder = str_dup(&m->arena, c->duties[i].holder);
    }
}

static void rows_touch(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->n_lanes; i++) touch(m, MEM_LANE, c->lanes[i]->id + 1);
    for (size_t i = 0; i < c->n_slots; i++) touch(m, MEM_SLOT, c->slots[i]->id);
    for (size_t i = 0; i < c->n_executors; i++) touch(m, MEM_EXECUTOR, c->executors[i]->id);
    for (size_t i = 0; i < c->n_archives; i++) touch(m, MEM_ARCHIVE, c->archives[i]->lane);
    for (size_t i = 0; i < c->n_tasks_new; i++) touch(m, MEM_TASK, c->tasks_new[i]->id);
    for (size_t i = 0; i < c->n_tasks_changed; i++) touch(m, MEM_TASK, c->tasks_changed[i]->id);
}

/* The answer of the commit is lost: after a reconnect the mark of this server says whether it is there. */
static bool landed(struct memport *port, struct err *err)
{
    port->n_looked++;
    if (port->rows->marks[port->index] == port->mark && !PLANT(mark_unlooked)) return true;
    return lost(port, err);
}

static bool shared_commit(struct store *store, const struct changes *c, struct err *err)
{
    struct memport *port = port_of(store);
    struct memstore *m = port->rows;
    enum mem_fault fault = port->fault;
    if (!port->in_turn) return lost(port, err);
    if (!changes_any(m, c)) {
        port->in_turn = false;
        return !port->real || port->real->ops->commit(port->real, c, err);
    }
    port->fault = MEM_OK;
    if (fault == MEM_FULL || fault == MEM_UNKNOWN_LOST) shared_rollback(store);
    if (fault == MEM_FULL) return err_set(err, ERR_disk_full, "simulated");
    if (fault == MEM_UNKNOWN_LOST) return err_set(err, ERR_outcome_unknown, "simulated");
    port->mark++;
    if (fault == MEM_CUT) return landed(port, err);
    ASSERT(c->head.commit == m->head.commit); /* nobody else has committed since the turn began */
    int64_t number = m->head.commit + 1;
    if (port->real && !port->real->ops->commit(port->real, c, err)) return false;
    if (port->real && port->real->commit != number) memstore_differs("the number of a commit");
    memstore_apply(m, c);
    m->head.commit = number;
    m->marks[port->index] = port->mark;
    duties_apply(m, c);
    rows_touch(m, c);
    if (fault == MEM_UNKNOWN_KEPT) return err_set(err, ERR_outcome_unknown, "simulated");
    if (fault == MEM_ANSWER_LOST && !landed(port, err)) return false;
    port->in_turn = false;
    store->commit = number;
    return true;
}

static bool shared_expect(struct store *store, const struct turn_needs *needs, struct err *err)
{
    (void)store, (void)needs, (void)err;
    return true;
}

#define TOUCHED_TAKE(m, arena, out, kind, map, list, since, copier) \
    do { \
        size_t cap_taken = 0; \
        MAP_EACH(&(m)->map, e) \
            if (memstore_touched((m), (kind), (int64_t)e->key) > (since)) \
                *ARENA_PUSH((arena), (out)->list, (out)->n_##list, cap_taken) = copier((arena), e->value); \
    } while (0)

bool memport_others(struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err)
{
    struct memport *port = port_of(store);
    const struct memstore *m = port->rows;
    *out = (struct others){ .next_time = INT64_MAX };
    if (memport_read_fails(store, err)) return false;
    size_t first = m->n_turns, cap = 0;
    while (first > 0 && m->turns[first - 1].turn > since->turn) first--;
    out->too_far = m->n_turns - first > port->turns_max;
    port->too_far |= out->too_far;
    if (out->too_far) return true;
    for (; first < m->n_turns; first++) {
        const struct turn_row *row = &m->turns[first];
        struct event *events;
        size_t n;
        ASSERT(unpack_events(row->events, row->first_seq, row->time, arena, &events, &n));
        for (size_t i = 0; i < n; i++) *ARENA_PUSH(arena, out->events, out->n_events, cap) = events[i];
    }
    TOUCHED_TAKE(m, arena, out, MEM_LANE, lanes, lanes, since->commit, lane_copy);
    TOUCHED_TAKE(m, arena, out, MEM_SLOT, slots, slots, since->commit, slot_copy);
    TOUCHED_TAKE(m, arena, out, MEM_EXECUTOR, executors, executors, since->commit, executor_dup);
    TOUCHED_TAKE(m, arena, out, MEM_ARCHIVE, archives, archives, since->commit, archive_copy);
    size_t cap_classes = 0;
    MAP_EACH(&m->classes, e)
        if ((int64_t)e->key >= since->next_class)
            *ARENA_PUSH(arena, out->classes, out->n_classes, cap_classes) = class_copy(arena, e->value);
    out->duties = ARENA_ARRAY(arena, struct duty, m->n_duties + 1);
    memcpy(out->duties, m->duties, m->n_duties * sizeof *m->duties);
    out->n_duties = m->n_duties;
    for (size_t i = 0; i < m->n_holds && out->next_time == INT64_MAX; i++) /* they are sorted */
        if (m->holds[i].kind == HOLD_time) out->next_time = m->holds[i].key;
    return true;
}

/* --- reads that may be the last of their connection -------------------------------------------------------------------------------- */

static bool shared_task(struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_task(store, arena, id, out, out_found, err);
}

static bool shared_edges(
    struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_edges(store, arena, id, by_pred, out, out_n, err);
}

static bool shared_ready(
    struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.ready_first(store, arena, class_id, n, out, out_n, err);
}

static bool shared_holds_due(
    struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.holds_due(store, arena, kind, key, n, out, out_n, err);
}

static bool shared_schedules(struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_schedules(store, arena, out, out_n, err);
}

static bool shared_lanes(struct store *store, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_lanes(store, arena, out, out_n, err);
}

void memport_open(struct memport *port, struct memstore *m, int index)
{
    static struct store_ops ops;
    ops = memstore_ops;
    ops.begin = shared_begin;
    ops.rollback = shared_rollback;
    ops.commit = shared_commit;
    ops.expect = shared_expect;
    ops.load_others = memport_others;
    ops.load_task = shared_task;
    ops.load_edges = shared_edges;
    ops.ready_first = shared_ready;
    ops.holds_due = shared_holds_due;
    ops.load_schedules = shared_schedules;
    ops.load_lanes = shared_lanes;
    *port = (struct memport){ .store = { .ops = &ops }, .rows = m, .index = index, .turns_max = 500 };
}
