/* base64: see base64.h. */
#include "exec/base64.h"

void base64_add(struct buf *out, struct str bytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++)
            group = group << 8 | (k < n ? (unsigned char)bytes.ptr[i + k] : 0);
        char four[4] = { letters[group >> 18], letters[group >> 12 & 63], n > 1 ? letters[group >> 6 & 63] : '=',
            n > 2 ? letters[group & 63] : '=' };
        buf_add(out, four, sizeof four);
    }
}
