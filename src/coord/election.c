/* election: which server holds a row, decided from the row, this process's clock and the backend's advice.
 *
 * Owns the rows. Promises that an epoch is taken only by writing the row in a turn; that a process which hasn't written
 * its beat for a lease no longer reports the row as held to other threads; and that a restarted process takes a new
 * epoch even if the row names it as the holder: the process before it may be frozen, not dead. */
#include <string.h>

#include "base/plant.h"
#include "coord/coord.h"
#include "coord/row.h"

static bool is_mine(const struct coord *coord, const struct coord_row *row)
{
    if (row_is_lock(coord, (size_t)(row - coord->rows)))
        return lock_is_mine(coord, row);
    return row->mine > 0 && row->mine == row->duty.epoch && str_eq(row->duty.holder, coord->config.member);
}

/* row_update: takes over what the store has; a beat that moved is seen at `boot`. */
static void row_update(struct coord_row *row, const struct duty *stored, int64_t boot)
{
    bool still = row->duty.epoch == stored->epoch && row->duty.beat == stored->beat && row->seen;
    if (still && str_eq(row->duty.holder, stored->holder))
        return;
    size_t n = stored->holder.len < sizeof row->holder ? stored->holder.len : sizeof row->holder;
    if (n > 0)
        memmove(row->holder, stored->holder.ptr, n);
    row->duty.holder = (struct str){ row->holder, n };
    row->duty.epoch = stored->epoch;
    row->duty.beat = stored->beat;
    if (!still) /* a server that joins a lock's queue changes the row, but shows nothing about the holder */
        row->seen = boot;
}

void coord_rows_read(struct coord *coord, const struct duty *rows, size_t n, int64_t boot)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < coord->config.n_names; k++) {
            struct coord_row *row = &coord->rows[k];
            if (!str_eq(row->duty.name, rows[i].name))
                continue;
            row_update(row, &rows[i], boot);
            if (!is_mine(coord, row))
                atomic_store(&row->epoch, 0);
        }
}

/* free_at: boot ms at which this server may take the row if its beat doesn't move; 0: at once. */
static int64_t free_at(struct coord *coord, const struct coord_row *row, enum coord_advice advice)
{
    int64_t lease_ms = COORD_LEASE_MS;
    if (PLANT(takeover_late))
        lease_ms = 10000;
    if (PLANT(leader_trusted))
        lease_ms = coord->ops->advice != NULL ? INT64_MAX : lease_ms;
    if (coord->leaving || lease_ms == INT64_MAX)
        return INT64_MAX;
    bool was_us = row->mine == 0 && str_eq(row->duty.holder, coord->config.member);
    bool free = row->duty.holder.len == 0 || was_us;
    if (advice == COORD_LEAD && !free)
        free = coord_absent(coord, row->duty.holder);
    if (advice == COORD_FOLLOW)
        return row->seen + (free ? 0 : COORD_LEASE_MS) + COORD_YIELD_MS;
    return free ? 0 : row->seen + lease_ms;
}

size_t coord_decide(struct coord *coord, struct arena *arena, int64_t boot, bool beats, struct coord_step **out)
{
    size_t n = 0;
    if (coord->ops->alone)
        return 0;
    *out = ARENA_ARRAY(arena, struct coord_step, coord->config.n_names + 1);
    for (size_t k = 0; k < coord->config.n_names; k++) {
        struct coord_row *row = &coord->rows[k];
        bool mine = is_mine(coord, row);
        if (row->seen == 0)
            row->seen = boot; /* from now on its beat is watched */
        if (row_is_lock(coord, k)) {
            n += lock_decide(coord, arena, k, boot, beats, &(*out)[n]);
            continue;
        }
        if (mine ? !beats : boot < free_at(coord, row, row_advice(coord, k)))
            continue;
        struct coord_step *step = &(*out)[n++];
        *step = (struct coord_step){ .row = row->duty,
            .move = mine ? coord->leaving ? COORD_GIVE : COORD_BEAT : COORD_TAKE };
        step->row.holder = coord->leaving ? (struct str){ 0 } : coord->config.member;
        step->row.beat++;
        step->row.epoch += !mine;
        if (PLANT(epoch_kept))
            step->row.epoch = row->duty.epoch > 0 ? row->duty.epoch : step->row.epoch;
    }
    return n;
}

void coord_commit(struct coord *coord, const struct duty *rows, size_t n, int64_t boot)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < coord->config.n_names; k++) {
            struct coord_row *row = &coord->rows[k];
            if (!str_eq(row->duty.name, rows[i].name))
                continue;
            int64_t before = row->duty.epoch;
            row_update(row, &rows[i], boot);
            bool given = !str_eq(rows[i].holder, coord->config.member);
            if (!row_is_lock(coord, k) || rows[i].epoch != before)
                row->mine = rows[i].epoch; /* a server that only joins a lock's queue has taken no epoch */
            if (row_is_lock(coord, k))
                given = !lock_is_mine(coord, row);
            /* counted from the turn's begin: no other server can have seen the beat earlier */
            atomic_store(&row->until, boot + COORD_LEASE_MS);
            atomic_store(&row->epoch, given ? 0 : rows[i].epoch);
        }
}

void coord_turn_ended(struct coord *coord, int64_t boot, int64_t ended)
{
    for (size_t k = 0; k < coord->config.n_names && !coord->ops->alone; k++)
        if (coord->rows[k].seen == boot)
            coord->rows[k].seen = ended;
}

void coord_leave(struct coord *coord)
{
    coord->leaving = true;
}

int64_t coord_next(struct coord *coord)
{
    int64_t next = INT64_MAX;
    for (size_t k = 0; k < coord->config.n_names && !coord->ops->alone; k++) {
        const struct coord_row *row = &coord->rows[k];
        int64_t at = INT64_MAX;
        if (row_is_lock(coord, k))
            at = lock_next(coord, k);
        else if (!is_mine(coord, row) && row->seen != 0)
            at = free_at(coord, row, row_advice(coord, k));
        next = at < next ? at : next;
    }
    return next;
}

bool coord_holds(struct coord *coord, size_t name)
{
    ASSERT(name < coord->config.n_names);
    bool holds = coord->ops->alone || is_mine(coord, &coord->rows[name]);
    if (PLANT(leader_trusted))
        holds = coord->ops->advice != NULL ? row_advice(coord, name) == COORD_LEAD : holds;
    return holds;
}

int64_t coord_epoch(struct coord *coord, size_t name, int64_t boot)
{
    ASSERT(name < coord->config.n_names);
    bool sure = coord->ops->alone;
    if (PLANT(leader_trusted))
        sure = sure || row_advice(coord, name) == COORD_LEAD;
    if (sure)
        return 1;
    return boot < atomic_load(&coord->rows[name].until) ? atomic_load(&coord->rows[name].epoch) : 0;
}

bool coord_claims(const struct coord *coord, size_t name)
{
    return coord->ops->alone || atomic_load(&coord->rows[name].epoch) > 0;
}
