/* What bad clients send, and what they get: RELIABILITY.md 3.5, rows 1, 2, 4, 5, 7, 8, 12, 13, 14, 16. After each
 * attack the server still answers. */
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
    bool right = strncmp(answer, start, strlen(start)) == 0 &&
                 strstr(answer, "Content-Type: application/problem+json") &&
                 strstr(answer, "{\"type\":\"about:blank\",\"title\":\"") && strstr(answer, quoted) &&
                 count_of(answer, "HTTP/1.1 ") == 1;
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
    ATTACK(
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n");
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

/* Each gets one answer of ours, and nothing behind the fault is read: what follows every row is a good request that is
 * never served. */
static const struct {
    const char *status, *code, *bytes;
    size_t len;
} letters[] = {
#define ROW(status, code, literal) \
    { \
        status, code, literal, sizeof(literal) - 1 \
    }
#define BAD(literal) ROW("400", "bad_request", literal)
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\nFoo\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\nFoo: a\r\n b\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\n Host: x\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\nHost: x\n\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\n\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\n: nameless\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\nFoo: ba\0r\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\nFo\0o: bar\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: x\r\nFoo: b\x7f"
        "r\r\n\r\n"),
    BAD("GET\0/hello HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("\0\0\0\0\r\n\r\n"),
    BAD("GET  /hello HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello  HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello HTTP/1.1 \r\nHost: x\r\n\r\n"),
    BAD("GET\t/hello\tHTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD(" GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello HTTP/1.1x\r\nHost: x\r\n\r\n"),
    BAD("GET /hello http/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello HTTP/1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello HTTP/11.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello HTTP/1.\xb9\r\nHost: x\r\n\r\n"),
    BAD("GET /hello HTTPS/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello\r\n\r\n"),
    BAD("GET\r\n\r\n"),
    BAD("hello\r\n\r\n"),
    BAD("SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    BAD("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x01\x02\x03"),
    BAD("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG /hello HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello#x HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET * HTTP/1.1\r\nHost: x\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: a,b\r\n\r\n"),
    BAD("GET /hello HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5x\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5 5\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5,5\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5.0\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551621\r\n\r\nhello"),
    BAD("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello"),
#define CHUNKED "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    BAD(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "-5\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "+5\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED " 5\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "5 \r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "zz\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "12345678123456781\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "0000000000000005\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "5\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "5\rhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "5\r\nhelloXX0\r\n\r\n"),
    BAD(CHUNKED "5\r\nhello\n0\r\n\r\n"),
    BAD(CHUNKED "4\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "5;a\0b\r\nhello\r\n0\r\n\r\n"),
    BAD(CHUNKED "5\r\nhello\r\n0\r\nno colon\r\n\r\n"),
    BAD(CHUNKED "5\r\nhello\r\n0\r\n folded\r\n\r\n"),
    BAD(CHUNKED "5\r\nhello\r\n0\r\nA: b\n\r\n"),
    ROW("413", "body_too_large", CHUNKED "123456789abcdef\r\nhello\r\n0\r\n\r\n"),
    ROW("413", "body_too_large", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\nhello"),
    ROW("501", "not_implemented", "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nhello"),
    ROW("501", "not_implemented",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW("501", "not_implemented",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ROW("501", "not_implemented", "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW("501", "not_implemented",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello"),
    ROW("505", "version_not_supported", "GET /hello HTTP/0.9\r\nHost: x\r\n\r\n"),
    ROW("505", "version_not_supported", "GET /hello HTTP/2.0\r\nHost: x\r\n\r\n"),
    ROW("505", "version_not_supported", "GET /hello HTTP/9.9\r\nHost: x\r\n\r\n"),
    ROW("505", "version_not_supported", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
};

static void refused_to_the_letter(void **state)
{
    (void)state;
    static const char behind[] = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
    static char bytes[1024];
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        unsigned before = atomic_load(&bed.served);
        memcpy(bytes, letters[i].bytes, letters[i].len);
        memcpy(bytes + letters[i].len, behind, sizeof behind - 1);
        attack(bytes, letters[i].len + sizeof behind - 1);
        assert_int_equal(atomic_load(&bed.served), before);
        refused(letters[i].status, letters[i].code);
        /* The same in two pieces, the second of which comes later. */
        int fd = raw_connect(bed.port);
        raw_send(fd, bytes, letters[i].len / 2);
        still_answers();
        raw_send(fd, bytes + letters[i].len / 2, letters[i].len - letters[i].len / 2);
        raw_read_all(fd, answer, sizeof answer, &closed);
        close(fd);
        refused(letters[i].status, letters[i].code);
    }
}

/* An empty line before a request, blanks around a value, a version that is newer in its second digit, capitals: all of
 * that is HTTP. */
static void taken_as_the_standard_says(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "\r\nGET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHOST:x\r\nCONNECTION: CLOSE\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: \t x \t\r\nConnection:close\r\n\r\n",
        "GET /echo HTTP/1.2\r\nHost: x\r\nConnection: keep-alive, close\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: x\r\nEmpty:\r\nHigh: \xc3\xa4\r\nConnection: close\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: CHUNKED\r\nConnection: close\r\n\r\n"
         "000;a=\"b\"\r\nA: b\r\nC:\r\n\r\n"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        attack(rows[i], strlen(rows[i]));
        if (!closed || strncmp(answer, "HTTP/1.1 200 ", 13) != 0 || !strstr(answer, "X-Host: x\r\n") ||
            count_of(answer, "HTTP/1.1 ") != 1)
            fail_msg("row %zu (closed %d): %s", i, closed, answer);
    }
}

/* Half a request, and then the end: it is said so, as far as somebody still reads. */
static void ends_in_the_middle(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "G",
        "GET /hello HTTP/1.1\r\nHost: x\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhell",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\nhell",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned before = atomic_load(&bed.served);
        int fd = raw_connect(bed.port);
        raw_send(fd, rows[i], strlen(rows[i]));
        shutdown(fd, SHUT_WR);
        raw_read_all(fd, answer, sizeof answer, &closed);
        close(fd);
        assert_int_equal(atomic_load(&bed.served), before);
        refused("400", "bad_request");
    }
    int fd = raw_connect(bed.port);
    shutdown(fd, SHUT_WR);
    assert_int_equal(raw_read_all(fd, answer, sizeof answer, &closed), 0);
    assert_true(closed);
    close(fd);
}

static void endless_chunk_line(void **state)
{
    (void)state;
    size_t len = 1 << 20;
    char *bytes = malloc(len);
    memset(bytes, 'e', len);
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;";
    memcpy(bytes, head, sizeof head - 1);
    attack(bytes, len);
    refused("400", "bad_request");
    memset(bytes, 'e', len);
    static const char trailer[] = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\ne: ";
    memcpy(bytes, trailer, sizeof trailer - 1);
    attack(bytes, len);
    refused("431", "headers_too_large");
    free(bytes);
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
    refused("431", "headers_too_large");

    len = (size_t)snprintf(bytes, sizeof bytes, "GET /");
    memset(bytes + len, 'a', 128 * 1024);
    len += 128 * 1024;
    attack(bytes, len);
    refused("414", "uri_too_long");

    len = (size_t)snprintf(bytes, sizeof bytes, "GET /hello HTTP/1.1\r\nHost: x\r\n");
    memset(bytes + len, 'a', 128 * 1024);
    len += 128 * 1024;
    attack(bytes, len);
    refused("431", "headers_too_large");
}

/* To the byte: a first line of 16 KiB, 100 headers of 64 KiB together; and a body behind them. */
static void largest_that_fits(void **state)
{
    (void)state;
    static char bytes[100 * 1024];
    enum { LINE = 16 * 1024, HEADERS = 64 * 1024 };
    for (unsigned over = 0; over < 3; over++) {
        size_t len = (size_t)snprintf(bytes, sizeof bytes, "POST /echo?");
        memset(bytes + len, 'q', LINE - len);
        len = LINE - strlen(" HTTP/1.1") + (over == 1);
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, " HTTP/1.1\r\n");
        size_t from = len;
        len += (size_t)snprintf(
            bytes + len, sizeof bytes - len, "Host: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n");
        for (int i = 0; i < 96; i++)
            len += (size_t)snprintf(bytes + len, sizeof bytes - len, "X-%d: y\r\n", i);
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, "X-Long: ");
        size_t rest = HEADERS - (len - from) - 2 + (over == 2);
        memset(bytes + len, 'v', rest);
        len += rest;
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, "\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        attack(bytes, len);
        if (over == 1)
            refused("414", "uri_too_long");
        else if (over == 2)
            refused("431", "headers_too_large");
        else if (strncmp(answer, "HTTP/1.1 200 ", 13) != 0 || !strstr(answer, "\r\n\r\nabc"))
            fail_msg("%s", answer);
    }
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
    ATTACK("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: identity\r\nContent-Length: 5\r\nConnection: "
           "close\r\n\r\nhello");
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
        cmocka_unit_test(two_framings),
        cmocka_unit_test(broken_headers),
        cmocka_unit_test(refused_to_the_letter),
        cmocka_unit_test(taken_as_the_standard_says),
        cmocka_unit_test(ends_in_the_middle),
        cmocka_unit_test(endless_chunk_line),
        cmocka_unit_test(too_large),
        cmocka_unit_test(largest_that_fits),
        cmocka_unit_test(body_limits),
        cmocka_unit_test(body_at_the_limit),
        cmocka_unit_test(paths),
        cmocka_unit_test(hosts_and_encodings),
    };
    return cmocka_run_group_tests_name("io-http-attack", tests, open_bed, close_bed);
}
