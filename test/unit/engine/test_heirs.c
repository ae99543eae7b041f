/* What a task that is stopped before it ran leaves to those behind it (PREV, its place in the queue for the archive's
 * lock, what it was to cancel) is handed on a batch a turn: nobody starts too early meanwhile, and no turn grows with
 * those who wait. With one engine on SQLite and on PostgreSQL, and with two. Runs under test/lib/postgres.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tenants.h"
#include "rig.h"

enum { MANY = 12, NAME_MAX_CHARS = 16 };

#define RIG(rig, size) \
    __attribute__((cleanup(rig_close))) struct rig rig = { .batch = (size) }; \
    rig_open(&rig)

#define ALONE(name) "- {name: " name ", lock: exclusive, command: 'true'}\n"
#define SHARED(name) "- {name: " name ", lock: shared, command: 'true'}\n"
#define ORDERED "- {name: a, after: [PREV], command: 'true'}\n"

static int64_t archive(struct rig *rig)
{
    struct command *add = rig_new(rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("docs");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    assert_int_equal(rig_one(rig, add)->err.code, ERR_none);
    return add->out.archive.archive.lane;
}

/* A revision with one task; prev 0: of the one before it. The task's number. */
static int64_t post(struct rig *rig, int64_t lane, int64_t rev, int64_t prev, const char *yaml, const char *name)
{
    struct command *command = rig_new(rig, CMD_REVISION);
    struct definition_file file = { STR("_workflows/w.yaml"), str_of(yaml) };
    struct err err = { 0 };
    int64_t id = 0, found;
    command->in.revision.archive = STR("docs");
    command->in.revision.row =
        (struct revision){ .rev = rev, .author = STR("ann"), .prevs = &prev, .n_prevs = prev != 0 };
    command->in.revision.definition = definition_read(&file, 1, STR(""));
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
    definition_release(command->in.revision.definition);
    assert_true(rig->store->ops->task_find(rig->store, lane, rev, str_of(name), STR(""), 0, &id, &found, &err));
    assert_true(id > 0);
    return id;
}

static void turns(struct rig *rig, int n)
{
    for (int i = 0; i < n; i++)
        rig_turn(rig, NULL, 0);
}

/* --- scenes --- */

struct scene {
    struct fence runs; /* what the stopped task waits for */
    int64_t stopped;
    int64_t *waiters;
    size_t n;
};

typedef void scene_fn(struct rig *rig, struct scene *s);

static struct scene scene(struct rig *rig, scene_fn *make, size_t n)
{
    struct scene s = { .waiters = ARENA_ARRAY(&rig->arena, int64_t, n), .n = n };
    make(rig, &s);
    return s;
}

static void by_prev(struct rig *rig, struct scene *s) /* n revisions that all follow the second one */
{
    int64_t lane = archive(rig), e = rig_executor(rig, "e", NULL);
    post(rig, lane, 1, 0, ORDERED, "a");
    s->runs = rig_granted(rig_poll(rig, e, 9));
    s->stopped = post(rig, lane, 2, 0, ORDERED, "a");
    for (size_t i = 0; i < s->n; i++)
        s->waiters[i] = post(rig, lane, 3 + (int64_t)i, 2, ORDERED, "a");
}

static void by_lock(struct rig *rig, struct scene *s) /* n that share the lock, behind one that has it alone */
{
    int64_t lane = archive(rig), e = rig_executor(rig, "e", NULL);
    post(rig, lane, 1, 0, ALONE("w"), "w");
    s->runs = rig_granted(rig_poll(rig, e, 9));
    s->stopped = post(rig, lane, 2, 0, ALONE("w"), "w");
    for (size_t i = 0; i < s->n; i++)
        s->waiters[i] = post(rig, lane, 3 + (int64_t)i, 0, SHARED("r"), "r");
}

static size_t count(struct rig *rig, const struct scene *s, char letter)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += rig_state(rig, s->waiters[i]) == letter;
    return n;
}

static int64_t edges_in(struct rig *rig, const struct scene *s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += rig_task(rig, s->waiters[i]).ins;
    return n;
}

/* --- stories --- */

static void test_a_stopped_task_hands_on_a_batch_a_turn(void **state)
{
    (void)state;
    static scene_fn *const scenes[] = { by_prev, by_lock };
    for (size_t k = 0; k < 2; k++) {
        RIG(rig, 4);
        struct scene s = scene(&rig, scenes[k], MANY);
        int64_t before = edges_in(&rig, &s);
        assert_int_equal(rig_order(&rig, CMD_CANCEL, s.stopped), ERR_none);
        assert_in_range(edges_in(&rig, &s) - before, 3, 5);
        assert_true(rig.next <= rig.boot); /* the rest at once */
        assert_int_equal(count(&rig, &s, 'S'), MANY);
        rig_restart(&rig);
        turns(&rig, 8);
        assert_int_equal(edges_in(&rig, &s) - before, MANY);
        assert_int_equal(rig_task(&rig, s.stopped).holds, 0);
        assert_int_equal(count(&rig, &s, 'S'), MANY); /* all of them wait for what it waited for */
        assert_int_equal(rig_finish(&rig, s.runs, 0, -1), ERR_none);
        turns(&rig, 8);
        assert_int_equal(count(&rig, &s, 'P'), MANY);
        assert_true(rig.next > rig.boot); /* and nothing is left to do */
    }
}

/* Before all have taken over from one that was stopped, the one that it waited for is stopped, too: what that one
 * waited for counts. */
static void test_two_in_a_row_are_stopped(void **state)
{
    (void)state;
    for (int locks = 0; locks < 2; locks++) {
        const char *yaml = locks ? ALONE("a") : ORDERED, *last = locks ? SHARED("a") : ORDERED;
        RIG(rig, 2);
        int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL), waiters[MANY];
        post(&rig, lane, 1, 0, yaml, "a");
        struct fence runs = rig_granted(rig_poll(&rig, e, 9));
        int64_t second = post(&rig, lane, 2, 0, yaml, "a"), third = post(&rig, lane, 3, 0, yaml, "a");
        for (int i = 0; i < MANY; i++)
            waiters[i] = post(&rig, lane, 4 + i, 3, last, "a");
        struct scene s = { .waiters = waiters, .n = MANY };
        assert_int_equal(rig_order(&rig, CMD_CANCEL, third), ERR_none);
        assert_int_equal(rig_order(&rig, CMD_CANCEL, second), ERR_none);
        turns(&rig, 2 * MANY);
        assert_true(rig.next > rig.boot);
        assert_int_equal(count(&rig, &s, 'S'), MANY);
        assert_int_equal(rig_finish(&rig, runs, 0, -1), ERR_none);
        turns(&rig, 2 * MANY);
        assert_int_equal(count(&rig, &s, 'P'), MANY);
    }
}

/* One that is to have the lock alone, behind many that share it: it comes after those that share it before the stopped
 * one. */
static void test_behind_those_that_share(void **state)
{
    (void)state;
    RIG(rig, 2);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL), waiters[MANY];
    post(&rig, lane, 1, 0, SHARED("r"), "r");
    struct fence reads = rig_granted(rig_poll(&rig, e, 9));
    int64_t stopped = post(&rig, lane, 2, 0, ALONE("w"), "w");
    for (int i = 0; i < MANY; i++)
        waiters[i] = post(&rig, lane, 3 + i, 0, SHARED("r"), "r");
    int64_t last = post(&rig, lane, 3 + MANY, 0, ALONE("w"), "w");
    struct scene s = { .waiters = waiters, .n = MANY };
    assert_int_equal(rig_order(&rig, CMD_CANCEL, stopped), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, waiters[MANY - 1]), ERR_none); /* one of them isn't told yet */
    turns(&rig, 2 * MANY);
    assert_int_equal(count(&rig, &s, 'P'), MANY - 1);
    for (int i = 0; i < MANY - 1; i++)
        assert_int_equal(rig_finish(&rig, rig_granted(rig_poll(&rig, e, 1)), 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, last), 'S');
    assert_int_equal(rig_finish(&rig, reads, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, last), 'P');
}

/* It is retried before it has handed on to all: its old place is good, as if it had handed on at once (a batch of 0 is
 * large). */
static void test_a_retry_before_all_have_taken_over(void **state)
{
    (void)state;
    static scene_fn *const scenes[] = { by_prev, by_lock };
    for (size_t k = 0; k < 4; k++) {
        RIG(rig, k < 2 ? 0 : 2);
        struct scene s = scene(&rig, scenes[k % 2], MANY);
        int64_t before = edges_in(&rig, &s);
        assert_int_equal(rig_order(&rig, CMD_CANCEL, s.stopped), ERR_none);
        assert_int_equal(rig_order(&rig, CMD_RETRY, s.stopped), ERR_none);
        assert_int_equal(edges_in(&rig, &s) - before, MANY);
        turns(&rig, 2 * MANY);
        assert_int_equal(count(&rig, &s, 'S'), MANY);
        for (size_t i = 0; i < MANY; i++)
            assert_int_equal(rig_task(&rig, s.waiters[i]).waits, 2); /* for it, and for what it waits for */
        assert_int_equal(rig_finish(&rig, s.runs, 0, -1), ERR_none);
        turns(&rig, 2 * MANY);
        assert_int_equal(count(&rig, &s, 'S'), MANY);
        int64_t e = rig_executor(&rig, "e", NULL);
        assert_int_equal(rig_finish(&rig, rig_granted(rig_poll(&rig, e, 1)), 0, -1), ERR_none);
        turns(&rig, 2 * MANY);
        assert_int_equal(count(&rig, &s, 'P'), MANY);
    }
}

/* One turn that cancels them all, in this order. */
static void cancel_all(struct rig *rig, const int64_t *ids, size_t n)
{
    struct command *commands[4];
    assert_true(n <= 4);
    for (size_t i = 0; i < n; i++) {
        commands[i] = rig_new(rig, CMD_CANCEL);
        commands[i]->in.task.task = ids[i];
        commands[i]->actor = (struct actor){ STR("admin"), STR("default") };
    }
    rig_turn(rig, commands, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(commands[i]->err.code, ERR_none);
}

/* Of a chain for the lock the second is stopped while a shared one stands between it and the fourth, which has ended
 * and has told nobody behind it: who comes after the fourth comes after the shared one before the second, too. */
static void test_past_an_ended_one_behind_a_shared_one(void **state)
{
    (void)state;
    RIG(rig, 1);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    post(&rig, lane, 1, 0, SHARED("r"), "r");
    turns(&rig, 4);
    struct fence reads = rig_granted(rig_poll(&rig, e, 9));
    int64_t second = post(&rig, lane, 2, 0, ALONE("w"), "w"), third = post(&rig, lane, 3, 0, SHARED("r"), "r");
    int64_t fourth = post(&rig, lane, 4, 0, ALONE("w") "- {name: x, depends: [w], command: 'true'}\n", "w");
    int64_t fifth = post(&rig, lane, 5, 0, ALONE("w"), "w");
    int64_t other = ENQUEUE(&rig, "o at=99999999999999", "p depends=0");
    turns(&rig, 8);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, fourth), ERR_none); /* a batch is one: x is told */
    /* p is told, and the third; the fifth is in the next turn */
    cancel_all(&rig, (const int64_t[]){ other, second }, 2);
    assert_true(rig_task(&rig, fourth).holds != 0);
    turns(&rig, 8);
    struct fence shares = rig_granted(rig_poll(&rig, e, 9));
    assert_int_equal(shares.task, third);
    assert_int_equal(rig_finish(&rig, shares, 0, -1), ERR_none);
    turns(&rig, 8);
    assert_int_equal(rig_state(&rig, fifth), 'S');
    assert_int_equal(rig_finish(&rig, reads, 0, -1), ERR_none);
    turns(&rig, 8);
    assert_int_equal(rig_state(&rig, fifth), 'P');
}

/* The second is stopped and can tell nobody in its turn; in the next one so is the third, and then both tell: who comes
 * after the third comes after the first. */
static void test_told_of_an_end_after_its_own_in_one_turn(void **state)
{
    (void)state;
    RIG(rig, 2);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    post(&rig, lane, 1, 0, ALONE("w"), "w");
    turns(&rig, 4);
    struct fence runs = rig_granted(rig_poll(&rig, e, 9));
    int64_t second = post(&rig, lane, 2, 0, ALONE("w"), "w"), third = post(&rig, lane, 3, 0, ALONE("w"), "w");
    int64_t fourth = post(&rig, lane, 4, 0, ALONE("w"), "w");
    int64_t other = ENQUEUE(&rig, "o at=99999999999999", "p depends=0", "q depends=0");
    int64_t another = ENQUEUE(&rig, "o at=99999999999999", "p depends=0", "q depends=0");
    turns(&rig, 8);
    cancel_all(&rig, (const int64_t[]){ other, second }, 2); /* a batch is two: the first has used it up */
    cancel_all(&rig, (const int64_t[]){ another, third }, 2);
    turns(&rig, 8);
    assert_int_equal(rig_state(&rig, fourth), 'S');
    assert_int_equal(rig_finish(&rig, runs, 0, -1), ERR_none);
    turns(&rig, 8);
    assert_int_equal(rig_state(&rig, fourth), 'P');
}

/* A task is retried while a stopped one of its archive hasn't told all. One that isn't told ends by it, and has more
 * behind it than a turn may tell: the retried task must not be put behind a task that waits for it. */
static void test_a_retry_before_those_that_end_by_it_have_handed_on(void **state)
{
    (void)state;
    RIG(rig, 1);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    int64_t again = post(&rig, lane, 1, 0, SHARED("r") SHARED("s") ALONE("w"), "r");
    turns(&rig, 8);
    struct command *poll = rig_poll(&rig, e, 9);
    assert_int_equal(poll->out.poll.n_grants, 2);
    struct fence runs[2] = { poll->out.poll.grants[0].fence, poll->out.poll.grants[1].fence };
    int64_t stopped = post(&rig, lane, 2, 0,
        ALONE("a") "- {name: x, depends: [a], command: 'true'}\n"
                   "- {name: b, depends: [a], lock: shared, command: 'true'}\n"
                   "- {name: y, depends: [b], command: 'true'}\n",
        "a");
    int64_t last = post(&rig, lane, 3, 0, ALONE("c"), "c");
    turns(&rig, 8);
    assert_int_equal(runs[0].task, again);
    assert_int_equal(rig_finish(&rig, runs[0], 100, -1), ERR_none);
    turns(&rig, 8);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, stopped), ERR_none); /* x is told, b isn't */
    assert_int_equal(rig_order(&rig, CMD_RETRY, again), ERR_none);
    turns(&rig, 8);
    assert_int_equal(rig_finish(&rig, runs[1], 0, -1), ERR_none);
    for (int i = 0; i < 3; i++) { /* r, w, c */
        turns(&rig, 8);
        assert_int_equal(rig_finish(&rig, rig_granted(rig_poll(&rig, e, 9)), 0, -1), ERR_none);
    }
    turns(&rig, 8);
    assert_int_equal(rig_state(&rig, last), 'D');
}

static void by_cancels(
    struct rig *rig, struct scene *s) /* n that cancel one that was to cancel another; runs.task: that one */
{
    char text[64];
    s->runs.task = ENQUEUE(rig, "old at=99999999999999");
    snprintf(text, sizeof text, "new at=99999999999999 cancels=#%lld", (long long)s->runs.task);
    s->stopped = ENQUEUE(rig, text);
    snprintf(text, sizeof text, "t at=5000 cancels=#%lld", (long long)s->stopped);
    for (size_t i = 0; i < s->n; i++)
        s->waiters[i] = ENQUEUE(rig, text);
}

/* They become ready before all of them have been told what else they are to cancel. */
static void test_what_was_to_be_cancelled_is(void **state)
{
    (void)state;
    RIG(rig, 2);
    struct scene s = scene(&rig, by_cancels, MANY);
    for (int i = 1; i < MANY; i++)
        assert_int_equal(rig_order(&rig, CMD_CANCEL, s.waiters[MANY - 1 - i]), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, s.stopped), ERR_none);
    rig_pass(&rig, 6000); /* the last one alone is left, with the largest number */
    assert_int_equal(rig_state(&rig, s.waiters[MANY - 1]), 'P');
    assert_int_equal(rig_state(&rig, s.runs.task), 'A');
    turns(&rig, MANY);
    assert_int_equal(rig_task(&rig, s.stopped).holds, 0);
}

/* --- how large a turn is --- */

static void grow(const char *what, scene_fn *make, const char *url_small, const char *url_large)
{
    struct rig_largest most[2];
    const char *urls[] = { url_small, url_large };
    for (size_t i = 0; i < 2; i++) {
        struct rig rig = { .batch = 20, .url = urls[i] };
        rig_open(&rig);
        struct scene s = scene(&rig, make, i ? 320 : 80);
        int64_t seq = engine_seq(rig.engine), before = edges_in(&rig, &s);
        assert_int_equal(rig_order(&rig, CMD_CANCEL, s.stopped), ERR_none);
        most[i] = rig_follow(&rig, seq);
        assert_int_equal(edges_in(&rig, &s) - before, s.n);
        rig_close(&rig);
    }
    rig_not_larger(what, &most[0], &most[1]);
}

static void test_no_turn_grows_with_those_who_take_over(void **state)
{
    (void)state;
    char small[200], large[200];
    static const struct {
        const char *name;
        scene_fn *make;
    } scenes[] = { { "prev", by_prev }, { "lock", by_lock }, { "cancels", by_cancels } };
    for (size_t k = 0; k < 3; k++) {
        char names[2][2 * NAME_MAX_CHARS];
        snprintf(names[0], sizeof names[0], "heirs_%s_small", scenes[k].name);
        snprintf(names[1], sizeof names[1], "heirs_%s_large", scenes[k].name);
        grow(scenes[k].name, scenes[k].make, NULL, NULL);
        rig_database(names[0], small, sizeof small);
        rig_database(names[1], large, sizeof large);
        grow(scenes[k].name, scenes[k].make, small, large);
    }
}

/* n tasks, each of which cancels the one before it, none of them ready; the last one's number. */
static int64_t superseders(struct rig *rig, size_t n)
{
    char text[64] = "t at=99999999999999";
    int64_t id = 0;
    for (size_t i = 0; i < n; i++) {
        id = ENQUEUE(rig, text);
        snprintf(text, sizeof text, "t at=99999999999999 cancels=#%lld", (long long)id);
    }
    return id;
}

/* One is ready, and supersedes all: a batch a turn, and it starts when all of them are dead, after a restart, too. */
static void test_very_many_are_superseded_in_batches(void **state)
{
    (void)state;
    RIG(rig, 4);
    char text[64];
    int64_t last = superseders(&rig, MANY), first = last - MANY + 1;
    snprintf(text, sizeof text, "new cancels=#%lld", (long long)last);
    int64_t id = ENQUEUE(&rig, text);
    assert_string_equal(rig_states(&rig, first, MANY), "SSSSSSSSAAAA");
    assert_int_equal(rig_state(&rig, id), 'S');
    assert_true(rig.next <= rig.boot);
    rig_restart(&rig);
    rig_turn(&rig, NULL, 0);
    assert_int_equal(rig_state(&rig, id), 'S');
    turns(&rig, 2 * MANY);
    assert_string_equal(rig_states(&rig, first, MANY), "AAAAAAAAAAAA");
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).holds, 0);
    assert_true(rig.next > rig.boot);
}

/* The same, and it is cancelled, or its queue is paused, before it is through. */
static void test_it_is_stopped_before_all_are_superseded(void **state)
{
    (void)state;
    for (int pause = 0; pause < 2; pause++) {
        RIG(rig, 4);
        char text[64];
        int64_t last = superseders(&rig, MANY), first = last - MANY + 1;
        snprintf(text, sizeof text, "new queue=q cancels=#%lld", (long long)last);
        int64_t id = ENQUEUE(&rig, text);
        if (pause)
            rig_pause(&rig, "q", true);
        else
            assert_int_equal(rig_order(&rig, CMD_CANCEL, id), ERR_none);
        turns(&rig, 8);
        assert_int_equal(rig_state(&rig, id), pause ? 'S' : 'T');
        assert_int_equal(rig_state(&rig, first), 'S');
        assert_true(rig.next > rig.boot);
        if (!pause)
            continue;
        rig_pause(&rig, "q", false);
        turns(&rig, 8);
        assert_int_equal(rig_state(&rig, first), 'A');
        assert_int_equal(rig_state(&rig, id), 'P');
    }
}

static void test_no_turn_grows_with_what_is_superseded(void **state)
{
    (void)state;
    struct rig_largest most[4];
    for (size_t i = 0; i < 4; i++) {
        char url[200], name[32], text[64];
        snprintf(name, sizeof name, "heirs_cancels_%zu", i);
        struct rig rig = { .batch = 20, .url = i < 2 ? NULL : url };
        if (i >= 2)
            rig_database(name, url, sizeof url);
        rig_open(&rig);
        int64_t last = superseders(&rig, i % 2 ? 320 : 80), seq = engine_seq(rig.engine);
        snprintf(text, sizeof text, "new cancels=#%lld", (long long)last);
        int64_t id = ENQUEUE(&rig, text);
        most[i] = rig_follow(&rig, seq);
        assert_int_equal(rig_state(&rig, id), 'P');
        rig_close(&rig);
        most[i].bytes = 0; /* its own edges, 24 bytes each, are read in each turn: settle.c */
    }
    rig_not_larger("cancels", &most[0], &most[1]);
    rig_not_larger("cancels, PostgreSQL", &most[2], &most[3]);
    assert_true(most[0].events <= 50);
}

/* a stops it and is gone: b, which has the timers after a while, hands on the rest. */
static void test_another_server_goes_on(void **state)
{
    (void)state;
    char url[200];
    struct rig a = { .batch = 2, .name = "a", .url = url }, b = { .batch = 2, .name = "b" };
    rig_database("heirs_two", url, sizeof url);
    rig_open(&a);
    rig_join(&b, &a);
    struct scene s = scene(&a, by_prev, MANY);
    int64_t before = edges_in(&b, &s);
    assert_int_equal(rig_order(&a, CMD_CANCEL, s.stopped), ERR_none);
    assert_in_range(edges_in(&b, &s) - before, 1, MANY - 1);
    for (int i = 0; i < 30; i++)
        rig_pass(&b, 1000);
    assert_int_equal(edges_in(&b, &s) - before, MANY);
    assert_int_equal(rig_task(&b, s.stopped).holds, 0);
    rig_close(&b);
    rig_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stopped_task_hands_on_a_batch_a_turn),
        cmocka_unit_test(test_two_in_a_row_are_stopped),
        cmocka_unit_test(test_behind_those_that_share),
        cmocka_unit_test(test_a_retry_before_all_have_taken_over),
        cmocka_unit_test(test_past_an_ended_one_behind_a_shared_one),
        cmocka_unit_test(test_told_of_an_end_after_its_own_in_one_turn),
        cmocka_unit_test(test_a_retry_before_those_that_end_by_it_have_handed_on),
        cmocka_unit_test(test_what_was_to_be_cancelled_is),
        cmocka_unit_test(test_no_turn_grows_with_those_who_take_over),
        cmocka_unit_test(test_very_many_are_superseded_in_batches),
        cmocka_unit_test(test_it_is_stopped_before_all_are_superseded),
        cmocka_unit_test(test_no_turn_grows_with_what_is_superseded),
        cmocka_unit_test(test_another_server_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
