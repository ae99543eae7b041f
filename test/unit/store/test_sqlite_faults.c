/* Full disks and failing writes: disk_full changes nothing and the store goes on; an I/O error is said to be unknown;
 * both lose nothing. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/clock.h"
#include "store/sqlite/sqlite.h"
#include "world.h"

static void verified(struct world *w)
{
    struct verify_report report;
    MUST(w, store_verify(w->dir, 0, NULL, &report, &w->err));
    if (!report.ok)
        fail_msg("%s", report.fault);
    assert_int_equal(report.head_seq, w->head.seq);
    assert_int_equal(report.tasks, w->head.next_task - 1);
}

/* Turns until one is refused; the refused one is forgotten by the test as by the store. */
static void turns_until_full(struct world *w, struct life *life, struct rng *rng, int max)
{
    for (int i = 0; i < max; i++) {
        struct life before = *life;
        struct store_head head = w->head;
        life_turn(w, life, rng, 50, 0);
        if (!turn_try(w)) {
            *life = before;
            w->head = head;
            if (w->err.code != ERR_disk_full)
                fail_msg("%s: %s", err_name(w->err.code), w->err.text);
            return;
        }
    }
    fail_msg("the disk doesn't get full");
}

static void pages_run_out(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 1);
    life_begin(&w, &life);
    sqlite3 *conn = sqlite_of(w.store)->db.conn;
    for (int round = 1; round <= 5; round++) {
        char limit[64];
        snprintf(limit, sizeof limit, "PRAGMA max_page_count = %d", 100 + 30 * round);
        assert_int_equal(sqlite3_exec(conn, limit, NULL, NULL, NULL), SQLITE_OK);
        turns_until_full(&w, &life, &rng, 1000);
        verified(&w);
        turn_begin(&w); /* what needs no room is still taken */
        turn_end(&w);
    }
    assert_int_equal(sqlite3_exec(conn, "PRAGMA max_page_count = 1000000", NULL, NULL, NULL), SQLITE_OK);
    life_turn(&w, &life, &rng, 50, 20);
    turn_end(&w);
    world_reopen(&w);
    verified(&w);
    world_release(&w);
}

static void filler_write(const char *path)
{
    char bytes[4096] = { 1 };
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, bytes, sizeof bytes) > 0) {
    }
    close(fd);
}

static void a_file_system_runs_full_again_and_again(void **state)
{
    struct world w = { .now = 1763200000000 };
    struct life life;
    struct rng rng;
    char dir[64], filler[128];
    (void)state;
    world_dir_make(dir);
    if (mount("weir-test", dir, "tmpfs", 0, "size=2m") < 0) {
        rmdir(dir);
        print_message("skipped: mounting a small file system needs root\n");
        skip();
    }
    snprintf(w.dir, sizeof w.dir, "%s/data", dir);
    snprintf(w.url, sizeof w.url, "sqlite://%s", w.dir);
    snprintf(filler, sizeof filler, "%s/filler", dir);
    buf_init(&w.packed, 1 << 20);
    w.events = mem_alloc(sizeof *w.events * WORLD_EVENTS_MAX);
    struct store_config config = world_config(&w, true);
    MUST(&w, w.store = store_open(&config, &w.err));
    MUST(&w, OPS(&w)->load_head(w.store, &w.head, &w.err));
    rng_seed(&rng, 2);
    life_begin(&w, &life);
    for (int round = 0; round < 10; round++) {
        filler_write(filler);
        turns_until_full(&w, &life, &rng, 1000);
        unlink(filler);
        life_turn(&w, &life, &rng, 2, 5); /* room again: goes on by itself */
        turn_end(&w);
    }
    verified(&w);
    OPS(&w)->close(w.store);
    MUST(&w, w.store = store_open(&config, &w.err));
    verified(&w);
    OPS(&w)->close(w.store);
    arena_release(&w.arena);
    buf_release(&w.packed);
    mem_free(w.events);
    assert_int_equal(umount(dir), 0);
    rmdir(dir);
}

/* In a process of its own: a limit on the size of files makes write fail with an error that isn't 'no space'. */
static _Noreturn void limited_run(struct world *w, struct life *life, rlim_t bytes, int out)
{
    struct rng rng;
    struct rlimit limit = { bytes, bytes };
    signal(SIGXFSZ, SIG_IGN);
    rng_seed(&rng, bytes);
    struct store_config config = world_config(w, false);
    if (!(w->store = store_open(&config, &w->err)) || setrlimit(RLIMIT_FSIZE, &limit) < 0)
        _exit(3);
    for (;;) {
        life_turn(w, life, &rng, 20, 0);
        if (!turn_try(w))
            _exit(w->err.code == ERR_outcome_unknown ? 0 : 4);
        if (write(out, &w->head.turn, sizeof w->head.turn) < 0)
            _exit(5);
    }
}

static void a_failed_write_is_unknown_and_loses_nothing(void **state)
{
    struct world w;
    struct life life;
    (void)state;
    world_make(&w);
    life_begin(&w, &life);
    for (rlim_t bytes = 200 << 10; bytes < 2 << 20; bytes += (200 << 10) + 777) {
        int fds[2], status;
        int64_t turn, last = w.head.turn;
        reader_close(w.reader);
        OPS(&w)->close(w.store);
        w.reader = NULL, w.store = NULL;
        assert_int_equal(pipe(fds), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            limited_run(&w, &life, bytes, fds[1]);
        close(fds[1]);
        while (read(fds[0], &turn, sizeof turn) == sizeof turn)
            last = turn;
        close(fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        struct store_config config = world_config(&w, false);
        MUST(&w, w.store = store_open(&config, &w.err));
        MUST(&w, w.reader = reader_open(&config, &w.err));
        MUST(&w, OPS(&w)->load_head(w.store, &w.head, &w.err));
        assert_true(w.head.turn >= last && w.head.turn <= last + 1);
        /* as the child counted them: they are all created, and no more */
        life.lane.counts[STATE_Q] = w.head.next_task - 1;
        verified(&w);
    }
    world_release(&w);
}

/* 40 MiB through the WAL: the thread moves pages into the database while turns go on. */
static void the_wal_is_moved_behind_the_writer(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    struct str noise = { mem_alloc(1 << 20), 1 << 20 };
    char path[256];
    struct stat st;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 3);
    life_begin(&w, &life);
    memset((char *)(uintptr_t)noise.ptr, 'x', noise.len);
    snprintf(path, sizeof path, "%s/weir.db", w.dir);
    for (int64_t i = 0; i < 40; i++) {
        struct task_outputs outputs = { .task = i + 1, .json = noise };
        life_turn(&w, &life, &rng, 5, 5);
        w.c.outputs.at = &outputs, w.c.outputs.n = 1;
        turn_end(&w);
    }
    int64_t deadline = clock_boot_ms() + 20000; /* it runs when it runs */
    do {
        usleep(2000);
        assert_int_equal(stat(path, &st), 0);
    } while (st.st_size < 15 << 20 && clock_boot_ms() < deadline);
    assert_true(st.st_size >= 15 << 20);
    verified(&w);
    mem_free((char *)(uintptr_t)noise.ptr);
    world_release(&w);
}

/* How often the WAL has begun anew is in its head; nothing of SQLite's locks hangs on this file. */
static uint32_t wal_generation(struct world *w)
{
    char path[256];
    uint8_t head[16] = { 0 };
    snprintf(path, sizeof path, "%s/weir.db-wal", w->dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, head, sizeof head, 0) : 0;
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof head
               ? (uint32_t)head[12] << 24 | (uint32_t)head[13] << 16 | (uint32_t)head[14] << 8 | head[15]
               : 0;
}

/* Behind 16 MiB the WAL begins anew while turns go on, and keeps its size: what is written over is synced in half the
 * time. */
static void the_wal_is_used_again(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    struct str noise = { mem_alloc(1 << 20), 1 << 20 };
    char path[256];
    struct stat st;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 4);
    life_begin(&w, &life);
    memset((char *)(uintptr_t)noise.ptr, 'y', noise.len);
    snprintf(path, sizeof path, "%s/weir.db-wal", w.dir);
    life_turn(&w, &life, &rng, 5, 5);
    turn_end(&w);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 1 << 20); /* room for what comes */
    uint32_t before = wal_generation(&w);
    int64_t deadline = clock_boot_ms() + 60000;
    for (int64_t i = 0; wal_generation(&w) == before && clock_boot_ms() < deadline; i++) {
        struct task_outputs outputs = { .task = i + 1, .json = noise };
        life_turn(&w, &life, &rng, 5, 5);
        if (i < 20)
            w.c.outputs.at = &outputs, w.c.outputs.n = 1;
        else
            usleep(1000); /* the thread runs when it runs */
        turn_end(&w);
    }
    assert_int_not_equal(wal_generation(&w), before);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size >= 16 << 20);
    verified(&w);
    mem_free((char *)(uintptr_t)noise.ptr);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_run_out),
        cmocka_unit_test(a_file_system_runs_full_again_and_again),
        cmocka_unit_test(a_failed_write_is_unknown_and_loses_nothing),
        cmocka_unit_test(the_wal_is_moved_behind_the_writer),
        cmocka_unit_test(the_wal_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
