/* json_value: JSON text to jansson's values and back, strictly: duplicates refused, numbers exact. It fails by faults
 * in err with line and column, or, for a number that nothing can hold, with its JSON pointer. */
#include "text/json_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/when.h"
#include "text/diag.h"
#include "text/json.h"

enum { NESTING_MAX = 64 }; /* pointer_at: deeper documents are refused before */

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
    struct diag_file file = { .text = bytes };
    struct diag_place place = diag_place_at(&file, at);
    return parse_fault(err, place.line, place.column, text);
}

/* nul_check: jansson skips a NUL byte after a number or a word, so it must not get to see one. */
static bool nul_check(struct str bytes, struct err *err)
{
    const char *nul = memchr(bytes.ptr, '\0', bytes.len);
    return nul == NULL || place_fault(err, bytes, (size_t)(nul - bytes.ptr), "a NUL byte isn't allowed");
}

/* depth_check: counts brackets outside strings before anything is parsed, so that deep nesting costs neither memory nor
 * stack. */
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
    struct frame {
        bool array, key_next;
        size_t index;
        struct str key;
    } frames[NESTING_MAX + 1] = { 0 };
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

struct json_field {
    struct str key;
    const json_t *value;
};

static struct json_field *fields_list(const json_t *value, struct arena *arena, size_t *out_n)
{
    struct json_field *fields = ARENA_ARRAY(arena, struct json_field, json_object_size(value));
    size_t n = 0;
    /* jansson's iterators want a value that isn't const, though these change nothing */
    union {
        const json_t *in;
        json_t *plain;
    } object = { .in = value };
    for (void *at = json_object_iter(object.plain); at != NULL; at = json_object_iter_next(object.plain, at), n++) {
        fields[n].key = (struct str){ json_object_iter_key(at), json_object_iter_key_len(at) };
        fields[n].value = json_object_iter_value(at);
    }
    *out_n = n;
    return fields;
}

static int field_compare(const void *a, const void *b)
{
    const struct json_field *x = a, *y = b;
    return str_cmp(x->key, y->key);
}

/* real_add: the shortest of 15, 16 or 17 digits that reads back as the same number, always with a point or an exponent.
 */
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
    return buf_move(&text, arena);
}
