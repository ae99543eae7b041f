/* coord: which server leads, which servers live, and which server holds what, where several share a store.
 *
 * Work that one server does for all (a duty: timers, schedules, repositories, retention) has a row in the store with
 * holder, epoch and beat. Rows are read and written in turns, which have one order, so a server that acts in a turn
 * knows who holds the duty at that moment. The holder increments the beat; a server that sees it unchanged for
 * COORD_LEASE_MS, by its own clock, takes the row with the next epoch. The rows are the truth with every backend. A
 * backend only adds advice: which server should take a free row, and that a holder is gone before its lease has
 * expired. So a backend that is wrong, late or away costs time, never an epoch.
 *
 * A lock is such a row too: a server takes it when a caller asks and gives it up afterwards; other servers that want it
 * queue in the row (lock.c).
 *
 * Backends: alone (one server has the store and holds everything), store (PostgreSQL's rows, no advice), zookeeper.
 *
 * coord_rows_read, coord_decide, coord_commit, coord_turn_ended, coord_next and coord_holds belong to the engine's
 * thread, coord_lock, coord_unlock and coord_locks_grant to the loop's; the rest may be called by any. Nothing here
 * blocks or logs; only coord_open, coord_start and coord_url_check fail. */
#ifndef WEIR_COORD_COORD_H
#define WEIR_COORD_COORD_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "core/model.h"

enum {
    COORD_BEAT_MS = 1000,  /* between beats of a holder, and of a server's row */
    COORD_LEASE_MS = 2500, /* a row whose beat is unchanged for so long is free */
    COORD_YIELD_MS = 1000, /* a server that is advised to follow waits this much longer */
    COORD_QUEUE_MAX = 8,   /* servers that wait in the row of a lock; more wait outside */
    COORD_HOLDER_MAX = (COORD_QUEUE_MAX + 1) * 101,
    COORD_MEMBERS_MAX = 1000,
    COORD_CONTENT_MAX = 2000, /* bytes */
};

enum coord_advice {
    COORD_NO_ADVICE,
    COORD_LEAD,
    COORD_FOLLOW,
    COORD_ASKED /* of a lock: the service was asked and hasn't answered yet */
};

struct coord_member {
    struct str name, content;
};

struct coord_status {
    const char *kind; /* alone, store, zookeeper */
    bool away;        /* the service doesn't answer: only beats decide who holds a row */
    int64_t since;    /* wall ms at which `away` last changed; 0: never */
    char text[256];   /* away: why */
};

struct coord_config {
    struct str url;    /* zookeeper://HOST:PORT,.../PATH; empty: the store */
    bool alone;        /* no other server writes to the store */
    struct str member; /* this server's name */
    const char *const *names;
    size_t n_names;     /* of the rows; live as long as the coord */
    struct str auth;    /* USER:PASSWORD, for a service that asks for them; empty: none */
    size_t n_locks;     /* the last of the names: they are locks */
    int64_t session_ms; /* 0: 3000; the service may choose a longer one */
};

struct coord;
struct coord_ops {
    const char *kind;
    bool alone;
    /* start: from now on `changed` may be called, by any thread, whenever members, advice or status have changed. */
    bool (*start)(struct coord *coord, void (*changed)(void *owner), void *owner, struct err *err);
    void (*close)(struct coord *coord); /* returns when no thread of it is left; frees it */
    void (*publish)(struct coord *coord, struct str content);
    /* want: this server asks for a lock, or has stopped asking */
    void (*want)(struct coord *coord, size_t name, bool wanted);
    void (*publish_executors)(struct coord *coord, const struct coord_member *list, size_t n);
    bool (*executors)(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
    int64_t (*executor_left)(struct coord *coord, struct str executor);
    enum coord_advice (*advice)(struct coord *coord, size_t name);
    bool (*absent)(struct coord *coord, struct str member); /* true: the service knows that the member is gone */
    bool (*members)(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
    void (*status)(struct coord *coord, struct coord_status *out);
};

struct coord_row { /* a duty's or lock's row of the store, as this process read or wrote it last */
    struct duty duty;
    char holder[COORD_HOLDER_MAX];
    int64_t seen;                 /* boot ms at which its beat was last seen to change; 0: not read yet */
    int64_t mine;                 /* the newest epoch that this process took; 0: none */
    _Atomic int64_t epoch, until; /* for other threads: the epoch held (0: none), and until which boot ms */
    /* of a lock */
    _Atomic bool wanted;
    int64_t wanted_at;   /* boot ms; 0: not wanted */
    struct list waiters; /* struct coord_waiter, of this process; the loop's */
};

struct coord {
    const struct coord_ops *ops;
    struct coord_config config;
    struct arena arena;
    struct coord_row *rows; /* by name */
    bool leaving;
};

/* coord_url_check: fails with usage, in words that say what is wrong and what a good URL looks like. */
bool coord_url_check(struct str url, bool alone, struct err *err);
struct coord *coord_open(const struct coord_config *config, struct err *err);
bool coord_start(struct coord *coord, void (*changed)(void *owner), void *owner, struct err *err);
void coord_close(struct coord *coord); /* NULL: nothing */

/* coord_publish: sets what the service shows of this server: a JSON object of at most COORD_CONTENT_MAX bytes. Cheap
 * when nothing has changed. */
void coord_publish(struct coord *coord, struct str content);
/* coord_members: the servers that are there, with their content. false: not known; only the store's rows tell. */
bool coord_members(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
bool coord_absent(struct coord *coord, struct str member);
/* Executors in the register. coord_publish_executors: all executors that poll this server, as JSON objects; one without
 * content stays as it is. Cheap when nothing has changed. coord_executors: those of all servers; false: not known.
 * coord_executor_left: boot ms at which its server removed it; 0: it is there, or that isn't known. */
void coord_publish_executors(struct coord *coord, const struct coord_member *list, size_t n);
bool coord_executors(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
int64_t coord_executor_left(struct coord *coord, struct str executor);
void coord_status(struct coord *coord, struct coord_status *out);

/* --- the rows --- */
void coord_rows_read(
    struct coord *coord, const struct duty *rows, size_t n, int64_t boot); /* as the store has them now */
enum coord_move {
    COORD_BEAT,
    COORD_TAKE,
    COORD_GIVE,
    COORD_QUEUE /* of a lock: this server joins or leaves the queue */
};
struct coord_step {
    struct duty row;
    enum coord_move move;
    bool lock;
};
/* coord_decide: the rows that this turn has to write: rows taken over and, with `beats`, the beats of held ones; after
 * coord_leave those are given up instead. */
size_t coord_decide(struct coord *coord, struct arena *arena, int64_t boot, bool beats, struct coord_step **out);
/* coord_commit: the rows of coord_decide are committed; boot: at which the turn began. */
void coord_commit(struct coord *coord, const struct duty *rows, size_t n, int64_t boot);
/* coord_turn_ended: the turn that began at `boot` has ended. If this process was stopped or had to wait in the middle
 * of the turn, it may have read a changed row at the very end. So the lease of such a row counts from the end;
 * otherwise the beat of a healthy holder would seem to stand still. */
void coord_turn_ended(struct coord *coord, int64_t boot, int64_t ended);
/* coord_leave: this server is about to end: the next turn with beats gives up every row that it holds. */
void coord_leave(struct coord *coord);
int64_t coord_next(struct coord *coord); /* boot ms at which a row can be taken if no beat changes; INT64_MAX: none */
bool coord_holds(struct coord *coord, size_t name); /* as of the last read or commit: inside a turn, the truth */
/* coord_epoch: 0: not held, or our own beat is older than a lease. Any thread. */
int64_t coord_epoch(struct coord *coord, size_t name, int64_t boot);
/* coord_claims: held as of the last turn, even if the lease has expired since. Any thread. */
bool coord_claims(const struct coord *coord, size_t name);

/* --- locks --- */
struct coord_waiter { /* a caller that wants a lock; the caller keeps it until coord_unlock */
    /* granted: the caller has the lock; commands that it then sends carry the epoch */
    void (*granted)(struct coord_waiter *waiter, int64_t epoch);
    void *owner;
    size_t name; /* private, as the rest */
    bool asks;
    int64_t epoch;
    struct list_node node;
};
/* coord_lock: queues the caller; coord_unlock: takes it out again, whether it has the lock or not. Both change what the
 * engine's next turn does. */
void coord_lock(struct coord *coord, size_t name, struct coord_waiter *waiter);
void coord_unlock(struct coord *coord, struct coord_waiter *waiter);
/* coord_locks_grant: to be called after a commit and after the two above: calls `granted` of each caller that has its
 * lock now. true: the engine should take a turn. */
bool coord_locks_grant(struct coord *coord, int64_t boot);

/* The backends. Each fills ops; coord_open has done the rest. */
struct coord *coord_alone_new(void);
struct coord *coord_store_new(void);
struct coord *coord_zookeeper_new(const struct coord_config *config, struct err *err);

#endif
