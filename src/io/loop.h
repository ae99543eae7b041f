/* loop: epoll, timers, wake-ups from other threads, signals; one thread runs it.
 *
 * Callbacks run on the loop's thread. loop_wake is the only call that other threads may make. A timer that isn't armed
 * costs no wake-up. */
#ifndef WEIR_IO_LOOP_H
#define WEIR_IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"

struct loop;

struct loop_fd {
    int fd;
    void (*ready)(struct loop_fd *self, uint32_t epoll_events);
    void *owner;
};
struct loop_timer {
    struct heap_node node;
    void (*due)(struct loop_timer *self);
    void *owner;
};

struct loop *loop_new(void);
void loop_free(struct loop *loop);
void loop_add(struct loop *loop, struct loop_fd *watch, uint32_t epoll_events); /* EPOLLIN ... */
void loop_change(struct loop *loop, struct loop_fd *watch, uint32_t epoll_events);
/* safe inside callbacks; the fd stays open */
void loop_remove(struct loop *loop, struct loop_fd *watch);
/* loop_close: closes a descriptor that is, or was, watched. A plain close doesn't end the watch while a child
 * between fork and exec has the descriptor too, and afterwards the watch can't be removed. */
void loop_close(struct loop *loop, int fd);
/* absolute, clock_boot_ms; moves an armed one */
void loop_arm(struct loop *loop, struct loop_timer *timer, int64_t boot_ms);
void loop_disarm(struct loop *loop, struct loop_timer *timer);
int64_t loop_now(struct loop *loop); /* boot ms, read once per iteration */
/* several may listen; each hears every wake-up */
void loop_on_wake(struct loop *loop, void (*woken)(void *owner), void *owner);
void loop_wake(struct loop *loop); /* any thread; async-signal-safe */
/* blocks it and reads a signalfd */
void loop_on_signal(struct loop *loop, int signo, void (*fn)(int signo, void *owner), void *owner);
/* loop_before_wait: called before each wait, in the order of registration; returns boot ms of its own next deadline, or
 * INT64_MAX. A hook whose deadline has passed is called again at once. loop_forget takes away whatever the owner
 * registered with loop_on_wake, loop_on_signal and loop_before_wait (a signal stays blocked). */
void loop_before_wait(struct loop *loop, int64_t (*fn)(void *owner), void *owner);
void loop_forget(struct loop *loop, void *owner);
void loop_again(struct loop *loop); /* on the loop's thread: the hooks are called once more before the loop sleeps */
void loop_run(struct loop *loop);   /* until loop_stop; may be run again */
/* one iteration that waits at most max_ms (-1: as long as it takes) */
void loop_step(struct loop *loop, int64_t max_ms);
void loop_stop(struct loop *loop); /* the running iteration is finished first */

#endif
