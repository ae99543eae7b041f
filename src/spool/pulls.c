/* pulls: the thread that scans prequeue/, and what wakes it: inotify, ctrl/prequeue_fifo, a call, the start, and the
 * time of entries that wait.
 *
 * Reading a tarball may take long (its author chooses it); so this isn't the projection's thread. A scan that is asked
 * for begins after it was asked for. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "engine/engine.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "io/log.h"
#include "spool/spool_parts.h"
#include "store/read.h"

enum { POLL_WAKE, POLL_INOTIFY, POLL_FIFO, POLL_COUNT };
enum { EVENT_ROOM = 64 * 1024 };

/* Not IN_CREATE: a file that is written here is taken when its writer has closed it. */
#define ENTRY_EVENTS (IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR)

/* --- the loop's side --- */

static void list_append_all(struct list *to, struct list *from)
{
    struct list_node *node;
    while ((node = list_take_first(from)) != NULL)
        list_append(to, node);
}

static void pull(struct spool *spool)
{
    uint64_t one = 1;
    (void)!write(spool->pulls.wake_fd, &one, sizeof one);
}

bool spool_scan(struct spool *spool, struct spool_scan *scan, struct err *err)
{
    if (!spool->is_open)
        return err_set(err, ERR_conflict, "this server has no spool: it is made with the first archive");
    pthread_mutex_lock(&spool->lock);
    list_append(&spool->pulls.asked, &scan->node);
    pthread_mutex_unlock(&spool->lock);
    pull(spool);
    return true;
}

void spool_scan_cancel(struct spool *spool, struct spool_scan *scan)
{
    struct pulls *pulls = &spool->pulls;
    struct list *const lists[] = { &pulls->asked, &pulls->being, &pulls->served };
    pthread_mutex_lock(&spool->lock);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (struct list_node *node = lists[i]->first; node != NULL; node = node->next)
            if (node == &scan->node) {
                list_remove(lists[i], node);
                break;
            }
    pthread_mutex_unlock(&spool->lock);
}

static void scans_answer(void *owner)
{
    struct spool *spool = owner;
    for (;;) {
        pthread_mutex_lock(&spool->lock);
        struct list_node *node = list_take_first(&spool->pulls.served);
        pthread_mutex_unlock(&spool->lock);
        if (node == NULL)
            return;
        struct spool_scan *scan = CONTAINER_OF(node, struct spool_scan, node);
        scan->done(scan);
    }
}

/* --- the thread's side --- */

static bool reader_get(struct spool *spool, struct err *err)
{
    struct prequeue *prequeue = &spool->pulls.prequeue;
    struct conf_changesets conf;
    engine_changesets(spool->config.engine, &conf);
    prequeue->limits = conf.limits;
    if (prequeue->reader == NULL)
        prequeue->reader = reader_open(spool->config.store, err);
    return prequeue->reader != NULL;
}

static void scan(struct spool *spool)
{
    struct pulls *pulls = &spool->pulls;
    struct spool_counts counts = { 0 };
    struct err err = { 0 };
    pthread_mutex_lock(&spool->lock);
    list_append_all(&pulls->being, &pulls->asked);
    pthread_mutex_unlock(&spool->lock);
    bool good = reader_get(spool, &err) && prequeue_scan(&pulls->prequeue, &counts, &err);
    if (!good) {
        log_warn("spool.scan", "error=%s", log_quote(str_of(err.text)).z);
        pulls->prequeue.next = clock_boot_ms() + 1000;
    }
    pthread_mutex_lock(&spool->lock);
    for (struct list_node *node = pulls->being.first; node != NULL; node = node->next) {
        struct spool_scan *asked = CONTAINER_OF(node, struct spool_scan, node);
        asked->counts = counts;
        asked->err = err;
    }
    bool any = pulls->being.n > 0;
    list_append_all(&pulls->served, &pulls->being);
    pthread_mutex_unlock(&spool->lock);
    if (any)
        loop_wake(spool->config.loop);
}

/* inotify_take: has something come that is worth a scan? A tarball only if an entry waits. */
static bool inotify_take(const struct pulls *pulls)
{
    _Alignas(struct inotify_event) char bytes[EVENT_ROOM];
    bool any = false;
    ssize_t n;
    while ((n = read(pulls->inotify_fd, bytes, sizeof bytes)) > 0)
        for (size_t at = 0; at + sizeof(struct inotify_event) <= (size_t)n;) {
            struct inotify_event head;
            memcpy(&head, bytes + at, sizeof head);
            any |= head.wd != pulls->data_wd || pulls->prequeue.next != INT64_MAX || (head.mask & IN_Q_OVERFLOW) != 0;
            at += sizeof head + head.len;
        }
    return any;
}

static void *pulls_main(void *owner)
{
    struct spool *spool = owner;
    struct pulls *pulls = &spool->pulls;
    struct pollfd polls[POLL_COUNT] = { [POLL_WAKE] = { .fd = pulls->wake_fd, .events = POLLIN },
        [POLL_INOTIFY] = { .fd = pulls->inotify_fd, .events = POLLIN },
        [POLL_FIFO] = { .fd = spool->control.fifo_fds[DAEMON_PREQUEUE], .events = POLLIN } };
    bool due = true;
    while (!atomic_load(&spool->stop)) {
        uint64_t n;
        if (due || clock_boot_ms() >= pulls->prequeue.next)
            scan(spool);
        int64_t wait = pulls->prequeue.next == INT64_MAX ? -1 : pulls->prequeue.next - clock_boot_ms();
        due = false;
        if (poll(polls, POLL_COUNT, wait < 0 && pulls->prequeue.next != INT64_MAX ? 0 : (int)wait) <= 0)
            continue;
        if (polls[POLL_WAKE].revents & POLLIN)
            due |= read(pulls->wake_fd, &n, sizeof n) > 0;
        if (polls[POLL_INOTIFY].revents & POLLIN)
            due |= inotify_take(pulls);
        if (polls[POLL_FIFO].revents & POLLIN)
            due |= control_drain(&spool->control, DAEMON_PREQUEUE);
    }
    return NULL;
}

static int folder_watch(const struct spool *spool, enum spool_folder folder)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", spool->folders.fds[folder]);
    int wd = inotify_add_watch(spool->pulls.inotify_fd, path, ENTRY_EVENTS);
    if (wd < 0)
        log_warn("spool.inotify", "folder=%s error=%s note=\"entries are seen by pulls and scans only\"",
            folder_name(folder), log_quote(str_of(strerrordesc_np(errno))).z);
    return wd;
}

bool pulls_start(struct spool *spool, struct err *err)
{
    struct pulls *pulls = &spool->pulls;
    pulls->prequeue = (struct prequeue){
        .folders = &spool->folders, .blobs = spool->config.blobs, .errands = &pulls->errands, .next = INT64_MAX
    };
    pulls->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pulls->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (pulls->wake_fd < 0)
        return err_set(err, ERR_io, "no descriptor for the spool: %s", strerrordesc_np(errno));
    (void)folder_watch(spool, FOLDER_PREQUEUE);
    pulls->data_wd = folder_watch(spool, FOLDER_DATA);
    errands_open(&pulls->errands, spool->config.loop, spool->config.engine);
    loop_on_wake(spool->config.loop, scans_answer, spool);
    int fault = pthread_create(&pulls->thread, NULL, pulls_main, spool);
    pulls->runs = fault == 0;
    if (pulls->runs)
        return true;
    loop_forget(spool->config.loop, spool);
    errands_leave(&pulls->errands);
    errands_release(&pulls->errands);
    return err_set(err, ERR_io, "no thread for the spool: %s", strerrordesc_np(fault));
}

void pulls_end(struct spool *spool)
{
    struct pulls *pulls = &spool->pulls;
    if (pulls->runs) {
        loop_forget(spool->config.loop, spool);
        errands_leave(&pulls->errands);
        pull(spool);
        pthread_join(pulls->thread, NULL);
        errands_release(&pulls->errands);
    }
    if (pulls->prequeue.reader != NULL)
        reader_close(pulls->prequeue.reader);
    prequeue_release(&pulls->prequeue);
    fsx_close(pulls->wake_fd);
    fsx_close(pulls->inotify_fd);
    *pulls = (struct pulls){ .wake_fd = -1, .inotify_fd = -1 };
}
