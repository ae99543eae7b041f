/* changeset_content: see changeset_content.h. */
#include "cli/changeset_content.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/working_copy.h"
#include "io/fsx.h"
#include "text/changeset.h"
#include "text/tar_writer.h"

enum { PIECE = 64 * 1024, FOLDERS_DEEP = 256 };

struct gather {
    struct changeset_content *out;
    struct working_copy copy;
    struct arena *arena;
    struct err *err;
};

static const char *on_disk(struct gather *g, struct str path)
{
    return str_dupz(g->arena, str_fmt(g->arena, "%s%s%.*s", strcmp(g->out->root, "/") == 0 ? "" : g->out->root,
                                  path.len > 0 ? "/" : "", STR_ARG(path)));
}

/* fault: one of the things that keep a change set from being made; the others are looked for too. */
static void fault(struct gather *g, struct str path, const char *sentence)
{
    err_item(g->err, ERR_invalid, path, "%s", sentence);
}

/* path_good: a path of meta must be one line there; limits are the server's matter. */
static bool path_good(struct gather *g, struct str path)
{
    static const struct changeset_limits none = { UINT64_MAX, UINT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    enum path_fault found = changeset_path_check(path, &none);
    if (found == PATH_GOOD)
        return true;
    struct str sentence = path_fault_sentence(g->arena, found, &none);
    fault(g, path, str_dupz(g->arena, sentence));
    return false;
}

static void file_add(struct gather *g, struct str path, bool is_executable)
{
    if (path_good(g, path))
        *ARRAY_ADD(g->arena, g->out->files) = (struct content_file){ path, is_executable };
}

static void removed_add(struct gather *g, struct str path)
{
    if (path_good(g, path))
        *ARRAY_ADD(g->arena, g->out->removed) = path;
}

/* changed_add: what the working copy says has changed, as it is on the disk. Folders are nothing of their own. */
static void changed_add(struct gather *g, const struct copy_entry *entry)
{
    struct stat st;
    if (lstat(on_disk(g, entry->path), &st) < 0)
        fault(g, entry->path, strerrordesc_np(errno));
    else if (S_ISREG(st.st_mode))
        file_add(g, entry->path, entry->is_executable);
    else if (!S_ISDIR(st.st_mode))
        fault(g, entry->path, "is no regular file: a change set carries no links and no devices");
}

static void entry_take(struct gather *g, const struct copy_entry *entry)
{
    switch (entry->kind) {
    case COPY_NONE:
        break;
    case COPY_CHANGED:
        changed_add(g, entry);
        break;
    case COPY_REMOVED:
        removed_add(g, entry->path);
        break;
    case COPY_MISSING:
        *ARRAY_ADD(g->arena, g->out->missing) = entry->path;
        break;
    case COPY_UNKNOWN:
        *ARRAY_ADD(g->arena, g->out->unknown) = entry->path;
        break;
    case COPY_CONFLICT:
        fault(g, entry->path, "has a conflict: resolve it first");
        break;
    case COPY_LINK:
        fault(g, entry->path, "is a link: a change set carries none");
        break;
    case COPY_MODULE:
        fault(g, entry->path, "is a submodule: a change set carries none");
        break;
    }
}

/* --- paths of the command line --- */

/* path_absolute: without `.`, `..` and doubled slashes; by the words alone: links below a root are never followed. */
static const char *path_absolute(struct arena *arena, const char *here, const char *path)
{
    struct str rest = *path == '/' ? str_of(path) : str_fmt(arena, "%s/%s", here, path), part;
    struct buf out;
    buf_init(&out, SIZE_MAX);
    buf_add_z(&out, "");
    while (str_cut(&rest, '/', &part)) {
        if (part.len == 0 || str_eqz(part, "."))
            continue;
        ptrdiff_t slash = str_rindex(buf_str(&out), '/');
        if (!str_eqz(part, "..")) {
            buf_add_char(&out, '/');
            buf_add_str(&out, part);
        } else if (slash >= 0)
            out.len = (size_t)slash;
    }
    return str_dupz(arena, buf_move(&out, arena));
}

/* path_below: relative to the root; false: it isn't below it. The root itself is the empty path. */
static bool path_below(const char *root, const char *path, struct str *out)
{
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return false;
    *out = path[len] ? str_of(path + len + 1) : (struct str){ 0 };
    return true;
}

static bool is_at_or_below(struct str path, struct str folder)
{
    return folder.len == 0 || str_eq(path, folder) || changeset_path_is_below(path, folder);
}

static const struct copy_entry *entry_of(const struct gather *g, struct str path)
{
    for (size_t i = 0; i < g->copy.status.n; i++) {
        const struct copy_entry *entry = &g->copy.status.at[i];
        if (str_eq(entry->path, path) || ((entry->kind == COPY_UNKNOWN || entry->kind == COPY_REMOVED) &&
                                             changeset_path_is_below(path, entry->path)))
            return entry;
    }
    return NULL;
}

/* folder_take: everything in it, outside of working copies. */
static bool folder_take(struct gather *g, struct str folder, int depth)
{
    const char *name = on_disk(g, folder);
    DIR *dir = depth < FOLDERS_DEEP ? opendir(name) : NULL;
    struct dirent *entry;
    struct stat st;
    if (!dir)
        return err_set(g->err, ERR_io, "%s can't be read: %s", name,
            depth < FOLDERS_DEEP ? strerrordesc_np(errno) : "too many folders in each other");
    while ((entry = fsx_entry(dir)) != NULL && g->out->files.n < COPY_ENTRIES_MAX) {
        struct str path = folder.len > 0 ? str_fmt(g->arena, "%.*s/%s", STR_ARG(folder), entry->d_name)
                                         : str_dup(g->arena, str_of(entry->d_name));
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            fault(g, path, strerrordesc_np(errno));
        else if (S_ISREG(st.st_mode))
            file_add(g, path, st.st_mode & 0100);
        else if (!S_ISDIR(st.st_mode))
            fault(g, path, "is no regular file: a change set carries no links and no devices");
        else if (!folder_take(g, path, depth + 1))
            break;
    }
    closedir(dir);
    return g->err->code == ERR_none || g->err->n_items > 0;
}

static bool copy_folder_take(struct gather *g, struct str folder, const char *operand)
{
    bool any = false;
    for (size_t i = 0; i < g->copy.status.n; i++) {
        const struct copy_entry *entry = &g->copy.status.at[i];
        if (!is_at_or_below(entry->path, folder))
            continue;
        any = any || (entry->kind != COPY_UNKNOWN && entry->kind != COPY_MISSING);
        entry_take(g, entry);
    }
    return any || err_set(g->err, ERR_invalid, "nothing has changed in %s", operand);
}

/* operand_take: a file as it is, whether or not it has changed or is known; a folder's changes. */
static bool operand_take(struct gather *g, const char *operand, const char *here)
{
    struct stat st;
    struct str path;
    const char *whole = path_absolute(g->arena, here, operand);
    if (!path_below(g->out->root, whole, &path))
        return err_set(g->err, ERR_invalid, "%s isn't below %s", operand, g->out->root);
    const struct copy_entry *entry = entry_of(g, path);
    if (lstat(whole, &st) == 0 && S_ISDIR(st.st_mode))
        return g->out->is_copy ? copy_folder_take(g, path, operand) : folder_take(g, path, 0);
    if (entry && (entry->kind == COPY_CONFLICT || entry->kind == COPY_LINK || entry->kind == COPY_MODULE))
        entry_take(g, entry);
    else if (lstat(whole, &st) == 0 && !S_ISREG(st.st_mode))
        fault(g, path, "is no regular file: a change set carries no links and no devices");
    else if (lstat(whole, &st) == 0) {
        bool by_mode = g->copy.program != COPY_SVN || (entry && entry->kind == COPY_UNKNOWN);
        bool is_executable = by_mode ? st.st_mode & 0100 : working_copy_executable(&g->copy, path);
        file_add(g, path, entry && entry->kind == COPY_CHANGED ? entry->is_executable : is_executable);
    } else if (entry && (entry->kind == COPY_REMOVED || entry->kind == COPY_MISSING))
        removed_add(g, path);
    else
        return err_set(g->err, ERR_not_found, "there is no file %s", operand);
    return true;
}

/* --- the end: order, each path once --- */

static int file_compare(const void *a, const void *b)
{
    return changeset_path_compare(((const struct content_file *)a)->path, ((const struct content_file *)b)->path);
}

static int path_compare(const void *a, const void *b)
{
    return changeset_path_compare(*(const struct str *)a, *(const struct str *)b);
}

static void content_sort(struct changeset_content *content)
{
    size_t n = 0;
    if (content->files.n > 0)
        qsort(content->files.at, content->files.n, sizeof *content->files.at, file_compare);
    for (size_t i = 0; i < content->files.n; i++)
        if (n == 0 || !str_eq(content->files.at[n - 1].path, content->files.at[i].path))
            content->files.at[n++] = content->files.at[i];
    content->files.n = n;
    if (content->removed.n > 0)
        qsort(content->removed.at, content->removed.n, sizeof *content->removed.at, path_compare);
    n = 0;
    for (size_t i = 0; i < content->removed.n; i++) /* what is below a removed folder goes with it */
        if (n == 0 || !is_at_or_below(content->removed.at[i], content->removed.at[n - 1]))
            content->removed.at[n++] = content->removed.at[i];
    content->removed.n = n;
    /* a path that git calls deleted, and that was named as a file of now, is a file */
    n = 0;
    for (size_t i = 0, f = 0; i < content->removed.n; i++) {
        while (f < content->files.n && changeset_path_compare(content->files.at[f].path, content->removed.at[i]) < 0)
            f++;
        if (f == content->files.n || !str_eq(content->files.at[f].path, content->removed.at[i]))
            content->removed.at[n++] = content->removed.at[i];
    }
    content->removed.n = n;
}

/* root_find: of the folder of the first path, or of the current one. */
static bool root_find(struct gather *g, const char *here, const char *first)
{
    const char *at = first ? path_absolute(g->arena, here, first) : here;
    struct stat st;
    if (first && (lstat(at, &st) < 0 || !S_ISDIR(st.st_mode))) {
        ptrdiff_t slash = str_rindex(str_of(at), '/');
        at = slash > 0 ? str_dupz(g->arena, str_sub(str_of(at), 0, (size_t)slash)) : "/";
    }
    g->copy.program = working_copy_find(at, g->arena, &g->copy.root);
    g->out->is_copy = g->copy.program != COPY_NO_PROGRAM;
    g->out->root = g->out->is_copy ? g->copy.root : here;
    return g->out->is_copy || first ||
           err_set(g->err, ERR_not_found, "here is no working copy of svn or git: name files, or use --tarball F");
}

bool changeset_content_read(
    struct changeset_content *out, const char *const *paths, size_t n_paths, struct arena *arena, struct err *err)
{
    char *here = getcwd(NULL, 0);
    if (!here)
        return err_set(err, ERR_io, "the current directory has no name: %s", strerrordesc_np(errno));
    *out = (struct changeset_content){ .arena = arena };
    struct gather g = { .out = out, .arena = arena, .err = err };
    const char *kept = str_dupz(arena, str_of(here));
    free(here);
    if (!root_find(&g, kept, n_paths > 0 ? paths[0] : NULL) ||
        (out->is_copy && !working_copy_read(&g.copy, arena, err)))
        return false;
    out->base = g.copy.base;
    for (size_t i = 0; i < n_paths; i++)
        if (!operand_take(&g, paths[i], kept))
            return false;
    for (size_t i = 0; n_paths == 0 && i < g.copy.status.n; i++)
        entry_take(&g, &g.copy.status.at[i]);
    if (err->n_items > 0)
        return false;
    content_sort(out);
    return out->files.n + out->removed.n > 0 || err_set(err, ERR_invalid, "nothing has changed in %s", out->root);
}

/* --- the tarball --- */

struct tar_file {
    int fd, fault;
    uint64_t bytes;
};

static bool tar_write(void *owner, struct str bytes)
{
    struct tar_file *file = owner;
    file->fault = fsx_write_all(file->fd, bytes);
    file->bytes += bytes.len;
    return file->fault == 0;
}

/* file_write: a file of the content below lroot/. False: the tarball can't be written, or err is set. */
static bool file_write(
    struct tar_writer *tar, int root_fd, const struct content_file *file, struct arena *arena, struct err *err)
{
    static char piece[PIECE];
    struct stat st;
    const char *path = str_dupz(arena, file->path);
    int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, ERR_invalid, "%s can't be read: %s", path, strerrordesc_np(errno));
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (!good)
        err_set(err, ERR_invalid, "%s is no regular file", path);
    uint64_t left = good ? (uint64_t)st.st_size : 0;
    good = good && tar_writer_file(tar, str_fmt(arena, "lroot/%s", path), left, file->is_executable);
    while (good && left > 0) {
        ssize_t n = read(fd, piece, left < sizeof piece ? (size_t)left : sizeof piece);
        if (n <= 0) {
            good = err_set(err, ERR_invalid, "%s was changed while it was read, or can't be read", path);
            break;
        }
        good = tar_writer_write(tar, (struct str){ piece, (size_t)n });
        left -= (uint64_t)n;
    }
    if (good && read(fd, piece, 1) > 0)
        good = err_set(err, ERR_invalid, "%s was changed while it was read", path);
    close(fd);
    return good && tar_writer_end(tar);
}

bool changeset_tarball(
    const struct changeset_content *content, struct str meta, int fd, uint64_t *out_bytes, struct err *err)
{
    struct tar_file to = { .fd = fd };
    struct tar_writer tar;
    int root_fd = open(content->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return err_set(err, ERR_io, "%s can't be opened: %s", content->root, strerrordesc_np(errno));
    err->code = ERR_none;
    tar_writer_init(&tar, tar_write, &to);
    bool good =
        tar_writer_file(&tar, STR("meta"), meta.len, false) && tar_writer_write(&tar, meta) && tar_writer_end(&tar);
    for (size_t i = 0; good && i < content->files.n; i++)
        good = file_write(&tar, root_fd, &content->files.at[i], content->arena, err);
    good = good && tar_writer_finish(&tar);
    tar_writer_release(&tar);
    close(root_fd);
    *out_bytes = to.bytes;
    return good ||
           (err->code == ERR_none ? err_set(err, ERR_io, "the tarball can't be written: %s", strerrordesc_np(to.fault))
                                  : false);
}
