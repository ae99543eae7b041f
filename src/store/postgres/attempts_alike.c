/* attempts_alike: ends that differ in their task, grant and hash only are written with one value for the rest.
 *
 * 6 % of the rate of row 11's drain, and 6 % of the CPU time of server and database (21 rounds in turns with a server
 * that wrote them row by row): a thousand tasks that end in one turn send three arrays instead of thirteen. */
#include <string.h>

#include "store/postgres/turn.h"

enum { SAME_MIN = 16, SAME_COUNT = 9 };

static void attempt_numbers(const struct attempt *a, int64_t out[SAME_COUNT])
{
    const int64_t all[SAME_COUNT] = { a->number, a->executor, a->started, a->finished, a->exit, a->signal, a->cpu_ms,
        a->max_rss_bytes, a->log_bytes };
    memcpy(out, all, sizeof all);
}

/* Those that have ended are alike in all but task, grant and hash; *out_first: the first of them. */
static bool attempts_alike(const struct attempt *attempts, size_t n, const struct attempt **out_first)
{
    int64_t first[SAME_COUNT], other[SAME_COUNT];
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (!attempts[i].finished)
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

bool pg_attempts_alike_write(struct write *w, const struct attempt *attempts, size_t n)
{
    const struct attempt *first = NULL;
    if (!attempts_alike(attempts, n, &first))
        return false;
    struct pg_args args = { 0 };
    int64_t same[SAME_COUNT];
    struct pg_bulk *b = write_begin(w, "iib");
    for (size_t i = 0; i < n; i++) {
        if (!attempts[i].finished)
            continue;
        bulk_i64(b, attempts[i].task);
        bulk_i64(b, attempts[i].grant);
        bulk_bytes(b, attempts[i].finish_hash, sizeof attempts[i].finish_hash);
    }
    w->full |= !bulk_args(b, &args);
    attempt_numbers(first, same);
    for (size_t i = 0; i < SAME_COUNT; i++)
        arg_i64(&args, same[i]);
    arg_text(&args, str_of(outcome_name(first->outcome)));
    if (!w->full)
        pg_queue(&w->self->pg, SQL_attempt_insert_same, &args);
    return true;
}
