/* shim_message: the messages between an agent and a shim, one fixed struct per SOCK_SEQPACKET datagram.
 *
 * In the common case a job costs one message each way: START and ENDED. On every new connection the shim sends HELLO
 * first, with the status of its present or last job, so that an agent that adopts it knows the job's state. The two
 * ends may be different versions of the binary: fields are only ever added at the end, and a missing field reads as
 * zero. */
#ifndef WEIR_EXEC_SHIM_MESSAGE_H
#define WEIR_EXEC_SHIM_MESSAGE_H

#include "exec/job.h"

enum shim_message_kind {
    MESSAGE_NONE,
    MESSAGE_START, /* agent: the job record is written, `bytes` long; at_ms: as LEASE, 0: none */
    /* agent: send signo to all processes of the job, KILL after grace_ms; outcome: what the attempt counts as (none:
     * as its exit status says) */
    MESSAGE_SIGNAL,
    MESSAGE_LEASE, /* agent: end the job as lost at boot time at_ms, with grace_ms; replaces the time sent before */
    MESSAGE_HELLO, /* shim: status of the present or last job */
    MESSAGE_LOG,   /* shim: the log file holds `bytes` bytes */
    MESSAGE_ENDED, /* shim: the job has ended; status is on disk and in the message */
};

struct shim_message {
    uint32_t kind; /* enum shim_message_kind */
    int32_t signo;
    uint32_t outcome;
    uint32_t spare;
    int64_t grace_ms, at_ms, bytes;
    struct status status; /* HELLO and ENDED; other messages are cut before it */
};
#define MESSAGE_SHORT_BYTES offsetof(struct shim_message, status)

/* shim_message_send: never blocks; false: the other end has closed, or its queue is full (EAGAIN). */
bool shim_message_send(int fd, const struct shim_message *message);
/* shim_message_read: never blocks. 1: a message; 0: the other end has closed; -1: there is none now. */
int shim_message_read(int fd, struct shim_message *out);

/* The descriptors that a shim inherits. */
enum { SHIM_FD_DIR = 3, SHIM_FD_LOCK, SHIM_FD_LISTEN, SHIM_FD_AGENT, SHIM_FD_COUNT };

#endif
