/* bed: a small HTTP server on a thread of its own, and raw sockets to attack it with. Times are deadlines, nothing
 * sleeps a fixed time. */
#ifndef WEIR_TEST_IO_BED_H
#define WEIR_TEST_IO_BED_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "io/http.h"

enum { BED_BODY_MAX = 100 * 1000, BED_HELD_MAX = 4096, BED_FILE_MAX = 256 << 20 };

struct bed {
    struct loop *loop;
    struct http_server *server;
    pthread_t thread;
    bool running;
    char url[128], folder[64], socket_path[100];
    uint16_t port;
    atomic_uint served, gone, drained, parked;
    atomic_bool stop, release, say, finish;
    struct http_request *held[BED_HELD_MAX];
    size_t n_held;
};

/*
 * /hello           "hello"
 * /echo            the body, with X-Method and X-Host
 * /target          "path|query|x", x decoded
 * /peer            "local loopback uid"
 * /large?n=N       N bytes
 * /park            answered "released" by bed_release; counts gone
 * /deaf            like /park, but without a gone callback
 * /lines?n=N       a stream of N lines that ends
 * /flood?n=N       a stream of N blocks of 64 KiB, a block when the one before is drained
 * /follow          a stream: "tick\n" for each bed_say, ended by bed_finish
 * /store           its body goes to a file: "BYTES SUM", and up to BED_FILE_MAX bytes are taken
 * /store?refused   refused before the body is read
 * /store?full      the file system is full
 * /burst?n=N       like /follow, with N blocks of 64 KiB at once
 */
/* which is also the time to read an answer */
void bed_open(struct bed *bed, unsigned connections_max, unsigned idle_timeout_s);
void bed_open_tls(struct bed *bed, unsigned connections_max, unsigned idle_timeout_s, struct tls *tls);
void bed_run(struct bed *bed); /* on its thread */
void bed_close(struct bed *bed);
void bed_release(struct bed *bed);
void bed_say(struct bed *bed);
void bed_finish(struct bed *bed);
bool bed_wait(atomic_uint *counter, unsigned at_least); /* false after 10 s */

int64_t now_ms(void);
int raw_connect(uint16_t port);
int raw_connect_unix(const char *path);
void raw_send(int fd, const void *bytes, size_t len); /* as much as the other side takes */
#define RAW_SEND(fd, literal) raw_send((fd), (literal), sizeof(literal) - 1)

/* raw_read_all: until the other side closes, at most 10 s; NUL-terminated. *out_closed says whether it did. */
size_t raw_read_all(int fd, char *out, size_t size, bool *out_closed);
/* raw_read_until: until `mark` was seen. */
bool raw_read_until(int fd, char *out, size_t size, const char *mark);
size_t count_fds(void);
size_t count_of(const char *text, const char *what);

#endif
