/* keep: see keep.h.
 *
 * Promises: only regular files beneath the working directory, reached without following a link: a job can't make us
 * send anything else. Every process of the job is dead by now, so nothing changes under the walk.
 *
 * What can't be kept (too many, too large, a name with control characters) is said in the log; the job's end doesn't
 * change by it. */
#include "exec/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "exec/copy.h"
#include "exec/workdir.h"
#include "text/glob.h"
#include "text/key.h"

enum { WALK_MAX = 2000000, DEPTH_MAX = 256, LIST_MAX = 4 << 20, LIST_ROW = 128 };

struct keep {
    int keep_fd;
    struct spool *spool;
    struct globs globs;
    bool *found; /* for each pattern */
    struct buf list, path;
    size_t n, walked, listed, misnamed;
    uint64_t bytes;
    bool full; /* said already */
};

void keep_forget(int dir_fd)
{
    workdir_remove(dir_fd, "keep");
}

static bool keep_wants(struct keep *keep, struct str path)
{
    if (!globs_match(&keep->globs, path))
        return false;
    for (size_t i = 0; i < keep->globs.n; i++)
        keep->found[i] |= glob_matches(&keep->globs.items[i], path);
    return true;
}

static bool file_take(struct keep *keep, int from_dir, const char *name)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", keep->n);
    if (linkat(from_dir, name, keep->keep_fd, number, 0) == 0)
        return true;
    int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int to = from >= 0 ? openat(keep->keep_fd, number, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    int fault = to < 0 ? errno : copy_file(from, to);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    errno = fault;
    return fault == 0;
}

/* list_bytes: what a name will take in the finish's list, at most: that of one job has to fit a request. */
static size_t list_bytes(struct str name)
{
    size_t bytes = LIST_ROW + name.len;
    for (size_t i = 0; i < name.len; i++)
        bytes += name.ptr[i] == '"' || name.ptr[i] == '\\';
    return bytes;
}

/* keep_add: the file `name` in from_dir, which is at `path` beneath the working directory. */
static void keep_add(struct keep *keep, int from_dir, const char *name, struct str path, const struct stat *st)
{
    struct str shown = str_sub(path, 0, 200);
    if (!file_name_is_valid(path)) {
        if (keep->misnamed++ == 0)
            spool_note(keep->spool, "[weir: an artifact isn't kept: its name is over %d bytes, or not plain text]\n",
                FILE_NAME_BYTES_MAX);
    } else if (S_ISLNK(st->st_mode)) {
        spool_note(keep->spool, "[weir: artifact '%.*s' isn't kept: it is a link]\n", STR_ARG(shown));
    } else if (keep->n >= KEEP_FILES_MAX || (uint64_t)st->st_size > KEEP_BYTES_MAX - keep->bytes ||
               list_bytes(path) > KEEP_LIST_MAX - keep->listed) {
        if (!keep->full)
            spool_note(keep->spool,
                "[weir: artifact '%.*s' and what follows isn't kept: at most %d files, %d GiB and %d KiB of names]\n",
                STR_ARG(shown), KEEP_FILES_MAX, (int)(KEEP_BYTES_MAX >> 30), KEEP_LIST_MAX >> 10);
        keep->full = true;
    } else if (!file_take(keep, from_dir, name)) {
        spool_note(keep->spool, "[weir: artifact '%.*s' can't be kept: %s]\n", STR_ARG(shown), strerrordesc_np(errno));
    } else {
        buf_addf(
            &keep->list, "%lld:%c %.*s\n", (long long)st->st_size, st->st_mode & S_IXUSR ? 'x' : '-', STR_ARG(path));
        keep->bytes += (uint64_t)st->st_size;
        keep->listed += list_bytes(path);
        keep->n++;
    }
}

/* --- finding --- */

static void folder_walk(struct keep *keep, int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return;
    }
    size_t len = keep->path.len;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL && keep->walked++ < WALK_MAX;) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (len > 0)
            buf_add_char(&keep->path, '/');
        buf_add_z(&keep->path, entry->d_name);
        if ((S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) && !keep->path.full && keep_wants(keep, buf_str(&keep->path)))
            keep_add(keep, fd, entry->d_name, buf_str(&keep->path), &st);
        if (S_ISDIR(st.st_mode) && !keep->path.full && depth < DEPTH_MAX) {
            int child = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (child >= 0)
                folder_walk(keep, child, depth + 1);
        }
        keep->path.len = len;
        keep->path.full = false;
    }
    closedir(dir);
}

static bool pattern_plain(const char *pattern)
{
    return strpbrk(pattern, "*?[\\!") == NULL && pattern[0] != '\0' && pattern[strlen(pattern) - 1] != '/';
}

/* file_named: a pattern that is simply a path needs no walk. */
static void file_named(struct keep *keep, int work_fd, const char *path)
{
    struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    char folder[GLOB_BYTES_MAX + 1];
    struct stat st;
    while (*path == '/')
        path++;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int fd = (int)syscall(SYS_openat2, work_fd, folder, &how, sizeof how);
    const char *name = slash ? slash + 1 : path;
    if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) &&
        keep_wants(keep, str_of(path)))
        keep_add(keep, fd, name, str_of(path), &st);
    if (fd >= 0)
        close(fd);
}

/* keep_find: the first pattern that nothing matched; NULL: none. */
static const char *keep_find(struct keep *keep, int work_fd, char *const *patterns, struct arena *arena)
{
    bool plain = true;
    size_t n = 0;
    while (patterns[n] != NULL)
        n++;
    keep->globs.items = ARENA_ARRAY(arena, struct glob, n);
    keep->found = ARENA_ARRAY(arena, bool, n);
    for (size_t i = 0; i < n; i++) {
        const char *fault = glob_parse(str_of(patterns[i]), arena, &keep->globs.items[keep->globs.n]);
        if (fault != NULL)
            spool_note(keep->spool, "[weir: artifact '%.200s': %s]\n", patterns[i], fault);
        else
            keep->globs.n++;
        plain = plain && pattern_plain(patterns[i]);
    }
    if (keep->globs.n < n)
        return NULL; /* the rows of found and patterns don't match; the server doesn't send such patterns */
    for (size_t i = 0; plain && i < n; i++)
        if (!keep->found[i])
            file_named(keep, work_fd, patterns[i]);
    int fd = plain ? -1 : openat(work_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        folder_walk(keep, fd, 0);
    const char *missing = NULL;
    for (size_t i = 0; i < n; i++) {
        if (keep->found[i] || keep->globs.items[i].negated)
            continue;
        spool_note(keep->spool, "[weir: artifact '%.200s': there is no such file]\n", patterns[i]);
        missing = missing ? missing : patterns[i];
    }
    return missing;
}

const char *keep_collect(int dir_fd, int work_fd, char *const *patterns, struct spool *spool)
{
    struct arena arena = { 0 };
    struct keep keep = { .spool = spool };
    keep_forget(dir_fd);
    keep.keep_fd = workdir_open(dir_fd, "keep");
    if (keep.keep_fd < 0) {
        spool_note(spool, "[weir: artifacts can't be kept: %s]\n", strerrordesc_np(errno));
        return NULL;
    }
    buf_init(&keep.list, LIST_MAX);
    buf_init(&keep.path, FILE_NAME_BYTES_MAX * 4);
    const char *missing = keep_find(&keep, work_fd, patterns, &arena);
    int fd = openat(keep.keep_fd, "list.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && (keep.list.len == 0 || write(fd, keep.list.ptr, keep.list.len) == (ssize_t)keep.list.len);
    if (fd >= 0)
        close(fd);
    if (!ok || renameat(keep.keep_fd, "list.new", keep.keep_fd, "list") < 0)
        spool_note(spool, "[weir: artifacts can't be kept: %s]\n", strerrordesc_np(errno));
    close(keep.keep_fd);
    buf_release(&keep.list);
    buf_release(&keep.path);
    arena_release(&arena);
    return missing;
}

/* --- the agent's side --- */

bool keep_read(int dir_fd, struct arena *arena, struct kept **out, size_t *out_n)
{
    int fd = openat(dir_fd, "keep/list", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    size_t cap = 0;
    *out = NULL;
    *out_n = 0;
    if (fd < 0)
        return false;
    char *text = fstat(fd, &st) == 0 && st.st_size <= LIST_MAX ? arena_alloc(arena, (size_t)st.st_size + 1) : NULL;
    ssize_t n = text != NULL ? read(fd, text, (size_t)st.st_size) : -1;
    close(fd);
    if (n < 0)
        return false;
    struct str rest = { text, (size_t)n }, line, bytes;
    while (str_cut(&rest, '\n', &line)) {
        struct kept row = { 0 };
        if (!str_cut(&line, ' ', &bytes))
            continue;
        ptrdiff_t colon = str_index(bytes, ':'); /* none: a shim of an earlier version wrote it */
        row.executable = colon >= 0 && str_eqz(str_sub(bytes, (size_t)colon + 1, bytes.len), "x");
        if (str_to_i64(colon >= 0 ? str_sub(bytes, 0, (size_t)colon) : bytes, &row.bytes) && line.len > 0) {
            row.name = line;
            *ARENA_PUSH(arena, *out, *out_n, cap) = row;
        }
    }
    return true;
}

void keep_remove(int dir_fd, size_t n)
{
    char path[40];
    snprintf(path, sizeof path, "keep/%zu", n);
    unlinkat(dir_fd, path, 0);
}

int keep_open(int dir_fd, size_t n)
{
    char path[40];
    snprintf(path, sizeof path, "keep/%zu", n);
    return openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}
