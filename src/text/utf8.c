/* utf8: characters as bytes. Owns the rule of what is well-formed (no overlong forms, no surrogates, nothing past
 * U+10FFFF). */
#include "text/utf8.h"

/* tail_in: is bytes[at] a continuation byte in low..high? */
static bool tail_in(struct str s, size_t at, unsigned low, unsigned high)
{
    return at < s.len && (unsigned char)s.ptr[at] >= low && (unsigned char)s.ptr[at] <= high;
}

size_t utf8_length(struct str s, size_t at, size_t *out_skip)
{
    unsigned c = (unsigned char)s.ptr[at];
    unsigned low = 0x80, high = 0xbf;
    size_t n = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (c == 0xe0)
        low = 0xa0; /* overlong */
    else if (c == 0xed)
        high = 0x9f; /* surrogates */
    else if (c == 0xf0)
        low = 0x90;
    else if (c == 0xf4)
        high = 0x8f; /* past U+10FFFF */
    *out_skip = 1;
    if (n == 0 || !tail_in(s, at + 1, low, high))
        return 0;
    for (size_t i = 2; i < n; i++) {
        *out_skip = i;
        if (!tail_in(s, at + i, 0x80, 0xbf))
            return 0;
    }
    return n;
}

size_t utf8_fault(struct str s)
{
    size_t at = 0, skip;
    while (at < s.len) {
        size_t n = (unsigned char)s.ptr[at] < 0x80 ? 1 : utf8_length(s, at, &skip);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

uint32_t utf8_value(const char *ptr, size_t n)
{
    uint32_t c = (unsigned char)ptr[0];
    if (n == 1)
        return c;
    c &= 0x7fu >> n;
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)ptr[i] & 0x3fu);
    return c;
}

size_t utf8_put(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)((0xf00u >> n & 0xf0u) | c);
    return n;
}
