/* utf8: the number of a character, and its bytes. What is well-formed is base/str's. */
#include "text/utf8.h"

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
