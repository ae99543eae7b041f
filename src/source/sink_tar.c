/* sink_tar: the tree of a revision as a tar: ustar, with a pax header where a name, a link's target or a size doesn't
 * fit.
 *
 * The same tree gives the same bytes: order as it comes, times of the revision, owner 0, modes 0644 and 0755.
 *
 * Fails with unavailable when the one who takes the bytes says stop. */
#include "source/sink.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, NAME_LEN = 100, PREFIX_LEN = 155 };
#define SIZE_OCTAL_MAX 077777777777ull /* eleven digits */

struct tar_head { /* POSIX.1-1988 ustar */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, target[100], magic[6], version[2],
        user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
_Static_assert(sizeof(struct tar_head) == BLOCK, "a tar's head is one block");

static struct sink_tar *tar_of(struct sink *sink)
{
    return (struct sink_tar *)sink; /* its first member */
}

static bool tar_out(struct sink_tar *tar, struct str bytes, struct err *err)
{
    return (tar->out->write)(tar->out->context, bytes) || err_set(err, ERR_unavailable, "the export was stopped");
}

static bool tar_pad(struct sink_tar *tar, uint64_t bytes, struct err *err)
{
    static const char zeros[BLOCK];
    size_t over = (size_t)(bytes % BLOCK);
    return over == 0 || tar_out(tar, (struct str){ zeros, BLOCK - over }, err);
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
    struct sink_tar *tar, char type, struct str path, struct str target, uint64_t bytes, unsigned mode, struct err *err)
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
    octal(head.mtime, sizeof head.mtime, tar->sink.time_ms > 0 ? (uint64_t)tar->sink.time_ms / 1000 : 0);
    memset(head.checksum, ' ', sizeof head.checksum);
    head.type = type;
    memcpy(head.magic, "ustar", 6);
    memcpy(head.version, "00", 2);
    unsigned sum = 0;
    const unsigned char *all = (const unsigned char *)&head;
    for (size_t i = 0; i < sizeof head; i++)
        sum += all[i];
    octal(head.checksum, 7, sum);
    return tar_out(tar, (struct str){ (const char *)&head, sizeof head }, err);
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
    struct sink_tar *tar, char type, struct str path, struct str target, uint64_t bytes, unsigned mode, struct err *err)
{
    char number[24];
    buf_reset(&tar->block);
    if (path.len > NAME_LEN && name_split(path) == 0)
        pax_add(&tar->block, "path", path);
    if (target.len > NAME_LEN)
        pax_add(&tar->block, "linkpath", target);
    if (bytes > SIZE_OCTAL_MAX) {
        int n = snprintf(number, sizeof number, "%llu", (unsigned long long)bytes);
        pax_add(&tar->block, "size", (struct str){ number, (size_t)n });
    }
    if (tar->block.len > 0) {
        struct str records = buf_str(&tar->block);
        if (!head_write(tar, 'x', STR("pax"), (struct str){ 0 }, records.len, 0644, err) ||
            !tar_out(tar, records, err) || !tar_pad(tar, records.len, err))
            return false;
    }
    return head_write(tar, type, path, target, bytes, mode, err);
}

static bool tar_folder(struct sink *sink, struct str path, struct err *err)
{
    struct buf name;
    buf_init(&name, SIZE_MAX);
    buf_add_str(&name, path);
    buf_add_char(&name, '/');
    bool good = entry_write(tar_of(sink), '5', buf_str(&name), (struct str){ 0 }, 0, 0755, err);
    buf_release(&name);
    return good;
}

static bool tar_file(struct sink *sink, struct str path, uint64_t bytes, bool executable, struct err *err)
{
    tar_of(sink)->file_bytes = bytes;
    return entry_write(tar_of(sink), '0', path, (struct str){ 0 }, bytes, executable ? 0755 : 0644, err);
}

static bool tar_write(struct sink *sink, struct str bytes, struct err *err)
{
    return tar_out(tar_of(sink), bytes, err);
}

static bool tar_end(struct sink *sink, struct err *err)
{
    return tar_pad(tar_of(sink), tar_of(sink)->file_bytes, err);
}

static bool tar_link(struct sink *sink, struct str path, struct str target, struct err *err)
{
    return entry_write(tar_of(sink), '2', path, target, 0, 0777, err);
}

static bool tar_remove(struct sink *sink, struct str path, struct err *err)
{
    (void)sink;
    (void)path;
    return err_set(err, ERR_internal, "nothing can be removed from a tar");
}

static const struct sink_ops tar_ops = {
    .folder = tar_folder,
    .file = tar_file,
    .write = tar_write,
    .end = tar_end,
    .link = tar_link,
    .remove = tar_remove,
};

void sink_tar_init(struct sink_tar *tar, const struct source_tar *out, const struct source_export_options *options)
{
    *tar = (struct sink_tar){ .sink = { .ops = &tar_ops, .options = options }, .out = out };
    buf_init(&tar->block, 4 * 4096 + 1024);
}

bool sink_tar_finish(struct sink_tar *tar, struct err *err)
{
    static const char zeros[2 * BLOCK];
    return tar_out(tar, (struct str){ zeros, sizeof zeros }, err);
}

void sink_tar_release(struct sink_tar *tar)
{
    buf_release(&tar->block);
}
