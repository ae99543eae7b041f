/* memstore_shared: the store in memory as several servers have it. See memstore.h.
 *
 * There is one thread. A wide turn has the lock from begin to commit without a word; that nobody committed in between
 * is asserted. In the middle of a narrow one, at a read or before its commit, another server may take a turn
 * (`beside`): it passes over what the first has locked, and where the database would make it wait, it is told that it
 * waited for too long. A port whose connection is lost in a turn answers ERR_unavailable until the turn is over, as the
 * driver of PostgreSQL does. */
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

static void turn_over(struct memport *port)
{
    port->in_turn = port->narrow = port->passed = false;
    port->aside = 0;
    map_clear(&port->locks);
}

static bool lost(struct memport *port, struct err *err)
{
    if (port->real)
        port->real->ops->rollback(port->real);
    turn_over(port);
    port->n_cut++;
    return err_set(err, ERR_unavailable, "simulated: the connection is lost");
}

/* Another server's turn, if it is time for it. */
static void beside(struct memport *port)
{
    if (port->narrow && port->aside && --port->aside == 0 && port->rows->beside)
        port->rows->beside(port);
}

static bool locked_elsewhere(const struct memport *port, enum mem_kind kind, int64_t id)
{
    for (size_t i = 0; i < MEM_SERVERS_MAX; i++) {
        const struct memport *other = port->rows->ports[i];
        if (other && other != port && other->in_turn && map_find(&other->locks, MEM_KEY(kind, id)))
            return true;
    }
    return false;
}

static bool lock_row(struct memport *port, enum mem_kind kind, int64_t id, struct err *err)
{
    if (!port->narrow)
        return true;
    if (locked_elsewhere(port, kind, id))
        return err_set(err, ERR_conflict, "simulated: another turn has it");
    map_put(&port->locks, MEM_KEY(kind, id), port);
    return true;
}

/* As the sequence there: numbers are given for good, whatever becomes of the turn. */
static void numbers_give(struct memstore *m, const struct turn_needs *needs)
{
    for (size_t i = 0; i < needs->n_numbers; i++)
        needs->numbers[i] = ++m->numbers;
    if (needs->n_numbers && needs->numbers[0] < m->head.next_task)
        needs->numbers[0] = 0;
}

/* A read of the turn: true: the connection is lost with it. */
bool memport_read_fails(struct store *store, struct err *err)
{
    struct memport *port = port_of(store);
    beside(port);
    if (port->reads_left == 0 || --port->reads_left > 0)
        return false;
    lost(port, err);
    return true;
}

static bool shared_begin(struct store *store, struct err *err)
{
    struct memport *port = port_of(store);
    if (port->away)
        return lost(port, err);
    for (size_t i = 0; i < MEM_SERVERS_MAX && !port->expects.narrow; i++)
        if (port->rows->ports[i] && port->rows->ports[i] != port && port->rows->ports[i]->in_turn)
            return lost(port, err); /* the turn's lock isn't got in time */
    if (port->real && !port->real->ops->begin(port->real, err))
        return false;
    port->in_turn = true;
    port->narrow = port->expects.narrow;
    numbers_give(port->rows, &port->expects);
    port->expects = (struct turn_needs){ 0 };
    store->narrows = true;
    store->commit = port->rows->head.commit;
    return true;
}

static void shared_rollback(struct store *store)
{
    struct memport *port = port_of(store);
    turn_over(port);
    if (port->real)
        port->real->ops->rollback(port->real);
}

/* As head_same and the queue of statements say it there: a turn that changes nothing isn't committed. */
static bool changes_any(const struct memstore *m, const struct changes *c)
{
    struct store_head a = c->head, b = m->head;
    if (c->shared.narrow)
        a = b;
    a.commit = b.commit;
    memcpy(a.hash, b.hash, sizeof a.hash);
    a.time = b.time;
    size_t rows = c->classes_remove.n + c->lanes.n + c->classes.n + c->specs.n + c->slots.n + c->tasks_new.n +
                  c->tasks_changed.n + c->ready_add.n + c->ready_remove.n + c->edges_new.n + c->edges_changed.n +
                  c->holds_add.n + c->holds_remove.n + c->attempts_new.n + c->attempts_changed.n +
                  c->attempts_remove.n + c->outputs.n + c->unique_add.n + c->unique_remove.n + c->idempotency.n +
                  c->executors.n + c->shared.counts.n + c->tokens.n + c->tokens_remove.n + c->slots_remove.n +
                  c->executors_remove.n + c->site.n + c->archives.n + c->revisions.n + c->latest.n + c->schedules.n +
                  c->schedules_remove.n + c->changesets.rows.n + c->changesets.files_add.n +
                  c->changesets.files_remove.n + c->shared.duties.n + c->shared.notes.n + c->results_remove.n;
    return rows > 0 || c->shared.server || c->clock || c->history.events.len > 0 || memcmp(&a, &b, sizeof a) != 0;
}

static void duties_apply(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->shared.duties.n; i++) {
        size_t at = 0;
        while (at < m->n_duties && !str_eq(m->duties[at].name, c->shared.duties.at[i].name))
            at++;
        ASSERT(at < MEM_DUTIES_MAX);
        if (at == m->n_duties)
            m->n_duties++;
        m->duties[at] = c->shared.duties.at[i];
        m->duties[at].name = str_dup(&m->arena, c->shared.duties.at[i].name);
        m->duties[at].holder = str_dup(&m->arena, c->shared.duties.at[i].holder);
    }
}

static void rows_touch(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->lanes.n; i++)
        touch(m, MEM_LANE, c->lanes.at[i]->id + 1);
    for (size_t i = 0; i < c->slots.n; i++)
        touch(m, MEM_SLOT, c->slots.at[i]->id);
    for (size_t i = 0; i < c->executors.n; i++)
        touch(m, MEM_EXECUTOR, c->executors.at[i]->id);
    for (size_t i = 0; i < c->archives.n; i++)
        touch(m, MEM_ARCHIVE, c->archives.at[i]->lane);
    for (size_t i = 0; i < c->tasks_new.n; i++)
        touch(m, MEM_TASK, c->tasks_new.at[i]->id);
    for (size_t i = 0; i < c->tasks_changed.n; i++)
        touch(m, MEM_TASK, c->tasks_changed.at[i]->id);
}

/* The answer of the commit is lost: after a reconnect the mark of this server says whether it is there. */
static bool landed(struct memport *port, struct err *err)
{
    port->n_looked++;
    if (port->rows->marks[port->index] == port->mark && !PLANT(mark_unlooked))
        return true;
    return lost(port, err);
}

/* What a narrow turn adds, as rows: see struct changes. */
static struct changes narrow_rows(struct memport *port, const struct changes *c)
{
    struct memstore *m = port->rows;
    struct changes full = *c;
    const struct lane **lanes = ARENA_ARRAY(&m->arena, const struct lane *, c->lanes.n + 1);
    for (size_t i = 0; i < c->lanes.n; i++) {
        const struct lane *is = c->lanes.at[i], *was = c->shared.lanes_was[i];
        struct lane *row = lane_copy(&m->arena, map_find(&m->lanes, (uint64_t)is->id + 1));
        row->last_vt += is->last_vt - was->last_vt;
        if (is->last_vt > row->last_vt)
            row->last_vt = is->last_vt;
        for (int k = 0; k < STATE_COUNT; k++)
            row->counts[k] += is->counts[k] - was->counts[k];
        row->log_bytes += is->log_bytes - was->log_bytes;
        row->file_bytes += is->file_bytes - was->file_bytes;
        lanes[i] = row;
    }
    full.lanes.at = lanes;
    full.head = m->head;
    full.head.seq += c->head.seq - (c->history.first_seq - 1);
    if (c->head.next_task > full.head.next_task)
        full.head.next_task = c->head.next_task;
    if (c->head.v_now > full.head.v_now)
        full.head.v_now = c->head.v_now;
    full.history.first_seq = m->head.seq + 1;
    if (c->history.time < m->head.time && m->head.time - c->history.time <= STAMP_BACK_MAX_MS)
        full.history.time = m->head.time;
    if (c->history.events.len)
        full.head.time = full.history.time;
    return full;
}

/* Counters of executors are added to, whatever the rows say. */
static void counts_apply(struct memstore *m, const struct changes *c, const struct executor *before, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct executor *row = map_find(&m->executors, (uint64_t)before[i].id);
        row->processed = before[i].processed;
        row->failed = before[i].failed;
    }
    for (size_t i = 0; i < c->shared.counts.n; i++) {
        struct executor *row = map_find(&m->executors, (uint64_t)c->shared.counts.at[i].executor);
        row->processed += c->shared.counts.at[i].processed;
        row->failed += c->shared.counts.at[i].failed;
    }
}

/* A narrow turn adds keys, and replaces none. */
static bool keys_met(struct memstore *m, const struct changes *c)
{
    bool met = false;
    for (size_t i = 0; i < c->unique_add.n && !met; i++) {
        const struct unique_claim *claim = &c->unique_add.at[i];
        int64_t holder = memstore_unique(m, claim->tenant, claim->key);
        met = holder != 0;
        /* given up in this turn */
        for (size_t k = 0; k < c->unique_remove.n && met; k++)
            met = c->unique_remove.at[k].task != holder;
    }
    for (size_t i = 0; i < c->idempotency.n && !met; i++)
        met = memstore_idempotency(m, &c->idempotency.at[i]) != NULL;
    return met;
}

static bool shared_commit(struct store *store, const struct changes *c, struct err *err)
{
    struct memport *port = port_of(store);
    struct memstore *m = port->rows;
    struct changes full;
    enum mem_fault fault = port->fault;
    if (!port->in_turn)
        return lost(port, err);
    if (!changes_any(m, c)) {
        turn_over(port);
        return !port->real || port->real->ops->commit(port->real, c, err);
    }
    port->aside = port->aside ? 1 : 0;
    beside(port);
    if (c->shared.narrow && keys_met(m, c)) {
        shared_rollback(store);
        return err_set(err, ERR_conflict, "simulated: a key that another turn has written");
    }
    if (c->shared.narrow)
        full = narrow_rows(port, c), c = &full;
    if (c->shared.numbers)
        m->numbers = c->head.next_task - 1;
    port->fault = MEM_OK;
    if (fault == MEM_FULL || fault == MEM_UNKNOWN_LOST)
        shared_rollback(store);
    if (fault == MEM_FULL)
        return err_set(err, ERR_disk_full, "simulated");
    if (fault == MEM_UNKNOWN_LOST)
        return err_set(err, ERR_outcome_unknown, "simulated");
    port->mark++;
    if (fault == MEM_CUT)
        return landed(port, err);
    ASSERT(c->head.commit == m->head.commit); /* nobody else has committed since the turn began */
    int64_t number = m->head.commit + 1;
    struct executor *before = ARENA_ARRAY(&m->arena, struct executor, c->executors.n + 1);
    size_t n_before = 0;
    for (size_t i = 0; i < c->executors.n; i++) {
        const struct executor *row = map_find(&m->executors, (uint64_t)c->executors.at[i]->id);
        if (row)
            before[n_before++] = *row;
    }
    if (port->real && !port->real->ops->commit(port->real, c, err))
        return false;
    if (port->real && port->real->commit != number)
        memstore_differs("the number of a commit");
    memstore_apply(m, c);
    counts_apply(m, c, before, n_before);
    m->head.commit = number;
    if (c->out_head)
        *c->out_head = m->head;
    m->marks[port->index] = port->mark;
    duties_apply(m, c);
    rows_touch(m, c);
    if (fault == MEM_UNKNOWN_KEPT)
        return err_set(err, ERR_outcome_unknown, "simulated");
    if (fault == MEM_ANSWER_LOST && !landed(port, err))
        return false;
    turn_over(port);
    store->commit = number;
    return true;
}

static bool shared_expect(struct store *store, const struct turn_needs *needs, struct err *err)
{
    struct memport *port = port_of(store);
    if (!port->in_turn) {
        port->expects = *needs;
        return true;
    }
    numbers_give(port->rows, needs);
    for (size_t i = 0; i < needs->n_tasks; i++)
        if (!lock_row(port, MEM_TASK, needs->tasks[i], err))
            return false;
    return true;
}

static bool shared_archive_lock(
    struct store *store, struct arena *arena, int64_t lane, struct archive *out, struct err *err)
{
    struct memport *port = port_of(store);
    if (memport_read_fails(store, err) || !lock_row(port, MEM_ARCHIVE, lane, err))
        return false;
    *out = *archive_copy(arena, map_find(&port->rows->archives, (uint64_t)lane));
    return true;
}

static bool shared_slot_lock(struct store *store, struct arena *arena, int64_t id, struct slot *out, struct err *err)
{
    struct memport *port = port_of(store);
    if (memport_read_fails(store, err) || !lock_row(port, MEM_SLOT, id, err))
        return false;
    const struct slot *row = map_find(&port->rows->slots, (uint64_t)id);
    if (!row)
        return err_set(err, ERR_conflict, "slot %lld isn't there", (long long)id);
    *out = *slot_copy(arena, row);
    return true;
}

static bool shared_passed(struct store *store)
{
    return port_of(store)->passed;
}

#define TOUCHED_TAKE(m, arena, out, kind, map, list, since, copier) \
    do { \
        size_t cap_taken = 0; \
        MAP_EACH(&(m)->map, e) \
            if (memstore_touched((m), (kind), (int64_t)e->key) > (since)) \
                *ARENA_PUSH((arena), (out)->list, (out)->n_##list, cap_taken) = copier((arena), e->value); \
    } while (0)

bool memport_others(
    struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err)
{
    struct memport *port = port_of(store);
    const struct memstore *m = port->rows;
    *out = (struct others){ .next_time = INT64_MAX };
    if (memport_read_fails(store, err))
        return false;
    size_t first = m->n_turns, cap = 0;
    while (first > 0 && m->turns[first - 1].first_seq > since->seq)
        first--;
    out->too_far = m->n_turns - first > port->turns_max;
    port->too_far |= out->too_far;
    if (out->too_far)
        return true;
    for (; first < m->n_turns; first++) {
        const struct turn_row *row = &m->turns[first];
        struct event *events;
        size_t n;
        ASSERT(unpack_events(row->events, row->first_seq, row->time, arena, &events, &n));
        for (size_t i = 0; i < n; i++)
            *ARENA_PUSH(arena, out->events, out->n_events, cap) = events[i];
    }
    TOUCHED_TAKE(m, arena, out, MEM_LANE, lanes, lanes, since->commit, lane_copy);
    TOUCHED_TAKE(m, arena, out, MEM_SLOT, slots, slots, since->commit, slot_copy);
    TOUCHED_TAKE(m, arena, out, MEM_EXECUTOR, executors, executors, since->commit, executor_dup);
    TOUCHED_TAKE(m, arena, out, MEM_ARCHIVE, archives, archives, since->commit, archive_copy);
    size_t cap_classes = 0;
    MAP_EACH (&m->classes, e)
        if ((int64_t)e->key >= since->next_class)
            *ARENA_PUSH(arena, out->classes, out->n_classes, cap_classes) = class_copy(arena, e->value);
    out->duties = ARENA_ARRAY(arena, struct duty, m->n_duties + 1);
    memcpy(out->duties, m->duties, m->n_duties * sizeof *m->duties);
    out->n_duties = m->n_duties;
    for (size_t i = 0; i < m->n_holds && out->next_time == INT64_MAX; i++) /* they are sorted */
        if (m->holds[i].kind == HOLD_time)
            out->next_time = m->holds[i].key;
    return true;
}

/* --- reads that may be the last of their connection --- */

static bool shared_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return !memport_read_fails(store, err) && lock_row(port_of(store), MEM_TASK, id, err) &&
           memstore_ops.load_task(store, arena, id, out, out_found, err);
}

static bool shared_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_edges(store, arena, id, by_pred, out, out_n, err);
}

static bool shared_others_outs(struct store *store, struct arena *arena, int64_t id, enum edge_kind but,
    struct edge **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_others_outs(store, arena, id, but, out, out_n, err);
}

static bool shared_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n,
    struct edge **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_outs(store, arena, id, after, n, out, out_n, err);
}

static bool shared_ready(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    struct memport *port = port_of(store);
    struct ready_row *rows;
    size_t found, cap = 0;
    if (memport_read_fails(store, err))
        return false;
    if (!port->narrow)
        return memstore_ops.ready_first(store, arena, class_id, n, out, out_n, err);
    if (!memstore_ops.ready_first(store, arena, class_id, SIZE_MAX / 2, &rows, &found, err))
        return false;
    *out = NULL;
    *out_n = 0;
    for (size_t i = 0; i < found && *out_n < n; i++) {
        if (locked_elsewhere(port, MEM_TASK, rows[i].task)) {
            port->passed = true;
            continue;
        }
        map_put(&port->locks, MEM_KEY(MEM_TASK, rows[i].task), port);
        *ARENA_PUSH(arena, *out, *out_n, cap) = rows[i];
    }
    return true;
}

static bool shared_holds_due(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.holds_due(store, arena, kind, key, n, out, out_n, err);
}

static bool shared_schedules(
    struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_schedules(store, arena, out, out_n, err);
}

static bool shared_lanes(struct store *store, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err)
{
    return !memport_read_fails(store, err) && memstore_ops.load_lanes(store, arena, out, out_n, err);
}

void memport_open(struct memport *port, struct memstore *m, int index)
{
    static const struct store_shared_ops shared = {
        .expect = shared_expect,
        .load_others = memport_others,
        .ready_passed = shared_passed,
        .archive_lock = shared_archive_lock,
        .slot_lock = shared_slot_lock,
    };
    static struct store_ops ops;
    ops = memstore_ops;
    ops.shared = &shared;
    ops.begin = shared_begin;
    ops.rollback = shared_rollback;
    ops.commit = shared_commit;
    ops.load_task = shared_task;
    ops.load_edges = shared_edges;
    ops.load_outs = shared_outs;
    ops.load_others_outs = shared_others_outs;
    ops.ready_first = shared_ready;
    ops.holds_due = shared_holds_due;
    ops.load_schedules = shared_schedules;
    ops.load_lanes = shared_lanes;
    map_release(&port->locks);
    *port = (struct memport){ .store = { .ops = &ops }, .rows = m, .index = index, .turns_max = 500 };
    m->ports[index] = port;
}
