/* term: what a person sees: colours, widths, tables, and text from elsewhere made harmless.
 *
 * Colours are written only when stdout is a terminal and nobody asked for none. Names, reasons and keys come from the
 * server and are never trusted: term_safe makes one line without control characters of them, tables do it for every
 * cell. Logs go through term_filter. */
#ifndef WEIR_CLI_TERM_H
#define WEIR_CLI_TERM_H

#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"

struct diags;

struct term {
    int fd;            /* stdout, or stderr for progress */
    bool tty;          /* it is a terminal */
    bool color;        /* it may be coloured */
    bool utf8;         /* the locale's character set */
    int columns, rows; /* of the terminal; 80 and 24 when not known */
};

enum paint {
    PAINT_NONE,
    PAINT_BOLD,
    PAINT_DIM,
    PAINT_RED,
    PAINT_GREEN,
    PAINT_YELLOW,
    PAINT_BLUE,
    PAINT_MAGENTA,
    PAINT_CYAN,
    PAINT_COUNT
};

void term_init(struct term *term, int fd, bool no_color);
void term_measure(struct term *term);                            /* columns and rows again, after a SIGWINCH */
const char *paint_on(const struct term *term, enum paint paint); /* "" when there are no colours */
const char *paint_off(const struct term *term, enum paint paint);
enum paint paint_of_state(char letter);

/* term_safe: one line without control characters, bidirectional overrides or broken UTF-8; in the arena,
 * NUL-terminated. */
const char *term_safe(struct arena *arena, struct str s);
const char *term_safe_z(struct arena *arena, const char *z);
/* term_say: the same with a line end: for messages with words of the command line or of a file in them */
void term_say(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void term_vsay(FILE *out, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
void diags_say(const struct diags *diags); /* on stderr, as a compiler does; text/diag.h */
int term_width(struct str s);              /* cells on a terminal */
/* at most width cells, with an ellipsis */
struct str term_cut(struct arena *arena, const struct term *term, struct str s, int width);

/* term_filter: a log on its way to a terminal: text, tabs, line ends, carriage returns and colours (SGR) pass; every
 * other control sequence, what turns the direction of writing and broken UTF-8 are dropped. State is kept between
 * pieces. The zero value is the beginning. */
struct term_filter {
    int state;
    char held[64];
    size_t n_held;
    int expected; /* bytes of the UTF-8 character that is held */
};
void term_filter_add(struct term_filter *filter, struct str piece, struct buf *out);

enum { TABLE_COLUMNS_MAX = 12 };
struct table_cell {
    const char *text;
    enum paint paint;
};
struct table {
    struct arena *arena;
    const char *heads[TABLE_COLUMNS_MAX];
    bool right[TABLE_COLUMNS_MAX];
    size_t n_columns;
    struct table_cell *cells; /* row by row */
    size_t n_cells, cap_cells;
};
/* table_init: heads "STATE|KEY|>AGE": a leading > aligns to the right. */
void table_init(struct table *table, struct arena *arena, const char *heads);
void table_add(struct table *table, enum paint paint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* table_print: the last column is cut to the terminal's width; nothing at all for a table without rows. rows_max 0:
 * all. */
void table_print(const struct table *table, const struct term *term, FILE *out, int rows_max);

#endif
