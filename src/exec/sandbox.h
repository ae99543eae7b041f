/* sandbox: `sandbox: strict`: a job with its own root (system folders read-only), /tmp, network (loopback only), pids,
 * and no capability.
 *
 * If the kernel refuses a part of it, the log says which and the job isn't run: never in anything weaker. The job's
 * /proc shows its own processes; its working directory and io/ are at the paths that its environment names. */
#ifndef WEIR_EXEC_SANDBOX_H
#define WEIR_EXEC_SANDBOX_H

#include "exec/tree/checkout.h"

enum { SANDBOX_REFUSED = 126 };

struct sandbox {
    const char *dir;         /* DIR/shims/N, with work/, io/ and an empty root/ */
    const struct view *view; /* of the checkout; its work_fd -1: plain work/ */
    int verdict_fd;          /* gets the wait status of the job */
    void (*run)(void *plan); /* in the job's process: limits and execve; returns when that failed */
    void *plan;
};

/* sandbox_main: runs in the outermost process of the job. Returns an exit status that counts only if no verdict was
 * written. */
int sandbox_main(void *sandbox);

#endif
