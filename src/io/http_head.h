/* http_head: a request's head, read byte by byte as it comes: what passes is HTTP/1.1 to the letter. Pure: no sockets,
 * no allocation.
 *
 * http_head_begin, then http_head_read again and again with all the bytes there are so far, from the request's first
 * one on. No byte is read twice, and nothing is copied: places are offsets into those
 * bytes, which may move between two calls. A fault is found at the byte that makes it one, so in which pieces the bytes
 * came makes no difference.
 *
 * Refused: lines that don't end with CR LF, folded lines, blanks before a colon, control characters, names that are no
 * tokens, what leaves two opinions about the body's end (Content-Length twice, or beside Transfer-Encoding, or not a
 * plain number), transfer codings other than chunked, a Host that is missing, doubled or no host, a packed body, what
 * is over a limit. */
#ifndef WEIR_IO_HTTP_HEAD_H
#define WEIR_IO_HTTP_HEAD_H

#include "base/err.h"

enum {
    HTTP_METHOD_MAX = 32,
    HTTP_LINE_MAX = 16 * 1024,
    HTTP_HEADERS_MAX = 100,
    HTTP_HEADER_BYTES_MAX = 64 * 1024,
    /* bytes that a head can have before it is refused, or done */
    HTTP_HEAD_MAX = 2 + HTTP_LINE_MAX + 2 + HTTP_HEADER_BYTES_MAX + 4
};

enum http_step { HTTP_MORE, HTTP_DONE, HTTP_BAD };

struct http_field {
    uint32_t name_at, name_len, value_at, value_len;
};

struct http_head {
    uint8_t state;
    uint8_t major, minor; /* of the version */
    uint32_t at;          /* bytes read; when done: the head's length */
    uint32_t line_at, mark, fields_at;
    uint32_t method_len, target_at, target_len; /* the method begins at line_at */
    uint32_t n_fields;
    bool has_length, chunked, has_host, compressed, close, expects_continue;
    uint64_t length; /* Content-Length */
    struct http_field fields[HTTP_HEADERS_MAX];
};

void http_head_begin(struct http_head *head);

/* http_head_read: HTTP_BAD with err filled in the client's words (its code decides the status): nothing behind may be
 * read. */
enum http_step http_head_read(struct http_head *head, const char *bytes, size_t len, struct err *err);

struct str http_head_method(const struct http_head *head, const char *bytes); /* empty: not read yet */
struct str http_head_target(const struct http_head *head, const char *bytes);
/* the first one's value; empty: none */
struct str http_head_find(const struct http_head *head, const char *bytes, struct str name);

/* What a byte may stand in: a token (RFC 9110 tchar), a header's value, a request's target. */
enum http_byte { HTTP_BYTE_TOKEN = 1, HTTP_BYTE_VALUE = 2, HTTP_BYTE_TARGET = 4 };
extern const uint8_t http_bytes[256];

static inline bool http_byte_is(char c, enum http_byte kind)
{
    return http_bytes[(unsigned char)c] & kind;
}

#endif
