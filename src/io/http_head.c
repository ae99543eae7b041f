/* http_head: the checks of a request's line and headers that libmicrohttpd 0.9.75 doesn't make, or makes too late.
 *
 * Pure functions over bytes: what passes can't smuggle a second request, climb out of a path, or end a line.
 *
 * Refusals are filled into err in the client's words; its code decides the status. */
#include "io/http_head.h"

#include <string.h>
#include <strings.h>

#include "text/json.h"

/* RFC 9110 tchar, one bit per byte. */
static const uint32_t token_bits[8] = { 0, 0x3ff6cfa, 0xc7fffffe, 0x57ffffff, 0, 0, 0, 0 };

bool http_is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (!(token_bits[c >> 5] >> (c & 31) & 1))
            return false;
    }
    return s.len > 0;
}

static bool value_is_clean(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool str_is(struct str s, const char *lower, size_t len)
{
    return s.len == len && strncasecmp(s.ptr, lower, len) == 0;
}
#define STR_IS(s, literal) str_is((s), (literal), sizeof(literal) - 1)

void http_head_add(struct http_head *head, struct str name, struct str value)
{
    head->n++;
    head->bytes += name.len + value.len + 4;
    if (!http_is_token(name) || !value_is_clean(value)) {
        head->malformed = true;
        return;
    }
    if (STR_IS(name, "host")) {
        head->n_hosts++;
    } else if (STR_IS(name, "content-length")) {
        head->n_lengths++;
        if (!str_to_u64(value, &head->length))
            head->malformed = true;
    } else if (STR_IS(name, "transfer-encoding")) {
        head->n_encodings++;
        head->chunked = STR_IS(value, "chunked");
    } else if (STR_IS(name, "content-encoding")) {
        if (!STR_IS(value, "identity"))
            head->compressed = true;
    }
}

bool http_head_check(const struct http_head *head, struct str version, struct err *err)
{
    bool modern = !str_eq(version, STR("HTTP/1.0"));
    if (head->n > HTTP_HEADERS_MAX)
        return err_set(err, ERR_headers_too_large, "the request has %u headers, at most %d are taken", head->n, HTTP_HEADERS_MAX);
    if (head->bytes > HTTP_HEADER_BYTES_MAX)
        return err_set(err, ERR_headers_too_large, "the headers have %zu bytes, at most %d are taken", head->bytes, HTTP_HEADER_BYTES_MAX);
    if (head->malformed)
        return err_set(err, ERR_bad_request, "a header has a name or a value that HTTP doesn't allow");
    if (head->n_lengths > 1)
        return err_set(err, ERR_bad_request, "the request has %u Content-Length headers", head->n_lengths);
    if (head->n_lengths > 0 && head->n_encodings > 0)
        return err_set(err, ERR_bad_request, "the request has both Content-Length and Transfer-Encoding");
    if (head->n_encodings > 1 || (head->n_encodings == 1 && (!head->chunked || !modern)))
        return err_set(err, ERR_bad_request, "the only Transfer-Encoding taken is 'chunked', once, with HTTP/1.1");
    if (head->n_hosts > 1)
        return err_set(err, ERR_bad_request, "the request has %u Host headers", head->n_hosts);
    if (modern && head->n_hosts == 0)
        return err_set(err, ERR_bad_request, "the request has no Host header");
    if (head->compressed)
        return err_set(err, ERR_unsupported_media, "the body has a Content-Encoding; send it as it is");
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool http_decode(struct arena *arena, struct str s, bool plus_is_blank, struct str *out)
{
    char *to = arena_alloc(arena, s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            if (s.len - i < 3)
                return false;
            int high = hex_value(s.ptr[i + 1]), low = hex_value(s.ptr[i + 2]);
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0')
            return false;
        to[n++] = c;
    }
    *out = (struct str){ to, n };
    return true;
}

static bool path_is_clean(struct str path, struct err *err)
{
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        if (c < ' ' || c == 0x7f || c == '\\')
            return err_set(err, ERR_bad_request, "the path holds a byte that no path has (0x%02x)", c);
    }
    struct str rest = path, part;
    while (str_cut(&rest, '/', &part))
        if (str_eq(part, STR("..")))
            return err_set(err, ERR_bad_request, "the path holds '..'");
    if (!str_is_utf8(path))
        return err_set(err, ERR_bad_request, "the path isn't UTF-8");
    return true;
}

bool http_target_parse(
    struct arena *arena, struct str method, struct str target, struct str *out_path, struct str *out_query, struct err *err)
{
    if (str_eq(target, STR("*")) && str_eq(method, STR("OPTIONS"))) {
        *out_path = STR("*");
        *out_query = (struct str){ 0 };
        return true;
    }
    if (target.len == 0 || target.ptr[0] != '/')
        return err_set(err, ERR_bad_request, "the request's target must be a path that begins with /");
    for (size_t i = 0; i < target.len; i++)
        if ((unsigned char)target.ptr[i] <= ' ' || target.ptr[i] == 0x7f || target.ptr[i] == '#')
            return err_set(
                err, ERR_bad_request, "the request's target holds a byte that must be escaped (0x%02x)", (unsigned char)target.ptr[i]);
    ptrdiff_t mark = str_index(target, '?');
    struct str path = mark < 0 ? target : str_sub(target, 0, (size_t)mark);
    struct str query = mark < 0 ? (struct str){ 0 } : str_sub(target, (size_t)mark + 1, target.len);
    struct str decoded = path;
    if (str_index(path, '%') >= 0 && !http_decode(arena, path, false, &decoded))
        return err_set(err, ERR_bad_request, "the path holds a bad %%-escape");
    if (!path_is_clean(decoded, err))
        return false;
    struct str unused;
    if (str_index(query, '%') >= 0 && !http_decode(arena, query, true, &unused))
        return err_set(err, ERR_bad_request, "the query holds a bad %%-escape");
    *out_path = decoded;
    *out_query = query;
    return true;
}

void http_problem_render(struct buf *out, const struct err *err)
{
    struct json json = json_to(out);
    json_object_begin(&json);
    json_put_z(&json, "type", "about:blank");
    json_put_z(&json, "title", err_title(err->code));
    json_put_i64(&json, "status", err_http(err->code));
    json_put_z(&json, "detail", err->text);
    json_put_z(&json, "code", err_name(err->code));
    json_object_end(&json);
}
