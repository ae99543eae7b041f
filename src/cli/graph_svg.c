/* graph_svg: a task graph as dot and as SVG. Colours say the state, letters say it too. */
#include <string.h>

#include "cli/graph_draw.h"
#include "cli/task_text.h"

enum {
    CHAR_PX = 8,
    BOX_PAD_PX = 44,
    BOX_PX = 34,
    LAYER_PX = 92,
    GAP_PX = 24,
    MARGIN_PX = 20,
    PORT_PX = 14,
    LEGEND_PX = 50,
    LEGEND_LINE_PX = 18,
    LEGEND_WIDTH_PX = 640
};

/* How a state is drawn (fill, line), and a kind of edge (as SVG, as dot). */
struct style {
    char letter;
    const char *first, *second;
};
static const struct style palettes[] = {
    { 'Q', "#f3f4f6", "#9ca3af" },
    { 'S', "#fef9c3", "#ca8a04" },
    { 'P', "#cffafe", "#0891b2" },
    { 'X', "#dbeafe", "#2563eb" },
    { 'D', "#dcfce7", "#16a34a" },
    { 'F', "#fee2e2", "#dc2626" },
    { 'T', "#fae8ff", "#a21caf" },
    { 'A', "#e5e7eb", "#6b7280" },
    { 0 },
};
static const struct style edge_styles[] = {
    { 'd', "", "" },
    { 'a', " stroke-dasharray=\"5 4\"", "style=dashed, arrowhead=empty" },
    { 'c', " stroke-dasharray=\"2 4\" class=\"c\"", "style=dotted, color=\"#dc2626\", arrowhead=tee" },
    { 0 },
};

/* style_of: the first one for a letter that isn't there. */
static const struct style *style_of(const struct style *styles, char letter)
{
    for (size_t i = 0; styles[i].letter; i++)
        if (styles[i].letter == letter)
            return &styles[i];
    return &styles[0];
}

static void dot_quote(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

void graph_dot(FILE *out, const struct graph *graph)
{
    fputs("digraph weir {\n    rankdir=TB;\n    node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n",
        out);
    for (size_t i = 0; i < graph->n_tasks; i++) {
        const struct graph_task *task = &graph->tasks[i];
        const struct style *palette = style_of(palettes, task->state);
        fputs("    ", out);
        dot_quote(out, task->key);
        fputs(" [label=", out);
        dot_quote(out, task->label);
        fprintf(out, ", fillcolor=\"%s\", color=\"%s\"];\n", palette->first, palette->second);
    }
    for (size_t i = 0; i < graph->n_edges; i++) { /* drawn from what is waited for to what waits */
        const struct graph_edge *edge = &graph->edges[i];
        fputs("    ", out);
        dot_quote(out, graph->tasks[edge->to].key);
        fputs(" -> ", out);
        dot_quote(out, graph->tasks[edge->from].key);
        const char *style = style_of(edge_styles, edge->kind)->second;
        if (*style)
            fprintf(out, " [%s]", style);
        fputs(";\n", out);
    }
    fputs("}\n", out);
}

static void xml_text(FILE *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '&')
            fputs("&amp;", out);
        else if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '>')
            fputs("&gt;", out);
        else if (*c == '"')
            fputs("&quot;", out);
        else
            fputc(*c, out);
    }
}

static int64_t node_y(const struct layout_node *node)
{
    return MARGIN_PX + (int64_t)node->layer * LAYER_PX;
}

static void svg_task(FILE *out, const struct graph_task *task, const struct layout_node *node)
{
    const struct style *palette = style_of(palettes, task->state);
    long long x = MARGIN_PX + node->x, y = node_y(node), width = node->width;
    fprintf(out, "<g><title>");
    xml_text(out, task->key);
    fprintf(out,
        ": %s</title><rect x=\"%lld\" y=\"%lld\" width=\"%lld\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"%s\"/>",
        letter_word(task->state), x, y, width, BOX_PX, palette->first, palette->second);
    fprintf(out, "<text x=\"%lld\" y=\"%lld\" class=\"l\" style=\"fill:%s\">%c</text>", x + 16, y + 22, palette->second,
        task->state);
    fprintf(out, "<text x=\"%lld\" y=\"%lld\">", x + 16 + (width - 16) / 2, y + 22);
    xml_text(out, *task->name ? task->name : task->key);
    fputs("</text></g>\n", out);
}

/* svg_hop: a smooth piece from one layer to the next; at a dummy it runs straight on to that layer's lower edge. */
static void svg_hop(
    FILE *out, const struct layout *layout, const struct graph *graph, const struct layout_hop *hop, int64_t port)
{
    const struct layout_node *upper = &layout->nodes[hop->upper], *lower = &layout->nodes[hop->lower];
    long long x1 = MARGIN_PX + layout_center(upper), y1 = node_y(upper) + BOX_PX, x2 = MARGIN_PX + port,
              y2 = node_y(lower), bend = (y2 - y1) / 2;
    bool ends = hop->edge != LAYOUT_NO_EDGE;
    fprintf(out, "<path d=\"M%lld %lld C%lld %lld %lld %lld %lld %lld", x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2);
    if (!ends)
        fprintf(out, " V%lld", y2 + BOX_PX);
    fprintf(out, "\"%s%s/>\n", ends ? style_of(edge_styles, graph->edges[hop->edge].kind)->first : "",
        ends ? " marker-end=\"url(#a)\"" : "");
}

static int64_t box_px(const struct graph_task *task, int64_t incoming)
{
    const char *text = *task->name ? task->name : task->key;
    int64_t label = term_width(str_of(text)) * CHAR_PX + BOX_PAD_PX, ports = (incoming + 1) * PORT_PX;
    return label > ports ? label : ports;
}

static void svg_head(FILE *out, long long width, long long height)
{
    fprintf(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" viewBox=\"0 0 %lld %lld\" "
        "role=\"img\" aria-label=\"task "
        "graph\">\n"
        "<style>text{font:14px "
        "ui-sans-serif,system-ui,sans-serif;text-anchor:middle;fill:#111827}.l{font-weight:700}.k{font-size:12px;text-"
        "anchor:start;fill:#"
        "4b5563}"
        "path{fill:none;stroke:#6b7280;stroke-width:1.5}.c{stroke:#dc2626}</style>\n"
        "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" "
        "orient=\"auto\"><path "
        "d=\"M0 0 L8 4 L0 8 z\" style=\"fill:#6b7280;stroke:none\"/></marker></defs>\n"
        "<rect width=\"%lld\" height=\"%lld\" fill=\"#ffffff\"/>\n",
        width, height, width, height, width, height);
}

static void svg_legend(FILE *out, long long y)
{
    fprintf(out, "<text x=\"%d\" y=\"%lld\" class=\"k\">", MARGIN_PX, y);
    for (const char *c = state_letters; *c; c++)
        fprintf(out, "%c %s%s", *c, letter_word(*c), c[1] ? " \xC2\xB7 " : "</text>\n");
    fprintf(out,
        "<text x=\"%d\" y=\"%lld\" class=\"k\">solid: depends \xC2\xB7 dashed: after \xC2\xB7 dotted: cancels</text>\n",
        MARGIN_PX, y + LEGEND_LINE_PX);
}

bool graph_svg(FILE *out, struct arena *arena, const struct graph *graph)
{
    struct layout layout;
    if (!graph_layout(arena, graph, box_px, GAP_PX, &layout))
        return false;
    int64_t *total = ARENA_ARRAY(arena, int64_t, layout.n_nodes + 1),
            *entered = ARENA_ARRAY(arena, int64_t, layout.n_nodes + 1);
    for (size_t i = 0; i < layout.n_hops; i++)
        total[layout.hops[i].lower]++;
    long long width = layout.width + 2 * MARGIN_PX;
    long long height =
        2 * MARGIN_PX + (layout.n_layers ? (long long)(layout.n_layers - 1) * LAYER_PX + BOX_PX : 0) + LEGEND_PX;
    svg_head(out, width > LEGEND_WIDTH_PX ? width : LEGEND_WIDTH_PX, height);
    for (size_t i = 0; i < layout.n_hops; i++) {
        uint32_t lower = layout.hops[i].lower;
        int64_t port =
            layout_center(&layout.nodes[lower]) - (total[lower] - 1) * PORT_PX / 2 + PORT_PX * entered[lower]++;
        svg_hop(out, &layout, graph, &layout.hops[i], port);
    }
    for (size_t i = 0; i < graph->n_tasks; i++)
        svg_task(out, &graph->tasks[i], &layout.nodes[i]);
    svg_legend(out, height - 12 - LEGEND_LINE_PX);
    fputs("</svg>\n", out);
    return true;
}
