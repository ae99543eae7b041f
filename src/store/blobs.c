/* blobs: see blobs.h.
 *
 * Promises: a file under its hash has exactly those bytes, synced before it got the name; the folder is synced before blobs_seal returns.
 * A crash leaves uploads (removed at the next start) and blobs, nothing between.
 *
 * Fails like io/fsx: not_found, disk_full, io, with the path and the system's words. */
#include "store/blobs_port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/fsx.h"

struct blob_files {
    struct blobs port; /* first */
    char dir[3800];
    char uploads[3840];
};

static struct blob_files *files_of(struct blobs *port)
{
    return (struct blob_files *)(void *)port;
}

static bool blobs_fail(struct err *err, const char *what, const char *path, int fault)
{
    enum err_code code = fault == ENOSPC || fault == EDQUOT || fault == EFBIG ? ERR_disk_full : fault == ENOENT ? ERR_not_found : ERR_io;
    return err_set(err, code, "can't %s %s: %s", what, path, strerrordesc_np(fault));
}

/* uploads_clear: half files of an earlier life; what can't be removed is overwritten when its key comes again. */
static void uploads_clear(const struct blob_files *blobs)
{
    DIR *dir = opendir(blobs->uploads);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static const struct blobs_ops files_ops;

struct blobs *blobs_open(const char *data_dir, struct err *err)
{
    struct blob_files *blobs = mem_alloc(sizeof *blobs);
    blobs->port.ops = &files_ops;
    int n = snprintf(blobs->dir, sizeof blobs->dir, "%s/blobs", data_dir);
    snprintf(blobs->uploads, sizeof blobs->uploads, "%s/new", blobs->dir);
    if (n < 0 || (size_t)n >= sizeof blobs->dir) {
        err_set(err, ERR_io, "the path is too long: %.200s", data_dir);
        mem_free(blobs);
        return NULL;
    }
    if (sodium_init() < 0 || !fsx_make_dirs(blobs->uploads, 0700, err)) {
        mem_free(blobs);
        return NULL;
    }
    uploads_clear(blobs);
    return &blobs->port;
}

static void files_close(struct blobs *port)
{
    struct blob_files *blobs = files_of(port);
    mem_free(blobs);
}

static bool upload_path(const struct blob_files *blobs, const char *key, char *out, size_t size, struct err *err)
{
    size_t len = strspn(key, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
    if (len == 0 || len > BLOB_KEY_MAX || key[len] != '\0')
        return err_set(err, ERR_invalid, "an upload's key has letters, digits and '-'");
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

static bool files_append(struct blobs *port, const char *key, int64_t offset, struct str bytes, int64_t bytes_max, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    char path[4096];
    struct stat st;
    if (!upload_path(blobs, key, path, sizeof path, err))
        return false;
    if (offset < 0 || offset > bytes_max || (int64_t)bytes.len > bytes_max - offset)
        return err_set(err, ERR_body_too_large, "the file is over %lld bytes", (long long)bytes_max);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return blobs_fail(err, "write", path, errno);
    bool good = fstat(fd, &st) == 0;
    if (good && offset > st.st_size) {
        err->expected = st.st_size;
        good = err_set(err, ERR_log_gap, "%lld bytes of the file are here, the piece begins at %lld", (long long)st.st_size,
            (long long)offset);
    } else if (!good || !piece_write(fd, offset, bytes)) {
        good = blobs_fail(err, "write", path, errno);
    }
    close(fd);
    return good;
}

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

int blob_upload_open(struct blobs *port, const char *key, struct blob *out, struct err *err)
{
    char from[4096];
    if (!upload_path(files_of(port), key, from, sizeof from, err))
        return -1;
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && file_hash(fd, out))
        return fd;
    blobs_fail(err, "read", from, errno);
    if (fd >= 0)
        close(fd);
    return -1;
}

void blob_upload_drop(struct blobs *port, const char *key)
{
    char from[4096];
    struct err ignored = { 0 };
    if (upload_path(files_of(port), key, from, sizeof from, &ignored))
        (void)unlink(from); /* else the next start does */
}

static bool files_seal(struct blobs *port, const char *key, struct blob *out, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    char from[4096], folder[4096], path[4096];
    int fd = blob_upload_open(port, key, out, err);
    if (fd < 0 || !upload_path(blobs, key, from, sizeof from, err))
        return false;
    bool good = fsync(fd) == 0;
    int fault = errno;
    close(fd);
    if (!good)
        return blobs_fail(err, "sync", from, fault);
    blob_path(blobs, out->hex, folder, path, sizeof path);
    if (mkdir(folder, 0700) == 0 && !fsx_sync_dir(blobs->dir, err))
        return false;
    /* Also when it is there already: the same bytes, and this way its age is the newest use, which blobs_sweep counts. */
    if (rename(from, path) != 0)
        return blobs_fail(err, "rename", from, errno);
    return fsx_sync_dir(folder, err);
}

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
        return blobs_fail(err, "read", path, errno);
    out->bytes = st.st_size;
    return true;
}

static bool files_read(struct blobs *port, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    struct blob_files *blobs = files_of(port);
    char folder[4096], path[4096];
    blob_path(blobs, hex, folder, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return blobs_fail(err, "read", path, errno);
    char *space = buf_reserve(out, max);
    ssize_t n = space != NULL ? pread(fd, space, max, offset) : 0;
    int fault = errno;
    close(fd);
    if (n < 0)
        return blobs_fail(err, "read", path, fault);
    buf_commit(out, (size_t)n);
    return true;
}

static size_t folder_sweep(int dir_fd, const char *name, time_t before, bool (*wanted)(const char *hex, void *owner), void *owner)
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
            n += unlinkat(fd, entry->d_name, 0) == 0;
    }
    closedir(dir);
    return n;
}

static size_t files_sweep(struct blobs *port, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner)
{
    struct blob_files *blobs = files_of(port);
    DIR *dir = opendir(blobs->dir);
    struct timespec now;
    size_t n = 0;
    if (dir == NULL || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strlen(entry->d_name) == 2 && entry->d_name[0] != '.')
            n += folder_sweep(dirfd(dir), entry->d_name, now.tv_sec - (time_t)min_age_s, wanted, owner);
    closedir(dir);
    return n;
}

static const struct blobs_ops files_ops = {
    .close = files_close, .append = files_append, .seal = files_seal, .find = files_find, .read = files_read, .sweep = files_sweep
};

/* ---- the port ---- */

void blobs_close(struct blobs *blobs)
{
    if (blobs != NULL)
        blobs->ops->close(blobs);
}

bool blobs_append(struct blobs *blobs, const char *key, int64_t offset, struct str bytes, int64_t bytes_max, struct err *err)
{
    return blobs->ops->append(blobs, key, offset, bytes, bytes_max, err);
}

bool blobs_seal(struct blobs *blobs, const char *key, struct blob *out, struct err *err)
{
    return blobs->ops->seal(blobs, key, out, err);
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
