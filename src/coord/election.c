/* election: whose a row is, decided from the row, this process's clock and the backend's advice.
 *
 * Owns the seats. Promises that an epoch is taken only by writing the row in a turn, that a process whose beat wasn't
 * written for a lease doesn't call the row its own towards other threads, and that a process which is started anew
 * under the name of the holder takes a new epoch: the one before may be frozen, not dead. */
#include <string.h>

#include "base/plant.h"
#include "coord/coord.h"
#include "coord/seat.h"

static bool is_mine(const struct coord *coord, const struct coord_seat *seat)
{
    if (seat_is_lock(coord, (size_t)(seat - coord->seats)))
        return lock_is_mine(coord, seat);
    return seat->mine > 0 && seat->mine == seat->row.epoch && str_eq(seat->row.holder, coord->config.member);
}

static void seat_take(struct coord_seat *seat, const struct duty *row, int64_t boot)
{
    bool still = seat->row.epoch == row->epoch && seat->row.beat == row->beat && seat->seen;
    if (still && str_eq(seat->row.holder, row->holder))
        return;
    size_t n = row->holder.len < sizeof seat->holder ? row->holder.len : sizeof seat->holder;
    if (n > 0)
        memmove(seat->holder, row->holder.ptr, n);
    seat->row.holder = (struct str){ seat->holder, n };
    seat->row.epoch = row->epoch;
    seat->row.beat = row->beat;
    if (!still) /* who joins the queue of a lock says nothing of its holder */
        seat->seen = boot;
}

void coord_follow(struct coord *coord, const struct duty *rows, size_t n, int64_t boot)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < coord->config.n_names; k++) {
            struct coord_seat *seat = &coord->seats[k];
            if (!str_eq(seat->row.name, rows[i].name))
                continue;
            seat_take(seat, &rows[i], boot);
            if (!is_mine(coord, seat))
                atomic_store(&seat->epoch, 0);
        }
}

/* free_at: when the row may be taken if its beat doesn't move; 0: at once. */
static int64_t free_at(struct coord *coord, const struct coord_seat *seat, enum coord_advice advice)
{
    if (coord->leaving || (PLANT(leader_trusted) && coord->ops->advice != NULL))
        return INT64_MAX;
    bool was_us = seat->mine == 0 && str_eq(seat->row.holder, coord->config.member);
    bool free = seat->row.holder.len == 0 || was_us;
    if (advice == COORD_LEAD && !free)
        free = coord_absent(coord, seat->row.holder);
    if (advice == COORD_FOLLOW)
        return seat->seen + (free ? 0 : COORD_LEASE_MS) + COORD_YIELD_MS;
    return free ? 0 : seat->seen + (PLANT(takeover_late) ? 10000 : COORD_LEASE_MS);
}

size_t coord_decide(struct coord *coord, struct arena *arena, int64_t boot, bool beats, struct coord_step **out)
{
    size_t n = 0;
    if (coord->ops->alone)
        return 0;
    *out = ARENA_ARRAY(arena, struct coord_step, coord->config.n_names + 1);
    for (size_t k = 0; k < coord->config.n_names; k++) {
        struct coord_seat *seat = &coord->seats[k];
        bool mine = is_mine(coord, seat);
        if (seat->seen == 0)
            seat->seen = boot; /* the watch begins */
        if (seat_is_lock(coord, k)) {
            n += lock_decide(coord, arena, k, boot, beats, &(*out)[n]);
            continue;
        }
        if (mine ? !beats : boot < free_at(coord, seat, seat_advice(coord, k)))
            continue;
        struct coord_step *step = &(*out)[n++];
        *step = (struct coord_step){ .row = seat->row,
            .move = mine ? coord->leaving ? COORD_GIVE : COORD_BEAT : COORD_TAKE };
        step->row.holder = coord->leaving ? (struct str){ 0 } : coord->config.member;
        step->row.beat++;
        step->row.epoch += !mine && (!PLANT(epoch_kept) || step->row.epoch == 0);
    }
    return n;
}

void coord_commit(struct coord *coord, const struct duty *rows, size_t n, int64_t boot)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < coord->config.n_names; k++) {
            struct coord_seat *seat = &coord->seats[k];
            if (!str_eq(seat->row.name, rows[i].name))
                continue;
            int64_t before = seat->row.epoch;
            seat_take(seat, &rows[i], boot);
            bool given = !str_eq(rows[i].holder, coord->config.member);
            if (!seat_is_lock(coord, k) || rows[i].epoch != before)
                seat->mine = rows[i].epoch; /* who only queues has taken nothing */
            if (seat_is_lock(coord, k))
                given = !lock_is_mine(coord, seat);
            atomic_store(&seat->until, boot + COORD_LEASE_MS); /* nobody can have seen it before the turn began */
            atomic_store(&seat->epoch, given ? 0 : rows[i].epoch);
        }
}

void coord_turned(struct coord *coord, int64_t boot, int64_t ended)
{
    for (size_t k = 0; k < coord->config.n_names && !coord->ops->alone; k++)
        if (coord->seats[k].seen == boot)
            coord->seats[k].seen = ended;
}

void coord_leave(struct coord *coord)
{
    coord->leaving = true;
}

int64_t coord_next(struct coord *coord)
{
    int64_t next = INT64_MAX;
    for (size_t k = 0; k < coord->config.n_names && !coord->ops->alone; k++) {
        const struct coord_seat *seat = &coord->seats[k];
        int64_t at = INT64_MAX;
        if (seat_is_lock(coord, k))
            at = lock_next(coord, k);
        else if (!is_mine(coord, seat) && seat->seen != 0)
            at = free_at(coord, seat, seat_advice(coord, k));
        next = at < next ? at : next;
    }
    return next;
}

bool coord_holds(struct coord *coord, size_t name)
{
    if (PLANT(leader_trusted) && coord->ops->advice != NULL)
        return seat_advice(coord, name) == COORD_LEAD;
    return coord->ops->alone || is_mine(coord, &coord->seats[name]);
}

int64_t coord_epoch(struct coord *coord, size_t name, int64_t boot)
{
    if (coord->ops->alone || (PLANT(leader_trusted) && seat_advice(coord, name) == COORD_LEAD))
        return 1;
    return boot < atomic_load(&coord->seats[name].until) ? atomic_load(&coord->seats[name].epoch) : 0;
}

bool coord_claims(const struct coord *coord, size_t name)
{
    return coord->ops->alone || atomic_load(&coord->seats[name].epoch) > 0;
}
