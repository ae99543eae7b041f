/* What a data directory may and may not be, and what is made in it. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_sql.h"
#include "world.h"

static void sql(const char *dir, const char *text)
{
    char path[256], *words = NULL;
    sqlite3 *conn;
    snprintf(path, sizeof path, "%s/weir.db", dir);
    assert_int_equal(sqlite3_open(path, &conn), SQLITE_OK);
    if (sqlite3_exec(conn, text, NULL, NULL, &words) != SQLITE_OK)
        fail_msg("%s: %s", text, words);
    sqlite3_close(conn);
}

/* A store that was used and closed; `change` is done to it; then it must be refused with code and words. */
static void refused(const char *change, enum err_code code, const char *words)
{
    struct world w;
    struct life life;
    world_make(&w);
    life_begin(&w, &life);
    reader_close(w.reader);
    OPS(&w)->close(w.store);
    w.reader = NULL, w.store = NULL;
    if (change)
        sql(w.dir, change);
    struct store_config config = world_config(&w, true);
    assert_null(store_open(&config, &w.err));
    if (w.err.code != code || !strstr(w.err.text, words))
        fail_msg("%s: %s", err_name(w.err.code), w.err.text);
    world_release(&w);
}

static void a_newer_schema_is_refused(void **state)
{
    char change[64];
    (void)state;
    snprintf(change, sizeof change, "PRAGMA user_version = %d", SQL_SCHEMA_VERSION + 1);
    refused(change, ERR_conflict, "newer");
    refused("PRAGMA user_version = 0", ERR_corrupt, "schema 0");
}

static void a_foreign_database_is_refused(void **state)
{
    (void)state;
    refused("PRAGMA application_id = 1", ERR_conflict, "another program");
    refused("PRAGMA application_id = 0; PRAGMA user_version = 0", ERR_conflict, "another program");
}

static void planted_code_is_refused(void **state)
{
    (void)state;
    refused("CREATE TRIGGER evil AFTER INSERT ON task BEGIN DELETE FROM task; END", ERR_corrupt, "trigger");
    refused("CREATE VIEW evil AS SELECT 1", ERR_corrupt, "view");
}

static void a_changed_head_is_refused(void **state)
{
    (void)state;
    refused("UPDATE head SET seq = 0", ERR_corrupt, "verify");
    refused("DELETE FROM head", ERR_corrupt, "verify");
}

static void what_is_no_database_is_refused(void **state)
{
    struct world w;
    char path[256];
    (void)state;
    world_make(&w);
    reader_close(w.reader);
    OPS(&w)->close(w.store);
    w.reader = NULL, w.store = NULL;
    snprintf(path, sizeof path, "%s/weir.db", w.dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 5000; i++)
        fputs("no database ", f);
    fclose(f);
    struct store_config config = world_config(&w, true);
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_corrupt);
    world_release(&w);
}

static void damage_is_found_at_the_start(void **state)
{
    struct world w;
    struct life life;
    char path[256];
    (void)state;
    world_make(&w);
    life_begin(&w, &life);
    reader_close(w.reader);
    OPS(&w)->close(w.store);
    w.reader = NULL, w.store = NULL;
    snprintf(path, sizeof path, "%s/weir.db", w.dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    char noise[4096];
    memset(noise, 0x5a, sizeof noise);
    for (off_t page = 2; page < 12; page++)
        assert_int_equal(pwrite(fd, noise, sizeof noise, page * 4096), sizeof noise);
    close(fd);
    struct store_config config = world_config(&w, false);
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_corrupt);
    world_release(&w);
}

static void a_lost_or_other_key_is_refused(void **state)
{
    struct world w;
    struct life life;
    char path[256];
    (void)state;
    world_make(&w);
    life_begin(&w, &life);
    reader_close(w.reader);
    OPS(&w)->close(w.store);
    w.reader = NULL, w.store = NULL;
    struct store_config config = world_config(&w, true);
    snprintf(path, sizeof path, "%s/verify.key", w.dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_corrupt);
    assert_int_equal(ftruncate(fd, 5), 0);
    close(fd);
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_corrupt);
    unlink(path);
    assert_null(store_open(&config, &w.err)); /* a new key would cut the history in two */
    assert_int_equal(w.err.code, ERR_not_found);
    world_release(&w);
}

static unsigned mode_of(const char *dir, const char *name)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void only_the_owner_reads(void **state)
{
    struct world w = { 0 };
    char dir[64];
    (void)state;
    world_dir_make(dir);
    snprintf(w.dir, sizeof w.dir, "%s/data", dir);
    backend_chosen()->url(w.dir, w.url, sizeof w.url);
    struct store_config config = world_config(&w, true);
    mode_t before = umask(0);
    MUST(&w, w.store = store_open(&config, &w.err));
    umask(before);
    assert_int_equal(mode_of(w.dir, "."), 0711);
    assert_int_equal(mode_of(w.dir, "weir.db"), 0600);
    assert_int_equal(mode_of(w.dir, "weir.db-wal"), 0600);
    assert_int_equal(mode_of(w.dir, "weir.db-shm"), 0600);
    assert_int_equal(mode_of(w.dir, "verify.key"), 0600);
    assert_int_equal(mode_of(w.dir, "lock"), 0600);
    OPS(&w)->close(w.store);
    world_dir_remove(dir);
}

/* A crash between the file's creation and the first head leaves an empty file, or tables without a head: both are taken
 * up again. */
static void a_half_made_store_is_finished(void **state)
{
    struct world w = { 0 };
    char dir[64], path[256];
    (void)state;
    world_dir_make(dir);
    snprintf(w.dir, sizeof w.dir, "%s", dir);
    backend_chosen()->url(w.dir, w.url, sizeof w.url);
    snprintf(path, sizeof path, "%s/weir.db", w.dir);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    struct store_config config = world_config(&w, false);
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_not_found);
    config.create = true;
    MUST(&w, w.store = store_open(&config, &w.err));
    OPS(&w)->close(w.store);
    sql(dir, "DELETE FROM head");
    MUST(&w, w.store = store_open(&config, &w.err));
    OPS(&w)->close(w.store);
    world_dir_remove(dir);
}

static void a_turn_without_changes_touches_no_disk(void **state)
{
    struct world w;
    struct life life;
    struct stat before, after;
    char path[256];
    (void)state;
    world_make(&w);
    life_begin(&w, &life);
    snprintf(path, sizeof path, "%s/weir.db-wal", w.dir);
    assert_int_equal(stat(path, &before), 0);
    for (int i = 0; i < 10; i++) {
        turn_begin(&w);
        turn_end(&w);
    }
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_schema_is_refused),
        cmocka_unit_test(a_foreign_database_is_refused),
        cmocka_unit_test(planted_code_is_refused),
        cmocka_unit_test(a_changed_head_is_refused),
        cmocka_unit_test(what_is_no_database_is_refused),
        cmocka_unit_test(damage_is_found_at_the_start),
        cmocka_unit_test(a_lost_or_other_key_is_refused),
        cmocka_unit_test(only_the_owner_reads),
        cmocka_unit_test(a_half_made_store_is_finished),
        cmocka_unit_test(a_turn_without_changes_touches_no_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
