/* json: the writer. A hot path: every answer, event and log line goes through it.
 *
 * Owns nothing but the bytes it appends. It promises valid JSON in UTF-8 whatever the bytes of the strings are, and no
 * allocation of its own. It can't fail: a full buf says so in `full`, a wrong nesting is our bug. */
#include "text/json.h"

#include <string.h>

#include "base/err.h"
#include "base/when.h"
#include "text/utf8.h"

/* What to do with a byte of a string: 0 copy, 'u' write \u00XX, MANY look at it as UTF-8, else write a backslash and
 * this letter. */
#define MANY 1
#define FOUR(c, how) [c] = (how), [(c) + 1] = (how), [(c) + 2] = (how), [(c) + 3] = (how)
#define ROW(c, how) FOUR(c, how), FOUR((c) + 4, how), FOUR((c) + 8, how), FOUR((c) + 12, how)
static const unsigned char escape_of[256] = { FOUR(0x00, 'u'), FOUR(0x04, 'u'), ['\b'] = 'b', ['\t'] = 't',
    ['\n'] = 'n', [0x0b] = 'u', ['\f'] = 'f', ['\r'] = 'r', [0x0e] = 'u', [0x0f] = 'u',
    ROW(0x10, 'u'), ['"'] = '"', ['\\'] = '\\', ROW(0x80, MANY), ROW(0x90, MANY), ROW(0xa0, MANY), ROW(0xb0, MANY),
    ROW(0xc0, MANY), ROW(0xd0, MANY), ROW(0xe0, MANY), ROW(0xf0, MANY) };

struct json json_to(struct buf *out)
{
    return (struct json){ .out = out };
}

/* value_begin: the comma that belongs before a value or key; the value is what stands before the next one. */
static void value_begin(struct json *json)
{
    if (json->comma)
        buf_add_char(json->out, ',');
    json->comma = true;
}

static void nest(struct json *json, char open)
{
    value_begin(json);
    buf_add_char(json->out, open);
    json->depth++;
    json->comma = false;
}

static void unnest(struct json *json, char close)
{
    ASSERT(json->depth > 0);
    buf_add_char(json->out, close);
    json->depth--;
    json->comma = true;
}

void json_object_begin(struct json *json)
{
    nest(json, '{');
}

void json_object_end(struct json *json)
{
    unnest(json, '}');
}

void json_array_begin(struct json *json)
{
    nest(json, '[');
}

void json_array_end(struct json *json)
{
    unnest(json, ']');
}

static void escape_byte(struct buf *out, unsigned char c, unsigned char how)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = { '\\', (char)how, '0', '0', hex[c >> 4], hex[c & 15] };
    buf_add(out, text, how == 'u' ? 6 : 2);
}

/* escape_from: appends s from `at` on, where the byte at `at` is the first that isn't plain; copies runs. */
static void escape_from(struct buf *out, struct str s, size_t at)
{
    size_t run = 0;
    while (at < s.len) {
        unsigned char c = (unsigned char)s.ptr[at], how = escape_of[c];
        size_t skip = 1, n = 1;
        if (how == MANY)
            n = utf8_length(s, at, &skip);
        if (n != 0 && (how == 0 || how == MANY)) {
            at += n;
            continue;
        }
        buf_add(out, s.ptr + run, at - run);
        if (how == MANY)
            buf_add(out, "\xef\xbf\xbd", 3);
        else
            escape_byte(out, c, how);
        at += skip;
        run = at;
    }
    buf_add(out, s.ptr + run, s.len - run);
}

/* plain_bytes: how many bytes of s can be copied as they are, from its beginning. */
static size_t plain_bytes(struct str s)
{
    size_t n = 0;
    while (n < s.len && escape_of[(unsigned char)s.ptr[n]] == 0)
        n++;
    return n;
}

/* string_add: s, of which the first `plain` bytes need no escape, and what closes it. */
static void string_add(struct json *json, struct str s, size_t plain, const char *after, size_t n_after)
{
    struct buf *out = json->out;
    char *to = plain == s.len ? buf_reserve(out, (json->comma ? 2 : 1) + s.len + n_after) : NULL;
    if (to != NULL) { /* nearly always: one reservation, one copy */
        char *at = to;
        if (json->comma)
            *at++ = ',';
        *at++ = '"';
        if (s.len > 0)
            memcpy(at, s.ptr, s.len);
        at += s.len;
        memcpy(at, after, n_after);
        at += n_after;
        buf_commit(out, (size_t)(at - to));
    } else {
        value_begin(json);
        buf_add_char(out, '"');
        if (s.len > 0)
            escape_from(out, s, plain);
        buf_add(out, after, n_after);
    }
    json->comma = true;
}

void json_key_str(struct json *json, struct str key)
{
    string_add(json, key, plain_bytes(key), "\":", 2);
    json->comma = false; /* its value follows */
}

void json_key(struct json *json, const char *key)
{
    struct str name = str_of(key);
    string_add(json, name, name.len, "\":", 2); /* a name of ours has nothing to escape */
    json->comma = false;
}

void json_str(struct json *json, struct str s)
{
    string_add(json, s, plain_bytes(s), "\"", 1);
}

void json_z(struct json *json, const char *z)
{
    json_str(json, str_of(z));
}

void json_i64(struct json *json, int64_t n)
{
    value_begin(json);
    buf_add_i64(json->out, n);
}

void json_f64(struct json *json, double n)
{
    ASSERT(n - n == 0); /* neither infinite nor NaN */
    value_begin(json);
    double size = n < 0 ? -n : n;
    if (size >= 1e12) { /* millionths of it don't fit an integer, nor are they in the double */
        buf_addf(json->out, "%.17g", n);
        return;
    }
    uint64_t millionths = (uint64_t)(size * 1e6 + 0.5);
    if (n < 0 && millionths > 0)
        buf_add_char(json->out, '-');
    buf_add_u64(json->out, millionths / 1000000);
    uint64_t rest = millionths % 1000000;
    if (rest == 0)
        return;
    char digits[7] = { '.' };
    for (size_t i = 6; i > 0; i--, rest /= 10)
        digits[i] = (char)('0' + rest % 10);
    size_t len = 7;
    while (digits[len - 1] == '0')
        len--;
    buf_add(json->out, digits, len);
}

void json_bool(struct json *json, bool b)
{
    json_raw(json, b ? STR("true") : STR("false"));
}

void json_nil(struct json *json)
{
    json_raw(json, STR("null"));
}

void json_raw(struct json *json, struct str ready_made)
{
    value_begin(json);
    buf_add_str(json->out, ready_made);
}

void json_time(struct json *json, int64_t ms)
{
    if (ms == 0) {
        json_nil(json);
        return;
    }
    struct when_text text = when_format(ms);
    json_z(json, text.z);
}

void json_put_str(struct json *json, const char *key, struct str s)
{
    json_key(json, key);
    json_str(json, s);
}

void json_put_z(struct json *json, const char *key, const char *z)
{
    json_key(json, key);
    json_z(json, z);
}

void json_put_i64(struct json *json, const char *key, int64_t n)
{
    json_key(json, key);
    json_i64(json, n);
}

void json_put_bool(struct json *json, const char *key, bool b)
{
    json_key(json, key);
    json_bool(json, b);
}

void json_put_time(struct json *json, const char *key, int64_t ms)
{
    json_key(json, key);
    json_time(json, ms);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct str json_compact(struct arena *arena, struct str text)
{
    char *z = arena_alloc(arena, text.len + 1);
    size_t n = 0;
    bool inside = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!inside && is_blank(c))
            continue;
        z[n++] = c;
        if (inside && c == '\\' && i + 1 < text.len)
            z[n++] = text.ptr[++i];
        else if (c == '"')
            inside = !inside;
    }
    return (struct str){ z, n };
}

struct str json_pointer_add(struct arena *arena, struct str path, struct str key)
{
    char *z = arena_alloc(arena, path.len + 1 + 2 * key.len + 1);
    size_t n = path.len;
    if (n > 0)
        memcpy(z, path.ptr, n);
    z[n++] = '/';
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        if (c == '~' || c == '/') {
            z[n++] = '~';
            c = c == '~' ? '0' : '1';
        }
        z[n++] = c;
    }
    return (struct str){ z, n };
}

struct str json_pointer_at(struct arena *arena, struct str path, size_t index)
{
    return json_pointer_add(arena, path, str_of(i64_format((int64_t)index).z));
}
