/* row_copy: rows that outlive what they were read from. */
#ifndef WEIR_STORE_ROW_COPY_H
#define WEIR_STORE_ROW_COPY_H

#include "store/store.h"

/* row_copy_TABLE: the row's texts and lists become the arena's own; its numbers are there already. */
#define ROW_COPIES(T) \
    T(task, task) \
    T(spec, spec) \
    T(idempotency, idempotency) \
    T(lane, lane) \
    T(class, task_class) \
    T(slot, slot) \
    T(executor, executor) \
    T(token, token) \
    T(site, site_key) \
    T(archive, archive) \
    T(revision, revision) \
    T(latest, latest) \
    T(schedule, schedule) \
    T(changeset, changeset) \
    T(changeset_file, changeset_file)
#define ROW_COPY_FUNCTION(table, type) void row_copy_##table(struct arena *arena, struct type *row);
ROW_COPIES(ROW_COPY_FUNCTION)

#endif
