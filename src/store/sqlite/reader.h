/* reader: the parts of the SQLite reader, for each other; private to store/sqlite. */
#ifndef WEIR_STORE_SQLITE_READER_H
#define WEIR_STORE_SQLITE_READER_H

#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite.h"

struct sqlite_reader {
    struct reader port; /* first */
    struct db db;
};

static inline struct sqlite_reader *sqlite_reader_of(struct reader *reader)
{
    return (struct sqlite_reader *)(void *)reader;
}

extern const struct reader_ops sqlite_reader_ops;

bool snapshot_begin(struct db *db, struct err *err);
bool snapshot_end(struct db *db, bool ok);

/* a lane without a row has only its id */
bool lane_view(struct db *db, struct arena *arena, int64_t id, struct lane *out, struct err *err);
/* all but view->task */
bool view_fill(struct db *db, struct arena *arena, const struct lane *lane, struct task_view *view, struct err *err);

/* tasks.c */
bool sqlite_read_tasks(struct reader *reader, struct arena *arena, const struct task_filter *filter,
    struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err);
bool sqlite_read_find(struct reader *reader, struct str tenant, struct str lane, int64_t rev, struct str name,
    struct str variant, int64_t run, int64_t *out_id, struct err *err);

#endif
