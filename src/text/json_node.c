/* json_node: a strict JSON reader that keeps the place of everything.
 *
 * Owns the grammar of RFC 8259: nothing more is taken (no comments, no trailing commas, no NaN, no lone surrogates, no duplicate keys). It
 * promises the nodes and limits of node.h. It fails by diagnostics; the first fault of syntax is the last one. */
#include "text/json_node.h"

#include <string.h>

#include "text/node_build.h"
#include "text/utf8.h"

struct scan {
    struct node_build build;
    struct str text;
    size_t at;
    unsigned line, column; /* of at */
};

static const struct node *value_read(struct scan *scan);

static struct diag_place place_here(const struct scan *scan)
{
    return (struct diag_place){ scan->build.context.file, scan->line, scan->column };
}

static void skip(struct scan *scan, size_t n)
{
    for (; n > 0; n--, scan->at++) {
        unsigned char c = (unsigned char)scan->text.ptr[scan->at];
        if (c == '\n') {
            scan->line++;
            scan->column = 1;
        } else if ((c & 0xc0) != 0x80) {
            scan->column++;
        }
    }
}

static int peek(const struct scan *scan)
{
    return scan->at < scan->text.len ? (unsigned char)scan->text.ptr[scan->at] : -1;
}

static void skip_blanks(struct scan *scan)
{
    for (int c = peek(scan); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(scan))
        skip(scan, 1);
}

/* expected: "X expected, not Y" at this place. */
static bool expected(struct scan *scan, const char *what)
{
    struct diags *diags = scan->build.context.diags;
    int c = peek(scan);
    if (c < 0)
        return diag_error(diags, place_here(scan), "%s expected, not the end of the file", what);
    size_t none;
    struct str shown = str_sub(scan->text, scan->at, scan->at + utf8_length(scan->text, scan->at, &none));
    if (c < 0x80)
        shown = str_sub(scan->text, scan->at, scan->at + 1);
    diag_error(diags, place_here(scan), "%s expected, not '%.*s'", what, STR_ARG(shown));
    if (c == '\'')
        diag_suggest(diags, "JSON strings have double quotes");
    else if (c == '/' || c == '#')
        diag_suggest(diags, "JSON has no comments");
    else if ((c == ']' || c == '}') && what[0] == 'a') /* a value, a key */
        diag_suggest(diags, "JSON has no comma after the last item");
    return false;
}

static bool hex4(struct scan *scan, size_t at, uint32_t *out)
{
    uint32_t n = 0;
    for (size_t i = at; i < at + 4; i++) {
        int digit = i < scan->text.len ? hex_digit(scan->text.ptr[i]) : -1;
        if (digit < 0)
            return false;
        n = n << 4 | (uint32_t)digit;
    }
    *out = n;
    return true;
}

/* unicode_read: \uXXXX or a pair of surrogates at scan->at; *to gets the bytes. */
static bool unicode_read(struct scan *scan, char **to)
{
    struct diags *diags = scan->build.context.diags;
    uint32_t c, low;
    if (!hex4(scan, scan->at + 2, &c))
        return diag_error(diags, place_here(scan), "four hex digits must follow \\u");
    size_t n = 6;
    if (c >= 0xd800 && c < 0xe000) {
        bool pair = c < 0xdc00 && str_starts(str_sub(scan->text, scan->at + 6, scan->text.len), STR("\\u")) &&
                    hex4(scan, scan->at + 8, &low) && low >= 0xdc00 && low < 0xe000;
        if (!pair)
            return diag_error(diags, place_here(scan), "\\u%04x is half of a surrogate pair", c);
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        n = 12;
    }
    if (c == 0)
        return diag_error(diags, place_here(scan), "the text contains a NUL character");
    *to += utf8_put(*to, c);
    skip(scan, n);
    return true;
}

static bool escape_read(struct scan *scan, char **to)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = scan->at + 1 < scan->text.len ? scan->text.ptr[scan->at + 1] : '\0';
    if (c == 'u')
        return unicode_read(scan, to);
    const char *which = c != '\0' ? strchr(letters, c) : NULL;
    if (which == NULL)
        return diag_error(scan->build.context.diags, place_here(scan), "the escape isn't one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    *(*to)++ = values[which - letters];
    skip(scan, 2);
    return true;
}

/* string_end: the offset of the closing quote, or of the end of the text. */
static size_t string_end(const struct scan *scan)
{
    size_t at = scan->at + 1;
    while (at < scan->text.len && scan->text.ptr[at] != '"')
        at += scan->text.ptr[at] == '\\' ? 2 : 1;
    return at < scan->text.len ? at : scan->text.len;
}

static struct node *string_read(struct scan *scan)
{
    struct diag_place place = place_here(scan);
    struct node *node = node_build_new(&scan->build, NODE_SCALAR, place.line, place.column);
    size_t end = string_end(scan);
    if (node == NULL)
        return NULL;
    if (end == scan->text.len) {
        diag_error(scan->build.context.diags, place, "the string is never closed");
        return NULL;
    }
    char *text = arena_alloc(scan->build.context.arena, end - scan->at), *to = text;
    skip(scan, 1);
    while (scan->at < end) {
        unsigned char c = (unsigned char)scan->text.ptr[scan->at];
        if (c < 0x20) {
            diag_error(scan->build.context.diags, place_here(scan), "the control character U+%04X must be written as an escape", c);
            return NULL;
        }
        if (c != '\\') {
            *to++ = (char)c;
            skip(scan, 1);
        } else if (!escape_read(scan, &to)) {
            return NULL;
        }
    }
    skip(scan, 1);
    node->text = (struct str){ text, (size_t)(to - text) };
    return node;
}

static size_t digits_count(struct str s, size_t from)
{
    size_t n = 0;
    while (from + n < s.len && s.ptr[from + n] >= '0' && s.ptr[from + n] <= '9')
        n++;
    return n;
}

/* number_length: of the longest JSON number at the beginning of s; 0: none. */
static size_t number_length(struct str s)
{
    size_t at = s.len > 0 && s.ptr[0] == '-' ? 1 : 0;
    size_t n = digits_count(s, at);
    if (n == 0)
        return 0;
    at += s.ptr[at] == '0' ? 1 : n;
    if (at < s.len && s.ptr[at] == '.') {
        n = digits_count(s, at + 1);
        if (n == 0)
            return 0;
        at += 1 + n;
    }
    if (at < s.len && (s.ptr[at] == 'e' || s.ptr[at] == 'E')) {
        size_t sign = at + 1 < s.len && (s.ptr[at + 1] == '+' || s.ptr[at + 1] == '-') ? 1 : 0;
        n = digits_count(s, at + 1 + sign);
        if (n == 0)
            return 0;
        at += 1 + sign + n;
    }
    return at;
}

static size_t word_length(struct str s)
{
    static const struct str words[] = { { "true", 4 }, { "false", 5 }, { "null", 4 } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (str_starts(s, words[i]))
            return words[i].len;
    return number_length(s);
}

/* plain_read: a number, true, false or null; the next character must not go on with it. */
static struct node *plain_read(struct scan *scan)
{
    struct str rest = str_sub(scan->text, scan->at, scan->text.len);
    size_t n = word_length(rest);
    char next = n < rest.len ? rest.ptr[n] : ' ';
    bool goes_on =
        (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || next == '.' || next == '_';
    if (n == 0 || goes_on) {
        expected(scan, "a value");
        return NULL;
    }
    struct node *node = node_build_new(&scan->build, NODE_SCALAR, scan->line, scan->column);
    if (node == NULL)
        return NULL;
    node->plain = true;
    node->text = str_dup(scan->build.context.arena, str_sub(rest, 0, n));
    skip(scan, n);
    return node;
}

static bool pair_read(struct scan *scan, struct node *node, struct node_items *items)
{
    if (peek(scan) != '"')
        return expected(scan, "a key in double quotes");
    const struct node *key = string_read(scan);
    if (key == NULL)
        return false;
    skip_blanks(scan);
    if (peek(scan) != ':')
        return expected(scan, "':'");
    skip(scan, 1);
    const struct node *value = value_read(scan);
    if (value != NULL)
        node_pairs_add(&scan->build, items, node, key, value);
    return value != NULL;
}

static bool item_read(struct scan *scan, struct node *node, struct node_items *items)
{
    if (node->kind == NODE_MAPPING)
        return pair_read(scan, node, items);
    const struct node *item = value_read(scan);
    if (item != NULL)
        node_items_add(&scan->build, items, node, item);
    return item != NULL;
}

static bool items_read(struct scan *scan, struct node *node, struct node_items *items)
{
    char close = node->kind == NODE_MAPPING ? '}' : ']';
    skip(scan, 1);
    skip_blanks(scan);
    if (peek(scan) == close) {
        skip(scan, 1);
        return true;
    }
    for (;;) {
        skip_blanks(scan);
        if (!item_read(scan, node, items))
            return false;
        skip_blanks(scan);
        int c = peek(scan);
        if (c != ',' && c != close)
            return expected(scan, node->kind == NODE_MAPPING ? "',' or '}'" : "',' or ']'");
        skip(scan, 1);
        if (c == close)
            return true;
    }
}

static const struct node *collection_read(struct scan *scan, enum node_kind kind)
{
    struct node *node = node_build_new(&scan->build, kind, scan->line, scan->column);
    if (node == NULL || !node_build_nest(&scan->build, scan->line, scan->column))
        return NULL;
    struct node_items items = { 0 };
    bool ok = items_read(scan, node, &items);
    node_items_finish(&items, node);
    scan->build.depth--;
    return ok ? node : NULL;
}

static const struct node *value_read(struct scan *scan)
{
    skip_blanks(scan);
    int c = peek(scan);
    if (c == '{')
        return collection_read(scan, NODE_MAPPING);
    if (c == '[')
        return collection_read(scan, NODE_SEQUENCE);
    if (c == '"')
        return string_read(scan);
    return plain_read(scan);
}

const struct node *json_node_parse(const struct diag_file *file, struct arena *arena, struct diags *diags)
{
    struct scan scan = { .text = file->text, .line = 1, .column = 1 };
    size_t n_errors = diags->n_errors;
    if (!node_build_open(&scan.build, file, arena, diags))
        return NULL;
    const struct node *root = value_read(&scan);
    if (root != NULL) {
        skip_blanks(&scan);
        if (peek(&scan) >= 0)
            expected(&scan, "the end of the file");
    }
    return diags->n_errors == n_errors ? root : NULL;
}
