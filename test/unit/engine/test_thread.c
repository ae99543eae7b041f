/* Who takes a turn: the loop itself a small and quick one, the engine's thread all others; either way each command is
 * answered once, on the loop's thread, and what falls due comes without commands. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "io/clock.h"
#include "rig.h"

enum { DEADLINE_MS = 40000, LARGE = 300, MANY = 2000 };

static struct {
    struct store_ops ops; /* the store's own, but for commit */
    bool (*commit)(struct store *store, const struct changes *changes, struct err *err);
    _Atomic unsigned by_loop, by_thread;
    _Atomic int sleep_ms;
    pthread_t loop_thread;
} watched;

static unsigned answers, answers_elsewhere;

static bool commit_watched(struct store *store, const struct changes *changes, struct err *err)
{
    atomic_fetch_add(pthread_equal(pthread_self(), watched.loop_thread) ? &watched.by_loop : &watched.by_thread, 1);
    int ms = atomic_load(&watched.sleep_ms);
    if (ms)
        usleep((useconds_t)ms * 1000);
    return watched.commit(store, changes, err);
}

static struct loop *bed_open(struct rig *rig)
{
    struct err err = { 0 };
    rig_open(rig);
    rig->wall = clock_wall_ms();
    rig->boot = clock_boot_ms();
    rig_restart(rig);
    watched.ops = *rig->store->ops;
    watched.commit = watched.ops.commit;
    watched.ops.commit = commit_watched;
    rig->store->ops = &watched.ops;
    watched.loop_thread = pthread_self();
    atomic_store(&watched.sleep_ms, 0);
    struct loop *loop = loop_new();
    if (!engine_start(rig->engine, loop, NULL, NULL, NULL, &err))
        fail_msg("engine_start: %s", err.text);
    answers = answers_elsewhere = 0;
    return loop;
}

static void bed_close(struct rig *rig, struct loop *loop)
{
    rig_close(rig);
    loop_free(loop);
}

static void answered(struct command *command)
{
    answers++;
    answers_elsewhere += !pthread_equal(pthread_self(), watched.loop_thread);
    assert_ptr_equal(command->owner, command); /* once */
    command->owner = NULL;
}

/* The arena is the command's own: an answer is put there by whoever takes the turn. */
static void submit(struct rig *rig, struct command *command)
{
    command->arena = ARENA_NEW(&rig->arena, struct arena);
    command->done = answered;
    command->owner = command;
    engine_submit(rig->engine, command);
}

static struct command *tasks_command(struct rig *rig, size_t n)
{
    const char **names = ARENA_ARRAY(&rig->arena, const char *, n);
    for (size_t i = 0; i < n; i++)
        names[i] = "t kind=none";
    return rig_enqueue_command(rig, names, n);
}

static void arenas_release(struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        arena_release(commands[i]->arena);
}

static void wait_answers(struct loop *loop, unsigned wanted)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    while (answers < wanted && clock_boot_ms() < until)
        loop_step(loop, 20);
    assert_int_equal(answers, wanted);
    assert_int_equal(answers_elsewhere, 0);
}

static void turns_done(unsigned *by_loop, unsigned *by_thread)
{
    *by_loop = atomic_exchange(&watched.by_loop, 0);
    *by_thread = atomic_exchange(&watched.by_thread, 0);
}

/* The engine's thread has had its first turn, which is due at once. */
static void first_turn_over(struct rig *rig)
{
    struct engine_counters counters;
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    do {
        usleep(1000);
        engine_counters(rig->engine, &counters);
    } while (counters.turns == 0 && clock_boot_ms() < until);
}

static void small_ones_are_the_loops(void **state)
{
    struct rig rig = { 0 };
    unsigned by_loop, by_thread;
    (void)state;
    struct loop *loop = bed_open(&rig);
    first_turn_over(&rig);
    turns_done(&by_loop, &by_thread);
    struct command *commands[4];
    for (size_t i = 0; i < 4; i++)
        commands[i] = tasks_command(&rig, 1);
    for (size_t i = 0; i < 4; i++)
        submit(&rig, commands[i]);
    loop_step(loop, 0); /* one iteration: one turn for all of them, answered within it */
    assert_int_equal(answers, 4);
    turns_done(&by_loop, &by_thread);
    assert_int_equal(by_loop, 1);
    assert_int_equal(by_thread, 0);

    struct command *large = tasks_command(&rig, LARGE);
    submit(&rig, large);
    wait_answers(loop, 5);
    turns_done(&by_loop, &by_thread);
    assert_int_equal(by_loop, 0);
    assert_true(by_thread > 0);
    assert_int_equal(large->out.enqueue.n_tasks, LARGE);
    engine_stop(rig.engine); /* before what answers are put into goes */
    arenas_release(commands, 4);
    arenas_release(&large, 1);
    bed_close(&rig, loop);
}

/* A store that takes its time is left to the thread until it is quick again: the loop has other clients. */
static void a_slow_store_is_the_threads(void **state)
{
    struct rig rig = { 0 };
    unsigned by_loop, by_thread, n = 0, last = 0;
    static struct command *commands[200];
    (void)state;
    struct loop *loop = bed_open(&rig);
    first_turn_over(&rig);
    turns_done(&by_loop, &by_thread);
    atomic_store(&watched.sleep_ms, 20);
    for (; n < 10; n++) {
        commands[n] = tasks_command(&rig, 1);
        submit(&rig, commands[n]);
        wait_answers(loop, n + 1);
    }
    turns_done(&by_loop, &by_thread);
    assert_true(by_loop <= 2);
    assert_true(by_loop + by_thread >= 10);
    atomic_store(&watched.sleep_ms, 0);
    int64_t begun = clock_boot_us();
    for (; n < 200 && !last; n++) {
        commands[n] = tasks_command(&rig, 1);
        submit(&rig, commands[n]);
        wait_answers(loop, n + 1);
        turns_done(&last, &by_thread);
    }
    if (clock_boot_us() - begun < 190 * 1000)
        assert_true(last > 0); /* else the machine itself is slow */
    engine_stop(rig.engine);   /* before what answers are put into goes */
    arenas_release(commands, n);
    bed_close(&rig, loop);
}

static void both_at_once(void **state)
{
    struct rig rig = { 0 };
    static struct command *commands[MANY];
    unsigned by_loop, by_thread;
    (void)state;
    struct loop *loop = bed_open(&rig);
    for (size_t i = 0; i < MANY; i++)
        commands[i] = tasks_command(&rig, i % 97 == 0 ? LARGE : 1 + i % 3);
    for (size_t i = 0; i < MANY; i++) {
        submit(&rig, commands[i]);
        if (i % 5 == 0)
            loop_step(loop, 0);
        if (i % 11 == 0)
            engine_wake(rig.engine);
        if (i % 50 == 49)
            wait_answers(loop, (unsigned)i + 1); /* the thread rests: small ones are the loop's again */
    }
    wait_answers(loop, MANY);
    turns_done(&by_loop, &by_thread);
    assert_true(by_thread > 0); /* and the loop, where the machine is quick enough for that */
    int64_t id = 0;
    for (size_t i = 0; i < MANY; i++) { /* ids in the order of arrival, whoever took them */
        assert_int_equal(commands[i]->err.code, ERR_none);
        for (size_t k = 0; k < commands[i]->out.enqueue.n_tasks; k++) {
            assert_true(commands[i]->out.enqueue.tasks[k].task.id > id);
            id = commands[i]->out.enqueue.tasks[k].task.id;
        }
    }
    engine_stop(rig.engine); /* before what answers are put into goes */
    arenas_release(commands, MANY);
    bed_close(&rig, loop);
}

/* A poll that the loop's turn has parked is answered when its time is over, although the thread slept for longer when
 * it came. */
static void what_falls_due_comes_by_itself(void **state)
{
    struct rig rig = { 0 };
    (void)state;
    struct loop *loop = bed_open(&rig);
    struct command *reg = rig_new(&rig, CMD_REGISTER);
    reg->in.reg.executor = (struct executor){ .name = STR("e"), .slots = 4, .kinds = ~0u };
    submit(&rig, reg);
    wait_answers(loop, 1);
    int64_t executor = reg->out.reg.id;
    struct command *poll = rig_poll_command(&rig, executor, 1, 1, NULL, 0), *task = tasks_command(&rig, 1);
    poll->in.poll.wait_ms = 50;
    submit(&rig, poll);
    int64_t begun = clock_boot_ms();
    wait_answers(loop, 2);
    assert_true(clock_boot_ms() - begun >= 45);
    submit(&rig, task); /* not taken: the loop isn't run any more */
    engine_stop(rig.engine);
    assert_int_equal(answers, 3);
    assert_int_equal(task->err.code, ERR_none);
    engine_stop(rig.engine); /* before what answers are put into goes */
    arenas_release(&reg, 1);
    arenas_release(&poll, 1);
    arenas_release(&task, 1);
    bed_close(&rig, loop);
}

/* The thread's time comes while the loop has a turn: it is told when that is over. */
static void a_time_that_comes_during_a_turn_is_not_missed(void **state)
{
    struct rig rig = { 0 };
    (void)state;
    struct loop *loop = bed_open(&rig);
    struct command *reg = rig_new(&rig, CMD_REGISTER);
    reg->in.reg.executor = (struct executor){ .name = STR("e"), .slots = 4, .kinds = ~0u };
    submit(&rig, reg);
    wait_answers(loop, 1);
    struct command *poll = rig_poll_command(&rig, reg->out.reg.id, 1, 1, NULL, 0), *task = tasks_command(&rig, 1);
    poll->in.poll.wait_ms = 100;
    submit(&rig, poll);
    loop_step(loop, 0);
    assert_int_equal(answers, 1);
    atomic_store(&watched.sleep_ms, 300);
    submit(&rig, task);
    loop_step(loop, 0);
    atomic_store(&watched.sleep_ms, 0);
    wait_answers(loop, 3);
    engine_stop(rig.engine); /* before what answers are put into goes */
    arenas_release(&reg, 1);
    arenas_release(&poll, 1);
    arenas_release(&task, 1);
    bed_close(&rig, loop);
}

/* Five hundred results and a poll for as many tasks, come at the same moment: the poll has a turn of its own, and the
 * results the one after it. */
static void many_results_and_polls_go_apart(void **state)
{
    enum { EACH = 500 };
    struct rig rig = { 0 };
    (void)state;
    struct loop *loop = bed_open(&rig);
    const char **names = ARENA_ARRAY(&rig.arena, const char *, 2 * EACH);
    for (size_t i = 0; i < 2 * EACH; i++)
        names[i] = "t";
    struct command *first[] = { rig_new(&rig, CMD_REGISTER), rig_enqueue_command(&rig, names, 2 * EACH), NULL };
    first[0]->in.reg.executor = (struct executor){ .name = STR("e"), .slots = 2 * EACH, .kinds = ~0u };
    submit(&rig, first[0]);
    wait_answers(loop, 1);
    submit(&rig, first[1]);
    wait_answers(loop, 2);
    first[2] = rig_poll_command(&rig, first[0]->out.reg.id, EACH, -1, NULL, 0);
    submit(&rig, first[2]);
    wait_answers(loop, 3);
    assert_int_equal(first[2]->out.poll.n_grants, EACH);

    struct finish_item *items = ARENA_ARRAY(&rig.arena, struct finish_item, EACH);
    for (size_t i = 0; i < EACH; i++)
        items[i] = (struct finish_item){ .fence = first[2]->out.poll.grants[i].fence, .signal = -1, .hash = { 1 } };
    struct command *both = ARENA_ARRAY(&rig.arena, struct command, 2);
    both[0] = *rig_new(&rig, CMD_FINISH);
    both[0].in.finish.items = items;
    both[0].in.finish.n_items = EACH;
    both[1] = *rig_poll_command(&rig, first[0]->out.reg.id, EACH, -1, NULL, 0);
    for (size_t i = 0; i < 2; i++) {
        both[i].arena = ARENA_NEW(&rig.arena, struct arena);
        both[i].done = answered;
        both[i].owner = &both[i];
    }
    engine_submit_all(rig.engine, both, 2);
    wait_answers(loop, 5);
    assert_int_equal(both[1].out.poll.n_grants, EACH);
    for (size_t i = 0; i < EACH; i++)
        assert_int_equal(items[i].code, ERR_none);
    engine_stop(rig.engine); /* before what answers are put into goes */
    struct task ended = rig_task(&rig, items[0].fence.task),
                taken = rig_task(&rig, both[1].out.poll.grants[0].fence.task);
    assert_int_equal(ended.state, STATE_D);
    assert_int_equal(taken.state, STATE_X);
    assert_true(ended.last_turn > taken.last_turn);
    for (size_t i = 0; i < 2; i++)
        arena_release(both[i].arena);
    arenas_release(first, 3);
    bed_close(&rig, loop);
}

/* The loop stands still for more than two leases (a read that waits for the database), while turns go on: the executor
 * couldn't be heard, so its job isn't given up. When the loop turns and nobody speaks, it is. */
static void a_loop_that_stands_still_ends_no_lease(void **state)
{
    enum { LEASE_MS = 3000 };
    struct rig rig = { 0 };
    struct engine_counters counters;
    const char *const names[] = { "t attempts=1" };
    (void)state;
    struct loop *loop = bed_open(&rig);
    struct command *reg = rig_new(&rig, CMD_REGISTER), *task = rig_enqueue_command(&rig, names, 1);
    reg->in.reg.executor = (struct executor){ .name = STR("e"), .slots = 4, .kinds = ~0u };
    submit(&rig, reg);
    submit(&rig, task);
    wait_answers(loop, 2);
    struct command *poll = rig_poll_command(&rig, reg->out.reg.id, 1, 1, NULL, 0);
    submit(&rig, poll);
    wait_answers(loop, 3);
    assert_int_equal(poll->out.poll.n_grants, 1);
    int64_t begun = clock_boot_ms();
    while (clock_boot_ms() - begun < 2 * LEASE_MS + 1000) { /* turns without commands are taken by the thread */
        engine_wake(rig.engine);
        usleep(50000);
    }
    engine_counters(rig.engine, &counters);
    assert_int_equal(counters.lost, 0);
    for (begun = clock_boot_ms(); clock_boot_ms() - begun < LEASE_MS / 2;)
        loop_step(loop, 20);
    engine_counters(rig.engine, &counters);
    assert_int_equal(counters.lost, 0); /* it has a lease's time to speak */
    while (counters.lost == 0 && clock_boot_ms() - begun < DEADLINE_MS) {
        loop_step(loop, 20);
        engine_counters(rig.engine, &counters);
    }
    assert_int_equal(counters.lost, 1);
    engine_stop(rig.engine); /* before what answers are put into goes */
    arenas_release(&reg, 1);
    arenas_release(&task, 1);
    arenas_release(&poll, 1);
    bed_close(&rig, loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones_are_the_loops),
        cmocka_unit_test(a_slow_store_is_the_threads),
        cmocka_unit_test(both_at_once),
        cmocka_unit_test(what_falls_due_comes_by_itself),
        cmocka_unit_test(a_time_that_comes_during_a_turn_is_not_missed),
        cmocka_unit_test(many_results_and_polls_go_apart),
        cmocka_unit_test(a_loop_that_stands_still_ends_no_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
