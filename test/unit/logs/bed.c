/* bed: see bed.h. Failures are cmocka's; a mismatch prints task and offset. */
#include "bed.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void bed_remove(const char *dir)
{
    nftw(dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

void bed_open(struct bed *bed)
{
    const char *seed = getenv("TEST_SEED");
    rng_seed(&bed->rng, seed ? strtoull(seed, NULL, 10) : 1);
    snprintf(bed->dir, sizeof bed->dir, "/tmp/weir-logs.XXXXXX");
    assert_non_null(mkdtemp(bed->dir));
    struct err err = { 0 };
    bed->logs = logs_open(bed->dir, &err);
    assert_non_null(bed->logs);
}

void bed_close(struct bed *bed)
{
    logs_close(bed->logs);
    bed_remove(bed->dir);
}

void bed_reopen(struct bed *bed)
{
    logs_close(bed->logs);
    struct err err = { 0 };
    bed->logs = logs_open(bed->dir, &err);
    assert_non_null(bed->logs);
}

/* Half noise, half repetition, so that packing has something to do and frames differ. */
void bed_fill(int64_t task, int64_t offset, char *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)offset + i;
        uint64_t x = ((at >> 3) + (uint64_t)task * 1000003) * 0x9e3779b97f4a7c15u;
        out[i] = (char)(at & 4 ? x >> ((at & 7) * 8) : (uint64_t) "logs"[at & 3]);
    }
}

enum err_code bed_append(
    struct logs *logs, int64_t task, int64_t offset, size_t n, struct log_position *out, int64_t *out_expected)
{
    char *bytes = mem_alloc(n + 1);
    bed_fill(task, offset, bytes, n);
    struct err err = { 0 };
    struct log_position position = { -1, -1 };
    bool ok = logs_append(logs, task, BED_GRANT, offset, (struct str){ bytes, n }, &position, &err);
    mem_free(bytes);
    assert_true(ok || err.code != ERR_none);
    assert_true(!ok || (position.durable >= 0 && position.durable <= position.stored));
    if (out) {
        *out = position;
    }
    if (out_expected) {
        *out_expected = err.expected;
    }
    return ok ? ERR_none : err.code;
}

void bed_append_ok(struct logs *logs, int64_t task, int64_t offset, size_t n)
{
    struct log_position position;
    assert_int_equal(bed_append(logs, task, offset, n, &position, NULL), ERR_none);
    assert_true(position.stored >= offset + (int64_t)n);
}

void bed_expect(struct logs *logs, int64_t task, int64_t offset, size_t max, int64_t size)
{
    struct buf got;
    struct err err = { 0 };
    buf_init(&got, max + 1);
    if (!logs_read(logs, task, BED_GRANT, offset, max, &got, &err)) {
        fail_msg("task %" PRId64 " offset %" PRId64 ": %s", task, offset, err.text);
    }
    int64_t left = size > offset ? size - offset : 0;
    size_t want = (uint64_t)left < max ? (size_t)left : max;
    assert_int_equal(got.len, want);
    char *bytes = mem_alloc(want + 1);
    bed_fill(task, offset, bytes, want);
    if (want > 0 && memcmp(bytes, got.ptr, want) != 0) {
        fail_msg("task %" PRId64 " offset %" PRId64 ": other bytes", task, offset);
    }
    mem_free(bytes);
    buf_release(&got);
}

void bed_expect_all(struct logs *logs, int64_t task, int64_t size)
{
    assert_int_equal(bed_size(logs, task), size);
    for (int64_t offset = 0; offset <= size; offset += 1 << 20) {
        bed_expect(logs, task, offset, 1 << 20, size);
    }
}

int64_t bed_size(struct logs *logs, int64_t task)
{
    int64_t size = -1;
    struct err err = { 0 };
    if (!logs_size(logs, task, BED_GRANT, &size, &err)) {
        fail_msg("task %" PRId64 ": %s", task, err.text);
    }
    return size;
}

bool bed_has(const struct bed *bed, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/logs/%s", bed->dir, name);
    return access(path, F_OK) == 0;
}
