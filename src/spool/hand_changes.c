/* hand_changes: see hand_changes.h. */
#include "spool/hand_changes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "io/fsx.h"
#include "io/log.h"

enum { EVENT_ROOM = 64 * 1024, NS_PER_MS = 1000000 };

#define ENTRY_EVENTS (IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR)

void hand_changes_open(struct hand_changes *out, const struct folders *folders)
{
    *out = (struct hand_changes){ .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC) };
    for (size_t i = 0; i < FOLDER_COUNT; i++) {
        char path[64]; /* of the directory that is open, whatever stands at its path now */
        out->wds[i] = -1;
        if (out->fd < 0 || !folder_is_projected((enum spool_folder)i))
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", folders->fds[i]);
        out->wds[i] = inotify_add_watch(out->fd, path, ENTRY_EVENTS);
        if (out->wds[i] < 0)
            log_warn("spool.inotify",
                "folder=%s error=%s note=\"what is changed by hand is put right at the next start\"",
                folder_name((enum spool_folder)i), log_quote(str_of(strerrordesc_np(errno))).z);
    }
}

void hand_changes_close(struct hand_changes *changes)
{
    fsx_close(changes->fd);
}

static bool says_state(const struct follower *follower, enum spool_folder folder, const char *name)
{
    struct arena arena = { 0 };
    struct diags diags = { .arena = &arena };
    struct changeset_limits limits = follower->limits;
    struct changeset_meta meta;
    struct stat st;
    const char *why;
    size_t n = 0;
    limits.meta_bytes *= 2;
    char *bytes = entry_read(follower->folders, folder, name, (size_t)limits.meta_bytes, &n, &st, &why);
    bool good = bytes != NULL && st.st_mtim.tv_nsec % NS_PER_MS == 0;
    if (good)
        (void)changeset_meta_read((struct str){ bytes, n }, &limits, &arena, &diags, &meta);
    good = good && meta.state.len == 1 && state_of_letter(meta.state.ptr[0]) != STATE_NONE &&
           folder_of_state(state_of_letter(meta.state.ptr[0])) == folder;
    mem_free(bytes);
    arena_release(&arena);
    return good;
}

static bool stands_right(const struct follower *follower, const char *name)
{
    enum spool_folder where = FOLDER_COUNT;
    for (size_t i = FOLDER_QUEUE; i <= FOLDER_ABANDON; i++) {
        struct stat st;
        if (fstatat(follower->folders->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (where != FOLDER_COUNT || entry_fault(&st, false) != NULL)
            return false;
        where = (enum spool_folder)i;
    }
    return where != FOLDER_COUNT && says_state(follower, where, name);
}

static bool event_take(
    const struct hand_changes *changes, struct follower *follower, const struct inotify_event *event, struct err *err)
{
    for (size_t i = 0; i < FOLDER_COUNT; i++) {
        if (changes->wds[i] != event->wd || event->len == 0)
            continue;
        struct changeset_name name;
        struct err ignored = { 0 };
        struct stat st;
        bool gone = fstatat(follower->folders->fds[i], event->name, &st, AT_SYMLINK_NOFOLLOW) != 0;
        if (stands_right(follower, event->name) ||
            (gone && !changeset_name_parse(str_of(event->name), &name, &ignored)))
            return true;
        log_warn(
            "spool.by_hand", "folder=%s file=%s", folder_name((enum spool_folder)i), log_quote(str_of(event->name)).z);
        return follower_check(follower, (enum spool_folder)i, str_of(event->name), err);
    }
    return true;
}

static bool events_take(
    const struct hand_changes *changes, struct follower *follower, const char *bytes, size_t n, struct err *err)
{
    bool good = true;
    for (size_t at = 0; good && at + sizeof(struct inotify_event) <= n;) {
        struct inotify_event head;
        memcpy(&head, bytes + at, sizeof head);
        if (head.mask & IN_Q_OVERFLOW)
            follower_repair(follower);
        else
            good = event_take(changes, follower, (const void *)(bytes + at), err);
        at += sizeof head + head.len;
    }
    return good;
}

bool hand_changes_take(struct hand_changes *changes, struct follower *follower, struct err *err)
{
    _Alignas(struct inotify_event) char bytes[EVENT_ROOM];
    ssize_t n;
    while ((n = read(changes->fd, bytes, sizeof bytes)) > 0)
        if (!events_take(changes, follower, bytes, (size_t)n, err)) {
            follower_repair(follower);
            return false;
        }
    return true;
}
