/* logs/seal: what becomes of a log when no more bytes will come, and what a crash left of that.
 *
 * Owns the pack thread and the folder `live` as a to-do list: a plain file without write bits is to be packed, a .tmp
 * file is a packing that was interrupted and is repeated. The steps are write, sync, rename, sync the folder, remove
 * the plain file; killed between any two, the next start finds either the plain file alone, or both, and then the
 * packed one is whole. The hash of what was packed waits in memory, and as an empty file TASK.GRANT.unnoted, until the
 * history has it.
 *
 * Promises: never touches a packed file that is sound; the plain file goes last. A kill costs at most the work of one
 * log.
 *
 * Fails by leaving the plain file where it is (disk full, no descriptor): it reads the same, and is tried again after
 * the next success and at the next start. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/logs/file.h"

static void name_half(char out[LOG_NAME_BYTES], struct log_key key)
{
    snprintf(out, LOG_NAME_BYTES, "%" PRId64 ".%" PRId64 ".tmp", key.task, key.grant);
}

static void name_shard(char out[LOG_NAME_BYTES], struct log_key key)
{
    snprintf(out, LOG_NAME_BYTES, "%" PRId64, key.task / LOG_SHARD_TASKS);
}

bool log_name_parse(const char *name, struct log_key *out, struct str *out_suffix)
{
    struct str rest = str_of(name), task, grant;
    *out_suffix = (struct str){ 0 };
    if (!str_cut(&rest, '.', &task) || !str_cut(&rest, '.', &grant) || !str_to_i64(task, &out->task) ||
        !str_to_i64(grant, &out->grant)) {
        return false;
    }
    *out_suffix = rest;
    return out->task >= 0 && out->grant >= 0;
}

static void pack_add(struct log_files *logs, struct log_key key, bool unnoted)
{
    struct pack_job *job = mem_alloc(sizeof *job);
    *job = (struct pack_job){ .key = key, .unnoted = unnoted };
    list_append(&logs->to_do, &job->node);
    pthread_cond_signal(&logs->to_pack);
}

bool log_live_each(struct log_files *logs, bool clean,
    void (*each)(void *owner, struct log_key key, enum log_found found), void *owner)
{
    int fd = openat(logs->live_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) {
            close(fd);
        }
        return false; /* no descriptor left: packing waits for the next start */
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct log_key key;
        struct str suffix;
        struct stat st;
        if (!log_name_parse(entry->d_name, &key, &suffix)) {
            continue;
        }
        if (str_eqz(suffix, "tmp")) {
            if (clean) {
                unlinkat(logs->live_fd, entry->d_name, 0);
            }
        } else if (str_eqz(suffix, "log") && fstatat(logs->live_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(st.st_mode)) {
            each(owner, key, (st.st_mode & S_IWUSR) == 0 ? LOG_FOUND_SEALED : LOG_FOUND_OPEN);
        } else if (str_eqz(suffix, "unnoted")) {
            each(owner, key, LOG_FOUND_UNNOTED);
        }
    }
    closedir(dir);
    return true;
}

/* Queues what an earlier life sealed but didn't pack, or packed but didn't remove. */
static void pack_find_each(void *owner, struct log_key key, enum log_found found)
{
    struct log_files *logs = owner;
    char name[LOG_NAME_BYTES];
    log_name_packed(name, key);
    if (found == LOG_FOUND_UNNOTED) {
        return;
    }
    bool to_pack = found == LOG_FOUND_SEALED || faccessat(logs->root_fd, name, F_OK, 0) == 0;
    pthread_mutex_lock(&logs->lock);
    log_plain_note(logs, key);
    if (to_pack) {
        pack_add(logs, key, false);
    }
    pthread_mutex_unlock(&logs->lock);
}

/* And, at the start, what was packed and not noted. */
static void pack_find_first(void *owner, struct log_key key, enum log_found found)
{
    struct log_files *logs = owner;
    if (found != LOG_FOUND_UNNOTED) {
        pack_find_each(owner, key, found);
        return;
    }
    pthread_mutex_lock(&logs->lock);
    pack_add(logs, key, true);
    pthread_mutex_unlock(&logs->lock);
}

/* Is there a sound packed file already (a crash came before the plain one was removed)? It was synced before it got its
 * name, so it is the whole, whatever a power cut left of the plain one. */
static bool pack_is_there(struct log_files *logs, struct log_key key)
{
    char name[LOG_NAME_BYTES];
    log_name_packed(name, key);
    struct err err = { 0 };
    struct seek_file seek;
    int fd = openat(logs->root_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool there = fd >= 0 && seek_open(fd, &seek, &err);
    if (fd >= 0) {
        close(fd);
    }
    return there;
}

static bool shard_sync(struct log_files *logs, struct log_key key)
{
    char shard[LOG_NAME_BYTES];
    name_shard(shard, key);
    int fd = openat(logs->root_fd, shard, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* Writes, syncs, renames, syncs the folder. */
static bool pack_write(struct log_files *logs, struct log_key key, int plain_fd, struct log_seal *out)
{
    char half[LOG_NAME_BYTES], shard[LOG_NAME_BYTES], packed[LOG_NAME_BYTES];
    name_half(half, key);
    name_shard(shard, key);
    log_name_packed(packed, key);
    if (mkdirat(logs->root_fd, shard, 0700) == 0 ? fsync(logs->root_fd) != 0 : errno != EEXIST) {
        return false;
    }
    int fd = openat(logs->live_fd, half, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return false;
    }
    struct err err = { 0 };
    bool ok = seek_pack(plain_fd, fd, &logs->stop, out, &err);
    close(fd);
    ok = ok && renameat(logs->live_fd, half, logs->root_fd, packed) == 0;
    if (!ok) {
        unlinkat(logs->live_fd, half, 0);
        return false;
    }
    return shard_sync(logs, key);
}

bool log_pack_end(struct log_files *logs, struct log_key key)
{
    char plain[LOG_NAME_BYTES];
    log_name_plain(plain, key);
    return pack_is_there(logs, key) && shard_sync(logs, key) && unlinkat(logs->live_fd, plain, 0) == 0;
}

/* The hash of a log as it was packed, by unpacking it. False: it can't be read (`verify` says why), or we are to stop.
 */
static bool packed_hash(struct log_files *logs, struct log_key key, struct log_seal *out)
{
    char name[LOG_NAME_BYTES];
    struct err err = { 0 };
    struct seek_file file;
    struct seek_reader reader = { 0 };
    struct buf room;
    crypto_generichash_state state;
    log_name_packed(name, key);
    int fd = openat(logs->root_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool ok = fd >= 0 && seek_open(fd, &file, &err);
    buf_init(&room, 2 * SEEK_FRAME_BYTES);
    crypto_generichash_init(&state, NULL, 0, LOG_HASH_BYTES);
    for (out->bytes = 0; ok && out->bytes < file.bytes; out->bytes += (int64_t)room.len) {
        buf_reset(&room);
        ok = !logs->stop && seek_read(&reader, &file, key.task, key.grant, out->bytes, SEEK_FRAME_BYTES, &room, &err) &&
             room.len > 0;
        crypto_generichash_update(&state, (const unsigned char *)room.ptr, room.len);
    }
    crypto_generichash_final(&state, out->hash, LOG_HASH_BYTES);
    seek_reader_release(&reader);
    buf_release(&room);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* A name that says so until the history has the hash. It need not survive a power cut: then a log is without one. */
static void unnoted_mark(struct log_files *logs, struct log_key key)
{
    char name[LOG_NAME_BYTES];
    log_name_unnoted(name, key);
    int fd = openat(logs->live_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        close(fd);
    }
}

static void unnoted_take(struct log_files *logs, struct log_key key)
{
    struct log_seal seal = { .task = key.task, .grant = key.grant };
    if (!packed_hash(logs, key, &seal)) {
        return;
    }
    pthread_mutex_lock(&logs->lock);
    seal_queue_add(&logs->seals, &(struct log_sealed){ .seal = seal });
    pthread_mutex_unlock(&logs->lock);
}

/* False: it couldn't be packed now. */
static bool pack_one(struct log_files *logs, struct log_key key)
{
    char plain[LOG_NAME_BYTES];
    log_name_plain(plain, key);
    int fd = openat(logs->live_fd, plain, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT; /* sealed twice */
    }
    struct log_seal seal = { .task = key.task, .grant = key.grant };
    bool ok = pack_is_there(logs, key) ? shard_sync(logs, key) && packed_hash(logs, key, &seal)
                                       : pack_write(logs, key, fd, &seal);
    close(fd);
    if (!ok) {
        return false;
    }
    unnoted_mark(logs, key);
    pthread_mutex_lock(&logs->lock);
    struct log_file *file = log_file_find(logs, key);
    bool waited_for = file && file->durable < file->size;
    if (file) {
        log_file_forget(logs, file);
    }
    unlinkat(logs->live_fd, plain, 0);
    log_plain_drop(logs, key);
    if (waited_for) {
        log_synced_tell(logs);
    }
    seal_queue_add(&logs->seals, &(struct log_sealed){ .seal = seal });
    pthread_mutex_unlock(&logs->lock);
    return true;
}

void *log_pack_run(void *arg)
{
    struct log_files *logs = arg;
    bool known = log_live_each(logs, true, pack_find_first, logs);
    pthread_mutex_lock(&logs->lock);
    logs->plain_known = known;
    for (;;) {
        logs->packing = false;
        pthread_cond_broadcast(&logs->changed);
        while (logs->to_do.n == 0 && !logs->stop) {
            pthread_cond_wait(&logs->to_pack, &logs->lock);
        }
        if (logs->stop) {
            break; /* what is left is found again at the next start */
        }
        struct pack_job *job = (struct pack_job *)(void *)list_take_first(&logs->to_do);
        struct log_key key = job->key;
        bool unnoted = job->unnoted;
        mem_free(job);
        bool again = logs->pack_failed;
        logs->packing = true;
        pthread_mutex_unlock(&logs->lock);
        if (unnoted) {
            unnoted_take(logs, key);
            pthread_mutex_lock(&logs->lock);
            continue;
        }
        bool ok = pack_one(logs, key);
        if (ok && again) {
            log_live_each(logs, false, pack_find_each, logs);
        }
        pthread_mutex_lock(&logs->lock);
        logs->pack_failed = !ok || (logs->pack_failed && !again);
    }
    pthread_mutex_unlock(&logs->lock);
    return NULL;
}

void log_seal_held(struct log_files *logs, struct log_key key)
{
    struct log_plain *plain = log_plain_find(logs, key);
    if (logs->plain_known && !plain) {
        return;
    }
    char name[LOG_NAME_BYTES];
    log_name_plain(name, key);
    if (plain && plain->ends) {
        plain->ends = 0;
        logs->n_expected--;
    }
    struct log_file *file = log_file_find(logs, key);
    if (file) {
        file->sealed = true;
    }
    /* ENOENT: nothing was stored, or it is packed already. */
    if (key.task >= 0 && key.grant >= 0 && (fchmodat(logs->live_fd, name, 0400, 0) == 0 || errno != ENOENT)) {
        pack_add(logs, key, false);
    }
}

void log_files_seal(struct logs *port, int64_t task, int64_t grant)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    log_seal_held(logs, (struct log_key){ task, grant });
    pthread_mutex_unlock(&logs->lock);
}

void log_files_expect(struct logs *port, int64_t task, int64_t grant, int64_t ends)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    struct log_plain *plain = log_plain_note(logs, (struct log_key){ task, grant });
    logs->n_expected += plain->ends == 0;
    plain->ends = ends;
    pthread_mutex_unlock(&logs->lock);
}

void log_files_remove(struct logs *port, int64_t task, int64_t grant)
{
    struct log_files *logs = files_of(port);
    struct log_key key = { task, grant };
    char plain[LOG_NAME_BYTES], packed[LOG_NAME_BYTES], unnoted[LOG_NAME_BYTES];
    log_name_plain(plain, key);
    log_name_packed(packed, key);
    log_name_unnoted(unnoted, key);
    pthread_mutex_lock(&logs->lock);
    struct log_file *file = log_file_find(logs, key);
    if (file)
        log_file_forget(logs, file);
    log_plain_drop(logs, key);
    (void)unlinkat(logs->live_fd, plain, 0);
    (void)unlinkat(logs->live_fd, unnoted, 0);
    (void)unlinkat(logs->root_fd, packed, 0); /* a job that is packing it now leaves a file for the next sweep */
    pthread_mutex_unlock(&logs->lock);
}

struct open_each {
    void (*each)(void *owner, int64_t task, int64_t grant);
    void *owner;
};

static void open_each_call(void *owner, struct log_key key, enum log_found found)
{
    struct open_each *call = owner;
    if (found == LOG_FOUND_OPEN) {
        call->each(call->owner, key.task, key.grant);
    }
}

void log_files_each_open(struct logs *port, void (*each)(void *owner, int64_t task, int64_t grant), void *owner)
{
    struct log_files *logs = files_of(port);
    struct open_each call = { each, owner };
    log_live_each(logs, false, open_each_call, &call);
}

/* --- what waits to be noted --- */

void log_files_on_seal(struct logs *port, void (*sealed)(void *owner), void *owner)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    seal_queue_listen(&logs->seals, sealed, owner);
    pthread_mutex_unlock(&logs->lock);
}

void log_files_lost(struct logs *port, int64_t task, int64_t grant)
{
    struct log_files *logs = files_of(port);
    struct log_sealed lost = { .seal = { .task = task, .grant = grant }, .lost = true };
    struct err ignored = { 0 };
    if (!logs_size(port, task, grant, &lost.seal.bytes, &ignored))
        return; /* it counts with its next bytes, or when it is sealed */
    pthread_mutex_lock(&logs->lock);
    seal_queue_add(&logs->seals, &lost);
    pthread_mutex_unlock(&logs->lock);
}

size_t log_files_sealed(struct logs *port, struct log_sealed *out, size_t max)
{
    struct log_files *logs = files_of(port);
    pthread_mutex_lock(&logs->lock);
    size_t n = seal_queue_first(&logs->seals, out, max);
    pthread_mutex_unlock(&logs->lock);
    return n;
}

bool log_files_noted(struct logs *port, const struct log_sealed *sealed, size_t n)
{
    struct log_files *logs = files_of(port);
    for (size_t i = 0; i < n; i++) {
        char name[LOG_NAME_BYTES];
        if (sealed[i].lost)
            continue;
        log_name_unnoted(name, (struct log_key){ sealed[i].seal.task, sealed[i].seal.grant });
        (void)unlinkat(logs->live_fd, name, 0);
    }
    pthread_mutex_lock(&logs->lock);
    bool more = seal_queue_drop(&logs->seals, n);
    pthread_mutex_unlock(&logs->lock);
    return more;
}

/* --- all of them --- */

static DIR *folder_open(int at_fd, const char *name, struct err *err)
{
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        err_set(err, ERR_io, "opening the folder of logs '%s': %s", name, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
    }
    return dir;
}

/* *out_more false: `each` has had enough. */
static bool folder_each(int root_fd, const char *name, bool (*each)(void *owner, int64_t task, int64_t grant),
    void *owner, bool *out_more, struct err *err)
{
    DIR *dir = folder_open(root_fd, name, err);
    if (!dir) {
        return false;
    }
    for (struct dirent *entry; *out_more && (entry = readdir(dir)) != NULL;) {
        struct log_key key;
        struct str suffix;
        if (log_name_parse(entry->d_name, &key, &suffix) && (str_eqz(suffix, "log") || str_eqz(suffix, "log.zst"))) {
            *out_more = each(owner, key.task, key.grant);
        }
    }
    closedir(dir);
    return true;
}

/* A shard in which nothing is left goes. One that a log is just being packed into comes again: that packing fails and
 * is tried again. */
bool log_files_each(
    struct logs *port, bool (*each)(void *owner, int64_t task, int64_t grant), void *owner, struct err *err)
{
    const struct log_files *logs = files_of(port);
    bool more = true, ok = folder_each(logs->root_fd, "live", each, owner, &more, err);
    DIR *root = ok ? folder_open(logs->root_fd, ".", err) : NULL;
    for (struct dirent *entry; root && ok && more && (entry = readdir(root)) != NULL;) {
        int64_t shard;
        if (!str_to_i64(str_of(entry->d_name), &shard) || shard < 0) {
            continue;
        }
        ok = folder_each(logs->root_fd, entry->d_name, each, owner, &more, err);
        if (ok && more) {
            (void)unlinkat(logs->root_fd, entry->d_name, AT_REMOVEDIR); /* unless it holds something */
        }
    }
    if (root) {
        closedir(root);
    }
    return ok && root != NULL;
}
