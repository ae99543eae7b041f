/* blobs/copy: kept files leave a data directory for a backup and come back by a restore. See blobs/copy.h.
 *
 * Bytes are hashed on the way out and on the way back: what is damaged isn't carried along as if it were whole. Back,
 * everything is written into DATA/blobs.part (folders 0700, files 0600), synced at once by syncfs, then renamed.
 * Failures are ERR_io and ERR_disk_full with the system's words; ERR_corrupt for parts that don't fit each other or
 * their name. */
#include "store/blobs/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "core/model.h"

#define PART_FOLDER "blobs.part"

static bool os_refused(const char *what, const char *name, struct err *err)
{
    int no = errno;
    return err_set(
        err, no == ENOSPC || no == EDQUOT ? ERR_disk_full : ERR_io, "%s %s: %s", what, name, strerrordesc_np(no));
}

static bool hex_is_good(struct str hex)
{
    for (size_t i = 0; i < hex.len; i++)
        if (!((hex.ptr[i] >= '0' && hex.ptr[i] <= '9') || (hex.ptr[i] >= 'a' && hex.ptr[i] <= 'f')))
            return false;
    return hex.len == BLOB_HEX;
}

/* Quotes within a name are written as \", so the pattern can't be part of one. */
bool outputs_files(
    struct str outputs, bool (*take)(void *owner, struct str hex, struct err *err), void *owner, struct err *err)
{
    static const char mark[] = "\"sha256\":\"";
    ptrdiff_t line = str_index(outputs, '\n');
    if (line < 0)
        return true;
    const char *at = outputs.ptr + line, *end = outputs.ptr + outputs.len;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL) {
        at += sizeof mark - 1;
        struct str hex = { at, (size_t)(end - at) < BLOB_HEX ? (size_t)(end - at) : BLOB_HEX };
        if (hex_is_good(hex) && !take(owner, hex, err))
            return false;
    }
    return true;
}

bool tarball_hex(const struct task *task, struct str hash, char out[BLOB_HEX + 1])
{
    static const unsigned char none[BLOB_HEX / 2];
    if (task->marks & MARK_PRUNED || hash.len != sizeof none || memcmp(hash.ptr, none, sizeof none) == 0)
        return false;
    sodium_bin2hex(out, BLOB_HEX + 1, (const unsigned char *)hash.ptr, hash.len);
    return true;
}

static void digest_format(crypto_hash_sha256_state *state, char out[BLOB_HEX + 1])
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(state, digest);
    sodium_bin2hex(out, BLOB_HEX + 1, digest, sizeof digest);
}

/* --- out --- */

static ssize_t part_read(int fd, char *room, int64_t start)
{
    size_t n = 0;
    while (n < BLOB_PART_BYTES) {
        ssize_t got = pread(fd, room + n, BLOB_PART_BYTES - n, start + (int64_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

bool blob_copy_out(
    const char *data_dir, struct str hex, const struct blob_taker *taker, bool *out_found, struct err *err)
{
    char path[4096], found[BLOB_HEX + 1];
    crypto_hash_sha256_state state;
    struct blob_part part = { .hex = hex };
    snprintf(path, sizeof path, "%.3900s/blobs/%.2s/%.*s", data_dir, hex.ptr, STR_ARG(hex));
    *out_found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT || os_refused("reading", path, err);
    char *room = mem_alloc(BLOB_PART_BYTES);
    ssize_t n;
    bool ok = true;
    crypto_hash_sha256_init(&state);
    do { /* an empty file is one empty part */
        n = part_read(fd, room, part.start);
        part.bytes = (struct str){ room, n > 0 ? (size_t)n : 0 };
        crypto_hash_sha256_update(&state, (const unsigned char *)room, part.bytes.len);
        ok = n >= 0 ? taker->put(taker->owner, &part, err) : os_refused("reading", path, err);
        part.start += n;
    } while (ok && n == BLOB_PART_BYTES);
    close(fd);
    mem_free(room);
    digest_format(&state, found);
    *out_found = ok && str_eqz(hex, found);
    return ok;
}

/* --- back --- */

/* folder_remove: a folder of blobs, two levels and no more. */
static void folder_remove(int at_fd, const char *name, int levels)
{
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, entry->d_name, 0) != 0 && levels > 1)
            folder_remove(fd, entry->d_name, levels - 1);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    unlinkat(at_fd, name, AT_REMOVEDIR);
}

static void fd_drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

bool blobs_put_begin(struct blob_put *put, const char *data_dir, struct err *err)
{
    *put = (struct blob_put){ .data_dir = data_dir, .data_fd = -1, .root_fd = -1, .fd = -1 };
    put->data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (put->data_fd < 0)
        return os_refused("opening the folder", data_dir, err);
    unlinkat(put->data_fd, "blobs/new", AT_REMOVEDIR); /* only if they are empty */
    unlinkat(put->data_fd, "blobs/sealed", AT_REMOVEDIR);
    if (unlinkat(put->data_fd, "blobs", AT_REMOVEDIR) != 0 && errno != ENOENT) {
        fd_drop(&put->data_fd);
        return err_set(err, ERR_conflict,
            "%s/blobs holds artifacts of another store: restore into another directory, or move them away first",
            data_dir);
    }
    folder_remove(put->data_fd, PART_FOLDER, 2); /* of a restore that was cut short */
    if (mkdirat(put->data_fd, PART_FOLDER, 0700) == 0)
        put->root_fd = openat(put->data_fd, PART_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    put->hash = mem_alloc(sizeof(crypto_hash_sha256_state));
    if (put->root_fd >= 0)
        return true;
    os_refused("making the folder", PART_FOLDER, err);
    blobs_put_close(put, false);
    return false;
}

/* file_end: the bytes that came are those of its name. */
static bool file_end(struct blob_put *put, struct err *err)
{
    char found[BLOB_HEX + 1];
    if (put->fd < 0)
        return true;
    fd_drop(&put->fd);
    digest_format(put->hash, found);
    return strcmp(found, put->hex) == 0 ||
           err_set(err, ERR_corrupt, "the kept file %s has other bytes in the backup", put->hex);
}

static bool file_begin(struct blob_put *put, struct str hex, struct err *err)
{
    char folder[3] = { hex.ptr[0], hex.ptr[1], '\0' }, path[BLOB_HEX + 4];
    snprintf(put->hex, sizeof put->hex, "%.*s", STR_ARG(hex));
    snprintf(path, sizeof path, "%s/%s", folder, put->hex);
    put->bytes = 0;
    crypto_hash_sha256_init(put->hash);
    if (mkdirat(put->root_fd, folder, 0700) == 0 || errno == EEXIST)
        put->fd = openat(put->root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return put->fd >= 0 || os_refused("making the file", put->hex, err);
}

bool blobs_put_part(struct blob_put *put, const struct blob_part *part, struct err *err)
{
    bool same = put->fd >= 0 && str_eqz(part->hex, put->hex);
    if (!hex_is_good(part->hex) || part->start != (same ? put->bytes : 0))
        return err_set(err, ERR_corrupt, "the parts of a kept file are out of order");
    if (!same && (!file_end(put, err) || !file_begin(put, part->hex, err)))
        return false;
    crypto_hash_sha256_update(put->hash, (const unsigned char *)part->bytes.ptr, part->bytes.len);
    for (size_t at = 0; at < part->bytes.len;) {
        ssize_t n = pwrite(put->fd, part->bytes.ptr + at, part->bytes.len - at, part->start + (int64_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return os_refused("writing a kept file into", put->data_dir, err);
        at += (size_t)n;
    }
    put->bytes += (int64_t)part->bytes.len;
    return true;
}

bool blobs_put_end(struct blob_put *put, struct err *err)
{
    if (!file_end(put, err))
        return false;
    put->ended = syncfs(put->root_fd) == 0 && renameat(put->data_fd, PART_FOLDER, put->data_fd, "blobs") == 0 &&
                 fsync(put->data_fd) == 0;
    return put->ended || os_refused("keeping the files in", put->data_dir, err);
}

bool blobs_put_has(const struct blob_put *put, struct str hex)
{
    char path[BLOB_HEX + 4];
    snprintf(path, sizeof path, "%.2s/%.*s", hex.ptr, STR_ARG(hex));
    return faccessat(put->root_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void blobs_put_close(struct blob_put *put, bool keep)
{
    fd_drop(&put->fd);
    fd_drop(&put->root_fd);
    if (!keep && put->data_fd >= 0)
        folder_remove(put->data_fd, put->ended ? "blobs" : PART_FOLDER, 2);
    fd_drop(&put->data_fd);
    mem_free(put->hash);
    put->hash = NULL;
}
