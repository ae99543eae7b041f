/* task_body: the body of POST /v1/tasks, one task or many, as definitions for the engine.
 *
 * Keys, values and their faults are text/task_doc's; references between the tasks are task_ref.c's. It fails with
 * bad_json for what is no JSON, else with all faults of all tasks, each with the JSON pointer of the field. */
#include "api/task_body.h"

#include "engine/definition.h"
#include "text/json_node.h"
#include "text/json_read.h"

enum { TASKS_MAX = 10000 };
#define BODY_BYTES_MAX (48 * MIB)

/* tasks_of: the list of tasks in the document; NULL: the document is itself one task, or a fault was found. */
static const struct doc_node *tasks_of(const struct node_context *context)
{
    const struct doc_node *document = context->body, *list = node_find(document, STR("tasks"));
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < document->n; i++) {
        const struct doc_node *key = document->pairs[i].key;
        if (document->pairs[i].value != list)
            node_fault(context, key, "unknown field '%.*s' beside 'tasks'", STR_ARG(diag_shown(key->text)));
    }
    if (list->kind != NODE_SEQUENCE)
        node_fault(context, list, "'tasks' must be an array, not %s", node_found(context, list));
    else if (list->n == 0 || list->n > TASKS_MAX)
        node_fault(context, list, "'tasks' must have 1 to %d tasks, not %zu", TASKS_MAX, list->n);
    return list;
}

/* task_make: the definition of one, unless its call has a fault. */
static void task_make(const struct node_context *context, const struct doc_node *node, struct buf *scratch,
    struct task_links *links, struct task_def *out)
{
    struct workflow_task task;
    task_doc_posted(context, node, &task, links);
    task.unique = workflow_template_fill(context->arena, task.unique, task.queue, (struct str){ 0 }, task.name);
    task.concurrency =
        workflow_template_fill(context->arena, task.concurrency, task.queue, (struct str){ 0 }, task.name);
    struct str path = out->path;
    *out = definition_def(context->arena, &task, scratch);
    out->path = path;
    if (out->body.len > TASK_BYTES_MAX)
        node_missing(context, node, "name", "the task has %zu MiB; at most %zu are taken", out->body.len / MIB,
            TASK_BYTES_MAX / MIB);
}

static bool tasks_read(const struct node_context *context, struct task_body *out, struct err *err)
{
    const struct doc_node *list = tasks_of(context);
    if (context->diags->n_errors > 0)
        return diags_to_err(context->diags, err);
    out->many = list != NULL;
    out->n = out->many ? list->n : 1;
    out->defs = ARENA_ARRAY(context->arena, struct task_def, out->n);
    struct task_links *links = ARENA_ARRAY(context->arena, struct task_links, out->n);
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    bool refs = out->many;
    for (size_t i = 0; i < out->n; i++) {
        if (out->many)
            out->defs[i].path = json_pointer_at(context->arena, STR("/tasks"), i);
        task_make(context, out->many ? list->items[i] : context->body, &body, &links[i], &out->defs[i]);
        refs = refs || links[i].depends != NULL || links[i].after != NULL || links[i].cancels != NULL;
    }
    buf_release(&body);
    diags_to_err(context->diags, err);
    if (refs)
        refs_resolve(context->arena, out, links, err);
    return err->code == ERR_none;
}

bool task_body_read(struct arena *arena, struct str raw, struct task_body *out, struct err *err)
{
    struct str text = str_dup(arena, raw); /* what the definitions point into */
    const struct doc_node *body = json_node_body(text, STR("data"), arena);
    if (body == NULL)
        return json_read_fault(text, err);
    struct diags diags = { .arena = arena };
    struct node_context context = { .arena = arena, .diags = &diags, .body = body };
    return tasks_read(&context, out, err);
}
