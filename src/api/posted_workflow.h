/* posted_workflow: the `workflow` of a posted revision: checked as a file of a repository is, with faults as places in
 * the body. Private to this room. */
#ifndef WEIR_API_POSTED_WORKFLOW_H
#define WEIR_API_POSTED_WORKFLOW_H

#include "api/call.h"
#include "engine/definition.h"

#define POSTED_WORKFLOW_NAME "workflow.json" /* the name of the file that it is kept as */

/* posted_workflow_read: the definition, which the caller releases; faults are added to call->err: their path is a JSON
 * pointer into the body, line and column are those of the body. The body has been parsed. */
void posted_workflow_read(struct call *call, const struct doc_node *workflow, struct definition **out);

/* posted_workflow_touched: which tasks with `paths` the posted paths touch; `value` NULL: none were posted, and all
 * tasks count as touched. */
void posted_workflow_touched(
    struct call *call, const struct doc_node *value, const struct definition *definition, const bool **out);

/* posted_workflow_files: the files of a kept definition's text. */
size_t posted_workflow_files(struct arena *arena, struct str text, struct definition_file **out);

#endif
