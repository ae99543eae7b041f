/* batch: revisions read from a repository, made into commands for the engine.
 *
 * Owns what a command points to until all commands of the batch were answered: texts, the flags of touched tasks, a
 * reference of the definition. A definition is read once for as long as the workflow folder stays the same, and shared
 * by all those revisions.
 *
 * Fails when the repository does; the batch is as it was before then. */
#include <string.h>

#include "engine/definition.h"
#include "watch/follow.h"

#define MATCHES_MAX 20000000u /* paths times tasks: beyond, everything counts as touched */

struct batch *batch_new(struct follow *follow)
{
    struct batch *batch = mem_alloc_zero(sizeof *batch);
    batch->follow = follow;
    batch->commands = mem_alloc_zero(sizeof *batch->commands * (BATCH_REVISIONS_MAX + LATE_MAX));
    return batch;
}

void batch_free(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        definition_release(batch->commands[i].in.revision.definition);
    arena_release(&batch->arena);
    mem_free(batch->commands);
    mem_free(batch);
}

/* --- the definition --- */

void matcher_release(struct matcher *matcher)
{
    definition_release(matcher->definition);
    arena_release(&matcher->arena);
    *matcher = (struct matcher){ 0 };
}

static void matcher_paths(struct matcher *matcher)
{
    const struct workflow *workflow = &matcher->definition->workflow;
    bool any = false;
    struct globs *paths = ARENA_ARRAY(&matcher->arena, struct globs, workflow->n_tasks + 1);
    for (size_t i = 0; i < workflow->n_tasks; i++) {
        const struct workflow_words *words = &workflow->tasks[i].paths;
        struct glob *items = ARENA_ARRAY(&matcher->arena, struct glob, words->n + 1);
        size_t n = 0;
        while (n < words->n && glob_parse(words->items[n], &matcher->arena, &items[n]) == NULL)
            n++;
        if (n > 0 && n == words->n) { /* a valid definition has no other */
            paths[i] = (struct globs){ items, n };
            any = true;
        }
    }
    matcher->paths = any ? paths : NULL;
}

static bool matcher_read(struct follow *follow, struct arena *scratch, struct source_ident ident, struct err *err)
{
    struct matcher *matcher = &follow->matcher;
    struct source_workflows found = { 0 };
    if (!source_workflows_read(follow->source, scratch, ident, matcher->content, &found, err))
        return false;
    if (found.same)
        return true;
    matcher_release(matcher);
    matcher->content = str_dup(&matcher->arena, found.content);
    if (found.n_files == 0 && found.fault.len == 0)
        return true;
    struct definition_file *files = ARENA_ARRAY(scratch, struct definition_file, found.n_files + 1);
    for (size_t i = 0; i < found.n_files; i++)
        files[i] = (struct definition_file){ found.files[i].name, found.files[i].text };
    matcher->definition = definition_read(files, found.n_files, found.fault);
    if (matcher->definition->valid)
        matcher_paths(matcher);
    return true;
}

static bool task_touched(const struct globs *paths, const struct source_revision *revision)
{
    for (size_t i = 0; i < revision->n_changes; i++)
        if (globs_match(paths, revision->changes[i].path))
            return true;
    return false;
}

static const bool *touched_find(struct batch *batch, const struct source_revision *revision)
{
    const struct matcher *matcher = &batch->follow->matcher;
    if (matcher->paths == NULL || revision->all_touched)
        return NULL;
    size_t n = matcher->definition->workflow.n_tasks;
    if (revision->n_changes > MATCHES_MAX / n)
        return NULL;
    bool *touched = ARENA_ARRAY(&batch->arena, bool, n + 1);
    for (size_t i = 0; i < n; i++)
        touched[i] = matcher->paths[i].n == 0 || task_touched(&matcher->paths[i], revision);
    return touched;
}

/* --- one revision --- */

static void command_fill(struct batch *batch, const struct batch_item *item, const struct source_revision *revision)
{
    struct follow *follow = batch->follow;
    struct arena *arena = &batch->arena;
    struct command *command = &batch->commands[batch->n++];
    *command = (struct command){
        .kind = CMD_REVISION, .actor = { STR("watch"), str_dup(arena, follow->tenant) }, .arena = arena
    };
    command->in.revision.archive = str_dup(arena, follow->name);
    command->in.revision.row = (struct revision){ .lane = follow->lane,
        .rev = item->rev,
        .ident = str_dup(arena, item->ident),
        .txn = str_dup(arena, item->txn),
        .author = str_dup(arena, revision->author),
        .message = str_dup(arena, revision->message),
        .time = revision->time_ms,
        .prevs = item->prevs,
        .n_prevs = item->n_prevs };
    command->in.revision.cause = str_dup(arena, revision->cause.len > 0 ? revision->cause : item->cause);
    command->in.revision.rewritten = item->rewritten;
    if (follow->matcher.definition != NULL)
        command->in.revision.definition = definition_keep(follow->matcher.definition);
    command->in.revision.touched = touched_find(batch, revision);
}

bool batch_add(struct batch *batch, struct batch_item *item, struct err *err)
{
    struct follow *follow = batch->follow;
    struct arena scratch = { 0 };
    struct source_ident ident = { item->rev, item->ident };
    struct source_revision revision = { 0 };
    ASSERT(batch->n - batch->n_late < BATCH_REVISIONS_MAX);
    bool good = source_revision_read(follow->source, &scratch, ident, &revision, err) &&
                matcher_read(follow, &scratch, ident, err) &&
                (item->prevs_find == NULL || item->prevs_find(item->context, batch, &revision, item, err));
    if (good)
        command_fill(batch, item, &revision);
    arena_release(&scratch);
    return good;
}
