/* archives: archives, revisions, what PREV means, and schedules: rows to structs and back, for the engine's connection and for readers. */
#include "store/postgres/archives.h"

#include "store/damage.h"
#include "store/postgres/reader.h"
#include "store/postgres/turn.h"

enum { LANE_COLUMNS = 18 }; /* of an archive's view, before those of the archive */

/* --- rows ----------------------------------------------------------------------------------------------------------------------- */

static bool damaged(int64_t lane, int64_t rev, struct err *err)
{
    return damage_set(err, "the row of archive %lld at revision %lld can't be read", (long long)lane, (long long)rev);
}

static bool row_archive(const PGresult *result, int row, int at, struct arena *arena, struct archive *out, struct err *err)
{
    *out = (struct archive){
        .lane = cell_i64(result, row, at),
        .kind = (enum archive_kind)cell_i64(result, row, at + 1),
        .url = cell_text(result, row, at + 2, arena),
        .branch = cell_text(result, row, at + 3, arena),
        .added = cell_i64(result, row, at + 4),
        .removed = cell_i64(result, row, at + 5),
        .first = cell_i64(result, row, at + 6),
        .next = cell_i64(result, row, at + 7),
        .youngest = cell_i64(result, row, at + 8),
        .tip = cell_text(result, row, at + 9, arena),
        .definition = cell_i64(result, row, at + 10),
    };
    return (out->kind > ARCHIVE_NONE && out->kind < ARCHIVE_KIND_COUNT && lock_unpack(cell_view(result, row, at + 11), arena, out)) ||
           damaged(out->lane, 0, err);
}

static bool row_revision(const PGresult *result, int row, struct arena *arena, struct revision *out, struct err *err)
{
    int64_t *prevs = NULL;
    *out = (struct revision){
        .lane = cell_i64(result, row, 0),
        .rev = cell_i64(result, row, 1),
        .state = (enum revision_state)cell_i64(result, row, 2),
        .ident = cell_text(result, row, 3, arena),
        .txn = cell_text(result, row, 4, arena),
        .author = cell_text(result, row, 5, arena),
        .message = cell_text(result, row, 6, arena),
        .time = cell_i64(result, row, 7),
        .noted = cell_i64(result, row, 8),
        .cause = cell_i64(result, row, 9),
        .depth = cell_i64(result, row, 10),
        .definition = cell_i64(result, row, 11),
    };
    struct str packed = cell_view(result, row, 12);
    bool ok = !packed.len || numbers_unpack(packed, arena, &prevs, &out->n_prevs);
    out->prevs = prevs;
    return (ok && out->state > REVISION_NONE && out->state < REVISION_STATE_COUNT) || damaged(out->lane, out->rev, err);
}

static bool rows_schedules(const PGresult *result, struct arena *arena, struct schedule **out, size_t *out_n)
{
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct schedule, *out_n) : NULL;
    for (int i = 0; i < (int)*out_n; i++)
        (*out)[i] = (struct schedule){
            .lane = cell_i64(result, i, 0),
            .task = cell_text(result, i, 1, arena),
            .cron = cell_text(result, i, 2, arena),
            .zone = cell_text(result, i, 3, arena),
            .next = cell_i64(result, i, 4),
            .fired = cell_i64(result, i, 5),
        };
    return true;
}

/* One row of two numbers; zeros: none. */
static void numbers_get(const PGresult *result, int64_t *out_a, int64_t *out_b)
{
    bool any = PQntuples(result) > 0;
    *out_a = any ? cell_i64(result, 0, 0) : 0;
    if (out_b)
        *out_b = any ? cell_i64(result, 0, 1) : 0;
}

static bool revision_found(const PGresult *result, struct arena *arena, struct revision *out, bool *out_found, struct err *err)
{
    *out_found = PQntuples(result) > 0;
    return !*out_found || row_revision(result, 0, arena, out, err);
}

/* --- the engine's loads ----------------------------------------------------------------------------------------------------------- */

bool pg_rows_archives(const PGresult *result, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err)
{
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct archive *, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++) {
        (*out)[i] = ARENA_NEW(arena, struct archive);
        if (!row_archive(result, (int)i, 0, arena, (*out)[i], err))
            return false;
    }
    return true;
}

bool postgres_load_archives(struct store *store, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return writer_ask(postgres_of(store), PG_archives, NULL, &result, err) && pg_rows_archives(result, arena, out, out_n, err);
}

bool postgres_load_schedules(struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return writer_ask(postgres_of(store), PG_schedules, NULL, &result, err) && rows_schedules(result, arena, out, out_n);
}

bool postgres_load_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out, bool *out_found,
                            struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_i64(&args, rev);
    return writer_ask(postgres_of(store), PG_revision_get, &args, &result, err) && revision_found(result, arena, out, out_found, err);
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

bool postgres_latest_find(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant, struct latest *out,
                          bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_text(&args, name);
    arg_text(&args, variant);
    if (!writer_ask(postgres_of(store), PG_latest_get, &args, &result, err))
        return false;
    *out_found = PQntuples(result) > 0;
    if (*out_found)
        *out = (struct latest){
            .lane = lane,
            .name = str_dup(arena, name),
            .variant = str_dup(arena, variant),
            .rev = cell_i64(result, 0, 0),
            .task = cell_i64(result, 0, 1),
            .ran_rev = cell_i64(result, 0, 2),
            .ran_task = cell_i64(result, 0, 3),
        };
    return true;
}

bool postgres_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto, int64_t *out_task,
                        int64_t *out_rev, struct err *err)
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

bool postgres_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant, int64_t run, int64_t *out_task,
                        int64_t *out_run, struct err *err)
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
static bool ids_get(struct store *store, enum pg_id id, int64_t key, size_t n, struct arena *arena, int64_t **out, size_t *out_n,
                    struct err *err)
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

bool postgres_tasks_open(struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(store, PG_tasks_open, lane, n, arena, out, out_n, err);
}

bool postgres_tasks_after(struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(store, PG_ids_after, after, n, arena, out, out_n, err);
}

/* --- what a turn writes ------------------------------------------------------------------------------------------------------------ */

static void archives_add(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "iittiiiiitib");
    for (size_t i = 0; i < w->c->n_archives; i++) {
        const struct archive *archive = w->c->archives[i];
        buf_reset(&w->self->scratch);
        lock_pack(&w->self->scratch, archive);
        bulk_i64(b, archive->lane);
        bulk_i64(b, archive->kind);
        bulk_text(b, archive->url);
        bulk_text(b, archive->branch);
        bulk_i64(b, archive->added);
        bulk_i64(b, archive->removed);
        bulk_i64(b, archive->first);
        bulk_i64(b, archive->next);
        bulk_i64(b, archive->youngest);
        bulk_text(b, archive->tip);
        bulk_i64(b, archive->definition);
        bulk_text(b, buf_str(&w->self->scratch));
    }
    write_end_touched(w, PG_archive_put);
}

static void revisions_add(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "iiittttiiiiib");
    for (size_t i = 0; i < w->c->n_revisions; i++) {
        const struct revision *revision = &w->c->revisions[i];
        bulk_i64(b, revision->lane);
        bulk_i64(b, revision->rev);
        bulk_i64(b, revision->state);
        bulk_text(b, revision->ident);
        bulk_text(b, revision->txn);
        bulk_text(b, revision->author);
        bulk_text(b, revision->message);
        bulk_i64(b, revision->time);
        bulk_i64(b, revision->noted);
        bulk_i64(b, revision->cause);
        bulk_i64(b, revision->depth);
        bulk_i64(b, revision->definition);
        if (revision->n_prevs)
            write_numbers(w, b, revision->prevs, revision->n_prevs);
        else
            bulk_bytes(b, NULL, 0);
    }
    write_end(w, PG_revision_put, false);
}

static void latest_add(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "ittiiii");
    for (size_t i = 0; i < w->c->n_latest; i++) {
        const struct latest *latest = &w->c->latest[i];
        bulk_i64(b, latest->lane);
        bulk_text(b, latest->name);
        bulk_text(b, latest->variant);
        bulk_i64(b, latest->rev);
        bulk_i64(b, latest->task);
        bulk_i64(b, latest->ran_rev);
        bulk_i64(b, latest->ran_task);
    }
    write_end(w, PG_latest_put, false);
}

static void schedules_add(struct write *w, enum pg_id id, const struct schedule *schedules, size_t n)
{
    struct pg_bulk *b = write_begin(w, id == PG_schedule_put ? "itttii" : "ittt");
    for (size_t i = 0; i < n; i++) {
        bulk_i64(b, schedules[i].lane);
        bulk_text(b, schedules[i].task);
        bulk_text(b, schedules[i].cron);
        bulk_text(b, schedules[i].zone);
        if (id == PG_schedule_put) {
            bulk_i64(b, schedules[i].next);
            bulk_i64(b, schedules[i].fired);
        }
    }
    write_end(w, id, false);
}

void pg_archives_write(struct write *w)
{
    archives_add(w);
    revisions_add(w);
    latest_add(w);
    schedules_add(w, PG_schedule_delete, w->c->schedules_remove, w->c->n_schedules_remove);
    schedules_add(w, PG_schedule_put, w->c->schedules, w->c->n_schedules);
}

/* --- readers ------------------------------------------------------------------------------------------------------------------------ */

static bool view_fill(const PGresult *result, int row, struct arena *arena, struct archive_view *out, struct err *err)
{
    pg_row_lane(result, row, arena, &out->lane);
    return row_archive(result, row, LANE_COLUMNS, arena, &out->archive, err);
}

static bool views_fill(const PGresult *result, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct archive_view, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++)
        if (!view_fill(result, (int)i, arena, &(*out)[i], err))
            return false;
    return true;
}

bool postgres_read_archives(struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return reader_ask(postgres_reader_of(reader), PG_archive_views, NULL, &result, err) && views_fill(result, arena, out, out_n, err);
}

bool postgres_read_archives_page(struct reader *reader, struct arena *arena, struct str tenant, int64_t before, size_t limit,
    struct archive_view **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, before ? before : INT64_MAX);
    arg_text(&args, tenant);
    arg_i64(&args, (int64_t)limit);
    return reader_ask(postgres_reader_of(reader), PG_archive_views_page, &args, &result, err) &&
           views_fill(result, arena, out, out_n, err);
}

bool postgres_read_lane(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct lane *out, bool *out_found,
    struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, name);
    arg_text(&args, tenant);
    if (!reader_ask(postgres_reader_of(reader), PG_lane_named, &args, &result, err))
        return false;
    *out_found = PQntuples(result) > 0;
    if (*out_found)
        pg_row_lane(result, 0, arena, out);
    return true;
}

bool postgres_read_archive(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct archive_view *out,
                           bool *out_found, struct err *err)
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

bool postgres_read_revision(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out, bool *out_found,
                            struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_i64(&args, rev);
    return reader_ask(postgres_reader_of(reader), PG_revision_get, &args, &result, err) &&
           revision_found(result, arena, out, out_found, err);
}

bool postgres_read_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit, struct revision **out,
                             size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    arg_i64(&args, before ? before : INT64_MAX);
    arg_i64(&args, (int64_t)limit);
    if (!reader_ask(postgres_reader_of(reader), PG_revisions_below, &args, &result, err))
        return false;
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct revision, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++)
        if (!row_revision(result, (int)i, arena, &(*out)[i], err))
            return false;
    return true;
}

bool postgres_read_revision_of_ident(struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
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

bool postgres_read_schedules(struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n,
                             struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, lane);
    return reader_ask(postgres_reader_of(reader), PG_schedules_of, &args, &result, err) && rows_schedules(result, arena, out, out_n);
}
