/* artifacts: see artifacts.h.
 *
 * Promises: only regular files beneath the working directory, reached without following a link: a job can't make us
 * send anything else. Every process of the job is dead when this runs, so nothing changes under the walk.
 *
 * A file that can't be kept (too many, too large, a name with control characters) gets a line in the log; how the job
 * ended doesn't change. */
#include "exec/artifacts.h"

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
#include "exec/tree/copy.h"
#include "exec/workdir.h"
#include "io/fsx.h"
#include "text/glob.h"
#include "text/key.h"

enum { WALK_MAX = 2000000, DEPTH_MAX = 256, LIST_MAX = 4 << 20, LIST_ROW = 128 };

struct artifact_search {
    int out_fd;
    struct log_file *log;
    struct globs globs;
    bool *found; /* for each pattern */
    struct buf list, path;
    size_t n, walked, listed, misnamed;
    uint64_t bytes;
    bool full; /* over a limit; the log has the line */
};

void artifacts_forget(int dir_fd)
{
    workdir_remove(dir_fd, "keep");
}

static bool search_matches(struct artifact_search *search, struct str path)
{
    if (!globs_match(&search->globs, path))
        return false;
    for (size_t i = 0; i < search->globs.n; i++)
        search->found[i] |= glob_matches(&search->globs.items[i], path);
    return true;
}

static bool file_take(struct artifact_search *search, int from_dir, const char *name)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", search->n);
    if (linkat(from_dir, name, search->out_fd, number, 0) == 0)
        return true;
    int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int to = from >= 0 ? openat(search->out_fd, number, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    int fault = to < 0 ? errno : copy_file(from, to);
    fsx_close(from);
    fsx_close(to);
    errno = fault;
    return fault == 0;
}

/* list_bytes: at most so many bytes a name takes in the finish's list, which has to fit a request. */
static size_t list_bytes(struct str name)
{
    size_t bytes = LIST_ROW + name.len;
    for (size_t i = 0; i < name.len; i++)
        bytes += name.ptr[i] == '"' || name.ptr[i] == '\\';
    return bytes;
}

/* search_add: the file `name` in from_dir, which is at `path` beneath the working directory. */
static void search_add(
    struct artifact_search *search, int from_dir, const char *name, struct str path, const struct stat *st)
{
    struct str shown = str_sub(path, 0, 200);
    if (!file_name_is_valid(path)) {
        if (search->misnamed++ == 0)
            log_file_note(search->log, "[weir: an artifact isn't kept: its name is over %d bytes, or not plain text]\n",
                FILE_NAME_BYTES_MAX);
    } else if (S_ISLNK(st->st_mode)) {
        log_file_note(search->log, "[weir: artifact '%.*s' isn't kept: it is a link]\n", STR_ARG(shown));
    } else if (search->n >= ARTIFACT_FILES_MAX || (uint64_t)st->st_size > ARTIFACT_BYTES_MAX - search->bytes ||
               list_bytes(path) > ARTIFACT_LIST_BYTES_MAX - search->listed) {
        if (!search->full)
            log_file_note(search->log,
                "[weir: artifact '%.*s' and what follows isn't kept: at most %d files, %d GiB and %d KiB of names]\n",
                STR_ARG(shown), ARTIFACT_FILES_MAX, (int)(ARTIFACT_BYTES_MAX >> 30), ARTIFACT_LIST_BYTES_MAX >> 10);
        search->full = true;
    } else if (!file_take(search, from_dir, name)) {
        log_file_note(
            search->log, "[weir: artifact '%.*s' can't be kept: %s]\n", STR_ARG(shown), strerrordesc_np(errno));
    } else {
        buf_addf(
            &search->list, "%lld:%c %.*s\n", (long long)st->st_size, st->st_mode & S_IXUSR ? 'x' : '-', STR_ARG(path));
        search->bytes += (uint64_t)st->st_size;
        search->listed += list_bytes(path);
        search->n++;
    }
}

/* --- finding --- */

static void folder_walk(struct artifact_search *search, int parent_fd, const char *name, int depth)
{
    DIR *dir = fsx_folder(parent_fd, name);
    if (dir == NULL)
        return;
    size_t len = search->path.len;
    int fd = dirfd(dir);
    for (struct dirent *entry; (entry = fsx_entry(dir)) != NULL && search->walked++ < WALK_MAX;) {
        struct stat st;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (len > 0)
            buf_add_char(&search->path, '/');
        buf_add_z(&search->path, entry->d_name);
        if ((S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) && !search->path.full &&
            search_matches(search, buf_str(&search->path)))
            search_add(search, fd, entry->d_name, buf_str(&search->path), &st);
        if (S_ISDIR(st.st_mode) && !search->path.full && depth < DEPTH_MAX)
            folder_walk(search, fd, entry->d_name, depth + 1);
        search->path.len = len;
        search->path.full = false;
    }
    closedir(dir);
}

static bool pattern_plain(const char *pattern)
{
    return strpbrk(pattern, "*?[\\!") == NULL && pattern[0] != '\0' && pattern[strlen(pattern) - 1] != '/';
}

/* file_named: a pattern that is simply a path needs no walk. */
static void file_named(struct artifact_search *search, int work_fd, const char *path)
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
        search_matches(search, str_of(path)))
        search_add(search, fd, name, str_of(path), &st);
    fsx_close(fd);
}

/* search_run: the first pattern that nothing matched; NULL: none. */
static const char *search_run(struct artifact_search *search, int work_fd, char *const *patterns, struct arena *arena)
{
    bool plain = true;
    size_t n = 0;
    while (patterns[n] != NULL)
        n++;
    search->globs.items = ARENA_ARRAY(arena, struct glob, n);
    search->found = ARENA_ARRAY(arena, bool, n);
    for (size_t i = 0; i < n; i++) {
        const char *fault = glob_parse(str_of(patterns[i]), arena, &search->globs.items[search->globs.n]);
        if (fault != NULL)
            log_file_note(search->log, "[weir: artifact '%.200s': %s]\n", patterns[i], fault);
        else
            search->globs.n++;
        plain = plain && pattern_plain(patterns[i]);
    }
    if (search->globs.n < n)
        return NULL; /* the rows of found and patterns don't match; the server doesn't send such patterns */
    for (size_t i = 0; plain && i < n; i++)
        if (!search->found[i])
            file_named(search, work_fd, patterns[i]);
    if (!plain)
        folder_walk(search, work_fd, ".", 0);
    const char *missing = NULL;
    for (size_t i = 0; i < n; i++) {
        if (search->found[i] || search->globs.items[i].negated)
            continue;
        log_file_note(search->log, "[weir: artifact '%.200s': there is no such file]\n", patterns[i]);
        missing = missing ? missing : patterns[i];
    }
    return missing;
}

const char *artifacts_collect(int dir_fd, int work_fd, char *const *patterns, struct log_file *log)
{
    struct arena arena = { 0 };
    struct artifact_search search = { .log = log };
    artifacts_forget(dir_fd);
    search.out_fd = workdir_open(dir_fd, "keep");
    if (search.out_fd < 0) {
        log_file_note(log, "[weir: artifacts can't be kept: %s]\n", strerrordesc_np(errno));
        return NULL;
    }
    buf_init(&search.list, LIST_MAX);
    buf_init(&search.path, FILE_NAME_BYTES_MAX * 4);
    const char *missing = search_run(&search, work_fd, patterns, &arena);
    int fd = openat(search.out_fd, "list.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && fsx_write_all(fd, buf_str(&search.list)) == 0;
    fsx_close(fd);
    if (!ok || renameat(search.out_fd, "list.new", search.out_fd, "list") < 0)
        log_file_note(log, "[weir: artifacts can't be kept: %s]\n", strerrordesc_np(errno));
    close(search.out_fd);
    buf_release(&search.list);
    buf_release(&search.path);
    arena_release(&arena);
    return missing;
}

/* --- the agent's side --- */

bool artifacts_list(int dir_fd, struct arena *arena, struct artifact **out, size_t *out_n)
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
        struct artifact row = { 0 };
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

void artifact_remove(int dir_fd, size_t n)
{
    char path[40];
    snprintf(path, sizeof path, "keep/%zu", n);
    unlinkat(dir_fd, path, 0);
}

int artifact_open(int dir_fd, size_t n)
{
    char path[40];
    snprintf(path, sizeof path, "keep/%zu", n);
    return openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}
