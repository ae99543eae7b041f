/* tree: files and folders written below one directory, and nowhere else.
 *
 * No link is followed or made: every folder on the way is opened beneath the directory without following links. A file
 * is made, never opened: one that is there already is refused. Modes are 0644, 0755 for executables and folders;
 * owners are this process's. Paths were checked before (text/changeset.h). */
#ifndef WEIR_UNPACK_TREE_H
#define WEIR_UNPACK_TREE_H

#include "base/err.h"

struct tree {
    int dir_fd; /* the caller's */
    int fd;     /* of the file that is being written; -1: none */
};

bool tree_file_open(struct tree *tree, struct str path, bool is_executable, struct err *err);
bool tree_write(struct tree *tree, struct str bytes, struct err *err);
bool tree_file_close(struct tree *tree, struct err *err);
bool tree_folder_make(struct tree *tree, struct str path, struct err *err); /* one that is there is fine */

#endif
