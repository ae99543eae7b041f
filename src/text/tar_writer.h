/* tar_writer: a tar archive as a stream of bytes: ustar, with a pax header where a name, a link's target or a size
 * doesn't fit.
 *
 * The same calls give the same bytes: order as it comes, one time for all entries, owner 0, modes 0644 and 0755.
 * Used by source (the tree of a revision) and by cli (a change set); what it writes of files and folders,
 * unpack/tar_reader takes.
 *
 * Every call that writes returns false as soon as `write` did: nothing of the writer's own can fail. */
#ifndef WEIR_TEXT_TAR_WRITER_H
#define WEIR_TEXT_TAR_WRITER_H

#include "base/buf.h"

struct tar_writer {
    bool (*write)(void *owner, struct str bytes);
    void *owner;
    int64_t time_ms; /* of all entries; 0: 1970 */
    /* private */
    struct buf block;
    uint64_t file_bytes; /* of the file that is being written, for the padding */
};

void tar_writer_init(struct tar_writer *tar, bool (*write)(void *owner, struct str bytes), void *owner);
void tar_writer_release(struct tar_writer *tar);

/* Paths are relative and without a slash at their end, raw bytes without NUL. */
bool tar_writer_folder(struct tar_writer *tar, struct str path);
bool tar_writer_link(struct tar_writer *tar, struct str path, struct str target);
/* A file is begun, its bytes (exactly as many as announced) are written in any pieces, and it is ended. */
bool tar_writer_file(struct tar_writer *tar, struct str path, uint64_t bytes, bool executable);
bool tar_writer_write(struct tar_writer *tar, struct str bytes);
bool tar_writer_end(struct tar_writer *tar);

bool tar_writer_finish(struct tar_writer *tar); /* the mark of the archive's end */

#endif
