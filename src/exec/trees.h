/* trees: the cache of checked-out revisions of one executor: DIR/trees/ARCHIVE.HASH.REV[.COMMIT], each made once and
 * never written to again, shared by all jobs of that revision.
 *
 * A tree is made under a name of its own and renamed when it is whole, so a crash leaves none that is half. NAME.lock
 * is held for writing while a tree is made and for reading while it is used: two jobs that want the same one make it
 * once, and what is used is never taken away. A tree begins as hard links to the nearest one of the same repository;
 * only what differs is read from the repository. HASH tells repositories apart that follow each other at the same
 * address.
 *
 * All functions block and are meant for a process of their own. */
#ifndef WEIR_EXEC_TREES_H
#define WEIR_EXEC_TREES_H

#include "base/err.h"
#include "core/model.h"

struct tree_wish {
    enum archive_kind kind;          /* ARCHIVE_SVN or ARCHIVE_GIT */
    struct str archive, url, branch; /* branch: git; empty: any */
    int64_t rev;
    struct str commit;        /* git */
    struct str server, token; /* who sends the tree when the repository can't be reached from here */
};

struct trees_limits { /* least recently used ones go when there are more */
    size_t count_max;
    uint64_t bytes_max;
};
#define TREES_LIMITS_USUAL ((struct trees_limits){ 32, (uint64_t)8 << 30 })

/* trees_take: the tree, open, and its lock, to be kept while it is used (it may be passed to another process). say:
 * told how far it is, every few seconds; may be NULL. Failures are the repository's or the file system's, in words for
 * the job's log. */
bool trees_take(int trees_fd, const struct tree_wish *wish, struct trees_limits limits, void (*say)(const char *line),
    int *out_tree_fd, int *out_lock_fd, struct err *err);

#endif
