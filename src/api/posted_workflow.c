/* posted_workflow: see posted_workflow.h.
 *
 * The workflow is taken out of the body as it was written, so a place in it is a place in the body; which value stands
 * there is found by walking down the text once more. Totals are bounded by the body's limit. */
#include "api/posted_workflow.h"

#include <sodium.h>
#include <string.h>

#include "text/glob.h"

enum { TOUCHED_MAX = 1000, PATH_BYTES_MAX = 4096 };

/* offset_of: the byte that a place means. */
static size_t offset_of(struct str text, unsigned line, unsigned column)
{
    size_t at = 0;
    for (unsigned l = 1; l < line && at < text.len; at++)
        l += text.ptr[at] == '\n';
    for (unsigned c = 1; c < column && at < text.len; c++) {
        size_t len = str_char_len(str_sub(text, at, text.len));
        at += len > 0 ? len : 1;
    }
    return at;
}

static void fault_add(struct call *call, struct str raw, const struct diag *diag)
{
    struct str body = call->text;
    struct diag_file whole = { .text = body };
    const char *at = raw.ptr;
    if (diag->place.line > 0) {
        size_t offset = offset_of(raw, diag->place.line, diag->place.column);
        at += offset < raw.len ? offset : raw.len - 1;
    }
    size_t before = call->err.n_items;
    err_item(&call->err, ERR_invalid, node_pointer(&call->arena, call->body, at), "%.*s", STR_ARG(diag->message));
    if (call->err.n_items == before)
        return;
    struct diag_place place = diag_place_at(&whole, (size_t)(at - body.ptr));
    struct err_item *item = err_item_last(&call->err);
    item->line = place.line;
    item->column = place.column;
    item->suggestion = str_dup(&call->arena, diag->suggestion);
}

void posted_workflows_release(struct api *api)
{
    for (size_t i = 0; i < sizeof api->workflows / sizeof api->workflows[0]; i++)
        definition_release(api->workflows[i].definition);
}

/* definition_of: parsed once for each content, since revisions mostly come with the same workflow again. One with
 * faults isn't kept. */
static struct definition *definition_of(struct api *api, struct str raw)
{
    const size_t n = sizeof api->workflows / sizeof api->workflows[0];
    struct posted_workflow *oldest = &api->workflows[0];
    unsigned char hash[sizeof oldest->hash];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)raw.ptr, raw.len, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        struct posted_workflow *known = &api->workflows[i];
        if (known->definition != NULL && memcmp(known->hash, hash, sizeof hash) == 0) {
            known->used = ++api->workflows_used;
            return definition_keep(known->definition);
        }
        if (known->used < oldest->used)
            oldest = known;
    }
    struct definition_file file = { STR(POSTED_WORKFLOW_NAME), raw };
    struct definition *definition = definition_read(&file, 1, (struct str){ 0 });
    if (!definition->valid)
        return definition;
    definition_release(oldest->definition);
    *oldest = (struct posted_workflow){ .definition = definition_keep(definition), .used = ++api->workflows_used };
    memcpy(oldest->hash, hash, sizeof hash);
    return definition;
}

void posted_workflow_read(struct call *call, const struct doc_node *workflow, struct definition **out)
{
    struct str raw = workflow->raw;
    struct definition *definition = definition_of(call->api, raw);
    *out = definition;
    if (definition->valid)
        return;
    for (size_t i = 0; i < definition->diags.n; i++)
        if (definition->diags.items[i].severity == DIAG_ERROR)
            fault_add(call, raw, &definition->diags.items[i]);
    if (call->err.code == ERR_none)
        err_item(&call->err, ERR_invalid, STR("/workflow"), "%.*s", STR_ARG(definition->summary));
}

static bool task_touched(struct arena *arena, const struct workflow_task *task, const struct str *paths, size_t n)
{
    struct globs globs = { ARENA_ARRAY(arena, struct glob, task->paths.n), 0 };
    for (size_t i = 0; i < task->paths.n; i++)
        if (glob_parse(task->paths.items[i], arena, &globs.items[globs.n]) == NULL)
            globs.n++;
    for (size_t i = 0; i < n; i++)
        if (globs_match(&globs, paths[i]))
            return true;
    return false;
}

void posted_workflow_touched(
    struct call *call, const struct doc_node *value, const struct definition *definition, const bool **out)
{
    if (value == NULL)
        return;
    if (value->kind != NODE_SEQUENCE || value->n > TOUCHED_MAX) {
        err_item(&call->err, ERR_invalid, STR("/touched"), "'touched' must be a list of at most %d paths", TOUCHED_MAX);
        return;
    }
    size_t n = value->n;
    struct str *paths = ARENA_ARRAY(&call->arena, struct str, n);
    for (size_t i = 0; i < n; i++) {
        if (!node_is_text(value->items[i], &paths[i]) || paths[i].len == 0 || paths[i].len > PATH_BYTES_MAX ||
            paths[i].ptr[0] == '/')
            err_item(&call->err, ERR_invalid, json_pointer_at(&call->arena, STR("/touched"), i),
                "a path is a text of 1 to %d bytes, from the archive's root, without a slash before it",
                PATH_BYTES_MAX);
    }
    if (call->err.code != ERR_none || definition == NULL || !definition->valid)
        return;
    bool *touched = ARENA_ARRAY(&call->arena, bool, definition->workflow.n_tasks);
    for (size_t i = 0; i < definition->workflow.n_tasks; i++) {
        const struct workflow_task *task = &definition->workflow.tasks[i];
        touched[i] = task->paths.n == 0 || task_touched(&call->arena, task, paths, n);
    }
    *out = touched;
}

size_t posted_workflow_files(struct arena *arena, struct str text, struct definition_file **out)
{
    *out = NULL;
    if (text.len == 0)
        return 0;
    struct definition *definition = definition_of_text(text);
    size_t n = definition->n_files;
    *out = ARENA_ARRAY(arena, struct definition_file, n);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = (struct definition_file){ str_dup(arena, definition->files[i].name),
            str_dup(arena, definition->files[i].text) };
    definition_release(definition);
    return n;
}
