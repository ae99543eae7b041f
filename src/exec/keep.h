/* keep: the files that a job wants kept: found by its patterns when it has ended, put aside in keep/ of the shim's
 * directory until the agent has sent them. keep/list has a line `BYTES:x NAME` (`-` for x: not executable) for each;
 * the file of line N (from 0) is keep/N. */
#ifndef WEIR_EXEC_KEEP_H
#define WEIR_EXEC_KEEP_H

#include "base/buf.h"
#include "exec/spool.h"

enum { KEEP_FILES_MAX = 1000, KEEP_LIST_MAX = 512 << 10 }; /* the list, as JSON, goes into a finish of at most 1 MiB */
#define KEEP_BYTES_MAX ((uint64_t)4 << 30)                 /* of all files of one job */

void keep_forget(int dir_fd); /* nothing is kept */
/* keep_collect: the log says what is missing or too much; never fails. Returns the first pattern that nothing matched;
 * NULL: none. */
const char *keep_collect(int dir_fd, int work_fd, char *const *patterns, struct spool *spool);

struct kept {
    struct str name; /* in the arena */
    int64_t bytes;
    bool executable;
};
/* keep_read: what an ended job left; false: it had no patterns. */
bool keep_read(int dir_fd, struct arena *arena, struct kept **out, size_t *out_n);
int keep_open(int dir_fd, size_t n);    /* -1: errno */
void keep_remove(int dir_fd, size_t n); /* it isn't to be sent any more */

#endif
