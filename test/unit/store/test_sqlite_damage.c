/* What is done to the history behind the store's back: every flipped byte, removed, swapped, cut or invented row is
 * found. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "world.h"

enum { ROW_FLIPS = 600, FILE_FLIPS = 500 };

struct scene {
    struct world w;
    struct life life;
    sqlite3 *conn; /* the intruder's */
};

static void scene_make(struct scene *s, int turns)
{
    struct rng rng;
    char path[256];
    world_make(&s->w);
    rng_seed(&rng, 11);
    life_begin(&s->w, &s->life);
    for (int i = 0; i < turns; i++) {
        life_turn(&s->w, &s->life, &rng, rng_below(&rng, 6), rng_below(&rng, 8));
        if (s->w.n_events)
            turn_end(&s->w);
        else
            OPS(&s->w)->rollback(s->w.store);
    }
    reader_close(s->w.reader);
    OPS(&s->w)->close(s->w.store);
    s->w.reader = NULL, s->w.store = NULL;
    snprintf(path, sizeof path, "%s/weir.db", s->w.dir);
    assert_int_equal(sqlite3_open(path, &s->conn), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s->conn, "PRAGMA synchronous = OFF", NULL, NULL, NULL), SQLITE_OK);
}

static void scene_release(struct scene *s)
{
    sqlite3_close(s->conn);
    world_release(&s->w);
}

static void sql(struct scene *s, const char *text)
{
    char *words = NULL;
    if (sqlite3_exec(s->conn, text, NULL, NULL, &words) != SQLITE_OK)
        fail_msg("%s: %s", text, words);
}

static int64_t number(struct scene *s, const char *text)
{
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_prepare_v2(s->conn, text, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return n;
}

static bool whole(struct scene *s)
{
    struct verify_report report;
    s->w.err = (struct err){ 0 };
    MUST(&s->w, store_verify(s->w.dir, 0, NULL, &report, &s->w.err));
    assert_true(report.ok || report.fault[0]);
    return report.ok;
}

/* One bit of one byte of a bytes column of one row, there and back again. */
static void bit_flip(struct scene *s, const char *column, int64_t turn, int64_t byte, int bit)
{
    sqlite3_blob *blob;
    unsigned char c;
    assert_int_equal(sqlite3_blob_open(s->conn, "main", "turn", column, turn, 1, &blob), SQLITE_OK);
    int at = (int)(byte % sqlite3_blob_bytes(blob));
    assert_int_equal(sqlite3_blob_read(blob, &c, 1, at), SQLITE_OK);
    c = (unsigned char)(c ^ 1u << bit);
    assert_int_equal(sqlite3_blob_write(blob, &c, 1, at), SQLITE_OK);
    sqlite3_blob_close(blob);
}

static void every_flipped_bit_of_a_row_is_found(void **state)
{
    struct scene s;
    struct rng rng;
    int undetected = 0;
    (void)state;
    scene_make(&s, 60);
    rng_seed(&rng, 12);
    int64_t turns = number(&s, "SELECT max(turn) FROM turn");
    assert_true(whole(&s));
    for (int i = 0; i < ROW_FLIPS; i++) {
        int64_t turn = 1 + (int64_t)rng_below(&rng, (uint64_t)turns), byte = (int64_t)rng_below(&rng, 100000);
        int bit = (int)rng_below(&rng, 8), part = (int)rng_below(&rng, 8);
        char text[128], back[128];
        if (part < 6) {
            const char *column = part < 5 ? "events" : "hash";
            bit_flip(&s, column, turn, byte, bit);
            undetected += whole(&s);
            bit_flip(&s, column, turn, byte, bit);
            continue;
        }
        const char *column = part == 6 ? "at" : "first_seq";
        long long by = 1LL << (byte % 40);
        snprintf(
            text, sizeof text, "UPDATE turn SET %s = %s + %lld WHERE turn = %lld", column, column, by, (long long)turn);
        snprintf(
            back, sizeof back, "UPDATE turn SET %s = %s - %lld WHERE turn = %lld", column, column, by, (long long)turn);
        sql(&s, text);
        undetected += whole(&s);
        sql(&s, back);
    }
    assert_true(whole(&s));
    print_message("           %d flips of rows, %d undetected\n", ROW_FLIPS, undetected);
    assert_int_equal(undetected, 0);
    scene_release(&s);
}

static void every_other_edit_is_found(void **state)
{
    static const char *const edits[] = {
        "DELETE FROM turn WHERE turn = 1",
        "DELETE FROM turn WHERE turn = 17",
        "DELETE FROM turn WHERE turn = (SELECT max(turn) FROM turn)",
        "DELETE FROM turn WHERE turn > 20",
        "DELETE FROM turn",
        "UPDATE turn SET turn = turn + 100000 WHERE turn = 9",
        "UPDATE turn SET turn = turn + 1000",
        /* two turns swapped, with and without their numbers and hashes */
        "UPDATE turn SET events = (SELECT events FROM turn t WHERE t.turn = 23 - turn.turn) WHERE turn IN (11, 12)",
        "UPDATE turn SET turn = -turn WHERE turn IN (11, 12); UPDATE turn SET turn = 23 + turn WHERE turn < 0",
        "INSERT INTO turn SELECT turn + 1000, first_seq, at, hash, events, tags FROM turn WHERE turn = 5",
        "INSERT INTO turn SELECT max(turn) + 1, max(first_seq) + 1, max(at), hash, events, tags FROM turn",
        "UPDATE turn SET tags = NULL WHERE turn = 12",
        "UPDATE turn SET tags = NULL",
        "UPDATE turn SET events = events || tags, tags = NULL WHERE turn = 12",
        "UPDATE turn SET tags = (SELECT tags FROM turn t WHERE t.turn = 23 - turn.turn) WHERE turn IN (11, 12)",
        /* the end cut off, and the head set back so that it fits */
        ("DELETE FROM turn WHERE turn > 20; UPDATE head SET turn = 20, hash = (SELECT hash FROM turn WHERE turn = 20),"
         " seq = (SELECT seq FROM cut); DELETE FROM task WHERE id > (SELECT id FROM cut)"),
        "UPDATE head SET hash = zeroblob(32)",
        "UPDATE head SET seal = zeroblob(32)",
        "UPDATE head SET seq = seq + 1",
        "UPDATE head SET incarnation = incarnation + 1",
        "UPDATE head SET turn = 1",
        "DELETE FROM head",
        "UPDATE task SET state = CASE state WHEN 'D' THEN 'F' ELSE 'D' END WHERE id = 7",
        "UPDATE task SET state = '' WHERE id = 7",
        "UPDATE task SET state = 'Z' WHERE id = 7",
        "DELETE FROM task WHERE id = 7",
        "DELETE FROM task WHERE id = (SELECT max(id) FROM task)",
        "UPDATE task SET id = id + 100000 WHERE id = 7",
        "CREATE TEMP TABLE copy AS SELECT * FROM task WHERE id = 3; UPDATE copy SET id = 5003; INSERT INTO task SELECT "
        "* FROM copy",
    };
    static const char cut[] = "PRAGMA temp_store = MEMORY; CREATE TEMP TABLE cut AS"
                              " SELECT (SELECT first_seq - 1 FROM turn WHERE turn = 21) AS seq, 30 AS id";
    struct scene s;
    (void)state;
    scene_make(&s, 60);
    sql(&s, cut);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        struct verify_report report;
        sql(&s, "BEGIN");
        sql(&s, edits[i]);
        sql(&s, "COMMIT");
        MUST(&s.w, store_verify(s.w.dir, 0, NULL, &report, &s.w.err));
        if (report.ok)
            fail_msg("not found: %s", edits[i]);
        scene_release(&s);
        scene_make(&s, 60); /* the same history again */
        sql(&s, cut);
    }
    print_message("           %zu edits, each found\n", sizeof edits / sizeof edits[0]);
    scene_release(&s);
}

/* All that the history says, as one number; -1: it can't be read. */
static int64_t history_print(const char *dir)
{
    char path[256];
    sqlite3 *conn = NULL;
    sqlite3_stmt *stmt = NULL;
    uint64_t hash = 1;
    int rc = SQLITE_ERROR;
    snprintf(path, sizeof path, "%s/weir.db", dir);
    if (sqlite3_open_v2(path, &conn, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(conn, "SELECT turn, first_seq, at, hash, events FROM turn ORDER BY turn", -1, &stmt, NULL) ==
            SQLITE_OK)
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
            for (int i = 0; i < 5; i++) {
                int64_t numbers[2] = { sqlite3_column_type(stmt, i), i < 3 ? sqlite3_column_int64(stmt, i) : 0 };
                hash = hash * 31 + str_hash((struct str){ (const char *)numbers, sizeof numbers });
                if (i >= 3)
                    hash = hash * 31 + str_hash((struct str){
                                           sqlite3_column_blob(stmt, i), (size_t)sqlite3_column_bytes(stmt, i) });
            }
    sqlite3_finalize(stmt);
    sqlite3_close(conn);
    return rc == SQLITE_DONE ? (int64_t)(hash >> 1) : -1;
}

/* Bytes of the file itself: whatever changes what the history says, or that it can be read, must be found. */
static void flips_of_the_file_are_found(void **state)
{
    struct scene s;
    struct rng rng;
    char path[256];
    int changed = 0, undetected = 0;
    (void)state;
    scene_make(&s, 60);
    assert_int_equal(sqlite3_exec(s.conn, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(s.conn);
    s.conn = NULL;
    int64_t print = history_print(s.w.dir);
    assert_true(print >= 0);
    assert_true(whole(&s));
    rng_seed(&rng, 13);
    snprintf(path, sizeof path, "%s/weir.db", s.w.dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    for (int i = 0; i < FILE_FLIPS; i++) {
        unsigned char was, is;
        off_t at = (off_t)rng_below(&rng, (uint64_t)size);
        assert_int_equal(pread(fd, &was, 1, at), 1);
        is = (unsigned char)(was ^ (1 + rng_below(&rng, 255)));
        assert_int_equal(pwrite(fd, &is, 1, at), 1);
        if (history_print(s.w.dir) != print) {
            struct verify_report report;
            struct err err = { 0 };
            changed++;
            undetected += store_verify(s.w.dir, 0, NULL, &report, &err) && report.ok;
        }
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }
    close(fd);
    print_message("           %d flips of the file, %d of them changed the history, %d undetected\n", FILE_FLIPS,
        changed, undetected);
    assert_true(changed > 20);
    assert_int_equal(undetected, 0);
    assert_true(whole(&s));
    scene_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_of_a_row_is_found),
        cmocka_unit_test(every_other_edit_is_found),
        cmocka_unit_test(flips_of_the_file_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
