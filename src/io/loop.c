/* loop: epoll, a heap of timers, an eventfd for other threads, a signalfd.
 *
 * One iteration: the hooks of loop_before_wait, one wait, due timers, ready descriptors. Deadlines are absolute boot
 * time, so a late iteration never shifts the next ones. A watch that is removed while its event waits in the current
 * batch isn't called any more.
 *
 * What fails here is a bug of ours or a kernel without descriptors at start: both are assertions. */
#include "io/loop.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "io/clock.h"

enum {
    LOOP_BATCH = 256,
    LOOP_HOOKS_MAX = 16 /* one for each part of a server that has threads: nine with all of them */
};

struct loop_listener {
    void (*woken)(void *owner);
    void *owner;
};
struct loop_hook {
    int64_t (*fn)(void *owner);
    void *owner;
};
struct loop_trap {
    void (*fn)(int signo, void *owner);
    void *owner;
};

struct loop {
    int epoll;
    bool running, stopping;
    bool again;  /* a hook has work: it is called before the loop sleeps */
    int64_t now; /* 0: not inside an iteration */
    struct heap timers;
    struct loop_fd wake_watch, signal_watch;
    atomic_bool wake_sent; /* a wake-up is on its way: further ones need no system call */
    struct loop_listener listeners[LOOP_HOOKS_MAX];
    struct loop_hook hooks[LOOP_HOOKS_MAX];
    struct loop_trap traps[NSIG];
    sigset_t trapped;
    /* the kernel may tell of a watch that is gone, while a child being started has its descriptor too */
    struct map watched;
    struct epoll_event batch[LOOP_BATCH];
    int batch_at, batch_n;
};

static void loop_read_wake(struct loop_fd *self, uint32_t events)
{
    (void)events;
    struct loop *loop = self->owner;
    uint64_t count;
    ssize_t ignored = read(self->fd, &count, sizeof count);
    (void)ignored;
    /* Cleared after the read: a thread that still sees it set has published its work before the listeners run. */
    atomic_exchange(&loop->wake_sent, false);
    for (size_t i = 0; i < LOOP_HOOKS_MAX; i++)
        if (loop->listeners[i].woken)
            loop->listeners[i].woken(loop->listeners[i].owner);
}

static void loop_read_signals(struct loop_fd *self, uint32_t events)
{
    (void)events;
    struct loop *loop = self->owner;
    struct signalfd_siginfo seen;
    while (read(self->fd, &seen, sizeof seen) == (ssize_t)sizeof seen) {
        ASSERT(seen.ssi_signo < NSIG);
        struct loop_trap trap = loop->traps[seen.ssi_signo];
        if (trap.fn)
            trap.fn((int)seen.ssi_signo, trap.owner);
    }
}

struct loop *loop_new(void)
{
    struct loop *loop = mem_alloc(sizeof *loop);
    *loop = (struct loop){ .epoll = epoll_create1(EPOLL_CLOEXEC), .signal_watch = { .fd = -1 } };
    ASSERT(loop->epoll >= 0);
    atomic_init(&loop->wake_sent, false);
    sigemptyset(&loop->trapped);
    loop->wake_watch = (struct loop_fd){ eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), loop_read_wake, loop };
    ASSERT(loop->wake_watch.fd >= 0);
    loop_add(loop, &loop->wake_watch, EPOLLIN);
    return loop;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    ASSERT(!loop->running);
    if (loop->signal_watch.fd >= 0)
        close(loop->signal_watch.fd);
    close(loop->wake_watch.fd);
    close(loop->epoll);
    heap_release(&loop->timers);
    map_release(&loop->watched);
    mem_free(loop);
}

static void loop_control(struct loop *loop, int op, struct loop_fd *watch, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = watch };
    ASSERT(epoll_ctl(loop->epoll, op, watch->fd, &event) == 0);
}

void loop_add(struct loop *loop, struct loop_fd *watch, uint32_t epoll_events)
{
    loop_control(loop, EPOLL_CTL_ADD, watch, epoll_events);
    map_put(&loop->watched, (uint64_t)(uintptr_t)watch, watch);
}

void loop_change(struct loop *loop, struct loop_fd *watch, uint32_t epoll_events)
{
    loop_control(loop, EPOLL_CTL_MOD, watch, epoll_events);
}

void loop_remove(struct loop *loop, struct loop_fd *watch)
{
    map_take(&loop->watched, (uint64_t)(uintptr_t)watch);
    /* A descriptor that was closed before has left the epoll set already. */
    struct epoll_event none = { 0 };
    if (epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, &none) != 0)
        ASSERT(errno == ENOENT || errno == EBADF);
    for (int i = loop->batch_at; i < loop->batch_n; i++)
        if (loop->batch[i].data.ptr == watch)
            loop->batch[i].data.ptr = NULL;
}

void loop_close(struct loop *loop, int fd)
{
    struct epoll_event none = { 0 };
    if (epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, &none) != 0)
        ASSERT(errno == ENOENT || errno == EBADF);
    close(fd);
}

void loop_arm(struct loop *loop, struct loop_timer *timer, int64_t boot_ms)
{
    heap_put(&loop->timers, &timer->node, boot_ms);
}

void loop_disarm(struct loop *loop, struct loop_timer *timer)
{
    heap_take(&loop->timers, &timer->node);
}

int64_t loop_now(struct loop *loop)
{
    return loop->now ? loop->now : clock_boot_ms();
}

void loop_on_wake(struct loop *loop, void (*woken)(void *owner), void *owner)
{
    size_t i = 0;
    while (i < LOOP_HOOKS_MAX && loop->listeners[i].woken)
        i++;
    ASSERT(i < LOOP_HOOKS_MAX);
    loop->listeners[i] = (struct loop_listener){ woken, owner };
}

void loop_wake(struct loop *loop)
{
    if (atomic_exchange(&loop->wake_sent, true))
        return;
    uint64_t one = 1;
    int saved = errno;
    ssize_t ignored = write(loop->wake_watch.fd, &one, sizeof one);
    (void)ignored;
    errno = saved;
}

void loop_on_signal(struct loop *loop, int signo, void (*fn)(int signo, void *owner), void *owner)
{
    ASSERT(signo > 0 && signo < NSIG);
    loop->traps[signo] = (struct loop_trap){ fn, owner };
    sigaddset(&loop->trapped, signo);
    ASSERT(pthread_sigmask(SIG_BLOCK, &loop->trapped, NULL) == 0); /* threads that start later inherit it */
    int fd = signalfd(loop->signal_watch.fd, &loop->trapped, SFD_CLOEXEC | SFD_NONBLOCK);
    ASSERT(fd >= 0);
    if (loop->signal_watch.fd < 0) {
        loop->signal_watch = (struct loop_fd){ fd, loop_read_signals, loop };
        loop_add(loop, &loop->signal_watch, EPOLLIN);
    }
}

void loop_before_wait(struct loop *loop, int64_t (*fn)(void *owner), void *owner)
{
    size_t i = 0;
    while (i < LOOP_HOOKS_MAX && loop->hooks[i].fn)
        i++;
    ASSERT(i < LOOP_HOOKS_MAX);
    loop->hooks[i] = (struct loop_hook){ fn, owner };
}

void loop_again(struct loop *loop)
{
    loop->again = true;
}

void loop_forget(struct loop *loop, void *owner)
{
    for (size_t i = 0; i < LOOP_HOOKS_MAX; i++) {
        if (loop->listeners[i].owner == owner)
            loop->listeners[i] = (struct loop_listener){ 0 };
        if (loop->hooks[i].owner == owner)
            loop->hooks[i] = (struct loop_hook){ 0 };
    }
    for (int signo = 1; signo < NSIG; signo++)
        if (loop->traps[signo].owner == owner)
            loop->traps[signo] = (struct loop_trap){ 0 };
}

/* loop_wait_ms: what epoll_wait gets: until the next timer or the earliest deadline of a hook, -1 without any. */
static int loop_wait_ms(struct loop *loop, int64_t max_ms)
{
    int64_t deadline = INT64_MAX;
    loop->again = false;
    for (size_t i = 0; i < LOOP_HOOKS_MAX; i++) {
        if (!loop->hooks[i].fn)
            continue;
        int64_t at = loop->hooks[i].fn(loop->hooks[i].owner);
        if (at < deadline)
            deadline = at;
    }
    struct heap_node *first = heap_first(&loop->timers);
    if (first && first->key < deadline)
        deadline = first->key;
    if (loop->stopping || loop->again)
        return 0;
    if (deadline == INT64_MAX)
        return max_ms < 0 ? -1 : (int)(max_ms < INT_MAX ? max_ms : INT_MAX);
    int64_t ms = deadline - clock_boot_ms();
    if (max_ms >= 0 && ms > max_ms)
        ms = max_ms;
    return ms < 0 ? 0 : (int)(ms < INT_MAX ? ms : INT_MAX);
}

static void loop_run_timers(struct loop *loop)
{
    /* Only what was armed when we began: a timer that arms itself for the past mustn't starve the descriptors. */
    uint64_t order = loop->timers.order;
    for (;;) {
        struct heap_node *first = heap_first(&loop->timers);
        if (!first || first->key > loop->now || first->order > order)
            return;
        struct loop_timer *timer = CONTAINER_OF(first, struct loop_timer, node);
        heap_take(&loop->timers, first);
        timer->due(timer);
    }
}

void loop_step(struct loop *loop, int64_t max_ms)
{
    loop->now = clock_boot_ms();
    int wait_ms = loop_wait_ms(loop, max_ms);
    int n = epoll_wait(loop->epoll, loop->batch, LOOP_BATCH, wait_ms);
    ASSERT(n >= 0 || errno == EINTR);
    loop->now = clock_boot_ms();
    loop->batch_at = 0;
    loop->batch_n = n < 0 ? 0 : n;
    loop_run_timers(loop);
    while (loop->batch_at < loop->batch_n) {
        struct epoll_event *event = &loop->batch[loop->batch_at++];
        struct loop_fd *watch = event->data.ptr;
        if (watch && map_find(&loop->watched, (uint64_t)(uintptr_t)watch))
            watch->ready(watch, event->events);
    }
    loop->batch_at = loop->batch_n = 0;
    loop->now = 0;
}

void loop_run(struct loop *loop)
{
    ASSERT(!loop->running);
    loop->running = true;
    while (!loop->stopping)
        loop_step(loop, -1);
    loop->stopping = false;
    loop->running = false;
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}
