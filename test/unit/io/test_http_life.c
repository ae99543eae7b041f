/* Answers at once, later, as a stream, to nobody; slow, greedy and vanishing clients (RELIABILITY.md 3.5, rows 9 and
 * 18, scaled down). */
#include "bed.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/peer.h"

static struct bed bed;
static char answer[1 << 16];
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
    bed_open(&bed, 300, 1);
    bed_run(&bed);
    return 0;
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&bed);
    return 0;
}

static void keeps_alive(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port);
    for (int i = 0; i < 50; i++) {
        RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_true(raw_read_until(fd, answer, sizeof answer, "\r\n\r\nhello"));
    }
    /* Three at once, one of them answered later. */
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
                 "GET /park HTTP/1.1\r\nHost: x\r\n\r\n"
                 "GET /target HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_true(bed_wait(&bed.parked, 1));
    bed_release(&bed);
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_true(closed);
    assert_int_equal(count_of(answer, "HTTP/1.1 200 "), 3);
    assert_true(strstr(answer, "hello") < strstr(answer, "released") &&
                strstr(answer, "released") < strstr(answer, "/target|"));
    close(fd);
}

static void targets(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /target?x=a%20b+c%2b&y=1&x=2 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(fd, answer, sizeof answer, "|a b c+"));
    assert_non_null(strstr(answer, "/target|x=a%20b+c%2b&y=1&x=2|"));
    RAW_SEND(fd, "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /target HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(fd, answer, sizeof answer, "/target||(none)"));
    assert_non_null(strstr(answer, "Content-Length: 5\r\n"));
    assert_null(strstr(answer, "hello"));
    close(fd);
}

static void continues(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_true(raw_read_until(fd, answer, sizeof answer, "100 Continue\r\n\r\n"));
    RAW_SEND(fd, "abcde");
    assert_true(raw_read_until(fd, answer, sizeof answer, "\r\n\r\nabcde"));
    close(fd);
}

static void peers(void **state)
{
    (void)state;
    char wanted[64];
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n");
    snprintf(wanted, sizeof wanted, "\r\n\r\n0 1 %ld", (long)getuid());
    assert_true(raw_read_until(fd, answer, sizeof answer, wanted));
    close(fd);
    fd = raw_connect_unix(bed.socket_path);
    RAW_SEND(fd, "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n");
    snprintf(wanted, sizeof wanted, "\r\n\r\n1 0 %ld", (long)getuid());
    assert_true(raw_read_until(fd, answer, sizeof answer, wanted));
    close(fd);
    struct stat st;
    assert_int_equal(stat(bed.socket_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

/* Both ways of asking agree; an end that its owner has closed belongs to nobody (the kernel would say: root). */
static void peer_tables(void **state)
{
    (void)state;
    struct peer_table table;
    peer_table_init(&table);
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_storage at = { .ss_family = AF_INET };
    socklen_t len = sizeof(struct sockaddr);
    struct sockaddr loopback = { .sa_family = AF_INET, .sa_data = { 0, 0, 127, 0, 0, 1 } };
    assert_int_equal(bind(listening, &loopback, sizeof loopback), 0);
    assert_int_equal(listen(listening, 5), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &len), 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, len), 0);
    int ours = accept(listening, NULL, NULL);
    uid_t uid = 12345;
    assert_true(peer_uid_tcp(&table, ours, &uid));
    assert_int_equal(uid, getuid());
    assert_true(table.netlink >= 0 || table.netlink == -2);
    uid = 12345;
    assert_true(peer_uid_proc(ours, &uid));
    assert_int_equal(uid, getuid());
    close(fd);
    assert_false(peer_uid_tcp(&table, ours, &uid));
    assert_false(peer_uid_proc(ours, &uid));
    close(ours);
    close(listening);
    peer_table_release(&table);
}

static void notices_the_gone(void **state)
{
    (void)state;
    int one = raw_connect(bed.port), two = raw_connect(bed.port);
    unsigned gone = atomic_load(&bed.gone), parked = atomic_load(&bed.parked);
    RAW_SEND(one, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    RAW_SEND(two, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, parked + 2));
    close(one);
    int64_t since = now_ms();
    assert_true(bed_wait(&bed.gone, gone + 1));
    assert_true(now_ms() - since < 5000);
    bed_release(&bed);
    assert_true(raw_read_until(two, answer, sizeof answer, "released"));
    assert_int_equal(atomic_load(&bed.gone), gone + 1);
    /* Answered: what happens to it later is nobody's business any more. */
    close(two);
    int three = raw_connect(bed.port);
    RAW_SEND(three, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(three, answer, sizeof answer, "hello"));
    assert_int_equal(atomic_load(&bed.gone), gone + 1);
    close(three);
}

static void answers_the_void(void **state)
{
    (void)state;
    unsigned parked = atomic_load(&bed.parked), gone = atomic_load(&bed.gone);
    int deaf = raw_connect(bed.port), heard = raw_connect(bed.port), other = raw_connect(bed.port);
    RAW_SEND(deaf, "GET /deaf HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, parked + 1));
    RAW_SEND(heard, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, parked + 2));
    close(deaf);
    close(heard);
    /* They are looked at in the order in which they came: now the end of the first has been seen too. */
    assert_true(bed_wait(&bed.gone, gone + 1));
    bed_release(&bed);
    RAW_SEND(other, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(other, answer, sizeof answer, "hello"));
    assert_int_equal(atomic_load(&bed.gone), gone + 1);
    close(other);
}

static void streams(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /lines?n=3 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(fd, answer, sizeof answer, "\r\n0\r\n\r\n"));
    assert_non_null(strstr(answer, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(answer, "X-Kind: lines\r\n"));
    assert_non_null(strstr(answer, "line 0\nline 1\nline 2\n"));
    /* The connection goes on. */
    RAW_SEND(fd, "GET /lines?n=0 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(fd, answer, sizeof answer, "\r\n\r\n0\r\n\r\n"));
    RAW_SEND(fd, "HEAD /lines?n=3 HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
    assert_null(strstr(answer, "line 0"));
    close(fd);
    fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /lines?n=3 HTTP/1.0\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_true(closed);
    assert_non_null(strstr(answer, "\r\n\r\nline 0\nline 1\nline 2\n"));
    close(fd);
}

static void follows(void **state)
{
    (void)state;
    unsigned parked = atomic_load(&bed.parked), gone = atomic_load(&bed.gone);
    int fd = raw_connect(bed.port), other = raw_connect(bed.port);
    RAW_SEND(fd, "GET /follow HTTP/1.1\r\nHost: x\r\n\r\n");
    /* The head comes although there is no byte of the body yet. */
    assert_true(raw_read_until(fd, answer, sizeof answer, "\r\n\r\n"));
    assert_non_null(strstr(answer, "text/event-stream"));
    RAW_SEND(other, "GET /follow HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, parked + 2));
    for (int i = 0; i < 3; i++) {
        bed_say(&bed);
        assert_true(raw_read_until(fd, answer, sizeof answer, "tick\n"));
    }
    close(other);
    assert_true(bed_wait(&bed.gone, gone + 1));
    bed_say(&bed);
    assert_true(raw_read_until(fd, answer, sizeof answer, "tick\n"));
    bed_finish(&bed);
    assert_true(raw_read_until(fd, answer, sizeof answer, "0\r\n\r\n"));
    assert_int_equal(atomic_load(&bed.gone), gone + 1);
    close(fd);
}

static void floods_at_the_readers_pace(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port), small = 128 * 1024;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    RAW_SEND(fd, "GET /flood?n=200 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    size_t total = 0;
    for (;;) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        assert_int_equal(poll(&wait, 1, 10000), 1);
        ssize_t n = recv(fd, answer, sizeof answer, 0);
        assert_true(n >= 0);
        if (n == 0)
            break;
        total += (size_t)n;
    }
    assert_true(total >= 200 * 65536);
    assert_memory_equal(answer, "", 0);
    close(fd);
}

/* Row 18: clients that close in the middle of an answer, with a reset or without. */
static void survives_vanishing_clients(void **state)
{
    (void)state;
    size_t before = count_fds();
    for (int i = 0; i < 600; i++) {
        int victim = raw_connect(bed.port);
        if (i % 3 == 0)
            RAW_SEND(victim, "GET /flood?n=50 HTTP/1.1\r\nHost: x\r\n\r\n");
        else
            RAW_SEND(victim, "GET /large?n=1000000 HTTP/1.1\r\nHost: x\r\n\r\n");
        char some[10];
        if (i % 2 == 0)
            assert_true(recv(victim, some, sizeof some, 0) > 0);
        struct linger reset = { .l_onoff = 1 };
        if (i % 4 < 2)
            setsockopt(victim, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(victim);
    }
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(raw_read_until(fd, answer, sizeof answer, "hello"));
    close(fd);
    int64_t deadline = now_ms() + 10000;
    while (count_fds() > before && now_ms() < deadline)
        poll(NULL, 0, 5);
    assert_true(count_fds() <= before);
}

/* Row 9: a byte now and then. Everybody is cut in time; an honest client notices nothing. */
static void cuts_slow_clients(void **state)
{
    (void)state;
    enum { N = 200 };
    struct pollfd slow[N];
    int64_t begun = now_ms(), slowest = 0;
    static const char head[] =
        "GET /hello HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const char body[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
    for (int i = 0; i < N; i++) {
        slow[i] = (struct pollfd){ .fd = raw_connect(bed.port), .events = POLLIN };
        if (i % 2)
            raw_send(slow[i].fd, body, sizeof body - 1);
    }
    int left = N, refusals = 0;
    for (size_t at = 0; left > 0 && now_ms() - begun < 10000; at++) {
        for (int i = 0; i < N; i++)
            if (slow[i].fd >= 0)
                send(slow[i].fd, i % 2 ? "x" : head + at % (sizeof head - 1), 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        int64_t asked = now_ms();
        int honest = raw_connect(bed.port);
        RAW_SEND(honest, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_true(raw_read_until(honest, answer, sizeof answer, "hello"));
        close(honest);
        slowest = now_ms() - asked > slowest ? now_ms() - asked : slowest;
        poll(slow, N, 100);
        for (int i = 0; i < N; i++) {
            if (slow[i].fd < 0 || !slow[i].revents)
                continue;
            ssize_t n = recv(slow[i].fd, answer, sizeof answer - 1, MSG_DONTWAIT);
            if (n > 0) {
                answer[n] = '\0';
                refusals += strstr(answer, "HTTP/1.1 408 ") && strstr(answer, "\"request_timeout\"");
                continue;
            }
            close(slow[i].fd);
            slow[i].fd = -1;
            left--;
        }
    }
    assert_int_equal(left, 0);
    assert_int_equal(refusals, N); /* heads and bodies alike are told why */
    assert_true(slowest < 2000);   /* the machine may be busy; a server that waits for slow clients takes longer */
}

static void suspended_are_not_cut(void **state)
{
    (void)state;
    int fd = raw_connect(bed.port);
    unsigned parked = atomic_load(&bed.parked);
    RAW_SEND(fd, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, parked + 1));
    struct pollfd wait = { .fd = fd, .events = POLLIN | POLLRDHUP };
    assert_int_equal(poll(&wait, 1, 2500), 0); /* the idle time is 1 s */
    bed_release(&bed);
    assert_true(raw_read_until(fd, answer, sizeof answer, "released"));
    /* Now it is idle, and is closed in time. */
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_true(closed);
    close(fd);
}

static void refuses_too_many(void **state)
{
    (void)state;
    int fds[300];
    for (int i = 0; i < 300; i++)
        fds[i] = raw_connect(bed.port);
    int fd = raw_connect(bed.port);
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_true(closed);
    assert_memory_equal(answer, "HTTP/1.1 503 ", 13);
    assert_non_null(strstr(answer, "\"code\":\"unavailable\""));
    close(fd);
    for (int i = 0; i < 300; i++)
        close(fds[i]);
    int64_t deadline = now_ms() + 10000;
    do {
        fd = raw_connect(bed.port);
        RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        raw_read_all(fd, answer, sizeof answer, &closed);
        close(fd);
    } while (!strstr(answer, "hello") && now_ms() < deadline);
    assert_non_null(strstr(answer, "hello"));
}

static void closes_with_open_requests(void **state)
{
    (void)state;
    bed_open(&bed, 0, 0);
    bed_run(&bed);
    int fds[3] = { raw_connect(bed.port), raw_connect(bed.port), raw_connect_unix(bed.socket_path) };
    RAW_SEND(fds[0], "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
    RAW_SEND(fds[1], "GET /deaf HTTP/1.1\r\nHost: x\r\n\r\n");
    RAW_SEND(fds[2], "GET /follow HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.parked, 3));
    bed_close(&bed);
    assert_int_equal(atomic_load(&bed.gone), 2);
    for (int i = 0; i < 3; i++) {
        raw_read_all(fds[i], answer, sizeof answer, &closed);
        assert_true(closed);
        close(fds[i]);
    }
}

static size_t no_body(struct str method, struct str path, void *owner)
{
    (void)method;
    (void)path;
    (void)owner;
    return 0;
}

static void no_serve(struct http_request *request, void *owner)
{
    (void)owner;
    http_answer(request, 204, NULL, (struct str){ 0 }, NULL);
}

static void addresses(void **state)
{
    (void)state;
    struct bed one;
    bed_open(&one, 0, 0);
    struct err err = { .code = ERR_none };
    struct http_config config = { .socket_path = one.socket_path, .body_limit = no_body, .serve = no_serve };
    assert_null(http_server_open(one.loop, &config, &err));
    assert_int_equal(err.code, ERR_name_taken);
    config = (struct http_config){ .address = one.url + 7, .body_limit = no_body, .serve = no_serve };
    assert_null(http_server_open(one.loop, &config, &err));
    assert_int_equal(err.code, ERR_name_taken);
    static const char *const bad[] = { "", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:70000", "127.0.0.1:-1",
        "127.0.0.1:0x1", "300.1.1.1:1" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        config.address = bad[i];
        assert_null(http_server_open(one.loop, &config, &err));
        assert_int_equal(err.code, ERR_usage);
    }
    /* A socket that a killed server left behind is replaced; a file is not. */
    char path[128];
    snprintf(path, sizeof path, "%s/old", one.folder);
    FILE *file = fopen(path, "w");
    fclose(file);
    config = (struct http_config){ .socket_path = path, .body_limit = no_body, .serve = no_serve };
    assert_null(http_server_open(one.loop, &config, &err));
    assert_int_equal(err.code, ERR_name_taken);
    unlink(path);
    struct http_server *server = http_server_open(one.loop, &config, &err);
    assert_non_null(server);
    assert_null(http_server_address(server));
    char aside[140];
    snprintf(aside, sizeof aside, "%s2", path);
    rename(path, aside); /* as if it had been killed: the file outlives it */
    http_server_close(server);
    config.socket_path = aside;
    server = http_server_open(one.loop, &config, &err);
    assert_non_null(server);
    http_server_close(server);
    assert_int_equal(access(aside, F_OK), -1);
    config = (struct http_config){ .address = "[::1]:0", .body_limit = no_body, .serve = no_serve };
    server = http_server_open(one.loop, &config, &err);
    if (server) /* a machine without IPv6 has none */
        assert_memory_equal(http_server_address(server), "http://[::1]:", 13);
    http_server_close(server);
    bed_close(&one);
}

int main(void)
{
    const struct CMUnitTest patient[] = {
        cmocka_unit_test(keeps_alive),
        cmocka_unit_test(targets),
        cmocka_unit_test(continues),
        cmocka_unit_test(peers),
        cmocka_unit_test(peer_tables),
        cmocka_unit_test(notices_the_gone),
        cmocka_unit_test(answers_the_void),
        cmocka_unit_test(streams),
        cmocka_unit_test(follows),
        cmocka_unit_test(floods_at_the_readers_pace),
        cmocka_unit_test(survives_vanishing_clients),
    };
    const struct CMUnitTest hasty[] = {
        cmocka_unit_test(cuts_slow_clients),
        cmocka_unit_test(suspended_are_not_cut),
        cmocka_unit_test(refuses_too_many),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(closes_with_open_requests),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests_name("io-http-life", patient, open_bed, close_bed) +
           cmocka_run_group_tests_name("io-http-hasty", hasty, open_hasty_bed, close_bed) +
           cmocka_run_group_tests_name("io-http-own", own, NULL, NULL);
}
