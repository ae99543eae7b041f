/* heap: what comes first by (key, insertion order).
 *
 * Owns only the array of pointers; nodes belong to the caller and remember their place, so that any of them leaves in
 * logarithmic time. Taking a node out of a heap that it isn't in is a bug and aborts. */
#include "base/heap.h"

#include "base/arena.h"
#include "base/err.h"

static bool node_before(const struct heap_node *a, const struct heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void node_place(struct heap *heap, size_t pos, struct heap_node *node)
{
    heap->nodes[pos - 1] = node;
    node->pos = pos;
}

static void heap_up(struct heap *heap, struct heap_node *node)
{
    size_t pos = node->pos;
    while (pos > 1) {
        struct heap_node *parent = heap->nodes[pos / 2 - 1];
        if (!node_before(node, parent)) {
            break;
        }
        node_place(heap, pos, parent);
        pos /= 2;
    }
    node_place(heap, pos, node);
}

static void heap_down(struct heap *heap, struct heap_node *node)
{
    size_t pos = node->pos;
    while (pos * 2 <= heap->n) {
        size_t next = pos * 2;
        if (next < heap->n && node_before(heap->nodes[next], heap->nodes[next - 1])) {
            next++;
        }
        struct heap_node *child = heap->nodes[next - 1];
        if (!node_before(child, node)) {
            break;
        }
        node_place(heap, pos, child);
        pos = next;
    }
    node_place(heap, pos, node);
}

static bool heap_holds(const struct heap *heap, const struct heap_node *node)
{
    return node->pos <= heap->n && heap->nodes[node->pos - 1] == node;
}

void heap_put(struct heap *heap, struct heap_node *node, int64_t key)
{
    if (node->pos) {
        ASSERT(heap_holds(heap, node));
        if (node->key == key) {
            return;
        }
    } else {
        if (heap->n == heap->cap) {
            heap->cap = heap->cap ? heap->cap * 2 : 16;
            ASSERT(heap->cap <= SIZE_MAX / sizeof(struct heap_node *));
            heap->nodes = mem_realloc(heap->nodes, heap->cap * sizeof(struct heap_node *));
        }
        node_place(heap, ++heap->n, node);
    }
    node->key = key;
    node->order = ++heap->order;
    heap_up(heap, node);
    heap_down(heap, node);
}

void heap_take(struct heap *heap, struct heap_node *node)
{
    if (!node->pos) {
        return;
    }
    ASSERT(heap_holds(heap, node));
    struct heap_node *last = heap->nodes[--heap->n];
    size_t pos = node->pos;
    node->pos = 0;
    if (last != node) {
        node_place(heap, pos, last);
        heap_up(heap, last);
        heap_down(heap, last);
    }
}

struct heap_node *heap_first(const struct heap *heap)
{
    return heap->n ? heap->nodes[0] : NULL;
}

void heap_release(struct heap *heap)
{
    for (size_t i = 0; i < heap->n; i++) {
        heap->nodes[i]->pos = 0;
    }
    mem_free(heap->nodes);
    *heap = (struct heap){ 0 };
}
