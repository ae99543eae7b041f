/* prefetch_claim: the next pending tasks of a class, read while other turns go on.
 *
 * While executors drain a full queue their next claim can be foreseen: when a turn that follows one with a large claim,
 * and changes nothing of what is pending (results, mostly), is sent, the tasks that come next are asked for on a
 * connection of its own, and the database reads them while it writes the turn. They are what ready_first would bring
 * as long as no other server has committed since, and no turn of this one has changed `ready` or a pending task; the
 * head that they were read with, and the head that a turn begins with, say so. Rows are written by the ctid that they
 * had then, and counted: if somebody has moved them since (VACUUM FULL), the turn fails and is retried without them.
 *
 * It brings 5 % of the rate of row 11's drain (21 rounds in turns with a server without it).
 *
 * Nothing depends on it: whatever goes wrong here is silent, and the rows are read on the turn's own connection. Each
 * prefetch in vain makes the next ones rarer. */
#include "io/clock.h"
#include "store/postgres/postgres.h"
#include "store/postgres/timeline.h"

enum {
    CLAIM_MIN = 200, /* below, there is nothing to gain */
    CLAIM_MAX = 5000,
    ANSWER_MS = 2000, /* the turn's lock is held meanwhile */
    RETRY_MS = 10000,
    MISSES_MAX = 7, /* claims without a prefetch: up to 2 to that */
};

enum { RESULT_TASKS = 1, RESULT_TICK = 2 };

static void prefetch_claim_miss(struct prefetch_claim *claim)
{
    claim->asked = false;
    claim->misses += claim->misses < MISSES_MAX;
    claim->skips = 1U << claim->misses;
}

/* The answer is read, whether it is wanted or not. */
static bool prefetch_claim_read(struct prefetch_claim *claim)
{
    struct err ignored = { 0 };
    claim->under_way = false;
    if (pg_exchange(&claim->pg, &ignored))
        return true;
    pg_close(&claim->pg);
    return false;
}

void prefetch_claim_look(struct postgres_store *self)
{
    if (self->prefetch_claim.asked && self->prefetch_claim.commit != self->head.commit)
        prefetch_claim_miss(&self->prefetch_claim);
}

bool prefetch_claim_take(struct postgres_store *self, int64_t class_id, int64_t n, PGresult **out)
{
    struct prefetch_claim *claim = &self->prefetch_claim;
    if (!claim->asked || !self->in_turn || self->narrow || claim->class_id != class_id)
        return false;
    if (claim->n < n || !timeline_current(&claim->pg)) {
        prefetch_claim_miss(claim);
        return false;
    }
    claim->asked = false;
    if (!prefetch_claim_read(claim))
        return false;
    int64_t tick = cell_i64(claim->pg.results[RESULT_TICK], 0, 0);
    if (tick < claim->first || tick > claim->commit)
        return false;
    claim->misses = 0;
    *out = claim->pg.results[RESULT_TASKS];
    return true;
}

void prefetch_claim_wish(struct postgres_store *self, int64_t class_id, int64_t n)
{
    if (!self->in_turn || self->narrow || n < CLAIM_MIN || n > CLAIM_MAX || n <= self->prefetch_claim.wish_n)
        return;
    self->prefetch_claim.wish = class_id;
    self->prefetch_claim.wish_n = n;
}

static bool prefetch_claim_connected(struct postgres_store *self)
{
    struct prefetch_claim *claim = &self->prefetch_claim;
    struct err ignored = { 0 };
    if (claim->pg.conn && !claim->pg.lost && timeline_current(&claim->pg))
        return true;
    int64_t now = clock_boot_ms();
    prefetch_claim_close(self);
    if (now < claim->retry_ms || writer_is_away())
        return false;
    claim->retry_ms = now + RETRY_MS;
    claim->pg.answer_ms = ANSWER_MS;
    if (pg_connect(&claim->pg, self->url, &ignored) && pg_writable(&claim->pg, &ignored) &&
        pg_exec(&claim->pg, SQL_session_reader, &ignored) && pg_prepare(&claim->pg, SQL_FOR_CLAIM, &ignored))
        return true;
    claim->pg.lost = true;
    return false;
}

/* Do these changes make a prefetch that was read before them untrue? */
static bool changes_claims(const struct changes *c)
{
    bool changed = c->shared.narrow || c->ready_add.n || c->ready_remove.n;
    for (size_t i = 0; i < c->tasks_changed.n && !changed; i++)
        changed = c->tasks_changed.at[i]->state == STATE_P;
    return changed;
}

void prefetch_claim_ask(struct postgres_store *self, const struct changes *changes)
{
    struct prefetch_claim *claim = &self->prefetch_claim;
    struct pg_args args = { 0 };
    if (!claim->next_n || claim->asked || changes_claims(changes))
        return;
    if (claim->skips) {
        claim->skips--;
        return;
    }
    if ((claim->under_way && !prefetch_claim_read(claim)) || !prefetch_claim_connected(self))
        return;
    bool from = ready_start_args(self, claim->next, claim->next_n, &args);
    pg_queue(&claim->pg, SQL_claim_begin, NULL);
    pg_queue(&claim->pg, from ? SQL_claim_tasks_from : SQL_claim_tasks, &args);
    pg_queue(&claim->pg, SQL_claim_tick, NULL);
    pg_queue(&claim->pg, SQL_claim_end, NULL);
    pg_send(&claim->pg);
    claim->class_id = claim->next;
    claim->n = claim->next_n;
    claim->first = self->head.commit;
    claim->asked = claim->under_way = true;
}

void prefetch_claim_follow(struct postgres_store *self, const struct changes *changes)
{
    struct prefetch_claim *claim = &self->prefetch_claim;
    if (claim->asked && (!changes || changes_claims(changes)))
        prefetch_claim_miss(claim);
    claim->commit = self->head.commit;
    claim->next = claim->wish;
    claim->next_n = changes ? claim->wish_n : 0;
    claim->wish_n = 0;
}

void prefetch_claim_close(struct postgres_store *self)
{
    self->prefetch_claim.asked = self->prefetch_claim.under_way = false;
    pg_close(&self->prefetch_claim.pg);
}
