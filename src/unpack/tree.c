/* tree: see tree.h. openat2(2) keeps a way of several folders beneath the directory; where the kernel lacks it, or a
 * folder has to be made, the way is walked one folder at a time, which comes to the same as no part is a link or
 * "..". It fails with disk_full or io; what was written until then is for the caller to remove. */
#include "unpack/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 8192, FOLDER_FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static bool tree_fail(struct str path, struct err *err)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return err_set(err, full ? ERR_disk_full : ERR_io, "%.*s can't be written: %s", STR_ARG(str_sub(path, 0, 100)),
        strerrordesc_np(errno));
}

static int folder_open_beneath(int dir_fd, const char *path)
{
    struct open_how how = { .flags = FOLDER_FLAGS,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };
    return (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
}

/* folder_walk: the folder at path, each part opened in the one before it, and made where it is missing; -1: errno. */
static int folder_walk(int dir_fd, char *path)
{
    int at = dir_fd;
    for (char *part = path; part != NULL && at >= 0;) {
        char *slash = strchr(part, '/');
        if (slash != NULL)
            *slash = '\0';
        int next = mkdirat(at, part, 0755) < 0 && errno != EEXIST ? -1 : openat(at, part, FOLDER_FLAGS);
        int fault = errno;
        if (at != dir_fd)
            close(at);
        errno = fault;
        at = next;
        if (slash != NULL)
            *slash = '/';
        part = slash != NULL ? slash + 1 : NULL;
    }
    return at;
}

/* folder_get: the folder at path, which is made if it isn't there; -1: errno. */
static int folder_get(int dir_fd, char *path)
{
    int fd = folder_open_beneath(dir_fd, path);
    return fd >= 0 ? fd : folder_walk(dir_fd, path);
}

static bool path_copy(struct str path, char *out, struct err *err)
{
    if (path.len >= PATH_BYTES)
        return err_set(err, ERR_body_too_large, "a path longer than %d bytes", PATH_BYTES - 1);
    memcpy(out, path.ptr, path.len);
    out[path.len] = '\0';
    return true;
}

bool tree_folder_make(struct tree *tree, struct str path, struct err *err)
{
    char copy[PATH_BYTES];
    if (!path_copy(path, copy, err))
        return false;
    int fd = folder_get(tree->dir_fd, copy);
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? err_set(err, ERR_invalid, "a file and a folder of one path")
                                                  : tree_fail(path, err);
    close(fd);
    return true;
}

bool tree_file_open(struct tree *tree, struct str path, bool is_executable, struct err *err)
{
    char copy[PATH_BYTES];
    if (!path_copy(path, copy, err))
        return false;
    char *slash = strrchr(copy, '/'), *name = slash != NULL ? slash + 1 : copy;
    int folder = tree->dir_fd;
    if (slash != NULL) {
        *slash = '\0';
        folder = folder_get(tree->dir_fd, copy);
    }
    if (folder >= 0)
        tree->fd =
            openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, is_executable ? 0755 : 0644);
    int fault = errno;
    bool good = folder >= 0 && tree->fd >= 0;
    if (folder >= 0 && folder != tree->dir_fd)
        close(folder);
    errno = fault;
    if (!good && (errno == EEXIST || errno == ENOTDIR || errno == ELOOP))
        return err_set(
            err, ERR_invalid, errno == EEXIST ? "it stands in the tarball twice" : "a file and a folder of one path");
    return good || tree_fail(path, err);
}

bool tree_write(struct tree *tree, struct str bytes, struct err *err)
{
    while (bytes.len > 0) {
        ssize_t n = write(tree->fd, bytes.ptr, bytes.len);
        if (n < 0 && errno != EINTR)
            return tree_fail(STR("a file"), err);
        bytes = str_sub(bytes, n > 0 ? (size_t)n : 0, bytes.len);
    }
    return true;
}

bool tree_file_close(struct tree *tree, struct err *err)
{
    int fd = tree->fd;
    tree->fd = -1;
    return close(fd) == 0 || tree_fail(STR("a file"), err);
}
