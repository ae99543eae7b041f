/* buf: bytes that grow up to a cap given at birth.
 *
 * Past the cap nothing is added and `full` is set: check it once at the end. The zero value is an empty buffer with cap 0
 * (adds nothing), so buf_init is required. Content is kept NUL-terminated (the NUL isn't counted). */
#ifndef WEIR_BASE_BUF_H
#define WEIR_BASE_BUF_H

#include <stdarg.h>

#include "base/str.h"

struct buf {
    char *ptr;
    size_t len, size, cap;
    bool full;
};

void buf_init(struct buf *buf, size_t cap);
void buf_release(struct buf *buf);
void buf_reset(struct buf *buf); /* empty again, memory kept */
void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_add_str(struct buf *buf, struct str s);
void buf_add_z(struct buf *buf, const char *z);
void buf_add_char(struct buf *buf, char c);
void buf_add_u64(struct buf *buf, uint64_t n);
void buf_add_i64(struct buf *buf, int64_t n);
void buf_addf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vaddf(struct buf *buf, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
char *buf_reserve(struct buf *buf, size_t len); /* room for len bytes, NULL past the cap; then buf_commit */
void buf_commit(struct buf *buf, size_t len);
void buf_drop(struct buf *buf, size_t len); /* removes the first len bytes */
struct str buf_str(const struct buf *buf);
char *buf_detach(struct buf *buf, size_t *out_len); /* the caller frees with mem_free; buf is empty again */

/* Unsigned LEB128, for packed records. */
void buf_add_varint(struct buf *buf, uint64_t n);
bool str_cut_varint(struct str *rest, uint64_t *out);

#endif
