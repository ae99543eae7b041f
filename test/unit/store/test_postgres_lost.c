/* What a connection that breaks in the middle of a commit leaves: through a proxy that loses the request, or the answer, of one exchange.
 * Run by test/lib/postgres.py, which starts the database. */
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "world.h"

enum fault { PASS, LOSE_REQUEST, LOSE_ANSWER, LOSE_ANSWER_AND_INTRUDE };

static struct {
    char dir[64];
    int listener;
    pthread_t thread;
    atomic_int fault, cuts;
    atomic_bool stop;
    char database[200]; /* the URL past the proxy */
} proxy;

static int socket_to(const char *dir, bool listening)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(snprintf(at.sun_path, sizeof at.sun_path, "%s/.s.PGSQL.5432", dir) < (int)sizeof at.sun_path);
    int rc = listening ? bind(fd, (struct sockaddr *)&at, sizeof at) : connect(fd, (struct sockaddr *)&at, sizeof at);
    assert_int_equal(rc, 0);
    if (listening)
        assert_int_equal(listen(fd, 16), 0);
    return fd;
}

/* Somebody else writes, past the proxy. */
static void intrude(void)
{
    PGconn *conn = PQconnectdb(proxy.database);
    PGresult *result = PQexec(conn, "UPDATE head SET tick = tick + 7");
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fprintf(stderr, "intrude: %s\n", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

/* Moves bytes one way; false: this connection ends. The answer to a commit comes when it has happened. */
static bool bytes_move(int from, int to, bool to_database)
{
    char bytes[65536];
    ssize_t n = read(from, bytes, sizeof bytes);
    int fault = atomic_load(&proxy.fault);
    if (n <= 0)
        return false;
    if ((to_database && fault == LOSE_REQUEST) || (!to_database && (fault == LOSE_ANSWER || fault == LOSE_ANSWER_AND_INTRUDE))) {
        if (fault == LOSE_ANSWER_AND_INTRUDE)
            intrude();
        atomic_store(&proxy.fault, PASS);
        atomic_fetch_add(&proxy.cuts, 1);
        return false;
    }
    for (ssize_t at = 0, sent; at < n; at += sent)
        if ((sent = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL)) <= 0)
            return false;
    return true;
}

static void *pump(void *owner)
{
    int client = (int)(intptr_t)owner, server = socket_to(getenv("WEIR_TEST_POSTGRES"), false);
    for (bool on = true; on && !atomic_load(&proxy.stop);) {
        struct pollfd fds[] = { { .fd = client, .events = POLLIN }, { .fd = server, .events = POLLIN } };
        if (poll(fds, 2, 20) < 0)
            break;
        if (fds[0].revents)
            on = bytes_move(client, server, true);
        if (on && fds[1].revents)
            on = bytes_move(server, client, false);
    }
    close(client);
    close(server);
    return NULL;
}

static void *accept_run(void *owner)
{
    (void)owner;
    while (!atomic_load(&proxy.stop)) {
        struct pollfd fd = { .fd = proxy.listener, .events = POLLIN };
        if (poll(&fd, 1, 20) <= 0)
            continue;
        pthread_t thread;
        int client = accept(proxy.listener, NULL, NULL);
        if (client >= 0 && pthread_create(&thread, NULL, pump, (void *)(intptr_t)client) == 0)
            pthread_detach(thread);
    }
    return NULL;
}

static void scene_make(struct world *w)
{
    char *place;
    memset(&proxy, 0, sizeof proxy);
    world_make(w);
    MUST(w, (OPS(w)->close(w->store), reader_close(w->reader), true));
    snprintf(proxy.database, sizeof proxy.database, "%s", w->url);
    snprintf(proxy.dir, sizeof proxy.dir, "/tmp/weir-proxy.XXXXXX");
    assert_non_null(mkdtemp(proxy.dir));
    proxy.listener = socket_to(proxy.dir, true);
    assert_int_equal(pthread_create(&proxy.thread, NULL, accept_run, NULL), 0);
    place = strstr(w->url, "host=");
    assert_non_null(place);
    snprintf(place, sizeof w->url - (size_t)(place - w->url), "host=%s&user=weir", proxy.dir);
    struct store_config config = world_config(w, false);
    MUST(w, w->store = store_open(&config, &w->err));
    MUST(w, w->reader = reader_open(&config, &w->err));
    MUST(w, OPS(w)->load_head(w->store, &w->head, &w->err));
}

static void scene_release(struct world *w)
{
    reader_close(w->reader);
    OPS(w)->close(w->store);
    w->reader = NULL, w->store = NULL;
    atomic_store(&proxy.stop, true);
    pthread_join(proxy.thread, NULL);
    close(proxy.listener);
    world_dir_remove(proxy.dir);
    usleep(50000); /* the pumps look at `stop` every 20 ms */
    world_release(w);
}

static void history_expect(struct world *w, int64_t turns)
{
    struct verify_report report;
    struct store_config config = world_config(w, false);
    MUST(w, store_verify_at(&config, 0, NULL, &report, &w->err));
    if (!report.ok)
        fail_msg("%s", report.fault);
    assert_int_equal(report.turns, turns);
}

/* A turn that was lost before it was committed is decided anew, as the engine does; here that gives the same changes. */
static void turn_end_surely(struct world *w)
{
    if (turn_try(w))
        return;
    assert_int_equal(w->err.code, ERR_unavailable);
    w->err = (struct err){ 0 };
    MUST(w, OPS(w)->begin(w->store, &w->err));
    turn_end(w);
}

static void a_commit_is_done_once(void **state)
{
    static const enum fault faults[] = { LOSE_ANSWER, LOSE_REQUEST, LOSE_ANSWER, LOSE_ANSWER, LOSE_REQUEST, LOSE_REQUEST };
    struct world w;
    struct life life;
    struct rng rng;
    (void)state;
    scene_make(&w);
    rng_seed(&rng, 11);
    life_begin(&w, &life);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        life_turn(&w, &life, &rng, 5, 5);
        atomic_store(&proxy.fault, (int)faults[i]);
        turn_end_surely(&w);
        assert_int_equal(atomic_load(&proxy.cuts), (int)i + 1);
        history_expect(&w, 2 + (int64_t)i);
    }
    struct executor e = { .id = 1, .name = STR("a") }; /* a turn without events has no hash to be told by: its number tells */
    const struct executor *rows[] = { &e };
    struct executor **out;
    size_t n;
    for (int i = 0; i < 2; i++) {
        e.processed++;
        turn_begin(&w);
        w.c.executors = rows, w.c.n_executors = 1;
        atomic_store(&proxy.fault, i ? LOSE_REQUEST : LOSE_ANSWER);
        turn_end_surely(&w);
        MUST(&w, OPS(&w)->load_executors(w.store, &w.arena, &out, &n, &w.err));
        assert_int_equal(out[0]->processed, e.processed);
    }
    history_expect(&w, 7);
    scene_release(&w);
}

static void loads_are_asked_again(void **state)
{
    struct world w;
    struct lane **lanes;
    struct store_head head;
    size_t n;
    struct life life;
    (void)state;
    scene_make(&w);
    life_begin(&w, &life);
    for (int i = 0; i < 2; i++) {
        atomic_store(&proxy.fault, i ? LOSE_REQUEST : LOSE_ANSWER);
        MUST(&w, OPS(&w)->load_lanes(w.store, &w.arena, &lanes, &n, &w.err));
        assert_int_equal(n, 1);
        MUST(&w, reader_head(w.reader, &head, &w.err)); /* follows the writer to its new connection */
        atomic_store(&proxy.fault, i ? LOSE_REQUEST : LOSE_ANSWER);
        MUST(&w, reader_head(w.reader, &head, &w.err));
        assert_int_equal(head.turn, 1);
    }
    scene_release(&w);
}

static void two_writers_cannot_fork_the_history(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    (void)state;
    scene_make(&w);
    rng_seed(&rng, 12);
    life_begin(&w, &life);
    life_turn(&w, &life, &rng, 1, 0);
    intrude(); /* past the turn's lock */
    assert_false(turn_try(&w));
    history_expect(&w, 1); /* nothing of it was written */
    MUST(&w, OPS(&w)->load_head(w.store, &w.head, &w.err)); /* whoever looks again may go on */
    turn_begin(&w);
    turn_event(&w, (struct event){ .kind = EVENT_started, .actor = STR("x") });
    turn_end(&w);
    history_expect(&w, 2);
    turn_begin(&w);
    turn_event(&w, (struct event){ .kind = EVENT_started, .actor = STR("y") });
    atomic_store(&proxy.fault, LOSE_ANSWER_AND_INTRUDE); /* somebody has written since: our mark tells all the same */
    turn_end(&w);
    history_expect(&w, 3);
    scene_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_is_done_once),
        cmocka_unit_test(loads_are_asked_again),
        cmocka_unit_test(two_writers_cannot_fork_the_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
