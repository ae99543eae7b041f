/* load: what the engine reads while it decides: single rows by key and 'the first N by rank'.
 *
 * Each is one round trip on the writer's connection. The rows are as of the last commit and live in the caller's arena.
 * A connection that is lost within a turn ends the turn; outside a turn each call reconnects once and asks again. */
#include "store/load.h"

#include "store/postgres/postgres.h"

enum { CLASSES_FEW = 8 };

bool writer_ask(
    struct postgres_store *self, enum sql_id id, const struct pg_args *args, PGresult **out, struct err *err)
{
    struct err why = { 0 };
    if (!self->pg.lost && pg_run(&self->pg, id, args, out, &why))
        return true;
    if (!self->pg.lost)
        return err_set(err, why.code, "%s", why.text);
    if (self->in_turn) /* what was read before isn't held any more */
        return err_set(err, ERR_unavailable, "%s", why.text[0] ? why.text : "the connection is lost");
    return writer_reopen(self, err) && pg_run(&self->pg, id, args, out, err);
}

static bool writer_ask_query(struct query *q, const struct arg *args, size_t n, struct err *err)
{
    PGresult *result;
    return writer_ask(q->on, q->id, pg_args_fill(&(struct pg_args){ 0 }, args, n), &result, err) &&
           pg_answer(q, result);
}

struct sql pg_writer_sql(struct postgres_store *self)
{
    return (struct sql){ .ops = &pg_query_ops, .ask = writer_ask_query, .on = self };
}

static bool load_head(struct store *store, struct store_head *out, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    if (!self->in_turn) {
        if (!ask_head(&store->sql, &self->head, NULL, err))
            return false;
        self->port.commit = self->head.commit;
    }
    *out = self->head;
    return true;
}

static bool load_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct query q;
    *out_found = prefetch_task(postgres_of(store), arena, id, out);
    return *out_found ||
           (ASK(&q, &store->sql, postgres_of(store)->narrow ? SQL_task_get_lock : SQL_task_get, err, NUM(id)) &&
               get_task(&q, arena, out, out_found, err));
}

static bool load_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    return (by_pred && prefetch_edges_of(postgres_of(store), arena, id, 0, SIZE_MAX, out, out_n)) ||
           sql_load_edges(store, arena, id, by_pred, out, out_n, err);
}

static bool load_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    return prefetch_edges_of(postgres_of(store), arena, id, after, n, out, out_n) ||
           sql_load_outs(store, arena, id, after, n, out, out_n, err);
}

static bool load_attempt(
    struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    *out_found = prefetch_active_grant(postgres_of(store), task, grant, out);
    return *out_found || sql_load_attempt(store, task, grant, out, out_found, err);
}

/* The row's cells after those of `ready`. A ready row without a task is ignored here; loading that task reports it. */
static bool ready_take(struct postgres_store *self, struct query *q, struct err *err)
{
    struct arena *arena = &self->prefetch.arena;
    struct task task;
    if (PQgetisnull(q->result, q->row, q->at) ||
        map_find(&self->prefetch.tasks, (uint64_t)cell_i64(q->result, q->row, q->at)))
        return true;
    if (!row_task(q, arena, &task, err))
        return false;
    prefetch_task_put(self, &task);
    ctid_claimed_put(self, task.id, q);
    return true;
}

/* Classes that were ever used stay, and an executor may fit all of them (those of every tenant): when a turn has asked
 * for a few, it is asked once which have anything pending, and not for the others. */
static bool class_is_empty(struct postgres_store *self, int64_t class_id, bool *out, struct err *err)
{
    struct prefetch_turn *prefetch = &self->prefetch;
    PGresult *result;
    bool known = false;
    *out = self->in_turn && ready_start_empty(self, class_id, &known);
    if (*out || known || !self->in_turn || ++prefetch->n_asked <= CLASSES_FEW)
        return true;
    if (!prefetch->classes_known) {
        if (!writer_ask(self, SQL_ready_classes, NULL, &result, err))
            return false;
        for (int i = 0; i < PQntuples(result); i++)
            map_put(&prefetch->classes, (uint64_t)cell_i64(result, i, 0), prefetch);
        prefetch->classes_known = true;
    }
    *out = !map_find(&prefetch->classes, (uint64_t)class_id);
    if (*out && ready_start_current(self))
        ready_start_none(self, class_id);
    return true;
}

static bool ready_first(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    struct pg_args args = { 0 };
    PGresult *result;
    bool crowded = self->in_turn && ready_start_current(self);
    if (prefetch_claim_take(self, class_id, (int64_t)n, &result)) {
        ready_start_learn(self, class_id, result);
    } else {
        bool empty;
        *out = NULL, *out_n = 0;
        if (!class_is_empty(self, class_id, &empty, err))
            return false;
        if (empty)
            return true;
        if (!(crowded ? ready_start_look(self, class_id, (int64_t)n, &result, err)
                      : writer_ask(self, self->narrow ? SQL_ready_tasks_lock : SQL_ready_tasks,
                            PG_ARGS(NUM(class_id), NUM(n)), &result, err)))
            return false;
    }
    *out_n = (size_t)PQntuples(result) < n ? (size_t)PQntuples(result) : n;
    if (*out_n == n)
        prefetch_claim_wish(self, class_id, (int64_t)n);
    *out = *out_n ? ARENA_ARRAY(arena, struct ready_row, *out_n) : NULL;
    for (int i = 0; i < (int)*out_n; i++) {
        struct query q = pg_query_row(result, i);
        (*out)[i].task = next_i64(&q);
        (*out)[i].prio = -next_i64(&q);
        (*out)[i].vt = next_i64(&q);
        if (!ready_take(self, &q, err))
            return false;
    }
    bool known;
    if (!self->narrow || *out_n == n || (crowded && ready_start_empty(self, class_id, &known)))
        return true;
    if (!writer_ask(self, ready_start_args(self, class_id, (int64_t)n, &args) ? SQL_ready_count_from : SQL_ready_count,
            &args, &result, err))
        return false;
    self->passed |= cell_i64(result, 0, 0) > (int64_t)*out_n;
    return true;
}

static bool ready_passed(struct store *store)
{
    return postgres_of(store)->passed;
}

/* Goes with the turn's commit. */
static bool idempotency_expire(struct store *store, int64_t now, size_t n_max, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    (void)err;
    self->expire_now = now;
    self->expire_max = (int64_t)n_max;
    return true;
}

static int64_t size_bytes(struct store *store)
{
    struct err ignored = { 0 };
    PGresult *result;
    return writer_ask(postgres_of(store), SQL_size, NULL, &result, &ignored) ? cell_i64(result, 0, 0) : 0;
}

static const struct store_shared_ops shared_ops = {
    .on_others = postgres_on_others,
    .load_others = postgres_load_others,
    .history_holds = postgres_history_holds,
    .expect = postgres_expect,
    .writable = postgres_writable,
    .archive_lock = postgres_archive_lock,
    .slot_lock = postgres_slot_lock,
    .ready_passed = ready_passed,
};

const struct store_ops postgres_ops = {
    SQL_LOADS(SQL_LOAD_MEMBER).shared = &shared_ops,
    .close = postgres_store_close,
    .begin = postgres_begin,
    .rollback = postgres_rollback,
    .commit = postgres_commit,
    .load_head = load_head,
    .load_task = load_task,
    .load_edges = load_edges,
    .load_outs = load_outs,
    .load_attempt = load_attempt,
    .ready_first = ready_first,
    .idempotency_expire = idempotency_expire,
    .size_bytes = size_bytes,
};
