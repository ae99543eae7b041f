/* read: the read-only half of the store, for the api. A reader has its own connection and may live on any one thread at
 * a time; each call is a snapshot of its own and short (no read transaction over 50 ms or across a suspended
 * connection). */
#ifndef WEIR_STORE_READ_H
#define WEIR_STORE_READ_H

#include "store/store.h"

struct reader;
struct reader *reader_open(const struct store_config *config, struct err *err);
void reader_close(struct reader *reader);

struct edge_view { /* an edge as one of its tasks sees it: the other task, and the edge's kind and flags */
    int64_t id, lane, rev;
    struct str lane_name, name, variant;
    int64_t run;
    enum task_state state;
    int64_t finished;
    enum edge_kind kind;
    unsigned flags;
};
struct task_view { /* a task with what its JSON shows */
    struct task task;
    struct str lane_name, tenant;
    enum lane_kind lane_kind;
    struct attempt *attempts;
    struct str *executor_names;
    size_t n_attempts;
    struct edge_view *needs;
    size_t n_needs;     /* what it waits for or cancels: depends, after, cancels */
    struct str outputs; /* JSON object, or empty */
};
/* reader_task: full view; *out_found false: none. */
bool reader_task(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err);
/* reader_row: the task alone, for who only wants its key or state. */
bool reader_row(
    struct reader *reader, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err);
/* by task.spec */
bool reader_spec(struct reader *reader, struct arena *arena, int64_t spec, struct str *out_body, struct err *err);
/* reader_spec_slots: the slots that a task of that spec wants, ascending; none: nothing is known of it. */
bool reader_spec_slots(
    struct reader *reader, struct arena *arena, int64_t spec, const int64_t **out, size_t *out_n, struct err *err);

/* reader_spec_class: the key of the class of a task of that spec (core's class_of_key); empty: it isn't kept there. */
bool reader_spec_class(struct reader *reader, struct arena *arena, int64_t spec, struct str *out, struct err *err);

struct task_filter {
    unsigned states; /* bits 1 << state; 0: all */
    struct str lane, name, tenant;
    int64_t rev;    /* 0: any */
    int64_t before; /* cursor: ids below; 0: from the newest */
    size_t limit;
};
/* reader_tasks: newest first; at most filter.limit views; *out_next 0: no more. A call takes 50 ms at most: where no
 * index serves a filter the walk stops early, so a page may be short, or empty, with *out_next > 0. */
bool reader_tasks(struct reader *reader, struct arena *arena, const struct task_filter *filter, struct task_view **out,
    size_t *out_n, int64_t *out_next, struct err *err);
/* reader_task_ids: the same without what is shown of them. */
bool reader_task_ids(struct reader *reader, struct arena *arena, const struct task_filter *filter, int64_t **out,
    size_t *out_n, int64_t *out_next, struct err *err);
/* reader_find: by tenant, lane, rev, name, variant, run (archives) -> id, 0: none. */
bool reader_find(struct reader *reader, struct str tenant, struct str lane, int64_t rev, struct str name,
    struct str variant, int64_t run, int64_t *out_id, struct err *err);
/* reader_edges: both directions of a task, with the other task's state. by_pred: its successors. */
bool reader_edges(struct reader *reader, struct arena *arena, int64_t id, bool by_pred, struct edge_view **out,
    size_t *out_n, struct err *err);
bool reader_holds(
    struct reader *reader, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err);
bool reader_hold_users(struct reader *reader, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err);
/* Events with seq > since, ascending, at most n; lane 0: all. *out_last: the last seq looked at (>= since), so that a
 * filtered follower moves on; a call looks at a bounded number of events, so fewer than n doesn't mean that there are
 * no more: *out_last == since does. */
bool reader_events(struct reader *reader, struct arena *arena, int64_t since, int64_t lane, size_t n,
    struct event **out, size_t *out_n, int64_t *out_last, struct err *err);
/* Events of one task, newest first, by following prev_turn. */
bool reader_task_events(struct reader *reader, struct arena *arena, int64_t task, size_t n, struct event **out,
    size_t *out_n, struct err *err);
/* A page of a list: of the tenant's rows (lanes: and `all`; semaphores: and the site's, but no concurrency keys), or of
 * everybody's, those behind `from` (tokens: newest first, those below), by id. */
struct list_page {
    int64_t from;
    size_t limit;
    struct str tenant;
    bool all;
};
bool reader_lanes_page(struct reader *reader, struct arena *arena, const struct list_page *page, struct lane ***out,
    size_t *out_n, struct err *err);
bool reader_slots_page(struct reader *reader, struct arena *arena, const struct list_page *page, struct slot ***out,
    size_t *out_n, struct err *err);
bool reader_executors_page(struct reader *reader, struct arena *arena, const struct list_page *page,
    struct executor ***out, size_t *out_n, struct err *err);
bool reader_tokens_page(struct reader *reader, struct arena *arena, const struct list_page *page, struct token ***out,
    size_t *out_n, struct err *err);
bool reader_lanes(struct reader *reader, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err);
/* reader_lane: one by name; `all` has no tenant. */
bool reader_lane(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct lane *out,
    bool *out_found, struct err *err);
bool reader_slots(struct reader *reader, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err);
bool reader_executors(
    struct reader *reader, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err);
bool reader_classes(
    struct reader *reader, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err);
/* One row by its id; *out NULL: there is none. */
bool reader_lane_of(struct reader *reader, struct arena *arena, int64_t id, struct lane **out, struct err *err);
bool reader_slot(struct reader *reader, struct arena *arena, int64_t id, struct slot **out, struct err *err);
bool reader_executor(struct reader *reader, struct arena *arena, int64_t id, struct executor **out, struct err *err);
bool reader_class(struct reader *reader, struct arena *arena, int64_t id, struct task_class **out, struct err *err);
bool reader_tokens(struct reader *reader, struct arena *arena, struct token ***out, size_t *out_n, struct err *err);
bool reader_site(struct reader *reader, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err);
/* Archives with their lanes; removed ones too. reader_archive: an empty tenant means any. */
struct archive_view {
    struct archive archive;
    struct lane lane;
};
bool reader_archives(
    struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err);
/* reader_archives_page: those of a tenant that aren't removed, newest first, from below `before` (0: the newest) on. */
bool reader_archives_page(struct reader *reader, struct arena *arena, struct str tenant, int64_t before, size_t limit,
    struct archive_view **out, size_t *out_n, struct err *err);
bool reader_archive(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
    struct archive_view *out, bool *out_found, struct err *err);
bool reader_revision(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err);
/* reader_revisions: newest first, those below `before` (0: from the newest). */
bool reader_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit,
    struct revision **out, size_t *out_n, struct err *err);
/* 0: none */
bool reader_revision_of_ident(struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err);
bool reader_schedules(
    struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n, struct err *err);
/* reader_changeset, reader_changeset_find (by CSID; 0: none): as the engine's loads. */
bool reader_changeset(
    struct reader *reader, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err);
bool reader_changeset_find(
    struct reader *reader, struct str tenant, struct str csid, int64_t *out_task, struct err *err);
struct changeset_view {         /* a change set in a list, with its task */
    struct changeset changeset; /* without `files` and `removed`, which may be long */
    struct task task;
    struct str lane_name;
};
struct changeset_filter {
    struct str tenant;
    unsigned states;        /* bits 1 << state; 0: all */
    int64_t lane;           /* 0: any */
    enum movetype movetype; /* MOVE_NONE: any */
    int64_t before;         /* cursor: tasks below; 0: from the newest */
    size_t limit;
};
/* reader_changesets: newest first, in steps, as reader_tasks. */
bool reader_changesets(struct reader *reader, struct arena *arena, const struct changeset_filter *filter,
    struct changeset_view **out, size_t *out_n, int64_t *out_next, struct err *err);
/* reader_changesets_of: those of these tasks, in their order (descending); all must be change sets. */
bool reader_changesets_of(struct reader *reader, struct arena *arena, const int64_t *tasks, size_t n,
    struct changeset_view **out, size_t *out_n, struct err *err);
/* reader_ready_of: the pending tasks of a class, in the order in which they start; at most n. */
bool reader_ready_of(struct reader *reader, struct arena *arena, int64_t class_id, size_t n, int64_t **out,
    size_t *out_n, struct err *err);
/* reader_present: can the store be asked now? A connection that has ended is made anew; one whose network is gone isn't
 * noticed here. */
bool reader_present(struct reader *reader);
bool reader_there(struct reader *reader); /* the same without making one: never waits */
/* reader_limit: what is asked after that moment (boot ms; 0: none) is refused: ERR_unavailable. What was asked before
 * has its own limit. */
void reader_limit(struct reader *reader, int64_t boot_ms);
/* reader_held_until: boot ms until which something is refused because a lock in the database holds it up; 0: nothing
 * was. */
int64_t reader_held_until(const struct reader *reader);
/* reader_servers: those that share the store; none of a store that is one server's (then reader_is_shared is false). */
bool reader_is_shared(const struct reader *reader);
bool reader_servers(
    struct reader *reader, struct arena *arena, struct server_row **out, size_t *out_n, struct err *err);
bool reader_head(struct reader *reader, struct store_head *out, struct err *err);
/* What a log chunk or finish must be checked against: the task's newest grant and whether that attempt has finished. */
/* reader_grant_owner: the token (struct executor: owner) of the executor that was given it. */
bool reader_grant_owner(
    struct reader *reader, int64_t task, int64_t grant, int64_t *out_owner, bool *out_found, struct err *err);
bool reader_grant(struct reader *reader, int64_t task, int64_t *out_grant, enum task_state *out_state, bool *out_found,
    struct err *err);
bool reader_log_tail(struct reader *reader, struct arena *arena, int64_t task, int64_t grant, struct log_tail *out,
    bool *out_found, struct err *err);

#endif
