/* workdir: see workdir.h. Works on descriptors only, so that a job that swaps a directory for a link while it is being
 * removed gains nothing. Depth is bounded by descending one level at a time and starting over, not by recursion. */
#include "exec/workdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fsx.h"

enum { DEPTH_OPEN = 64, ROUNDS = 4096 };

static int child_open(int fd, const char *name, dev_t device)
{
    int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child < 0 && errno == EACCES && fchmodat(fd, name, 0700, 0) == 0)
        child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (child >= 0 && (fstat(child, &st) < 0 || st.st_dev != device)) {
        close(child);
        child = -1;
    }
    return child;
}

/* Removes what can be removed in fd, up to `depth` levels down. true: it is empty now. *progress: something went away.
 * fd is closed. */
static bool dir_empty(int fd, dev_t device, int depth, bool *progress)
{
    fchmod(fd, 0700);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return false;
    }
    bool empty = true;
    for (struct dirent *entry; (entry = fsx_entry(dir));) {
        bool gone = unlinkat(fd, entry->d_name, 0) == 0;
        if (!gone && (errno == EISDIR || errno == EPERM || errno == EACCES)) {
            int child = depth > 0 ? child_open(fd, entry->d_name, device) : -1;
            if (child >= 0)
                dir_empty(child, device, depth - 1, progress);
            gone = unlinkat(fd, entry->d_name, AT_REMOVEDIR) == 0;
        }
        *progress |= gone;
        empty &= gone;
    }
    closedir(dir);
    return empty;
}

/* dir_hoist: folders nested deeper than DEPTH_OPEN: moves the lower part directly beneath the top, so that each round
 * removes DEPTH_OPEN levels. */
static bool dir_hoist(int top, dev_t device, int round)
{
    int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool moved = false;
    char to[32] = "";
    for (int depth = 0; fd >= 0 && depth <= DEPTH_OPEN + 1; depth++) {
        DIR *dir = fdopendir(fd);
        if (!dir)
            break;
        struct dirent *entry;
        do
            entry = fsx_entry(dir);
        while (entry && entry->d_type != DT_DIR);
        int child = entry ? child_open(fd, entry->d_name, device) : -1;
        if (child >= 0 && depth == DEPTH_OPEN / 2) {
            snprintf(to, sizeof to, "+weir%d", round);
            moved = renameat(fd, entry->d_name, top, to) == 0;
            close(child);
            child = -1;
        }
        closedir(dir);
        fd = child;
        if (moved)
            break;
    }
    fsx_close(fd);
    return moved;
}

static bool dir_is_empty(int fd)
{
    char space[1024] __attribute__((aligned(8)));
    if (lseek(fd, 0, SEEK_SET) < 0)
        return false;
    ssize_t n = getdents64(fd, space, sizeof space);
    /* "." and ".." are 24 bytes each: more than that is an entry. */
    return n >= 0 && n <= 48;
}

/* dir_put_aside: a folder with something that can't be removed (a mount, an immutable file) is renamed, so that no
 * later job finds it. */
static void dir_put_aside(int dir_fd, const char *name)
{
    char aside[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(aside, sizeof aside, "%s.left.%d", name, i);
        if (renameat2(dir_fd, name, dir_fd, aside, RENAME_NOREPLACE) == 0 || errno != EEXIST)
            return;
    }
}

/* A job may have replaced it with a file, a link, or a folder without rights. */
int workdir_open(int dir_fd, const char *name)
{
    for (int round = 0; round < 2; round++) {
        if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
            return -1;
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        bool mended = errno == EACCES ? fchmodat(dir_fd, name, 0700, 0) == 0 : unlinkat(dir_fd, name, 0) == 0;
        if (!mended)
            dir_put_aside(dir_fd, name);
    }
    return -1;
}

bool workdir_empty(int fd)
{
    struct stat st;
    bool empty = dir_is_empty(fd), progress = !empty && fstat(fd, &st) == 0;
    for (int round = 0; round < ROUNDS && !empty && progress; round++) {
        progress = false;
        int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        empty = again >= 0 && dir_empty(again, st.st_dev, DEPTH_OPEN, &progress);
        if (!empty && !progress)
            progress = dir_hoist(fd, st.st_dev, round);
    }
    return empty;
}

bool workdir_remove(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    bool empty = workdir_empty(fd);
    close(fd);
    return empty && unlinkat(dir_fd, name, AT_REMOVEDIR) == 0;
}

static bool dir_named(int dir_fd, const char *name, int fd)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev && (here.st_mode & 0700) == 0700;
}

bool workdir_clean(int dir_fd, const char *name, int *fd)
{
    bool empty = workdir_empty(*fd);
    if (empty && dir_named(dir_fd, name, *fd))
        return true;
    if (!empty)
        dir_put_aside(dir_fd, name);
    for (int round = 0; round < 2; round++) {
        int made = workdir_open(dir_fd, name);
        if (made < 0)
            return false;
        close(*fd);
        *fd = made;
        if (workdir_empty(made)) /* it isn't new when the job has put another one in its place */
            return true;
        dir_put_aside(dir_fd, name);
    }
    return false;
}
