/* What bad clients send, and what they get: RELIABILITY.md 3.5, rows 1, 2, 4, 5, 7, 8, 12, 13, 14, 16. After each attack the server
 * still answers. */
#include "bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct bed bed;

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

static void still_answers(void)
{
    char answer[2048];
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(fd, answer, sizeof answer, "hello"));
    close(fd);
}

/* attack: sends it, reads until the server closes; the whole answer is in `answer`. */
static char answer[1 << 16];
static bool closed;
static void attack(const void *bytes, size_t len)
{
    int fd = raw_connect(bed.port);
    raw_send(fd, bytes, len);
    raw_read_all(fd, answer, sizeof answer, &closed);
    close(fd);
}
#define ATTACK(literal) attack((literal), sizeof(literal) - 1)

static void refused(const char *status, const char *code)
{
    char start[32], quoted[64];
    snprintf(start, sizeof start, "HTTP/1.1 %s ", status);
    snprintf(quoted, sizeof quoted, "\"code\":\"%s\"", code);
    bool right = strncmp(answer, start, strlen(start)) == 0 && strstr(answer, "Content-Type: application/problem+json") &&
                 strstr(answer, "{\"type\":\"about:blank\",\"title\":\"") && strstr(answer, quoted) && count_of(answer, "HTTP/1.1 ") == 1;
    if (!right || !closed)
        fail_msg("wanted %s %s and a close, got (closed %d): %s", status, code, closed, answer);
    still_answers();
}

static void two_framings(void **state)
{
    (void)state;
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
           "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello");
    refused("400", "bad_request");
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\ncontent-length: 6\r\n\r\nhello!");
    refused("400", "bad_request");
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("POST /echo HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    refused("400", "bad_request");
}

static void broken_headers(void **state)
{
    (void)state;
    ATTACK("GET /hello HTTP/1.1\r\nHost: x\r\nFoo : bar\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /hello HTTP/1.1\r\nHost: x\r\nFo\to: bar\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /hello HTTP/1.1\r\nHost: x\r\nFoo: ba\rr\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /hel\0lo HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("G(T /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
}

/* What only libmicrohttpd sees: its strictest answer, never two answers and never a crash. */
static void library_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
#define ROW(literal) { literal, sizeof(literal) - 1 }
        ROW("GET /hello HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n"),
        ROW("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\nhello"),
        ROW("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\nhello"),
        ROW("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5x\r\n\r\nhello"),
        ROW("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
        ROW("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"),
        ROW("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n12345678123456781\r\nhello\r\n0\r\n\r\n"),
        ROW("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n"),
        ROW("GET /hello HTTP/0.9\r\nHost: x\r\n\r\n"),
        ROW("GET /hello\r\n\r\n"),
        ROW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ROW("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x01\x02\x03\n\n"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned before = atomic_load(&bed.served);
        attack(rows[i].bytes, rows[i].len);
        /* 0.9.75 writes the head of its own refusal of a Content-Length twice; its length and the close make it one answer still. */
        size_t heads = strstr(rows[i].bytes, "Content-Length") ? 2 : 1;
        bool refusal = strncmp(answer, "HTTP/1.1 4", 10) == 0 || strncmp(answer, "HTTP/1.1 505", 12) == 0;
        if (!closed || count_of(answer, "HTTP/1.1 ") > heads || (*answer && !refusal))
            fail_msg("row %zu (closed %d): %s", i, closed, answer);
        assert_int_equal(atomic_load(&bed.served), before);
        still_answers();
    }
}

/* Folding, bare line feeds, an empty name and NUL in a value are read by 0.9.75: one request in, one answer out. */
static void lenient_but_single(void **state)
{
    (void)state;
    ATTACK("GET /hello HTTP/1.1\r\nHost: x\r\nFoo: a\r\n b\r\nConnection: close\r\n\r\n");
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 "), 1);
    ATTACK("GET /hello HTTP/1.1\nHost: x\nConnection: close\n\n");
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 "), 1);
    ATTACK("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n: nameless\r\n\r\n");
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 "), 1);
    ATTACK("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nFoo: ba\0r\r\n\r\n");
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 "), 1);
    still_answers();
}

static void endless_chunk_line(void **state)
{
    (void)state;
    size_t len = 1 << 20;
    char *bytes = malloc(len);
    memset(bytes, 'e', len);
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;";
    memcpy(bytes, head, sizeof head - 1);
    int fd = raw_connect(bed.port);
    send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* It stalls in the library's buffer; others are served meanwhile, and it is cut when its time is over. */
    still_answers();
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_true(closed);
    assert_true(count_of(answer, "HTTP/1.1 ") <= 1);
    close(fd);
    free(bytes);
    still_answers();
}

static void too_large(void **state)
{
    (void)state;
    static char bytes[200 * 1024];
    int n = snprintf(bytes, sizeof bytes, "GET /");
    memset(bytes + n, 'a', 16 * 1024);
    size_t len = (size_t)n + 16 * 1024;
    len += (size_t)snprintf(bytes + len, sizeof bytes - len, " HTTP/1.1\r\nHost: x\r\n\r\n");
    attack(bytes, len);
    refused("414", "uri_too_long");

    len = (size_t)snprintf(bytes, sizeof bytes, "GET /hello HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 100; i++)
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, "X-%d: y\r\n", i);
    len += (size_t)snprintf(bytes + len, sizeof bytes - len, "\r\n");
    attack(bytes, len);
    refused("431", "headers_too_large");

    len = (size_t)snprintf(bytes, sizeof bytes, "GET /hello HTTP/1.1\r\nHost: x\r\nX-Long: ");
    memset(bytes + len, 'a', 64 * 1024 + 1);
    len += 64 * 1024 + 1;
    len += (size_t)snprintf(bytes + len, sizeof bytes - len, "\r\n\r\n");
    attack(bytes, len);
    assert_true(closed);
    assert_memory_equal(answer, "HTTP/1.1 431 ", 13);

    len = (size_t)snprintf(bytes, sizeof bytes, "GET /");
    memset(bytes + len, 'a', 128 * 1024);
    len += 128 * 1024;
    attack(bytes, len);
    assert_true(closed);
    assert_memory_equal(answer, "HTTP/1.1 414 ", 13);
    still_answers();
}

static void largest_that_fits(void **state)
{
    (void)state;
    static char bytes[40 * 1024];
    size_t len = (size_t)snprintf(bytes, sizeof bytes, "GET /hello?");
    memset(bytes + len, 'q', 12 * 1024);
    len += 12 * 1024;
    len += (size_t)snprintf(bytes + len, sizeof bytes - len, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    for (int i = 0; i < 98; i++)
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, "X-%d: y\r\n", i);
    len += (size_t)snprintf(bytes + len, sizeof bytes - len, "\r\n");
    attack(bytes, len);
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
}

static void body_limits(void **state)
{
    (void)state;
    unsigned before = atomic_load(&bed.served);
    /* Declared: refused before a byte of it comes. */
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n");
    refused("413", "body_too_large");
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\nExpect: 100-continue\r\n\r\n");
    refused("413", "body_too_large");
    ATTACK("POST /nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
    refused("413", "body_too_large");
    /* Declared, and sent all the same by a client that only reads afterwards: it still gets to know. */
    size_t len = 8 << 20;
    char *bytes = malloc(len);
    memset(bytes, 'x', len);
    int n = snprintf(bytes, 200, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", len);
    bytes[n] = 'x';
    attack(bytes, len);
    refused("413", "body_too_large");
    /* Not declared. */
    n = snprintf(bytes, 200, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7a1200\r\n");
    bytes[n] = 'x';
    attack(bytes, len);
    refused("413", "body_too_large");
    free(bytes);
    ATTACK("HEAD /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n");
    assert_memory_equal(answer, "HTTP/1.1 413 ", 13);
    assert_null(strstr(answer, "{"));
    assert_int_equal(atomic_load(&bed.served) - before, 5); /* still_answers only */
}

static void body_at_the_limit(void **state)
{
    (void)state;
    static char bytes[BED_BODY_MAX + 200], got[BED_BODY_MAX + 1000];
    static const char format[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n";
    int head = snprintf(bytes, sizeof bytes, format, BED_BODY_MAX);
    memset(bytes + head, 'y', BED_BODY_MAX);
    int fd = raw_connect(bed.port);
    raw_send(fd, bytes, (size_t)head + BED_BODY_MAX);
    raw_read_all(fd, got, sizeof got, &closed);
    close(fd);
    assert_memory_equal(got, "HTTP/1.1 200 ", 13);
    const char *body = strstr(got, "\r\n\r\n") + 4;
    assert_int_equal(strlen(body), BED_BODY_MAX);
    assert_memory_equal(body, bytes + head, BED_BODY_MAX);
}

static void paths(void **state)
{
    (void)state;
    ATTACK("GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a/%2e%2e/b HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a%2f..%2fb HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a?x=%00 HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a%zz HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a% HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a\\b HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a%5cb HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a%0ab HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET http://evil/hello HTTP/1.1\r\nHost: x\r\n\r\n");
    refused("400", "bad_request");
    /* Encoded twice is decoded once; two slashes are nobody's path. */
    ATTACK("GET /%252e%252e/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_memory_equal(answer, "HTTP/1.1 404 ", 13);
    assert_non_null(strstr(answer, "/%2e%2e/x"));
    ATTACK("GET //hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_memory_equal(answer, "HTTP/1.1 404 ", 13);
}

static void hosts_and_encodings(void **state)
{
    (void)state;
    ATTACK("GET /hello HTTP/1.1\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    refused("400", "bad_request");
    ATTACK("GET /hello HTTP/1.0\r\n\r\n");
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello");
    refused("415", "unsupported_media");
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: identity\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
    /* The method is the caller's business, the trailer nobody's. */
    ATTACK("BREW /echo HTTP/1.1\r\nHost: foreign.example\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(answer, "X-Method: BREW\r\n"));
    assert_non_null(strstr(answer, "X-Host: foreign.example\r\n"));
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
           "3\r\nabc\r\n0\r\nHost: trailer\r\n\r\n");
    assert_non_null(strstr(answer, "X-Host: x\r\n"));
    assert_non_null(strstr(answer, "\r\n\r\nabc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_framings),      cmocka_unit_test(broken_headers),     cmocka_unit_test(library_refusals),
        cmocka_unit_test(lenient_but_single), cmocka_unit_test(endless_chunk_line), cmocka_unit_test(too_large),
        cmocka_unit_test(largest_that_fits), cmocka_unit_test(body_limits),        cmocka_unit_test(body_at_the_limit),
        cmocka_unit_test(paths),             cmocka_unit_test(hosts_and_encodings),
    };
    return cmocka_run_group_tests_name("io-http-attack", tests, open_bed, close_bed);
}
