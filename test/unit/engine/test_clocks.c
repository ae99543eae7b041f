/* Clocks and what goes by them: retention, keys and tokens that expire, schedules, what a retry does to what was
 * pruned. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/tenants.h"
#include "engine/tokens.h"
#include "rig.h"

#define RIG(name) \
    struct rig name __attribute__((cleanup(rig_close))) = { 0 }; \
    rig_open(&name)

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define YEAR (366 * DAY)

/* --- retention --- */

static struct command *prune(struct rig *rig, int64_t before, bool dry_run)
{
    struct command *command = rig_new(rig, CMD_PRUNE);
    command->in.prune.before = before;
    command->in.prune.dry_run = dry_run;
    return rig_one(rig, command);
}

/* run: the task that is pending runs and fails, with so many bytes of log. */
static void run(struct rig *rig, int64_t executor, int64_t log_bytes)
{
    struct command *poll = rig_poll(rig, executor, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    struct command *finish = rig_new(rig, CMD_FINISH);
    struct finish_item item = { .fence = poll->out.poll.grants[0].fence,
        .exit = 100,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = log_bytes };
    finish->in.finish.items = &item;
    finish->in.finish.n_items = 1;
    rig_one(rig, finish);
    assert_int_equal(item.code, ERR_none);
}

static void test_a_pruned_task_that_is_retried_is_pruned_again(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL), id = ENQUEUE(&rig, "t");
    run(&rig, e, 1000);
    rig_pass(&rig, 10000);
    assert_int_equal(prune(&rig, rig.wall - 1000, false)->out.prune.tasks, 1);
    ENQUEUE(&rig, "other"); /* whose bytes stay counted */
    run(&rig, e, 70);
    assert_int_equal(rig_order(&rig, CMD_RETRY, id), ERR_none);
    run(&rig, e, 5);
    assert_false(rig_task(&rig, id).marks & MARK_PRUNED);
    const struct lane *lane = map_find(&rig.engine->cache->lanes, (uint64_t)rig_task(&rig, id).lane + 1);
    assert_int_equal(lane->log_bytes, 75); /* those of the removed log aren't among them */
    rig_pass(&rig, 10000);
    struct command *again = prune(&rig, rig.wall - 1000, false);
    assert_int_equal(again->out.prune.tasks, 2);
    assert_int_equal(again->out.prune.log_bytes, 75);
    assert_int_equal(lane->log_bytes, 0);
}

/* A wrong clock at the time of a task's end makes it look old: by when it was made, it isn't. */
static void test_what_ended_by_a_clock_a_year_behind_is_not_old(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    ENQUEUE(&rig, "old");
    run(&rig, e, 10);
    rig_pass(&rig, 100 * DAY);
    e = rig_executor(&rig, "e", NULL); /* silent for so long, it has gone */
    ENQUEUE(&rig, "recent");
    run(&rig, e, 20);
    rig.wall -= YEAR;
    ENQUEUE(&rig, "precious");
    run(&rig, e, 30);
    rig.wall += YEAR;
    struct command *first = prune(&rig, rig.wall - 90 * DAY, false);
    assert_int_equal(first->out.prune.tasks, 1);
    assert_int_equal(first->out.prune.log_bytes, 10);
    rig_pass(&rig, 91 * DAY); /* and it doesn't stay for ever */
    assert_int_equal(prune(&rig, rig.wall - 90 * DAY, false)->out.prune.log_bytes, 50);
}

/* --- keys --- */

static struct command *keyed(struct rig *rig, const char *key)
{
    struct command *command = rig_enqueue_command(rig, (const char *const[]){ "t" }, 1);
    command->idempotency.key = str_dup(&rig->arena, str_of(key));
    command->idempotency.route = STR("POST /v1/tasks");
    return rig_one(rig, command);
}

static void keys_many(struct rig *rig, const char *prefix, size_t n)
{
    char key[32];
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s-%zu", prefix, i);
        assert_int_equal(keyed(rig, key)->err.code, ERR_none);
    }
}

static void test_a_key_outlives_a_clock_that_is_wrong(void **state)
{
    (void)state;
    RIG(rig);
    assert_false(keyed(&rig, "precious")->replay);
    rig.wall += YEAR;
    assert_true(keyed(&rig, "precious")->replay);
    keys_many(&rig, "ahead", 300); /* enough to look for what has expired */
    rig_pass(&rig, 2 * HOUR);
    rig_restart(&rig);
    assert_true(keyed(&rig, "precious")->replay);
    rig_pass(&rig, 2 * HOUR);
    rig.wall -= YEAR;
    assert_true(keyed(&rig, "precious")->replay);
    rig.wall -= YEAR;
    assert_false(keyed(&rig, "behind")->replay);
    rig_pass(&rig, 3 * HOUR);
    rig.wall += YEAR;
    rig_pass(&rig, 3 * HOUR);
    assert_true(keyed(&rig, "behind")->replay);
    rig_pass(&rig, 29 * DAY);
    assert_true(keyed(&rig, "precious")->replay);
    rig_pass(&rig, 3 * DAY); /* 32 in all: now it has expired */
    assert_false(keyed(&rig, "precious")->replay);
}

/* --- tokens --- */

static size_t tokens_stored(struct rig *rig)
{
    struct token **rows;
    struct err err = { 0 };
    size_t n;
    assert_true(rig->store->ops->load_tokens(rig->store, &rig->arena, 0, SIZE_MAX, &rows, &n, &err));
    return n;
}

static void token(struct rig *rig, const char *name, int64_t lives)
{
    struct command *command = rig_new(rig, CMD_TOKEN_CREATE);
    struct token row = { .name = str_dup(&rig->arena, str_of(name)),
        .tenant = STR("default"),
        .scopes = SCOPE_READ,
        .expires = lives ? rig->wall + lives : 0 };
    memcpy(row.hash, name, strlen(name) < sizeof row.hash ? strlen(name) : sizeof row.hash);
    command->in.token_create.token = row;
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
}

static void test_expired_tokens_go_and_no_others(void **state)
{
    (void)state;
    RIG(rig);
    token(&rig, "short", HOUR);
    token(&rig, "long", 30 * DAY);
    token(&rig, "for ever", 0);
    rig_pass(&rig, 3 * HOUR);
    assert_int_equal(tokens_stored(&rig), 2);
    rig.wall += YEAR; /* and put right within a day */
    rig_pass(&rig, 12 * HOUR);
    rig_restart(&rig);
    rig_pass(&rig, 6 * HOUR);
    assert_int_equal(tokens_stored(&rig), 2);
    rig.wall -= YEAR;
    rig_pass(&rig, 28 * DAY);
    assert_int_equal(tokens_stored(&rig), 2);
    rig_pass(&rig, 2 * DAY);
    assert_int_equal(tokens_stored(&rig), 1);
    token(&rig, "short", HOUR); /* the name is free again */
}

static void test_a_server_that_was_off_for_a_year_resumes(void **state)
{
    (void)state;
    RIG(rig);
    token(&rig, "long", 30 * DAY);
    rig.wall += YEAR;
    for (int day = 0; day < 3; day++) { /* it runs for nine hours a day, of which eight count: it looks once an hour */
        rig_restart(&rig);
        assert_int_equal(tokens_stored(&rig), 1);
        rig_pass(&rig, 9 * HOUR);
        rig.wall += 15 * HOUR;
    }
    rig_restart(&rig);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(tokens_stored(&rig), 0);
}

static void test_tokens_take_no_more_memory_with_each_change(void **state)
{
    (void)state;
    RIG(rig);
    char name[32];
    for (int i = 0; i < 100; i++)
        snprintf(name, sizeof name, "t%d", i), token(&rig, name, 0);
    size_t before = 0;
    for (int i = 0; i < 100; i++) {
        token(&rig, "short", 0);
        struct command *revoke = rig_new(&rig, CMD_TOKEN_REVOKE);
        revoke->in.token_revoke.name = STR("short");
        assert_int_equal(rig_one(&rig, revoke)->err.code, ERR_none);
        size_t now = rig.engine->arena.used_bytes + rig.engine->tokens->by_id.n;
        if (i == 0)
            before = now;
        assert_true(now <= before);
    }
}

/* --- a long life --- */

static int64_t rows_of(struct rig *rig, const char *table)
{
    char path[128], sql[128];
    sqlite3 *db;
    sqlite3_stmt *stmt;
    snprintf(path, sizeof path, "%s/weir.db", rig->dir);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

/* Short tokens and keyed calls, day by day: after WEIR_SOAK_DAYS (60; 365: a year) there are as many as when keys began
 * to expire. */
static void test_a_year_of_tokens_and_keys_leaves_no_more_than_a_month(void **state)
{
    (void)state;
    RIG(rig);
    const char *days_text = getenv("WEIR_SOAK_DAYS");
    int64_t days = days_text ? strtoll(days_text, NULL, 10) : 60, keys = 0, tokens = 0;
    size_t bytes = 0;
    char name[64];
    for (int64_t day = 0; day < days; day++) {
        for (int i = 0; i < 6; i++) {
            snprintf(name, sizeof name, "%d-%d", (int)day, i);
            token(&rig, name, 6 * HOUR);
            keyed(&rig, name);
            rig_pass(&rig, 4 * HOUR);
        }
        if (day == 35) { /* a key lives for 31 days */
            keys = rows_of(&rig, "idempotency");
            tokens = rows_of(&rig, "token");
            bytes = rig.engine->arena.used_bytes + rig.engine->cache->arena.used_bytes + rig.engine->tokens->by_id.n;
        }
        arena_reset(&rig.arena);
    }
    size_t bytes_now = rig.engine->arena.used_bytes + rig.engine->cache->arena.used_bytes + rig.engine->tokens->by_id.n;
    assert_true(keys > 0 && tokens > 0);
    assert_true(rows_of(&rig, "idempotency") <= keys + keys / 10);
    assert_true(rows_of(&rig, "token") <= tokens + tokens / 10 + 1);
    assert_true(bytes_now <= bytes + bytes / 10);
}

/* --- schedules --- */

static int64_t archive(struct rig *rig, const char *yaml)
{
    struct command *add = rig_new(rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("docs");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    rig_one(rig, add);
    struct command *command = rig_new(rig, CMD_REVISION);
    command->in.revision.archive = STR("docs");
    command->in.revision.row = (struct revision){ .rev = 1, .author = STR("ann"), .message = STR("work") };
    struct definition_file file = { STR("_workflows/w.yaml"), str_of(yaml) };
    command->in.revision.definition = definition_read(&file, 1, STR(""));
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
    definition_release(command->in.revision.definition);
    return add->out.archive.archive.lane;
}

/* fired: how often the clock has started the task. */
static int64_t fired(struct rig *rig, int64_t lane)
{
    int64_t id = 0, run = 0;
    struct err err = { 0 };
    assert_true(rig->store->ops->task_find(rig->store, lane, 1, STR("tick"), STR(""), -1, &id, &run, &err));
    return id ? run : 0;
}

static int64_t next_of(struct rig *rig)
{
    struct schedule *rows;
    struct err err = { 0 };
    size_t n;
    assert_true(rig->store->ops->load_schedules(rig->store, &rig->arena, &rows, &n, &err));
    assert_int_equal(n, 1);
    return rows[0].next;
}

static void test_schedules_are_right_when_the_clock_is(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        int restarts = round % 2;
        int64_t by = round < 2 ? YEAR : DAY;
        RIG(rig);
        int64_t lane = archive(&rig, "- {name: tick, schedule: '* * * * *', command: 'true'}\n");
        rig_pass(&rig, 10 * MINUTE);
        int64_t before = fired(&rig, lane);
        for (int i = 0; i < 4; i++) {
            const int64_t jumps[] = { by, -by, -by, by }; /* ahead, right, behind, right */
            rig.wall += jumps[i];
            if (restarts)
                rig_restart(&rig);
            rig_pass(&rig, 10 * MINUTE);
            assert_true(next_of(&rig) - rig.wall <= MINUTE);
        }
        /* One a minute; where the clock goes forward what was missed fires, once. A restart in the middle of it may
         * cost a slot. */
        int64_t n = fired(&rig, lane) - before;
        if (n < 40 - restarts || n > 44)
            fail_msg("%d runs in 40 minutes", (int)n);
    }
}

static void test_a_clock_set_back_by_minutes_fires_nothing_twice(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "- {name: tick, schedule: '* * * * *', command: 'true'}\n");
    rig_pass(&rig, 10 * MINUTE);
    int64_t before = fired(&rig, lane);
    rig.wall -= 5 * MINUTE;
    rig_restart(&rig);
    rig_pass(&rig, 4 * MINUTE);
    assert_int_equal(fired(&rig, lane), before);
    rig_pass(&rig, 3 * MINUTE);
    int64_t n = fired(&rig, lane) - before;
    assert_true(n >= 1 && n <= 3);
}

/* Hours ahead for a while: the schedule doesn't stand still for hours afterwards. */
static void test_a_daily_slot_fires_once_a_day_whatever_the_clock_does(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "- {name: tick, schedule: '0 12 * * *', command: 'true'}\n");
    rig_pass(&rig, 2 * DAY);
    int64_t before = fired(&rig, lane);
    rig.wall -= YEAR;
    rig_pass(&rig, 10 * MINUTE);
    rig.wall += YEAR;
    rig_pass(&rig, MINUTE);
    assert_int_equal(fired(&rig, lane), before);
    rig_pass(&rig, 2 * DAY);
    assert_int_equal(fired(&rig, lane), before + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pruned_task_that_is_retried_is_pruned_again),
        cmocka_unit_test(test_what_ended_by_a_clock_a_year_behind_is_not_old),
        cmocka_unit_test(test_a_key_outlives_a_clock_that_is_wrong),
        cmocka_unit_test(test_expired_tokens_go_and_no_others),
        cmocka_unit_test(test_a_server_that_was_off_for_a_year_resumes),
        cmocka_unit_test(test_tokens_take_no_more_memory_with_each_change),
        cmocka_unit_test(test_a_year_of_tokens_and_keys_leaves_no_more_than_a_month),
        cmocka_unit_test(test_schedules_are_right_when_the_clock_is),
        cmocka_unit_test(test_a_clock_set_back_by_minutes_fires_nothing_twice),
        cmocka_unit_test(test_a_daily_slot_fires_once_a_day_whatever_the_clock_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
