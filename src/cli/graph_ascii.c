/* graph_ascii: boxes and lines on a canvas of cells.
 *
 * Every net (all that leaves one task downwards) has a horizontal track of its own between two layers, and every net
 * that enters a box has a port of its own in its upper edge: so a junction always belongs to one net, and a cross is
 * only ever a cross. */
#include <string.h>

#include "cli/graph_draw.h"
#include "cli/task_text.h"

enum { CELLS_MAX = 4 << 20, BOX_ROWS = 3, LABEL_PAD = 4, UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };

struct cell {
    unsigned char lines; /* bits of the four directions */
    char glyph[8];       /* instead of lines */
    enum paint paint;
    bool taken; /* second cell of a wide character: nothing is printed */
};
struct canvas {
    struct cell *cells;
    int64_t columns, rows;
};

struct track { /* one net between two layers */
    uint32_t upper;
    const struct layout_hop *hops;
    size_t n_hops;
    int64_t from, to; /* columns */
    int64_t row;      /* -1: straight down, no track needed */
    bool placed;
};

struct drawing {
    struct arena *arena;
    const struct graph *graph;
    const struct term *term;
    struct layout layout;
    struct canvas canvas;
    int64_t *port_of_hop; /* column at which a hop enters its lower node, by index of the hop */
    struct track *tracks; /* of all channels, in the order of hops */
    size_t n_tracks;
    int64_t *channel_rows, *layer_row;
};

static struct cell *cell_at(struct canvas *canvas, int64_t x, int64_t y)
{
    return &canvas->cells[y * canvas->columns + x];
}

static void line_vertical(struct canvas *canvas, int64_t x, int64_t from, int64_t to)
{
    for (int64_t y = from; y <= to; y++)
        cell_at(canvas, x, y)->lines |= (unsigned char)((y > from ? UP : 0) | (y < to ? DOWN : 0));
}

static void line_horizontal(struct canvas *canvas, int64_t y, int64_t from, int64_t to)
{
    for (int64_t x = from; x <= to; x++)
        cell_at(canvas, x, y)->lines |= (unsigned char)((x > from ? LEFT : 0) | (x < to ? RIGHT : 0));
}

static void glyph_set(struct cell *cell, struct str glyph, enum paint paint)
{
    size_t len = glyph.len < sizeof cell->glyph ? glyph.len : sizeof cell->glyph - 1;
    memcpy(cell->glyph, glyph.ptr, len);
    cell->glyph[len] = '\0';
    cell->paint = paint;
}

/* char_take: one UTF-8 character of a text that term_safe has checked. */
static struct str char_take(struct str *rest)
{
    size_t len = 1;
    while (len < rest->len && ((unsigned char)rest->ptr[len] & 0xC0) == 0x80)
        len++;
    struct str one = str_sub(*rest, 0, len);
    *rest = str_sub(*rest, len, rest->len);
    return one;
}

static void text_put(struct canvas *canvas, int64_t x, int64_t y, const char *text, enum paint paint)
{
    struct str rest = str_of(text);
    while (rest.len) {
        struct str one = char_take(&rest);
        int width = term_width(one);
        glyph_set(cell_at(canvas, x, y), one, paint);
        for (int i = 1; i < width; i++)
            cell_at(canvas, x + i, y)->taken = true;
        x += width;
    }
}

/* --- ports and tracks --- */

bool graph_layout(struct arena *arena, const struct graph *graph,
    int64_t (*width)(const struct graph_task *task, int64_t incoming), int64_t gap, struct layout *out)
{
    int64_t *widths = ARENA_ARRAY(arena, int64_t, graph->n_tasks + 1);
    struct layout_edge *edges = ARENA_ARRAY(arena, struct layout_edge, graph->n_edges + 1);
    int64_t *incoming = ARENA_ARRAY(arena, int64_t, graph->n_tasks + 1);
    for (size_t i = 0; i < graph->n_edges; i++) {
        edges[i] = (struct layout_edge){ .above = graph->edges[i].to, .below = graph->edges[i].from };
        incoming[graph->edges[i].from]++;
    }
    for (size_t i = 0; i < graph->n_tasks; i++)
        widths[i] = width(&graph->tasks[i], incoming[i]);
    struct layout_input input = { graph->n_tasks, graph->n_edges, widths, edges, gap, gap / 2 };
    return layout_make(arena, &input, out);
}

static int64_t box_columns(const struct graph_task *task, int64_t incoming)
{
    int64_t label = term_width(str_of(task->label)) + LABEL_PAD, ports = 2 * incoming + 1;
    return (label > ports ? label : ports) | 1; /* odd: a middle column */
}

/* ports_assign: the nets that enter a box do so side by side, in the order of where they come from. Hops are sorted by
 * the order of `upper`. */
static void ports_assign(struct drawing *d)
{
    const struct layout *layout = &d->layout;
    int64_t *entered = ARENA_ARRAY(d->arena, int64_t, layout->n_nodes + 1),
            *total = ARENA_ARRAY(d->arena, int64_t, layout->n_nodes + 1);
    d->port_of_hop = ARENA_ARRAY(d->arena, int64_t, layout->n_hops + 1);
    for (size_t i = 0; i < layout->n_hops; i++)
        total[layout->hops[i].lower]++;
    for (size_t i = 0; i < layout->n_hops; i++) {
        uint32_t lower = layout->hops[i].lower;
        d->port_of_hop[i] = layout_center(&layout->nodes[lower]) - (total[lower] - 1) + 2 * entered[lower]++;
    }
}

/* tracks_make: hops of one net stand together. */
static void tracks_make(struct drawing *d)
{
    const struct layout *layout = &d->layout;
    d->tracks = ARENA_ARRAY(d->arena, struct track, layout->n_hops + 1);
    for (size_t from = 0, to; from < layout->n_hops; from = to) {
        struct track *track = &d->tracks[d->n_tracks++];
        *track = (struct track){ .upper = layout->hops[from].upper, .hops = &layout->hops[from] };
        track->from = track->to = layout_center(&layout->nodes[track->upper]);
        for (to = from; to < layout->n_hops && layout->hops[to].upper == track->upper; to++) {
            int64_t port = d->port_of_hop[to];
            track->from = port < track->from ? port : track->from;
            track->to = port > track->to ? port : track->to;
            track->n_hops++;
        }
        track->row = track->from == track->to ? -1 : 0;
    }
}

static bool track_enters(const struct drawing *d, const struct track *track, int64_t column)
{
    size_t first = (size_t)(track->hops - d->layout.hops);
    for (size_t i = 0; i < track->n_hops; i++)
        if (d->port_of_hop[first + i] == column)
            return true;
    return false;
}

/* track_free_row: the first row from `row` on in which the track touches no other one. */
static int64_t track_free_row(const struct track *tracks, size_t n, const struct track *track, int64_t row)
{
    for (size_t i = 0; i < n; i++) {
        const struct track *other = &tracks[i];
        if (other->placed && other->row == row && other->from <= track->to + 1 && track->from <= other->to + 1) {
            row++;
            i = (size_t)-1; /* look at all of them again */
        }
    }
    return row;
}

/* channel_place: a net whose way down from its box meets the column in which another net goes down must turn off above
 * the other. Nets that want this of each other are placed in the order of their boxes: they share a piece of a column
 * then. */
static int64_t channel_place(struct drawing *d, struct track *tracks, size_t n)
{
    int64_t rows = 0;
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        left += tracks[i].row >= 0;
    for (bool forced = false; left > 0;) {
        bool moved = false;
        for (size_t t = 0; t < n; t++) {
            struct track *track = &tracks[t];
            bool free = track->row >= 0 && !track->placed;
            int64_t row = 0;
            for (size_t o = 0; free && o < n; o++) {
                if (o == t || tracks[o].row < 0 ||
                    !track_enters(d, track, layout_center(&d->layout.nodes[tracks[o].upper])))
                    continue;
                if (!tracks[o].placed)
                    free = forced;
                else
                    row = tracks[o].row + 1 > row ? tracks[o].row + 1 : row;
            }
            if (!free)
                continue;
            track->row = track_free_row(tracks, n, track, row);
            track->placed = moved = true;
            forced = false;
            rows = track->row + 1 > rows ? track->row + 1 : rows;
            left--;
        }
        forced = !moved;
    }
    return rows ? rows : 1;
}

static void channels_place(struct drawing *d)
{
    const struct layout *layout = &d->layout;
    d->channel_rows = ARENA_ARRAY(d->arena, int64_t, layout->n_layers + 1);
    d->layer_row = ARENA_ARRAY(d->arena, int64_t, layout->n_layers + 1);
    for (size_t from = 0, to; from < d->n_tracks; from = to) {
        uint32_t layer = layout->nodes[d->tracks[from].upper].layer;
        for (to = from; to < d->n_tracks && layout->nodes[d->tracks[to].upper].layer == layer; to++)
            ;
        d->channel_rows[layer] = channel_place(d, d->tracks + from, to - from);
    }
    for (size_t l = 0; l + 1 < layout->n_layers; l++)
        d->layer_row[l + 1] = d->layer_row[l] + BOX_ROWS + d->channel_rows[l];
}

/* --- drawing --- */

static void boxes_draw(struct drawing *d)
{
    for (size_t i = 0; i < d->layout.n_nodes; i++) {
        const struct layout_node *node = &d->layout.nodes[i];
        int64_t y = d->layer_row[node->layer], right = node->x + node->width - 1;
        if (node->dummy) {
            line_vertical(&d->canvas, node->x, y, y + BOX_ROWS - 1);
            continue;
        }
        line_horizontal(&d->canvas, y, node->x, right);
        line_horizontal(&d->canvas, y + 2, node->x, right);
        line_vertical(&d->canvas, node->x, y, y + 2);
        line_vertical(&d->canvas, right, y, y + 2);
        const struct graph_task *task = &d->graph->tasks[i];
        int64_t pad = (node->width - 2 - term_width(str_of(task->label))) / 2;
        text_put(&d->canvas, node->x + 1 + pad, y + 1, task->label, paint_of_state(task->state));
    }
}

static void tracks_draw(struct drawing *d)
{
    static const struct {
        char kind;
        const char *utf8, *ascii;
    } arrows[] = { { 'd', "\xE2\x96\xBC", "v" }, { 'a', "\xE2\x96\xBD", "o" }, { 'c', "\xE2\x9C\x97", "x" } };
    for (size_t t = 0; t < d->n_tracks; t++) {
        const struct track *track = &d->tracks[t];
        const struct layout_node *upper = &d->layout.nodes[track->upper];
        int64_t top = d->layer_row[upper->layer] + BOX_ROWS - 1, bottom = d->layer_row[upper->layer + 1];
        int64_t y = top + 1 + (track->row < 0 ? 0 : track->row);
        size_t first = (size_t)(track->hops - d->layout.hops);
        line_vertical(&d->canvas, layout_center(upper), top, y);
        line_horizontal(&d->canvas, y, track->from, track->to);
        for (size_t i = 0; i < track->n_hops; i++) {
            int64_t port = d->port_of_hop[first + i];
            line_vertical(&d->canvas, port, y, bottom);
            if (track->hops[i].edge == LAYOUT_NO_EDGE)
                continue;
            char kind = d->graph->edges[track->hops[i].edge].kind;
            for (size_t a = 0; a < sizeof arrows / sizeof *arrows; a++)
                if (arrows[a].kind == kind)
                    glyph_set(cell_at(&d->canvas, port, bottom),
                        str_of(d->term->utf8 ? arrows[a].utf8 : arrows[a].ascii), PAINT_NONE);
        }
    }
}

static void canvas_print(FILE *out, const struct canvas *canvas, const struct term *term)
{
    static const char *const utf8[16] = { " ", "\xE2\x94\x82", "\xE2\x94\x82", "\xE2\x94\x82", "\xE2\x94\x80",
        "\xE2\x94\x98", "\xE2\x94\x90", "\xE2\x94\xA4", "\xE2\x94\x80", "\xE2\x94\x94", "\xE2\x94\x8C", "\xE2\x94\x9C",
        "\xE2\x94\x80", "\xE2\x94\xB4", "\xE2\x94\xAC", "\xE2\x94\xBC" };
    static const char *const ascii[16] = { " ", "|", "|", "|", "-", "+", "+", "+", "-", "+", "+", "+", "-", "+", "+",
        "+" };
    for (int64_t y = 0; y < canvas->rows; y++) {
        const struct cell *row = canvas->cells + y * canvas->columns;
        int64_t end = canvas->columns;
        while (end > 0 && !row[end - 1].lines && !row[end - 1].glyph[0] && !row[end - 1].taken)
            end--;
        enum paint paint = PAINT_NONE;
        for (int64_t x = 0; x < end; x++) {
            if (row[x].taken)
                continue;
            enum paint wanted = row[x].glyph[0] ? row[x].paint : PAINT_NONE;
            if (wanted != paint) {
                fputs(paint_off(term, paint), out);
                fputs(paint_on(term, wanted), out);
                paint = wanted;
            }
            fputs(row[x].glyph[0] ? row[x].glyph : (term->utf8 ? utf8 : ascii)[row[x].lines & 15], out);
        }
        fputs(paint_off(term, paint), out);
        fputc('\n', out);
    }
}

static void legend_print(FILE *out, const struct drawing *d)
{
    bool other = false;
    for (size_t i = 0; i < d->graph->n_edges; i++)
        other = other || d->graph->edges[i].kind != 'd';
    if (other)
        fputs(d->term->utf8 ? "\n\xE2\x96\xBC depends  \xE2\x96\xBD after  \xE2\x9C\x97 cancels\n"
                            : "\nv depends  o after  x cancels\n",
            out);
}

bool graph_ascii(FILE *out, struct arena *arena, const struct term *term, const struct graph *graph, int columns)
{
    struct drawing d = { .arena = arena, .graph = graph, .term = term };
    if (graph->n_tasks > GRAPH_BOXES_MAX || !graph_layout(arena, graph, box_columns, 2, &d.layout))
        return false;
    if (graph->n_tasks == 0)
        return true;
    if (columns > 0 && d.layout.width > columns)
        return false;
    ports_assign(&d);
    tracks_make(&d);
    channels_place(&d);
    d.canvas.columns = d.layout.width;
    d.canvas.rows = d.layer_row[d.layout.n_layers - 1] + BOX_ROWS;
    if (d.canvas.columns * d.canvas.rows > CELLS_MAX)
        return false;
    d.canvas.cells = ARENA_ARRAY(arena, struct cell, (size_t)(d.canvas.columns * d.canvas.rows));
    boxes_draw(&d);
    tracks_draw(&d);
    canvas_print(out, &d.canvas, term);
    legend_print(out, &d);
    return true;
}

void graph_list(FILE *out, struct arena *arena, const struct term *term, const struct graph *graph)
{
    /* Edges by the one that waits: chains through `next`, newest first, so they are hung in from the end. */
    size_t *first = ARENA_ARRAY(arena, size_t, graph->n_tasks + 1),
           *next = ARENA_ARRAY(arena, size_t, graph->n_edges + 1);
    for (size_t e = graph->n_edges; e > 0; e--) {
        next[e - 1] = first[graph->edges[e - 1].from];
        first[graph->edges[e - 1].from] = e;
    }
    for (size_t i = 0; i < graph->n_tasks; i++) {
        const struct graph_task *task = &graph->tasks[i];
        fprintf(out, "%s%c%s %s  %s", paint_on(term, paint_of_state(task->state)), task->state,
            paint_off(term, paint_of_state(task->state)), task->key, task->name);
        for (size_t e = first[i]; e > 0; e = next[e - 1])
            fprintf(out, "  %s %s", edge_word(graph->edges[e - 1].kind), graph->tasks[graph->edges[e - 1].to].key);
        fputc('\n', out);
    }
}

const char *edge_word(char kind)
{
    return kind == 'a' ? "after" : kind == 'c' ? "cancels" : "depends";
}
