/* key: parse and format the names that people and programs use for tasks. See key.h for the forms.
 *
 * Owns the grammar of keys, names and fences. It promises one text for one key, in both directions. It fails with a
 * sentence that names the part at fault; nothing is written to the result then. */
#include "text/key.h"

#include <string.h>

#include "text/changeset.h"

static bool is_name_char(char c)
{
    return char_is_alnum(c) || c == '.' || c == '_' || c == '-';
}

bool name_is_valid(struct str name)
{
    if (name.len == 0 || name.len > NAME_CHARS_MAX || !char_is_alnum(name.ptr[0]))
        return false;
    for (size_t i = 1; i < name.len; i++)
        if (!is_name_char(name.ptr[i]))
            return false;
    return true;
}

bool name_is_reserved(struct str name)
{
    static const struct str words[] = { { "all", 3 }, { "PREV", 4 }, { "WORKFLOW", 8 }, { "COMMIT", 6 } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (str_eq(name, words[i]))
            return true;
    return str_is_digits(name);
}

/* shown: a bounded part of what was given, for the sentence. */
static struct str shown(struct str s)
{
    return str_sub(s, 0, NAME_CHARS_MAX + 20);
}

bool name_check(struct str name, const char *what, struct err *err)
{
    if (name_is_valid(name))
        return true;
    if (name.len == 0)
        return err_set(err, ERR_invalid, "the %s name is empty", what);
    if (name.len > NAME_CHARS_MAX)
        return err_set(err, ERR_invalid, "the %s name '%.*s...' is longer than %d characters", what,
            STR_ARG(str_sub(name, 0, 40)), NAME_CHARS_MAX);
    if (!char_is_alnum(name.ptr[0]))
        return err_set(
            err, ERR_invalid, "the %s name '%.*s' must begin with a letter or a digit", what, STR_ARG(shown(name)));
    size_t bad = 0;
    while (is_name_char(name.ptr[bad]))
        bad++;
    return err_set(err, ERR_invalid,
        "the %s name '%.*s' has a character that isn't allowed at place %zu: only letters, digits, '.', '_' and '-'",
        what, STR_ARG(shown(name)), str_chars(str_sub(name, 0, bad)) + 1);
}

bool name_check_new(struct str name, const char *what, struct err *err)
{
    if (!name_check(name, what, err))
        return false;
    if (str_is_digits(name))
        return err_set(
            err, ERR_invalid, "the %s name '%.*s' consists of digits only, as ids do", what, STR_ARG(shown(name)));
    if (name_is_reserved(name))
        return err_set(err, ERR_invalid, "the %s name '%.*s' is a reserved word", what, STR_ARG(shown(name)));
    return true;
}

/* number_parse: a positive decimal number in its only form. */
static bool number_parse(struct str s, const char *what, int64_t min, int64_t *out, struct err *err)
{
    if (s.len == 0)
        return err_set(err, ERR_invalid, "the %s is missing", what);
    if (!str_is_digits(s))
        return err_set(err, ERR_invalid, "the %s '%.*s' isn't a number", what, STR_ARG(shown(s)));
    if (s.ptr[0] == '0' && s.len > 1)
        return err_set(err, ERR_invalid, "the %s '%.*s' begins with a zero", what, STR_ARG(shown(s)));
    int64_t n;
    if (!str_to_i64(s, &n))
        return err_set(err, ERR_invalid, "the %s '%.*s' is too large", what, STR_ARG(shown(s)));
    if (n < min)
        return err_set(err, ERR_invalid, "the %s must be at least %lld", what, (long long)min);
    *out = n;
    return true;
}

static bool variant_name_seen(struct str variant, struct str pair, struct str name)
{
    struct str rest = str_sub(variant, 0, (size_t)(pair.ptr - variant.ptr)), head;
    while (str_cut(&rest, ',', &head)) {
        ptrdiff_t equals = str_index(head, '=');
        if (equals >= 0 && str_eq(str_sub(head, 0, (size_t)equals), name))
            return true;
    }
    return false;
}

static bool variant_pair_check(struct str variant, struct str pair, struct err *err)
{
    ptrdiff_t equals = str_index(pair, '=');
    if (equals < 0)
        return err_set(err, ERR_invalid, "'%.*s' in the brackets isn't NAME=VALUE", STR_ARG(shown(pair)));
    struct str name = str_sub(pair, 0, (size_t)equals), value = str_sub(pair, (size_t)equals + 1, pair.len);
    if (!name_check(name, "variant", err))
        return false;
    if (value.len == 0)
        return err_set(err, ERR_invalid, "'%.*s' in the brackets has no value", STR_ARG(name));
    for (size_t i = 0; i < value.len; i++) {
        if (char_is_control(value.ptr[i]) || strchr("=[]#", value.ptr[i]) != NULL)
            return err_set(err, ERR_invalid, "the value of '%.*s' in the brackets has a character that isn't allowed",
                STR_ARG(name));
    }
    if (variant_name_seen(variant, pair, name))
        return err_set(err, ERR_invalid, "'%.*s' stands twice in the brackets", STR_ARG(name));
    return true;
}

bool variant_check(struct str variant, struct err *err)
{
    if (variant.len == 0)
        return err_set(err, ERR_invalid, "the brackets are empty");
    if (variant.len > VARIANT_BYTES_MAX)
        return err_set(err, ERR_invalid, "the text in the brackets is longer than %d bytes", VARIANT_BYTES_MAX);
    if (!str_is_utf8(variant))
        return err_set(err, ERR_invalid, "the text in the brackets isn't UTF-8");
    for (size_t from = 0; from <= variant.len;) { /* a comma at the end leaves an empty pair, which is a fault too */
        const char *comma = from < variant.len ? memchr(variant.ptr + from, ',', variant.len - from) : NULL;
        size_t to = comma != NULL ? (size_t)(comma - variant.ptr) : variant.len;
        if (!variant_pair_check(variant, (struct str){ variant.ptr + from, to - from }, err))
            return false;
        from = to + 1;
    }
    return true;
}

/* task_parse: NAME, NAME[...], NAME#n, NAME[...]#n after ARCHIVE@REV: */
static bool task_parse(struct str text, struct key *key, struct err *err)
{
    ptrdiff_t open = str_index(text, '[');
    struct str tail = { 0 };
    if (open >= 0) {
        struct str inside = str_sub(text, (size_t)open + 1, text.len);
        ptrdiff_t close = str_index(inside, ']');
        if (close < 0)
            return err_set(err, ERR_invalid, "the bracket after '%.*s' is never closed",
                STR_ARG(shown(str_sub(text, 0, (size_t)open))));
        key->name = str_sub(text, 0, (size_t)open);
        key->variant = str_sub(inside, 0, (size_t)close);
        tail = str_sub(inside, (size_t)close + 1, inside.len);
        if (tail.len > 0 && tail.ptr[0] != '#')
            return err_set(err, ERR_invalid, "'%.*s' after the bracket isn't understood", STR_ARG(shown(tail)));
    } else {
        ptrdiff_t hash = str_index(text, '#');
        key->name = hash < 0 ? text : str_sub(text, 0, (size_t)hash);
        tail = hash < 0 ? tail : str_sub(text, (size_t)hash, text.len);
    }
    if (tail.len > 0 && !number_parse(str_sub(tail, 1, tail.len), "number of the run after '#'", 2, &key->run, err))
        return false;
    return name_check(key->name, "task", err) && (open < 0 || variant_check(key->variant, err));
}

bool key_parse(struct str text, struct key *out, struct err *err)
{
    struct key key = { 0 };
    if (text.len == 0)
        return err_set(err, ERR_invalid, "the key is empty");
    if (text.len > KEY_BYTES_MAX)
        return err_set(err, ERR_invalid, "the key is longer than %d bytes", KEY_BYTES_MAX);
    ptrdiff_t at = str_index(text, '@'), colon = str_index(text, ':');
    bool has_rev = at >= 0 && (colon < 0 || at < colon);
    struct str tail = colon < 0 ? (struct str){ 0 } : str_sub(text, (size_t)colon + 1, text.len);
    struct str head = colon < 0 ? text : str_sub(text, 0, (size_t)colon);
    key.lane = has_rev ? str_sub(text, 0, (size_t)at) : head;
    if (str_is_digits(text)) {
        key.lane = (struct str){ 0 };
        key.kind = KEY_ID;
        if (!number_parse(text, "task id", 1, &key.id, err))
            return false;
    } else if (has_rev) {
        key.kind = colon < 0 ? KEY_REVISION : KEY_TASK;
        if (!name_check(key.lane, "archive", err) ||
            !number_parse(str_sub(head, (size_t)at + 1, head.len), "revision", 1, &key.rev, err) ||
            (colon >= 0 && !task_parse(tail, &key, err)))
            return false;
    } else if (colon >= 0 && csid_check(tail, &(struct err){ 0 })) {
        key.kind = KEY_CHANGESET;
        key.name = tail;
        if (!name_check(key.lane, "target", err))
            return false;
    } else if (colon >= 0) {
        key.kind = KEY_QUEUE_TASK;
        if (!name_check(key.lane, "queue", err) || !number_parse(tail, "task id after ':'", 1, &key.id, err))
            return false;
    } else {
        key.kind = KEY_LANE;
        if (!name_check(key.lane, "archive or queue", err))
            return false;
    }
    *out = key;
    return true;
}

static void task_format(struct buf *out, const struct key *key)
{
    buf_add_char(out, ':');
    buf_add_str(out, key->name);
    if (key->variant.len > 0) {
        buf_add_char(out, '[');
        buf_add_str(out, key->variant);
        buf_add_char(out, ']');
    }
    if (key->run > 0) {
        buf_add_char(out, '#');
        buf_add_i64(out, key->run);
    }
}

void key_format(struct buf *out, const struct key *key)
{
    switch (key->kind) {
    case KEY_NONE:
        break;
    case KEY_ID:
        buf_add_i64(out, key->id);
        break;
    case KEY_QUEUE_TASK:
        buf_add_str(out, key->lane);
        buf_add_char(out, ':');
        buf_add_i64(out, key->id);
        break;
    case KEY_CHANGESET:
        buf_add_str(out, key->lane);
        buf_add_char(out, ':');
        buf_add_str(out, key->name);
        break;
    case KEY_LANE:
        buf_add_str(out, key->lane);
        break;
    case KEY_REVISION:
    case KEY_TASK:
        buf_add_str(out, key->lane);
        buf_add_char(out, '@');
        buf_add_i64(out, key->rev);
        if (key->kind == KEY_TASK)
            task_format(out, key);
        break;
    }
}

#define INCARNATION_DIGITS 16
#define GRANT_DIGITS 8

bool output_name_is_valid(struct str name)
{
    return name.len > 0 && name.len <= OUTPUT_NAME_BYTES_MAX && !memchr(name.ptr, '\0', name.len) && str_is_utf8(name);
}

bool file_name_is_valid(struct str name)
{
    struct str rest = name, part;
    if (name.len == 0 || name.len > FILE_NAME_BYTES_MAX || name.ptr[name.len - 1] == '/' || !str_is_utf8(name) ||
        str_has_control(name))
        return false;
    while (str_cut(&rest, '/', &part))
        if (part.len == 0 || str_eqz(part, ".") || str_eqz(part, ".."))
            return false;
    return true;
}

static bool fence_number(struct str s, size_t digits_min, int64_t *out)
{
    return str_is_digits(s) && s.len >= digits_min && (s.len == digits_min || s.ptr[0] != '0') && str_to_i64(s, out) &&
           *out > 0;
}

bool fence_parse(struct str text, struct fence *out)
{
    struct fence fence = { 0 };
    if (text.len < INCARNATION_DIGITS + 1 || text.ptr[INCARNATION_DIGITS] != '-')
        return false;
    for (size_t i = 0; i < INCARNATION_DIGITS; i++) {
        char c = text.ptr[i];
        if (hex_digit(c) < 0 || (c >= 'A' && c <= 'F'))
            return false;
        fence.incarnation = fence.incarnation << 4 | (uint64_t)hex_digit(c);
    }
    struct str grant = str_sub(text, INCARNATION_DIGITS + 1, text.len);
    ptrdiff_t dash = str_index(grant, '-');
    if (dash < 0)
        return false;
    struct str task = str_sub(grant, 0, (size_t)dash);
    grant = str_sub(grant, (size_t)dash + 1, grant.len);
    if (!fence_number(task, 1, &fence.task) || !fence_number(grant, GRANT_DIGITS, &fence.grant))
        return false;
    *out = fence;
    return true;
}

/* digits_put: n in decimal, at least `digits` of them. */
static char *digits_put(char *to, int64_t n, size_t digits)
{
    char text[20];
    size_t at = sizeof text;
    while (n > 0 || sizeof text - at < digits) {
        text[--at] = (char)('0' + n % 10);
        n /= 10;
    }
    memcpy(to, text + at, sizeof text - at);
    return to + (sizeof text - at);
}

struct fence_text fence_format(struct fence fence)
{
    ASSERT(fence.task > 0 && fence.grant > 0);
    struct fence_text text = { { 0 } };
    char *to = text.z;
    for (int shift = 60; shift >= 0; shift -= 4)
        *to++ = "0123456789abcdef"[fence.incarnation >> shift & 15];
    *to++ = '-';
    to = digits_put(to, fence.task, 1);
    *to++ = '-';
    digits_put(to, fence.grant, GRANT_DIGITS);
    return text;
}
