/* coord: who leads, who lives, who holds what, of the servers that share a store.
 *
 * What one server is enough for (a duty: timers, schedules, repositories, retention) is a row of the store with holder,
 * epoch and beat. Rows are read and written in turns, so there is one order of them, and who acts in a turn knows whose
 * the duty is at that moment. The holder moves the beat on; whoever sees it stand still for COORD_LEASE_MS, by its own
 * clock, takes the row with the next epoch. That is the truth with every backend. A backend adds advice: who should
 * take a row that is free, and that a holder is gone before its beat has stood still for long. So a backend that is
 * wrong, late or away costs time, never an epoch.
 *
 * A lock is such a row too, taken when somebody asks for it and given up afterwards; who else wants it queues in the
 * row (lock.c).
 *
 * Backends: alone (a store that is one server's: it holds everything), store (no advice: PostgreSQL's rows are all
 * there is), zookeeper.
 *
 * coord_follow, coord_decide, coord_commit, coord_turned, coord_next and coord_holds belong to the engine's thread,
 * coord_lock, coord_unlock and coord_locks_look to the loop's; the rest may be called by any. Nothing here blocks or
 * logs; only coord_open, coord_start and coord_url_check fail. */
#ifndef WEIR_COORD_COORD_H
#define WEIR_COORD_COORD_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "core/model.h"

enum {
    COORD_BEAT_MS = 1000,  /* between beats of a holder, and of a server's row */
    COORD_LEASE_MS = 2500, /* a beat that stands still for so long: the row is free */
    COORD_YIELD_MS = 1000, /* longer than that waits who is advised to follow */
    COORD_QUEUE_MAX = 8,   /* servers that wait in the row of a lock; more wait outside */
    COORD_HOLDER_MAX = (COORD_QUEUE_MAX + 1) * 101,
    COORD_MEMBERS_MAX = 1000,
    COORD_CONTENT_MAX = 2000, /* bytes */
};

enum coord_advice { COORD_NO_ADVICE, COORD_LEAD, COORD_FOLLOW, COORD_ASKED /* of a lock: there will be some */ };

struct coord_member {
    struct str name, content;
};

struct coord_status {
    const char *kind; /* alone, store, zookeeper */
    bool away;        /* the service can't be asked: rows go by their beats alone */
    int64_t since;    /* wall ms: when that began or ended; 0: it never changed */
    char text[256];   /* away: why */
};

struct coord_config {
    struct str url;    /* zookeeper://HOST:PORT,.../PATH; empty: the store */
    bool alone;        /* nobody else writes to the store */
    struct str member; /* this server's name */
    const char *const *names;
    size_t n_names;     /* of the rows; live as long as the coord */
    struct str auth;    /* USER:PASSWORD, for a service that asks for them; empty: none */
    size_t n_locks;     /* the last of the names: they are locks */
    int64_t session_ms; /* 0: 3000; the service may make more of it */
};

struct coord;
struct coord_ops {
    const char *kind;
    bool alone;
    /* start: from now on `changed` may be called, by any thread, whenever members, advice or status have changed. */
    bool (*start)(struct coord *coord, void (*changed)(void *owner), void *owner, struct err *err);
    void (*close)(struct coord *coord); /* returns when no thread of it is left; frees it */
    void (*tell)(struct coord *coord, struct str content);
    /* of a lock: this server asks for it, or doesn't any more */
    void (*want)(struct coord *coord, size_t name, bool wanted);
    void (*tell_executors)(struct coord *coord, const struct coord_member *list, size_t n);
    bool (*executors)(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
    int64_t (*left)(struct coord *coord, struct str executor);
    enum coord_advice (*advice)(struct coord *coord, size_t name);
    bool (*absent)(struct coord *coord, struct str member); /* true: it surely was there, or should be, and isn't */
    bool (*members)(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
    void (*status)(struct coord *coord, struct coord_status *out);
};

struct coord_seat { /* a row, as it was read or written last */
    struct duty row;
    char holder[COORD_HOLDER_MAX];
    int64_t seen;                 /* boot ms at which its beat moved last; 0: not looked at yet */
    int64_t mine;                 /* the newest epoch that this process took; 0: none */
    _Atomic int64_t epoch, until; /* for other threads: held, until boot ms */
    /* of a lock */
    _Atomic bool wanted;
    int64_t wanted_at;   /* boot ms; 0: not wanted */
    struct list waiters; /* struct coord_waiter, of this process; the loop's */
};

struct coord {
    const struct coord_ops *ops;
    struct coord_config config;
    struct arena arena;
    struct coord_seat *seats; /* by name */
    bool leaving;
};

/* usage: what is wrong with it and how it should be */
bool coord_url_check(struct str url, bool alone, struct err *err);
struct coord *coord_open(const struct coord_config *config, struct err *err);
bool coord_start(struct coord *coord, void (*changed)(void *owner), void *owner, struct err *err);
void coord_close(struct coord *coord); /* NULL: nothing */

/* coord_tell: what onlookers see of this server: a JSON object of at most COORD_CONTENT_MAX bytes. Cheap when nothing
 * has changed. */
void coord_tell(struct coord *coord, struct str content);
/* coord_members: who is there with what content. false: not known; the rows of the store are all there is. */
bool coord_members(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
bool coord_absent(struct coord *coord, struct str member);
/* Executors in the register. coord_tell_executors: all whom this server hears, as JSON objects; one without content
 * stays as it is. Cheap when nothing has changed. coord_executors: of all servers; false: not known. coord_left: boot
 * ms at which the server that heard it took it out; 0: it is there, or nobody knows. */
void coord_tell_executors(struct coord *coord, const struct coord_member *list, size_t n);
bool coord_executors(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
int64_t coord_left(struct coord *coord, struct str executor);
void coord_status(struct coord *coord, struct coord_status *out);

/* --- the rows --- */
void coord_follow(struct coord *coord, const struct duty *rows, size_t n, int64_t boot); /* as the store has them now */
enum coord_move {
    COORD_BEAT,
    COORD_TAKE,
    COORD_GIVE,
    COORD_QUEUE /* of a lock: this server joins or leaves those who wait */
};
struct coord_step {
    struct duty row;
    enum coord_move move;
    bool lock;
};
/* coord_decide: rows to be written by this turn: taken over, and, when `beats`, moved on; after coord_leave given up
 * instead. */
size_t coord_decide(struct coord *coord, struct arena *arena, int64_t boot, bool beats, struct coord_step **out);
/* they are written; boot: of the turn's begin */
void coord_commit(struct coord *coord, const struct duty *rows, size_t n, int64_t boot);
/* coord_turned: the turn that began at `boot` has ended. A row that moved may have been read at its very end, when this
 * process was stopped or had to wait in the middle of it: its watch begins there, or the beat of a holder that is well
 * would seem to stand still. */
void coord_turned(struct coord *coord, int64_t boot, int64_t ended);
/* this server is about to end: the next turn that beats gives up what it holds */
void coord_leave(struct coord *coord);
int64_t coord_next(struct coord *coord); /* boot ms at which a row may be taken if nothing moves; INT64_MAX: none */
bool coord_holds(struct coord *coord, size_t name); /* as of the last follow or commit: in a turn, the truth */
int64_t coord_epoch(struct coord *coord, size_t name, int64_t boot); /* 0: not held, or not sure any more. Any thread */
/* as of the last turn it is held, sure or not any more. Any thread */
bool coord_claims(const struct coord *coord, size_t name);

/* --- locks --- */
struct coord_waiter { /* who asks; kept by the asker until coord_unlock */
    /* it has the lock; what it then does carries the epoch */
    void (*granted)(struct coord_waiter *waiter, int64_t epoch);
    void *owner;
    size_t name; /* private, as the rest */
    bool asks;
    int64_t epoch;
    struct list_node node;
};
/* coord_lock: in line; coord_unlock: out of it, with the lock or without. Both change what the engine's next turn does.
 */
void coord_lock(struct coord *coord, size_t name, struct coord_waiter *waiter);
void coord_unlock(struct coord *coord, struct coord_waiter *waiter);
/* coord_locks_look: after a commit, and after the two above: calls `granted` of who has it now. true: the engine should
 * take a turn. */
bool coord_locks_look(struct coord *coord, int64_t boot);

/* The backends. Each fills ops; coord_open has done the rest. */
struct coord *coord_alone_new(void);
struct coord *coord_store_new(void);
struct coord *coord_zookeeper_new(const struct coord_config *config, struct err *err);

#endif
