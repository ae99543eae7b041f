/* quick: see quick.h. Owns nothing; its only promise is one-sided: yes means valid and plain, no means nothing. */
#include "api/quick.h"

#include <string.h>

#include "api/call.h"
#include "api/raw.h"

enum { KEYS_MAX = 16, INTEGER_DIGITS_MAX = 18, EXPONENT_DIGITS_MAX = 2, FRACTION_DIGITS_MAX = 100 };

struct quick {
    const char *at, *end;
    unsigned depth;
    bool high; /* bytes beyond ASCII were seen: the whole is checked for UTF-8 at the end */
};

static bool value_check(struct quick *q);

static void blanks_skip(struct quick *q)
{
    while (q->at < q->end && (*q->at == ' ' || *q->at == '\n' || *q->at == '\t' || *q->at == '\r'))
        q->at++;
}

static bool take(struct quick *q, char c)
{
    if (q->at >= q->end || *q->at != c)
        return false;
    q->at++;
    return true;
}

/* escape_check: behind a backslash. \u is left to the general parser: surrogates and NUL have rules of their own. */
static bool escape_check(struct quick *q)
{
    static const char known[] = "\"\\/bfnrt";
    return q->at < q->end && *q->at != '\0' && strchr(known, *q->at++) != NULL;
}

/* string_check: behind the opening quote; *out_len: the bytes up to the closing one. */
static bool string_check(struct quick *q, bool escapes, struct str *out)
{
    const char *from = q->at;
    while (q->at < q->end) {
        unsigned char c = (unsigned char)*q->at++;
        if (c == '"') {
            *out = (struct str){ from, (size_t)(q->at - from) - 1 };
            return true;
        }
        if (c < 0x20 || (c == '\\' && (!escapes || !escape_check(q))))
            return false;
        q->high |= c >= 0x80;
    }
    return false;
}

static size_t digits_skip(struct quick *q)
{
    const char *from = q->at;
    while (q->at < q->end && *q->at >= '0' && *q->at <= '9')
        q->at++;
    return (size_t)(q->at - from);
}

static bool number_check(struct quick *q)
{
    take(q, '-');
    const char *first = q->at;
    size_t n = digits_skip(q);
    if (n == 0 || n > INTEGER_DIGITS_MAX || (n > 1 && *first == '0'))
        return false;
    if (take(q, '.')) {
        n = digits_skip(q);
        if (n == 0 || n > FRACTION_DIGITS_MAX)
            return false;
    }
    if (take(q, 'e') || take(q, 'E')) {
        if (!take(q, '+'))
            take(q, '-');
        n = digits_skip(q);
        return n > 0 && n <= EXPONENT_DIGITS_MAX;
    }
    return true;
}

static bool word_check(struct quick *q, const char *word, size_t len)
{
    if ((size_t)(q->end - q->at) < len || memcmp(q->at, word, len) != 0)
        return false;
    q->at += len;
    return true;
}

static bool array_check(struct quick *q)
{
    blanks_skip(q);
    if (take(q, ']'))
        return true;
    do {
        if (!value_check(q))
            return false;
        blanks_skip(q);
    } while (take(q, ','));
    return take(q, ']');
}

static bool key_is_new(const struct str *keys, size_t n, struct str key)
{
    for (size_t i = 0; i < n; i++)
        if (keys[i].len == key.len && memcmp(keys[i].ptr, key.ptr, key.len) == 0)
            return false;
    return true;
}

static bool object_check(struct quick *q)
{
    struct str keys[KEYS_MAX];
    size_t n = 0;
    blanks_skip(q);
    if (take(q, '}'))
        return true;
    do {
        blanks_skip(q);
        if (n == KEYS_MAX || !take(q, '"') || !string_check(q, false, &keys[n]) || !key_is_new(keys, n, keys[n]))
            return false;
        n++;
        blanks_skip(q);
        if (!take(q, ':') || !value_check(q))
            return false;
        blanks_skip(q);
    } while (take(q, ','));
    return take(q, '}');
}

static bool nested_check(struct quick *q, bool (*check)(struct quick *q))
{
    q->at++;
    if (++q->depth > JSON_DEPTH_MAX)
        return false;
    bool good = check(q);
    q->depth--;
    return good;
}

static bool value_check(struct quick *q)
{
    struct str ignored;
    blanks_skip(q);
    if (q->at >= q->end)
        return false;
    switch (*q->at) {
    case '"':
        q->at++;
        return string_check(q, true, &ignored);
    case '{':
        return nested_check(q, object_check);
    case '[':
        return nested_check(q, array_check);
    case 't':
        return word_check(q, "true", 4);
    case 'f':
        return word_check(q, "false", 5);
    case 'n':
        return word_check(q, "null", 4);
    default:
        return number_check(q);
    }
}

bool quick_check(struct str text)
{
    struct quick q = { .at = text.ptr, .end = text.ptr + text.len };
    if (!value_check(&q))
        return false;
    blanks_skip(&q);
    return q.at == q.end && (!q.high || str_is_utf8(text));
}

/* plain_string: between its quotes there is nothing to be undone. */
static json_t *plain_string(struct str raw)
{
    bool plain = raw.len >= 2 && raw.ptr[0] == '"' && memchr(raw.ptr, '\\', raw.len) == NULL;
    return plain ? json_stringn_nocheck(raw.ptr + 1, raw.len - 2) : NULL;
}

static json_t *general(struct str raw)
{
    return json_loadb(raw.ptr, raw.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}

/* plain_array: of plain strings, as most commands are; NULL: of something else. */
static json_t *plain_array(struct str raw)
{
    json_t *array = json_array();
    struct str rest = raw_items(raw), item;
    while (raw_next(&rest, &item)) {
        json_t *string = plain_string(item);
        if (string == NULL || json_array_append_new(array, string) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

json_t *quick_value(struct str raw)
{
    json_t *value = NULL;
    int64_t n;
    if (raw.len == 0)
        return NULL;
    if (raw.ptr[0] == '"')
        value = plain_string(raw);
    else if (raw.ptr[0] == '[')
        value = plain_array(raw);
    else if (str_to_i64(raw, &n))
        value = json_integer(n);
    return value != NULL ? value : general(raw);
}
