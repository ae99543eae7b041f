/* heap: what comes first by (key, insertion order). Intrusive: a heap_node sits inside the thing; at most one heap
 * each. The zero value of both is empty. A node that is in a heap has pos > 0. Moving a node to another key counts as a
 * new insertion; putting it again with the key that it has changes nothing. heap_release touches the nodes that are
 * still in: they must be alive then. */
#ifndef WEIR_BASE_HEAP_H
#define WEIR_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint64_t order;
    size_t pos; /* 0: not in a heap */
};
struct heap {
    struct heap_node **nodes;
    size_t n, cap;
    uint64_t order;
};
void heap_put(struct heap *heap, struct heap_node *node, int64_t key); /* inserts, or moves to the new key */
void heap_take(struct heap *heap, struct heap_node *node);             /* removes if it is in */
struct heap_node *heap_first(const struct heap *heap);                 /* NULL: empty */
void heap_release(struct heap *heap);

#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
