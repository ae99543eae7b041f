#include "core/graph.h"

#include <stdint.h>

enum colour { WHITE, GREY, BLACK };

size_t graph_cycle(size_t n, const struct graph_arc *arcs, size_t n_arcs, struct arena *arena, size_t **out)
{
    size_t *start = ARENA_ARRAY(arena, size_t, n + 2); /* arcs of node v: to[start[v]] .. to[start[v + 1]] */
    size_t *to = ARENA_ARRAY(arena, size_t, n_arcs + 1);
    size_t *next = ARENA_ARRAY(arena, size_t, n + 1), *path = ARENA_ARRAY(arena, size_t, n + 1);
    uint8_t *colour = ARENA_ARRAY(arena, uint8_t, n + 1);
    for (size_t i = 0; i < n_arcs; i++)
        start[arcs[i].from + 1]++;
    for (size_t v = 0; v < n; v++)
        start[v + 1] += start[v];
    for (size_t v = 0; v < n; v++)
        next[v] = start[v];
    for (size_t i = 0; i < n_arcs; i++)
        to[next[arcs[i].from]++] = arcs[i].to;
    for (size_t v = 0; v < n; v++)
        next[v] = start[v];

    for (size_t root = 0; root < n; root++) {
        if (colour[root] != WHITE)
            continue;
        size_t depth = 0;
        path[depth++] = root;
        colour[root] = GREY;
        while (depth > 0) {
            size_t v = path[depth - 1];
            if (next[v] == start[v + 1]) {
                colour[v] = BLACK;
                depth--;
                continue;
            }
            size_t w = to[next[v]++];
            if (colour[w] == BLACK)
                continue;
            if (colour[w] == WHITE) {
                colour[w] = GREY;
                path[depth++] = w;
                continue;
            }
            size_t first = depth - 1;
            while (path[first] != w)
                first--;
            *out = path + first;
            return depth - first;
        }
    }
    return 0;
}
