/* log: the server's and the executor's own log lines, on stderr.
 *
 * A line is put together first and written with one write(2), so that lines of several threads and processes that share
 * the descriptor don't mix. Longer lines than the buffer are cut and end with "...".
 *
 * A stderr that can't be written to is ignored: there is nobody left to tell. */
#include "io/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/when.h"
#include "io/clock.h"

static _Atomic int log_least = LOG_INFO_;

static const char *const log_words[] = {
    [LOG_DEBUG_] = "debug",
    [LOG_INFO_] = "info",
    [LOG_WARN_] = "warn",
    [LOG_ERROR_] = "error",
};

static struct {
    pthread_mutex_t lock;
    char path[4000];
    size_t bytes_max;
    _Atomic bool on;
} log_file = { .lock = PTHREAD_MUTEX_INITIALIZER };

void log_bound(const char *path, size_t bytes_max)
{
    pthread_mutex_lock(&log_file.lock);
    int n = snprintf(log_file.path, sizeof log_file.path, "%s", path);
    log_file.bytes_max = bytes_max;
    atomic_store(&log_file.on, n > 0 && (size_t)n < sizeof log_file.path);
    pthread_mutex_unlock(&log_file.lock);
}

/* log_turn: a full file makes room. What fails leaves it as it is: the next line tries again. */
static void log_turn(void)
{
    struct stat st, out;
    char older[sizeof log_file.path + 3];
    pthread_mutex_lock(&log_file.lock);
    snprintf(older, sizeof older, "%s.1", log_file.path);
    bool full = fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > log_file.bytes_max;
    int fd = full && rename(log_file.path, older) == 0
                 ? open(log_file.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, st.st_mode & 0777)
                 : -1;
    if (fd >= 0) {
        bool both = fstat(STDOUT_FILENO, &out) == 0 && out.st_ino == st.st_ino && out.st_dev == st.st_dev;
        dup2(fd, STDERR_FILENO);
        if (both)
            dup2(fd, STDOUT_FILENO);
        close(fd);
    }
    pthread_mutex_unlock(&log_file.lock);
}

void log_set_level(enum log_level level)
{
    atomic_store(&log_least, (int)level);
}

__attribute__((format(printf, 3, 0))) static void log_line(
    enum log_level level, const char *event, const char *fmt, va_list args)
{
    if ((int)level < atomic_load_explicit(&log_least, memory_order_relaxed))
        return;
    char line[2048];
    const size_t room = sizeof line - 5; /* for "...", the line's end and a NUL */
    struct when_text now = when_format(clock_wall_ms());
    int head = snprintf(line, room, "%s time=%s level=%s ", event, now.z, log_words[level]);
    size_t len = head < 0 ? 0 : (size_t)head;
    bool cut = len >= room;
    if (!cut) {
        int tail = vsnprintf(line + len, room - len, fmt, args);
        len += tail < 0 ? 0 : (size_t)tail;
        cut = len >= room;
    }
    if (cut) {
        len = room - 1;
        for (int i = 0; i < 3; i++)
            line[len++] = '.';
    }
    /* One event is one line, whatever a value holds. */
    for (size_t i = 0; i < len; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    while (len > 0 && line[len - 1] == ' ')
        len--;
    line[len++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
    if (atomic_load_explicit(&log_file.on, memory_order_relaxed))
        log_turn();
}

#define LOG_FUNCTION(name, level) \
    void name(const char *event, const char *fmt, ...) \
    { \
        va_list args; \
        va_start(args, fmt); \
        log_line(level, event, fmt, args); \
        va_end(args); \
    }

LOG_FUNCTION(log_debug, LOG_DEBUG_)
LOG_FUNCTION(log_event, LOG_INFO_)
LOG_FUNCTION(log_warn, LOG_WARN_)
LOG_FUNCTION(log_error, LOG_ERROR_)

static bool log_plain(struct str s)
{
    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c <= ' ' || c == 0x7f || c == '"' || c == '\\' || c == '=')
            return false;
    }
    return str_is_utf8(s);
}

struct log_quoted log_quote(struct str s)
{
    struct log_quoted out = { "" };
    if (s.len < sizeof out.z && log_plain(s)) {
        for (size_t i = 0; i < s.len; i++)
            out.z[i] = s.ptr[i];
        return out;
    }
    /* The longest escape is 4 bytes; "..." and the closing quote need 5 more with the NUL. */
    bool utf8 = str_is_utf8(s);
    size_t n = 0, i = 0;
    out.z[n++] = '"';
    for (; i < s.len && n + 4 + 5 <= sizeof out.z; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c == '"' || c == '\\') {
            out.z[n++] = '\\';
            out.z[n++] = (char)c;
        } else if (c == '\n' || c == '\t') {
            out.z[n++] = '\\';
            out.z[n++] = c == '\n' ? 'n' : 't';
        } else if (c < ' ' || c == 0x7f || (c >= 0x80 && !utf8)) {
            n += (size_t)snprintf(out.z + n, sizeof out.z - n, "\\x%02x", c);
        } else {
            out.z[n++] = (char)c;
        }
    }
    if (i < s.len) {
        /* Never leave half a character before the dots. */
        while (utf8 && n > 1 && ((unsigned char)s.ptr[i] & 0xc0) == 0x80) {
            i--;
            n--;
        }
        for (int dot = 0; dot < 3; dot++)
            out.z[n++] = '.';
    }
    out.z[n] = '"';
    return out;
}
