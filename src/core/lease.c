#include "core/lease.h"

#include "base/plant.h"

bool lease_lapsed(int64_t deadline, int64_t now)
{
    return deadline <= now;
}

int64_t silence_begins(int64_t heard, bool poll_open, int64_t lease_ms)
{
    return heard + lease_ms + (poll_open ? lease_ms : 0) + 1;
}

bool poll_is_overtaken(int64_t seq, int64_t newest)
{
    if (PLANT(poll_overtaken))
        return false;
    return seq >= 0 && seq < newest;
}

enum absence absence_of(int64_t seq, int64_t given, bool forgotten, bool named)
{
    bool older = seq < given, same = seq == given;
    if (PLANT(late_poll_believed))
        older = false;
    if (given < 0 || older)
        return ABSENCE_NOTHING;
    if (same && forgotten)
        return ABSENCE_NOTHING; /* a late poll from before the restart: after it the executor counts on from there */
    if (PLANT(no_replay))
        same = false;
    if (same)
        return ABSENCE_RESEND;
    if (PLANT(grant_not_returned))
        return ABSENCE_NOTHING;
    return forgotten || named ? ABSENCE_LOST : ABSENCE_REQUEUE;
}

enum late_renewal late_renewal_of(const struct task *task, int64_t grant)
{
    if (task->grant != grant || (task->state != STATE_P && task->state != STATE_X))
        return LATE_STALE;
    return task->state == STATE_X ? LATE_ALIVE : LATE_LAPSED;
}

bool attempt_revivable(enum outcome outcome, int64_t ran_by, int64_t executor)
{
    return ran_by == executor && outcome == OUTCOME_lost;
}
