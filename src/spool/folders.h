/* folders: BASE and the thirteen directories in it, and what may lie there.
 *
 * Everything is reached from the descriptors of the directories and never through a link, so nothing outside BASE is
 * read, written or removed, whoever renames entries meanwhile. What isn't a regular file of one link that belongs to
 * the server's user (in prequeue/ and data/ also to root) is foreign: it is moved to corrupt/, with the reason beside
 * it, and is never opened, followed or deleted.
 *
 * Errors are io, disk_full or forbidden (another user's). */
#ifndef WEIR_SPOOL_FOLDERS_H
#define WEIR_SPOOL_FOLDERS_H

#include <sys/stat.h>

#include "base/err.h"
#include "core/model.h"

/* constant, name */
#define SPOOL_FOLDERS(X) \
    X(TMP, "tmp") X(DATA, "data") X(PREQUEUE, "prequeue") X(QUEUE, "queue") X(STAGING, "staging") \
    X(PENDING, "pending") X(RUN, "run") X(DONE, "done") X(FAIL, "fail") X(TERM, "term") X(ABANDON, "abandon") \
    X(CTRL, "ctrl") X(CORRUPT, "corrupt")
enum spool_folder {
#define X(constant, name) FOLDER_##constant,
    SPOOL_FOLDERS(X)
#undef X
    FOLDER_COUNT
};

struct folders {
    char *base; /* its path */
    int fds[FOLDER_COUNT];
};

/* folders_open: makes what is missing, 0700. folders_close: also of what wasn't opened whole. */
bool folders_open(struct folders *out, const char *base, struct err *err);
void folders_close(struct folders *folders);

const char *folder_name(enum spool_folder folder);
enum spool_folder folder_of_state(enum task_state state);
bool folder_is_projected(enum spool_folder folder); /* one of those of a state */

/* entry_fault: why the entry is foreign; NULL: it isn't. */
const char *entry_fault(const struct stat *st, bool root_too);

/* entry_open: for reading; -1: *out_why says why it is foreign, NULL: it isn't there, or can't be opened (errno). Never
 * blocks. */
int entry_open(
    const struct folders *folders, enum spool_folder folder, const char *name, struct stat *out, const char **out_why);

/* entry_read: at most `limit` bytes, NUL-terminated behind them, the caller's to mem_free; NULL: as entry_open; a
 * longer file is foreign. */
char *entry_read(const struct folders *folders, enum spool_folder folder, const char *name, size_t limit, size_t *out_n,
    struct stat *out, const char **out_why);

/* entry_rename: as renameat; without `replace` it fails with EEXIST where something is there. */
int entry_rename(const struct folders *folders, enum spool_folder from, const char *name, enum spool_folder to,
    const char *new_name, bool replace);

/* corrupt_move: to corrupt/NAME.TAI64N, with `why` and a newline in corrupt/NAME.TAI64N.why, and a line in the log. An
 * entry that isn't there any more is fine. */
bool corrupt_move(
    const struct folders *folders, enum spool_folder folder, const char *name, struct str why, struct err *err);

/* tmp_write: a new file in tmp/ with these bytes, and this time of change. It isn't synced: what becomes of it is a
 * projection, which the next start compares with the store. */
bool tmp_write(const struct folders *folders, const char *name, struct str bytes, int64_t mtime_ms, struct err *err);

/* tmp_clear: what a crash left in tmp/. */
bool tmp_clear(const struct folders *folders, struct err *err);

/* folder_list: the names in a folder, in the arena; at most `max` of them. */
bool folder_list(const struct folders *folders, enum spool_folder folder, size_t max, struct arena *arena, char ***out,
    size_t *out_n, struct err *err);

/* spool_fault: err from errno, with the place; false. */
bool spool_fault(const struct folders *folders, enum spool_folder folder, const char *name, struct err *err);

#endif
