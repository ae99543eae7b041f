/* copy: folders copied with everything in them: by hard links (the same files under a second name) or by content.
 *
 * Links are made as they are and never followed; both ends are folders that only we write to. Files that are neither
 * files, folders nor links are left out. Fails with io, disk_full or body_too_large (deeper than COPY_DEPTH_MAX), with
 * the name it stopped at. */
#ifndef WEIR_EXEC_COPY_H
#define WEIR_EXEC_COPY_H

#include "base/err.h"

enum { COPY_DEPTH_MAX = 256 };

/* *out_newest_ms: wall ms at which a file of them was last written to; 0: there is none. */
bool copy_links(int from_fd, int to_fd, int64_t *out_newest_ms, struct err *err);
bool copy_content(int from_fd, int to_fd, struct err *err); /* shares blocks where the file system can */

/* copy_file: content of one file into another; both are open. 0, or the fault. */
int copy_file(int from_fd, int to_fd);

#endif
