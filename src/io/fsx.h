/* fsx: files that must be whole after a power cut, and the few other things that servers do with a file system.
 *
 * Every function returns false and fills err with the path and the system's words: not_found (it isn't there),
 * disk_full (no room, or the quota), io (the rest). */
#ifndef WEIR_IO_FSX_H
#define WEIR_IO_FSX_H

#include <dirent.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

/* fsx_replace: the file holds either its old bytes or these, whatever happens: written beside it, synced, renamed,
 * folder synced. */
bool fsx_replace(const char *path, struct str bytes, mode_t mode, struct err *err);

/* fsx_read: the whole file, in the arena, NUL-terminated beyond its end; body_too_large when it is over limit. Only
 * regular files. */
bool fsx_read(const char *path, size_t limit, struct arena *arena, struct str *out, struct err *err);

/* fsx_make_dirs: like mkdir -p; folders that are made get `mode` whatever the umask, the others stay as they are. */
bool fsx_make_dirs(const char *path, mode_t mode, struct err *err);

/* Small things around system calls; these report a fault in errno. */
void fsx_close(int fd);                        /* nothing if it is below 0; errno stays */
int fsx_write_all(int fd, struct str bytes);   /* 0, or the fault */
DIR *fsx_folder(int dir_fd, const char *name); /* for reading, not through a link at its end; NULL: errno */
struct dirent *fsx_entry(DIR *dir);            /* the next one but "." and ".."; NULL: the end */
/* fsx_read_text: the beginning of a file, NUL-terminated; "" and false if it can't be read or is empty. `flags`:
 * further ones for open. */
bool fsx_read_text(int dir_fd, const char *name, int flags, char *out, size_t size);

bool fsx_sync_dir(const char *path, struct err *err);
bool fsx_remove(const char *path, struct err *err); /* and syncs the folder; a file that isn't there is fine */

#endif
