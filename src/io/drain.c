/* drain: refused connections (see door.h): reads and discards the bytes that still come until the client
 * closes.
 *
 * At most DRAIN_MAX at a time, each for DRAIN_MS and DRAIN_BYTES: an attacker gains nothing by coming here.
 *
 * No failure here concerns a caller. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "io/door.h"

enum { DRAIN_MAX = 64, DRAIN_MS = 3000, DRAIN_BYTES = 64 << 20, DRAIN_SERIES = 16 };

struct drain {
    struct loop *loop;
    struct list open;
    char scratch[65536];
};

struct drain_guest {
    struct list_node node;
    struct drain *drain;
    struct loop_fd watch;
    struct loop_timer timer;
    size_t bytes;
};

static void guest_close(struct drain_guest *guest)
{
    struct drain *drain = guest->drain;
    loop_remove(drain->loop, &guest->watch);
    loop_disarm(drain->loop, &guest->timer);
    close(guest->watch.fd);
    list_remove(&drain->open, &guest->node);
    mem_free(guest);
}

static void guest_on_due(struct loop_timer *timer)
{
    guest_close(timer->owner);
}

static void guest_on_ready(struct loop_fd *watch, uint32_t events)
{
    (void)events;
    struct drain_guest *guest = watch->owner;
    struct drain *drain = guest->drain;
    for (int i = 0; i < DRAIN_SERIES; i++) {
        ssize_t n = recv(watch->fd, drain->scratch, sizeof drain->scratch, MSG_DONTWAIT);
        if (n > 0) {
            guest->bytes += (size_t)n;
            if (guest->bytes < DRAIN_BYTES)
                continue;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        guest_close(guest);
        return;
    }
}

struct drain *drain_new(struct loop *loop)
{
    struct drain *drain = mem_alloc(sizeof *drain);
    drain->loop = loop;
    drain->open = (struct list){ 0 };
    return drain;
}

void drain_free(struct drain *drain)
{
    if (!drain)
        return;
    while (drain->open.first)
        guest_close(CONTAINER_OF(drain->open.first, struct drain_guest, node));
    mem_free(drain);
}

void drain_take(struct drain *drain, int fd)
{
    shutdown(fd, SHUT_WR);
    if (drain->open.n >= DRAIN_MAX) {
        close(fd);
        return;
    }
    struct drain_guest *guest = mem_alloc(sizeof *guest);
    *guest = (struct drain_guest){ .drain = drain };
    guest->watch = (struct loop_fd){ fd, guest_on_ready, guest };
    guest->timer = (struct loop_timer){ .due = guest_on_due, .owner = guest };
    list_append(&drain->open, &guest->node);
    loop_add(drain->loop, &guest->watch, EPOLLIN);
    loop_arm(drain->loop, &guest->timer, loop_now(drain->loop) + DRAIN_MS);
}
