/* hold: the kinds of holds, by the table of hold.def, and what is done with any of them; pure. */
#ifndef WEIR_CORE_HOLD_H
#define WEIR_CORE_HOLD_H

#include "core/slice.h"
#include "core/why.h"

enum hold_role { HOLD_WAITS = 1, HOLD_GATE = 2, HOLD_QUEUED = 4, HOLD_OUTLIVES = 8, HOLD_LASTS = 16 };

struct hold_rule { /* see hold.def */
    const char *name, *words, *lifted, *forced;
    unsigned roles;
    bool (*closed)(struct slice *slice, struct node *node, int64_t *out_key);
    void (*dropped)(struct slice *slice, const struct hold *hold);
    void (*explain)(struct explain *explain);
};

#define HOLD_BIT(name) (1u << HOLD_##name)

/* Bits of all kinds that have a role. */
enum {
#define HOLD(number, name, roles, ...) | (((roles)&HOLD_WAITS) ? 1u << (number) : 0u)
    HOLDS_WAIT = 0u
#include "core/hold.def"
#undef HOLD
    ,
#define HOLD(number, name, roles, ...) | (((roles)&HOLD_GATE) ? 1u << (number) : 0u)
    HOLDS_GATE = 0u
#include "core/hold.def"
#undef HOLD
    ,
#define HOLD(number, name, roles, ...) | (((roles)&HOLD_QUEUED) ? 1u << (number) : 0u)
    HOLDS_QUEUED = 0u
#include "core/hold.def"
#undef HOLD
    ,
#define HOLD(number, name, roles, ...) | (((roles)&HOLD_OUTLIVES) ? 1u << (number) : 0u)
    HOLDS_OUTLIVE = 0u
#include "core/hold.def"
#undef HOLD
    ,
#define HOLD(number, name, roles, ...) | (((roles)&HOLD_LASTS) ? 1u << (number) : 0u)
    HOLDS_LAST = 0u
#include "core/hold.def"
#undef HOLD
    ,
    HOLDS_LOOK =
        HOLDS_WAIT & ~HOLDS_LAST, /* dropped, and put again where they are due, whenever a task is considered */
};

const struct hold_rule *hold_rule(enum hold_kind kind); /* of HOLD_none: nothing */
enum hold_kind hold_of_word(const char *word);          /* whose condition it is in `weir why`; HOLD_none: an edge's */

static inline bool hold_has(const struct node *node, enum hold_kind kind)
{
    return (node->row.holds & (1u << kind)) != 0;
}

void hold_put(struct slice *slice, struct node *node, enum hold_kind kind, int64_t key, int64_t rank);
/* holds_drop: takes all of a task's holds of the kinds in `mask` away; slots it had, or waited for, are looked at
 * again. */
void holds_drop(struct slice *slice, struct node *node, unsigned mask);

/* gates_open: checks every gate again and records a hold for each one that is closed; true: the task may pass.
 * gate_closed: is any gate closed? Records nothing. */
bool gates_open(struct slice *slice, struct node *node);
bool gate_closed(struct slice *slice, struct node *node);

/* hold_slot: semaphores, concurrency keys and the quota of running tasks.
 * slots_wanted: does the task take any? slots_get: takes them, or queues for them; true: it has all. slot_admit: lets
 * waiters go, as far as there is room and the turn may look. */
bool slots_wanted(struct slice *slice, const struct node *node);
bool slots_get(struct slice *slice, struct node *node);
void slot_admit(struct slice *slice, int64_t id);

/* executor_there: could anybody start it? Who can't be started takes no slot from those who can. */
bool executor_there(struct slice *slice, struct node *node);

/* The functions of the table. */
#define HOLD(number, name, ...) \
    bool hold_##name##_closed(struct slice *slice, struct node *node, int64_t *out_key); \
    void hold_##name##_dropped(struct slice *slice, const struct hold *hold); \
    void hold_##name##_explain(struct explain *explain);
#include "core/hold.def"
#undef HOLD

#endif
