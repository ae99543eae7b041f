/* logs/copy: logs leave a data directory for a backup, beside the server that writes them, and come back by a restore.
 *
 * Bytes go as they are stored, plain or packed, in parts of LOG_PART_BYTES at most. Whoever calls keeps the parts, in
 * their order. */
#ifndef WEIR_STORE_LOGS_COPY_H
#define WEIR_STORE_LOGS_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { LOG_PART_BYTES = 1 << 20 };

struct log_part {
    int64_t task, grant, start;
    bool packed;
    bool unnoted; /* of a restore: the history hasn't got its hash */
    struct str bytes;
};

/* known: is the attempt to be copied? put: takes a part, whose bytes are good until it returns. False: the copy ends
 * with their error. */
struct log_taker {
    void *owner;
    bool (*known)(void *owner, int64_t task, int64_t grant, bool *out_known, struct err *err);
    bool (*put)(void *owner, const struct log_part *part, struct err *err);
};
/* logs_copy_out: every log below DATA/logs that is known; none is no error. A log that is packed meanwhile may come
 * twice, the packed one last. Of a log that grows, what was there when it was reached. */
bool logs_copy_out(const char *data_dir, const struct log_taker *taker, struct err *err);

/* logs_list: every log below DATA/logs, appended to out. One that is being packed may come twice. */
struct log_listed {
    int64_t task, grant;
    bool sealed; /* no bytes come any more */
};
bool logs_list(const char *data_dir, struct buf *out, struct err *err);

/* A restore: parts go to DATA/logs.part, which takes its name when all are there and synced. begin: ERR_conflict when
 * DATA/logs holds something. Parts of one log come together, in their order. Whoever began ends with logs_put_close;
 * keep false takes away what was put, also after logs_put_end. */
struct log_put {
    const char *data_dir;
    int data_fd, root_fd, live_fd, fd;
    int64_t task, grant;
    bool packed, ended;
};
bool logs_put_begin(struct log_put *put, const char *data_dir, struct err *err);
bool logs_put_part(struct log_put *put, const struct log_part *part, struct err *err);
bool logs_put_end(struct log_put *put, struct err *err);
void logs_put_close(struct log_put *put, bool keep);

#endif
