/* changeset: which change sets a change set waits for, and what its end means for the others of its target; pure.
 *
 * Change sets of a target that have a path in common are applied in the order of their ranks. Each path has a list of
 * rows (struct changeset_file) in that order, of the change sets that haven't ended. A change set waits, by an `after`
 * edge, for the one before it on each of its paths. A change set that ends leaves its lists; one that ends without
 * having been applied hands the place before it to the one behind it. So the edges of a path are a chain, and each
 * change costs the paths of one change set, whatever else waits.
 *
 * What fails is a load: it sets `failed` of the slice. */
#ifndef WEIR_CORE_CHANGESET_H
#define WEIR_CORE_CHANGESET_H

#include "core/slice.h"

/* changeset_of: this turn's copy of the row, for change; NULL: the task isn't a change set, or reading failed.
 * changeset_touch: the row has changed and is to be written. */
struct changeset *changeset_of(struct slice *slice, struct node *node);
void changeset_touch(struct slice *slice, struct node *node);

/* changeset_place: a new change set (in Q, its row set as node->changeset) joins the lists of its paths and waits for
 * the change sets before it. A rollback joins none. The caller adds the edges to its dependencies, and considers it. */
void changeset_place(struct slice *slice, struct node *node);

/* A retried change set comes behind those that were accepted meanwhile. changeset_release: it has just been staged
 * again: change sets that waited for it don't any more, since there would be a circle. changesets_again: then those of
 * the list that are change sets take new ranks, behind all that are there, in the order of their numbers: what a change
 * set depends on has a smaller number, and must not wait for it on a path. */
void changeset_release(struct slice *slice, struct node *node);
void changesets_again(struct slice *slice, struct node *const *nodes, size_t n);

/* changeset_ended: the task has just moved to D, F, T or A. */
void changeset_ended(struct slice *slice, struct node *node);

/* changeset_near: the row of this path with the smallest rank above `rank` (after), or the greatest below it; false:
 * there is none. This turn's changes count. */
bool changeset_near(struct slice *slice, int64_t lane, bool applied, struct str path, int64_t rank, bool after,
    struct changeset_file *out);

/* Walks the paths of a change set, those that it removes too:
 *     struct changeset_paths paths = changeset_paths(changeset);
 *     while (changeset_path_next(&paths, &path)) ... */
struct changeset_paths {
    struct str files, removed;
};
struct changeset_paths changeset_paths(const struct changeset *changeset);
bool changeset_path_next(struct changeset_paths *paths, struct str *out);

/* changeset_applied: it is done, and its files are in the repository. */
bool changeset_applied(const struct node *node);

#endif
