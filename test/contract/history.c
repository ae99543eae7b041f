/* history: verify finds whatever was done to it through the port; backups beside a writer are whole and come back as
 * another incarnation. (What is done to the files behind the store's back is each store's own test:
 * test/unit/store/test_sqlite_damage.c.) */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/logs/logs.h"
#include "world.h"

static void report_expect(struct world *w, bool ok, const char *words, int64_t witness_seq, const uint8_t *witness)
{
    struct verify_report report;
    struct store_config config = world_config(w, false);
    MUST(w, store_verify_at(&config, witness_seq, witness, &report, &w->err));
    if (report.ok != ok || (words && !strstr(report.fault, words)))
        fail_msg("ok %d, \"%s\"; wanted ok %d, \"%s\"", report.ok, report.fault, ok, words ? words : "");
}

static void a_whole_history_verifies(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    struct verify_report report;
    struct store_head middle = { 0 };
    (void)state;
    world_make(&w);
    rng_seed(&rng, 7);
    report_expect(&w, true, NULL, 0, NULL);
    life_begin(&w, &life);
    for (int i = 0; i < 120; i++) {
        life_turn(&w, &life, &rng, rng_below(&rng, 8), rng_below(&rng, 12));
        turn_end(&w);
        if (i == 60)
            MUST(&w, OPS(&w)->load_head(w.store, &middle, &w.err));
    }
    MUST(&w, OPS(&w)->load_head(w.store, &w.head, &w.err));
    struct store_config config = world_config(&w, false);
    MUST(&w, store_verify_at(&config, 0, NULL, &report, &w.err)); /* beside the open store */
    if (!report.ok)
        fail_msg("%s", report.fault);
    assert_int_equal(report.tasks, (int64_t)life.n);
    assert_int_equal(report.events, w.head.seq);
    assert_int_equal(report.head_seq, w.head.seq);
    assert_memory_equal(report.head_hash, w.head.hash, STORE_HASH_BYTES);
    report_expect(&w, true, NULL, middle.seq, middle.hash);
    report_expect(&w, true, NULL, w.head.seq, w.head.hash);
    report_expect(&w, false, "another history", middle.seq, w.head.hash);
    report_expect(&w, false, "older copy", w.head.seq + 1, w.head.hash);
    world_release(&w);
}

struct told {
    int calls;
    bool rows;
};

static void told_note(void *owner, const char *part, int64_t done)
{
    struct told *told = owner;
    told->calls++;
    told->rows |= strcmp(part, "ready") == 0 && done > 0;
}

static void who_waits_is_told_how_far_it_is(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    struct verify_report report;
    struct told told = { 0 };
    (void)state;
    world_make(&w);
    rng_seed(&rng, 12);
    life_begin(&w, &life);
    for (int i = 0; i < 20; i++) {
        life_turn(&w, &life, &rng, 8, 8);
        turn_end(&w);
    }
    struct store_config config = world_config(&w, false);
    const struct verify_wish wish = { .quick = true, .tell = told_note, .owner = &told };
    MUST(&w, store_verify_all(&config, &wish, &report, &w.err));
    assert_true(report.ok);
    assert_true(told.calls > 0 && told.rows);
    world_release(&w);
}

/* The engine never does these; each is a turn with a valid hash that tells a lie. */
static void an_unlawful_history_is_found(void **state)
{
    static const struct {
        struct event event;
        const char *words;
    } lies[] = {
        { { .kind = EVENT_move, .task = 1, .from = STATE_S, .to = STATE_P }, "stood in Q" },
        { { .kind = EVENT_move, .task = 1, .from = STATE_Q, .to = STATE_X }, "from Q to X" },
        { { .kind = EVENT_created, .task = 1, .from = STATE_NONE, .to = STATE_Q }, "from - to Q" },
        { { .kind = EVENT_move, .task = 999, .from = STATE_NONE, .to = STATE_Q }, "task 999, which can't exist" },
        { { .kind = EVENT_move, .task = 1, .from = STATE_Q, .to = STATE_S },
            "task 1 stands in Q, but its history leads to S" },
        { { .kind = EVENT_created, .task = 2, .to = STATE_Q }, "task 2 is in the history (Q) but has no row" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct world w;
        struct life life;
        struct rng rng;
        world_make(&w);
        rng_seed(&rng, 8);
        life_begin(&w, &life);
        life_turn(&w, &life, &rng, 1, 0);
        turn_end(&w);
        report_expect(&w, true, NULL, 0, NULL);
        turn_begin(&w);
        w.head.next_task = 10;
        turn_event(&w, lies[i].event);
        turn_end(&w);
        report_expect(&w, false, lies[i].words, 0, NULL);
        world_release(&w);
    }
}

static void a_row_without_history_is_found(void **state)
{
    struct world w;
    struct life life;
    struct task row = { .id = 5, .state = STATE_Q };
    const struct task *rows[] = { &row };
    (void)state;
    world_make(&w);
    life_begin(&w, &life);
    turn_begin(&w);
    w.head.next_task = 10;
    w.c.tasks_new.at = rows, w.c.tasks_new.n = 1;
    turn_end(&w);
    report_expect(&w, false, "task 5 has a row but no history", 0, NULL);
    world_release(&w);
}

/* Paused and resumed in one turn, `all` is as it was, which is: without a row. Found by the simulator on real stores.
 */
static void what_came_to_nothing_needs_no_row(void **state)
{
    struct world w;
    struct life life;
    (void)state;
    world_make(&w);
    life_begin(&w, &life);
    turn_begin(&w);
    turn_event(&w, (struct event){ .kind = EVENT_pause, .actor = STR("test"), .reason = STR("r") });
    turn_event(&w, (struct event){ .kind = EVENT_resume, .actor = STR("test") });
    turn_end(&w);
    report_expect(&w, true, NULL, 0, NULL);
    turn_begin(&w);
    turn_event(&w, (struct event){ .kind = EVENT_pause, .actor = STR("test"), .reason = STR("r") });
    turn_end(&w);
    report_expect(&w, false, "lane 0 is in the history but has no row", 0, NULL);
    world_release(&w);
}

struct load {
    struct world *w;
    struct life life;
    pthread_mutex_t mutex;
    bool stop;
    int64_t turns;
};

static bool load_stopped(struct load *load)
{
    pthread_mutex_lock(&load->mutex);
    bool stop = load->stop;
    load->turns++;
    pthread_mutex_unlock(&load->mutex);
    return stop;
}

static void *load_run(void *owner)
{
    struct load *load = owner;
    struct rng rng;
    rng_seed(&rng, 9);
    while (!load_stopped(load)) {
        life_turn(load->w, &load->life, &rng, 20, 30);
        if (!turn_try(load->w))
            return load->w->err.text;
    }
    return NULL;
}

static int64_t load_turns(struct load *load)
{
    pthread_mutex_lock(&load->mutex);
    int64_t turns = load->turns;
    pthread_mutex_unlock(&load->mutex);
    return turns;
}

static void backups_beside_a_writer_come_back(void **state)
{
    struct world w;
    struct load load = { .w = &w, .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct verify_report reports[3], report;
    struct err err = { 0 };
    char dir[64], file[128];
    pthread_t thread;
    void *fault;
    (void)state;
    world_make(&w);
    world_dir_make(dir);
    life_begin(&w, &load.life);
    assert_int_equal(pthread_create(&thread, NULL, load_run, &load), 0);
    for (int i = 0; i < 3; i++) {
        int64_t before = load_turns(&load);
        while (load_turns(&load) < before + 20)
            usleep(1000);
        snprintf(file, sizeof file, "%s/backup-%d", dir, i);
        if (!store_backup(w.dir, file, NULL, &err) || !store_verify(w.dir, 0, NULL, &reports[i], &err))
            fail_msg("%s", err.text);
        if (!reports[i].ok)
            fail_msg("beside the writer: %s", reports[i].fault);
    }
    pthread_mutex_lock(&load.mutex);
    load.stop = true;
    pthread_mutex_unlock(&load.mutex);
    pthread_join(thread, &fault);
    if (fault)
        fail_msg("writer: %s", (const char *)fault);
    for (int i = 0; i < 3; i++) {
        struct stat st;
        struct store_head head;
        char back[128];
        snprintf(file, sizeof file, "%s/backup-%d", dir, i);
        snprintf(back, sizeof back, "%s/back-%d", dir, i);
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        if (!store_restore(file, back, NULL, &err) || !store_verify(back, 0, NULL, &report, &err))
            fail_msg("%s", err.text);
        if (!report.ok)
            fail_msg("restored: %s", report.fault);
        assert_true(report.tasks > 0 && report.tasks <= (int64_t)load.life.n);
        struct store_config config = { .data_dir = back };
        struct store *store = store_open(&config, &err);
        if (!store || !store->ops->load_head(store, &head, &err))
            fail_msg("%s", err.text);
        assert_true(head.incarnation != w.head.incarnation); /* no old fence is ever taken */
        assert_int_equal(head.seq, report.head_seq);
        store->ops->close(store);
        assert_false(store_restore(file, back, NULL, &err)); /* never over a store */
        assert_int_equal(err.code, ERR_conflict);
    }
    world_dir_remove(dir);
    world_release(&w);
}

enum { LONG_LOG = 3 * 1024 * 1024 + 17 };

/* What a log of this number says at each place: two logs differ everywhere. */
static char log_byte(int64_t task, int64_t at)
{
    return (char)((at * 7 + at / 251 + task * 31) & 0xff);
}

static void log_fill(struct logs *logs, int64_t task, int64_t grant, int64_t from, int64_t to)
{
    struct buf bytes;
    struct err err = { 0 };
    struct log_position position;
    buf_init(&bytes, LONG_LOG + 64);
    for (int64_t at = from; at < to; at++)
        buf_add_char(&bytes, log_byte(task, at));
    if (!logs_append(logs, task, grant, from, buf_str(&bytes), &position, &err))
        fail_msg("%s", err.text);
    buf_release(&bytes);
}

static int64_t log_expect(struct logs *logs, int64_t task, int64_t grant, int64_t at_least, int64_t at_most)
{
    struct buf bytes;
    struct err err = { 0 };
    buf_init(&bytes, 8 << 20);
    if (!logs_read(logs, task, grant, 0, 8 << 20, &bytes, &err))
        fail_msg("%s", err.text);
    int64_t n = (int64_t)bytes.len;
    if (n < at_least || n > at_most)
        fail_msg("the log of task %d has %d bytes", (int)task, (int)n);
    for (int64_t at = 0; at < n; at++)
        if (bytes.ptr[at] != log_byte(task, at))
            fail_msg("the log of task %d differs at %d", (int)task, (int)at);
    buf_release(&bytes);
    return n;
}

struct appender {
    struct logs *logs;
    pthread_mutex_t mutex;
    bool stop;
    int64_t bytes;
};

static bool appender_stopped(struct appender *a, int64_t bytes)
{
    pthread_mutex_lock(&a->mutex);
    a->bytes = bytes;
    bool stop = a->stop;
    pthread_mutex_unlock(&a->mutex);
    return stop;
}

/* Task 5 speaks all the time, and of task 6 one attempt after the other begins and is sealed. */
static void *append_run(void *owner)
{
    struct appender *a = owner;
    int64_t n = 0;
    for (int64_t grant = 1; !appender_stopped(a, n) && n < 4 << 20; grant++, n += 1000) {
        log_fill(a->logs, 5, 1, n, n + 1000);
        log_fill(a->logs, 6, grant, 0, 100);
        logs_seal(a->logs, 6, grant);
    }
    return NULL;
}

/* Of tasks 1 to 5 the first attempt is known (5 runs), of task 6 two; of task 7 none. */
static void attempts_make(struct world *w)
{
    static struct attempt ended[7];
    for (int i = 0; i < 4; i++)
        ended[i] = attempt_sample(i + 1, 1, 20 + i);
    ended[4] = attempt_sample(6, 1, 30);
    ended[5] = attempt_sample(6, 2, 31);
    ended[6] = attempt_sample(5, 1, 32); /* its executor still sends what it has */
    turn_begin(w);
    w->c.attempts_new.at = ended, w->c.attempts_new.n = 7;
    turn_event(w, (struct event){ .kind = EVENT_noted, .actor = STR("test") });
    turn_end(w);
}

static void logs_come_along(void **state)
{
    struct world w;
    struct appender a = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct life life;
    struct rng rng;
    struct stat st;
    char file[192], back[192], path[256];
    pthread_t thread;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 3);
    life_begin(&w, &life);
    life_turn(&w, &life, &rng, 10, 0);
    turn_end(&w);
    attempts_make(&w);
    MUST(&w, a.logs = logs_open(w.dir, &w.err));
    log_fill(a.logs, 1, 1, 0, 40);
    log_fill(a.logs, 2, 1, 0, LONG_LOG);
    log_fill(a.logs, 3, 1, 0, 40);
    log_fill(a.logs, 4, 1, 0, LONG_LOG);
    log_fill(a.logs, 7, 1, 0, 40);
    logs_seal(a.logs, 3, 1);
    logs_seal(a.logs, 4, 1);
    logs_wait(a.logs);
    assert_int_equal(pthread_create(&thread, NULL, append_run, &a), 0);
    for (bool begun = false; !begun; usleep(1000)) {
        pthread_mutex_lock(&a.mutex);
        begun = a.bytes > 10000;
        pthread_mutex_unlock(&a.mutex);
    }
    int64_t least = 0, most = 0;
    logs_size(a.logs, 5, 1, &least, &w.err);
    snprintf(file, sizeof file, "%s/file", w.dir);
    snprintf(back, sizeof back, "%s/back", w.dir);
    MUST(&w, store_backup(w.dir, file, NULL, &w.err));
    logs_size(a.logs, 5, 1, &most, &w.err);
    pthread_mutex_lock(&a.mutex);
    a.stop = true;
    pthread_mutex_unlock(&a.mutex);
    pthread_join(thread, NULL);
    logs_close(a.logs);
    MUST(&w, store_restore(file, back, NULL, &w.err));
    struct verify_report report;
    MUST(&w, store_verify(back, 0, NULL, &report, &w.err));
    assert_true(report.ok);
    snprintf(path, sizeof path, "%s/weir.db", back);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 2 << 20); /* the logs are out of the database */
    snprintf(path, sizeof path, "%s/logs/live/2.1.log", back);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s/logs/0", back);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    MUST(&w, a.logs = logs_open(back, &w.err));
    log_expect(a.logs, 1, 1, 40, 40);
    log_expect(a.logs, 2, 1, LONG_LOG, LONG_LOG);
    log_expect(a.logs, 3, 1, 40, 40);
    log_expect(a.logs, 4, 1, LONG_LOG, LONG_LOG);
    log_expect(a.logs, 5, 1, least, most);
    log_expect(a.logs, 6, 1, 100, 100);
    log_expect(a.logs, 6, 2, 100, 100);
    log_expect(a.logs, 6, 3, 0, 0); /* an attempt that the snapshot doesn't know */
    log_expect(a.logs, 7, 1, 0, 0);
    logs_close(a.logs);
    snprintf(path, sizeof path, "%s/weir.db", back);
    assert_int_equal(unlink(path), 0);
    assert_false(store_restore(file, back, NULL, &w.err)); /* never over logs of another store */
    assert_int_equal(w.err.code, ERR_conflict);
    world_release(&w);
}

static void a_restored_store_tells_that_it_was(void **state)
{
    struct world w, r = { 0 };
    struct life life;
    struct event *events;
    char file[192];
    size_t n;
    int64_t last;
    (void)state;
    world_make(&w);
    life_begin(&w, &life);
    snprintf(file, sizeof file, "%s/file", w.dir);
    snprintf(r.dir, sizeof r.dir, "%.100s/new", w.dir);
    MUST(&w, store_backup(w.dir, file, NULL, &w.err));
    MUST(&w, store_backup(w.dir, file, NULL, &w.err)); /* a newer one takes the name of an older */
    MUST(&w, store_restore(file, r.dir, NULL, &w.err));
    struct store_config config = { .data_dir = r.dir };
    MUST(&w, r.reader = reader_open(&config, &w.err));
    MUST(&w, reader_events(r.reader, &w.arena, w.head.seq, 0, 10, &events, &n, &last, &w.err));
    assert_int_equal(n, 1);
    assert_int_equal(events[0].kind, EVENT_incarnation);
    str_same(events[0].actor, STR("restore"));
    reader_close(r.reader);
    world_release(&w);
}

static void what_cannot_be_restored_leaves_nothing(void **state)
{
    struct world w;
    char file[192], back[192], path[256];
    struct err err = { 0 };
    (void)state;
    world_make(&w);
    snprintf(file, sizeof file, "%s/file", w.dir);
    snprintf(back, sizeof back, "%s/back", w.dir);
    assert_false(store_restore(file, back, NULL, &err));
    assert_int_equal(err.code, ERR_not_found);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    for (int i = 0; i < 10000; i++)
        fputs("this is no backup\n", f);
    fclose(f);
    err = (struct err){ 0 };
    assert_false(store_restore(file, back, NULL, &err));
    assert_int_equal(err.code, ERR_corrupt);
    snprintf(path, sizeof path, "%s/weir.db", back);
    assert_int_not_equal(access(path, F_OK), 0);
    struct store_config config = { .data_dir = back };
    assert_null(store_open(&config, &err));
    assert_false(store_backup("/nonexistent/weir", file, NULL, &err));
    assert_false(store_backup(w.dir, "/nonexistent/file", NULL, &err));
    world_release(&w);
}

const struct CMUnitTest contract_history[] = {
    cmocka_unit_test(a_whole_history_verifies),
    cmocka_unit_test(who_waits_is_told_how_far_it_is),
    cmocka_unit_test(an_unlawful_history_is_found),
    cmocka_unit_test(a_row_without_history_is_found),
    cmocka_unit_test(what_came_to_nothing_needs_no_row),
};
const size_t n_contract_history = sizeof contract_history / sizeof contract_history[0];

/* Of stores whose backups are Weir's own. */
const struct CMUnitTest contract_backup[] = {
    cmocka_unit_test(backups_beside_a_writer_come_back),
    cmocka_unit_test(logs_come_along),
    cmocka_unit_test(a_restored_store_tells_that_it_was),
    cmocka_unit_test(what_cannot_be_restored_leaves_nothing),
};
const size_t n_contract_backup = sizeof contract_backup / sizeof contract_backup[0];
