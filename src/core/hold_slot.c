/* hold_slot: semaphores, concurrency keys and the quota of a tenant's running tasks. A task that wants slots takes all
 * of them or queues for all of them (slot); those that it has are its own until it ends (held). */
#include "base/plant.h"
#include "core/hold.h"
#include "core/settle.h"

void slot_changed(struct slice *slice, int64_t slot)
{
    slice_slot_todo(slice, slot);
}

void hold_slot_dropped(struct slice *slice, const struct hold *hold)
{
    slice_slot(slice, hold->key)->waiting--;
    slot_changed(slice, hold->key);
}

void hold_held_dropped(struct slice *slice, const struct hold *hold)
{
    slice_slot(slice, hold->key)->used--;
    slot_changed(slice, hold->key);
}

/* Larger priorities first, then first come first served; the same order in every queue, so that two tasks never wait
 * for each other. */
static int64_t slot_rank(struct slice *slice, const struct node *node)
{
    return ((1000 - node->row.prio) << 52) | (++slice->arrivals & 0xfffffffffffff);
}

struct wants { /* the slots that a task takes, ascending */
    const int64_t *ids;
    size_t n;
};

/* Those of its spec, and where its tenant's running tasks are limited the one that stands for that. */
static struct wants wants_of(struct slice *slice, const struct node *node)
{
    const struct spec *spec = slice_spec(slice, node);
    int64_t quota = slice_lane(slice, node->row.lane)->quota;
    if (!quota)
        return (struct wants){ spec->slots, spec->n_slots };
    int64_t *ids = ARENA_ARRAY(slice->arena, int64_t, spec->n_slots + 1);
    size_t n = 0;
    for (size_t i = 0; i < spec->n_slots && spec->slots[i] < quota; i++)
        ids[n++] = spec->slots[i];
    ids[n++] = quota;
    for (size_t i = n - 1; i < spec->n_slots; i++)
        ids[n++] = spec->slots[i];
    return (struct wants){ ids, n };
}

bool slots_wanted(struct slice *slice, const struct node *node)
{
    return wants_of(slice, node).n > 0;
}

static void slots_take(struct slice *slice, struct node *node, struct wants wants)
{
    for (size_t i = 0; i < wants.n; i++) {
        slice_slot(slice, wants.ids[i])->used++;
        hold_put(slice, node, HOLD_held, wants.ids[i], 0);
    }
}

/* The task takes all its slots or none, and never overtakes a task that has been waiting longer. */
bool slots_get(struct slice *slice, struct node *node)
{
    struct wants wants = wants_of(slice, node);
    bool goes_on = wants.n == 0 || executor_there(slice, node);
    holds_drop(slice, node, goes_on ? HOLD_BIT(executor) : HOLD_BIT(slot) | HOLD_BIT(held));
    if (!goes_on && !hold_has(node, HOLD_executor))
        hold_put(slice, node, HOLD_executor, node->row.class_id, slot_rank(slice, node));
    if (!goes_on)
        return false;
    if (wants.n == 0 || hold_has(node, HOLD_held))
        return true;
    if (hold_has(node, HOLD_slot))
        return false; /* its turn comes through slot_admit */
    bool room = true;
    for (size_t i = 0; i < wants.n; i++) {
        const struct slot *slot = slice_slot_for(slice, node, wants.ids[i]);
        bool first = slot->waiting == 0;
        if (PLANT(slot_overtake))
            first = true;
        room &= first && slot->used < slot->limit;
    }
    if (room) {
        slots_take(slice, node, wants);
        return true;
    }
    int64_t rank = slot_rank(slice, node);
    for (size_t i = 0; i < wants.n; i++) {
        slice_slot(slice, wants.ids[i])->waiting++;
        hold_put(slice, node, HOLD_slot, wants.ids[i], rank);
        slot_changed(slice, wants.ids[i]); /* a larger priority may have put it first, with room for it */
    }
    return false;
}

int64_t slot_reach(const struct slot *slot)
{
    int64_t room = slot->limit - slot->used;
    if (PLANT(limit_overrun))
        room = room < 0 ? 1 : room;
    return room <= 0 ? 0 : room < SLOT_REACH_MAX ? room : SLOT_REACH_MAX;
}

/* May a waiter go? Only if every slot it wants has room left for it after the waiters before it. */
static bool slots_room(struct slice *slice, const struct node *node, struct wants wants)
{
    for (size_t i = 0; i < wants.n; i++) {
        const struct slot *slot = slice_slot(slice, wants.ids[i]);
        size_t reach = (size_t)slot_reach(slot);
        if (!reach || !slice_hold_is_first(slice, HOLD_slot, slot->id, reach, node->row.id))
            return false;
    }
    return true;
}

/* It began to wait before its tenant's running tasks were limited: it isn't in that queue yet. */
static bool quota_unasked(struct slice *slice, const struct node *node)
{
    int64_t quota = slice_lane(slice, node->row.lane)->quota;
    if (!quota)
        return false;
    size_t n;
    const struct hold *holds = slice_holds_of_task(slice, node->row.id, &n);
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind == HOLD_slot && holds[i].key == quota)
            return false;
    return true;
}

static bool slot_admit_one(struct slice *slice, int64_t id)
{
    const struct slot *slot = slice_slot(slice, id);
    size_t reach = (size_t)slot_reach(slot);
    struct hold first[SLOT_REACH_MAX];
    if (PLANT(slot_unwaited))
        return false;
    if (slot->waiting == 0 || reach == 0 || slice->failed)
        return false;
    slice->looks_left--;
    size_t n = slice_holds_first(slice, HOLD_slot, id, reach, first);
    if (PLANT(slot_first_only))
        n = n > 1 ? 1 : n;
    for (size_t k = 0; k < n; k++) {
        struct node *node = slice_find(slice, first[k].task);
        if (!node)
            continue;
        struct wants wants = wants_of(slice, node);
        /* paused since, or its executors are gone, or the clock was set back: it comes back when that is over */
        bool gives_way = gate_closed(slice, node) || !executor_there(slice, node) || quota_unasked(slice, node);
        if (!gives_way && !slots_room(slice, node, wants))
            continue;
        holds_drop(slice, node, HOLD_BIT(slot));
        if (!gives_way)
            slots_take(slice, node, wants);
        task_consider(slice, node);
        return true;
    }
    return false;
}

/* A long queue is admitted in several turns: each waiter that leaves it has put the slot on the list again
 * (holds_drop). Meanwhile no other task can overtake those that wait. */
void slot_admit(struct slice *slice, int64_t id)
{
    while (slice->looks_left > 0 && slot_admit_one(slice, id))
        continue;
}

static void explain_quota(struct explain *x, const struct why_slot *w)
{
    struct why_condition *c = explain_add(x, "quota", w->since ? w->since : x->facts->task.created);
    c->detail = str_fmt(x->arena, "the tenant %.*s has %lld of %lld tasks running or about to; %lld wait before it",
        STR_ARG(w->slot.tenant), (long long)w->slot.used, (long long)w->slot.limit, (long long)w->ahead);
    c->remedy =
        str_fmt(x->arena, "it goes on when one of them ends; tenants.%.*s.quotas.running in weir.yaml is the limit",
            STR_ARG(w->slot.tenant));
}

void hold_slot_explain(struct explain *x)
{
    for (size_t i = 0; i < x->facts->n_slots; i++) {
        const struct why_slot *w = &x->facts->slots[i];
        bool waits = !w->held && w->ahead >= slot_reach(&w->slot), quota = str_eqz(w->slot.name, SLOT_RUNNING);
        if (PLANT(why_slots_late))
            waits &= w->since != 0;
        if (PLANT(why_quota_late))
            waits &= !quota || w->since != 0;
        if (!waits)
            continue;
        struct str name = w->slot.name, prefix = STR(SLOT_KEY);
        if (quota) {
            explain_quota(x, w);
            continue;
        }
        bool concurrency = str_starts(name, prefix);
        if (concurrency)
            name = str_sub(name, prefix.len, name.len);
        struct why_condition *c =
            explain_add(x, concurrency ? "concurrency" : "semaphore", w->since ? w->since : x->facts->task.created);
        c->detail = str_fmt(x->arena, "%s %.*s is taken (%lld of %lld); %lld wait before it",
            concurrency ? "concurrency key" : "semaphore", STR_ARG(name), (long long)w->slot.used,
            (long long)w->slot.limit, (long long)w->ahead);
        if (w->n_holders)
            c->holder = w->holders[0];
        for (size_t k = 1; k < w->n_holders; k++)
            c->holder = str_fmt(x->arena, "%.*s, %.*s", STR_ARG(c->holder), STR_ARG(w->holders[k]));
        c->remedy = w->n_holders ? STR("it is freed when a holder ends") : STR("it is freed in the order of arrival");
    }
}
