/* dbclock: see dbclock.h. */
#include "store/postgres/dbclock.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "io/clock.h"
#include "io/log.h"

enum { APART_MS = 2000, TOGETHER_MS = 1000, STEP_MS = 500, ANSWER_LONG_MS = 400 };

void dbclock_compare(int64_t database_ms, int64_t asked)
{
    static _Atomic bool apart;   /* the database's counts, not our own */
    static _Atomic int64_t from; /* as it was followed last */
    int64_t boot = clock_boot_ms(), own = clock_wall_own_ms() - boot, theirs = database_ms + (boot - asked) / 2 - boot;
    bool was = apart;
    if (boot - asked > ANSWER_LONG_MS)
        return;
    apart = llabs(theirs - own) > (was ? TOGETHER_MS : APART_MS);
    if (!apart || !was || llabs(theirs - from) >= STEP_MS) { /* less may be due to the time that the answer took */
        from = apart ? theirs : own;
        clock_wall_follow(from);
    }
    if (apart && !was)
        log_warn("clock.apart",
            "by_ms=%+" PRId64 " note=\"this machine's clock isn't the database's, by which times go: put it right "
            "(NTP)\"",
            own - theirs);
    else if (was && !apart)
        log_event("clock.together", "note=\"this machine's clock is the database's again\"");
}
