/* http_target: a request's target, decoded and judged, and how a refusal looks; pure. */
#ifndef WEIR_IO_HTTP_TARGET_H
#define WEIR_IO_HTTP_TARGET_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { HTTP_PARAMS_MAX = 100 };

/* http_target_parse: splits and decodes "/a%20b?q=1"; a path with escapes is decoded into the arena, others stay where
 * they are; the query stays encoded (but is known to decode). */
bool http_target_parse(struct arena *arena, struct str method, struct str target, struct str *out_path,
    struct str *out_query, struct err *err);

/* http_decode: percent-decoding into the arena; false: a bad escape or a NUL. */
bool http_decode(struct arena *arena, struct str s, bool plus_is_blank, struct str *out);

/* http_problem_render: appends {"type","title","status","detail","code"}. */
void http_problem_render(struct buf *out, const struct err *err);

#endif
