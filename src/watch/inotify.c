/* inotify: watches on the folders of local repositories in which a new revision shows.
 *
 * Owns the inotify descriptor and the list of follows that want the events of a folder; several archives may share
 * one. Promises that `complete` of a follow is true only if each of its folders has a watch and a file system that
 * reports every change: a network file system doesn't report the changes of other machines, so such a repository is
 * scanned by the timer.
 *
 * Without inotify (its limits are reached, the folder isn't there) the archive is scanned every second. An event
 * carries no content: it only asks for a scan. */
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/fsx.h"
#include "io/log.h"
#include "watch/follow.h"

enum { EVENT_ROOM = 64 * 1024, READS_MAX = 8 };

#define FOLDER_EVENTS (IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* File systems that change without an event on this machine. */
static bool folder_is_quiet(const char *folder)
{
    static const unsigned long quiet[] = { NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, 0xff534d42UL /* cifs */,
        0xfe534d42UL /* smb2 */, CODA_SUPER_MAGIC, AFS_SUPER_MAGIC, V9FS_MAGIC, CEPH_SUPER_MAGIC, FUSE_SUPER_MAGIC,
        0x0bd00bd0UL /* lustre */, 0x01161970UL /* gfs2 */, OCFS2_SUPER_MAGIC };
    struct statfs st;
    if (statfs(folder, &st) != 0)
        return true;
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        if (((unsigned long)st.f_type & 0xffffffffUL) == quiet[i])
            return true;
    return false;
}

/* --- folders and the follows that want their events; all under watch->lock --- */

static void folder_add(struct watch *watch, int wd, struct follow *follow)
{
    struct inotify_folder *folder = map_find(&watch->folders, (uint64_t)wd);
    if (folder == NULL) {
        folder = mem_alloc_zero(sizeof *folder);
        folder->wd = wd;
        map_put(&watch->folders, (uint64_t)wd, folder);
    }
    for (size_t i = 0; i < folder->n; i++)
        if (folder->users[i] == follow)
            return;
    if (folder->n == folder->cap) {
        folder->cap = folder->cap > 0 ? 2 * folder->cap : 4;
        folder->users = mem_realloc(folder->users, folder->cap * sizeof *folder->users);
    }
    folder->users[folder->n++] = follow;
}

static void folder_free(struct watch *watch, struct inotify_folder *folder)
{
    map_take(&watch->folders, (uint64_t)folder->wd);
    mem_free(folder->users);
    mem_free(folder);
}

static void folder_drop(struct watch *watch, int wd, const struct follow *follow)
{
    struct inotify_folder *folder = map_find(&watch->folders, (uint64_t)wd);
    if (folder == NULL)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < folder->n; i++)
        if (folder->users[i] != follow)
            folder->users[kept++] = folder->users[i];
    folder->n = kept;
    if (kept > 0)
        return;
    inotify_rm_watch(watch->inotify_fd.fd, wd);
    folder_free(watch, folder);
}

static void interests_drop(struct follow *follow)
{
    for (size_t i = 0; i < follow->inotify.n; i++) {
        folder_drop(follow->watch, follow->inotify.interests[i].wd, follow);
        mem_free(follow->inotify.interests[i].name);
    }
    follow->inotify.n = 0;
    follow->inotify.complete = false;
}

/* --- the thread pool's side --- */

/* interests_set: adds before it drops, so that a folder that stays never loses its watch. */
static bool interests_set(struct follow *follow, const struct source_watch *folders, size_t n)
{
    struct watch *watch = follow->watch;
    struct inotify_interest next[INTERESTS_MAX];
    size_t n_next = 0;
    bool all = n > 0 && n <= INTERESTS_MAX;
    for (size_t i = 0; i < n && n_next < INTERESTS_MAX; i++) {
        int wd = inotify_add_watch(watch->inotify_fd.fd, folders[i].folder, FOLDER_EVENTS);
        if (wd < 0) {
            all = false;
            continue;
        }
        next[n_next++] = (struct inotify_interest){ wd, str_keep(folders[i].name) };
    }
    for (size_t i = 0; i < follow->inotify.n; i++) {
        bool stays = false;
        for (size_t k = 0; k < n_next; k++)
            stays |= next[k].wd == follow->inotify.interests[i].wd;
        if (!stays)
            folder_drop(watch, follow->inotify.interests[i].wd, follow);
        mem_free(follow->inotify.interests[i].name);
    }
    for (size_t k = 0; k < n_next; k++)
        folder_add(watch, next[k].wd, follow);
    memcpy(follow->inotify.interests, next, sizeof *next * n_next);
    follow->inotify.n = n_next;
    return all;
}

void inotify_follow(struct follow *follow)
{
    struct watch *watch = follow->watch;
    struct arena arena = { 0 };
    struct source_watch *folders = NULL;
    struct err ignored = { 0 };
    size_t n = 0;
    if (follow->served || watch->inotify_fd.fd < 0)
        return;
    bool good = source_watch_paths(follow->source, &arena, &folders, &n, &ignored);
    for (size_t i = 0; good && i < n; i++)
        good = !folder_is_quiet(folders[i].folder);
    pthread_mutex_lock(&watch->lock);
    if (good)
        follow->inotify.complete = interests_set(follow, folders, n);
    else
        interests_drop(follow);
    pthread_mutex_unlock(&watch->lock);
    arena_release(&arena);
}

void inotify_unfollow(struct follow *follow)
{
    pthread_mutex_lock(&follow->watch->lock);
    interests_drop(follow);
    pthread_mutex_unlock(&follow->watch->lock);
}

/* --- the loop's side --- */

static bool interest_fits(const struct follow *follow, int wd, const char *name)
{
    for (size_t i = 0; i < follow->inotify.n; i++)
        if (follow->inotify.interests[i].wd == wd &&
            (follow->inotify.interests[i].name[0] == '\0' || strcmp(follow->inotify.interests[i].name, name) == 0))
            return true;
    return false;
}

/* event_take: adds the follows that have to scan to `out`. A folder that was removed or renamed has to be found again,
 * which the scan does. */
static void event_take(struct watch *watch, const struct inotify_event *event, struct list *out)
{
    bool lost = (event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0;
    struct inotify_folder *folder = map_find(&watch->folders, (uint64_t)event->wd);
    if (folder == NULL)
        return;
    for (size_t i = 0; i < folder->n; i++) {
        struct follow *follow = folder->users[i];
        if (!lost && !interest_fits(follow, event->wd, event->len > 0 ? event->name : ""))
            continue;
        if (!follow->inotify.node.in)
            list_append(out, &follow->inotify.node);
        if (lost)
            follow->inotify.complete = false;
    }
    if (event->mask & IN_IGNORED) { /* the kernel has forgotten it; its number may come again for another folder */
        for (size_t i = 0; i < folder->n; i++)
            for (size_t k = 0; k < folder->users[i]->inotify.n; k++)
                if (folder->users[i]->inotify.interests[k].wd == event->wd)
                    folder->users[i]->inotify.interests[k].wd = -1;
        folder_free(watch, folder);
    }
}

static void events_take(struct watch *watch, const char *bytes, size_t n, struct list *out)
{
    pthread_mutex_lock(&watch->lock);
    for (size_t at = 0; at + sizeof(struct inotify_event) <= n;) {
        struct inotify_event head;
        memcpy(&head, bytes + at, sizeof head);
        const struct inotify_event *event = (const void *)(bytes + at);
        if (head.mask & IN_Q_OVERFLOW) {
            for (struct list_node *node = watch->follows.first; node != NULL; node = node->next) {
                struct follow *follow = CONTAINER_OF(node, struct follow, node);
                if (!follow->served && !follow->inotify.node.in)
                    list_append(out, &follow->inotify.node);
            }
        } else {
            event_take(watch, event, out);
        }
        at += sizeof head + head.len;
    }
    pthread_mutex_unlock(&watch->lock);
}

static void inotify_ready(struct loop_fd *self, uint32_t epoll_events)
{
    struct watch *watch = self->owner;
    _Alignas(struct inotify_event) char bytes[EVENT_ROOM];
    struct list seen = { 0 };
    (void)epoll_events;
    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t n = read(self->fd, bytes, sizeof bytes);
        if (n <= 0)
            break;
        events_take(watch, bytes, (size_t)n, &seen);
    }
    struct list_node *node;
    while ((node = list_take_first(&seen)) != NULL) {
        struct follow *follow = CONTAINER_OF(node, struct follow, inotify.node);
        if (!follow->gone)
            follow_seen(follow);
    }
}

void inotify_start(struct watch *watch)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->inotify_fd = (struct loop_fd){ .fd = fd, .ready = inotify_ready, .owner = watch };
    if (fd < 0)
        log_warn("watch.inotify", "error=%s note=\"local repositories are looked at every second\"",
            log_quote(str_of(strerrordesc_np(errno))).z);
    else
        loop_add(watch->config.loop, &watch->inotify_fd, EPOLLIN);
}

void inotify_stop(struct watch *watch)
{
    if (watch->inotify_fd.fd >= 0)
        loop_remove(watch->config.loop, &watch->inotify_fd);
}

void inotify_release(struct watch *watch)
{
    fsx_close(watch->inotify_fd.fd);
    MAP_EACH (&watch->folders, e)
        folder_free(watch, e->value); /* taking an entry while walking is safe */
    map_release(&watch->folders);
}
