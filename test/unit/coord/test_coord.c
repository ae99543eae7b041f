/* What every backend of coord must do, whichever WEIR_TEST_COORD names (alone, store, zookeeper with
 * WEIR_TEST_ZOOKEEPER=HOST:PORT): servers that share a table of rows, turn by turn on virtual time. Advice comes by the
 * real clock; who waits for it polls with a deadline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "coord/coord.h"

enum { TIMERS, WATCH, NAMES, LOCK = NAMES, ROWS, PATIENCE_MS = 60000, SESSION_MS = 4000 };
static const char *const names[ROWS] = { "timers", "watch", "lock" };

struct table { /* the store: one order of turns */
    struct duty rows[ROWS];
    char holders[ROWS][COORD_HOLDER_MAX];
    size_t n;
};
struct server {
    struct coord *coord;
    struct table *table;
    struct arena arena;
    _Atomic int changes;
};

static const char *backend(void)
{
    const char *name = getenv("WEIR_TEST_COORD");
    return name != NULL ? name : "store";
}

static bool is(const char *name)
{
    return strcmp(backend(), name) == 0;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void changed(void *owner)
{
    struct server *server = owner;
    atomic_fetch_add(&server->changes, 1);
}

static bool has_advice(struct server *server)
{
    struct coord_status status;
    coord_status(server->coord, &status);
    if (status.away)
        return false;
    for (size_t i = 0; i < NAMES; i++)
        if (server->coord->ops->advice(server->coord, i) == COORD_NO_ADVICE)
            return false;
    return true;
}

static void server_open(struct server *server, struct table *table, const char *name)
{
    static int folder;
    static struct table *last;
    char url[200];
    struct err err = { 0 };
    if (table != last)
        folder++;
    last = table;
    snprintf(url, sizeof url, "zookeeper://%s/test/%ld/%d", getenv("WEIR_TEST_ZOOKEEPER"), (long)getpid(), folder);
    struct coord_config config = { .url = is("zookeeper") ? str_of(url) : (struct str){ 0 },
        .alone = is("alone"),
        .member = str_of(name),
        .names = names,
        .n_names = ROWS,
        .n_locks = 1,
        .session_ms = SESSION_MS };
    *server = (struct server){ .table = table };
    server->coord = coord_open(&config, &err);
    if (server->coord == NULL)
        fail_msg("%s", err.text);
    assert_true(coord_start(server->coord, changed, server, &err));
    for (int i = 0; is("zookeeper") && !has_advice(server); i++) {
        assert_true(i < PATIENCE_MS / 10);
        pause_ms(10);
    }
}

static void server_close(struct server *server)
{
    coord_close(server->coord);
    arena_release(&server->arena);
}

static void table_put(struct table *table, const struct duty *row)
{
    size_t i = 0;
    while (i < table->n && !str_eq(table->rows[i].name, row->name))
        i++;
    if (i == table->n)
        table->n++;
    table->rows[i] = *row;
    snprintf(table->holders[i], sizeof table->holders[i], "%.*s", STR_ARG(row->holder));
    table->rows[i].holder = str_of(table->holders[i]);
}

/* A turn; rows taken over. */
static size_t turn(struct server *server, int64_t boot)
{
    struct coord_step *steps = NULL;
    struct duty rows[ROWS];
    size_t taken = 0;
    coord_rows_read(server->coord, server->table->rows, server->table->n, boot);
    size_t n = coord_decide(server->coord, &server->arena, boot, true, &steps);
    assert_true(n <= ROWS);
    for (size_t i = 0; i < n; i++) {
        table_put(server->table, &steps[i].row);
        rows[i] = steps[i].row;
        taken += steps[i].move == COORD_TAKE && !steps[i].lock;
    }
    coord_commit(server->coord, rows, n, boot);
    return taken;
}

static void test_one_holds(void **state)
{
    struct table table = { 0 };
    struct server a, b;
    (void)state;
    server_open(&a, &table, "a");
    if (is("alone")) {
        assert_int_equal(turn(&a, 1000), 0); /* nothing has to be written */
        assert_true(coord_holds(a.coord, TIMERS) && coord_holds(a.coord, WATCH));
        assert_int_equal(coord_epoch(a.coord, WATCH, 1000), 1);
        assert_true(coord_next(a.coord) == INT64_MAX);
        server_close(&a);
        return;
    }
    server_open(&b, &table, "b");
    assert_int_equal(turn(&a, 1000), NAMES);
    assert_int_equal(turn(&b, 1010), 0);
    assert_int_equal(coord_epoch(a.coord, WATCH, 1500), 1);
    assert_int_equal(coord_epoch(b.coord, WATCH, 1500), 0);
    for (int64_t boot = 2000; boot < 30000; boot += 1000) { /* beats keep it */
        assert_int_equal(turn(&a, boot) + turn(&b, boot + 300), 0);
        assert_true(coord_holds(a.coord, TIMERS) && !coord_holds(b.coord, TIMERS));
        assert_true(coord_next(b.coord) > boot + 300);
    }
    assert_int_equal(table.rows[0].epoch, 1);
    server_close(&a);
    server_close(&b);
}

static void test_taken_over(void **state)
{
    struct table table = { 0 };
    struct server a, b, c;
    (void)state;
    server_open(&a, &table, "a");
    server_open(&b, &table, "b");
    server_open(&c, &table, "c");
    assert_int_equal(turn(&a, 1000), NAMES);
    turn(&b, 1100);
    turn(&c, 1200);
    /* a stands still: by its own clock it is sure for a lease and no longer */
    assert_int_equal(coord_epoch(a.coord, TIMERS, 1000 + COORD_LEASE_MS - 1), 1);
    assert_int_equal(coord_epoch(a.coord, TIMERS, 1000 + COORD_LEASE_MS), 0);
    int64_t boot = 1200;
    size_t taken = 0;
    while (taken == 0 && boot < 10000) {
        boot += 100;
        taken = turn(&b, boot) + turn(&c, boot + 50);
    }
    assert_int_equal(taken, NAMES);
    assert_in_range(boot, 1100 + COORD_LEASE_MS, 1300 + COORD_LEASE_MS + COORD_YIELD_MS);
    assert_int_equal(table.rows[0].epoch, 2);
    assert_int_equal(coord_holds(b.coord, TIMERS) + coord_holds(c.coord, TIMERS), 1);
    /* a goes on: its first turn shows it whose the duties are; it doesn't take them back */
    for (int i = 0; i < 20; i++, boot += 500)
        assert_int_equal(turn(&a, boot) + turn(&b, boot) + turn(&c, boot), 0);
    assert_false(coord_holds(a.coord, TIMERS));
    assert_int_equal(coord_epoch(a.coord, TIMERS, boot), 0);
    server_close(&a);
    server_close(&b);
    server_close(&c);
}

/* A server is stopped in the middle of a turn: what it then reads is as of the turn's end. The holder is well, its beat
 * is just not due. */
static void test_stopped_in_a_turn(void **state)
{
    struct table table = { 0 };
    struct server a, b;
    (void)state;
    server_open(&a, &table, "a");
    server_open(&b, &table, "b");
    assert_int_equal(turn(&a, 1000), NAMES);
    assert_int_equal(turn(&b, 1100), 0);
    for (int64_t boot = 2000; boot <= 9000; boot += 1000)
        turn(&a, boot);
    assert_int_equal(turn(&b, 1900), 0); /* it began then, and read the rows at 9100 */
    coord_turn_ended(b.coord, 1900, 9100);
    assert_true(coord_next(b.coord) >= 9100 + COORD_LEASE_MS);
    for (int64_t boot = 9110; boot < 9100 + COORD_LEASE_MS; boot += 100)
        assert_int_equal(turn(&b, boot), 0);
    /* a is silent: once it is so by what b has seen */
    assert_int_equal(turn(&b, 9100 + COORD_LEASE_MS + COORD_YIELD_MS), NAMES);
    server_close(&a);
    server_close(&b);
}

static void test_a_turn_that_failed(void **state)
{
    struct table table = { 0 };
    struct server a, b;
    struct coord_step *steps = NULL;
    (void)state;
    server_open(&a, &table, "a");
    server_open(&b, &table, "b");
    assert_int_equal(coord_decide(a.coord, &a.arena, 1000, true, &steps), NAMES); /* and the commit fails */
    assert_false(coord_holds(a.coord, TIMERS));
    assert_int_equal(coord_epoch(a.coord, TIMERS, 1000), 0);
    /* one whose answer was lost: the row is there, but nobody may act under an epoch that it doesn't know to be its own
     */
    for (size_t i = 0; i < NAMES; i++)
        table_put(&table, &steps[i].row);
    coord_rows_read(a.coord, table.rows, table.n, 1100);
    assert_false(coord_holds(a.coord, TIMERS));
    assert_int_equal(turn(&a, 1200), NAMES);
    assert_int_equal(table.rows[0].epoch, 2);
    server_close(&a);
    server_close(&b);
}

static void test_given_up(void **state)
{
    struct table table = { 0 };
    struct server a, b;
    (void)state;
    server_open(&a, &table, "a");
    server_open(&b, &table, "b");
    assert_int_equal(turn(&a, 1000), NAMES);
    turn(&b, 1100);
    coord_leave(a.coord);
    assert_int_equal(turn(&a, 1200), 0);
    assert_false(coord_holds(a.coord, TIMERS));
    assert_int_equal(coord_epoch(a.coord, TIMERS, 1200), 0);
    assert_int_equal(table.rows[0].holder.len, 0);
    size_t taken = turn(&b, 1210); /* at once, unless it is advised that a leads */
    taken += turn(&b, 1200 + COORD_YIELD_MS + 20);
    assert_int_equal(taken, NAMES);
    assert_int_equal(table.rows[0].epoch, 2);
    assert_int_equal(turn(&a, 9000), 0); /* it is gone for good */
    server_close(&a);
    server_close(&b);
}

static void test_the_same_name_again(void **state)
{
    struct table table = { 0 };
    struct server a, again;
    (void)state;
    server_open(&a, &table, "a");
    assert_int_equal(turn(&a, 1000), NAMES);
    turn(&a, 2000);
    server_open(&again, &table, "a"); /* the one before was killed, or is frozen */
    assert_int_equal(turn(&again, 2100), NAMES);
    assert_int_equal(table.rows[0].epoch, 2);
    assert_int_equal(turn(&a, 2200), 0);
    assert_false(coord_holds(a.coord, WATCH));
    assert_true(coord_holds(again.coord, WATCH));
    server_close(&a);
    server_close(&again);
}

static bool member_is(struct server *server, const char *name, const char *content)
{
    struct coord_member *members;
    size_t n;
    if (!coord_members(server->coord, &server->arena, &members, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (str_eqz(members[i].name, name))
            return content == NULL || str_eqz(members[i].content, content);
    return false;
}

static void test_members(void **state)
{
    struct table table = { 0 };
    struct server a, b;
    struct coord_status status;
    struct coord_member *members;
    size_t n;
    (void)state;
    server_open(&a, &table, "a");
    coord_publish(a.coord, STR("{\"load\":1}"));
    coord_status(a.coord, &status);
    assert_string_equal(status.kind, backend());
    assert_false(status.away);
    if (is("alone"))
        assert_true(member_is(&a, "a", NULL));
    if (is("store"))
        assert_false(coord_members(a.coord, &a.arena, &members, &n)); /* the rows of the store are all there is */
    if (!is("zookeeper")) {
        server_close(&a);
        return;
    }
    server_open(&b, &table, "b");
    coord_publish(b.coord, STR("{\"load\":2}"));
    for (int i = 0; !member_is(&a, "b", NULL) || !member_is(&b, "a", "{\"load\":1}"); i++, pause_ms(10))
        assert_true(i < PATIENCE_MS / 10);
    int before = atomic_load(&a.changes);
    server_close(&b);
    for (int i = 0; member_is(&a, "b", NULL) || atomic_load(&a.changes) == before; i++, pause_ms(10))
        assert_true(i < PATIENCE_MS / 10);
    server_close(&a);
}

static void test_a_holder_that_leaves(void **state)
{
    struct table table = { 0 };
    struct server a, b;
    (void)state;
    server_open(&a, &table, "a");
    server_open(&b, &table, "b");
    assert_int_equal(turn(&a, 1000), NAMES);
    turn(&b, 1100);
    server_close(&a);
    size_t taken = 0;
    for (int i = 0; taken == 0; i++, pause_ms(10)) { /* the clock of turns stands still: only the advice can move it */
        assert_true(i < PATIENCE_MS / 10);
        taken = turn(&b, 1200);
    }
    assert_int_equal(taken, NAMES);
    assert_int_equal(table.rows[0].epoch, 2);
    server_close(&b);
}

static void test_away(void **state)
{
    struct table table = { 0 };
    struct server a, b;
    struct coord_status status = { 0 };
    struct err err = { 0 };
    struct coord_config config = {
        .url = STR("zookeeper://127.0.0.1:1/weir"), .names = names, .n_names = NAMES, .session_ms = SESSION_MS
    };
    struct server *both[] = { &a, &b };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        *both[i] = (struct server){ .table = &table };
        config.member = i ? STR("b") : STR("a");
        both[i]->coord = coord_open(&config, &err);
        assert_true(coord_start(both[i]->coord, changed, both[i], &err));
    }
    for (int i = 0; status.since == 0; i++, pause_ms(10)) {
        assert_true(i < PATIENCE_MS / 10);
        coord_status(a.coord, &status);
    }
    assert_true(status.away);
    assert_non_null(strstr(status.text, "127.0.0.1:1"));
    assert_int_equal(turn(&a, 1000), NAMES); /* as without it */
    assert_int_equal(turn(&b, 1100), 0);
    assert_int_equal(turn(&b, 1200 + COORD_LEASE_MS), NAMES);
    assert_int_equal(table.rows[0].epoch, 2);
    server_close(&a);
    server_close(&b);
}

static void test_urls(void **state)
{
    static const struct {
        const char *url, *fault;
    } cases[] = {
        { "zookeeper://h:2181/weir", NULL },
        { "zookeeper://h:2181,i:2182,j:2183/a/b", NULL },
        { "zookeeper://[::1]:2181/weir", NULL },
        { "zookeeper://h:2181", NULL },
        { "etcd://h:1/x", "left out: the store" },
        { "zookeeper://", "HOST:PORT" },
        { "zookeeper:///weir", "HOST:PORT" },
        { "zookeeper://h/weir", "'h' isn't HOST:PORT" },
        { "zookeeper://h:0/weir", "'h:0'" },
        { "zookeeper://h:65536/weir", "'h:65536'" },
        { "zookeeper://h:x/weir", "'h:x'" },
        { "zookeeper://:2181/weir", "':2181'" },
        { "zookeeper://h:1,,i:2/weir", "HOST:PORT" },
        { "zookeeper://h:1,/weir", "HOST:PORT" },
        { "zookeeper://h:1/weir/", "no path" },
        { "zookeeper://h:1//weir", "no path" },
        { "zookeeper://h:1/../weir", "no path" },
        { "zookeeper://h:1/we ir", "no path" },
        { "zookeeper://u:p@h:1/weir", "coordination_auth" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = { 0 };
        bool good = coord_url_check(str_of(cases[i].url), false, &err);
        if (good != (cases[i].fault == NULL) || (!good && strstr(err.text, cases[i].fault) == NULL))
            fail_msg("%s: %s", cases[i].url, good ? "taken" : err.text);
    }
    struct err err = { 0 };
    struct coord_config config = { .url = STR("zookeeper://h:1/weir"), .alone = true, .member = STR("a") };
    assert_null(coord_open(&config, &err));
    assert_non_null(strstr(err.text, "PostgreSQL"));
}

/* --- locks --- */

struct asker {
    struct coord_waiter waiter;
    int64_t epoch; /* 0: it hasn't got it */
};

static void granted(struct coord_waiter *waiter, int64_t epoch)
{
    ((struct asker *)waiter->owner)->epoch = epoch;
}

static void ask(struct server *server, struct asker *asker)
{
    *asker = (struct asker){ .waiter = { .granted = granted, .owner = asker } };
    coord_lock(server->coord, LOCK, &asker->waiter);
    (void)coord_locks_grant(server->coord, 0);
    /* in ZooKeeper the order is that of its nodes: who asks next shall find this one's */
    for (int i = 0; is("zookeeper"); i++, pause_ms(10)) {
        enum coord_advice advice = server->coord->ops->advice(server->coord, LOCK);
        if (advice == COORD_LEAD || advice == COORD_FOLLOW)
            break;
        assert_true(i < PATIENCE_MS / 10);
    }
}

static void step(struct server *server, int64_t boot)
{
    turn(server, boot);
    (void)coord_locks_grant(server->coord, boot);
}

/* Turns of all until `asker` has it: the virtual clock moves by little, so that no lease runs out. Gives the time. */
static int64_t until_has(struct server **servers, size_t n, const struct asker *asker, int64_t boot)
{
    for (int i = 0; asker->epoch == 0; i++) {
        assert_true(i < PATIENCE_MS / 10);
        for (size_t k = 0; k < n; k++)
            step(servers[k], boot);
        boot += i < 20;
        if (asker->epoch == 0)
            pause_ms(10);
    }
    return boot;
}

static void test_lock_in_line(void **state)
{
    struct table table = { 0 };
    struct server a, *all[] = { &a };
    struct asker one, two, three;
    (void)state;
    server_open(&a, &table, "a");
    ask(&a, &one);
    ask(&a, &two);
    ask(&a, &three);
    int64_t boot = until_has(all, 1, &one, 1000);
    step(&a, boot);
    assert_true(two.epoch == 0 && three.epoch == 0);
    coord_unlock(a.coord, &two.waiter); /* it doesn't want it any more */
    coord_unlock(a.coord, &one.waiter);
    boot = until_has(all, 1, &three, boot);
    assert_true(two.epoch == 0);
    assert_true(is("alone") || three.epoch > one.epoch);
    coord_unlock(a.coord, &three.waiter);
    for (int i = 0; i < 3; i++)
        step(&a, boot + i);
    assert_false(!is("alone") && coord_epoch(a.coord, LOCK, boot + 3) > 0);
    server_close(&a);
}

static void test_lock_is_fair(void **state)
{
    struct table table = { 0 };
    struct server s[3], *all[] = { &s[0], &s[1], &s[2] };
    struct asker askers[3][2];
    int64_t boot = 1000, last = 0;
    (void)state;
    for (size_t i = 0; i < 3; i++)
        server_open(&s[i], &table, (const char *[]){ "a", "b", "c" }[i]);
    for (size_t i = 0; i < 3; i++) {
        ask(&s[i], &askers[i][0]);
        step(&s[i], boot++);
    }
    (void)until_has(all, 3, &askers[0][0], boot);
    for (size_t i = 0; i < 3; i++) { /* a wants it again at once: behind the others */
        boot = until_has(all, 3, &askers[i][0], boot);
        for (size_t k = i + 1; k < 3; k++)
            assert_int_equal(askers[k][0].epoch, 0);
        assert_true(askers[i][0].epoch > last);
        assert_true(coord_holds(s[i].coord, LOCK));
        last = askers[i][0].epoch;
        if (i == 0)
            ask(&s[0], &askers[0][1]);
        coord_unlock(s[i].coord, &askers[i][0].waiter);
        step(&s[i], boot);
    }
    boot = until_has(all, 3, &askers[0][1], boot);
    assert_true(askers[0][1].epoch > last);
    for (size_t i = 0; i < 3; i++)
        server_close(&s[i]);
}

static void test_lock_of_the_dead(void **state)
{
    struct table table = { 0 };
    struct server a, b, c, *living[] = { &b, &c };
    struct asker one, two, three;
    (void)state;
    server_open(&a, &table, "a");
    server_open(&b, &table, "b");
    server_open(&c, &table, "c");
    ask(&a, &one);
    (void)until_has((struct server *[]){ &a }, 1, &one, 1000);
    ask(&b, &two);
    ask(&c, &three);
    for (int64_t boot = 1100; boot < 6000; boot += 500) { /* beats keep it */
        step(&a, boot);
        step(&b, boot + 1);
        step(&c, boot + 2);
    }
    assert_true(two.epoch == 0 && three.epoch == 0 && coord_holds(a.coord, LOCK));
    /* a stands still: sure for a lease and no longer; then b has it, under the next epoch */
    assert_int_equal(coord_epoch(a.coord, LOCK, 5600 + COORD_LEASE_MS), 0);
    int64_t boot = 5700;
    for (; two.epoch == 0 && boot < 20000; boot += 100)
        step(&b, boot);
    assert_true(two.epoch > one.epoch);
    assert_in_range(boot, 5600 + COORD_LEASE_MS - 100, 5700 + 2 * COORD_LEASE_MS + COORD_YIELD_MS);
    coord_rows_read(a.coord, table.rows, table.n, boot);
    assert_false(coord_holds(a.coord, LOCK)); /* what it still does is refused */
    assert_int_equal(three.epoch, 0);
    /* a is gone for good; b gives up, and c, which was behind it, has it */
    server_close(&a);
    coord_unlock(b.coord, &two.waiter);
    (void)until_has(living, 2, &three, boot + 1);
    assert_true(three.epoch > two.epoch);
    server_close(&b);
    server_close(&c);
}

static void test_lock_waiter_dies(void **state)
{
    struct table table = { 0 };
    struct server a, b, c;
    struct asker one, two, three;
    (void)state;
    server_open(&a, &table, "a");
    server_open(&b, &table, "b");
    server_open(&c, &table, "c");
    ask(&a, &one);
    int64_t boot = until_has((struct server *[]){ &a }, 1, &one, 1000);
    ask(&b, &two);
    ask(&c, &three);
    step(&b, boot);
    step(&c, boot + 1);
    coord_unlock(a.coord, &one.waiter); /* b is to have it, and is never heard of again */
    step(&a, boot + 2);
    for (; three.epoch == 0 && boot < 20000; boot += 100)
        step(&c, boot);
    assert_int_equal(three.epoch, 2);
    assert_in_range(boot, 1000, 1000 + 3 * COORD_LEASE_MS + COORD_YIELD_MS);
    step(&b, boot); /* it was frozen: it queues again */
    assert_int_equal(two.epoch, 0);
    server_close(&a);
    server_close(&b);
    server_close(&c);
}

int main(void)
{
    const struct CMUnitTest each[] = {
        cmocka_unit_test(test_one_holds),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_lock_in_line),
    };
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_stopped_in_a_turn),
        cmocka_unit_test(test_a_turn_that_failed),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_the_same_name_again),
        cmocka_unit_test(test_lock_is_fair),
        cmocka_unit_test(test_lock_of_the_dead),
        cmocka_unit_test(test_lock_waiter_dies),
    };
    const struct CMUnitTest advised[] = {
        cmocka_unit_test(test_a_holder_that_leaves),
        cmocka_unit_test(test_away),
    };
    struct CMUnitTest tests[13];
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        tests[n++] = each[i];
    for (size_t i = 0; i < 7 && !is("alone"); i++)
        tests[n++] = shared[i];
    for (size_t i = 0; i < 2 && is("zookeeper"); i++)
        tests[n++] = advised[i];
    return _cmocka_run_group_tests("coord", tests, n, NULL, NULL);
}
