/* workflow: the workflow files of one revision (YAML or JSON) as a struct workflow, or everything that is wrong with
 * them.
 *
 * A file is a list of tasks, or a mapping with `on`, `defaults`, `semaphores`, `workflow` (shorthand: a sequence of
 * names with `parallel` in it), `tasks` (a list) and `jobs` (a mapping by name). All files share one namespace;
 * `defaults` and `on` count for their own file. What a task doesn't say comes from its file's defaults; `env` and
 * `labels` are joined, everything else is replaced. Keys are rows of one table (task_doc.def), from which the JSON
 * Schema for editors is made too. */
#ifndef WEIR_TEXT_WORKFLOW_H
#define WEIR_TEXT_WORKFLOW_H

#include "core/workflow.h"
#include "text/node.h"

#define WORKFLOW_VARIANTS_MAX 1000 /* of a matrix */

struct workflow_source {
    const struct diag_file *file; /* strict JSON when its name ends in .json */
    const struct doc_node *root;  /* NULL: parse the file's text */
};

struct workflow_input {
    const struct workflow_source *sources;
    size_t n_sources;
    /* does the tz database have it? NULL: only the form of the name is checked */
    bool (*timezone_is_known)(void *context, struct str name);
    void *context;
    /* keys of policies (matrix, blocked_by, collapse, freeze, window), which this version doesn't carry out: only warn
     */
    bool policies;
};

/* workflow_parse: true when there is no error (there may be warnings). Else all errors of all files are in diags,
 * sorted, and *out holds what could be read. Memory: the arena's. The text of the files must live as long. */
bool workflow_parse(const struct workflow_input *input, struct arena *arena, struct diags *diags, struct workflow *out);

/* workflow_is_file: does the name end in .yaml, .yml or .json? */
bool workflow_is_file(struct str name);

/* workflow_schema: a JSON Schema (draft 2020-12) of a workflow file, for editors. */
void workflow_schema(struct buf *out);

#endif
