/* shared: what an engine has only because several servers share a store: what its peers committed (peers.c), the duties
 * that one server is enough for (duties.c), and turns that go beside those of peers (narrow.c). */
#ifndef WEIR_ENGINE_SHARED_SHARED_H
#define WEIR_ENGINE_SHARED_SHARED_H

#include "coord/coord.h"
#include "engine/state.h"

/* Seven of its members are truths apart, not the values of one state: any of them may hold together with any other, and
 * each has its own beginning and end. joined_site is decided once, at the start; went_back stays until the end;
 * peers_about and passed_over say what the last turn met and left; gathers holds within one turn; cancels_left and
 * stale wait for a later turn that does the work (a narrow one may come between). An enum would need all of their
 * combinations. */
struct shared {
    struct coord *coord;
    struct server_row server; /* this one, as its peers see it */
    int64_t beaten;           /* boot ms of its last beat */
    int64_t began;            /* boot ms at which this engine was made */
    /* another server held a duty when this one started; until it hears an executor itself, it trusts that executor's
     * row unless the row says LOST */
    bool joined_site;

    /* up to which it has taken over what peers did; older than engine.head after a narrow turn beside theirs */
    struct store_head taken;
    int64_t own_seq;    /* the last event of a turn of its own behind that; 0: none */
    int64_t own_events; /* and how many it has */
    struct numbers own;
    struct turn *narrow; /* the running turn, if it is narrow */
    bool peers_about;    /* the last turn met what a peer had committed */
    int64_t peers_seen;  /* boot ms of the last turn that did; 0: none */
    int64_t followed;    /* boot ms of the last turn that knew what peers had done; 0: none */
    bool gathers;        /* this turn takes along what comes until it has the store's lock */
    bool cancels_left;   /* a turn that came to nothing has heard from peers of tasks that are to end */
    /* the last turn left pending tasks to peers that may not have taken them: the next is wide */
    bool passed_over;
    int64_t wide_until; /* boot ms */
    bool stale;         /* the store was lost: everything is read again when it is back */
    unsigned reopened;  /* the store's count, of the last turn */
    /* the store was found to be an older copy by this server or a peer, and has taken a new incarnation */
    bool went_back;
};

/* peers.c */
bool peers_follow(struct turn *turn, struct err *err); /* after begin: the turn stands on what is true now */
/* before begin, and for commands that came since */
void needs_expect(struct turn *turn, struct command **commands, size_t n);
bool peers_are_about(const struct engine *engine, int64_t boot); /* a peer has committed lately */
void archive_news_add(struct engine *engine, int64_t lane);      /* 0: any */
void endings_tell(struct turn *turn); /* to polls that wait: which of their jobs are to end */

/* duties.c */
void duties_run(struct turn *turn);
void duties_commit(struct turn *turn);
int64_t duties_next(struct engine *engine);         /* boot ms */
bool duties_elsewhere(const struct engine *engine); /* by the rows; whether their holder lives is seen later */
bool duties_open(struct engine *engine, struct err *err);
bool duty_acts(struct turn *turn, enum duty_kind duty);        /* this server, in this turn */
bool duty_refused(struct turn *turn, struct command *command); /* it was made under an epoch that is over */
struct str duty_text(struct turn *turn, enum duty_kind duty);  /* "NAME, epoch N"; empty: nobody else is there */
bool duties_load(struct turn *turn, struct err *err);

/* narrow.c */
bool turn_can_be_narrow(struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot);
bool commands_are_narrow(struct command **commands, size_t n);         /* as far as they tell */
bool something_due(struct engine *engine, int64_t wall, int64_t boot); /* that only a wide turn does */
/* the commands of a turn tell what comes next */
void turn_noted(struct engine *engine, struct command **commands, size_t n, int64_t boot);
void turn_widen(struct turn *turn);     /* what follows needs a wide turn: a narrow one fails */
int64_t task_number(struct turn *turn); /* of a task that is made */
int64_t spec_number(struct turn *turn);
void numbers_reserve(struct turn *turn, struct store_head *head);
void executor_counted(struct turn *turn, int64_t executor, bool failed);
bool changes_narrow(struct turn *turn); /* false: they aren't */
void narrow_committed(struct turn *turn, const struct store_head *head);
void narrow_undo(struct turn *turn, struct command **commands, size_t n);

#endif
