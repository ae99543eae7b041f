/* beside: the executor process that a server starts beside itself.
 *
 * It is a process of its own session that outlives the server: the next server finds it by the lock of its directory and takes it on. While
 * the server lives it is started again when it dies, with growing distances. All on the loop's thread. */
#ifndef WEIR_CMD_BESIDE_H
#define WEIR_CMD_BESIDE_H

#include <sys/resource.h>
#include <sys/types.h>

#include "io/loop.h"
#include "text/conf.h"

struct beside {
    struct loop *loop;
    mode_t umask; /* of the user who started the server: jobs get it, and the limit on files too */
    struct rlimit files;
    struct arena arena; /* of what follows */
    char **argv, **envp;
    const char *dir, *log_file, *pid_file;
    uint64_t arguments; /* hash of argv: another one means the running executor was told something else */

    pid_t pid; /* 0: none that we know */
    int pidfd;
    bool child, wanted, stopping;
    struct loop_fd watch;
    struct loop_timer retry;
    int64_t started_ms;
    unsigned failures;
    void (*ended)(void *owner); /* after beside_interrupt */
    void *owner;
};

/* beside_open: prepares; beside_set starts it, or starts it anew when its arguments changed. Slots 0: none is wanted. */
void beside_open(struct beside *out, struct loop *loop, mode_t umask, struct rlimit files);
void beside_set(struct beside *beside, const struct conf *conf);
/* beside_interrupt: tells it to end with its tasks; `ended` is called when it has. False: there is none. */
bool beside_interrupt(struct beside *beside, void (*ended)(void *owner), void *owner);
void beside_release(struct beside *beside); /* lets go of it; it goes on */

#endif
