/* graph: circles among tasks that are posted together; pure. */
#ifndef WEIR_CORE_GRAPH_H
#define WEIR_CORE_GRAPH_H

#include "base/arena.h"

struct graph_arc {
    size_t from, to;
}; /* from waits for to */

/* graph_cycle: finds one circle among n nodes, linear in nodes and arcs, without recursion. Returns its length (0:
 * none) and the nodes in order, each waiting for the next, the last for the first. */
size_t graph_cycle(size_t n, const struct graph_arc *arcs, size_t n_arcs, struct arena *arena, size_t **out);

#endif
