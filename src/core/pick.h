/* pick: which pending task is granted next.
 *
 * Pending tasks have one order: the higher priority first, then the smaller virtual time, then the smaller number. The
 * caller has the pending tasks of each class in that order; `picks` merges the classes that fit one executor, by the
 * first task of each. Nothing fails. */
#ifndef WEIR_CORE_PICK_H
#define WEIR_CORE_PICK_H

#include <stddef.h>

#include "base/arena.h"
#include "core/model.h"

struct ready_row { /* a pending task, as far as its order goes */
    int64_t task, prio, vt;
};

struct ready_row ready_row_of(const struct task *task);
/* ready_order: below 0: a is granted before b; above 0: after it; 0: they are the same task. */
int ready_order(const struct ready_row *a, const struct ready_row *b);
/* ready_earlier: the one that is granted first. Each may be NULL, which comes last. */
const struct ready_row *ready_earlier(const struct ready_row *a, const struct ready_row *b);

/* picks: classes with pending tasks, a binary heap by the first task of each. The zero value is empty. A class's first
 * task may only be replaced by a later one, so that what stands here is never too late. */
struct pick {
    struct ready_row head; /* the class's first task when it was looked at last */
    void *supply;          /* the caller's own: where the class's next tasks come from */
};
struct picks {
    struct pick *list;
    size_t n, cap;
};

/* picks_add: one more class; the list grows in the arena. */
void picks_add(struct picks *picks, struct arena *arena, const struct ready_row *head, void *supply);
/* picks_first: the class whose first task is granted next; NULL: no class is left. */
const struct pick *picks_first(const struct picks *picks);
/* picks_replace: the first task of picks_first's class is now `head`; NULL: the class has none left. */
void picks_replace(struct picks *picks, const struct ready_row *head);

#endif
