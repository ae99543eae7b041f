/* eyes: inotify in the folders of local repositories where a new revision shows.
 *
 * Owns the inotify descriptor and who wants to know of which folder; several archives may look at one folder. Promises
 * that eyes_open of a follow is true only if every folder is looked at and its file system tells of all changes: on
 * network file systems others' changes go unseen, so those are looked at by the clock.
 *
 * Fails softly: without inotify (its limits, no such folder) the archive is looked at every second. An event means no
 * more than: look. */
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/log.h"
#include "watch/follow.h"

enum { EVENT_ROOM = 64 * 1024, READS_MAX = 8 };

#define EYE_MASK (IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* File systems of which the kernel here doesn't hear everything. */
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

/* --- who wants to know; all under watch->lock --- */

static void eye_add(struct watch *watch, int wd, struct follow *follow)
{
    struct eye *eye = map_find(&watch->eyes, (uint64_t)wd);
    if (eye == NULL) {
        eye = mem_alloc_zero(sizeof *eye);
        eye->wd = wd;
        map_put(&watch->eyes, (uint64_t)wd, eye);
    }
    for (size_t i = 0; i < eye->n; i++)
        if (eye->users[i] == follow)
            return;
    if (eye->n == eye->cap) {
        eye->cap = eye->cap > 0 ? 2 * eye->cap : 4;
        eye->users = mem_realloc(eye->users, eye->cap * sizeof *eye->users);
    }
    eye->users[eye->n++] = follow;
}

static void eye_free(struct watch *watch, struct eye *eye)
{
    map_take(&watch->eyes, (uint64_t)eye->wd);
    mem_free(eye->users);
    mem_free(eye);
}

static void eye_drop(struct watch *watch, int wd, const struct follow *follow)
{
    struct eye *eye = map_find(&watch->eyes, (uint64_t)wd);
    if (eye == NULL)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < eye->n; i++)
        if (eye->users[i] != follow)
            eye->users[kept++] = eye->users[i];
    eye->n = kept;
    if (kept > 0)
        return;
    inotify_rm_watch(watch->eyes_fd.fd, wd);
    eye_free(watch, eye);
}

static void sights_drop(struct follow *follow)
{
    for (size_t i = 0; i < follow->n_sights; i++) {
        eye_drop(follow->watch, follow->sights[i].wd, follow);
        mem_free(follow->sights[i].name);
    }
    follow->n_sights = 0;
    follow->eyes_open = false;
}

/* --- the crew's side --- */

/* sights_set: adds before it drops, so that a folder that stays is looked at without a break. */
static bool sights_set(struct follow *follow, const struct source_watch *folders, size_t n)
{
    struct watch *watch = follow->watch;
    struct sight next[SIGHTS_MAX];
    size_t n_next = 0;
    bool all = n > 0 && n <= SIGHTS_MAX;
    for (size_t i = 0; i < n && n_next < SIGHTS_MAX; i++) {
        int wd = inotify_add_watch(watch->eyes_fd.fd, folders[i].folder, EYE_MASK);
        if (wd < 0) {
            all = false;
            continue;
        }
        next[n_next++] = (struct sight){ wd, str_keep(folders[i].name) };
    }
    for (size_t i = 0; i < follow->n_sights; i++) {
        bool stays = false;
        for (size_t k = 0; k < n_next; k++)
            stays |= next[k].wd == follow->sights[i].wd;
        if (!stays)
            eye_drop(watch, follow->sights[i].wd, follow);
        mem_free(follow->sights[i].name);
    }
    for (size_t k = 0; k < n_next; k++)
        eye_add(watch, next[k].wd, follow);
    memcpy(follow->sights, next, sizeof *next * n_next);
    follow->n_sights = n_next;
    return all;
}

void eyes_look(struct follow *follow)
{
    struct watch *watch = follow->watch;
    struct arena arena = { 0 };
    struct source_watch *folders = NULL;
    struct err ignored = { 0 };
    size_t n = 0;
    if (follow->served || watch->eyes_fd.fd < 0)
        return;
    bool good = source_watch_paths(follow->source, &arena, &folders, &n, &ignored);
    for (size_t i = 0; good && i < n; i++)
        good = !folder_is_quiet(folders[i].folder);
    pthread_mutex_lock(&watch->lock);
    if (good)
        follow->eyes_open = sights_set(follow, folders, n);
    else
        sights_drop(follow);
    pthread_mutex_unlock(&watch->lock);
    arena_release(&arena);
}

void eyes_close(struct follow *follow)
{
    pthread_mutex_lock(&follow->watch->lock);
    sights_drop(follow);
    pthread_mutex_unlock(&follow->watch->lock);
}

/* --- the loop's side --- */

static bool sight_wants(const struct follow *follow, int wd, const char *name)
{
    for (size_t i = 0; i < follow->n_sights; i++)
        if (follow->sights[i].wd == wd &&
            (follow->sights[i].name[0] == '\0' || strcmp(follow->sights[i].name, name) == 0))
            return true;
    return false;
}

/* event_take: who must look. A folder that is gone, or was renamed, must be found anew: that is what the look does. */
static void event_take(struct watch *watch, const struct inotify_event *event, struct list *out)
{
    bool lost = (event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0;
    struct eye *eye = map_find(&watch->eyes, (uint64_t)event->wd);
    if (eye == NULL)
        return;
    for (size_t i = 0; i < eye->n; i++) {
        struct follow *follow = eye->users[i];
        if (!lost && !sight_wants(follow, event->wd, event->len > 0 ? event->name : ""))
            continue;
        if (!follow->sighted.in)
            list_append(out, &follow->sighted);
        if (lost)
            follow->eyes_open = false;
    }
    if (event->mask & IN_IGNORED) { /* the kernel has forgotten it; its number may come again for another folder */
        for (size_t i = 0; i < eye->n; i++)
            for (size_t k = 0; k < eye->users[i]->n_sights; k++)
                if (eye->users[i]->sights[k].wd == event->wd)
                    eye->users[i]->sights[k].wd = -1;
        eye_free(watch, eye);
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
                if (!follow->served && !follow->sighted.in)
                    list_append(out, &follow->sighted);
            }
        } else {
            event_take(watch, event, out);
        }
        at += sizeof head + head.len;
    }
    pthread_mutex_unlock(&watch->lock);
}

static void eyes_ready(struct loop_fd *self, uint32_t epoll_events)
{
    struct watch *watch = self->owner;
    _Alignas(struct inotify_event) char bytes[EVENT_ROOM];
    struct list sighted = { 0 };
    (void)epoll_events;
    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t n = read(self->fd, bytes, sizeof bytes);
        if (n <= 0)
            break;
        events_take(watch, bytes, (size_t)n, &sighted);
    }
    struct list_node *node;
    while ((node = list_take_first(&sighted)) != NULL) {
        struct follow *follow = CONTAINER_OF(node, struct follow, sighted);
        if (!follow->gone)
            follow_seen(follow);
    }
}

void eyes_init(struct watch *watch)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->eyes_fd = (struct loop_fd){ .fd = fd, .ready = eyes_ready, .owner = watch };
    if (fd < 0)
        log_warn("watch.inotify", "error=%s note=\"local repositories are looked at every second\"",
            log_quote(str_of(strerrordesc_np(errno))).z);
    else
        loop_add(watch->config.loop, &watch->eyes_fd, EPOLLIN);
}

void eyes_shut(struct watch *watch)
{
    if (watch->eyes_fd.fd >= 0)
        loop_remove(watch->config.loop, &watch->eyes_fd);
}

void eyes_release(struct watch *watch)
{
    if (watch->eyes_fd.fd >= 0)
        close(watch->eyes_fd.fd);
    MAP_EACH (&watch->eyes, e) {
        struct eye *eye = e->value;
        mem_free(eye->users);
        mem_free(eye);
    }
    map_release(&watch->eyes);
}
