/* task_refs: the keys of a task that name other tasks: depends, after, cancels, blocked_by.
 *
 * In a workflow the names are read here and resolved when all files are read (workflow_check.c). A posted task's
 * references are left as nodes: only the caller knows all tasks of the call. */
#include "text/key.h"
#include "text/workflow_read.h"

bool workflow_refs_full(struct workflow_read *read, const struct node_context *context, const struct doc_node *node)
{
    if (read->n_refs < WORKFLOW_REFS_MAX) {
        read->n_refs++;
        return false;
    }
    if (!read->refs_over)
        node_fault(context, node, "the workflow has more than %d references between tasks", WORKFLOW_REFS_MAX);
    read->refs_over = true;
    return true;
}

struct workflow_ref *workflow_ref_add(struct workflow_read *read, const struct node_context *context,
    const struct doc_node *node, struct workflow_refs *refs)
{
    if (workflow_refs_full(read, context, node))
        return NULL;
    struct workflow_ref *ref = ARENA_PUSH(read->arena, refs->items, refs->n, refs->cap);
    ref->place = workflow_place_of(context, node);
    return ref;
}

/* ref_text: NAME, NAME[k=v], PREV, PREV:NAME. */
static bool ref_text(struct task_read *r, const struct doc_node *node, struct workflow_ref *ref)
{
    struct str text;
    struct err err = { 0 };
    if (!task_line(r, node, KEY_BYTES_MAX, &text))
        return false;
    if (str_eqz(text, "PREV")) {
        ref->prev = true;
        return true; /* the name is filled in when it is known */
    }
    if (str_starts(text, STR("PREV:"))) {
        ref->prev = true;
        text = str_sub(text, 5, text.len);
    }
    ptrdiff_t bracket = str_index(text, '[');
    if (bracket >= 0) {
        if (text.ptr[text.len - 1] != ']')
            return node_fault(&r->context, node, "'%.*s': ']' is missing at the end", STR_ARG(diag_shown(text)));
        ref->variant = str_sub(text, (size_t)bracket + 1, text.len - 1);
        text = str_sub(text, 0, (size_t)bracket);
        if (!variant_check(ref->variant, &err))
            return node_fault(&r->context, node, "%s", err.text);
    }
    if (!name_check(text, "task", &err))
        return node_fault(&r->context, node, "%s", err.text);
    ref->name = text;
    return true;
}

static bool ref_of(struct task_read *r, const struct doc_node *node, bool mapping_allowed, struct workflow_refs *refs)
{
    static const struct str words[] = { { "success", 7 }, { "finished", 8 } };
    struct workflow_ref ref = { 0 };
    const struct doc_node *name = node;
    if (node->kind == NODE_MAPPING && mapping_allowed) {
        struct node_reader reader;
        size_t on;
        if (!node_read_begin(&reader, &r->context, node, r->key))
            return false;
        name = node_read_any(&reader, "task");
        if (node_read_choice(&reader, "on", words, 2, &on))
            ref.on = on == 0 ? WORKFLOW_ON_SUCCESS : WORKFLOW_ON_FINISHED;
        node_read_end(&reader);
        if (name == NULL)
            return node_fault(&r->context, node, "'task' is missing: which task does this mean?");
    }
    if (!ref_text(r, name, &ref))
        return false;
    ref.place = workflow_place_of(&r->context, name);
    struct workflow_ref *added = workflow_ref_add(r->read, &r->context, name, refs);
    if (added != NULL)
        *added = ref;
    return added != NULL;
}

static bool refs_of(struct task_read *r, const struct doc_node *value, bool mapping_allowed, struct workflow_refs *refs)
{
    bool ok = true;
    for (size_t i = 0; i < node_list_n(value); i++)
        ok = ref_of(r, node_list_at(value, i), mapping_allowed, refs) && ok;
    return ok;
}

bool value_depends(struct task_read *r, const struct doc_node *value)
{
    r->depends = value;
    return r->place == TASK_IN_QUEUE || refs_of(r, value, true, &r->task->depends);
}

bool value_after(struct task_read *r, const struct doc_node *value)
{
    r->after = value;
    if (r->place == TASK_IN_QUEUE)
        return true;
    size_t before = r->task->after.n;
    if (!refs_of(r, value, true, &r->task->after))
        return false;
    for (size_t i = before; i < r->task->after.n; i++) {
        struct workflow_ref *ref = &r->task->after.items[i];
        if (ref->on != WORKFLOW_ON_SUCCESS)
            continue;
        diag_error(
            r->context.diags, workflow_diag_place(r->read, ref->place), "'after' waits for the end, whatever it is");
        diag_suggest(r->context.diags, "write it in 'depends'");
    }
    return true;
}

bool value_cancels(struct task_read *r, const struct doc_node *value)
{
    r->cancels = value;
    return r->place == TASK_IN_QUEUE || refs_of(r, value, false, &r->task->cancels);
}

bool value_blocked_by(struct task_read *r, const struct doc_node *value)
{
    struct workflow_refs refs = { 0 }; /* what the defaults say is replaced */
    bool ok = refs_of(r, value, false, &refs);
    for (size_t i = 0; i < refs.n; i++)
        if (refs.items[i].prev)
            ok = diag_error(r->context.diags, workflow_diag_place(r->read, refs.items[i].place),
                "'blocked_by' takes names of tasks: it counts in every revision");
    r->task->reserved.blocked_by = refs;
    return ok;
}
