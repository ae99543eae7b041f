/* expand: a workflow and a revision become tasks and edges; pure, and total: a workflow that was read without a fault
 * always expands.
 *
 * COMMIT is implicit: after PREV:COMMIT, and every task depends on it. The edge to COMMIT is left out where a `depends`
 * edge to a task of the same revision implies it, as in the Ark document's own DAG. PREV is an `after` edge to the
 * latest earlier revision that has the task
 * ({on: success}: `depends`; none has it: satisfied, also when this workflow doesn't know the name), a name of the same
 * revision is a `depends` edge ({on: finished}, or when the other has allow_failure: `after`).
 *
 * Created by a commit is what has the trigger `commit` and isn't detached, unless it depends on something of its
 * revision that isn't created. Running such a task (`run`) creates it and what is reachable only through it, but not
 * tasks that start alone.
 *
 * A task whose `paths` the revision doesn't touch is created as `skipped`: it keeps its place in the order (PREV), but
 * cancels nobody and takes no lock. For `cancels`, PREV is the latest earlier one that isn't skipped: an unrelated
 * commit must not save or end a build.
 *
 * A task that isn't made because of its unique key takes no lock and implies no edge to COMMIT: who depends on it has
 * its own.
 *
 * Archive locks become `after` edges in the order (revision, depth, place in the files): shared after the last
 * exclusive; exclusive after every shared one since, else after the last exclusive. The state goes in and comes out as
 * a value. */
#ifndef WEIR_CORE_EXPAND_H
#define WEIR_CORE_EXPAND_H

#include "base/arena.h"
#include "core/workflow.h"

struct expand_ref { /* a task of a revision; rev 0: none */
    int64_t rev;
    struct str name;
    int64_t id;  /* of those in the lock that goes in: whatever the caller knows it by, handed back with its edges */
    int64_t run; /* of those: a second run, which no name means */
    bool shared; /* of those: its lock is shared */
};

struct expand_lock {
    struct expand_ref exclusive; /* the last one */
    /* or, if that was stopped while it waited: those that it waited for, and what the shared ones of them wait for, in
     * its place */
    struct expand_ref *before;
    size_t n_before, cap_before;
    struct expand_ref *shared; /* those since, of which any may have ended */
    size_t n_shared, cap_shared;
};

struct expand_input {
    const struct workflow *workflow;
    int64_t rev;
    const int64_t *prevs; /* the revision before; of a git merge, each parent that has a number; none for the first */
    size_t n_prevs;
    /* the latest revision up to `upto` that has the task; 0: none. `ran`: leave out those in which it was skipped */
    int64_t (*earlier)(void *context, struct str name, int64_t upto, bool ran);
    /* does the revision touch one of the task's paths? Asked only of tasks that have some. NULL: yes */
    bool (*touched)(void *context, const struct workflow_task *task);
    /* is the task not made, because another one stands in for it (it has the unique key)? Asked once of every task that
     * is created and isn't skipped, in the order of the files. NULL: no */
    bool (*replaced)(void *context, const struct workflow_task *task);
    /* has the task ended before its revision's turn came? Then it takes no lock: a retry queues for it. Asked of those
     * with a lock. NULL: no */
    bool (*over)(void *context, const struct workflow_task *task);
    void *context;
    struct expand_lock lock;
    const struct str *run; /* not NULL: not a commit, but these tasks are run (by hand, clock or message) */
    size_t n_run;
};

struct expand_task {
    const struct workflow_task *def; /* COMMIT: what was added to it */
    struct str name;
    bool skipped;
    /* not made: it has no edges and takes no lock, and edges that name it lead to the task that stands in for it */
    bool replaced;
    size_t depth; /* longest way to a task that waits for none of its revision, COMMIT aside */
};

struct expand_edge {
    size_t task;             /* the one that waits or cancels: index of a task */
    struct expand_ref other; /* of this revision, or an earlier one */
    enum edge_kind kind;
    bool lock, prev; /* it stands for the archive's lock; it is an order between revisions (PREV) */
    bool needed;     /* `depends` wrote it */
};

struct expansion {
    struct expand_task *tasks; /* COMMIT first (of a commit), then in the order of the files */
    size_t n_tasks;
    struct expand_edge *edges;
    size_t n_edges, cap_edges;
    struct expand_lock lock; /* for the next revision */
};

void expand(const struct expand_input *input, struct arena *arena, struct expansion *out);

#endif
