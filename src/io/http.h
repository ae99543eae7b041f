/* http: an HTTP/1.1 server inside our loop; mechanism only, it knows no route.
 *
 * The whole body is read into memory (up to the limit that `body_limit` says for this method and path) before `serve`
 * is called; but where `body_waits` says so, `serve` is called when the head has come, and takes the body into a file
 * (http_body_take) or answers without it. `serve` answers with one of the http_answer calls, at once or later, always
 * on the loop's thread; the request and its arena live until the answer is sent, or the client is gone (`gone` is
 * called if it was set). Framing faults, limits and time-outs are answered here as problem+json.
 *
 * `gone` is called at most once, and only before http_answer or http_stream_end was called; after it the request must
 * not be touched. A client that closes, or half-closes, while its request waits is noticed within half a second.
 * Neither `gone` nor `drained` is ever called from inside a call of this header. A request without `gone` lives until
 * it is answered, whatever its client does. */
#ifndef WEIR_IO_HTTP_H
#define WEIR_IO_HTTP_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"

struct http_server;
struct tls;

struct http_peer {
    bool local;    /* came through the unix socket */
    bool loopback; /* came from a loopback address */
    bool uid_known;
    uid_t uid; /* SO_PEERCRED, or the kernel's socket table for loopback */
    char address[64];
};

struct http_request {
    struct str method, path, query; /* path percent-decoded; never holds NUL or a ".." part */
    struct str body;
    bool body_waits;     /* its body hasn't come yet: http_body_take, or an answer, after which the connection ends */
    int body_fd;         /* the file that the body goes to, and `body` is empty; -1: none. Closed with the request */
    uint64_t body_bytes; /* that went there */
    struct http_peer peer;
    struct arena arena;
    void *user; /* the server user's */
    /* client went away, or the stream was closed, before the answer was complete */
    void (*gone)(struct http_request *self);
    struct http_connection *connection; /* private */
};

struct http_config {
    const char *address;      /* "127.0.0.1:8420", "[::1]:0"; NULL: none */
    const char *socket_path;  /* NULL: none; a stale socket file is replaced, a live one refused */
    unsigned connections_max; /* 0: 4096; further ones get a 503 */
    unsigned idle_timeout_s;  /* 0: 15; to send a whole head; a body may take longer at 16 KiB/s and more */
    unsigned write_timeout_s; /* 0: 300; for a client that doesn't read its answer */
    size_t (*body_limit)(struct str method, struct str path, void *owner);
    /* of a request with a body: is it served when its head has come? NULL: none is */
    bool (*body_waits)(struct str method, struct str path, void *owner);
    void (*serve)(struct http_request *request, void *owner);
    void *owner;
    /* NULL: plain HTTP; else what the address speaks (the socket stays plain); the caller's, outlives the server */
    struct tls *tls;
};

struct http_server *http_server_open(struct loop *loop, const struct http_config *config, struct err *err);
void http_server_close(struct http_server *server); /* open requests are dropped */
const char *http_server_address(
    const struct http_server *server); /* "http://127.0.0.1:8420", or https; the port as chosen; NULL: none */

struct str http_header(const struct http_request *request, const char *name); /* empty: none */
bool http_param(struct http_request *request, const char *name,
    struct str *out); /* query parameter, decoded, in the arena; twice the same name: the first */
size_t http_params(struct http_request *request, struct str **out_names); /* all names, to refuse unknown ones */

/* http_answer: the request is over for the caller. HEAD is answered without the body by itself. body is copied.
 * headers: NULL or a NULL-ended list of name, value, name, value, ... */
void http_answer(
    struct http_request *request, int status, const char *content_type, struct str body, const char *const *headers);

/* http_body_take: reads the body that waits into the file, which belongs to the request from now on; then `done` is
 * called, never from inside this call, and the request waits for its answer as any other. A body that is too long, too
 * slow, broken off, or that the file can't hold is refused here, and `gone` is called (it must be set): the request
 * must not be touched after it. */
void http_body_take(struct http_request *request, int fd, void (*done)(struct http_request *request));

/* A stream: begun once, then fed; bytes are sent as they come (chunked). http_stream_end closes it properly.
 * http_stream_pending: bytes that the client hasn't read yet, so that a slow reader can be paused; `drained` is
 * called when it falls to 0. */
void http_stream_begin(
    struct http_request *request, int status, const char *content_type, void (*drained)(struct http_request *));
/* before http_stream_begin */
void http_stream_header(struct http_request *request, const char *name, const char *value);
void http_stream_add(struct http_request *request, struct str bytes);
size_t http_stream_pending(const struct http_request *request);
/* before http_stream_end: the client sees that what it got isn't all */
void http_stream_break(struct http_request *request);
void http_stream_end(struct http_request *request);

#endif
