/* engine: the turn. Commands from everywhere come in through engine_submit, are applied in arrival order in one
 * transaction, and are answered after its one commit; what became ready is granted to waiting polls in the same turn.
 *
 * engine_turn is the whole engine as a function of (store, commands, times): no thread, no clock, no socket; the
 * simulator calls it. engine_start puts threads around it: commands are taken from a queue, by the loop's thread itself
 * before it waits (few and small ones while the store is quick and nobody else's), else by a thread of the engine's;
 * `done` is called on the loop's thread. A refused command has err.code set and has changed nothing. When the store
 * says 'unknown', all commands of the turn are answered outcome_unknown and the process ends, unless the store is
 * shared: then everything is read anew. Parked polls are answered when there is work, a cancel, or their time is over.
 */
#ifndef WEIR_ENGINE_ENGINE_H
#define WEIR_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "base/list.h"
#include "core/model.h"
#include "io/loop.h"
#include "store/logs/logs.h"
#include "store/store.h"
#include "text/conf_site.h"
#include "text/key.h" /* struct fence */

enum command_kind {
    CMD_ENQUEUE = 1,
    CMD_CANCEL,
    CMD_RETRY,
    CMD_PROMOTE,
    CMD_REGISTER,
    CMD_POLL,
    CMD_FINISH,
    CMD_LANE_PAUSE, /* also resume */
    CMD_EXECUTOR_STATE,
    CMD_TOKEN_CREATE,
    CMD_TOKEN_REVOKE,
    CMD_SITE, /* what a configuration says of the keys that all servers go by */
    CMD_ARCHIVE_ADD,
    CMD_ARCHIVE_REMOVE,
    CMD_ARCHIVE_SKIP, /* a gap that will never close */
    CMD_REVISION,     /* a revision is known: from a repository in order, or posted in any order */
    /* what was said late of a revision that is known: in.revision: archive, row.rev, row.txn, cause */
    CMD_CAUSE,
    CMD_RUN,           /* by hand */
    CMD_NOTE,          /* something to be told to the other servers of the store */
    CMD_PRUNE,         /* a batch of old tasks loses its logs, outputs and artifacts */
    CMD_LOG_GROWN,     /* a log has got more bytes though its task isn't executing: they count */
    CMD_CHANGESET,     /* a change set is submitted; a rollback, too */
    CMD_APPROVE,       /* a change set gets its ticket */
    CMD_OUTPUTS,       /* a running attempt says something of itself */
    CMD_ROLLBACK_PLAN, /* what a rollback would take back now; changes nothing */
    CMD_KIND_COUNT
};

struct coord;      /* coord/coord.h */
struct definition; /* engine/definition.h */

/* What one server is enough for, of those that share a store. */
enum duty_kind {
    DUTY_timers,
    DUTY_schedules,
    DUTY_watch,
    DUTY_retention,
    DUTY_COUNT,
    LOCK_config = DUTY_COUNT, /* what one at a time does, when it is asked to: change the site's keys */
    DUTY_AND_LOCK_COUNT
};

#define JOB_ACTOR "task:" /* before a task's id: the actor is its job, by the job's own token */
struct actor {
    struct str name;   /* "token:ci", "uid:0", "executor:node-a" */
    struct str tenant; /* "default" */
};

/* One posted task, checked for form; names of the same call are resolved to indexes already. */
struct task_ref {
    enum edge_kind kind;
    int64_t id;      /* an existing task, or 0: */
    size_t index;    /* position in the same call */
    bool needed;     /* `depends` wrote it */
    struct str path; /* JSON pointer, for the error */
};
struct task_def {
    struct str queue, name;
    enum class_kind kind; /* KIND_NONE: nothing to run, done as soon as it is ready */
    struct str body;      /* JSON object text of what the executor needs: {"command":[...],...} */
    struct str zone, unique, concurrency;
    struct label *labels;
    size_t n_labels; /* ascending by name */
    struct str *semaphores;
    size_t n_semaphores;
    struct task_ref *refs;
    size_t n_refs;
    int64_t prio, not_before;
    int64_t attempts_max, backoff_ms; /* defaults 3, 5000 */
    unsigned retry_on;                /* default RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED */
    struct str path;                  /* "" or "/tasks/3" */
};

/* One submitted change set, its tarball read and checked against its `meta` (INTERFACES.md section 6). */
struct changeset_def {
    struct str target, csid;
    struct str name;  /* of the tarball and of the job file */
    uint8_t hash[32]; /* of the tarball's bytes; all zero: there is none */
    enum movetype movetype;
    int64_t prio, tai;
    struct str files, removed; /* joined by CHANGESET_JOINT */
    struct str *depends;       /* CSIDs; of a rollback: what it takes back */
    size_t n_depends;
    const char *depends_field; /* what a fault of them points to; NULL: dependencies */
    struct str *precursors;    /* that its meta brings */
    size_t n_precursors;
    struct str submitter, ticket;
    struct str body;  /* JSON text of what the executor needs */
    int64_t bytes;    /* of the tarball, which counts as a kept file of its tenant; 0: there is none */
    bool overlapping; /* of a rollback */
    bool again;       /* also if an earlier one with the same content has ended */
    bool check;       /* nothing is made: what would be refused is, else the answer has its precursors */
};

struct rollback_member { /* of a rollback that is only planned */
    struct str csid, submitter, revision;
    int64_t task, rolled_back_by;
    enum task_state state;
    enum movetype movetype;
    int64_t rank;         /* core's rollback_rank */
    bool named, overlaps; /* as core's rollback_place; parent: its number here */
    size_t parent;
};

struct finish_item {
    struct fence fence;
    int64_t exit, signal;                     /* -1: not given */
    enum outcome outcome;                     /* OUTCOME_none: decided by exit and signal */
    struct str outputs;                       /* JSON object text, or empty */
    struct str reason;                        /* what the executor knows of the end besides; empty: nothing */
    struct str revision;                      /* of a change set: what it has become; empty: it isn't applied */
    int64_t cpu_ms, max_rss_bytes, log_bytes; /* -1: not given */
    int64_t log_offset;
    struct str log;       /* the last bytes, or empty */
    uint8_t hash[16];     /* of the item's meaning: same fence and same hash is the same finish */
    bool malformed;       /* the item could not be read: err of result is taken over */
    bool files, unproven; /* it lists files; not all of them were uploaded by this attempt */
    /* answer */
    enum err_code code; /* ERR_none: 200 */
    int64_t task;
    int64_t archive; /* the lane of the archive that has a new revision by it; 0: none */
};

struct renew_item {
    struct fence fence;
};

/* What one answer to a poll may hold. Executors take 64 MiB: a task's own text and what it is told of its dependencies
 * fit in it, whatever else goes back to be asked for again. */
#define GRANTS_BYTES_MAX ((size_t)32 << 20)
#define TASK_BYTES_MAX (GRANTS_BYTES_MAX - ((size_t)1 << 20))
#define NEEDS_BYTES_MAX ((size_t)16 << 20)

struct grant {
    struct task task; /* as granted: name, attempts (this attempt's number), ... */
    struct str lane_name;
    enum lane_kind lane_kind;
    struct fence fence;
    struct str body;      /* spec body */
    bool holds_slots;     /* a slot, the archive's lock, or it is a change set: it is ended before its lease is */
    struct grant_source { /* of an archive's task; kind ARCHIVE_NONE: a queue's */
        enum archive_kind kind;
        struct str url, ident; /* ident: git's commit */
        int64_t prev;          /* 0: none */
    } source;
    struct need { /* what `depends` names */
        struct task task;
        struct str lane_name;
        enum lane_kind lane_kind;
        bool by_id, on_success;
        int64_t exit, signal; /* of its last attempt; -1: none */
        struct str outputs;   /* as finish_item has them */
        bool left;            /* they are too large together (NEEDS_BYTES_MAX): not here */
    } * needs;
    size_t n_needs;
    struct grant_apply *apply; /* of a change set; NULL: it is none, or is being cancelled since its target is gone */
    struct undo {              /* of a rollback: the applied change sets that it takes back, newest first */
        struct str csid, revision;
    } * undoes;
    size_t n_undoes;
};
/* What the executor of a change set needs besides `body` and `undoes`. */
struct grant_apply {
    struct str target, csid, name; /* name: of the tarball */
    enum movetype movetype;
    struct str submitter, ticket, approver;
    int64_t approved; /* when, by the approver; 0: it has none */
    struct str base;  /* the oldest revision that an attempt of it has recorded; empty: none has */
    bool look;        /* it ends otherwise, unless it is in the repository already: that is to be looked for alone */
    struct {          /* the target's archive, and where in it */
        struct str name, url, branch, path;
        enum archive_kind kind;
    } archive;
    const struct str *program; /* the target's `apply`; none: it is committed to the archive */
    size_t n_program;
    int64_t timeout_ms; /* the target's, of one attempt; 0: none */
    struct changeset_limits limits;
};
struct cancel_order {
    struct fence fence;
    const char *signal; /* TERM HUP KILL */
    int64_t stop_ms;    /* how long after it KILL follows; 0: as long as the executor gives its jobs (grace) */
    bool stale;         /* reason: stale_fence */
};

struct enqueued { /* what was created, or found by its unique key */
    struct task task;
    struct str lane_name;
    bool existing;
};

struct command {
    enum command_kind kind;
    struct actor actor;
    int64_t token;       /* the id of the token it was asked with: refused when that was revoked meanwhile; 0: none */
    bool admin;          /* may speak for executors that others have registered */
    struct arena *arena; /* lives until done returns; answers are put there */
    void (*done)(struct command *command);
    void *owner;

    struct { /* on commands that create: empty key: none */
        struct str key, route;
        uint8_t body_hash[16];
    } idempotency;

    struct {
        enum duty_kind duty;
        int64_t epoch;
    } under; /* what it is part of; epoch 0: nobody's duty */

    union {
        struct {
            struct task_def *defs;
            size_t n_defs;
        } enqueue;
        struct {
            int64_t task;
            struct str reason;
            bool force;
        } task; /* cancel, retry, promote */
        /* memory: what its records of jobs live as long as; empty: not told */
        struct {
            struct executor executor;
            struct str memory;
        } reg;
        struct {
            int64_t executor, free, ahead, wait_ms, seq; /* ahead: of free, beyond its slots; seq -1: none */
            struct renew_item *renew;
            size_t n_renew;
            struct finish_item *finishes;
            size_t n_finishes;
            int64_t seen_seq; /* the highest event seq the executor has seen, in that incarnation; 0: none */
            uint64_t seen_incarnation;
        } poll;
        struct {
            struct finish_item *items;
            size_t n_items;
        } finish;
        struct {
            struct str lane;
            struct str reason;
            bool pause;
        } pause; /* lane "all": everything */
        struct {
            int64_t executor;
            enum executor_state state;
            struct str reason;
        } executor_state;
        /* hash, name, scopes, tenant, expires set; seed: kept */
        struct {
            struct token token;
            uint64_t seed[2];
        } token_create;
        struct {
            struct str name;
        } token_revoke;
        struct {
            struct site_conf conf;
            struct str file; /* its name, for faults */
            bool dry_run, from_file;
        } site;
        struct {
            struct str name;
            struct archive archive;
        } archive_add; /* kind, url, branch, first (0: 1), tip */
        struct {
            struct str name;
            int64_t rev;
            struct str reason;
        } archive; /* remove, skip */
        struct {
            struct str archive;
            /* rev, ident, txn, author, message, time, prevs (none: the revision before) */
            struct revision row;
            struct str cause; /* the key of the task whose job made it, or empty */
            /* NULL: no workflow: only COMMIT. The command keeps a reference until done */
            struct definition *definition;
            /* by index of the definition's tasks: does it touch the task's paths? NULL: all */
            const bool *touched;
            bool rewritten; /* git: the tip before isn't an ancestor of this one */
        } revision;
        struct {
            struct str archive, task;
            int64_t rev;                   /* 0: the newest initialised one */
            struct str params, reason;     /* JSON object text, or empty */
            struct definition *definition; /* of that revision */
        } run;
        struct {
            int64_t task, grant, bytes;
        } log; /* bytes: that are stored of it */
        struct {
            struct changeset_def def;
        } changeset; /* submit, plan */
        struct {
            struct str csid, ticket;
        } approve;
        struct {
            struct fence fence;
            struct str text; /* JSON object of texts */
            bool own;        /* its job says it itself */
        } outputs;
        struct {
            struct str text;
        } note; /* begins with a letter; at most NOTE_MAX bytes */
        struct {
            int64_t before;  /* tasks that ended earlier than this */
            int64_t after;   /* go on behind this id; 0: from the first */
            int64_t newest;  /* as the batch before this one found it; 0: it is the first */
            struct str lane; /* only of this archive or queue; empty: all */
            bool dry_run;
        } prune;
    } in;

    /* the answer */
    struct err err; /* code ERR_none: done */
    int status;     /* 2xx that goes with it */
    bool replay;    /* an idempotency key brought an earlier answer back */
    union {
        struct {
            struct enqueued *tasks;
            size_t n_tasks;
        } enqueue;
        struct {
            int64_t id, lease_ms;
        } reg;
        struct {
            struct grant *grants;
            size_t n_grants;
            size_t grant_bytes; /* of all grants, about */
            struct cancel_order *cancels;
            size_t n_cancels;
            enum executor_state state;
            int64_t lease_ms, head_seq;
            uint64_t incarnation; /* in which head_seq was */
        } poll;
        struct {
            int64_t id, created, expires;
            uint64_t seed[2];
        } token_create; /* as they were the first time */
        struct {
            struct archive archive;
        } archive; /* add, remove, skip: as it is then */
        /* as it is kept; rev 0: nothing is (it is below the archive's first) */
        struct {
            struct revision row;
        } revision;
        struct {
            int64_t task;
        } run;
        struct {
            int64_t task;
            struct str csid;
            bool existing;
            struct str *precursors; /* CSIDs, of a check */
            size_t n_precursors;
        } changeset; /* submitted, approved */
        struct {
            struct rollback_member *members;
            size_t n, limit; /* more than `limit`: it would fail; then not all of them are here */
        } plan;
        struct {
            struct site_key before[SITE_KEYS], after[SITE_KEYS];
        } site;
        /* after, newest: of the next batch; after 0: that was all */
        struct {
            int64_t tasks, log_bytes, after, newest;
        } prune;
    } out;

    /* polls: the caller sets it when nobody waits for the answer any more; nothing is granted to it then */
    _Atomic bool gone;
    struct list_node node;        /* private: the engine's queues */
    int64_t deadline;             /* private: parked polls */
    struct heap_node due;         /* private: parked polls */
    struct known_executor *known; /* private: whose a parked poll is */
    bool answered;                /* private: by the running turn */
    unsigned life;                /* private: polls: of the executor, when it came */
    int64_t revived;              /* private: polls: lapsed grants that it has taken up again in this turn */
    bool limited; /* private: polls: it says that more is free than its executor's slots leave room for */
};

struct engine_config {
    struct store *store;
    struct logs *logs; /* NULL in simulation */
    int64_t lease_ms;  /* 15000 */
    /* numbers of turns that a server that isn't alone takes at a time; 0: 2000; the simulator takes fewer */
    int64_t block;
    size_t many;       /* grants of one poll that are many (struct attempt); 0: 64; the simulator takes fewer */
    int64_t keys_ms;   /* an Idempotency-Key is known for so long; 0: 31 days; the soak takes less */
    int64_t silent_ms; /* an executor that nobody hears goes after so long; 0: 30 days; the soak takes less */
    size_t batch;      /* tasks that one turn lifts, resumes or parks at most; 0: 1000; the simulator takes fewer */
    struct site_conf site;
    const char *data_dir; /* for the disk-space watch; NULL in simulation */
    struct str server_name;
    struct str coordination;                                                 /* URL; empty: the store */
    struct str coordination_auth;                                            /* USER:PASSWORD; empty: none */
    struct str server_host, server_version, server_address, server_instance; /* for the others; a shared store only */
};

#define SCHEDULE_AGAIN "it fires next at" /* in the reason of an event: a schedule was moved, nothing fired */

struct engine;
struct engine *engine_new(const struct engine_config *config, int64_t wall_ms, int64_t boot_ms, struct err *err);
void engine_free(struct engine *engine);

/* engine_turn: applies n commands (may be 0: timers only). Answered commands are appended to *out_answered; parked
 * polls stay inside and come out of a later turn. *out_next: boot ms at which the engine wants its next turn,
 * INT64_MAX: only when commands come. false: the store failed, the process must end (every command was answered
 * outcome_unknown). */
bool engine_turn(struct engine *engine, struct command **commands, size_t n, int64_t wall_ms, int64_t boot_ms,
    struct list *out_answered, int64_t *out_next, struct err *err);
int64_t engine_seq(const struct engine *engine); /* newest event's seq */

/* The threads around it. on_commit is called on the loop's thread after turns that appended events. */
bool engine_start(struct engine *engine, struct loop *loop, void (*on_commit)(int64_t seq, void *owner),
    void (*on_failure)(const struct err *err, void *owner), void *owner, struct err *err);
void engine_submit(struct engine *engine, struct command *command); /* from the loop's thread */
/* engine_submit_all: they are applied in one turn, unless there are more than a turn takes: no other comes between
 * them. */
void engine_submit_all(struct engine *engine, struct command *commands, size_t n);
/* ends the thread; parked polls are answered empty */
void engine_stop(struct engine *engine);

/* What the engine knows from hearing, not from the store; thread-safe copies. */
struct executor_live {
    int64_t id;
    /* heard of within the lease; by a server that has just begun beside others: or not lost by its row */
    bool live;
    int64_t heard_ago_ms; /* -1: never by this process */
    int64_t running;      /* grants that are out */
    int64_t free;
};
size_t engine_executors(struct engine *engine, struct arena *arena, struct executor_live **out); /* by id */
struct why_crew;
/* who may be given tasks of the class */
void engine_crew(struct engine *engine, const struct task_class *class_, struct why_crew *out);
/* one of them; false: none */
bool engine_executor(struct engine *engine, int64_t id, struct executor_live *out);
/* its id; 0: none */
int64_t engine_executor_named(struct engine *engine, struct arena *arena, struct str tenant, struct str name);
bool engine_jobs_run(struct engine *engine); /* something is granted to somebody */

/* health.c: does this server take new work, and if not, why? Any thread. One that doesn't still records the results of
 * running tasks, as far as its store takes them. */
enum engine_health {
    ENGINE_OK,
    ENGINE_DISK_FULL,
    ENGINE_FAILED,
    ENGINE_STORE_AWAY,
    ENGINE_STORE_LOCKED,
    ENGINE_TURNS_FAIL,
    ENGINE_DAMAGED,
    ENGINE_HEALTH_COUNT
};
enum { ENGINE_TEXT_MAX = 480, CLOCK_JUMP_MS = 2000, CLOCK_JUMP_SHOWN_MS = 3600000 };
enum engine_health engine_health(struct engine *engine);
const char *engine_health_name(enum engine_health health); /* "disk_full"; as in the log */
/* engine_trouble: the reason and what to do about it; false: the server is well. detail: with the store's own words and
 * the directory, for the site's operators only. */
bool engine_trouble(struct engine *engine, bool detail, char out[ENGINE_TEXT_MAX]);
uint64_t engine_damage(struct engine *engine); /* times that the database was found damaged since the start */
/* A step of the wall clock against the boot clock of CLOCK_JUMP_MS or more between two turns; the newest. */
struct clock_jump {
    int64_t by_ms, wall, boot;
    uint64_t count;
}; /* wall, boot: after it; count: since the start */
void engine_clock(struct engine *engine, struct clock_jump *out);
unsigned engine_weak(const struct engine *engine); /* STORE_WEAK_... of the store */

struct engine_counters { /* since start; atomics read relaxed */
    uint64_t turns, commands, commits, events, granted, finished, lost, turn_us, commit_us, begin_us;
    uint64_t failed_turns;    /* that came to nothing for a reason of the store's */
    uint64_t narrow, widened; /* turns beside those of other servers; and those that had to be taken once more, alone */
};
void engine_counters(struct engine *engine, struct engine_counters *out);

/* engine_duty: the epoch under which this server has the duty now; 0: it hasn't. Any thread. What is then asked of the
 * engine as part of the duty carries the epoch (command.under) and is refused (stale_fence) when another server has
 * taken over meanwhile. */
int64_t engine_duty(struct engine *engine, enum duty_kind duty);
/* engine_duty_claimed: it has it, or had it last: where engine_duty says 0 its turns don't get through in time, and the
 * next one tells whether another server has taken over. */
bool engine_duty_claimed(struct engine *engine, enum duty_kind duty);
/* engine_held: the store was restored from a backup and waits for `weir resume all`: no grants, no schedules, no duties
 * that act outside (repositories, retention), so that it does nothing beside the store that it is a copy of. Any
 * thread. */
bool engine_held(struct engine *engine);
const char *engine_duty_name(enum duty_kind duty);
struct coord *engine_coord(struct engine *engine);
/* engine_lock: `granted` of the waiter is called when this server, and in it this waiter, has the lock: perhaps before
 * it returns. What it then asks for carries the epoch (command.under). engine_unlock: it is done with it, or doesn't
 * want it any more. On the loop's thread. */
struct coord_waiter;
void engine_lock(struct engine *engine, enum duty_kind lock, struct coord_waiter *waiter);
void engine_unlock(struct engine *engine, struct coord_waiter *waiter);
void engine_locks_look(struct engine *engine); /* after a commit */
/* engine_time: the number of the newest commit that the loop's thread was told of, this server's or another's; every
 * command answered so far, every read begun now and what the engine tells from memory is at least as new. On the loop's
 * thread; 0: it hasn't been started. */
int64_t engine_time(const struct engine *engine);
void engine_wake(struct engine *engine); /* another server has committed: a turn, soon. Any thread. */

/* The site's keys: engine_site_version changes whenever they do; engine_site_differs: bits of those of which this
 * server's own file says something else; engine_history: how long results are kept, in ms (below 1: for ever). Any
 * thread. */
uint64_t engine_site_version(struct engine *engine);
/* What the site's keys say of change sets; any thread. engine_target: one that isn't configured is the archive of its
 * name; whether that is there is known in the turn. Its texts are copied to the arena. */
void engine_changesets(struct engine *engine, struct conf_changesets *out);
void engine_target(struct engine *engine, struct str name, struct arena *arena, struct conf_target *out);
unsigned engine_site_differs(struct engine *engine);
int64_t engine_history(struct engine *engine);

/* What time it is as far as the wall clock is believed (core/wall.h). engine_past: at least so late, for what is
 * removed when it is old; engine_late: it may be so late, for what must not outlive its time; engine_clock_agrees: the
 * wall clock isn't in doubt. Any thread. */
int64_t engine_past(struct engine *engine);
int64_t engine_late(struct engine *engine);
bool engine_clock_agrees(struct engine *engine);

/* Tokens, as of the last commit that this server knows; any thread. engine_token: found by the first bytes of its hash,
 * which the caller compares whole; its texts are copied to the arena. engine_tokens_version changes whenever tokens or
 * the site's keys change. */
bool engine_token(struct engine *engine, const uint8_t hash[32], struct arena *arena, struct token *out);
bool engine_token_stands(struct engine *engine, int64_t id);
bool engine_has_tokens(struct engine *engine);
bool engine_tenant_has_token(struct engine *engine, struct str tenant);
uint64_t engine_tokens_version(struct engine *engine);
/* Archives that another server has added or removed, or of which it gave up a revision, each by its lane.
 * engine_archives_version changes with them; engine_archive_news takes them; *out_all: too many, or everything was read
 * anew: any may have changed. Any thread. */
enum { ARCHIVE_NEWS_MAX = 64 };
uint64_t engine_archives_version(struct engine *engine);
size_t engine_archive_news(struct engine *engine, int64_t lanes[ARCHIVE_NEWS_MAX], bool *out_all);

#endif
