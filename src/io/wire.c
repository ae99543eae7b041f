/* wire: plain sockets behind the port of wire.h.
 *
 * Two system calls and a flag; the kernel's order is kept.
 *
 * Faults are the kernel's errno, never a signal. */
#include "io/wire.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"

static ssize_t plain_read(struct wire *wire, void *to, size_t room, bool *out_more)
{
    ssize_t n;
    do {
        n = recv(wire->fd, to, room, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    /* Less than was asked for: the kernel's queue was empty, and what comes later makes the descriptor ready again. */
    *out_more = n > 0 && (size_t)n == room;
    return n;
}

static ssize_t plain_writev(struct wire *wire, const struct iovec *parts, int n_parts)
{
    ASSERT(n_parts > 0 && n_parts <= WIRE_PARTS_MAX);
    size_t wanted = 0;
    struct iovec copy[WIRE_PARTS_MAX]; /* msghdr wants them writable */
    for (int i = 0; i < n_parts; i++) {
        copy[i] = parts[i];
        wanted += parts[i].iov_len;
    }
    struct msghdr message = { .msg_iov = copy, .msg_iovlen = (size_t)n_parts };
    ssize_t n;
    do {
        n = n_parts == 1 ? send(wire->fd, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                         : sendmsg(wire->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    wire->stuck = n < 0 ? errno == EAGAIN : (size_t)n < wanted;
    return n;
}

static uint32_t plain_wants(const struct wire *wire)
{
    return EPOLLIN | (wire->stuck ? (uint32_t)EPOLLOUT : 0);
}

static void plain_end(struct wire *wire)
{
    (void)wire;
}

void wire_open_plain(struct wire *wire, int fd)
{
    static const struct wire_ops plain = { plain_read, plain_writev, plain_wants, plain_end };
    *wire = (struct wire){ .ops = &plain, .fd = fd };
}
