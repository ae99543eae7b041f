/* read_ops: what a store gives for its readers; private to store (users call the functions of store/read.h). */
#ifndef WEIR_STORE_READ_OPS_H
#define WEIR_STORE_READ_OPS_H

#include "store/read.h"

struct reader_ops {
    void (*close)(struct reader *reader);
    bool (*present)(struct reader *reader);                /* may be NULL: always */
    bool (*there)(struct reader *reader);                  /* likewise */
    void (*limit)(struct reader *reader, int64_t boot_ms); /* may be NULL: what it reads is short */
    int64_t (*held_until)(void);                           /* may be NULL: never */
    bool (*task)(struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found,
        struct err *err);
    bool (*row)(
        struct reader *reader, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err);
    bool (*spec)(struct reader *reader, struct arena *arena, int64_t spec, struct str *out_body, struct err *err);
    bool (*spec_slots)(
        struct reader *reader, struct arena *arena, int64_t spec, const int64_t **out, size_t *out_n, struct err *err);
    bool (*spec_class)(struct reader *reader, struct arena *arena, int64_t spec, struct str *out, struct err *err);
    bool (*tasks)(struct reader *reader, struct arena *arena, const struct task_filter *filter, struct task_view **out,
        size_t *out_n, int64_t *out_next, struct err *err);
    bool (*find)(struct reader *reader, struct str tenant, struct str lane, int64_t rev, struct str name,
        struct str variant, int64_t run, int64_t *out_id, struct err *err);
    bool (*edges)(struct reader *reader, struct arena *arena, int64_t id, bool by_pred, struct edge_view **out,
        size_t *out_n, struct err *err);
    bool (*holds)(
        struct reader *reader, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err);
    bool (*hold_users)(struct reader *reader, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
        struct hold **out, size_t *out_n, struct err *err);
    bool (*events)(struct reader *reader, struct arena *arena, int64_t since, int64_t lane, size_t n,
        struct event **out, size_t *out_n, int64_t *out_last, struct err *err);
    bool (*task_events)(struct reader *reader, struct arena *arena, int64_t task, size_t n, struct event **out,
        size_t *out_n, struct err *err);
    bool (*lanes)(struct reader *reader, struct arena *arena, const struct list_page *page, struct lane ***out,
        size_t *out_n, struct err *err);
    bool (*slots)(struct reader *reader, struct arena *arena, const struct list_page *page, struct slot ***out,
        size_t *out_n, struct err *err);
    bool (*executors)(struct reader *reader, struct arena *arena, const struct list_page *page, struct executor ***out,
        size_t *out_n, struct err *err);
    bool (*classes)(
        struct reader *reader, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err);
    bool (*tokens)(struct reader *reader, struct arena *arena, const struct list_page *page, struct token ***out,
        size_t *out_n, struct err *err);
    bool (*lane_of)(struct reader *reader, struct arena *arena, int64_t id, struct lane **out, struct err *err);
    bool (*slot)(struct reader *reader, struct arena *arena, int64_t id, struct slot **out, struct err *err);
    bool (*executor)(struct reader *reader, struct arena *arena, int64_t id, struct executor **out, struct err *err);
    bool (*class_)(struct reader *reader, struct arena *arena, int64_t id, struct task_class **out, struct err *err);
    bool (*site)(struct reader *reader, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err);
    /* NULL: alone */
    bool (*servers)(
        struct reader *reader, struct arena *arena, struct server_row **out, size_t *out_n, struct err *err);
    bool (*head)(struct reader *reader, struct store_head *out, struct err *err);
    bool (*grant)(struct reader *reader, int64_t task, int64_t *out_grant, enum task_state *out_state, bool *out_found,
        struct err *err);
    bool (*grant_owner)(
        struct reader *reader, int64_t task, int64_t grant, int64_t *out_owner, bool *out_found, struct err *err);
    bool (*log_tail)(struct reader *reader, struct arena *arena, int64_t task, int64_t grant, struct log_tail *out,
        bool *out_found, struct err *err);
    bool (*archives)(
        struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err);
    bool (*archives_page)(struct reader *reader, struct arena *arena, struct str tenant, int64_t before, size_t limit,
        struct archive_view **out, size_t *out_n, struct err *err);
    bool (*lane)(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct lane *out,
        bool *out_found, struct err *err);
    bool (*archive)(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
        struct archive_view *out, bool *out_found, struct err *err);
    bool (*revision)(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
        bool *out_found, struct err *err);
    bool (*revisions)(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit,
        struct revision **out, size_t *out_n, struct err *err);
    bool (*revision_of_ident)(struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err);
    bool (*schedules)(struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n,
        struct err *err);
};

/* how long a call looks before it hands back what it has: no read transaction is held longer on purpose */
enum { STEP_US = 25000 };

struct reader {
    const struct reader_ops *ops;
    int64_t step_us; /* STEP_US; tests make it less, so that every walk is cut short */
};

#endif
