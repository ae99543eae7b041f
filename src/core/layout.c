/* layout: the four classic steps (break cycles, layers, order, columns), each a function of the one before.
 *
 * It promises that every hop joins neighbouring layers, that nodes of a layer never overlap and keep their order, and
 * that the result depends on the input alone. It fails only for graphs that nobody could look at. */
#include "core/layout.h"

#include <string.h>

#include "base/err.h"

enum { ORDER_SWEEPS = 12, COLUMN_SWEEPS = 8, FIXED = 1024, DUMMY_WEIGHT = 8, LONE_WEIGHT = 1, NEIGHBOUR_WEIGHT = 4 };

struct work {
    struct arena *arena;
    const struct layout_input *in;
    struct layout *out;
    struct layout_edge *edges; /* cycles broken, loops and doubles gone */
    uint32_t *edge_of;         /* index in the input */
    size_t n_edges;
    uint32_t *down_start, *down; /* hops by upper node: down[down_start[u] .. down_start[u + 1]) are indexes of hops */
    uint32_t *up_start, *up;     /* hops by lower node */
};

/* --- sorting: stable, by a key per element --- */

static void sort_by_key(struct arena *arena, uint32_t *items, const int64_t *keys, size_t n)
{
    uint32_t *from = items, *to = ARENA_ARRAY(arena, uint32_t, n ? n : 1);
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t left = 0; left < n; left += 2 * width) {
            size_t mid = left + width < n ? left + width : n, end = left + 2 * width < n ? left + 2 * width : n;
            size_t a = left, b = mid;
            for (size_t k = left; k < end; k++)
                to[k] = a < mid && (b >= end || keys[from[a]] <= keys[from[b]]) ? from[a++] : from[b++];
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, sizeof *items * n);
}

/* --- cycles --- */

/* edges_take: copies the edges without loops and doubles. */
static void edges_take(struct work *w)
{
    const struct layout_input *in = w->in;
    uint32_t *order = ARENA_ARRAY(w->arena, uint32_t, in->n_edges + 1);
    int64_t *keys = ARENA_ARRAY(w->arena, int64_t, in->n_edges + 1);
    w->edges = ARENA_ARRAY(w->arena, struct layout_edge, in->n_edges + 1);
    w->edge_of = ARENA_ARRAY(w->arena, uint32_t, in->n_edges + 1);
    for (size_t i = 0; i < in->n_edges; i++) {
        ASSERT(in->edges[i].above < in->n_nodes && in->edges[i].below < in->n_nodes);
        order[i] = (uint32_t)i;
        keys[i] = (int64_t)in->edges[i].above * (int64_t)in->n_nodes + in->edges[i].below;
    }
    sort_by_key(w->arena, order, keys, in->n_edges);
    for (size_t i = 0; i < in->n_edges; i++) {
        const struct layout_edge *edge = &in->edges[order[i]];
        if (edge->above == edge->below || (i > 0 && keys[order[i]] == keys[order[i - 1]]))
            continue;
        w->edges[w->n_edges] = *edge;
        w->edge_of[w->n_edges++] = order[i];
    }
}

/* cycles_break: depth first, without recursion; an edge back to a node that is still open is turned round. Edges are
 * sorted by `above`. */
static void cycles_break(struct work *w)
{
    size_t n = w->in->n_nodes;
    uint32_t *start = ARENA_ARRAY(w->arena, uint32_t, n + 2), *next = ARENA_ARRAY(w->arena, uint32_t, n + 1),
             *stack = ARENA_ARRAY(w->arena, uint32_t, n + 1);
    char *mark = arena_alloc(w->arena, n + 1); /* 0 new, 1 open, 2 closed */
    for (size_t i = 0; i < w->n_edges; i++)
        start[w->edges[i].above + 1]++;
    for (size_t i = 0; i < n; i++) {
        start[i + 1] += start[i];
        next[i] = start[i];
    }
    struct layout_edge *turned = ARENA_ARRAY(w->arena, struct layout_edge, w->n_edges + 1);
    memcpy(turned, w->edges, sizeof *turned * w->n_edges);
    for (size_t root = 0; root < n; root++) {
        size_t depth = 0;
        if (mark[root] == 0)
            stack[depth++] = (uint32_t)root;
        mark[root] = mark[root] ? mark[root] : 1;
        while (depth > 0) {
            uint32_t node = stack[depth - 1];
            if (next[node] == start[node + 1]) {
                mark[node] = 2;
                depth--;
                continue;
            }
            uint32_t edge = next[node]++, below = w->edges[edge].below;
            if (mark[below] == 1)
                turned[edge] = (struct layout_edge){ below, node };
            if (mark[below] == 0) {
                mark[below] = 1;
                stack[depth++] = below;
            }
        }
    }
    w->edges = turned;
}

/* --- layers --- */

/* layers_assign: the longest path from above, by relaxing in topological order. */
static void layers_assign(struct work *w)
{
    size_t n = w->in->n_nodes, n_ready = 0;
    uint32_t *waits = ARENA_ARRAY(w->arena, uint32_t, n + 1), *ready = ARENA_ARRAY(w->arena, uint32_t, n + 1);
    uint32_t *start = ARENA_ARRAY(w->arena, uint32_t, n + 2), *list = ARENA_ARRAY(w->arena, uint32_t, w->n_edges + 1);
    for (size_t i = 0; i < w->n_edges; i++) {
        waits[w->edges[i].below]++;
        start[w->edges[i].above + 1]++;
    }
    for (size_t i = 0; i < n; i++)
        start[i + 1] += start[i];
    uint32_t *fill = ARENA_ARRAY(w->arena, uint32_t, n + 1);
    for (size_t i = 0; i < w->n_edges; i++)
        list[start[w->edges[i].above] + fill[w->edges[i].above]++] = w->edges[i].below;
    for (size_t i = 0; i < n; i++)
        if (waits[i] == 0)
            ready[n_ready++] = (uint32_t)i;
    for (size_t i = 0; i < n_ready; i++) {
        uint32_t node = ready[i], layer = w->out->nodes[node].layer;
        for (uint32_t k = start[node]; k < start[node + 1]; k++) {
            struct layout_node *below = &w->out->nodes[list[k]];
            below->layer = below->layer > layer + 1 ? below->layer : layer + 1;
            if (--waits[list[k]] == 0)
                ready[n_ready++] = list[k];
        }
    }
    ASSERT(n_ready == n); /* the cycles are broken */
}

static struct layout_hop *hop_push(struct work *w)
{
    return ARENA_PUSH(w->arena, w->out->hops, w->out->n_hops, w->out->cap_hops);
}

/* net_make: hops and dummies for these edges, which all leave `source`; false: too many. */
static bool net_make(struct work *w, uint32_t source, const uint32_t *edges, size_t n_edges)
{
    struct layout *out = w->out;
    uint32_t top = out->nodes[source].layer, bottom = top + 1;
    for (size_t i = 0; i < n_edges; i++) {
        uint32_t layer = out->nodes[w->edges[edges[i]].below].layer;
        bottom = layer > bottom ? layer : bottom;
    }
    uint32_t upper = source;
    for (uint32_t layer = top + 1; layer <= bottom; layer++) {
        for (size_t i = 0; i < n_edges; i++) {
            uint32_t below = w->edges[edges[i]].below;
            if (out->nodes[below].layer == layer)
                *hop_push(w) = (struct layout_hop){ upper, below, w->edge_of[edges[i]] };
        }
        if (layer == bottom)
            break;
        if (out->n_nodes >= LAYOUT_NODES_MAX)
            return false;
        uint32_t dummy = (uint32_t)out->n_nodes;
        *ARENA_PUSH(w->arena, out->nodes, out->n_nodes, out->cap_nodes) =
            (struct layout_node){ .layer = layer, .source = source, .dummy = true, .width = w->in->dummy_width };
        *hop_push(w) = (struct layout_hop){ upper, dummy, LAYOUT_NO_EDGE };
        upper = dummy;
    }
    return true;
}

static bool nets_make(struct work *w)
{
    size_t n = w->n_edges;
    uint32_t *order = ARENA_ARRAY(w->arena, uint32_t, n + 1);
    int64_t *keys = ARENA_ARRAY(w->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        order[i] = (uint32_t)i;
        keys[i] = w->edges[i].above;
    }
    sort_by_key(w->arena, order, keys, n);
    for (size_t from = 0, to; from < n; from = to) {
        uint32_t source = w->edges[order[from]].above;
        for (to = from; to < n && w->edges[order[to]].above == source; to++)
            ;
        if (!net_make(w, source, order + from, to - from))
            return false;
    }
    return true;
}

static void layers_fill(struct work *w)
{
    struct layout *out = w->out;
    for (size_t i = 0; i < out->n_nodes; i++)
        out->n_layers = out->nodes[i].layer + 1 > out->n_layers ? out->nodes[i].layer + 1 : out->n_layers;
    out->layers = ARENA_ARRAY(w->arena, struct layout_layer, out->n_layers + 1);
    for (size_t i = 0; i < out->n_nodes; i++)
        out->layers[out->nodes[i].layer].n_nodes++;
    for (size_t l = 0; l < out->n_layers; l++) {
        out->layers[l].nodes = ARENA_ARRAY(w->arena, uint32_t, out->layers[l].n_nodes + 1);
        out->layers[l].n_nodes = 0;
    }
    for (size_t i = 0; i < out->n_nodes; i++) {
        struct layout_layer *layer = &out->layers[out->nodes[i].layer];
        out->nodes[i].order = (uint32_t)layer->n_nodes;
        layer->nodes[layer->n_nodes++] = (uint32_t)i;
    }
}

/* hops_index: hops by upper and by lower node. */
static void hops_index(struct work *w)
{
    struct layout *out = w->out;
    size_t n = out->n_nodes;
    w->down_start = ARENA_ARRAY(w->arena, uint32_t, n + 2);
    w->up_start = ARENA_ARRAY(w->arena, uint32_t, n + 2);
    w->down = ARENA_ARRAY(w->arena, uint32_t, out->n_hops + 1);
    w->up = ARENA_ARRAY(w->arena, uint32_t, out->n_hops + 1);
    uint32_t *filled_down = ARENA_ARRAY(w->arena, uint32_t, n + 1), *filled_up = ARENA_ARRAY(w->arena, uint32_t, n + 1);
    for (size_t i = 0; i < out->n_hops; i++) {
        w->down_start[out->hops[i].upper + 1]++;
        w->up_start[out->hops[i].lower + 1]++;
    }
    for (size_t i = 0; i < n; i++) {
        w->down_start[i + 1] += w->down_start[i];
        w->up_start[i + 1] += w->up_start[i];
    }
    for (uint32_t i = 0; i < out->n_hops; i++) {
        uint32_t upper = out->hops[i].upper, lower = out->hops[i].lower;
        w->down[w->down_start[upper] + filled_down[upper]++] = i;
        w->up[w->up_start[lower] + filled_up[lower]++] = i;
    }
}

/* neighbours: the nodes that `node` is joined to in the layer above (or below). */
static size_t neighbours(const struct work *w, uint32_t node, bool above, const uint32_t **out_hops)
{
    const uint32_t *start = above ? w->up_start : w->down_start;
    *out_hops = (above ? w->up : w->down) + start[node];
    return start[node + 1] - start[node];
}

static uint32_t neighbour(const struct work *w, uint32_t hop, bool above)
{
    return above ? w->out->hops[hop].upper : w->out->hops[hop].lower;
}

/* --- order --- */

/* crossings_between: inversions of the lower ends, taken in the order of the upper ends; counted in a binary indexed
 * tree. */
static size_t crossings_between(struct work *w, size_t upper_layer, uint32_t *tree)
{
    const struct layout *out = w->out;
    const struct layout_layer *upper = &out->layers[upper_layer], *lower = &out->layers[upper_layer + 1];
    size_t crossings = 0, seen = 0;
    memset(tree, 0, sizeof *tree * (lower->n_nodes + 1));
    for (size_t u = 0; u < upper->n_nodes; u++) {
        const uint32_t *hops;
        size_t n = neighbours(w, upper->nodes[u], false, &hops);
        for (size_t i = 0; i < n; i++) { /* how many ends so far stand to the right of this one */
            size_t left = 0;
            for (size_t at = out->nodes[out->hops[hops[i]].lower].order + 1; at > 0; at &= at - 1)
                left += tree[at];
            crossings += seen - left;
        }
        for (size_t i = 0; i < n; i++)
            for (size_t at = out->nodes[out->hops[hops[i]].lower].order + 1; at <= lower->n_nodes; at += at & (~at + 1))
                tree[at]++;
        seen += n;
    }
    return crossings;
}

static size_t crossings_count(struct work *w)
{
    size_t sum = 0;
    uint32_t *tree = ARENA_ARRAY(w->arena, uint32_t, w->out->n_nodes + 2);
    for (size_t l = 0; l + 1 < w->out->n_layers; l++)
        sum += crossings_between(w, l, tree);
    return sum;
}

static void layer_renumber(struct layout *out, size_t l)
{
    for (size_t i = 0; i < out->layers[l].n_nodes; i++)
        out->nodes[out->layers[l].nodes[i]].order = (uint32_t)i;
}

/* layer_sort: by the mean place of the neighbours; a node without any keeps its place. */
static void layer_sort(struct work *w, size_t l, bool above, int64_t *keys)
{
    struct layout *out = w->out;
    struct layout_layer *layer = &out->layers[l];
    for (size_t i = 0; i < layer->n_nodes; i++) {
        const uint32_t *hops;
        size_t n = neighbours(w, layer->nodes[i], above, &hops);
        int64_t sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += (int64_t)out->nodes[neighbour(w, hops[k], above)].order * FIXED;
        keys[layer->nodes[i]] = n ? sum / (int64_t)n : (int64_t)i * FIXED;
    }
    sort_by_key(w->arena, layer->nodes, keys, layer->n_nodes);
    layer_renumber(out, l);
}

static void order_save(const struct layout *out, uint32_t *best)
{
    for (size_t i = 0; i < out->n_nodes; i++)
        best[i] = out->nodes[i].order;
}

static void order_restore(struct layout *out, const uint32_t *best)
{
    for (size_t i = 0; i < out->n_nodes; i++) {
        out->nodes[i].order = best[i];
        out->layers[out->nodes[i].layer].nodes[best[i]] = (uint32_t)i;
    }
}

static void order_reduce(struct work *w)
{
    struct layout *out = w->out;
    uint32_t *best = ARENA_ARRAY(w->arena, uint32_t, out->n_nodes + 1);
    int64_t *keys = ARENA_ARRAY(w->arena, int64_t, out->n_nodes + 1);
    out->n_crossings = crossings_count(w);
    order_save(out, best);
    for (int sweep = 0; sweep < ORDER_SWEEPS && out->n_crossings > 0; sweep++) {
        bool down = sweep % 2 == 0;
        for (size_t i = 1; i < out->n_layers; i++)
            layer_sort(w, down ? i : out->n_layers - 1 - i, down, keys);
        size_t crossings = crossings_count(w);
        if (crossings < out->n_crossings) {
            out->n_crossings = crossings;
            order_save(out, best);
        }
    }
    order_restore(out, best);
}

/* --- columns --- */

struct block { /* of neighbours that touch: they move together */
    int64_t sum, weight;
    size_t n;
};

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/* layer_place: the columns nearest (least squares) to what the neighbours wish, in the given order and without overlap:
 * pool adjacent violators. */
static void layer_place(struct work *w, size_t l, bool above, struct block *blocks)
{
    struct layout *out = w->out;
    struct layout_layer *layer = &out->layers[l];
    size_t n_blocks = 0;
    int64_t offset = 0;
    for (size_t i = 0; i < layer->n_nodes; i++) {
        const struct layout_node *node = &out->nodes[layer->nodes[i]];
        const uint32_t *hops;
        size_t n = neighbours(w, layer->nodes[i], above, &hops);
        int64_t wish = node->x, weight = LONE_WEIGHT, sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += layout_center(&out->nodes[neighbour(w, hops[k], above)]);
        if (n) {
            wish = floor_div(2 * sum + (int64_t)n, 2 * (int64_t)n) - node->width / 2;
            weight = node->dummy ? DUMMY_WEIGHT : NEIGHBOUR_WEIGHT;
        }
        blocks[n_blocks++] = (struct block){ (wish - offset) * weight, weight, 1 };
        while (n_blocks > 1 && floor_div(blocks[n_blocks - 2].sum, blocks[n_blocks - 2].weight) >
                                   floor_div(blocks[n_blocks - 1].sum, blocks[n_blocks - 1].weight)) {
            struct block last = blocks[--n_blocks];
            blocks[n_blocks - 1].sum += last.sum;
            blocks[n_blocks - 1].weight += last.weight;
            blocks[n_blocks - 1].n += last.n;
        }
        offset += node->width + w->in->gap;
    }
    offset = 0;
    for (size_t b = 0, i = 0; b < n_blocks; b++) {
        int64_t at = floor_div(blocks[b].sum, blocks[b].weight);
        for (size_t k = 0; k < blocks[b].n; k++, i++) {
            struct layout_node *node = &out->nodes[layer->nodes[i]];
            node->x = at + offset;
            offset += node->width + w->in->gap;
        }
    }
}

static void columns_assign(struct work *w)
{
    struct layout *out = w->out;
    struct block *blocks = ARENA_ARRAY(w->arena, struct block, out->n_nodes + 1);
    for (size_t l = 0; l < out->n_layers; l++) {
        int64_t x = 0;
        for (size_t i = 0; i < out->layers[l].n_nodes; i++) {
            struct layout_node *node = &out->nodes[out->layers[l].nodes[i]];
            node->x = x;
            x += node->width + w->in->gap;
        }
    }
    for (int sweep = 0; sweep < COLUMN_SWEEPS; sweep++) {
        bool down = sweep % 2 == 0;
        for (size_t i = 1; i < out->n_layers; i++)
            layer_place(w, down ? i : out->n_layers - 1 - i, down, blocks);
    }
    int64_t left = INT64_MAX;
    for (size_t i = 0; i < out->n_nodes; i++)
        left = out->nodes[i].x < left ? out->nodes[i].x : left;
    for (size_t i = 0; i < out->n_nodes; i++) {
        out->nodes[i].x -= left;
        out->width =
            out->nodes[i].x + out->nodes[i].width > out->width ? out->nodes[i].x + out->nodes[i].width : out->width;
    }
}

/* hops_sort: by layer, order of upper, order of lower, so that drawers go from left to right. */
static void hops_sort(struct work *w)
{
    struct layout *out = w->out;
    uint32_t *order = ARENA_ARRAY(w->arena, uint32_t, out->n_hops + 1);
    int64_t *keys = ARENA_ARRAY(w->arena, int64_t, out->n_hops + 1);
    struct layout_hop *sorted = ARENA_ARRAY(w->arena, struct layout_hop, out->n_hops + 1);
    for (size_t i = 0; i < out->n_hops; i++) {
        const struct layout_node *upper = &out->nodes[out->hops[i].upper];
        order[i] = (uint32_t)i;
        keys[i] = ((int64_t)upper->layer * (LAYOUT_NODES_MAX + 1) + upper->order) * (LAYOUT_NODES_MAX + 1) +
                  out->nodes[out->hops[i].lower].order;
    }
    sort_by_key(w->arena, order, keys, out->n_hops);
    for (size_t i = 0; i < out->n_hops; i++)
        sorted[i] = out->hops[order[i]];
    out->hops = sorted;
}

bool layout_make(struct arena *arena, const struct layout_input *input, struct layout *out)
{
    struct work w = { .arena = arena, .in = input, .out = out };
    *out = (struct layout){ 0 };
    if (input->n_nodes > LAYOUT_NODES_MAX)
        return false;
    for (size_t i = 0; i < input->n_nodes; i++)
        *ARENA_PUSH(arena, out->nodes, out->n_nodes, out->cap_nodes) =
            (struct layout_node){ .source = (uint32_t)i, .width = input->widths[i] };
    if (input->n_nodes == 0)
        return true;
    edges_take(&w);
    cycles_break(&w);
    layers_assign(&w);
    if (!nets_make(&w))
        return false;
    layers_fill(&w);
    hops_index(&w);
    order_reduce(&w);
    columns_assign(&w);
    hops_sort(&w);
    return true;
}
