/* copy: see copy.h. A walk with one pair of descriptors for each level; nothing is synced. */
#include "exec/tree/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fsx.h"

typedef int copy_entry_fn(int from_fd, int to_fd, const char *name, const struct stat *st); /* 0, or the fault */

struct copy {
    copy_entry_fn *entry;
    int64_t newest_ms; /* of the files: when one was last written to */
};

int copy_file(int from_fd, int to_fd)
{
    if (ioctl(to_fd, FICLONE, from_fd) == 0)
        return 0;
    for (;;) {
        ssize_t n = copy_file_range(from_fd, NULL, to_fd, NULL, (size_t)1 << 30, 0);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            break;
    }
    if (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
        return errno;
    char space[32 << 10]; /* from where copy_file_range stopped: both offsets have moved */
    for (ssize_t n; (n = read(from_fd, space, sizeof space)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        int fault = n < 0 ? errno : fsx_write_all(to_fd, (struct str){ space, (size_t)n });
        if (fault != 0)
            return fault;
    }
    return 0;
}

static int entry_link(int from_fd, int to_fd, const char *name, const struct stat *st)
{
    (void)st;
    return linkat(from_fd, name, to_fd, name, 0) == 0 ? 0 : errno;
}

static int entry_content(int from_fd, int to_fd, const char *name, const struct stat *st)
{
    char target[PATH_MAX];
    if (S_ISLNK(st->st_mode)) {
        ssize_t n = readlinkat(from_fd, name, target, sizeof target - 1);
        if (n < 0)
            return errno;
        target[n] = '\0';
        return symlinkat(target, to_fd, name) == 0 ? 0 : errno;
    }
    int from = openat(from_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    mode_t own = st->st_mode & 0700, mode = own | own >> 3 | own >> 6; /* the umask says what others may */
    int to = from >= 0 ? openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode) : -1;
    int fault = to < 0 ? errno : copy_file(from, to);
    struct timespec times[2] = { st->st_atim, st->st_mtim };
    if (to >= 0)
        futimens(to, times); /* `make` looks at them */
    fsx_close(to);
    fsx_close(from);
    return fault;
}

static bool copy_fail(struct err *err, const char *name, int fault)
{
    enum err_code code = fault == ENOSPC || fault == EDQUOT ? ERR_disk_full : ERR_io;
    return err_set(err, code, "can't copy '%.200s': %s", name, strerrordesc_np(fault));
}

static bool folder_copy(int from_fd, int to_fd, struct copy *copy, int depth, struct err *err)
{
    if (depth > COPY_DEPTH_MAX)
        return err_set(err, ERR_body_too_large, "there are more than %d folders within folders", COPY_DEPTH_MAX);
    DIR *dir = fsx_folder(from_fd, ".");
    if (dir == NULL)
        return copy_fail(err, ".", errno);
    bool good = true;
    for (struct dirent *entry; good && (entry = fsx_entry(dir)) != NULL;) {
        const char *name = entry->d_name;
        struct stat st;
        if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            good = copy_fail(err, name, errno);
        } else if (S_ISDIR(st.st_mode)) {
            int from = openat(from_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            bool made = from >= 0 && mkdirat(to_fd, name, 0777) == 0;
            int to = made ? openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
            good = to >= 0 ? folder_copy(from, to, copy, depth + 1, err) : copy_fail(err, name, errno);
            fsx_close(from);
            fsx_close(to);
        } else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
            int64_t written_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
            int fault = copy->entry(from_fd, to_fd, name, &st);
            good = fault == 0 || copy_fail(err, name, fault);
            if (S_ISREG(st.st_mode) && written_ms > copy->newest_ms)
                copy->newest_ms = written_ms;
        }
    }
    closedir(dir);
    return good;
}

bool copy_links(int from_fd, int to_fd, int64_t *out_newest_ms, struct err *err)
{
    struct copy copy = { .entry = entry_link };
    bool good = folder_copy(from_fd, to_fd, &copy, 0, err);
    *out_newest_ms = copy.newest_ms;
    return good;
}

bool copy_content(int from_fd, int to_fd, struct err *err)
{
    return folder_copy(from_fd, to_fd, &(struct copy){ .entry = entry_content }, 0, err);
}
