/* log: the server's and the executor's own log lines, to stderr: one line, event name first, then key=value.
 * log_event("executor.lost", "name=%s tasks=%zu", ...). Values with blanks or control bytes are to be quoted with
 * log_quote. Thread-safe.
 */
#ifndef WEIR_IO_LOG_H
#define WEIR_IO_LOG_H

#include "base/str.h"

enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_ };
void log_set_level(enum log_level level);
/* log_bound: stderr is the file `path`, which no other process writes to: when it exceeds bytes_max it is renamed to
 * PATH.1, replacing an older one, and a new file is begun. */
void log_bound(const char *path, size_t bytes_max);
void log_debug(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_event(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_warn(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_error(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct log_quoted {
    char z[256];
};
struct log_quoted log_quote(struct str s);

#endif
