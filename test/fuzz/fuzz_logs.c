/* The log store's offset algebra: chunks of one text in any order, any number of times, sealed or not, never give other
 * bytes than a prefix of that text; once everything was sent in order all of it is there, and the sealed and packed log
 * reads the same. */
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "store/logs/logs.h"

#define SHAPES(X) \
    X(appended) X(repeated) X(overlapped) X(gap) X(mismatch) X(after_seal) X(sealed) X(read_middle) X(empty)
FUZZ_SHAPES(SHAPES)

enum { TEXT_MAX = 6000, OPS_MAX = 60 };

static struct logs *logs;
static char folder[256];
static int64_t task;

static void folder_remove(void)
{
    char path[300];
    logs_close(logs);
    logs = NULL;
    snprintf(path, sizeof path, "%s/logs/marks", folder);
    unlink(path);
    for (const char *const *at = (const char *const[]){ "logs/live", "logs/0", "logs/1", "logs", "", NULL }; *at;
         at++) {
        snprintf(path, sizeof path, "%s/%s", folder, *at);
        rmdir(path);
    }
}

static void begin(void)
{
    struct err err = { 0 };
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fuzz-logs.XXXXXX", tmp ? tmp : "/tmp");
    HOLDS(mkdtemp(folder));
    logs = logs_open(folder, &err);
    HOLDS(logs);
    atexit(folder_remove);
}

struct log {
    char text[TEXT_MAX]; /* what the sender has */
    int64_t stored;      /* what must be stored of it */
    bool sealed;
};

static void append_check(struct log *log, int64_t offset, struct str bytes, bool altered)
{
    struct err err = { 0 };
    struct log_position at;
    int64_t end = offset + (int64_t)bytes.len;
    if (logs_append(logs, task, 1, offset, bytes, &at, &err)) {
        HOLDS(offset <= log->stored && !(altered && offset < log->stored));
        HOLDS(!(log->sealed && end > log->stored));
        SEEN_IF(repeated, bytes.len > 0 && end <= log->stored);
        SEEN_IF(overlapped, offset < log->stored && end > log->stored);
        SEEN_IF(appended, end > log->stored);
        log->stored = end > log->stored ? end : log->stored;
        HOLDS(at.stored == log->stored && at.durable <= at.stored);
        return;
    }
    bool gap = err.code == ERR_log_gap, mismatch = err.code == ERR_log_mismatch, ended = err.code == ERR_already_ended;
    HOLDS(!gap || (offset > log->stored && err.expected == log->stored));
    HOLDS(!mismatch || altered);
    HOLDS(!ended || (log->sealed && end > log->stored));
    HOLDS(gap || mismatch || ended);
    SEEN_IF(gap, gap);
    SEEN_IF(mismatch, mismatch);
    SEEN_IF(after_seal, ended);
}

static void read_check(const struct log *log, int64_t offset, size_t max)
{
    struct err err = { 0 };
    struct buf out;
    int64_t size = -1;
    buf_init(&out, TEXT_MAX + 1);
    HOLDS(logs_size(logs, task, 1, &size, &err) && size == log->stored);
    HOLDS(logs_read(logs, task, 1, offset, max, &out, &err));
    size_t left = offset < log->stored ? (size_t)(log->stored - offset) : 0;
    HOLDS(out.len == (left < max ? left : max));
    HOLDS(out.len == 0 || memcmp(out.ptr, log->text + offset, out.len) == 0);
    SEEN_IF(read_middle, offset > 0 && out.len > 0);
    SEEN_IF(empty, log->stored == 0);
    buf_release(&out);
}

static void one_op(struct log *log, struct str *rest)
{
    unsigned op = take_byte(rest), offset = take_u16(rest) % TEXT_MAX, n = take_u16(rest) % 1500;
    char altered[1500];
    n = n < TEXT_MAX - offset ? n : TEXT_MAX - offset;
    if (op % 8 == 0)
        offset = (unsigned)log->stored < TEXT_MAX - n ? (unsigned)log->stored : TEXT_MAX - n; /* in order */
    if (op % 8 < 5) {
        append_check(log, offset, (struct str){ log->text + offset, n }, false);
    } else if (op % 8 == 5 && n > 0 && (int64_t)offset < log->stored) { /* other bytes at a stored place: never taken */
        memcpy(altered, log->text + offset, n);
        altered[0] ^= (char)1;
        append_check(log, offset, (struct str){ altered, n }, true);
    } else if (op % 8 == 6) {
        read_check(log, offset, n);
    } else if (op == 255) {
        logs_seal(logs, task, 1);
        log->sealed = log->stored > 0; /* nothing was written: nothing to seal */
        SEEN(sealed);
        if (take_byte(rest) % 2)
            logs_wait(logs);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str rest = { (const char *)bytes, len };
    struct log log = { .stored = 0 };
    char name[400];
    if (!logs)
        begin();
    task = task % 1999 + 1;
    for (size_t i = 0; i < TEXT_MAX; i++)
        log.text[i] = (char)(i % 251 + i / 251 + (len > 0 ? bytes[i % len] : 0));
    for (unsigned i = 0; i < OPS_MAX && rest.len > 0; i++)
        one_op(&log, &rest);
    read_check(&log, 0, TEXT_MAX);
    logs_seal(logs, task, 1);
    logs_wait(logs);
    read_check(&log, 0, TEXT_MAX); /* packed, it reads the same */
    read_check(&log, log.stored / 2, 10);
    snprintf(name, sizeof name, "%s/logs/%lld/%lld.1.log.zst", folder, (long long)task / 1000, (long long)task);
    unlink(name); /* it is open still, and closed long before its number comes again */
    return 0;
}
