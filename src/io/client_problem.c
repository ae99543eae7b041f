/* client_problem: answers that refuse (problem+json) as an err; percent-encoding of the parts of a path. */
#include "io/client.h"
#include "text/json_value.h"

static enum err_code problem_code(int status)
{
    for (int code = ERR_none + 1; code < ERR_COUNT; code++)
        if (err_http((enum err_code)code) == status)
            return (enum err_code)code;
    return status >= 500 ? ERR_internal : ERR_bad_request;
}

static struct str problem_text(struct arena *arena, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return (struct str){ 0 };
    struct str text = { json_string_value(value), json_string_length(value) };
    return arena ? str_dup(arena, text) : text;
}

static unsigned problem_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
    return n > 0 && n < INT32_MAX ? (unsigned)n : 0;
}

static void problem_items(const json_t *errors, struct err *err)
{
    size_t i;
    json_t *fault;
    json_array_foreach (errors, i, fault) {
        if (!json_is_object(fault))
            continue;
        struct str message = problem_text(err->arena, fault, "message");
        err_item(err, err->code, problem_text(err->arena, fault, "path"), "%.*s", STR_ARG(message));
        struct err_item *item = err_item_last(err);
        if (!item)
            return;
        item->file = problem_text(err->arena, fault, "file");
        item->line = problem_number(fault, "line");
        item->column = problem_number(fault, "column");
        item->suggestion = problem_text(err->arena, fault, "suggestion");
    }
}

void client_problem(const struct client_response *response, struct err *err)
{
    enum err_code code = problem_code(response->status);
    struct err parse = { .arena = err->arena };
    json_t *problem = response->body.len > 0 ? json_parse(buf_str(&response->body), 16, &parse) : NULL;
    if (!json_is_object(problem)) {
        json_decref(problem);
        err_set(err, code, "the server answered with status %d", response->status);
        return;
    }
    enum err_code named = err_find(problem_text(NULL, problem, "code"));
    struct str text = problem_text(NULL, problem, "detail");
    if (text.len == 0)
        text = problem_text(NULL, problem, "title");
    if (text.len == 0)
        text = STR("the server gave no reason");
    err_set(err, named != ERR_none ? named : code, "%.*s", STR_ARG(text));
    const json_t *expected = json_object_get(problem, "expected");
    if (json_is_integer(expected))
        err->expected = json_integer_value(expected);
    if (err->arena)
        problem_items(json_object_get(problem, "errors"), err);
    json_decref(problem);
}

struct str client_encode(struct arena *arena, struct str part)
{
    static const char hex[] = "0123456789ABCDEF";
    char *out = arena_array(arena, 3, part.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < part.len; i++) {
        unsigned char c = (unsigned char)part.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~';
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    return (struct str){ out, n };
}
