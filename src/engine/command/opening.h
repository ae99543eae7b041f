/* opening: one revision, or one run, on its way to rows of tasks and edges (opening.c). In this order:
 *     opening_init; opening_input, which the caller may narrow; opening_expand;
 *     for each task of the expansion o.nodes[i] = opening_node or opening_task_make, then opening_track;
 *     opening_connect; slice_settle; opening_release.
 * A failure of the store is the turn's: slice->failed. */
#ifndef WEIR_ENGINE_COMMAND_OPENING_H
#define WEIR_ENGINE_COMMAND_OPENING_H

#include "core/expand.h"
#include "engine/archives.h"

struct opening { /* one revision, or one run, on its way to rows */
    struct turn *turn;
    struct archive *archive;
    const struct revision *revision;
    const struct definition *definition; /* NULL: no workflow */
    const bool *touched;
    struct str tenant, archive_name;
    struct because because;
    struct smap earlier; /* revision and name -> task id, of what `expand` was told about */
    struct node **nodes, **doomed_by;
    struct smap keys; /* unique keys that tasks of this opening take */
    bool waited;      /* the revision was told before its turn came */
};

void opening_init(struct opening *o, struct turn *turn, struct archive *archive, const struct revision *revision,
    const struct definition *definition, const struct because *because);
void opening_release(struct opening *o);
/* Sets o->definition to NULL where the workflow can't be read, or the revision is too deep to be started. */
struct expand_input opening_input(struct opening *o);
/* Reads the archive's lock into `input`, expands, and makes room for the nodes. */
void opening_expand(struct opening *o, struct expand_input *input, struct expansion *out);
/* The row that the task has since its revision waited, or that of the holder of its unique key; else a new one. */
struct node *opening_node(struct opening *o, const struct expand_task *task);
struct node *opening_task_make(struct opening *o, const struct expand_task *task, int64_t run, struct str params);
int64_t opening_run_next(struct opening *o, struct str name); /* 0 for the first run of the task, then 2, 3, ... */
/* The key that the task asks for, its template filled in; empty: none. */
struct str opening_unique_key(struct opening *o, const struct workflow_task *task);
/* From now on the task may be what PREV means. */
void opening_track(struct opening *o, const struct node *node);
/* The same for a task behind a gap: this turn finds it, PREV doesn't mean it before its revision is opened. */
void opening_track_waiting(struct opening *o, const struct node *node);
/* Makes the edges, judges those to tasks that have ended, and stores what is left of the archive's lock. */
void opening_connect(struct opening *o, const struct expansion *x);
/* A workflow that can't be read: a failed task WORKFLOW has the diagnostics as its log; no task waits for it. */
void opening_workflow_fail(struct opening *o, const struct definition *definition);

#endif
