/* http: libmicrohttpd without threads and without its own listening socket, its epoll descriptor in our loop.
 *
 * One http_connection per socket; its request is used again for each request that comes over it. A request goes through the phases below;
 * libmicrohttpd's callbacks move it on. Who answers later is parked: the connection is suspended, and since libmicrohttpd doesn't look at
 * suspended sockets, we watch them for their client's end. Reading is timed by us: libmicrohttpd only knows silence, which a client
 * that sends a byte now and then never keeps.
 *
 * Faults of a client end its connection, after a problem+json where the protocol still has room for one. Only what the library itself
 * refuses (a header without a colon, a broken chunk, a version that isn't 1.x) has the library's own short page as body. */
#include "io/http.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/door.h"
#include "io/http_connection.h"
#include "io/http_head.h"

enum {
    CONNECTIONS_MAX = 4096,
    IDLE_TIMEOUT_S = 15,
    WRITE_STALL_S = 300, /* a reader may be a pager that somebody left open over lunch */
    BODY_RATE = 16 * 1024,
    PARK_WATCH_MS = 250,
    POOL_BYTES = 24 * 1024, /* libmicrohttpd clears all of it after every request */
    RUNS_MAX = 4,
    STALL_MS = 10,
    ARENA_KEPT = 64 * 1024,
    BODY_KEPT = 64 * 1024
};
static const size_t BODIES_MAX = (size_t)512 << 20; /* of all connections together */

static int64_t http_idle_ms(const struct http_server *server)
{
    return (int64_t)server->config.idle_timeout_s * 1000;
}

/* -- refusals ----------------------------------------------------------------------------------------------------------- */

/* refusal_send: past libmicrohttpd, straight to the socket: nothing of an answer has been sent, and the connection ends here. */
static void refusal_send(int fd, const struct err *err, bool head_only)
{
    struct buf body, all;
    buf_init(&body, 4096);
    buf_init(&all, 8192);
    http_problem_render(&body, err);
    int status = err_http(err->code);
    buf_addf(&all, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
        MHD_get_reason_phrase_for((unsigned)status), body.len);
    if (!head_only)
        buf_add_str(&all, buf_str(&body));
    ssize_t ignored = send(fd, all.ptr, all.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
    buf_release(&body);
    buf_release(&all);
}

/* connection_refuse: what an access handler returns to end the connection after a refusal. */
static enum MHD_Result connection_refuse(struct http_connection *connection, const struct err *err)
{
    refusal_send(connection->fd, err, str_eq(connection->request.method, STR("HEAD")));
    connection->refused = true;
    connection->phase = HTTP_DEAD;
    return MHD_NO;
}

/* -- life of a connection ------------------------------------------------------------------------------------------------ */

static void peer_fill(struct http_connection *connection)
{
    struct http_peer *peer = &connection->request.peer;
    connection->peer_asked = true;
    if (peer->local)
        peer->uid_known = peer_uid_unix(connection->fd, &peer->uid);
    else if (peer->loopback)
        peer->uid_known = peer_uid_tcp(&connection->server->peers, connection->fd, &peer->uid);
}

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

static void reading_begin(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    connection->reading_since = loop_now(server->loop);
    list_append(&server->reading, &connection->reading);
    if (server->reading_timer.node.pos == 0)
        loop_arm(server->loop, &server->reading_timer, connection->reading_since + http_idle_ms(server));
}

static struct http_connection *connection_new(struct http_server *server, struct MHD_Connection *mhd)
{
    struct http_connection *connection = mem_alloc(sizeof *connection);
    *connection = (struct http_connection){ .server = server, .mhd = mhd };
    connection->request.connection = connection;
    connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    peer_describe(&connection->request.peer, MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    list_append(&server->all, &connection->all);
    reading_begin(connection);
    return connection;
}

void http_connection_free(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    list_remove(&server->all, &connection->all);
    list_remove(&server->reading, &connection->reading);
    ASSERT(!connection->suspended);
    if (connection->response)
        MHD_destroy_response(connection->response);
    server->body_bytes -= connection->body.len;
    buf_release(&connection->body);
    buf_release(&connection->stream);
    arena_release(&connection->request.arena);
    mem_free(connection);
}

static void http_on_connection(void *owner, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode what)
{
    struct http_server *server = owner;
    server->activity++;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = connection_new(server, mhd);
        return;
    }
    struct http_connection *connection = *context;
    int unread = 0;
    if (!server->closing && (connection->refused || (ioctl(connection->fd, FIONREAD, &unread) == 0 && unread > 0))) {
        int fd = fcntl(connection->fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0)
            drain_take(server->drain, fd);
    }
    connection->mhd = NULL;
    connection->fd = -1;
    if (connection->phase != HTTP_SERVING && connection->phase != HTTP_STREAM)
        http_connection_free(connection);
}

/* request_reset: ready for the next request on the same connection. */
static void request_reset(struct http_connection *connection)
{
    struct http_request *request = &connection->request;
    if (connection->response)
        MHD_destroy_response(connection->response);
    connection->response = NULL;
    if (request->arena.used_bytes > ARENA_KEPT)
        arena_release(&request->arena);
    else
        arena_reset(&request->arena);
    connection->server->body_bytes -= connection->body.len;
    if (connection->body.size > BODY_KEPT)
        buf_release(&connection->body);
    else
        buf_reset(&connection->body);
    buf_release(&connection->stream);
    connection->stream_taken = 0;
    connection->drained = NULL;
    connection->stream_headers = NULL;
    connection->names = connection->values = NULL;
    connection->n_stream_headers = connection->cap_stream_headers = 0;
    connection->n_names = connection->cap_names = connection->n_values = connection->cap_values = 0;
    connection->params_read = false;
    connection->target = NULL;
    request->method = request->path = request->query = request->body = (struct str){ 0 };
    request->user = NULL;
    request->gone = NULL;
    connection->phase = HTTP_IDLE;
}

/* request_lose: the client is gone before the answer was complete. false: the caller doesn't listen and still holds the request. */
static bool request_lose(struct http_connection *connection)
{
    if (connection->phase != HTTP_SERVING && connection->phase != HTTP_STREAM)
        return true;
    void (*gone)(struct http_request *) = connection->request.gone;
    if (!gone)
        return false;
    connection->request.gone = NULL;
    connection->phase = HTTP_DEAD;
    gone(&connection->request);
    return true;
}

static void http_on_completed(void *owner, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode how)
{
    (void)mhd;
    struct http_server *server = owner;
    struct http_connection *connection = *context;
    server->activity++;
    *context = NULL;
    if (!connection || !request_lose(connection))
        return;
    bool over = how != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    request_reset(connection);
    if (!over) {
        list_remove(&server->reading, &connection->reading);
        reading_begin(connection);
    }
}

/* -- parking ------------------------------------------------------------------------------------------------------------- */

static void park_on_event(struct loop_fd *watch, uint32_t events)
{
    (void)events;
    struct http_connection *connection = watch->owner;
    loop_remove(connection->server->loop, watch);
    connection->watched = false;
    if (!connection->request.gone)
        return; /* it will be answered into the void */
    request_lose(connection);
    /* Its next turn in libmicrohttpd finds it dead and closes it. */
    connection->suspended = false;
    MHD_resume_connection(connection->mhd);
    connection->server->kicked = true;
}

void http_connection_park(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    MHD_suspend_connection(connection->mhd);
    connection->suspended = true;
    connection->parked_since = loop_now(server->loop);
    list_append(&server->parked, &connection->parked);
    if (server->parked_timer.node.pos == 0)
        loop_arm(server->loop, &server->parked_timer, connection->parked_since + PARK_WATCH_MS);
}

void http_connection_unpark(struct http_connection *connection)
{
    if (!connection->suspended)
        return;
    struct http_server *server = connection->server;
    list_remove(&server->parked, &connection->parked);
    if (connection->watched)
        loop_remove(server->loop, &connection->park_watch);
    connection->watched = connection->suspended = false;
    MHD_resume_connection(connection->mhd);
    server->kicked = true;
}

/* Most requests wait for one commit only: those never cost a system call here. */
static void http_on_parked(struct loop_timer *timer)
{
    struct http_server *server = timer->owner;
    int64_t now = loop_now(server->loop);
    while (server->parked.first) {
        struct http_connection *connection = CONTAINER_OF(server->parked.first, struct http_connection, parked);
        if (connection->parked_since + PARK_WATCH_MS > now) {
            loop_arm(server->loop, timer, connection->parked_since + PARK_WATCH_MS);
            return;
        }
        list_remove(&server->parked, &connection->parked);
        connection->park_watch = (struct loop_fd){ connection->fd, park_on_event, connection };
        connection->watched = true;
        loop_add(server->loop, &connection->park_watch, EPOLLRDHUP);
    }
}

/* -- reading in time ----------------------------------------------------------------------------------------------------- */

static int64_t reading_deadline(const struct http_connection *connection)
{
    int64_t deadline = connection->reading_since + http_idle_ms(connection->server);
    return deadline + (int64_t)(connection->body.len * 1000 / BODY_RATE);
}

/* http_connection_cut: libmicrohttpd has no call to close a connection: its socket is shut, and should it not even look at that
 * (its buffer may be full), its own clock closes it a second later. */
void http_connection_cut(struct http_connection *connection)
{
    if (connection->phase == HTTP_BODY) {
        struct err err = { .code = ERR_none };
        err_set(&err, ERR_request_timeout, "the body didn't come in time");
        refusal_send(connection->fd, &err, false);
    }
    shutdown(connection->fd, SHUT_RDWR);
    MHD_set_connection_option(connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
    connection->server->kicked = true;
}

static void http_on_reading(struct loop_timer *timer)
{
    struct http_server *server = timer->owner;
    int64_t now = loop_now(server->loop), next = INT64_MAX;
    for (struct list_node *node = server->reading.first, *after; node; node = after) {
        after = node->next;
        struct http_connection *connection = CONTAINER_OF(node, struct http_connection, reading);
        if (connection->reading_since + http_idle_ms(server) > now) {
            /* In order of reading_since: nothing behind is due. */
            if (connection->reading_since + http_idle_ms(server) < next)
                next = connection->reading_since + http_idle_ms(server);
            break;
        }
        int64_t deadline = reading_deadline(connection);
        if (deadline > now) {
            next = deadline < next ? deadline : next;
            continue;
        }
        list_remove(&server->reading, node);
        http_connection_cut(connection);
    }
    if (next != INT64_MAX)
        loop_arm(server->loop, timer, next);
}

/* -- the library's callbacks ---------------------------------------------------------------------------------------------- */

static struct http_connection *connection_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* The request's line, before the library takes it apart: the target as it was sent. */
static void *http_on_line(void *owner, const char *target, struct MHD_Connection *mhd)
{
    struct http_server *server = owner;
    server->activity++;
    struct http_connection *connection = connection_of(mhd);
    connection->target_len = target ? strlen(target) : 0;
    connection->target = arena_alloc(&connection->request.arena, connection->target_len + 1);
    memcpy(connection->target, target ? target : "", connection->target_len);
    return connection;
}

/* Our own decoding is stricter: the library's is switched off. */
static size_t http_unescape(void *owner, struct MHD_Connection *mhd, char *text)
{
    (void)owner;
    (void)mhd;
    return strlen(text);
}

static enum MHD_Result http_on_header(
    void *owner, enum MHD_ValueKind kind, const char *name, size_t name_len, const char *value, size_t value_len)
{
    (void)kind;
    http_head_add(owner, (struct str){ name, name_len }, (struct str){ value ? value : "", value ? value_len : 0 });
    return MHD_YES;
}

static bool body_permit(struct http_connection *connection, uint64_t length, struct err *err)
{
    struct http_server *server = connection->server;
    struct http_request *request = &connection->request;
    size_t limit = server->config.body_limit ? server->config.body_limit(request->method, request->path, server->config.owner) : 0;
    if (length > limit)
        return err_set(err, ERR_body_too_large, "the body is over the limit of %zu bytes", limit);
    if (connection->body.ptr == NULL)
        buf_init(&connection->body, limit);
    connection->body.cap = limit;
    return true;
}

/* request_open: the head is complete: judge it. */
static enum MHD_Result request_open(struct http_connection *connection, const char *url, const char *method, const char *version)
{
    struct http_request *request = &connection->request;
    struct err err = { .code = ERR_none };
    struct http_head head = { 0 };
    struct str target = { connection->target, connection->target_len };
    request->method = str_dup(&request->arena, str_of(method)); /* the library's memory may go before ours */
    MHD_get_connection_values_n(connection->mhd, MHD_HEADER_KIND, http_on_header, &head);
    bool good = true;
    if (request->method.len + target.len + 10 > HTTP_LINE_MAX)
        good = err_set(&err, ERR_uri_too_long, "the request's first line is over %d bytes", HTTP_LINE_MAX);
    else if (!http_is_token(request->method) || version - 1 - url != (ptrdiff_t)target.len) /* a NUL hides a part of the target */
        good = err_set(&err, ERR_bad_request, "the request's first line isn't HTTP");
    good = good && http_head_check(&head, str_of(version), &err) &&
           http_target_parse(&request->arena, request->method, target, &request->path, &request->query, &err);
    if (good && (head.chunked || head.length > 0))
        good = body_permit(connection, head.length, &err);
    if (!good)
        return connection_refuse(connection, &err);
    if (head.chunked || head.length > 0) {
        /* The body has its own time: the head may have come at the end of a long silence. */
        list_remove(&connection->server->reading, &connection->reading);
        reading_begin(connection);
    }
    connection->phase = HTTP_BODY;
    return MHD_YES;
}

static enum MHD_Result request_take_body(struct http_connection *connection, const char *bytes, size_t *len)
{
    struct http_server *server = connection->server;
    struct err err = { .code = ERR_none };
    if (*len > connection->body.cap - connection->body.len)
        err_set(&err, ERR_body_too_large, "the body is over the limit of %zu bytes", connection->body.cap);
    else if (*len > BODIES_MAX - server->body_bytes)
        err_set(&err, ERR_unavailable, "the server holds too many large requests");
    if (err.code != ERR_none)
        return connection_refuse(connection, &err);
    buf_add(&connection->body, bytes, *len);
    ASSERT(!connection->body.full);
    server->body_bytes += *len;
    *len = 0;
    return MHD_YES;
}

static enum MHD_Result request_serve(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    list_remove(&server->reading, &connection->reading);
    if (!connection->peer_asked)
        peer_fill(connection);
    connection->request.body = buf_str(&connection->body);
    connection->phase = HTTP_SERVING;
    server->config.serve(&connection->request, server->config.owner);
    if (connection->response)
        return http_answer_queue(connection);
    http_connection_park(connection);
    return MHD_YES;
}

static enum MHD_Result http_on_access(void *owner, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
    const char *upload, size_t *upload_len, void **context)
{
    struct http_server *server = owner;
    struct http_connection *connection = connection_of(mhd);
    server->activity++;
    *context = connection;
    switch (connection->phase) {
    case HTTP_IDLE:
        return request_open(connection, url, method, version);
    case HTTP_BODY:
        return *upload_len > 0 ? request_take_body(connection, upload, upload_len) : request_serve(connection);
    case HTTP_SERVING:
    case HTTP_STREAM:
    case HTTP_ANSWERED:
        if (connection->response)
            return http_answer_queue(connection);
        http_connection_park(connection);
        return MHD_YES;
    case HTTP_DEAD:
        return MHD_NO;
    }
    return MHD_NO;
}

/* -- the server --------------------------------------------------------------------------------------------------------------- */

static void http_run(struct http_server *server)
{
    server->running = true;
    server->kicked = false;
    MHD_run(server->daemon);
    server->running = false;
}

static void http_on_ready(struct loop_fd *watch, uint32_t events)
{
    (void)events;
    http_run(watch->owner);
}

/* http_before_wait: what was answered in this iteration is sent before the loop sleeps. The library says "at once" also for a connection
 * that it can't serve at all (its buffer is full of an endless chunk line): without progress we come back a little later. */
static int64_t http_before_wait(void *owner)
{
    struct http_server *server = owner;
    int64_t now = clock_boot_ms();
    bool wanted = server->kicked || now >= server->due;
    for (int i = 0; i < RUNS_MAX; i++) {
        uint64_t before = server->activity;
        if (wanted)
            http_run(server);
        MHD_UNSIGNED_LONG_LONG ms = 0;
        if (server->kicked)
            ms = 0;
        else if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
            return server->due = INT64_MAX;
        if (ms > 0)
            return server->due = now + (ms < INT32_MAX ? (int64_t)ms : INT32_MAX);
        if (wanted && server->activity == before && i + 1 == RUNS_MAX)
            return server->due = now + STALL_MS;
        wanted = true;
    }
    return server->due = now;
}

static void http_on_visit(int fd, const struct sockaddr *address, socklen_t address_len, bool exhausted, void *owner)
{
    struct http_server *server = owner;
    if (!exhausted && server->all.n < server->config.connections_max) {
        (void)MHD_add_connection(server->daemon, fd, address, address_len); /* closes fd when it fails */
        return;
    }
    struct err err = { .code = ERR_none };
    err_set(&err, ERR_unavailable, "the server has too many connections");
    refusal_send(fd, &err, false);
    if (exhausted)
        close(fd);
    else
        drain_take(server->drain, fd);
}

static struct MHD_Daemon *daemon_start(struct http_server *server)
{
    /* No MHD_OPTION_STRICT_FOR_CLIENT: in 0.9.75 it means two checks (Host, blanks in the target) that http_head makes with a better
     * answer. */
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, http_on_access, server,
        MHD_OPTION_CONNECTION_LIMIT, server->config.connections_max + 1, /* we count before the library does */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)WRITE_STALL_S,
        MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, server,
        MHD_OPTION_URI_LOG_CALLBACK, http_on_line, server, MHD_OPTION_UNESCAPE_CALLBACK, http_unescape, server, MHD_OPTION_END);
}

struct http_server *http_server_open(struct loop *loop, const struct http_config *config, struct err *err)
{
    struct http_server *server = mem_alloc(sizeof *server);
    *server = (struct http_server){ .loop = loop, .config = *config, .due = INT64_MAX };
    if (server->config.connections_max == 0)
        server->config.connections_max = CONNECTIONS_MAX;
    if (server->config.idle_timeout_s == 0)
        server->config.idle_timeout_s = IDLE_TIMEOUT_S;
    server->config.address = server->config.socket_path = NULL; /* not ours to keep */
    server->reading_timer = (struct loop_timer){ .due = http_on_reading, .owner = server };
    server->parked_timer = (struct loop_timer){ .due = http_on_parked, .owner = server };
    peer_table_init(&server->peers);
    server->daemon = daemon_start(server);
    if (!server->daemon) {
        err_set(err, ERR_io, "libmicrohttpd doesn't start");
        mem_free(server);
        return NULL;
    }
    server->daemon_watch =
        (struct loop_fd){ MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, http_on_ready, server };
    loop_add(loop, &server->daemon_watch, EPOLLIN);
    loop_before_wait(loop, http_before_wait, server);
    server->drain = drain_new(loop);
    server->door = door_open(loop, config->address, config->socket_path, http_on_visit, server, err);
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
    ASSERT(!server->running);
    server->closing = true;
    door_close(server->door);
    for (struct list_node *node = server->all.first; node; node = node->next) {
        struct http_connection *connection = CONTAINER_OF(node, struct http_connection, all);
        if (connection->mhd)
            http_connection_unpark(connection);
    }
    loop_remove(server->loop, &server->daemon_watch);
    loop_forget(server->loop, server);
    MHD_stop_daemon(server->daemon); /* tells us of every connection */
    while (server->all.first)
        http_connection_free(CONTAINER_OF(server->all.first, struct http_connection, all));
    drain_free(server->drain);
    loop_disarm(server->loop, &server->reading_timer);
    loop_disarm(server->loop, &server->parked_timer);
    peer_table_release(&server->peers);
    mem_free(server);
}

const char *http_server_address(const struct http_server *server)
{
    return door_url(server->door);
}
