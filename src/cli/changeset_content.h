/* changeset_content: what a change set carries: files of a folder, taken as they are or by what git or svn say of a
 * working copy. */
#ifndef WEIR_CLI_CHANGESET_CONTENT_H
#define WEIR_CLI_CHANGESET_CONTENT_H

#include "base/arena.h"
#include "base/err.h"

struct content_file {
    struct str path; /* relative to the root */
    bool is_executable;
};

struct changeset_content {
    struct arena *arena;
    const char *root; /* the folder that paths are relative to: the working copy's root, or the current one */
    bool is_copy;     /* it is a working copy's */
    struct str base;  /* the revision (svn) or commit (git) that the files were made from; empty: not known */
    ARRAY(struct content_file) files;
    ARRAY(struct str) removed;
    ARRAY(struct str) unknown; /* not under version control, so left out */
    ARRAY(struct str) missing; /* gone, but not by `svn rm`: left out */
};

/* changeset_content_read: of the working copy around the current folder all changes; or, with paths, those files as
 * they are, and of folders the changes below them (outside of a working copy: everything). Sorted, each path once.
 *
 * Fails with invalid (conflicts, links, submodules, names that no change set can carry, each one an item; nothing has
 * changed), not_found (no such file, no working copy here, no git or svn), io. */
bool changeset_content_read(
    struct changeset_content *out, const char *const *paths, size_t n_paths, struct arena *arena, struct err *err);

/* changeset_tarball: meta and the files as a tar, to the file `fd` from its beginning; the same content gives the same
 * bytes. invalid: a file is none, or has changed its length meanwhile. */
bool changeset_tarball(
    const struct changeset_content *content, struct str meta, int fd, uint64_t *out_bytes, struct err *err);

#endif
