/* workdir: the working directory of a shim's jobs, emptied between them and made once. */
#ifndef WEIR_EXEC_WORKDIR_H
#define WEIR_EXEC_WORKDIR_H

#include <stdbool.h>

/* workdir_open: `name` beneath dir_fd, made when it isn't there, or is no directory; -1: errno. */
int workdir_open(int dir_fd, const char *name);

/* workdir_clean: removes everything in it, follows no link, crosses no mount. Costs two system calls when there is
 * nothing. The directory itself is made again when the job took it away: *fd is then a new descriptor. What can't be
 * removed is put aside as NAME.left.N. false: there is no empty directory. */
bool workdir_clean(int dir_fd, const char *name, int *fd);

bool workdir_empty(int fd);                        /* removes everything in it, likewise; false: something stayed */
bool workdir_remove(int dir_fd, const char *name); /* the directory too; fine if it isn't there */

#endif
