/* fsx: write, sync, rename, sync the folder (see fsx.h).
 *
 * Promises that a file which was reported as replaced is on disk, under its name, with its content: close and fsync
 * errors count.
 *
 * A failed replacement leaves the old file and nothing beside it. */
#include "io/fsx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fsx_fail(struct err *err, const char *what, const char *path, int fault)
{
    enum err_code code = ERR_io;
    if (fault == ENOSPC || fault == EDQUOT || fault == EFBIG)
        code = ERR_disk_full;
    else if (fault == ENOENT || fault == ENOTDIR)
        code = ERR_not_found;
    return err_set(err, code, "can't %s %s: %s", what, path, strerrordesc_np(fault));
}

static bool path_fits(const char *path, size_t room, struct err *err)
{
    if (*path && strlen(path) + room <= 4096)
        return true;
    return err_set(err, ERR_io, "the path is empty or too long: %.200s", path);
}

/* fsx_parent: "a/b" -> "a", "b" -> ".", "/b" -> "/". */
static void fsx_parent(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(out, size, ".");
    else if (slash == path)
        snprintf(out, size, "/");
    else
        snprintf(out, size, "%.*s", (int)(slash - path), path);
}

bool fsx_sync_dir(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fsx_fail(err, "open the folder", path, errno);
    int fault = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return fault == 0 || fsx_fail(err, "sync the folder", path, fault);
}

static bool sync_parent(const char *path, struct err *err)
{
    char parent[4200];
    fsx_parent(path, parent, sizeof parent);
    return fsx_sync_dir(parent, err);
}

void fsx_close(int fd)
{
    int fault = errno;
    if (fd >= 0)
        close(fd);
    errno = fault;
}

DIR *fsx_folder(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        fsx_close(fd);
    return dir;
}

struct dirent *fsx_entry(DIR *dir)
{
    struct dirent *entry;
    do
        entry = readdir(dir);
    while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry;
}

bool fsx_read_text(int dir_fd, const char *name, int flags, char *out, size_t size)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | flags);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    fsx_close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

int fsx_write_all(int fd, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        bytes.ptr += n;
        bytes.len -= (size_t)n;
    }
    return 0;
}

bool fsx_replace(const char *path, struct str bytes, mode_t mode, struct err *err)
{
    char beside[4200];
    if (!path_fits(path, 16, err))
        return false;
    snprintf(beside, sizeof beside, "%s.new-XXXXXX", path);
    int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return fsx_fail(err, "write", path, errno);
    int fault = fsx_write_all(fd, bytes);
    if (fault == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
        fault = errno;
    if (close(fd) != 0 && fault == 0)
        fault = errno;
    if (fault == 0 && rename(beside, path) != 0)
        fault = errno;
    if (fault != 0) {
        unlink(beside);
        return fsx_fail(err, "write", path, fault);
    }
    return sync_parent(path, err);
}

bool fsx_read(const char *path, size_t limit, struct arena *arena, struct str *out, struct err *err)
{
    /* O_NONBLOCK: somebody's fifo must not hold us up; it is refused below. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fsx_fail(err, "read", path, errno);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, ERR_io, "can't read %s: it isn't a file", path);
    }
    /* Files in /proc have size 0, and any may grow while it is read: the size is only a first guess. */
    size_t room = st.st_size > 0 && (uint64_t)st.st_size < limit ? (size_t)st.st_size
                  : limit < 4096                                 ? limit
                                                                 : 4096,
           n = 0;
    char *bytes = mem_alloc(room + 2);
    int fault = 0;
    for (;;) {
        if (n > room) {
            room *= 2;
            bytes = mem_realloc(bytes, room + 2);
        }
        ssize_t got = read(fd, bytes + n, room + 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        fault = got < 0 ? errno : 0;
        if (got <= 0 || (n += (size_t)got) > limit)
            break;
    }
    close(fd);
    if (fault == 0 && n <= limit)
        *out = str_dup(arena, (struct str){ bytes, n });
    mem_free(bytes);
    if (fault != 0)
        return fsx_fail(err, "read", path, fault);
    return n <= limit || err_set(err, ERR_body_too_large, "%s is over the limit of %zu bytes", path, limit);
}

bool fsx_make_dirs(const char *path, mode_t mode, struct err *err)
{
    char part[4200];
    if (!path_fits(path, 2, err))
        return false;
    size_t len = strlen(path);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, mode) == 0) {
            if (chmod(part, mode) != 0)
                return fsx_fail(err, "set the mode of", part, errno);
            if (!sync_parent(part, err))
                return false;
        } else if (errno != EEXIST) {
            return fsx_fail(err, "make the folder", part, errno);
        }
    }
    struct stat st;
    if (stat(path, &st) != 0)
        return fsx_fail(err, "make the folder", path, errno);
    return S_ISDIR(st.st_mode) || err_set(err, ERR_io, "can't make the folder %s: a file is there", path);
}

bool fsx_remove(const char *path, struct err *err)
{
    if (!path_fits(path, 2, err))
        return false;
    if (unlink(path) != 0)
        return errno == ENOENT || fsx_fail(err, "remove", path, errno);
    return sync_parent(path, err);
}
