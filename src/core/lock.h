/* lock: which task holds an archive's lock, and which tasks wait for it in what order; pure.
 *
 * The lock is a chain of `after` edges (EDGE_LOCK) between tasks whose locks clash. A revision's tasks join its end
 * when they are made (expand.c), one that is stopped hands on what it waited for (settle.c), one that is retried queues
 * again, last. */
#ifndef WEIR_CORE_LOCK_H
#define WEIR_CORE_LOCK_H

#include "core/slice.h"

/* lock_before: the task that holds the archive's exclusive lock or is next in line for it. If that task was stopped
 * while it waited, the tasks that it waited for. */
struct node **lock_before(struct slice *slice, const struct archive *archive, size_t *out_n);

/* lock_again: a retried task with a lock (staged again) joins the queue for the archive's lock, last; the archive's
 * record of who stands last is updated. leaves: a task that was restaged with it and ends at once, so it has no place
 * in the queue; NULL: none. */
void lock_again(struct slice *slice, struct archive *archive, struct node *node, const struct node *leaves);

#endif
