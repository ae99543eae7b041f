/* turn: begin, commit, rollback: everything the engine decided in one turn, in one transaction and one round trip.
 *
 * begin takes the turn's lock, which ends with the transaction: wide turns of all servers follow one another, and what
 * is loaded in between is true until the commit; narrow ones share it, and rows that they load for change are locked
 * (prefetch_turn.c, load.c). Owns the way of a turn (its rows by turn_rows.c, the head last) and the chain of turns.
 * True from commit means durable. A statement that is refused ends the turn: nothing changed, err says which
 * (disk_full, internal: a row contradicts another, conflict: another turn has it). When the connection is lost before
 * the commit was sent, nothing was recorded (ERR_unavailable: the caller retries the turn). When it is lost in the
 * middle of it, this server's mark says after a reconnect whether the turn was committed. Only when that can't be found
 * out: outcome_unknown.
 *
 * Durable means: on the synchronous standby too, where there is one. What a turn has read may be newer than that
 * (barrier in snapshot.sql says why); its own commit waits for both. A turn that writes nothing but tells somebody that
 * his work was accepted commits nothing for the same wait, unless this server's last commit is the newest. */
#include <stdio.h>
#include <string.h>

#include "io/clock.h"
#include "store/postgres/dbclock.h"
#include "store/postgres/turn.h"

static bool begin_once(struct postgres_store *self, const struct turn_needs *needs, struct err *err)
{
    struct pg *pg = &self->pg;
    if (pg->lost && !writer_reopen(self, err))
        return false;
    self->narrow = needs->narrow;
    pg_queue(pg, SQL_turn_begin, NULL);
    pg_queue(pg, self->narrow ? SQL_turn_share : SQL_turn_lock, NULL);
    size_t archives = pg->n_queue;
    if (needs->n_archives)
        ids_queue(pg, SQL_archives_lock, needs->archives, needs->n_archives);
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
        (void)pg_run(&self->pg, SQL_rollback, NULL, NULL, &ignored);
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
    if (pg_run(&self->pg, SQL_clock_now, NULL, &result, &ignored))
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
    static const enum sql_id look[] = { SQL_turn_begin, SQL_tables_brief, SQL_tables_look, SQL_rollback };
    struct postgres_store *self = postgres_of(store);
    struct err ignored = { 0 };
    if (self->pg.lost || self->in_turn)
        return false;
    for (size_t i = 0; i < sizeof look / sizeof look[0]; i++)
        pg_queue(&self->pg, look[i], NULL);
    bool free = pg_exchange(&self->pg, &ignored);
    if (!free && !self->pg.lost)
        (void)pg_run(&self->pg, SQL_rollback, NULL, NULL, &ignored);
    return free;
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
    pg_queue(&self->pg, self->ctids.crowded ? SQL_mark_put_at : SQL_mark_put, &args);
}

#define PUT_NUMBER(value) arg_i64(&args, value)
#define PUT_TEXT(text) arg_text(&args, text)
#define PUT_BLOB(bytes) arg_text(&args, bytes)

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
    pg_queue(pg, ctid ? SQL_head_update_at : SQL_head_update, &args);
}

static void turn_queue(struct write *w, struct store_head *head)
{
    struct postgres_store *self = w->self;
    struct pg_args args = { 0 }, hint = { 0 };
    char text[32];
    int64_t first_seq = w->c->shared.narrow ? self->head.seq + 1 : w->c->history.first_seq;
    chain_link(self->key, self->head.hash, w->c->history.turn, first_seq, head->time, w->c->history.events,
        buf_str(&self->tagger.list), head->hash);
    arg_i64(&args, w->c->history.turn);
    arg_i64(&args, first_seq);
    arg_i64(&args, head->time);
    arg_bytes(&args, head->hash, sizeof head->hash);
    arg_text(&args, w->c->history.events);
    arg_text(&args, buf_str(&self->tagger.list));
    pg_queue(&self->pg, SQL_turn_insert, &args);
    snprintf(text, sizeof text, "%lld", (long long)head->seq);
    arg_text(&hint, str_of(text));
    pg_queue(&self->pg, SQL_notify, &hint);
}

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
        pg_queue(pg, SQL_head_wait, NULL);
    size_t head = pg->n_queue;
    pg_queue(pg, placed ? SQL_head_lock_at : SQL_head_lock, placed ? &at : NULL);
    pg_queue(pg, SQL_head_time, NULL);
    if (!pg_exchange(pg, err))
        return false;
    if (placed && PQntuples(pg->results[head]) == 0) {
        head = 0;
        pg_queue(pg, SQL_head_lock, NULL);
        pg_queue(pg, SQL_head_time, NULL);
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
    ASSERT(!w->c->changesets.rows.n && !w->c->changesets.files_add.n && !w->c->changesets.files_remove.n);
    write_rows(w, WRITE_NARROW);
    size_t last = self->pg.n_queue;
    size_t others =
        w->c->lanes.n + w->c->slots.n + w->c->shared.counts.n + w->c->archives.n + w->c->revisions.n + w->c->latest.n;
    if (!last && !others && !w->c->history.events.len && !w->full) {
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
    out_head->seq += w->c->head.seq - (w->c->history.first_seq - 1);
    bool behind =
        w->c->history.time < now->time && now->time - w->c->history.time <= STAMP_BACK_MAX_MS; /* as slice_stamp */
    if (w->c->history.events.len)
        out_head->time = behind ? now->time : w->c->history.time;
    pg_clear(&self->pg);
    return true;
}

static void numbers_queue(struct pg *pg, int64_t last)
{
    pg_queue(pg, SQL_task_numbers_set, PG_ARGS(NUM(last)));
}

/* Sends the turn. *out_any false: there is nothing to write. */
static bool changes_queue(
    struct postgres_store *self, const struct changes *c, struct store_head *out_head, bool *out_any, struct err *err)
{
    struct write w = { .self = self, .c = c };
    pg_clear(&self->pg);
    *out_head = c->head;
    memcpy(out_head->hash, self->head.hash, sizeof out_head->hash);
    (void)tags_pack(&self->tagger, self->key, c);
    if (c->shared.narrow && !narrow_queue(&w, out_head, err))
        return false;
    write_rows(&w, c->shared.narrow ? WRITE_LAST : WRITE_WIDE);
    if (c->history.events.len)
        turn_queue(&w, out_head);
    *out_any = self->pg.n_queue > 0 || !row_head_same(out_head, &self->head);
    if (c->shared.numbers && out_head->next_task > 1)
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
    ASSERT(!c->shared.narrow); /* a wide turn: what is read here stays true until the commit */
    bulk_begin(b, "iii");
    for (size_t i = 0; i < c->logs.seals.n; i++) {
        bulk_i64(b, c->logs.seals.at[i].task);
        bulk_i64(b, c->logs.seals.at[i].grant);
        bulk_i64(b, c->logs.seals.at[i].bytes);
    }
    if (!bulk_args(b, &args))
        return err_set(err, ERR_invalid, "one turn notes more logs than an array of PostgreSQL may have here");
    if (!pg_run(&self->pg, SQL_log_seals_longer, &args, &longer, err))
        return false;
    struct log_seal *kept = ARENA_ARRAY(&self->prefetch.arena, struct log_seal, c->logs.seals.n);
    size_t n = 0, out = (size_t)PQntuples(longer);
    for (size_t i = 0, at = 0; i < c->logs.seals.n; i++) {
        bool left_out = at < out && cell_i64(longer, (int)at, 0) == (int64_t)i;
        if (left_out)
            at++;
        else
            kept[n++] = c->logs.seals.at[i];
    }
    ASSERT(n + out == c->logs.seals.n);
    c->logs.seals.at = kept;
    c->logs.seals.n = n;
    return true;
}

enum landed { LANDED, NOT_LANDED, NOT_KNOWN };

/* After a connection that was lost while committing: is the turn there? The turn's lock waits for the end of the lost
 * one. */
static enum landed landing_look(struct postgres_store *self, struct err *err)
{
    struct pg *pg = &self->pg;
    char lost[sizeof err->text];
    snprintf(lost, sizeof lost, "%s", err->text);
    if (!writer_reopen(self, err)) {
        char why[sizeof err->text];
        snprintf(why, sizeof why, "%s", err->text);
        err_set(err, ERR_outcome_unknown, "%.200s; and no new connection came about: %.200s", lost, why);
        return NOT_KNOWN;
    }
    pg_queue(pg, SQL_turn_begin, NULL);
    pg_queue(pg, SQL_turn_lock, NULL);
    pg_queue(pg, SQL_mark_get, PG_ARGS(TXT(str_of(self->instance))));
    pg_queue(pg, SQL_barrier, NULL);
    pg_queue(pg, SQL_commit, NULL);
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
    pg_queue(&self->pg, SQL_barrier, NULL);
    pg_queue(&self->pg, SQL_commit, NULL);
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
    bool any = false, ok = !changes->logs.seals.n || log_seals_keep(self, &kept, err);
    ok = ok && changes_queue(self, &kept, &head, &any, err);
    if (ok && any) {
        pg_queue(&self->pg, SQL_commit, NULL);
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
    } else if (ok && changes->shared.acknowledges && self->sure != self->head.commit) {
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
