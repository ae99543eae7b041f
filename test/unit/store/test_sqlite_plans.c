/* Query plans are golden: a statement that begins to scan or sort shows here before it shows in production.
 * usage: test_sqlite_plans GOLDEN; WEIR_GOLDEN_WRITE=1 writes the file anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sqlite/sqlite.h"
#include "world.h"

static const char *golden_path;

static void plan_add(sqlite3 *conn, const struct sql_text *text, struct buf *out)
{
    sqlite3_stmt *stmt;
    char explain[4096];
    snprintf(explain, sizeof explain, "EXPLAIN QUERY PLAN %s", text->text);
    if (sqlite3_prepare_v2(conn, explain, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text->name, sqlite3_errmsg(conn));
    buf_addf(out, "%s\n", text->name);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        buf_addf(out, "    %s\n", (const char *)sqlite3_column_text(stmt, 3));
    sqlite3_finalize(stmt);
}

static void plans_collect(struct buf *out)
{
    struct world w;
    world_make(&w);
    MUST(&w, db_exec(&sqlite_of(w.store)->db, SQL_backup_log_create, &w.err)); /* what a backup has besides */
    MUST(&w, db_exec(&sqlite_of(w.store)->db, SQL_backup_blob_create, &w.err));
    for (int id = 0; id < SQL_COUNT; id++)
        if (sql_texts[id].text &&
            !(sql_texts[id].users & (SQL_FOR_EXEC | SQL_FOR_COPY))) /* a copy reads whole tables */
            plan_add(sqlite_of(w.store)->db.conn, &sql_texts[id], out);
    world_release(&w);
}

static void plans_are_as_agreed(void **state)
{
    struct buf plans, golden;
    (void)state;
    buf_init(&plans, 1 << 20);
    buf_init(&golden, 1 << 20);
    plans_collect(&plans);
    if (getenv("WEIR_GOLDEN_WRITE")) {
        FILE *f = fopen(golden_path, "w");
        assert_non_null(f);
        fwrite(plans.ptr, 1, plans.len, f);
        fclose(f);
    }
    FILE *f = fopen(golden_path, "r");
    if (!f)
        fail_msg("%s can't be read", golden_path);
    for (int c; (c = fgetc(f)) != EOF;)
        buf_add_char(&golden, (char)c);
    fclose(f);
    if (!str_eq(buf_str(&plans), buf_str(&golden)))
        fail_msg(
            "plans differ from %s (WEIR_GOLDEN_WRITE=1 writes it anew); they are now:\n%s", golden_path, plans.ptr);
    buf_release(&plans);
    buf_release(&golden);
}

/* Whatever the golden file says: what runs within a turn walks no table that grows with the queue, and sorts nothing.
 */
static void no_turn_scans(void **state)
{
    static const char *const small[] = { "SCAN lane", "SCAN class", "SCAN slot", "SCAN executor", "SCAN token",
        "SCAN live", "SCAN archive", "SCAN schedule", "SCAN site" };
    struct world w;
    (void)state;
    world_make(&w);
    for (int id = 0; id < SQL_COUNT; id++) {
        struct buf plan;
        if (!(sql_texts[id].users & SQL_FOR_WRITER))
            continue;
        buf_init(&plan, 1 << 16);
        plan_add(sqlite_of(w.store)->db.conn, &sql_texts[id], &plan);
        const char *scan = strstr(plan.ptr, "SCAN ");
        bool may = !scan;
        for (size_t i = 0; scan && i < sizeof small / sizeof small[0]; i++)
            may = may || strncmp(scan, small[i], strlen(small[i])) == 0;
        if (!may || strstr(plan.ptr, "TEMP B-TREE") || strstr(plan.ptr, "AUTOMATIC"))
            fail_msg("%s", plan.ptr);
        buf_release(&plan);
    }
    world_release(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_as_agreed),
        cmocka_unit_test(no_turn_scans),
    };
    golden_path = argc > 1 ? argv[1] : "test/golden/plans_sqlite.txt";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
