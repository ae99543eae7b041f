/* http_connection: what the files of the server share: http.c (the server, its clocks), http_read.c (requests in),
 * http_answer.c (answers out). Private to them.
 *
 * A connection goes through the phases below, again for each request. Whoever changes something that needs a further
 * step (an answer is complete, bytes wait to be sent, requests wait in the page) makes it due: due connections are
 * attended to before the loop waits, so nothing here calls back into a caller that is in the middle of its own call. A
 * connection that ended is freed at the same place. */
#ifndef WEIR_IO_HTTP_CONNECTION_H
#define WEIR_IO_HTTP_CONNECTION_H

#include "base/list.h"
#include "io/http.h"
#include "io/http_chunked.h"
#include "io/http_head.h"
#include "io/peer.h"
#include "io/wire.h"

enum { HTTP_PAGE_BYTES = 16 * 1024, HTTP_CHUNK_ROOM = 4 * 1024, HTTP_PAGE_MAX = HTTP_HEAD_MAX + HTTP_CHUNK_ROOM };

enum http_phase {
    HTTP_HEAD,     /* between requests, or reading a head */
    HTTP_BODY,     /* the head is read */
    HTTP_SERVING,  /* the caller owes an answer */
    HTTP_STREAM,   /* the caller owes bytes, and an end */
    HTTP_ANSWERED, /* the answer is complete, and being sent */
    HTTP_DEAD      /* closed, no answer is owed */
};

/* Where a request is read and lives; a connection that waits for its next request has none. */
struct http_page {
    struct http_page *next; /* in the server's pool */
    struct arena arena;     /* kept for the next request; while one is there, it is in the request */
    struct http_head head;
    size_t at, len, size; /* bytes[at..len) came and weren't used; the current request's head begins at `at` */
    char bytes[];
};

struct http_connection {
    struct http_request request;
    struct http_server *server;
    struct wire wire;
    struct loop_fd watch;
    enum http_phase phase;
    bool readable;    /* the wire may have bytes */
    bool ended;       /* the client sends no more, or not even reads */
    bool running;     /* inside http_connection_run */
    bool closing;     /* after this answer */
    bool refused;     /* closing, with bytes of the client that aren't read */
    bool head_only;   /* HEAD: no body goes out */
    bool in_place;    /* the body is in the page */
    bool body_begins; /* its caller has just taken it */
    bool peer_asked, params_read, drain_owed, overflowed;
    uint32_t watched; /* epoll events */
    struct list_node all, clocked, due;
    struct list *clock; /* the list that `clocked` is in */
    int64_t clock_since;
    struct http_page *page;
    size_t after; /* where the next request begins in the page, once the body is whole */
    struct http_chunked chunked;
    struct buf body;                                 /* a body too large for the page, or chunked */
    void (*body_done)(struct http_request *request); /* of a body that goes to a file */
    struct buf out;
    size_t out_sent, chunk; /* chunk: see http_chunk_open */
    void (*drained)(struct http_request *);
    ARRAY(const char *) stream_headers;
    struct str *names, *values;
    size_t n_names, cap_names, n_values, cap_values;
};

struct http_server {
    struct loop *loop;
    struct http_config config;
    struct door *door;
    struct drain *drain;
    struct peer_table peers;
    struct http_page *pages;
    size_t n_pages;
    struct list all, due, dead;
    /* Clocks: each a list in the order of clock_since. */
    struct list reading, leaving, writing;
    struct loop_timer reading_timer, leaving_timer, writing_timer;
    size_t body_bytes;
    char *step;         /* bytes of a body on their way to its file */
    struct buf scratch; /* an answer's head, while it is made */
    struct err err;     /* the refusal that is being written: too large to be cleared for each request */
    int64_t date_since;
    char date[48];
    bool closing;
};

/* http.c */
void http_connection_due(struct http_connection *connection);
void http_connection_clock(struct http_connection *connection, struct list *clock); /* NULL: none */
void http_connection_watch(struct http_connection *connection);                     /* for what its wire wants now */
void http_connection_close(struct http_connection *connection);
/* http_connection_lose: the client is gone. Calls `gone` if the caller has set it; else the caller still owes its
 * answer. */
void http_connection_lose(struct http_connection *connection);
void http_request_gone(struct http_connection *connection); /* tells a caller that owes an answer, or takes a body */

/* http_read.c */
void http_connection_run(struct http_connection *connection);
void http_request_end(struct http_connection *connection); /* ready for the next one */
void http_page_give(struct http_connection *connection);
void http_body_close(struct http_request *request); /* its file, if it has one */

/* http_answer.c */
bool http_connection_flush(struct http_connection *connection); /* true: nothing waits */
void http_connection_refuse(struct http_connection *connection, const struct err *err);
void http_refusal_render(struct http_server *server, struct buf *out, const struct err *err, bool head_only);

#endif
