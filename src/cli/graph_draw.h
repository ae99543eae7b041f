/* graph_draw: a task graph as text: boxes and lines, dot, SVG. Writes into a FILE, knows nothing of servers. */
#ifndef WEIR_CLI_GRAPH_DRAW_H
#define WEIR_CLI_GRAPH_DRAW_H

#include <stdio.h>

#include "base/arena.h"
#include "cli/term.h"
#include "core/layout.h"

struct graph_task {
    int64_t id;
    char state;             /* letter */
    const char *key, *name; /* one harmless line each */
    const char *label;      /* "D 42 build" */
};
struct graph_edge {
    uint32_t from, to; /* from waits for, or cancels, to */
    char kind;         /* 'd' depends, 'a' after, 'c' cancels */
};
struct graph {
    struct graph_task *tasks;
    size_t n_tasks, cap_tasks;
    struct graph_edge *edges;
    size_t n_edges, cap_edges;
};

enum { GRAPH_BOXES_MAX = 400 };

/* graph_layout: boxes in layers, each as wide as `width` says of its task and the edges that enter it. */
bool graph_layout(struct arena *arena, const struct graph *graph,
    int64_t (*width)(const struct graph_task *task, int64_t incoming), int64_t gap, struct layout *out);
/* graph_ascii: boxes in layers; false when it is wider than `columns` (0: no limit) or has too many tasks: nothing was
 * written, use graph_list. */
bool graph_ascii(FILE *out, struct arena *arena, const struct term *term, const struct graph *graph, int columns);
/* graph_list: one line a task, what it waits for behind it; for graphs that don't fit. */
void graph_list(FILE *out, struct arena *arena, const struct term *term, const struct graph *graph);
void graph_dot(FILE *out, const struct graph *graph);
/* graph_svg: false: too large to be drawn. */
bool graph_svg(FILE *out, struct arena *arena, const struct graph *graph);

const char *edge_word(char kind); /* "depends", ... */

#endif
