/* http_chunked: a body in chunks, read as it comes, and written. Pure, as http_head is: the same bytes in other pieces
 * give the same.
 *
 * Strict: plain hexadecimal sizes, CR LF, extensions of a length that means something; trailers must be headers, and
 * are dropped. */
#ifndef WEIR_IO_HTTP_CHUNKED_H
#define WEIR_IO_HTTP_CHUNKED_H

#include "base/buf.h"
#include "io/http_head.h"

enum { HTTP_CHUNK_LINE_MAX = 256, HTTP_TRAILER_BYTES_MAX = 8 * 1024 };

struct http_chunked { /* zero: at the beginning */
    uint8_t state;
    uint32_t line; /* bytes of the size's line, or of the trailers */
    uint64_t left; /* bytes of the chunk that are still to come */
};

/* http_chunked_read: takes *out_used of the bytes, up to and with one piece of the body (empty: none was reached).
 * HTTP_MORE: go on with the rest, or wait for more. chunked->left has the announced size as soon as it is read.
 * HTTP_BAD: err says why. */
enum http_step http_chunked_read(struct http_chunked *chunked, const char *bytes, size_t len, size_t *out_used,
    struct str *out_piece, struct err *err);

/* Writing: a chunk is opened with room for its size, filled with buf_add, and closed, which fills the size in. *open:
 * where it begins, SIZE_MAX: none is open. Closing an empty chunk removes it: on the wire it would end the body. */
void http_chunk_open(struct buf *out, size_t *open);
void http_chunk_close(struct buf *out, size_t *open);
#define HTTP_CHUNK_LAST "0\r\n\r\n"

#endif
