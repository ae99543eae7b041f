/* err: why something was refused or failed, in the user's words.
 *
 * A function that can fail returns false and fills *err; err_set returns false so that `return err_set(...)` reads
 * well. `items` lists every fault of a bad document; it lives in `arena`, which must be set before items are added.
 * Texts are always UTF-8 without control characters (what was quoted and isn't shows as ?) and are cut at a character
 * when too long. Arguments may point into err->text. */
#ifndef WEIR_BASE_ERR_H
#define WEIR_BASE_ERR_H

#include "base/arena.h"
#include "base/str.h"

enum err_code {
#define ERR(name, http, exit, retry, title) ERR_##name,
#include "base/err.def"
#undef ERR
    ERR_COUNT
};

struct err_item {
    struct str path; /* JSON pointer, or empty */
    struct str file;
    unsigned line, column; /* from 1; 0: not known */
    struct str message, suggestion;
};

struct err {
    enum err_code code;
    char text[480];
    struct arena *arena;
    struct err_item *items;
    size_t n_items, cap_items;
    int64_t expected; /* log_gap: the offset wanted */
};

bool err_set(struct err *err, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void err_context(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* "context: text" */

/* err_item: adds one fault; sets code to `code` and text to the first message if none is set yet. At most 100 are kept;
 * of further ones err_item_last gives a place that isn't counted. Path and message are copied into the arena. Returns
 * false. */
bool err_item(struct err *err, enum err_code code, struct str path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
struct err_item *err_item_last(struct err *err); /* to fill in line, column, suggestion; NULL if none */

const char *err_name(enum err_code code);
const char *err_title(enum err_code code);
int err_http(enum err_code code);
int err_exit(enum err_code code);
bool err_retriable(enum err_code code);
enum err_code err_find(struct str name); /* ERR_none if unknown */

/* ASSERT: our own bug; on in every build; prints and aborts. */
_Noreturn void assert_failed(const char *file, int line, const char *what);
#define ASSERT(cond) ((cond) ? (void)0 : assert_failed(__FILE__, __LINE__, #cond))

#endif
