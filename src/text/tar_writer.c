/* tar_writer: see tar_writer.h. */
#include "text/tar_writer.h"

#include <string.h>

enum { BLOCK = 512, NAME_LEN = 100, PREFIX_LEN = 155, PAX_BYTES_MAX = 4 * 4096 + 1024 };
#define SIZE_OCTAL_MAX 077777777777ull /* eleven digits */

struct tar_head { /* POSIX.1-1988 ustar */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, target[100], magic[6], version[2],
        user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
_Static_assert(sizeof(struct tar_head) == BLOCK, "a tar's head is one block");

void tar_writer_init(struct tar_writer *tar, bool (*write)(void *owner, struct str bytes), void *owner)
{
    *tar = (struct tar_writer){ .write = write, .owner = owner };
    buf_init(&tar->block, PAX_BYTES_MAX);
}

void tar_writer_release(struct tar_writer *tar)
{
    buf_release(&tar->block);
}

/* Calls of `write` stand in parentheses: without them they would be the failure point of that name. */
static bool tar_pad(struct tar_writer *tar, uint64_t bytes)
{
    static const char zeros[BLOCK];
    size_t over = (size_t)(bytes % BLOCK);
    return over == 0 || (tar->write)(tar->owner, (struct str){ zeros, BLOCK - over });
}

/* octal: digits and a NUL, filling the field. */
static void octal(char *field, size_t len, uint64_t n)
{
    field[len - 1] = '\0';
    for (size_t i = len - 1; i-- > 0; n >>= 3)
        field[i] = (char)('0' + (n & 7));
}

/* name_split: where a long path is cut into prefix and name; 0: it doesn't fit. */
static size_t name_split(struct str path)
{
    for (size_t i = path.len < PREFIX_LEN ? path.len : PREFIX_LEN; i > 0; i--)
        if (i < path.len && path.ptr[i] == '/' && path.len - i - 1 <= NAME_LEN && path.len > i + 1)
            return i;
    return 0;
}

static bool head_write(
    struct tar_writer *tar, char type, struct str path, struct str target, uint64_t bytes, unsigned mode)
{
    struct tar_head head = { 0 };
    size_t cut = path.len > NAME_LEN ? name_split(path) : 0;
    struct str name = cut > 0 ? str_sub(path, cut + 1, path.len) : str_sub(path, 0, NAME_LEN);
    memcpy(head.name, name.ptr, name.len);
    if (cut > 0)
        memcpy(head.prefix, path.ptr, cut);
    if (target.len > 0)
        memcpy(head.target, target.ptr, target.len < sizeof head.target ? target.len : sizeof head.target);
    octal(head.mode, sizeof head.mode, mode);
    octal(head.uid, sizeof head.uid, 0);
    octal(head.gid, sizeof head.gid, 0);
    octal(head.size, sizeof head.size, bytes > SIZE_OCTAL_MAX ? 0 : bytes);
    octal(head.mtime, sizeof head.mtime, tar->time_ms > 0 ? (uint64_t)tar->time_ms / 1000 : 0);
    memset(head.checksum, ' ', sizeof head.checksum);
    head.type = type;
    memcpy(head.magic, "ustar", 6);
    memcpy(head.version, "00", 2);
    unsigned sum = 0;
    const unsigned char *all = (const unsigned char *)&head;
    for (size_t i = 0; i < sizeof head; i++)
        sum += all[i];
    octal(head.checksum, 7, sum);
    return (tar->write)(tar->owner, (struct str){ (const char *)&head, sizeof head });
}

/* pax_add: "LENGTH KEY=VALUE\n", where the length counts itself. */
static void pax_add(struct buf *out, const char *key, struct str value)
{
    size_t rest = strlen(key) + value.len + 3, digits = 1;
    for (size_t n = rest + digits, limit = 10; n >= limit; limit *= 10) {
        digits++;
        n = rest + digits;
    }
    buf_addf(out, "%zu %s=", rest + digits, key);
    buf_add_str(out, value);
    buf_add_char(out, '\n');
}

static bool entry_write(
    struct tar_writer *tar, char type, struct str path, struct str target, uint64_t bytes, unsigned mode)
{
    buf_reset(&tar->block);
    if (path.len > NAME_LEN && name_split(path) == 0)
        pax_add(&tar->block, "path", path);
    if (target.len > NAME_LEN)
        pax_add(&tar->block, "linkpath", target);
    if (bytes > SIZE_OCTAL_MAX)
        pax_add(&tar->block, "size", str_of(i64_format((int64_t)bytes).z));
    if (tar->block.len > 0) {
        struct str records = buf_str(&tar->block);
        if (!head_write(tar, 'x', STR("pax"), (struct str){ 0 }, records.len, 0644) ||
            !(tar->write)(tar->owner, records) || !tar_pad(tar, records.len))
            return false;
    }
    return head_write(tar, type, path, target, bytes, mode);
}

bool tar_writer_folder(struct tar_writer *tar, struct str path)
{
    struct buf name;
    buf_init(&name, SIZE_MAX);
    buf_add_str(&name, path);
    buf_add_char(&name, '/');
    bool good = entry_write(tar, '5', buf_str(&name), (struct str){ 0 }, 0, 0755);
    buf_release(&name);
    return good;
}

bool tar_writer_file(struct tar_writer *tar, struct str path, uint64_t bytes, bool executable)
{
    tar->file_bytes = bytes;
    return entry_write(tar, '0', path, (struct str){ 0 }, bytes, executable ? 0755 : 0644);
}

bool tar_writer_write(struct tar_writer *tar, struct str bytes)
{
    return (tar->write)(tar->owner, bytes);
}

bool tar_writer_end(struct tar_writer *tar)
{
    return tar_pad(tar, tar->file_bytes);
}

bool tar_writer_link(struct tar_writer *tar, struct str path, struct str target)
{
    return entry_write(tar, '2', path, target, 0, 0777);
}

bool tar_writer_finish(struct tar_writer *tar)
{
    static const char zeros[2 * BLOCK];
    return (tar->write)(tar->owner, (struct str){ zeros, sizeof zeros });
}
