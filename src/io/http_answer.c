/* http_answer: what is sent back, and what was asked for beyond the path (see http.h).
 *
 * Short answers are copied into the request's arena, which outlives the sending; streams wait in a buffer that the library empties at the
 * client's pace. A caller that answers later finds the connection parked and wakes it.
 *
 * Calls in the wrong order are assertions. A client that is gone makes every call here do nothing. */
#include <string.h>

#include "io/http_connection.h"
#include "io/http_head.h"

enum { STREAM_BLOCK = 16 * 1024, ANSWER_IN_ARENA = 16 * 1024 };
static const size_t STREAM_MAX = (size_t)64 << 20; /* a publisher that ignores http_stream_pending */

enum MHD_Result http_answer_queue(struct http_connection *connection)
{
    struct MHD_Response *response = connection->response;
    connection->response = NULL;
    enum MHD_Result queued = MHD_queue_response(connection->mhd, connection->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* A caller that answers a request whose client is gone, and which had no `gone`. */
static bool answer_void(struct http_connection *connection)
{
    if (connection->mhd)
        return false;
    connection->phase = HTTP_DEAD;
    http_connection_free(connection);
    return true;
}

static void response_header(struct MHD_Response *response, const char *name, const char *value)
{
    /* The library refuses line ends in it, which nobody but an attacker misses. */
    if (value && *value)
        (void)MHD_add_response_header(response, name, value);
}

void http_answer(struct http_request *request, int status, const char *content_type, struct str body, const char *const *headers)
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_SERVING && !connection->response);
    if (answer_void(connection))
        return;
    if (body.len <= ANSWER_IN_ARENA) {
        /* The arena lives until the answer is sent: no copy that has to be freed. */
        char *copy = arena_alloc(&request->arena, body.len + 1);
        if (body.len > 0)
            memcpy(copy, body.ptr, body.len);
        connection->response = MHD_create_response_from_buffer(body.len, copy, MHD_RESPMEM_PERSISTENT);
    } else {
        void *large = mem_alloc(body.len);
        memcpy(large, body.ptr, body.len);
        connection->response = MHD_create_response_from_buffer(body.len, large, MHD_RESPMEM_MUST_FREE);
    }
    ASSERT(connection->response);
    response_header(connection->response, "Content-Type", content_type);
    for (size_t i = 0; headers && headers[i]; i += 2)
        response_header(connection->response, headers[i], headers[i + 1]);
    connection->status = (unsigned)status;
    connection->phase = HTTP_ANSWERED;
    http_connection_unpark(connection);
}

/* stream_read: the library wants bytes. */
static ssize_t stream_read(void *owner, uint64_t position, char *out, size_t max)
{
    (void)position;
    struct http_connection *connection = owner;
    connection->server->activity++;
    if (connection->phase == HTTP_DEAD)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t pending = connection->stream.len - connection->stream_taken;
    if (pending == 0) {
        if (connection->phase == HTTP_ANSWERED)
            return MHD_CONTENT_READER_END_OF_STREAM;
        http_connection_park(connection);
        return 0;
    }
    size_t n = pending < max ? pending : max;
    memcpy(out, connection->stream.ptr + connection->stream_taken, n);
    connection->stream_taken += n;
    if (n < pending)
        return (ssize_t)n;
    buf_reset(&connection->stream);
    connection->stream_taken = 0;
    if (connection->drained && connection->phase == HTTP_STREAM)
        connection->drained(&connection->request);
    return (ssize_t)n;
}

void http_stream_header(struct http_request *request, const char *name, const char *value)
{
    struct http_connection *connection = request->connection;
    const char *pair[] = { name, value };
    for (size_t i = 0; i < 2; i++) {
        const char **slot =
            ARENA_PUSH(&request->arena, connection->stream_headers, connection->n_stream_headers, connection->cap_stream_headers);
        *slot = str_dupz(&request->arena, str_of(pair[i]));
    }
}

void http_stream_begin(struct http_request *request, int status, const char *content_type, void (*drained)(struct http_request *))
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_SERVING && !connection->response);
    connection->phase = HTTP_STREAM;
    connection->drained = drained;
    buf_init(&connection->stream, STREAM_MAX);
    if (!connection->mhd)
        return;
    connection->response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, connection, NULL);
    ASSERT(connection->response);
    response_header(connection->response, "Content-Type", content_type);
    if (str_eq(request->method, STR("HEAD"))) /* over before the caller's end: the connection can't be used again under it */
        response_header(connection->response, "Connection", "close");
    for (size_t i = 0; i + 1 < connection->n_stream_headers; i += 2)
        response_header(connection->response, connection->stream_headers[i], connection->stream_headers[i + 1]);
    connection->status = (unsigned)status;
    http_connection_unpark(connection);
}

void http_stream_add(struct http_request *request, struct str bytes)
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_STREAM);
    if (!connection->mhd || bytes.len == 0)
        return;
    /* What was taken is thrown out when it is the larger part, so that a byte moves once on average. */
    if (connection->stream_taken > connection->stream.len / 2) {
        buf_drop(&connection->stream, connection->stream_taken);
        connection->stream_taken = 0;
    }
    buf_add_str(&connection->stream, bytes);
    if (connection->stream.full)
        http_connection_cut(connection); /* a stream with a hole is worse than none */
    http_connection_unpark(connection);
}

size_t http_stream_pending(const struct http_request *request)
{
    return request->connection->stream.len - request->connection->stream_taken;
}

void http_stream_end(struct http_request *request)
{
    struct http_connection *connection = request->connection;
    ASSERT(connection->phase == HTTP_STREAM);
    if (answer_void(connection))
        return;
    connection->phase = HTTP_ANSWERED;
    http_connection_unpark(connection);
}

/* -- what was asked --------------------------------------------------------------------------------------------------------- */

struct str http_header(const struct http_request *request, const char *name)
{
    const char *value = NULL;
    size_t len = 0;
    struct MHD_Connection *mhd = request->connection->mhd;
    if (!mhd || MHD_lookup_connection_value_n(mhd, MHD_HEADER_KIND, name, strlen(name), &value, &len) != MHD_YES || !value)
        return (struct str){ 0 };
    return str_trim((struct str){ value, len });
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
