/* The writer's WAL file: a commit is one write and one sync, in this order; spilled pages are found; a write that fails
 * is the commit's failure and leaves nothing behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/files.h"
#include "store/sqlite/db.h"

enum { CALLS_MAX = 100000, ROWS = 3000 };

/* What happened to the WAL: w a write, s a sync. fails: the error of the next write, 0: none. */
static struct {
    char calls[CALLS_MAX];
    size_t n;
    ino_t wal;
    int fails;
} seen;

static bool is_wal(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_ino == seen.wal;
}

static void seen_add(char call)
{
    assert_true(seen.n + 1 < sizeof seen.calls);
    seen.calls[seen.n++] = call;
    seen.calls[seen.n] = '\0';
}

static ssize_t watched_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    if (is_wal(fd)) {
        seen_add('w');
        if (seen.fails) {
            errno = seen.fails;
            return -1;
        }
    }
    return pwrite(fd, bytes, n, at);
}

int fdatasync(int fd) /* SQLite's, too: a program's own function is found first */
{
    if (is_wal(fd))
        seen_add('s');
    return (int)syscall(SYS_fdatasync, fd);
}

static const char *calls_take(void)
{
    static char calls[CALLS_MAX];
    memcpy(calls, seen.calls, seen.n + 1);
    seen.n = 0, seen.calls[0] = '\0';
    return calls;
}

struct scene {
    char dir[64], path[96];
    struct db db;
    struct err err;
};

#define MUST(s, x) \
    do { \
        if (!(x)) \
            fail_msg("%s: %s", #x, (s)->err.text); \
    } while (0)

static void sql(struct scene *s, const char *text)
{
    if (sqlite3_exec(s->db.conn, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(s->db.conn));
}

/* By a connection of its own, through SQLite's own VFS. */
static int64_t elsewhere(struct scene *s, const char *question)
{
    struct db other;
    sqlite3_stmt *stmt = NULL;
    MUST(s, db_connect(&other, s->path, SQLITE_OPEN_READONLY, &s->err));
    assert_int_equal(sqlite3_prepare_v2(other.conn, question, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    db_close(&other);
    return number;
}

static void scene_make(struct scene *s)
{
    bool made;
    struct stat st;
    char wal[128];
    memset(s, 0, sizeof *s);
    memset(&seen, 0, sizeof seen);
    snprintf(s->dir, sizeof s->dir, "/tmp/weir-wal-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->path, sizeof s->path, "%s/weir.db", s->dir);
    snprintf(wal, sizeof wal, "%s-wal", s->path);
    MUST(s, file_create(s->path, &made, &s->err));
    MUST(s, db_connect_writer(&s->db, s->path, &s->err));
    MUST(s, db_exec(&s->db, SQL_pragma_writer, &s->err));
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_syscall_ptr watched = (sqlite3_syscall_ptr)(void (*)(void))watched_pwrite;
    assert_int_equal(vfs->xSetSystemCall(vfs, "pwrite", watched), SQLITE_OK);
    assert_int_equal(vfs->xSetSystemCall(vfs, "pwrite64", watched), SQLITE_OK);
    sql(s, "CREATE TABLE a (id INTEGER PRIMARY KEY, x BLOB); CREATE TABLE b (id INTEGER PRIMARY KEY, x BLOB);"
           " CREATE TABLE c (id INTEGER PRIMARY KEY, x BLOB)");
    assert_int_equal(stat(wal, &st), 0);
    seen.wal = st.st_ino;
}

static void scene_release(struct scene *s)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    db_close(&s->db);
    vfs->xSetSystemCall(vfs, NULL, NULL);
    assert_int_equal(unlink(s->path), 0);
    assert_int_equal(rmdir(s->dir), 0);
}

static const char *const THREE_TREES =
    "BEGIN; INSERT INTO a (x) VALUES (zeroblob(50)); INSERT INTO b (x) VALUES (zeroblob(50));"
    " INSERT INTO c (x) VALUES (zeroblob(50)); COMMIT";

static void a_commit_is_one_write_and_one_sync(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s);
    for (int i = 1; i <= 300; i++) {
        sql(&s, THREE_TREES);
        assert_string_equal(calls_take(), "ws");
        assert_int_equal(elsewhere(&s, "SELECT count(*) FROM c"), i);
    }
    scene_release(&s);
}

/* The writer reads pages that it had to write before the commit. */
static void a_transaction_larger_than_the_cache_is_whole(void **state)
{
    struct scene s;
    char fill[256];
    (void)state;
    scene_make(&s);
    snprintf(fill, sizeof fill,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
        " INSERT INTO a (id, x) SELECT i * 7919 %% 10007, randomblob(1500) FROM n",
        ROWS);
    sql(&s, "PRAGMA cache_size = 10; PRAGMA cache_spill = 10");
    for (int round = 0; round < 2; round++) {
        sql(&s, "BEGIN");
        sql(&s, fill);
        sql(&s, "UPDATE a SET x = zeroblob(1400) WHERE id % 3 = 0");
        assert_non_null(strchr(calls_take(), 'w'));
        assert_int_equal(elsewhere(&s, "SELECT count(*) FROM a"), 0);
        sql(&s, round == 0 ? "ROLLBACK" : "COMMIT");
    }
    const char *calls = calls_take();
    assert_int_equal(calls[strlen(calls) - 1], 's');
    assert_int_equal(elsewhere(&s, "SELECT count(*) FROM a"), ROWS);
    assert_int_equal(
        elsewhere(&s, "SELECT count(*) FROM a WHERE length(x) <> CASE id % 3 WHEN 0 THEN 1400 ELSE 1500 END"), 0);
    assert_int_equal(elsewhere(&s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    scene_release(&s);
}

static void a_write_that_fails_fails_the_commit(void **state)
{
    static const struct {
        int error, code;
    } cases[] = { { ENOSPC, SQLITE_FULL }, { EIO, SQLITE_IOERR } };
    struct scene s;
    (void)state;
    scene_make(&s);
    sql(&s, THREE_TREES);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        calls_take();
        seen.fails = cases[i].error;
        assert_int_equal(sqlite3_exec(s.db.conn, THREE_TREES, NULL, NULL, NULL) & 0xff, cases[i].code);
        assert_string_equal(calls_take(), "w"); /* and no sync */
        seen.fails = 0;
        if (!sqlite3_get_autocommit(s.db.conn))
            sql(&s, "ROLLBACK");
        assert_int_equal(elsewhere(&s, "SELECT count(*) FROM a"), 1 + (int)i);
        sql(&s, THREE_TREES);
        assert_string_equal(calls_take(), "ws");
        assert_int_equal(elsewhere(&s, "SELECT count(*) FROM a"), 2 + (int)i);
    }
    scene_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_is_one_write_and_one_sync),
        cmocka_unit_test(a_transaction_larger_than_the_cache_is_whole),
        cmocka_unit_test(a_write_that_fails_fails_the_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
