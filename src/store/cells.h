/* cells: what a column can't hold by itself, as bytes; the same in every store, so that rows can be copied between them
 * as they are.
 *
 * Pure. A reader gets false for bytes that no build of ours can have written. */
#ifndef WEIR_STORE_CELLS_H
#define WEIR_STORE_CELLS_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/model.h"

struct str state_text(enum task_state state); /* its letter, or empty */

/* task.rest: everything of a task that has no column of its own. task_unpack fills those fields and leaves the others;
 * its texts are views into `rest`. False: damaged. */
void task_pack(struct buf *out, const struct task *task);
bool task_unpack(struct str rest, struct task *out);

void labels_pack(struct buf *out, const struct label *labels, size_t n);
/* out_n entries; labels' texts are copied into the arena. False: damaged. */
bool labels_unpack(struct str bytes, struct arena *arena, struct label **out, size_t *out_n);
void numbers_pack(struct buf *out, const int64_t *numbers, size_t n);
bool numbers_unpack(struct str bytes, struct arena *arena, int64_t **out, size_t *out_n);

/* archive.lock_users: the exclusive task, then those that share since. */
void lock_pack(struct buf *out, const struct archive *archive);
bool lock_unpack(struct str bytes, struct arena *arena, struct archive *out);

#endif
