/* load: what the engine reads while it decides: single rows by key and 'the first N by rank'.
 *
 * Each is one round trip on the writer's connection. What is returned is as of the last commit and lives in the
 * caller's arena. A connection that is lost within a turn ends the turn; else it is made anew, once per call, and the
 * question asked again. */
#include "store/damage.h"
#include "store/postgres/archives.h"
#include "store/postgres/postgres.h"

enum { CLASSES_FEW = 8 };

bool writer_ask(struct postgres_store *self, enum pg_id id, const struct pg_args *args, PGresult **out, struct err *err)
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

static bool load_head(struct store *store, struct store_head *out, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    PGresult *result;
    if (!self->in_turn) {
        if (!writer_ask(self, PG_head_get, NULL, &result, err) || !pg_row_head(result, &self->head, NULL, err))
            return false;
        self->port.commit = self->head.commit;
    }
    *out = self->head;
    return true;
}

#define LOAD_ALL(function, rows, statement, type) \
    static bool function(struct store *store, struct arena *arena, type ***out, size_t *out_n, struct err *err) \
    { \
        PGresult *result; \
        return writer_ask(postgres_of(store), statement, NULL, &result, err) && rows(result, arena, out, out_n, err); \
    }
LOAD_ALL(load_lanes, pg_rows_lanes, PG_lanes, struct lane)
LOAD_ALL(load_classes, pg_rows_classes, PG_classes, struct task_class)
LOAD_ALL(load_slots, pg_rows_slots, PG_slots, struct slot)
LOAD_ALL(load_executors, pg_rows_executors, PG_executors, struct executor)

static bool load_tokens(struct store *store, struct arena *arena, int64_t after, size_t most, struct token ***out,
    size_t *out_n, struct err *err)
{
    PGresult *result;
    struct pg_args args = { 0 };
    arg_i64(&args, after);
    arg_i64(&args, most < INT64_MAX ? (int64_t)most : INT64_MAX);
    return writer_ask(postgres_of(store), PG_tokens_after, &args, &result, err) &&
           pg_rows_tokens(result, arena, out, out_n, err);
}

static bool load_site(struct store *store, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return writer_ask(postgres_of(store), PG_site, NULL, &result, err) && pg_rows_site(result, arena, out, out_n, err);
}

static bool load_active_grants(
    struct store *store, struct arena *arena, struct attempt **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return writer_ask(postgres_of(store), PG_lives, NULL, &result, err) &&
           pg_rows_lives(result, arena, out, out_n, err);
}

static bool load_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    *out_found = prefetch_task(postgres_of(store), arena, id, out);
    if (*out_found)
        return true;
    arg_i64(&args, id);
    return writer_ask(
               postgres_of(store), postgres_of(store)->narrow ? PG_task_get_lock : PG_task_get, &args, &result, err) &&
           pg_rows_get_task(result, arena, out, out_found, err);
}

static bool ask_edges(struct store *store, struct arena *arena, enum pg_id id, const struct pg_args *args,
    struct edge **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return writer_ask(postgres_of(store), id, args, &result, err) && pg_rows_edges(result, arena, out, out_n, err);
}

static bool load_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    if (by_pred && prefetch_edges_of(postgres_of(store), arena, id, 0, SIZE_MAX, out, out_n))
        return true;
    arg_i64(&args, id);
    return ask_edges(store, arena, by_pred ? PG_edges_by_pred : PG_edges_by_waiter, &args, out, out_n, err);
}

static bool load_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    if (prefetch_edges_of(postgres_of(store), arena, id, after, n, out, out_n))
        return true;
    arg_i64(&args, id);
    arg_i64(&args, after);
    arg_i64(&args, (int64_t)n);
    return ask_edges(store, arena, PG_outs_after, &args, out, out_n, err);
}

static bool load_others_outs(struct store *store, struct arena *arena, int64_t id, enum edge_kind but,
    struct edge **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    arg_i64(&args, id);
    arg_i64(&args, but);
    return ask_edges(store, arena, PG_outs_others, &args, out, out_n, err);
}

static bool load_spec(struct store *store, struct arena *arena, int64_t id, struct spec *out, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    bool found;
    arg_i64(&args, id);
    return writer_ask(postgres_of(store), PG_spec_get, &args, &result, err) &&
           pg_rows_get_spec(result, arena, out, &found, err) &&
           (found || damage_set(err, "spec %lld is missing", (long long)id));
}

static bool load_attempt(
    struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    arg_i64(&args, grant);
    *out_found = prefetch_active_grant(postgres_of(store), task, grant, out);
    if (*out_found)
        return true;
    if (!writer_ask(postgres_of(store), PG_live_get, &args, &result, err) ||
        !pg_rows_get_live(result, NULL, out, out_found, err))
        return false;
    return *out_found || (writer_ask(postgres_of(store), PG_attempt_get, &args, &result, err) &&
                             pg_rows_get_attempt(result, NULL, out, out_found, err));
}

static bool load_outputs(struct store *store, struct arena *arena, int64_t task, struct str *out_json, struct err *err)
{
    struct task_outputs row = { 0 };
    struct pg_args args = { 0 };
    PGresult *result;
    bool found;
    arg_i64(&args, task);
    if (!writer_ask(postgres_of(store), PG_outputs_get, &args, &result, err) ||
        !pg_rows_get_outputs(result, arena, &row, &found, err))
        return false;
    *out_json = row.json;
    return true;
}

static bool load_log_seal(
    struct store *store, int64_t task, int64_t grant, struct log_seal *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    arg_i64(&args, grant);
    return writer_ask(postgres_of(store), PG_log_seal_get, &args, &result, err) &&
           pg_rows_get_log_seal(result, NULL, out, out_found, err);
}

/* The row's cells behind those of `ready`. A ready row without a task is left for whoever loads that task to complain
 * about. */
static bool ready_take(struct postgres_store *self, struct cells *c, struct err *err)
{
    struct arena *arena = &self->prefetch.arena;
    struct task task;
    if (PQgetisnull(c->result, c->row, c->at) ||
        map_find(&self->prefetch.tasks, (uint64_t)cell_i64(c->result, c->row, c->at)))
        return true;
    if (!pg_row_task(c, arena, &task, err))
        return false;
    prefetch_task_put(self, &task);
    struct ready_ctid *ctid = ARENA_NEW(arena, struct ready_ctid);
    (void)row_bytes(next_view(c), ctid->ready, sizeof ctid->ready);
    (void)row_bytes(next_view(c), ctid->task, sizeof ctid->task);
    map_put(&self->prefetch.ctids, (uint64_t)task.id, ctid);
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
        if (!writer_ask(self, PG_ready_classes, NULL, &result, err))
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
        arg_i64(&args, class_id);
        arg_i64(&args, (int64_t)n);
        if (!(crowded ? ready_start_look(self, class_id, (int64_t)n, &result, err)
                      : writer_ask(self, self->narrow ? PG_ready_tasks_lock : PG_ready_tasks, &args, &result, err)))
            return false;
    }
    *out_n = (size_t)PQntuples(result) < n ? (size_t)PQntuples(result) : n;
    if (*out_n == n)
        prefetch_claim_wish(self, class_id, (int64_t)n);
    *out = *out_n ? ARENA_ARRAY(arena, struct ready_row, *out_n) : NULL;
    for (int i = 0; i < (int)*out_n; i++) {
        struct cells c = cells_of(result, i);
        (*out)[i].task = next_i64(&c);
        (*out)[i].prio = -next_i64(&c);
        (*out)[i].vt = next_i64(&c);
        if (!ready_take(self, &c, err))
            return false;
    }
    bool known;
    if (!self->narrow || *out_n == n || (crowded && ready_start_empty(self, class_id, &known)))
        return true;
    args = (struct pg_args){ 0 };
    if (!writer_ask(self, ready_start_args(self, class_id, (int64_t)n, &args) ? PG_ready_count_from : PG_ready_count,
            &args, &result, err))
        return false;
    self->passed |= cell_i64(result, 0, 0) > (int64_t)*out_n;
    return true;
}

static bool ready_passed(struct store *store)
{
    return postgres_of(store)->passed;
}

static bool holds_due(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key_max, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, kind);
    arg_i64(&args, key_max);
    arg_i64(&args, (int64_t)n);
    return writer_ask(postgres_of(store), PG_holds_due, &args, &result, err) &&
           pg_rows_holds(result, arena, out, out_n, err);
}

static bool holds_of(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, kind);
    arg_i64(&args, key);
    arg_i64(&args, (int64_t)n);
    return writer_ask(postgres_of(store), PG_holds_of, &args, &result, err) &&
           pg_rows_holds(result, arena, out, out_n, err);
}

static bool holds_after(struct store *store, struct arena *arena, enum hold_kind kind, const struct hold *after,
    size_t n, struct hold **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, kind);
    arg_i64(&args, after->key);
    arg_i64(&args, after->rank);
    arg_i64(&args, after->task);
    arg_i64(&args, (int64_t)n);
    return writer_ask(postgres_of(store), PG_holds_after, &args, &result, err) &&
           pg_rows_holds(result, arena, out, out_n, err);
}

static bool holds_of_task(
    struct store *store, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    return writer_ask(postgres_of(store), PG_holds_of_task, &args, &result, err) &&
           pg_rows_holds(result, arena, out, out_n, err);
}

static bool unique_find(struct store *store, struct str tenant, struct str key, int64_t *out_task, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, tenant);
    arg_text(&args, key);
    if (!writer_ask(postgres_of(store), PG_unique_get, &args, &result, err))
        return false;
    *out_task = PQntuples(result) > 0 ? cell_i64(result, 0, 0) : 0;
    return true;
}

static bool idempotency_find(struct store *store, struct arena *arena, struct str tenant, struct str token,
    struct str route, struct str key, struct idempotency *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, tenant);
    arg_text(&args, token);
    arg_text(&args, route);
    arg_text(&args, key);
    return writer_ask(postgres_of(store), PG_idempotency_get, &args, &result, err) &&
           pg_rows_get_idempotency(result, arena, out, out_found, err);
}

static bool load_clock(struct store *store, struct wall_known *out, struct err *err)
{
    PGresult *result;
    bool found;
    *out = (struct wall_known){ 0 };
    return writer_ask(postgres_of(store), PG_clock_get, NULL, &result, err) &&
           pg_rows_get_clock(result, NULL, out, &found, err);
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
    return writer_ask(postgres_of(store), PG_size, NULL, &result, &ignored) ? cell_i64(result, 0, 0) : 0;
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
    .shared = &shared_ops,
    .close = postgres_store_close,
    .begin = postgres_begin,
    .rollback = postgres_rollback,
    .commit = postgres_commit,
    .load_head = load_head,
    .load_lanes = load_lanes,
    .load_classes = load_classes,
    .load_slots = load_slots,
    .load_executors = load_executors,
    .load_tokens = load_tokens,
    .load_site = load_site,
    .load_clock = load_clock,
    .load_active_grants = load_active_grants,
    .load_task = load_task,
    .load_edges = load_edges,
    .load_outs = load_outs,
    .load_others_outs = load_others_outs,
    .load_spec = load_spec,
    .load_attempt = load_attempt,
    .load_outputs = load_outputs,
    .load_log_seal = load_log_seal,
    .ready_first = ready_first,
    .holds_due = holds_due,
    .holds_of = holds_of,
    .holds_after = holds_after,
    .holds_of_task = holds_of_task,
    .unique_find = unique_find,
    .idempotency_find = idempotency_find,
    .idempotency_expire = idempotency_expire,
    .load_archives = postgres_load_archives,
    .load_schedules = postgres_load_schedules,
    .load_revision = postgres_load_revision,
    .revision_of_ident = postgres_revision_of_ident,
    .latest_find = postgres_latest_find,
    .task_upto = postgres_task_upto,
    .task_find = postgres_task_find,
    .tasks_open = postgres_tasks_open,
    .tasks_after = postgres_tasks_after,
    .size_bytes = size_bytes,
};
