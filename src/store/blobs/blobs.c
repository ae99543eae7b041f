/* blobs: see blobs.h.
 *
 * Promises: a file under its hash has exactly those bytes, synced before it got the name; the folder is synced before
 * blobs_seal returns. A seal first takes the upload away from its key, under the lock that every piece is written
 * under, then hashes what it has opened and links that very file: nothing that comes later can change it, and nothing
 * that is there is replaced. A crash leaves uploads (removed at the next start) and blobs, nothing between. Seals of
 * attempts are lines of a file in blobs/sealed (seals.c).
 *
 * Fails like io/fsx: not_found, disk_full, io, with the system's words; no path, since clients are told. */
#include "store/blobs/port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/list.h"
#include "io/fsx.h"
#include "store/blobs/seals.h"

struct blob_files {
    struct blobs port;    /* first */
    pthread_mutex_t lock; /* guards uploads, seals, and the moment in which a blob is named or swept */
    struct seals *seals;
    struct list held; /* struct held: new blobs that may go again */
    uint64_t taken;   /* uploads that seals have taken: their names */
    char dir[3800];
    char uploads[3840];
};

/* A blob that a blobs_keep has made, until all that keep it are settled. */
struct held {
    struct list_node node;
    char hex[BLOB_HEX + 1];
    unsigned n; /* that keep it and aren't settled */
    bool stays; /* one of them stays, or an attempt has sealed it */
};

static struct blob_files *files_of(struct blobs *port)
{
    return (struct blob_files *)(void *)port;
}

static bool blobs_fail(struct err *err, const char *what, int fault)
{
    if (fault == ENOENT)
        return err_set(err, ERR_not_found, "the bytes of this file aren't here any more");
    enum err_code code = fault == ENOSPC || fault == EDQUOT || fault == EFBIG ? ERR_disk_full : ERR_io;
    return err_set(err, code, "can't %s a kept file: %s", what, strerrordesc_np(fault));
}

/* uploads_clear: half files of an earlier life (prefix ""), or of an attempt ("TASK-GRANT-"). */
static void uploads_clear(const struct blob_files *blobs, const char *prefix)
{
    DIR *dir = opendir(blobs->uploads);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static const struct blobs_ops files_ops;

struct blobs *blobs_open(const char *data_dir, struct err *err)
{
    struct blob_files *blobs = mem_alloc_zero(sizeof *blobs);
    blobs->port.ops = &files_ops;
    pthread_mutex_init(&blobs->lock, NULL);
    int n = snprintf(blobs->dir, sizeof blobs->dir, "%s/blobs", data_dir);
    snprintf(blobs->uploads, sizeof blobs->uploads, "%s/new", blobs->dir);
    bool ok =
        (n >= 0 && (size_t)n < sizeof blobs->dir) || err_set(err, ERR_io, "the path is too long: %.200s", data_dir);
    if (!ok || sodium_init() < 0 || !fsx_make_dirs(blobs->uploads, 0700, err) ||
        (blobs->seals = seals_open(blobs->dir, err)) == NULL) {
        pthread_mutex_destroy(&blobs->lock);
        mem_free(blobs);
        return NULL;
    }
    uploads_clear(blobs, "");
    return &blobs->port;
}

static void files_close(struct blobs *port)
{
    struct blob_files *blobs = files_of(port);
    seals_close(blobs->seals);
    for (struct list_node *node; (node = list_take_first(&blobs->held)) != NULL;)
        mem_free(CONTAINER_OF(node, struct held, node));
    pthread_mutex_destroy(&blobs->lock);
    mem_free(blobs);
}

/* --- uploads --- */

void upload_name(struct str file_name, char out[UPLOAD_NAME + 1])
{
    unsigned char digest[UPLOAD_NAME / 2];
    crypto_generichash(digest, sizeof digest, (const unsigned char *)file_name.ptr, file_name.len, NULL, 0);
    sodium_bin2hex(out, UPLOAD_NAME + 1, digest, sizeof digest);
}

bool upload_key(const struct upload *upload, char out[UPLOAD_KEY_BYTES], struct err *err)
{
    size_t len = strspn(upload->name, "0123456789abcdefghijklmnopqrstuvwxyz");
    if (len == 0 || upload->name[len] != '\0' || upload->task < 0 || upload->grant < 0)
        return err_set(err, ERR_invalid, "an upload's name has letters and digits");
    snprintf(out, UPLOAD_KEY_BYTES, "%" PRId64 "-%" PRId64 "-%s", upload->task, upload->grant, upload->name);
    return true;
}

bool upload_fits(const struct upload *upload, int64_t waiting, struct err *err)
{
    return upload->room <= 0 || waiting <= upload->room ||
           err_set(err, ERR_quota_full,
               "jobs of the tenant '%.*s' may send %lld bytes of artifacts now, and these would be %lld; clear away "
               "what is old: weir "
               "history prune --older-than 30d, or have tenants.%.*s.quotas.files raised",
               STR_ARG(upload->tenant), (long long)upload->room, (long long)waiting, STR_ARG(upload->tenant));
}

static bool upload_path(
    const struct blob_files *blobs, const struct upload *upload, char *out, size_t size, struct err *err)
{
    char key[UPLOAD_KEY_BYTES];
    if (!upload_key(upload, key, err))
        return false;
    snprintf(out, size, "%s/%s", blobs->uploads, key);
    return true;
}

static bool piece_write(int fd, int64_t offset, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t n = pwrite(fd, bytes.ptr, bytes.len, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes = str_sub(bytes, (size_t)n, bytes.len);
        offset += n;
    }
    return ftruncate(fd, offset) == 0;
}

/* piece_put: under the lock. An upload that isn't there yet is one more of its attempt. */
static bool piece_put(struct blob_files *blobs, const struct upload *upload, const char *path, int64_t offset,
    struct str bytes, struct err *err)
{
    struct stat st, after;
    bool fresh = lstat(path, &st) != 0;
    int64_t size = fresh ? 0 : st.st_size;
    if (offset > size) {
        err->expected = size;
        return err_set(err, ERR_log_gap, "%lld bytes of the file are here, the piece begins at %lld", (long long)size,
            (long long)offset);
    }
    if (fresh && upload->task > 0 && seals_full(blobs->seals, upload->task, upload->grant))
        return err_set(err, ERR_too_many, "%d files of this attempt are being sent already", UPLOADS_MAX);
    if (upload->room > 0 &&
        !upload_fits(upload, seals_bytes(blobs->seals, upload->tenant) - size + offset + (int64_t)bytes.len, err))
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return blobs_fail(err, "write", errno);
    bool good = piece_write(fd, offset, bytes) || blobs_fail(err, "write", errno);
    if (upload->task > 0 && fstat(fd, &after) == 0)
        seals_uploading(blobs->seals, upload, fresh, after.st_size - size);
    close(fd);
    return good;
}

static bool files_append(struct blobs *port, const struct upload *upload, int64_t offset, struct str bytes,
    int64_t bytes_max, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    char path[4096];
    if (!upload_path(blobs, upload, path, sizeof path, err))
        return false;
    if (offset < 0 || offset > bytes_max || (int64_t)bytes.len > bytes_max - offset)
        return err_set(err, ERR_body_too_large, "the file is over %lld bytes", (long long)bytes_max);
    pthread_mutex_lock(&blobs->lock);
    bool good = piece_put(blobs, upload, path, offset, bytes, err);
    pthread_mutex_unlock(&blobs->lock);
    return good;
}

/* --- sealing --- */

static bool file_hash(int fd, struct blob *out)
{
    enum { PIECE = 256 << 10 };
    unsigned char *space = mem_alloc(PIECE), digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    ssize_t n;
    crypto_hash_sha256_init(&state);
    out->bytes = 0;
    while ((n = pread(fd, space, PIECE, out->bytes)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        crypto_hash_sha256_update(&state, space, (unsigned long long)n);
        out->bytes += n;
    }
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(out->hex, sizeof out->hex, digest, sizeof digest);
    mem_free(space);
    return n == 0;
}

static void blob_path(const struct blob_files *blobs, const char *hex, char *folder, char *path, size_t size)
{
    snprintf(folder, size, "%s/%.2s", blobs->dir, hex);
    snprintf(path, size, "%.3900s/%s", folder, hex);
}

static bool folder_make(
    const struct blob_files *blobs, const char *hex, char *folder, char *path, size_t size, struct err *err)
{
    blob_path(blobs, hex, folder, path, size);
    return mkdir(folder, 0700) != 0 || fsx_sync_dir(blobs->dir, err);
}

/* upload_take: gives the upload to the seal alone: nothing is found under its key any more, and no writer has it open.
 * < 0: err. */
static int upload_take(struct blob_files *blobs, const struct upload *upload, char *taken, size_t size, struct err *err)
{
    char from[4096];
    struct stat st;
    if (!upload_path(blobs, upload, from, sizeof from, err))
        return -1;
    pthread_mutex_lock(&blobs->lock);
    snprintf(taken, size, "%s.%" PRIu64, from, ++blobs->taken);
    int fd = rename(from, taken) == 0 ? open(taken, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    int fault = errno;
    if (fd >= 0 && upload->task > 0 && fstat(fd, &st) == 0)
        seals_uploading(blobs->seals, upload, false, -st.st_size), seals_taken(blobs->seals, upload);
    pthread_mutex_unlock(&blobs->lock);
    if (fd < 0 && fault == ENOENT) {
        err->expected = 0;
        err_set(err, ERR_log_gap, "no piece of this file is here: it is sent again from its beginning");
    } else if (fd < 0) {
        blobs_fail(err, "read", fault);
    }
    return fd;
}

static struct held *held_find(struct blob_files *blobs, const char *hex)
{
    for (struct list_node *node = blobs->held.first; node != NULL; node = node->next) {
        struct held *held = CONTAINER_OF(node, struct held, node);
        if (strcmp(held->hex, hex) == 0)
            return held;
    }
    return NULL;
}

/* held_note: under the lock. stamp NULL: whoever keeps the blob won't take it away. */
static void held_note(struct blob_files *blobs, const char *hex, bool fresh, int64_t *out_stamp)
{
    struct held *held = held_find(blobs, hex);
    if (held == NULL && fresh && out_stamp != NULL) {
        held = mem_alloc_zero(sizeof *held);
        memcpy(held->hex, hex, sizeof held->hex);
        list_append(&blobs->held, &held->node);
    }
    if (held != NULL && out_stamp != NULL)
        held->n++;
    else if (held != NULL)
        held->stays = true;
    if (out_stamp != NULL)
        *out_stamp = held != NULL;
}

/* blob_name: the opened file gets its name; one that has it already stays, used now. Under the lock, so that no sweep
 * comes between. *out_fault: why the file can't have the name, where a copy of it may. */
static bool blob_name(struct blob_files *blobs, int fd, const char *path, const struct blob *blob, int64_t *out_stamp,
    int *out_fault, struct err *err)
{
    char self[64];
    struct stat st;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    pthread_mutex_lock(&blobs->lock);
    int rc = linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW), fault = errno;
    bool there = rc != 0 && fault == EEXIST && utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0 &&
                 lstat(path, &st) == 0;
    if (rc == 0 || there)
        held_note(blobs, blob->hex, rc == 0, out_stamp);
    pthread_mutex_unlock(&blobs->lock);
    *out_fault = fault;
    if (rc != 0 && !there)
        return blobs_fail(err, "name", fault);
    return rc == 0 || st.st_size == blob->bytes ||
           err_set(err, ERR_corrupt, "a file with this content is kept here and damaged: run weir verify");
}

static bool files_seal(struct blobs *port, const struct upload *upload, struct blob *out, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    char taken[4200], folder[4096], path[4096];
    int fault;
    int fd = upload_take(blobs, upload, taken, sizeof taken, err);
    if (fd < 0)
        return false;
    bool good =
        (file_hash(fd, out) || blobs_fail(err, "read", errno)) && (fsync(fd) == 0 || blobs_fail(err, "sync", errno));
    good = good && folder_make(blobs, out->hex, folder, path, sizeof path, err);
    good = good && blob_name(blobs, fd, path, out, NULL, &fault, err);
    close(fd);
    (void)unlink(taken); /* else the next start does */
    good = good && fsx_sync_dir(folder, err);
    if (!good || upload->task == 0)
        return good;
    pthread_mutex_lock(&blobs->lock);
    bool first = false;
    int log = seals_add(blobs->seals, upload, out, &first, err);
    pthread_mutex_unlock(&blobs->lock);
    return log >= 0 && seals_sync(blobs->seals, log, first, err);
}

/* --- keeping a file as it is --- */

bool source_hash(const struct blob_source *source, const struct source_taker *taker, struct blob *out, struct err *err)
{
    enum { PIECE = 256 << 10 };
    unsigned char *space = mem_alloc(PIECE), digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    ssize_t n;
    bool good = true;
    crypto_hash_sha256_init(&state);
    out->bytes = 0;
    while (good && ((n = pread(source->fd, space, PIECE, out->bytes)) > 0 || (n < 0 && errno == EINTR))) {
        if (n < 0)
            continue;
        crypto_hash_sha256_update(&state, space, (unsigned long long)n);
        good = taker == NULL || taker->take(taker->owner, out->bytes, (struct str){ (char *)space, (size_t)n }, err);
        out->bytes += n;
    }
    good = good && (n == 0 || blobs_fail(err, "read", errno));
    crypto_hash_sha256_final(&state, digest);
    mem_free(space);
    sodium_bin2hex(out->hex, sizeof out->hex, digest, sizeof digest);
    return good && (memcmp(digest, source->sha256, sizeof digest) == 0 ||
                       err_set(err, ERR_corrupt, "the file was changed while it was read"));
}

static bool copy_take(void *owner, int64_t offset, struct str bytes, struct err *err)
{
    return piece_write(*(const int *)owner, offset, bytes) || blobs_fail(err, "write", errno);
}

/* source_copy: a file of our own with its bytes; < 0: err. */
static int source_copy(struct blob_files *blobs, const struct blob_source *source, char *name, size_t size,
    struct blob *out, struct err *err)
{
    pthread_mutex_lock(&blobs->lock);
    snprintf(name, size, "%s/copy.%" PRIu64, blobs->uploads, ++blobs->taken);
    pthread_mutex_unlock(&blobs->lock);
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return blobs_fail(err, "write", errno) ? fd : -1;
    struct source_taker taker = { copy_take, &fd };
    if (source_hash(source, &taker, out, err))
        return fd;
    close(fd);
    (void)unlink(name);
    return -1;
}

/* file_keep: synced, then named. */
static bool file_keep(struct blob_files *blobs, int fd, struct blob_hold *out, int *out_fault, struct err *err)
{
    char folder[4096], path[4096];
    *out_fault = 0;
    return (fsync(fd) == 0 || blobs_fail(err, "sync", errno)) &&
           folder_make(blobs, out->blob.hex, folder, path, sizeof path, err) &&
           blob_name(blobs, fd, path, &out->blob, &out->stamp, out_fault, err) && fsx_sync_dir(folder, err);
}

static bool source_keep(
    struct blob_files *blobs, const struct blob_source *source, struct blob_hold *out, struct err *err)
{
    char name[4200];
    int fault;
    if (source->is_own) {
        if (!source_hash(source, NULL, &out->blob, err))
            return false;
        if (file_keep(blobs, source->fd, out, &fault, err))
            return true;
        if (fault != EXDEV && fault != ENOENT && fault != EPERM)
            return false;
        *err = (struct err){ .arena = err->arena }; /* another file system, or a file without links: a copy does */
    }
    int fd = source_copy(blobs, source, name, sizeof name, &out->blob, err);
    if (fd < 0)
        return false;
    bool good = file_keep(blobs, fd, out, &fault, err);
    close(fd);
    (void)unlink(name); /* else the next start does */
    return good;
}

static void files_settle(struct blobs *port, const struct blob_hold *hold, bool stays)
{
    struct blob_files *blobs = files_of(port);
    char folder[4096], path[4096];
    pthread_mutex_lock(&blobs->lock);
    struct held *held = held_find(blobs, hold->blob.hex);
    held->stays = held->stays || stays;
    if (--held->n == 0) {
        blob_path(blobs, held->hex, folder, path, sizeof path);
        if (!held->stays)
            (void)unlink(path); /* else a sweep does */
        list_remove(&blobs->held, &held->node);
        mem_free(held);
    }
    pthread_mutex_unlock(&blobs->lock);
}

static bool files_keep(struct blobs *port, const struct blob_source *source, struct blob_hold *out, struct err *err)
{
    *out = (struct blob_hold){ .stamp = 0 };
    bool good = source_keep(files_of(port), source, out, err);
    if (!good && out->stamp != 0)
        files_settle(port, out, false); /* it has its name, and the folder couldn't be synced */
    return good;
}

/* --- what attempts have sent --- */

static bool files_sealed(struct blobs *port, int64_t task, int64_t grant, struct buf *out, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    (void)err;
    pthread_mutex_lock(&blobs->lock);
    seals_list(blobs->seals, task, grant, out);
    pthread_mutex_unlock(&blobs->lock);
    return true;
}

static bool files_waiting(struct blobs *port, struct str tenant, int64_t *out_bytes, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    (void)err;
    pthread_mutex_lock(&blobs->lock);
    *out_bytes = seals_bytes(blobs->seals, tenant);
    pthread_mutex_unlock(&blobs->lock);
    return true;
}

static bool files_grants(struct blobs *port, struct buf *out, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    (void)err;
    pthread_mutex_lock(&blobs->lock);
    seals_grants(blobs->seals, out);
    pthread_mutex_unlock(&blobs->lock);
    return true;
}

static void files_forget(struct blobs *port, int64_t task, int64_t grant)
{
    struct blob_files *blobs = files_of(port);
    pthread_mutex_lock(&blobs->lock);
    if (seals_forget(blobs->seals, task, grant)) { /* mostly there is nothing */
        char prefix[UPLOAD_KEY_BYTES];
        snprintf(prefix, sizeof prefix, "%" PRId64 "-%" PRId64 "-", task, grant);
        uploads_clear(blobs, prefix);
    }
    pthread_mutex_unlock(&blobs->lock);
}

/* --- blobs --- */

static bool hex_is_valid(struct str hex)
{
    for (size_t i = 0; i < hex.len; i++)
        if (!((hex.ptr[i] >= '0' && hex.ptr[i] <= '9') || (hex.ptr[i] >= 'a' && hex.ptr[i] <= 'f')))
            return false;
    return hex.len == BLOB_HEX;
}

static bool files_find(struct blobs *port, const char *hex, struct blob *out, struct err *err)
{
    char folder[4096], path[4096];
    struct stat st;
    blob_path(files_of(port), hex, folder, path, sizeof path);
    if (lstat(path, &st) != 0)
        return blobs_fail(err, "read", errno);
    out->bytes = st.st_size;
    return true;
}

static bool files_read(
    struct blobs *port, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    char folder[4096], path[4096];
    blob_path(blobs, hex, folder, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return blobs_fail(err, "read", errno);
    char *space = buf_reserve(out, max);
    ssize_t n = space != NULL ? pread(fd, space, max, offset) : 0;
    int fault = errno;
    close(fd);
    if (n < 0)
        return blobs_fail(err, "read", fault);
    buf_commit(out, (size_t)n);
    return true;
}

/* blob_remove: if it is old still: a seal may have used it since. */
static bool blob_remove(struct blob_files *blobs, int fd, const char *name, time_t before)
{
    struct stat st;
    pthread_mutex_lock(&blobs->lock);
    bool gone = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ctime < before && unlinkat(fd, name, 0) == 0;
    pthread_mutex_unlock(&blobs->lock);
    return gone;
}

static size_t folder_sweep(struct blob_files *blobs, int dir_fd, const char *name, time_t before,
    bool (*wanted)(const char *hex, void *owner), void *owner)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    size_t n = 0;
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat st;
        if (!hex_is_valid(str_of(entry->d_name)) || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (st.st_ctime < before && !wanted(entry->d_name, owner))
            n += blob_remove(blobs, fd, entry->d_name, before);
    }
    closedir(dir);
    return n;
}

static size_t files_sweep(
    struct blobs *port, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner)
{
    struct blob_files *blobs = files_of(port);
    DIR *dir = opendir(blobs->dir);
    struct timespec now;
    size_t n = 0;
    if (dir == NULL || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strlen(entry->d_name) == 2 && entry->d_name[0] != '.')
            n += folder_sweep(blobs, dirfd(dir), entry->d_name, now.tv_sec - (time_t)min_age_s, wanted, owner);
    closedir(dir);
    return n;
}

static const struct blobs_ops files_ops = { .close = files_close,
    .append = files_append,
    .seal = files_seal,
    .keep = files_keep,
    .settle = files_settle,
    .sealed = files_sealed,
    .waiting = files_waiting,
    .grants = files_grants,
    .forget = files_forget,
    .find = files_find,
    .read = files_read,
    .sweep = files_sweep };

/* --- the port --- */

void blobs_close(struct blobs *blobs)
{
    if (blobs != NULL)
        blobs->ops->close(blobs);
}

bool blobs_is_shared(const struct blobs *blobs)
{
    return blobs->ops->shared;
}

bool blobs_append(struct blobs *blobs, const struct upload *upload, int64_t offset, struct str bytes, int64_t bytes_max,
    struct err *err)
{
    return blobs->ops->append(blobs, upload, offset, bytes, bytes_max, err);
}

bool blobs_seal(struct blobs *blobs, const struct upload *upload, struct blob *out, struct err *err)
{
    return blobs->ops->seal(blobs, upload, out, err);
}

bool blobs_keep(struct blobs *blobs, const struct blob_source *source, struct blob_hold *out, struct err *err)
{
    return blobs->ops->keep(blobs, source, out, err);
}

void blobs_settle(struct blobs *blobs, const struct blob_hold *hold, bool stays)
{
    if (hold->stamp != 0)
        blobs->ops->settle(blobs, hold, stays);
}

bool blobs_sealed(struct blobs *blobs, int64_t task, int64_t grant, struct buf *out, struct err *err)
{
    return blobs->ops->sealed(blobs, task, grant, out, err);
}

bool blobs_waiting(struct blobs *blobs, struct str tenant, int64_t *out_bytes, struct err *err)
{
    return blobs->ops->waiting(blobs, tenant, out_bytes, err);
}

bool blobs_grants(struct blobs *blobs, struct buf *out, struct err *err)
{
    return blobs->ops->grants(blobs, out, err);
}

void blobs_forget(struct blobs *blobs, int64_t task, int64_t grant)
{
    blobs->ops->forget(blobs, task, grant);
}

bool blobs_find(struct blobs *blobs, struct str hex, struct blob *out, struct err *err)
{
    if (!hex_is_valid(hex))
        return err_set(err, ERR_not_found, "no file is kept under such a name");
    memcpy(out->hex, hex.ptr, BLOB_HEX);
    out->hex[BLOB_HEX] = '\0';
    return blobs->ops->find(blobs, out->hex, out, err);
}

bool blobs_read(struct blobs *blobs, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    return blobs->ops->read(blobs, hex, offset, max, out, err);
}

size_t blobs_sweep(struct blobs *blobs, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner)
{
    return blobs->ops->sweep(blobs, min_age_s, wanted, owner);
}
