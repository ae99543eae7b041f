/* workflow_read: what the parts of the workflow reader share. Private to text. */
#ifndef WEIR_TEXT_WORKFLOW_READ_H
#define WEIR_TEXT_WORKFLOW_READ_H

#include "base/map.h"
#include "text/workflow.h"

struct workflow_step { /* a name in the `workflow` shorthand */
    struct str name;
    struct workflow_place place;
};
struct workflow_link { /* of the shorthand: `waiter` depends on `step` */
    struct str waiter;
    struct workflow_step step;
};

struct workflow_read {
    const struct workflow_input *input;
    struct arena *arena;
    struct diags *diags;
    struct workflow *out;
    struct smap by_name; /* task name -> index + 1; COMMIT isn't in */
    struct workflow_step *steps;
    size_t n_steps, cap_steps;
    struct workflow_link *links;
    size_t n_links, cap_links;
    size_t n_refs;              /* links included */
    bool refs_over, tasks_over; /* the limit was said */
    bool incomplete;            /* a file couldn't be read at all */
};

struct task_read { /* one mapping of task keys: a task, or a file's defaults */
    struct workflow_read *read;
    struct node_context context;
    struct workflow_task *task;
    const char *key;                                                /* the key whose value is being read */
    const struct node *on, *schedule, *detached, *command, *script; /* where these stand in the task itself; NULL: they don't */
};

/* KEY_TEXT: a string; a bare number or truth value of JSON isn't one */
enum { KEY_NOT_IN_DEFAULTS = 1, KEY_IN_COMMIT = 2, KEY_POLICY = 4, KEY_TEXT = 8 };
struct workflow_key {
    const char *name;
    unsigned flags;
    bool (*read)(struct task_read *r, const struct node *value); /* false: a fault was added */
    const char *schema;                                          /* JSON, without braces around it */
    const char *help;
};

/* workflow_task_read: all keys of the mapping into r->task; `commit`: only what COMMIT may have; `defaults`: only what may be one. */
void workflow_task_read(struct task_read *r, const struct node *mapping, bool commit, bool defaults);

/* Values, by key. */
bool value_name(struct task_read *r, const struct node *value);
bool value_depends(struct task_read *r, const struct node *value);
bool value_after(struct task_read *r, const struct node *value);
bool value_cancels(struct task_read *r, const struct node *value);
bool value_blocked_by(struct task_read *r, const struct node *value);
bool value_image(struct task_read *r, const struct node *value);
bool value_command(struct task_read *r, const struct node *value);
bool value_script(struct task_read *r, const struct node *value);
bool value_shell(struct task_read *r, const struct node *value);
bool value_checkout(struct task_read *r, const struct node *value);
bool value_env(struct task_read *r, const struct node *value);
bool value_labels(struct task_read *r, const struct node *value);
bool value_timeout(struct task_read *r, const struct node *value);
bool value_retry(struct task_read *r, const struct node *value);
bool value_lock(struct task_read *r, const struct node *value);
bool value_paths(struct task_read *r, const struct node *value);
bool value_priority(struct task_read *r, const struct node *value);
bool value_zone(struct task_read *r, const struct node *value);
bool value_semaphores(struct task_read *r, const struct node *value);
bool value_artifacts(struct task_read *r, const struct node *value);
bool value_schedule(struct task_read *r, const struct node *value);
bool value_on(struct task_read *r, const struct node *value);
bool value_detached(struct task_read *r, const struct node *value);
bool value_allow_failure(struct task_read *r, const struct node *value);
bool value_collapse(struct task_read *r, const struct node *value);
bool value_sandbox(struct task_read *r, const struct node *value);
bool value_matrix(struct task_read *r, const struct node *value);
bool value_unique(struct task_read *r, const struct node *value);
bool value_concurrency(struct task_read *r, const struct node *value);
bool value_freeze(struct task_read *r, const struct node *value);
bool value_window(struct task_read *r, const struct node *value);

/* workflow_refs_full: counts one more; true past WORKFLOW_REFS_MAX (said once, at the node). */
bool workflow_refs_full(struct workflow_read *read, const struct node_context *context, const struct node *node);
/* workflow_ref_add: a reference, counted; NULL when there are too many. */
struct workflow_ref *workflow_ref_add(
    struct workflow_read *read, const struct node_context *context, const struct node *node, struct workflow_refs *refs);

struct workflow_place workflow_place_of(const struct node_context *context, const struct node *node);
struct diag_place workflow_diag_place(const struct workflow_read *read, struct workflow_place place);

/* workflow_check: what only shows when all files are read: unknown names, circles, contradictions. */
void workflow_check(struct workflow_read *read);

#endif
