/* archives: the part of the port that concerns archives; private to store/postgres. */
#ifndef WEIR_STORE_POSTGRES_ARCHIVES_H
#define WEIR_STORE_POSTGRES_ARCHIVES_H

#include "store/read.h"
#include "store/postgres/pg.h"
#include "store/store.h"

bool postgres_load_archives(
    struct store *store, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err);
bool postgres_load_schedules(
    struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err);
bool postgres_load_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err);
bool postgres_revision_of_ident(struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err);
bool postgres_latest_find(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant,
    struct latest *out, bool *out_found, struct err *err);
bool postgres_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto,
    int64_t *out_task, int64_t *out_rev, struct err *err);
bool postgres_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant,
    int64_t run, int64_t *out_task, int64_t *out_run, struct err *err);
bool postgres_tasks_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err);

bool postgres_tasks_after(
    struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n, struct err *err);

bool postgres_read_archives(
    struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err);
bool postgres_read_archives_page(struct reader *reader, struct arena *arena, struct str tenant, int64_t before,
    size_t limit, struct archive_view **out, size_t *out_n, struct err *err);
bool postgres_read_lane(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
    struct lane *out, bool *out_found, struct err *err);
bool postgres_read_archive(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
    struct archive_view *out, bool *out_found, struct err *err);
bool postgres_read_revision(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err);
bool postgres_read_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit,
    struct revision **out, size_t *out_n, struct err *err);
bool postgres_read_revision_of_ident(
    struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err);
bool postgres_read_schedules(
    struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n, struct err *err);

#endif
