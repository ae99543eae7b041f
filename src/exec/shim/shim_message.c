/* shim_message: sending and reading the messages of shim_message.h; it owns no descriptor and keeps nothing. */
#include "exec/shim/shim_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

bool shim_message_send(int fd, const struct shim_message *message)
{
    bool whole = message->kind == MESSAGE_HELLO || message->kind == MESSAGE_ENDED;
    size_t size = whole ? sizeof *message : MESSAGE_SHORT_BYTES;
    ssize_t n;
    do
        n = send(fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

int shim_message_read(int fd, struct shim_message *out)
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
