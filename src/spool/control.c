/* control: see control.h. */
#include "spool/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fsx.h"
#include "io/log.h"

enum { OWNER_MAX = 200, OPEN_TRIES = 16, DRAIN_BYTES = 4096, DRAIN_READS_MAX = 256, FILE_NAME_MAX = 32 };

static const char *const daemons[DAEMON_COUNT] = {
#define X(constant, name) [DAEMON_##constant] = (name),
    SPOOL_DAEMONS(X)
#undef X
};

/* is_at: is the file of this descriptor still the one of that name? */
static bool is_at(const struct folders *folders, const char *name, int fd)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && fstatat(folders->fds[FOLDER_CTRL], name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

/* file_open: a regular file of ours in ctrl/, made if it is missing; what is in the way goes to corrupt/. */
static int file_open(const struct folders *folders, const char *name, struct err *err)
{
    int ctrl = folders->fds[FOLDER_CTRL];
    for (int i = 0; i < OPEN_TRIES; i++) {
        struct stat st;
        const char *why = NULL;
        bool there = fstatat(ctrl, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (there && (why = entry_fault(&st, false)) != NULL) {
            if (!corrupt_move(folders, FOLDER_CTRL, name, str_of(why), err))
                return -1;
            continue;
        }
        int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (there ? 0 : O_CREAT | O_EXCL);
        int fd = openat(ctrl, name, flags, 0600);
        if (fd < 0 && errno != ENOENT && errno != EEXIST && errno != ELOOP)
            break;
        if (fd < 0)
            continue;
        if (fstat(fd, &st) == 0 && entry_fault(&st, false) == NULL)
            return fd;
        close(fd);
    }
    spool_fault(folders, FOLDER_CTRL, name, err);
    return -1;
}

/* file_fill: on a full disk the file stays empty: what counts is its lock. */
static void file_fill(int fd, struct str text)
{
    if (ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0)
        (void)fsx_write_all(fd, text);
}

static void owner_read(int fd, char out[OWNER_MAX + 1])
{
    ssize_t n = pread(fd, out, OWNER_MAX, 0);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (out[0] == '\0')
        snprintf(out, OWNER_MAX + 1, "another server");
}

static bool lock_take(struct control *out, const struct folders *folders, struct str owner, struct err *err)
{
    char other[OWNER_MAX + 1];
    struct buf text;
    for (int i = 0; i < OPEN_TRIES; i++) {
        int fd = file_open(folders, "lock", err);
        if (fd < 0)
            return false;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            bool busy = errno == EWOULDBLOCK;
            if (!busy)
                spool_fault(folders, FOLDER_CTRL, "lock", err);
            owner_read(fd, other);
            close(fd);
            return busy ? err_set(err, ERR_conflict,
                              "the spool %s is in use by %s: give this server one of its own (changesets.base)",
                              folders->base, other)
                        : false;
        }
        if (is_at(folders, "lock", fd)) {
            out->lock_fd = fd;
            break;
        }
        close(fd); /* somebody has moved it away meanwhile */
    }
    if (out->lock_fd < 0)
        return err_set(err, ERR_io, "%s/ctrl/lock is replaced again and again", folders->base);
    buf_init(&text, OWNER_MAX);
    buf_addf(&text, "%.*s\n", STR_ARG(owner));
    file_fill(out->lock_fd, buf_str(&text));
    buf_release(&text);
    return true;
}

static bool fifo_open(struct control *out, const struct folders *folders, enum spool_daemon daemon, struct err *err)
{
    int ctrl = folders->fds[FOLDER_CTRL];
    char name[FILE_NAME_MAX];
    struct stat st;
    snprintf(name, sizeof name, "%s_fifo", daemons[daemon]);
    for (int i = 0; i < OPEN_TRIES; i++) {
        if (fstatat(ctrl, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (!S_ISFIFO(st.st_mode) || st.st_uid != geteuid())) {
            if (!corrupt_move(folders, FOLDER_CTRL, name, STR("not a FIFO of this user"), err))
                return false;
        }
        if (mkfifoat(ctrl, name, 0600) != 0 && errno != EEXIST)
            break;
        int fd = openat(ctrl, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)) {
            out->fifo_fds[daemon] = fd;
            return true;
        }
        fsx_close(fd);
    }
    return spool_fault(folders, FOLDER_CTRL, name, err);
}

static bool pid_open(struct control *out, const struct folders *folders, enum spool_daemon daemon, struct err *err)
{
    char name[FILE_NAME_MAX], text[FILE_NAME_MAX];
    snprintf(name, sizeof name, "%s.pid", daemons[daemon]);
    for (int i = 0; i < OPEN_TRIES; i++) {
        int fd = file_open(folders, name, err);
        if (fd < 0)
            return false;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(folders, name, fd)) {
            int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
            out->pid_fds[daemon] = fd;
            file_fill(fd, (struct str){ text, (size_t)n });
            return true;
        }
        close(fd);
        /* we own BASE, so nobody else is a daemon of it: a lock that somebody else holds means nothing */
        if (!corrupt_move(folders, FOLDER_CTRL, name, STR("locked by a process that doesn't own this spool"), err))
            return false;
    }
    return err_set(err, ERR_io, "%s/ctrl/%s is replaced again and again", folders->base, name);
}

void control_none(struct control *out)
{
    out->lock_fd = -1;
    for (size_t i = 0; i < DAEMON_COUNT; i++)
        out->fifo_fds[i] = out->pid_fds[i] = -1;
}

bool control_open(struct control *out, const struct folders *folders, struct str owner, struct err *err)
{
    control_none(out);
    bool good = lock_take(out, folders, owner, err);
    for (size_t i = 0; good && i < DAEMON_COUNT; i++)
        good = fifo_open(out, folders, (enum spool_daemon)i, err) && pid_open(out, folders, (enum spool_daemon)i, err);
    return good;
}

void control_close(struct control *control, const struct folders *folders)
{
    char name[FILE_NAME_MAX];
    for (size_t i = 0; i < DAEMON_COUNT; i++) {
        snprintf(name, sizeof name, "%s.pid", daemons[i]);
        if (control->pid_fds[i] >= 0 && is_at(folders, name, control->pid_fds[i]))
            (void)unlinkat(folders->fds[FOLDER_CTRL], name, 0);
        fsx_close(control->pid_fds[i]);
        fsx_close(control->fifo_fds[i]);
    }
    fsx_close(control->lock_fd);
}

bool control_drain(const struct control *control, enum spool_daemon daemon)
{
    char bytes[DRAIN_BYTES];
    bool any = false;
    for (int i = 0; i < DRAIN_READS_MAX; i++) {
        if (read(control->fifo_fds[daemon], bytes, sizeof bytes) <= 0)
            break;
        any = true;
    }
    return any;
}
