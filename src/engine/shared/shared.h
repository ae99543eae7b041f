/* shared: what an engine needs only because several servers share a store: what its peers committed (peers.c), duties
 * that one server has for the whole site (duties.c), and turns concurrent with those of peers (narrow.c). */
#ifndef WEIR_ENGINE_SHARED_SHARED_H
#define WEIR_ENGINE_SHARED_SHARED_H

#include "coord/coord.h"
#include "engine/state.h"

/* Seven members are independent facts, not values of one state: any of them may be true together with any other, and
 * each begins and ends by itself. joined_site is decided once, at the start; went_back stays true; peers_about and
 * passed_over describe the last turn; gathers is true within one turn; cancels_left and stale wait for a later wide
 * turn that does the work. One enum would need all their combinations. */
struct shared {
    struct coord *coord;
    struct server_row server; /* this one, as its peers see it */
    int64_t beaten;           /* boot ms of its last beat */
    int64_t began;            /* boot ms at which this engine was made */
    /* another server held a duty when this one started; until it hears an executor itself, it trusts that executor's
     * row unless the row says LOST */
    bool joined_site;

    /* peers' commits up to here are in the caches; older than engine.head after a narrow turn concurrent with theirs */
    struct store_head taken;
    int64_t own_seq;     /* the last event of this server's own turn after `taken`; 0: none */
    int64_t own_events;  /* how many events that turn has */
    struct numbers own;  /* the block for its narrow turns */
    struct turn *narrow; /* the running turn, if it is narrow */
    bool peers_about;    /* a peer had committed before the last turn */
    int64_t peers_seen;  /* boot ms of the last turn before which a peer had committed; 0: none */
    int64_t followed;    /* boot ms of the last turn that was up to date with peers; 0: none */
    bool gathers;        /* this turn also takes commands that arrive until it has the store's lock */
    bool cancels_left;   /* a turn that failed had read a peer's cancels: executors are informed by a later turn */
    /* the last turn skipped pending tasks that peers had locked, and may not have taken: the next turn is wide */
    bool passed_over;
    int64_t wide_until; /* boot ms until which all turns are wide */
    bool stale;         /* the store was lost: everything is read again when it is back */
    unsigned reopened;  /* store.reopened as of the last turn */
    /* this server or a peer found that the store is an older copy, and a new incarnation was started */
    bool went_back;
};

/* peers.c */
bool peers_follow(struct turn *turn, struct err *err); /* after the lock is taken: takes over what peers committed */
/* names the rows that the turn will read: before the lock is taken, and again for commands that arrived since */
void needs_expect(struct turn *turn, struct command **commands, size_t n);
bool peers_are_about(const struct engine *engine, int64_t boot); /* a peer has committed lately */
void archive_news_add(struct engine *engine, int64_t lane);      /* the archive changed; 0: any may have */
void endings_tell(struct turn *turn); /* informs parked polls which of their jobs are to end */

/* duties.c */
void duties_run(struct turn *turn);
void duties_commit(struct turn *turn);
int64_t duties_next(struct engine *engine);         /* boot ms */
bool duties_elsewhere(const struct engine *engine); /* a row names a peer as holder, which may be dead */
bool duties_open(struct engine *engine, struct err *err);
bool duty_acts(struct turn *turn, enum duty_kind duty);        /* this server, in this turn */
bool duty_refused(struct turn *turn, struct command *command); /* it was made under an older epoch */
struct str duty_text(struct turn *turn, enum duty_kind duty);  /* "NAME, epoch N"; empty: the store isn't shared */
bool duties_load(struct turn *turn, struct err *err);

/* narrow.c */
bool turn_can_be_narrow(struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot);
bool commands_are_narrow(struct command **commands, size_t n);         /* by their kinds */
bool something_due(struct engine *engine, int64_t wall, int64_t boot); /* work is due that only a wide turn does */
/* remembers what kind of commands arrive: similar ones are likely to follow */
void turn_noted(struct engine *engine, struct command **commands, size_t n, int64_t boot);
void turn_widen(struct turn *turn);     /* a narrow turn fails, to be repeated wide; a wide one goes on */
int64_t task_number(struct turn *turn); /* for a new task */
int64_t spec_number(struct turn *turn);
void numbers_reserve(struct turn *turn, struct store_head *head);
void executor_counted(struct turn *turn, int64_t executor, bool failed);
bool changes_narrow(struct turn *turn); /* false: the changes need a wide turn */
void narrow_committed(struct turn *turn, const struct store_head *head);
void narrow_undo(struct turn *turn, struct command **commands, size_t n);

#endif
