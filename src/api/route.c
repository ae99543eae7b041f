/* route: which handler a method and a path belong to.
 *
 * It owns the table of route.def and the way through it: from the scope check to the handler. It fails by problem+json:
 * 404 for paths that no row has, 405 with Allow for methods that the path doesn't know, 400 for query parameters that
 * the row doesn't list. */
#include <string.h>

#include "api/call.h"

const struct route routes[] = {
#define ROUTE(method, path, scope, handler, where, body_max, params, request, response, status, summary) \
    { method, path, scope, handler, where, body_max, params, request, response, status, summary },
#include "api/route.def"
#undef ROUTE
};
const size_t n_routes = sizeof routes / sizeof routes[0];

/* Patterns taken apart once: the ends that a path must have, what stands between its parameters, and how many there
 * are. */
static struct shape {
    struct str prefix, middle, suffix;
    unsigned n_args;
    bool long_last; /* {file}: it takes slashes */
} shapes[sizeof routes / sizeof routes[0]];

static void shapes_build(void)
{
    for (size_t i = 0; i < n_routes; i++) {
        struct shape *shape = &shapes[i];
        const char *pattern = routes[i].path, *open = strchr(pattern, '{');
        shape->prefix = open != NULL ? (struct str){ pattern, (size_t)(open - pattern) } : str_of(pattern);
        if (open == NULL)
            continue;
        const char *close = strchr(open, '}') + 1, *second = strchr(close, '{');
        shape->n_args = second != NULL ? 2 : 1;
        if (second != NULL) {
            shape->middle = (struct str){ close, (size_t)(second - close) };
            close = strchr(second, '}') + 1;
        }
        shape->suffix = str_of(close);
        shape->long_last = strncmp(close - 6, "{file}", 6) == 0;
    }
}

/* A parameter is one part of the path, not empty; a slash may only stand inside the brackets of a variant. No name but
 * a file's has a backslash. */
static bool arg_good(struct str arg)
{
    ptrdiff_t first = str_index(arg, '/'), last = str_rindex(arg, '/'), open_at = str_index(arg, '['),
              close_at = str_rindex(arg, ']');
    return arg.len > 0 && str_index(arg, '\\') < 0 &&
           (first < 0 || (open_at >= 0 && open_at < first && last < close_at));
}

static bool path_match(const struct shape *shape, struct str path, struct str out_args[ROUTE_ARGS])
{
    struct str prefix = shape->prefix, middle = shape->middle;
    if (shape->n_args == 0)
        return path.len == prefix.len && memcmp(path.ptr, prefix.ptr, path.len) == 0;
    if (path.len <= prefix.len + shape->suffix.len || !str_starts(path, prefix) || !str_ends(path, shape->suffix))
        return false;
    struct str rest = str_sub(path, prefix.len, path.len - shape->suffix.len);
    if (shape->n_args == 1) {
        out_args[0] = rest;
        return arg_good(rest);
    }
    for (size_t from = 0; from < rest.len;) { /* the first place where what is before it can be a parameter */
        const char *at = memmem(rest.ptr + from, rest.len - from, middle.ptr, middle.len);
        if (at == NULL)
            return false;
        from = (size_t)(at - rest.ptr) + 1;
        out_args[0] = (struct str){ rest.ptr, (size_t)(at - rest.ptr) };
        out_args[1] = str_sub(rest, out_args[0].len + middle.len, rest.len);
        bool cut = str_index(out_args[0], '[') > str_rindex(out_args[0], ']'); /* in the middle of a variant */
        if (!cut && arg_good(out_args[0]) && (shape->long_last ? out_args[1].len > 0 : arg_good(out_args[1])))
            return true;
    }
    return false;
}

static bool method_match(const char *has, struct str asked)
{
    return str_eqz(asked, has) || (str_eqz(asked, "HEAD") && strcmp(has, "GET") == 0);
}

const struct route *route_find(
    struct str method, struct str path, struct str out_args[ROUTE_ARGS], struct buf *out_allow)
{
    const struct route *found = NULL;
    if (shapes[0].prefix.ptr == NULL)
        shapes_build();
    for (size_t i = 0; i < n_routes && found == NULL; i++) {
        struct str args[ROUTE_ARGS] = { { 0 }, { 0 } };
        if (!path_match(&shapes[i], path, args))
            continue;
        if (method_match(routes[i].method, method)) {
            memcpy(out_args, args, sizeof args);
            found = &routes[i];
        } else if (out_allow != NULL) {
            buf_addf(out_allow, "%s%s", out_allow->len > 0 ? ", " : "", routes[i].method);
        }
    }
    return found;
}

bool api_body_waits(struct str method, struct str path, void *owner)
{
    (void)owner;
    struct str args[ROUTE_ARGS];
    const struct route *route = route_find(method, path, args, NULL);
    return route != NULL && route->body_max == BODY_IN_FILE;
}

size_t api_body_limit(struct str method, struct str path, void *owner)
{
    struct str args[ROUTE_ARGS];
    const struct route *route = route_find(method, path, args, NULL);
    if (route != NULL && route->body_max == BODY_IN_FILE)
        return submission_bytes_max(owner);
    return route == NULL || route->body_max == 0 ? MIB : route->body_max;
}

static bool word_listed(const char *list, struct str word)
{
    struct str rest = str_of(list), head;
    while (str_cut(&rest, ' ', &head))
        if (str_eq(head, word))
            return true;
    return false;
}

/* params_check: what a route doesn't know is refused, so that a misspelt filter never shows more than was asked for. */
static bool params_check(struct call *call)
{
    if (call->request->query.len == 0)
        return true;
    struct str *names;
    size_t n = http_params(call->request, &names);
    for (size_t i = 0; i < n; i++) {
        bool waits = strcmp(call->route->method, "GET") == 0 && str_eqz(names[i], "at_least");
        if (waits || str_eqz(names[i], "tenant") || word_listed(call->route->params, names[i]))
            continue;
        err_item(&call->err, ERR_bad_request, str_dup(&call->arena, names[i]), "unknown query parameter '%.*s'",
            STR_ARG(str_sub(names[i], 0, 100)));
        struct str known[16], rest = str_of(call->route->params);
        size_t n_known = 0;
        while (n_known < 16 && str_cut(&rest, ' ', &known[n_known]))
            n_known++;
        struct str near = str_closest(names[i], known, n_known);
        struct err_item *item = err_item_last(&call->err);
        if (near.len > 0 && item != NULL)
            item->suggestion = str_fmt(&call->arena, "did you mean '%.*s'?", STR_ARG(near));
    }
    if (call->err.code == ERR_none)
        return true;
    return call_problem(call);
}

/* secret_at: "weir_" and 43 letters of base64url, or a job's token, "weirjob_" and a fence; other names may begin like
 * that. */
static bool secret_at(struct str text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    bool job = str_starts(text, STR("weirjob_"));
    size_t from = job ? 8 : 5, wanted = job ? 16 : 43, n = 0;
    if (!job && !str_starts(text, STR("weir_")))
        return false;
    while (
        from + n < text.len && n < wanted && text.ptr[from + n] != '\0' && strchr(letters, text.ptr[from + n]) != NULL)
        n++;
    return n == wanted;
}

/* A token in an address ends up in histories and logs: it is refused wherever it stands. */
bool url_has_token(struct str query)
{
    struct str rest = query, part;
    while (str_cut(&rest, '&', &part)) {
        ptrdiff_t equals = str_index(part, '=');
        if (equals >= 0 && str_ends(str_sub(part, 0, (size_t)equals), STR("token")))
            return true;
        for (size_t i = 0; i < part.len; i++)
            if (part.ptr[i] == 'w' && secret_at(str_sub(part, i, part.len)))
                return true;
    }
    return false;
}

static void refuse_path(struct call *call, const struct buf *allow)
{
    struct str path = str_sub(call->request->path, 0, 200);
    if (allow->len == 0) {
        call_refuse(call, ERR_not_found, "there is nothing at %.*s", STR_ARG(path));
        return;
    }
    err_set(&call->err, ERR_method_not_allowed, "%.*s takes %s, not %.*s", STR_ARG(path), allow->ptr,
        STR_ARG(str_sub(call->request->method, 0, 20)));
    problem_render(&call->out, &call->err);
    const char *headers[] = { "Allow", allow->ptr, NULL };
    call_answer_as(call, err_http(ERR_method_not_allowed), "application/problem+json", buf_str(&call->out), headers);
}

void api_serve(struct http_request *request, void *owner)
{
    call_serve(call_new(owner, request));
}

bool call_serve(struct call *call)
{
    const struct http_request *request = call->request;
    struct str args[ROUTE_ARGS] = { { 0 }, { 0 } };
    call->route = route_find(request->method, request->path, args, NULL);
    call->arg = args[0];
    call->arg2 = args[1];
    if ((call->route == NULL || call->route->scope != SCOPE_OPEN) && call_misses(call))
        return false;
    if (call->route == NULL) {
        struct buf allow;
        buf_init(&allow, KIB);
        route_find(request->method, request->path, args, &allow);
        if (auth_check(call)) /* so that strangers learn nothing, not even what exists */
            refuse_path(call, &allow);
        buf_release(&allow);
        return false;
    }
    if (url_has_token(request->query))
        return call_refuse(call, ERR_bad_request,
            "a token in the address is refused: it ends up in logs; send it as Authorization: Bearer, and revoke this "
            "one");
    struct str encoding = http_header(request, "Content-Encoding");
    if (encoding.len > 0 && !str_eqz(encoding, "identity"))
        return call_refuse(call, ERR_unsupported_media, "bodies are taken as they are, not with Content-Encoding: %.*s",
            STR_ARG(str_sub(encoding, 0, 40)));
    return auth_check(call) && params_check(call) && wait_for_commit(call) && call_handle(call);
}
