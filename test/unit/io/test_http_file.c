/* Bodies that go to a file as they come: of any length, whole, in little memory; refused before they are read. */
#include "bed.h"

#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct bed bed;
static char answer[1 << 16];
static bool closed;

static int open_bed(void **state)
{
    (void)state;
    bed_open(&bed, 0, 5);
    bed_run(&bed);
    return 0;
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&bed);
    return 0;
}

/* The bytes of a body, by their place; and what the server answers to n of them. */
static char byte_at(uint64_t i)
{
    return (char)(i * 7 + i / 251);
}

static const char *expected(uint64_t n)
{
    static char text[64];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)byte_at(i);
    snprintf(text, sizeof text, "\r\n\r\n%llu %llu", (unsigned long long)n, (unsigned long long)sum);
    return text;
}

static void body_send(int fd, uint64_t n, bool chunked)
{
    static char piece[60000];
    for (uint64_t at = 0; at < n;) {
        size_t len = n - at < sizeof piece ? (size_t)(n - at) : sizeof piece;
        char head[32];
        for (size_t i = 0; i < len; i++)
            piece[i] = byte_at(at + i);
        int head_len = snprintf(head, sizeof head, "%zx\r\n", len);
        if (chunked)
            raw_send(fd, head, (size_t)head_len);
        raw_send(fd, piece, len);
        if (chunked)
            RAW_SEND(fd, "\r\n");
        at += len;
    }
    if (chunked)
        RAW_SEND(fd, "0\r\n\r\n");
}

static void post(int fd, const char *target, uint64_t n, bool chunked)
{
    char head[256];
    int len = chunked ? snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                            target)
                      : snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %llu\r\n\r\n",
                            target, (unsigned long long)n);
    raw_send(fd, head, (size_t)len);
}

/* Sizes around those of the page and of a step, both framings, and the next request on the same connection. */
static void comes_whole(void **state)
{
    (void)state;
    static const uint64_t sizes[] = { 1, 5, 16000, 16384, 100001, 262144, 262145, 3000000 };
    int fd = raw_connect(bed.port);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int chunked = 0; chunked < 2; chunked++) {
            post(fd, "/store", sizes[i], chunked);
            body_send(fd, sizes[i], chunked);
            assert_true(raw_read_until(fd, answer, sizeof answer, expected(sizes[i])));
        }
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_true(closed && strstr(answer, "hello"));
    close(fd);
}

/* A body that came together with its head, and the head of the next request behind it. */
static void comes_with_its_head(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "POST /store HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                 "POST /store HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n"
                 "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nfg");
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
    assert_int_equal(count_of(answer, "HTTP/1.1 200 "), 3);
    assert_non_null(strstr(answer, "\r\n\r\n3 96354")); /* 97 * 31^2 + 98 * 31 + 99 */
    assert_non_null(strstr(answer, "\r\n\r\nfg"));
}

/* 128 MiB cost no memory: the kernel's peak of this process, whose sender holds one piece. */
static void costs_no_memory(void **state)
{
    (void)state;
    struct rusage before, after;
    enum { LARGE = 128 << 20 };
    getrusage(RUSAGE_SELF, &before);
    int fd = raw_connect(bed.port);
    post(fd, "/store", LARGE, false);
    body_send(fd, LARGE, false);
    assert_true(raw_read_until(fd, answer, sizeof answer, expected(LARGE)));
    close(fd);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 16 * 1024);
}

static void is_refused_before_it_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        uint64_t n;
        bool chunked;
        const char *status;
    } table[] = {
        { "/store?refused", 1 << 20, false, "HTTP/1.1 403 " },
        { "/store?refused", 10, false, "HTTP/1.1 403 " },
        { "/store", (uint64_t)BED_FILE_MAX + 1, false, "HTTP/1.1 413 " },
        { "/store?full", 300000, false, "HTTP/1.1 507 " },
        { "/store?full", 300000, true, "HTTP/1.1 507 " },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int fd = raw_connect(bed.port);
        post(fd, table[i].target, table[i].n, table[i].chunked);
        body_send(fd, table[i].n < 300000 ? table[i].n : 300000, table[i].chunked);
        raw_read_all(fd, answer, sizeof answer, &closed);
        close(fd);
        assert_int_equal(strncmp(answer, table[i].status, strlen(table[i].status)), 0);
        assert_int_equal(count_of(answer, "HTTP/1.1 "), 1);
    }
}

/* A client that goes away in the middle leaves no descriptor behind; nor does one that is answered. */
static void leaves_no_descriptor(void **state)
{
    (void)state;
    int hello = raw_connect(bed.port);
    RAW_SEND(hello, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(hello, answer, sizeof answer, "hello"));
    size_t before = count_fds();
    for (int i = 0; i < 20; i++) {
        int fd = raw_connect(bed.port);
        post(fd, "/store", 100000, i % 2);
        body_send(fd, i % 4 ? 5000 : 100000, false);
        close(fd);
    }
    int64_t deadline = now_ms() + 10000;
    while (count_fds() > before && now_ms() < deadline) {
        RAW_SEND(hello, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_true(raw_read_until(hello, answer, sizeof answer, "hello"));
    }
    assert_int_equal(count_fds(), before);
    close(hello);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_whole, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(comes_with_its_head, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(costs_no_memory, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(is_refused_before_it_is_read, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(leaves_no_descriptor, open_bed, close_bed),
    };
    return cmocka_run_group_tests_name("io-http-file", tests, NULL, NULL);
}
