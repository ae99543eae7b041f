/* term: see term.h. Nothing here fails: what can't be shown is left out. */
#include "cli/term.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "text/diag.h"

enum { CELL_MAX = 2048, SAID_MAX = 64 * 1024, DIAGS_MAX = 16 << 20 };

static const char *const paint_codes[PAINT_COUNT] = {
    [PAINT_NONE] = "",
    [PAINT_BOLD] = "\033[1m",
    [PAINT_DIM] = "\033[2m",
    [PAINT_RED] = "\033[31m",
    [PAINT_GREEN] = "\033[32m",
    [PAINT_YELLOW] = "\033[33m",
    [PAINT_BLUE] = "\033[34m",
    [PAINT_MAGENTA] = "\033[35m",
    [PAINT_CYAN] = "\033[36m",
};

static const struct {
    char letter;
    enum paint paint;
} state_paints[] = {
    { 'Q', PAINT_DIM },
    { 'S', PAINT_YELLOW },
    { 'P', PAINT_CYAN },
    { 'X', PAINT_BLUE },
    { 'D', PAINT_GREEN },
    { 'F', PAINT_RED },
    { 'T', PAINT_MAGENTA },
    { 'A', PAINT_DIM },
};

void term_measure(struct term *term)
{
    struct winsize size;
    if (ioctl(term->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        term->columns = size.ws_col;
        term->rows = size.ws_row;
    }
}

void term_init(struct term *term, int fd, bool no_color)
{
    const char *env_no_color = getenv("NO_COLOR");
    const char *env_term = getenv("TERM");
    *term = (struct term){ .fd = fd, .columns = 80, .rows = 24 };
    term->tty = isatty(fd) == 1;
    term->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    term->color =
        term->tty && !no_color && !(env_no_color && *env_no_color) && !(env_term && strcmp(env_term, "dumb") == 0);
    term_measure(term);
}

const char *paint_on(const struct term *term, enum paint paint)
{
    return term->color ? paint_codes[paint] : "";
}

const char *paint_off(const struct term *term, enum paint paint)
{
    return term->color && paint != PAINT_NONE ? "\033[0m" : "";
}

enum paint paint_of_state(char letter)
{
    for (size_t i = 0; i < sizeof state_paints / sizeof *state_paints; i++)
        if (state_paints[i].letter == letter)
            return state_paints[i].paint;
    return PAINT_NONE;
}

/* utf8_take: one character off the front; false: the first byte isn't the beginning of one (it is skipped). */
static bool utf8_take(struct str *rest, struct str *out, uint32_t *out_code)
{
    const unsigned char *p = (const unsigned char *)rest->ptr;
    size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC0 ? 2 : 0;
    if (len == 0 || len > rest->len || !str_is_utf8((struct str){ rest->ptr, len })) {
        *out = (struct str){ rest->ptr, 1 };
        *rest = str_sub(*rest, 1, rest->len);
        return false;
    }
    static const unsigned char lead_bits[5] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
    uint32_t code = p[0] & lead_bits[len];
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (p[i] & 0x3FU);
    *out = (struct str){ rest->ptr, len };
    *out_code = code;
    *rest = str_sub(*rest, len, rest->len);
    return true;
}

/* code_harmless: no control character, no line or paragraph separator, nothing that turns the direction of writing. */
static bool code_harmless(uint32_t code)
{
    return !(code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || (code >= 0x200E && code <= 0x200F) ||
             (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF);
}

const char *term_safe(struct arena *arena, struct str s)
{
    struct str rest = s, one;
    uint32_t code = 0;
    char *out = arena_alloc(arena, s.len + 1);
    size_t n = 0;
    while (rest.len) {
        if (utf8_take(&rest, &one, &code) && code_harmless(code)) {
            memcpy(out + n, one.ptr, one.len);
            n += one.len;
        } else {
            out[n++] = one.ptr[0] == '\n' || one.ptr[0] == '\t' || one.ptr[0] == '\r' ? ' ' : '?';
        }
    }
    out[n] = '\0';
    return out;
}

const char *term_safe_z(struct arena *arena, const char *z)
{
    return term_safe(arena, str_of(z));
}

void term_vsay(FILE *out, const char *fmt, va_list args)
{
    struct arena arena = { 0 };
    struct buf text;
    buf_init(&text, SAID_MAX);
    buf_vaddf(&text, fmt, args);
    fprintf(out, "%s\n", term_safe(&arena, buf_str(&text)));
    buf_release(&text);
    arena_release(&arena);
}

void term_say(FILE *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    term_vsay(out, fmt, args);
    va_end(args);
}

void diags_say(const struct diags *diags)
{
    struct buf text;
    buf_init(&text, DIAGS_MAX);
    diags_text(&text, diags);
    if (text.len > 0)
        fwrite(text.ptr, 1, text.len, stderr);
    buf_release(&text);
}

static int code_width(uint32_t code)
{
    if (code < 0x80)
        return 1;
    int width = wcwidth((wchar_t)code);
    return width < 0 ? 1 : width;
}

int term_width(struct str s)
{
    struct str one;
    uint32_t code = 0;
    int width = 0;
    while (s.len)
        width += utf8_take(&s, &one, &code) ? code_width(code) : 1;
    return width;
}

struct str term_cut(struct arena *arena, const struct term *term, struct str s, int width)
{
    if (term_width(s) <= width)
        return s;
    const char *dots = term->utf8 ? "\xE2\x80\xA6" : "...";
    int dots_width = term->utf8 ? 1 : 3;
    if (width <= dots_width)
        return str_fmt(arena, "%.*s", width > 0 ? 1 : 0, term->utf8 ? "." : dots);
    struct str rest = s, one;
    uint32_t code = 0;
    int at = 0;
    while (rest.len) {
        struct str before = rest;
        int w = utf8_take(&rest, &one, &code) ? code_width(code) : 1;
        if (at + w > width - dots_width)
            return str_fmt(arena, "%.*s%s", (int)(before.ptr - s.ptr), s.ptr, dots);
        at += w;
    }
    return s;
}

/* The filter's states. A sequence is ESC, then '[' parameters final (CSI), or one of P ] X ^ _ and text up to BEL or
 * ESC \ (a string), or one more byte (possibly after intermediates). Of all these only CSI ... m is let through. A
 * character of several bytes is held until it is whole: U+0080 to U+009F are controls, others turn the direction of
 * writing. */
enum { FILTER_TEXT, FILTER_CHARACTER, FILTER_ESC, FILTER_INTERMEDIATE, FILTER_CSI, FILTER_STRING, FILTER_STRING_ESC };

static void filter_hold(struct term_filter *f, char c)
{
    if (f->n_held < sizeof f->held)
        f->held[f->n_held++] = c;
}

static void filter_text(struct term_filter *f, unsigned char c, struct buf *out)
{
    if (c == 0x1B || c >= 0xC2) {
        f->state = c == 0x1B ? FILTER_ESC : FILTER_CHARACTER;
        f->expected = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
        f->n_held = 0;
        filter_hold(f, (char)c);
    } else if (c == '\n' || c == '\t' || c == '\r' ||
               (c >= 0x20 && c < 0x7F)) { /* a lone byte above is a control to an 8-bit terminal */
        buf_add_char(out, (char)c);
    }
}

static void filter_character(struct term_filter *f, unsigned char c, struct buf *out)
{
    if (c < 0x80 || c >= 0xC0) { /* the one before was cut short */
        f->state = FILTER_TEXT;
        filter_text(f, c, out);
        return;
    }
    filter_hold(f, (char)c);
    if (f->n_held < (size_t)f->expected)
        return;
    struct str rest = { f->held, f->n_held }, one;
    uint32_t code = 0;
    if (utf8_take(&rest, &one, &code) && code_harmless(code))
        buf_add(out, one.ptr, one.len);
    f->state = FILTER_TEXT;
}

static void filter_csi(struct term_filter *f, unsigned char c, struct buf *out)
{
    filter_hold(f, (char)c);
    if ((c >= '0' && c <= ';') && f->n_held < sizeof f->held)
        return;
    if (c >= 0x20 && c < 0x40) {
        f->n_held = sizeof f->held; /* private or overlong: not a colour, whatever its end */
        return;
    }
    if (c == 'm' && f->n_held < sizeof f->held)
        buf_add(out, f->held, f->n_held);
    f->state = FILTER_TEXT;
    if (c < 0x20)
        filter_text(f, c, out);
}

static void filter_byte(struct term_filter *f, unsigned char c, struct buf *out)
{
    switch (f->state) {
    case FILTER_CHARACTER:
        filter_character(f, c, out);
        break;
    case FILTER_ESC:
        filter_hold(f, (char)c);
        f->state = c == '['                                                   ? FILTER_CSI
                   : c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_' ? FILTER_STRING
                   : c >= 0x20 && c < 0x30                                    ? FILTER_INTERMEDIATE
                                                                              : FILTER_TEXT;
        break;
    case FILTER_INTERMEDIATE:
        f->state = c >= 0x20 && c < 0x30 ? FILTER_INTERMEDIATE : FILTER_TEXT;
        break;
    case FILTER_CSI:
        filter_csi(f, c, out);
        break;
    case FILTER_STRING:
        f->state = c == 0x07 ? FILTER_TEXT : c == 0x1B ? FILTER_STRING_ESC : FILTER_STRING;
        break;
    case FILTER_STRING_ESC:
        f->state = c == '\\' ? FILTER_TEXT : FILTER_STRING;
        break;
    default:
        filter_text(f, c, out);
    }
}

void term_filter_add(struct term_filter *filter, struct str piece, struct buf *out)
{
    for (size_t i = 0; i < piece.len; i++)
        filter_byte(filter, (unsigned char)piece.ptr[i], out);
}

void table_init(struct table *table, struct arena *arena, const char *heads)
{
    *table = (struct table){ .arena = arena };
    struct str rest = str_of(heads), head;
    while (table->n_columns < TABLE_COLUMNS_MAX && str_cut(&rest, '|', &head)) {
        bool right = head.len && head.ptr[0] == '>';
        table->right[table->n_columns] = right;
        table->heads[table->n_columns++] = str_dupz(arena, str_sub(head, right, head.len));
    }
}

void table_add(struct table *table, enum paint paint, const char *fmt, ...)
{
    char text[CELL_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    struct table_cell *cell = ARENA_PUSH(table->arena, table->cells, table->n_cells, table->cap_cells);
    cell->text = term_safe_z(table->arena, text);
    cell->paint = paint;
}

static void print_cell(const struct table *table, const struct term *term, FILE *out, size_t column,
    struct table_cell cell, int width, int room)
{
    struct str text = str_of(cell.text);
    bool last = column + 1 == table->n_columns;
    if (last && term->tty)
        text = term_cut(table->arena, term, text, room);
    int pad = width - term_width(text);
    if (pad < 0 || (last && !table->right[column]))
        pad = 0;
    if (table->right[column])
        fprintf(out, "%*s", pad, "");
    fprintf(out, "%s%.*s%s", paint_on(term, cell.paint), STR_ARG(text), paint_off(term, cell.paint));
    if (!table->right[column])
        fprintf(out, "%*s", pad, "");
    fputs(last ? "\n" : "  ", out);
}

void table_print(const struct table *table, const struct term *term, FILE *out, int rows_max)
{
    int widths[TABLE_COLUMNS_MAX];
    size_t n = table->n_columns;
    if (table->n_cells == 0 || n == 0)
        return;
    size_t n_rows = table->n_cells / n;
    if (rows_max > 0 && n_rows > (size_t)rows_max)
        n_rows = (size_t)rows_max;
    for (size_t c = 0; c < n; c++) {
        widths[c] = term_width(str_of(table->heads[c]));
        for (size_t r = 0; r < n_rows; r++) {
            int w = term_width(str_of(table->cells[r * n + c].text));
            widths[c] = w > widths[c] ? w : widths[c];
        }
    }
    int room = term->columns;
    for (size_t c = 0; c + 1 < n; c++)
        room -= widths[c] + 2;
    room = room < 8 ? 8 : room;
    for (size_t c = 0; c < n; c++)
        print_cell(table, term, out, c, (struct table_cell){ table->heads[c], PAINT_DIM }, widths[c], room);
    for (size_t r = 0; r < n_rows; r++)
        for (size_t c = 0; c < n; c++)
            print_cell(table, term, out, c, table->cells[r * n + c], widths[c], room);
}
