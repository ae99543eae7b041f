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

enum task_place { TASK_IN_WORKFLOW, TASK_IN_DEFAULTS, TASK_COMMIT, TASK_IN_QUEUE };

struct task_read {              /* one mapping of task keys: a task, or a file's defaults */
    struct workflow_read *read; /* NULL: in a queue */
    enum task_place place;
    struct node_context context;
    struct workflow_task *task;
    const char *key; /* the key whose value is being read */
    /* where these stand in the task itself; NULL: they don't */
    const struct doc_node *on, *schedule, *detached, *command, *script, *depends, *after, *cancels;
};

/* task_read_keys: all keys of the mapping, as far as they may stand there, into r->task. */
void task_read_keys(struct task_read *r, const struct doc_node *mapping);

/* Values, by key; false: a fault was added. */
#define KEY(name, where, flags, schema, sentence) bool value_##name(struct task_read *r, const struct doc_node *value);
#include "text/task_doc.def"
#undef KEY

/* workflow_refs_full: counts one more; true past WORKFLOW_REFS_MAX (said once, at the node). */
bool workflow_refs_full(struct workflow_read *read, const struct node_context *context, const struct doc_node *node);
/* workflow_ref_add: a reference, counted; NULL when there are too many. */
struct workflow_ref *workflow_ref_add(struct workflow_read *read, const struct node_context *context,
    const struct doc_node *node, struct workflow_refs *refs);

struct workflow_place workflow_place_of(const struct node_context *context, const struct doc_node *node);
struct diag_place workflow_diag_place(const struct workflow_read *read, struct workflow_place place);

/* workflow_check: what only shows when all files are read: unknown names, circles, contradictions. */
void workflow_check(struct workflow_read *read);

#endif
