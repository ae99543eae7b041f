/* served: slots are for tasks that somebody can start. What must hold of that, told from the rows of executors and from
 * what the simulator gave them, not from what servers remember. */
#include "world.h"

/* Is there an active executor that fits it? */
bool task_served(struct world *w, const struct task *task)
{
    MAP_EACH (&w->store->executors, e) {
        const struct executor *row = e->value;
        const struct sim_executor *executor = executor_of(w, row->id);
        if (row->state == EXECUTOR_ACTIVE && executor && executor_fits(w, executor, task))
            return true;
    }
    return false;
}

static bool has(const struct task *task, enum hold_kind kind)
{
    return (task->holds & 1u << kind) != 0;
}

/* A pending task that keeps slots; 0: none. */
int64_t unserved_holds(struct world *w)
{
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (task->state == STATE_P && has(task, HOLD_held) && !task_served(w, task))
            return task->id;
    }
    return 0;
}

/* A task that waits for an executor that is there; 0: none. */
int64_t served_waits(struct world *w)
{
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (has(task, HOLD_executor) && task_served(w, task))
            return task->id;
    }
    return 0;
}

void served_before(struct world *w)
{
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        w->served_before[task->id] = task_served(w, task);
    }
}

static bool held_before(const struct world *w, const struct hold *hold)
{
    for (size_t i = 0; i < w->n_holds_before; i++) {
        const struct hold *was = &w->holds_before[i];
        if (was->kind == HOLD_held && was->key == hold->key && was->task == hold->task)
            return true;
    }
    return false;
}

/* It takes turns, and each of them does its part. */
static void check_going_on(struct world *w, size_t *turns, int64_t task, const char *what)
{
    *turns = task ? *turns + 1 : 0;
    if (*turns > 1)
        MARK(w, served_batches);
    if (!task || several(w))
        return; /* of several: see check_lasting */
    if (w->at->next_turn > w->boot || *turns > 12 + 4 * w->store->n_holds)
        world_fail(w, what, task);
}

void check_served(struct world *w, struct command **commands, size_t n)
{
    const struct memstore *m = w->store;
    bool stood = true; /* who was heard again may have been paused afterwards, in the same turn */
    for (size_t i = 0; i < n; i++)
        stood &= commands[i]->kind != CMD_EXECUTOR_STATE;
    for (size_t i = 0; i < m->n_holds; i++) {
        const struct hold *hold = &m->holds[i];
        const struct task *task = store_task(w, hold->task);
        const struct spec *spec = map_find(&m->specs, (uint64_t)task->spec);
        bool wants = spec->n_slots > 0 || running_slot(w, task->lane);
        if (hold->kind == HOLD_executor) {
            bool gave_back = w->before[task->id].state == STATE_P && w->before[task->id].holds & 1u << HOLD_held;
            MARK(w, executor_waited);
            if (gave_back)
                MARK(w, unserved_gave_back);
            if (task->state != STATE_S || hold->key != task->class_id || !wants)
                world_fail(w, "a task that isn't staged, or wants no slots, waits for an executor", task->id);
        }
        bool before = w->before[task->id].state ? w->served_before[task->id] : task_served(w, task);
        if (stood && hold->kind == HOLD_held && !held_before(w, hold) && !before && !task_served(w, task))
            world_fail(w, "a slot was taken by a task that nobody can start", task->id);
    }
    check_going_on(w, &w->unserved_turns, unserved_holds(w), "a pending task that nobody can start keeps its slots");
    check_going_on(w, &w->waking_turns, served_waits(w), "I10 a task waits for an executor that is there");
}
