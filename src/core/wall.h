/* wall: how far the wall clock is believed where being wrong destroys something: retention, keys and tokens that
 * expire.
 *
 * A server counts on from the newest confirmed wall time by its boot-time clock. A wall clock that is more than a day
 * away from that is in doubt, whichever is right: it was set wrong, or it was put right, or no server ran for longer
 * than a day. While it is in doubt, what is destroyed goes by the earlier of the two times, and what must not outlive
 * its time by the later. The doubt ends when the wall clock is back, or when servers have run for a day with it, over
 * restarts too, without a further jump: then it is confirmed. */
#ifndef WEIR_CORE_WALL_H
#define WEIR_CORE_WALL_H

#include "core/model.h"

#define WALL_JUMP_MS (INT64_C(24) * 3600 * 1000) /* away from what was counted: in doubt */
#define WALL_STEP_MS \
    (INT64_C(2) * 3600 * 1000) /* set back by no more: schedules fire nothing twice; by more: they count again */
#define WALL_CONFIRM_MS (INT64_C(24) * 3600 * 1000) /* of running: confirmed */

/* In all of them: `passed` is the boot time in ms since known->time was right. */
bool wall_agrees(const struct wall_known *known, int64_t passed, int64_t wall);
/* it is at least so late: for what destroys */
int64_t wall_past(const struct wall_known *known, int64_t passed, int64_t wall);
/* it may be so late: for what has to end */
int64_t wall_late(const struct wall_known *known, int64_t passed, int64_t wall);

/* wall_next: what is known after `passed` ms in which a server has run; 0: it starts. */
struct wall_known wall_next(const struct wall_known *known, int64_t passed, int64_t wall);

#endif
