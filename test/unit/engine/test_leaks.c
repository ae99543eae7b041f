/* What goes when nobody needs it any more: slots of concurrency keys, semaphores, classes, executors that nobody hears. And a long life,
 * day by day: at its end there are the rows, and the memory is taken, of the time when the first of everything had gone. On SQLite; under
 * test/lib/postgres.py the long life and what concerns two servers, on PostgreSQL. */
#include <libpq-fe.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/turn.h"
#include "rig.h"

#define RIG(name) \
    struct rig name __attribute__((cleanup(rig_close))) = { 0 }; \
    rig_open(&name)

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define YEAR (366 * DAY)

static int64_t ask_postgres(const struct rig *rig, const char *sql)
{
    PGconn *conn = PQconnectdb(rig->url);
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) fail_msg("%s: %s", sql, PQerrorMessage(conn));
    int64_t n = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(conn);
    return n;
}

static int64_t ask(const struct rig *rig, const char *sql)
{
    if (rig->url) return ask_postgres(rig, sql);
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *stmt;
    snprintf(path, sizeof path, "%s/weir.db", rig->dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

static void ended(struct rig *rig, int64_t executor, int64_t exit)
{
    struct command *poll = rig_poll(rig, executor, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(rig_finish(rig, poll->out.poll.grants[0].fence, exit, -1), ERR_none);
}

static void done(struct rig *rig, int64_t executor)
{
    ended(rig, executor, 0);
}

/* --- concurrency keys ---------------------------------------------------------------------------------------------------------- */

static void test_a_key_leaves_nothing_when_nobody_is_in_it(void **state)
{
    (void)state;
    RIG(rig);
    char text[64];
    int64_t e = rig_executor(&rig, "e", NULL);
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "t conc=pull-request-%d", i);
        ENQUEUE(&rig, text, "n kind= conc=nothing-to-run");
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 1);
        done(&rig, e);
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
    }
    assert_int_equal(rig.engine->slots.n + rig.engine->slots_empty.n, 0);
}

/* Two of one key never run at once, whether the slot was there all the time or not. */
static void test_a_key_means_the_same_slot_for_ever(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        RIG(rig);
        int64_t e = rig_executor(&rig, "e", NULL);
        int64_t first = ENQUEUE(&rig, "t conc=k", "last after=0 conc=k", "gate", "behind depends=2 conc=k");
        ended(&rig, e, 100); /* t: its slot goes, `last` makes it again */
        assert_string_equal(rig_states(&rig, first, 4), "FPPS");
        if (restarts) rig_restart(&rig);
        int64_t again = ENQUEUE(&rig, "again conc=k", "other conc=k2");
        assert_string_equal(rig_states(&rig, again, 2), "SP");
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none); /* its spec names a slot that has gone twice since */
        if (restarts) rig_restart(&rig);
        assert_int_equal(rig_state(&rig, first), 'S');
        assert_int_equal(ask(&rig, "SELECT used FROM slot WHERE name = 'concurrency/k'"), 1);
        for (int i = 0; i < 6; i++) {
            done(&rig, e);
            assert_true(ask(&rig, "SELECT count(*) FROM slot WHERE name = 'concurrency/k'") <= 1);
            assert_true(ask(&rig, "SELECT coalesce(max(used), 0) FROM slot") <= 1);
        }
        assert_string_equal(rig_states(&rig, first, 6), "DDDDDD");
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
    }
}

/* The key of one tenant isn't another's. */
static void test_a_key_is_a_tenants(void **state)
{
    (void)state;
    RIG(rig);
    (void)rig_executor(&rig, "e", NULL);
    int64_t id = ENQUEUE(&rig, "t conc=k");
    struct command *other = rig_enqueue_command(&rig, (const char *const[]){ "t conc=k" }, 1);
    other->actor.tenant = STR("acme");
    assert_int_equal(rig_one(&rig, other)->err.code, ERR_none);
    assert_string_equal(rig_states(&rig, id, 2), "PP");
    assert_int_equal(ask(&rig, "SELECT count(DISTINCT id) FROM slot WHERE name = 'concurrency/k'"), 2);
}

/* --- semaphores ------------------------------------------------------------------------------------------------------------------ */

static void test_a_semaphore_that_nobody_has_set_goes(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        RIG(rig);
        char text[64];
        int64_t e = rig_executor(&rig, "e", NULL), first = 0;
        for (int i = 0; i < 20; i++) {
            snprintf(text, sizeof text, "t sem=s%d,same", i);
            int64_t id = ENQUEUE(&rig, text);
            if (!i) first = id;
            assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 2);
            ended(&rig, e, 100);
            assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
        }
        assert_int_equal(rig.engine->slots.n + rig.engine->slot_names.n, 0);
        int64_t now = ENQUEUE(&rig, "now sem=same", "other sem=s1");
        if (restarts) rig_restart(&rig);
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none); /* its spec names slots that have gone: the same ones come again */
        assert_string_equal(rig_states(&rig, now, 2), "PP");
        assert_int_equal(rig_state(&rig, first), 'S');
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot WHERE name = 'same' AND used = 1 AND waiting = 1"), 1);
        for (int i = 0; i < 3; i++) done(&rig, e);
        assert_int_equal(rig_state(&rig, first), 'D');
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
    }
}

/* --- classes --------------------------------------------------------------------------------------------------------------------- */

static void hours(struct rig *rig, int n)
{
    for (int i = 0; i < n; i++) rig_pass(rig, HOUR);
    for (int i = 0; i < 5; i++) rig_turn(rig, NULL, 0);
}

static void test_a_class_that_nobody_needs_goes(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        RIG(rig);
        char text[64];
        int64_t first = 0;
        for (int i = 0; i < 100; i++) {
            snprintf(text, sizeof text, "t label=pull-request:%d", i);
            int64_t id = ENQUEUE(&rig, text);
            if (!i) first = id;
            assert_int_equal(rig_order(&rig, CMD_CANCEL, id), ERR_none);
            if (i % 10 == 9) hours(&rig, 2);
        }
        assert_int_equal(ask(&rig, "SELECT count(*) FROM class"), 0);
        assert_int_equal(rig.engine->classes.n + rig.engine->class_keys.n, 0);
        assert_true(rig.engine->n_serving <= 64);
        if (restarts) rig_restart(&rig);
        int64_t e = rig_executor(&rig, "e", "pull-request:1"), x = rig_executor(&rig, "x", "pull-request:0");
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
        assert_int_equal(rig_state(&rig, first), 'P');
        assert_true(rig_task(&rig, first).class_id > 100); /* no number means another class */
        if (restarts) rig_restart(&rig);
        int64_t again = ENQUEUE(&rig, "t label=pull-request:0");
        assert_int_equal(rig_task(&rig, again).class_id, rig_task(&rig, first).class_id);
        assert_int_equal(rig_poll(&rig, e, 2)->out.poll.n_grants, 0);
        assert_int_equal(rig_poll(&rig, x, 2)->out.poll.n_grants, 2);
    }
}

/* Of those that wait some keep their class, and the others get it back. */
static void test_who_waits_finds_its_class(void **state)
{
    (void)state;
    RIG(rig);
    char later[64];
    snprintf(later, sizeof later, "later label=os:x at=%lld", (long long)(10 * HOUR));
    int64_t id = ENQUEUE(&rig, "pending label=os:a", "unserved label=os:b sem=s", later, "gate label=os:c", "behind label=os:x after=3");
    assert_string_equal(rig_states(&rig, id, 5), "PSSPS");
    hours(&rig, 5);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM class"), 3);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id + 3), ERR_none);
    hours(&rig, 6);
    assert_string_equal(rig_states(&rig, id, 5), "PSPTP");
    assert_int_equal(ask(&rig, "SELECT count(*) FROM class"), 3); /* that of `gate` has gone */
    int64_t b = rig_executor(&rig, "b", "os:b"), x = rig_executor(&rig, "x", "os:x");
    assert_int_equal(rig_poll(&rig, x, 5)->out.poll.n_grants, 2);
    assert_int_equal(rig_poll(&rig, b, 5)->out.poll.n_grants, 1);
}

/* --- executors ------------------------------------------------------------------------------------------------------------------- */

static void test_an_executor_silent_for_thirty_days_goes(void **state)
{
    (void)state;
    RIG(rig);
    int64_t gone = rig_executor(&rig, "gone", NULL), paused = rig_executor(&rig, "paused", NULL);
    struct command *pause = rig_new(&rig, CMD_EXECUTOR_STATE);
    pause->in.executor_state.executor = paused;
    pause->in.executor_state.state = EXECUTOR_PAUSED;
    assert_int_equal(rig_one(&rig, pause)->err.code, ERR_none);
    int64_t here = rig_executor(&rig, "here", NULL);
    for (int day = 0; day < 29; day++) rig_pass(&rig, DAY), rig_poll(&rig, here, 0);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 3);
    for (int day = 0; day < 2; day++) rig_pass(&rig, DAY), rig_poll(&rig, here, 0);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 1);
    assert_int_equal(rig.engine->executors.n, 1);
    assert_int_equal(rig_poll(&rig, gone, 1)->err.code, ERR_not_found); /* it registers again, and is another one */
    assert_true(rig_executor(&rig, "gone", NULL) > here);
    assert_int_equal(rig_poll(&rig, paused, 1)->err.code, ERR_not_found);
}

static void test_no_executor_goes_by_a_clock_that_is_wrong(void **state)
{
    (void)state;
    RIG(rig);
    rig_executor(&rig, "e", NULL);
    rig_pass(&rig, DAY);
    for (int round = 0; round < 2; round++) {
        rig.wall += round ? -YEAR : YEAR;
        rig_pass(&rig, 12 * HOUR);
        rig_restart(&rig);
        rig_pass(&rig, 6 * HOUR);
        rig.wall -= round ? -YEAR : YEAR;
        rig_pass(&rig, 6 * HOUR);
    }
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 1);
    rig_pass(&rig, 31 * DAY);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 0);
}

/* A late result of one that has gone counts, though nobody counts it. */
static void test_a_late_result_of_an_executor_that_has_gone(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "gone", NULL), id = ENQUEUE(&rig, "t attempts=1");
    struct fence fence = rig_poll(&rig, e, 1)->out.poll.grants[0].fence;
    for (int day = 0; day < 32; day++) rig_pass(&rig, DAY);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 0);
    assert_int_equal(rig_finish(&rig, fence, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, id), 'D');
}

static void test_registering_again_takes_no_more_memory(void **state)
{
    (void)state;
    RIG(rig);
    size_t before = 0;
    for (int i = 0; i < 100; i++) {
        rig_executor(&rig, "e", i % 2 ? "os:linux" : "os:hurd");
        size_t now = rig.engine->arena.used_bytes + rig.engine->cache_arena.used_bytes;
        if (i == 1) before = now;
        if (i > 1) assert_true(now <= before);
        assert_true(rig.engine->n_texts_old <= 1);
    }
    assert_int_equal(rig.engine->executor_names.n, 1);
}

/* --- two servers ------------------------------------------------------------------------------------------------------------------ */

static void postgres_open(struct rig *rig, const char *name)
{
    static char url[200];
    char text[100];
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=weir", getenv("WEIR_TEST_POSTGRES"));
    snprintf(text, sizeof text, "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'", name);
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) fail_msg("%s: %s", text, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
    snprintf(url, sizeof url, "postgresql:///%s?host=%s&user=weir", name, getenv("WEIR_TEST_POSTGRES"));
    rig->url = url;
    rig->name = "a";
    rig_open(rig);
}

#define SHARED(a, b, database) \
    struct rig a __attribute__((cleanup(rig_close))) = { 0 }, b __attribute__((cleanup(rig_close))) = { .name = "b" }; \
    postgres_open(&a, database); \
    rig_join(&b, &a)

/* One of them removes a class, or a semaphore, that the other has in memory and uses next. */
static void test_what_another_server_has_removed_is_made_again(void **state)
{
    (void)state;
    SHARED(a, b, "leaks1");
    int64_t e = rig_executor(&a, "e", "os:x");
    for (int round = 0; round < 3; round++) {
        int64_t id = ENQUEUE(&b, "t label=os:x sem=s", "behind label=os:x sem=s");
        done(&a, e);
        done(&b, e);
        assert_string_equal(rig_states(&b, id, 2), "DD");
        assert_int_equal(ask(&a, "SELECT count(*) FROM class"), 1);
        for (int i = 0; i < 240; i++) { /* e and both servers go on for two hours */
            rig_pass(&a, HOUR / 120);
            if (i % 120 == 60) rig_pass(&b, HOUR / 120);
            rig_poll(&a, e, 0);
        }
        assert_int_equal(ask(&a, "SELECT count(*) FROM class"), 0);
        assert_int_equal(ask(&a, "SELECT count(*) FROM slot WHERE name = 's'"), 0);
        assert_int_equal(a.engine->classes.n, 0);
        rig_turn(&b, NULL, 0);
    }
    assert_int_equal(ask(&a, "SELECT count(*) FROM spec WHERE class_key = ''"), 0);
}

/* --- a long life ------------------------------------------------------------------------------------------------------------------ */

/* Tables whose rows come and go. The others are the history: tasks, what they were to run and how they ended, turns, revisions, archives
 * and queues that have had tasks stay for ever, as a promise. */
static const char *const coming[] = { "slot", "executor", "token", "idempotency", "ready", "live", "hold", "unique_key", "outputs",
    "log_tail", "schedule", "server", "duty", "site", "clock", "meta", "head", "class" };
enum { COMING = sizeof coming / sizeof *coming, DAYS_FULL = 33, DAYS_SHORT = 3 };
static const char *const slow[] = { "executor", "token", "idempotency" }; /* go after 30 days */

struct measure { int64_t rows[COMING]; size_t heap, kept; };

static struct measure measure(struct rig *rig)
{
    struct measure m;
    char sql[64];
    for (size_t i = 0; i < COMING; i++) {
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", coming[i]);
        m.rows[i] = ask(rig, sql);
    }
    const struct engine *engine = rig->engine;
    m.kept = engine->slots.n + engine->slots_empty.n + engine->executors.n + engine->executor_names.n + engine->lives.n +
             engine->classes.n + engine->n_serving + engine->slot_names.n;
    caches_specs_drop(rig->engine); /* these are bounded, and fill slowly */
    map_release(&rig->engine->specs);
    smap_release(&rig->engine->spec_texts);
    arena_release(&rig->engine->spec_arena);
    arena_release(&rig->engine->turn_arena);
    size_t before = mallinfo2().uordblks; /* 0 under a sanitizer */
    engine_free(rig->engine);             /* and not the store, whose pages are SQLite's to keep */
    rig->engine = NULL;
    m.heap = before - mallinfo2().uordblks;
    rig_restart(rig);
    return m;
}

static void revision(struct rig *rig, const char *archive, int64_t rev)
{
    struct command *command = rig_new(rig, CMD_REVISION);
    command->in.revision.archive = str_of(archive);
    command->in.revision.row = (struct revision){ .rev = rev, .author = STR("ann"), .message = STR("work") };
    struct definition_file file = { STR("_workflows/w.yaml"), STR("- {name: build, command: 'true', concurrency: '{archive}@{rev}'}\n"
                                                                  "- {name: tick, schedule: '0 12 * * *', command: 'true'}\n") };
    command->in.revision.definition = definition_read(&file, 1, STR(""));
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
    definition_release(command->in.revision.definition);
}

static void archive_add(struct rig *rig, const char *name)
{
    struct command *add = rig_new(rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = str_dup(&rig->arena, str_of(name));
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    assert_int_equal(rig_one(rig, add)->err.code, ERR_none);
}

static void token_day(struct rig *rig, const char *name)
{
    struct command *command = rig_new(rig, CMD_TOKEN_CREATE);
    struct token row = { .name = str_of(name), .tenant = STR("default"), .scopes = SCOPE_READ, .expires = rig->wall + 6 * HOUR };
    snprintf((char *)row.hash, sizeof row.hash, "%s", name);
    command->in.token_create.token = row;
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
}

static void all_done(struct rig *rig, int64_t executor)
{
    for (struct command *poll; (poll = rig_poll(rig, executor, 8))->out.poll.n_grants;)
        for (size_t i = 0; i < poll->out.poll.n_grants; i++) rig_finish(rig, poll->out.poll.grants[i].fence, 0, -1);
}

/* On a shared store a server has a turn every second: it sleeps through most of these hours. */
static void quarter_pass(struct rig *rig)
{
    if (!rig->url) {
        rig_pass(rig, 6 * HOUR);
        return;
    }
    int64_t step = rig->engine->config.lease_ms / 2, first = 6 * HOUR - 8 * step;
    for (int i = 0; i < 9; i++) {
        rig->wall += i ? step : first;
        rig->boot += i ? step : first;
        rig_turn(rig, NULL, 0);
    }
}

static void a_day(struct rig *rig, int64_t executor, int day)
{
    char name[24], key[32], text[128], never[64];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%d-%d", day, i);
        token_day(rig, name);
        snprintf(text, sizeof text, "t conc=pull-request-%s unique=u-%s sem=machine-%s", name, name, name);
        snprintf(never, sizeof never, "never label=pool:%s", name);
        struct command *command =
            rig_enqueue_command(rig, (const char *const[]){ text, "n kind=", "after after=0 conc=deploy label=os:linux", never }, 4);
        snprintf(key, sizeof key, "key-%s", name);
        command->idempotency.key = str_of(key);
        command->idempotency.route = STR("POST /v1/tasks");
        assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
        assert_int_equal(rig_order(rig, CMD_CANCEL, command->out.enqueue.tasks[3].task.id), ERR_none);
        int64_t lost = rig_executor(rig, name, "pool:short"); /* takes nothing, and is never heard of again */
        rig_poll(rig, lost, 0);
        assert_int_equal(rig_poll(rig, 1000000 + day, 1)->err.code, ERR_not_found);
        all_done(rig, executor);
        quarter_pass(rig);
    }
    revision(rig, "docs", day + 1);
    if (day % 7 == 0) {
        snprintf(name, sizeof name, "week-%d", day / 7);
        archive_add(rig, name);
        revision(rig, name, 1);
        all_done(rig, executor);
        struct command *remove = rig_new(rig, CMD_ARCHIVE_REMOVE);
        remove->in.archive.name = str_of(name);
        assert_int_equal(rig_one(rig, remove)->err.code, ERR_none);
    }
    all_done(rig, executor);
    struct command *prune = rig_new(rig, CMD_PRUNE);
    prune->in.prune.before = rig->wall - 7 * DAY;
    assert_int_equal(rig_one(rig, prune)->err.code, ERR_none);
    rig_turn(rig, NULL, 0); /* so that the rig has forgotten the last command */
    arena_reset(&rig->arena);
}

static bool no_more(size_t before, size_t after, size_t a_few)
{
    return after <= before + before / 10 + a_few;
}

static bool is_slow(const char *table)
{
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (strcmp(table, slow[i]) == 0) return true;
    return false;
}

/* WEIR_SOAK_DAYS (365: a year). What goes latest goes after 31 days, so the first full day is the 33rd; a short life says nothing of that,
 * and of memory. */
static void a_long_life(struct rig *rig, int days_usual)
{
    const char *days_text = getenv("WEIR_SOAK_DAYS");
    int days = days_text ? (int)strtol(days_text, NULL, 10) : days_usual, first = days > DAYS_FULL ? DAYS_FULL : DAYS_SHORT;
    int64_t e = rig_executor(rig, "stays", "os:linux");
    struct measure full = { 0 };
    archive_add(rig, "docs");
    for (int day = 0; day < days; day++) {
        a_day(rig, e, day);
        if (day == first) full = measure(rig);
    }
    struct measure last = measure(rig);
    for (size_t i = 0; i < COMING; i++)
        if (!no_more((size_t)full.rows[i], (size_t)last.rows[i], 2) && !(first == DAYS_SHORT && is_slow(coming[i])))
            fail_msg("%s: %d rows on day %d, %d on day %d", coming[i], (int)full.rows[i], first, (int)last.rows[i], days);
    if (first == DAYS_SHORT) return;
    if (!no_more(full.kept, last.kept, 2)) fail_msg("%zu things in memory, then %zu", full.kept, last.kept);
    if (full.heap && !no_more(full.heap, last.heap, 0)) fail_msg("%zu bytes of memory, then %zu", full.heap, last.heap);
    for (size_t i = 0; i < COMING; i++)
        print_message("%s%s %d, %d", i ? "; " : "rows: ", coming[i], (int)full.rows[i], (int)last.rows[i]);
    print_message("\nday %d: %zu bytes of memory; day %d: %zu\n", DAYS_FULL, full.heap, days, last.heap);
}

static void test_a_year_takes_no_more_than_its_first_weeks(void **state)
{
    (void)state;
    RIG(rig);
    a_long_life(&rig, 70);
}

static void test_a_year_on_postgresql(void **state)
{
    (void)state;
    struct rig rig __attribute__((cleanup(rig_close))) = { 0 };
    postgres_open(&rig, "leaks2");
    a_long_life(&rig, 6);
}

int main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(test_what_another_server_has_removed_is_made_again),
        cmocka_unit_test(test_a_year_on_postgresql),
    };
    if (getenv("WEIR_TEST_POSTGRES")) return cmocka_run_group_tests(shared, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_leaves_nothing_when_nobody_is_in_it),
        cmocka_unit_test(test_a_key_means_the_same_slot_for_ever),
        cmocka_unit_test(test_a_key_is_a_tenants),
        cmocka_unit_test(test_a_semaphore_that_nobody_has_set_goes),
        cmocka_unit_test(test_a_class_that_nobody_needs_goes),
        cmocka_unit_test(test_who_waits_finds_its_class),
        cmocka_unit_test(test_an_executor_silent_for_thirty_days_goes),
        cmocka_unit_test(test_no_executor_goes_by_a_clock_that_is_wrong),
        cmocka_unit_test(test_a_late_result_of_an_executor_that_has_gone),
        cmocka_unit_test(test_registering_again_takes_no_more_memory),
        cmocka_unit_test(test_a_year_takes_no_more_than_its_first_weeks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
