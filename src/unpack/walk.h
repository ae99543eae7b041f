/* walk: looks through a directory, or empties it, without following a link. */
#ifndef WEIR_UNPACK_WALK_H
#define WEIR_UNPACK_WALK_H

#include "base/err.h"

struct walked {
    uint64_t n_files, n_bytes, n_folders;
    bool is_strange; /* something else than folders and regular files of one link, mode 0644 or 0755 */
};

/* walk_count: what is below dir_fd; deeper than depth_max is strange. */
bool walk_count(int dir_fd, int64_t depth_max, struct walked *out, struct err *err);
bool walk_remove(int dir_fd, struct err *err); /* everything below dir_fd; the directory itself stays */

#endif
