/* How bytes come and go: in pieces, many requests in one, half-closed, stalled, too fast and too slow. */
#include "bed.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct bed bed;
static char answer[1 << 20];
static bool closed;

static int open_bed(void **state)
{
    (void)state;
    bed_open(&bed, 0, 0);
    bed_run(&bed);
    return 0;
}

static int open_hasty_bed(void **state)
{
    (void)state;
    bed_open(&bed, 0, 1);
    bed_run(&bed);
    return 0;
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&bed);
    return 0;
}

/* Every byte in a packet of its own, three requests of each kind. */
static void comes_byte_by_byte(void **state)
{
    (void)state;
    static const char text[] =
        "\r\nPOST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nfg\r\n1\r\nh\r\n0\r\nA: b\r\n\r\n"
        "GET /target?x=%41 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fd = raw_connect(bed.port), on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (size_t i = 0; i + 1 < sizeof text; i++)
        raw_send(fd, text + i, 1);
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 200 "), 3);
    const char *first = strstr(answer, "\r\n\r\nabcde"), *second = strstr(answer, "\r\n\r\nfgh"),
               *third = strstr(answer, "/target|x=%41|A");
    assert_true(first && second && third && first < second && second < third);
}

/* A thousand requests in one go, bodies of all kinds between them: a thousand answers in order, nothing lost, nothing
 * twice. */
static void pipelines(void **state)
{
    (void)state;
    enum { N = 1000 };
    static char bytes[N * 200];
    size_t len = 0;
    for (int i = 0; i < N; i++) {
        char body[32];
        int n = snprintf(body, sizeof body, "<%d>", i);
        char *to = bytes + len;
        size_t room = sizeof bytes - len;
        if (i % 3 == 0)
            n = snprintf(to, room, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", n, body);
        else if (i % 3 == 1)
            n = snprintf(to, room,
                "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
                (unsigned)n, body);
        else
            n = snprintf(to, room, "GET /target?x=%s HTTP/1.1\r\nHost: x\r\n\r\n", body);
        len += (size_t)n;
    }
    len += (size_t)snprintf(
        bytes + len, sizeof bytes - len, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    int fd = raw_connect(bed.port);
    raw_send(fd, bytes, len);
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 200 "), N + 1);
    const char *at = answer;
    for (int i = 0; i < N; i++) {
        char body[32];
        snprintf(body, sizeof body, "<%d>", i);
        at = strstr(at, body);
        assert_non_null(at);
    }
    assert_non_null(strstr(at, "\r\n\r\nhello"));
}

/* A body that leaves the page, and the next request right behind its last byte. */
static void large_bodies_and_what_follows(void **state)
{
    (void)state;
    static char bytes[3 * BED_BODY_MAX];
    for (int chunked = 0; chunked < 2; chunked++) {
        size_t len = (size_t)snprintf(bytes, sizeof bytes, "POST /echo HTTP/1.1\r\nHost: x\r\n");
        if (!chunked)
            len += (size_t)snprintf(bytes + len, sizeof bytes - len, "Content-Length: %d\r\n\r\n", BED_BODY_MAX);
        else
            len += (size_t)snprintf(bytes + len, sizeof bytes - len, "Transfer-Encoding: chunked\r\n\r\n");
        for (int left = BED_BODY_MAX, n; left > 0; left -= n) {
            n = !chunked || left < 777 ? left : 777;
            if (chunked)
                len += (size_t)snprintf(bytes + len, sizeof bytes - len, "%x\r\n", (unsigned)n);
            memset(bytes + len, 'z', (size_t)n);
            len += (size_t)n;
            if (chunked)
                len += (size_t)snprintf(bytes + len, sizeof bytes - len, "\r\n");
        }
        if (chunked)
            len += (size_t)snprintf(bytes + len, sizeof bytes - len, "0\r\n\r\n");
        len += (size_t)snprintf(
            bytes + len, sizeof bytes - len, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        int fd = raw_connect(bed.port);
        raw_send(fd, bytes, len);
        raw_read_all(fd, answer, sizeof answer, &closed);
        close(fd);
        assert_int_equal(count_of(answer, "HTTP/1.1 200 "), 2);
        assert_int_equal(strspn(strstr(answer, "\r\n\r\n") + 4, "z"), BED_BODY_MAX);
        assert_non_null(strstr(answer, "\r\n\r\nhello"));
    }
}

/* Who has said all and waits for the answer gets it, if it comes at once; who waits longer counts as gone. */
static void half_closes(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /target HTTP/1.1\r\nHost: x\r\n\r\n");
    shutdown(fd, SHUT_WR);
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 200 "), 2);

    unsigned parked = atomic_load(&bed.parked), gone = atomic_load(&bed.gone);
    fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    shutdown(fd, SHUT_WR);
    assert_true(bed_wait(&bed.parked, parked + 1));
    assert_true(bed_wait(&bed.gone, gone + 1));
    assert_int_equal(raw_read_all(fd, answer, sizeof answer, &closed), 0);
    assert_true(closed);
    close(fd);
    /* Without a callback for it, it is answered all the same. */
    fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /deaf HTTP/1.1\r\nHost: x\r\n\r\n");
    shutdown(fd, SHUT_WR);
    assert_true(bed_wait(&bed.parked, parked + 2));
    bed_release(&bed);
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_non_null(strstr(answer, "\r\n\r\nreleased"));
}

/* A reset is noticed at once; what its caller answers later goes nowhere. */
static void resets(void **state)
{
    (void)state;
    unsigned parked = atomic_load(&bed.parked), gone = atomic_load(&bed.gone);
    static const char *const requests[] = {
        "GET /park HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /deaf HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /follow HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    for (unsigned i = 0; i < 3; i++) {
        int fd = raw_connect(bed.port);
        raw_send(fd, requests[i], strlen(requests[i]));
        assert_true(bed_wait(&bed.parked, parked + i + 1));
        struct linger reset = { .l_onoff = 1 };
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    assert_true(bed_wait(&bed.gone, gone + 2));
    bed_release(&bed);
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_non_null(strstr(answer, "hello"));
}

/* An answer that waits for a client that was gone before it was read, while its next request is still served: nobody
 * tries for ever. */
static void gone_with_answers_waiting(void **state)
{
    (void)state;
    bed_open(&bed, 0, 0);
    for (int i = 0; i < 4; i++) {
        int fd = i % 2 ? raw_connect(bed.port) : raw_connect_unix(bed.socket_path);
        struct linger reset = { .l_onoff = 1 };
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /deaf HTTP/1.1\r\nHost: x\r\n\r\n");
        close(fd);
    }
    bed_run(&bed); /* now only */
    assert_true(bed_wait(&bed.parked, 2));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    poll(NULL, 0, 300);
    getrusage(RUSAGE_SELF, &after);
    long used_ms = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000 +
                   (after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1000;
    assert_true(used_ms < 30);
    bed_release(&bed);
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_non_null(strstr(answer, "hello"));
    bed_close(&bed);
}

/* HEAD of a stream that never ends: its head, and the end. */
static void head_of_a_stream(void **state)
{
    (void)state;
    unsigned gone = atomic_load(&bed.gone);
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "HEAD /follow HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_true(closed);
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
    assert_true(strcmp(strstr(answer, "\r\n\r\n"), "\r\n\r\n") == 0);
    assert_true(bed_wait(&bed.gone, gone + 1));
}

/* What is sent while a request is served waits, and isn't read ahead without end. */
static void waits_while_serving(void **state)
{
    (void)state;
    unsigned parked = atomic_load(&bed.parked), served = atomic_load(&bed.served);
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, parked + 1));
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\nBROKEN");
    int other = raw_connect(bed.port);
    RAW_SEND(other, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(other, answer, sizeof answer, "hello"));
    close(other);
    assert_int_equal(atomic_load(&bed.served), served + 2);
    bed_release(&bed);
    shutdown(fd, SHUT_WR);
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_true(closed);
    const char *first = strstr(answer, "released"), *second = strstr(answer, "hello"),
               *third = strstr(answer, "HTTP/1.1 400 ");
    assert_true(first && second && third && first < second && second < third);
}

/* A stream's publisher that doesn't care is cut before it fills the memory. */
static void bursts(void **state)
{
    (void)state;
    unsigned gone = atomic_load(&bed.gone);
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /burst?n=2000 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.gone, gone + 1));
    close(fd);
}

/* Longer than the idle time, but not too slow: 60 KiB/s. */
static void slow_bodies_are_taken(void **state)
{
    (void)state;
    static const char piece[6000] = { 'p' };
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 96000\r\nConnection: close\r\n\r\n");
    for (int i = 0; i < 16; i++) {
        raw_send(fd, piece, sizeof piece);
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        assert_true(poll(&wait, 1, i < 15 ? 100 : 0) == 0 || i == 15);
    }
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
}

/* Who asks and doesn't read is cut; the rest of the answer isn't kept for ever. */
static void stalled_readers_are_cut(void **state)
{
    (void)state;
    size_t before = count_fds();
    unsigned served = atomic_load(&bed.served);
    int fds[10];
    for (int i = 0; i < 10; i++) {
        fds[i] = raw_connect(bed.port);
        RAW_SEND(fds[i], "GET /large?n=20000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    assert_true(bed_wait(&bed.served, served + 10));
    int64_t deadline = now_ms() + 10000;
    while (count_fds() > before + 10 && now_ms() < deadline)
        poll(NULL, 0, 5); /* the server's ends go */
    assert_true(count_fds() <= before + 10);
    for (int i = 0; i < 10; i++)
        close(fds[i]);
}

/* The same with a stream that goes on: what is added meanwhile is no sign of life. */
static void stalled_streams_are_cut(void **state)
{
    (void)state;
    unsigned gone = atomic_load(&bed.gone), parked = atomic_load(&bed.parked);
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /burst?n=300 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, parked + 1));
    int64_t deadline = now_ms() + 10000;
    while (atomic_load(&bed.gone) == gone && now_ms() < deadline) {
        bed_say(&bed);
        poll(NULL, 0, 20);
    }
    assert_int_equal(atomic_load(&bed.gone), gone + 1);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest patient[] = {
        cmocka_unit_test(comes_byte_by_byte),
        cmocka_unit_test(pipelines),
        cmocka_unit_test(large_bodies_and_what_follows),
        cmocka_unit_test(half_closes),
        cmocka_unit_test(resets),
        cmocka_unit_test(head_of_a_stream),
        cmocka_unit_test(waits_while_serving),
        cmocka_unit_test(bursts),
    };
    const struct CMUnitTest hasty[] = {
        cmocka_unit_test(slow_bodies_are_taken),
        cmocka_unit_test(stalled_readers_are_cut),
        cmocka_unit_test(stalled_streams_are_cut),
    };
    const struct CMUnitTest own[] = { cmocka_unit_test(gone_with_answers_waiting) };
    return cmocka_run_group_tests_name("io-http-bytes", patient, open_bed, close_bed) +
           cmocka_run_group_tests_name("io-http-bytes-hasty", hasty, open_hasty_bed, close_bed) +
           cmocka_run_group_tests_name("io-http-bytes-own", own, NULL, NULL);
}
