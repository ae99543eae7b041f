/* turn_rows: what a turn writes, a statement per table with its rows as arrays. See turn.h.
 *
 * Owns the order of the statements: that of struct changes; what is removed from ready, hold, unique_key and
 * changeset_file goes before what is added. Only sends: a statement that is refused ends the turn (turn.c). Attempts
 * are in attempts.c. Rows whose places row_ctids.c knows are written by these. */
#include <string.h>

#include "store/postgres/turn.h"

struct pg_bulk *write_begin(struct write *w, const char *types)
{
    bulk_begin(&w->self->pg.bulk, types);
    return &w->self->pg.bulk;
}

void write_end(struct write *w, enum sql_id id, unsigned with)
{
    struct pg_bulk *bulk = &w->self->pg.bulk;
    struct pg_args args = { 0 };
    if (!bulk->n_rows || w->full)
        return;
    w->full = !(with & WITH_FIRST) && !bulk_args(bulk, &args);
    if (with & WITH_COUNT)
        arg_i64(&args, (int64_t)bulk->n_rows);
    if (with & WITH_COMMIT)
        arg_i64(&args, w->self->head.commit + 1);
    w->full |= with & WITH_FIRST && !bulk_args(bulk, &args);
    if (!w->full)
        pg_queue(&w->self->pg, id, &args);
}

static void bulk_ctid(struct pg_bulk *b, const char *ctid)
{
    if (ctid)
        bulk_bytes(b, ctid, CTID_BYTES);
    else
        bulk_null(b);
}

/* --- rows --- */

#define PUT_NUMBER(value) bulk_i64(b, value)
#define PUT_TEXT(text) bulk_text(b, text)
#define PUT_BLOB(bytes) bulk_text(b, bytes)
#define PUT_NULL() bulk_null(b)
#define PUT_REST(task) bulk_text(b, w->rest)

/* ROW_ADDER: a row's cells: all (ROW_PUT), or some. ROWS_WRITER: and a statement with the rows of a list; at: & where
 * it has the rows themselves; with: as write_end. */
#define ROW_ADDER(name, table, type, put) \
    static void name(struct write *w, struct pg_bulk *b, const struct type *row) \
    { \
        struct buf *packed = &w->self->scratch; \
        (void)packed; \
        ROW_##table(put) \
    }
#define ROWS_WRITER_OF(table, type, list, at, put, letters, with) \
    ROW_ADDER(add_##table, table, type, put) \
    static void write_##table(struct write *w, enum sql_id id, const struct type list rows, size_t n) \
    { \
        if (n == 0) /* of most tables, in most turns */ \
            return; \
        struct pg_bulk *b = write_begin(w, ROW_##table(letters)); \
        for (size_t i = 0; i < n; i++) \
            add_##table(w, b, at rows[i]); \
        write_end(w, id, with); \
    }
#define ROWS_WRITER(table, type, list, at, with) ROWS_WRITER_OF(table, type, list, at, ROW_PUT, ROW_LETTER, with)
#define ROW_hold_key(C) ROW_hold(C)
#define ROW_schedule_key(C) ROW_schedule(C)
#define ROW_log_seal_key(C) ROW_log_seal(C)
#define ROW_changeset_file_key(C) ROW_changeset_file(C)
ROW_ADDER(add_lane, lane, lane, ROW_PUT)
ROW_ADDER(add_lane_later, lane, lane, ROW_PUT_LATER)
ROWS_WRITER(class, task_class, **, , 0)
ROWS_WRITER(spec, spec, **, , 0)
ROWS_WRITER(slot, slot, **, , WITH_COMMIT)
ROW_ADDER(add_task, task, task, ROW_PUT)
ROW_ADDER(add_task_later, task, task, ROW_PUT_LATER)
ROW_ADDER(add_ready, ready, task, ROW_PUT)
ROWS_WRITER(edge, edge, *, &, 0)
ROWS_WRITER(hold, hold, *, &, 0)
ROWS_WRITER_OF(hold_key, hold, *, &, ROW_PUT_KEY, ROW_LETTER_KEY, 0)
ROWS_WRITER(outputs, task_outputs, *, &, 0)
ROWS_WRITER(log_tail, log_tail, *, &, 0)
ROWS_WRITER(log_seal, log_seal, *, &, 0)
ROWS_WRITER_OF(log_seal_key, log_name, *, &, ROW_PUT_KEY, ROW_LETTER_KEY, 0)
ROWS_WRITER(unique_key, unique_claim, *, &, 0)
ROWS_WRITER(idempotency, idempotency, *, &, 0)
ROWS_WRITER(executor, executor, **, , WITH_COMMIT)
ROWS_WRITER(token, token, **, , 0)
ROWS_WRITER(site, site_key, *, &, 0)
ROWS_WRITER(archive, archive, **, , WITH_COMMIT)
ROWS_WRITER(revision, revision, *, &, 0)
ROWS_WRITER(latest, latest, *, &, 0)
ROWS_WRITER(schedule, schedule, *, &, 0)
ROWS_WRITER_OF(schedule_key, schedule, *, &, ROW_PUT_KEY, ROW_LETTER_KEY, 0)
ROWS_WRITER(changeset, changeset, **, , 0)
ROWS_WRITER(changeset_file, changeset_file, *, &, 0)
ROWS_WRITER_OF(changeset_file_key, changeset_file, *, &, ROW_PUT_KEY, ROW_LETTER_KEY, 0)
ROWS_WRITER(duty, duty, *, &, 0)

static void ids_write(struct write *w, enum sql_id id, const int64_t *ids, size_t n)
{
    struct pg_bulk *b = write_begin(w, "i");
    for (size_t i = 0; i < n; i++)
        bulk_i64(b, ids[i]);
    write_end(w, id, 0);
}

/* --- what a turn has changed --- */

static void lanes_put(struct write *w)
{
    struct pg_bulk *b = write_begin(w, ROW_lane(ROW_LETTER));
    for (size_t i = 0; i < w->c->lanes.n; i++)
        if (!ctid_of_row(w->self, CTIDS_LANES, w->c->lanes.at[i]->id))
            add_lane(w, b, w->c->lanes.at[i]);
    write_end(w, SQL_lane_put, WITH_COMMIT);
}

/* Those whose places are known. */
static void lanes_put_at(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "p" ROW_lane(ROW_LETTER_LATER));
    for (size_t i = 0; i < w->c->lanes.n; i++) {
        const char *ctid = ctid_of_row(w->self, CTIDS_LANES, w->c->lanes.at[i]->id);
        if (!ctid)
            continue;
        bulk_ctid(b, ctid);
        add_lane_later(w, b, w->c->lanes.at[i]);
    }
    write_end(w, SQL_lane_put_at, WITH_FIRST | WITH_COUNT | WITH_COMMIT);
}

static void lanes_write(struct write *w)
{
    lanes_put(w);
    if (w->self->ctids.crowded)
        lanes_put_at(w);
}

static void lanes_add(struct write *w)
{
    bool placed = w->self->ctids.crowded;
    struct pg_bulk *b = write_begin(w, placed ? "iiiiiiiiiiiiip" : "iiiiiiiiiiiii");
    for (size_t i = 0; i < w->c->lanes.n; i++) {
        const struct lane *lane = w->c->lanes.at[i], *was = w->c->shared.lanes_was[i];
        bulk_i64(b, lane->id);
        bulk_i64(b, lane->last_vt);
        bulk_i64(b, lane->last_vt - was->last_vt);
        for (int state = STATE_Q; state < STATE_COUNT; state++)
            bulk_i64(b, lane->counts[state] - was->counts[state]);
        bulk_i64(b, lane->log_bytes - was->log_bytes);
        bulk_i64(b, lane->file_bytes - was->file_bytes);
        if (placed)
            bulk_ctid(b, ctid_of_row(w->self, CTIDS_LANES, lane->id));
    }
    if (placed)
        write_end(w, SQL_lane_add_at, WITH_FIRST | WITH_COUNT | WITH_COMMIT);
    else
        write_end(w, SQL_lane_add, WITH_COMMIT);
}

static void names_write(struct write *w)
{
    write_class(w, SQL_class_insert, w->c->classes.at, w->c->classes.n);
    ids_write(w, SQL_class_delete, w->c->classes_remove.at, w->c->classes_remove.n);
}

static void specs_write(struct write *w)
{
    write_spec(w, SQL_spec_insert, w->c->specs.at, w->c->specs.n);
}

static void slots_write(struct write *w)
{
    write_slot(w, SQL_slot_put, w->c->slots.at, w->c->slots.n);
    ids_write(w, SQL_slot_delete, w->c->slots_remove.at, w->c->slots_remove.n);
}

static void task_update_write(struct write *w, enum sql_id id)
{
    bool at = id == SQL_task_update_at;
    struct pg_bulk *b = write_begin(w, at ? "p" ROW_task(ROW_LETTER_LATER) : ROW_task(ROW_LETTER_LATER));
    for (size_t i = 0; i < w->c->tasks_changed.n; i++) {
        const struct task *task = w->c->tasks_changed.at[i];
        const struct ready_ctid *ctid = ctid_of_claimed(w->self, task->id);
        if (at != (ctid != NULL))
            continue;
        if (at)
            bulk_bytes(b, ctid->task, sizeof ctid->task);
        w->rest = tags_rest(&w->self->tagger, w->c->tasks_new.n + i);
        add_task_later(w, b, task);
    }
    write_end(w, id, WITH_COUNT);
}

static void tasks_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, ROW_task(ROW_LETTER));
    for (size_t i = 0; i < w->c->tasks_new.n; i++) {
        w->rest = tags_rest(&w->self->tagger, i);
        add_task(w, b, w->c->tasks_new.at[i]);
    }
    write_end(w, SQL_task_insert, 0);
    task_update_write(w, SQL_task_update_at);
    task_update_write(w, SQL_task_update);
}

static void ready_delete_at_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "pi");
    for (size_t i = 0; i < w->c->ready_remove.n; i++) {
        const struct task *task = w->c->ready_remove.at[i];
        const struct ready_ctid *ctid = ctid_of_claimed(w->self, task->id);
        if (!ctid)
            continue;
        bulk_bytes(b, ctid->ready, sizeof ctid->ready);
        bulk_i64(b, task->id);
    }
    write_end(w, SQL_ready_delete_at, WITH_COUNT);
}

static void ready_write(struct write *w, enum sql_id id, const struct task **tasks, size_t n)
{
    struct pg_bulk *b = write_begin(w, ROW_ready(ROW_LETTER));
    for (size_t i = 0; i < n; i++)
        if (id != SQL_ready_delete || !ctid_of_claimed(w->self, tasks[i]->id))
            add_ready(w, b, tasks[i]);
    write_end(w, id, id == SQL_ready_delete ? WITH_COUNT : 0);
}

static void readies_write(struct write *w)
{
    ready_delete_at_write(w);
    ready_write(w, SQL_ready_delete, w->c->ready_remove.at, w->c->ready_remove.n);
    ready_write(w, SQL_ready_insert, w->c->ready_add.at, w->c->ready_add.n);
}

static void waits_write(struct write *w)
{
    write_edge(w, SQL_edge_insert, w->c->edges_new.at, w->c->edges_new.n);
    write_edge(w, SQL_edge_update, w->c->edges_changed.at, w->c->edges_changed.n);
    write_hold_key(w, SQL_hold_delete, w->c->holds_remove.at, w->c->holds_remove.n);
    write_hold(w, SQL_hold_insert, w->c->holds_add.at, w->c->holds_add.n);
}

static void results_write(struct write *w)
{
    write_outputs(w, SQL_outputs_put, w->c->outputs.at, w->c->outputs.n);
    write_log_tail(w, SQL_log_tail_put, w->c->logs.tails.at, w->c->logs.tails.n);
    write_log_seal(w, SQL_log_seal_put, w->c->logs.seals.at, w->c->logs.seals.n);
    write_log_seal_key(w, SQL_log_seal_delete, w->c->logs.seals_remove.at, w->c->logs.seals_remove.n);
    ids_write(w, SQL_outputs_delete, w->c->results_remove.at, w->c->results_remove.n);
    ids_write(w, SQL_log_tails_delete, w->c->results_remove.at, w->c->results_remove.n);
}

/* Removed, added, and removed once more: a task that was created and granted in the same turn doesn't keep its key. */
static void uniques_write(struct write *w)
{
    write_unique_key(w, SQL_unique_delete, w->c->unique_remove.at, w->c->unique_remove.n);
    write_unique_key(
        w, w->c->shared.narrow ? SQL_unique_insert : SQL_unique_put, w->c->unique_add.at, w->c->unique_add.n);
    if (w->c->unique_add.n)
        write_unique_key(w, SQL_unique_delete, w->c->unique_remove.at, w->c->unique_remove.n);
}

static void idempotencies_write(struct write *w)
{
    struct postgres_store *self = w->self;
    if (self->expire_max) {
        pg_queue(&self->pg, SQL_idempotency_delete, PG_ARGS(NUM(self->expire_now), NUM(self->expire_max)));
    }
    write_idempotency(w, w->c->shared.narrow ? SQL_idempotency_insert : SQL_idempotency_put, w->c->idempotency.at,
        w->c->idempotency.n);
}

static void executors_write(struct write *w)
{
    write_executor(w, SQL_executor_put, w->c->executors.at, w->c->executors.n);
    ids_write(w, SQL_executor_delete, w->c->executors_remove.at, w->c->executors_remove.n);
}

static void counts_write(struct write *w)
{
    bool placed = w->self->ctids.crowded;
    struct pg_bulk *b = write_begin(w, placed ? "iiip" : "iii");
    for (size_t i = 0; i < w->c->shared.counts.n; i++) {
        bulk_i64(b, w->c->shared.counts.at[i].executor);
        bulk_i64(b, w->c->shared.counts.at[i].processed);
        bulk_i64(b, w->c->shared.counts.at[i].failed);
        if (placed)
            bulk_ctid(b, ctid_of_row(w->self, CTIDS_EXECUTORS, w->c->shared.counts.at[i].executor));
    }
    write_end(w, placed ? SQL_executor_count_at : SQL_executor_count, placed ? WITH_FIRST | WITH_COUNT : 0);
}

static void site_write(struct write *w)
{
    write_token(w, SQL_token_insert, w->c->tokens.at, w->c->tokens.n);
    ids_write(w, SQL_token_delete, w->c->tokens_remove.at, w->c->tokens_remove.n);
    write_site(w, SQL_site_put, w->c->site.at, w->c->site.n);
}

static void archives_write(struct write *w)
{
    write_archive(w, SQL_archive_put, w->c->archives.at, w->c->archives.n);
    write_revision(w, SQL_revision_put, w->c->revisions.at, w->c->revisions.n);
    write_latest(w, SQL_latest_put, w->c->latest.at, w->c->latest.n);
    write_schedule_key(w, SQL_schedule_delete, w->c->schedules_remove.at, w->c->schedules_remove.n);
    write_schedule(w, SQL_schedule_put, w->c->schedules.at, w->c->schedules.n);
}

static void changesets_write(struct write *w)
{
    write_changeset(w, SQL_changeset_put, w->c->changesets.rows.at, w->c->changesets.rows.n);
    write_changeset_file_key(
        w, SQL_changeset_file_delete, w->c->changesets.files_remove.at, w->c->changesets.files_remove.n);
    write_changeset_file(w, SQL_changeset_file_insert, w->c->changesets.files_add.at, w->c->changesets.files_add.n);
}

#undef PUT_NUMBER
#undef PUT_TEXT
#undef PUT_BLOB
#define PUT_NUMBER(value) arg_i64(&args, value)
#define PUT_TEXT(text) arg_text(&args, text)
#define PUT_BLOB(bytes) arg_text(&args, bytes)

static void clock_write(struct write *w)
{
    const struct wall_known *row = w->c->clock;
    struct pg_args args = { 0 };
    if (!row || w->full)
        return;
    ROW_clock(ROW_PUT) pg_queue(&w->self->pg, SQL_clock_put, &args);
}

static void servers_write(struct write *w)
{
    const struct server_row *row = w->c->shared.server;
    struct pg_args args = { 0 };
    if (row && !w->full) {
        ROW_server(ROW_PUT) pg_queue(&w->self->pg, SQL_server_put, &args);
    }
    write_duty(w, SQL_duty_put, w->c->shared.duties.at, w->c->shared.duties.n);
    for (size_t i = 0; i < w->c->shared.notes.n; i++) {
        pg_queue(&w->self->pg, SQL_notify, PG_ARGS(TXT(w->c->shared.notes.at[i])));
    }
}

static void (*const wide[])(struct write *w) = {
    lanes_write,
    names_write,
    specs_write,
    slots_write,
    tasks_write,
    readies_write,
    waits_write,
    pg_attempts_write,
    results_write,
    uniques_write,
    idempotencies_write,
    executors_write,
    counts_write,
    site_write,
    archives_write,
    changesets_write,
    servers_write,
    clock_write,
    NULL,
};

static void (*const narrow[])(struct write *w) = {
    specs_write,
    tasks_write,
    readies_write,
    waits_write,
    pg_attempts_write,
    results_write,
    uniques_write,
    idempotencies_write,
    NULL,
};
static void (*const last[])(struct write *w) = { slots_write, lanes_add, counts_write, archives_write, NULL };

void write_rows(struct write *w, enum write_part part)
{
    static void (*const *const parts[])(struct write * w) = { wide, narrow, last };
    for (void (*const *write)(struct write *) = parts[part]; *write; write++)
        (*write)(w);
}
