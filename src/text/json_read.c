/* json_read: the questions that a schema asks of an object of a request's body, and the sentences that say what is
 * wrong.
 *
 * It promises that a field without a getter is always a fault, and that values live in the caller's arena.
 * It fails by faults in err, each with the JSON pointer of the field. */
#include "text/json_read.h"

#include <string.h>

#include "base/when.h"
#include "text/json.h"
#include "text/json_node.h"
#include "text/json_value.h"

/* for JSON's own words */
static const struct node_context body = { .body = &(const struct doc_node){ .kind = NODE_NONE } };

const char *json_found(const struct doc_node *value)
{
    return node_found(&body, value);
}

bool json_read_fault(struct str text, struct err *err)
{
    json_decref(json_parse(text, NODE_DEPTH_MAX, err)); /* jansson says what is wrong with it */
    return err->code != ERR_none ? false : err_set(err, ERR_bad_json, "the document isn't strict JSON");
}

const struct doc_node *json_read_body(struct str text, struct arena *arena, struct err *err)
{
    const struct doc_node *root = json_node_body(text, (struct str){ 0 }, arena);
    if (root == NULL)
        json_read_fault(text, err);
    return root;
}

bool json_read_object(
    struct json_reader *out, const struct doc_node *value, struct str path, struct arena *arena, struct err *err)
{
    if (value == NULL || value->kind != NODE_MAPPING) {
        const char *was = value != NULL ? json_found(value) : "nothing";
        if (path.len == 0)
            return err_item(err, ERR_invalid, path, "the document must be an object, not %s", was);
        return err_item(
            err, ERR_invalid, path, "'%.*s' must be an object, not %s", STR_ARG(str_sub(path, 1, path.len)), was);
    }
    out->value = value;
    out->path = path;
    out->arena = arena;
    out->err = err;
    return node_read_begin(&out->keys, &(const struct node_context){ .arena = arena }, value, "");
}

struct str json_read_path(struct json_reader *reader, const char *key)
{
    return json_pointer_add(reader->arena, reader->path, str_of(key));
}

void json_read_end(struct json_reader *reader)
{
    for (size_t i = 0; i < reader->value->n; i++) {
        struct str key = reader->value->pairs[i].key->text;
        if (reader->keys.known[i])
            continue;
        struct str path = json_pointer_add(reader->arena, reader->path, key);
        err_item(reader->err, ERR_invalid, path, "unknown field '%.*s'", STR_ARG(key));
        struct str near = str_closest(key, reader->keys.asked, reader->keys.n_asked);
        struct err_item *item = err_item_last(reader->err);
        if (near.len > 0 && item != NULL && str_eq(item->path, path))
            item->suggestion = str_fmt(reader->arena, "did you mean '%.*s'?", STR_ARG(near));
    }
}

const struct doc_node *json_read_any(struct json_reader *reader, const char *key)
{
    return node_read_any(&reader->keys, key);
}

bool json_read_need(struct json_reader *reader, const char *key, const char *more)
{
    return json_read_any(reader, key) != NULL ||
           err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' is required%s", key, more);
}

static bool fault(struct json_reader *reader, const char *key, const struct doc_node *value, const char *wanted)
{
    return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' must be %s, not %s", key, wanted,
        json_found(value));
}

/* string_read: the text of a string field, still inside the body. */
static bool string_read(struct json_reader *reader, const char *key, const char *wanted, struct str *out)
{
    const struct doc_node *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (!node_is_text(value, out))
        return fault(reader, key, value, wanted);
    if (str_index(*out, '\0') >= 0)
        return err_item(
            reader->err, ERR_invalid, json_read_path(reader, key), "'%s' must not contain a NUL character", key);
    return true;
}

bool json_read_str(struct json_reader *reader, const char *key, size_t len_max, struct str *out)
{
    struct str s;
    if (!string_read(reader, key, "a string", &s))
        return false;
    if (s.len > len_max)
        return err_item(
            reader->err, ERR_invalid, json_read_path(reader, key), "'%s' is longer than %zu bytes", key, len_max);
    *out = str_dup(reader->arena, s);
    return true;
}

bool json_read_i64(struct json_reader *reader, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const struct doc_node *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    int64_t n;
    if (!node_is_whole(value, &n))
        return fault(reader, key, value, "a whole number");
    if (n < min || n > max)
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key),
            "'%s' must be from %lld to %lld, not %lld", key, (long long)min, (long long)max, (long long)n);
    *out = n;
    return true;
}

bool json_read_bool(struct json_reader *reader, const char *key, bool *out)
{
    const struct doc_node *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    return node_is_bool(value, out) || fault(reader, key, value, "true or false");
}

/* form_read: a string that `parse` understands. */
static bool form_read(struct json_reader *reader, const char *key, const char *wanted,
    bool (*parse)(struct str s, int64_t *out), int64_t *out)
{
    struct str s;
    if (!string_read(reader, key, wanted, &s))
        return false;
    return parse(s, out) || err_item(reader->err, ERR_invalid, json_read_path(reader, key),
                                "'%s' must be %s, not \"%.*s\"", key, wanted, STR_ARG(str_sub(s, 0, 64)));
}

bool json_read_time(struct json_reader *reader, const char *key, int64_t *out_ms)
{
    return form_read(reader, key, "a time such as \"2026-11-15T05:46:00Z\" (RFC 3339)", when_parse, out_ms);
}

bool json_read_duration(struct json_reader *reader, const char *key, int64_t *out_ms)
{
    return form_read(
        reader, key, "a duration with a unit, such as \"90s\", \"15m\", \"2h\" or \"7d\"", duration_parse, out_ms);
}

bool json_read_array(struct json_reader *reader, const char *key, size_t n_max, const struct doc_node **out)
{
    const struct doc_node *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (value->kind != NODE_SEQUENCE)
        return fault(reader, key, value, "an array");
    if (value->n > n_max)
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key),
            "'%s' has %zu items; at most %zu are taken", key, value->n, n_max);
    *out = value;
    return true;
}

bool json_read_child(struct json_reader *reader, const char *key, struct json_reader *out)
{
    const struct doc_node *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (value->kind != NODE_MAPPING)
        return fault(reader, key, value, "an object");
    return json_read_object(out, value, json_read_path(reader, key), reader->arena, reader->err);
}
