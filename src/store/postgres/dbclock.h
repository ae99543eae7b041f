/* dbclock: servers that share a store go by one clock, the database's.
 *
 * Each compares its own wall clock with it when the writer connects and every DBCLOCK_LOOK_MS of turns, and counts on
 * by boot time from there (io/clock.h): a clock that is set in between changes nothing. One that is off by more than
 * two seconds is not believed, which is logged; a smaller difference is left alone: what order needs it, stamps keep
 * (core/slice.h). doc/decisions/0020. */
#ifndef WEIR_STORE_POSTGRES_DBCLOCK_H
#define WEIR_STORE_POSTGRES_DBCLOCK_H

#include <stdint.h>

enum { DBCLOCK_LOOK_MS = 2000 };

/* dbclock_compare: the database said database_ms between asked (boot time) and now. An answer that took long says too
 * little. */
void dbclock_compare(int64_t database_ms, int64_t asked);

#endif
