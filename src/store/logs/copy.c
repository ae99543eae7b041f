/* logs/copy: logs leave a data directory for a backup and come back by a restore. See logs/copy.h.
 *
 * Out: the folder `live` is walked first, then the packed ones, so a log that is packed and taken out of `live` between
 * the two is met in its new place. Should it be met in both, the packed one comes last and in a restore takes the place
 * of the plain one: it is the whole one.
 *
 * Back: everything is written into DATA/logs.part (folders 0700, files 0600), synced at once by syncfs, then renamed: a
 * folder `logs` that a restore made is whole. Plain logs come back unsealed: the engine seals those whose attempt has
 * ended when it starts. Failures are ERR_io and ERR_disk_full with the system's words; ERR_corrupt for parts that don't
 * fit each other. */
#include "store/logs/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "store/logs/file.h"

#define PART_FOLDER "logs.part"

static bool os_refused(const char *what, const char *name, struct err *err)
{
    int no = errno;
    return err_set(err, no == ENOSPC || no == EDQUOT ? ERR_disk_full : ERR_io, "%s %s: %s", what, name, strerror(no));
}

/* --- out --- */

struct copy {
    const struct log_taker *taker;
    char *room;       /* LOG_PART_BYTES */
    struct buf *list; /* not NULL: they are listed only */
};

static bool part_read(int fd, const char *name, struct copy *copy, struct log_part *part, struct err *err)
{
    size_t n = 0;
    while (n < LOG_PART_BYTES) {
        ssize_t got = pread(fd, copy->room + n, LOG_PART_BYTES - n, part->start + (int64_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return os_refused("reading the log", name, err);
        if (got == 0)
            break;
        n += (size_t)got;
    }
    part->bytes = (struct str){ copy->room, n };
    return true;
}

/* An empty log is one empty part. */
static bool log_copy(int dir_fd, const char *name, struct log_key key, bool packed, struct copy *copy, struct err *err)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT || os_refused("opening the log", name, err); /* gone: it was packed, and is met there */
    struct log_part part = { .task = key.task, .grant = key.grant, .packed = packed };
    bool ok;
    do {
        ok = part_read(fd, name, copy, &part, err) && copy->taker->put(copy->taker->owner, &part, err);
        part.start += (int64_t)part.bytes.len;
    } while (ok && part.bytes.len == LOG_PART_BYTES);
    close(fd);
    return ok;
}

static DIR *folder_list(int at_fd, const char *name, struct err *err)
{
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        os_refused("opening the folder", name, err);
        if (fd >= 0)
            close(fd);
    }
    return dir;
}

static bool folder_copy(int root_fd, const char *name, bool packed, struct copy *copy, struct err *err)
{
    DIR *dir = folder_list(root_fd, name, err);
    bool ok = dir != NULL;
    for (struct dirent *entry; ok && (errno = 0, entry = readdir(dir)) != NULL;) {
        struct log_key key;
        struct str suffix;
        bool known = false;
        if (!log_name_parse(entry->d_name, &key, &suffix) || !str_eqz(suffix, packed ? "log.zst" : "log"))
            continue;
        if (copy->list) {
            struct log_listed listed;
            memset(&listed, 0, sizeof listed);
            listed.task = key.task;
            listed.grant = key.grant;
            listed.sealed = packed;
            buf_add(copy->list, &listed, sizeof listed);
            continue;
        }
        ok = copy->taker->known(copy->taker->owner, key.task, key.grant, &known, err) &&
             (!known || log_copy(dirfd(dir), entry->d_name, key, packed, copy, err));
    }
    if (dir)
        closedir(dir);
    return ok;
}

static bool shards_copy(int root_fd, struct copy *copy, struct err *err)
{
    DIR *dir = folder_list(root_fd, ".", err);
    bool ok = dir != NULL;
    for (struct dirent *entry; ok && (entry = readdir(dir)) != NULL;) {
        int64_t shard;
        if (str_to_i64(str_of(entry->d_name), &shard) && shard >= 0)
            ok = folder_copy(root_fd, entry->d_name, true, copy, err);
    }
    if (dir)
        closedir(dir);
    return ok;
}

static bool logs_walk(const char *data_dir, struct copy *copy, struct err *err)
{
    int data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data_fd < 0)
        return os_refused("opening the folder", data_dir, err);
    int root_fd = openat(data_fd, "logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool none = root_fd < 0 && errno == ENOENT;
    bool ok = none || root_fd >= 0 || os_refused("opening the folder", "logs", err);
    close(data_fd);
    if (root_fd < 0)
        return ok;
    ok = (faccessat(root_fd, "live", F_OK, 0) != 0 || folder_copy(root_fd, "live", false, copy, err)) &&
         shards_copy(root_fd, copy, err);
    close(root_fd);
    return ok;
}

bool logs_copy_out(const char *data_dir, const struct log_taker *taker, struct err *err)
{
    struct copy copy = { .taker = taker, .room = mem_alloc(LOG_PART_BYTES) };
    bool ok = logs_walk(data_dir, &copy, err);
    mem_free(copy.room);
    return ok;
}

bool logs_list(const char *data_dir, struct buf *out, struct err *err)
{
    struct copy copy = { .list = out };
    return logs_walk(data_dir, &copy, err);
}

/* --- back --- */

/* Takes away what is below a folder of logs (two levels, no more), and the folder. */
static void folder_remove(int at_fd, const char *name, int levels)
{
    struct err ignored = { 0 };
    DIR *dir = folder_list(at_fd, name, &ignored);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) != 0 && levels > 1)
            folder_remove(dirfd(dir), entry->d_name, levels - 1);
    }
    if (dir)
        closedir(dir);
    unlinkat(at_fd, name, AT_REMOVEDIR);
}

static int folder_make(int at_fd, const char *name, struct err *err)
{
    int fd = -1;
    if (mkdirat(at_fd, name, 0700) == 0 || errno == EEXIST)
        fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        os_refused("making the folder", name, err);
    return fd;
}

static void fd_drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

bool logs_put_begin(struct log_put *put, const char *data_dir, struct err *err)
{
    *put = (struct log_put){ .data_dir = data_dir, .data_fd = -1, .root_fd = -1, .live_fd = -1, .fd = -1 };
    put->data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (put->data_fd < 0)
        return os_refused("opening the folder", data_dir, err);
    if (unlinkat(put->data_fd, "logs/live", AT_REMOVEDIR) == 0) /* only if they are empty */
        unlinkat(put->data_fd, "logs/marks", 0);                /* of none */
    if (unlinkat(put->data_fd, "logs", AT_REMOVEDIR) != 0 && errno != ENOENT) {
        fd_drop(&put->data_fd);
        return err_set(err, ERR_conflict,
            "%s/logs holds logs of another store: restore into another directory, or move them away first", data_dir);
    }
    folder_remove(put->data_fd, PART_FOLDER, 2); /* of a restore that was cut short */
    put->root_fd = folder_make(put->data_fd, PART_FOLDER, err);
    if (put->root_fd >= 0)
        put->live_fd = folder_make(put->root_fd, "live", err);
    bool ok = put->live_fd >= 0;
    if (!ok)
        logs_put_close(put, false);
    return ok;
}

/* The next start hashes it. */
static bool unnoted_mark(struct log_put *put, struct log_key key, struct err *err)
{
    char name[LOG_NAME_BYTES];
    log_name_unnoted(name, key);
    int fd = openat(put->live_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return os_refused("making the file", name, err);
    close(fd);
    return true;
}

/* The log that the parts from here on belong to. */
static bool log_begin(struct log_put *put, const struct log_part *part, struct err *err)
{
    struct log_key key = { part->task, part->grant };
    char plain[LOG_NAME_BYTES], packed[LOG_NAME_BYTES], shard[LOG_NAME_BYTES];
    fd_drop(&put->fd);
    log_name_plain(plain, key);
    if (!part->packed) {
        put->fd = openat(put->live_fd, plain, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    } else {
        snprintf(shard, sizeof shard, "%" PRId64, key.task / LOG_SHARD_TASKS);
        log_name_packed(packed, key);
        int shard_fd = folder_make(put->root_fd, shard, err);
        if (shard_fd < 0)
            return false;
        close(shard_fd);
        unlinkat(put->live_fd, plain, 0); /* readers take the plain one first, and this one is the whole */
        put->fd = openat(put->root_fd, packed, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (part->unnoted && !unnoted_mark(put, key, err))
            return false;
    }
    if (put->fd < 0)
        return os_refused("making the log", plain, err);
    put->task = key.task;
    put->grant = key.grant;
    put->packed = part->packed;
    return true;
}

bool logs_put_part(struct log_put *put, const struct log_part *part, struct err *err)
{
    bool same = put->fd >= 0 && put->task == part->task && put->grant == part->grant && put->packed == part->packed;
    if (part->task < 0 || part->grant < 0 || part->start < 0 || same == (part->start == 0))
        return err_set(err, ERR_corrupt, "the parts of the log of task %" PRId64 ", grant %" PRId64 " are out of order",
            part->task, part->grant);
    if (!same && !log_begin(put, part, err))
        return false;
    for (size_t at = 0; at < part->bytes.len;) {
        ssize_t n = pwrite(put->fd, part->bytes.ptr + at, part->bytes.len - at, part->start + (int64_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return os_refused("writing a log into", put->data_dir, err);
        at += (size_t)n;
    }
    return true;
}

bool logs_put_end(struct log_put *put, struct err *err)
{
    bool ok = syncfs(put->root_fd) == 0 && renameat(put->data_fd, PART_FOLDER, put->data_fd, "logs") == 0 &&
              fsync(put->data_fd) == 0;
    put->ended = ok;
    if (!ok)
        os_refused("keeping the logs in", put->data_dir, err);
    return ok;
}

void logs_put_close(struct log_put *put, bool keep)
{
    fd_drop(&put->fd);
    fd_drop(&put->live_fd);
    fd_drop(&put->root_fd);
    if (!keep && put->data_fd >= 0)
        folder_remove(put->data_fd, put->ended ? "logs" : PART_FOLDER, 2);
    fd_drop(&put->data_fd);
}
