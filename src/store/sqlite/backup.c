/* backup: a store as one file, beside a running server, and back.
 *
 * A backup is a database file of its own (0600, no WAL) that is synced and then renamed to its name: a file of that
 * name is whole. It carries the verify key in its `meta` table, because a history without its key can't be continued or
 * checked: keep the file as you keep the data directory. Pages are copied in short steps. A commit by another process
 * makes SQLite start over, so after RESTARTS_MAX of that the rest is copied in one go, under one snapshot; the WAL
 * grows meanwhile and is cut later. The logs (DATA/logs) come along in a table of parts, written after the pages: only
 * those of attempts that the copied snapshot knows, because a later attempt of the original has the number that a
 * restored store will give to another. Kept files (DATA/blobs) come along in a second table of parts: each that a task
 * of the snapshot lists, unless it is asked to leave them out; then the file says so, and so does a restore.
 *
 * A restore checks the file (SQLite's integrity check, then the whole chain), gives the store a new incarnation, so
 * that no old fence is ever taken, writes that into the history, and makes files of the logs and of what was kept. It
 * counts the listed files that aren't there. It refuses a directory that holds a store, logs or kept files; when it
 * fails nothing is left under those names. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "store/blobs/copy.h"
#include "store/logs/copy.h"
#include "store/pack.h"
#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

enum {
    STEP_PAGES = 1024,
    PAUSE_NS = 2000000,
    RESTARTS_MAX = 2,
    LOCKED_MAX = 2500,
    KEY_HEX_BYTES = CHAIN_KEY_BYTES * 2 + 1
};

#define KEY_NAME STR("verify_key")
#define HELD_REASON "restored from a backup: nothing goes on by itself before weir resume all"
#define WITHOUT_NAME STR("without_artifacts")

static void pause_briefly(void)
{
    struct timespec ts = { .tv_nsec = PAUSE_NS };
    nanosleep(&ts, NULL);
}

static bool pages_copy(struct db *from, struct db *to, struct err *err)
{
    sqlite3_backup *backup = sqlite3_backup_init(to->conn, "main", from->conn, "main");
    if (!backup)
        return err_set(err, db_code(to, sqlite3_extended_errcode(to->conn)), "copy: %s", sqlite3_errmsg(to->conn));
    int rc, left = 0, restarts = 0, locked = 0;
    do {
        rc = sqlite3_backup_step(backup, restarts < RESTARTS_MAX ? STEP_PAGES : -1);
        int now_left = sqlite3_backup_remaining(backup);
        restarts += left > 0 && now_left > left;
        left = now_left;
        locked += rc == SQLITE_BUSY || rc == SQLITE_LOCKED;
        if (rc != SQLITE_DONE)
            pause_briefly();
    } while (rc == SQLITE_OK || ((rc == SQLITE_BUSY || rc == SQLITE_LOCKED) && locked < LOCKED_MAX));
    sqlite3_backup_finish(backup);
    return rc == SQLITE_DONE || err_set(err, db_code(to, rc), "copy: %s", sqlite3_errstr(rc));
}

/* Opens a store's file for reading, whatever schema it has up to ours. */
static bool source_open(struct db *db, const char *path, int64_t *out_version, struct err *err)
{
    if (!file_exists(path))
        return err_set(err, ERR_not_found, "there is no store at %s", path);
    if (!db_connect(db, path, SQLITE_OPEN_READONLY, err) || !schema_check(db, path, out_version, err))
        return false;
    return *out_version || err_set(err, ERR_not_found, "%s is empty", path);
}

static bool target_open(struct db *db, const char *path, struct err *err)
{
    bool made;
    if (unlink(path) < 0 && errno != ENOENT)
        return err_set(err, ERR_io, "%s: %s", path, strerror(errno));
    return file_create(path, &made, err) && db_connect(db, path, SQLITE_OPEN_READWRITE, err);
}

static bool key_put(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
    char hex[KEY_HEX_BYTES];
    sodium_bin2hex(hex, sizeof hex, key, CHAIN_KEY_BYTES);
    bind_text(db->stmts[SQL_meta_put], 1, KEY_NAME);
    bind_text(db->stmts[SQL_meta_put], 2, str_of(hex));
    bool ok = db_run(db, SQL_meta_put, err);
    sodium_memzero(hex, sizeof hex);
    return ok;
}

static bool key_get(struct db *db, const char *file, uint8_t out[CHAIN_KEY_BYTES], struct err *err)
{
    struct query c = db_query(db, SQL_meta_get);
    bind_text(c.stmt, 1, KEY_NAME);
    enum query_step step = db_next(db, SQL_meta_get, err);
    if (step == QUERY_ERROR)
        return false;
    struct str hex = step == QUERY_ROW ? next_view(&c) : (struct str){ 0 };
    size_t n = 0;
    bool ok = hex.len == CHAIN_KEY_BYTES * 2 &&
              sodium_hex2bin(out, CHAIN_KEY_BYTES, hex.ptr, hex.len, NULL, &n, NULL) == 0 && n == CHAIN_KEY_BYTES;
    db_reset(db, SQL_meta_get);
    return ok || err_set(err, ERR_invalid, "%s carries no verify key: it wasn't made by weir backup", file);
}

/* --- logs, as parts in a table of the copy --- */

static bool log_known(void *owner, int64_t task, int64_t grant, bool *out_known, struct err *err)
{
    struct db *to = owner;
    bind_i64(to->stmts[SQL_backup_attempt_known], 1, task);
    bind_i64(to->stmts[SQL_backup_attempt_known], 2, grant);
    enum query_step step = db_next(to, SQL_backup_attempt_known, err);
    *out_known = step == QUERY_ROW;
    if (step == QUERY_ROW)
        db_reset(to, SQL_backup_attempt_known);
    return step != QUERY_ERROR;
}

static bool log_part_put(void *owner, const struct log_part *part, struct err *err)
{
    struct db *to = owner;
    sqlite3_stmt *stmt = to->stmts[SQL_backup_log_put];
    bind_i64(stmt, 1, part->task);
    bind_i64(stmt, 2, part->grant);
    bind_i64(stmt, 3, part->packed);
    bind_i64(stmt, 4, part->start);
    bind_blob(stmt, 5, part->bytes.ptr, part->bytes.len);
    return db_run(to, SQL_backup_log_put, err);
}

static bool logs_write(struct db *to, const char *data_dir, struct err *err)
{
    struct log_taker taker = { .owner = to, .known = log_known, .put = log_part_put };
    return db_run(to, SQL_begin, err) && logs_copy_out(data_dir, &taker, err) && db_run(to, SQL_commit, err);
}

/* The tables of parts; in a restore of an older backup they are empty. */
static bool parts_open(struct db *db, struct err *err)
{
    return db_exec(db, SQL_backup_log_create, err) && db_exec(db, SQL_backup_blob_create, err) &&
           db_prepare(db, SQL_FOR_BACKUP, err);
}

/* Drops the tables. Their pages were most of the file, so the file is vacuumed; if there is no room for that, SQLite
 * reuses the pages over time. */
static bool parts_drop(struct db *db, bool any, struct err *err)
{
    struct err ignored = { 0 };
    if (!db_exec(db, SQL_backup_log_drop, err) || !db_exec(db, SQL_backup_blob_drop, err))
        return false;
    if (!any)
        return true;
    sqlite3_limit(db->conn, SQLITE_LIMIT_ATTACHED, 1); /* VACUUM attaches its copy */
    (void)(db_exec(db, SQL_pragma_temp_file, &ignored) && db_exec(db, SQL_vacuum, &ignored));
    sqlite3_limit(db->conn, SQLITE_LIMIT_ATTACHED, 0);
    return true;
}

/* The parts become files again. */
static bool logs_take(struct db *db, struct log_put *put, bool *out_any, struct err *err)
{
    enum query_step step;
    while ((step = db_next(db, SQL_backup_log_each, err)) == QUERY_ROW) {
        struct query c = db_query(db, SQL_backup_log_each);
        struct log_part part;
        part.task = next_i64(&c);
        part.grant = next_i64(&c);
        part.packed = next_i64(&c) != 0;
        part.start = next_i64(&c);
        part.bytes = next_view(&c);
        part.unnoted = next_i64(&c) != 0;
        *out_any = true;
        if (!logs_put_part(put, &part, err)) {
            db_reset(db, SQL_backup_log_each);
            return false;
        }
    }
    return step != QUERY_ERROR && logs_put_end(put, err);
}

/* Hashes of logs that aren't in the backup go, and the turn of the restore tells it: out, `log_name`s. */
static bool seals_drop(struct db *db, struct buf *out, struct err *err)
{
    enum query_step step;
    while ((step = db_next(db, SQL_backup_seals_lost, err)) == QUERY_ROW) {
        struct query c = db_query(db, SQL_backup_seals_lost);
        int64_t task = next_i64(&c), grant = next_i64(&c);
        buf_add(out, &(struct log_name){ task, grant }, sizeof(struct log_name));
    }
    for (size_t at = 0; step != QUERY_ERROR && at < out->len; at += sizeof(struct log_name)) {
        struct log_name name;
        memcpy(&name, out->ptr + at, sizeof name);
        BIND_NUMBERS(db->stmts[SQL_log_seal_delete], name.task, name.grant);
        if (!db_run(db, SQL_log_seal_delete, err))
            return false;
    }
    return step != QUERY_ERROR;
}

/* --- kept files, likewise --- */

struct files_walk {
    struct db *db;
    const char *data_dir;
    struct blob_put *put; /* of a restore; NULL: a backup */
    struct backup_facts *facts;
    bool always;      /* also into a backup without artifacts: accepted work needs its tarball */
    struct smap seen; /* hashes */
    struct arena arena;
};

static bool file_part_put(void *owner, const struct blob_part *part, struct err *err)
{
    struct db *to = ((struct files_walk *)owner)->db;
    sqlite3_stmt *stmt = to->stmts[SQL_backup_blob_put];
    bind_text(stmt, 1, part->hex);
    bind_i64(stmt, 2, part->start);
    bind_blob(stmt, 3, part->bytes.ptr, part->bytes.len);
    return db_run(to, SQL_backup_blob_put, err);
}

/* file_write: into the backup; *out_found false: it isn't there, or damaged, and nothing of it is in the backup. */
static bool file_write(struct files_walk *walk, struct str hex, bool *out_found, struct err *err)
{
    struct blob_taker taker = { .owner = walk, .put = file_part_put };
    struct db *to = walk->db;
    if (db_next(to, SQL_backup_blob_last, err) != QUERY_ROW)
        return false;
    struct query c = db_query(to, SQL_backup_blob_last);
    int64_t last = next_i64(&c);
    db_reset(to, SQL_backup_blob_last);
    if (!blob_copy_out(walk->data_dir, hex, &taker, out_found, err) || *out_found)
        return *out_found;
    bind_i64(to->stmts[SQL_backup_blob_undo], 1, last);
    return db_run(to, SQL_backup_blob_undo, err);
}

static bool file_listed(void *owner, struct str hex, struct err *err)
{
    struct files_walk *walk = owner;
    bool found = false;
    if (smap_find(&walk->seen, hex))
        return true;
    hex = str_dup(&walk->arena, hex);
    smap_put(&walk->seen, hex, walk);
    if (walk->put)
        found = blobs_put_has(walk->put, hex);
    else if ((walk->always || !walk->facts->without_artifacts) && !file_write(walk, hex, &found, err))
        return false;
    walk->facts->artifacts += found;
    walk->facts->missing += !found;
    return true;
}

/* tarballs_walk: those of change sets. */
static bool tarballs_walk(struct files_walk *walk, struct err *err)
{
    enum query_step step;
    bool ok = true;
    char hex[BLOB_HEX + 1];
    walk->always = true;
    while (ok && (step = db_next(walk->db, SQL_backup_tarballs, err)) != QUERY_DONE) {
        struct query c = db_query(walk->db, SQL_backup_tarballs);
        struct task row = { 0 };
        bool there = step == QUERY_ROW && task_unpack(next_view(&c), &row) && tarball_hex(&row, next_view(&c), hex);
        ok = step == QUERY_ROW && (!there || file_listed(walk, str_of(hex), err));
    }
    if (!ok)
        db_reset(walk->db, SQL_backup_tarballs);
    walk->always = false;
    return ok;
}

/* files_walk: each file that a task lists, or a change set has, once. */
static bool files_walk(struct files_walk *walk, struct err *err)
{
    enum query_step step;
    bool ok = tarballs_walk(walk, err);
    while (ok && (step = db_next(walk->db, SQL_backup_outputs, err)) != QUERY_DONE) {
        struct query c = db_query(walk->db, SQL_backup_outputs);
        ok = step == QUERY_ROW && outputs_files(next_view(&c), file_listed, walk, err);
    }
    if (!ok)
        db_reset(walk->db, SQL_backup_outputs);
    smap_release(&walk->seen);
    arena_release(&walk->arena);
    return ok;
}

static bool files_write(struct db *to, const char *data_dir, struct backup_facts *facts, struct err *err)
{
    struct files_walk walk = { .db = to, .data_dir = data_dir, .facts = facts };
    if (!db_run(to, SQL_begin, err))
        return false;
    if (facts->without_artifacts) {
        bind_text(to->stmts[SQL_meta_put], 1, WITHOUT_NAME);
        bind_text(to->stmts[SQL_meta_put], 2, STR("1"));
        if (!db_run(to, SQL_meta_put, err))
            return false;
    }
    return files_walk(&walk, err) && db_run(to, SQL_commit, err);
}

static bool files_take(struct db *db, struct blob_put *put, struct backup_facts *facts, struct err *err)
{
    struct files_walk walk = { .db = db, .put = put, .facts = facts };
    enum query_step step;
    while ((step = db_next(db, SQL_backup_blob_each, err)) == QUERY_ROW) {
        struct query c = db_query(db, SQL_backup_blob_each);
        struct blob_part part;
        part.hex = next_view(&c);
        part.start = next_i64(&c);
        part.bytes = next_view(&c);
        if (!blobs_put_part(put, &part, err)) {
            db_reset(db, SQL_backup_blob_each);
            return false;
        }
    }
    if (step == QUERY_ERROR || !blobs_put_end(put, err))
        return false;
    bind_text(db->stmts[SQL_meta_get], 1, WITHOUT_NAME);
    step = db_next(db, SQL_meta_get, err);
    facts->without_artifacts = step == QUERY_ROW;
    if (step == QUERY_ROW)
        db_reset(db, SQL_meta_get);
    return step != QUERY_ERROR && files_walk(&walk, err);
}

static bool backup_write(struct db *from, struct db *to, const char *data_dir, const uint8_t key[CHAIN_KEY_BYTES],
    struct backup_facts *facts, struct err *err)
{
    return pages_copy(from, to, err) && db_exec(to, SQL_pragma_single_file, err) &&
           db_prepare(to, SQL_FOR_WRITER, err) && key_put(to, key, err) && parts_open(to, err) &&
           logs_write(to, data_dir, err) && files_write(to, data_dir, facts, err);
}

bool store_backup(const char *data_dir, const char *to_file, struct backup_facts *facts, struct err *err)
{
    struct backup_facts all = { 0 };
    if (!facts)
        facts = &all;
    facts->artifacts = facts->missing = 0;
    struct db from = { 0 }, to = { 0 };
    uint8_t key[CHAIN_KEY_BYTES];
    char path[FILES_PATH_MAX], part[FILES_PATH_MAX], dir[FILES_PATH_MAX];
    int64_t version;
    int n = snprintf(part, sizeof part, "%s.part", to_file);
    if (sodium_init() < 0 || n < 0 || n >= FILES_PATH_MAX)
        return err_set(err, ERR_invalid, "the path %.64s... is too long", to_file);
    if (!path_join(path, data_dir, "weir.db", err) || !path_parent(dir, to_file, err))
        return false;
    bool ok = source_open(&from, path, &version, err) && schema_ours(&from, path, err);
    ok = ok && chain_key_load(data_dir, key, err) && target_open(&to, part, err) &&
         backup_write(&from, &to, data_dir, key, facts, err);
    bool opened = to.conn != NULL;
    db_close(&to);
    db_close(&from);
    sodium_memzero(key, sizeof key);
    ok = ok && file_sync(part, err);
    if (ok && rename(part, to_file) < 0)
        ok = err_set(err, ERR_io, "%s: %s", to_file, strerror(errno));
    if (!ok && opened)
        unlink(part);
    return ok && dir_sync(dir, err);
}

static bool restored_hold(struct db *db, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_restored_hold];
    bind_i64(stmt, 1, clock_wall_ms());
    bind_text(stmt, 2, STR(PAUSED_BY_RESTORE));
    bind_text(stmt, 3, STR(HELD_REASON));
    bind_i64(stmt, 4, LANE_QUEUE);
    return db_run(db, SQL_restored_hold, err);
}

static struct str seals_tags(const struct buf *lost, const uint8_t key[CHAIN_KEY_BYTES], struct tagger *tagger)
{
    struct changes c = { .logs.seals_remove = {
                             .at = (struct log_name *)(void *)lost->ptr, .n = lost->len / sizeof(struct log_name) } };
    return tags_pack(tagger, key, &c);
}

/* A new incarnation, told in the history; what is the backup's alone leaves the database, and the place of the store
 * that was copied. lost: the logs whose hashes went. */
static bool restored_mark(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct backup_facts *facts,
    const struct buf *lost, struct err *err)
{
    char reason[200] = "restored from a backup";
    size_t n = strlen(reason);
    if (facts->missing > 0)
        n += (size_t)snprintf(
            reason + n, sizeof reason - n, "; %lld artifacts that tasks list aren't in it", (long long)facts->missing);
    if (facts->logs_missing > 0)
        snprintf(
            reason + n, sizeof reason - n, "; %lld logs that were sealed aren't in it", (long long)facts->logs_missing);
    struct event events[] = { { .kind = EVENT_incarnation, .actor = STR(PAUSED_BY_RESTORE), .reason = str_of(reason) },
        { .kind = EVENT_pause, .actor = STR(PAUSED_BY_RESTORE), .subject = STR("all"), .reason = STR(HELD_REASON) } };
    struct tagger tagger = { 0 };
    bool ok = db_run(db, SQL_begin, err) &&
              incarnation_events(db, key, events, facts->active ? 1 : 2, seals_tags(lost, key, &tagger), err) &&
              (facts->active || restored_hold(db, err));
    tagger_release(&tagger);
    if (!ok)
        return false;
    bind_text(db->stmts[SQL_meta_delete], 1, WITHOUT_NAME);
    if (!db_run(db, SQL_meta_delete, err))
        return false;
    bind_text(db->stmts[SQL_meta_delete], 1, KEY_NAME);
    return db_run(db, SQL_meta_delete, err) && place_forget(db, err) && db_run(db, SQL_commit, err);
}

static bool history_check(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const char *file, struct err *err)
{
    struct verify_report report;
    if (!verify_walk(db, key, &(struct verify_wish){ 0 }, &report, err))
        return false;
    return report.ok || err_set(err, ERR_corrupt, "%s is damaged: %s", file, report.fault);
}

struct restoring { /* what comes back beside the database */
    struct log_put logs;
    struct blob_put files;
    struct backup_facts *facts;
    bool any_logs;
};

static bool restore_write(
    const char *from_file, const char *part, struct restoring *r, uint8_t out_key[CHAIN_KEY_BYTES], struct err *err)
{
    struct db from = { 0 }, to = { 0 };
    int64_t version = 0;
    struct buf lost;
    buf_init(&lost, SIZE_MAX);
    bool ok = source_open(&from, from_file, &version, err) && integrity_check(&from, SQL_integrity_check, err) &&
              target_open(&to, part, err) && pages_copy(&from, &to, err) && db_exec(&to, SQL_pragma_single_file, err) &&
              schema_migrate(&to, version, err) &&
              db_prepare(&to, SQL_FOR_WRITER | SQL_FOR_READER | SQL_FOR_VERIFIER, err) &&
              key_get(&to, from_file, out_key, err) && history_check(&to, out_key, from_file, err) &&
              parts_open(&to, err) && logs_take(&to, &r->logs, &r->any_logs, err) &&
              files_take(&to, &r->files, r->facts, err) && seals_drop(&to, &lost, err);
    r->facts->logs_missing = (int64_t)(lost.len / sizeof(struct log_name));
    ok = ok && parts_drop(&to, r->any_logs || r->facts->artifacts > 0, err) &&
         restored_mark(&to, out_key, r->facts, &lost, err);
    buf_release(&lost);
    db_close(&to);
    db_close(&from);
    return ok && file_sync(part, err);
}

/* All names, weir.db, logs and blobs, or none. */
static bool restore_into(const char *from_file, const char *data_dir, const char *path, const char *part,
    struct backup_facts *facts, struct err *err)
{
    uint8_t key[CHAIN_KEY_BYTES];
    struct restoring r = { .facts = facts };
    if (!logs_put_begin(&r.logs, data_dir, err))
        return false;
    if (!blobs_put_begin(&r.files, data_dir, err)) {
        logs_put_close(&r.logs, false);
        return false;
    }
    bool ok = restore_write(from_file, part, &r, key, err) && chain_key_store(data_dir, key, err);
    if (ok && rename(part, path) < 0)
        ok = err_set(err, ERR_io, "%s: %s", path, strerror(errno));
    if (!ok)
        unlink(part);
    logs_put_close(&r.logs, ok);
    blobs_put_close(&r.files, ok);
    sodium_memzero(key, sizeof key);
    return ok && dir_sync(data_dir, err);
}

bool store_restore(const char *from_file, const char *data_dir, struct backup_facts *facts, struct err *err)
{
    struct backup_facts told = { .active = true };
    char path[FILES_PATH_MAX], part[FILES_PATH_MAX];
    if (sodium_init() < 0 || !path_join(path, data_dir, "weir.db", err) ||
        !path_join(part, data_dir, "weir.db.part", err))
        return false;
    if (!file_exists(from_file))
        return err_set(err, ERR_not_found, "there is no file %s", from_file);
    if (!dir_create(data_dir, 0711, err))
        return false;
    int lock_fd = lock_take(data_dir, err);
    if (lock_fd < 0)
        return false;
    bool ok =
        !file_exists(path) ||
        err_set(err, ERR_conflict, "%s holds a store: restore into another directory, or move it away first", data_dir);
    ok = ok && restore_into(from_file, data_dir, path, part, facts ? facts : &told, err);
    close(lock_fd);
    return ok;
}
