/* The log store on a kernel that refuses, and in a process that is killed.
 *
 * The build puts this file between the log store and the calls below (--wrap). A `point` is one such call: a test can
 * end the process with SIGKILL at the n-th, make one fail, or write down their order. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bed.h"

enum { POINTS_ENDLESS = 1 << 30, TRACE_BYTES = 4096 };

static atomic_int points_left = POINTS_ENDLESS; /* SIGKILL when it reaches 0 */
static atomic_int syncs_to_fail;                /* so many calls of fdatasync fail with EIO */
static atomic_int tracing;
static char trace[TRACE_BYTES]; /* one letter a call; only the pack thread calls while it is written */
static size_t n_trace;

static void point(char letter)
{
    if (atomic_fetch_sub(&points_left, 1) == 1) {
        kill(getpid(), SIGKILL);
    }
    if (atomic_load(&tracing) && n_trace + 1 < TRACE_BYTES) {
        trace[n_trace++] = letter;
    }
}

#define WRAPPED(result, name, letter, parameters, arguments) \
    result __real_##name parameters;                         \
    result __wrap_##name parameters;                         \
    result __wrap_##name parameters                          \
    {                                                        \
        point(letter);                                       \
        return __real_##name arguments;                      \
    }
WRAPPED(ssize_t, write, 'w', (int fd, const void *bytes, size_t n), (fd, bytes, n))
WRAPPED(ssize_t, pwrite, 'p', (int fd, const void *bytes, size_t n, off_t at), (fd, bytes, n, at))
WRAPPED(ssize_t, pwrite64, 'p', (int fd, const void *bytes, size_t n, off_t at), (fd, bytes, n, at))
WRAPPED(int, fsync, 's', (int fd), (fd))
WRAPPED(int, renameat, 'r', (int from_fd, const char *from, int to_fd, const char *to), (from_fd, from, to_fd, to))
WRAPPED(int, unlinkat, 'u', (int fd, const char *name, int flags), (fd, name, flags))
WRAPPED(int, mkdirat, 'm', (int fd, const char *name, mode_t mode), (fd, name, mode))
WRAPPED(int, fchmodat, 'c', (int fd, const char *name, mode_t mode, int flags), (fd, name, mode, flags))

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    point('d');
    if (atomic_load(&syncs_to_fail) > 0) {
        atomic_fetch_sub(&syncs_to_fail, 1);
        errno = EIO;
        return -1;
    }
    return __real_fdatasync(fd);
}

/* --- killed at every point --- */

enum { WORK_TASKS = 6, WORK_BYTES = 300000, WORK_STEP = 60000 };

static void told_write(int fd, int64_t task, int64_t durable)
{
    int64_t line[2] = { task, durable };
    (void)!__real_write(fd, line, sizeof line);
}

/* Appends and seals a few logs, two at a time, and tells through fd what it was told is durable. Goes on where an
 * earlier life stopped. */
static void work(const char *dir, int fd)
{
    struct err err = { 0 };
    struct logs *logs = logs_open(dir, &err);
    if (!logs) {
        _exit(3);
    }
    for (int64_t task = 0; task < WORK_TASKS; task++) {
        int64_t size = 0;
        struct log_position position = { 0 };
        logs_size(logs, task, BED_GRANT, &size, &err);
        for (int64_t offset = size; offset < WORK_BYTES; offset += WORK_STEP) {
            int64_t left = WORK_BYTES - offset;
            enum err_code code =
                bed_append(logs, task, offset, (size_t)(left < WORK_STEP ? left : WORK_STEP), &position, NULL);
            if (code != ERR_none) {
                _exit(4);
            }
            told_write(fd, task, position.durable);
        }
        if (task % 2 == 0) {
            logs_wait(logs);
            if (bed_append(logs, task, WORK_BYTES, 0, &position, NULL) != ERR_none) {
                _exit(5);
            }
            told_write(fd, task, position.durable);
        }
        logs_seal(logs, task, BED_GRANT);
    }
    logs_wait(logs);
    for (int64_t task = 0; task < WORK_TASKS; task++) {
        told_write(fd, task, WORK_BYTES);
    }
    logs_close(logs);
}

/* Runs work in a process that dies at its n-th point; true when it lived to the end. */
static bool work_killed(const char *dir, int n, int64_t durable[WORK_TASKS])
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        atomic_store(&points_left, n);
        work(dir, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    int64_t line[2];
    while (read(ends[0], line, sizeof line) == sizeof line) {
        durable[line[0]] = durable[line[0]] > line[1] ? durable[line[0]] : line[1];
    }
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
    return WIFEXITED(status);
}

static void expect_survived(const char *dir, const int64_t durable[WORK_TASKS], bool finished)
{
    struct err err = { 0 };
    struct logs *logs = logs_open(dir, &err);
    assert_non_null(logs);
    for (int pass = 0; pass < 2; pass++) { /* before and after what was left is repaired */
        for (int64_t task = 0; task < WORK_TASKS; task++) {
            int64_t size = bed_size(logs, task);
            assert_in_range(size, durable[task], WORK_BYTES);
            bed_expect_all(logs, task, size);
        }
        logs_wait(logs);
    }
    if (finished) {
        struct bed bed = { .logs = logs };
        snprintf(bed.dir, sizeof bed.dir, "%s", dir);
        for (int64_t task = 0; task < WORK_TASKS; task++) {
            char name[64];
            snprintf(name, sizeof name, "live/%" PRId64 ".7.log", task);
            assert_false(bed_has(&bed, name));
            snprintf(name, sizeof name, "0/%" PRId64 ".7.log.zst", task);
            assert_true(bed_has(&bed, name));
        }
    }
    logs_close(logs);
}

/* From a fresh folder, killed at point 1, 2, 3, ... : what was told to be durable is there, and nothing but the right
 * bytes. */
static void test_killed_at_every_point(void **state)
{
    (void)state;
    bool finished = false;
    int n = 1;
    for (; !finished; n++) {
        char dir[64] = "/tmp/weir-logs.XXXXXX";
        assert_non_null(mkdtemp(dir));
        int64_t durable[WORK_TASKS] = { 0 };
        finished = work_killed(dir, n, durable);
        expect_survived(dir, durable, finished);
        bed_remove(dir);
        assert_in_range(n, 1, 2000);
    }
    assert_true(n > 40); /* else the points aren't wrapped and nothing was tested */
}

/* Killed again and again in the same folder, at random points, until it gets through. */
static void test_killed_again_and_again(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 42);
    for (int round = 0; round < 5; round++) {
        char dir[64] = "/tmp/weir-logs.XXXXXX";
        assert_non_null(mkdtemp(dir));
        int64_t durable[WORK_TASKS] = { 0 };
        bool finished = false;
        for (int life = 0; !finished; life++) {
            finished = work_killed(dir, life < 40 ? 1 + (int)rng_below(&rng, 25) : POINTS_ENDLESS, durable);
            expect_survived(dir, durable, finished);
        }
        bed_remove(dir);
    }
}

/* --- the kernel refuses --- */

static void test_sync_fails(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    struct log_position position;
    int64_t expected = -1;
    bed_append_ok(bed.logs, 1, 0, 1000);
    bed_append_ok(bed.logs, 2, 0, 1000);
    logs_wait(bed.logs);
    atomic_store(&syncs_to_fail, 1);
    bed_append_ok(bed.logs, 1, 1000, 500);
    logs_wait(bed.logs);
    assert_int_equal(atomic_load(&syncs_to_fail), 0);
    bed_append_ok(bed.logs, 2, 1000, 500); /* another log isn't concerned */
    assert_int_equal(bed_append(bed.logs, 1, 1500, 100, &position, NULL), ERR_outcome_unknown);
    assert_int_equal(bed_append(bed.logs, 1, 1500, 100, &position, &expected), ERR_log_gap);
    assert_int_equal(expected, 1000); /* the bytes whose fate is unknown have to come again */
    assert_int_equal(bed_append(bed.logs, 1, 1000, 600, &position, NULL), ERR_none);
    assert_int_equal(position.durable, 1000);
    logs_wait(bed.logs);
    assert_int_equal(bed_append(bed.logs, 1, 1600, 0, &position, NULL), ERR_none);
    assert_int_equal(position.durable, 1600);
    bed_expect_all(bed.logs, 1, 1600);
    bed_expect_all(bed.logs, 2, 1500);
    bed_close(&bed);
}

/* What an earlier life had stored may have been durable then: a failing sync doesn't cut it off. */
static void test_sync_fails_after_restart(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, 1000);
    logs_wait(bed.logs);
    bed_reopen(&bed);
    atomic_store(&syncs_to_fail, 1);
    bed_append_ok(bed.logs, 1, 1000, 500);
    logs_wait(bed.logs);
    assert_int_equal(bed_append(bed.logs, 1, 1500, 1, NULL, NULL), ERR_outcome_unknown);
    bed_expect_all(bed.logs, 1, 1000);
    bed_close(&bed);
}

/* The packed file is synced before it gets its name, the name before the plain file goes. */
static void test_order_of_syncs(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, 600000);
    logs_wait(bed.logs);
    n_trace = 0;
    atomic_store(&tracing, 1);
    logs_seal(bed.logs, 1, BED_GRANT);
    logs_wait(bed.logs);
    atomic_store(&tracing, 0);
    trace[n_trace] = '\0';
    /* chmod, folder + sync, three frames, table, sync, rename, sync of the folder, unlink */
    assert_string_equal(trace, "cmswwwwsrsu");
    n_trace = 0;
    bed_append_ok(bed.logs, 2, 0, 10);
    logs_wait(bed.logs);
    atomic_store(&tracing, 1);
    bed_append_ok(bed.logs, 3, 0, 10);
    logs_wait(bed.logs);
    bed_append_ok(bed.logs, 3, 10, 10);
    logs_wait(bed.logs);
    atomic_store(&tracing, 0);
    trace[n_trace] = '\0';
    assert_string_equal(trace, "pdspdpdpd"); /* a new log's name is synced once, after its bytes; the mark after both */
    bed_close(&bed);
}

/* A disk of 1 MiB: a chunk that doesn't fit is refused whole, what is there stays, and it goes on when there is room
 * again. */
static void small_disk(const char *dir)
{
    struct err err = { 0 };
    struct logs *logs = logs_open(dir, &err);
    assert_non_null(logs);
    int64_t size = 0;
    enum err_code code;
    while ((code = bed_append(logs, 1, size, 100000, NULL, NULL)) == ERR_none) {
        size += 100000;
    }
    assert_int_equal(code, ERR_disk_full);
    assert_in_range(size, 100000, 1 << 20);
    bed_expect_all(logs, 1, size);
    assert_int_equal(bed_append(logs, 1, size - 10, 10, NULL, NULL), ERR_none); /* repetition needs no room */
    int64_t fill = size;
    while (bed_append(logs, 1, fill, 1, NULL, NULL) == ERR_none) {
        fill++;
    }
    logs_seal(logs, 1, BED_GRANT); /* no room to pack: the log stays as it is */
    logs_wait(logs);
    bed_expect_all(logs, 1, fill);
    logs_close(logs);
    char option[32] = "size=4M";
    assert_int_equal(mount(NULL, dir, NULL, MS_REMOUNT, option), 0);
    logs = logs_open(dir, &err);
    assert_non_null(logs);
    bed_append_ok(logs, 2, 0, 100000);
    logs_wait(logs);
    bed_expect_all(logs, 1, fill);
    bed_expect_all(logs, 2, 100000);
    char path[160];
    snprintf(path, sizeof path, "%s/logs/0/1.7.log.zst", dir);
    assert_int_equal(access(path, F_OK), 0);
    logs_close(logs);
}

static void test_disk_full(void **state)
{
    (void)state;
    char dir[64] = "/tmp/weir-logs.XXXXXX";
    assert_non_null(mkdtemp(dir));
    if (mount("tmpfs", dir, "tmpfs", 0, "size=1M") != 0) {
        print_message("skipped: mounting a tmpfs of 1 MiB needs root: %s\n", strerror(errno));
        rmdir(dir);
        skip();
    }
    pid_t pid = fork(); /* so that the disk is unmounted whatever happens */
    assert_true(pid >= 0);
    if (pid == 0) {
        small_disk(dir);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
    rmdir(dir);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_fails),
        cmocka_unit_test(test_sync_fails_after_restart),
        cmocka_unit_test(test_order_of_syncs),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_killed_at_every_point),
        cmocka_unit_test(test_killed_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
