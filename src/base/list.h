/* list: intrusive doubly linked list; the zero value is an empty list, and a node that is in no list. */
#ifndef WEIR_BASE_LIST_H
#define WEIR_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *prev, *next;
    bool in;
};
struct list {
    struct list_node *first, *last;
    size_t n;
};
void list_append(struct list *list, struct list_node *node);
void list_remove(struct list *list, struct list_node *node); /* nothing if it is in no list */
struct list_node *list_take_first(struct list *list);        /* NULL: empty */

#endif
