/* folders: see folders.h. */
#include "spool/folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/fsx.h"
#include "io/log.h"
#include "text/tai64n.h"

#define WHY_SUFFIX ".why"
enum { CORRUPT_TRIES = 1000, NS_PER_MS = 1000000, CORRUPT_NAME_MAX = NAME_MAX - TAI64N_CHARS - 1 - 4 };

static const char *const names[FOLDER_COUNT] = {
#define X(constant, name) [FOLDER_##constant] = (name),
    SPOOL_FOLDERS(X)
#undef X
};

static const enum spool_folder of_state[STATE_COUNT] = {
    [STATE_Q] = FOLDER_QUEUE,
    [STATE_S] = FOLDER_STAGING,
    [STATE_P] = FOLDER_PENDING,
    [STATE_X] = FOLDER_RUN,
    [STATE_D] = FOLDER_DONE,
    [STATE_F] = FOLDER_FAIL,
    [STATE_T] = FOLDER_TERM,
    [STATE_A] = FOLDER_ABANDON,
};

const char *folder_name(enum spool_folder folder)
{
    return names[folder];
}

enum spool_folder folder_of_state(enum task_state state)
{
    ASSERT(state > STATE_NONE && state < STATE_COUNT);
    return of_state[state];
}

bool folder_is_projected(enum spool_folder folder)
{
    return folder >= FOLDER_QUEUE && folder <= FOLDER_ABANDON;
}

bool spool_fault(const struct folders *folders, enum spool_folder folder, const char *name, struct err *err)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return err_set(err, full ? ERR_disk_full : ERR_io, "%s/%s%s%s: %s", folders->base, names[folder],
        name[0] ? "/" : "", name, strerrordesc_np(errno));
}

/* --- BASE --- */

static bool owner_check(int fd, const char *path, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    if (st.st_uid != geteuid())
        return err_set(err, ERR_forbidden, "%s belongs to another user (uid %u)", path, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, ERR_forbidden, "%s can be written by others than its owner (mode %04o): chmod go-w it",
            path, (unsigned)(st.st_mode & 07777));
    return true;
}

static bool folder_open(struct folders *out, int base_fd, enum spool_folder folder, struct err *err)
{
    char path[PATH_MAX];
    if (mkdirat(base_fd, names[folder], 0700) != 0 && errno != EEXIST)
        return spool_fault(out, folder, "", err);
    out->fds[folder] = openat(base_fd, names[folder], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out->fds[folder] < 0)
        return spool_fault(out, folder, "", err);
    snprintf(path, sizeof path, "%s/%s", out->base, names[folder]);
    return owner_check(out->fds[folder], path, err);
}

bool folders_open(struct folders *out, const char *base, struct err *err)
{
    *out = (struct folders){ .base = str_keep(str_of(base)) };
    for (size_t i = 0; i < FOLDER_COUNT; i++)
        out->fds[i] = -1;
    if (!fsx_make_dirs(base, 0700, err))
        return false;
    int base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base_fd < 0)
        return err_set(err, ERR_io, "%s: %s", base, strerrordesc_np(errno));
    bool good = owner_check(base_fd, base, err);
    for (size_t i = 0; good && i < FOLDER_COUNT; i++)
        good = folder_open(out, base_fd, (enum spool_folder)i, err);
    close(base_fd);
    return good;
}

void folders_close(struct folders *folders)
{
    for (size_t i = 0; i < FOLDER_COUNT; i++)
        fsx_close(folders->fds[i]);
    mem_free(folders->base);
}

bool folder_list(const struct folders *folders, enum spool_folder folder, size_t max, struct arena *arena, char ***out,
    size_t *out_n, struct err *err)
{
    ARRAY(char *) list = { 0 };
    struct dirent *entry;
    DIR *dir = fsx_folder(folders->fds[folder], ".");
    if (dir == NULL)
        return spool_fault(folders, folder, "", err);
    while (list.n < max && (entry = fsx_entry(dir)) != NULL)
        *ARRAY_ADD(arena, list) = str_dupz(arena, str_of(entry->d_name));
    closedir(dir);
    *out = list.at;
    *out_n = list.n;
    return true;
}

/* --- entries --- */

const char *entry_fault(const struct stat *st, bool root_too)
{
    if (!S_ISREG(st->st_mode))
        return S_ISLNK(st->st_mode) ? "a symbolic link" : "not a regular file";
    if (st->st_nlink != 1)
        return "a file with more than one link";
    if (st->st_uid != geteuid() && !(root_too && st->st_uid == 0))
        return "a file of another user";
    return NULL;
}

/* The first look keeps FIFOs and devices from being opened at all; the second is at what was opened. */
int entry_open(
    const struct folders *folders, enum spool_folder folder, const char *name, struct stat *out, const char **out_why)
{
    bool root_too = folder == FOLDER_PREQUEUE || folder == FOLDER_DATA;
    *out_why = NULL;
    if (fstatat(folders->fds[folder], name, out, AT_SYMLINK_NOFOLLOW) != 0 ||
        (*out_why = entry_fault(out, root_too)) != NULL)
        return -1;
    int fd = openat(folders->fds[folder], name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ELOOP)
            *out_why = "a symbolic link";
        return -1;
    }
    if (fstat(fd, out) != 0 || (*out_why = entry_fault(out, root_too)) != NULL) {
        close(fd);
        return -1;
    }
    return fd;
}

char *entry_read(const struct folders *folders, enum spool_folder folder, const char *name, size_t limit, size_t *out_n,
    struct stat *out, const char **out_why)
{
    int fd = entry_open(folders, folder, name, out, out_why);
    if (fd < 0)
        return NULL;
    size_t size = out->st_size < 0 || (uint64_t)out->st_size > limit ? limit + 1 : (size_t)out->st_size, n = 0;
    char *bytes = mem_alloc(size + 2); /* one byte more than it had: one that grows is seen */
    while (size <= limit && n <= size) {
        ssize_t got = read(fd, bytes + n, size + 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            if (got == 0)
                break;
            close(fd);
            mem_free(bytes);
            return NULL;
        }
        n += (size_t)got;
    }
    close(fd);
    if (n > size || size > limit) {
        *out_why = size > limit ? "longer than a job file may be" : "a file that grows while it is read";
        mem_free(bytes);
        return NULL;
    }
    bytes[n] = '\0';
    *out_n = n;
    return bytes;
}

static int64_t now_ns(void)
{
    return clock_wall_ms() * NS_PER_MS;
}

static void why_write(const struct folders *folders, const char *name, struct str why)
{
    char path[NAME_MAX + sizeof WHY_SUFFIX];
    snprintf(path, sizeof path, "%s" WHY_SUFFIX, name);
    int fd = openat(folders->fds[FOLDER_CORRUPT], path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return; /* the log has it */
    if (fsx_write_all(fd, why) == 0)
        (void)fsx_write_all(fd, STR("\n"));
    close(fd);
}

int entry_rename(const struct folders *folders, enum spool_folder from, const char *name, enum spool_folder to,
    const char *new_name, bool replace)
{
    int a = folders->fds[from], b = folders->fds[to];
    if (replace)
        return renameat(a, name, b, new_name);
    int result = renameat2(a, name, b, new_name, RENAME_NOREPLACE);
    if (result == 0 || errno != EINVAL)
        return result;
    struct stat st; /* a file system that can't: NFS */
    if (fstatat(b, new_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(a, name, b, new_name);
}

bool corrupt_move(
    const struct folders *folders, enum spool_folder folder, const char *name, struct str why, struct err *err)
{
    char to[NAME_MAX + 1];
    int64_t at = now_ns();
    for (int i = 0; i < CORRUPT_TRIES; i++) {
        snprintf(to, sizeof to, "%.*s.%s", (int)CORRUPT_NAME_MAX, name, tai64n_format(tai64n_from_ns(at + i)).z);
        if (entry_rename(folders, folder, name, FOLDER_CORRUPT, to, false) == 0) {
            why_write(folders, to, why);
            log_warn("spool.corrupt", "file=%s/%s why=%s", names[folder], log_quote(str_of(name)).z, log_quote(why).z);
            return true;
        }
        if (errno == ENOENT)
            return true;
        if (errno != EEXIST)
            break;
    }
    return spool_fault(folders, folder, name, err);
}

/* --- tmp/ --- */

static bool tmp_fill(int fd, struct str bytes, int64_t mtime_ms)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
        { .tv_sec = mtime_ms / 1000, .tv_nsec = mtime_ms % 1000 * NS_PER_MS } };
    int fault = fsx_write_all(fd, bytes);
    if (fault != 0) {
        errno = fault;
        return false;
    }
    return futimens(fd, times) == 0;
}

bool tmp_write(const struct folders *folders, const char *name, struct str bytes, int64_t mtime_ms, struct err *err)
{
    int tmp = folders->fds[FOLDER_TMP];
    if (unlinkat(tmp, name, 0) != 0 && errno != ENOENT &&
        !corrupt_move(folders, FOLDER_TMP, name, STR("in the way"), err))
        return false;
    int fd = openat(tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return spool_fault(folders, FOLDER_TMP, name, err);
    if (!tmp_fill(fd, bytes, mtime_ms)) {
        spool_fault(folders, FOLDER_TMP, name, err);
        close(fd);
        (void)unlinkat(tmp, name, 0);
        return false;
    }
    close(fd);
    return true;
}

bool tmp_clear(const struct folders *folders, struct err *err)
{
    struct arena arena = { 0 };
    char **list;
    size_t n;
    bool good = folder_list(folders, FOLDER_TMP, SIZE_MAX, &arena, &list, &n, err);
    for (size_t i = 0; good && i < n; i++) {
        struct stat st;
        if (fstatat(folders->fds[FOLDER_TMP], list[i], &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        const char *why = entry_fault(&st, false);
        if (why != NULL)
            good = corrupt_move(folders, FOLDER_TMP, list[i], str_of(why), err);
        else if (unlinkat(folders->fds[FOLDER_TMP], list[i], 0) != 0 && errno != ENOENT)
            good = spool_fault(folders, FOLDER_TMP, list[i], err);
    }
    arena_release(&arena);
    return good;
}
