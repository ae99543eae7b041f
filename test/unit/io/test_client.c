/* The client against the bed: blocking and on a loop, over TCP and a unix socket; refusals, streams, cancels, servers
 * that vanish. */
#include "bed.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/client.h"

static struct bed bed;

static int open_bed(void **state)
{
    (void)state;
    bed_open(&bed, 0, 0);
    bed_run(&bed);
    return 0;
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&bed);
    return 0;
}

static struct client *open_client(const char *server, const char *token, struct loop *loop)
{
    struct err err = { .code = ERR_none };
    struct client *client = client_open(&(struct client_config){ .server = server, .token = token }, loop, &err);
    if (!client)
        fail_msg("%s", err.text);
    return client;
}

static void call(
    struct client *client, const char *method, const char *path, struct str body, int status, const char *wanted)
{
    struct client_response response;
    struct err err = { .code = ERR_none };
    if (!client_call(client, method, path, body, body.ptr ? "text/plain" : NULL, NULL, 10000, &response, &err))
        fail_msg("%s %s: %s", method, path, err.text);
    assert_int_equal(response.status, status);
    if (wanted)
        assert_string_equal(response.body.ptr ? response.body.ptr : "", wanted);
    client_response_release(&response);
}

static void both_ways(const char *server)
{
    setenv("http_proxy", "http://127.0.0.1:9", 1); /* never asked for what is local */
    struct client *client = open_client(server, NULL, NULL);
    struct str none = { 0 };
    call(client, "GET", "/hello", none, 200, "hello");
    size_t fds = count_fds();
    for (int i = 0; i < 20; i++) {
        call(client, "POST", "/echo", STR("some body"), 200, "some body");
        call(client, "POST", "/echo", STR(""), 200, "");
        call(client, "POST", "/echo", none, 200, "");
        call(client, "PUT", "/echo", STR("p"), 200, "p");
        call(client, "DELETE", "/echo", none, 200, "");
        call(client, "DELETE", "/echo", STR("d"), 200, "d");
        call(client, "HEAD", "/hello", none, 200, "");
        call(client, "GET", "/nowhere", none, 404, "/nowhere");
    }
    assert_int_equal(count_fds(), fds); /* one connection for all */
    char large[3000];
    memset(large, 'z', sizeof large);
    call(client, "POST", "/echo", (struct str){ large, sizeof large }, 200, NULL);
    client_close(client);
    unsetenv("http_proxy");
}

static void over_tcp(void **state)
{
    (void)state;
    both_ways(bed.url);
}

static void over_unix(void **state)
{
    (void)state;
    char server[128];
    snprintf(server, sizeof server, "unix:%s", bed.socket_path);
    both_ways(server);
}

static void bad_servers(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "unix:", "ftp://x", "http://", "http:///", "127.0.0.1:80",
        "http://user@host", "http://a b", "https://x#y" };
    struct err err = { .code = ERR_none };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(client_open(&(struct client_config){ .server = bad[i] }, NULL, &err));
        assert_int_equal(err.code, ERR_usage);
    }
    assert_null(client_open(&(struct client_config){ .server = "http://x", .token = "a\r\nb" }, NULL, &err));
    assert_int_equal(err.code, ERR_usage);
}

static void nobody_there(void **state)
{
    (void)state;
    struct client_response response;
    struct err err = { .code = ERR_none };
    struct client *client = open_client("unix:/tmp/weir-no-such-socket", NULL, NULL);
    assert_false(client_call(client, "GET", "/", (struct str){ 0 }, NULL, NULL, 1000, &response, &err));
    assert_int_equal(err.code, ERR_unreachable);
    assert_string_equal(err.text, "no server answers at unix:/tmp/weir-no-such-socket: No such file or directory");
    client_response_release(&response);
    client_close(client);
    client = open_client("http://127.0.0.1:1", NULL, NULL);
    assert_false(client_call(client, "GET", "/", (struct str){ 0 }, NULL, NULL, 1000, &response, &err));
    assert_int_equal(err.code, ERR_unreachable);
    assert_string_equal(err.text, "no server answers at http://127.0.0.1:1: Connection refused");
    client_response_release(&response);
    client_close(client);
    /* A header can't smuggle a line. */
    client = open_client(bed.url, NULL, NULL);
    static const char *const headers[] = { "X", "a\nb", NULL };
    assert_false(client_call(client, "GET", "/", (struct str){ 0 }, NULL, headers, 1000, &response, &err));
    assert_int_equal(err.code, ERR_usage);
    client_response_release(&response);
    client_close(client);
}

static void problems(void **state)
{
    (void)state;
    struct client *client = open_client(bed.url, NULL, NULL);
    struct client_response response;
    struct err err = { .code = ERR_none };
    assert_true(client_call(client, "GET", "/a%zz", (struct str){ 0 }, NULL, NULL, 5000, &response, &err));
    assert_int_equal(response.status, 400);
    assert_string_equal(response.content_type, "application/problem+json");
    client_problem(&response, &err);
    assert_int_equal(err.code, ERR_bad_request);
    assert_string_equal(err.text, "the path holds a bad %-escape");
    client_response_release(&response);
    /* The body limit: the server answers before it has read all, and the client hears it. */
    char *large = calloc(1, 4 << 20);
    assert_true(client_call(
        client, "POST", "/echo", (struct str){ large, 4 << 20 }, "text/plain", NULL, 5000, &response, &err));
    free(large);
    assert_int_equal(response.status, 413);
    client_problem(&response, &err);
    assert_int_equal(err.code, ERR_body_too_large);
    client_response_release(&response);
    client_close(client);

    struct arena arena = { 0 };
    err = (struct err){ .arena = &arena };
    response = (struct client_response){ .status = 422 };
    buf_init(&response.body, 1000);
    buf_add_z(&response.body, "{\"title\":\"t\",\"code\":\"cycle\",\"detail\":\"in a circle\",\"errors\":"
                              "[{\"path\":\"/tasks/0\",\"line\":3,\"message\":\"m\",\"suggestion\":\"s\"},7]}");
    client_problem(&response, &err);
    assert_int_equal(err.code, ERR_cycle);
    assert_string_equal(err.text, "in a circle");
    assert_int_equal(err.n_items, 1);
    assert_true(
        str_eqz(err.items[0].path, "/tasks/0") && err.items[0].line == 3 && str_eqz(err.items[0].suggestion, "s"));
    buf_reset(&response.body);
    buf_add_z(&response.body, "<html>");
    response.status = 404;
    client_problem(&response, &err);
    assert_int_equal(err.code, ERR_not_found);
    buf_reset(&response.body);
    buf_add_z(&response.body, "{\"code\":\"log_gap\",\"expected\":42,\"title\":\"x\"}");
    response.status = 409;
    client_problem(&response, &err);
    assert_int_equal(err.code, ERR_log_gap);
    assert_int_equal(err.expected, 42);
    client_response_release(&response);
    assert_true(str_eqz(client_encode(&arena, STR("a b/c~d\xc3\xa4")), "a%20b%2Fc~d%C3%A4"));
    arena_release(&arena);
}

struct pieces {
    struct buf all;
    size_t n, stop_after;
    int status;
    bool done;
    struct err err;
    struct client *client;
    struct client_request *request;
    struct loop *loop;
};

static bool on_piece(int status, struct str bytes, void *owner)
{
    struct pieces *pieces = owner;
    pieces->status = status;
    buf_add_str(&pieces->all, bytes);
    return ++pieces->n != pieces->stop_after;
}

static void streams_in_pieces(void **state)
{
    (void)state;
    struct client *client = open_client(bed.url, NULL, NULL);
    struct pieces pieces = { 0 };
    struct err err = { .code = ERR_none };
    int status = 0;
    buf_init(&pieces.all, 1 << 20);
    assert_true(client_stream(client, "GET", "/lines?n=1000", NULL, on_piece, &pieces, &status, &err));
    assert_int_equal(status, 200);
    assert_int_equal(pieces.status, 200);
    assert_non_null(strstr(pieces.all.ptr, "line 999\n"));
    buf_reset(&pieces.all);
    assert_true(client_stream(client, "GET", "/nowhere", NULL, on_piece, &pieces, &status, &err));
    assert_int_equal(status, 404);
    assert_string_equal(pieces.all.ptr, "/nowhere");
    /* Stopped by the reader. */
    pieces.n = 0;
    pieces.stop_after = 3;
    assert_true(client_stream(client, "GET", "/flood?n=500", NULL, on_piece, &pieces, &status, &err));
    assert_int_equal(pieces.n, 3);
    assert_int_equal(status, 200);
    buf_release(&pieces.all);
    client_close(client);
}

/* --- on the loop --- */

static void on_done(struct client_response *response, struct err *err, void *owner)
{
    struct pieces *pieces = owner;
    assert_false(pieces->done);
    pieces->done = true;
    pieces->status = response->status;
    pieces->err = *err;
    if (response->status)
        buf_add_str(&pieces->all, buf_str(&response->body));
}

static bool run_until(struct loop *loop, const bool *flag)
{
    int64_t deadline = now_ms() + 10000;
    while (!*flag && now_ms() < deadline)
        loop_step(loop, 50);
    return *flag;
}

static void many_at_once(void **state)
{
    (void)state;
    enum { N = 40 };
    struct loop *loop = loop_new();
    struct client *client = open_client(bed.url, "a-token", loop);
    struct pieces pieces[N] = { 0 };
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            pieces[i].done = false;
            buf_release(&pieces[i].all);
            buf_init(&pieces[i].all, 1000);
            char body[32];
            int len = snprintf(body, sizeof body, "body %d", i);
            client_start(
                client, "POST", "/echo", (struct str){ body, (size_t)len }, "text/plain", 10000, on_done, &pieces[i]);
            memset(body, '!', sizeof body); /* it has its own copy */
            assert_false(pieces[i].done);
        }
        for (int i = 0; i < N; i++) {
            char wanted[32];
            snprintf(wanted, sizeof wanted, "body %d", i);
            assert_true(run_until(loop, &pieces[i].done));
            assert_int_equal(pieces[i].status, 200);
            assert_string_equal(pieces[i].all.ptr, wanted);
        }
    }
    for (int i = 0; i < N; i++)
        buf_release(&pieces[i].all);
    client_close(client);
    loop_free(loop);
}

static void waits_and_cancels(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct client *client = open_client(bed.url, NULL, loop);
    unsigned parked = atomic_load(&bed.parked), gone = atomic_load(&bed.gone);
    struct pieces poll_ = { 0 }, cancelled = { 0 }, late = { 0 };
    buf_init(&poll_.all, 100);
    client_start(client, "GET", "/park", (struct str){ 0 }, NULL, 0, on_done, &poll_);
    struct client_request *request =
        client_start(client, "GET", "/park", (struct str){ 0 }, NULL, 0, on_done, &cancelled);
    int64_t deadline = now_ms() + 10000;
    while (atomic_load(&bed.parked) < parked + 2 && now_ms() < deadline)
        loop_step(loop, 10);
    client_cancel(client, request);
    while (atomic_load(&bed.gone) < gone + 1 && now_ms() < deadline)
        loop_step(loop, 10);
    assert_int_equal(atomic_load(&bed.gone), gone + 1);
    bed_release(&bed);
    assert_true(run_until(loop, &poll_.done));
    assert_string_equal(poll_.all.ptr, "released");
    assert_false(cancelled.done);
    /* Its own time-out. */
    client_start(client, "GET", "/park", (struct str){ 0 }, NULL, 100, on_done, &late);
    assert_true(run_until(loop, &late.done));
    assert_int_equal(late.status, 0);
    assert_int_equal(late.err.code, ERR_unreachable);
    buf_release(&poll_.all);
    /* Closed with a request open. */
    client_start(client, "GET", "/park", (struct str){ 0 }, NULL, 0, on_done, &cancelled);
    while (atomic_load(&bed.parked) < parked + 4 && now_ms() < deadline)
        loop_step(loop, 10);
    client_close(client);
    assert_false(cancelled.done);
    assert_true(bed_wait(&bed.gone, gone + 3));
    loop_free(loop);
}

static bool on_tick(int status, struct str bytes, void *owner)
{
    (void)bytes;
    struct pieces *pieces = owner;
    assert_int_equal(status, 200);
    pieces->n++;
    if (pieces->n == pieces->stop_after && pieces->request)
        client_cancel(pieces->client, pieces->request); /* from inside */
    return true;
}

static void follows_on_the_loop(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct client *client = open_client(bed.url, NULL, loop);
    unsigned gone = atomic_load(&bed.gone), parked = atomic_load(&bed.parked);
    struct pieces ends = { 0 }, cancels = { .client = client, .stop_after = 2 };
    buf_init(&ends.all, 1000);
    client_follow(client, "GET", "/follow", NULL, on_tick, on_done, &ends);
    static const char *const headers[] = { "Last-Event-ID", "7", NULL };
    cancels.request = client_follow(client, "GET", "/follow", headers, on_tick, on_done, &cancels);
    int64_t deadline = now_ms() + 10000;
    while (atomic_load(&bed.parked) < parked + 2 && now_ms() < deadline)
        loop_step(loop, 10);
    for (size_t i = 1; i <= 3; i++) {
        bed_say(&bed);
        while ((ends.n < i || cancels.n < (i < 2 ? i : 2)) && now_ms() < deadline)
            loop_step(loop, 10);
        assert_int_equal(ends.n, i);
    }
    assert_int_equal(cancels.n, 2);
    assert_true(bed_wait(&bed.gone, gone + 1));
    bed_finish(&bed);
    assert_true(run_until(loop, &ends.done));
    assert_int_equal(ends.status, 200);
    assert_false(cancels.done);
    /* An answer that isn't 2xx goes to done as a whole. */
    ends.done = false;
    client_follow(client, "GET", "/nowhere", NULL, on_tick, on_done, &ends);
    assert_true(run_until(loop, &ends.done));
    assert_int_equal(ends.status, 404);
    assert_string_equal(ends.all.ptr, "/nowhere");
    buf_release(&ends.all);
    client_close(client);
    loop_free(loop);
}

static void on_done_closes(struct client_response *response, struct err *err, void *owner)
{
    struct pieces *pieces = owner;
    on_done(response, err, owner);
    client_close(pieces->client);
}

static void server_vanishes(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    static struct bed own;
    bed_open(&own, 0, 0);
    bed_run(&own);
    struct client *client = open_client(own.url, NULL, loop);
    struct pieces first = { 0 }, second = { 0 }, third = { .client = client };
    buf_init(&first.all, 100);
    client_start(client, "GET", "/hello", (struct str){ 0 }, NULL, 0, on_done, &first);
    assert_true(run_until(loop, &first.done));
    assert_string_equal(first.all.ptr, "hello");
    client_start(client, "GET", "/park", (struct str){ 0 }, NULL, 0, on_done, &second);
    int64_t deadline = now_ms() + 10000;
    while (atomic_load(&own.parked) < 1 && now_ms() < deadline)
        loop_step(loop, 10);
    bed_close(&own); /* in the middle of a long poll */
    assert_true(run_until(loop, &second.done));
    assert_int_equal(second.status, 0);
    assert_int_equal(second.err.code, ERR_unreachable);
    client_start(client, "GET", "/hello", (struct str){ 0 }, NULL, 0, on_done_closes, &third);
    assert_true(run_until(loop, &third.done));
    assert_int_equal(third.err.code, ERR_unreachable);
    buf_release(&first.all);
    loop_free(loop);
}

/* A body that is a file: of any length, on a connection that was used before, again after the server has gone, and
 * refused. */
static void uploads(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20, PIECES = 20 };
    FILE *file = tmpfile();
    unsigned char *bytes = malloc(PIECE);
    uint64_t sum = 0, size = (uint64_t)PIECE * PIECES;
    for (unsigned at = 0; at < PIECES; at++) {
        for (unsigned i = 0; i < PIECE; i++) {
            bytes[i] = (unsigned char)(i * 7 + i / 251 + at);
            sum = sum * 31 + bytes[i];
        }
        assert_int_equal(fwrite(bytes, 1, PIECE, file), PIECE);
    }
    assert_int_equal(fflush(file), 0);
    char expected[64];
    snprintf(expected, sizeof expected, "%llu %llu", (unsigned long long)size, (unsigned long long)sum);
    struct client *client = open_client(bed.url, NULL, NULL);
    struct client_response response;
    struct err err = { .code = ERR_none };
    for (int i = 0; i < 2; i++) {
        call(client, "GET", "/hello", (struct str){ 0 }, 200, "hello");
        assert_true(client_upload(
            client, "/store", &(struct client_file){ fileno(file), size }, "application/x-tar", NULL, &response, &err));
        assert_int_equal(response.status, 200);
        assert_string_equal(response.body.ptr, expected);
        client_response_release(&response);
    }
    assert_true(client_upload(
        client, "/store?refused", &(struct client_file){ fileno(file), size }, NULL, NULL, &response, &err));
    assert_int_equal(response.status, 403);
    client_response_release(&response);
    assert_false(
        client_upload(client, "/store", &(struct client_file){ fileno(file), size + 1 }, NULL, NULL, &response, &err));
    assert_int_equal(err.code, ERR_io);
    assert_non_null(strstr(err.text, "has become shorter"));
    client_response_release(&response);
    assert_false(client_upload(client, "/store", &(struct client_file){ -1, 5 }, NULL, NULL, &response, &err));
    assert_int_equal(err.code, ERR_io);
    client_response_release(&response);
    call(client, "GET", "/hello", (struct str){ 0 }, 200, "hello");
    client_close(client);
    free(bytes);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uploads),
        cmocka_unit_test(over_tcp),
        cmocka_unit_test(over_unix),
        cmocka_unit_test(bad_servers),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(problems),
        cmocka_unit_test(streams_in_pieces),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(waits_and_cancels),
        cmocka_unit_test(follows_on_the_loop),
        cmocka_unit_test(server_vanishes),
    };
    return cmocka_run_group_tests_name("io-client", tests, open_bed, close_bed);
}
