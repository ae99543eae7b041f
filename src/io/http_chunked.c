/* http_chunked: reader and writer of bodies in chunks (see http_chunked.h).
 *
 * The reader is a table of states as in http_head; the pieces it gives are views of what it was given.
 *
 * Refusals are filled into err in the client's words. */
#include "io/http_chunked.h"

#include <string.h>

enum chunk_state {
    CHUNK_SIZE_FIRST,
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_BYTES,
    CHUNK_CR,
    CHUNK_LF,
    TRAILER_FIRST,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    CHUNK_END_LF,
    CHUNK_DONE
};

enum { SIZE_DIGITS = 8, SIZE_DIGITS_READ_MAX = 15 };

static bool fault(struct err *err)
{
    return err_set(err, ERR_bad_request, "the chunks of the body are broken");
}

static bool goes(struct http_chunked *chunked, char c, char wanted, enum chunk_state next, struct err *err)
{
    if (c != wanted)
        return fault(err);
    chunked->state = (uint8_t)next;
    return true;
}

static bool read_size_first(struct http_chunked *chunked, char c, struct err *err)
{
    if (hex_digit(c) < 0)
        return err_set(err, ERR_bad_request, "a chunk's size isn't a hexadecimal number");
    chunked->left = (uint64_t)hex_digit(c);
    chunked->line = 1;
    chunked->state = CHUNK_SIZE;
    return true;
}

static bool read_size(struct http_chunked *chunked, char c, struct err *err)
{
    int digit = hex_digit(c);
    if (digit >= 0) {
        if (++chunked->line > SIZE_DIGITS_READ_MAX)
            return err_set(err, ERR_bad_request, "a chunk's size has more than %d digits", SIZE_DIGITS_READ_MAX);
        chunked->left = chunked->left << 4 | (uint64_t)digit;
        return true;
    }
    if (c == ';') {
        chunked->state = CHUNK_EXTENSION;
        return true;
    }
    if (c != '\r')
        return err_set(err, ERR_bad_request, "a chunk's size isn't a hexadecimal number");
    chunked->state = CHUNK_SIZE_LF;
    return true;
}

static bool read_extension(struct http_chunked *chunked, char c, struct err *err)
{
    if (c == '\r') {
        chunked->state = CHUNK_SIZE_LF;
        return true;
    }
    if (!http_byte_is(c, HTTP_BYTE_VALUE))
        return fault(err);
    if (++chunked->line > HTTP_CHUNK_LINE_MAX)
        return err_set(err, ERR_bad_request, "a chunk's size and extensions are over %d bytes", HTTP_CHUNK_LINE_MAX);
    return true;
}

static bool read_size_lf(struct http_chunked *chunked, char c, struct err *err)
{
    chunked->line = 0;
    return goes(chunked, c, '\n', chunked->left > 0 ? CHUNK_BYTES : TRAILER_FIRST, err);
}

static bool read_cr(struct http_chunked *chunked, char c, struct err *err)
{
    return goes(chunked, c, '\r', CHUNK_LF, err);
}

static bool read_lf(struct http_chunked *chunked, char c, struct err *err)
{
    return goes(chunked, c, '\n', CHUNK_SIZE_FIRST, err);
}

static bool trailer_fits(struct http_chunked *chunked, struct err *err)
{
    if (++chunked->line > HTTP_TRAILER_BYTES_MAX)
        return err_set(err, ERR_headers_too_large, "the trailers are over %d bytes", HTTP_TRAILER_BYTES_MAX);
    return true;
}

static bool read_trailer_first(struct http_chunked *chunked, char c, struct err *err)
{
    if (c == '\r') {
        chunked->state = CHUNK_END_LF;
        return true;
    }
    if (!http_byte_is(c, HTTP_BYTE_TOKEN))
        return fault(err);
    chunked->state = TRAILER_NAME;
    return trailer_fits(chunked, err);
}

static bool read_trailer_name(struct http_chunked *chunked, char c, struct err *err)
{
    if (c == ':')
        chunked->state = TRAILER_VALUE;
    else if (!http_byte_is(c, HTTP_BYTE_TOKEN))
        return fault(err);
    return trailer_fits(chunked, err);
}

static bool read_trailer_value(struct http_chunked *chunked, char c, struct err *err)
{
    if (c == '\r')
        chunked->state = TRAILER_LF;
    else if (!http_byte_is(c, HTTP_BYTE_VALUE))
        return fault(err);
    return trailer_fits(chunked, err);
}

static bool read_trailer_lf(struct http_chunked *chunked, char c, struct err *err)
{
    return goes(chunked, c, '\n', TRAILER_FIRST, err);
}

static bool read_end_lf(struct http_chunked *chunked, char c, struct err *err)
{
    return goes(chunked, c, '\n', CHUNK_DONE, err);
}

static bool (*const states[])(struct http_chunked *chunked, char c, struct err *err) = {
    [CHUNK_SIZE_FIRST] = read_size_first,
    [CHUNK_SIZE] = read_size,
    [CHUNK_EXTENSION] = read_extension,
    [CHUNK_SIZE_LF] = read_size_lf,
    [CHUNK_BYTES] = NULL, /* many bytes at once: below */
    [CHUNK_CR] = read_cr,
    [CHUNK_LF] = read_lf,
    [TRAILER_FIRST] = read_trailer_first,
    [TRAILER_NAME] = read_trailer_name,
    [TRAILER_VALUE] = read_trailer_value,
    [TRAILER_LF] = read_trailer_lf,
    [CHUNK_END_LF] = read_end_lf,
};
_Static_assert(sizeof states / sizeof *states == CHUNK_DONE, "every state reads");

enum http_step http_chunked_read(struct http_chunked *chunked, const char *bytes, size_t len, size_t *out_used,
    struct str *out_piece, struct err *err)
{
    *out_piece = (struct str){ 0 };
    *out_used = 0;
    for (size_t at = 0; at < len && chunked->state != CHUNK_DONE;) {
        if (chunked->state == CHUNK_BYTES) {
            size_t n = len - at < chunked->left ? len - at : (size_t)chunked->left;
            *out_piece = (struct str){ bytes + at, n };
            *out_used = at + n;
            chunked->left -= n;
            if (chunked->left == 0)
                chunked->state = CHUNK_CR;
            return HTTP_MORE;
        }
        if (!states[chunked->state](chunked, bytes[at], err))
            return HTTP_BAD;
        *out_used = ++at;
        if (chunked->state == CHUNK_BYTES)
            return HTTP_MORE; /* the caller sees what is announced before it comes */
    }
    return chunked->state == CHUNK_DONE ? HTTP_DONE : HTTP_MORE;
}

void http_chunk_open(struct buf *out, size_t *open)
{
    if (*open != SIZE_MAX)
        return;
    *open = out->len;
    buf_add(out, "00000000\r\n", SIZE_DIGITS + 2);
}

void http_chunk_close(struct buf *out, size_t *open)
{
    if (*open == SIZE_MAX)
        return;
    size_t at = *open, n = out->len - at - SIZE_DIGITS - 2;
    *open = SIZE_MAX;
    if (out->full)
        return;
    if (n == 0) {
        out->len = at;
        return;
    }
    for (int i = SIZE_DIGITS - 1; i >= 0; i--, n >>= 4)
        out->ptr[at + (size_t)i] = "0123456789abcdef"[n & 15];
    buf_add(out, "\r\n", 2);
}
