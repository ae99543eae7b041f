/* logs: see logs.h.
 *
 * Owns DATA/logs. While bytes may still come, and until they are packed, a log is the plain file live/TASK.GRANT.log;
 * packed it is SHARD/TASK.GRANT.log.zst, where SHARD is TASK / 1000. So what a crash can leave half done stands in the
 * one small folder `live`, and opening never looks at the logs of the past. A sealed plain file has lost its write
 * bits: that is how a restart knows what to pack. Two threads: `sync` makes appended bytes durable, `pack` compresses.
 * One lock for everything that isn't the kernel's; no thread holds it while it syncs or compresses. A packed file gets
 * its name after it was synced, and the plain one goes after the name was synced: at every moment at least one of them
 * is whole, and readers take the plain one first.
 *
 * Promises: at most LOG_OPEN_MAX descriptors for logs, and one for their marks (logs/marks.c); `durable` never counts a
 * byte whose sync failed: such bytes are cut off, the next append fails with ERR_outcome_unknown, and the one after
 * with ERR_log_gap, so its sender repeats them (a kernel that failed to write a page calls it clean afterwards: another
 * sync would prove nothing).
 *
 * Fails with ERR_disk_full (nothing appended), ERR_io, ERR_corrupt. A log that can't be packed now (disk full) stays
 * plain, reads the same, and is tried again after the next success and at the next start. */
#include "store/logs/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plant.h"
#include "store/logs/file.h"

enum { COMPARE_BYTES = 16 * 1024, READ_BYTES = 64 * 1024 };

#define FILE_OF(node_ptr, member) ((struct log_file *)(void *)((char *)(node_ptr)-offsetof(struct log_file, member)))

void log_name_plain(char out[LOG_NAME_BYTES], struct log_key key)
{
    snprintf(out, LOG_NAME_BYTES, "%" PRId64 ".%" PRId64 ".log", key.task, key.grant);
}

void log_name_packed(char out[LOG_NAME_BYTES], struct log_key key)
{
    snprintf(out, LOG_NAME_BYTES, "%" PRId64 "/%" PRId64 ".%" PRId64 ".log.zst", key.task / LOG_SHARD_TASKS, key.task,
        key.grant);
}

void log_name_unnoted(char out[LOG_NAME_BYTES], struct log_key key)
{
    snprintf(out, LOG_NAME_BYTES, "%" PRId64 ".%" PRId64 ".unnoted", key.task, key.grant);
}

static bool os_refused(struct err *err, struct log_key key, const char *what)
{
    int no = errno;
    bool full = no == ENOSPC || no == EDQUOT;
    return err_set(err, full ? ERR_disk_full : ERR_io, "%s the log of task %" PRId64 ", grant %" PRId64 ": %s", what,
        key.task, key.grant, strerror(no));
}

/* --- open files --- */

static struct str key_view(const struct log_key *key)
{
    return (struct str){ (const char *)key, sizeof *key };
}

struct log_file *log_file_find(struct log_files *logs, struct log_key key)
{
    return smap_find(&logs->files, key_view(&key));
}

struct log_plain *log_plain_find(struct log_files *logs, struct log_key key)
{
    return smap_find(&logs->plain, key_view(&key));
}

struct log_plain *log_plain_note(struct log_files *logs, struct log_key key)
{
    struct log_plain *plain = log_plain_find(logs, key);
    if (!plain) {
        plain = mem_alloc(sizeof *plain);
        *plain = (struct log_plain){ .key = key, .slot = -1 };
        smap_put(&logs->plain, key_view(&plain->key), plain);
    }
    return plain;
}

void log_plain_drop(struct log_files *logs, struct log_key key)
{
    struct log_plain *plain = smap_take(&logs->plain, key_view(&key));
    if (plain && plain->ends) {
        plain->ends = 0;
        logs->n_expected--;
    }
    if (plain && plain->slot >= 0) {
        list_append(&logs->spare, &plain->spare);
    } else {
        mem_free(plain);
    }
}

static void file_drop_if_idle(struct log_files *logs, struct log_file *file)
{
    if (!file->gone || file->pins > 0) {
        return;
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    mem_free(file);
    pthread_cond_broadcast(&logs->changed);
}

void log_file_forget(struct log_files *logs, struct log_file *file)
{
    smap_take(&logs->files, key_view(&file->key));
    list_remove(&logs->recent, &file->recent);
    list_remove(&logs->dirty, &file->dirty);
    file->gone = true;
    file_drop_if_idle(logs, file);
}

/* The longest unused file that may be closed; one whose failure nobody has been told yet only if there is no other. */
static struct log_file *file_find_idle(struct log_files *logs)
{
    struct log_file *untold = NULL;
    for (struct list_node *node = logs->recent.first; node; node = node->next) {
        struct log_file *file = FILE_OF(node, recent);
        if (file->pins > 0 || file->dirty.in) {
            continue;
        }
        if (!file->failed) {
            return file;
        }
        untold = untold ? untold : file;
    }
    return untold;
}

/* Closes an idle file when the limit is reached, and waits for the sync thread when none is idle. May let go of the
 * lock. */
static void file_make_room(struct log_files *logs)
{
    while (logs->recent.n >= LOG_OPEN_MAX) {
        struct log_file *idle = file_find_idle(logs);
        if (idle) {
            log_file_forget(logs, idle);
        } else {
            pthread_cond_wait(&logs->changed, &logs->lock);
        }
    }
}

static void file_mark_dirty(struct log_files *logs, struct log_file *file)
{
    if (!file->packed && !file->dirty.in && file->durable < file->size) {
        list_append(&logs->dirty, &file->dirty);
        pthread_cond_signal(&logs->to_sync);
    }
}

/* Opens what there is of the log: the plain file, else the packed one, else (with create) a new plain one; *out_fd -1:
 * none. */
static bool file_open_fd(
    struct log_files *logs, struct log_key key, bool create, int *out_fd, bool *out_packed, struct err *err)
{
    char name[LOG_NAME_BYTES];
    log_name_plain(name, key);
    int fd = openat(logs->live_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == EACCES) {
        fd = openat(logs->live_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW); /* sealed, and we aren't root */
    }
    *out_packed = false;
    if (fd < 0 && errno == ENOENT) {
        log_name_packed(name, key);
        fd = openat(logs->root_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        *out_packed = fd >= 0;
    }
    if (fd < 0 && errno == ENOENT && create) {
        log_name_plain(name, key);
        fd = openat(logs->live_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            log_plain_note(logs, key);
        }
    }
    if (fd < 0 && errno != ENOENT) {
        return os_refused(err, key, "opening");
    }
    *out_fd = fd;
    return true;
}

static bool file_fill(struct log_file *file, struct err *err)
{
    if (file->packed) {
        if (!seek_open(file->fd, &file->seek, err)) {
            err_context(err, "log of task %" PRId64 ", grant %" PRId64, file->key.task, file->key.grant);
            return false;
        }
        file->sealed = file->named = true;
        file->size = file->durable = file->seek.bytes;
        return true;
    }
    struct stat st;
    if (fstat(file->fd, &st) < 0) {
        return os_refused(err, file->key, "looking at");
    }
    file->sealed = (st.st_mode & S_IWUSR) == 0;
    file->size = file->found = st.st_size;
    return true;
}

/* The open log; *out NULL: there is none (and create is false). */
static bool file_get(struct log_files *logs, struct log_key key, bool create, struct log_file **out, struct err *err)
{
    struct log_file *file = log_file_find(logs, key);
    if (!file) {
        file_make_room(logs);
        file = log_file_find(logs, key); /* somebody may have opened it while we waited for room */
    }
    if (file) {
        if (file->recent.in) {
            list_remove(&logs->recent, &file->recent);
            list_append(&logs->recent, &file->recent);
        }
        *out = file;
        return true;
    }
    int fd = -1;
    bool packed = false;
    if (!file_open_fd(logs, key, create, &fd, &packed, err)) {
        return false;
    }
    if (fd < 0) {
        *out = NULL;
        return true;
    }
    file = mem_alloc(sizeof *file);
    *file = (struct log_file){ .key = key, .fd = fd, .packed = packed };
    if (!file_fill(file, err)) {
        close(fd);
        mem_free(file);
        return false;
    }
    smap_put(&logs->files, key_view(&file->key), file);
    list_append(&logs->recent, &file->recent);
    *out = file;
    return true;
}

/* --- reading and appending; under the lock --- */

static bool file_read(
    struct log_files *logs, struct log_file *file, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    if (file->packed) {
        if (!seek_read(&logs->reader, &file->seek, file->key.task, file->key.grant, offset, max, out, err)) {
            err_context(err, "log of task %" PRId64 ", grant %" PRId64, file->key.task, file->key.grant);
            return false;
        }
        return true;
    }
    if (file->fd < 0) {
        return err_set(err, ERR_io, "the log of task %" PRId64 " can't be read since the disk failed", file->key.task);
    }
    while (max > 0 && offset < file->size) {
        size_t n = max < READ_BYTES ? max : READ_BYTES;
        n = (int64_t)n < file->size - offset ? n : (size_t)(file->size - offset);
        char *room = buf_reserve(out, n);
        if (!room) {
            return err_set(err, ERR_internal, "no room for the log of task %" PRId64, file->key.task);
        }
        ssize_t got = pread(file->fd, room, n, offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return os_refused(err, file->key, "reading");
        }
        if (got == 0) {
            return err_set(err, ERR_corrupt, "the log of task %" PRId64 ", grant %" PRId64 " became shorter",
                file->key.task, file->key.grant);
        }
        buf_commit(out, (size_t)got);
        offset += got;
        max -= (size_t)got;
    }
    return true;
}

/* Holds bytes that are stored already against what comes again, piece by piece. */
static bool file_compare(
    struct log_files *logs, struct log_file *file, int64_t offset, struct str bytes, struct err *err)
{
    struct buf piece;
    buf_init(&piece, COMPARE_BYTES + 1);
    bool ok = true;
    for (size_t at = 0; ok && at < bytes.len;) {
        size_t n = bytes.len - at < COMPARE_BYTES ? bytes.len - at : COMPARE_BYTES;
        buf_reset(&piece);
        ok = file_read(logs, file, offset + (int64_t)at, n, &piece, err);
        if (ok && (piece.len != n || memcmp(piece.ptr, bytes.ptr + at, n) != 0)) {
            ok = err_set(err, ERR_log_mismatch, "other bytes are stored within %zu bytes from offset %" PRId64, n,
                offset + (int64_t)at);
        }
        at += n;
    }
    buf_release(&piece);
    return ok;
}

static bool file_write(struct log_file *file, struct str bytes, struct err *err)
{
    for (size_t at = 0; at < bytes.len;) {
        ssize_t n = pwrite(file->fd, bytes.ptr + at, bytes.len - at, file->size + (int64_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            os_refused(err, file->key, "writing");
            /* Should cutting fail too, what stays is the beginning of what the sender will send again. */
            (void)!ftruncate(file->fd, file->size);
            return false;
        }
        at += (size_t)n;
    }
    file->size += (int64_t)bytes.len;
    return true;
}

static bool file_append(
    struct log_files *logs, struct log_file *file, int64_t offset, struct str bytes, struct err *err)
{
    if (file->failed) {
        file->failed = file->dead;
        return err_set(err, ERR_outcome_unknown,
            "the disk failed to keep the log of task %" PRId64 " from offset %" PRId64, file->key.task, file->durable);
    }
    if (PLANT(log_appended))
        offset = file->size;
    if (offset > file->size) {
        err->expected = file->size;
        return err_set(
            err, ERR_log_gap, "the chunk begins at %" PRId64 " but %" PRId64 " bytes are stored", offset, file->size);
    }
    int64_t stored = file->size - offset;
    size_t n_again = (uint64_t)stored < bytes.len ? (size_t)stored : bytes.len;
    if (!file_compare(logs, file, offset, str_sub(bytes, 0, n_again), err)) {
        return false;
    }
    struct str fresh = str_sub(bytes, n_again, bytes.len);
    if (fresh.len > 0 && file->sealed) {
        return err_set(err, ERR_already_ended, "the log of task %" PRId64 ", grant %" PRId64 " ended at %" PRId64,
            file->key.task, file->key.grant, file->size);
    }
    const struct log_plain *plain = logs->n_expected ? log_plain_find(logs, file->key) : NULL;
    int64_t ends = plain ? plain->ends : 0;
    if (ends && (int64_t)fresh.len > ends - file->size) {
        return err_set(err, ERR_already_ended, "the log of task %" PRId64 ", grant %" PRId64 " ends at %" PRId64,
            file->key.task, file->key.grant, ends);
    }
    if ((int64_t)fresh.len > SEEK_BYTES_MAX - file->size) {
        return err_set(err, ERR_body_too_large, "a log has at most %lld bytes", (long long)SEEK_BYTES_MAX);
    }
    if (!file_write(file, fresh, err)) {
        return false;
    }
    file_mark_dirty(logs, file);
    if (ends && file->size >= ends) {
        log_seal_held(logs, file->key);
    }
    return true;
}

static bool files_append(struct logs *port, int64_t task, int64_t grant, int64_t offset, struct str bytes,
    struct log_position *out, struct err *err)
{
    struct log_files *logs = files_of(port);
    if (PLANT(log_kept))
        memset(mem_alloc(bytes.len + 1), 1, bytes.len);
    pthread_mutex_lock(&logs->lock);
    struct log_file *file;
    bool ok = file_get(logs, (struct log_key){ task, grant }, offset == 0 && bytes.len > 0, &file, err);
    if (ok && file) {
        ok = file_append(logs, file, offset, bytes, err);
    } else if (ok && offset > 0) {
        err->expected = 0;
        ok = err_set(err, ERR_log_gap, "the chunk begins at %" PRId64 " but nothing is stored", offset);
    }
    if (ok) {
        *out = file ? (struct log_position){ file->size, file->durable } : (struct log_position){ 0, 0 };
    }
    pthread_mutex_unlock(&logs->lock);
    return ok;
}

static bool files_size(struct logs *port, int64_t task, int64_t grant, int64_t *out_bytes, struct err *err)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    struct log_file *file;
    bool ok = file_get(logs, (struct log_key){ task, grant }, false, &file, err);
    if (ok) {
        *out_bytes = file ? file->size : 0;
    }
    pthread_mutex_unlock(&logs->lock);
    return ok;
}

static bool files_read(
    struct logs *port, int64_t task, int64_t grant, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    struct log_file *file;
    bool ok = file_get(logs, (struct log_key){ task, grant }, false, &file, err);
    if (ok && file) {
        ok = file_read(logs, file, offset, max, out, err);
    }
    pthread_mutex_unlock(&logs->lock);
    return ok;
}

/* --- the sync thread --- */

/* What a failed sync leaves: cut off what isn't known to be durable, so that it has to come again. A sealed log isn't
 * cut: packing reads it and syncs a new file, and nobody will send it again. */
static void sync_failed(struct log_file *file)
{
    file->failed = true;
    if (file->sealed) {
        return;
    }
    int64_t keep = file->durable > file->found ? file->durable : file->found;
    if (ftruncate(file->fd, keep) == 0) {
        file->size = keep;
    } else {
        file->dead = true;
    }
}

/* The names are synced after the contents: a name without its bytes would be an empty log. The marks come last: they
 * say what is durable.
 */
static void sync_batch(struct log_files *logs, size_t n)
{
    bool names = false;
    for (size_t i = 0; i < n; i++) {
        struct sync_item *item = &logs->batch[i];
        if (PLANT(log_unsynced))
            item->ok = true;
        else
            item->ok = fdatasync(item->file->fd) == 0;
        names = names || !item->named;
    }
    bool names_ok = !names || fsync(logs->live_fd) == 0;
    for (size_t i = 0; i < n; i++) {
        struct sync_item *item = &logs->batch[i];
        item->ok = item->ok && (item->named || names_ok);
    }
    bool marks_ok = log_marks_write(logs, logs->batch, n);
    for (size_t i = 0; i < n; i++) {
        logs->batch[i].ok = logs->batch[i].ok && marks_ok;
    }
}

static size_t sync_take(struct log_files *logs)
{
    size_t n = 0;
    while (n < LOG_OPEN_MAX && logs->dirty.n > 0) {
        struct log_file *file = FILE_OF(list_take_first(&logs->dirty), dirty);
        file->pins++;
        logs->batch[n] = (struct sync_item){ .file = file, .size = file->size, .named = file->named };
        log_mark_take(logs, &logs->batch[n++]);
    }
    return n;
}

static bool sync_put_back(struct log_files *logs, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        struct sync_item *item = &logs->batch[i];
        struct log_file *file = item->file;
        file->pins--;
        if (!item->ok) {
            sync_failed(file);
        } else {
            file->named = true;
            file->durable = file->durable > item->size ? file->durable : item->size;
            any = true;
        }
        /* keeps its place in the map, so that nobody believes the file again, but no descriptor */
        if (file->dead && !file->gone) {
            list_remove(&logs->recent, &file->recent);
            list_remove(&logs->dirty, &file->dirty);
            close(file->fd);
            file->fd = -1;
        }
        file_drop_if_idle(logs, file);
    }
    return any;
}

void log_synced_tell(struct log_files *logs)
{
    void (*synced)(void *owner) = logs->synced;
    void *owner = logs->synced_owner;
    if (synced) {
        pthread_mutex_unlock(&logs->lock);
        synced(owner);
        pthread_mutex_lock(&logs->lock);
    }
}

static void *sync_run(void *arg)
{
    struct log_files *logs = arg;
    pthread_mutex_lock(&logs->lock);
    for (;;) {
        while (logs->dirty.n == 0 && !logs->stop) {
            pthread_cond_wait(&logs->to_sync, &logs->lock);
        }
        if (logs->dirty.n == 0) {
            break; /* asked to stop, and nothing is left to sync */
        }
        size_t n = sync_take(logs);
        logs->syncing = true;
        pthread_mutex_unlock(&logs->lock);
        sync_batch(logs, n);
        pthread_mutex_lock(&logs->lock);
        bool any = sync_put_back(logs, n);
        logs->syncing = false;
        if (any) {
            log_synced_tell(logs);
        }
        pthread_cond_broadcast(&logs->changed);
    }
    pthread_mutex_unlock(&logs->lock);
    return NULL;
}

static void files_wait(struct logs *port)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    while (logs->dirty.n > 0 || logs->syncing || logs->to_do.n > 0 || logs->packing) {
        pthread_cond_wait(&logs->changed, &logs->lock);
    }
    pthread_mutex_unlock(&logs->lock);
}

static void files_on_sync(struct logs *port, void (*synced)(void *owner), void *owner)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    logs->synced = synced;
    logs->synced_owner = owner;
    pthread_mutex_unlock(&logs->lock);
}

static uint64_t files_frames_unpacked(struct logs *port)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    uint64_t n = logs->reader.n_unpacked;
    pthread_mutex_unlock(&logs->lock);
    return n;
}

/* --- life --- */

/* Makes the folder if it isn't there, durably, and opens it. */
static int folder_open(int at_fd, const char *name, struct err *err)
{
    if (mkdirat(at_fd, name, 0700) == 0) {
        fsync(at_fd); /* should this fail, so will every sync of what is in it */
    } else if (errno != EEXIST) {
        err_set(err, errno == ENOSPC ? ERR_disk_full : ERR_io, "making the folder %s: %s", name, strerror(errno));
        return -1;
    }
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        err_set(err, ERR_io, "opening the folder %s: %s", name, strerror(errno));
    }
    return fd;
}

/* What opening made, in the end or when it failed. */
static void logs_drop(struct log_files *logs)
{
    SMAP_EACH (&logs->plain, entry) {
        mem_free(entry->value);
    }
    smap_release(&logs->plain);
    buf_release(&logs->seals.items);
    for (struct list_node *node; (node = list_take_first(&logs->spare)) != NULL;) {
        mem_free(LOG_PLAIN_OF(node));
    }
    const int fds[] = { logs->marks_fd, logs->live_fd, logs->root_fd };
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    mem_free(logs);
}

static bool logs_open_folders(struct log_files *logs, const char *data_dir, struct err *err)
{
    int data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data_fd < 0) {
        return err_set(err, ERR_io, "opening the folder %s: %s", data_dir, strerror(errno));
    }
    logs->root_fd = folder_open(data_fd, "logs", err);
    close(data_fd);
    if (logs->root_fd < 0) {
        return false;
    }
    logs->live_fd = folder_open(logs->root_fd, "live", err);
    return logs->live_fd >= 0 && log_marks_open(logs, err);
}

static const struct logs_ops files_ops;

struct logs *logs_open(const char *data_dir, struct err *err)
{
    struct log_files *logs = mem_alloc(sizeof *logs);
    memset(logs, 0, sizeof *logs);
    logs->port.ops = &files_ops;
    logs->root_fd = logs->live_fd = logs->marks_fd = -1;
    seal_queue_init(&logs->seals);
    if (!logs_open_folders(logs, data_dir, err)) {
        err_context(err, "logs in %s", data_dir);
        logs_drop(logs);
        return NULL;
    }
    pthread_mutex_init(&logs->lock, NULL);
    pthread_cond_init(&logs->to_sync, NULL);
    pthread_cond_init(&logs->to_pack, NULL);
    pthread_cond_init(&logs->changed, NULL);
    logs->packing = true; /* until the pack thread has looked for what was left */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the loop's thread */
    int no = pthread_create(&logs->sync_thread, NULL, sync_run, logs);
    ASSERT(no == 0);
    no = pthread_create(&logs->pack_thread, NULL, log_pack_run, logs);
    ASSERT(no == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return &logs->port;
}

static void files_close(struct logs *port)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    logs->stop = true;
    pthread_cond_broadcast(&logs->to_sync);
    pthread_cond_broadcast(&logs->to_pack);
    pthread_mutex_unlock(&logs->lock);
    pthread_join(logs->pack_thread, NULL);
    pthread_join(logs->sync_thread, NULL);
    for (struct list_node *node; (node = list_take_first(&logs->to_do)) != NULL;) {
        mem_free(node);
    }
    SMAP_EACH (&logs->files, entry) {
        struct log_file *file = entry->value;
        if (file->fd >= 0) {
            close(file->fd);
        }
        mem_free(file);
    }
    smap_release(&logs->files);
    seek_reader_release(&logs->reader);
    pthread_cond_destroy(&logs->changed);
    pthread_cond_destroy(&logs->to_pack);
    pthread_cond_destroy(&logs->to_sync);
    pthread_mutex_destroy(&logs->lock);
    logs_drop(logs);
}

static const struct logs_ops files_ops = {
    .close = files_close,
    .append = files_append,
    .size = files_size,
    .read = files_read,
    .remove = log_files_remove,
    .expect = log_files_expect,
    .seal = log_files_seal,
    .each_open = log_files_each_open,
    .each = log_files_each,
    .wait = files_wait,
    .on_sync = files_on_sync,
    .on_seal = log_files_on_seal,
    .lost = log_files_lost,
    .sealed = log_files_sealed,
    .noted = log_files_noted,
    .frames_unpacked = files_frames_unpacked,
};
