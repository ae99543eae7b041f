/* why: every reason why a task doesn't run, from rows that were read; pure. */
#ifndef WEIR_CORE_WHY_H
#define WEIR_CORE_WHY_H

#include "base/arena.h"
#include "core/model.h"

enum why_verdict { WHY_RUNNING = 1, WHY_ENDED, WHY_WAITING, WHY_NEVER };

struct why_condition {
    const char *kind;                  /* dependency precursor gap lock, and the words of hold.def */
    struct str detail, holder, remedy; /* holder, remedy: empty: none */
    int64_t since, until;              /* 0: not known */
};

struct why_pred {
    int64_t id;
    struct str key;
    enum task_state state;
    enum edge_kind kind;
    bool fired;      /* cancels: it fired, and counts */
    bool due;        /* cancels: it has not fired yet, its own or one that it will inherit */
    bool lock;       /* after: the archive's lock */
    bool untold;     /* it has ended, and the task hasn't been told yet (HOLD_telling) */
    struct str path; /* of two change sets: one that both have; empty: none is known */
};
enum { WHY_RANGES_MAX = 4 };
struct why_gap {  /* of a task whose revision isn't initialised */
    int64_t rev;  /* the revision that is due; 0: no such task */
    bool missing; /* nobody has told of it */
    bool posted;  /* its revisions are posted: it comes when somebody does so */
    /* what else is missing below the task's revision, ascending */
    struct why_range {
        int64_t first, last;
    } ranges[WHY_RANGES_MAX];
    size_t n_ranges;
    int64_t more; /* so many are missing besides */
    bool unread;  /* there are revisions that weren't looked at */
};
/* one that the task wants; what will be put to an end when the task is ready doesn't count any more in any of it */
struct why_slot {
    struct slot slot;
    bool held;           /* it has it */
    int64_t since;       /* it waits for it; 0: it will when it is ready */
    int64_t ahead;       /* so many wait before it, or would */
    struct str *holders; /* keys of tasks that have it */
    size_t n_holders;
};
struct why_crew {        /* executors that fit the class */
    size_t fit, live;    /* executors that fit; of those, the ones heard lately */
    size_t active, open; /* by their rows; of those that are live */
};
struct why_facts {
    struct task task;
    struct str lane_name;
    struct why_pred *preds;
    size_t n_preds; /* all edges in which the task is the waiter */
    struct why_gap gap;
    const struct lane *lane, *all; /* for pause */
    struct hold *holds;
    const struct str *rollbacks; /* one for each of holds: the key of the rollback that it is for; NULL: not asked */
    size_t n_holds;
    struct why_slot *slots;
    size_t n_slots;                  /* all that it wants */
    const struct task_class *class_; /* NULL: nothing to run */
    struct why_crew crew;
    int64_t ready_ahead;    /* pending tasks before it in its class, -1: not counted */
    enum movetype movetype; /* of a change set; MOVE_NONE: not known */
    struct str applying;    /* of a pending change set: the one of its target that runs; empty: none */
    int64_t applying_since;
    int64_t now;
};
struct why {
    enum why_verdict verdict;
    struct why_condition *conditions;
    size_t n_conditions;
};
/* why_gap_ranges: of `known`, the revisions behind gap->rev and below `end` that were told, newest first: the ranges
 * between them. */
void why_gap_ranges(struct why_gap *gap, const struct revision *known, size_t n_known, int64_t end);

/* For those who add conditions (hold.def): what is known, and what is said so far. */
struct explain {
    const struct why_facts *facts;
    struct arena *arena;
    struct why *out;
    size_t cap;
    bool never; /* it can't run as things are */
};
struct why_condition *explain_add(struct explain *explain, const char *kind, int64_t since);
void why_explain(const struct why_facts *facts, struct arena *arena, struct why *out);

/* class_of_key: what a class's key says of it, its number apart; NULL: the key is empty. */
const struct task_class *class_of_key(struct arena *arena, struct str key, struct task_class *out);
/* class_fits: may an executor with these labels, zone and kinds run tasks of this class? */
bool class_fits(const struct task_class *class_, const struct executor *executor);

#endif
