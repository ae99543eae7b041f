/* job_files: what the shim puts into io/ of its directory for a job (`out script input needs`), and who may use io/ and
 * work/.
 *
 * Files and rights of the job before stay where they fit: the common job costs one system call here. A job may have
 * done anything to io/; if a file can't be written the folder is emptied and everything is written again. */
#ifndef WEIR_EXEC_JOB_FILES_H
#define WEIR_EXEC_JOB_FILES_H

#include "exec/job.h"

struct job_files {
    int dir_fd, io_fd, out_fd;                   /* the shim's directory; io/ in it; io/out, or -1 */
    bool needs_full;                             /* io/needs holds something of an earlier job */
    enum { FOR_UNKNOWN, FOR_US, FOR_ALL } modes; /* of io/ and work/; a container needs them for every user */
};

void job_files_open(struct job_files *files, int dir_fd); /* io_fd < 0: errno */
/* job_files_put: false: errno. */
bool job_files_put(struct job_files *files, const struct job *job, int work_fd);

#endif
