/* wire: how the bytes of one connection come and go: a socket as it is. TLS is another table of the same four
 * operations around it; who parses and who answers doesn't know which one it has.
 *
 * Nothing blocks. The descriptor is the wire's: it is watched by its owner with what `wants` says. */
#ifndef WEIR_IO_WIRE_H
#define WEIR_IO_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { WIRE_PARTS_MAX = 4 };

struct wire;

struct wire_ops {
    /* read: bytes that came; 0: the other side sends no more; -1 and errno (EAGAIN: nothing now). *out_more is false
     * when another read gives nothing before the descriptor is ready again. */
    ssize_t (*read)(struct wire *wire, void *to, size_t room, bool *out_more);
    /* writev: how many bytes of the 1 to WIRE_PARTS_MAX parts were accepted, at least one; -1 and errno (EAGAIN: none
     * now). Never raises SIGPIPE. */
    ssize_t (*writev)(struct wire *wire, const struct iovec *parts, int n_parts);
    uint32_t (*wants)(const struct wire *wire); /* the epoll events to wait for, after what read and writev said last */
    void (*end)(struct wire *wire);             /* the last word, before the descriptor is closed or drained */
};

struct wire {
    const struct wire_ops *ops;
    int fd;        /* -1: closed */
    bool stuck;    /* the last writev was not accepted whole; cleared by the owner when EPOLLOUT comes */
    void *session; /* of ops */
};

void wire_open_plain(struct wire *wire, int fd);

#endif
