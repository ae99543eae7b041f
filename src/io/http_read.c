/* http_read: requests in: bytes from the wire into a page, a head, a body, and then the caller (see http_connection.h).
 *
 * A request is read where it came to lie; only a body that doesn't fit into the page, or came in chunks, is gathered
 * elsewhere, in a buffer that grows with what really came. While a request is served nothing is read: what the client
 * sends meanwhile waits in the kernel.
 *
 * Faults of a client are answered once, with a problem+json, and end its connection: nothing behind them is read.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "io/http_connection.h"
#include "io/http_target.h"

enum {
    SERIES_MAX = 64, /* requests of one connection before others have their turn */
    READS_MAX = 16,  /* reads of one body, likewise */
    PAGES_KEPT = 256,
    ARENA_KEPT = 64 * 1024,
    BODY_KEPT = 16 * 1024,
    BODY_STEP = 256 * 1024,
};
static const size_t BODIES_MAX = (size_t)512 << 20; /* of all connections together */

/* --- pages --- */

static void page_take(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_page *page = server->pages;
    if (page) {
        server->pages = page->next;
        server->n_pages--;
    } else {
        page = mem_alloc(sizeof *page + HTTP_PAGE_BYTES);
        page->arena = (struct arena){ 0 };
        page->size = HTTP_PAGE_BYTES;
    }
    page->at = page->len = 0;
    http_head_begin(&page->head);
    connection->request.arena = page->arena;
    connection->page = page;
}

void http_page_give(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_page *page = connection->page;
    if (!page)
        return;
    page->arena = connection->request.arena;
    connection->request.arena = (struct arena){ 0 };
    connection->page = NULL;
    if (page->size > HTTP_PAGE_BYTES || server->n_pages == PAGES_KEPT || server->closing) {
        arena_release(&page->arena);
        mem_free(page);
        return;
    }
    if (page->arena.used_bytes > ARENA_KEPT)
        arena_release(&page->arena);
    else
        arena_reset(&page->arena);
    page->next = server->pages;
    server->pages = page;
    server->n_pages++;
}

/* page_fit: room for `need` bytes from the current request's begin on. Nothing may point into the page. */
static void page_fit(struct http_connection *connection, size_t need)
{
    struct http_page *page = connection->page;
    if (need <= page->size - page->at)
        return;
    memmove(page->bytes, page->bytes + page->at, page->len - page->at);
    page->len -= page->at;
    page->at = 0;
    if (need <= page->size)
        return;
    ASSERT(need <= HTTP_PAGE_MAX);
    size_t size = page->size;
    while (size < need)
        size *= 2;
    page = mem_realloc(page, sizeof *page + size);
    page->size = size;
    connection->page = page;
}

/* --- bytes --- */

static void read_end(struct http_connection *connection)
{
    connection->readable = false;
    connection->ended = true;
    bool begun = connection->phase == HTTP_BODY || (connection->page && connection->page->at < connection->page->len);
    if (!begun) {
        http_connection_close(connection);
        return;
    }
    struct err *err = &connection->server->err;
    err_set(err, ERR_bad_request, "the request ends in its middle");
    http_connection_refuse(connection, err);
}

/* read_fault: errno says how the wire broke. Whoever spoke the wrong protocol is seen out, so that it hears what is
 * wrong. */
static void read_fault(struct http_connection *connection)
{
    struct err *err = &connection->server->err;
    if (errno == EPROTOTYPE) {
        err_set(err, ERR_bad_request, "this port speaks TLS: write https:// instead of http://");
        http_connection_refuse(connection, err);
    } else if (errno == EPROTO) {
        connection->refused = connection->closing = true;
        http_connection_close(connection);
    } else {
        http_connection_lose(connection);
    }
}

/* read_some: one read; true: some came. false: nothing now, or the connection has another phase now. */
static bool read_some(struct http_connection *connection, char *to, size_t room, size_t *out_n)
{
    if (!connection->readable)
        return false;
    bool more = false;
    connection->readable = false;
    ssize_t n = connection->wire.ops->read(&connection->wire, to, room, &more);
    if (n > 0) {
        connection->readable = more || connection->ended;
        *out_n = (size_t)n;
        return true;
    }
    if (n == 0)
        read_end(connection);
    else if (errno == EAGAIN)
        http_connection_watch(connection);
    else
        read_fault(connection);
    return false;
}

static bool page_read(struct http_connection *connection)
{
    if (!connection->readable)
        return false;
    if (!connection->page)
        page_take(connection);
    if (connection->page->len == connection->page->size)
        page_fit(connection, connection->page->len - connection->page->at + 1);
    struct http_page *page = connection->page;
    size_t n = 0;
    if (!read_some(connection, page->bytes + page->len, page->size - page->len, &n))
        return false;
    page->len += n;
    return true;
}

static void peer_fill(struct http_connection *connection)
{
    struct http_peer *peer = &connection->request.peer;
    connection->peer_asked = true;
    if (peer->local)
        peer->uid_known = peer_uid_unix(connection->wire.fd, &peer->uid);
    else if (peer->loopback)
        peer->uid_known = peer_uid_tcp(&connection->server->peers, connection->wire.fd, &peer->uid);
}

/* --- the body --- */

static bool body_permit(struct http_connection *connection, uint64_t length, struct err *err)
{
    struct http_server *server = connection->server;
    struct http_request *request = &connection->request;
    size_t limit =
        server->config.body_limit ? server->config.body_limit(request->method, request->path, server->config.owner) : 0;
    if (length > limit)
        return err_set(err, ERR_body_too_large, "the body is over the limit of %zu bytes", limit);
    connection->body.cap = limit;
    return true;
}

/* body_write: the bytes go to the request's file. The file system's cache takes them at its own speed; what it can't
 * take is an answer for the client, and ends the request. */
static bool body_write(struct http_connection *connection, struct str bytes)
{
    struct http_request *request = &connection->request;
    struct err *err = &connection->server->err;
    while (bytes.len) {
        ssize_t n = write(request->body_fd, bytes.ptr, bytes.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            bool full = errno == ENOSPC || errno == EDQUOT;
            err_set(err, full ? ERR_disk_full : ERR_io, "the body can't be stored: %s", strerror(errno));
            http_connection_refuse(connection, err);
            return false;
        }
        request->body_bytes += (uint64_t)n;
        bytes = str_sub(bytes, (size_t)n, bytes.len);
    }
    return true;
}

/* body_grew: n more bytes have come, or are to be added. */
static bool body_grew(struct http_connection *connection, size_t n)
{
    struct http_server *server = connection->server;
    if (n > BODIES_MAX - server->body_bytes) {
        err_set(&server->err, ERR_unavailable, "the server holds too many large requests");
        http_connection_refuse(connection, &server->err);
        return false;
    }
    server->body_bytes += n;
    return true;
}

static bool body_read_in_place(struct http_connection *connection)
{
    size_t end = connection->page->at + connection->page->head.at + (size_t)connection->page->head.length;
    while (connection->page->len < end)
        if (!page_read(connection))
            return false;
    connection->after = end;
    struct http_page *page = connection->page;
    connection->request.body = (struct str){ page->bytes + page->at + page->head.at, (size_t)page->head.length };
    return true;
}

static bool body_read_file(struct http_connection *connection)
{
    uint64_t length = connection->page->head.length;
    char *step = connection->server->step;
    for (unsigned reads = 0; connection->request.body_bytes < length; reads++) {
        uint64_t left = length - connection->request.body_bytes;
        size_t n = 0;
        if (reads == READS_MAX)
            http_connection_due(connection);
        if (reads == READS_MAX || !read_some(connection, step, left < BODY_STEP ? (size_t)left : BODY_STEP, &n))
            return false;
        if (!body_write(connection, (struct str){ step, n }))
            return false;
    }
    return true;
}

static bool body_read_large(struct http_connection *connection)
{
    struct buf *body = &connection->body;
    size_t length = (size_t)connection->page->head.length;
    for (unsigned reads = 0; body->len < length; reads++) {
        if (reads == READS_MAX) {
            http_connection_due(connection);
            return false;
        }
        size_t room = length - body->len < BODY_STEP ? length - body->len : BODY_STEP, n = 0;
        char *to = buf_reserve(body, room);
        ASSERT(to);
        if (!read_some(connection, to, room, &n) || !body_grew(connection, n))
            return false;
        buf_commit(body, n);
    }
    connection->request.body = buf_str(body);
    return true;
}

static bool chunks_take(struct http_connection *connection, enum http_step *out_step)
{
    struct http_page *page = connection->page;
    struct buf *body = &connection->body;
    struct err *err = &connection->server->err;
    *out_step = HTTP_MORE;
    while (*out_step == HTTP_MORE && connection->after < page->len) {
        struct str piece;
        size_t used;
        const char *from = page->bytes + connection->after;
        *out_step = http_chunked_read(&connection->chunked, from, page->len - connection->after, &used, &piece, err);
        bool good = *out_step != HTTP_BAD;
        uint64_t came = connection->request.body_fd >= 0 ? connection->request.body_bytes : body->len;
        if (good && piece.len + connection->chunked.left > body->cap - came)
            good = err_set(err, ERR_body_too_large, "the body is over the limit of %zu bytes", body->cap);
        if (!good) {
            http_connection_refuse(connection, err);
            return false;
        }
        bool file = connection->request.body_fd >= 0;
        if (file ? !body_write(connection, piece) : !body_grew(connection, piece.len))
            return false;
        if (!file)
            buf_add_str(body, piece);
        connection->after += used;
    }
    return true;
}

static bool body_read_chunks(struct http_connection *connection)
{
    enum http_step step;
    for (unsigned reads = 0; chunks_take(connection, &step); reads++) {
        struct http_page *page = connection->page;
        if (step == HTTP_DONE) {
            connection->request.body = buf_str(&connection->body);
            return true;
        }
        page->len = connection->after = page->at + page->head.at; /* read chunks make room for the next */
        if (reads == READS_MAX)
            http_connection_due(connection);
        if (reads == READS_MAX || !page_read(connection))
            return false;
    }
    return false;
}

/* --- the request --- */

/* body_begin: the head wants a body, and it may come. */
static void body_begin(struct http_connection *connection)
{
    struct http_page *page = connection->page;
    const struct http_head *head = &page->head;
    size_t from = page->at + head->at, there = page->len - from;
    connection->phase = HTTP_BODY;
    connection->chunked = (struct http_chunked){ 0 };
    /* The body has its own time: the head may have come at the end of a long silence. */
    http_connection_clock(connection, &connection->server->reading);
    if (there == 0 && head->expects_continue) {
        buf_add_z(&connection->out, "HTTP/1.1 100 Continue\r\n\r\n");
        http_connection_flush(connection);
    } else if (!head->chunked && !connection->in_place) {
        size_t n = there < head->length ? there : (size_t)head->length;
        connection->after += n;
        if (connection->request.body_fd >= 0)
            (void)body_write(connection, (struct str){ page->bytes + from, n });
        else if (body_grew(connection, n))
            buf_add(&connection->body, page->bytes + from, n);
    }
}

/* head_take: the head is complete: judge what it asks for. */
static void head_take(struct http_connection *connection)
{
    struct http_request *request = &connection->request;
    size_t head_len = connection->page->head.at;
    const struct http_head *head = &connection->page->head;
    connection->in_place =
        !head->chunked && head->length <= HTTP_PAGE_BYTES && head_len + head->length <= HTTP_PAGE_BYTES;
    page_fit(connection, head_len + (head->chunked             ? HTTP_CHUNK_ROOM
                                        : connection->in_place ? (size_t)head->length
                                                               : 0));
    head = &connection->page->head;
    const char *bytes = connection->page->bytes + connection->page->at;
    struct err *err = &connection->server->err;
    request->method = http_head_method(head, bytes);
    connection->head_only = str_eq(request->method, STR("HEAD"));
    connection->closing = head->close || head->minor == 0;
    bool good = http_target_parse(
        &request->arena, request->method, http_head_target(head, bytes), &request->path, &request->query, err);
    bool wants = head->chunked || head->length > 0;
    good = good && (!wants || body_permit(connection, head->length, err));
    if (!good) {
        http_connection_refuse(connection, err);
        return;
    }
    const struct http_config *config = &connection->server->config;
    connection->after = connection->page->at + head_len;
    request->body_waits =
        wants && config->body_waits && config->body_waits(request->method, request->path, config->owner);
    if (wants && !request->body_waits)
        body_begin(connection);
}

void http_body_take(struct http_request *request, int fd, void (*done)(struct http_request *request))
{
    struct http_connection *connection = request->connection;
    struct http_server *server = connection->server;
    ASSERT(connection->phase == HTTP_SERVING && request->body_waits && request->gone);
    request->body_waits = false;
    request->body_fd = fd;
    connection->body_done = done;
    connection->in_place = false;
    connection->body_begins = true;
    connection->phase = HTTP_BODY;
    if (!server->step)
        server->step = mem_alloc(BODY_STEP);
    if (!connection->running)
        http_connection_due(connection);
}

static void request_serve(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    /* Without its client it may be lost soon; who only closed its half gets the answer if that comes at once. */
    http_connection_clock(connection, connection->ended ? &server->leaving : NULL);
    if (!connection->peer_asked)
        peer_fill(connection);
    connection->phase = HTTP_SERVING;
    if (connection->body_done) {
        void (*done)(struct http_request *) = connection->body_done;
        connection->body_done = NULL;
        done(&connection->request);
        return;
    }
    server->config.serve(&connection->request, server->config.owner);
}

/* head_read: true: the phase has changed, or a request without a body is ready (*out_ready). */
static bool head_read(struct http_connection *connection, bool *out_ready)
{
    for (;;) {
        struct http_page *page = connection->page;
        struct err *err = &connection->server->err;
        enum http_step step = HTTP_MORE;
        if (page)
            step = http_head_read(&page->head, page->bytes + page->at, page->len - page->at, err);
        if (step == HTTP_BAD) {
            http_connection_refuse(connection, err);
            return true;
        }
        if (step == HTTP_DONE) {
            head_take(connection);
            *out_ready = connection->phase == HTTP_HEAD;
            return true;
        }
        if (!page_read(connection))
            return connection->phase != HTTP_HEAD;
    }
}

static bool body_read(struct http_connection *connection)
{
    if (connection->body_begins) {
        connection->body_begins = false;
        body_begin(connection);
    }
    if (connection->phase != HTTP_BODY)
        return false;
    if (connection->page->head.chunked)
        return body_read_chunks(connection);
    if (connection->request.body_fd >= 0)
        return body_read_file(connection);
    return connection->in_place ? body_read_in_place(connection) : body_read_large(connection);
}

void http_body_close(struct http_request *request)
{
    if (request->body_fd >= 0)
        close(request->body_fd);
    request->body_fd = -1;
    request->body_bytes = 0;
    request->body_waits = false;
}

void http_request_end(struct http_connection *connection)
{
    struct http_request *request = &connection->request;
    struct http_page *page = connection->page;
    connection->server->body_bytes -= connection->body.len;
    if (connection->body.size > BODY_KEPT)
        buf_release(&connection->body);
    else
        buf_reset(&connection->body);
    connection->drained = NULL;
    connection->stream_headers.at = NULL;
    connection->names = connection->values = NULL;
    connection->stream_headers.n = connection->stream_headers.cap = 0;
    connection->n_names = connection->cap_names = connection->n_values = connection->cap_values = 0;
    connection->params_read = connection->drain_owed = connection->head_only = false;
    request->method = request->path = request->query = request->body = (struct str){ 0 };
    request->user = NULL;
    request->gone = NULL;
    http_body_close(request);
    connection->body_done = NULL;
    connection->phase = HTTP_HEAD;
    if (!page)
        return;
    page->at = connection->after;
    if (page->at == page->len) {
        http_page_give(connection);
        return;
    }
    http_head_begin(&page->head);
    if (request->arena.used_bytes > ARENA_KEPT)
        arena_release(&request->arena);
    else
        arena_reset(&request->arena);
}

/* request_settle: an answered request makes room for the next. false: not yet, or never. */
static bool request_settle(struct http_connection *connection)
{
    if (connection->closing) {
        if (http_connection_flush(connection) && connection->phase == HTTP_ANSWERED)
            http_connection_close(connection);
        return false;
    }
    if (connection->wire.stuck)
        return false;
    http_request_end(connection);
    http_connection_clock(connection, &connection->server->reading);
    return true;
}

void http_connection_run(struct http_connection *connection)
{
    if (connection->running)
        return;
    connection->running = true;
    for (unsigned series = 0;;) {
        if (connection->phase == HTTP_ANSWERED && !request_settle(connection))
            break;
        bool ready = false;
        if (connection->phase == HTTP_HEAD && !head_read(connection, &ready))
            break;
        if (connection->phase == HTTP_BODY)
            ready = body_read(connection);
        if (ready) {
            request_serve(connection);
            if (connection->phase == HTTP_BODY)
                continue; /* its body is wanted now */
            if (connection->phase == HTTP_ANSWERED && ++series == SERIES_MAX) {
                http_connection_due(connection);
                break;
            }
        }
        if (connection->phase != HTTP_ANSWERED)
            break;
    }
    connection->running = false;
    if (connection->phase != HTTP_DEAD && connection->out.len > connection->out_sent && !connection->wire.stuck)
        http_connection_due(connection);
    if (connection->phase == HTTP_HEAD && connection->page && connection->page->at == connection->page->len)
        http_page_give(connection);
}
