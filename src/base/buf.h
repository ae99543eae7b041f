/* buf: bytes that grow up to a cap given at birth.
 *
 * A piece that doesn't fit isn't added and sets `full`, after which nothing is added at all (no holes) until buf_reset:
 * check it once at the end. The zero value is an empty buffer with cap 0 (adds nothing), so buf_init is required.
 * Content is kept NUL-terminated once something, even an empty piece, was added (the NUL isn't counted). A cap of
 * SIZE_MAX means: none. */
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
void buf_release(struct buf *buf); /* gives memory back; empty again, with the same cap */
void buf_reset(struct buf *buf);   /* empty again, memory kept */
void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_add_str(struct buf *buf, struct str s);
void buf_add_z(struct buf *buf, const char *z);
void buf_add_char(struct buf *buf, char c);
void buf_add_u64(struct buf *buf, uint64_t n);
void buf_add_i64(struct buf *buf, int64_t n);
struct i64_text {
    char z[24];
};
struct i64_text i64_format(int64_t n); /* in decimal; snprintf costs ten times as much */
void buf_addf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vaddf(struct buf *buf, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
char *buf_reserve(struct buf *buf, size_t len); /* room for len bytes; NULL and full past the cap; then buf_commit */
void buf_commit(struct buf *buf, size_t len);
void buf_drop(struct buf *buf, size_t len); /* removes the first len bytes */
struct str buf_str(const struct buf *buf);
struct arena;
/* buf_move: the content copied into the arena; the memory of the buf is given back. */
struct str buf_move(struct buf *buf, struct arena *arena);

/* Unsigned LEB128, for packed records. str_cut_varint refuses what isn't the shortest form, and leaves *rest alone
 * then. */
void buf_add_varint(struct buf *buf, uint64_t n);
bool str_cut_varint(struct str *rest, uint64_t *out);

#endif
