/* expiry: what goes by its age, and how far the wall clock is believed (core/wall.h, decision 0018): expiry.c. */
#ifndef WEIR_ENGINE_EXPIRY_H
#define WEIR_ENGINE_EXPIRY_H

#include "engine/state.h"

#define IDEMPOTENCY_MS (INT64_C(31) * 24 * 3600 * 1000)
#define SILENT_MS (INT64_C(30) * 24 * 3600 * 1000)

struct known_clock { /* of the wall clock: known.time was right at this boot ms; due: boot ms of the next look */
    struct wall_known known;
    int64_t boot, due;
};

bool wall_load(struct engine *engine, int64_t boot, struct err *err);
int64_t turn_past(const struct turn *turn); /* by which what is old is removed */
int64_t turn_late(const struct turn *turn); /* from which time limits count */
bool turn_agrees(const struct turn *turn);  /* the wall clock isn't in doubt */
void clock_tick(struct turn *turn);
void expiry_run(struct turn *turn);
void expiry_commit(struct turn *turn);
int64_t expiry_next(const struct engine *engine); /* boot ms */

#endif
