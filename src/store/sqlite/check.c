/* check: does SQLite find its own file whole?
 *
 * Where no server runs, PRAGMA integrity_check: everything, the indexes too, in one read. Beside a server that read
 * would keep the WAL from being used again, so every table is walked by its key in steps of STEP_US, each a read
 * transaction of its own, and every column is read: a page that isn't what it should be is met. What only
 * integrity_check finds: an index that doesn't fit its table, pages that nobody uses.
 *
 * Damage is ERR_corrupt, and noted (damage.h) by the connection that met it. */
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "store/damage.h"
#include "store/sqlite/check.h"
#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

enum { KEY_MAX = 4, WALK_STEP_US = 20000 };

struct walk { /* of one table: behind which key it goes on */
    struct db *db;
    const struct sql_table *table;
    int64_t numbers[KEY_MAX];
    struct buf texts[KEY_MAX];
    bool is_text[KEY_MAX];
    int64_t rows;
};

static void key_bind(const struct walk *w, sqlite3_stmt *stmt)
{
    for (int i = 0; i < w->table->n_key; i++)
        if (w->is_text[i])
            bind_text(stmt, i + 1, buf_str(&w->texts[i]));
        else
            bind_i64(stmt, i + 1, w->numbers[i]);
}

/* Reads the row to its last byte, and remembers its key. */
static void row_take(struct walk *w, sqlite3_stmt *stmt)
{
    for (int i = 0, n = sqlite3_column_count(stmt); i < n; i++)
        (void)(sqlite3_column_type(stmt, i) == SQLITE_BLOB ? sqlite3_column_blob(stmt, i)
                                                           : (const void *)sqlite3_column_text(stmt, i));
    for (int i = 0; i < w->table->n_key; i++) {
        w->is_text[i] = sqlite3_column_type(stmt, i) == SQLITE_TEXT;
        w->numbers[i] = sqlite3_column_int64(stmt, i);
        buf_reset(&w->texts[i]);
        if (w->is_text[i])
            buf_add(&w->texts[i], (const char *)sqlite3_column_text(stmt, i), (size_t)sqlite3_column_bytes(stmt, i));
    }
    w->rows++;
}

/* One read transaction. *out_end: the table has no more. */
static bool walk_step(struct walk *w, bool *out_end, struct err *err)
{
    enum sql_id id = w->table->walk;
    sqlite3_stmt *stmt = w->db->stmts[id];
    int64_t deadline = clock_boot_us() + WALK_STEP_US;
    enum query_step step;
    int n = 0;
    key_bind(w, stmt);
    while ((step = db_next(w->db, id, err)) == QUERY_ROW) {
        row_take(w, stmt);
        n++;
        if (clock_boot_us() > deadline)
            break;
    }
    if (step == QUERY_ROW)
        db_reset(w->db, id);
    *out_end = step == QUERY_DONE && n == 0;
    return step != QUERY_ERROR;
}

static void pause_us(int64_t us)
{
    struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
    nanosleep(&t, NULL);
}

static bool table_walk(
    struct db *db, const struct sql_table *table, const struct check_pace *pace, int64_t *rows, struct err *err)
{
    struct walk w = { .db = db, .table = table };
    const char *types = table->types;
    bool ok = table->n_key <= KEY_MAX, end = false;
    ASSERT(ok);
    for (int i = 0; i < KEY_MAX; i++) {
        buf_init(&w.texts[i], SIZE_MAX);
        w.numbers[i] = INT64_MIN;
        w.is_text[i] = i < table->n_key && types[i] == 't'; /* the columns of a key come first in every table */
    }
    while (ok && !end && !(pace->stop && atomic_load(pace->stop))) {
        int64_t before = clock_boot_us();
        ok = walk_step(&w, &end, err);
        if (pace->idle)
            pause_us(pace->idle * (clock_boot_us() - before));
    }
    for (int i = 0; i < KEY_MAX; i++)
        buf_release(&w.texts[i]);
    *rows += w.rows;
    return ok;
}

bool check_walk(const char *path, const struct check_pace *pace, int64_t *out_rows, struct err *err)
{
    struct db db = { 0 };
    *out_rows = 0;
    bool ok = db_connect(&db, path, SQLITE_OPEN_READONLY, err) && db_exec(&db, SQL_pragma_reader, err) &&
              db_prepare(&db, SQL_FOR_CHECK, err);
    for (size_t i = 0; ok && i < SQL_TABLE_COUNT; i++) {
        ok = table_walk(&db, &sql_tables[i], pace, out_rows, err);
        if (!ok)
            err_context(err, "table %s", sql_tables[i].name);
        if (pace->tell)
            pace->tell(pace->owner, sql_tables[i].name, *out_rows);
    }
    db_close(&db);
    return ok;
}

bool check_whole(const char *path, struct err *err)
{
    struct db db = { 0 };
    bool ok = db_connect(&db, path, SQLITE_OPEN_READONLY, err) && integrity_check(&db, SQL_integrity_check, err);
    db_close(&db);
    return ok;
}

bool check_is_served(const char *dir)
{
    char path[FILES_PATH_MAX];
    struct err ignored = { 0 };
    int fd = path_join(path, dir, "lock", &ignored) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0)
        return false;
    bool free = flock(fd, LOCK_SH | LOCK_NB) == 0;
    close(fd);
    return !free;
}
