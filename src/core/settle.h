/* settle: what follows from an end, a new edge or a lifted hold, until nothing more follows; pure.
 *
 * The engine changes something (creates, finishes, cancels, pauses), then calls slice_settle, which carries the
 * consequences through edges, cancels and slots. Work is proportional to what moves, never to what waits, and a turn
 * moves a batch at most (looks_left, tells_left of the slice): what is left stands in the rows, and task_consider of a
 * task with HOLD_telling goes on with it. */
#ifndef WEIR_CORE_SETTLE_H
#define WEIR_CORE_SETTLE_H

#include "core/heirs.h"
#include "core/slice.h"

/* task_consider: the task may be able to go on: it is looked at by slice_settle. */
void task_consider(struct slice *slice, struct node *node);

/* task_end: the task has ended (state D, F, T or A): holds and slots are given back, successors are settled by
 * slice_settle. */
void task_end(
    struct slice *slice, struct node *node, enum task_state to, enum outcome outcome, const struct because *because);

/* task_stop: puts an end to a task that isn't wanted any more (to T or A): at once, or, when it executes, by telling
 * its executor (it is then `ending`). Nothing for one that has ended or is ending. */
void task_stop(struct slice *slice, struct node *node, enum task_state to, const struct because *because);

/* task_pass_on: a dependency that ended otherwise than well takes a waiting task with it: F and T make it F, A makes it
 * A. */
void task_pass_on(struct slice *slice, struct node *waiter, const struct node *dependency);

/* dependency_lost: what depends on it can't run: it has ended otherwise than well, or is a change set that was rolled
 * back. */
bool dependency_lost(struct slice *slice, struct node *pred);

/* task_wait: an executing (or pending) task goes back to S until `until`. */
void task_wait(struct slice *slice, struct node *node, int64_t until, const struct because *because);

/* task_restage: an ended task goes back to S (a retry); so do its dependents that ended because of it, transitively;
 * all counters are recounted from the edges. Dependents are brought back as far as tells_left goes; for the others a
 * hold says how far (HOLD_returning). task_return_rest: goes on with those of such a task, whatever has become of it
 * since. */
void task_restage(struct slice *slice, struct node *node, const struct because *because);
void task_return_rest(struct slice *slice, struct node *node);

/* task_tell_all: informs all waiters of a task with HOLD_telling now, however many there are. */
void task_tell_all(struct slice *slice, struct node *node);

/* task_return: an executing task that didn't come to an end goes back to P, or to S when what it waits for was retried
 * meanwhile. */
void task_return(struct slice *slice, struct node *node, const struct because *because);

/* task_look: an executing change set that is to be `ending`, or may have committed before its executor was lost, goes
 * to P whatever else it waits for: the next grant says whether it is in the repository. */
void task_look(struct slice *slice, struct node *node, enum task_state ending, const struct because *because);

/* task_unhold: what the task waited for besides edges doesn't matter any more. */
void task_unhold(struct slice *slice, struct node *node);

/* task_park: a pending task of a paused lane goes back to S until the lane is resumed. */
void task_park(struct slice *slice, struct node *node);

/* task_unserved: a pending task that holds slots goes back to S and gives them back: no active executor fits it any
 * more. One that holds none, or that somebody fits, stays. */
void task_unserved(struct slice *slice, struct node *node);

/* lane_closed: the lane whose pause keeps this lane's tasks from starting (itself, or `all`), or NULL. */
const struct lane *lane_closed(struct slice *slice, int64_t lane);

/* slot_reach: so many of a slot's first waiters may take it now, if the other slots they want are to be had too: each
 * of them has a unit of its own, so nobody is overtaken. Bounded, so that a long queue of those who also want something
 * else costs little. */
enum { SLOT_REACH_MAX = 16 };
int64_t slot_reach(const struct slot *slot);
void slot_changed(struct slice *slice, int64_t slot); /* there may be room: its waiters are looked at by slice_settle */
void slice_settle(struct slice *slice);

#endif
