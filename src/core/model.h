/* model: the nouns of the engine as plain rows. Times are milliseconds since 1970 UTC; 0 means: not yet. Ids are
 * positive. Letters and words of the states are the same in CLI, API, UI, database and files. */
#ifndef WEIR_CORE_MODEL_H
#define WEIR_CORE_MODEL_H

#include "base/plant.h"
#include "base/str.h"

/* name, letter, word, ended */
#define TASK_STATES(X) \
    X(Q, 'Q', "queued", false) \
    X(S, 'S', "staged", false) \
    X(P, 'P', "pending", false) \
    X(X, 'X', "executing", false) \
    X(D, 'D', "done", true) \
    X(F, 'F', "failed", true) \
    X(T, 'T', "terminated", true) \
    X(A, 'A', "abandoned", true)

/* a clock that is further behind than this was set back, and is followed (slice_stamp) */
enum { STAMP_BACK_MAX_MS = 60000 };

enum task_state {
    STATE_NONE,
#define X(name, letter, word, ended) STATE_##name,
    TASK_STATES(X)
#undef X
    STATE_COUNT
};

#define OUTCOMES(X) \
    X(done) X(skipped) X(failed) X(permanent) X(temporary) X(timeout) X(killed) X(lost) X(cancelled)
enum outcome {
    OUTCOME_none,
#define X(name) OUTCOME_##name,
    OUTCOMES(X)
#undef X
    OUTCOME_COUNT
};

enum edge_kind { EDGE_NONE, EDGE_AFTER, EDGE_DEPENDS, EDGE_CANCELS, EDGE_KIND_COUNT };
enum edge_flag {
    EDGE_FIRED = 1, /* cancels: the waiter became ready, the other is being put to an end and is waited for */
    /* cancels: it fired, and the other had ended then or was retried since: it isn't waited for. after: the waiter ran
     * when the other was retried, and that queues for the archive's lock behind it or behind who waits for it */
    EDGE_SPENT = 2,
    EDGE_LOCK = 4, /* after: it stands for the archive's lock, nobody wrote it */
    /* after, depends: an order between revisions (PREV). A task that leaves the queue without having run hands on what
     * it waited for by such edges */
    EDGE_PREV = 8,
    /* `depends` wrote it, also as an `after` (on: finished): the task is told of the other's end and outputs */
    EDGE_NEEDED = 16,
    EDGE_BY_ID = 32, /* EDGE_NEEDED: and by the other's id, not by its name */
    /* PREV, cancels: the other was stopped, and what it waited for or was to cancel is this waiter's by edges of its
     * own: nobody has to look through this edge again */
    EDGE_HANDED = 64,
    EDGE_PLACED = 128, /* after, depends: the same of the other's place in the queue for the archive's lock */
};
struct edge {
    int64_t waiter, pred; /* the one that waits or cancels; the other */
    enum edge_kind kind;
    unsigned flags;
};

/* Is the edge waited for at all? A cancels edge only between its firing and the other's end. */
static inline bool edge_counts(enum edge_kind kind, unsigned flags)
{
    return kind == EDGE_CANCELS ? (flags & (EDGE_FIRED | EDGE_SPENT)) == EDGE_FIRED : !(flags & EDGE_SPENT);
}

enum hold_kind { /* hold.def; bits in task.holds */
    HOLD_none,
#define HOLD(number, name, ...) HOLD_##name = (number),
#include "core/hold.def"
#undef HOLD
    HOLD_KIND_COUNT
};
enum { HOLD_KIND_BITS = 5 };
struct hold {
    enum hold_kind kind;
    /* time: until; pause: lane; slot, held: slot id; executor: class; telling: TELLING_; rollback: its task; else 0 */
    int64_t key;
    /* slot, executor: order among the waiters; telling, returning: the waiter, by number, up to which all know;
     * rollback: MEMBER_ (core/rollback.h); else 0 */
    int64_t rank;
    int64_t task;
    int64_t since;
};

/* HEIRS: those who wait for it also take something over (core/heirs.h) */
enum { TELLING_ENDS, TELLING_HEIRS, TELLING_COUNT };

enum lane_kind { LANE_QUEUE = 1, LANE_ARCHIVE, LANE_TARGET };
#define PAUSED_BY_RESTORE "restore"
struct lane { /* an archive, a queue or a target of change sets; lane 0 is `all` */
    int64_t id;
    enum lane_kind kind;
    struct str tenant, name;
    int64_t last_vt;
    int64_t counts[STATE_COUNT];   /* tasks by state */
    int64_t log_bytes, file_bytes; /* kept of its ended tasks, until they are pruned */
    /* of `all`, and by PAUSED_BY_RESTORE: nothing goes on by itself in this store before somebody says so */
    int64_t paused_since;
    struct str paused_by, paused_reason;
    int64_t quota; /* not stored: the slot that stands for its tenant's running tasks; 0: they aren't limited */
};

/* An archive: what a lane of kind LANE_ARCHIVE has besides. Its revisions are initialised (their tasks get edges and
 * may run) strictly in order; one that was posted early waits, its tasks in Q. */
enum archive_kind { ARCHIVE_NONE, ARCHIVE_EXTERNAL, ARCHIVE_SVN, ARCHIVE_GIT, ARCHIVE_KIND_COUNT };
struct archive {
    int64_t lane;
    enum archive_kind kind;
    struct str url, branch;
    int64_t added, removed;     /* removed 0: it is followed */
    int64_t first;              /* the first revision that is Weir's */
    int64_t next;               /* the first revision that isn't initialised */
    int64_t youngest;           /* the highest that was heard of; 0: none */
    struct str tip;             /* git: the commit of the last number given */
    int64_t definition;         /* of the newest initialised revision (a spec's id); 0: none. Schedules come from it */
    int64_t lock_exclusive;     /* task that has the archive's lock, or had it last */
    const int64_t *lock_shared; /* tasks that share it since */
    size_t n_lock_shared;
};

enum revision_state { REVISION_NONE, REVISION_WAITING, REVISION_KNOWN, REVISION_SKIPPED, REVISION_STATE_COUNT };
struct revision {
    int64_t lane, rev;
    enum revision_state state; /* behind a gap; initialised; given up by `weir archive skip` */
    struct str ident;          /* git: the commit */
    struct str txn, author, message;
    int64_t time, noted;  /* of the commit (0: not known); when Weir heard of it */
    int64_t cause;        /* the task whose job made it; 0: a person */
    int64_t depth;        /* revisions made by jobs in a row; a person's: 0 */
    int64_t definition;   /* its workflow files (a spec's id, whose body is the text); 0: none */
    const int64_t *prevs; /* what PREV means; none: the first */
    size_t n_prevs;
};
#define CAUSE_DEPTH_MAX 8
#define REVISION_GAP_MAX 1000000

struct latest { /* the newest revision that has a task of this name; survives pruning */
    int64_t lane;
    struct str name, variant;
    int64_t rev, task;
    int64_t ran_rev, ran_task; /* of those that weren't left out by `paths` */
};

/* A change set: what a task of kind KIND_APPLY has besides. Its CSID is the task's name. */
enum movetype { MOVE_NONE, MOVE_DC, MOVE_BF, MOVE_EM, MOVE_RB, MOVE_COUNT };
struct changeset {
    int64_t task, lane;
    struct str tenant, csid; /* no two have both */
    uint8_t hash[32];        /* SHA-256 of the tarball's bytes; of a rollback without one: all zero */
    enum movetype movetype;
    struct str name;    /* of the tarball and of the job file */
    int64_t tai;        /* its label: nanoseconds since 1970 */
    struct str files;   /* paths that it adds or changes, joined by CHANGESET_JOINT */
    struct str removed; /* paths that it removes, likewise */
    struct str submitter, ticket;
    struct str approver;   /* the person who approved it later; empty: it brought its ticket, or has none */
    int64_t approved;      /* when; 0: not later */
    int64_t rank;          /* its place among the change sets of the target; a retry takes a new one */
    bool overlapping;      /* of a rollback: later change sets on the same files are members too */
    const int64_t *undoes; /* of a rollback: the tasks that it names */
    size_t n_undoes;
    struct str base;        /* the oldest revision that an attempt of it has recorded; empty: none has */
    struct str revision;    /* that it became; empty: it isn't applied */
    int64_t rolled_back_by; /* the rollback's task; 0: none */
};
#define TARGET_LANE "target/"  /* before the name of a target in that of its lane: no archive or queue has a '/' */
#define CLASS_TARGET ":target" /* the label of a class that says for which target it is; executors need not have it */
#define CHANGESET_JOINT '\n'   /* no path has one */

/* One path of a change set, in the order of ranks. Those that haven't ended stand apart from those that are applied;
 * the others have no rows. */
struct changeset_file {
    int64_t lane;
    bool applied;
    struct str path;
    int64_t rank, task;
};

struct schedule { /* one cron line of a task of an archive */
    int64_t lane;
    struct str task, cron, timezone;
    int64_t next;  /* ms: the minute that fires next */
    int64_t fired; /* ms: the slots up to here have fired; 0: none has */
};

struct wall_known { /* what is known of the wall clock (core/wall.h) */
    int64_t time;   /* the newest wall time that was confirmed; 0: none */
    int64_t ran;    /* ms that servers have run with a wall clock that contradicts it */
    int64_t seen;   /* what that clock said last; 0: it doesn't contradict */
};

/* What is known of a task without reading more than its row; only MARK_PRUNED, MARK_KEPT, MARK_PROMOTED,
 * MARK_UNAPPROVED, MARK_FIXED, MARK_BEGUN and MARK_LOOK are taken back. */
enum task_mark {
    MARK_CANCELS = 1,        /* it has edges of that kind, as the one that cancels */
    MARK_OUTPUTS = 2,        /* a finish brought outputs */
    MARK_NEEDS = 4,          /* it has edges that are EDGE_NEEDED, or something it depends on has brought outputs */
    MARK_SKIPPED = 8,        /* its `paths` weren't touched: done, `skipped`, as soon as it is ready */
    MARK_EXCLUSIVE = 32,     /* beside MARK_LOCKED: not shared */
    MARK_PRUNED = 64,        /* logs, outputs and artifacts are gone; what it was and how it ended stays */
    MARK_KEPT = 128,         /* what it left behind is counted in its lane's bytes */
    MARK_LOCKED = 16,        /* it has the archive's lock, shared or exclusive, while it runs */
    MARK_PROMOTED = 256,     /* a person put it to the front: there it stays until it ends, also after a pause */
    MARK_CHANGESET = 512,    /* it is a change set: it has a row of that table */
    MARK_ROLLBACK = 1024,    /* beside MARK_CHANGESET: of move type RB */
    MARK_UNAPPROVED = 2048,  /* it needs a ticket, and has none so far */
    MARK_FIXED = 4096,       /* of a rollback: its members have their rows (core/rollback.h) */
    MARK_BEGUN = 8192,       /* of a rollback: an attempt may have undone them, so none is added any more */
    MARK_LOOK = 3 << 14,     /* one of enum task_look_mark */
    MARKS_PRUNED_SHIFT = 16, /* above: the grant up to which its logs were removed, also of a task that went on since */
    MARKS_PRUNED_MAX = 0xffff,
};

/* Of a change set that has come to an end, whose attempt may have committed before: it is granted once more to look,
 * and is T, A, or (OTHER) F or held by its rollback, unless it is in the repository. */
enum task_look_mark { LOOK_T = 1 << 14, LOOK_A = 2 << 14, LOOK_OTHER = 3 << 14 };

struct task {
    int64_t id, lane, rev; /* rev 0: a queue's task */
    struct str name, variant;
    int64_t run; /* 0, or n of NAME#n */
    enum task_state state;
    enum task_state ending; /* beside X: where the end leads (T, A; S: a rollback holds it) */
    int64_t waits;          /* unsatisfied edges */
    int64_t ins;            /* edges in which it is the waiter */
    int64_t out;            /* edges that name this task as predecessor */
    unsigned holds;         /* bits 1 << hold_kind */
    unsigned marks;         /* MARK_ */
    int64_t class_id, prio, vt, grant, not_before, spec;
    int64_t attempts; /* in all */
    int64_t base;     /* attempts before the last `weir retry`: they don't count against the limit */
    int64_t created, ready, started, finished;
    enum outcome outcome;
    struct str reason;
    int64_t cause;     /* the task that made it end so; 0: none */
    int64_t last_turn; /* the newest turn with an event of this task */
    struct str unique; /* its unique key until the first grant; empty: none */
};

/* What an executor needs is `body` (JSON, never looked into by the engine after intake); the rest is what deciding
 * needs. */
enum { RETRY_LOST = 1, RETRY_TEMPORARY = 2, RETRY_KILLED = 4, RETRY_FAILED = 8, RETRY_TIMEOUT = 16 };
struct spec {
    int64_t id;
    struct str body;
    int64_t attempts_max, backoff_ms;
    unsigned retry_on;
    const int64_t *slots; /* ids, ascending, no doubles */
    size_t n_slots;
    struct str slot_key;   /* its concurrency key, whose slot may have to be made again; empty: none */
    struct str semaphores; /* and its semaphores' names, joined by SPEC_JOINT */
    /* of its task's class, which may have gone before the task is retried; empty: none, or that class stays */
    struct str class_key;
};
#define SPEC_JOINT '\x1f'

enum class_kind { KIND_NONE, KIND_COMMAND, KIND_SCRIPT, KIND_IMAGE, KIND_DATA, KIND_APPLY, KIND_COUNT };
struct label {
    struct str name, value;
};
struct task_class { /* which executors fit: the index prefix of `ready` */
    int64_t id;
    struct str key; /* canonical text of the rest; unique */
    struct str tenant, zone;
    enum class_kind kind;
    struct label *labels; /* ascending by name */
    size_t n_labels;
    bool goes; /* when nobody needs it any more: all specs of its tasks have its key */
    /* not stored, as the next: a small number of the server's own, given again when the class has gone */
    size_t index;
    int64_t used; /* boot ms at which a task of it was made here last, or it was heard of; 0: not known */
};

struct slot { /* semaphores and concurrency keys */
    int64_t id;
    struct str tenant; /* empty: global */
    struct str name;   /* semaphore: its name; concurrency key: "concurrency/KEY" */
    int64_t limit, used;
    int64_t waiting; /* tasks that wait for it */
    bool configured; /* not stored: the site's keys name it, so it stays */
};
#define SLOT_KEY "concurrency/"
#define SLOT_NAMED \
    ((int64_t)1 << 61) /* ids from here on are made of the name: a semaphore whose limit nobody has set goes likewise \
                        */
#define SLOT_KEYED \
    ((int64_t)1 << 62) /* ids from here on are made of the key: such a slot is there only while somebody is in it */
static inline bool slot_is_empty(const struct slot *slot)
{
    bool goes = slot->id >= SLOT_KEYED || (slot->id >= SLOT_NAMED && slot->limit == 1 && !slot->configured);
    if (PLANT(empty_slot_kept))
        return false;
    return goes && !slot->used && !slot->waiting;
}

enum executor_state { EXECUTOR_ACTIVE = 1, EXECUTOR_PAUSED, EXECUTOR_DRAINING, EXECUTOR_LOST };
struct executor {
    int64_t id;
    struct str name, instance, host, version, zone;
    struct str tenant; /* it takes only this tenant's tasks; empty: everybody's */
    int64_t slots;
    unsigned kinds; /* bits 1 << class_kind */
    struct label *labels;
    size_t n_labels;
    enum executor_state state;
    int64_t registered, processed, failed;
    int64_t owner;  /* the token that registered it; 0: the server's own user; below: not known */
    int64_t silent; /* wall ms since which it is known to be silent; 0: it isn't */
};

struct server_row { /* one of those that share a store */
    struct str name, instance, host, version, address;
    int64_t started, beat, load; /* load: of its machine, in 1 / SERVER_LOAD_UNIT */
    int64_t differs;             /* bits of the site's keys of which its own file says something else */
};
enum { SERVER_LOAD_UNIT = 100 };

struct duty { /* what one server does for all */
    struct str name, holder;
    int64_t epoch, beat;
};

struct site_key {          /* one key of the site's configuration, as it is in force */
    struct str name, body; /* body: JSON */
    int64_t version, changed;
    struct str changed_by;
};

struct token {
    int64_t id;
    struct str name, tenant;
    uint8_t hash[32];
    unsigned scopes;          /* SCOPE_ bits */
    int64_t created, expires; /* 0: never */
};
enum { SCOPE_READ = 1, SCOPE_ENQUEUE = 2, SCOPE_EXECUTE = 4, SCOPE_ADMIN = 8 };

#define EVENT_KINDS(X) \
    X(created) X(move) X(ending) X(promoted) X(executor) X(executor_lost) X(executor_state) X(pause) X(resume) \
    X(token) X(token_revoked) \
    X(semaphore) X(incarnation) X(started) X(archive) X(archive_removed) X(revision) X(revision_skipped) \
    X(rewritten) X(cause_depth) X(scheduled) X(pruned) X(duty) X(cause) X(config) X(unique) X(noted) X(approved)
enum event_kind {
    EVENT_none,
#define X(name) EVENT_##name,
    EVENT_KINDS(X)
#undef X
    EVENT_KIND_COUNT
};
struct event {
    int64_t seq, time;
    enum event_kind kind;
    int64_t task, lane; /* 0: none */
    enum task_state from, to;
    int64_t attempt, grant;
    struct str actor, reason;
    struct str subject; /* executor, lane, token or semaphore by name */
    int64_t cause;      /* task id */
    int64_t prev_turn;  /* the turn that holds this task's event before this one; 0: none */
};

/* What a tenant may have, at most; -1: as much as it likes. Sizes are bytes, requests are by the second and by server.
 */
#define QUOTAS(X) \
    X(tasks) X(running) X(archives) X(queues) X(semaphores) X(tokens) X(executors) X(logs) X(files) X(requests)
enum quota {
#define X(name) QUOTA_##name,
    QUOTAS(X)
#undef X
    QUOTA_COUNT
};
#define TENANT_DEFAULT "default"
#define SLOT_RUNNING "quota/running" /* the slot that stands for a tenant's running tasks */
#define SLOT_FREE ((int64_t)1 << 50) /* a limit that nobody reaches */

/* A task's fence as text: INCARNATION-TASK-GRANT (text/key.h formats it). */

int64_t task_pruned(const struct task *task); /* the grant up to which its logs were removed; 0: none */
void task_pruned_set(struct task *task, int64_t grant);
const char *quota_name(enum quota quota);
const char *state_word(enum task_state state);
char state_letter(enum task_state state);
enum task_state state_of_letter(char letter); /* STATE_NONE: none */
bool state_ended(enum task_state state);
const char *outcome_name(enum outcome outcome); /* "" for none */
enum outcome outcome_find(struct str name);
const char *edge_kind_name(enum edge_kind kind);
const char *event_kind_name(enum event_kind kind);
const char *class_kind_name(enum class_kind kind);
enum class_kind class_kind_find(struct str name);
const char *executor_state_name(enum executor_state state);
const char *archive_kind_name(enum archive_kind kind);
enum archive_kind archive_kind_find(struct str name); /* ARCHIVE_NONE: none */
const char *movetype_name(enum movetype movetype);    /* DC BF EM RB; "" for none */
enum movetype movetype_find(struct str name);         /* MOVE_NONE: none */
const char *revision_state_name(enum revision_state state);

#endif
