/* door: listening sockets, accepted one by one on the loop (see door.h).
 *
 * A unix socket file is replaced only when no process listens on it, and removed only when it is still ours.
 *
 * Errors at opening name what the operator configured; errors while accepting never stop the server. */
#include "io/door.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { DOOR_BACKLOG = 1024, DOOR_SERIES_MAX = 64, DOOR_REST_MS = 100 };

struct door_leaf {
    struct loop_fd watch;
    struct door *door;
    bool open;
};

struct door {
    struct loop *loop;
    struct door_leaf tcp, local;
    char *socket_path;
    dev_t socket_dev;
    ino_t socket_ino;
    char url[300];
    int reserve;
    struct loop_timer rest;
    bool resting;
    door_visit *visit;
    void *owner;
};

static int reserve_open(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void door_rest(struct door *door)
{
    if (door->resting)
        return;
    door->resting = true;
    if (door->tcp.open)
        loop_remove(door->loop, &door->tcp.watch);
    if (door->local.open)
        loop_remove(door->loop, &door->local.watch);
    loop_arm(door->loop, &door->rest, loop_now(door->loop) + DOOR_REST_MS);
}

static void door_on_rested(struct loop_timer *timer)
{
    struct door *door = timer->owner;
    door->resting = false;
    if (door->reserve < 0)
        door->reserve = reserve_open();
    if (door->tcp.open)
        loop_add(door->loop, &door->tcp.watch, EPOLLIN);
    if (door->local.open)
        loop_add(door->loop, &door->local.watch, EPOLLIN);
}

/* door_accept_last: out of descriptors: uses the reserved one to answer a client with a refusal, then reserves it
 * again. */
static void door_accept_last(struct door *door, int listening)
{
    if (door->reserve >= 0) {
        close(door->reserve);
        struct sockaddr_storage address;
        socklen_t len = sizeof address;
        int fd = accept4(listening, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            door->visit(fd, (struct sockaddr *)&address, len, true, door->owner);
        door->reserve = reserve_open();
    }
    door_rest(door);
}

static void door_on_ready(struct loop_fd *watch, uint32_t events)
{
    (void)events;
    struct door_leaf *leaf = watch->owner;
    struct door *door = leaf->door;
    for (int i = 0; i < DOOR_SERIES_MAX; i++) {
        struct sockaddr_storage address = { 0 };
        socklen_t len = sizeof address;
        int fd = accept4(watch->fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            door->visit(fd, (struct sockaddr *)&address, len, false, door->owner);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE)
            door_accept_last(door, watch->fd);
        else if (errno == ENOBUFS || errno == ENOMEM)
            door_rest(door);
        else if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO)
            continue;
        return;
    }
}

static void leaf_open(struct door *door, struct door_leaf *leaf, int fd)
{
    *leaf = (struct door_leaf){ .door = door, .open = true };
    leaf->watch = (struct loop_fd){ fd, door_on_ready, leaf };
    loop_add(door->loop, &leaf->watch, EPOLLIN);
}

static void leaf_close(struct door *door, struct door_leaf *leaf)
{
    if (!leaf->open)
        return;
    if (!door->resting)
        loop_remove(door->loop, &leaf->watch);
    close(leaf->watch.fd);
    leaf->open = false;
}

/* "127.0.0.1:80", "[::1]:80" -> host without brackets, port. */
static bool address_split(const char *address, char *host, size_t host_size, const char **out_port, struct err *err)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : 0;
    const char *from = address;
    if (len >= 2 && from[0] == '[' && from[len - 1] == ']') {
        from++;
        len -= 2;
    }
    uint64_t port;
    if (!colon || len == 0 || len >= host_size || !str_to_u64(str_of(colon + 1), &port) || port > 65535)
        return err_set(err, ERR_usage, "'%s' isn't an address to listen on: write HOST:PORT or [HOST]:PORT", address);
    memcpy(host, from, len);
    host[len] = '\0';
    *out_port = colon + 1;
    return true;
}

static int tcp_bind(const struct addrinfo *at, bool listening)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted sockets inherit it */
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && (!listening || listen(fd, DOOR_BACKLOG) == 0))
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* tcp_open: a socket that is bound there, and listens if wanted; -1: said. host: without brackets. */
static int tcp_open(const char *address, char *host, size_t host_size, bool listening, struct err *err)
{
    const char *port = NULL;
    if (!address_split(address, host, host_size, &port, err))
        return -1;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found = NULL;
    int fault = getaddrinfo(host, port, &hints, &found);
    if (fault != 0) {
        err_set(err, ERR_usage, "can't listen on %s: %s", address, gai_strerror(fault));
        return -1;
    }
    int fd = tcp_bind(found, listening);
    int saved = errno;
    freeaddrinfo(found);
    if (fd < 0)
        err_set(err, saved == EADDRINUSE ? ERR_name_taken : ERR_io, "can't listen on %s: %s%s", address,
            strerrordesc_np(saved),
            saved == EADDRINUSE ? "; end what listens there, or choose another address with --listen" : "");
    return fd;
}

bool door_check(const char *address, struct err *err)
{
    char host[256];
    int fd = tcp_open(address, host, sizeof host, false, err);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool door_open_tcp(struct door *door, const char *address, bool tls, struct err *err)
{
    char host[256];
    int fd = tcp_open(address, host, sizeof host, true, err);
    if (fd < 0)
        return false;
    struct sockaddr_storage bound = { 0 };
    socklen_t len = sizeof bound;
    ASSERT(getsockname(fd, (struct sockaddr *)&bound, &len) == 0);
    struct sockaddr_in in;
    memcpy(&in, &bound, sizeof in); /* the port stands at the same place in sockaddr_in6 */
    bool brackets = strchr(host, ':') != NULL;
    snprintf(door->url, sizeof door->url, "%s://%s%s%s:%u", tls ? "https" : "http", brackets ? "[" : "", host,
        brackets ? "]" : "", (unsigned)ntohs(in.sin_port));
    leaf_open(door, &door->tcp, fd);
    return true;
}

/* socket_clear: removes a socket file that no process listens on. */
static bool socket_clear(const struct sockaddr_un *at, struct err *err)
{
    struct stat st;
    if (lstat(at->sun_path, &st) != 0)
        return errno == ENOENT || err_set(err, ERR_io, "can't listen on %s: %s", at->sun_path, strerrordesc_np(errno));
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_name_taken, "can't listen on %s: a file that isn't a socket is there", at->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, ERR_io, "can't make a socket: %s", strerrordesc_np(errno));
    int fault = connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 ? 0 : errno;
    close(fd);
    if (fault != ECONNREFUSED)
        return err_set(err, ERR_name_taken, "can't listen on %s: another process does", at->sun_path);
    if (unlink(at->sun_path) != 0 && errno != ENOENT)
        return err_set(err, ERR_io, "can't replace %s: %s", at->sun_path, strerrordesc_np(errno));
    return true;
}

static bool door_open_local(struct door *door, const char *path, struct err *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof at.sun_path)
        return err_set(err, ERR_usage, "the socket's path must have 1 to %zu bytes: %s", sizeof at.sun_path - 1, path);
    memcpy(at.sun_path, path, len + 1);
    if (!socket_clear(&at, err))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, ERR_io, "can't make a socket: %s", strerrordesc_np(errno));
    struct stat st;
    /* No client can connect before listen, and the mode is set before. */
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) != 0 || chmod(path, 0600) != 0 || lstat(path, &st) != 0 ||
        listen(fd, DOOR_BACKLOG) != 0) {
        err_set(
            err, errno == EADDRINUSE ? ERR_name_taken : ERR_io, "can't listen on %s: %s", path, strerrordesc_np(errno));
        close(fd);
        return false;
    }
    door->socket_path = memcpy(mem_alloc(len + 1), path, len + 1);
    door->socket_dev = st.st_dev;
    door->socket_ino = st.st_ino;
    leaf_open(door, &door->local, fd);
    return true;
}

struct door *door_open(struct loop *loop, const char *address, bool tls, const char *socket_path, door_visit *visit,
    void *owner, struct err *err)
{
    struct door *door = mem_alloc(sizeof *door);
    *door = (struct door){ .loop = loop, .reserve = reserve_open(), .visit = visit, .owner = owner };
    door->rest = (struct loop_timer){ .due = door_on_rested, .owner = door };
    if ((address && !door_open_tcp(door, address, tls, err)) ||
        (socket_path && !door_open_local(door, socket_path, err))) {
        door_close(door);
        return NULL;
    }
    return door;
}

void door_close(struct door *door)
{
    if (!door)
        return;
    leaf_close(door, &door->tcp);
    leaf_close(door, &door->local);
    loop_disarm(door->loop, &door->rest);
    if (door->reserve >= 0)
        close(door->reserve);
    struct stat st;
    if (door->socket_path && lstat(door->socket_path, &st) == 0 && st.st_dev == door->socket_dev &&
        st.st_ino == door->socket_ino)
        unlink(door->socket_path);
    mem_free(door->socket_path);
    mem_free(door);
}

const char *door_url(const struct door *door)
{
    return door->tcp.open ? door->url : NULL;
}
