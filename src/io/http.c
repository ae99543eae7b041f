/* http: the server: accepts connections, ends those that waited too long, and runs those that are due before the loop
 * sleeps (see http_connection.h).
 *
 * A connection is watched once, edge by edge, from its first byte to its last: an answer of a later turn costs no
 * system call but its own sending. Every wait that a client can cause has a deadline: per kind of wait a list in
 * the order of their start, and one timer for all.
 *
 * Faults of a client end its connection, after a problem+json where the protocol still has room for one. */
#include "io/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/door.h"
#include "io/http_connection.h"
#include "io/tls.h"

enum {
    CONNECTIONS_MAX = 4096,
    IDLE_TIMEOUT_S = 15,
    WRITE_TIMEOUT_S = 300, /* a reader may be a pager that somebody left open over lunch */
    BODY_RATE = 16 * 1024,
    LEAVING_MS = 250
};

/* --- life of a connection --- */

static void peer_describe(struct http_peer *peer, const struct sockaddr *address)
{
    *peer = (struct http_peer){ .local = address->sa_family == AF_UNIX, .loopback = peer_is_loopback(address) };
    char host[INET6_ADDRSTRLEN] = "";
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
        snprintf(peer->address, sizeof peer->address, "%s:%u", host, (unsigned)ntohs(in.sin_port));
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof host);
        snprintf(peer->address, sizeof peer->address, "[%s]:%u", host, (unsigned)ntohs(in6.sin6_port));
    } else {
        snprintf(peer->address, sizeof peer->address, "unix");
    }
}

void http_connection_due(struct http_connection *connection)
{
    if (!connection->due.in && connection->phase != HTTP_DEAD)
        list_append(&connection->server->due, &connection->due);
}

void http_connection_watch(struct http_connection *connection)
{
    uint32_t wanted = connection->wire.ops->wants(&connection->wire) | EPOLLRDHUP | (uint32_t)EPOLLET;
    if (wanted != connection->watched)
        loop_change(connection->server->loop, &connection->watch, wanted);
    connection->watched = wanted;
}

void http_connection_close(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct wire *wire = &connection->wire;
    if (wire->fd >= 0) {
        int unread = 0;
        loop_remove(server->loop, &connection->watch);
        wire->ops->end(wire);
        /* Closing with unread bytes resets the connection, and the last answer is lost. */
        bool left =
            connection->refused || (connection->closing && ioctl(wire->fd, FIONREAD, &unread) == 0 && unread > 0);
        if (left && !server->closing)
            drain_take(server->drain, wire->fd);
        else
            close(wire->fd);
        wire->fd = -1;
        wire->stuck = false;
        http_connection_clock(connection, NULL);
        /* Bytes that wait to be sent have no receiver any more. */
        buf_release(&connection->out);
        connection->out_sent = 0;
        connection->chunk = SIZE_MAX;
    }
    if (connection->phase == HTTP_SERVING || connection->phase == HTTP_STREAM || connection->phase == HTTP_DEAD)
        return;
    connection->phase = HTTP_DEAD;
    list_remove(&server->due, &connection->due);
    list_append(&server->dead, &connection->due);
}

void http_request_gone(struct http_connection *connection)
{
    void (*gone)(struct http_request *) = connection->request.gone;
    bool waits =
        connection->phase == HTTP_SERVING || connection->phase == HTTP_STREAM || connection->phase == HTTP_BODY;
    if (!gone || !waits)
        return;
    connection->request.gone = NULL;
    connection->phase = HTTP_ANSWERED;
    gone(&connection->request);
}

void http_connection_lose(struct http_connection *connection)
{
    connection->refused = connection->closing = false;
    http_request_gone(connection);
    http_connection_close(connection);
}

static void connection_free(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    list_remove(&server->all, &connection->all);
    server->body_bytes -= connection->body.len;
    http_page_give(connection);
    http_body_close(&connection->request);
    buf_release(&connection->body);
    buf_release(&connection->out);
    mem_free(connection);
}

/* connection_attend: what waits is sent, what was answered ends, what has come is read. */
static void connection_attend(struct http_connection *connection)
{
    bool clear = http_connection_flush(connection);
    if (connection->phase != HTTP_STREAM) {
        http_connection_run(connection);
    } else if (connection->overflowed || (clear && connection->head_only)) {
        http_connection_lose(connection);
    } else if (clear && connection->drain_owed) {
        connection->drain_owed = false;
        if (connection->drained)
            connection->drained(&connection->request);
    }
}

static void connection_on_event(struct loop_fd *watch, uint32_t events)
{
    struct http_connection *connection = watch->owner;
    struct http_server *server = connection->server;
    bool waits = connection->phase == HTTP_SERVING || connection->phase == HTTP_STREAM;
    if (!connection->refused)
        connection->readable = true; /* also by EPOLLOUT: a wire may have to write before it can read */
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        connection->ended = true;
        if (waits && (events & (EPOLLHUP | EPOLLERR))) {
            http_connection_lose(connection);
            return;
        }
        if (waits && connection->clock != &server->leaving)
            http_connection_clock(connection, &server->leaving);
    }
    if (events & EPOLLOUT) {
        connection->wire.stuck = false;
        connection_attend(connection);
    } else {
        http_connection_run(connection);
    }
}

static void connection_open(struct http_server *server, int fd, const struct sockaddr *address)
{
    struct http_connection *connection = mem_alloc(sizeof *connection);
    *connection = (struct http_connection){ .server = server, .chunk = SIZE_MAX };
    connection->request.connection = connection;
    connection->request.body_fd = -1;
    buf_init(&connection->out, SIZE_MAX);
    if (server->config.tls && address->sa_family != AF_UNIX)
        wire_open_tls(&connection->wire, fd, server->config.tls);
    else
        wire_open_plain(&connection->wire, fd);
    peer_describe(&connection->request.peer, address);
    list_append(&server->all, &connection->all);
    http_connection_clock(connection, &server->reading);
    connection->watch = (struct loop_fd){ fd, connection_on_event, connection };
    connection->watched = EPOLLIN | EPOLLRDHUP | (uint32_t)EPOLLET;
    loop_add(server->loop, &connection->watch, connection->watched);
}

/* --- clocks --- */

static int64_t clock_ms(const struct http_server *server, const struct list *clock)
{
    if (clock == &server->leaving)
        return LEAVING_MS;
    return (int64_t)(clock == &server->reading ? server->config.idle_timeout_s : server->config.write_timeout_s) * 1000;
}

static struct loop_timer *clock_timer(struct http_server *server, const struct list *clock)
{
    if (clock == &server->leaving)
        return &server->leaving_timer;
    return clock == &server->reading ? &server->reading_timer : &server->writing_timer;
}

void http_connection_clock(struct http_connection *connection, struct list *clock)
{
    struct http_server *server = connection->server;
    if (connection->clock)
        list_remove(connection->clock, &connection->clocked);
    connection->clock = clock;
    if (!clock)
        return;
    connection->clock_since = loop_now(server->loop);
    list_append(clock, &connection->clocked);
    struct loop_timer *timer = clock_timer(server, clock);
    if (timer->node.pos == 0)
        loop_arm(server->loop, timer, connection->clock_since + clock_ms(server, clock));
}

/* clock_deadline: a body that comes fast enough may take longer. */
static int64_t clock_deadline(const struct http_connection *connection)
{
    uint64_t came =
        connection->phase == HTTP_BODY ? (uint64_t)connection->body.len + connection->request.body_bytes : 0;
    return connection->clock_since + clock_ms(connection->server, connection->clock) +
           (int64_t)(came * 1000 / BODY_RATE);
}

/* clock_run: `late` takes those whose time is over out of the list. */
static void clock_run(struct http_server *server, struct list *clock, void (*late)(struct http_connection *connection))
{
    int64_t now = loop_now(server->loop), next = INT64_MAX;
    for (struct list_node *node = clock->first, *after; node; node = after) {
        after = node->next;
        struct http_connection *connection = CONTAINER_OF(node, struct http_connection, clocked);
        int64_t deadline = clock_deadline(connection);
        if (deadline <= now) {
            http_connection_clock(connection, NULL);
            late(connection);
            after = clock->first; /* the callback may have changed the list */
            continue;
        }
        next = deadline < next ? deadline : next;
        if (connection->clock_since + clock_ms(server, clock) > now)
            break; /* in order: nothing behind is due */
    }
    if (next != INT64_MAX)
        loop_arm(server->loop, clock_timer(server, clock), next);
}

static void reading_late(struct http_connection *connection)
{
    struct http_page *page = connection->page;
    struct err *err = &connection->server->err;
    if (connection->phase == HTTP_HEAD && (!page || page->at == page->len)) {
        http_connection_close(connection); /* it said nothing: it gets no answer */
        return;
    }
    err_set(err, ERR_request_timeout, "the %s didn't come in time", connection->phase == HTTP_HEAD ? "head" : "body");
    http_connection_refuse(connection, err);
    http_connection_run(connection);
}

static void leaving_late(struct http_connection *connection)
{
    bool waits = connection->phase == HTTP_SERVING || connection->phase == HTTP_STREAM;
    if (waits && connection->request.gone)
        http_connection_lose(connection); /* else it will be answered into the void */
    else if (connection->wire.stuck)
        http_connection_clock(connection, &connection->server->writing);
}

static void http_on_reading(struct loop_timer *timer)
{
    struct http_server *server = timer->owner;
    clock_run(server, &server->reading, reading_late);
}

static void http_on_leaving(struct loop_timer *timer)
{
    struct http_server *server = timer->owner;
    clock_run(server, &server->leaving, leaving_late);
}

static void http_on_writing(struct loop_timer *timer)
{
    struct http_server *server = timer->owner;
    clock_run(server, &server->writing, http_connection_lose);
}

/* --- the server --- */

static void dead_free(struct http_server *server)
{
    struct list_node *node;
    while ((node = list_take_first(&server->dead)))
        connection_free(CONTAINER_OF(node, struct http_connection, due));
}

/* http_before_wait: runs each connection that is due once; one that becomes due meanwhile runs in the next
 * iteration, before which the loop doesn't sleep. */
static int64_t http_before_wait(void *owner)
{
    struct http_server *server = owner;
    for (size_t n = server->due.n; n > 0 && server->due.first; n--)
        connection_attend(CONTAINER_OF(list_take_first(&server->due), struct http_connection, due));
    dead_free(server);
    return server->due.first ? loop_now(server->loop) : INT64_MAX;
}

static void visit_refuse(struct http_server *server, int fd)
{
    err_set(&server->err, ERR_unavailable, "the server has too many connections");
    buf_reset(&server->scratch);
    http_refusal_render(server, &server->scratch, &server->err, false);
    ssize_t ignored = send(fd, server->scratch.ptr, server->scratch.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}

static void http_on_visit(int fd, const struct sockaddr *address, socklen_t address_len, bool exhausted, void *owner)
{
    (void)address_len;
    struct http_server *server = owner;
    if (!exhausted && server->all.n < server->config.connections_max) {
        connection_open(server, fd, address);
        return;
    }
    if (server->config.tls && address->sa_family != AF_UNIX)
        wire_tls_busy(fd);
    else
        visit_refuse(server, fd);
    if (exhausted)
        close(fd);
    else
        drain_take(server->drain, fd);
}

struct http_server *http_server_open(struct loop *loop, const struct http_config *config, struct err *err)
{
    struct http_server *server = mem_alloc(sizeof *server);
    *server = (struct http_server){ .loop = loop, .config = *config };
    if (server->config.connections_max == 0)
        server->config.connections_max = CONNECTIONS_MAX;
    if (server->config.idle_timeout_s == 0)
        server->config.idle_timeout_s = IDLE_TIMEOUT_S;
    if (server->config.write_timeout_s == 0)
        server->config.write_timeout_s = WRITE_TIMEOUT_S;
    server->config.address = server->config.socket_path = NULL; /* not ours to keep */
    server->reading_timer = (struct loop_timer){ .due = http_on_reading, .owner = server };
    server->leaving_timer = (struct loop_timer){ .due = http_on_leaving, .owner = server };
    server->writing_timer = (struct loop_timer){ .due = http_on_writing, .owner = server };
    buf_init(&server->scratch, SIZE_MAX);
    peer_table_init(&server->peers);
    loop_before_wait(loop, http_before_wait, server);
    server->drain = drain_new(loop);
    server->door =
        door_open(loop, config->address, config->tls != NULL, config->socket_path, http_on_visit, server, err);
    if (!server->door) {
        http_server_close(server);
        return NULL;
    }
    return server;
}

void http_server_close(struct http_server *server)
{
    if (!server)
        return;
    server->closing = true;
    door_close(server->door);
    for (struct list_node *node = server->all.first; node; node = node->next)
        http_connection_lose(CONTAINER_OF(node, struct http_connection, all));
    loop_forget(server->loop, server);
    while (server->all.first)
        connection_free(CONTAINER_OF(server->all.first, struct http_connection, all));
    while (server->pages) {
        struct http_page *page = server->pages;
        server->pages = page->next;
        arena_release(&page->arena);
        mem_free(page);
    }
    drain_free(server->drain);
    loop_disarm(server->loop, &server->reading_timer);
    loop_disarm(server->loop, &server->leaving_timer);
    loop_disarm(server->loop, &server->writing_timer);
    peer_table_release(&server->peers);
    mem_free(server->step);
    buf_release(&server->scratch);
    mem_free(server);
}

const char *http_server_address(const struct http_server *server)
{
    return door_url(server->door);
}
