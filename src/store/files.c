/* files: the few things the store does with directories and files. See files.h. What is created is synced with its
 * directory: after true, a power loss keeps it. Failures are ERR_io (ERR_disk_full when there is no room) with the path
 * and the system's words. */
#include "store/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plant.h"

static bool path_fail(const char *path, struct err *err)
{
    return err_set(err, errno == ENOSPC || errno == EDQUOT ? ERR_disk_full : ERR_io, "%s: %s", path, strerror(errno));
}

bool path_join(char out[FILES_PATH_MAX], const char *dir, const char *name, struct err *err)
{
    int n = snprintf(out, FILES_PATH_MAX, "%s/%s", dir, name);
    return (n > 0 && n < FILES_PATH_MAX) ||
           err_set(err, ERR_invalid, "the path %.64s... is longer than %d bytes", dir, FILES_PATH_MAX);
}

bool path_parent(char out[FILES_PATH_MAX], const char *path, struct err *err)
{
    int n = snprintf(out, FILES_PATH_MAX, "%s", path);
    if (n < 0 || n >= FILES_PATH_MAX)
        return err_set(err, ERR_invalid, "the path %.64s... is longer than %d bytes", path, FILES_PATH_MAX);
    char *slash = strrchr(out, '/');
    if (!slash)
        snprintf(out, FILES_PATH_MAX, ".");
    else
        slash[slash == out] = '\0';
    return true;
}

bool dir_create(const char *dir, mode_t mode, struct err *err)
{
    char part[FILES_PATH_MAX];
    struct stat st;
    if (stat(dir, &st) == 0)
        return S_ISDIR(st.st_mode) || err_set(err, ERR_conflict, "%s is not a directory", dir);
    if (!path_join(part, dir, "", err))
        return false;
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool last = slash[1] == '\0';
        if (mkdir(part, last ? mode : 0755) < 0 && errno != EEXIST)
            return path_fail(part, err);
        *slash = '/';
    }
    if (chmod(dir, mode) < 0) /* whatever the umask */
        return path_fail(dir, err);
    return path_parent(part, dir, err) && dir_sync(part, err);
}

bool file_sync(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return path_fail(path, err);
    bool ok = fsync(fd) == 0 || path_fail(path, err);
    close(fd);
    return ok;
}

bool dir_sync(const char *dir, struct err *err)
{
    return file_sync(dir, err);
}

bool file_create(const char *path, bool *out_new, struct err *err)
{
    char dir[FILES_PATH_MAX];
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    *out_new = fd >= 0;
    if (fd < 0)
        return errno == EEXIST || path_fail(path, err);
    close(fd);
    return path_parent(dir, path, err) && dir_sync(dir, err);
}

bool file_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

int64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

int lock_take(const char *dir, struct err *err)
{
    char path[FILES_PATH_MAX], text[128];
    if (!path_join(path, dir, "lock", err))
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return path_fail(path, err), -1;
    int locked = flock(fd, LOCK_EX | LOCK_NB);
    if (PLANT(lock_ignored))
        locked = 0;
    if (locked < 0) {
        ssize_t n = errno == EWOULDBLOCK ? pread(fd, text, sizeof text - 1, 0) : -1;
        text[n > 0 ? n : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        if (n < 0)
            path_fail(path, err);
        else
            err_set(err, ERR_conflict, "%s is in use: %s; end it first, or choose another directory", dir,
                *text ? text : "another process has it open");
        close(fd);
        return -1;
    }
    int n = snprintf(text, sizeof text, "process %ld has this store open\n", (long)getpid());
    bool said = ftruncate(fd, 0) == 0 && (pwrite(fd, text, (size_t)n, 0) == n || ftruncate(fd, 0) == 0);
    (void)said; /* only words for people: a full disk must not keep a server from starting */
    return fd;
}
