/* files: the few things the store does with directories and files; private to store.
 *
 * Never opens a file that SQLite has open: closing it would drop SQLite's locks (POSIX locks belong to the process). */
#ifndef WEIR_STORE_FILES_H
#define WEIR_STORE_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { FILES_PATH_MAX = 4096 };

bool path_join(char out[FILES_PATH_MAX], const char *dir, const char *name, struct err *err);
bool path_parent(char out[FILES_PATH_MAX], const char *path, struct err *err);
/* with parents (0755); one that exists keeps its mode */
bool dir_create(const char *dir, mode_t mode, struct err *err);
bool dir_sync(const char *dir, struct err *err);
/* empty, 0600, if it isn't there; directory synced */
bool file_create(const char *path, bool *out_new, struct err *err);
bool file_sync(const char *path, struct err *err);
bool file_exists(const char *path);
int64_t file_size(const char *path); /* 0: none */

/* lock_take: DIR/lock for this process, with its pid in words; -1: another one has it (ERR_conflict says who). Closing
 * gives it back. */
int lock_take(const char *dir, struct err *err);

#endif
