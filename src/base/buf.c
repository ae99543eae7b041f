/* buf: bytes that grow up to a cap given at birth.
 *
 * Owns its memory. Promises that the content is whole up to the first piece that didn't fit: after that nothing is
 * added any more, so there are no holes. Says that it is full by `full`; out of memory aborts. */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"

enum { SIZE_FIRST = 128 };

void buf_init(struct buf *buf, size_t cap)
{
    *buf = (struct buf){ .cap = cap < SIZE_MAX / 2 ? cap : SIZE_MAX / 2 };
}

void buf_release(struct buf *buf)
{
    mem_free(buf->ptr);
    *buf = (struct buf){ .cap = buf->cap };
}

void buf_reset(struct buf *buf)
{
    buf->len = 0;
    buf->full = false;
    if (buf->ptr) {
        buf->ptr[0] = '\0';
    }
}

/* Out of line: room for len more bytes and the NUL, or false and full. */
static bool buf_grow(struct buf *buf, size_t len)
{
    if (buf->full || len > buf->cap - buf->len) {
        buf->full = true;
        return false;
    }
    size_t wanted = buf->len + len + 1;
    if (wanted <= buf->size) {
        return true;
    }
    size_t size = buf->size ? buf->size : SIZE_FIRST;
    while (size < wanted) {
        size *= 2;
    }
    if (size > buf->cap + 1) {
        size = buf->cap + 1;
    }
    buf->ptr = mem_realloc(buf->ptr, size);
    buf->size = size;
    return true;
}

/* True when len bytes and the NUL fit into what is allocated. A full buf has to take the long way, which refuses. */
static inline bool buf_fits(const struct buf *buf, size_t len)
{
    return buf->size - buf->len > len && !buf->full;
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
    if (!buf_fits(buf, len) && !buf_grow(buf, len)) {
        return;
    }
    if (len) {
        memcpy(buf->ptr + buf->len, bytes, len);
        buf->len += len;
    }
    buf->ptr[buf->len] = '\0';
}

void buf_add_str(struct buf *buf, struct str s)
{
    buf_add(buf, s.ptr, s.len);
}

void buf_add_z(struct buf *buf, const char *z)
{
    buf_add(buf, z, strlen(z));
}

void buf_add_char(struct buf *buf, char c)
{
    if (!buf_fits(buf, 1) && !buf_grow(buf, 1)) {
        return;
    }
    buf->ptr[buf->len++] = c;
    buf->ptr[buf->len] = '\0';
}

/* digits_before: n in decimal, its last digit just before `end`; the first one is returned. */
static char *digits_before(char *end, uint64_t n)
{
    do {
        *--end = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return end;
}

static char *signed_before(char *end, int64_t n)
{
    char *at = digits_before(end, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    if (n < 0) {
        *--at = '-';
    }
    return at;
}

struct i64_text i64_format(int64_t n)
{
    struct i64_text text;
    char digits[sizeof text.z], *end = digits + sizeof digits - 1, *at = signed_before(end, n);
    *end = 0;
    memcpy(text.z, at, (size_t)(end - at) + 1);
    return text;
}

void buf_add_u64(struct buf *buf, uint64_t n)
{
    char digits[20], *end = digits + sizeof digits, *at = digits_before(end, n);
    buf_add(buf, at, (size_t)(end - at));
}

void buf_add_i64(struct buf *buf, int64_t n)
{
    char digits[21], *end = digits + sizeof digits, *at = signed_before(end, n);
    buf_add(buf, at, (size_t)(end - at));
}

void buf_vaddf(struct buf *buf, const char *fmt, va_list args)
{
    if (!buf_fits(buf, 0) && !buf_grow(buf, 0)) {
        return;
    }
    va_list again;
    va_copy(again, args);
    size_t left = buf->size - buf->len;
    int n = vsnprintf(buf->ptr + buf->len, left, fmt, args);
    ASSERT(n >= 0);
    size_t len = (size_t)n;
    if (len < left) {
        buf->len += len;
    } else if (buf_grow(buf, len)) {
        vsnprintf(buf->ptr + buf->len, len + 1, fmt, again);
        buf->len += len;
    } else {
        buf->ptr[buf->len] = '\0';
    }
    va_end(again);
}

void buf_addf(struct buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    buf_vaddf(buf, fmt, args);
    va_end(args);
}

char *buf_reserve(struct buf *buf, size_t len)
{
    if (!buf_fits(buf, len) && !buf_grow(buf, len)) {
        return NULL;
    }
    return buf->ptr + buf->len;
}

void buf_commit(struct buf *buf, size_t len)
{
    ASSERT(buf->ptr && len < buf->size - buf->len);
    buf->len += len;
    buf->ptr[buf->len] = '\0';
}

void buf_drop(struct buf *buf, size_t len)
{
    if (!len) {
        return;
    }
    ASSERT(len <= buf->len);
    buf->len -= len;
    memmove(buf->ptr, buf->ptr + len, buf->len + 1);
}

struct str buf_str(const struct buf *buf)
{
    return (struct str){ buf->ptr ? buf->ptr : "", buf->len };
}

struct str buf_move(struct buf *buf, struct arena *arena)
{
    struct str out = str_dup(arena, buf_str(buf));
    buf_release(buf);
    return out;
}

enum { VARINT_LEN_MAX = 10 };

void buf_add_varint(struct buf *buf, uint64_t n)
{
    unsigned char bytes[VARINT_LEN_MAX];
    size_t len = 0;
    while (n >= 0x80) {
        bytes[len++] = (unsigned char)(n | 0x80);
        n >>= 7;
    }
    bytes[len++] = (unsigned char)n;
    buf_add(buf, bytes, len);
}

/* Only the shortest form is taken: records are hashed, so one value has one form. */
bool str_cut_varint(struct str *rest, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < rest->len && i < VARINT_LEN_MAX; i++) {
        unsigned char byte = (unsigned char)rest->ptr[i];
        if (i == VARINT_LEN_MAX - 1 && byte > 1) {
            return false;
        }
        n |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            if (!byte && i) {
                return false;
            }
            rest->ptr += i + 1;
            rest->len -= i + 1;
            *out = n;
            return true;
        }
    }
    return false;
}
