/* What a connection that breaks in the middle of a commit leaves: through a proxy that loses the request, or the
 * answer, of one exchange. Run by test/lib/postgres.py, which starts the database. */
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

#include "io/clock.h"
#include "world.h"

enum fault { PASS, LOSE_REQUEST, LOSE_ANSWER, LOSE_ANSWER_AND_INTRUDE };

static struct {
    char dir[64];
    int listener;
    pthread_t thread;
    atomic_int fault, cuts, skip; /* skip: so many answers pass before the fault */
    atomic_bool stop, refuse;     /* refuse: no new connection */
    atomic_bool mute;             /* new ones aren't answered */
    char database[200];           /* the URL past the proxy */
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
    bool hit = to_database ? fault == LOSE_REQUEST : fault == LOSE_ANSWER || fault == LOSE_ANSWER_AND_INTRUDE;
    if (hit && atomic_fetch_sub(&proxy.skip, 1) <= 0) {
        atomic_store(&proxy.skip, 0);
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
    int muted[32];
    size_t n_muted = 0;
    (void)owner;
    while (!atomic_load(&proxy.stop)) {
        struct pollfd fd = { .fd = proxy.listener, .events = POLLIN };
        if (poll(&fd, 1, 20) <= 0)
            continue;
        pthread_t thread;
        int client = accept(proxy.listener, NULL, NULL);
        if (client >= 0 && atomic_load(&proxy.mute) && n_muted < sizeof muted / sizeof muted[0])
            muted[n_muted++] = client;
        else if (client >= 0 && atomic_load(&proxy.refuse))
            close(client);
        else if (client >= 0 && pthread_create(&thread, NULL, pump, (void *)(intptr_t)client) == 0)
            pthread_detach(thread);
    }
    while (n_muted > 0)
        close(muted[--n_muted]);
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

/* A turn that was lost before it was committed is decided anew, as the engine does; here that gives the same changes.
 */
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
    static const enum fault faults[] = { LOSE_ANSWER, LOSE_REQUEST, LOSE_ANSWER, LOSE_ANSWER, LOSE_REQUEST,
        LOSE_REQUEST };
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
    /* a turn without events has no hash to be told by: its number tells */
    struct executor e = { .id = 1, .name = STR("a") };
    const struct executor *rows[] = { &e };
    struct executor **out;
    size_t n;
    turn_begin(&w); /* its row comes with an event, as it does in life */
    w.c.executors.at = rows, w.c.executors.n = 1;
    turn_event(&w, (struct event){ .kind = EVENT_executor, .actor = STR("test") });
    turn_end(&w);
    for (int i = 0; i < 2; i++) {
        e.processed++;
        turn_begin(&w);
        struct executor_count one = { 1, 1, 0 };
        w.c.executors.at = rows, w.c.executors.n = 1;
        w.c.shared.counts.at = &one, w.c.shared.counts.n = 1;
        atomic_store(&proxy.fault, i ? LOSE_REQUEST : LOSE_ANSWER);
        turn_end_surely(&w);
        MUST(&w, OPS(&w)->load_executors(w.store, &w.arena, &out, &n, &w.err));
        assert_int_equal(out[0]->processed, e.processed);
    }
    history_expect(&w, 8);
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

static void sql(const char *text)
{
    PGconn *conn = PQconnectdb(proxy.database);
    PGresult *result = PQexec(conn, text);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    PQfinish(conn);
}

/* The reader missed the database, and tries again later; the engine's connection comes about before then, and with it
 * the reader's. */
static void a_read_follows_the_writer_at_once(void **state)
{
    struct world w;
    struct store_head head;
    struct life life;
    (void)state;
    scene_make(&w);
    life_begin(&w, &life);
    atomic_store(&proxy.refuse, true);
    sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'weir %'");
    assert_false(reader_head(w.reader, &head, &w.err));
    assert_false(reader_present(w.reader));
    w.err = (struct err){ 0 };
    atomic_store(&proxy.refuse, false);
    MUST(&w, OPS(&w)->begin(w.store, &w.err));
    OPS(&w)->rollback(w.store);
    MUST(&w, reader_head(w.reader, &head, &w.err));
    sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'weir %'");
    assert_true(reader_present(w.reader)); /* noticed, and made anew, before anything is asked */
    MUST(&w, reader_head(w.reader, &head, &w.err));
    scene_release(&w);
}

/* A host that is silent: the first waits for it, and then everybody is told at once. */
static void who_asks_while_it_is_silent_is_told_at_once(void **state)
{
    struct world w;
    struct life life;
    (void)state;
    scene_make(&w);
    life_begin(&w, &life);
    atomic_store(&proxy.mute, true);
    sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'weir %'");
    assert_false(OPS(&w)->begin(w.store, &w.err));
    int64_t began = clock_boot_ms();
    for (int i = 0; i < 6; i++) {
        w.err = (struct err){ 0 };
        assert_false(OPS(&w)->begin(w.store, &w.err));
        assert_int_equal(w.err.code, ERR_unavailable);
    }
    assert_true(clock_boot_ms() - began < 6000); /* each of them a connect_timeout: twice as long */
    atomic_store(&proxy.mute, false);
    for (int64_t end = clock_boot_ms() + 20000; clock_boot_ms() < end && !OPS(&w)->begin(w.store, &w.err);)
        w.err = (struct err){ 0 };
    assert_int_equal(w.err.code, ERR_none);
    OPS(&w)->rollback(w.store);
    scene_release(&w);
}

/* A list is several exchanges in one snapshot: whichever of them is lost, it is read anew. */
static void lists_are_read_again(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    (void)state;
    scene_make(&w);
    rng_seed(&rng, 13);
    life_begin(&w, &life);
    life_turn(&w, &life, &rng, 5, 2);
    turn_end(&w);
    for (int skip = 0; skip < 6; skip++) {
        const struct task_filter filter = { .limit = 10, .tenant = STR("default") };
        struct task_view *views, view;
        size_t n;
        int64_t next;
        bool found;
        atomic_store(&proxy.skip, skip);
        atomic_store(&proxy.fault, LOSE_ANSWER);
        MUST(&w, reader_tasks(w.reader, &w.arena, &filter, &views, &n, &next, &w.err));
        assert_int_equal(n, 5);
        MUST(&w, reader_task(w.reader, &w.arena, views[0].task.id, &view, &found, &w.err));
        assert_true(found);
        atomic_store(&proxy.fault, PASS);
    }
    assert_true(atomic_load(&proxy.cuts) >= 4);
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
    history_expect(&w, 1);                                  /* nothing of it was written */
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
        cmocka_unit_test(a_read_follows_the_writer_at_once),
        cmocka_unit_test(lists_are_read_again),
        cmocka_unit_test(who_asks_while_it_is_silent_is_told_at_once),
        cmocka_unit_test(two_writers_cannot_fork_the_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
