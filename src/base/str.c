/* str: a view of bytes that another object owns.
 *
 * Owns nothing; str_dup, str_dupz and str_fmt copy into the caller's arena, str_keep onto the heap. Promises to read
 * only within the view. Nothing here fails but the number readers, which say so. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"

__extension__ typedef unsigned __int128 u128;

struct str str_of(const char *z)
{
    return z ? (struct str){ z, strlen(z) } : (struct str){ 0 };
}

bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (!a.len || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool str_eqz(struct str a, const char *z)
{
    return str_eq(a, str_of(z));
}

int str_cmp(struct str a, struct str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.ptr, b.ptr, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (!prefix.len || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && (!suffix.len || memcmp(s.ptr + (s.len - suffix.len), suffix.ptr, suffix.len) == 0);
}

ptrdiff_t str_index(struct str s, char c)
{
    const char *at = s.len ? memchr(s.ptr, (unsigned char)c, s.len) : NULL;
    return at ? at - s.ptr : -1;
}

ptrdiff_t str_rindex(struct str s, char c)
{
    const char *at = s.len ? memrchr(s.ptr, (unsigned char)c, s.len) : NULL;
    return at ? at - s.ptr : -1;
}

struct str str_sub(struct str s, size_t from, size_t to)
{
    if (to > s.len) {
        to = s.len;
    }
    if (from >= to) {
        return (struct str){ 0 };
    }
    return (struct str){ s.ptr + from, to - from };
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
    while (s.len && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

bool str_cut(struct str *rest, char sep, struct str *out_head)
{
    if (!rest->len) {
        return false;
    }
    ptrdiff_t at = str_index(*rest, sep);
    size_t len = at < 0 ? rest->len : (size_t)at;
    *out_head = (struct str){ rest->ptr, len };
    *rest = str_sub(*rest, len + 1, rest->len);
    return true;
}

bool str_to_u64(struct str s, uint64_t *out)
{
    uint64_t n = 0;
    if (!s.len) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.ptr[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)digit, &n)) {
            return false;
        }
    }
    *out = n;
    return true;
}

bool str_to_i64(struct str s, int64_t *out)
{
    bool minus = s.len && s.ptr[0] == '-';
    uint64_t n;
    if (!str_to_u64(minus ? str_sub(s, 1, s.len) : s, &n)) {
        return false;
    }
    if (n > (uint64_t)INT64_MAX + minus) {
        return false;
    }
    /* Below zero by way of -1-m, so that INT64_MIN is never negated. */
    *out = minus && n ? -1 - (int64_t)(n - 1) : (int64_t)n;
    return true;
}

bool str_is_digits(struct str s)
{
    size_t n = 0;
    while (n < s.len && char_is_digit(s.ptr[n])) {
        n++;
    }
    return n == s.len && n > 0;
}

bool str_has_control(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (char_is_control(s.ptr[i])) {
            return true;
        }
    }
    return false;
}

static uint64_t load64(const char *ptr)
{
    uint64_t word;
    memcpy(&word, ptr, sizeof word);
    return word;
}

static uint64_t load32(const char *ptr)
{
    uint32_t word;
    memcpy(&word, ptr, sizeof word);
    return word;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    u128 product = (u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* After wyhash's idea: multiply to 128 bits and fold. Sixteen bytes a step; short strings take one step without a loop.
 * Files that stay on their machine (exec/job) hold it as a checksum, so its values don't change; it is no defence
 * against people. */
uint64_t str_hash(struct str s)
{
    enum { STEP = 16 };
    const uint64_t k0 = UINT64_C(0xa0761d6478bd642f), k1 = UINT64_C(0xe7037ed1a0b428db),
                   k2 = UINT64_C(0x8ebc6af09c88c6e3);
    const char *ptr = s.ptr;
    size_t left = s.len;
    uint64_t seed = k0, a = 0, b = 0;
    while (left > STEP) {
        seed = fold(load64(ptr) ^ k1, load64(ptr + 8) ^ seed);
        ptr += STEP;
        left -= STEP;
    }
    if (left >= 8) {
        a = load64(ptr);
        b = load64(ptr + left - 8);
    } else if (left >= 4) {
        a = load32(ptr);
        b = load32(ptr + left - 4);
    } else if (left) {
        a = (uint64_t)(unsigned char)ptr[0] << 16 | (uint64_t)(unsigned char)ptr[left / 2] << 8 |
            (unsigned char)ptr[left - 1];
    }
    return fold(k2 ^ s.len, fold(a ^ k1, b ^ seed));
}

/* Unicode 15, table 3-7: only the first byte after the lead has bounds of its own, against overlong forms, surrogates
 * and what is past U+10FFFF. */
size_t utf8_length(struct str s, size_t at, size_t *out_skip)
{
    unsigned char c = (unsigned char)s.ptr[at];
    unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80, high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    size_t n = c < 0x80 ? 1 : c < 0xc2 || c > 0xf4 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    *out_skip = 1;
    for (size_t i = 1; i < n; i++) {
        unsigned char tail = at + i < s.len ? (unsigned char)s.ptr[at + i] : 0;
        *out_skip = i;
        if (tail < low || tail > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return n;
}

size_t str_char_len(struct str s)
{
    size_t skip;
    return s.len ? utf8_length(s, 0, &skip) : 0;
}

size_t utf8_fault(struct str s)
{
    size_t at = 0, skip;
    while (at < s.len) {
        while (s.len - at >= 8 && !(load64(s.ptr + at) & UINT64_C(0x8080808080808080))) {
            at += 8;
        }
        size_t n = at < s.len ? utf8_length(s, at, &skip) : 0;
        if (!n) {
            break;
        }
        at += n;
    }
    return at;
}

bool str_is_utf8(struct str s)
{
    return utf8_fault(s) == s.len;
}

size_t str_chars(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    }
    return n;
}

char *str_dupz(struct arena *arena, struct str s)
{
    char *copy = arena_alloc(arena, s.len + 1);
    if (s.len) {
        memcpy(copy, s.ptr, s.len);
    }
    return copy;
}

char *str_keep(struct str s)
{
    char *copy = mem_alloc(s.len + 1);
    if (s.len) {
        memcpy(copy, s.ptr, s.len);
    }
    copy[s.len] = '\0';
    return copy;
}

struct str str_dup(struct arena *arena, struct str s)
{
    return s.len ? (struct str){ str_dupz(arena, s), s.len } : (struct str){ 0 };
}

struct str str_fmt(struct arena *arena, const char *fmt, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    ASSERT(n >= 0);
    size_t len = (size_t)n;
    char *text = arena_alloc(arena, len + 1);
    if (len < sizeof small) {
        memcpy(text, small, len);
    } else {
        vsnprintf(text, len + 1, fmt, again);
    }
    va_end(again);
    return (struct str){ text, len };
}

enum { CLOSEST_LEN_MAX = 64 };

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

/* How many letters must be changed, added, left out or swapped with their neighbour; case doesn't count. */
static unsigned distance(struct str a, struct str b)
{
    unsigned rows[3][CLOSEST_LEN_MAX + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.len; j++) {
        above[j] = (unsigned)j;
        before[j] = 0; /* read only from the second line on */
    }
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b.len; j++) {
            unsigned same = lower(a.ptr[i - 1]) == lower(b.ptr[j - 1]);
            unsigned best = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + !same);
            bool swapped = i > 1 && j > 1 && lower(a.ptr[i - 1]) == lower(b.ptr[j - 2]) &&
                           lower(a.ptr[i - 2]) == lower(b.ptr[j - 1]);
            if (swapped && before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            row[j] = best;
        }
        unsigned *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b.len];
}

struct str str_closest(struct str s, const struct str *candidates, size_t n)
{
    struct str best = { 0 };
    if (!s.len || s.len > CLOSEST_LEN_MAX) {
        return best;
    }
    unsigned limit = s.len == 1 ? 0 : s.len < 6 ? 1 : (unsigned)s.len / 3;
    unsigned best_distance = limit + 2;
    for (size_t i = 0; i < n; i++) {
        if (!candidates[i].len || candidates[i].len > CLOSEST_LEN_MAX) {
            continue;
        }
        unsigned d = distance(s, candidates[i]);
        if (d > limit) {
            /* An unfinished word is a candidate too, after every true misspelling. */
            bool begun = s.len >= 3 && str_starts(candidates[i], s);
            d = begun ? limit + 1 : best_distance;
        }
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}
