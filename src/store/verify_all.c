/* verify_all: logs and kept files that rows name, checked. See verify_all.h.
 *
 * Beside a running server a row may be older than the files: what seems to be missing is looked at again, with its row,
 * for a while before it is a fault. */
#include "store/verify_all.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/blobs/copy.h"

enum { PART_ROWS = 200, LOOKS = 20, CHANGED_LOOKS = 3, LOOK_PAUSE_MS = 250 };

static bool fault(struct verify_report *report, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fault(struct verify_report *report, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(report->fault, sizeof report->fault, fmt, args);
    va_end(args);
    report->ok = false;
    return false;
}

static void wait_a_moment(void)
{
    struct timespec t = { .tv_nsec = LOOK_PAUSE_MS * 1000000L };
    nanosleep(&t, NULL);
}

static bool log_rows_read(const struct sql *sql, int64_t task, int64_t grant, struct verify_log *out, size_t max,
    size_t *out_n, struct err *err)
{
    struct query q;
    enum query_step step;
    *out_n = 0;
    if (!ASK(&q, sql, SQL_verify_logs_after, err, NUM(task), NUM(grant), NUM(max)))
        return false;
    while ((step = query_next(&q, err)) == QUERY_ROW) {
        struct task row = { 0 };
        struct verify_log *log = &out[(*out_n)++];
        *log = (struct verify_log){ .task = next_i64(&q) };
        log->grant = next_i64(&q);
        log->number = next_i64(&q);
        log->bytes = next_i64(&q);
        log->pruned =
            task_unpack(next_view(&q), &row) && ((row.marks & MARK_PRUNED) || task_pruned(&row) >= log->grant);
        log->seal.bytes = next_i64(&q);
        (void)row_bytes(next_view(&q), log->seal.hash, LOG_HASH_BYTES); /* none: it has no hash yet */
    }
    return step == QUERY_DONE;
}

static bool file_rows_read(const struct sql *sql, int64_t task, struct arena *arena, struct verify_files *out,
    size_t max, size_t *out_n, struct err *err)
{
    struct query q;
    enum query_step step;
    *out_n = 0;
    if (!ASK(&q, sql, SQL_verify_kept_after, err, NUM(task), NUM(max)))
        return false;
    while ((step = query_next(&q, err)) == QUERY_ROW) {
        struct verify_files *files = &out[(*out_n)++];
        files->task = next_i64(&q);
        files->list = next_text(&q, arena);
    }
    return step == QUERY_DONE;
}

struct tarball_row { /* of a change set that has one */
    int64_t task;
    char hex[BLOB_HEX + 1];
};

static bool log_look(const struct bytes_source *from, const struct verify_log *log, int64_t *out_bytes,
    struct log_seal *out_seal, struct verify_report *out, struct err *err)
{
    struct err why = { 0 };
    if (from->log(from->owner, log, out_bytes, out_seal, &why))
        return true;
    if (why.code != ERR_corrupt)
        return err_set(err, why.code, "%s", why.text);
    return fault(
        out, "the log of task %" PRId64 ", attempt %" PRId64 " is damaged: %.120s", log->task, log->number, why.text);
}

static bool log_as_sealed(const struct verify_log *log, const struct log_seal *now)
{
    return log->seal.bytes < 0 ||
           (now->bytes == log->seal.bytes && memcmp(now->hash, log->seal.hash, sizeof now->hash) == 0);
}

static bool log_changed(const struct verify_log *log, const struct log_seal *now, struct verify_report *out)
{
    if (now->bytes != log->seal.bytes)
        return fault(out,
            "the log of task %" PRId64 ", attempt %" PRId64 " isn't as it was sealed: it has %" PRId64
            " bytes, it had %" PRId64,
            log->task, log->number, now->bytes, log->seal.bytes);
    return fault(out, "the log of task %" PRId64 ", attempt %" PRId64 " isn't as it was sealed: it has other bytes",
        log->task, log->number);
}

/* *looks: how often what seems to be missing is looked at again, in all. Bytes that are missing are no fault: a power
 * cut may take what wasn't durable, and the length is what an executor said; they are counted. A log whose seal is
 * noted was durable: it is there, all of it, and the same. */
static bool log_verify(
    const struct bytes_source *from, struct verify_log log, int *looks, struct verify_report *out, struct err *err)
{
    int64_t bytes = 0;
    struct log_seal now = { 0 };
    int again = CHANGED_LOOKS; /* a server may prune the log, or note its hash, while it is read */
    size_t n;
    while (!log.pruned) {
        if (!log_look(from, &log, &bytes, &now, out, err))
            return false;
        bool same = log_as_sealed(&log, &now);
        if (!same && again-- == 0)
            return log_changed(&log, &now, out);
        if (same && (bytes >= log.bytes || *looks == 0))
            break;
        *looks -= same;
        wait_a_moment();
        if (!log_rows_read(&from->sql, log.task, log.grant - 1, &log, 1, &n, err))
            return false;
    }
    out->logs += bytes > 0;
    out->logs_unnoted += now.bytes > 0 && log.seal.bytes < 0;
    out->log_bytes += bytes;
    if (log.pruned || bytes >= log.bytes)
        return true;
    if (out->logs_short++ == 0)
        snprintf(out->log_missing, sizeof out->log_missing,
            "the log of task %" PRId64 ", attempt %" PRId64 " has %" PRId64 " of the %" PRId64
            " bytes that were reported",
            log.task, log.number, bytes, log.bytes);
    return true;
}

/* The next {"name":...,"bytes":N,"sha256":"HEX"...} of a list as api/artifacts.c writes it: a quote inside a name is
 * escaped. */
static bool listed_cut(struct str *rest, int64_t *out_bytes, char out_hex[BLOB_HEX + 1])
{
    static const char bytes_word[] = "\"bytes\":", hash_word[] = "\"sha256\":\"";
    const char *at = rest->len > 0 ? memmem(rest->ptr, rest->len, bytes_word, sizeof bytes_word - 1) : NULL;
    if (!at)
        return false;
    struct str left = str_sub(*rest, (size_t)(at - rest->ptr) + sizeof bytes_word - 1, rest->len);
    size_t digits = 0;
    while (digits < left.len && left.ptr[digits] >= '0' && left.ptr[digits] <= '9')
        digits++;
    at = memmem(left.ptr, left.len, hash_word, sizeof hash_word - 1);
    if (!at || !str_to_i64(str_sub(left, 0, digits), out_bytes))
        return false;
    left = str_sub(left, (size_t)(at - left.ptr) + sizeof hash_word - 1, left.len);
    if (left.len < BLOB_HEX)
        return false;
    memcpy(out_hex, left.ptr, BLOB_HEX);
    out_hex[BLOB_HEX] = '\0';
    *rest = str_sub(left, BLOB_HEX, left.len);
    return true;
}

/* The row that lists the file was pruned or rewritten since it was read. */
static bool list_is_old(const struct bytes_source *from, const struct verify_files *files, struct err *err)
{
    struct arena arena = { 0 };
    struct verify_files now = { 0 };
    size_t n = 0;
    bool old = file_rows_read(&from->sql, files->task - 1, &arena, &now, 1, &n, err) &&
               (n == 0 || now.task != files->task || !str_eq(now.list, files->list));
    arena_release(&arena);
    return old;
}

static bool files_verify(
    const struct bytes_source *from, const struct verify_files *files, struct verify_report *out, struct err *err)
{
    struct str rest = files->list;
    int64_t bytes, found;
    char hex[BLOB_HEX + 1], real[BLOB_HEX + 1];
    while (listed_cut(&rest, &bytes, hex)) {
        if (!from->file(from->owner, hex, &found, real, err))
            return false;
        if (found == bytes && strcmp(hex, real) == 0) {
            out->files++;
            out->file_bytes += bytes;
            continue;
        }
        if (list_is_old(from, files, err))
            return true;
        if (found < 0)
            return fault(out, "a kept file of task %" PRId64 " is missing: sha256 %.16s..., %" PRId64 " bytes",
                files->task, hex, bytes);
        return fault(out,
            "a kept file of task %" PRId64 " has other bytes than were kept: sha256 %.16s..., %" PRId64 " bytes",
            files->task, hex, bytes);
    }
    return true;
}

static bool logs_verify_all(
    const struct bytes_source *from, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    struct verify_log logs[PART_ROWS];
    int64_t task = 0, grant = 0;
    int looks = LOOKS;
    size_t n;
    for (;;) {
        if (!log_rows_read(&from->sql, task, grant, logs, PART_ROWS, &n, err))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!log_verify(from, logs[i], &looks, out, err))
                return false;
        if (n == 0)
            return true;
        task = logs[n - 1].task;
        grant = logs[n - 1].grant;
        if (wish->tell)
            wish->tell(wish->owner, "logs", out->logs);
    }
}

static bool files_verify_all(
    const struct bytes_source *from, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    struct verify_files files[PART_ROWS];
    struct arena arena = { 0 };
    int64_t task = 0;
    size_t n = 1;
    bool ok = true;
    while (ok && n > 0) {
        arena_reset(&arena);
        ok = file_rows_read(&from->sql, task, &arena, files, PART_ROWS, &n, err);
        for (size_t i = 0; ok && i < n; i++)
            ok = files_verify(from, &files[i], out, err);
        task = ok && n > 0 ? files[n - 1].task : task;
        if (wish->tell)
            wish->tell(wish->owner, "kept files", out->files);
    }
    arena_release(&arena);
    return ok;
}

/* tarball_rows: the next change sets; *out_last: the last one that was looked at. */
static bool tarball_rows(const struct sql *sql, int64_t task, size_t max, struct tarball_row *out, size_t *out_n,
    int64_t *out_last, struct err *err)
{
    struct query q;
    enum query_step step;
    *out_n = 0;
    *out_last = 0;
    if (!ASK(&q, sql, SQL_verify_tarballs_after, err, NUM(task), NUM(max)))
        return false;
    while ((step = query_next(&q, err)) == QUERY_ROW) {
        struct task row = { 0 };
        struct tarball_row *tarball = &out[*out_n];
        tarball->task = *out_last = next_i64(&q);
        bool good = task_unpack(next_view(&q), &row);
        *out_n += tarball_hex(&row, next_view(&q), tarball->hex) && good;
    }
    return step == QUERY_DONE;
}

static bool tarball_verify(
    const struct bytes_source *from, const struct tarball_row *tarball, struct verify_report *out, struct err *err)
{
    struct tarball_row now;
    int64_t bytes, last;
    size_t n;
    char real[BLOB_HEX + 1];
    if (!from->file(from->owner, tarball->hex, &bytes, real, err))
        return false;
    if (bytes >= 0 && strcmp(tarball->hex, real) == 0) {
        out->files++;
        out->file_bytes += bytes;
        return true;
    }
    /* it may have been pruned since its row was read */
    if (!tarball_rows(&from->sql, tarball->task - 1, 1, &now, &n, &last, err))
        return false;
    if (n == 0 || now.task != tarball->task)
        return true;
    return fault(out, "the tarball of the change set with task %" PRId64 " %s: sha256 %.16s...", tarball->task,
        bytes < 0 ? "is missing" : "has other bytes than were submitted", tarball->hex);
}

static bool tarballs_verify_all(
    const struct bytes_source *from, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    struct tarball_row tarballs[PART_ROWS];
    int64_t task = 0;
    size_t n;
    for (;;) {
        if (!tarball_rows(&from->sql, task, PART_ROWS, tarballs, &n, &task, err))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!tarball_verify(from, &tarballs[i], out, err))
                return false;
        if (task == 0)
            return true;
        if (wish->tell)
            wish->tell(wish->owner, "kept files", out->files);
    }
}

bool bytes_verify(
    const struct bytes_source *source, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    return (logs_verify_all(source, wish, out, err) && files_verify_all(source, wish, out, err) &&
               tarballs_verify_all(source, wish, out, err)) ||
           !out->ok;
}
