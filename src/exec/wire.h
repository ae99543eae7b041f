/* wire: what an agent and a shim say to each other, one fixed message per SOCK_SEQPACKET datagram.
 *
 * In the common case a job costs one message each way: START and ENDED. The first thing a shim says on any connection
 * is HELLO, with the status of its present or last job, so that an agent that was born later knows what it has found.
 * Both ends are the same binary or two versions of it on one machine: fields are only ever added at the end, and what
 * is missing reads as zero. */
#ifndef WEIR_EXEC_WIRE_H
#define WEIR_EXEC_WIRE_H

#include "exec/job.h"

enum wire_kind {
    WIRE_NONE,
    WIRE_START, /* agent: the job record is written, `bytes` long; at_ms: as LEASE, 0: none */
    /* agent: signo to the whole tree, KILL after grace_ms; outcome is what it then counts as (none: by its end) */
    WIRE_SIGNAL,
    WIRE_LEASE, /* agent: at boot time at_ms, unless told a later one, end the job as lost with grace_ms */
    WIRE_HELLO, /* shim */
    WIRE_LOG,   /* shim: the spool holds `bytes` bytes */
    WIRE_ENDED, /* shim: status is on disk and here */
};

struct wire {
    uint32_t kind; /* enum wire_kind */
    int32_t signo;
    uint32_t outcome;
    uint32_t spare;
    int64_t grace_ms, at_ms, bytes;
    struct status status; /* HELLO and ENDED; other messages are cut before it */
};
#define WIRE_SHORT offsetof(struct wire, status)

/* wire_send: false: the other end is gone or its queue is full (errno says which); never blocks. wire_read: 0 the other
 * end is gone, -1 nothing there, 1 a message. */
bool wire_send(int fd, const struct wire *message);
int wire_read(int fd, struct wire *out);

/* The descriptors a shim is born with. */
enum { SHIM_FD_DIR = 3, SHIM_FD_LOCK, SHIM_FD_LISTEN, SHIM_FD_AGENT, SHIM_FD_COUNT };

#endif
