/* tells: tasks that wait for a task are told of its end, a batch of them a turn.
 *
 * However many tasks wait, and however far an end propagates (a failure abandons the dependents, and their dependents),
 * one turn follows a batch of edges (core/settle.c, propagate). The end itself is committed with its command; how far
 * its waiters were told is stored as a hold of the ended task (HOLD_telling). So a crash loses nothing: a server that
 * opens the store looks for such holds, and on a shared store the server with the duty `timers` does so once a lease.
 * Until it is told, a waiter waits, and `why` names the reason.
 *
 * What a stopped task leaves to the tasks behind it (core/heirs.h) is handed on with the telling, waiter by waiter;
 * until then the task keeps its place in every order. Such holds have a key of their own (TELLING_HEIRS), so that they
 * are found.
 *
 * A retry works the other way round: tasks that had ended because of the retried task return, a batch a turn, and so do
 * those that had ended because of them. How far this went is stored too (HOLD_returning); the retried task itself goes
 * on meanwhile, so the hold may be of a task in any state. */
#include "core/hold.h"
#include "engine/archives.h"
#include "engine/shared/shared.h"
#include "engine/waiters.h"

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
    if (store->ops->shared && !turn->slice->failed && !store->ops->shared->expect(store, needs, turn->err))
        turn->slice->failed = true;
}

void holds_expect(struct turn *turn, const struct hold *holds, size_t n)
{
    int64_t *tasks = ARENA_ARRAY(turn->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        tasks[i] = holds[i].task;
    if (n > 1)
        expect(turn, &(struct turn_needs){ .tasks = tasks, .n_tasks = n });
}

/* Loads the rows of the waiters that will be told next. Holds are ordered by how far they have told, so mostly either
 * one is under way or many are to begin. */
static void waiters_expect(struct turn *turn, const struct hold *holds, size_t n)
{
    struct store *store = turn->engine->store;
    size_t most = turn->slice->tells_left, n_tasks = 0, n_edges = 0;
    int64_t *tasks = ARENA_ARRAY(turn->arena, int64_t, most + n + 1);
    struct edge *edges = NULL;
    if (!store->ops->shared || n == 0 || turn->slice->failed)
        return;
    while (n_tasks < n && holds[n_tasks].rank == 0)
        n_tasks++;
    for (size_t i = 0; i < n_tasks; i++)
        tasks[i] = holds[i].task;
    if (n_tasks) {
        expect(turn, &(struct turn_needs){ .preds = tasks, .n_preds = n_tasks, .n_edges = most + EDGE_KIND_COUNT });
        return;
    }
    if (!store->ops->load_outs(store, turn->arena, holds[0].task, holds[0].rank, most, &edges, &n_edges, turn->err))
        turn->slice->failed = true;
    for (size_t i = 0; i < n_edges; i++)
        tasks[n_tasks++] = edges[i].waiter;
    expect(turn, &(struct turn_needs){ .tasks = tasks, .n_tasks = n_tasks });
}

/* Returns the dependents of retried tasks, as far as this turn's batch goes. */
static void returns_run(struct turn *turn, struct hold *holds, size_t most)
{
    struct slice *slice = turn->slice;
    size_t n = slice_holds_first(slice, HOLD_returning, 0, most, holds);
    if (slice->tells_left) {
        holds_expect(turn, holds, n);
        waiters_expect(turn, holds, n);
    }
    for (size_t i = 0; i < n && !slice->failed; i++) {
        size_t from = slice->restaged.n;
        struct node *node = slice_find(slice, holds[i].task);
        if (node)
            task_return_rest(slice, node);
        locks_again(turn, from, NULL);
        slice_settle(slice);
    }
    slice->telling |= n == most;
}

/* Tells the waiters of ended tasks, as far as this turn's batch goes. */
static void ends_tell(struct turn *turn, int64_t key, struct hold *holds, size_t most)
{
    struct slice *slice = turn->slice;
    size_t n = slice_holds_first(slice, HOLD_telling, key, most, holds);
    if (slice->tells_left) {
        holds_expect(turn, holds, n);
        waiters_expect(turn, holds, n);
    }
    for (size_t i = 0; i < n; i++) {
        struct node *node = slice_find(slice, holds[i].task);
        if (node)
            task_consider(slice, node);
    }
    slice_settle(slice);
    slice->telling |= n == most;
}

enum { HEIRS_PAGE = 32, HEIRS_GROWTH = 4 };

/* Do tasks that take something over from the stopped one meet the retried task, in the order of its archive or in what
 * is to be cancelled? */
static bool heirs_meet(const struct node *stopped, const struct node *node)
{
    return stopped->row.marks & MARK_CANCELS || (node->row.rev && stopped->row.lane == node->row.lane);
}

/* The place that a task gets by a retry is decided by all edges of its archive, and what is to be cancelled by who was
 * alive at the end of another: what was stopped a moment ago, and has handed on to some of its waiters only, does so to
 * all of them first; and so do those that end by it, of which the next look finds as many as this turn has no room for.
 * So this turn grows with what is left of that; it needs a retry in the same archive before the turns that follow a
 * stop at once are through. */
void heirs_finish(struct turn *turn, const struct node *node)
{
    struct slice *slice = turn->slice;
    size_t most = HEIRS_PAGE, n = most, told = 0;
    while ((n == most || told) && !slice->failed) {
        most *= told ? 1 : HEIRS_GROWTH;
        struct hold *holds = ARENA_ARRAY(turn->arena, struct hold, most);
        n = slice_holds_first(slice, HOLD_telling, TELLING_HEIRS, most, holds);
        if (n && turn->narrow.is)
            turn_widen(turn); /* other servers may tell waiters of the same tasks */
        told = 0;
        for (size_t i = 0; i < n && !slice->failed; i++) {
            struct node *stopped = slice_find(slice, holds[i].task);
            if (!stopped || !heirs_meet(stopped, node))
                continue;
            task_tell_all(slice, stopped);
            told++;
        }
        if (told)
            slice_settle(slice);
    }
}

/* A change set has a smaller place on its paths than what depends on it, and a retry gives it a place behind all. Those
 * that haven't been informed of its end yet would stay before it and wait for it, so all are informed first: then they
 * have failed with it, and come back with it. So for each of those that fail so. */
void dependents_finish(struct turn *turn, struct node *node)
{
    struct slice *slice = turn->slice;
    bool told = node->row.marks & MARK_CHANGESET;
    while (told && !slice->failed) {
        struct walk walk = slice_walk(slice, node);
        told = false;
        for (size_t at = 0; at < walk.n; at++) {
            size_t n;
            const struct edge *outs = slice_outs_others(slice, walk.list[at], EDGE_AFTER, &n);
            for (size_t i = 0; i < n; i++) {
                struct node *waiter = outs[i].kind == EDGE_DEPENDS ? slice_find(slice, outs[i].waiter) : NULL;
                if (waiter && waiter->row.marks & MARK_CHANGESET && state_ended(waiter->row.state))
                    slice_walk_add(&walk, waiter);
            }
        }
        for (size_t at = 0; at < walk.n; at++) {
            if (!hold_has(walk.list[at], HOLD_telling))
                continue;
            if (turn->narrow.is)
                turn_widen(turn);
            task_tell_all(slice, walk.list[at]);
            told = true;
        }
        slice_settle(slice);
    }
}

void tells_run(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct slice *slice = turn->slice;
    size_t most = turn_batch(engine);
    if (!engine->backlog->tells_due || slice->failed)
        return;
    turn->tells_looked = true;
    slice->tells_left = most; /* whatever the commands of this turn have used: they come again and again */
    struct hold *holds = ARENA_ARRAY(turn->arena, struct hold, most);
    slice->telling = false;
    for (int64_t key = TELLING_COUNT; key-- > 0;)
        ends_tell(turn, key, holds, most); /* first the ends of stopped tasks, which hand something on */
    returns_run(turn, holds, most);
}

void tells_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (turn->tells_looked)
        engine->backlog->tells_due = false;
    if (PLANT(tells_forgotten))
        return;
    engine->backlog->tells_due |= turn->slice->telling;
}
