#include "core/verdict.h"

#include <signal.h>

#include "base/err.h"
#include "base/plant.h"

enum { EXIT_SKIPPED = 99, EXIT_PERMANENT = 100, EXIT_TEMPORARY = 111 };

static enum outcome outcome_of(const struct attempt_end *end)
{
    if (end->outcome != OUTCOME_none)
        return end->outcome;
    if (end->signal > 0)
        return end->signal == SIGTERM || end->signal == SIGHUP ? OUTCOME_cancelled : OUTCOME_killed;
    switch (end->exit) {
    case 0:
        return OUTCOME_done;
    case EXIT_SKIPPED:
        return OUTCOME_skipped;
    case EXIT_PERMANENT:
        return OUTCOME_permanent;
    case EXIT_TEMPORARY:
        return OUTCOME_temporary;
    default:
        return OUTCOME_failed;
    }
}

/* How each outcome ends a task when it isn't tried again; which retry bit it needs; whether the next attempt waits. */
static const struct {
    enum task_state to;
    unsigned retry;
    bool wait;
} ends[OUTCOME_COUNT] = {
    [OUTCOME_done] = { STATE_D, 0, false },
    [OUTCOME_skipped] = { STATE_D, 0, false },
    [OUTCOME_failed] = { STATE_F, RETRY_FAILED, true },
    [OUTCOME_permanent] = { STATE_F, 0, false },
    [OUTCOME_temporary] = { STATE_F, RETRY_TEMPORARY, true },
    [OUTCOME_timeout] = { STATE_T, RETRY_TIMEOUT, true },
    [OUTCOME_killed] = { STATE_F, RETRY_KILLED, false },
    [OUTCOME_lost] = { STATE_F, RETRY_LOST, false },
    [OUTCOME_cancelled] = { STATE_T, 0, false },
};

int64_t backoff_ms(int64_t first_ms, int64_t attempts)
{
    int64_t ms = first_ms > 0 ? first_ms : BACKOFF_DEFAULT_MS;
    int64_t cap = ms > BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS; /* a longer first wait was asked for: it stays */
    for (int64_t i = 1; i < attempts && ms < cap; i++)
        ms *= 2;
    return ms < cap ? ms : cap;
}

struct verdict verdict_of(const struct attempt_end *end, const struct spec *spec, int64_t attempts)
{
    enum outcome outcome = outcome_of(end);
    ASSERT(outcome > OUTCOME_none && outcome < OUTCOME_COUNT);
    struct verdict verdict = { .to = ends[outcome].to, .outcome = outcome };
    if (outcome == OUTCOME_cancelled && end->signal == SIGHUP)
        verdict.to = STATE_A;
    bool left = attempts < spec->attempts_max;
    if (PLANT(attempts_unlimited))
        left = true;
    bool again = left && (ends[outcome].retry & spec->retry_on) != 0;
    if (again && ends[outcome].wait) {
        verdict.to = STATE_S;
        verdict.wait_ms = backoff_ms(spec->backoff_ms, attempts);
    } else if (again) {
        verdict.to = STATE_P;
    }
    return verdict;
}
