/* turn: begin, commit, rollback: everything the engine decided in one turn, in one transaction and one round trip.
 *
 * begin takes the turn's lock, which ends with the transaction: wide turns of all servers follow one another, and what
 * is loaded in between is true until the commit; narrow ones share it, and rows that they load for change are locked
 * (prefetch_turn.c, load.c). Owns the order of the statements (that of struct changes; what is removed from ready, hold
 * and unique_key goes before what is added; the head last) and the chain of turns. True from commit means durable. A
 * statement that is refused ends the turn: nothing changed, err says which (disk_full, internal: a row contradicts
 * another, conflict: another turn has it). When the connection is lost before the commit was sent, nothing was recorded
 * (ERR_unavailable: the caller decides anew). When it is lost in the middle of it, the mark of this server tells after
 * a reconnect whether the turn is there. Only when that can't be found out: outcome_unknown.
 *
 * Durable means: on the synchronous standby too, where there is one. What a turn has read may be newer than that
 * (barrier in snapshot.sql says why); its own commit waits for both. A turn that writes nothing but tells somebody that
 * his work was accepted commits nothing for the same wait, unless this server's last commit is the newest. */
#include <stdio.h>
#include <string.h>

#include "io/clock.h"
#include "store/postgres/archives.h"
#include "store/postgres/dbclock.h"
#include "store/postgres/turn.h"

static bool begin_once(struct postgres_store *self, const struct turn_needs *needs, struct err *err)
{
    struct pg *pg = &self->pg;
    if (pg->lost && !writer_reopen(self, err))
        return false;
    self->narrow = needs->narrow;
    pg_queue(pg, PG_turn_begin, NULL);
    pg_queue(pg, self->narrow ? PG_turn_share : PG_turn_lock, NULL);
    size_t archives = pg->n_queue;
    if (needs->n_archives)
        ids_queue(pg, PG_archives_lock, needs->archives, needs->n_archives);
    size_t head = ctids_head_queue(self);
    prefetch_queue(self, needs, true);
    if (!pg_exchange(pg, err) || !pg_row_head(pg->results[head], &self->head, NULL, err))
        return false;
    if (needs->n_archives && !prefetch_archives_take(self, pg->results[archives], err))
        return false;
    self->port.commit = self->head.commit;
    prefetch_claim_look(self);
    if (!prefetch_take(self, needs, head + 1, err))
        return false;
    ctids_head(self, pg->results[head]);
    return ctids_load(self, err);
}

static void turn_over(struct postgres_store *self)
{
    struct err ignored = { 0 };
    if (self->in_turn && !self->pg.lost)
        (void)pg_run(&self->pg, PG_rollback, NULL, NULL, &ignored);
    self->in_turn = self->narrow = self->passed = false;
    self->expire_max = self->slot_last = 0;
    prefetch_forget(self);
}

/* Now and then, between turns: a round trip of its own, since the time of one that waits for a lock says little. */
static void clock_ask(struct postgres_store *self)
{
    struct err ignored = { 0 };
    PGresult *result;
    int64_t asked = clock_boot_ms();
    if (self->pg.lost || asked - self->clock_asked < DBCLOCK_LOOK_MS)
        return;
    self->clock_asked = asked;
    if (pg_run(&self->pg, PG_clock_now, NULL, &result, &ignored))
        dbclock_compare(cell_i64(result, 0, 0), asked);
}

bool postgres_begin(struct store *store, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    struct turn_needs needs = self->prefetch.needs;
    self->prefetch.needs = (struct turn_needs){ 0 };
    turn_over(self);
    clock_ask(self);
    for (int tries = 0; tries < 2; tries++) {
        bool placed = self->ctids.crowded;
        self->in_turn = true;
        if (begin_once(self, &needs, err))
            return true;
        turn_over(self);
        if (err->code == ERR_internal && placed) { /* a place that isn't there any more */
            ctids_forget(self);
            *err = (struct err){ .arena = err->arena };
            continue;
        }
        if (!self->pg.lost || self->away_since)
            /* ERR_conflict: another's turn, or a migration, has the lock for long: its synchronous standby is away? */
            return false;
    }
    err->code = ERR_unavailable;
    return false;
}

void postgres_rollback(struct store *store)
{
    turn_over(postgres_of(store));
}

bool postgres_writable(struct store *store)
{
    static const enum pg_id look[] = { PG_turn_begin, PG_tables_brief, PG_tables_look, PG_rollback };
    struct postgres_store *self = postgres_of(store);
    struct err ignored = { 0 };
    if (self->pg.lost || self->in_turn)
        return false;
    for (size_t i = 0; i < sizeof look / sizeof look[0]; i++)
        pg_queue(&self->pg, look[i], NULL);
    bool free = pg_exchange(&self->pg, &ignored);
    if (!free && !self->pg.lost)
        (void)pg_run(&self->pg, PG_rollback, NULL, NULL, &ignored);
    return free;
}

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
        const struct lane *lane = w->c->lanes.at[i], *was = w->c->lanes_was[i];
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
    unique_write(w, w->c->narrow ? PG_unique_insert : PG_unique_put, w->c->unique_add.at, w->c->unique_add.n);
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
    write_end(w, w->c->narrow ? PG_idempotency_insert : PG_idempotency_put, false);
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
    for (size_t i = 0; i < w->c->counts.n; i++) {
        bulk_i64(b, w->c->counts.at[i].executor);
        bulk_i64(b, w->c->counts.at[i].processed);
        bulk_i64(b, w->c->counts.at[i].failed);
        if (placed)
            bulk_ctid(b, ctid_of_row(w->self, CTIDS_EXECUTORS, w->c->counts.at[i].executor));
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
    const struct server_row *row = w->c->server;
    struct pg_args args = { 0 };
    if (row && !w->full) {
        ROW_server(ROW_PUT) pg_queue(&w->self->pg, PG_server_put, &args);
    }
    adds_duty(w, w->c->duties.at, w->c->duties.n);
    write_end(w, PG_duty_put, false);
    for (size_t i = 0; i < w->c->notes.n; i++) {
        struct pg_args note = { 0 };
        arg_text(&note, w->c->notes.at[i]);
        pg_queue(&w->self->pg, PG_notify, &note);
    }
}

/* What this server commits last: asked for when the answer is lost. */
static void mark_queue(struct postgres_store *self)
{
    struct pg_args args = { 0 };
    clock_entropy(&self->nonce, sizeof self->nonce);
    arg_text(&args, str_of(self->instance));
    arg_i64(&args, self->nonce);
    if (self->ctids.crowded)
        arg_ctid(&args, self->ctids.mark, self->ctids.mark_known);
    pg_queue(&self->pg, self->ctids.crowded ? PG_mark_put_at : PG_mark_put, &args);
}

void head_queue(struct pg *pg, const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head,
    const struct store_head *before, const char *ctid)
{
    static const uint8_t none[STORE_HASH_BYTES];
    struct pg_args args = { 0 };
    uint8_t seal[STORE_HASH_BYTES];
    bool fresh = before->incarnation == 0; /* the row that head_insert has just made */
    chain_seal(key, head, seal);
    const struct store_head *row = head;
    ROW_head(ROW_PUT) arg_bytes(&args, seal, sizeof seal);
    arg_i64(&args, before->commit);
    arg_i64(&args, before->turn);
    arg_bytes(&args, fresh ? none : before->hash, fresh ? 0 : sizeof before->hash);
    if (ctid)
        arg_ctid(&args, ctid, true);
    pg_queue(pg, ctid ? PG_head_update_at : PG_head_update, &args);
}

static void turn_queue(struct write *w, struct store_head *head)
{
    struct postgres_store *self = w->self;
    struct pg_args args = { 0 }, hint = { 0 };
    char text[32];
    int64_t first_seq = w->c->narrow ? self->head.seq + 1 : w->c->first_seq;
    chain_link(
        self->key, self->head.hash, w->c->turn, first_seq, head->time, w->c->events, buf_str(&self->tags), head->hash);
    arg_i64(&args, w->c->turn);
    arg_i64(&args, first_seq);
    arg_i64(&args, head->time);
    arg_bytes(&args, head->hash, sizeof head->hash);
    arg_text(&args, w->c->events);
    arg_text(&args, buf_str(&self->tags));
    pg_queue(&self->pg, PG_turn_insert, &args);
    snprintf(text, sizeof text, "%lld", (long long)head->seq);
    arg_text(&hint, str_of(text));
    pg_queue(&self->pg, PG_notify, &hint);
}

static void (*const writes[])(struct write *w) = {
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

/* Of a narrow turn, before and after it has the head: then what carries the number of its commit. */
static void (*const writes_narrow[])(struct write *w) = {
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
static void (*const writes_last[])(struct write *w) = { slots_write, lanes_add, counts_write, archives_write, NULL };

static bool changes_fit(struct write *w, struct err *err)
{
    if (!w->full)
        return true;
    w->self->pg.lost = true; /* what was sent must not be committed: the connection goes with it */
    return err_set(err, ERR_invalid, "one turn is larger than an array of PostgreSQL may be here");
}

/* Behind what is queued: the head, locked, as others have left it. A row that moves while it is waited for (a server of
 * the version before doesn't queue for it) may not be found by its place. */
static bool head_take(struct postgres_store *self, struct err *err)
{
    struct pg *pg = &self->pg;
    struct pg_args at = { 0 };
    bool placed = self->ctids.crowded;
    arg_ctid(&at, self->ctids.head, self->ctids.head_known);
    if (placed)
        pg_queue(pg, PG_head_wait, NULL);
    size_t head = pg->n_queue;
    pg_queue(pg, placed ? PG_head_lock_at : PG_head_lock, placed ? &at : NULL);
    pg_queue(pg, PG_head_time, NULL);
    if (!pg_exchange(pg, err))
        return false;
    if (placed && PQntuples(pg->results[head]) == 0) {
        head = 0;
        pg_queue(pg, PG_head_lock, NULL);
        pg_queue(pg, PG_head_time, NULL);
        if (!pg_exchange(pg, err))
            return false;
    }
    if (!pg_row_head(pg->results[head], &self->head, NULL, err))
        return false;
    ctids_head(self, pg->results[head]);
    if (PQntuples(pg->results[head + 1]) > 0)
        self->head.time = cell_i64(pg->results[head + 1], 0, 0);
    return true;
}

/* A narrow turn: everything but what the head counts, then the head, as others have left it. */
static bool narrow_queue(struct write *w, struct store_head *out_head, struct err *err)
{
    struct postgres_store *self = w->self;
    for (size_t i = 0; writes_narrow[i]; i++)
        writes_narrow[i](w);
    size_t last = self->pg.n_queue;
    size_t others =
        w->c->lanes.n + w->c->slots.n + w->c->counts.n + w->c->archives.n + w->c->revisions.n + w->c->latest.n;
    if (!last && !others && !w->c->events.len && !w->full) {
        *out_head = self->head;
        return true; /* it has only looked */
    }
    if (!changes_fit(w, err) || !head_take(self, err))
        return false;
    const struct store_head *now = &self->head;
    *out_head = *now;
    if (w->c->head.v_now > now->v_now)
        out_head->v_now = w->c->head.v_now;
    if (w->c->head.next_task > now->next_task)
        out_head->next_task = w->c->head.next_task;
    out_head->seq += w->c->head.seq - (w->c->first_seq - 1);
    bool behind = w->c->time < now->time && now->time - w->c->time <= STAMP_BACK_MAX_MS; /* as slice_stamp */
    if (w->c->events.len)
        out_head->time = behind ? now->time : w->c->time;
    pg_clear(&self->pg);
    return true;
}

static void numbers_queue(struct pg *pg, int64_t last)
{
    struct pg_args args = { 0 };
    arg_i64(&args, last);
    pg_queue(pg, PG_task_numbers_set, &args);
}

/* Sends the turn. *out_any false: there is nothing to write. */
static bool changes_queue(
    struct postgres_store *self, const struct changes *c, struct store_head *out_head, bool *out_any, struct err *err)
{
    struct write w = { .self = self, .c = c };
    pg_clear(&self->pg);
    *out_head = c->head;
    memcpy(out_head->hash, self->head.hash, sizeof out_head->hash);
    buf_reset(&self->tags);
    tags_pack(&self->tags, &self->tagger, self->key, c);
    if (c->narrow && !narrow_queue(&w, out_head, err))
        return false;
    for (void (*const *write)(struct write *) = c->narrow ? writes_last : writes; *write; write++)
        (*write)(&w);
    if (c->events.len)
        turn_queue(&w, out_head);
    *out_any = self->pg.n_queue > 0 || !row_head_same(out_head, &self->head);
    if (c->numbers && out_head->next_task > 1)
        numbers_queue(&self->pg, out_head->next_task - 1);
    if (*out_any)
        mark_queue(self);
    if (*out_any)
        head_queue(&self->pg, self->key, out_head, &self->head, self->ctids.head_known ? self->ctids.head : NULL);
    return changes_fit(&w, err);
}

/* Two servers may hash one log, and bytes come to it in between: a hash of fewer bytes never replaces one of more. It
 * is left out before the turn lists its rows (tags), so that the list says what is written. */
static bool log_seals_keep(struct postgres_store *self, struct changes *c, struct err *err)
{
    struct pg_bulk *b = &self->pg.bulk;
    struct pg_args args = { 0 };
    PGresult *longer;
    ASSERT(!c->narrow); /* a wide turn: what is read here stays true until the commit */
    bulk_begin(b, "iii");
    for (size_t i = 0; i < c->log_seals.n; i++) {
        bulk_i64(b, c->log_seals.at[i].task);
        bulk_i64(b, c->log_seals.at[i].grant);
        bulk_i64(b, c->log_seals.at[i].bytes);
    }
    if (!bulk_args(b, &args))
        return err_set(err, ERR_invalid, "one turn notes more logs than an array of PostgreSQL may have here");
    if (!pg_run(&self->pg, PG_log_seals_longer, &args, &longer, err))
        return false;
    struct log_seal *kept = ARENA_ARRAY(&self->prefetch.arena, struct log_seal, c->log_seals.n);
    size_t n = 0, out = (size_t)PQntuples(longer);
    for (size_t i = 0, at = 0; i < c->log_seals.n; i++) {
        bool left_out = at < out && cell_i64(longer, (int)at, 0) == (int64_t)i;
        if (left_out)
            at++;
        else
            kept[n++] = c->log_seals.at[i];
    }
    ASSERT(n + out == c->log_seals.n);
    c->log_seals.at = kept;
    c->log_seals.n = n;
    return true;
}

enum landed { LANDED, NOT_LANDED, NOT_KNOWN };

/* After a connection that was lost while committing: is the turn there? The turn's lock waits for the end of the lost
 * one. */
static enum landed landing_look(struct postgres_store *self, struct err *err)
{
    struct pg_args args = { 0 };
    struct pg *pg = &self->pg;
    char lost[sizeof err->text];
    snprintf(lost, sizeof lost, "%s", err->text);
    arg_text(&args, str_of(self->instance));
    if (!writer_reopen(self, err)) {
        char why[sizeof err->text];
        snprintf(why, sizeof why, "%s", err->text);
        err_set(err, ERR_outcome_unknown, "%.200s; and no new connection came about: %.200s", lost, why);
        return NOT_KNOWN;
    }
    pg_queue(pg, PG_turn_begin, NULL);
    pg_queue(pg, PG_turn_lock, NULL);
    pg_queue(pg, PG_mark_get, &args);
    pg_queue(pg, PG_barrier, NULL);
    pg_queue(pg, PG_commit, NULL);
    if (!pg_exchange(pg, err)) {
        err_set(err, ERR_outcome_unknown, "%.200s; and the database doesn't say whether the turn is there", lost);
        return NOT_KNOWN;
    }
    bool there = PQntuples(pg->results[2]) > 0 && cell_i64(pg->results[2], 0, 0) == self->nonce;
    err_set(err, ERR_unavailable, "%.200s", lost);
    return there ? LANDED : NOT_LANDED;
}

/* Nothing to write. */
static bool commit_sure(struct postgres_store *self, struct err *err)
{
    pg_queue(&self->pg, PG_barrier, NULL);
    pg_queue(&self->pg, PG_commit, NULL);
    if (!pg_exchange(&self->pg, err))
        return false;
    self->in_turn = false;
    self->sure = self->head.commit;
    return true;
}

bool postgres_commit(struct store *store, const struct changes *changes, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    struct store_head head;
    struct changes kept = *changes;
    ready_start_commit(self, changes);
    bool any = false, ok = !changes->log_seals.n || log_seals_keep(self, &kept, err);
    ok = ok && changes_queue(self, &kept, &head, &any, err);
    if (ok && any) {
        pg_queue(&self->pg, PG_commit, NULL);
        pg_send(&self->pg);
        prefetch_claim_ask(self, changes);
        ok = pg_exchange(&self->pg, err);
        if (ok)
            self->in_turn = false;
        if (!ok && self->pg.lost)
            ok = landing_look(self, err) == LANDED;
        if (ok) {
            if (!self->pg.lost && !self->in_turn)
                ctids_follow(self);
            *err = (struct err){ .arena = err->arena };
            ready_start_follow(self, self->head.commit);
            head.commit = self->sure = self->head.commit + 1;
            self->head = head;
            self->port.commit = head.commit;
        }
    } else if (ok && changes->acknowledges && self->sure != self->head.commit) {
        ok = commit_sure(self, err);
    }
    if (!ok && err->code == ERR_internal)
        ctids_forget(self); /* it may have been one of them */
    if (ok && any && changes->out_head)
        *changes->out_head = self->head;
    turn_over(self);
    prefetch_claim_follow(self, ok ? changes : NULL);
    return ok;
}
