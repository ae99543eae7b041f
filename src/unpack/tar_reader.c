/* tar_reader: a state machine over blocks of 512 bytes. See tar_reader.h.
 *
 * Owns what is a tar archive here. It promises that no byte is read past what was given, that no size of the archive
 * makes it allocate, and that what it takes has one meaning. It fails with a sentence; after that it isn't fed. */
#include "unpack/tar_reader.h"

#include <string.h>

/* A header of POSIX.1-1988: place and length of the fields that count. */
enum {
    NAME_AT = 0,
    NAME_LEN = 100,
    MODE_AT = 100,
    MODE_LEN = 8,
    SIZE_AT = 124,
    SIZE_LEN = 12,
    SUM_AT = 148,
    SUM_LEN = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_LEN = 155,
    GNU_PARTS_AT = 369, /* of GNU's header: where a part of a file lies, and its real size */
    GNU_PARTS_LEN = 126
};
#define OCTAL_SIZE_MAX 077777777777 /* what 11 octal digits can say */

void tar_reader_init(struct tar_reader *tar, const struct tar_events *events)
{
    *tar = (struct tar_reader){ .events = *events };
    buf_init(&tar->extended, TAR_PAX_BYTES_MAX);
}

void tar_reader_release(struct tar_reader *tar)
{
    buf_release(&tar->extended);
}

struct str tar_reader_path(const struct tar_reader *tar)
{
    return tar->entry.path;
}

/* --- fields --- */

/* octal_read: blanks, digits, then blanks or NULs up to the end of the field; nothing at all is 0. */
static bool octal_read(struct str field, uint64_t *out)
{
    size_t at = 0;
    uint64_t n = 0;
    while (at < field.len && field.ptr[at] == ' ')
        at++;
    for (; at < field.len && field.ptr[at] >= '0' && field.ptr[at] <= '7'; at++)
        n = n << 3 | (uint64_t)(field.ptr[at] - '0'); /* 12 digits at most */
    for (; at < field.len; at++)
        if (field.ptr[at] != ' ' && field.ptr[at] != '\0')
            return false;
    *out = n;
    return true;
}

/* size_read: octal, or the binary form of GNU tar, which can be negative and too large for anything. */
static bool size_read(struct str field, uint64_t *out)
{
    const unsigned char *bytes = (const unsigned char *)field.ptr;
    if (bytes[0] < 0x80)
        return octal_read(field, out);
    uint64_t n = 0;
    if (bytes[0] != 0x80)
        return false;
    for (size_t i = 1; i < field.len; i++) {
        if (n >> 55 != 0) /* stays below 2^63 */
            return false;
        n = n << 8 | bytes[i];
    }
    *out = n;
    return true;
}

static struct str field_text(const char *block, size_t at, size_t len)
{
    return (struct str){ block + at, strnlen(block + at, len) };
}

static bool is_gnu(const char *block)
{
    return memcmp(block + MAGIC_AT, "ustar  \0", 8) == 0;
}

static bool is_ustar(const char *block)
{
    return memcmp(block + MAGIC_AT, "ustar\00000", 8) == 0;
}

static bool sum_check(const char *block)
{
    uint64_t sum = 0, stored;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' ' : (unsigned char)block[i];
    return octal_read((struct str){ block + SUM_AT, SUM_LEN }, &stored) && stored == sum;
}

static bool is_zero(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* --- extended headers --- */

/* Keys that mean something that a change set can't have; a '*' at the end: any key that begins so. */
static const char *const refused_keys[][2] = {
    { "linkpath", "a link" },
    { "GNU.sparse.*", "a sparse file" },
    { "SCHILY.realsize", "a sparse file" },
    { "SCHILY.xattr.*", "extended attributes" },
    { "LIBARCHIVE.xattr.*", "extended attributes" },
    { "RHT.security.*", "extended attributes" },
    { "SCHILY.acl.*", "an access control list" },
    { "SUN.acl*", "an access control list" },
    { "SCHILY.fflags", "file flags" },
};

/* key_refused: what of that kind the key means; NULL: nothing. */
static const char *key_refused(struct str key)
{
    for (size_t i = 0; i < sizeof refused_keys / sizeof refused_keys[0]; i++) {
        struct str wanted = str_of(refused_keys[i][0]);
        bool is_start = str_ends(wanted, STR("*"));
        if (is_start ? str_starts(key, str_sub(wanted, 0, wanted.len - 1)) : str_eq(key, wanted))
            return refused_keys[i][1];
    }
    return NULL;
}

static bool long_name_set(struct tar_reader *tar, struct str name, struct err *err)
{
    if (name.len == 0 || memchr(name.ptr, 0, name.len) != NULL)
        return err_set(err, ERR_invalid, "an extended header with an empty name, or a NUL in it");
    if (name.len > TAR_NAME_BYTES_MAX)
        return err_set(err, ERR_body_too_large, "a name longer than %d bytes", TAR_NAME_BYTES_MAX);
    if (tar->n_long_name > 0)
        return err_set(err, ERR_invalid, "two names for one entry");
    memcpy(tar->long_name, name.ptr, name.len);
    tar->n_long_name = name.len;
    return true;
}

static bool record_take(struct tar_reader *tar, struct str key, struct str value, struct err *err)
{
    bool is_path = str_eq(key, STR("path")), is_size = str_eq(key, STR("size"));
    const char *refused = key_refused(key);
    if ((is_path || is_size || refused != NULL) && tar->type == 'g')
        return err_set(err, ERR_invalid, "a global header with '%.*s' for all entries", STR_ARG(str_sub(key, 0, 60)));
    if (tar->refused == NULL)
        tar->refused = refused; /* refused with its entry, so that the fault has its name */
    if (is_path)
        return long_name_set(tar, value, err);
    if (!is_size)
        return true; /* times, owners, comments */
    if (tar->has_size || value.len == 0 || !str_to_u64(value, &tar->size) || tar->size > INT64_MAX)
        return err_set(err, ERR_invalid, "an extended header with a size that is no number, or with two");
    tar->has_size = true;
    return true;
}

/* pax_read: records "LENGTH KEY=VALUE\n", the length that of the whole record. */
static bool pax_read(struct tar_reader *tar, struct err *err)
{
    struct str rest = buf_str(&tar->extended);
    while (rest.len > 0) {
        ptrdiff_t blank = str_index(str_sub(rest, 0, 8), ' ');
        uint64_t len = 0;
        if (blank <= 0 || rest.ptr[0] == '0' || !str_to_u64(str_sub(rest, 0, (size_t)blank), &len) || len > rest.len ||
            len < (uint64_t)blank + 3 || rest.ptr[len - 1] != '\n')
            return err_set(err, ERR_invalid, "an extended header that can't be read");
        struct str record = { rest.ptr + blank + 1, (size_t)len - (size_t)blank - 2 };
        ptrdiff_t equals = str_index(record, '=');
        if (equals <= 0)
            return err_set(err, ERR_invalid, "an extended header that can't be read");
        if (!record_take(tar, str_sub(record, 0, (size_t)equals), str_sub(record, (size_t)equals + 1, record.len), err))
            return false;
        rest = str_sub(rest, (size_t)len, rest.len);
    }
    return true;
}

static bool extended_end(struct tar_reader *tar, struct err *err)
{
    if (tar->type != 'L')
        return pax_read(tar, err);
    struct str name = buf_str(&tar->extended); /* a name and a NUL */
    if (name.len > 0 && name.ptr[name.len - 1] == '\0')
        name.len--;
    return long_name_set(tar, name, err);
}

static bool extended_begin(struct tar_reader *tar, char type, uint64_t size, struct err *err)
{
    /* one header that goes before an entry, never two: a second could contradict the first */
    if (type != 'g' && tar->has_extended)
        return err_set(err, ERR_invalid, "two extended headers for one entry");
    uint64_t max = type == 'L' ? TAR_NAME_BYTES_MAX + 1 : TAR_PAX_BYTES_MAX;
    if (size > max)
        return err_set(err, ERR_body_too_large, "an extended header longer than %llu bytes", (unsigned long long)max);
    if (type == 'g' && tar->has_extended)
        return err_set(err, ERR_invalid, "a global header between an extended one and its entry");
    tar->has_extended |= type != 'g';
    tar->type = type;
    tar->left = size;
    tar->padding = (size_t)(-size & (TAR_BLOCK - 1));
    buf_reset(&tar->extended);
    tar->state = TAR_EXTENDED;
    return true;
}

/* --- entries --- */

static const char *type_name(char type)
{
    switch (type) {
    case '1':
        return "a hard link";
    case '2':
    case 'K':
        return "a symbolic link";
    case '3':
    case '4':
        return "a device";
    case '6':
        return "a FIFO";
    case 'S':
        return "a sparse file";
    case 'A':
        return "an access control list";
    case 's':
        return "a socket";
    default:
        return "neither a regular file nor a folder";
    }
}

/* name_read: the name of the entry: that of the extended header, or prefix and name. GNU tar keeps other things in the
 * place of the prefix. */
static void name_read(struct tar_reader *tar)
{
    const char *block = tar->block;
    size_t n = 0;
    if (tar->n_long_name > 0) {
        n = tar->n_long_name;
        memcpy(tar->name, tar->long_name, n);
    } else {
        struct str name = field_text(block, NAME_AT, NAME_LEN), prefix = { 0 };
        if (is_ustar(block))
            prefix = field_text(block, PREFIX_AT, PREFIX_LEN);
        memcpy(tar->name, prefix.len > 0 ? prefix.ptr : "", prefix.len);
        n = prefix.len;
        if (n > 0)
            tar->name[n++] = '/';
        memcpy(tar->name + n, name.len > 0 ? name.ptr : "", name.len);
        n += name.len;
    }
    tar->entry = (struct tar_entry){ .path = { tar->name, n } };
}

static bool mode_check(struct tar_reader *tar, struct err *err)
{
    uint64_t mode;
    if (!octal_read((struct str){ tar->block + MODE_AT, MODE_LEN }, &mode))
        return err_set(err, ERR_invalid, "a mode that is no number");
    if (mode & 04000)
        return err_set(err, ERR_invalid, "the set-user-id bit");
    if (mode & 02000)
        return err_set(err, ERR_invalid, "the set-group-id bit");
    if (mode & 01000)
        return err_set(err, ERR_invalid, "the sticky bit");
    tar->entry.is_executable = !tar->entry.is_folder && (mode & 0100) != 0;
    return true;
}

/* size_check: the header's size and that of the extended header are the same, unless the header can't say it. */
static bool size_check(struct tar_reader *tar, uint64_t size, struct err *err)
{
    if (tar->has_size && tar->size != size && !(size == 0 && tar->size > OCTAL_SIZE_MAX))
        return err_set(err, ERR_invalid, "two sizes: %llu in its header, %llu in its extended header",
            (unsigned long long)size, (unsigned long long)tar->size);
    tar->entry.size = tar->has_size ? tar->size : size;
    if (tar->entry.is_folder && tar->entry.size > 0)
        return err_set(err, ERR_invalid, "a folder with a size");
    return true;
}

static bool entry_begin(struct tar_reader *tar, char type, uint64_t size, struct err *err)
{
    struct tar_entry *entry = &tar->entry;
    name_read(tar);
    bool slash = entry->path.len > 0 && entry->path.ptr[entry->path.len - 1] == '/';
    if (type != '0' && type != '\0' && type != '5')
        return err_set(err, ERR_invalid, "%s", type_name(type));
    if (tar->refused != NULL)
        return err_set(err, ERR_invalid, "%s", tar->refused);
    /* readers that look here, whatever the type says, would find another size */
    if (is_gnu(tar->block) && !is_zero(tar->block + GNU_PARTS_AT, GNU_PARTS_LEN))
        return err_set(err, ERR_invalid, "a sparse file, or a part of a file");
    entry->is_folder = type == '5';
    if (slash && !entry->is_folder)
        return err_set(err, ERR_invalid, "a file whose name ends in '/'");
    if (slash && entry->path.len > 1)
        entry->path.len--;
    if (!mode_check(tar, err) || !size_check(tar, size, err))
        return false;
    tar->has_extended = tar->has_size = false;
    tar->n_long_name = 0;
    tar->left = entry->size;
    tar->padding = (size_t)(-entry->size & (TAR_BLOCK - 1));
    tar->state = TAR_DATA;
    return tar->events.begin(tar->events.owner, entry, err);
}

static bool not_tar(struct err *err)
{
    return err_set(err, ERR_invalid, "not a tar archive (ustar, pax or GNU; plain, or gzip, xz or zstd around it)");
}

static bool header_take(struct tar_reader *tar, struct err *err)
{
    const char *block = tar->block;
    char type = block[TYPE_AT];
    uint64_t size;
    if (is_zero(block, TAR_BLOCK)) {
        if (tar->has_extended)
            return err_set(err, ERR_invalid, "an extended header without its entry");
        if (++tar->n_zeros == 2)
            tar->state = TAR_END;
        return true;
    }
    if (tar->n_zeros > 0)
        return err_set(err, ERR_invalid, "a block of zeros in the middle of the archive");
    if (!is_gnu(block) && !is_ustar(block))
        return not_tar(err);
    if (!sum_check(block))
        return err_set(err, ERR_invalid, "a header whose checksum is wrong");
    if (block[NAME_AT] == '\0') /* where some readers see the end, also if an extended header has a name */
        return err_set(err, ERR_invalid, "a header without a name");
    if (!size_read((struct str){ block + SIZE_AT, SIZE_LEN }, &size))
        return err_set(err, ERR_invalid, "a header whose size is no number, negative or beyond all measure");
    tar->has_begun = true;
    if (type == 'x' || type == 'g' || type == 'L')
        return extended_begin(tar, type, size, err);
    return entry_begin(tar, type, size, err);
}

/* --- bytes --- */

/* part_take: what of the bytes belongs to the state, at most `left`. */
static struct str part_take(struct str *bytes, uint64_t left)
{
    struct str part = str_sub(*bytes, 0, left < bytes->len ? (size_t)left : bytes->len);
    *bytes = str_sub(*bytes, part.len, bytes->len);
    return part;
}

static bool data_take(struct tar_reader *tar, struct str *bytes, struct err *err)
{
    struct str part = part_take(bytes, tar->left);
    tar->left -= part.len;
    if (tar->state == TAR_EXTENDED)
        buf_add_str(&tar->extended, part);
    else if (part.len > 0 && !tar->events.bytes(tar->events.owner, part, err))
        return false;
    if (tar->left > 0)
        return true;
    if (!(tar->state == TAR_EXTENDED ? extended_end(tar, err) : tar->events.end(tar->events.owner, err)))
        return false;
    tar->entry = (struct tar_entry){ 0 }; /* faults from here on aren't those of this entry */
    tar->left = tar->padding;
    tar->state = TAR_PADDING;
    return true;
}

static bool step(struct tar_reader *tar, struct str *bytes, struct err *err)
{
    struct str part;
    switch (tar->state) {
    case TAR_HEADER:
        part = part_take(bytes, TAR_BLOCK - tar->n_block);
        memcpy(tar->block + tar->n_block, part.ptr, part.len);
        tar->n_block += part.len;
        if (tar->n_block < TAR_BLOCK)
            return true;
        tar->n_block = 0;
        return header_take(tar, err);
    case TAR_EXTENDED:
    case TAR_DATA:
        return data_take(tar, bytes, err);
    case TAR_PADDING:
        tar->left -= part_take(bytes, tar->left).len;
        if (tar->left == 0)
            tar->state = TAR_HEADER;
        return true;
    case TAR_END:
        break;
    }
    part = part_take(bytes, bytes->len);
    tar->n_end += part.len;
    if (!is_zero(part.ptr, part.len))
        return err_set(err, ERR_invalid, "bytes behind the end of the archive");
    if (tar->n_end > TAR_PADDING_BYTES_MAX)
        return err_set(
            err, ERR_body_too_large, "more than %d zeros behind the end of the archive", TAR_PADDING_BYTES_MAX);
    return true;
}

/* is_due: an entry of no bytes ends, and padding of no bytes is over, without another byte. */
static bool is_due(const struct tar_reader *tar)
{
    return tar->left == 0 && (tar->state == TAR_DATA || tar->state == TAR_EXTENDED || tar->state == TAR_PADDING);
}

bool tar_reader_feed(struct tar_reader *tar, struct str bytes, struct err *err)
{
    while (bytes.len > 0 || is_due(tar))
        if (!step(tar, &bytes, err))
            return false;
    return true;
}

bool tar_reader_end(struct tar_reader *tar, struct err *err)
{
    if (tar->state == TAR_END)
        return true;
    if (!tar->has_begun && tar->n_block > 0)
        return not_tar(err);
    if (tar->state != TAR_HEADER || tar->n_block > 0)
        return err_set(err, ERR_invalid, "truncated: the archive ends in the middle of an entry");
    return err_set(err, ERR_invalid, "truncated: the archive has no end, which is two blocks of zeros");
}
