/* http_connection: what http.c (life of a connection) and http_answer.c (what is sent and asked) share. Private to them. */
#ifndef WEIR_IO_HTTP_CONNECTION_H
#define WEIR_IO_HTTP_CONNECTION_H

#include <microhttpd.h>

#include "base/list.h"
#include "io/http.h"
#include "io/peer.h"

enum http_phase {
    HTTP_IDLE,     /* between requests, or reading a head */
    HTTP_BODY,     /* head taken */
    HTTP_SERVING,  /* the caller owes an answer */
    HTTP_STREAM,   /* the caller owes bytes, and an end */
    HTTP_ANSWERED, /* the rest is ours */
    HTTP_DEAD      /* the client is gone, the caller knows or has been told */
};

struct http_connection {
    struct http_request request;
    struct http_server *server;
    struct MHD_Connection *mhd; /* NULL: closed, but the caller still owes an answer */
    int fd;
    enum http_phase phase;
    struct list_node all, reading, parked;
    int64_t reading_since, parked_since;
    struct loop_fd park_watch;
    bool suspended, watched, refused, peer_asked;
    char *target;
    size_t target_len;
    struct buf body;
    struct MHD_Response *response; /* ready, not queued yet */
    unsigned status;
    struct buf stream;
    size_t stream_taken;
    void (*drained)(struct http_request *);
    const char **stream_headers;
    size_t n_stream_headers, cap_stream_headers;
    struct str *names, *values;
    size_t n_names, cap_names, n_values, cap_values;
    bool params_read;
};

struct http_server {
    struct loop *loop;
    struct http_config config;
    struct MHD_Daemon *daemon;
    struct loop_fd daemon_watch;
    struct door *door;
    struct drain *drain;
    struct peer_table peers;
    struct list all, reading, parked;
    struct loop_timer reading_timer, parked_timer;
    size_t body_bytes;
    uint64_t activity; /* counts callbacks, to tell work from a library that only says it has some */
    bool kicked, running, closing;
    int64_t due; /* boot ms when the library wants to run */
};

void http_connection_free(struct http_connection *connection);
void http_connection_park(struct http_connection *connection);   /* inside the library's callbacks only */
void http_connection_unpark(struct http_connection *connection); /* nothing if it isn't parked */
void http_connection_cut(struct http_connection *connection);

/* http_answer_queue: hands a ready answer to the library; inside its access handler only. */
enum MHD_Result http_answer_queue(struct http_connection *connection);

#endif
