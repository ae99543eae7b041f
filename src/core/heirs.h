/* heirs: what a task that is stopped before it ran leaves to its waiters; pure.
 *
 * Three things: what it waited for by PREV, its place in the queue for its archive's lock, and what it was still to
 * cancel. Each waiter takes them over when it is informed of the end (core/settle.c), so in several turns if
 * there are many. Until then the stopped task still stands in its place, for that waiter: whoever looks at what is
 * before a task looks through those that have ended without having told it (heir_due). Nothing else may be decided
 * about the order meanwhile that doesn't: a retry finishes what is left first (leavings_finish in src/engine/tells.c).
 */
#ifndef WEIR_CORE_HEIRS_H
#define WEIR_CORE_HEIRS_H

#include "core/slice.h"

/* leaves_something: has it ended with anything in hand that those behind it take over? Who ran has nothing. */
bool leaves_something(struct slice *slice, struct node *node);

/* The waiters of these edges, which all lead to `stopped`, take over its place in the queue for the archive's lock, and
 * so do those behind them that clash with somebody before it. */
void lock_hand_on(struct slice *slice, struct node *stopped, const struct edge *outs, size_t n);
void edge_inherit(
    struct slice *slice, struct node *waiter, struct node *node, const struct edge *edge); /* the two other things */

/* To `waiter`, which hasn't ended:
 * prev_inherit: `waiter`, which follows the stopped task by PREV, waits for what that waited for by PREV;
 * cancels_inherit: `waiter`, which cancels it, cancels what it was still to cancel;
 * cancels_copy: the same; `begun`: also what it has begun to cancel. */
void prev_inherit(struct slice *slice, struct node *waiter, struct node *stopped);
void cancels_inherit(struct slice *slice, struct node *waiter, struct node *stopped);
void cancels_copy(struct slice *slice, struct node *heir, struct node *from, bool begun);

void places_settled(struct slice *slice,
    struct node *node); /* a retry gives it a place of its own: nobody looks through its edges for one */
bool locks_clash(const struct task *a, const struct task *b); /* two tasks of one archive that may not run at once */

#endif
