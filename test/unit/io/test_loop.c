/* Timers in order, wake-ups from threads, signals, watches that vanish while their event waits. */
#include "bed.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/loop.h"

struct probe {
    struct loop *loop;
    struct loop_timer timers[5];
    char trace[64];
    struct loop_fd watches[2];
    int pipes[2][2];
    atomic_uint woken, again, signals;
};

static void trace(struct probe *probe, char c)
{
    size_t n = strlen(probe->trace);
    assert_true(n + 1 < sizeof probe->trace);
    probe->trace[n] = c;
}

static void on_due(struct loop_timer *timer)
{
    struct probe *probe = timer->owner;
    trace(probe, (char)('a' + (timer - probe->timers)));
    if (timer == &probe->timers[4])
        loop_stop(probe->loop);
}

static void timers_in_order(void **state)
{
    (void)state;
    struct probe probe = { .loop = loop_new() };
    for (int i = 0; i < 5; i++)
        probe.timers[i] = (struct loop_timer){ .due = on_due, .owner = &probe };
    int64_t now = loop_now(probe.loop);
    loop_arm(probe.loop, &probe.timers[4], now + 60);
    loop_arm(probe.loop, &probe.timers[0], now + 20);
    loop_arm(probe.loop, &probe.timers[1], now + 20);
    loop_arm(probe.loop, &probe.timers[2], now + 10);
    loop_arm(probe.loop, &probe.timers[3], now + 5);
    loop_arm(probe.loop, &probe.timers[2], now + 40); /* moved */
    loop_disarm(probe.loop, &probe.timers[3]);
    loop_disarm(probe.loop, &probe.timers[3]);
    loop_run(probe.loop);
    assert_string_equal(probe.trace, "abce");
    assert_true(now_ms() >= now + 60);
    loop_free(probe.loop);
}

/* A timer that is always due doesn't keep the others from their turn. */
static void on_greedy(struct loop_timer *timer)
{
    struct probe *probe = timer->owner;
    atomic_fetch_add(&probe->again, 1);
    loop_arm(probe->loop, timer, 0);
}

static void on_readable(struct loop_fd *watch, uint32_t events)
{
    (void)events;
    struct probe *probe = watch->owner;
    /* Both are ready in the same batch: the first to run takes the other away. */
    trace(probe, watch == &probe->watches[0] ? '0' : '1');
    loop_remove(probe->loop, &probe->watches[0]);
    loop_remove(probe->loop, &probe->watches[1]);
    loop_stop(probe->loop);
}

static void watches_vanish(void **state)
{
    (void)state;
    struct probe probe = { .loop = loop_new() };
    probe.timers[0] = (struct loop_timer){ .due = on_greedy, .owner = &probe };
    loop_arm(probe.loop, &probe.timers[0], 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(probe.pipes[i]), 0);
        probe.watches[i] = (struct loop_fd){ probe.pipes[i][0], on_readable, &probe };
        loop_add(probe.loop, &probe.watches[i], EPOLLIN);
        assert_int_equal(write(probe.pipes[i][1], "x", 1), 1);
    }
    loop_run(probe.loop);
    assert_int_equal(strlen(probe.trace), 1);
    assert_true(atomic_load(&probe.again) < 10);
    for (int i = 0; i < 2; i++) {
        close(probe.pipes[i][0]);
        close(probe.pipes[i][1]);
    }
    loop_free(probe.loop);
}

static void closed_is_not_watched(void **state)
{
    (void)state;
    struct probe probe = { .loop = loop_new() };
    struct loop_fd *watch = mem_alloc(sizeof *watch);
    assert_int_equal(pipe(probe.pipes[0]), 0);
    *watch = (struct loop_fd){ probe.pipes[0][0], on_readable, &probe };
    loop_add(probe.loop, watch, EPOLLIN);
    int also = dup(probe.pipes[0][0]); /* as a child has it between fork and exec */
    loop_close(probe.loop, probe.pipes[0][0]);
    loop_remove(probe.loop, watch);
    mem_free(watch);
    assert_int_equal(write(probe.pipes[0][1], "x", 1), 1);
    loop_step(probe.loop, 0);
    assert_string_equal(probe.trace, "");
    close(also);
    close(probe.pipes[0][1]);
    loop_free(probe.loop);
}

enum { WAKERS = 4, WAKES = 5000 };
static atomic_uint posted;

static void *waker(void *owner)
{
    struct probe *probe = owner;
    for (int i = 0; i < WAKES; i++) {
        atomic_fetch_add(&posted, 1);
        loop_wake(probe->loop);
    }
    return NULL;
}

static void on_woken(void *owner)
{
    struct probe *probe = owner;
    atomic_fetch_add(&probe->woken, 1);
    /* What was posted before a wake-up is seen by it: the last one can't be lost. */
    if (atomic_load(&posted) == WAKERS * WAKES)
        loop_stop(probe->loop);
}

static void wakes_from_threads(void **state)
{
    (void)state;
    struct probe probe = { .loop = loop_new() };
    pthread_t threads[WAKERS];
    atomic_store(&posted, 0);
    loop_on_wake(probe.loop, on_woken, &probe);
    for (int i = 0; i < WAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, waker, &probe), 0);
    loop_run(probe.loop);
    for (int i = 0; i < WAKERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&probe.woken) >= 1 && atomic_load(&probe.woken) <= WAKERS * WAKES);
    loop_forget(probe.loop, &probe);
    unsigned before = atomic_load(&probe.woken);
    loop_wake(probe.loop);
    loop_step(probe.loop, 0);
    loop_step(probe.loop, 0);
    assert_int_equal(atomic_load(&probe.woken), before);
    loop_free(probe.loop);
}

static void on_signal(int signo, void *owner)
{
    struct probe *probe = owner;
    trace(probe, signo == SIGUSR1 ? '1' : '2');
    if (atomic_fetch_add(&probe->signals, 1) == 1)
        loop_stop(probe->loop);
}

static void signals_come_in_the_loop(void **state)
{
    (void)state;
    struct probe probe = { .loop = loop_new() };
    loop_on_signal(probe.loop, SIGUSR1, on_signal, &probe);
    loop_on_signal(probe.loop, SIGUSR2, on_signal, &probe);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    loop_run(probe.loop);
    assert_string_equal(probe.trace, "12");
    loop_free(probe.loop);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int64_t hook_far(void *owner)
{
    struct probe *probe = owner;
    atomic_fetch_add(&probe->again, 1);
    return INT64_MAX;
}

static int64_t hook_near(void *owner)
{
    struct probe *probe = owner;
    atomic_fetch_add(&probe->woken, 1);
    return loop_now(probe->loop) + 20;
}

static void hooks_before_waiting(void **state)
{
    (void)state;
    struct probe probe = { .loop = loop_new() }, other = { .loop = probe.loop };
    loop_before_wait(probe.loop, hook_far, &probe);
    loop_before_wait(probe.loop, hook_near, &other);
    int64_t begun = now_ms();
    loop_step(probe.loop, -1); /* ends by the hook's deadline */
    assert_true(now_ms() - begun >= 19 && now_ms() - begun < 5000);
    assert_int_equal(atomic_load(&probe.again), 1);
    assert_int_equal(atomic_load(&other.woken), 1);
    loop_forget(probe.loop, &other);
    loop_step(probe.loop, 1);
    assert_int_equal(atomic_load(&probe.again), 2);
    assert_int_equal(atomic_load(&other.woken), 1);
    loop_free(probe.loop);
}

static int64_t hook_once_more(void *owner)
{
    struct probe *probe = owner;
    if (atomic_fetch_add(&probe->again, 1) < 2)
        loop_again(probe->loop);
    return INT64_MAX;
}

static void work_for_hooks_is_no_sleep(void **state)
{
    (void)state;
    struct probe probe = { .loop = loop_new() };
    loop_before_wait(probe.loop, hook_once_more, &probe);
    int64_t begun = now_ms();
    loop_step(probe.loop, 60000);
    loop_step(probe.loop, 60000);
    assert_true(now_ms() - begun < 30000);
    loop_step(probe.loop, 30); /* nobody has asked: it sleeps */
    assert_true(now_ms() - begun >= 30);
    assert_int_equal(atomic_load(&probe.again), 3);
    loop_free(probe.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_in_order),
        cmocka_unit_test(watches_vanish),
        cmocka_unit_test(closed_is_not_watched),
        cmocka_unit_test(wakes_from_threads),
        cmocka_unit_test(signals_come_in_the_loop),
        cmocka_unit_test(hooks_before_waiting),
        cmocka_unit_test(work_for_hooks_is_no_sleep),
    };
    return cmocka_run_group_tests_name("io-loop", tests, NULL, NULL);
}
