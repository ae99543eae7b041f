/* err: why something was refused or failed.
 *
 * Owns the table of errors (err.def) and the shape of their texts, which quote what outsiders sent and go out as JSON
 * and to terminals: they are always UTF-8, without control characters but tab and newline (what isn't shows as ?), and
 * a text that is too long is cut at a character.
 *
 * Can't fail itself; items past the hundredth are dropped, their messages with them. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 100, MESSAGE_MAX = 1000 };

struct err_kind {
    const char *name, *title;
    int http, exit;
    bool retriable;
};

static const struct err_kind err_kinds[ERR_COUNT] = {
#define ERR(name, http, exit, retry, title) [ERR_##name] = { #name, title, http, exit, retry },
#include "base/err.def"
#undef ERR
};

/* The longest start of text[0..len) that doesn't end within a character. */
static size_t text_cut(const char *text, size_t len)
{
    size_t i = len, back = 0;
    while (i && back < 3 && ((unsigned char)text[i - 1] & 0xc0) == 0x80) {
        i--;
        back++;
    }
    if (!i) {
        return len;
    }
    unsigned char lead = (unsigned char)text[i - 1];
    size_t wants = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    return wants > back ? i - 1 : len;
}

static void text_clean(char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t step = str_char_len((struct str){ text + i, len - i });
        unsigned char c = (unsigned char)text[i];
        if (!step || (c < ' ' && c != '\n' && c != '\t') || c == 0x7f) {
            text[i] = '?';
            step = 1;
        }
        i += step;
    }
}

/* Formats into out[0..size), NUL included. */
__attribute__((format(printf, 3, 0))) static size_t text_format(char *out, size_t size, const char *fmt, va_list args)
{
    int n = vsnprintf(out, size, fmt, args);
    if (n < 0) {
        out[0] = '\0';
        return 0;
    }
    size_t len = (size_t)n;
    if (len >= size) {
        len = text_cut(out, size - 1);
        out[len] = '\0';
    }
    text_clean(out, len);
    return len;
}

bool err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    char text[sizeof err->text]; /* apart, since an argument may be err->text itself */
    va_list args;
    va_start(args, fmt);
    size_t len = text_format(text, sizeof text, fmt, args);
    va_end(args);
    err->code = code;
    memcpy(err->text, text, len + 1);
    return false;
}

void err_context(struct err *err, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, fmt);
    size_t len = text_format(text, sizeof text, fmt, args);
    va_end(args);
    size_t left = sizeof text - len;
    int n = snprintf(text + len, left, ": %s", err->text);
    if (n > 0 && (size_t)n >= left) {
        len = text_cut(text, sizeof text - 1);
        text[len] = '\0';
    }
    memcpy(err->text, text, sizeof text);
}

bool err_item(struct err *err, enum err_code code, struct str path, const char *fmt, ...)
{
    ASSERT(err->arena);
    char text[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    size_t len = text_format(text, sizeof text, fmt, args);
    va_end(args);
    if (err->code == ERR_none) {
        err_set(err, code, "%s", text);
    }
    if (err->n_items == ITEMS_MAX) {
        /* One place past the last kept item isn't counted, so that callers fill in err_item_last without a thought. */
        ASSERT(err->cap_items > ITEMS_MAX);
        err->items[ITEMS_MAX] = (struct err_item){ .message = STR("dropped") };
        return false;
    }
    struct err_item *item = ARENA_PUSH(err->arena, err->items, err->n_items, err->cap_items);
    item->path = str_dup(err->arena, path);
    item->message = str_dup(err->arena, (struct str){ text, len });
    if (err->n_items == ITEMS_MAX) {
        err->items[ITEMS_MAX] = (struct err_item){ .line = 0 }; /* none was dropped yet */
    }
    return false;
}

struct err_item *err_item_last(struct err *err)
{
    if (!err->n_items) {
        return NULL;
    }
    if (err->n_items == ITEMS_MAX && err->items[ITEMS_MAX].message.len) {
        return &err->items[ITEMS_MAX];
    }
    return &err->items[err->n_items - 1];
}

static const struct err_kind *err_kind_get(enum err_code code)
{
    ASSERT((unsigned)code < ERR_COUNT);
    return &err_kinds[code];
}

const char *err_name(enum err_code code)
{
    return err_kind_get(code)->name;
}

const char *err_title(enum err_code code)
{
    return err_kind_get(code)->title;
}

int err_http(enum err_code code)
{
    return err_kind_get(code)->http;
}

int err_exit(enum err_code code)
{
    return err_kind_get(code)->exit;
}

bool err_retriable(enum err_code code)
{
    return err_kind_get(code)->retriable;
}

enum err_code err_find(struct str name)
{
    for (unsigned i = 0; i < ERR_COUNT; i++) {
        if (str_eqz(name, err_kinds[i].name)) {
            return (enum err_code)i;
        }
    }
    return ERR_none;
}

void assert_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "weir: %s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
