/* grants: active grants with their leases, and executors with what this server knows of their polls: leases.c,
 * silence.c, crews.c. */
#ifndef WEIR_ENGINE_GRANTS_H
#define WEIR_ENGINE_GRANTS_H

#include "base/heap.h"
#include "base/list.h"
#include "engine/state.h"

struct node;
/* leases.c */
enum task_state look_end(const struct node *node);

struct active_grant {
    struct attempt attempt;
    enum task_state ending;
    bool named;    /* a poll to this server has named it: the job has started */
    bool unread;   /* granted by another server: known from its event; its row is read when needed */
    uint64_t look; /* the poll (polls.looks) that named it last */
    int64_t lane;  /* of its task, and: is that a rollback? Read when it is asked; 0: it wasn't */
    bool rollback;
    struct list_node executor_link; /* in its executor's list */
    struct heap_node deadline;
};

/* never polled this server; polled lately; not lately */
enum crew_place { CREW_UNHEARD, CREW_LIVE, CREW_SILENT, CREW_PLACES };

struct known_executor { /* its row, and what this server knows of its polls */
    struct executor row;
    int64_t heard; /* boot ms; 0: not by this process */
    int64_t free, running;
    struct list active_grants; /* granted to it and not ended */
    /* identifies its records of jobs: a new value means that it may have forgotten jobs it started; 0: not reported */
    uint64_t memory;
    /* boot ms at which another server's row last counted for all its leases; its own word counts only for the grants
     * that it names */
    int64_t told;
    int64_t spoke; /* boot ms at which it polled this server last; 0: never */
    unsigned life; /* registrations: numbers of polls are compared within one */
    bool seq_known;
    int64_t seq; /* of the last poll answered */
    struct command *parked;
    uint64_t listed;  /* the turn (engine.serial) that writes its row */
    uint64_t counted; /* the turn that counts its results, at: */
    size_t counted_at;
    void *texts;        /* holds what the row points to, and: */
    struct str subject; /* NAME, or TENANT/NAME: as events and cache.executor_names have it */
    struct crew *crew;  /* executors that fit the same classes (crews.c), under GUARD_heard; counted there as: */
    enum crew_place place;
    enum executor_state counted_as;
    struct list_node among;  /* of CREW_LIVE */
    struct list_node active; /* in its crew's list of active executors */
    struct heap_node silence;
    struct list_node spoken;
    uint8_t *fits; /* by a class's index: 0 unknown, 1 no, 2 yes */
    size_t n_fits;
};

struct grants {
    struct map active;     /* active_grant by its task */
    struct heap deadlines; /* of active grants */
    struct heap silences;  /* active executors, by the boot ms at which they are checked for silence */
    struct list spoken;    /* of a shared store: executors that polled since their rows were written */
    size_t beats_due;      /* so many of them, from the front, are to be written now */
    bool deaf;             /* this server can't receive polls: no lease lapses in this turn */
    struct smap crews;     /* under GUARD_heard */
};

/* leases.c: attempts. attempt_find: of this turn, of an active grant, or stored; NULL: none */
struct pending_attempt *attempt_find(struct turn *turn, int64_t task, int64_t grant);
struct pending_attempt *attempt_change(struct turn *turn, const struct attempt *attempt);
/* reason: the executor's own words; empty: none */
void attempt_over(struct turn *turn, struct node *node, const struct attempt *attempt, const struct attempt *end_fields,
    struct str reason, const struct because *because);
void attempt_lost(struct turn *turn, struct node *node, const struct attempt *attempt, const struct because *because);
void lease_renew(struct engine *engine, struct active_grant *live, int64_t boot);
void leases_expire(struct turn *turn);
void leases_commit(struct turn *turn); /* after the commit: active grants follow the turn */
bool leases_load(struct engine *engine, int64_t boot, struct err *err);
void leases_count(struct engine *engine); /* how many each executor has, from the active grants */
/* the grant is active from now on */
struct active_grant *active_grant_put(struct engine *engine, const struct attempt *attempt, int64_t boot);
void active_grant_count(struct engine *engine, const struct attempt *attempt, int64_t n); /* GUARD_heard is held */
/* its row; of a grant that another server made it is read first */
const struct attempt *active_grant_read(struct turn *turn, struct active_grant *grant);
/* reads the rows of an executor's grants that other servers made, all at once; unnamed: those the poll doesn't name */
void active_grants_expect(struct turn *turn, const struct known_executor *known, bool unnamed);
void active_grant_forget_any(struct engine *engine, int64_t task);
/* renews the leases of executors that polled this server lately */
void leases_keep(struct engine *engine, int64_t boot);
void leases_watch_anew(struct engine *engine, int64_t boot);

/* silence.c */
void silence_watch(struct engine *engine, struct known_executor *known);  /* its row is new, or it has become active */
void silence_forget(struct engine *engine, struct known_executor *known); /* it is gone */
/* boot ms of the next look; INT64_MAX: none */
int64_t silence_next(const struct engine *engine);
void executors_watch(struct turn *turn); /* marks a batch of silent executors LOST */
/* it polled this server; GUARD_heard is held */
void executor_spoke(struct engine *engine, struct known_executor *known, int64_t boot);
void executors_beat(struct turn *turn); /* writes the rows of a batch of executors that polled */
void beats_commit(struct turn *turn);
int64_t executor_silent_ms(const struct engine *engine); /* silent for longer: not shown as alive */

/* crews.c; GUARD_heard is held but for crew_state, crew_serves and engine_crew */
void crew_join(struct engine *engine, struct known_executor *known); /* its row is new */
void crew_leave(struct engine *engine, struct known_executor *known);
void crew_heard(struct known_executor *known);                        /* `heard` is now */
void crew_state(struct engine *engine, struct known_executor *known); /* its row's state has changed */
/* an active one that fits; NULL: none */
struct known_executor *crew_serves(struct engine *engine, const struct task_class *class_);
void crews_free(struct engine *engine);

#endif
