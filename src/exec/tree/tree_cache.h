/* tree_cache: one executor's cache of checked-out revisions, DIR/trees/ARCHIVE.HASH.REV[.COMMIT]. A tree is made once,
 * never written to again, and shared by all jobs of that revision.
 *
 * A tree is made under a temporary name and renamed when it is complete, so a crash leaves no half tree under a valid
 * name. NAME.lock is held exclusively while a tree is made and shared while a job uses it: two jobs that want the same
 * tree make it once, and a tree in use is never removed. A new tree starts as hard links to the nearest revision of the
 * same repository; only what differs is read from the repository. HASH distinguishes repositories that replace one
 * another at the same address.
 *
 * All functions block; a checkout process calls them. */
#ifndef WEIR_EXEC_TREE_CACHE_H
#define WEIR_EXEC_TREE_CACHE_H

#include "base/err.h"
#include "exec/job.h"

struct tree_cache_limits { /* above them the least recently used trees are removed */
    size_t count_max;
    uint64_t bytes_max;
};
#define TREE_CACHE_LIMITS_USUAL ((struct tree_cache_limits){ 32, (uint64_t)8 << 30 })

/* tree_cache_take: opens the tree and its lock, making the tree first if it isn't there. The caller keeps the lock
 * while the tree is used (it may pass both to another process). say: called every few seconds with a line about
 * progress; may be NULL. Failures are the repository's or the file system's, in words for the job's log. */
bool tree_cache_take(int cache_fd, const struct tree_request *request, struct tree_cache_limits limits,
    void (*say)(const char *line), int *out_tree_fd, int *out_lock_fd, struct err *err);

#endif
