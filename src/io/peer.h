/* peer: which user is at the other end of a local connection.
 *
 * Unix sockets: the kernel's credentials of the time of connect. Loopback TCP: the owner of the other end in the
 * kernel's socket table. An end that no process holds open has no owner: the kernel would show it as root's, so it
 * counts as unknown. */
#ifndef WEIR_IO_PEER_H
#define WEIR_IO_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct peer_table {
    int netlink; /* -1: not opened yet; -2: the kernel has no sock_diag, /proc/net is read */
};

void peer_table_init(struct peer_table *table);
void peer_table_release(struct peer_table *table);

bool peer_is_loopback(const struct sockaddr *address);
bool peer_uid_unix(int fd, uid_t *out_uid);

/* peer_uid_tcp: fd is our end; false when the peer isn't on this machine, is gone, or can't be found. */
bool peer_uid_tcp(struct peer_table *table, int fd, uid_t *out_uid);

/* peer_uid_proc: the same through /proc/net/tcp and tcp6: slow, needs no netlink. */
bool peer_uid_proc(int fd, uid_t *out_uid);

#endif
