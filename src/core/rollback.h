/* rollback: which change sets a rollback takes back, and what becomes of them meanwhile; pure.
 *
 * The members of a rollback are the change sets that it names and those that depend on them, however far. They are
 * fixed in the turn in which the rollback is ready. From then on each member has a row (HOLD_rollback, its key is the
 * rollback's task), whose rank says what is to be done with it. A member that waits stays staged, one that runs is
 * stopped and stays staged then, one that is applied is undone by the rollback's commit. The rollback starts when no
 * member runs; then its members are looked up once more. Its end takes the rows away: if it is done, the waiting
 * members are abandoned and the applied ones are marked; else all go on. */
#ifndef WEIR_CORE_ROLLBACK_H
#define WEIR_CORE_ROLLBACK_H

#include "core/slice.h"

/* Ranks of HOLD_rollback: those that keep the rollback from starting come first. */
enum { MEMBER_RUNS, MEMBER_WAITS, MEMBER_APPLIED, MEMBER_ITSELF };

/* rollback_closure: the members as things are now, the named ones first; stops behind `most` + 1 of them. out_places:
 * NULL, or why each of them is one. */
struct rollback_place {
    bool named;    /* the rollback names it; else: */
    size_t parent; /* the earlier member that it depends on */
    bool overlaps; /* it only has a file of that member */
};
struct node **rollback_closure(
    struct slice *slice, struct node *rollback, size_t most, struct rollback_place **out_places, size_t *out_n);

/* rollback_rank: MEMBER_, what would be done with the change set as a member; below 0: nothing. */
int64_t rollback_rank(struct slice *slice, struct node *node);

/* rollback_ready: no gate is in its way: fixes the members if that wasn't done. True: it may be pending. False: a
 * member runs, or it has more members than it may (then it has failed). */
bool rollback_ready(struct slice *slice, struct node *rollback);

/* rollback_holds: is the task a waiting member of one? */
bool rollback_holds(struct slice *slice, struct node *node);

/* rollback_join: a change set that depends on a member becomes one. */
void rollback_join(struct slice *slice, struct node *node);

/* rollback_moved: the state of a change set has changed: its rows follow, and a rollback whose last running member that
 * was goes on. */
void rollback_moved(struct slice *slice, struct node *node);
void rollback_ended(struct slice *slice, struct node *rollback);

/* rollback_start: it is granted, and nothing else of its target runs: what has become a member since they were fixed is
 * added. Only its first attempt does so. */
void rollback_start(struct slice *slice, struct node *rollback);

/* rollback_undoes: the applied members that nothing has taken back so far, newest first: what the commit undoes. */
struct node **rollback_undoes(struct slice *slice, struct node *rollback, size_t *out_n);

#endif
