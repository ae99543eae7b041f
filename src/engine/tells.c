/* tells: those who wait for a task are told when it has ended, a batch of them a turn.
 *
 * However many come after a task, and however far an end goes on (a failure that abandons who depends on it, and who depends on those), one
 * turn goes along a batch of edges (core/settle.c, propagate). The end itself is committed with its command; who isn't told stands in the
 * store, as a hold of the ended task (HOLD_telling) that says how far its waiters know. So nothing is lost with this process: whoever opens
 * the store looks for such holds, and on a shared one the server that has the timers does so once a lease. Until it is told a waiter waits,
 * and `why` says so.
 *
 * A retry the other way round: those who had ended because of the task come back, a batch a turn, and so do those who had ended because of
 * them. What is left stands in the store likewise (HOLD_returning, of a task in whatever state: it goes on meanwhile). */
#include "engine/turn.h"

size_t turn_batch(const struct engine *engine)
{
    return engine->on_loop && engine->batch > LOOP_LOOKS_MAX ? LOOP_LOOKS_MAX : engine->batch;
}

size_t tells_more(const struct engine *engine)
{
    return engine->batch / TELLS_SHARE;
}

static void expect(struct turn *turn, const struct turn_needs *needs)
{
    struct store *store = turn->engine->store;
    if (store->ops->expect && !turn->slice->failed && !store->ops->expect(store, needs, turn->err)) turn->slice->failed = true;
}

void holds_expect(struct turn *turn, const struct hold *holds, size_t n)
{
    int64_t *tasks = ARENA_ARRAY(turn->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) tasks[i] = holds[i].task;
    if (n > 1) expect(turn, &(struct turn_needs){ .tasks = tasks, .n_tasks = n });
}

/* The rows of those who will be told next: holds come by how far they have told, so mostly either one is under way or many are to begin. */
static void waiters_expect(struct turn *turn, const struct hold *holds, size_t n)
{
    struct store *store = turn->engine->store;
    size_t most = turn->slice->tells_left, n_tasks = 0, n_edges = 0;
    int64_t *tasks = ARENA_ARRAY(turn->arena, int64_t, most + n + 1);
    struct edge *edges = NULL;
    if (!store->ops->expect || n == 0 || turn->slice->failed) return;
    while (n_tasks < n && holds[n_tasks].rank == 0) n_tasks++;
    for (size_t i = 0; i < n_tasks; i++) tasks[i] = holds[i].task;
    if (n_tasks) {
        expect(turn, &(struct turn_needs){ .preds = tasks, .n_preds = n_tasks, .n_edges = most + EDGE_KIND_COUNT });
        return;
    }
    if (!store->ops->load_outs(store, turn->arena, holds[0].task, holds[0].rank, most, &edges, &n_edges, turn->err))
        turn->slice->failed = true;
    for (size_t i = 0; i < n_edges; i++) tasks[n_tasks++] = edges[i].waiter;
    expect(turn, &(struct turn_needs){ .tasks = tasks, .n_tasks = n_tasks });
}

/* What was retried brings its dependents back, as far as this turn goes. */
static void returns_run(struct turn *turn, struct hold *holds, size_t most)
{
    struct slice *slice = turn->slice;
    size_t n = slice_holds_first(slice, HOLD_returning, 0, most, holds);
    if (slice->tells_left) {
        holds_expect(turn, holds, n);
        waiters_expect(turn, holds, n);
    }
    for (size_t i = 0; i < n && !slice->failed; i++) {
        size_t from = slice->n_restaged;
        struct node *node = slice_find(slice, holds[i].task);
        if (node) task_return_rest(slice, node);
        locks_again(turn, from, NULL);
        slice_settle(slice);
    }
    slice->telling |= n == most;
}

void tells_run(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct slice *slice = turn->slice;
    size_t most = turn_batch(engine);
    if (!engine->tells_due || slice->failed) return;
    turn->tells_looked = true;
    slice->tells_left = most; /* whatever the commands of this turn have used: they come again and again */
    struct hold *holds = ARENA_ARRAY(turn->arena, struct hold, most);
    slice->telling = false;
    size_t n = slice_holds_first(slice, HOLD_telling, 0, most, holds);
    holds_expect(turn, holds, n);
    waiters_expect(turn, holds, n);
    for (size_t i = 0; i < n; i++) {
        struct node *node = slice_find(slice, holds[i].task);
        if (node) task_consider(slice, node);
    }
    slice_settle(slice);
    slice->telling |= n == most;
    returns_run(turn, holds, most);
}

void tells_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (turn->tells_looked) engine->tells_due = false;
    engine->tells_due |= turn->slice->telling && !PLANT(tells_forgotten);
}
