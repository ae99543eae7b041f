/* verdict: what the end of an attempt means for its task; pure. INTERFACES.md section 3, 'How a task ends'. */
#ifndef WEIR_CORE_VERDICT_H
#define WEIR_CORE_VERDICT_H

#include "core/model.h"

struct attempt_end {
    int64_t exit, signal; /* -1: not given */
    enum outcome outcome; /* said by the executor or the worker; none: follows from exit and signal */
};
struct verdict {
    enum task_state to; /* D F T A, or P and S: another attempt */
    enum outcome outcome;
    int64_t wait_ms; /* S: how long until the next attempt */
};

enum { BACKOFF_DEFAULT_MS = 5000, BACKOFF_MAX_MS = 5 * 60 * 1000 };

/* attempts: how many have been made, this one included. */
struct verdict verdict_of(const struct attempt_end *end, const struct spec *spec, int64_t attempts);
int64_t backoff_ms(int64_t first_ms, int64_t attempts); /* doubling, capped */

#endif
