/* layout: where the tasks of a graph stand when it is drawn in layers; pure.
 *
 * Layers by longest path (what waits stands below what it waits for), order within a layer by barycenters, columns as
 * near to the neighbours as the order allows. A net is everything that leaves one node downwards; where it passes a
 * layer on its way to a lower one it has a node of its own there (`dummy`), one per layer. Widths are in whatever unit
 * the drawer uses: cells or pixels. Same input, same output. */
#ifndef WEIR_CORE_LAYOUT_H
#define WEIR_CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum { LAYOUT_NODES_MAX = 20000 }; /* with dummies */

struct layout_edge {
    uint32_t above, below; /* below waits for above; indexes of nodes */
};

struct layout_input {
    size_t n_nodes, n_edges;
    const int64_t *widths; /* of the nodes */
    /* doubles are drawn once; an edge that would close a cycle is turned round; loops are left out */
    const struct layout_edge *edges;
    int64_t gap; /* least distance between neighbours */
    int64_t dummy_width;
};

struct layout_node {
    uint32_t layer, order; /* order: position within the layer */
    uint32_t source;       /* whose net a dummy carries; itself for the others */
    bool dummy;
    int64_t x, width; /* left end; x >= 0 */
};

struct layout_hop { /* a piece of a net, from one layer to the next */
    uint32_t upper, lower;
    uint32_t edge; /* the edge that ends at `lower`; LAYOUT_NO_EDGE when lower is a dummy */
};
#define LAYOUT_NO_EDGE UINT32_MAX

struct layout_layer {
    uint32_t *nodes; /* in order */
    size_t n_nodes;
};

struct layout {
    struct layout_node *nodes; /* the given ones first, then the dummies */
    size_t n_nodes, cap_nodes;
    struct layout_hop *hops; /* sorted by (layer, order of upper, order of lower) */
    size_t n_hops, cap_hops;
    struct layout_layer *layers;
    size_t n_layers;
    int64_t width; /* of the whole */
    size_t n_crossings;
};

/* layout_make: false: the graph is too large (LAYOUT_NODES_MAX). Everything lives in the arena. */
bool layout_make(struct arena *arena, const struct layout_input *input, struct layout *out);

static inline int64_t layout_center(const struct layout_node *node)
{
    return node->x + node->width / 2;
}

#endif
