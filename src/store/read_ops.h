/* read_ops: what a store gives for its readers; private to store (users call the functions of store/read.h). Most of
 * those are statements that both databases answer (reader.c); here is what each does in its own way. */
#ifndef WEIR_STORE_READ_OPS_H
#define WEIR_STORE_READ_OPS_H

#include "store/query.h"
#include "store/read.h"

struct listing { /* a list of tasks on its way (tasks.c) */
    struct reader *reader;
    const struct task_filter *filter;
    size_t limit;
    unsigned states;
    bool by_lane;   /* `lanes` counts */
    int64_t *lanes; /* in the arena: those of the name that the filter has */
    size_t n_lanes;
    int64_t *ids; /* in the arena: what was found, per source newest first */
    size_t n_ids, cap_ids;
    int64_t floor; /* below this id a source wasn't walked; 0: all were walked to their end */
    int64_t deadline;
};

struct reader_ops {
    void (*close)(struct reader *reader);
    bool (*present)(struct reader *reader);                /* may be NULL: always */
    bool (*there)(struct reader *reader);                  /* likewise */
    void (*limit)(struct reader *reader, int64_t boot_ms); /* may be NULL: what it reads is short */
    int64_t (*held_until)(void);                           /* may be NULL: never */
    bool shared;                                           /* several servers may write the store */
    /* May be NULL. After a call of several statements has failed: was it for the connection? Then err is empty again,
     * and the call is made once more. */
    bool (*again)(struct reader *reader, struct err *err);
    bool (*task)(struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found,
        struct err *err);
    /* In a snapshot. walk: adds to l->ids what fits of a source, one more than the limit if there is, and moves the
     * floor up to where it stopped. views: of these tasks, in their order (descending). */
    bool (*walk)(struct listing *l, struct arena *arena, enum sql_id source, enum task_state state, struct err *err);
    bool (*views)(struct reader *reader, struct arena *arena, const int64_t *ids, size_t n, struct task_view **out,
        size_t *out_n, struct err *err);
    /* Likewise for change sets; the walk's *out_next: where it was stopped, 0: it came to the end. */
    bool (*changesets_walk)(struct reader *reader, struct arena *arena, const struct changeset_filter *f, int64_t **out,
        size_t *out_n, int64_t *out_next, struct err *err);
    bool (*changeset_views)(struct reader *reader, struct arena *arena, const int64_t *tasks, size_t n,
        struct changeset_view **out, size_t *out_n, struct err *err);
};

/* how long a call looks before it hands back what it has: no read transaction is held longer on purpose */
enum { STEP_US = 25000 };

struct reader {
    const struct reader_ops *ops;
    struct sql sql;
    int64_t step_us; /* STEP_US; tests make it less, so that every walk is cut short */
};

bool row_changeset_view(struct query *q, struct arena *arena, struct changeset_view *out, struct err *err);
/* the other task of an edge, as the statements edge_views_... and need_views name its columns */
bool row_edge_view(struct query *q, struct arena *arena, struct edge_view *out, struct err *err);

#endif
