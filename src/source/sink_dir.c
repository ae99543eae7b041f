/* sink_dir: the tree of a revision as files in a folder.
 *
 * Every part of a path is opened from its folder without following links, so nothing is written outside whatever the
 * tree, or the folder, holds. A file is always a new one (O_EXCL): bytes never go into one that was there, which may be
 * linked from other trees.
 *
 * Fails with disk_full, io, and invalid (something of another kind is in the way). */
#include "source/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fsx.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static struct sink_dir *dir_of(struct sink *sink)
{
    return (struct sink_dir *)sink; /* its first member */
}

static bool fail(struct err *err, struct str path, const char *what)
{
    int code = errno;
    /* In a folder that is ours alone these say that the tree itself can't be: a name twice, or both as a file and as a
     * folder. */
    bool never = code == EEXIST || code == ENOTDIR || code == EISDIR || code == ELOOP || code == ENAMETOOLONG;
    return err_set(err,
        never                              ? ERR_invalid
        : code == ENOSPC || code == EDQUOT ? ERR_disk_full
                                           : ERR_io,
        "%s %.*s: %s", what, (int)(path.len < 200 ? path.len : 200), path.ptr, strerror(code));
}

/* parent_open: dir->parent becomes the folder that `path` is in; *name its last part, NUL-terminated in `out`. */
static bool parent_open(struct sink_dir *dir, struct str path, char out[NAME_MAX + 1], struct err *err)
{
    ptrdiff_t slash = str_rindex(path, '/');
    struct str parent = str_sub(path, 0, slash < 0 ? 0 : (size_t)slash);
    struct str name = str_sub(path, (size_t)(slash + 1), path.len);
    memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    if (dir->parent >= 0 && str_eq(parent, buf_str(&dir->parent_path)))
        return true;
    int at = fcntl(dir->root, F_DUPFD_CLOEXEC, 0);
    for (struct str rest = parent, part; at >= 0 && str_cut(&rest, '/', &part);) {
        char part_z[NAME_MAX + 1];
        memcpy(part_z, part.ptr, part.len);
        part_z[part.len] = '\0';
        int below = openat(at, part_z, FOLDER_FLAGS);
        fsx_close(at);
        at = below;
    }
    if (at < 0)
        return fail(err, parent, "opening the folder");
    fsx_close(dir->parent);
    dir->parent = at;
    buf_reset(&dir->parent_path);
    buf_add_str(&dir->parent_path, parent);
    return true;
}

static bool tree_remove(int at, const char *name, unsigned depth);

/* place_open: as parent_open, and nothing is in the way of a file or link any more. */
static bool place_open(struct sink_dir *dir, struct str path, char out[NAME_MAX + 1], struct err *err)
{
    return parent_open(dir, path, out, err) &&
           (!dir->replace || tree_remove(dir->parent, out, SOURCE_DEPTH_MAX) || fail(err, path, "replacing"));
}

/* tree_remove: `name` in the folder `at` and all in it; `depth` bounds the stack. */
static bool tree_remove(int at, const char *name, unsigned depth)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR)
        return false;
    if (unlinkat(at, name, AT_REMOVEDIR) == 0)
        return true;
    if ((errno != ENOTEMPTY && errno != EEXIST) || depth == 0)
        return false;
    DIR *list = fsx_folder(at, name);
    if (list == NULL)
        return false;
    bool good = true;
    for (const struct dirent *entry; good && (entry = fsx_entry(list)) != NULL;)
        good = tree_remove(dirfd(list), entry->d_name, depth - 1);
    int code = errno;
    closedir(list);
    errno = code;
    return good && unlinkat(at, name, AT_REMOVEDIR) == 0;
}

static bool dir_remove(struct sink *sink, struct str path, struct err *err)
{
    struct sink_dir *dir = dir_of(sink);
    char name[NAME_MAX + 1];
    if (!parent_open(dir, path, name, err)) /* the folder that stays open is above what goes */
        return false;
    return tree_remove(dir->parent, name, SOURCE_DEPTH_MAX) || fail(err, path, "removing");
}

static bool dir_folder(struct sink *sink, struct str path, struct err *err)
{
    struct sink_dir *dir = dir_of(sink);
    char name[NAME_MAX + 1];
    struct stat st;
    if (!parent_open(dir, path, name, err))
        return false;
    if (mkdirat(dir->parent, name, 0777) == 0)
        return true;
    if (errno == EEXIST && dir->replace && fstatat(dir->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(st.st_mode))
            return true;
        if (unlinkat(dir->parent, name, 0) == 0 && mkdirat(dir->parent, name, 0777) == 0)
            return true;
    }
    return fail(err, path, "making the folder");
}

static bool dir_file(struct sink *sink, struct str path, uint64_t bytes, bool executable, struct err *err)
{
    struct sink_dir *dir = dir_of(sink);
    char name[NAME_MAX + 1];
    (void)bytes;
    if (!place_open(dir, path, name, err))
        return false;
    dir->file =
        openat(dir->parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, executable ? 0777 : 0666);
    if (dir->file < 0)
        return fail(err, path, "making");
    buf_reset(&dir->file_path);
    buf_add_str(&dir->file_path, path);
    return true;
}

static bool dir_write(struct sink *sink, struct str bytes, struct err *err)
{
    struct sink_dir *dir = dir_of(sink);
    errno = fsx_write_all(dir->file, bytes);
    return errno == 0 || fail(err, buf_str(&dir->file_path), "writing");
}

static bool dir_end(struct sink *sink, struct err *err)
{
    struct sink_dir *dir = dir_of(sink);
    int fd = dir->file;
    dir->file = -1;
    return close(fd) == 0 || fail(err, buf_str(&dir->file_path), "writing");
}

static bool dir_link(struct sink *sink, struct str path, struct str target, struct err *err)
{
    struct sink_dir *dir = dir_of(sink);
    char name[NAME_MAX + 1], target_z[PATH_MAX];
    if (!place_open(dir, path, name, err))
        return false;
    memcpy(target_z, target.ptr, target.len);
    target_z[target.len] = '\0';
    return symlinkat(target_z, dir->parent, name) == 0 || fail(err, path, "making the link");
}

static const struct sink_ops dir_ops = {
    .folder = dir_folder,
    .file = dir_file,
    .write = dir_write,
    .end = dir_end,
    .link = dir_link,
    .remove = dir_remove,
};

void sink_dir_init(struct sink_dir *dir, int root_fd, bool replace, const struct source_export_options *options)
{
    *dir = (struct sink_dir){
        .sink = { .ops = &dir_ops, .options = options }, .root = root_fd, .replace = replace, .parent = -1, .file = -1
    };
    buf_init(&dir->parent_path, PATH_MAX);
    buf_init(&dir->file_path, PATH_MAX);
}

void sink_dir_release(struct sink_dir *dir)
{
    fsx_close(dir->parent);
    fsx_close(dir->file);
    buf_release(&dir->parent_path);
    buf_release(&dir->file_path);
}
