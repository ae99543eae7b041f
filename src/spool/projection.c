/* projection: the thread that writes the directories of the states.
 *
 * It sleeps until a commit has brought events or somebody has changed the directories by hand, and takes what has come
 * meanwhile at most ten times a second: a busy server pays for a few reads, and the spool is never more than a second
 * behind. What fails is tried again every second. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/engine.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "spool/spool_parts.h"
#include "store/read.h"

enum { GAP_MS = 100, RETRY_MS = 1000 };

struct pace {
    bool due;     /* there is something to follow */
    int64_t next; /* boot ms: not before */
};

static void step(struct spool *spool, struct pace *pace)
{
    struct follower *follower = &spool->projection.follower;
    struct conf_changesets conf;
    struct err err = { 0 };
    bool more = false;
    engine_changesets(spool->config.engine, &conf);
    follower->limits = conf.limits;
    if (follower->reader == NULL)
        follower->reader = reader_open(spool->config.store, &err);
    bool good = follower->reader != NULL && follower_step(follower, &more, &err);
    spool_trouble_set(spool, good ? NULL : &err);
    pace->due = more || !good;
    pace->next = clock_boot_ms() + (good ? more ? 0 : GAP_MS : RETRY_MS);
}

static void changes_look(struct spool *spool, struct pace *pace)
{
    struct projection *projection = &spool->projection;
    struct err err = { 0 };
    if (projection->follower.reader == NULL)
        return;
    if (!hand_changes_take(&projection->changes, &projection->follower, &err)) {
        spool_trouble_set(spool, &err);
        pace->next = clock_boot_ms() + RETRY_MS;
    }
    pace->due |= projection->follower.phase != FOLLOWER_REPAIRED;
}

/* Polled: events of the queue, changes by hand, and the FIFOs whose stages are the engine's, which needs no pull. */
enum { POLL_WAKE, POLL_CHANGES, POLL_QUEUE, POLL_EXEC, POLL_COUNT };

static void woken(struct spool *spool, const struct pollfd *polls, struct pace *pace)
{
    static const enum spool_daemon daemons[POLL_COUNT] = { [POLL_QUEUE] = DAEMON_QUEUE, [POLL_EXEC] = DAEMON_EXEC };
    uint64_t n;
    if (polls[POLL_WAKE].revents & POLLIN && read(spool->projection.wake_fd, &n, sizeof n) > 0) {
        atomic_store(&spool->projection.woken, false);
        pace->due = true;
    }
    if (polls[POLL_CHANGES].revents & POLLIN)
        changes_look(spool, pace);
    for (size_t i = POLL_QUEUE; i < POLL_COUNT; i++)
        if (polls[i].revents & POLLIN)
            (void)control_drain(&spool->control, daemons[i]);
}

static void *projection_main(void *owner)
{
    struct spool *spool = owner;
    struct pollfd polls[POLL_COUNT] = { [POLL_WAKE] = { .fd = spool->projection.wake_fd, .events = POLLIN },
        [POLL_CHANGES] = { .fd = spool->projection.changes.fd, .events = POLLIN },
        [POLL_QUEUE] = { .fd = spool->control.fifo_fds[DAEMON_QUEUE], .events = POLLIN },
        [POLL_EXEC] = { .fd = spool->control.fifo_fds[DAEMON_EXEC], .events = POLLIN } };
    struct pace pace = { .due = true };
    while (!atomic_load(&spool->stop)) {
        int64_t wait = pace.due ? pace.next - clock_boot_ms() : -1;
        if (pace.due && wait <= 0) {
            step(spool, &pace);
            wait = 0; /* and a look at what has come meanwhile */
        }
        if (poll(polls, POLL_COUNT, (int)wait) > 0)
            woken(spool, polls, &pace);
        else if (wait < 0 && errno != EINTR)
            break;
    }
    return NULL;
}

void projection_wake(struct spool *spool)
{
    uint64_t one = 1;
    if (!atomic_exchange(&spool->projection.woken, true))
        (void)!write(spool->projection.wake_fd, &one, sizeof one);
}

bool projection_start(struct spool *spool, struct err *err)
{
    struct projection *projection = &spool->projection;
    projection->follower = (struct follower){ .folders = &spool->folders, .blobs = spool->config.blobs };
    projection->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hand_changes_open(&projection->changes, &spool->folders);
    if (projection->wake_fd < 0)
        return err_set(err, ERR_io, "no descriptor for the spool: %s", strerrordesc_np(errno));
    int fault = pthread_create(&projection->thread, NULL, projection_main, spool);
    projection->runs = fault == 0;
    return projection->runs || err_set(err, ERR_io, "no thread for the spool: %s", strerrordesc_np(fault));
}

void projection_end(struct spool *spool)
{
    struct projection *projection = &spool->projection;
    if (projection->runs) {
        projection_wake(spool);
        pthread_join(projection->thread, NULL);
    }
    if (projection->follower.reader != NULL)
        reader_close(projection->follower.reader);
    follower_release(&projection->follower);
    hand_changes_close(&projection->changes);
    fsx_close(projection->wake_fd);
    *projection = (struct projection){ .wake_fd = -1, .changes.fd = -1 };
}
