/* slice: the rows that one turn touches, and what the turn does to them; pure.
 *
 * Rows come in through `rows` (the store in the server, a model in the simulator) and are kept here once loaded, so
 * that a turn sees its own changes. Nothing is written: the changes are handed over at the end of the turn
 * (slice_changes). A load that fails sets `failed`; from then on what is decided is thrown away by the caller, so
 * nobody need check in between.
 *
 * Every change of a task's state goes through slice_move, which checks the table, counts, and appends the event. */
#ifndef WEIR_CORE_SLICE_H
#define WEIR_CORE_SLICE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "core/model.h"

/* Where rows come from. A function returns false when reading failed (it has set err). */
struct rows {
    void *owner;
    bool (*task)(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err);
    bool (*edges)(
        void *owner, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err);
    /* The first n edges whose predecessor is `pred` and whose waiter's number is above `after`, by waiter. */
    bool (*outs_after)(void *owner, struct arena *arena, int64_t pred, int64_t after, size_t n, struct edge **out,
        size_t *out_n, struct err *err);
    bool (*outs_others)(void *owner, struct arena *arena, int64_t pred, enum edge_kind but, struct edge **out,
        size_t *out_n, struct err *err); /* all but those of that kind */
    const struct spec *(*spec)(void *owner, int64_t id, struct err *err);
    bool (*holds_of)(void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out,
        size_t *out_n, struct err *err);
    bool (*holds_of_task)(
        void *owner, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err);
    const struct lane *(*lane)(void *owner, int64_t id); /* must exist */
    const struct slot *(*slot)(void *owner, int64_t id); /* must exist */
    /* from now on it does; from SLOT_NAMED on */
    void (*slot_open)(void *owner, int64_t id, struct str tenant, const struct spec *spec);
    bool (*class_there)(void *owner, int64_t class_id);
    /* the one that has gone, under another number */
    int64_t (*class_make)(void *owner, int64_t class_id, struct str key);
    bool (*served)(void *owner, int64_t class_id); /* is there an active executor that fits? */
    /* Change sets (core/changeset.h). rank: larger than every rank so far. */
    bool (*changeset)(
        void *owner, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err);
    bool (*changeset_near)(void *owner, struct arena *arena, int64_t lane, bool applied, struct str path, int64_t rank,
        bool after, struct changeset_file *out, bool *out_found, struct err *err);
    int64_t (*rank)(void *owner);
};

struct because {
    struct str actor;
    struct str reason;
    int64_t cause; /* task id; 0: none */
};

struct node {
    struct task row;
    enum task_state was;                 /* state in the store; STATE_NONE: new */
    int64_t was_class, was_prio, was_vt; /* where its ready row stands */
    struct str was_unique;
    bool dirty, in_todo, in_fresh;
    int64_t visit;           /* the walk that saw it last (slice_visit) */
    struct edge *outs, *ins; /* edges that name it as predecessor / in which it waits */
    size_t n_outs, cap_outs, n_ins, cap_ins;
    /* this turn's, while the stored ones aren't loaded: a task may have a million successors */
    struct edge *outs_new;
    size_t n_outs_new, cap_outs_new;
    bool outs_loaded, ins_loaded;
    size_t ins_indexed, outs_indexed;              /* of them, in slice.ins_at and outs_at */
    size_t edges_from;                             /* its first one as the waiter in edges_new, plus one; 0: none */
    struct hold_mark *holds_added, *holds_removed; /* of this turn (hold_queue.c) */
    bool untold;                                   /* it has ended in this turn, and no waiter has been informed yet */
    int64_t told_to;                               /* of one with HOLD_telling: its rank, plus one; 0: not read yet */
    struct changeset *changeset;                   /* core/changeset.h; NULL: not read, or it has none */
    bool changeset_dirty;
};

struct path_change { /* a row of a change set's path, added or removed in this turn */
    struct changeset_file file;
    bool add, undone; /* undone: the turn has taken the change back */
};

struct slice {
    struct arena *arena;
    const struct rows *rows;
    int64_t now, turn;
    int64_t stamp;    /* what is written as the time of this turn: now, or that of the turn before it */
    int64_t v_now;    /* virtual time, of the head */
    int64_t arrivals; /* grows with each new waiter for a slot; ranks them */
    int64_t visits;   /* walks over the edges in this turn */

    struct map nodes, lanes, slots; /* node, lane copy, slot copy by id (slot and lane ids + 1: 0 is a lane) */
    struct map queues;              /* holds by (kind, key), as far as they were read or changed (hold_queue.c) */
    ARRAY(struct node *) fresh;     /* nodes that became P, or another kind of P, in this turn */
    ARRAY(struct node *) endings;   /* executing nodes that are now to end */

    /* nodes that had ended and were taken back to S: those with the archive's lock queue for it again */
    ARRAY(struct node *) restaged;

    ARRAY(struct node *) todo; /* work of slice_settle: ended nodes to propagate, waiting ones to consider */
    /* slots that may have room for a waiter, each once, by name; what is left of them when the looks are used up is the
     * next turn's */
    ARRAY(struct hold_queue *) slots_todo;
    size_t looks_left; /* waiters that this turn may still admit or send away, and slots that it may look at in vain */
    /* edges along which this turn may still inform waiters of an end; later turns inform the others (HOLD_telling) */
    size_t tells_left;
    bool telling; /* somebody is left to be told */

    /* A hash of an edge -> where it stands, of long lists that were searched (slice.c); `changed`: in edges_changed. */
    struct map changed, ins_at, outs_at, new_at;
    size_t new_indexed;
    ARRAY(struct edge) edges_new;
    ARRAY(struct edge) edges_changed;
    ARRAY(struct hold) holds_add;
    ARRAY(struct hold) holds_remove;
    ARRAY(struct event) events;

    struct map paths;                /* rows of change sets' paths that this turn has changed, by path */
    ARRAY(struct path_change) files; /* and in the order of the changes */
    ARRAY(struct node *) changesets; /* whose rows of that table are to be written */
    ARRAY(int64_t) freed;            /* classes of change sets that stopped running in this turn */
    size_t rollback_limit;           /* members that a rollback may have */

    struct err *err;
    bool failed;
};

/* slice_stamp: nothing of this turn is written with an earlier time than that of the turn before. What falls due is
 * decided by `now` all the same. Clocks of servers differ by less than a minute; one that is set back by more was wrong
 * before: it isn't followed. */
static inline void slice_stamp(struct slice *slice, int64_t before)
{
    if (slice->stamp < before && before - slice->stamp <= STAMP_BACK_MAX_MS)
        slice->stamp = before;
}

void slice_init(
    struct slice *slice, struct arena *arena, const struct rows *rows, int64_t now, int64_t turn, struct err *err);
void slice_release(struct slice *slice);

struct node *slice_find(struct slice *slice, int64_t id); /* NULL: no such task */
/* a new task, in Q */
struct node *slice_create(struct slice *slice, const struct task *row, const struct because *because);
struct lane *slice_lane(struct slice *slice, int64_t id); /* this turn's copy, for change */
struct slot *slice_slot(struct slice *slice, int64_t id);
/* that the node wants: may not be there yet */
struct slot *slice_slot_for(struct slice *slice, const struct node *node, int64_t id);
const struct spec *slice_spec(struct slice *slice, const struct node *node);
/* it is about to need its class: made again if it has gone */
void slice_class(struct slice *slice, struct node *node);
void slice_touch(struct slice *slice, struct node *node); /* its row has changed */
void slice_event(struct slice *slice, const struct event *event);
void slice_node_event(struct slice *slice, struct node *node, enum event_kind kind, enum task_state from,
    enum task_state to, const struct because *because);
/* pending, with a place of this turn: what the store says of it is old */
void slice_fresh(struct slice *slice, struct node *node);
void slice_move(struct slice *slice, struct node *node, enum task_state to, const struct because *because);

/* Edges, with this turn's own. slice_edge_add counts it on both ends; the waiter's `waits` grows when it isn't
 * satisfied yet. */
struct edge *slice_outs(struct slice *slice, struct node *node, size_t *out_n);
struct edge *slice_ins(struct slice *slice, struct node *node, size_t *out_n);
/* slice_outs_after: a batch of slice_outs, behind the waiter of that number, by waiter: about n of them, all of each
 * waiter's. *out_more: there are others behind them. They aren't kept: a task may have a million successors. */
struct edge *slice_outs_after(
    struct slice *slice, struct node *node, int64_t after, size_t n, size_t *out_n, bool *out_more);
/* slice_outs_others: those of slice_outs that aren't of that kind; of a task with very many this is less to read. */
struct edge *slice_outs_others(struct slice *slice, struct node *node, enum edge_kind but, size_t *out_n);
/* all waiters up to that number know that it has ended */
int64_t slice_told_to(struct slice *slice, struct node *node);
/* it has ended, and the edge's waiter doesn't know */
bool slice_untold(struct slice *slice, const struct edge *edge, struct node *pred);
/* slice_edge_open: is what the edge stands for still to come, for its waiter? An end of which the waiter hasn't been
 * told is. */
bool slice_edge_open(struct slice *slice, const struct edge *edge, struct node *pred);
void slice_edge_add(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind);
/* an order between revisions */
void slice_edge_add_prev(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind);
void slice_edge_add_as(
    struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind, unsigned flags);
/* an `after` that stands for the archive's lock */
void slice_edge_add_lock(struct slice *slice, struct node *waiter, struct node *pred);
/* an `after` with these flags; if it is there and was spent it counts again */
void slice_edge_again(struct slice *slice, struct node *waiter, struct node *pred, unsigned flags);
/* adds flags */
void slice_edge_flag(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind, unsigned flags);
void slice_edge_unflag(
    struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind, unsigned flags);

/* A walk over edges that comes to each task once: slice_walk begins it with one task, slice_walk_add adds another
 * unless the walk has it.
 */
struct walk {
    struct slice *slice;
    int64_t visit;
    struct node **list;
    size_t n, cap;
};
struct walk slice_walk(struct slice *slice, struct node *first);
void slice_walk_add(struct walk *walk, struct node *node);

/* Holds (hold_queue.c). The lists of changes have gaps until slice_holds_pack. */
void slice_hold_add(struct slice *slice, const struct hold *hold);
void slice_hold_remove(struct slice *slice, const struct hold *hold);
void slice_holds_pack(struct slice *slice); /* before the changes are handed over, and nothing is changed afterwards */
struct hold *slice_holds_of_task(struct slice *slice, int64_t task, size_t *out_n); /* by kind and key */
/* slice_holds_first: the first holds of (kind, key) by (rank, task), at most n; how many there are. Of kinds that are
 * QUEUED. */
size_t slice_holds_first(struct slice *slice, enum hold_kind kind, int64_t key, size_t n, struct hold *out);
/* slice_hold_is_first: is the task's hold among the first n? */
bool slice_hold_is_first(struct slice *slice, enum hold_kind kind, int64_t key, size_t n, int64_t task);

void slice_slot_todo(struct slice *slice, int64_t slot);      /* once, however often it is said */
int64_t slice_slot_next(struct slice *slice);                 /* takes the first by name; there must be one */
int64_t slice_slot_left(const struct slice *slice, size_t i); /* of slots_todo, in no order */

#endif
