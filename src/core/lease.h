/* lease: what time and polls say about a grant and its executor: has a lease lapsed, is an executor silent, what does
 * it mean that a poll doesn't name a grant, or names one late. Functions of plain values, times in boot ms; nothing
 * fails. */
#ifndef WEIR_CORE_LEASE_H
#define WEIR_CORE_LEASE_H

#include "core/model.h"

bool lease_lapsed(int64_t deadline, int64_t now);

/* silence_begins: the first ms at which an executor counts as silent that was last heard at `heard`. An open poll
 * doubles the time. */
int64_t silence_begins(int64_t heard, bool poll_open, int64_t lease_ms);

/* poll_is_overtaken: a poll with a larger number, `newest`, was answered or is open. A poll without a number (below 0)
 * never is, and overtakes none. */
bool poll_is_overtaken(int64_t seq, int64_t newest);

/* absence_of: what it means that poll number `seq` doesn't name a grant that answered poll number `given`. forgotten:
 * the executor may have forgotten since which jobs it started; named: a poll has named the grant before. */
enum absence {
    ABSENCE_NOTHING = 1, /* the poll is older than the grant, or the grant's poll had no number */
    ABSENCE_RESEND,      /* the answer was lost: the grant is sent again */
    ABSENCE_REQUEUE,     /* the executor never had the grant: no attempt is spent */
    ABSENCE_LOST,        /* the job may have begun: the attempt is lost, and counts */
};
enum absence absence_of(int64_t seq, int64_t given, bool forgotten, bool named);

/* late_renewal_of: what becomes of a grant that a poll names and that isn't active, by its task's state and newest
 * grant. */
enum late_renewal {
    LATE_STALE = 1, /* the task went on without it: the executor is to kill the job */
    LATE_ALIVE,     /* it is active after all */
    LATE_LAPSED,    /* nobody else was granted the task since: revived if attempt_revivable */
};
enum late_renewal late_renewal_of(const struct task *task, int64_t grant);
/* attempt_revivable: may this executor go on with an attempt that ended so and that `ran_by` ran? */
bool attempt_revivable(enum outcome outcome, int64_t ran_by, int64_t executor);

#endif
