/* store: what is true, durably. The port: one writer (the engine's thread) that reads rows and commits changes by the
 * turn, and any number of readers (store/read.h) with their own snapshots.
 *
 * A turn: begin, any loads, then commit(changes) or rollback. commit writes everything in one transaction with one
 * fsync; true means durable. commit's failures: ERR_disk_full (nothing changed, the store goes on) and
 * ERR_outcome_unknown (a write or fsync failed: the caller answers "unknown" and stops the process). Loads put what
 * they return into the arena given. What a load returns is as of the last commit: changes of the running turn are the
 * caller's (core/slice).
 *
 * Policy never hides in SQL: the store fetches, keeps, and gives 'the first N by rank'. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/model.h"
#include "core/pick.h"
#include "store/logs/logs.h"

enum { STORE_HASH_BYTES = 32 };

struct store_head {
    uint64_t incarnation; /* random per store, restore and copy */
    int64_t turn, seq;    /* the last ones used */
    uint8_t hash[STORE_HASH_BYTES];
    int64_t next_task, next_spec, next_lane, next_class, next_slot, next_executor, next_token;
    int64_t v_now;  /* virtual time of fair queueing */
    int64_t commit; /* the number of the last commit, also of one without events; the store counts */
    int64_t time;   /* of the last turn with events; 0: there is none */
};

struct idempotency { /* what a key was used for; the answer is rendered anew from status and ids */
    struct str tenant, token, route, key;
    uint8_t body_hash[16];
    int status;
    const int64_t *ids;
    size_t n_ids;
    int64_t expires;
};

struct log_tail { /* the last bytes of an attempt's log, carried by its finish */
    int64_t task, grant, offset;
    struct str bytes;
};
struct log_name {
    int64_t task, grant;
};
struct task_outputs {
    int64_t task;
    struct str json;
};
struct unique_claim {
    struct str tenant, key;
    int64_t task;
};
struct executor_count {
    int64_t executor, processed, failed;
}; /* so many more than its row has */

/* The turn's row in the history. */
/* A row of an attempt, as turns write it and readers show it. */
struct attempt {
    int64_t task, number, grant, executor;
    int64_t started, finished;
    int64_t exit, signal; /* -1: none */
    enum outcome outcome;
    int64_t cpu_ms, max_rss_bytes, log_bytes; /* -1: not known */
    uint8_t finish_hash[16];
    int64_t poll_seq; /* while it runs: the number of the poll that it answered; -1: that poll had none */
    bool forgotten;   /* while it runs, of one with a number: its executor may have forgotten the job since */
    /* while it runs: its poll was granted many with near numbers at once; PostgreSQL keeps such attempts together */
    bool many;
    /* its end was stored once (lost): a late result rewrites that row, or the attempt was taken up again */
    bool ended_before;
};

struct changes_history {
    int64_t turn; /* of a narrow turn a number of its server's own, else head.turn */
    int64_t first_seq, time;
    struct str events; /* packed (store/pack.h); empty: the turn has no event and writes no row */
};

/* What a turn of a shared store tells besides.
 *
 * Of a narrow turn the head counts only for v_now and next_task (neither goes back), and first_seq not at all: they are
 * taken when everything else is written, and the result is put into *out_head, unless there was nothing to write. Lanes
 * aren't set: the difference between lanes_was[i] and lanes[i] is added; last_vt by its steps, but to no less than it
 * is. */
struct changes_shared {
    bool narrow;
    bool numbers; /* of a wide turn: narrow ones after it take numbers for tasks from head.next_task on */
    const struct lane **lanes_was;
    /* the answers confirm earlier work: everything that this turn has read must be durable before they are sent */
    bool acknowledges;
    ARRAY(struct executor_count) counts; /* added to the counters of executors */
    const struct server_row *server;     /* upsert by name; NULL: none */
    ARRAY(struct duty) duties;           /* upsert by name */
    ARRAY(struct str) notes;             /* sent to the other servers, if they listen; not kept */
};

/* One turn's changes. Rows are full rows; the store writes what it is given, in this order, and the turn's events last.
 */
struct changes_logs {
    ARRAY(struct log_tail) tails;
    /* upsert; on a shared store wide turns only, and one with as many bytes, or more, stays as it is */
    ARRAY(struct log_seal) seals;
    ARRAY(struct log_name) seals_remove; /* those that there are, after `seals` */
};
struct changes_changesets {               /* on a shared store wide turns only */
    ARRAY(const struct changeset *) rows; /* upsert by task */
    ARRAY(struct changeset_file) files_add;
    ARRAY(struct changeset_file)
    files_remove; /* by lane, applied, path, rank: those that there are, before files_add */
};
struct changes {
    ARRAY(const struct lane *) lanes;         /* upsert */
    ARRAY(const struct task_class *) classes; /* insert */
    ARRAY(int64_t) classes_remove;
    ARRAY(const struct spec *) specs; /* insert */
    ARRAY(const struct slot *) slots; /* upsert */
    ARRAY(int64_t) slots_remove;      /* those that there are, after `slots` */
    ARRAY(const struct task *) tasks_new;
    ARRAY(const struct task *) tasks_changed;
    ARRAY(const struct task *) ready_add; /* now P: (class, prio, vt, id) */
    /* no longer P: class, prio, vt as they were stored */
    ARRAY(const struct task *) ready_remove;
    ARRAY(struct edge) edges_new;
    ARRAY(struct edge) edges_changed; /* flags */
    ARRAY(struct hold) holds_add;
    ARRAY(struct hold) holds_remove; /* by kind, key, rank, task */
    ARRAY(struct attempt) attempts_new;
    /* by task, grant; here and below: `many` as it was loaded, or new */
    ARRAY(struct attempt) attempts_changed;
    ARRAY(struct attempt) attempts_remove; /* a grant that never arrived */
    ARRAY(struct task_outputs) outputs;    /* upsert; of tasks that carry MARK_OUTPUTS */
    struct changes_logs logs;
    /* tasks that are pruned: outputs and log tails go */
    ARRAY(int64_t) results_remove;
    ARRAY(struct unique_claim) unique_add;
    ARRAY(struct unique_claim) unique_remove;
    ARRAY(struct idempotency) idempotency;
    /* upsert; a shared store leaves their counters alone (shared.counts) */
    ARRAY(const struct executor *) executors;
    ARRAY(const struct token *) tokens; /* insert */
    ARRAY(int64_t) executors_remove;
    ARRAY(int64_t) tokens_remove;
    ARRAY(struct site_key) site;            /* upsert by name */
    ARRAY(const struct archive *) archives; /* upsert */
    ARRAY(struct revision) revisions;       /* upsert by lane, rev */
    ARRAY(struct latest) latest;            /* upsert by lane, name, variant */
    ARRAY(struct schedule) schedules;       /* upsert by lane, task, cron, timezone */
    ARRAY(struct schedule) schedules_remove;
    struct changes_changesets changesets;
    const struct wall_known *clock; /* upsert; NULL: as it is */
    struct store_head head;         /* after the turn; head.hash is filled in by the store */
    struct store_head *out_head;    /* what the head has become */
    struct changes_history history;
    struct changes_shared shared;
};

/* changes_tagged: the turn writes rows that `verify` compares with the hashes in turn.tags (store/tags.h). Only a turn
 * with events has a row that can hold them, so it must have one. */
bool changes_tagged(const struct changes *c);

/* What other servers have committed since a head: rows as they are now, events in order. too_far: too much to tell;
 * read all anew. */
struct others {
    struct lane **lanes;
    size_t n_lanes;
    struct task_class **classes;
    size_t n_classes;
    struct slot **slots;
    size_t n_slots;
    struct executor **executors;
    size_t n_executors;
    struct archive **archives;
    size_t n_archives;
    struct duty *duties;
    size_t n_duties; /* all */
    struct event *events;
    size_t n_events;
    int64_t next_time; /* of the first time hold that is there now; INT64_MAX: none */
    bool too_far;
};

/* What a turn will ask for, as far as that is known before: on a shared store it comes in one piece, with the lock. */
struct turn_needs {
    bool narrow;                    /* begin: the turn has not the store to itself (store_ops.begin) */
    const struct store_head *since; /* load_others from here; NULL: nobody else seems to be about */
    const int64_t *tasks;
    size_t n_tasks; /* load_task */
    const int64_t *preds;
    size_t n_preds; /* load_edges by pred, load_outs, and load_task of those that wait: */
    size_t n_edges; /* at most so many edges, by pred as they are named */
    const int64_t *grants;
    size_t n_grants; /* load_attempt of the unfinished attempts of these tasks */
    /* Of a narrow turn: */
    const int64_t *archives;
    size_t n_archives; /* archive_lock; they are waited for, before anything else */
    /* Numbers for tasks that the turn makes: ascending, above all that turns before it had, each given once. The first
     * is 0: they can't be had until a wide turn has said where they begin (changes.numbers). */
    int64_t *numbers;
    size_t n_numbers;
};

struct store;
struct store_config {
    const char *url;      /* "sqlite:///DIR": DIR/weir.db; "postgresql://..." as libpq takes it */
    const char *data_dir; /* verify.key, logs and the rest live here */
    bool create;
    /* of a reader: the server's loop waits for it: what a lock in the database holds up is refused at once */
    bool hurried;
    struct str server; /* the name of the server that opens it: on a shared store one at a time; empty: none */
};

/* What only a store that several servers share can do. */
struct store_shared_ops {
    /* `others` is called, on a thread of the store's own, whenever another server has committed; NULL ends that. */
    bool (*on_others)(struct store *store, void (*others)(struct str note, void *owner), void *owner, struct err *err);
    /* Of a wide turn: nobody else commits until it is over. Of a narrow one: what was committed up to its begin, and
     * maybe more. */
    bool (*load_others)(
        struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err);
    /* *out_holds: the turn that ends with event `seq` has this hash: everything up to it is as it was. May be NULL. */
    bool (*history_holds)(
        struct store *store, int64_t seq, const uint8_t hash[STORE_HASH_BYTES], bool *out_holds, struct err *err);
    /* Before begin: what is named comes with it. Within a turn: now. The loads answer as without it, but don't ask the
     * store one by one. */
    bool (*expect)(struct store *store, const struct turn_needs *needs, struct err *err);
    /* Narrow turns only: the row as it is now, locked until the turn is over; ERR_conflict: another turn has it. */
    bool (*archive_lock)(struct store *store, struct arena *arena, int64_t lane, struct archive *out, struct err *err);
    bool (*slot_lock)(struct store *store, struct arena *arena, int64_t id, struct slot *out, struct err *err);
    /* Did ready_first pass over a task in this turn, because another turn has it? */
    bool (*ready_passed)(struct store *store);
    /* May be NULL. Between turns: is no table locked that turns write? Doesn't wait. */
    bool (*writable)(struct store *store);
};

struct store_ops {
    const struct store_shared_ops *shared; /* NULL: one server has it to itself */
    void (*close)(struct store *store);
    /* A turn has the store to itself. A narrow one, where `narrows` and if it was expected so, shares it with other
     * servers' narrow turns: the task rows that it loads are locked until it is over, and ready_first passes over what
     * another turn has locked (ready_passed). A commit that meets another's row fails, and nothing was changed: keys
     * (unique, idempotency) are only added, not replaced. */
    bool (*begin)(struct store *store, struct err *err);
    void (*rollback)(struct store *store);
    bool (*commit)(struct store *store, const struct changes *changes, struct err *err);

    bool (*load_head)(struct store *store, struct store_head *out, struct err *err);
    bool (*load_lanes)(struct store *store, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err);
    bool (*load_classes)(
        struct store *store, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err);
    bool (*load_slots)(struct store *store, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err);
    bool (*load_executors)(
        struct store *store, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err);
    bool (*load_tokens)(struct store *store, struct arena *arena, int64_t after, size_t most, struct token ***out,
        size_t *out_n, struct err *err); /* by id, those above `after` */
    bool (*load_site)(struct store *store, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err);
    bool (*load_clock)(struct store *store, struct wall_known *out, struct err *err); /* all 0: nothing is known */
    /* unfinished attempts */
    bool (*load_active_grants)(
        struct store *store, struct arena *arena, struct attempt **out, size_t *out_n, struct err *err);

    bool (*load_task)(
        struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err);
    /* by_pred: edges whose pred is id; else those whose waiter is id. */
    bool (*load_edges)(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
        size_t *out_n, struct err *err);
    /* The first n edges whose pred is id and whose waiter is above `after`, by (waiter, kind). */
    bool (*load_outs)(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out,
        size_t *out_n, struct err *err);
    /* Edges whose pred is id, but for those of that kind. */
    bool (*load_others_outs)(struct store *store, struct arena *arena, int64_t id, enum edge_kind but,
        struct edge **out, size_t *out_n, struct err *err);
    bool (*load_spec)(struct store *store, struct arena *arena, int64_t id, struct spec *out, struct err *err);
    bool (*load_attempt)(
        struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err);
    bool (*load_outputs)(struct store *store, struct arena *arena, int64_t task, struct str *out_json, struct err *err);
    bool (*load_log_seal)(
        struct store *store, int64_t task, int64_t grant, struct log_seal *out, bool *out_found, struct err *err);
    /* The first n of a class by (prio DESC, vt, task). */
    bool (*ready_first)(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
        size_t *out_n, struct err *err);
    /* The first n holds of a kind with key <= key_max (time: due ones), ordered by (key, rank, task). */
    bool (*holds_due)(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key_max, size_t n,
        struct hold **out, size_t *out_n, struct err *err);
    /* The first n holds of (kind, key), ordered by (rank, task). */
    bool (*holds_of)(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
        struct hold **out, size_t *out_n, struct err *err);
    /* The first n holds of a kind behind (after->key, after->rank, after->task), in that order. */
    bool (*holds_after)(struct store *store, struct arena *arena, enum hold_kind kind, const struct hold *after,
        size_t n, struct hold **out, size_t *out_n, struct err *err);
    bool (*holds_of_task)(
        struct store *store, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err);
    /* 0: none */
    bool (*unique_find)(struct store *store, struct str tenant, struct str key, int64_t *out_task, struct err *err);
    bool (*idempotency_find)(struct store *store, struct arena *arena, struct str tenant, struct str token,
        struct str route, struct str key, struct idempotency *out, bool *out_found, struct err *err);
    /* inside a turn; deletes at most n_max */
    bool (*idempotency_expire)(struct store *store, int64_t now, size_t n_max, struct err *err);
    bool (*load_archives)(
        struct store *store, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err);
    bool (*load_schedules)(
        struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err);
    bool (*load_revision)(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
        bool *out_found, struct err *err);
    /* The highest revision of the lane that is known by this commit; 0: none. */
    bool (*revision_of_ident)(struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err);
    bool (*latest_find)(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant,
        struct latest *out, bool *out_found, struct err *err);
    /* The task of that name (not a second run) of the newest revision <= upto that has one; 0: none. */
    bool (*task_upto)(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto,
        int64_t *out_task, int64_t *out_rev, struct err *err);
    /* A task by its key; 0: none. run -1: the highest, whose number comes back. */
    bool (*task_find)(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant, int64_t run,
        int64_t *out_task, int64_t *out_run, struct err *err);
    /* The first n tasks of an archive that haven't ended. Walks its history: for what is rare. */
    bool (*tasks_open)(struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n,
        struct err *err);
    /* The change sets of a target that have paths and haven't ended, by the first n of these paths: one comes once for
     * each. */
    bool (*changesets_open)(struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out,
        size_t *out_n, struct err *err);
    bool (*tasks_after)(struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n,
        struct err *err); /* the first n ids above `after` */
    bool (*load_changeset)(struct store *store, struct arena *arena, int64_t task, struct changeset *out,
        bool *out_found, struct err *err);
    /* The change set of this CSID, and the newest of this content; 0: none. */
    bool (*changeset_find)(struct store *store, struct str tenant, struct str csid, int64_t *out_task, struct err *err);
    bool (*changeset_of_hash)(
        struct store *store, struct str tenant, const uint8_t hash[32], int64_t *out_task, struct err *err);
    /* Of the rows of (lane, applied, path) the nearest to that rank: after: above it, else below it. */
    bool (*changeset_file_near)(struct store *store, struct arena *arena, int64_t lane, bool applied, struct str path,
        int64_t rank, bool after, struct changeset_file *out, bool *out_found, struct err *err);
    int64_t (*size_bytes)(struct store *store);
};

struct query;
struct arg;
struct sql { /* how a connection to a database is asked (store/query.h); private to store */
    const struct query_ops *ops;
    bool (*ask)(struct query *q, const struct arg *args, size_t n, struct err *err);
    bool (*begin)(void *on, struct err *err); /* a snapshot for several statements; NULL: the caller has one */
    void (*end)(void *on);
    void *on;
};

struct store {
    const struct store_ops *ops;
    struct sql sql; /* of a store that is a database */
    int64_t commit; /* the number of the last commit that begin saw or commit made */
    bool exclusive; /* nobody else writes while it is open: what the caller committed is what a load would bring */
    bool narrows;   /* turns may be narrow */
    bool unchecked; /* it is too large for the database's own check at a start: store_check_slowly */
    /* how often its connection was made anew: it may lead to a copy that lacks what was committed last */
    unsigned reopened;
    _Atomic unsigned weak; /* STORE_WEAK_... */
};

/* What accepted work would not survive, by the settings of the database; store_weakness: one of them in words. */
enum { STORE_WEAK_POWER = 1, STORE_WEAK_PAGES = 2, STORE_WEAK_FAILOVER = 4 };
const char *store_weakness(unsigned one);

struct store_head store_head_first(void); /* of a store that is made */
/* store_head_renew: another incarnation. What was given out since the moment to which the store went back isn't known:
 * executors' numbers go on somewhere else, so that nobody is taken for an executor of that time. */
void store_head_renew(struct store_head *head);

/* store_open: opens (or creates, with config.create) and migrates; refuses a newer schema, a foreign database, a second
 * opener (lock held by whom), a database that fails its quick check. */
struct store *store_open(const struct store_config *config, struct err *err);

/* Operation: on a data directory that no server has open, except backup, which works beside one. */
struct backup_facts {
    bool without_artifacts; /* asked for by who backs up; told by a restore */
    /* a restore: the store goes on at once; else `all` is paused until somebody resumes it */
    bool active;
    int64_t logs_missing; /* told by a restore: logs that were sealed, and aren't in the backup */
    /* files that tasks list: how many came along, how many aren't there (or are damaged, or left out) */
    int64_t artifacts, missing;
};
/* facts NULL: everything, nothing is told; a restored store is active. In steps; consistent; fsynced. */
bool store_backup(const char *data_dir, const char *to_file, struct backup_facts *facts, struct err *err);
/* refuses a directory that holds a store; new incarnation */
bool store_restore(const char *from_file, const char *data_dir, struct backup_facts *facts, struct err *err);

struct verify_report {
    bool ok;
    int64_t turns, events, tasks;
    int64_t head_seq;
    uint8_t head_hash[STORE_HASH_BYTES];
    char fault[256]; /* the first fault found, in words */
    /* store_verify_all: */
    char database[200];      /* what the database's own check came to, or why there was none */
    int64_t logs, log_bytes; /* of ended attempts, read to their last byte */
    /* of `logs`: with bytes whose hash isn't noted (open, or an older version's): not compared */
    int64_t logs_unnoted;
    int64_t logs_short; /* that have fewer bytes than were reported; the first in words: */
    char log_missing[160];
    int64_t files, file_bytes; /* kept files, hashed again */
};
/* store_verify: walks the chain in steps and folds events against the rows. witness_seq > 0: the event with that seq
 * must belong to a turn whose hash is witness_hash. false: it could not be read; a damaged history is report->ok ==
 * false. Safe beside a running server. */
bool store_verify(
    const char *data_dir, int64_t witness_seq, const uint8_t *witness_hash, struct verify_report *out, struct err *err);

/* store_verify_all: the database's own check first (SQLite: whole where no server runs, else in steps; PostgreSQL:
 * amcheck, where it is installed), then store_verify_at, then every log and kept file that rows name: there, whole,
 * with the bytes that its hash says. quick: the history and the rows alone. */
struct verify_wish {
    int64_t witness_seq; /* 0: none */
    const uint8_t *witness_hash;
    bool quick;
    void (*tell)(void *owner, const char *part, int64_t done); /* NULL: nobody asks; now and then */
    void *owner;
};
bool store_verify_all(
    const struct store_config *config, const struct verify_wish *wish, struct verify_report *out, struct err *err);
/* store_check_slowly: after a start that checked little (store.unchecked): the database in steps, resting most of the
 * time; damage is noted where the engine sees it (damage.h). False: damaged, could not be read. *stop ends it. */
bool store_check_slowly(const struct store_config *config, const atomic_bool *stop, int64_t *out_rows, struct err *err);

bool store_is_postgres(const struct store_config *config);
/* The same for the store that a URL names. store_backup_at: a store in PostgreSQL is backed up by PostgreSQL
 * (ERR_invalid says how). */
bool store_verify_at(const struct store_config *config, int64_t witness_seq, const uint8_t *witness_hash,
    struct verify_report *out, struct err *err);
bool store_backup_at(
    const struct store_config *config, const char *to_file, struct backup_facts *facts, struct err *err);

/* A witness is SEQ:HASH, as the head of an earlier report was shown. */
bool store_witness_parse(struct str text, int64_t *out_seq, uint8_t out_hash[STORE_HASH_BYTES]);
struct store_hash_text {
    char z[2 * STORE_HASH_BYTES + 1];
};
struct store_hash_text store_hash_format(const uint8_t hash[STORE_HASH_BYTES]);

struct copy_progress {
    void *owner;
    void (*tell)(void *owner, const char *table, int64_t rows); /* now and then, and at the end of each table */
};
/* store_copy: everything in the store `from` (no server may run on it) becomes the store `to`, which must be empty; the
 * history is verified in the copy, which takes a new incarnation. The key of the history goes to to->data_dir. Rows are
 * all there, or none; logs and kept files come next. When those fail, a target in SQLite is no store yet, and what came
 * of them stays for the next try; one in PostgreSQL has its rows, and must be emptied first (the error says so).
 * progress may be NULL. */
bool store_copy(const struct store_config *from, const struct store_config *to, const struct copy_progress *progress,
    struct err *err);

#endif
