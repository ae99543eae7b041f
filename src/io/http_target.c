/* http_target: what a request asks for: "/a%20b?q=1" split, decoded and judged (see http_target.h).
 *
 * Pure functions over bytes: what passes can't climb out of a path, hide a NUL, or end a line.
 *
 * Refusals are filled into err in the client's words. */
#include "io/http_target.h"

#include <string.h>

#include "text/json.h"

bool http_decode(struct arena *arena, struct str s, bool plus_is_blank, struct str *out)
{
    char *to = arena_alloc(arena, s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            if (s.len - i < 3)
                return false;
            int high = hex_digit(s.ptr[i + 1]), low = hex_digit(s.ptr[i + 2]);
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
        if (c < ' ' || c == 0x7f)
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

bool http_target_parse(struct arena *arena, struct str method, struct str target, struct str *out_path,
    struct str *out_query, struct err *err)
{
    if (str_eq(target, STR("*")) && str_eq(method, STR("OPTIONS"))) {
        *out_path = STR("*");
        *out_query = (struct str){ 0 };
        return true;
    }
    if (target.len == 0 || target.ptr[0] != '/')
        return err_set(err, ERR_bad_request, "the request's target must be a path that begins with /");
    for (size_t i = 0; i < target.len; i++)
        if ((unsigned char)target.ptr[i] <= ' ' || target.ptr[i] == 0x7f || target.ptr[i] == '#' ||
            target.ptr[i] == '\\')
            return err_set(err, ERR_bad_request, "the request's target holds a byte that must be escaped (0x%02x)",
                (unsigned char)target.ptr[i]);
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
