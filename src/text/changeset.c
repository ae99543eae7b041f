/* changeset: CSIDs and paths of change sets.
 *
 * Owns the rules of INTERFACES.md section 6 about single words and single paths. They are total: any bytes are taken or
 * refused with a reason, in linear time. */
#include "text/changeset.h"

#include <string.h>

#include "text/key.h"
#include "text/utf8.h"

bool csid_check(struct str csid, struct err *err)
{
    if (csid.len == 0)
        return err_set(err, ERR_invalid, "the CSID is empty");
    if (csid.len > CSID_CHARS_MAX)
        return err_set(err, ERR_invalid, "the CSID '%.*s...' is longer than %d characters",
            STR_ARG(str_sub(csid, 0, 20)), CSID_CHARS_MAX);
    if (memchr(csid.ptr, '_', csid.len) != NULL) /* task names may have it, but it separates the parts of a name here */
        return err_set(err, ERR_invalid, "the CSID '%.*s' has a '_': only letters, digits, '.' and '-' are allowed",
            STR_ARG(csid));
    return name_check(csid, "CSID", err) && name_check_new(csid, "CSID", err);
}

bool path_fault_is_limit(enum path_fault fault)
{
    return fault >= PATH_LONG;
}

static bool part_is(struct str part, const char *name)
{
    for (size_t i = 0; i < part.len; i++) {
        char c = part.ptr[i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != name[i])
            return false;
    }
    return true;
}

static enum path_fault part_check(struct str part)
{
    if (part.len == 0)
        return PATH_EMPTY_PART;
    if (part.len == 1 && part.ptr[0] == '.')
        return PATH_DOT;
    if (part.len == 2 && part.ptr[0] == '.' && part.ptr[1] == '.')
        return PATH_DOT_DOT;
    if (part.len == 4 && (part_is(part, ".git") || part_is(part, ".svn")))
        return PATH_REPOSITORY;
    return part.len > PATH_PART_BYTES_MAX ? PATH_PART_LONG : PATH_GOOD;
}

/* has_control: U+0000 to U+001F, and U+007F to U+009F, which terminals obey too; the path is UTF-8. */
static bool has_control(struct str path)
{
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)path.ptr[i + 1] < 0xa0))
            return true;
    }
    return false;
}

enum path_fault changeset_path_check(struct str path, const struct changeset_limits *limits)
{
    if (path.len == 0)
        return PATH_EMPTY;
    if (path.len > (uint64_t)limits->path_bytes)
        return PATH_LONG;
    if (utf8_fault(path) < path.len)
        return PATH_ENCODING;
    if (has_control(path))
        return PATH_CONTROL;
    if (path.ptr[0] == '/')
        return PATH_ABSOLUTE;
    int64_t depth = 0;
    for (size_t from = 0; from <= path.len; depth++) { /* a slash at the end leaves an empty part, which is a fault */
        const char *slash = from < path.len ? memchr(path.ptr + from, '/', path.len - from) : NULL;
        size_t to = slash != NULL ? (size_t)(slash - path.ptr) : path.len;
        enum path_fault fault = part_check((struct str){ path.ptr + from, to - from });
        if (fault != PATH_GOOD)
            return fault;
        from = to + 1;
    }
    return depth > limits->depth ? PATH_DEEP : PATH_GOOD;
}

struct str path_fault_sentence(struct arena *arena, enum path_fault fault, const struct changeset_limits *limits)
{
    static const char *const sentences[PATH_FAULT_COUNT] = {
        [PATH_GOOD] = "",
        [PATH_EMPTY] = "is empty",
        [PATH_ABSOLUTE] = "begins with '/': paths are relative",
        [PATH_ENCODING] = "isn't UTF-8",
        [PATH_CONTROL] = "has a control character",
        [PATH_EMPTY_PART] = "has an empty part: a '/' too many",
        [PATH_DOT] = "has a part '.'",
        [PATH_DOT_DOT] = "has a part '..'",
        [PATH_REPOSITORY] = "has a part '.git' or '.svn', which belongs to the repository",
    };
    switch (fault) {
    case PATH_LONG:
        return str_fmt(arena, "is longer than %lld bytes (changesets.limits.path)", (long long)limits->path_bytes);
    case PATH_PART_LONG:
        return str_fmt(arena, "has a part longer than %d bytes", PATH_PART_BYTES_MAX);
    case PATH_DEEP:
        return str_fmt(arena, "has more than %lld parts (changesets.limits.depth)", (long long)limits->depth);
    case PATH_GOOD:
    case PATH_EMPTY:
    case PATH_ABSOLUTE:
    case PATH_ENCODING:
    case PATH_CONTROL:
    case PATH_EMPTY_PART:
    case PATH_DOT:
    case PATH_DOT_DOT:
    case PATH_REPOSITORY:
    case PATH_FAULT_COUNT:
        break;
    }
    return str_of(sentences[fault]);
}

int changeset_path_compare(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    for (size_t i = 0; i < n; i++) {
        if (a.ptr[i] == b.ptr[i])
            continue;
        if (a.ptr[i] == '/' || b.ptr[i] == '/')
            return a.ptr[i] == '/' ? -1 : 1;
        return (unsigned char)a.ptr[i] < (unsigned char)b.ptr[i] ? -1 : 1;
    }
    return (a.len > b.len) - (a.len < b.len);
}

bool changeset_path_is_below(struct str path, struct str folder)
{
    return path.len > folder.len && path.ptr[folder.len] == '/' && str_starts(path, folder);
}
