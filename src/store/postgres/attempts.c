/* attempts: what a turn writes of attempts: into `live` while they run, into `attempt` when they have ended.
 *
 * Owns which statement a row goes by; one statement for all rows of a kind. Attempts that were granted with many others
 * are bits of `live_many` while they run (migrations/0010_many.sql). Fails like turn.c: a refused statement ends the
 * turn. */
#include "store/postgres/turn.h"

/* Which attempts of a list a statement is for. */
enum of_attempts { ALL, RUNNING, ENDED };

static bool attempt_of(const struct attempt *a, enum of_attempts which)
{
    return which == ALL || (which == ENDED) == (a->finished != 0);
}

#define PUT_NUMBER(value) bulk_i64(b, value)
#define PUT_TEXT(text) bulk_text(b, text)
#define PUT_BLOB(bytes) bulk_text(b, bytes)

static void attempt_keys_write(
    struct write *w, enum sql_id id, const struct attempt *attempts, size_t n, enum of_attempts which)
{
    struct pg_bulk *b = write_begin(w, ROW_attempt(ROW_LETTER_KEY));
    for (size_t i = 0; i < n; i++) {
        const struct attempt *row = &attempts[i];
        if (!attempt_of(row, which) || (id == SQL_live_delete && row->many))
            continue;
        ROW_attempt(ROW_PUT_KEY)
    }
    write_end(w, id, 0);
}

/* --- those of large claims --- */

enum { BLOCK_BITS = 6 }; /* tasks of a row: 64 */

static void many_row(struct pg_bulk *b, const struct attempt *a, uint64_t bits, bool whole)
{
    bulk_i64(b, a->task >> BLOCK_BITS);
    bulk_i64(b, a->grant);
    if (whole) {
        bulk_i64(b, a->number);
        bulk_i64(b, a->executor);
        bulk_i64(b, a->started);
        bulk_i64(b, poll_seq_pack(a));
    }
    bulk_i64(b, (int64_t)bits);
}

static bool many_same(const struct attempt *a, const struct attempt *b, bool whole)
{
    return a->task >> BLOCK_BITS == b->task >> BLOCK_BITS && a->grant == b->grant &&
           (!whole || (a->number == b->number && a->executor == b->executor && a->started == b->started &&
                          poll_seq_pack(a) == poll_seq_pack(b)));
}

/* Neighbours that fit go together; what fits but stands elsewhere is put together by the statement. How many attempts
 * these are. */
static int64_t many_add(struct pg_bulk *b, const struct attempt *attempts, size_t n, enum of_attempts which, bool whole)
{
    const struct attempt *last = NULL;
    uint64_t bits = 0;
    int64_t found = 0;
    for (size_t i = 0; i < n; i++) {
        const struct attempt *a = &attempts[i];
        if (!a->many || !attempt_of(a, which))
            continue;
        if (last && !many_same(last, a, whole)) {
            many_row(b, last, bits, whole);
            bits = 0;
        }
        last = a;
        bits |= UINT64_C(1) << (a->task & ((1 << BLOCK_BITS) - 1));
        found++;
    }
    if (last)
        many_row(b, last, bits, whole);
    return found;
}

static void many_insert_write(struct write *w)
{
    struct pg_bulk *b = write_begin(w, "iiiiiii");
    many_add(b, w->c->attempts_changed.at, w->c->attempts_changed.n, RUNNING, true);
    many_add(b, w->c->attempts_new.at, w->c->attempts_new.n, RUNNING, true);
    write_end(w, SQL_many_insert, 0);
}

static void blocks_add(struct pg_bulk *b, const struct attempt *attempts, size_t n)
{
    int64_t last = -1;
    for (size_t i = 0; i < n; i++)
        if (attempts[i].many && attempts[i].task >> BLOCK_BITS != last) {
            last = attempts[i].task >> BLOCK_BITS;
            bulk_i64(b, last);
        }
}

/* Also of those that change: many_insert_write puts them back. */
static void many_end_write(struct write *w)
{
    const struct changes *c = w->c;
    struct pg_args args = { 0 };
    struct pg_bulk *b = write_begin(w, "iii");
    int64_t n = many_add(b, c->attempts_changed.at, c->attempts_changed.n, ALL, false);
    n += many_add(b, c->attempts_remove.at, c->attempts_remove.n, ALL, false);
    if (!n)
        return;
    w->full |= !bulk_args(b, &args);
    arg_i64(&args, n);
    if (!w->full)
        pg_queue(&w->self->pg, SQL_many_end, &args);
    b = write_begin(w, "i");
    blocks_add(b, c->attempts_changed.at, c->attempts_changed.n);
    blocks_add(b, c->attempts_remove.at, c->attempts_remove.n);
    write_end(w, SQL_many_clean, 0);
}

/* --- all of them --- */

static void attempts_running_write(struct write *w, enum sql_id id, const struct attempt *attempts, size_t n)
{
    struct pg_bulk *b = write_begin(w, ROW_live(ROW_LETTER));
    for (size_t i = 0; i < n; i++) {
        const struct attempt *row = &attempts[i];
        if (attempt_of(row, RUNNING) && !row->many) {
            ROW_live(ROW_PUT)
        }
    }
    write_end(w, id, 0);
}

static void attempts_ended_write(struct write *w, enum sql_id id, const struct attempt *attempts, size_t n)
{
    if (id == SQL_attempt_insert && pg_attempts_alike_write(w, attempts, n))
        return;
    struct pg_bulk *b = write_begin(w, ROW_attempt(ROW_LETTER));
    for (size_t i = 0; i < n; i++) {
        const struct attempt *row = &attempts[i];
        if (!attempt_of(row, ENDED) || row->ended_before != (id == SQL_attempt_put))
            continue;
        ROW_attempt(ROW_PUT)
    }
    write_end(w, id, 0);
}

void pg_attempts_write(struct write *w)
{
    const struct changes *c = w->c;
    attempts_running_write(w, SQL_live_insert, c->attempts_new.at, c->attempts_new.n);
    attempts_ended_write(w, SQL_attempt_insert, c->attempts_new.at, c->attempts_new.n);
    attempts_running_write(w, SQL_live_update, c->attempts_changed.at, c->attempts_changed.n);
    /* lost, and taken up again */
    attempt_keys_write(w, SQL_attempt_delete, c->attempts_changed.at, c->attempts_changed.n, RUNNING);
    attempt_keys_write(w, SQL_live_delete, c->attempts_changed.at, c->attempts_changed.n, ENDED);
    many_end_write(w);
    many_insert_write(w);
    attempts_ended_write(w, SQL_attempt_insert, c->attempts_changed.at, c->attempts_changed.n);
    attempts_ended_write(w, SQL_attempt_put, c->attempts_changed.at, c->attempts_changed.n);
    attempt_keys_write(w, SQL_live_delete, c->attempts_remove.at, c->attempts_remove.n, ALL);
    attempt_keys_write(w, SQL_attempt_delete, c->attempts_remove.at, c->attempts_remove.n, ALL);
}
