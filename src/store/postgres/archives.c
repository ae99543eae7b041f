/* archives: archives, revisions, what PREV means, and schedules: rows to structs and back, for the engine's connection
 * and for readers. */
#include "store/postgres/archives.h"

#include "store/postgres/reader.h"
#include "store/postgres/turn.h"

/* One row of two numbers; zeros: none. */
static void numbers_get(const PGresult *result, int64_t *out_a, int64_t *out_b)
{
    struct cells c = cells_of(result, 0);
    bool any = PQntuples(result) > 0;
    *out_a = any ? next_i64(&c) : 0;
    if (out_b)
        *out_b = any ? next_i64(&c) : 0;
}

/* --- the engine's loads --- */

bool postgres_load_archives(
    struct store *store, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return writer_ask(postgres_of(store), PG_archives, NULL, &result, err) &&
           pg_rows_archives(result, arena, out, out_n, err);
}

bool postgres_load_schedules(
    struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return writer_ask(postgres_of(store), PG_schedules, NULL, &result, err) &&
           pg_rows_schedules(result, arena, out, out_n, err);
}

bool postgres_load_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_i64(&args, rev);
    return writer_ask(postgres_of(store), PG_revision_get, &args, &result, err) &&
           pg_rows_get_revision(result, arena, out, out_found, err);
}

bool postgres_revision_of_ident(struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_text(&args, ident);
    if (!writer_ask(postgres_of(store), PG_revision_of_ident, &args, &result, err))
        return false;
    numbers_get(result, out_rev, NULL);
    return true;
}

bool postgres_latest_find(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant,
    struct latest *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_text(&args, name);
    arg_text(&args, variant);
    return writer_ask(postgres_of(store), PG_latest_get, &args, &result, err) &&
           pg_rows_get_latest(result, arena, out, out_found, err);
}

bool postgres_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto,
    int64_t *out_task, int64_t *out_rev, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_text(&args, name);
    arg_text(&args, variant);
    arg_i64(&args, upto);
    if (!writer_ask(postgres_of(store), PG_task_upto, &args, &result, err))
        return false;
    numbers_get(result, out_task, out_rev);
    return true;
}

bool postgres_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant,
    int64_t run, int64_t *out_task, int64_t *out_run, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_i64(&args, rev);
    arg_text(&args, name);
    arg_text(&args, variant);
    if (run >= 0)
        arg_i64(&args, run);
    if (!writer_ask(postgres_of(store), run < 0 ? PG_task_last_run : PG_task_of_key, &args, &result, err))
        return false;
    numbers_get(result, out_task, out_run);
    return true;
}

/* Ids of tasks, by a statement of two numbers. */
static bool ids_get(struct store *store, enum pg_id id, int64_t key, size_t n, struct arena *arena, int64_t **out,
    size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, key);
    arg_i64(&args, (int64_t)n);
    if (!writer_ask(postgres_of(store), id, &args, &result, err))
        return false;
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, int64_t, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++)
        (*out)[i] = cell_i64(result, (int)i, 0);
    return true;
}

bool postgres_tasks_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(store, PG_tasks_open, lane, n, arena, out, out_n, err);
}

bool postgres_tasks_after(
    struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(store, PG_ids_after, after, n, arena, out, out_n, err);
}

/* --- readers --- */

static bool view_fill(const PGresult *result, int row, struct arena *arena, struct archive_view *out, struct err *err)
{
    struct cells c = cells_of(result, row);
    return pg_row_lane(&c, arena, &out->lane, err) && pg_row_archive(&c, arena, &out->archive, err);
}

static bool views_fill(
    const PGresult *result, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct archive_view, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++)
        if (!view_fill(result, (int)i, arena, &(*out)[i], err))
            return false;
    return true;
}

bool postgres_read_archives(
    struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return reader_ask(postgres_reader_of(reader), PG_archive_views, NULL, &result, err) &&
           views_fill(result, arena, out, out_n, err);
}

bool postgres_read_archives_page(struct reader *reader, struct arena *arena, struct str tenant, int64_t before,
    size_t limit, struct archive_view **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, before ? before : INT64_MAX);
    arg_text(&args, tenant);
    arg_i64(&args, (int64_t)limit);
    return reader_ask(postgres_reader_of(reader), PG_archive_views_page, &args, &result, err) &&
           views_fill(result, arena, out, out_n, err);
}

bool postgres_read_lane(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
    struct lane *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, name);
    arg_text(&args, tenant);
    return reader_ask(postgres_reader_of(reader), PG_lane_named, &args, &result, err) &&
           pg_rows_get_lane(result, arena, out, out_found, err);
}

bool postgres_read_archive(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
    struct archive_view *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, name);
    arg_text(&args, tenant);
    if (!reader_ask(postgres_reader_of(reader), PG_archive_view, &args, &result, err))
        return false;
    *out_found = PQntuples(result) > 0;
    return !*out_found || view_fill(result, 0, arena, out, err);
}

bool postgres_read_revision(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_i64(&args, rev);
    return reader_ask(postgres_reader_of(reader), PG_revision_get, &args, &result, err) &&
           pg_rows_get_revision(result, arena, out, out_found, err);
}

bool postgres_read_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit,
    struct revision **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_i64(&args, before ? before : INT64_MAX);
    arg_i64(&args, (int64_t)limit);
    return reader_ask(postgres_reader_of(reader), PG_revisions_below, &args, &result, err) &&
           pg_rows_revisions(result, arena, out, out_n, err);
}

bool postgres_read_revision_of_ident(
    struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_text(&args, ident);
    if (!reader_ask(postgres_reader_of(reader), PG_revision_of_ident, &args, &result, err))
        return false;
    numbers_get(result, out_rev, NULL);
    return true;
}

bool postgres_read_schedules(
    struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    return reader_ask(postgres_reader_of(reader), PG_schedules_of, &args, &result, err) &&
           pg_rows_schedules(result, arena, out, out_n, err);
}
