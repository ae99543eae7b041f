/* row_ctids: the physical places (ctid) of rows that a turn has read to claim them, and of those that every turn
 * updates. See row_ctids.sql.
 *
 * Rows of `task` and `ready` that a turn has read to claim them are written by their ctid, without a look through an
 * index: 8.5 % of the rate of row 11's drain (21 rounds in turns with a server that wrote them by their keys).
 *
 * Rows that every turn updates (head, mark, lanes, executors) are looked up by their keys, which clears a page of old
 * versions on the way, until the head's own place says that they can't be cleared away (it is on another page again and
 * again): then each turn pays for a few looks by place instead of for all versions since somebody opened a snapshot. A
 * look by place clears nothing, so the head's page is walked too (head_clear): when the snapshot is gone the head stays
 * where it is, and keys are used again. A place is a hint, and whatever is learned here is checked by the statement
 * that uses it. One that lies behind the end of its table (VACUUM has cut it) makes the statement fail: then all is
 * forgotten, and the turn taken again. */
#include <arpa/inet.h>
#include <string.h>

#include "store/postgres/postgres.h"

/* A page has 30 to 40 versions of the head: who takes a new one so often never finds room on the old one. */
enum { CROWDED_COMMITS = 256, CROWDED_PER_PAGE = 64, CTIDS_MAX = 256 };

struct row_ctid {
    char at[CTID_BYTES];
};

static const enum sql_id all_ctids[CTIDS_COUNT] = { SQL_lane_ctids, SQL_executor_ctids };

void ctids_forget(struct postgres_store *self)
{
    struct row_ctids *ctids = &self->ctids;
    for (size_t i = 0; i < CTIDS_COUNT; i++)
        map_clear(&ctids->rows[i].map);
    for (size_t i = 0; i < CTIDS_COUNT; i++)
        ctids->rows[i].known = ctids->rows[i].many = false;
    ctids->head_known = ctids->mark_known = ctids->crowded = false;
    arena_reset(&ctids->arena);
    ready_start_forget(self);
}

void ctids_release(struct postgres_store *self)
{
    for (size_t i = 0; i < CTIDS_COUNT; i++)
        map_release(&self->ctids.rows[i].map);
    arena_release(&self->ctids.arena);
}

static bool cell_ctid(const PGresult *result, int row, int column, char out[CTID_BYTES])
{
    struct str view = cell_view(result, row, column);
    if (view.len != CTID_BYTES)
        return false;
    memcpy(out, view.ptr, CTID_BYTES);
    return true;
}

void arg_ctid(struct pg_args *args, const char *ctid, bool known)
{
    if (known)
        arg_bytes(args, ctid, CTID_BYTES);
    else
        arg_null(args);
}

const char *ctid_of_row(const struct postgres_store *self, enum ctids_of what, int64_t id)
{
    const struct row_ctid *ctid = self->ctids.crowded ? map_find(&self->ctids.rows[what].map, (uint64_t)id) : NULL;
    return ctid ? ctid->at : NULL;
}

void ctid_claimed_put(struct postgres_store *self, int64_t task, struct query *q)
{
    struct ready_ctid *ctid = ARENA_NEW(&self->prefetch.arena, struct ready_ctid);
    (void)row_bytes(next_view(q), ctid->ready, sizeof ctid->ready);
    (void)row_bytes(next_view(q), ctid->task, sizeof ctid->task);
    map_put(&self->prefetch.ctids, (uint64_t)task, ctid);
}

const struct ready_ctid *ctid_of_claimed(const struct postgres_store *self, int64_t task)
{
    return map_find(&self->prefetch.ctids, (uint64_t)task);
}

static uint32_t ctid_page(const char ctid[CTID_BYTES])
{
    uint32_t page;
    memcpy(&page, ctid, sizeof page);
    return ntohl(page);
}

static void page_first(uint32_t page, char out[CTID_BYTES])
{
    page = htonl(page);
    memset(out, 0, CTID_BYTES);
    memcpy(out, &page, sizeof page);
}

size_t ctids_head_queue(struct postgres_store *self)
{
    struct row_ctids *ctids = &self->ctids;
    struct pg_args at = { 0 }, page = { 0 };
    char from[CTID_BYTES], to[CTID_BYTES];
    if (!ctids->crowded || !ctids->head_known) {
        pg_queue(&self->pg, SQL_head_get_key, NULL);
        return self->pg.n_queue - 1;
    }
    page_first(ctid_page(ctids->head), from);
    page_first(ctid_page(ctids->head) + 1, to);
    arg_ctid(&page, from, true);
    arg_ctid(&page, to, true);
    pg_queue(&self->pg, SQL_head_clear, &page);
    arg_ctid(&at, ctids->head, true);
    pg_queue(&self->pg, SQL_head_get_at, &at);
    return self->pg.n_queue - 1;
}

void ctids_head(struct postgres_store *self, const PGresult *result)
{
    struct row_ctids *ctids = &self->ctids;
    int64_t commit = self->head.commit;
    ctids->head_known = PQntuples(result) == 1 && cell_ctid(result, 0, PQnfields(result) - 1, ctids->head);
    if (!ctids->head_known)
        return;
    uint32_t page = ctid_page(ctids->head);
    ctids->moves += page != ctids->page;
    ctids->page = page;
    if (commit - ctids->counted_from < CROWDED_COMMITS)
        return;
    ctids->crowded = ctids->moves * CROWDED_PER_PAGE >= commit - ctids->counted_from;
    ctids->moves = 0;
    ctids->counted_from = commit;
    if (!ctids->crowded)
        ready_start_forget(self);
}

/* Numbers are given in their order: what comes from elsewhere than a list of all leaves no gap. */
static void row_learn(struct row_ctids *ctids, enum ctids_of what, const PGresult *result, int row, int id_column,
    int column, bool listed)
{
    struct table_ctids *rows = &ctids->rows[what];
    int64_t id = cell_i64(result, row, id_column);
    struct row_ctid *ctid = map_find(&rows->map, (uint64_t)id);
    if (!ctid && rows->known && id != rows->next && !(listed && id > rows->next))
        return;
    if (!ctid && rows->map.n >= CTIDS_MAX) {
        rows->many = true;
        rows->known = false;
        return;
    }
    if (!ctid) {
        ctid = ARENA_NEW(&ctids->arena, struct row_ctid);
        map_put(&rows->map, (uint64_t)id, ctid);
        rows->next = id + 1;
    }
    (void)cell_ctid(result, row, column, ctid->at);
}

static void rows_learn(
    struct row_ctids *ctids, enum ctids_of what, const PGresult *result, int id_column, int column, bool listed)
{
    for (int i = 0; result && i < PQntuples(result); i++)
        row_learn(ctids, what, result, i, id_column, column, listed);
}

bool ctids_load(struct postgres_store *self, struct err *err)
{
    struct row_ctids *ctids = &self->ctids;
    for (size_t i = 0; i < CTIDS_COUNT && ctids->crowded; i++) {
        struct table_ctids *rows = &ctids->rows[i];
        PGresult *result;
        if (rows->known || rows->many)
            continue;
        if (!pg_run(&self->pg, all_ctids[i], NULL, &result, err))
            return false;
        rows->next = 1;
        rows->many = PQntuples(result) > CTIDS_MAX;
        rows->known = !rows->many;
        if (rows->known)
            rows_learn(ctids, (enum ctids_of)i, result, 0, 1, true);
    }
    return true;
}

/* What the answers of a commit say. */
void ctids_follow(struct postgres_store *self)
{
    struct row_ctids *ctids = &self->ctids;
    const struct pg *pg = &self->pg;
    for (size_t i = 0; i < pg->n_queue && pg->exchanged; i++) {
        const PGresult *result = pg->results[i];
        if (!result)
            continue;
        if (pg->queue[i] == SQL_head_update_at)
            ctids->head_known = cell_ctid(result, 0, 1, ctids->head);
        else if (pg->queue[i] == SQL_mark_put_at)
            ctids->mark_known = PQntuples(result) > 0 && cell_ctid(result, 0, 0, ctids->mark);
        else if (!ctids->crowded)
            continue;
        else if (pg->queue[i] == SQL_lane_put || pg->queue[i] == SQL_lane_put_at || pg->queue[i] == SQL_lane_add_at)
            rows_learn(ctids, CTIDS_LANES, result, 0, 1, false);
        else if (pg->queue[i] == SQL_executor_count_at)
            rows_learn(ctids, CTIDS_EXECUTORS, result, 0, 1, false);
    }
}

static bool touched_at(const struct postgres_store *self, enum ctids_of what)
{
    return self->ctids.crowded && self->ctids.rows[what].known;
}

void touched_queue(struct postgres_store *self, enum ctids_of what, int64_t since)
{
    static const enum sql_id plain[] = { SQL_lanes_touched, SQL_executors_touched },
                             at[] = { SQL_lanes_touched_at, SQL_executors_touched_at };
    struct pg_bulk *bulk = &self->pg.bulk;
    struct pg_args args = { 0 };
    arg_i64(&args, since);
    if (!touched_at(self, what)) {
        pg_queue(&self->pg, plain[what], &args);
        return;
    }
    bulk_begin(bulk, "ip");
    MAP_EACH (&self->ctids.rows[what].map, e) {
        bulk_i64(bulk, (int64_t)e->key);
        bulk_bytes(bulk, ((const struct row_ctid *)e->value)->at, CTID_BYTES);
    }
    bool fits = bulk_args(bulk, &args); /* CTIDS_MAX */
    ASSERT(fits);
    arg_i64(&args, self->ctids.rows[what].next);
    pg_queue(&self->pg, at[what], &args);
}

static const int columns[] = { ROW_COUNT(lane), ROW_COUNT(executor) }; /* the place stands behind them */

bool touched_row(enum ctids_of what, const PGresult *result, int row)
{
    return PQnfields(result) <= columns[what] + 1 || cell_i64(result, row, columns[what] + 1);
}

void touched_learn(struct postgres_store *self, enum ctids_of what, const PGresult *result)
{
    if (touched_at(self, what) && PQnfields(result) > columns[what])
        rows_learn(&self->ctids, what, result, 0, columns[what], true);
}
