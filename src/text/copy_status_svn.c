/* copy_status_svn: the XML that Subversion's client prints, read tag by tag: elements and their attributes, no
 * declarations of entities. Only what is looked for counts; text is looked at where a caller asks for it. */
#include <string.h>

#include "text/copy_status.h"
#include "text/utf8.h"

enum { ATTRIBUTES_MAX = 16 };

struct xml_attribute {
    struct str name, value; /* the value as it stands there */
};

struct xml_tag {
    struct str name; /* of `</name>`: "/name" */
    struct xml_attribute attributes[ATTRIBUTES_MAX];
    size_t n;
};

struct svn_read {
    struct str text, rest;
    const char *program; /* "svn status" */
    struct arena *arena;
    struct copy_status *out;
    struct err *err;
};

static bool svn_fault(struct svn_read *read, const char *at)
{
    return err_set(read->err, ERR_invalid, "the answer of %s can't be read at byte %zu", read->program,
        (size_t)(at - read->text.ptr) + 1);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct str *rest)
{
    while (rest->len > 0 && is_blank(rest->ptr[0]))
        *rest = str_sub(*rest, 1, rest->len);
}

/* skip_past: false: `mark` isn't there. */
static bool skip_past(struct svn_read *read, struct str mark)
{
    for (size_t i = 0; i + mark.len <= read->rest.len; i++)
        if (str_starts(str_sub(read->rest, i, read->rest.len), mark)) {
            read->rest = str_sub(read->rest, i + mark.len, read->rest.len);
            return true;
        }
    return svn_fault(read, read->rest.ptr);
}

static bool is_name(char c)
{
    return char_is_alnum(c) || c == '-' || c == '_' || c == ':' || c == '.';
}

static struct str name_cut(struct str *rest)
{
    size_t n = 0;
    while (n < rest->len && is_name(rest->ptr[n]))
        n++;
    struct str name = str_sub(*rest, 0, n);
    *rest = str_sub(*rest, n, rest->len);
    return name;
}

static bool attribute_read(struct svn_read *read, struct xml_tag *tag)
{
    struct str *rest = &read->rest;
    const char *begin = rest->ptr;
    struct str name = name_cut(rest);
    skip_blanks(rest);
    if (name.len == 0 || rest->len == 0 || rest->ptr[0] != '=')
        return svn_fault(read, begin);
    *rest = str_sub(*rest, 1, rest->len);
    skip_blanks(rest);
    if (rest->len == 0 || (rest->ptr[0] != '"' && rest->ptr[0] != '\''))
        return svn_fault(read, begin);
    char quote = rest->ptr[0];
    *rest = str_sub(*rest, 1, rest->len);
    ptrdiff_t end = str_index(*rest, quote);
    if (end < 0 || tag->n >= ATTRIBUTES_MAX)
        return svn_fault(read, begin);
    tag->attributes[tag->n++] = (struct xml_attribute){ name, str_sub(*rest, 0, (size_t)end) };
    *rest = str_sub(*rest, (size_t)end + 1, rest->len);
    return true;
}

/* tag_read: the rest stands behind the `<` and what else begins the tag. */
static bool tag_read(struct svn_read *read, struct xml_tag *out)
{
    struct str *rest = &read->rest;
    const char *begin = rest->ptr;
    bool is_end = rest->len > 0 && rest->ptr[0] == '/';
    if (is_end)
        *rest = str_sub(*rest, 1, rest->len);
    struct str name = name_cut(rest);
    if (name.len == 0)
        return svn_fault(read, begin);
    out->name = (struct str){ name.ptr - is_end, name.len + is_end };
    for (;;) {
        skip_blanks(rest);
        if (rest->len > 0 && rest->ptr[0] == '/')
            *rest = str_sub(*rest, 1, rest->len);
        if (rest->len == 0)
            return svn_fault(read, begin);
        if (rest->ptr[0] == '>') {
            *rest = str_sub(*rest, 1, rest->len);
            return true;
        }
        if (!attribute_read(read, out))
            return false;
    }
}

/* tag_next: the next beginning or end of an element; false: there is none, or err is set. */
static bool tag_next(struct svn_read *read, struct xml_tag *out)
{
    *out = (struct xml_tag){ 0 };
    for (;;) {
        ptrdiff_t at = str_index(read->rest, '<');
        if (at < 0)
            return false;
        read->rest = str_sub(read->rest, (size_t)at + 1, read->rest.len);
        bool is_note = str_starts(read->rest, STR("!--"));
        if (!is_note && !str_starts(read->rest, STR("?")))
            return tag_read(read, out);
        if (!skip_past(read, is_note ? STR("-->") : STR("?>")))
            return false;
    }
}

/* character_read: `&amp;` and the like; the bytes it stands for. 0: it is none. */
static size_t character_read(struct str entity, char *to)
{
    static const struct {
        const char *name, *value;
    } known[] = { { "amp", "&" }, { "lt", "<" }, { "gt", ">" }, { "quot", "\"" }, { "apos", "'" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eqz(entity, known[i].name)) {
            *to = *known[i].value;
            return 1;
        }
    bool is_hex = entity.len > 1 && entity.ptr[1] == 'x';
    uint32_t c = 0;
    size_t i = is_hex ? 2 : 1;
    if (entity.len <= i || entity.len > 10 || entity.ptr[0] != '#')
        return 0;
    for (; i < entity.len; i++) {
        int digit = hex_digit(entity.ptr[i]);
        if (digit < 0 || (!is_hex && digit > 9) || c > 0x10ffff)
            return 0;
        c = c * (is_hex ? 16 : 10) + (uint32_t)digit;
    }
    bool is_character = c > 0 && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
    return is_character ? utf8_put(to, c) : 0;
}

/* attribute: its value with entities replaced, in the arena; the empty string when it isn't there. */
static bool attribute(struct svn_read *read, const struct xml_tag *tag, const char *name, struct str *out)
{
    struct str raw = { 0 };
    for (size_t i = 0; i < tag->n; i++)
        if (str_eqz(tag->attributes[i].name, name))
            raw = tag->attributes[i].value;
    *out = raw;
    if (raw.len > 0 && (memchr(raw.ptr, '<', raw.len) != NULL || memchr(raw.ptr, '\0', raw.len) != NULL))
        return svn_fault(read, raw.ptr);
    if (raw.len == 0 || memchr(raw.ptr, '&', raw.len) == NULL)
        return true;
    char *bytes = arena_alloc(read->arena, raw.len); /* no entity is shorter than what it stands for */
    size_t n = 0;
    while (raw.len > 0) {
        ptrdiff_t end = raw.ptr[0] == '&' ? str_index(raw, ';') : 0;
        size_t len = 1;
        if (raw.ptr[0] != '&')
            bytes[n] = raw.ptr[0];
        else if (end < 0 || (len = character_read(str_sub(raw, 1, (size_t)end), bytes + n)) == 0)
            return svn_fault(read, raw.ptr);
        n += len;
        raw = str_sub(raw, (size_t)end + 1, raw.len);
    }
    *out = (struct str){ bytes, n };
    return true;
}

static bool svn_add(struct svn_read *read, const struct copy_entry *entry)
{
    if (read->out->n >= COPY_ENTRIES_MAX)
        return err_set(
            read->err, ERR_body_too_large, "the working copy has more than %d changed paths", COPY_ENTRIES_MAX);
    *ARENA_PUSH(read->arena, read->out->at, read->out->n, read->out->cap) = *entry;
    return true;
}

/* kind_of: what the words of `svn status` mean; COPY_NONE: nothing to tell. *out_good: the word is known. */
static enum copy_kind kind_of(struct str item, struct str props, bool is_copied, bool *out_good)
{
    static const struct {
        const char *item;
        enum copy_kind kind;
    } items[] = {
        { "added", COPY_CHANGED },
        { "modified", COPY_CHANGED },
        { "replaced", COPY_CHANGED },
        { "merged", COPY_CHANGED },
        { "deleted", COPY_REMOVED },
        { "missing", COPY_MISSING },
        { "unversioned", COPY_UNKNOWN },
        { "conflicted", COPY_CONFLICT },
        { "obstructed", COPY_CONFLICT },
        { "incomplete", COPY_CONFLICT },
        { "external", COPY_NONE },
        { "ignored", COPY_NONE },
        { "normal", COPY_NONE },
        { "none", COPY_NONE },
    };
    *out_good = false;
    enum copy_kind kind = COPY_NONE;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (str_eqz(item, items[i].item))
            *out_good = true, kind = items[i].kind;
    if (str_eqz(props, "conflicted"))
        return COPY_CONFLICT;
    bool is_changed = str_eqz(props, "modified") || is_copied;
    return kind == COPY_NONE && is_changed && str_eqz(item, "normal") ? COPY_CHANGED : kind;
}

static bool status_tag(struct svn_read *read, const struct xml_tag *tag, struct str path)
{
    struct str item, props, revision, copied, tree;
    if (!attribute(read, tag, "item", &item) || !attribute(read, tag, "props", &props) ||
        !attribute(read, tag, "revision", &revision) || !attribute(read, tag, "copied", &copied) ||
        !attribute(read, tag, "tree-conflicted", &tree))
        return false;
    struct copy_entry entry = { .path = path, .is_copied = str_eqz(copied, "true") };
    bool good;
    entry.kind = kind_of(item, props, entry.is_copied, &good);
    if (!good || path.len == 0)
        return svn_fault(read, tag->name.ptr);
    if (str_eqz(tree, "true"))
        entry.kind = COPY_CONFLICT;
    if (revision.len > 0 && !str_to_i64(revision, &entry.revision))
        return svn_fault(read, tag->name.ptr);
    if (entry.revision < 0 || entry.is_copied || str_eqz(item, "added")) /* -1, or that of where it was copied from */
        entry.revision = 0;
    return entry.kind == COPY_NONE || svn_add(read, &entry);
}

static struct svn_read read_of(
    const char *program, struct str text, struct arena *arena, struct copy_status *out, struct err *err)
{
    err->code = ERR_none;
    *out = (struct copy_status){ 0 };
    return (struct svn_read){ text, text, program, arena, out, err };
}

/* ended: the document must be whole. */
static bool ended(struct svn_read *read, bool whole)
{
    return read->err->code == ERR_none && (whole || svn_fault(read, read->text.ptr + read->text.len));
}

bool copy_status_svn(struct str text, struct arena *arena, struct copy_status *out, struct err *err)
{
    struct svn_read read = read_of("svn status", text, arena, out, err);
    struct xml_tag tag;
    struct str path = { 0 };
    bool whole = false;
    while (!whole && tag_next(&read, &tag)) {
        bool good = true;
        if (str_eqz(tag.name, "entry"))
            good = attribute(&read, &tag, "path", &path);
        else if (str_eqz(tag.name, "wc-status"))
            good = status_tag(&read, &tag, path);
        else if (str_eqz(tag.name, "/entry"))
            path = (struct str){ 0 };
        whole = str_eqz(tag.name, "/status");
        if (!good)
            return false;
    }
    return ended(&read, whole);
}

bool copy_info_svn(struct str text, struct arena *arena, int64_t *out_revision, struct err *err)
{
    struct copy_status none;
    struct svn_read read = read_of("svn info", text, arena, &none, err);
    struct xml_tag tag;
    struct str revision;
    while (tag_next(&read, &tag)) {
        if (!str_eqz(tag.name, "entry"))
            continue;
        if (!attribute(&read, &tag, "revision", &revision))
            return false;
        return (str_to_i64(revision, out_revision) && *out_revision >= 0) || svn_fault(&read, tag.name.ptr);
    }
    return ended(&read, false);
}

bool copy_executables_svn(struct str text, struct arena *arena, struct copy_status *out, struct err *err)
{
    struct svn_read read = read_of("svn propget", text, arena, out, err);
    struct xml_tag tag;
    struct copy_entry entry = { .kind = COPY_CHANGED, .is_executable = true };
    bool whole = false;
    while (!whole && tag_next(&read, &tag)) {
        bool good = true;
        if (str_eqz(tag.name, "target"))
            good = attribute(&read, &tag, "path", &entry.path) &&
                   (entry.path.len > 0 || svn_fault(&read, tag.name.ptr)) && svn_add(&read, &entry);
        whole = str_eqz(tag.name, "/properties");
        if (!good)
            return false;
    }
    return ended(&read, whole);
}
