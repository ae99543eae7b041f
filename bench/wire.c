/* wire: see wire.h. */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { BYTES_MAX = 256 << 20, READ_BYTES = 64 << 10, EVENTS = 128 };

static struct sockaddr_in address_read(const char *url, char *host, size_t size)
{
    unsigned a, b, c, d, port;
    if (sscanf(url, "http://%3u.%3u.%3u.%3u:%5u", &a, &b, &c, &d, &port) != 5 || port > 65535) {
        bench_die("'%s' isn't http://A.B.C.D:PORT", url);
    }
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(a << 24 | b << 16 | c << 8 | d);
    snprintf(host, size, "%u.%u.%u.%u:%u", a, b, c, d, port);
    return address;
}

void wire_open(struct wire *wire, const char *urls)
{
    *wire = (struct wire){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
    for (const char *at = urls; at; at = strchr(at, ',')) {
        char host[sizeof wire->host];
        at += *at == ',';
        if (wire->n_addresses == WIRE_ADDRESSES_MAX) {
            bench_die("at most %d servers", WIRE_ADDRESSES_MAX);
        }
        wire->addresses[wire->n_addresses] = address_read(at, host, sizeof host);
        if (!wire->n_addresses++) {
            snprintf(wire->host, sizeof wire->host, "%s", host);
        }
    }
}

void wire_close(struct wire *wire)
{
    close(wire->epoll_fd);
}

void wire_connect(struct wire *wire, struct wire_conn *conn)
{
    int on = 1;
    const struct sockaddr_in *address = &wire->addresses[wire->next++ % wire->n_addresses];
    conn->wire = wire;
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0 || connect(conn->fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        bench_die("connecting to %s: %s", wire->host, strerror(errno));
    }
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    buf_init(&conn->in, BYTES_MAX);
    buf_init(&conn->out, BYTES_MAX);
    buf_init(&conn->body, BYTES_MAX);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };
    epoll_ctl(wire->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event);
}

void wire_hang_up(struct wire_conn *conn)
{
    close(conn->fd);
    buf_release(&conn->in);
    buf_release(&conn->out);
    buf_release(&conn->body);
}

void wire_format(struct wire *wire, struct buf *out, const char *method, const char *path, struct str body)
{
    buf_addf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, wire->host);
    if (strcmp(method, "GET") != 0) {
        buf_addf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.len);
    }
    buf_add_z(out, "\r\n");
    buf_add_str(out, body);
}

/* The kernel takes a small request whole; for a large one it says when it has room again. */
static void conn_flush(struct wire_conn *conn)
{
    while (conn->n_sent < conn->out.len) {
        ssize_t n =
            send(conn->fd, conn->out.ptr + conn->n_sent, conn->out.len - conn->n_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            bench_die("sending: %s", strerror(errno));
        }
        conn->n_sent += (size_t)n;
    }
}

static void conn_watch(struct wire_conn *conn, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = conn };
    epoll_ctl(conn->wire->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
}

static void conn_start(struct wire_conn *conn)
{
    if (conn->busy) {
        bench_die("two requests on one connection");
    }
    conn->busy = true;
    conn->n_sent = conn->n_head = 0;
    conn->sent_ns = bench_now_ns();
    conn_flush(conn);
    if (conn->n_sent < conn->out.len) {
        conn_watch(conn, EPOLLIN | EPOLLOUT);
    }
}

void wire_send(struct wire_conn *conn, const char *method, const char *path, struct str body)
{
    buf_reset(&conn->out);
    wire_format(conn->wire, &conn->out, method, path, body);
    conn_start(conn);
}

void wire_send_again(struct wire_conn *conn, struct str request)
{
    buf_reset(&conn->out);
    buf_add_str(&conn->out, request);
    conn_start(conn);
}

static void conn_read_head(struct wire_conn *conn)
{
    const char *start = conn->in.ptr;
    const char *end = memmem(start, conn->in.len, "\r\n\r\n", 4);
    if (!end) {
        return;
    }
    if (conn->in.len < 12 || strncmp(start, "HTTP/1.", 7) != 0) {
        bench_die("not an HTTP answer: %.40s", start);
    }
    conn->status = (int)strtol(start + 9, NULL, 10);
    conn->n_head = (size_t)(end - start) + 4;
    conn->n_body = 0;
    conn->chunked = false;
    for (const char *line = start; line < end; line++) {
        if (!strncasecmp(line, "content-length:", 15)) {
            conn->n_body = strtoul(line + 15, NULL, 10);
        } else if (!strncasecmp(line, "transfer-encoding: chunked", 26)) {
            conn->chunked = true;
        }
        line = memchr(line, '\n', (size_t)(end + 2 - line));
        if (!line) {
            break;
        }
    }
}

/* Puts the chunks together; false: the last one isn't there yet. */
static bool conn_join_chunks(struct wire_conn *conn)
{
    if (conn->in.len < conn->n_head + 5 || memcmp(conn->in.ptr + conn->in.len - 5, "0\r\n\r\n", 5) != 0) {
        return false;
    }
    buf_reset(&conn->body);
    struct str rest = str_sub(buf_str(&conn->in), conn->n_head, conn->in.len);
    for (;;) {
        ptrdiff_t line = str_index(rest, '\n');
        size_t n = line > 0 ? strtoul(rest.ptr, NULL, 16) : 0;
        if (n == 0) {
            return true;
        }
        if ((size_t)line + 1 + n + 2 > rest.len) {
            return false;
        }
        buf_add(&conn->body, rest.ptr + line + 1, n);
        rest = str_sub(rest, (size_t)line + 1 + n + 2, rest.len);
    }
}

static void conn_read(struct wire_conn *conn)
{
    char *room = buf_reserve(&conn->in, READ_BYTES);
    ssize_t n = room ? recv(conn->fd, room, READ_BYTES, MSG_DONTWAIT) : -1;
    if (n < 0 && room && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        bench_die("the server hung up (%s)", n == 0 ? "end" : strerror(errno));
    }
    buf_commit(&conn->in, (size_t)n);
    if (!conn->n_head) {
        conn_read_head(conn);
    }
    if (!conn->n_head || (!conn->chunked && conn->in.len < conn->n_head + conn->n_body) ||
        (conn->chunked && !conn_join_chunks(conn))) {
        return;
    }
    struct str body = conn->chunked ? buf_str(&conn->body) : (struct str){ conn->in.ptr + conn->n_head, conn->n_body };
    int status = conn->status;
    conn->busy = false;
    conn->n_head = 0;
    conn->answered(conn, status, body);
    buf_reset(&conn->in);
}

void wire_run(struct wire *wire, int64_t until_ns)
{
    struct epoll_event events[EVENTS];
    while (!wire->stop) {
        int64_t left = until_ns - bench_now_ns();
        if (left <= 0) {
            return;
        }
        int n = epoll_wait(wire->epoll_fd, events, EVENTS, (int)(left / 1000000) + 1);
        for (int i = 0; i < n; i++) {
            struct wire_conn *conn = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) {
                conn_flush(conn);
                if (conn->n_sent == conn->out.len) {
                    conn_watch(conn, EPOLLIN);
                }
            }
            if (events[i].events & ~(uint32_t)EPOLLOUT) {
                conn_read(conn);
            }
        }
    }
}
