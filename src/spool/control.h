/* control: ctrl/: the lock that says which server owns BASE, the FIFOs, the PID files.
 *
 * A process owns BASE while it holds the flock of ctrl/lock. A PID file is a number and a newline, locked while its
 * writer lives and removed at its orderly end; one that isn't locked is stale, whatever its number says: nobody ever
 * signals it. A FIFO is open for reading and writing, non-blocking: while a server lives no writer waits for a reader,
 * and none of our own calls ever waits. */
#ifndef WEIR_SPOOL_CONTROL_H
#define WEIR_SPOOL_CONTROL_H

#include "spool/folders.h"

/* constant, name of the daemon */
#define SPOOL_DAEMONS(X) X(PREQUEUE, "prequeue") X(QUEUE, "queue") X(EXEC, "exec")
enum spool_daemon {
#define X(constant, name) DAEMON_##constant,
    SPOOL_DAEMONS(X)
#undef X
    DAEMON_COUNT
};

struct control {
    int lock_fd;
    int fifo_fds[DAEMON_COUNT];
    int pid_fds[DAEMON_COUNT];
};

void control_none(struct control *out); /* nothing is open: control_close may follow */

/* control_open: ERR_conflict: another process owns BASE; the text has its name. `owner`: what it will say of this one.
 * control_close: removes the PID files, then unlocks; also of what wasn't opened whole. */
bool control_open(struct control *out, const struct folders *folders, struct str owner, struct err *err);
void control_close(struct control *control, const struct folders *folders);

/* control_drain: takes what is in a FIFO; true: there was something. */
bool control_drain(const struct control *control, enum spool_daemon daemon);

#endif
