/* retry: what a retry must not break; pure.
 *
 * A task that is retried takes its place again before those that wait for it and haven't started; with what has started
 * meanwhile it can only be ordered behind. So a retry is refused when a later revision's task that was to come after it
 * has started, unless it is forced. */
#ifndef WEIR_CORE_RETRY_H
#define WEIR_CORE_RETRY_H

#include "core/slice.h"

enum { LOOK_MAX = 5000 }; /* tasks looked at on the way from a waiter to the task that is retried, each once */

const struct node *order_passed(struct slice *slice, struct node *node); /* a later task that has started; NULL: none */
bool retry_circles(struct slice *slice, struct node *node); /* retried, it would wait for something that waits for it */
void circles_cut(struct slice *slice, struct node *node);   /* that won't wait for it then */

#endif
