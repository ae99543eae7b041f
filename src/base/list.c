/* list: intrusive doubly linked list.
 *
 * Owns nothing: nodes sit inside the things of the caller. Every operation takes constant time. Appending a node that
 * is in a list already is a bug and aborts. */
#include "base/list.h"

#include "base/err.h"

void list_append(struct list *list, struct list_node *node)
{
    ASSERT(!node->in);
    node->prev = list->last;
    node->next = NULL;
    node->in = true;
    if (list->last) {
        list->last->next = node;
    } else {
        list->first = node;
    }
    list->last = node;
    list->n++;
}

void list_remove(struct list *list, struct list_node *node)
{
    if (!node->in) {
        return;
    }
    ASSERT(list->n > 0);
    if (node->prev) {
        node->prev->next = node->next;
    } else {
        ASSERT(list->first == node);
        list->first = node->next;
    }
    if (node->next) {
        node->next->prev = node->prev;
    } else {
        ASSERT(list->last == node);
        list->last = node->prev;
    }
    *node = (struct list_node){ 0 };
    list->n--;
}

struct list_node *list_take_first(struct list *list)
{
    struct list_node *node = list->first;
    if (node) {
        list_remove(list, node);
    }
    return node;
}
