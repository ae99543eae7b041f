/* turn: begin, commit, rollback: everything the engine decided in one turn, in one transaction with one fsync.
 *
 * Owns the order of the statements (that of struct changes, head last; what is removed from ready, hold, unique_key
 * and changeset_file goes before what is added, so that a row can be given back and taken again in one turn) and the
 * chain of turns. True from commit means durable. When a statement or the commit fails, the transaction is rolled back
 * and err says which statement, in SQLite's words: disk_full (nothing changed, the store goes on), outcome_unknown (an
 * I/O error: the record may or may not be on disk), corrupt, internal (a row contradicts another: our bug). */
#include <string.h>

#include "base/plant.h"
#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

bool sqlite_begin(struct store *store, struct err *err)
{
    bool begun = false;
    if (PLANT(commit_late))
        begun = !sqlite3_get_autocommit(sqlite_of(store)->db.conn);
    if (begun)
        return true;
    sqlite_of(store)->changes = sqlite3_total_changes64(sqlite_of(store)->db.conn);
    return db_run(&sqlite_of(store)->db, SQL_begin, err);
}

void sqlite_rollback(struct store *store)
{
    struct sqlite_store *self = sqlite_of(store);
    struct err ignored = { 0 };
    if (!sqlite3_get_autocommit(self->db.conn)) /* SQLite rolls back by itself after some errors */
        (void)db_run(&self->db, SQL_rollback, &ignored);
}

/* --- rows --- */

#define PUT_NUMBER(value) bind_i64(stmt, ++n, value)
#define PUT_TEXT(text) bind_text(stmt, ++n, text)
#define PUT_BLOB(bytes) bind_bytes(stmt, ++n, bytes)
#define PUT_NULL() bind_null(stmt, ++n)
#define PUT_REST(task) bind_bytes(stmt, ++n, self->rest)
#define PUT_LATER(column, type, member, role) ROW_PUT_LATER(column, type, member, role) ROW_IF_ONCE_##role(n++;)

/* ROW_WRITER: a statement that takes a row's columns (ROW_PUT), those of its key (ROW_PUT_KEY), or by their numbers
 * those that an update names (PUT_LATER). What is packed, and a task's `rest`, stays where it is until the statement
 * has been stepped. */
#define ROW_WRITER(name, table, type, put) \
    static bool name(struct sqlite_store *self, enum sql_id id, const struct type *row, struct err *err) \
    { \
        sqlite3_stmt *stmt = self->db.stmts[id]; \
        struct buf *packed = &self->scratch; \
        int n = 0; \
        (void)packed; \
        ROW_##table(put) \
        return db_run(&self->db, id, err); \
    }
/* ROWS_WRITER: and for each row of a list; at: & where the list has the rows themselves. */
#define ROWS_WRITER(table, type, list, at) \
    ROW_WRITER(write_##table, table, type, ROW_PUT) \
    static bool writes_##table(struct sqlite_store *self, enum sql_id id, const struct type list rows, size_t n, \
        struct err *err) \
    { \
        for (size_t i = 0; i < n; i++) \
            if (!write_##table(self, id, at rows[i], err)) \
                return false; \
        return true; \
    }
ROW_WRITER(lane_update, lane, lane, PUT_LATER)
ROW_WRITER(lane_insert, lane, lane, ROW_PUT)
ROWS_WRITER(class, task_class, **, )
ROWS_WRITER(spec, spec, **, )
ROWS_WRITER(slot, slot, **, )
ROW_WRITER(task_insert, task, task, ROW_PUT)
ROW_WRITER(task_update, task, task, PUT_LATER)
ROW_WRITER(write_ready, ready, task, ROW_PUT)
ROWS_WRITER(edge, edge, *, &)
ROWS_WRITER(hold, hold, *, &)
ROW_WRITER(hold_delete, hold, hold, ROW_PUT_KEY)
ROW_WRITER(write_live, live, attempt, ROW_PUT)
ROW_WRITER(live_drop, live, attempt, ROW_PUT_KEY)
ROW_WRITER(write_attempt, attempt, attempt, ROW_PUT)
ROWS_WRITER(outputs, task_outputs, *, &)
ROWS_WRITER(log_tail, log_tail, *, &)
ROWS_WRITER(log_seal, log_seal, *, &)
ROW_WRITER(log_seal_delete, log_seal, log_name, ROW_PUT_KEY)
ROWS_WRITER(unique_key, unique_claim, *, &)
ROWS_WRITER(idempotency, idempotency, *, &)
ROWS_WRITER(executor, executor, **, )
ROWS_WRITER(token, token, **, )
ROWS_WRITER(site, site_key, *, &)
ROWS_WRITER(archive, archive, **, )
ROWS_WRITER(revision, revision, *, &)
ROWS_WRITER(latest, latest, *, &)
ROWS_WRITER(schedule, schedule, *, &)
ROW_WRITER(schedule_delete, schedule, schedule, ROW_PUT_KEY)
ROWS_WRITER(changeset, changeset, **, )
ROWS_WRITER(changeset_file, changeset_file, *, &)
ROW_WRITER(changeset_file_delete, changeset_file, changeset_file, ROW_PUT_KEY)
ROW_WRITER(write_clock, clock, wall_known, ROW_PUT)

static bool ids_write(struct sqlite_store *self, enum sql_id id, const int64_t *ids, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        bind_i64(self->db.stmts[id], 1, ids[i]);
        if (!db_run(&self->db, id, err))
            return false;
    }
    return true;
}

/* --- what a turn has changed --- */

static bool lanes_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    for (size_t i = 0; i < c->lanes.n; i++) {
        if (!lane_update(self, SQL_lane_update, c->lanes.at[i], err))
            return false;
        if (sqlite3_changes(self->db.conn) != 1 && !lane_insert(self, SQL_lane_insert, c->lanes.at[i], err))
            return false;
    }
    return true;
}

static bool names_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return writes_class(self, SQL_class_insert, c->classes.at, c->classes.n, err) &&
           ids_write(self, SQL_class_delete, c->classes_remove.at, c->classes_remove.n, err) &&
           writes_spec(self, SQL_spec_insert, c->specs.at, c->specs.n, err) &&
           writes_slot(self, SQL_slot_put, c->slots.at, c->slots.n, err) &&
           ids_write(self, SQL_slot_delete, c->slots_remove.at, c->slots_remove.n, err);
}

static bool tasks_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    for (size_t i = 0; i < c->tasks_new.n; i++) {
        self->rest = tags_rest(&self->tagger, i);
        if (!task_insert(self, SQL_task_insert, c->tasks_new.at[i], err))
            return false;
    }
    for (size_t i = 0; i < c->tasks_changed.n; i++) {
        self->rest = tags_rest(&self->tagger, c->tasks_new.n + i);
        if (!task_update(self, SQL_task_update, c->tasks_changed.at[i], err))
            return false;
        if (sqlite3_changes(self->db.conn) != 1)
            return err_set(
                err, ERR_internal, "task_update: there is no task %lld", (long long)c->tasks_changed.at[i]->id);
    }
    return true;
}

static bool ready_write(struct sqlite_store *self, enum sql_id id, const struct task **tasks, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!write_ready(self, id, tasks[i], err))
            return false;
        if (sqlite3_changes(self->db.conn) != 1)
            return err_set(err, ERR_internal, "%s: task %lld isn't ready as class %lld, priority %lld, vt %lld",
                sql_texts[id].name, (long long)tasks[i]->id, (long long)tasks[i]->class_id, (long long)tasks[i]->prio,
                (long long)tasks[i]->vt);
    }
    return true;
}

static bool readies_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return ready_write(self, SQL_ready_delete, c->ready_remove.at, c->ready_remove.n, err) &&
           ready_write(self, SQL_ready_insert, c->ready_add.at, c->ready_add.n, err);
}

static bool waits_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    if (!writes_edge(self, SQL_edge_insert, c->edges_new.at, c->edges_new.n, err) ||
        !writes_edge(self, SQL_edge_update, c->edges_changed.at, c->edges_changed.n, err))
        return false;
    for (size_t i = 0; i < c->holds_remove.n; i++)
        if (!hold_delete(self, SQL_hold_delete, &c->holds_remove.at[i], err))
            return false;
    return writes_hold(self, SQL_hold_insert, c->holds_add.at, c->holds_add.n, err);
}

static bool attempts_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    for (size_t i = 0; i < c->attempts_new.n; i++) {
        const struct attempt *a = &c->attempts_new.at[i];
        if (!(a->finished ? write_attempt(self, SQL_attempt_put, a, err) : write_live(self, SQL_live_insert, a, err)))
            return false;
    }
    for (size_t i = 0; i < c->attempts_changed.n; i++) {
        const struct attempt *a = &c->attempts_changed.at[i];
        if (a->finished) {
            if (!live_drop(self, SQL_live_delete, a, err))
                return false;
            bool ran = sqlite3_changes(self->db.conn) == 1;
            if (!write_attempt(self, ran ? SQL_attempt_insert : SQL_attempt_put, a, err))
                return false;
            continue;
        }
        if (!write_live(self, SQL_live_update, a, err))
            return false;
        bool lost = sqlite3_changes(self->db.conn) == 0; /* and taken up again */
        if (lost && (!write_live(self, SQL_live_insert, a, err) || !live_drop(self, SQL_attempt_delete, a, err)))
            return false;
    }
    for (size_t i = 0; i < c->attempts_remove.n; i++)
        if (!live_drop(self, SQL_live_delete, &c->attempts_remove.at[i], err) ||
            !live_drop(self, SQL_attempt_delete, &c->attempts_remove.at[i], err))
            return false;
    return true;
}

static bool results_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    if (!writes_outputs(self, SQL_outputs_put, c->outputs.at, c->outputs.n, err) ||
        !writes_log_tail(self, SQL_log_tail_put, c->logs.tails.at, c->logs.tails.n, err) ||
        !writes_log_seal(self, SQL_log_seal_put, c->logs.seals.at, c->logs.seals.n, err))
        return false;
    for (size_t i = 0; i < c->logs.seals_remove.n; i++)
        if (!log_seal_delete(self, SQL_log_seal_delete, &c->logs.seals_remove.at[i], err))
            return false;
    return ids_write(self, SQL_outputs_delete, c->results_remove.at, c->results_remove.n, err) &&
           ids_write(self, SQL_log_tails_delete, c->results_remove.at, c->results_remove.n, err);
}

/* Removed, added, and removed once more: a task that was created and granted in the same turn doesn't keep its key. */
static bool uniques_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return writes_unique_key(self, SQL_unique_delete, c->unique_remove.at, c->unique_remove.n, err) &&
           writes_unique_key(self, SQL_unique_put, c->unique_add.at, c->unique_add.n, err) &&
           (!c->unique_add.n ||
               writes_unique_key(self, SQL_unique_delete, c->unique_remove.at, c->unique_remove.n, err));
}

static bool site_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return writes_idempotency(self, SQL_idempotency_put, c->idempotency.at, c->idempotency.n, err) &&
           writes_executor(self, SQL_executor_put, c->executors.at, c->executors.n, err) &&
           ids_write(self, SQL_executor_delete, c->executors_remove.at, c->executors_remove.n, err) &&
           writes_token(self, SQL_token_insert, c->tokens.at, c->tokens.n, err) &&
           ids_write(self, SQL_token_delete, c->tokens_remove.at, c->tokens_remove.n, err) &&
           writes_site(self, SQL_site_put, c->site.at, c->site.n, err);
}

static bool archives_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    if (!writes_archive(self, SQL_archive_put, c->archives.at, c->archives.n, err) ||
        !writes_revision(self, SQL_revision_put, c->revisions.at, c->revisions.n, err) ||
        !writes_latest(self, SQL_latest_put, c->latest.at, c->latest.n, err))
        return false;
    for (size_t i = 0; i < c->schedules_remove.n; i++)
        if (!schedule_delete(self, SQL_schedule_delete, &c->schedules_remove.at[i], err))
            return false;
    return writes_schedule(self, SQL_schedule_put, c->schedules.at, c->schedules.n, err) &&
           (!c->clock || write_clock(self, SQL_clock_put, c->clock, err));
}

static bool changesets_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    if (!writes_changeset(self, SQL_changeset_put, c->changesets.rows.at, c->changesets.rows.n, err))
        return false;
    for (size_t i = 0; i < c->changesets.files_remove.n; i++)
        if (!changeset_file_delete(self, SQL_changeset_file_delete, &c->changesets.files_remove.at[i], err))
            return false;
    return writes_changeset_file(
        self, SQL_changeset_file_insert, c->changesets.files_add.at, c->changesets.files_add.n, err);
}

bool turn_write(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const uint8_t before[STORE_HASH_BYTES], int64_t turn,
    int64_t first_seq, int64_t time, struct str events, struct str tags, uint8_t out_hash[STORE_HASH_BYTES],
    struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_turn_insert];
    chain_link(key, before, turn, first_seq, time, events, tags, out_hash);
    bind_i64(stmt, 1, turn);
    bind_i64(stmt, 2, first_seq);
    bind_i64(stmt, 3, time);
    bind_blob(stmt, 4, out_hash, STORE_HASH_BYTES);
    bind_blob(stmt, 5, events.ptr, events.len);
    bind_blob(stmt, 6, tags.ptr, tags.len);
    return db_run(db, SQL_turn_insert, err);
}

bool head_write(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_head_update];
    const struct store_head *row = head;
    uint8_t seal[STORE_HASH_BYTES];
    int n = 0;
    chain_seal(key, head, seal);
    ROW_head(ROW_PUT) PUT_BLOB(((struct str){ (const char *)seal, sizeof seal }));
    PUT_NUMBER(head->commit);
    return db_run(db, SQL_head_update, err);
}

static bool history_write(
    struct sqlite_store *self, const struct changes *c, struct store_head *out_head, struct err *err)
{
    *out_head = c->head;
    memcpy(out_head->hash, self->head.hash, sizeof out_head->hash);
    if (c->history.events.len &&
        !turn_write(&self->db, self->key, self->head.hash, c->history.turn, c->history.first_seq, c->history.time,
            c->history.events, buf_str(&self->tagger.list), out_head->hash, err))
        return false;
    bool any = sqlite3_total_changes64(self->db.conn) != self->changes || !row_head_same(out_head, &self->head);
    out_head->commit = self->head.commit + any;
    return !any || head_write(&self->db, self->key, out_head, err);
}

static bool (*const writes[])(struct sqlite_store *self, const struct changes *c, struct err *err) = {
    lanes_write,
    names_write,
    tasks_write,
    readies_write,
    waits_write,
    attempts_write,
    results_write,
    uniques_write,
    site_write,
    archives_write,
    changesets_write,
};

static bool changes_write(
    struct sqlite_store *self, const struct changes *c, struct store_head *out_head, struct err *err)
{
    int io_error = checkpoint_failed(self->checkpoint);
    if (io_error)
        return err_set(err, ERR_outcome_unknown,
            "a checkpoint met an I/O error (SQLite %d): the disk isn't trusted any more", io_error);
    (void)tags_pack(&self->tagger, self->key, c);
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        if (!writes[i](self, c, err))
            return false;
    if (!history_write(self, c, out_head, err))
        return false;
    bool late = false;
    if (PLANT(commit_late))
        late = c->head.turn % 2 != 0;
    if (late || db_run(&self->db, SQL_commit, err))
        return true;
    /* damage met by any other statement is before the commit */
    if (err->code == ERR_corrupt)
        err->code = ERR_outcome_unknown;
    return false;
}

bool sqlite_commit(struct store *store, const struct changes *changes, struct err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    struct store_head head;
    self->db.committing = true;
    bool ok = changes_write(self, changes, &head, err);
    self->db.committing = false;
    if (!ok) {
        sqlite_rollback(store);
        return false;
    }
    self->head = head;
    store->commit = head.commit;
    checkpoint_between_turns(self->checkpoint);
    return true;
}
