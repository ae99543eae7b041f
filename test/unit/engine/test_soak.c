/* The soak: a long life on virtual time, day by day. At its end there are the rows, and the memory is taken, of its
 * first week. What goes by its age goes after KEPT_DAYS here (31 days in the server), so that the first week has seen
 * each thing come and go.
 *
 * Memory: bytes that are allocated, by malloc's own count, and SQLite's by its own. Three things are apart: the table
 * of recent tasks, which has one size for ever and would hide the rest; pages that SQLite keeps of its file, up to the
 * cache_size of pragmas.sql (they are in a place of their own here); archives that were removed, whose names the
 * history has: at most ARCHIVE_BYTES each.
 *
 * WEIR_SOAK_DAYS: another length. Under test/lib/postgres.py on PostgreSQL. The planted twin (WEIR_PLANTED) has leaks
 * put in, one at a time, and must see each of them. */
#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "asking.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/tenants.h"
#include "engine/tokens.h"
#include "engine/waiters.h"
#include "rig.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)

/* The history grows by design, by as much a day as in its first week. Everything else that the database's own catalogue
 * lists must stay: a table that is added later, too. */
static const struct {
    const char *table, *why;
} history[] = {
    { "turn", "what happened, in the chain" },
    { "task", "what a task was and how it ended" },
    { "spec", "what it was to run" },
    { "attempt", "each time it ran" },
    { "edge", "what it came after" },
    { "revision", "commits that were seen" },
    { "lane", "archives and queues that have had tasks: their rows name them" },
    { "archive", "archives, those that were removed as well" },
    { "latest", "the newest task of each name of an archive, also of one that was removed" },
    { "definition", "workflows of revisions" },
};
enum {
    COUNTS_MAX = 64,
    NAME_BYTES = 40,
    GROWN_BYTES = 2000,
    DAYS_FULL = 7, /* the first week */
    KEPT_DAYS = 2,
    A_TURN = 50, /* tasks that one turn works on at most: its memory is kept */
    ARCHIVE_BYTES = 1024,
    PAGES = 9000,
    PAGE_BYTES = 4096 + 512, /* more than cache_size allows */
};

struct soak {
    struct rig rig;
    struct arena polls;      /* those that wait */
    int64_t executor;        /* stays */
    size_t before;           /* bytes, when nothing was open yet */
    char grown[GROWN_BYTES]; /* what has, in the end; empty: nothing */
};

struct measure {
    size_t n;
    struct {
        char name[NAME_BYTES];
        int64_t rows;
    } counts[COUNTS_MAX];
    size_t heap, sqlite; /* bytes */
};

/* --- measures --- */

static void count_add(void *context, const char *name)
{
    struct measure *m = context;
    assert_true(m->n < COUNTS_MAX && strlen(name) < NAME_BYTES);
    snprintf(m->counts[m->n++].name, NAME_BYTES, "%s", name);
}

static void counts_of_engine(const struct engine *engine, struct measure *m)
{
    size_t polls = 0;
    for (const struct list_node *at = engine->polls->parked.first; at; at = at->next)
        polls++;
    const struct {
        const char *name;
        size_t n;
    } kept[] = {
        { "slots in memory", engine->cache->slots.n },
        { "their names", engine->cache->slot_names.n },
        { "empty slots", engine->slots->empty.n },
        { "executors in memory", engine->cache->executors.n },
        { "their names in memory", engine->cache->executor_names.n },
        { "grants in memory", engine->grants->active.n },
        { "classes in memory", engine->cache->classes.n },
        { "places of classes", engine->served->n },
        { "tokens in memory", engine->tokens->by_id.n },
        { "polls that wait", polls },
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        count_add(m, kept[i].name);
        m->counts[m->n - 1].rows = (int64_t)kept[i].n;
    }
}

#if defined(__SANITIZE_ADDRESS__)
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc brings no header that has it */
#endif

static size_t heap_taken(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return __sanitizer_get_current_allocated_bytes();
#else
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
}

static _Alignas(16) unsigned char pages[(size_t)PAGES * PAGE_BYTES];

static size_t pages_taken(void)
{
    sqlite3_int64 now = 0, most = 0;
    sqlite3_status64(SQLITE_STATUS_PAGECACHE_USED, &now, &most, 0);
    return (size_t)now * PAGE_BYTES;
}

static struct measure measure(struct soak *soak)
{
    struct measure m = { 0 };
    char sql[64];
    rig_turn(&soak->rig, NULL, 0); /* so that the rig has forgotten the last command */
    rig_turn(&soak->rig, NULL, 0);
    arena_release(&soak->rig.arena);
    if (!soak->rig.engine->polls->parked.first)
        arena_release(&soak->polls);
    m.sqlite = (size_t)sqlite3_memory_used();
    m.heap = heap_taken() - soak->before - m.sqlite - TASKS_RECENT * sizeof *soak->rig.engine->cache->recent;
    ask_tables(&soak->rig, count_add, &m);
    assert_true(m.n > 20);
    for (size_t i = 0; i < m.n; i++) {
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", m.counts[i].name);
        m.counts[i].rows = ask(&soak->rig, sql);
    }
    counts_of_engine(soak->rig.engine, &m);
    return m;
}

/* --- a day --- */

static void revision(struct rig *rig, const char *archive, int64_t rev)
{
    struct command *command = rig_new(rig, CMD_REVISION);
    command->in.revision.archive = str_of(archive);
    command->in.revision.row = (struct revision){ .rev = rev, .author = STR("ann"), .message = STR("work") };
    struct definition_file file = { STR("_workflows/w.yaml"),
        STR("- {name: build, command: 'true', concurrency: '{archive}@{rev}'}\n"
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
    struct token row = {
        .name = str_of(name), .tenant = STR("default"), .scopes = SCOPE_READ, .expires = rig->wall + 6 * HOUR
    };
    snprintf((char *)row.hash, sizeof row.hash, "%s", name);
    command->in.token_create.token = row;
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
}

static void all_done(struct rig *rig, int64_t executor)
{
    for (struct command *poll; (poll = rig_poll(rig, executor, 8))->out.poll.n_grants;)
        for (size_t i = 0; i < poll->out.poll.n_grants; i++)
            rig_finish(rig, poll->out.poll.grants[i].fence, 0, -1);
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

/* Of an executor that is never heard of again: it waits until its time is over. */
static void poll_waits(struct soak *soak, int64_t executor)
{
    struct command *poll = ARENA_NEW(&soak->polls, struct command);
    *poll = *rig_poll_command(&soak->rig, executor, 0, -1, NULL, 0);
    poll->arena = &soak->polls;
    poll->in.poll.wait_ms = 1000;
    rig_one(&soak->rig, poll);
    assert_non_null(soak->rig.engine->polls->parked.first);
}

static void prune_old(struct rig *rig)
{
    int64_t after = 0, newest = 0;
    do {
        struct command *prune = rig_new(rig, CMD_PRUNE);
        prune->in.prune.before = rig->wall - KEPT_DAYS * DAY;
        prune->in.prune.after = after;
        prune->in.prune.newest = newest;
        assert_int_equal(rig_one(rig, prune)->err.code, ERR_none);
        after = prune->out.prune.after;
        newest = prune->out.prune.newest;
    } while (after);
}

static void a_day(struct soak *soak, int day)
{
    struct rig *rig = &soak->rig;
    int64_t executor = soak->executor;
    char name[24], key[32], text[128], never[64];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%d-%d", day, i);
        token_day(rig, name);
        snprintf(text, sizeof text, "t conc=pull-request-%s unique=u-%s sem=machine-%s", name, name, name);
        snprintf(never, sizeof never, "never label=pool:%s", name);
        struct command *command = rig_enqueue_command(
            rig, (const char *const[]){ text, "n kind=", "after after=0 conc=deploy label=os:linux", never }, 4);
        snprintf(key, sizeof key, "key-%s", name);
        command->idempotency.key = str_of(key);
        command->idempotency.route = STR("POST /v1/tasks");
        assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
        assert_int_equal(rig_order(rig, CMD_CANCEL, command->out.enqueue.tasks[3].task.id), ERR_none);
        int64_t lost = rig_executor(rig, name, "pool:short"); /* takes nothing, and is never heard of again */
        assert_int_equal(rig_poll(rig, 1000000 + day, 1)->err.code, ERR_not_found);
        all_done(rig, executor);
        poll_waits(soak, lost);
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
    prune_old(rig);
    rig_turn(rig, NULL, 0); /* so that the rig has forgotten the last command */
    arena_reset(&rig->arena);
}

/* --- a long life --- */

static bool no_more(size_t before, size_t after, size_t a_few)
{
    return after <= before + before / 10 + a_few;
}

static const char *why_grows(const char *table)
{
    for (size_t i = 0; i < sizeof history / sizeof *history; i++)
        if (strcmp(table, history[i].table) == 0)
            return history[i].why;
    return NULL;
}

static int64_t rows_of(const struct measure *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->counts[i].name, name) == 0)
            return m->counts[i].rows;
    fail_msg("no table %s", name);
    return 0;
}

static void grown_add(struct soak *soak, const char *what, size_t before, size_t after)
{
    size_t n = strlen(soak->grown);
    snprintf(soak->grown + n, GROWN_BYTES - n, "%s%s: %zu after day %d, then %zu", n ? "; " : "", what, before,
        DAYS_FULL, after);
}

static void compare(struct soak *soak, const struct measure *full, const struct measure *last, int days)
{
    assert_int_equal(full->n, last->n);
    for (size_t i = 0; i < full->n; i++) {
        const char *name = full->counts[i].name;
        int64_t before = full->counts[i].rows, after = last->counts[i].rows;
        bool grows = why_grows(name) != NULL;
        /* what it has had until then, a day */
        int64_t bound = before * (grows ? days : DAYS_FULL + 1) / (DAYS_FULL + 1);
        if (!no_more((size_t)bound, (size_t)after, 2))
            grown_add(soak, name, (size_t)before, (size_t)after);
        print_message("%s%s %d, %d%s", i ? "; " : "rows: ", name, (int)before, (int)after, grows ? " (grows)" : "");
    }
    size_t archives = (size_t)(rows_of(last, "archive") - rows_of(full, "archive"));
    if (!no_more(full->heap, last->heap, archives * ARCHIVE_BYTES))
        grown_add(soak, "bytes of memory", full->heap, last->heap);
    if (!no_more(full->sqlite, last->sqlite, 0))
        grown_add(soak, "bytes of SQLite's memory", full->sqlite, last->sqlite);
    print_message("\nafter day %d: %zu bytes of memory, and %zu of SQLite; after day %d: %zu, with %zu archives more, "
                  "and %zu of SQLite; "
                  "its pages: %zu\n",
        DAYS_FULL, full->heap, full->sqlite, days - 1, last->heap, archives, last->sqlite, pages_taken());
}

static void a_long_life(struct soak *soak, int days)
{
    struct measure full = { 0 };
    assert_true(days > DAYS_FULL + 1);
    soak->executor = rig_executor(&soak->rig, "stays", "os:linux");
    archive_add(&soak->rig, "docs");
    for (int day = 0; day < days; day++) {
        a_day(soak, day);
        if (day == DAYS_FULL)
            full = measure(soak);
    }
    struct measure last = measure(soak);
    compare(soak, &full, &last, days);
}

static int days_of(int usual)
{
    const char *text = getenv("WEIR_SOAK_DAYS");
    return text ? (int)strtol(text, NULL, 10) : usual;
}

static struct soak soak_new(void)
{
    assert_true(sqlite3_memory_used() < 1000); /* what was open before has given back all */
    /* 17,000 commits, each of them synced */
    const char *fast = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : NULL;
    return (struct soak){
        .rig = { .keys_ms = KEPT_DAYS * DAY, .silent_ms = KEPT_DAYS * DAY, .batch = A_TURN, .under = fast },
        .before = heap_taken()
    };
}

static void soak_close(struct soak *soak)
{
    rig_close(&soak->rig);
    arena_release(&soak->polls);
}

/* glibc counts what it keeps for the next malloc as allocated, unless it was started without that. */
static void counted_exactly(char **argv)
{
    int header = 0;
    if (!getenv("GLIBC_TUNABLES")) {
        setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0", 1);
        execv("/proc/self/exe", argv);
    }
    if (sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 1) || sqlite3_config(SQLITE_CONFIG_PCACHE_HDRSZ, &header) ||
        header + 4096 > PAGE_BYTES || sqlite3_config(SQLITE_CONFIG_PAGECACHE, pages, PAGE_BYTES, PAGES) ||
        sqlite3_initialize()) {
        fprintf(stderr, "SQLite doesn't count its memory\n");
        exit(1);
    }
}

#ifndef WEIR_PLANTED

static void test_a_year_takes_no_more_than_its_first_week(void **state)
{
    (void)state;
    struct soak soak __attribute__((cleanup(soak_close))) = soak_new();
    if (getenv("WEIR_TEST_POSTGRES"))
        postgres_open(&soak.rig, "soak");
    else
        rig_open(&soak.rig);
    a_long_life(&soak, days_of(soak.rig.url ? 14 : 365));
    if (soak.grown[0])
        fail_msg("%s", soak.grown);
}

int main(int argc, char **argv)
{
    (void)argc;
    counted_exactly(argv);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_year_takes_no_more_than_its_first_week) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

enum plant plant_selected;

#if defined(__SANITIZE_ADDRESS__)
int __lsan_is_turned_off(void); /* what is planted does leak */
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif

static void test_each_leak_is_seen(void **state)
{
    (void)state;
    static const struct {
        enum plant plant;
        const char *seen;
        int days;
    } leaks[] = {
        { PLANT_token_kept, "token: ", 14 },
        { PLANT_key_kept, "idempotency: ", 14 },
        { PLANT_empty_slot_kept, "slot: ", 14 },
        { PLANT_executor_kept, "executor: ", 14 },
        { PLANT_class_kept, "class: ", 14 },
        { PLANT_poll_kept, "polls that wait: ", 14 },
        { PLANT_token_bytes_kept, "bytes of memory: ", 100 }, /* no row tells of these two */
        { PLANT_caches_kept, "bytes of memory: ", 60 },
    };
    for (size_t i = 0; i < sizeof leaks / sizeof *leaks; i++) {
        struct soak soak __attribute__((cleanup(soak_close))) = soak_new();
        plant_selected = leaks[i].plant;
        rig_open(&soak.rig);
        a_long_life(&soak, days_of(leaks[i].days));
        plant_selected = PLANT_none;
        print_message("seen: %s\n\n", soak.grown);
        if (!strstr(soak.grown, leaks[i].seen))
            fail_msg("leak %zu isn't seen as '%s': %s", i + 1, leaks[i].seen, soak.grown);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    counted_exactly(argv);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_leak_is_seen) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
