/* The log store, seen from outside: offsets, repetition, gaps, sealing, tails, damage, threads. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "bed.h"

enum { MIB = 1 << 20 };

/* Any order of chunks that overlap, repeat and run ahead ends in the same bytes; what is refused changes nothing. More
 * logs than descriptors. */
static void test_offsets(void **state)
{
    (void)state;
    enum { TASKS = 300, STEPS = 6000, CHUNK = 3000 };
    struct bed bed;
    bed_open(&bed);
    int64_t sizes[TASKS] = { 0 };
    for (int step = 0; step < STEPS; step++) {
        int64_t task = (int64_t)rng_below(&bed.rng, TASKS);
        int64_t *size = &sizes[task];
        int64_t offset = (int64_t)rng_below(&bed.rng, (uint64_t)*size + 200);
        size_t n = (size_t)rng_below(&bed.rng, CHUNK);
        if (rng_below(&bed.rng, 3) > 0) {
            offset = *size;
        }
        if (rng_below(&bed.rng, 8) == 0) {
            bed_expect(bed.logs, task, offset, n, *size);
            continue;
        }
        struct log_position position;
        int64_t expected = -1;
        enum err_code code = bed_append(bed.logs, task, offset, n, &position, &expected);
        if (offset > *size) {
            assert_int_equal(code, ERR_log_gap);
            assert_int_equal(expected, *size);
        } else {
            assert_int_equal(code, ERR_none);
            *size = offset + (int64_t)n > *size ? offset + (int64_t)n : *size;
            assert_int_equal(position.stored, *size);
        }
    }
    for (int64_t task = 0; task < TASKS; task++) {
        bed_expect_all(bed.logs, task, sizes[task]);
        logs_seal(bed.logs, task, BED_GRANT);
        bed_expect_all(bed.logs, task, sizes[task]);
    }
    logs_wait(bed.logs);
    for (int64_t task = 0; task < TASKS; task++) {
        bed_expect_all(bed.logs, task, sizes[task]);
    }
    bed_close(&bed);
}

static void test_mismatch(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, 100000);
    char bytes[50000];
    bed_fill(1, 40000, bytes, sizeof bytes);
    for (int sealed = 0; sealed < 2; sealed++) {
        struct err err = { 0 };
        struct log_position position;
        bytes[49999] ^= 1;
        assert_false(logs_append(bed.logs, 1, BED_GRANT, 40000, (struct str){ bytes, sizeof bytes }, &position, &err));
        assert_int_equal(err.code, ERR_log_mismatch);
        bytes[49999] ^= 1;
        err = (struct err){ 0 };
        assert_true(logs_append(bed.logs, 1, BED_GRANT, 40000, (struct str){ bytes, sizeof bytes }, &position, &err));
        assert_int_equal(position.stored, 100000);
        bed_expect_all(bed.logs, 1, 100000);
        logs_seal(bed.logs, 1, BED_GRANT);
        logs_wait(bed.logs);
    }
    assert_int_equal(bed_append(bed.logs, 1, 99999, 2, NULL, NULL), ERR_already_ended);
    assert_int_equal(bed_append(bed.logs, 1, -1, 2, NULL, NULL), ERR_invalid);
    assert_int_equal(bed_append(bed.logs, -1, 0, 2, NULL, NULL), ERR_invalid);
    bed_expect_all(bed.logs, 1, 100000);
    bed_close(&bed);
}

static void test_nothing_there(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    int64_t expected = -1;
    struct log_position position;
    assert_int_equal(bed_size(bed.logs, 5), 0);
    bed_expect(bed.logs, 5, 0, 100, 0);
    assert_int_equal(bed_append(bed.logs, 5, 10, 5, NULL, &expected), ERR_log_gap);
    assert_int_equal(expected, 0);
    assert_int_equal(bed_append(bed.logs, 5, 0, 0, &position, NULL), ERR_none);
    assert_int_equal(position.stored, 0);
    logs_seal(bed.logs, 5, BED_GRANT);
    logs_wait(bed.logs);
    assert_false(bed_has(&bed, "live/5.7.log"));
    assert_false(bed_has(&bed, "0"));
    bed_close(&bed);
}

struct listener {
    pthread_mutex_t lock;
    pthread_cond_t told;
    int n;
};

static void listener_tell(void *owner)
{
    struct listener *listener = owner;
    pthread_mutex_lock(&listener->lock);
    listener->n++;
    pthread_cond_signal(&listener->told);
    pthread_mutex_unlock(&listener->lock);
}

/* `durable` follows `stored`, and whoever waits for it is told. */
static void test_durable_follows(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    struct listener listener = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
    logs_on_sync(bed.logs, listener_tell, &listener);
    for (int64_t offset = 0; offset < 5000; offset += 1000) {
        bed_append_ok(bed.logs, 3, offset, 1000);
        struct log_position position = { 0 };
        pthread_mutex_lock(&listener.lock);
        while (position.durable < offset + 1000) {
            while (listener.n == 0) {
                pthread_cond_wait(&listener.told, &listener.lock);
            }
            listener.n = 0;
            pthread_mutex_unlock(&listener.lock);
            assert_int_equal(bed_append(bed.logs, 3, offset + 1000, 0, &position, NULL), ERR_none);
            pthread_mutex_lock(&listener.lock);
        }
        pthread_mutex_unlock(&listener.lock);
    }
    logs_wait(bed.logs);
    bed_reopen(&bed);
    struct log_position position;
    assert_int_equal(bed_append(bed.logs, 3, 4000, 1000, &position, NULL), ERR_none);
    /* what the kernel had before the restart isn't claimed until it was synced again */
    assert_int_equal(position.stored, 5000);
    logs_wait(bed.logs);
    assert_int_equal(bed_append(bed.logs, 3, 4000, 1000, &position, NULL), ERR_none);
    assert_int_equal(position.durable, 5000);
    bed_close(&bed);
}

static int64_t rss_max_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
}

/* The tail of a large sealed log costs two frames at most, and no buffer of the log's size. */
static void test_tail_of_large(void **state)
{
    (void)state;
    enum { SIZE = 200 * MIB, STEP = 256 * 1024 };
    struct bed bed;
    bed_open(&bed);
    for (int64_t offset = 0; offset < SIZE; offset += STEP) {
        bed_append_ok(bed.logs, 12345, offset, STEP);
    }
    bed_append_ok(bed.logs, 12345, SIZE, 1234);
    int64_t before = rss_max_bytes();
    logs_seal(bed.logs, 12345, BED_GRANT);
    logs_wait(bed.logs);
    assert_false(bed_has(&bed, "live/12345.7.log"));
    assert_true(bed_has(&bed, "12/12345.7.log.zst"));
    uint64_t unpacked = logs_frames_unpacked(bed.logs);
    bed_expect(bed.logs, 12345, SIZE + 1234 - 64 * 1024, 64 * 1024, SIZE + 1234);
    assert_in_range(logs_frames_unpacked(bed.logs) - unpacked, 1, 2);
    unpacked = logs_frames_unpacked(bed.logs);
    bed_expect(bed.logs, 12345, 100 * MIB + 17, 100, SIZE + 1234);
    assert_int_equal(logs_frames_unpacked(bed.logs) - unpacked, 1);
    unpacked = logs_frames_unpacked(bed.logs);
    for (int64_t offset = 50 * MIB; offset < 52 * MIB; offset += 10000) { /* in small steps: each frame once */
        bed_expect(bed.logs, 12345, offset, 10000, SIZE + 1234);
    }
    assert_in_range(logs_frames_unpacked(bed.logs) - unpacked, 8, 9);
#ifndef WEIR_SANITIZED
    assert_in_range(rss_max_bytes() - before, 0, 16 * MIB);
#else
    (void)before; /* a sanitizer keeps freed memory */
#endif
    bed_close(&bed);
}

static void expect_mode(const struct bed *bed, const char *name, unsigned mode)
{
    char path[160];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", bed->dir, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

static void test_modes(void **state)
{
    (void)state;
    struct bed bed;
    mode_t mask = umask(0);
    bed_open(&bed);
    bed_append_ok(bed.logs, 2000, 0, 10);
    expect_mode(&bed, "logs", 0700);
    expect_mode(&bed, "logs/live", 0700);
    expect_mode(&bed, "logs/live/2000.7.log", 0600);
    logs_seal(bed.logs, 2000, BED_GRANT);
    logs_wait(bed.logs);
    expect_mode(&bed, "logs/2", 0700);
    expect_mode(&bed, "logs/2/2000.7.log.zst", 0600);
    umask(mask);
    bed_close(&bed);
}

static char *packed_load(const struct bed *bed, const char *name, size_t *out_n)
{
    char path[160];
    snprintf(path, sizeof path, "%s/logs/%s", bed->dir, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = mem_alloc(4 * MIB);
    *out_n = fread(bytes, 1, 4 * MIB, file);
    fclose(file);
    return bytes;
}

static void packed_store(const struct bed *bed, const char *name, const char *bytes, size_t n)
{
    char path[160];
    snprintf(path, sizeof path, "%s/logs/%s", bed->dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* Stock zstd reads a packed log as a whole. */
static void test_stock_format(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, MIB + 99);
    logs_seal(bed.logs, 1, BED_GRANT);
    logs_wait(bed.logs);
    size_t n;
    char *packed = packed_load(&bed, "0/1.7.log.zst", &n);
    char *plain = mem_alloc(2 * MIB), *want = mem_alloc(2 * MIB);
    assert_int_equal(ZSTD_decompress(plain, 2 * MIB, packed, n), MIB + 99);
    bed_fill(1, 0, want, MIB + 99);
    assert_memory_equal(plain, want, MIB + 99);
    mem_free(want);
    mem_free(plain);
    mem_free(packed);
    bed_close(&bed);
}

/* Reads all; true when the bytes are right, false when the damage was told; anything else fails. */
static bool damage_read(struct bed *bed, int64_t size)
{
    struct buf got;
    struct err err = { 0 };
    buf_init(&got, 4 * MIB);
    bool ok = logs_read(bed->logs, 1, BED_GRANT, 0, 2 * MIB, &got, &err);
    if (ok) {
        char *want = mem_alloc((size_t)size);
        bed_fill(1, 0, want, (size_t)size);
        assert_int_equal(got.len, size);
        assert_memory_equal(got.ptr, want, (size_t)size);
        mem_free(want);
    } else {
        assert_int_equal(err.code, ERR_corrupt);
        assert_non_null(strstr(err.text, "task 1"));
    }
    buf_release(&got);
    return ok;
}

/* Whatever bit is turned or byte cut off, the reader says so and never gives other bytes. */
static void test_damage(void **state)
{
    (void)state;
    enum { SIZE = 600000, FLIPS = 150 };
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, SIZE);
    logs_seal(bed.logs, 1, BED_GRANT);
    logs_wait(bed.logs);
    size_t n;
    char *bytes = packed_load(&bed, "0/1.7.log.zst", &n);
    int undetected = 0;
    for (int i = 0; i < FLIPS; i++) {
        size_t at = i < 50 ? n - 1 - (size_t)i : (size_t)rng_below(&bed.rng, n); /* the whole table, then anywhere */
        char bit = (char)(1 << rng_below(&bed.rng, 8));
        bytes[at] ^= bit;
        packed_store(&bed, "0/1.7.log.zst", bytes, n);
        bed_reopen(&bed);
        undetected += damage_read(&bed, SIZE);
        bytes[at] ^= bit;
    }
    /* zstd ignores one bit of a frame's header: then the bytes are right all the same */
    assert_in_range(undetected, 0, 2);
    for (int i = 0; i < 20; i++) {
        packed_store(&bed, "0/1.7.log.zst", bytes, (size_t)rng_below(&bed.rng, n));
        bed_reopen(&bed);
        assert_false(damage_read(&bed, SIZE));
    }
    packed_store(&bed, "0/1.7.log.zst", bytes, n);
    bed_reopen(&bed);
    assert_true(damage_read(&bed, SIZE));
    mem_free(bytes);
    bed_close(&bed);
}

static void open_note(void *owner, int64_t task, int64_t grant)
{
    assert_int_equal(grant, BED_GRANT);
    *(int64_t *)owner += task;
}

/* After a restart: unsealed logs go on, sealed ones are packed without being asked, the rest of the folder is left
 * alone. */
static void test_restart(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, 5000);
    bed_append_ok(bed.logs, 2, 0, 5000);
    bed_append_ok(bed.logs, 4, 0, 5000);
    logs_close(bed.logs);
    char path[160];
    snprintf(path, sizeof path, "%s/logs/live/2.7.log", bed.dir);
    assert_int_equal(chmod(path, 0400), 0); /* as if killed just after the seal */
    packed_store(&bed, "live/2.7.tmp", "half", 4);
    packed_store(&bed, "live/notes", "mine", 4);
    struct err err = { 0 };
    bed.logs = logs_open(bed.dir, &err);
    assert_non_null(bed.logs);
    logs_wait(bed.logs);
    int64_t sum = 0;
    logs_each_open(bed.logs, open_note, &sum);
    assert_int_equal(sum, 1 + 4);
    assert_false(bed_has(&bed, "live/2.7.log"));
    assert_false(bed_has(&bed, "live/2.7.tmp"));
    assert_true(bed_has(&bed, "live/notes"));
    bed_append_ok(bed.logs, 1, 5000, 100);
    bed_expect_all(bed.logs, 1, 5100);
    bed_expect_all(bed.logs, 2, 5000);
    bed_expect_all(bed.logs, 4, 5000);
    bed_close(&bed);
}

static void sealed_expect(struct logs *logs, const int64_t *tasks, const int64_t *sizes, size_t n)
{
    struct log_sealed got[8];
    assert_int_equal(logs_sealed(logs, got, 8), n);
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < n && tasks[at] != got[i].seal.task) {
            at++;
        }
        assert_true(at < n);
        char *bytes = mem_alloc((size_t)sizes[at]);
        uint8_t hash[LOG_HASH_BYTES];
        bed_fill(tasks[at], 0, bytes, (size_t)sizes[at]);
        crypto_generichash(hash, sizeof hash, (const unsigned char *)bytes, (size_t)sizes[at], NULL, 0);
        mem_free(bytes);
        assert_int_equal(got[i].seal.grant, BED_GRANT);
        assert_int_equal(got[i].seal.bytes, sizes[at]);
        assert_memory_equal(got[i].seal.hash, hash, sizeof hash);
    }
}

static void seals_count(void *owner)
{
    ++*(int *)owner;
}

/* What was sealed is hashed, and told until it is noted, by the next life too; nothing is told of a log that was
 * removed, or never was. */
static void test_seals(void **state)
{
    (void)state;
    static const int64_t tasks[] = { 1, 2 }, sizes[] = { 5000, 700000 };
    struct bed bed;
    struct log_sealed got[8];
    int told = 0;
    bed_open(&bed);
    logs_on_seal(bed.logs, seals_count, &told);
    bed_append_ok(bed.logs, 1, 0, 5000);
    bed_append_ok(bed.logs, 2, 0, 700000);
    bed_append_ok(bed.logs, 3, 0, 10);
    for (int64_t task = 1; task <= 4; task++) {
        if (task != 3) {
            logs_seal(bed.logs, task, BED_GRANT);
        }
    }
    logs_wait(bed.logs);
    assert_int_equal(told, 1);
    sealed_expect(bed.logs, tasks, sizes, 2);
    assert_true(bed_has(&bed, "live/1.7.unnoted"));
    bed_reopen(&bed);
    logs_wait(bed.logs);
    sealed_expect(bed.logs, tasks, sizes, 2);
    logs_on_seal(bed.logs, seals_count, &told);
    assert_int_equal(told, 2); /* some wait already */
    assert_int_equal(logs_sealed(bed.logs, got, 1), 1);
    int64_t left = got[0].seal.task == 1 ? 2 : 1;
    assert_true(logs_noted(bed.logs, got, 1));
    bed_reopen(&bed);
    logs_wait(bed.logs);
    sealed_expect(bed.logs, &left, &sizes[left - 1], 1);
    logs_remove(bed.logs, left, BED_GRANT);
    bed_reopen(&bed);
    logs_wait(bed.logs);
    sealed_expect(bed.logs, NULL, NULL, 0);
    assert_false(bed_has(&bed, "live/1.7.unnoted") || bed_has(&bed, "live/2.7.unnoted"));
    bed_close(&bed);
}

/* The first byte of the boot that the marks were written in is another one from here on: as after a power cut. */
static void boot_anew(const struct bed *bed)
{
    char path[160], head[64] = "";
    snprintf(path, sizeof path, "%s/logs/marks", bed->dir);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head);
    char *boot = strstr(head, "marks 1 ");
    assert_non_null(boot);
    boot += strlen("marks 1 ");
    assert_int_equal(pwrite(fd, *boot == 'x' ? "y" : "x", 1, boot - head), 1);
    close(fd);
}

static void tail_add(const struct bed *bed, int64_t task, size_t n, bool sealed)
{
    static const char zeros[4096];
    char path[160];
    snprintf(path, sizeof path, "%s/logs/live/%" PRId64 ".7.log", bed->dir, task);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0 && n <= sizeof zeros && write(fd, zeros, n) == (ssize_t)n);
    close(fd);
    assert_int_equal(chmod(path, sealed ? 0400 : 0600), 0);
}

/* An attempt that was given up: how long its log is, in the same queue; it stays open, and has no mark of a seal. */
static void test_lost(void **state)
{
    (void)state;
    struct bed bed;
    struct log_sealed got[2];
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, 300);
    logs_lost(bed.logs, 1, BED_GRANT);
    assert_int_equal(logs_sealed(bed.logs, got, 2), 1);
    assert_true(got[0].lost);
    assert_int_equal(got[0].seal.task, 1);
    assert_int_equal(got[0].seal.bytes, 300);
    assert_false(logs_noted(bed.logs, got, 1));
    bed_append_ok(bed.logs, 1, 300, 50);
    bed_expect_all(bed.logs, 1, 350);
    bed_close(&bed);
}

/* What follows the durable part of a live log after a power cut isn't the log; in the same boot it is. */
static void test_power_cut(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, 5000);
    bed_append_ok(bed.logs, 2, 0, 3000);
    logs_wait(bed.logs);
    bed_append_ok(bed.logs, 2, 3000, 100); /* its mark is written over */
    logs_seal(bed.logs, 2, BED_GRANT);
    logs_wait(bed.logs);
    bed_append_ok(bed.logs, 3, 0, 700); /* takes the slot of 2 */
    logs_close(bed.logs);
    tail_add(&bed, 1, 1000, false);
    tail_add(&bed, 3, 1000, true);
    tail_add(&bed, 4, 1000, false); /* never durable */
    tail_add(&bed, 2, 50, true);    /* is there packed: its removal wasn't durable */
    boot_anew(&bed);
    struct err err = { 0 };
    bed.logs = logs_open(bed.dir, &err);
    assert_non_null(bed.logs);
    bed_expect_all(bed.logs, 1, 5000);
    bed_expect_all(bed.logs, 2, 3100);
    bed_expect_all(bed.logs, 3, 700);
    assert_int_equal(bed_size(bed.logs, 4), 0);
    assert_false(bed_has(&bed, "live/2.7.log"));
    bed_append_ok(bed.logs, 1, 5000, 10);
    logs_wait(bed.logs);
    bed_expect_all(bed.logs, 3, 700);
    logs_close(bed.logs);
    tail_add(&bed, 1, 1000, false);
    bed.logs = logs_open(bed.dir, &err); /* the same boot: a killed server's pages are there */
    assert_non_null(bed.logs);
    assert_int_equal(bed_size(bed.logs, 1), 6010);
    bed_close(&bed);
}

static void short_one(void *owner, int64_t task, int64_t grant)
{
    if (task == 3)
        logs_expect(owner, task, grant, 900);
    else
        logs_seal(owner, task, grant);
}

/* An attempt has ended, a power cut took bytes of its log that were never durable: what its executor still has is
 * taken, and no more. */
static void test_power_cut_after_the_end(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 3, 0, 700);
    bed_append_ok(bed.logs, 4, 0, 200);
    logs_close(bed.logs);
    tail_add(&bed, 3, 200, true);
    tail_add(&bed, 4, 0, true);
    boot_anew(&bed);
    struct err err = { 0 };
    bed.logs = logs_open(bed.dir, &err);
    assert_non_null(bed.logs);
    logs_each_open(bed.logs, short_one, bed.logs);
    logs_wait(bed.logs);
    assert_true(bed_has(&bed, "live/3.7.log")); /* it isn't packed before */
    assert_false(bed_has(&bed, "live/4.7.log"));
    bed_append_ok(bed.logs, 3, 700, 100);
    assert_int_equal(bed_append(bed.logs, 3, 800, 101, NULL, NULL), ERR_already_ended);
    bed_append_ok(bed.logs, 3, 800, 100);
    logs_wait(bed.logs);
    assert_false(bed_has(&bed, "live/3.7.log"));
    assert_int_equal(bed_append(bed.logs, 3, 900, 1, NULL, NULL), ERR_already_ended);
    bed_expect_all(bed.logs, 3, 900);
    bed_close(&bed);
}

/* Logs of a Weir that kept no marks are taken as they are, whatever was booted. */
static void test_power_cut_unmarked(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed_append_ok(bed.logs, 1, 0, 5000);
    logs_close(bed.logs);
    char path[160];
    snprintf(path, sizeof path, "%s/logs/marks", bed.dir);
    assert_int_equal(unlink(path), 0);
    struct err err = { 0 };
    for (int life = 0; life < 2; life++) {
        bed.logs = logs_open(bed.dir, &err);
        assert_non_null(bed.logs);
        bed_expect_all(bed.logs, 1, 5000);
        if (life == 0) {
            logs_close(bed.logs);
            boot_anew(&bed);
        }
    }
    bed_close(&bed);
}

struct crowd {
    struct logs *logs;
    int64_t first;
};

static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;
    for (int64_t task = crowd->first; task < crowd->first + 40; task++) {
        for (int64_t offset = 0; offset < 20000; offset += 1000) {
            bed_append_ok(crowd->logs, task, offset, 1000);
            bed_expect(crowd->logs, task, offset / 2, 1000, offset + 1000);
        }
        logs_seal(crowd->logs, task, BED_GRANT);
        bed_expect(crowd->logs, task, 0, 20000, 20000);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    struct listener listener = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
    logs_on_sync(bed.logs, listener_tell, &listener);
    pthread_t threads[4];
    struct crowd crowds[4];
    for (int i = 0; i < 4; i++) {
        crowds[i] = (struct crowd){ bed.logs, 100 * i };
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowds[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    logs_wait(bed.logs);
    for (int64_t i = 0; i < 160; i++) {
        bed_expect_all(bed.logs, i % 4 * 100 + i / 4, 20000);
    }
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_durable_follows),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_stock_format),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_seals),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_power_cut),
        cmocka_unit_test(test_power_cut_after_the_end),
        cmocka_unit_test(test_power_cut_unmarked),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_tail_of_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
