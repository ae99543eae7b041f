/* str: a view of bytes that another object owns.
 *
 * A str is never NUL-terminated by promise; print it with "%.*s", STR_ARG(s). The zero value is the empty string.
 * Nothing here allocates but str_dup and str_dupz, which take their memory from the arena given. */
#ifndef WEIR_BASE_STR_H
#define WEIR_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

struct str {
    const char *ptr;
    size_t len;
};

#define STR(literal) ((struct str){ (literal), sizeof(literal) - 1 })
#define STR_ARG(s) (int)(s).len, (s).len ? (s).ptr : ""

struct str str_of(const char *z); /* NULL gives the empty string */
bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
int str_cmp(struct str a, struct str b); /* bytewise, a prefix sorts first */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
ptrdiff_t str_index(struct str s, char c); /* -1: none */
ptrdiff_t str_rindex(struct str s, char c);
struct str str_sub(struct str s, size_t from, size_t to); /* clamped */
struct str str_trim(struct str s);                        /* blanks, tabs, CR, LF at both ends */

/* str_cut: takes the part before the first sep out of *rest; false when *rest was empty and nothing is left. */
bool str_cut(struct str *rest, char sep, struct str *out_head);

/* The whole string must be a decimal number that fits; no blanks, no plus sign. */
bool str_to_i64(struct str s, int64_t *out);
bool str_to_u64(struct str s, uint64_t *out);

/* Characters of ASCII, whatever the locale. */
static inline bool char_is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static inline bool char_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static inline bool char_is_alnum(char c)
{
    return char_is_letter(c) || char_is_digit(c);
}
static inline bool char_is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}
bool str_is_digits(struct str s); /* at least one, and nothing else */
bool str_has_control(struct str s);

int hex_digit(char c);             /* of either case; -1: it is none */
uint64_t str_hash(struct str s);   /* the same in every version, on machines of the same byte order */
bool str_is_utf8(struct str s);    /* strict: no overlong forms, no surrogates, at most U+10FFFF */
size_t utf8_fault(struct str s);   /* offset of the first byte that isn't UTF-8; s.len: none */
size_t str_chars(struct str s);    /* UTF-8 characters */
size_t str_char_len(struct str s); /* bytes of the character that s begins with; 0: empty, or not well formed */
/* utf8_length: bytes of the well-formed character at `at` (< s.len), or 0; then *out_skip says how many bytes one
 * U+FFFD stands for: the longest prefix of a character, as Unicode recommends, so that a cut character becomes one mark
 * and not three. */
size_t utf8_length(struct str s, size_t at, size_t *out_skip);

struct str str_dup(struct arena *arena, struct str s);
char *str_dupz(struct arena *arena, struct str s); /* NUL-terminated copy */
char *str_keep(struct str s);                      /* the same, the caller's to mem_free */
struct str str_fmt(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* str_closest: the candidate that looks like a misspelling of s, or the empty string ("did you mean ...?"). */
struct str str_closest(struct str s, const struct str *candidates, size_t n);

#endif
