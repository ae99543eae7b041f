/* node_build: what the composers (yaml, json_node) share: counting nodes, nesting, and mappings without duplicate keys.
 * Private to text. */
#ifndef WEIR_TEXT_NODE_BUILD_H
#define WEIR_TEXT_NODE_BUILD_H

#include "base/map.h"
#include "text/node.h"

struct node_build {
    struct node_context context;
    size_t n_nodes;
    unsigned depth;
    bool unbounded; /* the text's length bounds the nodes */
};

/* node_build_open: size, byte order mark and UTF-8 of the whole file; false and a fault when it can't be read at all.
 */
bool node_build_open(struct node_build *build, const struct diag_file *file, struct arena *arena, struct diags *diags);

/* node_build_new: a node of weight 1, or NULL and a fault past the limit of nodes. */
struct doc_node *node_build_new(struct node_build *build, enum node_kind kind, unsigned line, unsigned column);

/* Nesting: false and a fault past the limit. */
bool node_build_nest(struct node_build *build, unsigned line, unsigned column);

struct node_items { /* a sequence or mapping being put together */
    const struct doc_node **items;
    struct node_pair *pairs;
    size_t n, cap;
    struct smap seen; /* keys, once there are enough of them for a table to pay */
};
void node_items_add(
    struct node_build *build, struct node_items *items, struct doc_node *parent, const struct doc_node *item);
/* node_pairs_add: a duplicate key is a fault, and the pair is left out. */
void node_pairs_add(struct node_build *build, struct node_items *items, struct doc_node *parent,
    const struct doc_node *key, const struct doc_node *value);
void node_items_finish(struct node_items *items, struct doc_node *parent);

#endif
