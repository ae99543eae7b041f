/* runner: starts, signals and waits for the processes of one job, and makes sure that none is left at the end.
 *
 * The calling process must be a subreaper: processes that a job leaves behind, by forking twice or in a session of
 * their own, become our children, so "waitpid reports no child" proves that no process of the job lives. */
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

void runner_signal(struct runner *runner, int signo); /* to all its processes; stopped ones are continued */
void runner_reap(struct runner *runner);              /* reaps every ended child; sets main_ended and all_ended */
void runner_kill(struct runner *runner);              /* sends KILL to all its processes once, and reaps */
void runner_close(struct runner *runner);             /* closes descriptors and cgroup; all processes have ended */

#endif
