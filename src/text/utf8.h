/* utf8: characters as bytes: how long one is, which one it is, and back. Strict: no overlong forms, no surrogates, at
 * most U+10FFFF. */
#ifndef WEIR_TEXT_UTF8_H
#define WEIR_TEXT_UTF8_H

#include "base/str.h"

/* utf8_length: bytes of the well-formed character at `at` (< s.len), or 0; then *out_skip says how many bytes one
 * U+FFFD stands for: the longest prefix of a character, as Unicode recommends, so that a cut character becomes one mark
 * and not three. */
size_t utf8_length(struct str s, size_t at, size_t *out_skip);

size_t utf8_fault(struct str s);                /* offset of the first byte that isn't UTF-8; s.len: none */
uint32_t utf8_value(const char *ptr, size_t n); /* the character of n well-formed bytes */
size_t utf8_put(char *to, uint32_t c);          /* writes 1 to 4 bytes */

#endif
