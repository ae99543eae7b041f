#include "bed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/clock.h"

enum { PATIENCE_MS = 10000 };

int64_t now_ms(void)
{
    return clock_boot_ms();
}

static size_t bed_limit(struct str method, struct str path, void *owner)
{
    (void)method;
    (void)owner;
    if (str_eqz(path, "/store"))
        return BED_FILE_MAX;
    return str_eq(path, STR("/nobody")) ? 0 : BED_BODY_MAX;
}

static uint64_t bed_number(struct http_request *request)
{
    struct str text;
    uint64_t n = 0;
    if (http_param(request, "n", &text))
        assert_true(str_to_u64(text, &n));
    return n;
}

static void bed_on_gone(struct http_request *request)
{
    struct bed *bed = request->user;
    for (size_t i = 0; i < bed->n_held; i++) {
        if (bed->held[i] == request) {
            bed->held[i] = bed->held[--bed->n_held];
            break;
        }
    }
    atomic_fetch_add(&bed->gone, 1);
}

static void bed_hold(struct bed *bed, struct http_request *request)
{
    request->user = bed;
    bed->held[bed->n_held++] = request;
    atomic_fetch_add(&bed->parked, 1);
}

static void store_done(struct http_request *request)
{
    char text[64], piece[4096];
    uint64_t bytes = 0, sum = 0;
    ssize_t n;
    assert_true(request->body_fd >= 0 && request->body.len == 0 && !request->body_waits);
    assert_int_equal(lseek(request->body_fd, 0, SEEK_SET), 0);
    while ((n = read(request->body_fd, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < n; i++, bytes++)
            sum = sum * 31 + (unsigned char)piece[i];
    assert_int_equal(bytes, request->body_bytes);
    snprintf(text, sizeof text, "%llu %llu", (unsigned long long)bytes, (unsigned long long)sum);
    request->gone = NULL;
    http_answer(request, 200, "text/plain", str_of(text), NULL);
}

static void serve_store(struct bed *bed, struct http_request *request)
{
    bool full = str_eqz(request->query, "full");
    assert_true(request->body_waits && request->body_fd < 0);
    if (str_eqz(request->query, "refused")) {
        http_answer(request, 403, "text/plain", STR("not you"), NULL);
        return;
    }
    int fd = full ? open("/dev/full", O_WRONLY | O_CLOEXEC) : memfd_create("body", MFD_CLOEXEC);
    assert_true(fd >= 0);
    request->user = bed;
    request->gone = bed_on_gone;
    http_body_take(request, fd, store_done);
}

static bool bed_waits(struct str method, struct str path, void *owner)
{
    (void)method, (void)owner;
    return str_eqz(path, "/store");
}

static void serve_echo(struct bed *bed, struct http_request *request)
{
    (void)bed;
    char method[32], host[64];
    struct str h = http_header(request, "Host");
    snprintf(method, sizeof method, "%.*s", STR_ARG(request->method));
    snprintf(host, sizeof host, "%.*s", STR_ARG(h));
    http_answer(
        request, 200, "text/plain", request->body, (const char *const[]){ "X-Method", method, "X-Host", host, NULL });
}

static void serve_hello(struct bed *bed, struct http_request *request)
{
    (void)bed;
    http_answer(request, 200, "text/plain", STR("hello"), NULL);
}

static void serve_target(struct bed *bed, struct http_request *request)
{
    (void)bed;
    struct str x = STR("(none)");
    http_param(request, "x", &x);
    struct str text =
        str_fmt(&request->arena, "%.*s|%.*s|%.*s", STR_ARG(request->path), STR_ARG(request->query), STR_ARG(x));
    http_answer(request, 200, "text/plain", text, NULL);
}

static void serve_peer(struct bed *bed, struct http_request *request)
{
    (void)bed;
    const struct http_peer *peer = &request->peer;
    struct str text =
        str_fmt(&request->arena, "%d %d %ld", peer->local, peer->loopback, peer->uid_known ? (long)peer->uid : -1L);
    http_answer(request, 200, "text/plain", text, NULL);
}

static void serve_large(struct bed *bed, struct http_request *request)
{
    (void)bed;
    size_t n = (size_t)bed_number(request);
    char *bytes = malloc(n + 1);
    memset(bytes, 'x', n);
    http_answer(request, 200, "text/plain", (struct str){ bytes, n }, NULL);
    free(bytes);
}

static void serve_park(struct bed *bed, struct http_request *request)
{
    request->gone = bed_on_gone;
    bed_hold(bed, request);
}

static void serve_deaf(struct bed *bed, struct http_request *request)
{
    bed_hold(bed, request);
}

static void serve_lines(struct bed *bed, struct http_request *request)
{
    (void)bed;
    uint64_t n = bed_number(request);
    http_stream_header(request, "X-Kind", "lines");
    http_stream_begin(request, 200, "text/plain", NULL);
    for (uint64_t i = 0; i < n; i++)
        http_stream_add(request, str_fmt(&request->arena, "line %lu\n", (unsigned long)i));
    http_stream_end(request);
}

static const char block[65536] = { 'b' };

static void flood_on_drained(struct http_request *request)
{
    size_t *left = request->user;
    assert_int_equal(http_stream_pending(request), 0);
    if (*left == 0) {
        http_stream_end(request);
        return;
    }
    --*left;
    http_stream_add(request, (struct str){ block, sizeof block });
}

static void flood_on_gone(struct http_request *request)
{
    (void)request;
}

static void serve_flood(struct bed *bed, struct http_request *request)
{
    (void)bed;
    size_t *left = arena_alloc(&request->arena, sizeof *left);
    *left = (size_t)bed_number(request) - 1;
    request->user = left;
    request->gone = flood_on_gone;
    http_stream_begin(request, 200, "text/plain", flood_on_drained);
    http_stream_add(request, (struct str){ block, sizeof block });
}

static void serve_follow(struct bed *bed, struct http_request *request)
{
    request->gone = bed_on_gone;
    http_stream_begin(request, 200, "text/event-stream", NULL);
    bed_hold(bed, request);
}

/* serve_burst: a publisher that doesn't look at what is pending. */
static void serve_burst(struct bed *bed, struct http_request *request)
{
    uint64_t n = bed_number(request);
    request->gone = bed_on_gone;
    http_stream_begin(request, 200, "text/plain", NULL);
    for (uint64_t i = 0; i < n; i++)
        http_stream_add(request, (struct str){ block, sizeof block });
    bed_hold(bed, request);
}

static const struct {
    const char *path;
    void (*serve)(struct bed *bed, struct http_request *request);
} routes[] = {
    { "/hello", serve_hello },
    { "/echo", serve_echo },
    { "/store", serve_store },
    { "/target", serve_target },
    { "/peer", serve_peer },
    { "/large", serve_large },
    { "/park", serve_park },
    { "/deaf", serve_deaf },
    { "/lines", serve_lines },
    { "/flood", serve_flood },
    { "/follow", serve_follow },
    { "/burst", serve_burst },
};

static void bed_serve(struct http_request *request, void *owner)
{
    struct bed *bed = owner;
    atomic_fetch_add(&bed->served, 1);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (str_eqz(request->path, routes[i].path)) {
            routes[i].serve(bed, request);
            return;
        }
    }
    http_answer(request, 404, "text/plain", request->path, NULL);
}

static void bed_on_wake(void *owner)
{
    struct bed *bed = owner;
    if (atomic_exchange(&bed->release, false)) {
        size_t n = bed->n_held;
        bed->n_held = 0;
        for (size_t i = 0; i < n; i++)
            http_answer(bed->held[i], 200, "text/plain", STR("released"), NULL);
    }
    if (atomic_exchange(&bed->say, false))
        for (size_t i = 0; i < bed->n_held; i++)
            http_stream_add(bed->held[i], STR("tick\n"));
    if (atomic_exchange(&bed->finish, false)) {
        size_t n = bed->n_held;
        bed->n_held = 0;
        for (size_t i = 0; i < n; i++)
            http_stream_end(bed->held[i]);
    }
    if (atomic_load(&bed->stop))
        loop_stop(bed->loop);
}

void bed_open(struct bed *bed, unsigned connections_max, unsigned idle_timeout_s)
{
    bed_open_tls(bed, connections_max, idle_timeout_s, NULL);
}

void bed_open_tls(struct bed *bed, unsigned connections_max, unsigned idle_timeout_s, struct tls *tls)
{
    memset(bed, 0, sizeof *bed);
    snprintf(bed->folder, sizeof bed->folder, "/tmp/weir-io-XXXXXX");
    assert_non_null(mkdtemp(bed->folder));
    snprintf(bed->socket_path, sizeof bed->socket_path, "%s/sock", bed->folder);
    bed->loop = loop_new();
    struct err err = { .code = ERR_none };
    struct http_config config = {
        .address = "127.0.0.1:0",
        .socket_path = bed->socket_path,
        .connections_max = connections_max,
        .idle_timeout_s = idle_timeout_s,
        .write_timeout_s = idle_timeout_s,
        .body_limit = bed_limit,
        .body_waits = bed_waits,
        .serve = bed_serve,
        .owner = bed,
        .tls = tls,
    };
    bed->server = http_server_open(bed->loop, &config, &err);
    if (!bed->server)
        fail_msg("%s", err.text);
    snprintf(bed->url, sizeof bed->url, "%s", http_server_address(bed->server));
    bed->port = (uint16_t)strtoul(strrchr(bed->url, ':') + 1, NULL, 10);
    loop_on_wake(bed->loop, bed_on_wake, bed);
}

static void *bed_thread(void *owner)
{
    struct bed *bed = owner;
    loop_run(bed->loop);
    return NULL;
}

void bed_run(struct bed *bed)
{
    assert_int_equal(pthread_create(&bed->thread, NULL, bed_thread, bed), 0);
    bed->running = true;
}

void bed_close(struct bed *bed)
{
    if (bed->running) {
        atomic_store(&bed->stop, true);
        loop_wake(bed->loop);
        pthread_join(bed->thread, NULL);
    }
    http_server_close(bed->server);
    loop_free(bed->loop);
    assert_int_equal(rmdir(bed->folder), 0); /* the socket is gone too */
}

void bed_release(struct bed *bed)
{
    atomic_store(&bed->release, true);
    loop_wake(bed->loop);
}

void bed_say(struct bed *bed)
{
    atomic_store(&bed->say, true);
    loop_wake(bed->loop);
}

void bed_finish(struct bed *bed)
{
    atomic_store(&bed->finish, true);
    loop_wake(bed->loop);
}

bool bed_wait(atomic_uint *counter, unsigned at_least)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    while (atomic_load(counter) < at_least) {
        if (now_ms() > deadline)
            return false;
        poll(NULL, 0, 2);
    }
    return true;
}

int raw_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

int raw_connect_unix(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

void raw_send(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* it was refused meanwhile: what it said is read next */
        at += n;
        len -= (size_t)n;
    }
}

size_t raw_read_all(int fd, char *out, size_t size, bool *out_closed)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    size_t n = 0;
    *out_closed = false;
    while (n + 1 < size) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int64_t left = deadline - now_ms();
        if (left <= 0 || poll(&wait, 1, (int)left) <= 0)
            break;
        ssize_t got = recv(fd, out + n, size - 1 - n, 0);
        if (got <= 0) {
            *out_closed = true;
            break;
        }
        n += (size_t)got;
    }
    out[n] = '\0';
    return n;
}

bool raw_read_until(int fd, char *out, size_t size, const char *mark)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    size_t n = 0;
    out[0] = '\0';
    while (n + 1 < size && !strstr(out, mark)) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int64_t left = deadline - now_ms();
        if (left <= 0 || poll(&wait, 1, (int)left) <= 0)
            return false;
        ssize_t got = recv(fd, out + n, size - 1 - n, 0);
        if (got <= 0)
            return false;
        n += (size_t)got;
        out[n] = '\0';
    }
    return strstr(out, mark) != NULL;
}

size_t count_fds(void)
{
    size_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}
