/* runner: the processes of one job: started, signalled, waited for, and all of them gone at the end.
 *
 * The process that runs this must be a subreaper: whatever a job leaves behind by forking twice or by a session of its
 * own becomes our child, so "waitpid says that no child is left" is the proof that nothing of the job lives. */
#ifndef WEIR_EXEC_RUNNER_H
#define WEIR_EXEC_RUNNER_H

#include <sys/resource.h>
#include <sys/types.h>

#include "exec/cgroup.h"
#include "exec/tree/checkout.h"
#include "exec/job.h"
#include "exec/log_file.h"

struct runner {
    pid_t pid;          /* of the main process; also its session and group; 0: none */
    int pidfd, pipe_fd; /* -1: none */
    int verdict_fd;     /* a sandbox writes the wait status of the job there; -1: the main process is the job */
    bool main_ended, all_ended;
    int wait_status;
    int64_t cpu_us, max_rss_bytes;
    struct cgroup group;
};

struct runner_place {
    int work_fd, null_fd;
    const char *dir;         /* the shim's directory, absolute */
    const struct view *view; /* of the checkout; NULL: none */
};
#define RUNNER_NONE ((struct runner){ .pidfd = -1, .pipe_fd = -1, .verdict_fd = -1 })

/* runner_start: spawns the job in work_fd, or in the view, with stdin from null_fd. false: it can't be run; *out_exit
 * is 127 or 126 and the log file has the line that says why. */
bool runner_start(struct runner *runner, const struct job *job, const struct runner_place *place, struct log_file *log,
    int *out_exit);

/* runner_fork: the same for a function of ours as a process of its own, with the shim's descriptors; its output goes to
 * the log file. */
bool runner_fork(struct runner *runner, int (*main)(void *order), void *order, int null_fd, struct log_file *log);

void runner_signal(struct runner *runner, int signo); /* to the whole tree; stopped processes are woken to hear it */
void runner_reap(struct runner *runner);              /* takes every ended child; sets main_ended and all_ended */
void runner_kill(struct runner *runner);              /* one round of KILL to everything that lives, and a reap */
void runner_close(struct runner *runner);             /* descriptors and the cgroup; the tree must have ended */

#endif
