/* memstore: the store port in memory, for the simulator: the same promises, no disk. What a commit returned true for
 * survives a crash of the engine; nothing else does. Faults are asked for: the next commit fails as full, or as
 * unknown, applied or not.
 *
 * memstore_shared: the same rows behind several ports, one for each server, as PostgreSQL gives them (decision 0009):
 * turns follow one another, commits are numbered and mark the rows they touch, a connection is lost in the middle of a
 * turn or while committing, and then the mark of the server tells whether the turn is there. */
#ifndef WEIR_SIM_MEMSTORE_H
#define WEIR_SIM_MEMSTORE_H

#include "base/map.h"
#include "store/store.h"

enum mem_fault {
    MEM_OK,
    MEM_FULL,
    MEM_UNKNOWN_LOST,
    MEM_UNKNOWN_KEPT,
    MEM_CUT,         /* shared: the connection is lost before the commit was sent */
    MEM_ANSWER_LOST, /* shared: the commit is there, its answer isn't */
};
enum { MEM_SERVERS_MAX = 3, MEM_DUTIES_MAX = 8 };

struct memport {        /* one server's way to the rows */
    struct store store; /* first: the port */
    struct memstore *rows;
    enum mem_fault fault; /* of the next commit; then OK again */
    /* a shared store's: */
    int index;
    unsigned reads_left; /* 0: none fails; else with that many reads the connection is lost */
    bool away;           /* the store can't be reached */
    bool in_turn, narrow;
    struct turn_needs expects; /* by the next begin */
    bool passed;               /* ready_first has passed over somebody */
    struct map locks;          /* of a narrow turn: MEM_KEY of tasks, archives, slots */
    /* of a narrow turn: so many of its reads, or its commit, come before another server takes a turn; 0: none does */
    unsigned aside;
    bool too_far;             /* a load_others had too much to tell; whoever looks at it puts it back */
    int64_t mark;             /* of the commit that was sent last */
    size_t turns_max;         /* that load_others tells */
    unsigned n_cut, n_looked; /* what has happened */
    struct store *real;       /* memstore_twin: behind this one; NULL: nothing is */
};

struct memstore {
    struct memport own; /* first: of a store that is one server's */
    struct arena arena; /* all strings, for ever */
    struct store_head head;
    struct map lanes, classes, specs, slots, tasks, executors, tokens; /* rows by id (lanes: id + 1) */
    struct map outs, ins;                                              /* task -> struct edges */
    struct hold *holds;
    size_t n_holds, cap_holds; /* sorted by kind, key, rank, task */
    struct ready {
        int64_t class_id, prio, vt, task;
    } * ready;
    size_t n_ready, cap_ready; /* sorted */
    struct attempt *attempts;
    size_t n_attempts, cap_attempts;
    struct smap uniques;     /* tenant/key -> task id boxed */
    struct smap idempotency; /* text -> struct idempotency */
    struct map outputs;      /* task -> struct str */
    struct site_key site[4];
    size_t n_site;
    struct wall_known clock;
    struct map archives; /* by lane */
    struct revision *revisions;
    size_t n_revisions, cap_revisions;
    struct latest *latests;
    size_t n_latests, cap_latests;
    struct schedule *schedules;
    size_t n_schedules, cap_schedules;
    struct map changesets; /* by task */
    struct changeset_file *changeset_files;
    size_t n_changeset_files, cap_changeset_files;
    struct turn_row {
        int64_t turn, first_seq, time;
        struct str events;
    } * turns;
    size_t n_turns, cap_turns;
    /* a shared store's: */
    struct map touched; /* MEM_KEY of a row -> the number of the commit that wrote it last */
    struct duty duties[MEM_DUTIES_MAX];
    size_t n_duties;
    int64_t numbers;                        /* of tasks: the last one that a narrow turn was given */
    int64_t marks[MEM_SERVERS_MAX];         /* by server: of its last commit */
    struct memport *ports[MEM_SERVERS_MAX]; /* by server: whose turns may be open at once */
    /* another server's turn, in the middle of a narrow one of this port; NULL: none */
    void (*beside)(struct memport *port);
};

enum mem_kind { MEM_LANE = 1, MEM_SLOT, MEM_EXECUTOR, MEM_ARCHIVE, MEM_TASK };
#define MEM_KEY(kind, id) ((uint64_t)(kind) << 56 | (uint64_t)(id))

struct edges {
    struct edge *edges;
    size_t n, cap;
};

struct memstore *memstore_new(uint64_t incarnation);
void memstore_free(struct memstore *store);

/* memstore_keep: the rows of `from` as they are now; memory is taken from `arena`, rows that never change are shared.
 * The same puts them back: `to` keeps its arena, its port and its faults. memstore_drop: a kept one is let go. */
void memstore_keep(struct memstore *to, const struct memstore *from, struct arena *arena);
void memstore_drop(struct memstore *kept);

int64_t memstore_unique(struct memstore *store, struct str tenant, struct str key); /* whose it is; 0: nobody's */
const struct idempotency *memstore_idempotency(struct memstore *store, const struct idempotency *key); /* NULL: none */
void memstore_apply(struct memstore *store, const struct changes *changes);
struct lane *lane_copy(struct arena *arena, const struct lane *row);
struct task_class *class_copy(struct arena *arena, const struct task_class *row);
struct slot *slot_copy(struct arena *arena, const struct slot *row);
struct executor *executor_dup(struct arena *arena, const struct executor *row);
struct archive *archive_copy(struct arena *arena, const struct archive *row);
extern struct store_ops memstore_ops; /* complete after the first memstore_new */

/* memstore_shared.c. memport_open: a way to the rows of `store` for one more server. */
void memport_open(struct memport *port, struct memstore *store, int index);
/* 0: never, or before there was a number */
int64_t memstore_touched(const struct memstore *store, enum mem_kind kind, int64_t id);

bool memport_read_fails(struct store *store, struct err *err); /* the connection is lost with this read */
bool memport_others(
    struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err);

/* memstore_twin.c. memport_twin: after memport_open: a real, empty store behind it. memport_compare: all that there is,
 * read once more. */
void memport_twin(struct memport *port, struct store *real);
bool memport_compare(struct memport *port, struct err *err);
extern void (*memstore_differs)(const char *what); /* they do */

/* memstore_archives.c */
void archives_apply(struct memstore *store, const struct changes *changes);
void archive_ops_add(struct store_ops *ops);
const struct revision *memstore_revision(const struct memstore *store, int64_t lane, int64_t rev); /* NULL: none */
/* run 0; NULL: none */
const struct task *memstore_task_upto(const struct memstore *store, int64_t lane, struct str name, int64_t upto);

/* memstore_changesets.c */
void changesets_apply(struct memstore *store, const struct changes *changes);
void changeset_ops_add(struct store_ops *ops);

#endif
