/* waiters: what waits for slots, executors, resumed lanes and ends of tasks goes on a batch a turn: slots.c, served.c,
 * tells.c. The rest of a batch is work of the next turns. */
#ifndef WEIR_ENGINE_WAITERS_H
#define WEIR_ENGINE_WAITERS_H

#include "engine/state.h"

struct known_executor;

enum {
    /* due holds, resumed and parked tasks, admitted waiters of one turn, unless the configuration says otherwise */
    BATCH = 1000,
    LOOP_LOOKS_MAX = 64, /* admitted waiters of a turn that the loop takes; the engine's thread goes on */
    /* a finish may tell of its end along the 64th part of a batch of edges besides those of its turn */
    TELLS_SHARE = 64,
};

struct backlog {             /* what turns have left to the next ones */
    ARRAY(int64_t) resuming; /* lanes whose parked tasks are being returned */
    ARRAY(int64_t) removing; /* lanes of removed archives, and of targets without one, whose tasks are put to an end */
    bool archives_left;      /* waiting revisions whose gap has closed are still to be opened */
    /* tasks have ended and not all that wait for them know it, or there may be some (tells.c) */
    bool tells_due;
    /* by the hour: the entries of cache.executors (for silence) and cache.classes (is it needed?) at which the next
     * turn goes on; 0: none */
    size_t executors_looked, classes_looked;
    int64_t next_time; /* wall ms of the first time hold; INT64_MAX: none */
    size_t keys_added; /* idempotency keys for which none has been looked for that has expired */
    /* wall less boot, the largest since back-offs were looked at: the wall clock may be set back in small steps */
    int64_t clock_offset;
};
#define OFFSET_UNKNOWN (INT64_MAX / 2) /* of clock_offset: back-offs are looked at again */

struct slot_lists {
    /* those that have room and waiters, as of the last commit: the first of them wait for something else too */
    struct map open;
    /* of concurrency keys with nobody in them, in the order in which they came to it: id -> boot ms + 1 */
    struct map empty;
    struct map left; /* those whose waiters are still to be looked at: the last turn's looks were used up */
    /* boot ms, of a shared store: `open` and waiters for ends were looked at, for what a lost server has left */
    int64_t swept;
};

struct unserved { /* classes have lost the last executor that fits (served.c): */
    bool pass;    /* those of their tasks that wait for slots are still to let others pass */
    bool due;     /* their pending tasks are being looked for, among all that hold slots; the last one seen is: */
    struct hold at;
    bool again; /* and once more from the beginning */
};

struct served {
    struct known_executor **by_class; /* by a class's index: one that is active and fits; NULL: nobody */
    size_t n;
    struct map waking; /* classes served again: the tasks that waited for that are still to go on */
    struct unserved unserved;
};

/* slots.c: waiters for slots, over several turns. */
void slots_admit(struct turn *turn);         /* goes on where the last turn ended */
void slots_admit_all(struct engine *engine); /* the next turn looks at every slot that has room and waiters */
void slots_pass(struct turn *turn);          /* a lane was paused: its waiters let others pass */
void slots_follow(struct turn *turn);        /* after the commit */
void slots_sweep(struct turn *turn);         /* of a shared store: what a lost server has left */
void slots_clear(struct turn *turn);         /* a batch of those with nobody in them goes */
int64_t slot_of_key(struct turn *turn, struct str tenant, struct str key); /* the number of a concurrency key's slot */
int64_t slot_of_name(struct arena *arena, struct str tenant, struct str name); /* and of a tenant's semaphore */

/* tells.c: a turn tells a batch of the waiters of what has ended; the next turns tell the rest. */
size_t turn_batch(const struct engine *engine); /* what a turn does at most of each kind that can grow */
/* rows of their tasks come in one piece, if that saves time */
void holds_expect(struct turn *turn, const struct hold *holds, size_t n);
size_t tells_more(const struct engine *engine); /* edges that a turn may go along for each finish, besides a batch */
/* before a retry: nothing that it meets is half handed on */
void heirs_finish(struct turn *turn, const struct node *node);
void dependents_finish(struct turn *turn, struct node *node);
void tells_run(struct turn *turn);    /* goes on where turns before have stopped */
void tells_follow(struct turn *turn); /* after the commit */

/* served.c: classes that an active executor fits. */
bool class_is_served(const struct engine *engine, int64_t class_id);
void served_class_made(struct engine *engine, const struct task_class *class_);
void served_class_gone(struct engine *engine, const struct task_class *class_);
void served_look(struct engine *engine, struct known_executor *changed); /* its row has changed; NULL: some were lost */
void executor_changed(struct turn *turn, struct known_executor *known);  /* by this turn: its state, or what it fits */
void served_load(struct engine *engine); /* computes everything again, after the rows were reloaded */
void served_drop(struct engine *engine);
bool served_due(const struct engine *engine); /* the next turn has something to do about it, and has to be wide */
void served_run(struct turn *turn);

#endif
