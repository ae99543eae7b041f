/* archives: archives, revisions, what PREV means, and schedules: rows to structs and back, for the engine's connection
 * and for readers. */
#include "store/sqlite/archives.h"

#include "store/sqlite/reader.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite.h"

/* --- rows --- */

static bool rows_revision(struct db *db, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    BIND_NUMBERS(db->stmts[SQL_revision_get], lane, rev);
    return rows_get_revision(db, SQL_revision_get, arena, out, out_found, err);
}

/* One row of two numbers, by a statement that is bound; zeros: none. */
static bool numbers_get(struct db *db, enum sql_id id, int64_t *out_a, int64_t *out_b, struct err *err)
{
    struct cells c = cells_of(db, id);
    enum db_step step = db_next(db, id, err);
    *out_a = step == DB_ROW ? next_i64(&c) : 0;
    if (out_b != NULL)
        *out_b = step == DB_ROW ? next_i64(&c) : 0;
    db_reset(db, id);
    return step != DB_ERROR;
}

static bool rows_revision_of_ident(struct db *db, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    bind_i64(db->stmts[SQL_revision_of_ident], 1, lane);
    bind_text(db->stmts[SQL_revision_of_ident], 2, ident);
    return numbers_get(db, SQL_revision_of_ident, out_rev, NULL, err);
}

/* --- the engine's loads --- */

bool sqlite_load_archives(
    struct store *store, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err)
{
    return rows_archives(&sqlite_of(store)->db, SQL_archives, arena, out, out_n, err);
}

bool sqlite_load_schedules(
    struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    return rows_schedules(&sqlite_of(store)->db, SQL_schedules, arena, out, out_n, err);
}

bool sqlite_load_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    return rows_revision(&sqlite_of(store)->db, arena, lane, rev, out, out_found, err);
}

bool sqlite_revision_of_ident(struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    return rows_revision_of_ident(&sqlite_of(store)->db, lane, ident, out_rev, err);
}

bool sqlite_latest_find(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant,
    struct latest *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bind_i64(db->stmts[SQL_latest_get], 1, lane);
    BIND_TEXTS(db->stmts[SQL_latest_get], 2, name, variant);
    return rows_get_latest(db, SQL_latest_get, arena, out, out_found, err);
}

bool sqlite_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto,
    int64_t *out_task, int64_t *out_rev, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_task_upto];
    bind_i64(stmt, 1, lane);
    bind_text(stmt, 2, name);
    bind_text(stmt, 3, variant);
    bind_i64(stmt, 4, upto);
    return numbers_get(db, SQL_task_upto, out_task, out_rev, err);
}

bool sqlite_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant, int64_t run,
    int64_t *out_task, int64_t *out_run, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    enum sql_id id = run < 0 ? SQL_task_last_run : SQL_task_of_key;
    bind_i64(db->stmts[id], 1, lane);
    bind_i64(db->stmts[id], 2, rev);
    bind_text(db->stmts[id], 3, name);
    bind_text(db->stmts[id], 4, variant);
    if (run >= 0)
        bind_i64(db->stmts[id], 5, run);
    return numbers_get(db, id, out_task, out_run, err);
}

/* Ids of tasks, by a statement of two numbers. */
static bool ids_get(struct db *db, enum sql_id id, int64_t key, size_t n, struct arena *arena, int64_t **out,
    size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    BIND_NUMBERS(db->stmts[id], key, (int64_t)n);
    while ((step = db_next(db, id, err)) == DB_ROW) {
        struct cells c = cells_of(db, id);
        *ARENA_PUSH(arena, *out, *out_n, cap) = next_i64(&c);
    }
    return step == DB_DONE;
}

bool sqlite_tasks_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(&sqlite_of(store)->db, SQL_tasks_open, lane, n, arena, out, out_n, err);
}

bool sqlite_tasks_after(
    struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(&sqlite_of(store)->db, SQL_ids_after, after, n, arena, out, out_n, err);
}

/* --- readers --- */

static bool archives_in_snapshot(
    struct db *db, enum sql_id id, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    struct archive **rows;
    size_t n;
    bool ok = rows_archives(db, id, arena, &rows, &n, err);
    *out = ARENA_ARRAY(arena, struct archive_view, (ok ? n : 0) + 1);
    *out_n = 0;
    for (size_t i = 0; ok && i < n; i++) {
        struct archive_view *view = &(*out)[(*out_n)++];
        view->archive = *rows[i];
        ok = lane_view(db, arena, rows[i]->lane, &view->lane, err);
    }
    return ok;
}

bool sqlite_read_archives(
    struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    return snapshot_begin(db, err) && snapshot_end(db, archives_in_snapshot(db, SQL_archives, arena, out, out_n, err));
}

bool sqlite_read_archives_page(struct reader *reader, struct arena *arena, struct str tenant, int64_t before,
    size_t limit, struct archive_view **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_archives_page];
    if (!snapshot_begin(db, err))
        return false;
    bind_i64(stmt, 1, before ? before : INT64_MAX);
    bind_text(stmt, 2, tenant);
    bind_i64(stmt, 3, (int64_t)limit);
    return snapshot_end(db, archives_in_snapshot(db, SQL_archives_page, arena, out, out_n, err));
}

bool sqlite_read_lane(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct lane *out,
    bool *out_found, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    struct lane **lanes;
    size_t n;
    *out_found = false;
    bind_text(db->stmts[SQL_lanes_named], 1, name);
    if (!rows_lanes(db, SQL_lanes_named, arena, &lanes, &n, err))
        return false;
    for (size_t i = 0; i < n && !*out_found; i++) {
        *out_found = str_eq(lanes[i]->tenant, tenant);
        *out = *lanes[i];
    }
    return true;
}

static bool archive_in_snapshot(struct db *db, struct arena *arena, struct str tenant, struct str name,
    struct archive_view *out, bool *out_found, struct err *err)
{
    const struct lane *lane = NULL;
    struct lane **lanes;
    size_t n;
    *out_found = false;
    bind_text(db->stmts[SQL_lanes_named], 1, name);
    if (!rows_lanes(db, SQL_lanes_named, arena, &lanes, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (lanes[i]->kind == LANE_ARCHIVE && (!tenant.len || str_eq(lanes[i]->tenant, tenant)))
            lane = lanes[i];
    if (!lane)
        return true;
    out->lane = *lane;
    bind_i64(db->stmts[SQL_archive_get], 1, lane->id);
    return rows_get_archive(db, SQL_archive_get, arena, &out->archive, out_found, err);
}

bool sqlite_read_archive(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
    struct archive_view *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    return snapshot_begin(db, err) &&
           snapshot_end(db, archive_in_snapshot(db, arena, tenant, name, out, out_found, err));
}

bool sqlite_read_revision(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    return rows_revision(&sqlite_reader_of(reader)->db, arena, lane, rev, out, out_found, err);
}

bool sqlite_read_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit,
    struct revision **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    BIND_NUMBERS(db->stmts[SQL_revisions_below], lane, before ? before : INT64_MAX, (int64_t)limit);
    return rows_revisions(db, SQL_revisions_below, arena, out, out_n, err);
}

bool sqlite_read_revision_of_ident(
    struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    return rows_revision_of_ident(&sqlite_reader_of(reader)->db, lane, ident, out_rev, err);
}

bool sqlite_read_schedules(
    struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    bind_i64(db->stmts[SQL_schedules_of], 1, lane);
    return rows_schedules(db, SQL_schedules_of, arena, out, out_n, err);
}
