/* content: what may be in a change set's tarball: `meta`, and regular files and folders below `lroot/`, within limits.
 *
 * The receiver of a tar_reader's events. Each entry is reported; with a tree it is written, too. Whether the files are
 * those of ##files is for the process that gets the reports: it sees the whole list, and trusts this process as little
 * as the tarball. */
#ifndef WEIR_UNPACK_CONTENT_H
#define WEIR_UNPACK_CONTENT_H

#include "text/changeset.h"
#include "unpack/report.h"
#include "unpack/tar_reader.h"
#include "unpack/tree.h"

struct content {
    const struct changeset_limits *limits;
    struct arena *arena; /* of sentences */
    struct tree *tree;   /* NULL: nothing is written */
    bool (*report)(void *owner, const struct report *report, struct err *err);
    void *owner;
    int64_t n_files, n_folders;
    uint64_t n_bytes;
    struct buf meta;
    bool has_meta, in_meta, in_file;
};

void content_init(struct content *content, const struct changeset_limits *limits, struct arena *arena);
void content_release(struct content *content);
struct tar_events content_events(struct content *content);
bool content_end(struct content *content, struct err *err); /* after the archive's end: is meta there? */

#endif
