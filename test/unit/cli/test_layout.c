/* layout: what must hold for every graph, on small ones drawn by hand and on random ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/layout.h"

enum { NODES_MAX = 60, EDGES_MAX = 200 };

struct sample {
    size_t n_nodes, n_edges;
    int64_t widths[NODES_MAX];
    struct layout_edge edges[EDGES_MAX];
};

static struct layout_input input_of(const struct sample *sample)
{
    return (struct layout_input){ sample->n_nodes, sample->n_edges, sample->widths, sample->edges, 2, 1 };
}

/* layers_hold: orders are dense, nodes don't overlap, nothing lies left of 0 or right of the width. */
static void layers_hold(const struct layout *layout)
{
    size_t n = 0;
    for (size_t l = 0; l < layout->n_layers; l++) {
        int64_t free_from = 0;
        for (size_t i = 0; i < layout->layers[l].n_nodes; i++, n++) {
            const struct layout_node *node = &layout->nodes[layout->layers[l].nodes[i]];
            assert_int_equal(node->layer, l);
            assert_int_equal(node->order, i);
            assert_true(node->x >= free_from);
            assert_true(node->x + node->width <= layout->width);
            free_from = node->x + node->width + 2;
        }
    }
    assert_int_equal(n, layout->n_nodes);
}

/* edge_is_drawn: from the node above a chain of hops leads through dummies of its own net to the node below. */
static bool edge_is_drawn(const struct layout *layout, uint32_t above, uint32_t below)
{
    uint32_t at = above;
    for (;;) {
        uint32_t dummy = UINT32_MAX;
        for (size_t i = 0; i < layout->n_hops; i++) {
            const struct layout_hop *hop = &layout->hops[i];
            if (hop->upper != at)
                continue;
            if (hop->lower == below)
                return hop->edge != LAYOUT_NO_EDGE;
            if (layout->nodes[hop->lower].dummy && layout->nodes[hop->lower].source == above)
                dummy = hop->lower;
        }
        if (dummy == UINT32_MAX)
            return false;
        at = dummy;
    }
}

static void hops_hold(const struct layout *layout)
{
    for (size_t i = 0; i < layout->n_hops; i++) {
        const struct layout_node *upper = &layout->nodes[layout->hops[i].upper],
                                 *lower = &layout->nodes[layout->hops[i].lower];
        assert_int_equal(lower->layer, upper->layer + 1);
        assert_true((layout->hops[i].edge == LAYOUT_NO_EDGE) == lower->dummy);
    }
}

static void sample_random(struct sample *sample, struct rng *rng, bool cycles)
{
    *sample = (struct sample){ .n_nodes = 1 + rng_below(rng, NODES_MAX - 1) };
    for (size_t i = 0; i < sample->n_nodes; i++)
        sample->widths[i] = 3 + (int64_t)rng_below(rng, 12);
    size_t n_edges = rng_below(rng, 2 * sample->n_nodes);
    for (size_t i = 0; i < n_edges && sample->n_edges < EDGES_MAX; i++) {
        uint32_t a = (uint32_t)rng_below(rng, sample->n_nodes), b = (uint32_t)rng_below(rng, sample->n_nodes);
        if (!cycles && a >= b)
            continue;
        sample->edges[sample->n_edges++] = (struct layout_edge){ a, b };
    }
}

static void random_graphs_hold(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < 300; round++) {
        struct sample sample;
        struct arena arena = { 0 };
        struct layout layout;
        bool cycles = round % 3 == 0;
        sample_random(&sample, &rng, cycles);
        struct layout_input input = input_of(&sample);
        assert_true(layout_make(&arena, &input, &layout));
        layers_hold(&layout);
        hops_hold(&layout);
        for (size_t i = 0; i < sample.n_edges; i++) {
            struct layout_edge edge = sample.edges[i];
            if (edge.above == edge.below)
                continue;
            bool turned = layout.nodes[edge.above].layer > layout.nodes[edge.below].layer;
            assert_true(cycles || !turned);
            assert_true(turned ? edge_is_drawn(&layout, edge.below, edge.above)
                               : edge_is_drawn(&layout, edge.above, edge.below));
        }
        arena_release(&arena);
    }
}

static void same_input_same_output(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 11);
    struct sample sample;
    sample_random(&sample, &rng, false);
    struct layout_input input = input_of(&sample);
    struct arena arenas[2] = { 0 };
    struct layout layouts[2];
    for (int i = 0; i < 2; i++)
        assert_true(layout_make(&arenas[i], &input, &layouts[i]));
    assert_int_equal(layouts[0].n_nodes, layouts[1].n_nodes);
    for (size_t i = 0; i < layouts[0].n_nodes; i++)
        assert_true(
            layouts[0].nodes[i].x == layouts[1].nodes[i].x && layouts[0].nodes[i].order == layouts[1].nodes[i].order);
    for (int i = 0; i < 2; i++)
        arena_release(&arenas[i]);
}

/* Two layers whose order crosses in the input: the sweep must untangle it completely. */
static void crossings_go(void **state)
{
    (void)state;
    static const int64_t widths[8] = { 5, 5, 5, 5, 5, 5, 5, 5 };
    static const struct layout_edge edges[4] = { { 0, 7 }, { 1, 6 }, { 2, 5 }, { 3, 4 } };
    struct layout_input input = { 8, 4, widths, edges, 2, 1 };
    struct arena arena = { 0 };
    struct layout layout;
    assert_true(layout_make(&arena, &input, &layout));
    assert_int_equal(layout.n_crossings, 0);
    for (size_t i = 0; i < 4; i++) /* and then every line is straight */
        assert_true(layout_center(&layout.nodes[edges[i].above]) == layout_center(&layout.nodes[edges[i].below]));
    arena_release(&arena);
}

static void layers_are_longest_paths(void **state)
{
    (void)state;
    static const int64_t widths[4] = { 5, 5, 5, 5 };
    static const struct layout_edge edges[4] = { { 0, 1 }, { 1, 2 }, { 0, 2 }, { 3, 2 } };
    struct layout_input input = { 4, 4, widths, edges, 2, 1 };
    struct arena arena = { 0 };
    struct layout layout;
    assert_true(layout_make(&arena, &input, &layout));
    static const uint32_t wanted[4] = { 0, 1, 2, 0 };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(layout.nodes[i].layer, wanted[i]);
    arena_release(&arena);
}

static void limits_hold(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct layout layout;
    struct layout_input none = { 0, 0, NULL, NULL, 2, 1 };
    assert_true(layout_make(&arena, &none, &layout));
    assert_int_equal(layout.n_layers, 0);
    struct layout_input huge = { LAYOUT_NODES_MAX + 1, 0, NULL, NULL, 2, 1 };
    assert_false(layout_make(&arena, &huge, &layout));
    /* A long chain whose every node also waits for the first: the dummies of one net are one per layer, not one per
     * edge. */
    enum { CHAIN = 3000 };
    int64_t *widths = ARENA_ARRAY(&arena, int64_t, CHAIN);
    struct layout_edge *edges = ARENA_ARRAY(&arena, struct layout_edge, (size_t)2 * CHAIN);
    size_t n = 0;
    for (uint32_t i = 1; i < CHAIN; i++) {
        widths[i] = 5;
        edges[n++] = (struct layout_edge){ i - 1, i };
        edges[n++] = (struct layout_edge){ 0, i };
    }
    struct layout_input chain = { CHAIN, n, widths, edges, 2, 1 };
    assert_true(layout_make(&arena, &chain, &layout));
    assert_int_equal(layout.n_nodes, CHAIN + CHAIN - 2);
    arena_release(&arena);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_hold),
        cmocka_unit_test(same_input_same_output),
        cmocka_unit_test(crossings_go),
        cmocka_unit_test(layers_are_longest_paths),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
