/* state: what an engine is and what a turn is: for the engine's own files.
 *
 * struct engine outlives a turn. It is made of parts, each with a header of its own; a file includes the headers of the
 * parts it works with. struct turn is one turn's work. Nothing in the parts but caches changes before the commit, and
 * when a commit fails the caches are read again. */
#ifndef WEIR_ENGINE_STATE_H
#define WEIR_ENGINE_STATE_H

#include <stdatomic.h>

#include "base/map.h"
#include "base/plant.h"
#include "core/settle.h"
#include "core/wall.h"
#include "engine/engine.h"

struct archive_work;
struct backlog;
struct cache;
struct grants;
struct health;
struct known_executor;
struct polls;
struct schedules;
struct served;
struct shared;
struct site;
struct slot_lists;
struct space;
struct tokens;

/* counted for metrics; read by other threads */
struct tally {
    _Atomic uint64_t turns, narrow, widened, failed, commands, commits, events, granted, finished, lost;
    _Atomic uint64_t turn_us, commit_us, begin_us;
    _Atomic int64_t running; /* grants that are out */
};

struct engine {
    struct engine_config config;
    struct store *store;
    struct store_head head; /* of the newest commit that this server knows */
    size_t batch, many;
    struct arena arena, turn_arena; /* for the life of the engine; for one turn */
    struct slice slice;             /* kept for its tables' memory */
    struct turn *turn;              /* the running one */
    uint64_t serial;                /* turns opened; marks what this one has listed */
    int64_t arrivals;               /* the last place given to a waiter for a slot */
    int64_t boot;                   /* ms, of the turn */
    int64_t wanted;                 /* boot ms of the turn that was asked for last */
    bool on_loop;                   /* the loop's thread takes this turn: its other clients wait meanwhile */
    bool wrote;                     /* the turn that is being taken has committed something */

    struct cache *cache;         /* cache/cache.h: copies of the small tables */
    struct grants *grants;       /* grants.h: grants that are out, executors heard */
    struct polls *polls;         /* command/command.h: polls that wait */
    struct backlog *backlog;     /* waiters.h: work that turns have left to the next ones */
    struct slot_lists *slots;    /* waiters.h */
    struct served *served;       /* waiters.h */
    struct schedules *schedules; /* archives.h */
    struct site *site;           /* tenants.h */
    struct tokens *tokens;       /* tokens.h */
    struct shared *shared;       /* shared/shared.h: what several servers on one store need */
    struct space *space;         /* health.h */
    struct health *health;       /* health.h */
    struct known_clock *clock;   /* expiry.h; GUARD_heard, for other threads than the turn's */
    struct tally *tally;
    struct engine_thread *thread;
    /* handed over by the thread around turns: takes what has come since the turn began, behind the n commands that it
     * has; how many now. NULL: no thread was started */
    size_t (*gather)(struct engine *engine, struct command **commands, size_t n);

    /* shared with other threads */
    struct guards *guards; /* thread.c: guard_enter */
    _Atomic uint64_t tokens_version, archives_version;
    struct {
        int64_t lanes[ARCHIVE_NEWS_MAX];
        size_t n;
        bool all;
    } archive_news;            /* under GUARD_heard */
    _Atomic int64_t seals_due; /* boot ms by which hashes of logs are noted; INT64_MAX: none waits */
    int64_t load_seen;         /* boot ms at which the machine was asked for its load; the thread's */
};

struct pending_attempt {
    struct attempt attempt;
    bool is_new, removed, ended;
    struct pending_attempt *before; /* of the same task, in this turn; NULL: none */
};

/* the server may give these without asking, up to the end: for narrow turns, and for specs that they make */
struct numbers {
    uint64_t incarnation;
    int64_t turn, turn_end;
    int64_t spec, spec_end;
};

struct narrow_work {
    bool is, widened;   /* widened: the turn has to be taken once more, wide */
    struct numbers own; /* the engine's, after the commit */
    int64_t *numbers;   /* for tasks that it makes */
    size_t n_numbers, numbers_used;
    struct map locked; /* lanes whose archives are its own until it is over */
};

struct claim_work {
    ARRAY(struct command *) polls;   /* this turn's polls that want work */
    ARRAY(struct command *) to_park; /* polls that wait on */
    struct map supplies;             /* pending tasks by class */
    size_t n_were_pending;           /* nodes that had a ready row when the first of them was made */
    bool supplied;                   /* n_were_pending is known */
    size_t n_supplied;               /* of the slice's fresh tasks, those that stand with their class in `supplies` */
    size_t n_parked_tasks;
};

struct turn {
    struct engine *engine;
    struct slice *slice;
    struct arena *arena;
    int64_t wall, boot;
    struct store_head head;
    struct err *err;
    struct changes changes; /* filled as it goes; rows of tasks and attempts at its end (turn_commit) */
    bool begun;             /* it has the store's lock */
    bool logs_away;         /* they couldn't be looked at: it isn't tried again */
    struct narrow_work narrow;
    struct claim_work claims;
    struct archive_work *archives; /* archives.h */

    struct map attempts; /* task -> newest pending_attempt of this turn */
    ARRAY(struct pending_attempt *) attempt_list;
    struct map outputs_of; /* task -> struct str, the newest of those */
    /* logs that the log store has hashed: noted with this turn, or not wanted */
    struct log_sealed *sealed_seen;
    size_t n_sealed_seen;
    struct smap uniques;     /* key -> node, of this turn's */
    struct smap idempotents; /* key text -> struct idempotency, of this turn's */
    struct smap token_names; /* of the turn's new tokens, as events name them */
    size_t executors_looked, classes_looked;
    ARRAY(struct command *) answered;
    ARRAY(struct log_name) sealed;    /* logs that are complete */
    ARRAY(struct log_name) logs_lost; /* whose attempt was given up, where the tenant's logs are limited */
    bool tells_looked;                /* tells_run has */
    uint64_t n_granted, n_finished, n_lost;
    struct server_row server;
    bool beats;      /* this turn moves the server's beat on */
    size_t n_beaten; /* rows of executors that go with it */
    bool ticks;      /* it looks at the wall clock: */
    struct wall_known clock;
    int64_t clock_due;
};

/* turn.c. turn_run: applies commands and what is due, decides, writes. False: nothing was changed, err says why;
 * *n_commands grows by those that came meanwhile. turn_follow: after the commit, the caches. */
void turn_open(struct turn *turn, struct engine *engine, int64_t wall, int64_t boot, struct err *err);
bool turn_run(struct turn *turn, struct command **commands, size_t *n_commands, struct err *err);
bool turn_commit(struct turn *turn, struct err *err);
void turn_follow(struct turn *turn);
void turn_close(struct turn *turn);
/* turn_incarnate: a new incarnation; all fences given out so far are stale. */
void turn_incarnate(struct turn *turn, struct str who, struct str reason);
void turn_stand(struct turn *turn);                           /* on the newest commit that the engine knows */
void turn_answer(struct turn *turn, struct command *command); /* to be answered after the commit */
bool turn_refuse(struct turn *turn, struct command *command, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void turn_executor_changed(struct turn *turn, struct known_executor *executor);
/* turn_read: how a call of the store went, whose fault is in turn->err: the turn fails with it. */
static inline bool turn_read(struct turn *turn, bool ok)
{
    turn->slice->failed |= !ok;
    return ok;
}

/* thread.c. What other threads read while turns go on is changed, and read by them, between enter and leave. The locks
 * themselves are in thread.c: no other file of the engine has one. */
enum guard {
    GUARD_heard,  /* executors (heard, free, running, crews), news of archives, how far the clock is believed */
    GUARD_tokens, /* the tables of tokens */
    GUARD_health, /* its text, and the last jump of the clock */
    GUARD_site,   /* what other threads are told of change sets and targets */
    GUARD_COUNT
};
void guards_open(struct engine *engine);
void guards_release(struct engine *engine);
void guard_enter(const struct engine *engine, enum guard guard);
void guard_leave(const struct engine *engine, enum guard guard);

/* engine.c. engine_anew: everything is read again. engine_recover: the turn came to nothing: what it had put into the
 * caches is forgotten, polls stand as they stood. */
bool engine_anew(struct engine *engine, int64_t boot, struct err *err);
bool engine_recover(struct engine *engine, struct command **commands, size_t n, int64_t boot, struct err *err);

#endif
