/* turn_rows: what a turn writes, a statement per table with its rows as arrays. See turn.h.
 *
 * Owns the order of the statements: that of struct changes; what is removed from ready, hold and unique_key goes before
 * what is added. Only sends: a statement that is refused ends the turn (turn.c). Attempts are attempts.c's.
 *
 * Rows of `task` and `ready` that this turn has read to claim them are written by their ctid, without a look through an
 * index: 8.5 % of the rate of row 11's drain (21 rounds in turns with a server that wrote them by their keys). */
#include <string.h>

#include "store/postgres/archives.h"
#include "store/postgres/turn.h"

struct pg_bulk *write_begin(struct write *w, const char *types)
{
    bulk_begin(&w->self->pg.bulk, types);
    return &w->self->pg.bulk;
}

void write_end(struct write *w, enum pg_id id, bool counted)
{
    struct pg_bulk *bulk = &w->self->pg.bulk;
    struct pg_args args = { 0 };
    if (!bulk->n_rows || w->full)
        return;
    if (!bulk_args(bulk, &args)) {
        w->full = true;
        return;
    }
    if (counted)
        arg_i64(&args, (int64_t)bulk->n_rows);
    pg_queue(&w->self->pg, id, &args);
}

void write_end_touched(struct write *w, enum pg_id id)
{
    struct pg_args args = { 0 };
    if (!w->self->pg.bulk.n_rows || w->full)
        return;
    w->full = !bulk_args(&w->self->pg.bulk, &args);
    if (w->full)
        return;
    arg_i64(&args, w->self->head.commit + 1);
    pg_queue(&w->self->pg, id, &args);
}

/* Rows by their places: how many, the number of this commit, then the columns and the place. */
static void write_end_ctid(struct write *w, enum pg_id id, bool touched)
{
    struct pg_args args = { 0 };
    if (!w->self->pg.bulk.n_rows || w->full)
        return;
    arg_i64(&args, (int64_t)w->self->pg.bulk.n_rows);
    if (touched)
        arg_i64(&args, w->self->head.commit + 1);
    w->full = !bulk_args(&w->self->pg.bulk, &args);
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

/* ROW_ADDER: a row's cells: all (ROW_PUT), or some. ROWS_ADDER: and a statement's rows from a list; at: & where it has
 * the rows themselves. write_end and its kind send them. */
#define ROW_ADDER(name, table, type, put) \
    static void name(struct write *w, struct pg_bulk *b, const struct type *row) \
    { \
        struct buf *packed = &w->self->scratch; \
        (void)packed; \
        ROW_##table(put) \
    }
#define ROWS_ADDER(table, type, list, at, put, letters) \
    ROW_ADDER(add_##table, table, type, put) \
    static void adds_##table(struct write *w, const struct type list rows, size_t n) \
    { \
        struct pg_bulk *b = write_begin(w, ROW_##table(letters)); \
        for (size_t i = 0; i < n; i++) \
            add_##table(w, b, at rows[i]); \
    }
#define ROWS_ADDER_WHOLE(table, type, list, at) ROWS_ADDER(table, type, list, at, ROW_PUT, ROW_LETTER)
#define ROW_hold_key(C) ROW_hold(C)
#define ROW_schedule_key(C) ROW_schedule(C)
#define ROW_log_seal_key(C) ROW_log_seal(C)
ROW_ADDER(add_lane, lane, lane, ROW_PUT)
ROW_ADDER(add_lane_later, lane, lane, ROW_PUT_LATER)
ROWS_ADDER_WHOLE(class, task_class, **, )
ROWS_ADDER_WHOLE(spec, spec, **, )
ROWS_ADDER_WHOLE(slot, slot, **, )
ROW_ADDER(add_task, task, task, ROW_PUT)
ROW_ADDER(add_task_later, task, task, ROW_PUT_LATER)
ROW_ADDER(add_ready, ready, task, ROW_PUT)
ROWS_ADDER_WHOLE(edge, edge, *, &)
ROWS_ADDER_WHOLE(hold, hold, *, &)
ROWS_ADDER(hold_key, hold, *, &, ROW_PUT_KEY, ROW_LETTER_KEY)
ROWS_ADDER_WHOLE(outputs, task_outputs, *, &)
ROWS_ADDER_WHOLE(log_tail, log_tail, *, &)
ROWS_ADDER_WHOLE(log_seal, log_seal, *, &)
ROWS_ADDER(log_seal_key, log_name, *, &, ROW_PUT_KEY, ROW_LETTER_KEY)
ROWS_ADDER_WHOLE(unique_key, unique_claim, *, &)
ROWS_ADDER_WHOLE(idempotency, idempotency, *, &)
ROWS_ADDER_WHOLE(executor, executor, **, )
ROWS_ADDER_WHOLE(token, token, **, )
ROWS_ADDER_WHOLE(site, site_key, *, &)
ROWS_ADDER_WHOLE(archive, archive, **, )
ROWS_ADDER_WHOLE(revision, revision, *, &)
ROWS_ADDER_WHOLE(latest, latest, *, &)
ROWS_ADDER_WHOLE(schedule, schedule, *, &)
ROWS_ADDER(schedule_key, schedule, *, &, ROW_PUT_KEY, ROW_LETTER_KEY)
ROWS_ADDER_WHOLE(duty, duty, *, &)

static void ids_write(struct write *w, enum pg_id id, const int64_t *ids, size_t n)
{
    struct pg_bulk *b = write_begin(w, "i");
    for (size_t i = 0; i < n; i++)
        bulk_i64(b, ids[i]);
    write_end(w, id, false);
}

/* --- what a turn has changed --- */

static void lanes_put(struct write *w)
{
    struct pg_bulk *b = write_begin(w, ROW_lane(ROW_LETTER));
    for (size_t i = 0; i < w->c->lanes.n; i++)
        if (!ctid_of_row(w->self, CTIDS_LANES, w->c->lanes.at[i]->id))
            add_lane(w, b, w->c->lanes.at[i]);
    write_end_touched(w, PG_lane_put);
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
    write_end_ctid(w, PG_lane_put_at, true);
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
        write_end_ctid(w, PG_lane_add_at, true);
    else
        write_end_touched(w, PG_lane_add);
}

static void names_write(struct write *w)
{
    adds_class(w, w->c->classes.at, w->c->classes.n);
    write_end(w, PG_class_insert, false);
    ids_write(w, PG_class_delete, w->c->classes_remove.at, w->c->classes_remove.n);
}

static void specs_write(struct write *w)
{
    adds_spec(w, w->c->specs.at, w->c->specs.n);
    write_end(w, PG_spec_insert, false);
}

static void slots_write(struct write *w)
{
    adds_slot(w, w->c->slots.at, w->c->slots.n);
    write_end_touched(w, PG_slot_put);
    ids_write(w, PG_slot_delete, w->c->slots_remove.at, w->c->slots_remove.n);
}

/* Of a task that came with ready_first in this turn. */
static const struct ready_ctid *ctid_of(struct write *w, const struct task *task)
{
    return map_find(&w->self->prefetch.ctids, (uint64_t)task->id);
}

static void task_update_write(struct write *w, enum pg_id id)
{
    bool at = id == PG_task_update_at;
    struct pg_bulk *b = write_begin(w, at ? "p" ROW_task(ROW_LETTER_LATER) : ROW_task(ROW_LETTER_LATER));
    for (size_t i = 0; i < w->c->tasks_changed.n; i++) {
        const struct task *task = w->c->tasks_changed.at[i];
        const struct ready_ctid *ctid = ctid_of(w, task);
        if (at != (ctid != NULL))
            continue;
        if (at)
            bulk_bytes(b, ctid->task, sizeof ctid->task);
        w->rest = tags_rest(&w->self->tagger, w->c->tasks_new.n + i);
        add_task_later(w, b, task);
    }
    write_end(w, id, true);
}

static void tasks_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, ROW_task(ROW_LETTER));
    for (size_t i = 0; i < w->c->tasks_new.n; i++) {
        w->rest = tags_rest(&w->self->tagger, i);
        add_task(w, b, w->c->tasks_new.at[i]);
    }
    write_end(w, PG_task_insert, false);
    task_update_write(w, PG_task_update_at);
    task_update_write(w, PG_task_update);
}

static void ready_delete_at_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "pi");
    for (size_t i = 0; i < w->c->ready_remove.n; i++) {
        const struct task *task = w->c->ready_remove.at[i];
        const struct ready_ctid *ctid = ctid_of(w, task);
        if (!ctid)
            continue;
        bulk_bytes(b, ctid->ready, sizeof ctid->ready);
        bulk_i64(b, task->id);
    }
    write_end(w, PG_ready_delete_at, true);
}

static void ready_write(struct write *w, enum pg_id id, const struct task **tasks, size_t n)
{
    struct pg_bulk *b = write_begin(w, ROW_ready(ROW_LETTER));
    for (size_t i = 0; i < n; i++)
        if (id != PG_ready_delete || !ctid_of(w, tasks[i]))
            add_ready(w, b, tasks[i]);
    write_end(w, id, id == PG_ready_delete);
}

static void readies_write(struct write *w)
{
    ready_delete_at_write(w);
    ready_write(w, PG_ready_delete, w->c->ready_remove.at, w->c->ready_remove.n);
    ready_write(w, PG_ready_insert, w->c->ready_add.at, w->c->ready_add.n);
}

static void waits_write(struct write *w)
{
    adds_edge(w, w->c->edges_new.at, w->c->edges_new.n);
    write_end(w, PG_edge_insert, false);
    adds_edge(w, w->c->edges_changed.at, w->c->edges_changed.n);
    write_end(w, PG_edge_update, false);
    adds_hold_key(w, w->c->holds_remove.at, w->c->holds_remove.n);
    write_end(w, PG_hold_delete, false);
    adds_hold(w, w->c->holds_add.at, w->c->holds_add.n);
    write_end(w, PG_hold_insert, false);
}

static void results_write(struct write *w)
{
    adds_outputs(w, w->c->outputs.at, w->c->outputs.n);
    write_end(w, PG_outputs_put, false);
    adds_log_tail(w, w->c->log_tails.at, w->c->log_tails.n);
    write_end(w, PG_log_tail_put, false);
    adds_log_seal(w, w->c->log_seals.at, w->c->log_seals.n);
    write_end(w, PG_log_seal_put, false);
    adds_log_seal_key(w, w->c->log_seals_remove.at, w->c->log_seals_remove.n);
    write_end(w, PG_log_seal_delete, false);
    ids_write(w, PG_outputs_delete, w->c->results_remove.at, w->c->results_remove.n);
    ids_write(w, PG_log_tails_delete, w->c->results_remove.at, w->c->results_remove.n);
}

static void unique_write(struct write *w, enum pg_id id, const struct unique_claim *claims, size_t n)
{
    adds_unique_key(w, claims, n);
    write_end(w, id, false);
}

/* Removed, added, and removed once more: a task that was created and granted in the same turn doesn't keep its key. */
static void uniques_write(struct write *w)
{
    unique_write(w, PG_unique_delete, w->c->unique_remove.at, w->c->unique_remove.n);
    unique_write(w, w->c->shared.narrow ? PG_unique_insert : PG_unique_put, w->c->unique_add.at, w->c->unique_add.n);
    if (w->c->unique_add.n)
        unique_write(w, PG_unique_delete, w->c->unique_remove.at, w->c->unique_remove.n);
}

static void idempotencies_write(struct write *w)
{
    struct postgres_store *self = w->self;
    struct pg_args args = { 0 };
    if (self->expire_max) {
        arg_i64(&args, self->expire_now);
        arg_i64(&args, self->expire_max);
        pg_queue(&self->pg, PG_idempotency_delete, &args);
    }
    adds_idempotency(w, w->c->idempotency.at, w->c->idempotency.n);
    write_end(w, w->c->shared.narrow ? PG_idempotency_insert : PG_idempotency_put, false);
}

static void executors_write(struct write *w)
{
    adds_executor(w, w->c->executors.at, w->c->executors.n);
    write_end_touched(w, PG_executor_put);
    ids_write(w, PG_executor_delete, w->c->executors_remove.at, w->c->executors_remove.n);
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
    if (placed)
        write_end_ctid(w, PG_executor_count_at, false);
    else
        write_end(w, PG_executor_count, false);
}

static void site_write(struct write *w)
{
    adds_token(w, w->c->tokens.at, w->c->tokens.n);
    write_end(w, PG_token_insert, false);
    ids_write(w, PG_token_delete, w->c->tokens_remove.at, w->c->tokens_remove.n);
    adds_site(w, w->c->site.at, w->c->site.n);
    write_end(w, PG_site_put, false);
}

static void archives_write(struct write *w)
{
    adds_archive(w, w->c->archives.at, w->c->archives.n);
    write_end_touched(w, PG_archive_put);
    adds_revision(w, w->c->revisions.at, w->c->revisions.n);
    write_end(w, PG_revision_put, false);
    adds_latest(w, w->c->latest.at, w->c->latest.n);
    write_end(w, PG_latest_put, false);
    adds_schedule_key(w, w->c->schedules_remove.at, w->c->schedules_remove.n);
    write_end(w, PG_schedule_delete, false);
    adds_schedule(w, w->c->schedules.at, w->c->schedules.n);
    write_end(w, PG_schedule_put, false);
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
    ROW_clock(ROW_PUT) pg_queue(&w->self->pg, PG_clock_put, &args);
}

static void servers_write(struct write *w)
{
    const struct server_row *row = w->c->shared.server;
    struct pg_args args = { 0 };
    if (row && !w->full) {
        ROW_server(ROW_PUT) pg_queue(&w->self->pg, PG_server_put, &args);
    }
    adds_duty(w, w->c->shared.duties.at, w->c->shared.duties.n);
    write_end(w, PG_duty_put, false);
    for (size_t i = 0; i < w->c->shared.notes.n; i++) {
        struct pg_args note = { 0 };
        arg_text(&note, w->c->shared.notes.at[i]);
        pg_queue(&w->self->pg, PG_notify, &note);
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
