/* apply_merge: three versions of a file made into one, by lines, and the difference of two. Private to the room.
 *
 * Reads and writes no repository: bytes in, bytes out. The difference of two texts is libgit2's (xdiff), for Subversion
 * too, so that both kinds of repositories merge alike. */
#ifndef WEIR_SOURCE_APPLY_MERGE_H
#define WEIR_SOURCE_APPLY_MERGE_H

#include "source/apply_backend.h"

struct merge_lines {
    bool conflict;
    unsigned first_line, last_line; /* of the first conflict: lines of the head's text, from 1 */
    struct str text;                /* in the arena, unless it conflicts */
};
/* merge_lines: head and mine both come from base. Changes of either side that don't touch the other's are taken; two
 * changes of the same or of neighbouring lines conflict unless they are equal. */
bool merge_lines(
    struct arena *arena, struct str base, struct str head, struct str mine, struct merge_lines *out, struct err *err);

/* merge_nodes: the same for whole nodes, among them absent ones. why: "changed", "removed", ... what the head did. */
struct merge_nodes {
    bool conflict;
    const char *why;
    unsigned first_line, last_line; /* 0: not by lines */
    struct apply_node node;
};
bool merge_nodes(struct arena *arena, const struct apply_node *base, const struct apply_node *head,
    const struct apply_node *mine, struct merge_nodes *out, struct err *err);
bool merge_nodes_equal(const struct apply_node *a, const struct apply_node *b);

/* merge_diff: adds a unified diff with git's extended headers, as git apply and patch -p1 take it; nothing if they are
 * equal. */
bool merge_diff(
    struct buf *out, struct str path, const struct apply_node *before, const struct apply_node *after, struct err *err);

#endif
