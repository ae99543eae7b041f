/* json_read: strict JSON in, field by field, with every fault of the document in one go.
 *
 * jansson parses (duplicates refused, numbers exact); this file owns the questions that a schema asks of an object and the sentences that
 * say what is wrong. It promises that a field nobody asked for never passes unseen, and that what it hands out lives in the arena given.
 * It fails by faults in err, each with the JSON pointer of the field. */
#include "text/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/when.h"
#include "text/json.h"

enum { NESTING_MAX = 64 };  /* pointer_at: deeper documents are refused before */


#define TEXT_BYTES_MAX ((size_t)1 << 30) /* json_text: more than any body that is taken can become */

static bool parse_fault(struct err *err, unsigned line, unsigned column, const char *text)
{
    err_set(err, ERR_bad_json, "line %u, column %u: %s", line, column, text);
    if (err->arena != NULL) {
        err_item(err, ERR_bad_json, (struct str){ 0 }, "%s", text);
        struct err_item *item = err_item_last(err);
        if (item != NULL) {
            item->line = line;
            item->column = column;
        }
    }
    return false;
}

/* place_fault: a fault at byte `at`. */
static bool place_fault(struct err *err, struct str bytes, size_t at, const char *text)
{
    struct str before = str_sub(bytes, 0, at);
    unsigned line = 1;
    for (size_t i = 0; i < at; i++)
        line += before.ptr[i] == '\n';
    size_t column = str_chars(str_sub(before, (size_t)(str_rindex(before, '\n') + 1), at)) + 1;
    return parse_fault(err, line, (unsigned)column, text);
}

/* nul_check: jansson skips a NUL byte after a number or a word, so it must not get to see one. */
static bool nul_check(struct str bytes, struct err *err)
{
    const char *nul = memchr(bytes.ptr, '\0', bytes.len);
    return nul == NULL || place_fault(err, bytes, (size_t)(nul - bytes.ptr), "a NUL byte isn't allowed");
}

/* depth_check: counts brackets outside strings before anything is parsed, so that deep nesting costs neither memory nor stack. */
static bool depth_check(struct str bytes, unsigned depth_max, struct err *err)
{
    unsigned depth = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.ptr[i];
        if (c == '"') {
            for (i++; i < bytes.len && bytes.ptr[i] != '"'; i++)
                i += bytes.ptr[i] == '\\';
        } else if (c == '[' || c == '{') {
            if (++depth <= depth_max)
                continue;
            return place_fault(err, bytes, i, "the document is nested too deeply");
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return true;
}

/* pointer_at: the JSON pointer of the value that stands at byte `at` of a document that is good JSON up to there. */
static struct str pointer_at(struct arena *arena, struct str bytes, size_t at)
{
    struct frame { bool array, key_next; size_t index; struct str key; } frames[NESTING_MAX + 1] = { 0 };
    size_t depth = 0;
    for (size_t i = 0; i < at && depth < NESTING_MAX; i++) {
        char c = bytes.ptr[i];
        struct frame *frame = &frames[depth];
        if (c == '"') {
            size_t from = ++i;
            for (; i < at && bytes.ptr[i] != '"'; i++)
                i += bytes.ptr[i] == '\\';
            if (frame->key_next)
                frame->key = str_sub(bytes, from, i);
        } else if (c == '{' || c == '[') {
            frames[++depth] = (struct frame){ .array = c == '[', .key_next = c == '{' };
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else if (c == ':' || c == ',') {
            frame->key_next = c == ',' && !frame->array;
            frame->index += c == ',';
        }
    }
    struct str path = { 0 };
    for (size_t d = 1; d <= depth; d++)
        path = frames[d].array ? str_fmt(arena, "%.*s/%zu", STR_ARG(path), frames[d].index)
                               : json_pointer_add(arena, path, frames[d].key);
    return path;
}

/* number_fault: it is JSON, but nothing here can hold that number. */
static void number_fault(struct err *err, struct str bytes, const json_error_t *why)
{
    size_t at = why->position > 0 && (size_t)why->position <= bytes.len ? (size_t)why->position - 1 : 0;
    if (err->arena == NULL) {
        err_set(err, ERR_invalid, "line %d: %s", why->line, why->text);
        return;
    }
    err_item(err, ERR_invalid, pointer_at(err->arena, bytes, at), "the number is too large");
    struct err_item *item = err_item_last(err);
    if (item != NULL) {
        item->line = (unsigned)why->line;
        item->column = (unsigned)why->column;
    }
}

json_t *json_parse(struct str bytes, unsigned depth_max, struct err *err)
{
    if (bytes.len == 0) {
        parse_fault(err, 1, 1, "the document is empty");
        return NULL;
    }
    if (!nul_check(bytes, err) || !depth_check(bytes, depth_max, err))
        return NULL;
    json_error_t why;
    json_t *value = json_loadb(bytes.ptr, bytes.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (value == NULL && json_error_code(&why) == json_error_numeric_overflow)
        number_fault(err, bytes, &why);
    else if (value == NULL)
        parse_fault(err, why.line > 0 ? (unsigned)why.line : 1, why.column > 0 ? (unsigned)why.column : 1, why.text);
    return value;
}

static const char *type_words(const json_t *value)
{
    static const char *const words[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number with a fraction", [JSON_TRUE] = "true", [JSON_FALSE] = "false", [JSON_NULL] = "null",
    };
    return words[json_typeof(value)];
}

static struct json_field *fields_list(const json_t *value, struct arena *arena, size_t *out_n)
{
    struct json_field *fields = ARENA_ARRAY(arena, struct json_field, json_object_size(value));
    size_t n = 0;
    /* jansson's iterators want a value that isn't const, though these change nothing */
    union { const json_t *in; json_t *plain; } object = { .in = value };
    for (void *at = json_object_iter(object.plain); at != NULL; at = json_object_iter_next(object.plain, at), n++) {
        fields[n].key = (struct str){ json_object_iter_key(at), json_object_iter_key_len(at) };
        fields[n].value = json_object_iter_value(at);
    }
    *out_n = n;
    return fields;
}

bool json_read_object(struct json_reader *out, const json_t *value, struct str path, struct arena *arena, struct err *err)
{
    if (!json_is_object(value)) {
        const char *was = value != NULL ? type_words(value) : "nothing";
        if (path.len == 0)
            return err_item(err, ERR_invalid, path, "the document must be an object, not %s", was);
        return err_item(err, ERR_invalid, path, "'%.*s' must be an object, not %s", STR_ARG(str_sub(path, 1, path.len)), was);
    }
    out->value = value;
    out->path = path;
    out->arena = arena;
    out->err = err;
    out->n_asked = 0;
    out->fields = fields_list(value, arena, &out->n_fields);
    return true;
}

struct str json_read_path(struct json_reader *reader, const char *key)
{
    return json_pointer_add(reader->arena, reader->path, str_of(key));
}

static const struct json_field *field_ask(struct json_reader *reader, const char *key)
{
    struct str name = str_of(key);
    if (reader->n_asked < sizeof reader->asked / sizeof reader->asked[0])
        reader->asked[reader->n_asked++] = name;
    for (size_t i = 0; i < reader->n_fields; i++) {
        struct json_field *field = &reader->fields[i];
        if (field->key.len == name.len && memcmp(field->key.ptr, name.ptr, name.len) == 0) {
            field->asked = true;
            return field;
        }
    }
    return NULL;
}

void json_read_end(struct json_reader *reader)
{
    for (size_t i = 0; i < reader->n_fields; i++) {
        const struct json_field *field = &reader->fields[i];
        if (field->asked)
            continue;
        struct str path = json_pointer_add(reader->arena, reader->path, field->key);
        err_item(reader->err, ERR_invalid, path, "unknown field '%.*s'", STR_ARG(field->key));
        struct str near = str_closest(field->key, reader->asked, reader->n_asked);
        struct err_item *item = err_item_last(reader->err);
        if (near.len > 0 && item != NULL && str_eq(item->path, path))
            item->suggestion = str_fmt(reader->arena, "did you mean '%.*s'?", STR_ARG(near));
    }
}

const json_t *json_read_any(struct json_reader *reader, const char *key)
{
    const struct json_field *field = field_ask(reader, key);
    return field == NULL || json_is_null(field->value) ? NULL : field->value;
}

static bool fault(struct json_reader *reader, const char *key, const json_t *value, const char *wanted)
{
    return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' must be %s, not %s", key, wanted, type_words(value));
}

/* string_read: the text of a string field, still inside the json_t. */
static bool string_read(struct json_reader *reader, const char *key, const char *wanted, struct str *out)
{
    const json_t *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (!json_is_string(value))
        return fault(reader, key, value, wanted);
    *out = (struct str){ json_string_value(value), json_string_length(value) };
    if (memchr(out->ptr, '\0', out->len) != NULL)
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' must not contain a NUL character", key);
    return true;
}

bool json_read_str(struct json_reader *reader, const char *key, size_t len_max, struct str *out)
{
    struct str s;
    if (!string_read(reader, key, "a string", &s))
        return false;
    if (s.len > len_max)
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' is longer than %zu bytes", key, len_max);
    *out = str_dup(reader->arena, s);
    return true;
}

bool json_read_i64(struct json_reader *reader, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (!json_is_integer(value))
        return fault(reader, key, value, "a whole number");
    int64_t n = json_integer_value(value);
    if (n < min || n > max)
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' must be from %lld to %lld, not %lld", key,
                        (long long)min, (long long)max, (long long)n);
    *out = n;
    return true;
}

bool json_read_bool(struct json_reader *reader, const char *key, bool *out)
{
    const json_t *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (!json_is_boolean(value))
        return fault(reader, key, value, "true or false");
    *out = json_is_true(value);
    return true;
}

bool json_read_time(struct json_reader *reader, const char *key, int64_t *out_ms)
{
    static const char wanted[] = "a time such as \"2026-11-15T05:46:00Z\" (RFC 3339)";
    struct str s;
    if (!string_read(reader, key, wanted, &s))
        return false;
    if (!when_parse(s, out_ms))
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' must be %s, not \"%.*s\"", key, wanted,
                        STR_ARG(str_sub(s, 0, 64)));
    return true;
}

bool json_read_duration(struct json_reader *reader, const char *key, int64_t *out_ms)
{
    static const char wanted[] = "a duration with a unit, such as \"90s\", \"15m\", \"2h\" or \"7d\"";
    struct str s;
    if (!string_read(reader, key, wanted, &s))
        return false;
    if (!duration_parse(s, out_ms))
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' must be %s, not \"%.*s\"", key, wanted,
                        STR_ARG(str_sub(s, 0, 64)));
    return true;
}

bool json_read_array(struct json_reader *reader, const char *key, size_t n_max, const json_t **out)
{
    const json_t *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (!json_is_array(value))
        return fault(reader, key, value, "an array");
    if (json_array_size(value) > n_max)
        return err_item(reader->err, ERR_invalid, json_read_path(reader, key), "'%s' has %zu items; at most %zu are taken", key,
                        json_array_size(value), n_max);
    *out = value;
    return true;
}

bool json_read_child(struct json_reader *reader, const char *key, struct json_reader *out)
{
    const json_t *value = json_read_any(reader, key);
    if (value == NULL)
        return false;
    if (!json_is_object(value))
        return fault(reader, key, value, "an object");
    return json_read_object(out, value, json_read_path(reader, key), reader->arena, reader->err);
}

static int field_compare(const void *a, const void *b)
{
    const struct json_field *x = a, *y = b;
    return str_cmp(x->key, y->key);
}

/* real_add: the shortest of 15, 16 or 17 digits that reads back as the same number, always with a point or an exponent. */
static void real_add(struct json *json, double n)
{
    struct buf text;
    buf_init(&text, 64);
    for (int digits = 15; digits <= 17; digits++) {
        buf_reset(&text);
        buf_addf(&text, "%.*g", digits, n);
        if (strtod(text.ptr, NULL) == n) /* NOLINT: exact on purpose */
            break;
    }
    if (memchr(text.ptr, '.', text.len) == NULL && memchr(text.ptr, 'e', text.len) == NULL)
        buf_add_z(&text, ".0");
    json_raw(json, buf_str(&text));
    buf_release(&text);
}

/* One text being made: where to, memory for sorting, and whether keys are sorted. */
struct dump {
    struct json json;
    struct arena *arena;
    bool canonical;
};

static void value_add(struct dump *dump, const json_t *value);

static void object_add(struct dump *dump, const json_t *value)
{
    size_t n = 0;
    struct json_field *fields = fields_list(value, dump->arena, &n);
    if (dump->canonical && n > 1)
        qsort(fields, n, sizeof fields[0], field_compare);
    json_object_begin(&dump->json);
    for (size_t i = 0; i < n; i++) {
        json_key_str(&dump->json, fields[i].key);
        value_add(dump, fields[i].value);
    }
    json_object_end(&dump->json);
}

/* value_add: recursion is bounded by the depth that json_parse let in. */
static void value_add(struct dump *dump, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        object_add(dump, value);
        break;
    case JSON_ARRAY:
        json_array_begin(&dump->json);
        for (size_t i = 0; i < json_array_size(value); i++)
            value_add(dump, json_array_get(value, i));
        json_array_end(&dump->json);
        break;
    case JSON_STRING:
        json_str(&dump->json, (struct str){ json_string_value(value), json_string_length(value) });
        break;
    case JSON_INTEGER:
        json_i64(&dump->json, json_integer_value(value));
        break;
    case JSON_REAL:
        real_add(&dump->json, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        json_bool(&dump->json, json_is_true(value));
        break;
    case JSON_NULL:
        json_nil(&dump->json);
        break;
    }
}

struct str json_text(struct arena *arena, const json_t *value, bool canonical)
{
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    struct dump dump = { .json = json_to(&text), .arena = arena, .canonical = canonical };
    value_add(&dump, value);
    struct str out = str_dup(arena, buf_str(&text));
    buf_release(&text);
    return out;
}
