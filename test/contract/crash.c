/* crash: what commit said true for is there after kill -9; one opener at a time. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum { ROUNDS = 12 };

/* Commits turns as fast as it can; after each that was said to be durable, its number goes into the pipe. */
static _Noreturn void child_run(const char *dir, const char *url, int out)
{
    struct world w = { .now = 1763200000000 };
    struct life life = { .lane = { .id = 1, .kind = LANE_QUEUE, .tenant = STR("default"), .name = STR("default") } };
    struct rng rng;
    struct lane **lanes;
    size_t n;
    snprintf(w.dir, sizeof w.dir, "%s", dir);
    snprintf(w.url, sizeof w.url, "%s", url);
    struct store_config config = world_config(&w, false);
    buf_init(&w.packed, 1 << 20);
    w.events = mem_alloc(sizeof *w.events * WORLD_EVENTS_MAX);
    if (!(w.store = store_open(&config, &w.err)) || !OPS(&w)->load_head(w.store, &w.head, &w.err) ||
        !OPS(&w)->load_lanes(w.store, &w.arena, &lanes, &n, &w.err))
        _exit(3);
    if (n)
        memcpy(life.lane.counts, lanes[0]->counts, sizeof life.lane.counts);
    rng_seed(&rng, (uint64_t)w.head.turn + 1);
    for (;;) {
        life_turn(&w, &life, &rng, 1 + rng_below(&rng, 20), rng_below(&rng, 20));
        if (!turn_try(&w))
            _exit(4);
        if (write(out, &w.head.turn, sizeof w.head.turn) != sizeof w.head.turn)
            _exit(5);
    }
}

static int64_t child_kill_after(const struct world *w, int64_t n_turns)
{
    int fds[2], status;
    int64_t turn = 0, last = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        child_run(w->dir, w->url, fds[1]);
    }
    close(fds[1]);
    for (int64_t i = 0; i < n_turns && read(fds[0], &turn, sizeof turn) == sizeof turn; i++)
        last = turn;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status))
        fail_msg("the child ended by itself: %d", WEXITSTATUS(status));
    while (read(fds[0], &turn, sizeof turn) == sizeof turn)
        last = turn;
    close(fds[0]);
    return last;
}

static void what_was_committed_survives_kill(void **state)
{
    struct world w;
    struct rng rng;
    struct verify_report report;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 6);
    for (int round = 0; round < ROUNDS; round++) {
        reader_close(w.reader);
        OPS(&w)->close(w.store);
        w.reader = NULL, w.store = NULL;
        int64_t acknowledged = child_kill_after(&w, 1 + (int64_t)rng_below(&rng, 40));
        struct store_config config = world_config(&w, false);
        MUST(&w, w.store = store_open(&config, &w.err));
        MUST(&w, w.reader = reader_open(&config, &w.err));
        MUST(&w, OPS(&w)->load_head(w.store, &w.head, &w.err));
        assert_true(w.head.turn >= acknowledged);
        assert_true(w.head.turn <= acknowledged + 1); /* at most the one that was being committed is there too */
        MUST(&w, store_verify_at(&config, 0, NULL, &report, &w.err));
        if (!report.ok)
            fail_msg("round %d: %s", round, report.fault);
        assert_int_equal(report.tasks, w.head.next_task - 1);
    }
    print_message(
        "           %d kills, %lld turns, %lld tasks\n", ROUNDS, (long long)report.turns, (long long)report.tasks);
    world_release(&w);
}

static void a_second_opener_is_refused(void **state)
{
    struct world w;
    struct store_config config;
    char pid[32];
    (void)state;
    world_make(&w);
    config = world_config(&w, true);
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_conflict);
    snprintf(pid, sizeof pid, "process %ld ", (long)getpid());
    if (!strstr(w.err.text, pid))
        fail_msg("it should say who: %s", w.err.text);
    turn_begin(&w); /* and the first one goes on */
    turn_event(&w, (struct event){ .kind = EVENT_started, .actor = STR("x") });
    turn_end(&w);
    world_reopen(&w);
    world_release(&w);
}

static void what_is_not_there_is_not_opened(void **state)
{
    struct world w = { 0 };
    char dir[64];
    (void)state;
    world_dir_make(dir);
    snprintf(w.dir, sizeof w.dir, "%s/deep/er", dir);
    backend_chosen()->url(w.dir, w.url, sizeof w.url);
    struct store_config config = world_config(&w, false);
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_not_found);
    w.err = (struct err){ 0 };
    assert_null(reader_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_not_found);
    config.url = "gopher://x";
    assert_null(store_open(&config, &w.err));
    assert_int_equal(w.err.code, ERR_invalid);
    config = world_config(&w, true);
    MUST(&w, w.store = store_open(&config, &w.err)); /* parents are made */
    OPS(&w)->close(w.store);
    backend_chosen()->drop(w.dir);
    world_dir_remove(dir);
}

const struct CMUnitTest contract_crash[] = {
    cmocka_unit_test(what_was_committed_survives_kill),
    cmocka_unit_test(a_second_opener_is_refused),
    cmocka_unit_test(what_is_not_there_is_not_opened),
};
const size_t n_contract_crash = sizeof contract_crash / sizeof contract_crash[0];
