/* raw: see raw.h. It owns nothing and promises to end on any bytes; it never checks what the JSON reader has checked already. */
#include "api/raw.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct str blanks_skip(struct str s)
{
    size_t n = 0;
    while (n < s.len && is_blank(s.ptr[n]))
        n++;
    return (struct str){ s.ptr + n, s.len - n };
}

/* string_end: length of the string that s begins with, quotes included. */
static size_t string_end(struct str s)
{
    size_t i = 1;
    while (i < s.len && s.ptr[i] != '"')
        i += s.ptr[i] == '\\' ? 2 : 1;
    return i < s.len ? i + 1 : s.len;
}

/* value_end: length of the value that s begins with. */
static size_t value_end(struct str s)
{
    size_t depth = 0, i = 0;
    while (i < s.len) {
        char c = s.ptr[i];
        if (c == '"') {
            i += string_end(str_sub(s, i, s.len));
            if (depth == 0)
                return i;
            continue;
        }
        if (depth == 0 && i > 0 && (c == ',' || c == '}' || c == ']' || is_blank(c)))
            return i;
        if (c == '{' || c == '[')
            depth++;
        if (c == '}' || c == ']') {
            depth--;
            if (depth == 0)
                return i + 1;
        }
        i++;
    }
    return s.len;
}

struct str raw_members(struct str object)
{
    struct str rest = blanks_skip(object);
    return str_sub(rest, 1, rest.len);
}

bool raw_member_next(struct str *rest, struct str *out_name, struct str *out_value)
{
    struct str at = blanks_skip(*rest);
    if (at.len > 0 && at.ptr[0] == ',')
        at = blanks_skip(str_sub(at, 1, at.len));
    if (at.len == 0 || at.ptr[0] != '"')
        return false;
    size_t len = string_end(at);
    *out_name = str_sub(at, 1, len - 1);
    at = blanks_skip(str_sub(at, len, at.len));
    at = blanks_skip(str_sub(at, 1, at.len)); /* the colon */
    size_t end = value_end(at);
    *out_value = str_sub(at, 0, end);
    *rest = str_sub(at, end, at.len);
    return true;
}

struct str raw_member(struct str object, struct str key)
{
    struct str rest = raw_members(object), name, value, found = { 0 };
    while (raw_member_next(&rest, &name, &value))
        if (str_eq(name, key))
            found = value;
    return found;
}

struct str raw_items(struct str array)
{
    struct str rest = blanks_skip(array);
    return str_sub(rest, 1, rest.len);
}

bool raw_next(struct str *rest, struct str *out_item)
{
    struct str at = blanks_skip(*rest);
    if (at.len > 0 && at.ptr[0] == ',')
        at = blanks_skip(str_sub(at, 1, at.len));
    if (at.len == 0 || at.ptr[0] == ']')
        return false;
    size_t end = value_end(at);
    *out_item = str_sub(at, 0, end);
    *rest = str_sub(at, end, at.len);
    return true;
}

void raw_compact(struct buf *out, struct str value)
{
    size_t i = 0;
    while (i < value.len) {
        if (is_blank(value.ptr[i])) {
            i++;
            continue;
        }
        size_t from = i;
        while (i < value.len && !is_blank(value.ptr[i]))
            i += value.ptr[i] == '"' ? string_end(str_sub(value, i, value.len)) : 1;
        buf_add(out, value.ptr + from, i - from);
    }
}
