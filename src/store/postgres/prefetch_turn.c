/* prefetch_turn: rows that a turn will need, read before it asks for them.
 *
 * The engine names the rows (struct turn_needs). They are read in the exchange that takes the lock, or in one exchange
 * within the turn, and kept until the turn ends. No other server commits until then, so they are the rows that a load
 * would return. Other rows are loaded one by one. A row that can't be decoded fails when it is read (ERR_corrupt). */
#include "store/postgres/postgres.h"
#include "store/row_copy.h"

struct prefetch_edges {
    struct edge *edges;
    size_t n;
    bool cut; /* there may be more */
};

void prefetch_forget(struct postgres_store *self)
{
    struct prefetch_turn *prefetch = &self->prefetch;
    struct map *maps[] = { &prefetch->tasks, &prefetch->edges, &prefetch->active_grants, &prefetch->ctids,
        &prefetch->archives, &prefetch->classes };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        map_clear(maps[i]);
    arena_reset(&prefetch->arena);
    prefetch->n_asked = 0;
    prefetch->classes_known = false;
    for (size_t i = 0; i < OTHERS_COUNT; i++) {
        PQclear(prefetch->others[i]);
        prefetch->others[i] = NULL;
    }
}

void prefetch_release(struct postgres_store *self)
{
    prefetch_forget(self);
    map_release(&self->prefetch.tasks);
    map_release(&self->prefetch.edges);
    map_release(&self->prefetch.active_grants);
    map_release(&self->prefetch.ctids);
    map_release(&self->prefetch.archives);
    map_release(&self->prefetch.classes);
    arena_release(&self->prefetch.arena);
}

/* --- answers --- */

void prefetch_task_put(struct postgres_store *self, const struct task *row)
{
    struct task *kept = ARENA_NEW(&self->prefetch.arena, struct task);
    *kept = *row;
    map_put(&self->prefetch.tasks, (uint64_t)row->id, kept);
}

bool prefetch_task(struct postgres_store *self, struct arena *arena, int64_t id, struct task *out)
{
    const struct task *row = map_find(&self->prefetch.tasks, (uint64_t)id);
    if (!row)
        return false;
    *out = *row;
    row_copy_task(arena, out);
    return true;
}

/* The caller changes what it gets: a copy. */
bool prefetch_edges_of(struct postgres_store *self, struct arena *arena, int64_t pred, int64_t after, size_t most,
    struct edge **out, size_t *out_n)
{
    const struct prefetch_edges *found = map_find(&self->prefetch.edges, (uint64_t)pred);
    size_t from = 0;
    while (found && from < found->n && found->edges[from].waiter <= after)
        from++;
    if (!found || (found->cut && found->n - from < most))
        return false;
    *out_n = found->n - from < most ? found->n - from : most;
    *out = *out_n ? ARENA_ARRAY(arena, struct edge, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++)
        (*out)[i] = found->edges[from + i];
    return true;
}

bool prefetch_active_grant(struct postgres_store *self, int64_t task, int64_t grant, struct attempt *out)
{
    const struct attempt *found = map_find(&self->prefetch.active_grants, (uint64_t)task);
    if (!found || found->grant != grant)
        return false;
    *out = *found;
    return true;
}

/* --- locks --- */

bool prefetch_archives_take(struct postgres_store *self, const PGresult *result, struct err *err)
{
    struct query q = pg_query(result);
    struct archive **rows;
    size_t n;
    if (!each_archive(&q, &self->prefetch.arena, &rows, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        map_put(&self->prefetch.archives, (uint64_t)rows[i]->lane, rows[i]);
    return true;
}

/* What comes lives until the turn is over. */
bool postgres_archive_lock(struct store *store, struct arena *arena, int64_t lane, struct archive *out, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    PGresult *result;
    (void)arena;
    const struct archive *row = map_find(&self->prefetch.archives, (uint64_t)lane);
    if (!row && (!writer_ask(self, SQL_archive_lock, PG_ARGS(NUM(lane)), &result, err) ||
                    !prefetch_archives_take(self, result, err)))
        return false;
    row = row ? row : map_find(&self->prefetch.archives, (uint64_t)lane);
    if (!row)
        return err_set(err, ERR_conflict, "archive %lld isn't there", (long long)lane);
    *out = *row;
    return true;
}

bool postgres_slot_lock(struct store *store, struct arena *arena, int64_t id, struct slot *out, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    struct query q;
    bool found;
    if (!ASK(&q, &store->sql, id > self->slot_last ? SQL_slot_lock_wait : SQL_slot_lock, err, NUM(id)) ||
        !get_slot(&q, arena, out, &found, err))
        return false;
    if (!found)
        return err_set(err, ERR_conflict, "slot %lld isn't there", (long long)id);
    if (id > self->slot_last)
        self->slot_last = id;
    return true;
}

/* --- asking --- */

static void ids_queue_most(struct pg *pg, enum sql_id id, const int64_t *ids, size_t n, int64_t most)
{
    struct pg_args args = { 0 };
    bulk_begin(&pg->bulk, "i");
    for (size_t i = 0; i < n; i++)
        bulk_i64(&pg->bulk, ids[i]);
    bool fits = bulk_args(&pg->bulk, &args); /* a turn's commands are far below its limit */
    ASSERT(fits);
    if (most)
        arg_i64(&args, most);
    pg_queue(pg, id, &args);
}

void ids_queue(struct pg *pg, enum sql_id id, const int64_t *ids, size_t n)
{
    ids_queue_most(pg, id, ids, n, 0);
}

/* How rows come: as they are; a narrow turn's locked, waited for as it begins and not later (0016). */
enum { PLAIN, WAITS, TAKES };

void prefetch_queue(struct postgres_store *self, const struct turn_needs *needs, bool begins)
{
    static const enum sql_id tasks[] = { SQL_tasks_ahead, SQL_tasks_ahead_lock, SQL_tasks_ahead_take };
    static const enum sql_id waiters[] = { SQL_waiters_ahead, SQL_waiters_ahead_lock, SQL_waiters_ahead_take };
    int how = !self->narrow ? PLAIN : begins ? WAITS : TAKES;
    struct pg *pg = &self->pg;
    int64_t most = needs->n_edges ? (int64_t)needs->n_edges : INT64_MAX;
    if (needs->n_numbers)
        pg_queue(pg, SQL_task_numbers, PG_ARGS(NUM(needs->n_numbers)));
    if (needs->since)
        others_queue(self, needs->since);
    if (needs->n_tasks)
        ids_queue(pg, tasks[how], needs->tasks, needs->n_tasks);
    if (needs->n_preds) {
        ids_queue_most(pg, SQL_edges_ahead, needs->preds, needs->n_preds, most);
        ids_queue_most(pg, waiters[how], needs->preds, needs->n_preds, most);
    }
    if (needs->n_grants)
        ids_queue(pg, SQL_lives_ahead, needs->grants, needs->n_grants);
}

static bool tasks_take(struct postgres_store *self, const PGresult *result, struct err *err)
{
    struct query q = pg_query(result);
    while (query_next(&q, err) == QUERY_ROW) {
        struct task row;
        if (map_find(&self->prefetch.tasks, (uint64_t)cell_i64(result, q.row, 0)))
            continue;
        if (!row_task(&q, &self->prefetch.arena, &row, err))
            return false;
        prefetch_task_put(self, &row);
    }
    return true;
}

/* Rows come by pred, as they were named: those of one stand together. One without rows is known to have none, unless
 * they end before it. */
static bool edges_take(
    struct postgres_store *self, const PGresult *result, const struct turn_needs *needs, struct err *err)
{
    struct prefetch_turn *prefetch = &self->prefetch;
    struct query q = pg_query(result);
    struct edge *edges;
    size_t n;
    if (!list_edge(&q, &prefetch->arena, &edges, &n, err))
        return false;
    struct prefetch_edges *by_pred = ARENA_ARRAY(&prefetch->arena, struct prefetch_edges, needs->n_preds);
    for (size_t i = 0; i < needs->n_preds; i++)
        map_put(&prefetch->edges, (uint64_t)needs->preds[i], &by_pred[i]);
    for (size_t i = 0; i < n; i++) {
        struct prefetch_edges *list = map_find(&prefetch->edges, (uint64_t)edges[i].pred);
        const struct edge *last = list->n ? &list->edges[list->n - 1] : NULL;
        if (last &&
            (last->waiter > edges[i].waiter || (last->waiter == edges[i].waiter && last->kind >= edges[i].kind)))
            continue; /* it was named twice */
        if (!list->n++)
            list->edges = &edges[i];
    }
    bool cut = false;
    for (size_t i = 0; needs->n_edges && n >= needs->n_edges && i < needs->n_preds; i++) {
        cut |= needs->preds[i] == edges[n - 1].pred;
        if (cut)
            ((struct prefetch_edges *)map_find(&prefetch->edges, (uint64_t)needs->preds[i]))->cut = true;
    }
    return true;
}

static bool active_grants_take(struct postgres_store *self, const PGresult *result, struct err *err)
{
    struct query q = pg_query(result);
    struct attempt *rows;
    size_t n;
    if (!list_live(&q, &self->prefetch.arena, &rows, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        map_put(&self->prefetch.active_grants, (uint64_t)rows[i].task, &rows[i]);
    return true;
}

/* Those that are below what the head counts were given before a wide turn, or a copy of a store: they aren't used. */
static void numbers_take(struct postgres_store *self, const PGresult *result, const struct turn_needs *needs)
{
    for (size_t i = 0; i < needs->n_numbers; i++)
        needs->numbers[i] = i < (size_t)PQntuples(result) ? cell_i64(result, (int)i, 0) : 0;
    if (needs->numbers[0] < self->head.next_task)
        needs->numbers[0] = 0;
}

bool prefetch_take(struct postgres_store *self, const struct turn_needs *needs, size_t first, struct err *err)
{
    struct pg *pg = &self->pg;
    if (needs->n_numbers)
        numbers_take(self, pg->results[first++], needs);
    if (needs->since)
        first = others_keep(self, needs->since, first);
    if (needs->n_tasks && !tasks_take(self, pg->results[first++], err))
        return false;
    if (needs->n_preds) {
        if (!edges_take(self, pg->results[first], needs, err) || !tasks_take(self, pg->results[first + 1], err))
            return false;
        first += 2;
    }
    return !needs->n_grants || active_grants_take(self, pg->results[first], err);
}

bool postgres_expect(struct store *store, const struct turn_needs *needs, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    if (!self->in_turn) {
        self->prefetch.needs = *needs;
        return true;
    }
    if (self->pg.lost)
        return err_set(err, ERR_unavailable, "the connection is lost");
    pg_clear(&self->pg);
    prefetch_queue(self, needs, false);
    return self->pg.n_queue == 0 || (pg_exchange(&self->pg, err) && prefetch_take(self, needs, 0, err));
}
