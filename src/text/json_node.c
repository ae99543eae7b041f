/* json_node: a strict JSON reader that keeps the place of everything.
 *
 * Owns the grammar of RFC 8259: nothing more is accepted (no comments, no trailing commas, no NaN, no lone surrogates,
 * no duplicate keys). It promises the nodes and limits of node.h. It fails by diagnostics; the first fault of syntax
 * is the last one.
 *
 * Bodies of requests are many and small, and reading them was once the largest part of the cost of a posted task:
 * nothing is copied but texts with escapes, and lines are counted only for files. */
#include "text/json_node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/node_build.h"
#include "text/utf8.h"

enum { NUMBER_BYTES_MAX = 400, DIGITS_SAFE = 18, EXPONENT_DIGITS_SAFE = 2 };

struct scan {
    struct node_build build;
    struct str text;
    size_t at;
    bool body;           /* of a request */
    struct str kept;     /* body: collections below this key stay text */
    unsigned char bytes; /* all bytes of strings so far, or-ed: is one beyond ASCII? */
    size_t placed;       /* a file's lines and columns are counted up to here */
    unsigned line, column;
};

static const struct doc_node *value_read(struct scan *scan);
static bool value_skim(struct scan *scan);

static bool fault_at(struct scan *scan, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fault_at(struct scan *scan, size_t at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_verror(scan->build.context.diags, diag_place_at(scan->build.context.file, at), fmt, args);
    va_end(args);
    return false;
}

static int peek(const struct scan *scan)
{
    return scan->at < scan->text.len ? (unsigned char)scan->text.ptr[scan->at] : -1;
}

static void skip_blanks(struct scan *scan)
{
    for (int c = peek(scan); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(scan))
        scan->at++;
}

/* node_new: a node that begins here. */
static struct doc_node *node_new(struct scan *scan, enum node_kind kind)
{
    for (; !scan->body && scan->placed < scan->at; scan->placed++) {
        unsigned char c = (unsigned char)scan->text.ptr[scan->placed];
        if (c == '\n') {
            scan->line++;
            scan->column = 1;
        } else if ((c & 0xc0) != 0x80) {
            scan->column++;
        }
    }
    return node_build_new(&scan->build, kind, scan->line, scan->column);
}

/* expected: "X expected, not Y" at this place. */
static bool expected(struct scan *scan, const char *what)
{
    struct diags *diags = scan->build.context.diags;
    int c = peek(scan);
    if (c < 0)
        return fault_at(scan, scan->at, "%s expected, not the end of the file", what);
    size_t none;
    struct str shown = str_sub(scan->text, scan->at, scan->at + utf8_length(scan->text, scan->at, &none));
    fault_at(scan, scan->at, "%s expected, not '%.*s'", what, STR_ARG(shown));
    if (c == '\'')
        diag_suggest(diags, "JSON strings have double quotes");
    else if (c == '/' || c == '#')
        diag_suggest(diags, "JSON has no comments");
    else if ((c == ']' || c == '}') && what[0] == 'a') /* a value, a key */
        diag_suggest(diags, "JSON has no comma after the last item");
    return false;
}

/* --- strings --- */

static bool hex4(struct str s, size_t at, uint32_t *out)
{
    uint32_t n = 0;
    for (size_t i = at; i < at + 4; i++) {
        int digit = i < s.len ? hex_digit(s.ptr[i]) : -1;
        if (digit < 0)
            return false;
        n = n << 4 | (uint32_t)digit;
    }
    *out = n;
    return true;
}

/* unicode_read: the character of \uXXXX, or of a pair of surrogates, at `at`. Returns its length in the text; 0: a
 * fault, which was added. */
static size_t unicode_read(struct scan *scan, size_t at, uint32_t *out)
{
    uint32_t low;
    if (!hex4(scan->text, at + 2, out))
        return fault_at(scan, at, "four hex digits must follow \\u");
    if (*out == 0 && !scan->body)
        return fault_at(scan, at, "the text contains a NUL character");
    if (*out < 0xd800 || *out >= 0xe000)
        return 6;
    bool pair = *out < 0xdc00 && str_starts(str_sub(scan->text, at + 6, scan->text.len), STR("\\u")) &&
                hex4(scan->text, at + 8, &low) && low >= 0xdc00 && low < 0xe000;
    if (!pair)
        return fault_at(scan, at, "\\u%04x is half of a surrogate pair", *out);
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

/* escape_read: writes the character of the escape at `at` to *to. Returns the escape's length; 0: a fault was added. */
static size_t escape_read(struct scan *scan, size_t at, char **to)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = at + 1 < scan->text.len ? scan->text.ptr[at + 1] : '\0';
    if (c == 'u') {
        uint32_t value = 0;
        size_t n = unicode_read(scan, at, &value);
        *to += n > 0 ? utf8_put(*to, value) : 0;
        return n;
    }
    const char *which = c != '\0' ? strchr(letters, c) : NULL;
    if (which == NULL)
        return fault_at(scan, at, "the escape isn't one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    *(*to)++ = values[which - letters];
    return 2;
}

/* escaped_read: the text from `from` to the closing quote at `end`, its escapes undone. */
static bool escaped_read(struct scan *scan, size_t from, size_t end, struct str *out)
{
    char *text = arena_alloc(scan->build.context.arena, end - from + 1), *to = text;
    for (size_t at = from; at < end;) {
        char c = scan->text.ptr[at];
        size_t n = 1;
        if (c == '\\')
            n = escape_read(scan, at, &to);
        else
            *to++ = c;
        if (n == 0)
            return false;
        at += n;
    }
    *out = (struct str){ text, (size_t)(to - text) };
    return true;
}

/* string_read: the text of the string that begins here, and the place behind it. */
static bool string_read(struct scan *scan, struct str *out)
{
    size_t first = scan->at, at = first + 1, control = 0;
    unsigned char bytes = 0;
    bool escaped = false;
    for (; at < scan->text.len && scan->text.ptr[at] != '"'; at++) {
        unsigned char c = (unsigned char)scan->text.ptr[at];
        bytes |= c;
        if (c < 0x20 && control == 0)
            control = at;
        if (c == '\\') {
            escaped = true;
            at++;
        }
    }
    scan->bytes |= bytes;
    if (at >= scan->text.len)
        return fault_at(scan, first, "the string is never closed");
    if (escaped && !escaped_read(scan, first + 1, control > 0 ? control : at, out))
        return false;
    if (control > 0)
        return fault_at(scan, control, "the control character U+%04X must be written as an escape",
            (unsigned)(unsigned char)scan->text.ptr[control]);
    if (!escaped)
        *out = str_sub(scan->text, first + 1, at);
    scan->at = at + 1;
    return true;
}

/* --- numbers and words --- */

static size_t digits_count(struct str s, size_t from)
{
    size_t n = 0;
    while (from + n < s.len && char_is_digit(s.ptr[from + n]))
        n++;
    return n;
}

struct number {
    size_t len, whole, exponent; /* bytes: of all of it, before the point, digits of the exponent */
};

/* number_scan: the longest JSON number at the beginning of s; len 0: there is none. */
static struct number number_scan(struct str s)
{
    const struct number none = { 0 };
    size_t at = s.len > 0 && s.ptr[0] == '-' ? 1 : 0, n = digits_count(s, at);
    if (n == 0)
        return none;
    at += s.ptr[at] == '0' ? 1 : n;
    struct number number = { .whole = at };
    if (at < s.len && s.ptr[at] == '.') {
        n = digits_count(s, at + 1);
        if (n == 0)
            return none;
        at += 1 + n;
    }
    if (at < s.len && (s.ptr[at] == 'e' || s.ptr[at] == 'E')) {
        size_t sign = at + 1 < s.len && (s.ptr[at + 1] == '+' || s.ptr[at + 1] == '-') ? 1 : 0;
        number.exponent = digits_count(s, at + 1 + sign);
        if (number.exponent == 0)
            return none;
        at += 1 + sign + number.exponent;
    }
    number.len = at;
    return number;
}

bool text_is_json_number(struct str s)
{
    return s.len > 0 && number_scan(s).len == s.len;
}

/* number_fits: some reader can hold it: an int64, or a double. */
static bool number_fits(struct str number, size_t whole, size_t exponent)
{
    int64_t ignored;
    char z[NUMBER_BYTES_MAX + 1];
    if (number.len <= DIGITS_SAFE && exponent <= EXPONENT_DIGITS_SAFE)
        return true;
    if (whole == number.len)
        return str_to_i64(number, &ignored);
    if (number.len > NUMBER_BYTES_MAX)
        return false;
    memcpy(z, number.ptr, number.len);
    z[number.len] = '\0';
    return !isinf(strtod(z, NULL));
}

/* number_length: of the number at the beginning of s; 0: none, or, in a body, one that nothing can hold. */
static size_t number_length(const struct scan *scan, struct str s)
{
    struct number n = number_scan(s);
    return !scan->body || n.len == 0 || number_fits(str_sub(s, 0, n.len), n.whole, n.exponent) ? n.len : 0;
}

static size_t word_length(const struct scan *scan, struct str s)
{
    char first = s.len > 0 ? s.ptr[0] : ' ';
    struct str word = first == 't'   ? STR("true")
                      : first == 'f' ? STR("false")
                      : first == 'n' ? STR("null")
                                     : (struct str){ 0 };
    if (word.len > 0)
        return str_starts(s, word) ? word.len : 0;
    return number_length(scan, s);
}

/* plain_read: a number, true, false or null; the next character must not go on with it. */
static bool plain_read(struct scan *scan, struct str *out)
{
    struct str rest = str_sub(scan->text, scan->at, scan->text.len);
    size_t n = word_length(scan, rest);
    char next = n < rest.len ? rest.ptr[n] : ' ';
    if (n == 0 || char_is_alnum(next) || next == '.' || next == '_')
        return expected(scan, "a value");
    *out = str_sub(rest, 0, n);
    scan->at += n;
    return true;
}

/* --- collections --- */

/* key_read: the key and the colon behind it. */
static bool key_read(struct scan *scan, struct str *out)
{
    if (peek(scan) != '"')
        return expected(scan, "a key in double quotes");
    size_t from = scan->at;
    if (!string_read(scan, out))
        return false;
    if (str_index(*out, '\0') >= 0)
        return fault_at(scan, from, "a key must not contain a NUL character");
    skip_blanks(scan);
    if (peek(scan) != ':')
        return expected(scan, "':'");
    scan->at++;
    return true;
}

/* more: is there another item behind this one? *out: no fault. */
static bool more(struct scan *scan, char close, bool *out)
{
    skip_blanks(scan);
    int c = peek(scan);
    *out = c == ',' || c == close || expected(scan, close == '}' ? "',' or '}'" : "',' or ']'");
    scan->at += *out;
    if (c == ',')
        skip_blanks(scan);
    return c == ',';
}

/* opened: goes behind the bracket; is there anything in it? */
static bool opened(struct scan *scan, char close)
{
    scan->at++;
    skip_blanks(scan);
    if (peek(scan) != close)
        return true;
    scan->at++;
    return false;
}

static bool pair_read(struct scan *scan, struct doc_node *node, struct node_items *items)
{
    struct doc_node *key = node_new(scan, NODE_SCALAR);
    size_t from = scan->at;
    if (key == NULL || !key_read(scan, &key->text))
        return false;
    key->raw = str_sub(scan->text, from, scan->at);
    skip_blanks(scan);
    int c = peek(scan);
    const struct doc_node *value = NULL;
    if ((c == '{' || c == '[') && scan->kept.len > 0 && str_eq(key->text, scan->kept)) {
        struct doc_node *text = node_new(scan, c == '{' ? NODE_MAPPING : NODE_SEQUENCE);
        from = scan->at;
        if (text == NULL || !value_skim(scan))
            return false;
        text->raw = str_sub(scan->text, from, scan->at);
        value = text;
    } else {
        value = value_read(scan);
    }
    if (value != NULL)
        node_pairs_add(&scan->build, items, node, key, value);
    return value != NULL;
}

static bool items_read(struct scan *scan, struct doc_node *node, struct node_items *items)
{
    char close = node->kind == NODE_MAPPING ? '}' : ']';
    bool good = true;
    if (!opened(scan, close))
        return true;
    do {
        const struct doc_node *item = NULL;
        if (node->kind == NODE_MAPPING)
            good = pair_read(scan, node, items);
        else if ((item = value_read(scan)) != NULL)
            node_items_add(&scan->build, items, node, item);
        else
            good = false;
    } while (good && more(scan, close, &good));
    return good;
}

static bool nest(struct scan *scan)
{
    if (++scan->build.depth <= NODE_DEPTH_MAX)
        return true;
    return fault_at(scan, scan->at, "nested more than %d levels deep", NODE_DEPTH_MAX);
}

static const struct doc_node *collection_read(struct scan *scan, enum node_kind kind)
{
    struct doc_node *node = node_new(scan, kind);
    size_t from = scan->at;
    if (node == NULL || !nest(scan))
        return NULL;
    struct node_items items = { 0 };
    bool ok = items_read(scan, node, &items);
    node_items_finish(&items, node);
    node->raw = str_sub(scan->text, from, scan->at);
    scan->build.depth--;
    return ok ? node : NULL;
}

static const struct doc_node *value_read(struct scan *scan)
{
    skip_blanks(scan);
    int c = peek(scan);
    if (c == '{' || c == '[')
        return collection_read(scan, c == '{' ? NODE_MAPPING : NODE_SEQUENCE);
    struct doc_node *node = node_new(scan, NODE_SCALAR);
    size_t from = scan->at;
    if (node == NULL || !(c == '"' ? string_read(scan, &node->text) : plain_read(scan, &node->text)))
        return NULL;
    node->plain = c != '"';
    node->raw = str_sub(scan->text, from, scan->at);
    return node;
}

/* --- what stays text: checked as if it were read, and nothing of it is kept --- */

static bool object_skim(struct scan *scan)
{
    struct smap seen = { 0 };
    struct str first[16], key;
    size_t n = 0;
    bool good = true;
    do {
        bool twice = false;
        good = key_read(scan, &key);
        for (size_t i = 0; good && i < n && i < 16; i++)
            twice = twice || str_eq(first[i], key);
        if (good && n < 16)
            first[n] = key;
        else if (good && smap_find(&seen, key) != NULL)
            twice = true;
        else if (good)
            smap_put(&seen, key, scan);
        n++;
        good = good && !twice && value_skim(scan);
    } while (good && more(scan, '}', &good));
    smap_release(&seen);
    return good;
}

static bool array_skim(struct scan *scan)
{
    bool good = true;
    do
        good = value_skim(scan);
    while (good && more(scan, ']', &good));
    return good;
}

static bool value_skim(struct scan *scan)
{
    struct str ignored;
    skip_blanks(scan);
    int c = peek(scan);
    if (c == '"')
        return string_read(scan, &ignored);
    if (c != '{' && c != '[')
        return plain_read(scan, &ignored);
    bool good = nest(scan);
    if (good && opened(scan, c == '{' ? '}' : ']'))
        good = c == '{' ? object_skim(scan) : array_skim(scan);
    scan->build.depth--;
    return good;
}

/* --- whole texts --- */

static const struct doc_node *document_read(struct scan *scan)
{
    const struct doc_node *root = value_read(scan);
    skip_blanks(scan);
    if (root != NULL && peek(scan) >= 0)
        expected(scan, "the end of the file");
    return root;
}

const struct doc_node *json_node_parse(const struct diag_file *file, struct arena *arena, struct diags *diags)
{
    struct scan scan = { .text = file->text, .line = 1, .column = 1 };
    size_t n_errors = diags->n_errors;
    if (!node_build_open(&scan.build, file, arena, diags))
        return NULL;
    const struct doc_node *root = document_read(&scan);
    return diags->n_errors == n_errors ? root : NULL;
}

const struct doc_node *json_node_body(struct str text, struct str kept, struct arena *arena)
{
    struct diags diags = { .arena = arena };
    struct diag_file file = { .text = text };
    struct scan scan = { .build = { .context = { .file = &file, .arena = arena, .diags = &diags }, .unbounded = true },
        .text = text,
        .body = true,
        .kept = kept };
    const struct doc_node *root = document_read(&scan);
    bool good = diags.n_errors == 0 && ((scan.bytes & 0x80) == 0 || str_is_utf8(text));
    return good ? root : NULL;
}
