/* http_head: what a request's line and headers must look like; no sockets, no library. Private to http.c and its tests. */
#ifndef WEIR_IO_HTTP_HEAD_H
#define WEIR_IO_HTTP_HEAD_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { HTTP_LINE_MAX = 16 * 1024, HTTP_HEADERS_MAX = 100, HTTP_HEADER_BYTES_MAX = 64 * 1024, HTTP_PARAMS_MAX = 100 };

/* The headers that decide about framing, gathered one by one. */
struct http_head {
    unsigned n, n_lengths, n_encodings, n_hosts;
    size_t bytes;
    uint64_t length;
    bool chunked, compressed, malformed;
};
void http_head_add(struct http_head *head, struct str name, struct str value);

/* http_head_check: false and err when the request must be refused. version: "HTTP/1.1". */
bool http_head_check(const struct http_head *head, struct str version, struct err *err);

bool http_is_token(struct str s);

/* http_target_parse: splits and decodes "/a%20b?q=1"; the path lives in the arena, the query stays encoded (but is known to decode). */
bool http_target_parse(
    struct arena *arena, struct str method, struct str target, struct str *out_path, struct str *out_query, struct err *err);

/* http_decode: percent-decoding into the arena; false: a bad escape or a NUL. */
bool http_decode(struct arena *arena, struct str s, bool plus_is_blank, struct str *out);

/* http_problem_render: appends {"type","title","status","detail","code"}. */
void http_problem_render(struct buf *out, const struct err *err);

#endif
