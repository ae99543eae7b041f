/* seat: what election.c (duties) and lock.c (locks) share about rows; private to this room. */
#ifndef WEIR_COORD_SEAT_H
#define WEIR_COORD_SEAT_H

#include "coord/coord.h"

static inline bool seat_is_lock(const struct coord *coord, size_t name)
{
    return name >= coord->config.n_names - coord->config.n_locks;
}

static inline enum coord_advice seat_advice(struct coord *coord, size_t name)
{
    return coord->ops->advice != NULL ? coord->ops->advice(coord, name) : COORD_NO_ADVICE;
}

bool lock_is_mine(const struct coord *coord, const struct coord_seat *seat);
bool lock_decide(
    struct coord *coord, struct arena *arena, size_t name, int64_t boot, bool beats, struct coord_step *out);
/* boot ms at which something is to be done with the row; INT64_MAX: nothing */
int64_t lock_next(struct coord *coord, size_t name);

#endif
