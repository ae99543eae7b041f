/* turn: begin, commit, rollback: everything the engine decided in one turn, in one transaction and one round trip.
 *
 * begin takes the turn's lock, which ends with the transaction: wide turns of all servers follow one another, and what is loaded in between
 * is true until the commit; narrow ones share it, and rows that they load for change are locked (ahead.c, load.c). Owns the order of the
 * statements (that of struct changes; what is removed from ready, hold and unique_key goes before what is added; the head last) and the
 * chain of turns. True from commit means durable. A statement that is refused ends the turn: nothing changed, err says which (disk_full,
 * internal: a row contradicts another, conflict: another turn has it). When the connection is lost before the commit was sent, nothing was
 * recorded (ERR_unavailable: the caller decides anew). When it is lost in the middle of it, the mark of this server tells after a reconnect
 * whether the turn is there. Only when that can't be found out: outcome_unknown.
 *
 * Durable means: on the synchronous standby too, where there is one. What a turn has read may be newer than that (barrier in snapshot.sql
 * says why); its own commit waits for both. A turn that writes nothing but tells somebody that his work was accepted commits nothing for
 * the same wait, unless this server's last commit is the newest. */
#include <stdio.h>
#include <string.h>

#include "io/clock.h"
#include "store/postgres/archives.h"
#include "store/postgres/dbclock.h"
#include "store/postgres/turn.h"

enum { HEAD_PLACE = 15 }; /* the column of head_get_key, head_get_at, head_lock, head_lock_at */

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
    size_t head = places_head_queue(self);
    ahead_queue(self, needs, true);
    if (!pg_exchange(pg, err) || !pg_row_head(pg->results[head], &self->head, NULL, err))
        return false;
    if (needs->n_archives && !ahead_archives_take(self, pg->results[archives], err))
        return false;
    self->port.commit = self->head.commit;
    page_look(self);
    if (!ahead_take(self, needs, head + 1, err))
        return false;
    places_head(self, pg->results[head], HEAD_PLACE);
    return places_load(self, err);
}

static void turn_over(struct postgres_store *self)
{
    struct err ignored = { 0 };
    if (self->in_turn && !self->pg.lost)
        (void)pg_run(&self->pg, PG_rollback, NULL, NULL, &ignored);
    self->in_turn = self->narrow = self->passed = false;
    self->expire_max = self->slot_last = 0;
    ahead_forget(self);
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
    struct turn_needs needs = self->ahead.needs;
    self->ahead.needs = (struct turn_needs){ 0 };
    turn_over(self);
    clock_ask(self);
    for (int tries = 0; tries < 2; tries++) {
        bool placed = self->places.crowded;
        self->in_turn = true;
        if (begin_once(self, &needs, err))
            return true;
        turn_over(self);
        if (err->code == ERR_internal && placed) { /* a place that isn't there any more */
            places_forget(self);
            *err = (struct err){ .arena = err->arena };
            continue;
        }
        if (!self->pg.lost || self->away_since)
            return false; /* ERR_conflict: another's turn, or a migration, has the lock for long: its synchronous standby is away? */
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

/* Rows by their places: how many, the number of this commit, then the columns, the place last. */
static void write_end_placed(struct write *w, enum pg_id id, bool touched)
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

static void bulk_place(struct pg_bulk *b, const char *place)
{
    if (place)
        bulk_bytes(b, place, PLACE_BYTES);
    else
        bulk_null(b);
}

/* placed: those whose places are known; else the others. */
static void lanes_put(struct write *w, bool placed)
{
    struct pg_bulk *b = write_begin(w, placed ? "iiiiiiiiiiittiiip" : "iiiiiiiiiiittiiitt");
    for (size_t i = 0; i < w->c->n_lanes; i++) {
        const struct lane *lane = w->c->lanes[i];
        const char *place = place_of_row(w->self, PLACED_LANES, lane->id);
        if (placed != (place != NULL))
            continue;
        bulk_i64(b, lane->id);
        bulk_i64(b, lane->last_vt);
        for (int state = STATE_Q; state < STATE_COUNT; state++)
            bulk_i64(b, lane->counts[state]);
        bulk_i64(b, lane->paused_since);
        bulk_text(b, lane->paused_by);
        bulk_text(b, lane->paused_reason);
        bulk_i64(b, lane->log_bytes);
        bulk_i64(b, lane->file_bytes);
        bulk_i64(b, lane->kind);
        if (placed) {
            bulk_place(b, place);
            continue;
        }
        bulk_text(b, lane->tenant);
        bulk_text(b, lane->name);
    }
    if (placed)
        write_end_placed(w, PG_lane_put_at, true);
    else
        write_end_touched(w, PG_lane_put);
}

static void lanes_write(struct write *w)
{
    lanes_put(w, false);
    if (w->self->places.crowded)
        lanes_put(w, true);
}

static void lanes_add(struct write *w)
{
    bool placed = w->self->places.crowded;
    struct pg_bulk *b = write_begin(w, placed ? "iiiiiiiiiiiiip" : "iiiiiiiiiiiii");
    for (size_t i = 0; i < w->c->n_lanes; i++) {
        const struct lane *lane = w->c->lanes[i], *was = w->c->lanes_was[i];
        bulk_i64(b, lane->id);
        bulk_i64(b, lane->last_vt);
        bulk_i64(b, lane->last_vt - was->last_vt);
        for (int state = STATE_Q; state < STATE_COUNT; state++)
            bulk_i64(b, lane->counts[state] - was->counts[state]);
        bulk_i64(b, lane->log_bytes - was->log_bytes);
        bulk_i64(b, lane->file_bytes - was->file_bytes);
        if (placed)
            bulk_place(b, place_of_row(w->self, PLACED_LANES, lane->id));
    }
    if (placed)
        write_end_placed(w, PG_lane_add_at, true);
    else
        write_end_touched(w, PG_lane_add);
}

static void labels_add(struct write *w, struct pg_bulk *b, const struct label *labels, size_t n)
{
    buf_reset(&w->self->scratch);
    labels_pack(&w->self->scratch, labels, n);
    bulk_text(b, buf_str(&w->self->scratch));
}

void write_numbers(struct write *w, struct pg_bulk *b, const int64_t *numbers, size_t n)
{
    buf_reset(&w->self->scratch);
    numbers_pack(&w->self->scratch, numbers, n);
    bulk_text(b, buf_str(&w->self->scratch));
}

static void classes_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "itttibi");
    for (size_t i = 0; i < w->c->n_classes; i++) {
        const struct task_class *item = w->c->classes[i];
        bulk_i64(b, item->id);
        bulk_text(b, item->key);
        bulk_text(b, item->tenant);
        bulk_text(b, item->zone);
        bulk_i64(b, item->kind);
        labels_add(w, b, item->labels, item->n_labels);
        bulk_i64(b, item->goes);
    }
    write_end(w, PG_class_insert, false);
    b = write_begin(w, "i");
    for (size_t i = 0; i < w->c->n_classes_remove; i++)
        bulk_i64(b, w->c->classes_remove[i]);
    write_end(w, PG_class_delete, false);
}

static void specs_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "itiiibttt");
    for (size_t i = 0; i < w->c->n_specs; i++) {
        const struct spec *spec = w->c->specs[i];
        bulk_i64(b, spec->id);
        bulk_text(b, spec->body);
        bulk_i64(b, spec->attempts_max);
        bulk_i64(b, spec->backoff_ms);
        bulk_i64(b, spec->retry_on);
        if (spec->n_slots)
            write_numbers(w, b, spec->slots, spec->n_slots);
        else
            bulk_bytes(b, NULL, 0);
        bulk_text(b, spec->slot_key);
        bulk_text(b, spec->semaphores);
        bulk_text(b, spec->class_key);
    }
    write_end(w, PG_spec_insert, false);
}

static void slots_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "ittiii");
    for (size_t i = 0; i < w->c->n_slots; i++) {
        const struct slot *slot = w->c->slots[i];
        bulk_i64(b, slot->id);
        bulk_text(b, slot->tenant);
        bulk_text(b, slot->name);
        bulk_i64(b, slot->limit);
        bulk_i64(b, slot->used);
        bulk_i64(b, slot->waiting);
    }
    write_end_touched(w, PG_slot_put);
    b = write_begin(w, "i");
    for (size_t i = 0; i < w->c->n_slots_remove; i++)
        bulk_i64(b, w->c->slots_remove[i]);
    write_end(w, PG_slot_delete, false);
}

/* i: its place among tasks_new and tasks_changed. */
static void rest_add(struct write *w, struct pg_bulk *b, size_t i)
{
    bulk_text(b, tags_rest(&w->self->tagger, i));
}

/* Of a task that came with ready_first in this turn. */
static const struct ready_place *place_of(struct write *w, const struct task *task)
{
    return map_find(&w->self->ahead.places, (uint64_t)task->id);
}

static void task_update_write(struct write *w, enum pg_id id)
{
    bool at = id == PG_task_update_at;
    struct pg_bulk *b = write_begin(w, at ? "pitb" : "itb");
    for (size_t i = 0; i < w->c->n_tasks_changed; i++) {
        const struct task *task = w->c->tasks_changed[i];
        const struct ready_place *place = place_of(w, task);
        if (at != (place != NULL))
            continue;
        if (at)
            bulk_bytes(b, place->task, sizeof place->task);
        bulk_i64(b, task->id);
        bulk_text(b, state_text(task->state));
        rest_add(w, b, w->c->n_tasks_new + i);
    }
    write_end(w, id, true);
}

static void tasks_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "iiitttib");
    for (size_t i = 0; i < w->c->n_tasks_new; i++) {
        const struct task *task = w->c->tasks_new[i];
        bulk_i64(b, task->id);
        bulk_i64(b, task->lane);
        if (task->rev)
            bulk_i64(b, task->rev);
        else
            bulk_null(b); /* not an archive's: not in task_key */
        bulk_text(b, state_text(task->state));
        bulk_text(b, task->name);
        bulk_text(b, task->variant);
        bulk_i64(b, task->run);
        rest_add(w, b, i);
    }
    write_end(w, PG_task_insert, false);
    task_update_write(w, PG_task_update_at);
    task_update_write(w, PG_task_update);
}

static void ready_delete_at_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "pi");
    for (size_t i = 0; i < w->c->n_ready_remove; i++) {
        const struct task *task = w->c->ready_remove[i];
        const struct ready_place *place = place_of(w, task);
        if (!place)
            continue;
        bulk_bytes(b, place->ready, sizeof place->ready);
        bulk_i64(b, task->id);
    }
    write_end(w, PG_ready_delete_at, true);
}

static void ready_write(struct write *w, enum pg_id id, const struct task **tasks, size_t n)
{
    struct pg_bulk *b = write_begin(w, "iiii");
    for (size_t i = 0; i < n; i++) {
        if (id == PG_ready_delete && place_of(w, tasks[i]))
            continue;
        bulk_i64(b, tasks[i]->class_id);
        bulk_i64(b, -tasks[i]->prio);
        bulk_i64(b, tasks[i]->vt);
        bulk_i64(b, tasks[i]->id);
    }
    write_end(w, id, id == PG_ready_delete);
}

static void readies_write(struct write *w)
{
    ready_delete_at_write(w);
    ready_write(w, PG_ready_delete, w->c->ready_remove, w->c->n_ready_remove);
    ready_write(w, PG_ready_insert, w->c->ready_add, w->c->n_ready_add);
}

static void edge_write(struct write *w, enum pg_id id, const struct edge *edges, size_t n)
{
    struct pg_bulk *b = write_begin(w, "iiii");
    for (size_t i = 0; i < n; i++) {
        bulk_i64(b, edges[i].pred);
        bulk_i64(b, edges[i].waiter);
        bulk_i64(b, edges[i].kind);
        bulk_i64(b, edges[i].flags);
    }
    write_end(w, id, false);
}

static void edges_write(struct write *w)
{
    edge_write(w, PG_edge_insert, w->c->edges_new, w->c->n_edges_new);
    edge_write(w, PG_edge_update, w->c->edges_changed, w->c->n_edges_changed);
}

static void hold_write(struct write *w, enum pg_id id, const struct hold *holds, size_t n)
{
    struct pg_bulk *b = write_begin(w, id == PG_hold_insert ? "iiiii" : "iiii");
    for (size_t i = 0; i < n; i++) {
        bulk_i64(b, holds[i].kind);
        bulk_i64(b, holds[i].key);
        bulk_i64(b, holds[i].rank);
        bulk_i64(b, holds[i].task);
        if (id == PG_hold_insert)
            bulk_i64(b, holds[i].since);
    }
    write_end(w, id, false);
}

static void holds_write(struct write *w)
{
    hold_write(w, PG_hold_delete, w->c->holds_remove, w->c->n_holds_remove);
    hold_write(w, PG_hold_insert, w->c->holds_add, w->c->n_holds_add);
}

static void results_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "it");
    for (size_t i = 0; i < w->c->n_outputs; i++) {
        bulk_i64(b, w->c->outputs[i].task);
        bulk_text(b, w->c->outputs[i].json);
    }
    write_end(w, PG_outputs_put, false);
    b = write_begin(w, "iiib");
    for (size_t i = 0; i < w->c->n_log_tails; i++) {
        const struct log_tail *tail = &w->c->log_tails[i];
        bulk_i64(b, tail->task);
        bulk_i64(b, tail->grant);
        bulk_i64(b, tail->offset);
        bulk_text(b, tail->bytes);
    }
    write_end(w, PG_log_tail_put, false);
    b = write_begin(w, "iiib");
    for (size_t i = 0; i < w->c->n_log_seals; i++) {
        const struct log_seal *seal = &w->c->log_seals[i];
        bulk_i64(b, seal->task);
        bulk_i64(b, seal->grant);
        bulk_i64(b, seal->bytes);
        bulk_text(b, (struct str){ (const char *)seal->hash, sizeof seal->hash });
    }
    write_end(w, PG_log_seal_put, false);
    b = write_begin(w, "ii");
    for (size_t i = 0; i < w->c->n_log_seals_remove; i++) {
        bulk_i64(b, w->c->log_seals_remove[i].task);
        bulk_i64(b, w->c->log_seals_remove[i].grant);
    }
    write_end(w, PG_log_seal_delete, false);
    static const enum pg_id deletes[] = { PG_outputs_delete, PG_log_tails_delete };
    for (size_t k = 0; k < 2; k++) {
        b = write_begin(w, "i");
        for (size_t i = 0; i < w->c->n_results_remove; i++)
            bulk_i64(b, w->c->results_remove[i]);
        write_end(w, deletes[k], false);
    }
}

static void unique_write(struct write *w, enum pg_id id, const struct unique_claim *claims, size_t n)
{
    struct pg_bulk *b = write_begin(w, "tti");
    for (size_t i = 0; i < n; i++) {
        bulk_text(b, claims[i].tenant);
        bulk_text(b, claims[i].key);
        bulk_i64(b, claims[i].task);
    }
    write_end(w, id, false);
}

/* Removed, added, and removed once more: a task that was created and granted in the same turn doesn't keep its key. */
static void uniques_write(struct write *w)
{
    unique_write(w, PG_unique_delete, w->c->unique_remove, w->c->n_unique_remove);
    unique_write(w, w->c->narrow ? PG_unique_insert : PG_unique_put, w->c->unique_add, w->c->n_unique_add);
    if (w->c->n_unique_add)
        unique_write(w, PG_unique_delete, w->c->unique_remove, w->c->n_unique_remove);
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
    struct pg_bulk *b = write_begin(w, "ttttbibi");
    for (size_t i = 0; i < w->c->n_idempotency; i++) {
        const struct idempotency *item = &w->c->idempotency[i];
        bulk_text(b, item->tenant);
        bulk_text(b, item->token);
        bulk_text(b, item->route);
        bulk_text(b, item->key);
        bulk_bytes(b, item->body_hash, sizeof item->body_hash);
        bulk_i64(b, item->status);
        write_numbers(w, b, item->ids, item->n_ids);
        bulk_i64(b, item->expires);
    }
    write_end(w, w->c->narrow ? PG_idempotency_insert : PG_idempotency_put, false);
}

static void executors_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "itttttiibiiiitii");
    for (size_t i = 0; i < w->c->n_executors; i++) {
        const struct executor *e = w->c->executors[i];
        bulk_i64(b, e->id);
        bulk_text(b, e->name);
        bulk_text(b, e->instance);
        bulk_text(b, e->host);
        bulk_text(b, e->version);
        bulk_text(b, e->zone);
        bulk_i64(b, e->slots);
        bulk_i64(b, e->kinds);
        labels_add(w, b, e->labels, e->n_labels);
        bulk_i64(b, e->state);
        bulk_i64(b, e->registered);
        bulk_i64(b, e->processed);
        bulk_i64(b, e->failed);
        bulk_text(b, e->tenant);
        bulk_i64(b, e->owner);
        bulk_i64(b, e->silent);
    }
    write_end_touched(w, PG_executor_put);
    b = write_begin(w, "i");
    for (size_t i = 0; i < w->c->n_executors_remove; i++)
        bulk_i64(b, w->c->executors_remove[i]);
    write_end(w, PG_executor_delete, false);
}

static void counts_write(struct write *w)
{
    bool placed = w->self->places.crowded;
    struct pg_bulk *b = write_begin(w, placed ? "iiip" : "iii");
    for (size_t i = 0; i < w->c->n_counts; i++) {
        bulk_i64(b, w->c->counts[i].executor);
        bulk_i64(b, w->c->counts[i].processed);
        bulk_i64(b, w->c->counts[i].failed);
        if (placed)
            bulk_place(b, place_of_row(w->self, PLACED_EXECUTORS, w->c->counts[i].executor));
    }
    if (placed)
        write_end_placed(w, PG_executor_count_at, false);
    else
        write_end(w, PG_executor_count, false);
}

static void site_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "ttiit");
    for (size_t i = 0; i < w->c->n_site; i++) {
        const struct site_key *key = &w->c->site[i];
        bulk_text(b, key->name);
        bulk_text(b, key->body);
        bulk_i64(b, key->version);
        bulk_i64(b, key->changed);
        bulk_text(b, key->changed_by);
    }
    write_end(w, PG_site_put, false);
}

static void tokens_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "ittbiii");
    for (size_t i = 0; i < w->c->n_tokens; i++) {
        const struct token *token = w->c->tokens[i];
        bulk_i64(b, token->id);
        bulk_text(b, token->name);
        bulk_text(b, token->tenant);
        bulk_bytes(b, token->hash, sizeof token->hash);
        bulk_i64(b, token->scopes);
        bulk_i64(b, token->created);
        bulk_i64(b, token->expires);
    }
    write_end(w, PG_token_insert, false);
    b = write_begin(w, "i");
    for (size_t i = 0; i < w->c->n_tokens_remove; i++)
        bulk_i64(b, w->c->tokens_remove[i]);
    write_end(w, PG_token_delete, false);
}

static void clock_write(struct write *w)
{
    const struct wall_known *clock = w->c->clock;
    struct pg_args args = { 0 };
    if (!clock || w->full)
        return;
    arg_i64(&args, clock->time);
    arg_i64(&args, clock->ran);
    arg_i64(&args, clock->seen);
    pg_queue(&w->self->pg, PG_clock_put, &args);
}

static void servers_write(struct write *w)
{
    const struct server_row *server = w->c->server;
    struct pg_args args = { 0 };
    if (server && !w->full) {
        arg_text(&args, server->name);
        arg_text(&args, server->instance);
        arg_text(&args, server->host);
        arg_text(&args, server->version);
        arg_text(&args, server->address);
        arg_i64(&args, server->started);
        arg_i64(&args, server->beat);
        arg_i64(&args, server->load);
        arg_i64(&args, server->differs);
        pg_queue(&w->self->pg, PG_server_put, &args);
    }
    struct pg_bulk *b = write_begin(w, "ttii");
    for (size_t i = 0; i < w->c->n_duties; i++) {
        bulk_text(b, w->c->duties[i].name);
        bulk_text(b, w->c->duties[i].holder);
        bulk_i64(b, w->c->duties[i].epoch);
        bulk_i64(b, w->c->duties[i].beat);
    }
    write_end(w, PG_duty_put, false);
    for (size_t i = 0; i < w->c->n_notes; i++) {
        struct pg_args note = { 0 };
        arg_text(&note, w->c->notes[i]);
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
    if (self->places.crowded)
        arg_place(&args, self->places.mark, self->places.mark_known);
    pg_queue(&self->pg, self->places.crowded ? PG_mark_put_at : PG_mark_put, &args);
}

void head_queue(struct pg *pg, const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, const struct store_head *before,
    const char *place)
{
    static const uint8_t none[STORE_HASH_BYTES];
    struct pg_args args = { 0 };
    uint8_t seal[STORE_HASH_BYTES];
    bool fresh = before->incarnation == 0; /* the row that head_insert has just made */
    chain_seal(key, head, seal);
    arg_i64(&args, (int64_t)head->incarnation);
    arg_i64(&args, head->turn);
    arg_i64(&args, head->seq);
    arg_bytes(&args, head->hash, sizeof head->hash);
    arg_bytes(&args, seal, sizeof seal);
    const int64_t rest[] = { head->next_task, head->next_spec, head->next_lane, head->next_class, head->next_slot, head->next_executor,
                             head->next_token, head->v_now, before->commit, before->turn };
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        arg_i64(&args, rest[i]);
    arg_bytes(&args, fresh ? none : before->hash, fresh ? 0 : sizeof before->hash);
    if (place)
        arg_place(&args, place, true);
    pg_queue(pg, place ? PG_head_update_at : PG_head_update, &args);
}

static bool head_same(const struct store_head *a, const struct store_head *b)
{
    return a->incarnation == b->incarnation && a->turn == b->turn && a->seq == b->seq && a->next_task == b->next_task &&
           a->next_spec == b->next_spec && a->next_lane == b->next_lane && a->next_class == b->next_class && a->next_slot == b->next_slot &&
           a->next_executor == b->next_executor && a->next_token == b->next_token && a->v_now == b->v_now;
}

static void turn_queue(struct write *w, struct store_head *head)
{
    struct postgres_store *self = w->self;
    struct pg_args args = { 0 }, hint = { 0 };
    char text[32];
    int64_t first_seq = w->c->narrow ? self->head.seq + 1 : w->c->first_seq;
    chain_link(self->key, self->head.hash, w->c->turn, first_seq, head->time, w->c->events, buf_str(&self->tags), head->hash);
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
    lanes_write,   classes_write,  specs_write,   slots_write,   tasks_write,         readies_write,   edges_write,
    holds_write,   pg_attempts_write, results_write, uniques_write, idempotencies_write, executors_write, counts_write, tokens_write,
    site_write,    pg_archives_write, servers_write, clock_write, NULL,
};

/* Of a narrow turn, before and after it has the head: then what carries the number of its commit. */
static void (*const writes_narrow[])(struct write *w) = {
    specs_write,   tasks_write,   readies_write,       edges_write, holds_write, pg_attempts_write,
    results_write, uniques_write, idempotencies_write, NULL,
};
static void (*const writes_last[])(struct write *w) = { slots_write, lanes_add, counts_write, pg_archives_write, NULL };

static bool changes_fit(struct write *w, struct err *err)
{
    if (!w->full)
        return true;
    w->self->pg.lost = true; /* what was sent must not be committed: the connection goes with it */
    return err_set(err, ERR_invalid, "one turn is larger than an array of PostgreSQL may be here");
}

/* Behind what is queued: the head, locked, as others have left it. A row that moves while it is waited for (a server of the version before
 * doesn't queue for it) may not be found by its place. */
static bool head_take(struct postgres_store *self, struct err *err)
{
    struct pg *pg = &self->pg;
    struct pg_args at = { 0 };
    bool placed = self->places.crowded;
    arg_place(&at, self->places.head, self->places.head_known);
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
    places_head(self, pg->results[head], HEAD_PLACE);
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
    size_t others = w->c->n_lanes + w->c->n_slots + w->c->n_counts + w->c->n_archives + w->c->n_revisions + w->c->n_latest;
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
static bool changes_queue(struct postgres_store *self, const struct changes *c, struct store_head *out_head, bool *out_any, struct err *err)
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
    *out_any = self->pg.n_queue > 0 || !head_same(out_head, &self->head);
    if (c->numbers && out_head->next_task > 1)
        numbers_queue(&self->pg, out_head->next_task - 1);
    if (*out_any)
        mark_queue(self);
    if (*out_any)
        head_queue(&self->pg, self->key, out_head, &self->head, self->places.head_known ? self->places.head : NULL);
    return changes_fit(&w, err);
}

enum landed { LANDED, NOT_LANDED, NOT_KNOWN };

/* After a connection that was lost while committing: is the turn there? The turn's lock waits for the end of the lost one. */
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
    floors_commit(self, changes);
    bool any = false, ok = changes_queue(self, changes, &head, &any, err);
    if (ok && any) {
        pg_queue(&self->pg, PG_commit, NULL);
        pg_send(&self->pg);
        page_ask(self, changes);
        ok = pg_exchange(&self->pg, err);
        if (ok)
            self->in_turn = false;
        if (!ok && self->pg.lost)
            ok = landing_look(self, err) == LANDED;
        if (ok) {
            if (!self->pg.lost && !self->in_turn)
                places_follow(self);
            *err = (struct err){ .arena = err->arena };
            floors_follow(self, self->head.commit);
            head.commit = self->sure = self->head.commit + 1;
            self->head = head;
            self->port.commit = head.commit;
        }
    } else if (ok && changes->told && self->sure != self->head.commit) {
        ok = commit_sure(self, err);
    }
    if (!ok && err->code == ERR_internal)
        places_forget(self); /* it may have been one of them */
    if (ok && any && changes->out_head)
        *changes->out_head = self->head;
    turn_over(self);
    page_follow(self, ok ? changes : NULL);
    return ok;
}
