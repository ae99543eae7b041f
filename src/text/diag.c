/* diag: collect and show what is wrong with a file.
 *
 * Owns the format of diagnostics as text and as JSON. It promises that no byte of a refused file reaches a terminal as
 * a control character, and that the caret stands under the column. It can't fail. */
#include "text/diag.h"

#include <string.h>

#include "text/json.h"
#include "text/utf8.h"

#define SHOWN_CHARS 120 /* of a source line; a longer one shows the part around the column */
#define MESSAGE_BYTES_MAX 4000
#define WRITTEN_BYTES 60

static const char *diag_severity_name(enum diag_severity severity)
{
    static const char *const names[DIAG_SEVERITY_COUNT] = {
        [DIAG_NONE] = "", [DIAG_ERROR] = "error", [DIAG_WARNING] = "warning"
    };
    return names[severity];
}

struct str diag_shown(struct str s)
{
    if (s.len <= WRITTEN_BYTES)
        return s;
    size_t to = WRITTEN_BYTES;
    while (to > 0 && ((unsigned char)s.ptr[to] & 0xc0) == 0x80)
        to--;
    return str_sub(s, 0, to);
}

/* text_make: a formatted sentence in the arena, control characters shown as '?'. */
__attribute__((format(printf, 2, 0))) static struct str text_make(struct arena *arena, const char *fmt, va_list args)
{
    struct buf text;
    buf_init(&text, MESSAGE_BYTES_MAX);
    buf_vaddf(&text, fmt, args);
    if (text.full && text.len == 0)
        buf_add_z(&text, "(the message is too long)");
    for (size_t i = 0; i < text.len; i++)
        if (char_is_control(text.ptr[i]))
            text.ptr[i] = '?';
    return buf_move(&text, arena);
}

__attribute__((format(printf, 4, 0))) static void diag_add(
    struct diags *diags, struct diag_place place, enum diag_severity severity, const char *fmt, va_list args)
{
    diags->n_errors += severity == DIAG_ERROR;
    if (diags->n >= DIAG_MAX) {
        diags->n_dropped++;
        return;
    }
    struct diag *diag = ARENA_PUSH(diags->arena, diags->items, diags->n, diags->cap);
    *diag = (struct diag){ .place = place, .severity = severity, .message = text_make(diags->arena, fmt, args) };
}

bool diag_verror(struct diags *diags, struct diag_place place, const char *fmt, va_list args)
{
    diag_add(diags, place, DIAG_ERROR, fmt, args);
    return false;
}

bool diag_error(struct diags *diags, struct diag_place place, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_verror(diags, place, fmt, args);
    va_end(args);
    return false;
}

bool diag_warning(struct diags *diags, struct diag_place place, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_add(diags, place, DIAG_WARNING, fmt, args);
    va_end(args);
    return false;
}

void diag_suggest(struct diags *diags, const char *fmt, ...)
{
    if (diags->n == 0 || diags->n_dropped > 0)
        return;
    va_list args;
    va_start(args, fmt);
    diags->items[diags->n - 1].suggestion = text_make(diags->arena, fmt, args);
    va_end(args);
}

void diag_suggest_closest(struct diags *diags, struct str written, const struct str *candidates, size_t n)
{
    struct str near = str_closest(written, candidates, n);
    if (near.len > 0)
        diag_suggest(diags, "did you mean '%.*s'?", STR_ARG(near));
}

void diag_suggest_known(struct diags *diags, struct str written, const struct str *known, size_t n)
{
    if (n == 0 || str_closest(written, known, n).len > 0) {
        diag_suggest_closest(diags, written, known, n);
        return;
    }
    struct buf list;
    buf_init(&list, MESSAGE_BYTES_MAX / 2);
    for (size_t i = 0; i < n && !list.full; i++) {
        size_t first = 0; /* a key may have been asked for twice */
        while (first < i && !str_eq(known[first], known[i]))
            first++;
        if (first == i)
            buf_addf(&list, "%s%.*s", i > 0 ? ", " : "", STR_ARG(known[i]));
    }
    diag_suggest(diags, "known here: %.*s", STR_ARG(buf_str(&list)));
    buf_release(&list);
}

static int diag_compare(const struct diag *a, const struct diag *b)
{
    int names = str_cmp(a->place.file->name, b->place.file->name);
    if (names != 0)
        return names;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    return (a->place.column > b->place.column) - (a->place.column < b->place.column);
}

void diags_sort(struct diags *diags)
{
    /* by insertion: at most DIAG_MAX, nearly sorted, and stable */
    for (size_t i = 1; i < diags->n; i++) {
        struct diag diag = diags->items[i];
        size_t at = i;
        for (; at > 0 && diag_compare(&diags->items[at - 1], &diag) > 0; at--)
            diags->items[at] = diags->items[at - 1];
        diags->items[at] = diag;
    }
}

/* line_find: line `number` without its end; false past the last one. */
static bool line_find(struct str text, unsigned number, struct str *out)
{
    size_t from = 0;
    for (unsigned line = 1;; line++) {
        const char *end = from < text.len ? memchr(text.ptr + from, '\n', text.len - from) : NULL;
        size_t to = end != NULL ? (size_t)(end - text.ptr) : text.len;
        if (line == number) {
            *out = str_sub(text, from, to > from && text.ptr[to - 1] == '\r' ? to - 1 : to);
            return true;
        }
        if (end == NULL)
            return false;
        from = to + 1;
    }
}

static size_t char_length(struct str s, size_t at)
{
    size_t n = 1;
    while (at + n < s.len && ((unsigned char)s.ptr[at + n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* is_shown: one character that does nothing to a terminal but appear. */
static bool is_shown(struct str c)
{
    if (!str_is_utf8(c))
        return false;
    uint32_t value = utf8_value(c.ptr, c.len);
    return value == '\t' || (value >= 0x20 && value < 0x7f) || value >= 0xa0;
}

/* source_add: the line with a caret under the column; a long line shows the window around it. */
static void source_add(struct buf *out, struct str line, unsigned column)
{
    unsigned first = column > SHOWN_CHARS * 3 / 4 ? column - SHOWN_CHARS / 2 : 1, place = 1;
    struct buf caret;
    buf_init(&caret, SHOWN_CHARS + 16);
    buf_add_z(out, first > 1 ? "    ..." : "    ");
    buf_add_z(&caret, first > 1 ? "       " : "    ");
    for (size_t at = 0; at < line.len && place < first + SHOWN_CHARS; place++) {
        size_t n = char_length(line, at);
        struct str c = str_sub(line, at, at + n);
        at += n;
        if (place < first)
            continue;
        buf_add_str(out, is_shown(c) ? c : STR("?"));
        if (place < column)
            buf_add_char(&caret, c.ptr[0] == '\t' ? '\t' : ' ');
    }
    buf_add_char(out, '\n');
    for (; place < column && place < first + SHOWN_CHARS; place++)
        buf_add_char(&caret, ' ');
    buf_add_str(out, buf_str(&caret));
    buf_add_z(out, "^\n");
    buf_release(&caret);
}

static void diag_text(struct buf *out, const struct diag *diag)
{
    const struct diag_file *file = diag->place.file;
    buf_add_str(out, file->name);
    if (diag->place.line > 0)
        buf_addf(out, ":%u:%u", diag->place.line, diag->place.column);
    buf_addf(out, ": %s: ", diag_severity_name(diag->severity));
    buf_add_str(out, diag->message);
    buf_add_char(out, '\n');
    struct str line;
    if (diag->place.line > 0 && line_find(file->text, diag->place.line, &line))
        source_add(out, line, diag->place.column);
    if (diag->suggestion.len > 0) {
        buf_add_z(out, "    ");
        buf_add_str(out, diag->suggestion);
        buf_add_char(out, '\n');
    }
}

void diags_text(struct buf *out, const struct diags *diags)
{
    for (size_t i = 0; i < diags->n; i++)
        diag_text(out, &diags->items[i]);
    if (diags->n_dropped > 0)
        buf_addf(out, "%zu more not shown\n", diags->n_dropped);
}

void diags_json(struct buf *out, const struct diags *diags)
{
    struct json json = json_to(out);
    json_array_begin(&json);
    for (size_t i = 0; i < diags->n; i++) {
        const struct diag *diag = &diags->items[i];
        json_object_begin(&json);
        json_put_str(&json, "file", diag->place.file->name);
        /* the file as a whole: where it begins */
        json_put_i64(&json, "line", diag->place.line > 0 ? diag->place.line : 1);
        json_put_i64(&json, "column", diag->place.column > 0 ? diag->place.column : 1);
        json_put_z(&json, "severity", diag_severity_name(diag->severity));
        json_put_str(&json, "message", diag->message);
        if (diag->suggestion.len > 0)
            json_put_str(&json, "suggestion", diag->suggestion);
        json_object_end(&json);
    }
    json_array_end(&json);
}

bool diags_to_err(const struct diags *diags, struct err *err)
{
    for (size_t i = 0; i < diags->n; i++) {
        const struct diag *diag = &diags->items[i];
        if (diag->severity != DIAG_ERROR)
            continue;
        size_t before = err->n_items;
        err_item(err, ERR_invalid, diag->pointer, "%.*s", STR_ARG(diag->message));
        struct err_item *item = err_item_last(err);
        if (err->n_items == before || item == NULL)
            break;
        if (diag->place.file != NULL)
            item->file = diag->place.file->name;
        item->line = diag->place.line;
        item->column = diag->place.column;
        item->suggestion = diag->suggestion;
    }
    return diags->n_errors == 0;
}

struct diag_place diag_place_at(const struct diag_file *file, size_t offset)
{
    struct str before = str_sub(file->text, 0, offset);
    unsigned line = 1;
    size_t from = 0;
    for (size_t i = 0; i < before.len; i++) {
        if (before.ptr[i] == '\n') {
            line++;
            from = i + 1;
        }
    }
    return (struct diag_place){ file, line, (unsigned)str_chars(str_sub(before, from, before.len)) + 1 };
}
