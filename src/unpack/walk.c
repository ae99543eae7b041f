/* walk: see walk.h. Each folder is opened in the one above it, so a folder that is renamed away meanwhile takes nobody
 * elsewhere. It fails with io. */
#include "unpack/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 1100 }; /* changesets.limits.depth is at most 1024 */

struct walk {
    struct walked sum;
    bool is_removing;
    int64_t depth_max;
    struct err *err;
};

static bool walk_fail(struct walk *walk, const char *name)
{
    return err_set(walk->err, ERR_io, "%s in the directory of a change set: %s", name, strerrordesc_np(errno));
}

static bool folder_walk(struct walk *walk, int dir_fd, const char *name, int64_t depth);

static bool file_take(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    mode_t mode = st->st_mode & 07777;
    walk->sum.n_files++;
    walk->sum.n_bytes += (uint64_t)st->st_size;
    walk->sum.is_strange |= !S_ISREG(st->st_mode) || st->st_nlink != 1 || (mode != 0644 && mode != 0755);
    return !walk->is_removing || unlinkat(dir_fd, name, 0) == 0 || walk_fail(walk, name);
}

static bool entry_take(struct walk *walk, int dir_fd, const char *name, int64_t depth)
{
    struct stat st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return walk_fail(walk, name);
    if (!S_ISDIR(st.st_mode))
        return file_take(walk, dir_fd, name, &st);
    walk->sum.n_folders++;
    walk->sum.is_strange |= (st.st_mode & 07777) != 0755;
    if (!folder_walk(walk, dir_fd, name, depth + 1))
        return false;
    return !walk->is_removing || unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || walk_fail(walk, name);
}

static bool folder_walk(struct walk *walk, int dir_fd, const char *name, int64_t depth)
{
    if (depth > walk->depth_max) {
        walk->sum.is_strange = true;
        return true;
    }
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        walk_fail(walk, name);
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(folder)) != NULL;)
        good = entry_take(walk, fd, entry->d_name, depth);
    closedir(folder);
    return good;
}

bool walk_count(int dir_fd, int64_t depth_max, struct walked *out, struct err *err)
{
    struct walk walk = { .depth_max = depth_max < DEPTH_MAX ? depth_max : DEPTH_MAX, .err = err };
    if (!folder_walk(&walk, dir_fd, ".", 0))
        return false;
    *out = walk.sum;
    return true;
}

bool walk_remove(int dir_fd, struct err *err)
{
    struct walk walk = { .is_removing = true, .depth_max = DEPTH_MAX, .err = err };
    return folder_walk(&walk, dir_fd, ".", 0);
}
