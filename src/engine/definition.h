/* definition: the workflow files of one revision, read once: what a turn needs to make its tasks.
 *
 * Reading never fails: files with faults give a definition that isn't valid and carries its diagnostics as a compiler
 * prints them. It doesn't change afterwards and may be shared between threads; the last definition_release frees it.
 * `text` is what the store keeps (a JSON document of names and texts of the files); definition_of_text reads it again
 * to an equal definition. */
#ifndef WEIR_ENGINE_DEFINITION_H
#define WEIR_ENGINE_DEFINITION_H

#include <stdatomic.h>

#include "core/workflow.h"
#include "engine/engine.h"
#include "text/diag.h"

struct definition_file {
    struct str name; /* "_workflows/build.yaml"; strict JSON when it ends in .json */
    struct str text;
};

struct definition {
    struct arena arena;
    _Atomic int users;
    struct str text;
    bool valid;
    struct workflow workflow;
    struct task_def *defs; /* by index of workflow.tasks: body, class and policy; templates are filled in by the turn */
    struct str summary;    /* not valid: "FILE:LINE:COLUMN: message", and how many more */
    struct str report;     /* not valid: all diagnostics, with source lines and carets */
    struct diags diags;    /* not valid: the same as values */
    struct definition_file *files;
    size_t n_files;
};

struct definition *definition_read(
    /* fault: not empty: reading the folder failed so */
    const struct definition_file *files, size_t n, struct str fault);
/* definition_def: what the engine takes of one task. Its body is in the arena, other texts are where the task's are. */
struct task_def definition_def(struct arena *arena, const struct workflow_task *task, struct buf *scratch);
struct definition *definition_of_text(struct str text);
struct definition *definition_keep(struct definition *definition);
void definition_release(struct definition *definition); /* NULL: nothing */

#endif
