/* untar: see untar.h. A push parser: header block, body, padding; pax records change the next entry only.
 *
 * Fails with invalid (what isn't a tar, or asks for something outside), body_too_large, disk_full, io. */
#include "exec/tree/untar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/fsx.h"

enum { BLOCK = 512, EXTRA_MAX = 1 << 20 };

/* Fields of a header block. */
enum {
    AT_NAME = 0,
    AT_MODE = 100,
    AT_SIZE = 124,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_LINK = 157,
    AT_MAGIC = 257,
    AT_PREFIX = 345
};

void untar_init(struct untar *untar, int root_fd)
{
    *untar = (struct untar){ .root_fd = root_fd, .file_fd = -1, .size = -1 };
    buf_init(&untar->extra, EXTRA_MAX);
    buf_init(&untar->path, PATH_MAX);
    buf_init(&untar->link, PATH_MAX);
}

void untar_release(struct untar *untar)
{
    fsx_close(untar->file_fd);
    untar->file_fd = -1;
    buf_release(&untar->extra);
    buf_release(&untar->path);
    buf_release(&untar->link);
}

static bool untar_fail(struct err *err, struct str path, int fault)
{
    enum err_code code = fault == ENOSPC || fault == EDQUOT ? ERR_disk_full
                         : fault == ELOOP || fault == EXDEV ? ERR_invalid
                                                            : ERR_io;
    return err_set(err, code, "can't unpack '%.*s': %s", STR_ARG(str_sub(path, 0, 200)), strerrordesc_np(fault));
}

static struct str field_text(const char *block, size_t at, size_t size)
{
    return (struct str){ block + at, strnlen(block + at, size) };
}

static bool field_octal(const char *block, size_t at, size_t size, uint64_t *out)
{
    struct str text = str_trim(field_text(block, at, size));
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '7' || *out >> 60)
            return false;
        *out = *out * 8 + (uint64_t)(text.ptr[i] - '0');
    }
    return true;
}

static bool sum_good(const char *block)
{
    uint64_t wanted, sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : (unsigned char)block[i];
    return field_octal(block, AT_SUM, 8, &wanted) && wanted == sum;
}

/* --- where things go --- */

static bool path_good(struct str path)
{
    struct str rest = path, part;
    if (path.len == 0 || path.len >= PATH_MAX || path.ptr[0] == '/' || str_index(path, '\0') >= 0)
        return false;
    while (str_cut(&rest, '/', &part))
        if (part.len == 0 || part.len > NAME_MAX || str_eqz(part, "..") || str_eqz(part, "."))
            return false;
    return true;
}

/* folder_open: the folder of a path, made where it isn't; never through a link. -1: errno. */
static int folder_open(int root_fd, struct str path)
{
    struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    char z[PATH_MAX];
    snprintf(z, sizeof z, "%.*s", STR_ARG(path));
    if (path.len == 0)
        return openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = (int)syscall(SYS_openat2, root_fd, z, &how, sizeof how);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    ptrdiff_t slash = str_rindex(path, '/');
    int parent = folder_open(root_fd, str_sub(path, 0, slash < 0 ? 0 : (size_t)slash));
    if (parent < 0)
        return -1;
    const char *name = z + slash + 1;
    fd = mkdirat(parent, name, 0777) == 0 || errno == EEXIST
             ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
             : -1;
    fsx_close(parent);
    return fd;
}

static bool entry_make(struct untar *untar, char type, struct str path, struct str link, uint64_t mode, struct err *err)
{
    while (path.len > 0 && path.ptr[path.len - 1] == '/')
        path.len--;
    while (str_starts(path, STR("./")))
        path = str_sub(path, 2, path.len);
    if (path.len == 0 || str_eqz(path, "."))
        return type == '5' || err_set(err, ERR_invalid, "the tar has an entry without a name");
    if (!path_good(path))
        return err_set(
            err, ERR_invalid, "the tar has a name that leads elsewhere: '%.*s'", STR_ARG(str_sub(path, 0, 200)));
    if (++untar->files > UNTAR_FILES_MAX)
        return err_set(err, ERR_body_too_large, "the tar has more than %u entries", UNTAR_FILES_MAX);
    ptrdiff_t slash = str_rindex(path, '/');
    bool folder = type == '5';
    int parent = folder_open(untar->root_fd, folder ? path : str_sub(path, 0, slash < 0 ? 0 : (size_t)slash));
    if (parent < 0)
        return untar_fail(err, path, errno);
    char name[NAME_MAX + 1], target[PATH_MAX];
    snprintf(name, sizeof name, "%.*s", STR_ARG(str_sub(path, (size_t)(slash + 1), path.len)));
    snprintf(target, sizeof target, "%.*s", STR_ARG(link));
    int fault = 0;
    if (type == '2' && symlinkat(target, parent, name) < 0)
        fault = errno;
    if (type == '0') {
        untar->file_fd =
            openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0100 ? 0777 : 0666);
        fault = untar->file_fd < 0 ? errno : 0;
    }
    close(parent);
    return fault == 0 || untar_fail(err, path, fault);
}

/* --- headers --- */

/* pax_read: "LEN KEY=VALUE\n" records for the next entry. */
static bool pax_read(struct untar *untar, struct err *err)
{
    struct str rest = buf_str(&untar->extra);
    while (rest.len > 0) {
        ptrdiff_t blank = str_index(rest, ' ');
        uint64_t len = 0;
        if (blank <= 0 || !str_to_u64(str_sub(rest, 0, (size_t)blank), &len) || len <= (uint64_t)blank + 2 ||
            len > rest.len)
            return err_set(err, ERR_invalid, "the tar has a damaged pax header");
        struct str record = str_sub(rest, (size_t)blank + 1, (size_t)len - 1);
        rest = str_sub(rest, (size_t)len, rest.len);
        ptrdiff_t equal = str_index(record, '=');
        struct str key = str_sub(record, 0, equal < 0 ? 0 : (size_t)equal),
                   value = str_sub(record, (size_t)(equal + 1), record.len);
        struct buf *text = str_eqz(key, "path") ? &untar->path : str_eqz(key, "linkpath") ? &untar->link : NULL;
        if (text != NULL) {
            buf_reset(text);
            buf_add_str(text, value);
            if (text->full)
                return err_set(err, ERR_invalid, "the tar has a name that is too long");
        } else if (str_eqz(key, "size") && (!str_to_i64(value, &untar->size) || untar->size < 0)) {
            return err_set(err, ERR_invalid, "the tar has a damaged pax header");
        }
    }
    return true;
}

static bool header_read(struct untar *untar, struct err *err)
{
    const char *block = untar->block;
    uint64_t size, mode;
    char type = block[AT_TYPE] == '\0' ? '0' : block[AT_TYPE];
    if (!sum_good(block) || memcmp(block + AT_MAGIC, "ustar", 5) != 0 || !field_octal(block, AT_SIZE, 12, &size) ||
        !field_octal(block, AT_MODE, 8, &mode))
        return err_set(err, ERR_unavailable, "what the server sent isn't a tar");
    untar->extended = type == 'x' || type == 'g';
    if (!untar->extended && untar->size >= 0)
        size = (uint64_t)untar->size;
    if (untar->extended && size > EXTRA_MAX)
        return err_set(err, ERR_invalid, "the tar has a pax header of %llu bytes", (unsigned long long)size);
    if (!untar->extended && strchr("025", type) == NULL)
        return err_set(
            err, ERR_invalid, "the tar has an entry of a kind that isn't taken ('%c')", type >= ' ' ? type : '?');
    if (type == '2' || type == '5')
        size = 0;
    untar->left = size;
    untar->padding = (BLOCK - size % BLOCK) % BLOCK;
    buf_reset(&untar->extra);
    if (untar->extended)
        return true;
    untar->bytes += size;
    if (untar->bytes > UNTAR_BYTES_MAX)
        return err_set(err, ERR_body_too_large, "the tar is over %llu bytes", (unsigned long long)UNTAR_BYTES_MAX);
    struct str name = field_text(block, AT_NAME, 100), prefix = field_text(block, AT_PREFIX, 155);
    if (untar->path.len == 0)
        buf_addf(&untar->path, "%.*s%s%.*s", STR_ARG(prefix), prefix.len > 0 ? "/" : "", STR_ARG(name));
    if (untar->link.len == 0)
        buf_add_str(&untar->link, field_text(block, AT_LINK, 100));
    bool good = entry_make(untar, type, buf_str(&untar->path), buf_str(&untar->link), mode, err);
    buf_reset(&untar->path);
    buf_reset(&untar->link);
    untar->size = -1;
    return good;
}

static bool body_add(struct untar *untar, struct str bytes, struct err *err)
{
    if (untar->extended) {
        buf_add_str(&untar->extra, bytes);
        return true;
    }
    int fault = untar->file_fd >= 0 ? fsx_write_all(untar->file_fd, bytes) : 0;
    return fault == 0 || untar_fail(err, STR("a file"), fault);
}

static bool entry_end(struct untar *untar, struct err *err)
{
    fsx_close(untar->file_fd);
    untar->file_fd = -1;
    bool good = !untar->extended || untar->block[AT_TYPE] != 'x' || pax_read(untar, err);
    untar->extended = false;
    return good;
}

static bool block_end(struct untar *untar, struct err *err)
{
    static const char zero[BLOCK];
    untar->block_bytes = 0;
    if (memcmp(untar->block, zero, BLOCK) == 0) {
        untar->ended = true;
        return true;
    }
    return header_read(untar, err) && (untar->left > 0 || entry_end(untar, err));
}

bool untar_add(struct untar *untar, struct str bytes, struct err *err)
{
    while (bytes.len > 0 && !untar->ended) {
        size_t take = bytes.len;
        bool good = true;
        if (untar->left > 0) {
            take = take < untar->left ? take : (size_t)untar->left;
            good = body_add(untar, str_sub(bytes, 0, take), err);
            untar->left -= take;
            if (good && untar->left == 0)
                good = entry_end(untar, err);
        } else if (untar->padding > 0) {
            take = take < untar->padding ? take : (size_t)untar->padding;
            untar->padding -= take;
        } else {
            take = take < BLOCK - untar->block_bytes ? take : BLOCK - untar->block_bytes;
            memcpy(untar->block + untar->block_bytes, bytes.ptr, take);
            untar->block_bytes += take;
            if (untar->block_bytes == BLOCK)
                good = block_end(untar, err);
        }
        if (!good)
            return false;
        bytes = str_sub(bytes, take, bytes.len);
    }
    return true;
}

bool untar_finish(struct untar *untar, struct err *err)
{
    return untar->ended || err_set(err, ERR_unavailable, "the tree ended early");
}
