/* row: what election.c (duties) and lock.c (locks) both need to know of a row; private to this room. */
#ifndef WEIR_COORD_ROW_H
#define WEIR_COORD_ROW_H

#include "coord/coord.h"

static inline bool row_is_lock(const struct coord *coord, size_t name)
{
    return name >= coord->config.n_names - coord->config.n_locks;
}

static inline enum coord_advice row_advice(struct coord *coord, size_t name)
{
    return coord->ops->advice != NULL ? coord->ops->advice(coord, name) : COORD_NO_ADVICE;
}

bool lock_is_mine(const struct coord *coord, const struct coord_row *row);
bool lock_decide(
    struct coord *coord, struct arena *arena, size_t name, int64_t boot, bool beats, struct coord_step *out);
/* lock_next: boot ms at which this server has to do something with the row; INT64_MAX: nothing to do. */
int64_t lock_next(struct coord *coord, size_t name);

#endif
