/* lock: what one server at a time does, when a caller asks for it. The row is like a duty's, but its holder is a queue:
 * "HOLDER,WAITER,WAITER"; without a holder ",WAITER". Servers stand in it in the order of turns, so that a holder that
 * gives the lock up hands it to the longest waiter. The holder increments the beat; when that is unchanged for a lease,
 * the next waiter takes the row with the next epoch, and turns refuse what the old holder still sends under its own.
 *
 * Owns how a row changes (engine's thread) and which caller of this process is served when (loop's thread): first come,
 * first served, and the row is given up after each, so that other servers get their turn. A backend's advice only says
 * which server shouldn't join the queue yet, because another one asked before. Never fails; a caller waits for a lock
 * as long as it likes. */
#include <string.h>

#include "base/heap.h"
#include "coord/coord.h"
#include "coord/row.h"

enum plan_kind { PLAN_NOTHING, PLAN_JOIN, PLAN_LEAVE, PLAN_TAKE, PLAN_BEAT, PLAN_GIVE };
struct plan {
    enum plan_kind kind;
    int64_t at; /* boot ms; INT64_MAX: with the next beat, or never */
};

/* --- the queue in the row --- */

static struct str queue_head(struct str queue, struct str *out_waiters)
{
    ptrdiff_t comma = str_index(queue, ',');
    *out_waiters = comma < 0 ? (struct str){ 0 } : str_sub(queue, (size_t)comma + 1, queue.len);
    return comma < 0 ? queue : str_sub(queue, 0, (size_t)comma);
}

/* queue_place: of a waiter, from 0; -1: it doesn't wait. *out_behind: those after it. */
static int queue_place(struct str waiters, struct str name, struct str *out_behind, int *out_n)
{
    struct str rest = waiters, one;
    int place = -1;
    *out_n = 0;
    for (; rest.len > 0 && str_cut(&rest, ',', &one); ++*out_n)
        if (place < 0 && str_eq(one, name)) {
            place = *out_n;
            *out_behind = rest;
        }
    return place;
}

static struct str queue_make(struct arena *arena, struct str holder, struct str waiters)
{
    return waiters.len == 0 ? str_dup(arena, holder) : str_fmt(arena, "%.*s,%.*s", STR_ARG(holder), STR_ARG(waiters));
}

static struct str queue_without(struct arena *arena, struct str waiters, struct str name)
{
    struct str rest = waiters, one, out = { 0 };
    while (rest.len > 0 && str_cut(&rest, ',', &one))
        if (!str_eq(one, name))
            out = out.len == 0 ? one : str_fmt(arena, "%.*s,%.*s", STR_ARG(out), STR_ARG(one));
    return out;
}

bool lock_is_mine(const struct coord *coord, const struct coord_row *row)
{
    struct str waiters;
    return row->mine > 0 && row->mine == row->duty.epoch &&
           str_eq(queue_head(row->duty.holder, &waiters), coord->config.member);
}

/* --- what is to be done with a row --- */

static struct plan plan_of(struct coord *coord, size_t name)
{
    const struct coord_row *row = &coord->rows[name];
    struct str waiters, behind = { 0 }, holder = queue_head(row->duty.holder, &waiters), self = coord->config.member;
    int n, place = queue_place(waiters, self, &behind, &n);
    bool wanted = atomic_load(&row->wanted) && !coord->leaving, was_us = str_eq(holder, self);
    if (lock_is_mine(coord, row))
        return wanted ? (struct plan){ PLAN_BEAT, INT64_MAX } : (struct plan){ PLAN_GIVE, 0 };
    if (!wanted)
        return place >= 0 || was_us ? (struct plan){ PLAN_LEAVE, 0 } : (struct plan){ PLAN_NOTHING, INT64_MAX };
    enum coord_advice advice = row_advice(coord, name);
    bool free = holder.len == 0 || was_us || (advice == COORD_LEAD && coord_absent(coord, holder));
    bool next = place == 0 || n == 0;
    int64_t since = row->seen > row->wanted_at ? row->seen : row->wanted_at;
    bool yields = advice == COORD_FOLLOW || advice == COORD_ASKED;
    int64_t wait =
        yields && place < 0 ? since + COORD_LEASE_MS + COORD_YIELD_MS : 0; /* another server asked before us */
    if (free && next)
        return (struct plan){ PLAN_TAKE, wait };
    if (place < 0 && n < COORD_QUEUE_MAX && (!free || n > 0))
        return (struct plan){ PLAN_JOIN, wait };
    /* A dead holder is waited for one lease, and dead servers ahead of us in the queue for another. */
    return (struct plan){ PLAN_TAKE, row->seen + (free || next ? COORD_LEASE_MS : 2 * COORD_LEASE_MS) };
}

bool lock_decide(
    struct coord *coord, struct arena *arena, size_t name, int64_t boot, bool beats, struct coord_step *out)
{
    struct coord_row *row = &coord->rows[name];
    if (row->wanted_at == 0 && atomic_load(&row->wanted))
        row->wanted_at = boot;
    if (!atomic_load(&row->wanted))
        row->wanted_at = 0;
    struct plan plan = plan_of(coord, name);
    struct str waiters, behind = { 0 }, holder = queue_head(row->duty.holder, &waiters), self = coord->config.member;
    int n, place = queue_place(waiters, self, &behind, &n);
    if (plan.kind == PLAN_NOTHING || (plan.kind == PLAN_BEAT ? !beats : boot < plan.at))
        return false;
    *out = (struct coord_step){ .row = row->duty, .move = COORD_QUEUE, .lock = true };
    if (plan.kind == PLAN_BEAT || plan.kind == PLAN_GIVE) {
        out->move = plan.kind == PLAN_BEAT ? COORD_BEAT : COORD_GIVE;
        out->row.holder = queue_make(arena, plan.kind == PLAN_BEAT ? self : (struct str){ 0 }, waiters);
        out->row.beat++;
    } else if (plan.kind == PLAN_TAKE) {
        out->move = COORD_TAKE;
        /* the servers ahead of us are dead, or will ask again */
        out->row.holder = queue_make(arena, self, place >= 0 ? behind : waiters);
        out->row.beat++;
        out->row.epoch++;
    } else if (plan.kind == PLAN_JOIN) { /* the beat is the holder's to move */
        out->row.holder =
            queue_make(arena, holder, n == 0 ? self : str_fmt(arena, "%.*s,%.*s", STR_ARG(waiters), STR_ARG(self)));
    } else {
        out->row.holder =
            queue_make(arena, str_eq(holder, self) ? (struct str){ 0 } : holder, queue_without(arena, waiters, self));
        out->row.beat += str_eq(holder, self);
    }
    return true;
}

int64_t lock_next(struct coord *coord, size_t name)
{
    struct plan plan = plan_of(coord, name);
    return plan.kind == PLAN_NOTHING || plan.kind == PLAN_BEAT ? INT64_MAX : plan.at;
}

/* --- the callers of this process --- */

static void want(struct coord *coord, size_t name, bool wanted)
{
    if (atomic_exchange(&coord->rows[name].wanted, wanted) != wanted && coord->ops->want != NULL)
        coord->ops->want(coord, name, wanted);
}

void coord_lock(struct coord *coord, size_t name, struct coord_waiter *waiter)
{
    ASSERT(name >= coord->config.n_names - coord->config.n_locks && name < coord->config.n_names);
    waiter->name = name;
    waiter->asks = true;
    waiter->epoch = 0;
    list_append(&coord->rows[name].waiters, &waiter->node);
}

void coord_unlock(struct coord *coord, struct coord_waiter *waiter)
{
    if (!waiter->asks)
        return;
    waiter->asks = false;
    list_remove(&coord->rows[waiter->name].waiters, &waiter->node);
    if (waiter->epoch > 0 || coord->rows[waiter->name].waiters.first == NULL)
        want(coord, waiter->name, false);
}

bool coord_locks_grant(struct coord *coord, int64_t boot)
{
    bool news = false;
    for (size_t k = coord->config.n_names - coord->config.n_locks; k < coord->config.n_names; k++) {
        struct coord_row *row = &coord->rows[k];
        struct coord_waiter *first =
            row->waiters.first ? CONTAINER_OF(row->waiters.first, struct coord_waiter, node) : NULL;
        if (first == NULL || first->epoch > 0)
            continue;
        bool wanted = atomic_load(&row->wanted);
        /* the row that the caller before had is given up */
        if (!wanted && (coord->ops->alone || atomic_load(&row->epoch) == 0)) {
            want(coord, k, true);
            news = wanted = true;
        }
        int64_t epoch = wanted ? coord_epoch(coord, k, boot) : 0;
        if (epoch == 0)
            continue;
        first->epoch = epoch;
        first->granted(first, epoch);
    }
    return news;
}
