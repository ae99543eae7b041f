/* log_file: a job's log on disk: the bytes of its pipe in order, up to a limit, with the job's token masked.
 *
 * Bytes past the limit, or that can't be written, are read and dropped, so that the job never stalls; log_file_close
 * then adds one line that says where the log was cut and how much is missing. Nothing is synced: the log is safe once
 * the server has it. */
#ifndef WEIR_EXEC_LOG_FILE_H
#define WEIR_EXEC_LOG_FILE_H

#include "exec/mask.h"

struct log_file {
    int fd;                 /* opened for appending; the caller closes it */
    uint64_t bytes_max;     /* limit on the job's own bytes; our notes don't count */
    uint64_t bytes;         /* in the file */
    uint64_t kept, dropped; /* of the job's own bytes */
    struct mask mask;       /* log_file_open sets none */
};

void log_file_open(struct log_file *log, int fd, uint64_t bytes_max); /* empties the file */
void log_file_add(struct log_file *log, struct str bytes);
/* log_file_note: a line of our own; it is written whatever the limit. */
void log_file_note(struct log_file *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* log_file_pump: moves at most about `bytes_max` bytes from the pipe to the file. */
enum log_file_pumped {
    LOG_FILE_END,     /* every writer has closed the pipe */
    LOG_FILE_NOTHING, /* the pipe is empty now */
    LOG_FILE_MORE,    /* the pipe may have more */
};
enum log_file_pumped log_file_pump(struct log_file *log, int pipe_fd, size_t bytes_max);
void log_file_close(struct log_file *log);

#endif
