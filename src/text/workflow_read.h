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
    const char *key; /* the key whose value is being read, and its form */
    const struct task_form *form;
    /* where these stand in the task itself; NULL: they don't */
    const struct doc_node *on, *schedule, *detached, *command, *script, *depends, *after, *cancels;
};

/* task_read_keys: all keys of the mapping, as far as they may stand there, into r->task. */
void task_read_keys(struct task_read *r, const struct doc_node *mapping);

#define DAY_MS ((int64_t)24 * 3600 * 1000)

/* task_form: how the value of a key is read. `read` returns false when it has added a fault. */
struct task_form {
    bool (*read)(struct task_read *r, const struct doc_node *value);
    size_t offset;    /* of the member of struct workflow_task; of the forms below */
    int64_t min, max; /* of integers, and of durations in ms */
};
bool form_truth(struct task_read *r, const struct doc_node *value);
bool form_integer(struct task_read *r, const struct doc_node *value);
bool form_line(struct task_read *r, const struct doc_node *value);
bool form_duration(struct task_read *r, const struct doc_node *value);
bool form_template(struct task_read *r, const struct doc_node *value);
bool form_minutes(struct task_read *r, const struct doc_node *value);
void *task_member(const struct task_read *r);

/* The readers of single keys: value_NAME. */
#define OWN(name) bool value_##name(struct task_read *r, const struct doc_node *value);
#define TRUTH_IN(member)
#define INTEGER_IN(member, min, max)
#define LINE_IN(member)
#define DURATION_IN(member, min, max)
#define TEMPLATE_IN(member)
#define MINUTES_IN(member)
#define KEY(name, where, flags, form, schema, sentence) form
#include "text/task_doc.def"
#undef KEY
#undef OWN
#undef TRUTH_IN
#undef INTEGER_IN
#undef LINE_IN
#undef DURATION_IN
#undef TEMPLATE_IN
#undef MINUTES_IN

/* task_line: a string of one line, not empty, without control characters. task_lines: a list of at most n_max of
 * them; in a workflow also a single one. */
enum { TASK_LINE_MAX = 1000, TASK_LIST_MAX = 64 };
bool task_line(struct task_read *r, const struct doc_node *value, size_t len_max, struct str *out);
bool task_lines(struct task_read *r, const struct doc_node *value, size_t n_max, struct workflow_words *out);

/* workflow_refs_full: counts one more; true past WORKFLOW_REFS_MAX (said once, at the node). */
bool workflow_refs_full(struct workflow_read *read, const struct node_context *context, const struct doc_node *node);
/* workflow_ref_add: a reference, counted; NULL when there are too many. */
struct workflow_ref *workflow_ref_add(struct workflow_read *read, const struct node_context *context,
    const struct doc_node *node, struct workflow_refs *refs);

struct workflow_place workflow_place_of(const struct node_context *context, const struct doc_node *node);
struct diag_place workflow_diag_place(const struct workflow_read *read, struct workflow_place place);

/* workflow_check: the checks that need all files: unknown names, cycles, contradictions. */
void workflow_check(struct workflow_read *read);

#endif
