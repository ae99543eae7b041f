/* wire: the load generator's HTTP client: keep-alive connections on one epoll, one request outstanding on each.
 *
 * Small on purpose: on two cores the client's own cost is part of every figure. Whatever goes wrong (a connection that
 * breaks, an answer that can't be read) ends the program. */
#ifndef WEIR_BENCH_WIRE_H
#define WEIR_BENCH_WIRE_H

#include <netinet/in.h>

#include "base/buf.h"

enum { WIRE_ADDRESSES_MAX = 8 };

struct wire {
    int epoll_fd;
    struct sockaddr_in addresses[WIRE_ADDRESSES_MAX];
    size_t n_addresses, next; /* of the next connection: they go round */
    char host[32];            /* the first one: what every request says */
    bool stop;                /* set by a callback: wire_run returns */
};

struct wire_conn {
    struct wire *wire;
    int fd;
    bool busy; /* a request is on its way */
    int64_t sent_ns;
    struct buf in, out, body;
    size_t n_sent;
    size_t n_head, n_body; /* of the answer, once its headers are whole; n_head 0: not yet */
    int status;
    bool chunked;
    /* body is good until the callback returns; the callback may send the next request. */
    void (*answered)(struct wire_conn *conn, int status, struct str body);
    void *owner;
    int64_t number; /* the owner's */
};

void wire_open(struct wire *wire, const char *urls); /* http://A.B.C.D:PORT, or several with commas between */
void wire_close(struct wire *wire);
void wire_connect(struct wire *wire, struct wire_conn *conn);
void wire_hang_up(struct wire_conn *conn);
/* wire_format: a whole request; GET has no body. */
void wire_format(struct wire *wire, struct buf *out, const char *method, const char *path, struct str body);
void wire_send(struct wire_conn *conn, const char *method, const char *path, struct str body);
void wire_send_again(struct wire_conn *conn, struct str request); /* a request formatted before */
void wire_run(struct wire *wire, int64_t until_ns);               /* until then, or until stop is set */

#endif
