/* archives: archives, revisions, what PREV means, and schedules: rows to structs and back, for the engine's connection and for readers. */
#include "store/sqlite/archives.h"

#include "store/damage.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite.h"

/* --- rows ----------------------------------------------------------------------------------------------------------------------- */

static bool damaged(struct db *db, enum sql_id id, const char *what, int64_t lane, int64_t rev, struct err *err)
{
    db_reset(db, id);
    return damage_set(err, "%s of archive %lld at revision %lld can't be read", what, (long long)lane, (long long)rev);
}

static bool row_archive(sqlite3_stmt *stmt, struct arena *arena, struct archive *out)
{
    *out = (struct archive){
        .lane = sqlite3_column_int64(stmt, 0),
        .kind = (enum archive_kind)sqlite3_column_int(stmt, 1),
        .url = column_text(stmt, 2, arena),
        .branch = column_text(stmt, 3, arena),
        .added = sqlite3_column_int64(stmt, 4),
        .removed = sqlite3_column_int64(stmt, 5),
        .first = sqlite3_column_int64(stmt, 6),
        .next = sqlite3_column_int64(stmt, 7),
        .youngest = sqlite3_column_int64(stmt, 8),
        .tip = column_text(stmt, 9, arena),
        .definition = sqlite3_column_int64(stmt, 10),
    };
    return out->kind > ARCHIVE_NONE && out->kind < ARCHIVE_KIND_COUNT && lock_unpack(column_view(stmt, 11), arena, out);
}

static bool row_revision(sqlite3_stmt *stmt, struct arena *arena, struct revision *out)
{
    int64_t *prevs = NULL;
    *out = (struct revision){
        .lane = sqlite3_column_int64(stmt, 0),
        .rev = sqlite3_column_int64(stmt, 1),
        .state = (enum revision_state)sqlite3_column_int(stmt, 2),
        .ident = column_text(stmt, 3, arena),
        .txn = column_text(stmt, 4, arena),
        .author = column_text(stmt, 5, arena),
        .message = column_text(stmt, 6, arena),
        .time = sqlite3_column_int64(stmt, 7),
        .noted = sqlite3_column_int64(stmt, 8),
        .cause = sqlite3_column_int64(stmt, 9),
        .depth = sqlite3_column_int64(stmt, 10),
        .definition = sqlite3_column_int64(stmt, 11),
    };
    struct str packed = column_view(stmt, 12);
    bool ok = !packed.len || numbers_unpack(packed, arena, &prevs, &out->n_prevs);
    out->prevs = prevs;
    return ok && out->state > REVISION_NONE && out->state < REVISION_STATE_COUNT;
}

static void row_schedule(sqlite3_stmt *stmt, struct arena *arena, struct schedule *out)
{
    *out = (struct schedule){
        .lane = sqlite3_column_int64(stmt, 0),
        .task = column_text(stmt, 1, arena),
        .cron = column_text(stmt, 2, arena),
        .zone = column_text(stmt, 3, arena),
        .next = sqlite3_column_int64(stmt, 4),
        .fired = sqlite3_column_int64(stmt, 5),
    };
}

static bool rows_archives(struct db *db, enum sql_id id, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, id, err)) == DB_ROW) {
        struct archive *archive = ARENA_NEW(arena, struct archive);
        if (!row_archive(db->stmts[id], arena, archive))
            return damaged(db, id, "the row", archive->lane, 0, err);
        *ARENA_PUSH(arena, *out, *out_n, cap) = archive;
    }
    return step == DB_DONE;
}

static bool rows_revision(struct db *db, struct arena *arena, int64_t lane, int64_t rev, struct revision *out, bool *out_found,
                          struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_revision_get];
    bind_i64(stmt, 1, lane);
    bind_i64(stmt, 2, rev);
    enum db_step step = db_next(db, SQL_revision_get, err);
    *out_found = step == DB_ROW;
    if (step != DB_ROW)
        return step == DB_DONE;
    if (!row_revision(stmt, arena, out))
        return damaged(db, SQL_revision_get, "the row", lane, rev, err);
    db_reset(db, SQL_revision_get);
    return true;
}

static bool rows_schedules(struct db *db, enum sql_id id, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, id, err)) == DB_ROW)
        row_schedule(db->stmts[id], arena, ARENA_PUSH(arena, *out, *out_n, cap));
    return step == DB_DONE;
}

/* One row of two numbers, by a statement that is bound; zeros: none. */
static bool numbers_get(struct db *db, enum sql_id id, int64_t *out_a, int64_t *out_b, struct err *err)
{
    enum db_step step = db_next(db, id, err);
    *out_a = step == DB_ROW ? sqlite3_column_int64(db->stmts[id], 0) : 0;
    if (out_b != NULL)
        *out_b = step == DB_ROW ? sqlite3_column_int64(db->stmts[id], 1) : 0;
    db_reset(db, id);
    return step != DB_ERROR;
}

static bool rows_revision_of_ident(struct db *db, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    bind_i64(db->stmts[SQL_revision_of_ident], 1, lane);
    bind_text(db->stmts[SQL_revision_of_ident], 2, ident);
    return numbers_get(db, SQL_revision_of_ident, out_rev, NULL, err);
}

/* --- the engine's loads ----------------------------------------------------------------------------------------------------------- */

bool sqlite_load_archives(struct store *store, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err)
{
    return rows_archives(&sqlite_of(store)->db, SQL_archives, arena, out, out_n, err);
}

bool sqlite_load_schedules(struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    return rows_schedules(&sqlite_of(store)->db, SQL_schedules, arena, out, out_n, err);
}

bool sqlite_load_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out, bool *out_found,
                          struct err *err)
{
    return rows_revision(&sqlite_of(store)->db, arena, lane, rev, out, out_found, err);
}

bool sqlite_revision_of_ident(struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    return rows_revision_of_ident(&sqlite_of(store)->db, lane, ident, out_rev, err);
}

bool sqlite_latest_find(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant, struct latest *out,
                        bool *out_found, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_latest_get];
    bind_i64(stmt, 1, lane);
    bind_text(stmt, 2, name);
    bind_text(stmt, 3, variant);
    enum db_step step = db_next(db, SQL_latest_get, err);
    *out_found = step == DB_ROW;
    if (step == DB_ROW)
        *out = (struct latest){
            .lane = lane,
            .name = str_dup(arena, name),
            .variant = str_dup(arena, variant),
            .rev = sqlite3_column_int64(stmt, 0),
            .task = sqlite3_column_int64(stmt, 1),
            .ran_rev = sqlite3_column_int64(stmt, 2),
            .ran_task = sqlite3_column_int64(stmt, 3),
        };
    db_reset(db, SQL_latest_get);
    return step != DB_ERROR;
}

bool sqlite_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto, int64_t *out_task,
                      int64_t *out_rev, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_task_upto];
    bind_i64(stmt, 1, lane);
    bind_text(stmt, 2, name);
    bind_text(stmt, 3, variant);
    bind_i64(stmt, 4, upto);
    return numbers_get(db, SQL_task_upto, out_task, out_rev, err);
}

bool sqlite_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant, int64_t run, int64_t *out_task,
                      int64_t *out_run, struct err *err)
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
static bool ids_get(
    struct db *db, enum sql_id id, int64_t key, size_t n, struct arena *arena, int64_t **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    bind_i64(db->stmts[id], 1, key);
    bind_i64(db->stmts[id], 2, (int64_t)n);
    while ((step = db_next(db, id, err)) == DB_ROW)
        *ARENA_PUSH(arena, *out, *out_n, cap) = sqlite3_column_int64(db->stmts[id], 0);
    return step == DB_DONE;
}

bool sqlite_tasks_open(struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(&sqlite_of(store)->db, SQL_tasks_open, lane, n, arena, out, out_n, err);
}

bool sqlite_tasks_after(struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(&sqlite_of(store)->db, SQL_ids_after, after, n, arena, out, out_n, err);
}

/* --- what a turn writes ------------------------------------------------------------------------------------------------------------ */

static bool archive_write(struct sqlite_store *self, const struct archive *archive, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_archive_put];
    buf_reset(&self->scratch);
    lock_pack(&self->scratch, archive);
    bind_i64(stmt, 1, archive->lane);
    bind_i64(stmt, 2, archive->kind);
    bind_text(stmt, 3, archive->url);
    bind_text(stmt, 4, archive->branch);
    bind_i64(stmt, 5, archive->added);
    bind_i64(stmt, 6, archive->removed);
    bind_i64(stmt, 7, archive->first);
    bind_i64(stmt, 8, archive->next);
    bind_i64(stmt, 9, archive->youngest);
    bind_text(stmt, 10, archive->tip);
    bind_i64(stmt, 11, archive->definition);
    bind_blob(stmt, 12, self->scratch.ptr, self->scratch.len);
    return db_run(&self->db, SQL_archive_put, err);
}

static bool revision_write(struct sqlite_store *self, const struct revision *revision, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_revision_put];
    buf_reset(&self->scratch);
    if (revision->n_prevs)
        numbers_pack(&self->scratch, revision->prevs, revision->n_prevs);
    bind_i64(stmt, 1, revision->lane);
    bind_i64(stmt, 2, revision->rev);
    bind_i64(stmt, 3, revision->state);
    bind_text(stmt, 4, revision->ident);
    bind_text(stmt, 5, revision->txn);
    bind_text(stmt, 6, revision->author);
    bind_text(stmt, 7, revision->message);
    bind_i64(stmt, 8, revision->time);
    bind_i64(stmt, 9, revision->noted);
    bind_i64(stmt, 10, revision->cause);
    bind_i64(stmt, 11, revision->depth);
    bind_i64(stmt, 12, revision->definition);
    bind_blob(stmt, 13, self->scratch.ptr, self->scratch.len);
    return db_run(&self->db, SQL_revision_put, err);
}

static bool latest_write(struct sqlite_store *self, const struct latest *latest, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_latest_put];
    bind_i64(stmt, 1, latest->lane);
    bind_text(stmt, 2, latest->name);
    bind_text(stmt, 3, latest->variant);
    bind_i64(stmt, 4, latest->rev);
    bind_i64(stmt, 5, latest->task);
    bind_i64(stmt, 6, latest->ran_rev);
    bind_i64(stmt, 7, latest->ran_task);
    return db_run(&self->db, SQL_latest_put, err);
}

static bool schedule_write(struct sqlite_store *self, enum sql_id id, const struct schedule *schedule, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[id];
    bind_i64(stmt, 1, schedule->lane);
    bind_text(stmt, 2, schedule->task);
    bind_text(stmt, 3, schedule->cron);
    bind_text(stmt, 4, schedule->zone);
    if (id == SQL_schedule_put) {
        bind_i64(stmt, 5, schedule->next);
        bind_i64(stmt, 6, schedule->fired);
    }
    return db_run(&self->db, id, err);
}

bool archives_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    bool ok = true;
    for (size_t i = 0; i < c->n_archives && ok; i++)
        ok = archive_write(self, c->archives[i], err);
    for (size_t i = 0; i < c->n_revisions && ok; i++)
        ok = revision_write(self, &c->revisions[i], err);
    for (size_t i = 0; i < c->n_latest && ok; i++)
        ok = latest_write(self, &c->latest[i], err);
    for (size_t i = 0; i < c->n_schedules_remove && ok; i++)
        ok = schedule_write(self, SQL_schedule_delete, &c->schedules_remove[i], err);
    for (size_t i = 0; i < c->n_schedules && ok; i++)
        ok = schedule_write(self, SQL_schedule_put, &c->schedules[i], err);
    return ok;
}

/* --- readers ------------------------------------------------------------------------------------------------------------------------ */

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

bool sqlite_read_archives(struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    return snapshot_begin(db, err) && snapshot_end(db, archives_in_snapshot(db, SQL_archives, arena, out, out_n, err));
}

bool sqlite_read_archives_page(struct reader *reader, struct arena *arena, struct str tenant, int64_t before, size_t limit,
    struct archive_view **out, size_t *out_n, struct err *err)
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

bool sqlite_read_lane(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct lane *out, bool *out_found,
    struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_lanes_named];
    enum db_step step;
    *out_found = false;
    bind_text(stmt, 1, name);
    while ((step = db_next(db, SQL_lanes_named, err)) == DB_ROW) {
        if (*out_found || !str_eq(column_view(stmt, 2), tenant))
            continue;
        row_lane(stmt, arena, out);
        *out_found = true;
    }
    return step == DB_DONE;
}

static bool archive_in_snapshot(struct db *db, struct arena *arena, struct str tenant, struct str name, struct archive_view *out,
    bool *out_found,
                                struct err *err)
{
    enum db_step step;
    struct lane lane = { 0 };
    *out_found = false;
    bind_text(db->stmts[SQL_lanes_named], 1, name);
    while ((step = db_next(db, SQL_lanes_named, err)) == DB_ROW)
        if (sqlite3_column_int(db->stmts[SQL_lanes_named], 1) == LANE_ARCHIVE &&
            (!tenant.len || str_eq(column_view(db->stmts[SQL_lanes_named], 2), tenant)))
            row_lane(db->stmts[SQL_lanes_named], arena, &lane);
    if (step == DB_ERROR || lane.id == 0)
        return step != DB_ERROR;
    bind_i64(db->stmts[SQL_archive_get], 1, lane.id);
    step = db_next(db, SQL_archive_get, err);
    if (step == DB_ROW && !row_archive(db->stmts[SQL_archive_get], arena, &out->archive))
        return damaged(db, SQL_archive_get, "the row", lane.id, 0, err);
    *out_found = step == DB_ROW;
    out->lane = lane;
    db_reset(db, SQL_archive_get);
    return step != DB_ERROR;
}

bool sqlite_read_archive(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct archive_view *out,
                         bool *out_found, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    return snapshot_begin(db, err) && snapshot_end(db, archive_in_snapshot(db, arena, tenant, name, out, out_found, err));
}

bool sqlite_read_revision(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out, bool *out_found,
                          struct err *err)
{
    return rows_revision(&sqlite_reader_of(reader)->db, arena, lane, rev, out, out_found, err);
}

bool sqlite_read_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit, struct revision **out,
                           size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_revisions_below];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    bind_i64(stmt, 1, lane);
    bind_i64(stmt, 2, before ? before : INT64_MAX);
    bind_i64(stmt, 3, (int64_t)limit);
    while ((step = db_next(db, SQL_revisions_below, err)) == DB_ROW) {
        struct revision *revision = ARENA_PUSH(arena, *out, *out_n, cap);
        if (!row_revision(stmt, arena, revision))
            return damaged(db, SQL_revisions_below, "the row", lane, revision->rev, err);
    }
    return step == DB_DONE;
}

bool sqlite_read_revision_of_ident(struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    return rows_revision_of_ident(&sqlite_reader_of(reader)->db, lane, ident, out_rev, err);
}

bool sqlite_read_schedules(struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    bind_i64(db->stmts[SQL_schedules_of], 1, lane);
    return rows_schedules(db, SQL_schedules_of, arena, out, out_n, err);
}
