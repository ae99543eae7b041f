/* node: the questions that a schema asks of a document, and the sentences when the answer is wrong.
 *
 * Owns how text becomes a number, a truth value, a duration, a size or a list. It promises that every fault names its
 * place, and that a key without a getter is a fault. All memory is from the arena of the context. */
#include "text/node.h"

#include <string.h>

#include "base/when.h"
#include "text/json.h"
#include "text/json_node.h"
#include "text/yaml.h"

const struct doc_node *node_parse(const struct diag_file *file, struct arena *arena, struct diags *diags)
{
    return str_ends(file->name, STR(".json")) ? json_node_parse(file, arena, diags) : yaml_parse(file, arena, diags);
}

static bool is_one_of(struct str s, const struct str *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(s, words[i]))
            return true;
    return false;
}

static const struct str null_words[] = { { "", 0 }, { "~", 1 }, { "null", 4 }, { "Null", 4 }, { "NULL", 4 } };
static const struct str true_words[] = { { "true", 4 }, { "True", 4 }, { "TRUE", 4 } };
static const struct str false_words[] = { { "false", 5 }, { "False", 5 }, { "FALSE", 5 } };
#define IS_ONE_OF(s, words) is_one_of((s), (words), sizeof(words) / sizeof(words)[0])

bool node_is_null(const struct doc_node *node)
{
    /* numbers are the most that is plain */
    bool short_enough = node->kind == NODE_SCALAR && node->plain && node->text.len <= 4;
    return short_enough && (node->text.len == 0 || node->text.ptr[0] > '9') && IS_ONE_OF(node->text, null_words);
}

const struct doc_node *node_find(const struct doc_node *mapping, struct str key)
{
    for (size_t i = 0; mapping->kind == NODE_MAPPING && i < mapping->n; i++)
        if (str_eq(mapping->pairs[i].key->text, key))
            return mapping->pairs[i].value;
    return NULL;
}

size_t node_list_n(const struct doc_node *node)
{
    return node->kind == NODE_SEQUENCE ? node->n : 1;
}

const struct doc_node *node_list_at(const struct doc_node *node, size_t i)
{
    return node->kind == NODE_SEQUENCE ? node->items[i] : node;
}

bool node_is_text(const struct doc_node *node, struct str *out)
{
    if (node->kind != NODE_SCALAR || node->plain)
        return false;
    *out = node->text;
    return true;
}

bool node_is_whole(const struct doc_node *node, int64_t *out)
{
    return node->kind == NODE_SCALAR && node->plain && str_to_i64(node->text, out);
}

bool node_is_bool(const struct doc_node *node, bool *out)
{
    if (node->kind != NODE_SCALAR || !node->plain || !(str_eqz(node->text, "true") || str_eqz(node->text, "false")))
        return false;
    *out = node->text.len == 4;
    return true;
}

static void scalar_json(struct json *json, const struct doc_node *node)
{
    if (node_is_null(node))
        json_nil(json);
    else if (node->plain && IS_ONE_OF(node->text, true_words))
        json_bool(json, true);
    else if (node->plain && IS_ONE_OF(node->text, false_words))
        json_bool(json, false);
    else if (node->plain && text_is_json_number(node->text))
        json_raw(json, node->text);
    else
        json_str(json, node->text);
}

static void value_json(struct json *json, const struct doc_node *node)
{
    switch (node->kind) {
    case NODE_NONE:
    case NODE_KIND_COUNT:
        break;
    case NODE_SCALAR:
        scalar_json(json, node);
        break;
    case NODE_SEQUENCE:
        json_array_begin(json);
        for (size_t i = 0; i < node->n; i++)
            value_json(json, node->items[i]);
        json_array_end(json);
        break;
    case NODE_MAPPING:
        json_object_begin(json);
        for (size_t i = 0; i < node->n; i++) {
            json_key_str(json, node->pairs[i].key->text);
            value_json(json, node->pairs[i].value);
        }
        json_object_end(json);
        break;
    }
}

void node_json(struct buf *out, const struct doc_node *node)
{
    struct json json = json_to(out);
    value_json(&json, node);
}

struct diag_place node_place(const struct node_context *context, const struct doc_node *node)
{
    return (struct diag_place){ context->file, node->line, node->column };
}

/* part_of: the member or item that holds the byte; NULL: none does. */
static const struct doc_node *part_of(const struct doc_node *node, const char *at, size_t *out_index)
{
    for (size_t i = 0; i < node->n; i++) {
        const struct doc_node *last = node->kind == NODE_MAPPING ? node->pairs[i].value : node->items[i];
        const char *first = node->kind == NODE_MAPPING ? node->pairs[i].key->raw.ptr : last->raw.ptr;
        *out_index = i;
        if (at >= first && at < last->raw.ptr + last->raw.len)
            return last;
    }
    return NULL;
}

struct str node_pointer(struct arena *arena, const struct doc_node *root, const char *at)
{
    struct str pointer = { 0 };
    size_t i;
    for (const struct doc_node *node = root, *part; (part = part_of(node, at, &i)) != NULL; node = part) {
        if (node->kind == NODE_MAPPING)
            pointer = json_pointer_add(arena, pointer, node->pairs[i].key->text);
        else
            pointer = json_pointer_at(arena, pointer, i);
        if (at < part->raw.ptr)
            break; /* the key is meant */
    }
    return pointer;
}

__attribute__((format(printf, 4, 0))) static bool fault_add(
    const struct node_context *context, const struct doc_node *node, struct str key, const char *fmt, va_list args)
{
    struct diags *diags = context->diags;
    size_t before = diags->n;
    diag_verror(diags, node_place(context, node), fmt, args);
    if (context->body == NULL || diags->n == before)
        return false;
    struct diag *diag = &diags->items[before];
    diag->pointer = node_pointer(context->arena, context->body, node->raw.ptr);
    if (key.len > 0)
        diag->pointer = json_pointer_add(context->arena, diag->pointer, key);
    return false;
}

bool node_fault(const struct node_context *context, const struct doc_node *node, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fault_add(context, node, (struct str){ 0 }, fmt, args);
    va_end(args);
    return false;
}

bool node_missing(
    const struct node_context *context, const struct doc_node *mapping, const char *key, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fault_add(context, mapping, str_of(key), fmt, args);
    va_end(args);
    return false;
}

const char *node_form(const struct node_context *context, enum node_kind kind)
{
    static const char *const words[NODE_KIND_COUNT][2] = {
        [NODE_NONE] = { "nothing", "null" },
        [NODE_SCALAR] = { "a single value", "a string" },
        [NODE_SEQUENCE] = { "a list", "an array" },
        [NODE_MAPPING] = { "a mapping", "an object" },
    };
    return words[kind][context->body != NULL];
}

const char *node_found(const struct node_context *context, const struct doc_node *node)
{
    if (node_is_null(node))
        return node_form(context, NODE_NONE);
    if (context->body == NULL || node->kind != NODE_SCALAR || !node->plain)
        return node_form(context, node->kind);
    if (IS_ONE_OF(node->text, true_words) || IS_ONE_OF(node->text, false_words))
        return node->text.len == 4 ? "true" : "false";
    return memchr(node->text.ptr, '.', node->text.len) != NULL || memchr(node->text.ptr, 'e', node->text.len) != NULL ||
                   memchr(node->text.ptr, 'E', node->text.len) != NULL
               ? "a number with a fraction"
               : "a number";
}

/* wanted: "'lease' must be a duration, not ...", with what stands there. */
static bool wanted(const struct node_context *context, const struct doc_node *node, const char *what, const char *form)
{
    if (node->kind == NODE_SCALAR && !node_is_null(node) && (context->body == NULL || !node->plain)) {
        struct str shown = diag_shown(node->text);
        return node_fault(
            context, node, "'%s' must be %s, not %s'%.*s'", what, form, node->plain ? "" : "the text ", STR_ARG(shown));
    }
    return node_fault(context, node, "'%s' must be %s, not %s", what, form, node_found(context, node));
}

bool node_str(const struct node_context *context, const struct doc_node *node, const char *what, struct str *out)
{
    if (node->kind != NODE_SCALAR || node_is_null(node) || (context->body != NULL && node->plain))
        return wanted(context, node, what, "a string");
    *out = node->text;
    return true;
}

bool node_i64(const struct node_context *context, const struct doc_node *node, const char *what, int64_t min,
    int64_t max, int64_t *out)
{
    int64_t n;
    struct str text = node->text;
    struct str digits = str_starts(text, STR("-")) ? str_sub(text, 1, text.len) : text;
    bool zeros = digits.len > 1 && digits.ptr[0] == '0'; /* octal to some, decimal to others */
    if (node->kind != NODE_SCALAR || !node->plain || zeros || !str_to_i64(text, &n))
        return wanted(context, node, what, "a whole number");
    if (n < min || n > max)
        return node_fault(context, node, "'%s' must be from %lld to %lld, not %lld", what, (long long)min,
            (long long)max, (long long)n);
    *out = n;
    return true;
}

bool node_bool(const struct node_context *context, const struct doc_node *node, const char *what, bool *out)
{
    static const struct str yes_words[] = { { "yes", 3 }, { "on", 2 }, { "y", 1 }, { "1", 1 }, { "Yes", 3 },
        { "On", 2 } };
    static const struct str no_words[] = { { "no", 2 }, { "off", 3 }, { "n", 1 }, { "0", 1 }, { "No", 2 },
        { "Off", 3 } };
    bool plain = node->kind == NODE_SCALAR && node->plain;
    if (plain && (IS_ONE_OF(node->text, true_words) || IS_ONE_OF(node->text, false_words))) {
        *out = IS_ONE_OF(node->text, true_words);
        return true;
    }
    wanted(context, node, what, "true or false");
    if (node->kind == NODE_SCALAR && !node->plain &&
        (str_eq(node->text, true_words[0]) || str_eq(node->text, false_words[0])))
        diag_suggest(context->diags, "write it without quotes");
    else if (plain && IS_ONE_OF(node->text, yes_words))
        diag_suggest(context->diags, "did you mean 'true'?");
    else if (plain && IS_ONE_OF(node->text, no_words))
        diag_suggest(context->diags, "did you mean 'false'?");
    return false;
}

/* unit_wanted: what `wanted` says, and the unit that a bare number may lack. */
static bool unit_wanted(const struct node_context *context, const struct doc_node *node, const char *what,
    const char *form, const char *unit)
{
    wanted(context, node, what, form);
    if (node->kind == NODE_SCALAR && str_is_digits(node->text) && node->text.len < 19)
        diag_suggest(context->diags, "did you mean '%.*s%s'?", STR_ARG(node->text), unit);
    return false;
}

bool node_duration(const struct node_context *context, const struct doc_node *node, const char *what, int64_t *out_ms)
{
    return (node->kind == NODE_SCALAR && duration_parse(node->text, out_ms)) ||
           unit_wanted(context, node, what, "a duration with a unit, such as 90s, 15m, 2h or 7d", "s");
}

bool node_size(const struct node_context *context, const struct doc_node *node, const char *what, uint64_t *out_bytes)
{
    return (node->kind == NODE_SCALAR && size_parse(node->text, out_bytes)) ||
           unit_wanted(context, node, what, "a size with a unit, such as 64KiB, 10MiB or 1GiB", "B");
}

bool node_choice(const struct node_context *context, const struct doc_node *node, const char *what,
    const struct str *words, size_t n, size_t *out)
{
    struct str text;
    if (!node_str(context, node, what, &text))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (str_eq(text, words[i])) {
            *out = i;
            return true;
        }
    }
    struct buf list;
    buf_init(&list, 500);
    for (size_t i = 0; i < n; i++)
        buf_addf(&list, "%s%.*s", i == 0 ? "" : i + 1 == n ? " or " : ", ", STR_ARG(words[i]));
    wanted(context, node, what, list.ptr != NULL ? list.ptr : "");
    diag_suggest_closest(context->diags, text, words, n);
    buf_release(&list);
    return false;
}

bool node_strs(
    const struct node_context *context, const struct doc_node *node, const char *what, struct str **out, size_t *out_n)
{
    if (node->kind == NODE_MAPPING || node_is_null(node))
        return wanted(context, node, what, "a list of strings");
    size_t n = node_list_n(node);
    struct str *items = ARENA_ARRAY(context->arena, struct str, n);
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = node_str(context, node_list_at(node, i), what, &items[i]) && ok;
    if (!ok)
        return false;
    *out = items;
    *out_n = n;
    return true;
}

bool node_read_begin(
    struct node_reader *out, const struct node_context *context, const struct doc_node *node, const char *what)
{
    if (node->kind != NODE_MAPPING)
        return wanted(context, node, what, node_form(context, NODE_MAPPING));
    out->context = *context;
    out->mapping = node;
    out->known = ARENA_ARRAY(context->arena, bool, node->n);
    out->n_asked = 0;
    return true;
}

void node_unknown(const struct node_context *context, const struct doc_node *key, const struct str *known, size_t n)
{
    node_fault(
        context, key, "unknown %s '%.*s'", context->body != NULL ? "field" : "key", STR_ARG(diag_shown(key->text)));
    diag_suggest_known(context->diags, key->text, known, n);
}

void node_read_end(struct node_reader *reader)
{
    for (size_t i = 0; i < reader->mapping->n; i++)
        if (!reader->known[i])
            node_unknown(&reader->context, reader->mapping->pairs[i].key, reader->asked, reader->n_asked);
}

const struct doc_node *node_read_any(struct node_reader *reader, const char *key)
{
    struct str name = str_of(key);
    if (reader->n_asked < sizeof reader->asked / sizeof reader->asked[0])
        reader->asked[reader->n_asked++] = name;
    for (size_t i = 0; i < reader->mapping->n; i++) {
        if (!str_eq(reader->mapping->pairs[i].key->text, name))
            continue;
        reader->known[i] = true;
        const struct doc_node *value = reader->mapping->pairs[i].value;
        return node_is_null(value) ? NULL : value;
    }
    return NULL;
}

bool node_read_str(struct node_reader *reader, const char *key, struct str *out)
{
    const struct doc_node *node = node_read_any(reader, key);
    return node != NULL && node_str(&reader->context, node, key, out);
}

bool node_read_i64(struct node_reader *reader, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const struct doc_node *node = node_read_any(reader, key);
    return node != NULL && node_i64(&reader->context, node, key, min, max, out);
}

bool node_read_bool(struct node_reader *reader, const char *key, bool *out)
{
    const struct doc_node *node = node_read_any(reader, key);
    return node != NULL && node_bool(&reader->context, node, key, out);
}

bool node_read_duration(struct node_reader *reader, const char *key, int64_t *out_ms)
{
    const struct doc_node *node = node_read_any(reader, key);
    return node != NULL && node_duration(&reader->context, node, key, out_ms);
}

bool node_read_size(struct node_reader *reader, const char *key, uint64_t *out_bytes)
{
    const struct doc_node *node = node_read_any(reader, key);
    return node != NULL && node_size(&reader->context, node, key, out_bytes);
}

bool node_read_choice(struct node_reader *reader, const char *key, const struct str *words, size_t n, size_t *out)
{
    const struct doc_node *node = node_read_any(reader, key);
    return node != NULL && node_choice(&reader->context, node, key, words, n, out);
}

bool node_read_strs(struct node_reader *reader, const char *key, struct str **out, size_t *out_n)
{
    const struct doc_node *node = node_read_any(reader, key);
    return node != NULL && node_strs(&reader->context, node, key, out, out_n);
}

static const struct doc_node *read_kind(struct node_reader *reader, const char *key, enum node_kind kind)
{
    const struct doc_node *node = node_read_any(reader, key);
    if (node == NULL || node->kind == kind)
        return node;
    wanted(&reader->context, node, key, node_form(&reader->context, kind));
    return NULL;
}

const struct doc_node *node_read_sequence(struct node_reader *reader, const char *key)
{
    return read_kind(reader, key, NODE_SEQUENCE);
}

const struct doc_node *node_read_mapping(struct node_reader *reader, const char *key)
{
    return read_kind(reader, key, NODE_MAPPING);
}
