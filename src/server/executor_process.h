/* executor_process: the executor that a server starts beside itself.
 *
 * It is a process of its own session that outlives the server: the next server finds it by the lock of its directory
 * and takes it on. While the server lives it is started again when it dies, with growing distances. All on the loop's
 * thread. */
#ifndef WEIR_SERVER_EXECUTOR_PROCESS_H
#define WEIR_SERVER_EXECUTOR_PROCESS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "io/loop.h"
#include "text/conf.h"

struct executor_process {
    struct loop *loop;
    mode_t umask; /* of the user who started the server: jobs get it, and the limit on files too */
    struct rlimit files;
    struct arena arena; /* of what follows */
    char **argv, **envp;
    const char *dir, *log_file, *pid_file;
    uint64_t arguments; /* hash of argv: another one means that the running executor has other arguments */

    pid_t pid; /* 0: none that we know */
    int pidfd;
    bool child, wanted, stopping;
    struct loop_fd watch;
    struct loop_timer retry;
    int64_t started_ms;
    unsigned failures;
    void (*ended)(void *owner); /* after executor_process_interrupt */
    void *owner;
};

/* executor_process_open: prepares; executor_process_set starts it, or restarts it when its arguments changed. Slots
 * 0: none is wanted. */
void executor_process_open(struct executor_process *out, struct loop *loop, mode_t umask, struct rlimit files);
void executor_process_set(struct executor_process *process, const struct conf *conf);
/* executor_process_interrupt: tells it to end with its tasks; `ended` is called when it has. False: there is none. */
bool executor_process_interrupt(struct executor_process *process, void (*ended)(void *owner), void *owner);
void executor_process_release(struct executor_process *process); /* lets go of it; it goes on */

#endif
