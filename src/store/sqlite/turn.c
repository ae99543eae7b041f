/* turn: begin, commit, rollback: everything the engine decided in one turn, in one transaction with one fsync.
 *
 * Owns the order of the statements (that of struct changes, head last; what is removed from ready, hold and unique_key goes before what
 * is added, so that a row can be given back and taken again in one turn) and the chain of turns. True from commit means durable. When a
 * statement or the commit fails, the transaction is rolled back and err says which statement, in SQLite's words: disk_full (nothing
 * changed, the store goes on), outcome_unknown (an I/O error: the record may or may not be on disk), corrupt, internal (a row
 * contradicts another: our bug). */
#include <string.h>

#include "base/plant.h"
#include "store/sqlite/archives.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite.h"

bool sqlite_begin(struct store *store, struct err *err)
{
    if (PLANT(commit_late) && !sqlite3_get_autocommit(sqlite_of(store)->db.conn)) return true;
    sqlite_of(store)->changes = sqlite3_total_changes64(sqlite_of(store)->db.conn);
    return db_run(&sqlite_of(store)->db, SQL_begin, err);
}

void sqlite_rollback(struct store *store)
{
    struct sqlite_store *self = sqlite_of(store);
    struct err ignored = { 0 };
    if (!sqlite3_get_autocommit(self->db.conn)) /* SQLite rolls back by itself after some errors */
        (void)db_run(&self->db, SQL_rollback, &ignored);
}

static bool lanes_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    for (size_t i = 0; i < c->n_lanes; i++) {
        const struct lane *lane = c->lanes[i];
        static const enum sql_id tries[] = { SQL_lane_update, SQL_lane_insert };
        for (size_t k = 0; k < 2; k++) {
            sqlite3_stmt *stmt = self->db.stmts[tries[k]];
            bind_i64(stmt, 1, lane->id);
            bind_i64(stmt, 2, lane->last_vt);
            for (int state = STATE_Q; state < STATE_COUNT; state++)
                bind_i64(stmt, 3 + state - STATE_Q, lane->counts[state]);
            bind_i64(stmt, 11, lane->paused_since);
            bind_text(stmt, 12, lane->paused_by);
            bind_text(stmt, 13, lane->paused_reason);
            bind_i64(stmt, 14, lane->log_bytes);
            bind_i64(stmt, 15, lane->file_bytes);
            bind_i64(stmt, 16, lane->kind);
            if (tries[k] == SQL_lane_insert) {
                bind_text(stmt, 17, lane->tenant);
                bind_text(stmt, 18, lane->name);
            }
            if (!db_run(&self->db, tries[k], err))
                return false;
            if (sqlite3_changes(self->db.conn) == 1)
                break;
        }
    }
    return true;
}

static bool classes_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_class_insert];
    for (size_t i = 0; i < c->n_classes; i++) {
        const struct task_class *item = c->classes[i];
        buf_reset(&self->scratch);
        labels_pack(&self->scratch, item->labels, item->n_labels);
        bind_i64(stmt, 1, item->id);
        bind_text(stmt, 2, item->key);
        bind_text(stmt, 3, item->tenant);
        bind_text(stmt, 4, item->zone);
        bind_i64(stmt, 5, item->kind);
        bind_blob(stmt, 6, self->scratch.ptr, self->scratch.len);
        bind_i64(stmt, 7, item->goes);
        if (!db_run(&self->db, SQL_class_insert, err))
            return false;
    }
    for (size_t i = 0; i < c->n_classes_remove; i++) {
        bind_i64(self->db.stmts[SQL_class_delete], 1, c->classes_remove[i]);
        if (!db_run(&self->db, SQL_class_delete, err))
            return false;
    }
    return true;
}

static bool specs_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_spec_insert];
    for (size_t i = 0; i < c->n_specs; i++) {
        const struct spec *spec = c->specs[i];
        buf_reset(&self->scratch);
        if (spec->n_slots)
            numbers_pack(&self->scratch, spec->slots, spec->n_slots);
        bind_i64(stmt, 1, spec->id);
        bind_text(stmt, 2, spec->body);
        bind_i64(stmt, 3, spec->attempts_max);
        bind_i64(stmt, 4, spec->backoff_ms);
        bind_i64(stmt, 5, spec->retry_on);
        bind_blob(stmt, 6, self->scratch.ptr, self->scratch.len);
        bind_text(stmt, 7, spec->slot_key);
        bind_text(stmt, 8, spec->semaphores);
        bind_text(stmt, 9, spec->class_key);
        if (!db_run(&self->db, SQL_spec_insert, err))
            return false;
    }
    return true;
}

static bool slots_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_slot_put];
    for (size_t i = 0; i < c->n_slots; i++) {
        const struct slot *slot = c->slots[i];
        bind_i64(stmt, 1, slot->id);
        bind_text(stmt, 2, slot->tenant);
        bind_text(stmt, 3, slot->name);
        bind_i64(stmt, 4, slot->limit);
        bind_i64(stmt, 5, slot->used);
        bind_i64(stmt, 6, slot->waiting);
        if (!db_run(&self->db, SQL_slot_put, err))
            return false;
    }
    for (size_t i = 0; i < c->n_slots_remove; i++) {
        bind_i64(self->db.stmts[SQL_slot_delete], 1, c->slots_remove[i]);
        if (!db_run(&self->db, SQL_slot_delete, err))
            return false;
    }
    return true;
}

/* i: its place among tasks_new and tasks_changed. The bytes stay where they are until the statement has been stepped. */
static void rest_bind(struct sqlite_store *self, sqlite3_stmt *stmt, int n, size_t i)
{
    struct str rest = tags_rest(&self->tagger, i);
    bind_blob(stmt, n, rest.ptr, rest.len);
}

static bool tasks_new_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_task_insert];
    for (size_t i = 0; i < c->n_tasks_new; i++) {
        const struct task *task = c->tasks_new[i];
        bind_i64(stmt, 1, task->id);
        bind_i64(stmt, 2, task->lane);
        if (task->rev)
            bind_i64(stmt, 3, task->rev);
        else
            sqlite3_bind_null(stmt, 3); /* not an archive's: not in task_key */
        bind_text(stmt, 4, state_text(task->state));
        bind_text(stmt, 5, task->name);
        bind_text(stmt, 6, task->variant);
        bind_i64(stmt, 7, task->run);
        rest_bind(self, stmt, 8, i);
        if (!db_run(&self->db, SQL_task_insert, err))
            return false;
    }
    return true;
}

static bool tasks_changed_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_task_update];
    for (size_t i = 0; i < c->n_tasks_changed; i++) {
        const struct task *task = c->tasks_changed[i];
        bind_i64(stmt, 1, task->id);
        bind_text(stmt, 2, state_text(task->state));
        rest_bind(self, stmt, 3, c->n_tasks_new + i);
        if (!db_run(&self->db, SQL_task_update, err))
            return false;
        if (sqlite3_changes(self->db.conn) != 1)
            return err_set(err, ERR_internal, "task_update: there is no task %lld", (long long)task->id);
    }
    return true;
}

static bool ready_write(struct sqlite_store *self, enum sql_id id, const struct task **tasks, size_t n, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[id];
    for (size_t i = 0; i < n; i++) {
        bind_i64(stmt, 1, tasks[i]->class_id);
        bind_i64(stmt, 2, -tasks[i]->prio);
        bind_i64(stmt, 3, tasks[i]->vt);
        bind_i64(stmt, 4, tasks[i]->id);
        if (!db_run(&self->db, id, err))
            return false;
        if (sqlite3_changes(self->db.conn) != 1)
            return err_set(err, ERR_internal, "%s: task %lld isn't ready as class %lld, priority %lld, vt %lld", sql_texts[id].name,
                           (long long)tasks[i]->id, (long long)tasks[i]->class_id, (long long)tasks[i]->prio, (long long)tasks[i]->vt);
    }
    return true;
}

static bool readies_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return ready_write(self, SQL_ready_delete, c->ready_remove, c->n_ready_remove, err) &&
           ready_write(self, SQL_ready_insert, c->ready_add, c->n_ready_add, err);
}

static bool edge_write(struct sqlite_store *self, enum sql_id id, const struct edge *edges, size_t n, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[id];
    for (size_t i = 0; i < n; i++) {
        bind_i64(stmt, 1, edges[i].pred);
        bind_i64(stmt, 2, edges[i].waiter);
        bind_i64(stmt, 3, edges[i].kind);
        bind_i64(stmt, 4, edges[i].flags);
        if (!db_run(&self->db, id, err))
            return false;
    }
    return true;
}

static bool edges_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return edge_write(self, SQL_edge_insert, c->edges_new, c->n_edges_new, err) &&
           edge_write(self, SQL_edge_update, c->edges_changed, c->n_edges_changed, err);
}

static bool hold_write(struct sqlite_store *self, enum sql_id id, const struct hold *holds, size_t n, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[id];
    for (size_t i = 0; i < n; i++) {
        bind_i64(stmt, 1, holds[i].kind);
        bind_i64(stmt, 2, holds[i].key);
        bind_i64(stmt, 3, holds[i].rank);
        bind_i64(stmt, 4, holds[i].task);
        if (id == SQL_hold_insert)
            bind_i64(stmt, 5, holds[i].since);
        if (!db_run(&self->db, id, err))
            return false;
    }
    return true;
}

static bool holds_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return hold_write(self, SQL_hold_delete, c->holds_remove, c->n_holds_remove, err) &&
           hold_write(self, SQL_hold_insert, c->holds_add, c->n_holds_add, err);
}

/* The first five parameters of live_insert, live_update, attempt_insert and attempt_put; the deletes take the first two. */
static void attempt_bind(sqlite3_stmt *stmt, const struct attempt *a, bool whole)
{
    bind_i64(stmt, 1, a->task);
    bind_i64(stmt, 2, a->grant);
    if (!whole)
        return;
    bind_i64(stmt, 3, a->number);
    bind_i64(stmt, 4, a->executor);
    bind_i64(stmt, 5, a->started);
}

static bool attempt_running_write(struct sqlite_store *self, enum sql_id id, const struct attempt *a, struct err *err)
{
    attempt_bind(self->db.stmts[id], a, true);
    bind_i64(self->db.stmts[id], 6, a->poll_seq);
    return db_run(&self->db, id, err);
}

static bool attempt_finished_write(struct sqlite_store *self, enum sql_id id, const struct attempt *a, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[id];
    attempt_bind(stmt, a, true);
    bind_i64(stmt, 6, a->finished);
    bind_i64(stmt, 7, a->exit);
    bind_i64(stmt, 8, a->signal);
    bind_text(stmt, 9, str_of(outcome_name(a->outcome)));
    bind_i64(stmt, 10, a->cpu_ms);
    bind_i64(stmt, 11, a->max_rss_bytes);
    bind_i64(stmt, 12, a->log_bytes);
    bind_blob(stmt, 13, a->finish_hash, sizeof a->finish_hash);
    return db_run(&self->db, id, err);
}

static bool attempt_drop(struct sqlite_store *self, enum sql_id id, const struct attempt *a, struct err *err)
{
    attempt_bind(self->db.stmts[id], a, false);
    return db_run(&self->db, id, err);
}

static bool attempts_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    for (size_t i = 0; i < c->n_attempts_new; i++) {
        const struct attempt *a = &c->attempts_new[i];
        if (a->finished) {
            if (!attempt_finished_write(self, SQL_attempt_put, a, err))
                return false;
            continue;
        }
        if (!attempt_running_write(self, SQL_live_insert, a, err))
            return false;
    }
    for (size_t i = 0; i < c->n_attempts_changed; i++) {
        const struct attempt *a = &c->attempts_changed[i];
        if (a->finished) {
            if (!attempt_drop(self, SQL_live_delete, a, err))
                return false;
            bool ran = sqlite3_changes(self->db.conn) == 1;
            if (!attempt_finished_write(self, ran ? SQL_attempt_insert : SQL_attempt_put, a, err))
                return false;
            continue;
        }
        if (!attempt_running_write(self, SQL_live_update, a, err))
            return false;
        bool lost = sqlite3_changes(self->db.conn) == 0; /* and taken up again */
        if (lost && (!attempt_running_write(self, SQL_live_insert, a, err) || !attempt_drop(self, SQL_attempt_delete, a, err)))
            return false;
    }
    for (size_t i = 0; i < c->n_attempts_remove; i++)
        if (!attempt_drop(self, SQL_live_delete, &c->attempts_remove[i], err) || !attempt_drop(self, SQL_attempt_delete,
                                                                                               &c->attempts_remove[i], err))
            return false;
    return true;
}

static bool seals_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *put = self->db.stmts[SQL_log_seal_put], *gone = self->db.stmts[SQL_log_seal_delete];
    for (size_t i = 0; i < c->n_log_seals; i++) {
        const struct log_seal *seal = &c->log_seals[i];
        bind_i64(put, 1, seal->task);
        bind_i64(put, 2, seal->grant);
        bind_i64(put, 3, seal->bytes);
        bind_blob(put, 4, seal->hash, sizeof seal->hash);
        if (!db_run(&self->db, SQL_log_seal_put, err))
            return false;
    }
    for (size_t i = 0; i < c->n_log_seals_remove; i++) {
        bind_i64(gone, 1, c->log_seals_remove[i].task);
        bind_i64(gone, 2, c->log_seals_remove[i].grant);
        if (!db_run(&self->db, SQL_log_seal_delete, err))
            return false;
    }
    return true;
}

static bool results_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *outputs = self->db.stmts[SQL_outputs_put], *tail = self->db.stmts[SQL_log_tail_put];
    for (size_t i = 0; i < c->n_outputs; i++) {
        bind_i64(outputs, 1, c->outputs[i].task);
        bind_text(outputs, 2, c->outputs[i].json);
        if (!db_run(&self->db, SQL_outputs_put, err))
            return false;
    }
    for (size_t i = 0; i < c->n_log_tails; i++) {
        const struct log_tail *t = &c->log_tails[i];
        bind_i64(tail, 1, t->task);
        bind_i64(tail, 2, t->grant);
        bind_i64(tail, 3, t->offset);
        bind_blob(tail, 4, t->bytes.ptr, t->bytes.len);
        if (!db_run(&self->db, SQL_log_tail_put, err))
            return false;
    }
    if (!seals_write(self, c, err))
        return false;
    for (size_t i = 0; i < c->n_results_remove; i++)
        for (size_t k = 0; k < 2; k++) {
            static const enum sql_id deletes[] = { SQL_outputs_delete, SQL_log_tails_delete };
            bind_i64(self->db.stmts[deletes[k]], 1, c->results_remove[i]);
            if (!db_run(&self->db, deletes[k], err))
                return false;
        }
    return true;
}

static bool unique_write(struct sqlite_store *self, enum sql_id id, const struct unique_claim *claims, size_t n, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[id];
    for (size_t i = 0; i < n; i++) {
        bind_text(stmt, 1, claims[i].tenant);
        bind_text(stmt, 2, claims[i].key);
        bind_i64(stmt, 3, claims[i].task);
        if (!db_run(&self->db, id, err))
            return false;
    }
    return true;
}

/* Removed, added, and removed once more: a task that was created and granted in the same turn doesn't keep its key. */
static bool uniques_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    return unique_write(self, SQL_unique_delete, c->unique_remove, c->n_unique_remove, err) &&
           unique_write(self, SQL_unique_put, c->unique_add, c->n_unique_add, err) &&
           (!c->n_unique_add || unique_write(self, SQL_unique_delete, c->unique_remove, c->n_unique_remove, err));
}

static bool idempotencies_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_idempotency_put];
    for (size_t i = 0; i < c->n_idempotency; i++) {
        const struct idempotency *item = &c->idempotency[i];
        buf_reset(&self->scratch);
        numbers_pack(&self->scratch, item->ids, item->n_ids);
        bind_text(stmt, 1, item->tenant);
        bind_text(stmt, 2, item->token);
        bind_text(stmt, 3, item->route);
        bind_text(stmt, 4, item->key);
        bind_blob(stmt, 5, item->body_hash, sizeof item->body_hash);
        bind_i64(stmt, 6, item->status);
        bind_blob(stmt, 7, self->scratch.ptr, self->scratch.len);
        bind_i64(stmt, 8, item->expires);
        if (!db_run(&self->db, SQL_idempotency_put, err))
            return false;
    }
    return true;
}

static bool executors_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_executor_put];
    for (size_t i = 0; i < c->n_executors; i++) {
        const struct executor *e = c->executors[i];
        buf_reset(&self->scratch);
        labels_pack(&self->scratch, e->labels, e->n_labels);
        bind_i64(stmt, 1, e->id);
        bind_text(stmt, 2, e->name);
        bind_text(stmt, 3, e->instance);
        bind_text(stmt, 4, e->host);
        bind_text(stmt, 5, e->version);
        bind_text(stmt, 6, e->zone);
        bind_i64(stmt, 7, e->slots);
        bind_i64(stmt, 8, e->kinds);
        bind_blob(stmt, 9, self->scratch.ptr, self->scratch.len);
        bind_i64(stmt, 10, e->state);
        bind_i64(stmt, 11, e->registered);
        bind_i64(stmt, 12, e->processed);
        bind_i64(stmt, 13, e->failed);
        bind_text(stmt, 14, e->tenant);
        bind_i64(stmt, 15, e->owner);
        bind_i64(stmt, 16, e->silent);
        if (!db_run(&self->db, SQL_executor_put, err))
            return false;
    }
    for (size_t i = 0; i < c->n_executors_remove; i++) {
        bind_i64(self->db.stmts[SQL_executor_delete], 1, c->executors_remove[i]);
        if (!db_run(&self->db, SQL_executor_delete, err))
            return false;
    }
    return true;
}

static bool site_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_site_put];
    for (size_t i = 0; i < c->n_site; i++) {
        const struct site_key *key = &c->site[i];
        bind_text(stmt, 1, key->name);
        bind_text(stmt, 2, key->body);
        bind_i64(stmt, 3, key->version);
        bind_i64(stmt, 4, key->changed);
        bind_text(stmt, 5, key->changed_by);
        if (!db_run(&self->db, SQL_site_put, err))
            return false;
    }
    return true;
}

static bool tokens_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *insert = self->db.stmts[SQL_token_insert], *drop = self->db.stmts[SQL_token_delete];
    for (size_t i = 0; i < c->n_tokens; i++) {
        const struct token *token = c->tokens[i];
        bind_i64(insert, 1, token->id);
        bind_text(insert, 2, token->name);
        bind_text(insert, 3, token->tenant);
        bind_blob(insert, 4, token->hash, sizeof token->hash);
        bind_i64(insert, 5, token->scopes);
        bind_i64(insert, 6, token->created);
        bind_i64(insert, 7, token->expires);
        if (!db_run(&self->db, SQL_token_insert, err))
            return false;
    }
    for (size_t i = 0; i < c->n_tokens_remove; i++) {
        bind_i64(drop, 1, c->tokens_remove[i]);
        if (!db_run(&self->db, SQL_token_delete, err))
            return false;
    }
    return true;
}

static bool clock_write(struct sqlite_store *self, const struct changes *c, struct err *err)
{
    sqlite3_stmt *stmt = self->db.stmts[SQL_clock_put];
    if (!c->clock)
        return true;
    bind_i64(stmt, 1, c->clock->time);
    bind_i64(stmt, 2, c->clock->ran);
    bind_i64(stmt, 3, c->clock->seen);
    return db_run(&self->db, SQL_clock_put, err);
}

bool turn_write(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const uint8_t before[STORE_HASH_BYTES], int64_t turn, int64_t first_seq,
                int64_t time, struct str events, struct str tags, uint8_t out_hash[STORE_HASH_BYTES], struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_turn_insert];
    chain_link(key, before, turn, first_seq, time, events, tags, out_hash);
    bind_i64(stmt, 1, turn);
    bind_i64(stmt, 2, first_seq);
    bind_i64(stmt, 3, time);
    bind_blob(stmt, 4, out_hash, STORE_HASH_BYTES);
    bind_blob(stmt, 5, events.ptr, events.len);
    bind_blob(stmt, 6, tags.ptr, tags.len);
    return db_run(db, SQL_turn_insert, err);
}

bool head_write(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_head_update];
    uint8_t seal[STORE_HASH_BYTES];
    chain_seal(key, head, seal);
    bind_i64(stmt, 1, (int64_t)head->incarnation);
    bind_i64(stmt, 2, head->turn);
    bind_i64(stmt, 3, head->seq);
    bind_blob(stmt, 4, head->hash, sizeof head->hash);
    bind_blob(stmt, 5, seal, sizeof seal);
    bind_i64(stmt, 6, head->next_task);
    bind_i64(stmt, 7, head->next_spec);
    bind_i64(stmt, 8, head->next_lane);
    bind_i64(stmt, 9, head->next_class);
    bind_i64(stmt, 10, head->next_slot);
    bind_i64(stmt, 11, head->next_executor);
    bind_i64(stmt, 12, head->next_token);
    bind_i64(stmt, 13, head->v_now);
    bind_i64(stmt, 14, head->commit);
    return db_run(db, SQL_head_update, err);
}

static bool head_same(const struct store_head *a, const struct store_head *b)
{
    return a->incarnation == b->incarnation && a->turn == b->turn && a->seq == b->seq && a->next_task == b->next_task &&
           a->next_spec == b->next_spec && a->next_lane == b->next_lane && a->next_class == b->next_class && a->next_slot == b->next_slot &&
           a->next_executor == b->next_executor && a->next_token == b->next_token && a->v_now == b->v_now;
}

static bool history_write(struct sqlite_store *self, const struct changes *c, struct store_head *out_head, struct err *err)
{
    *out_head = c->head;
    memcpy(out_head->hash, self->head.hash, sizeof out_head->hash);
    if (c->events.len && !turn_write(&self->db, self->key, self->head.hash, c->turn, c->first_seq, c->time, c->events,
                                     buf_str(&self->tags), out_head->hash, err))
        return false;
    bool any = sqlite3_total_changes64(self->db.conn) != self->changes || !head_same(out_head, &self->head);
    out_head->commit = self->head.commit + any;
    return !any || head_write(&self->db, self->key, out_head, err);
}

static bool (*const writes[])(struct sqlite_store *self, const struct changes *c, struct err *err) = {
    lanes_write,    classes_write, specs_write,   slots_write,         tasks_new_write, tasks_changed_write, readies_write, edges_write,
    holds_write,    attempts_write, results_write, uniques_write,      idempotencies_write, executors_write, tokens_write, site_write,
    archives_write, clock_write,
};

static bool changes_write(struct sqlite_store *self, const struct changes *c, struct store_head *out_head, struct err *err)
{
    int io_error = checkpoint_failed(self->checkpoint);
    if (io_error)
        return err_set(err, ERR_outcome_unknown, "a checkpoint met an I/O error (SQLite %d): the disk isn't trusted any more", io_error);
    buf_reset(&self->tags);
    tags_pack(&self->tags, &self->tagger, self->key, c);
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        if (!writes[i](self, c, err))
            return false;
    if (!history_write(self, c, out_head, err)) return false;
    if ((PLANT(commit_late) && c->head.turn % 2) || db_run(&self->db, SQL_commit, err)) return true;
    if (err->code == ERR_corrupt) err->code = ERR_outcome_unknown; /* damage met by any other statement is before the commit */
    return false;
}

bool sqlite_commit(struct store *store, const struct changes *changes, struct err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    struct store_head head;
    self->db.committing = true;
    bool ok = changes_write(self, changes, &head, err);
    self->db.committing = false;
    if (!ok) {
        sqlite_rollback(store);
        return false;
    }
    self->head = head;
    store->commit = head.commit;
    checkpoint_between_turns(self->checkpoint);
    return true;
}
