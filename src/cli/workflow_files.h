/* workflow_files: the workflow files that a PATH on the command line means, read and checked.
 *
 * A PATH is an archive's root (a folder with _workflows in it), the _workflows folder itself, or a file. Files of one
 * _workflows folder are one workflow, whichever of them was named; any other file is a workflow of its own. Links, and
 * folders where files are expected, are refused as the server does. */
#ifndef WEIR_CLI_WORKFLOW_FILES_H
#define WEIR_CLI_WORKFLOW_FILES_H

#include "base/err.h"
#include "text/workflow.h"

struct workflow_set {   /* one namespace */
    const char *folder; /* NULL: a file of its own */
    struct workflow_source *sources;
    size_t n_sources, cap_sources;
    struct workflow workflow;
    bool ok;
};

struct workflow_sets {
    struct arena *arena;
    struct diags diags; /* of all of them */
    struct workflow_set *items;
    size_t n, cap;
    size_t n_files, n_tasks;
};

void workflow_sets_init(struct workflow_sets *sets, struct arena *arena);
/* workflow_sets_add: finds and reads the files; false and err when the PATH itself can't be used (not_found: it isn't
 * there). What is wrong with a file becomes a diagnostic. */
bool workflow_sets_add(struct workflow_sets *sets, const char *path, struct err *err);
/* A set of texts from elsewhere: its index, then its files. */
size_t workflow_sets_add_empty(struct workflow_sets *sets);
void workflow_sets_add_text(struct workflow_sets *sets, size_t set, const char *name, const char *text);
void workflow_sets_check(struct workflow_sets *sets); /* parses, as a server does; faults are in diags */

#endif
