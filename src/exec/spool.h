/* spool: a job's log on disk, from a pipe, byte for byte but for its own token, in order, up to a limit.
 *
 * What is past the limit, or can't be written, is read and dropped, so that the job never stalls; spool_close then adds
 * one line that says exactly where the log was cut and how much is missing. Nothing is synced: the log is safe once the
 * server has it. */
#ifndef WEIR_EXEC_SPOOL_H
#define WEIR_EXEC_SPOOL_H

#include "exec/mask.h"

struct spool {
    int fd;             /* of the log, opened for appending; the caller's */
    uint64_t bytes_max; /* of the job's own bytes */
    uint64_t bytes;     /* in the file */
    uint64_t kept, dropped;
    struct mask mask; /* of what the job writes; spool_open: nothing is masked */
};

void spool_open(struct spool *spool, int fd, uint64_t bytes_max); /* empties the file */
void spool_add(struct spool *spool, struct str bytes);
/* a line of our own, past any limit */
void spool_note(struct spool *spool, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* spool_pump: takes what the pipe has, at most about `bytes_max` bytes. */
/* no writer is left; nothing there now; there may be more */
enum spool_pumped { SPOOL_END, SPOOL_NOTHING, SPOOL_MORE };
enum spool_pumped spool_pump(struct spool *spool, int pipe_fd, size_t bytes_max);
void spool_close(struct spool *spool);

#endif
