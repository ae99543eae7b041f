/* task_doc: what a task can say. Its keys are rows of task_doc.def, for the files of archives (workflow.h) and for
 * posted tasks alike. */
#ifndef WEIR_TEXT_TASK_DOC_H
#define WEIR_TEXT_TASK_DOC_H

#include "core/workflow.h"
#include "text/node.h"

struct task_links { /* a posted task's references, as they were written; NULL: none are given */
    const struct doc_node *depends, *after, *cancels;
    bool allow_failure;
};

/* task_doc_posted: one task of a request's body. What is wrong goes to context->diags; *out holds what could be read,
 * but for the references. Texts point into the body or are in the arena. */
void task_doc_posted(const struct node_context *context, const struct doc_node *node, struct workflow_task *out,
    struct task_links *links);

/* task_doc_empty: a task that says nothing: all defaults. */
struct workflow_task task_doc_empty(void);

/* task_doc_body: what the executor needs of it, as a JSON object; what isn't given isn't written. */
void task_doc_body(struct buf *out, const struct workflow_task *task);

/* The table itself, for help and manuals. */
struct task_doc_row {
    const char *name, *sentence;
    bool in_workflow, in_queue, reserved;
};
bool task_doc_row(size_t i, struct task_doc_row *out); /* false: there are no more */

#endif
