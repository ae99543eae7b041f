/* cgroup: limits on memory and processes for the one job of a shim, and a sure kill, where the system lets us make a
 * group.
 *
 * Tried when a job asks for such a limit: version 2 beneath our own group, else the memory and pids hierarchies of
 * version 1. Where the system gives us neither, the job runs without, and its log says so. */
#ifndef WEIR_EXEC_CGROUP_H
#define WEIR_EXEC_CGROUP_H

#include <stdbool.h>

#include "exec/job.h"

struct cgroup {
    char paths[2][512]; /* directories that were made; "" : none */
    int procs[2];       /* their cgroup.procs, open for writing: the child writes "0" there before it execs */
    unsigned n;
    bool memory, pids; /* limits that are in force */
};

/* cgroup_open: dir is the shim's directory: its place on the disk names the group, since executors of one machine may
 * share ours. */
void cgroup_open(struct cgroup *group, const struct job_limits *limits, const char *dir);
bool cgroup_over_memory(const struct cgroup *group); /* has the kernel killed something in it for its memory limit? */
void cgroup_kill(struct cgroup *group);
void cgroup_close(struct cgroup *group); /* removes the groups; they must be empty */

#endif
