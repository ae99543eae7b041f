/* http_answer: what is sent back, and what was asked for beyond the path (see http.h).
 *
 * An answer goes out in one system call, head and body from where they are; only what the kernel doesn't take is
 * copied. Answers to requests that came in one piece are gathered and sent together. Streams wait in a buffer until the
 * loop is about to sleep, so that many small pieces become one chunk.
 *
 * Calls in the wrong order are assertions. A client that is gone makes every call here do nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "io/clock.h"
#include "io/http_connection.h"
#include "io/http_target.h"

enum { GATHER_MAX = 64 * 1024, OUT_KEPT = 16 * 1024, DATE_MS = 500 };
static const size_t STREAM_MAX = (size_t)64 << 20; /* a publisher that ignores http_stream_pending */

/* --- sending --- */

/* out_watch: waits for room, with a clock on a client that doesn't read. */
static void out_watch(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    http_connection_watch(connection);
    bool reads = connection->phase == HTTP_HEAD || connection->phase == HTTP_BODY; /* has that clock */
    if (connection->wire.stuck && !reads && connection->clock != &server->leaving)
        http_connection_clock(connection, &server->writing);
    else if (!connection->wire.stuck && connection->clock == &server->writing)
        http_connection_clock(connection, NULL);
}

static void out_drop_sent(struct http_connection *connection)
{
    if (connection->out_sent < connection->out.len)
        return;
    connection->out_sent = 0;
    if (connection->out.size > OUT_KEPT)
        buf_release(&connection->out);
    else
        buf_reset(&connection->out);
}

bool http_connection_flush(struct http_connection *connection)
{
    struct wire *wire = &connection->wire;
    http_chunk_close(&connection->out, &connection->chunk);
    if (wire->fd < 0 || connection->out.len == connection->out_sent)
        return true;
    if (wire->stuck)
        return false; /* the loop tells when there is room */
    while (connection->out_sent < connection->out.len) {
        struct iovec rest = { connection->out.ptr + connection->out_sent, connection->out.len - connection->out_sent };
        ssize_t n = wire->ops->writev(wire, &rest, 1);
        if (n < 0 && errno != EAGAIN) {
            http_connection_lose(connection);
            return false;
        }
        connection->out_sent += n > 0 ? (size_t)n : 0;
        if (wire->stuck) {
            out_watch(connection);
            return false;
        }
    }
    if (connection->watched & EPOLLOUT)
        out_watch(connection);
    out_drop_sent(connection);
    return true;
}

static void out_add(struct http_connection *connection, struct str bytes)
{
    /* What was sent is thrown out when it is the larger part, so that a byte moves once on average. */
    if (connection->out_sent > connection->out.len / 2) {
        if (connection->chunk != SIZE_MAX)
            connection->chunk -= connection->out_sent;
        buf_drop(&connection->out, connection->out_sent);
        connection->out_sent = 0;
    }
    buf_add_str(&connection->out, bytes);
}

/* parts_send: sends waiting bytes, then head and body; bytes that the kernel doesn't accept wait. */
static void parts_send(struct http_connection *connection, struct str head, struct str body)
{
    struct wire *wire = &connection->wire;
    struct buf *out = &connection->out;
    struct str parts[] = { { out->ptr + connection->out_sent, out->len - connection->out_sent }, head, body };
    struct iovec given[3];
    int n_given = 0;
    for (int i = 0; i < 3; i++)
        if (parts[i].len > 0)
            given[n_given++] = (struct iovec){ (void *)(uintptr_t)parts[i].ptr, parts[i].len };
    ssize_t n = wire->stuck ? 0 : wire->ops->writev(wire, given, n_given);
    if (n < 0 && errno != EAGAIN) {
        http_connection_lose(connection);
        return;
    }
    size_t taken = n > 0 ? (size_t)n : 0;
    size_t of_out = taken < parts[0].len ? taken : parts[0].len;
    connection->out_sent += of_out;
    taken -= of_out;
    for (int i = 1; i < 3; i++) {
        size_t of_part = taken < parts[i].len ? taken : parts[i].len;
        if (of_part < parts[i].len)
            buf_add(out, parts[i].ptr + of_part, parts[i].len - of_part);
        taken -= of_part;
    }
    if (wire->stuck)
        out_watch(connection);
    out_drop_sent(connection);
}

/* --- heads --- */

static const struct {
    int status;
    struct str line;
} status_lines[] = {
#define LINE(status, phrase) \
    { \
        status, \
        { \
            "HTTP/1.1 " #status " " phrase "\r\n", sizeof("HTTP/1.1 " #status " " phrase "\r\n") - 1 \
        } \
    }
    LINE(200, "OK"),
    LINE(201, "Created"),
    LINE(202, "Accepted"),
    LINE(204, "No Content"),
    LINE(206, "Partial Content"),
    LINE(302, "Found"),
    LINE(303, "See Other"),
    LINE(304, "Not Modified"),
    LINE(400, "Bad Request"),
    LINE(401, "Unauthorized"),
    LINE(403, "Forbidden"),
    LINE(404, "Not Found"),
    LINE(405, "Method Not Allowed"),
    LINE(408, "Request Timeout"),
    LINE(409, "Conflict"),
    LINE(413, "Content Too Large"),
    LINE(414, "URI Too Long"),
    LINE(415, "Unsupported Media Type"),
    LINE(416, "Range Not Satisfiable"),
    LINE(421, "Misdirected Request"),
    LINE(422, "Unprocessable Content"),
    LINE(429, "Too Many Requests"),
    LINE(431, "Request Header Fields Too Large"),
    LINE(500, "Internal Server Error"),
    LINE(501, "Not Implemented"),
    LINE(503, "Service Unavailable"),
    LINE(505, "HTTP Version Not Supported"),
    LINE(507, "Insufficient Storage"),
#undef LINE
};

static void head_add_status(struct buf *head, int status)
{
    for (size_t i = 0; i < sizeof status_lines / sizeof *status_lines; i++) {
        if (status_lines[i].status == status) {
            buf_add_str(head, status_lines[i].line);
            return;
        }
    }
    buf_addf(head, "HTTP/1.1 %d Status\r\n", status);
}

static void head_add_date(struct http_server *server, struct buf *head)
{
    int64_t now = loop_now(server->loop);
    if (server->date_since == 0 || now - server->date_since >= DATE_MS) {
        static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        time_t seconds = (time_t)(clock_wall_ms() / 1000);
        struct tm tm;
        gmtime_r(&seconds, &tm);
        snprintf(server->date, sizeof server->date, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
            days + 3 * tm.tm_wday, tm.tm_mday % 100, months + 3 * tm.tm_mon, (tm.tm_year + 1900) % 10000,
            tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
        server->date_since = now;
    }
    buf_add_z(head, server->date);
}

static void head_add(struct buf *head, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    size_t len = strlen(value);
    for (size_t i = 0; i < len; i++)
        if (!http_byte_is(value[i], HTTP_BYTE_VALUE))
            return; /* a line's end inside a header: nobody but an attacker misses it */
    buf_add_z(head, name);
    buf_add(head, ": ", 2);
    buf_add(head, value, len);
    buf_add(head, "\r\n", 2);
}

static void head_add_length(struct buf *head, size_t length)
{
    buf_add_z(head, "Content-Length: ");
    buf_add_u64(head, length);
    buf_add(head, "\r\n", 2);
}

static void head_begin(struct http_connection *connection, struct buf *head, int status, const char *content_type)
{
    buf_reset(head);
    head_add_status(head, status);
    head_add_date(connection->server, head);
    head_add(head, "Content-Type", content_type);
    if (connection->closing)
        head_add(head, "Connection", "close");
}

/* --- refusals --- */

void http_refusal_render(struct http_server *server, struct buf *out, const struct err *err, bool head_only)
{
    struct buf body;
    buf_init(&body, 4096);
    http_problem_render(&body, err);
    head_add_status(out, err_http(err->code));
    head_add_date(server, out);
    head_add(out, "Content-Type", "application/problem+json");
    head_add(out, "Connection", "close");
    head_add_length(out, body.len);
    buf_add(out, "\r\n", 2);
    if (!head_only)
        buf_add_str(out, buf_str(&body));
    buf_release(&body);
}

void http_connection_refuse(struct http_connection *connection, const struct err *err)
{
    struct http_page *page = connection->page;
    ASSERT(connection->phase == HTTP_HEAD || connection->phase == HTTP_BODY);
    http_request_gone(connection); /* of a body that its caller has taken */
    bool head_only = page && str_eq(http_head_method(&page->head, page->bytes + page->at), STR("HEAD"));
    http_refusal_render(connection->server, &connection->out, err, head_only);
    connection->phase = HTTP_ANSWERED;
    connection->closing = connection->refused = true;
    connection->readable = false;
    http_connection_clock(connection, NULL);
}

/* --- whole answers --- */

/* A caller that answers a request whose client is gone, and which had no `gone`. */
static bool answer_void(struct http_connection *connection)
{
    if (connection->wire.fd >= 0)
        return false;
    connection->phase = HTTP_ANSWERED;
    http_connection_close(connection);
    return true;
}

/* answer_ended: outside of http_connection_run, which would see it: the answer of a later turn. */
static void answer_ended(struct http_connection *connection)
{
    if (connection->running || connection->phase != HTTP_ANSWERED || connection->wire.stuck)
        return;
    if (connection->closing) {
        http_connection_due(connection);
        return;
    }
    http_request_end(connection);
    http_connection_clock(connection, &connection->server->reading);
    if (connection->page || connection->readable)
        http_connection_due(connection);
}

void http_answer(
    struct http_request *request, int status, const char *content_type, struct str body, const char *const *headers)
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_SERVING);
    if (answer_void(connection))
        return;
    if (request->body_waits) /* what the client sends of its body isn't read */
        connection->closing = connection->refused = true;
    struct buf *head = &connection->server->scratch;
    head_begin(connection, head, status, content_type);
    for (size_t i = 0; headers && headers[i]; i += 2)
        head_add(head, headers[i], headers[i + 1]);
    if (status != 204 && status != 304)
        head_add_length(head, body.len);
    buf_add(head, "\r\n", 2);
    if (connection->head_only || status == 204 || status == 304)
        body = (struct str){ 0 };
    connection->phase = HTTP_ANSWERED;
    bool more = connection->running && !connection->closing && connection->after < connection->page->len;
    if (more && connection->out.len - connection->out_sent + head->len + body.len <= GATHER_MAX) {
        out_add(connection, buf_str(head));
        out_add(connection, body);
        return;
    }
    parts_send(connection, buf_str(head), body);
    answer_ended(connection);
}

/* --- streams --- */

static bool stream_is_chunked(const struct http_connection *connection)
{
    return connection->page->head.minor > 0;
}

void http_stream_header(struct http_request *request, const char *name, const char *value)
{
    struct http_connection *connection = request->connection;
    const char *pair[] = { name, value };
    for (size_t i = 0; i < 2; i++) {
        const char **slot = ARRAY_ADD(&request->arena, connection->stream_headers);
        *slot = str_dupz(&request->arena, str_of(pair[i]));
    }
}

void http_stream_begin(
    struct http_request *request, int status, const char *content_type, void (*drained)(struct http_request *))
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_SERVING);
    connection->phase = HTTP_STREAM;
    connection->drained = drained;
    if (connection->wire.fd < 0)
        return;
    /* HEAD is over before the caller's end: the connection can't be used again under it. */
    connection->closing = connection->closing || connection->head_only;
    struct buf *head = &connection->server->scratch;
    head_begin(connection, head, status, content_type);
    if (stream_is_chunked(connection))
        head_add(head, "Transfer-Encoding", "chunked");
    for (size_t i = 0; i + 1 < connection->stream_headers.n; i += 2)
        head_add(head, connection->stream_headers.at[i], connection->stream_headers.at[i + 1]);
    buf_add(head, "\r\n", 2);
    out_add(connection, buf_str(head));
    http_connection_due(connection);
}

void http_stream_add(struct http_request *request, struct str bytes)
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_STREAM);
    if (connection->wire.fd < 0 || bytes.len == 0 || connection->head_only)
        return;
    connection->drain_owed = true;
    http_connection_due(connection);
    if (bytes.len > STREAM_MAX || http_stream_pending(request) > STREAM_MAX - bytes.len) {
        connection->overflowed = true; /* a stream with a hole is worse than none */
        return;
    }
    if (stream_is_chunked(connection))
        http_chunk_open(&connection->out, &connection->chunk);
    out_add(connection, bytes);
}

size_t http_stream_pending(const struct http_request *request)
{
    return request->connection->out.len - request->connection->out_sent;
}

void http_stream_break(struct http_request *request)
{
    request->connection->overflowed = true;
}

void http_stream_end(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_STREAM);
    if (answer_void(connection))
        return;
    if (connection->overflowed) {
        connection->phase = HTTP_ANSWERED;
        http_connection_lose(connection);
        return;
    }
    if (stream_is_chunked(connection) && !connection->head_only) {
        http_chunk_close(&connection->out, &connection->chunk);
        buf_add_z(&connection->out, HTTP_CHUNK_LAST);
    }
    connection->phase = HTTP_ANSWERED;
    http_connection_due(connection);
}

/* --- what was asked --- */

struct str http_header(const struct http_request *request, const char *name)
{
    const struct http_page *page = request->connection->page;
    return http_head_find(&page->head, page->bytes + page->at, str_of(name));
}

static void params_read(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    struct str rest = request->query, pair;
    connection->params_read = true;
    while (connection->n_names < HTTP_PARAMS_MAX && str_cut(&rest, '&', &pair)) {
        if (pair.len == 0)
            continue;
        struct str name = { 0 }, value = { 0 };
        ptrdiff_t equals = str_index(pair, '=');
        size_t split = equals < 0 ? pair.len : (size_t)equals;
        /* The query as a whole was decoded before: no escape crosses a '&' or '='. */
        ASSERT(http_decode(&request->arena, str_sub(pair, 0, split), true, &name));
        ASSERT(http_decode(&request->arena, str_sub(pair, equals < 0 ? split : split + 1, pair.len), true, &value));
        *ARENA_PUSH(&request->arena, connection->names, connection->n_names, connection->cap_names) = name;
        *ARENA_PUSH(&request->arena, connection->values, connection->n_values, connection->cap_values) = value;
    }
}

bool http_param(struct http_request *request, const char *name, struct str *out)
{
    struct http_connection *connection = request->connection;
    if (!connection->params_read)
        params_read(request);
    for (size_t i = 0; i < connection->n_names; i++) {
        if (str_eqz(connection->names[i], name)) {
            *out = connection->values[i];
            return true;
        }
    }
    return false;
}

size_t http_params(struct http_request *request, struct str **out_names)
{
    struct http_connection *connection = request->connection;
    if (!connection->params_read)
        params_read(request);
    *out_names = connection->names;
    return connection->n_names;
}
