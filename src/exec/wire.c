/* wire: sending and reading the messages of wire.h; it owns no descriptor and keeps nothing. */
#include "exec/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

bool wire_send(int fd, const struct wire *message)
{
    bool whole = message->kind == WIRE_HELLO || message->kind == WIRE_ENDED;
    size_t size = whole ? sizeof *message : WIRE_SHORT;
    ssize_t n;
    do
        n = send(fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

int wire_read(int fd, struct wire *out)
{
    ssize_t n;
    memset(out, 0, sizeof *out);
    do
        n = recv(fd, out, sizeof *out, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return 1;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? -1 : 0;
}
