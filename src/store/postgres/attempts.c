/* attempts: what a turn writes of attempts: into `live` while they run, into `attempt` when they have ended.
 *
 * Owns which statement a row goes by; one statement for all rows of a kind. Attempts that differ in their task and grant only, as those of
 * one large claim do, go with one value for the rest. Fails like turn.c: a refused statement ends the turn. */
#include <string.h>

#include "store/postgres/turn.h"

/* Which attempts of a list a statement is for. */
enum of_attempts { ALL, RUNNING, ENDED };

static bool attempt_of(const struct attempt *a, enum of_attempts which)
{
    return which == ALL || (which == ENDED) == (a->finished != 0);
}

static void attempt_keys_write(struct write *w, enum pg_id id, const struct attempt *attempts, size_t n, enum of_attempts which)
{
    struct pg_bulk *b = write_begin(w, "ii");
    for (size_t i = 0; i < n; i++) {
        if (!attempt_of(&attempts[i], which))
            continue;
        bulk_i64(b, attempts[i].task);
        bulk_i64(b, attempts[i].grant);
    }
    write_end(w, id, false);
}

/* What attempts of one poll, or of one report, have in common. */
enum { SAME_MIN = 16, SAME_RUNNING = 4, SAME_ENDED = 9 };

static void attempt_numbers(const struct attempt *a, int64_t out[SAME_ENDED])
{
    const int64_t all[SAME_ENDED] = { a->number, a->executor, a->started, a->finished ? a->finished : a->poll_seq, a->exit, a->signal,
                                      a->cpu_ms, a->max_rss_bytes, a->log_bytes };
    memcpy(out, all, sizeof all);
}

/* Those with these ends are alike in all but task, grant and hash; *out_first: the first of them. */
static bool attempts_alike(const struct attempt *attempts, size_t n, enum of_attempts which, const struct attempt **out_first)
{
    int64_t first[SAME_ENDED], other[SAME_ENDED];
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (!attempt_of(&attempts[i], which))
            continue;
        if (found++ == 0) {
            *out_first = &attempts[i];
            attempt_numbers(&attempts[i], first);
            continue;
        }
        attempt_numbers(&attempts[i], other);
        if (memcmp(first, other, sizeof first) != 0 || attempts[i].outcome != (*out_first)->outcome ||
            attempts[i].ended_before != (*out_first)->ended_before)
            return false;
    }
    return found >= SAME_MIN && !(*out_first)->ended_before;
}

static void attempts_alike_write(struct write *w, const struct attempt *attempts, size_t n, const struct attempt *first)
{
    bool ended = first->finished != 0;
    struct pg_args args = { 0 };
    int64_t same[SAME_ENDED];
    struct pg_bulk *b = write_begin(w, ended ? "iib" : "ii");
    for (size_t i = 0; i < n; i++) {
        if (!attempt_of(&attempts[i], ended ? ENDED : RUNNING))
            continue;
        bulk_i64(b, attempts[i].task);
        bulk_i64(b, attempts[i].grant);
        if (ended)
            bulk_bytes(b, attempts[i].finish_hash, sizeof attempts[i].finish_hash);
    }
    w->full |= !bulk_args(b, &args);
    attempt_numbers(first, same);
    for (size_t i = 0; i < (ended ? SAME_ENDED : SAME_RUNNING); i++)
        arg_i64(&args, same[i]);
    if (ended)
        arg_text(&args, str_of(outcome_name(first->outcome)));
    if (!w->full)
        pg_queue(&w->self->pg, ended ? PG_attempt_insert_same : PG_live_insert_same, &args);
}

static void attempt_begin_add(struct pg_bulk *b, const struct attempt *a)
{
    bulk_i64(b, a->task);
    bulk_i64(b, a->grant);
    bulk_i64(b, a->number);
    bulk_i64(b, a->executor);
    bulk_i64(b, a->started);
}

static void attempts_running_write(struct write *w, enum pg_id id, const struct attempt *attempts, size_t n)
{
    const struct attempt *first;
    if (id == PG_live_insert && attempts_alike(attempts, n, RUNNING, &first)) {
        attempts_alike_write(w, attempts, n, first);
        return;
    }
    struct pg_bulk *b = write_begin(w, "iiiiii");
    for (size_t i = 0; i < n; i++)
        if (attempt_of(&attempts[i], RUNNING)) {
            attempt_begin_add(b, &attempts[i]);
            bulk_i64(b, attempts[i].poll_seq);
        }
    write_end(w, id, false);
}

static void attempts_ended_write(struct write *w, enum pg_id id, const struct attempt *attempts, size_t n)
{
    const struct attempt *first;
    if (id == PG_attempt_insert && attempts_alike(attempts, n, ENDED, &first)) {
        attempts_alike_write(w, attempts, n, first);
        return;
    }
    struct pg_bulk *b = write_begin(w, "iiiiiiiitiiib");
    for (size_t i = 0; i < n; i++) {
        const struct attempt *a = &attempts[i];
        if (!attempt_of(a, ENDED) || a->ended_before != (id == PG_attempt_put))
            continue;
        attempt_begin_add(b, a);
        bulk_i64(b, a->finished);
        bulk_i64(b, a->exit);
        bulk_i64(b, a->signal);
        bulk_text(b, str_of(outcome_name(a->outcome)));
        bulk_i64(b, a->cpu_ms);
        bulk_i64(b, a->max_rss_bytes);
        bulk_i64(b, a->log_bytes);
        bulk_bytes(b, a->finish_hash, sizeof a->finish_hash);
    }
    write_end(w, id, false);
}

void pg_attempts_write(struct write *w)
{
    const struct changes *c = w->c;
    attempts_running_write(w, PG_live_insert, c->attempts_new, c->n_attempts_new);
    attempts_ended_write(w, PG_attempt_insert, c->attempts_new, c->n_attempts_new);
    attempts_running_write(w, PG_live_update, c->attempts_changed, c->n_attempts_changed);
    attempt_keys_write(w, PG_attempt_delete, c->attempts_changed, c->n_attempts_changed, RUNNING); /* lost, and taken up again */
    attempt_keys_write(w, PG_live_delete, c->attempts_changed, c->n_attempts_changed, ENDED);
    attempts_ended_write(w, PG_attempt_insert, c->attempts_changed, c->n_attempts_changed);
    attempts_ended_write(w, PG_attempt_put, c->attempts_changed, c->n_attempts_changed);
    attempt_keys_write(w, PG_live_delete, c->attempts_remove, c->n_attempts_remove, ALL);
    attempt_keys_write(w, PG_attempt_delete, c->attempts_remove, c->n_attempts_remove, ALL);
}
