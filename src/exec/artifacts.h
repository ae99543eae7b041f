/* artifacts: the files that match a job's `artifacts` patterns. The shim finds them when the job has ended and links or
 * copies them into keep/ of its directory, where they stay until the agent has sent them. keep/list has a line
 * `BYTES:x NAME` (`-` for x: not executable) for each; the file of line N (from 0) is keep/N. */
#ifndef WEIR_EXEC_ARTIFACTS_H
#define WEIR_EXEC_ARTIFACTS_H

#include "base/buf.h"
#include "exec/log_file.h"

enum {
    ARTIFACT_FILES_MAX = 1000,
    ARTIFACT_LIST_BYTES_MAX = 512 << 10
};                                             /* the list, as JSON, goes into a finish of at most 1 MiB */
#define ARTIFACT_BYTES_MAX ((uint64_t)4 << 30) /* of all files of one job */

void artifacts_forget(int dir_fd); /* nothing is kept */
/* artifacts_collect: writes to the log which files are missing or over a limit; never fails. Returns the first pattern
 * that matched no file; NULL: every pattern matched. */
const char *artifacts_collect(int dir_fd, int work_fd, char *const *patterns, struct log_file *log);

struct artifact {
    struct str name; /* in the arena */
    int64_t bytes;
    bool executable;
};
/* artifacts_list: what an ended job left; false: it had no patterns. */
bool artifacts_list(int dir_fd, struct arena *arena, struct artifact **out, size_t *out_n);
int artifact_open(int dir_fd, size_t n);    /* -1: errno */
void artifact_remove(int dir_fd, size_t n); /* it isn't to be sent any more */

#endif
