/* door: where connections come in: a TCP address, a unix socket, or both, on the loop; and where they are seen out.
 *
 * Running out of descriptors doesn't spin: one is kept in reserve to tell the caller so, then accepting rests for a
 * moment. */
#ifndef WEIR_IO_DOOR_H
#define WEIR_IO_DOOR_H

#include <sys/socket.h>

#include "base/err.h"
#include "io/loop.h"

struct door;

/* door_visit: a new connection, non-blocking and close-on-exec; the callee owns fd. exhausted: fd must be closed before
 * returning. */
typedef void door_visit(int fd, const struct sockaddr *address, socklen_t address_len, bool exhausted, void *owner);

/* door_open: address "127.0.0.1:8420", "[::1]:0", "localhost:0" or NULL; tls: for its URL; socket_path or NULL (mode
 * 0600; a stale one is replaced). NULL and err (usage: can't be read; name_taken: in use; io). */
struct door *door_open(struct loop *loop, const char *address, bool tls, const char *socket_path, door_visit *visit,
    void *owner, struct err *err);
bool door_check(const char *address, struct err *err); /* could a door be opened there now? */
void door_close(struct door *door);                    /* the socket file is removed */
const char *door_url(
    const struct door *door); /* "http://127.0.0.1:8420", or https; the port as chosen; NULL: no address */

/* drain: a connection that was refused while its client may still be sending: closing at once would reset it, and the
 * client would never read why. Its bytes are thrown away until it closes, or for DRAIN_MS, or DRAIN_BYTES. */
struct drain;
struct drain *drain_new(struct loop *loop);
void drain_free(struct drain *drain); /* closes all */
/* owns fd; nothing more is written; closed at once when there are too many */
void drain_take(struct drain *drain, int fd);

#endif
