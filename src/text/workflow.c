/* workflow: workflow files read into one struct workflow: the two forms of a file, defaults, triggers, the shorthand.
 *
 * It promises that every fault of every file is reported in one run, and that a workflow without faults needs no
 * further checks. A name may be used before it is defined, and in another file: names are resolved when all files are
 * read (workflow_check.c). */
#include "text/workflow.h"

#include "text/key.h"
#include "text/task_doc.h"
#include "text/workflow_read.h"

#define SEMAPHORE_MAX 1000000

struct file_read {
    struct workflow_read *read;
    struct node_context context;
    struct workflow_task template; /* what a task of this file begins as */
    bool template_on;              /* `defaults` says `on` */
};

struct workflow_place workflow_place_of(const struct node_context *context, const struct doc_node *node)
{
    return (struct workflow_place){ context->file->name, node->line, node->column };
}

struct diag_place workflow_diag_place(const struct workflow_read *read, struct workflow_place place)
{
    for (size_t i = 0; i < read->input->n_sources; i++) {
        const struct diag_file *file = read->input->sources[i].file;
        if (file->name.ptr == place.file.ptr && file->name.len == place.file.len)
            return (struct diag_place){ file, place.line, place.column };
    }
    return (struct diag_place){ NULL, 0, 0 };
}

bool workflow_is_file(struct str name)
{
    return str_ends(name, STR(".yaml")) || str_ends(name, STR(".yml")) || str_ends(name, STR(".json"));
}

/* -- tasks -- */

static void prev_name(struct workflow_refs *refs, struct str name)
{
    for (size_t i = 0; i < refs->n; i++)
        if (refs->items[i].prev && refs->items[i].name.len == 0)
            refs->items[i].name = name;
}

/* triggers_settle: what starts the task, from what it says and what its file says. */
static void triggers_settle(const struct file_read *file, struct task_read *r)
{
    struct workflow_task *task = r->task;
    if (r->schedule != NULL)
        task->triggers = r->on == NULL && !file->template_on ? TRIGGER_SCHEDULE : task->triggers | TRIGGER_SCHEDULE;
    else if ((task->triggers & TRIGGER_SCHEDULE) != 0 && r->on != NULL) {
        node_fault(&r->context, r->on, "'on: schedule' needs a 'schedule'");
        diag_suggest(r->context.diags, "add schedule: \"H 3 * * *\"");
    } else {
        /* its file is for the clock; this one comes with what it depends on */
        task->triggers &= ~(unsigned)TRIGGER_SCHEDULE;
    }
    task->starts_alone =
        task->detached || r->schedule != NULL || (r->on != NULL && (task->triggers & TRIGGER_COMMIT) == 0);
    if (task->detached && r->detached != NULL && r->on != NULL && (task->triggers & TRIGGER_COMMIT) != 0)
        node_fault(&r->context, r->detached, "'detached' means never by a commit, but 'on' lists commit");
}

/* task_keep: into the namespace, unless the name is taken or there are too many. */
static void task_keep(struct file_read *file, const struct workflow_task *task, const struct doc_node *at)
{
    struct workflow_read *read = file->read;
    bool commit = str_eqz(task->name, "COMMIT");
    size_t index = (size_t)(uintptr_t)smap_find(&read->by_name, task->name);
    const struct workflow_task *first = index > 0 ? &read->out->tasks[index - 1] : NULL;
    if (commit && read->out->commit.name.len > 0)
        first = &read->out->commit;
    if (first != NULL) {
        node_fault(&file->context, at, "there is a task '%.*s' already, at %.*s:%u", STR_ARG(task->name),
            STR_ARG(first->place.file), first->place.line);
    } else if (commit) {
        read->out->commit = *task;
    } else if (read->out->n_tasks == WORKFLOW_TASKS_MAX) {
        if (!read->tasks_over)
            node_fault(&file->context, at, "the workflow has more than %d tasks", WORKFLOW_TASKS_MAX);
        read->tasks_over = true;
    } else {
        *ARENA_PUSH(read->arena, read->out->tasks, read->out->n_tasks, read->out->cap_tasks) = *task;
        smap_put(&read->by_name, task->name, (void *)(uintptr_t)read->out->n_tasks);
    }
}

/* task_add: one task; `key` is its name in a `jobs` mapping, NULL in a list. */
static void task_add(struct file_read *file, const struct doc_node *node, const struct doc_node *key)
{
    static const struct doc_node empty = { .kind = NODE_MAPPING };
    struct workflow_task task = file->template;
    struct task_read r = { .read = file->read, .context = file->context, .task = &task, .key = "name" };
    const struct doc_node *at = key != NULL ? key : node, *mapping = key != NULL && node_is_null(node) ? &empty : node;
    if (file->read->tasks_over)
        return;
    if (mapping->kind != NODE_MAPPING) {
        node_fault(
            &file->context, node, "a task must be a mapping with a name, not %s", node_found(&file->context, node));
        return;
    }
    const struct doc_node *name = node_find(mapping, STR("name"));
    if (key != NULL && name != NULL)
        node_fault(
            &file->context, name, "the name of this task stands before it: '%.*s'", STR_ARG(diag_shown(key->text)));
    else if (key == NULL && (name == NULL || node_is_null(name)))
        node_fault(&file->context, node, "this task has no 'name'");
    const struct doc_node *given = key != NULL ? key : name;
    bool commit = given != NULL && given->kind == NODE_SCALAR && str_eqz(given->text, "COMMIT");
    size_t before = file->read->diags->n_errors;
    if (key != NULL)
        value_name(&r, key);
    r.place = commit ? TASK_COMMIT : TASK_IN_WORKFLOW;
    task_read_keys(&r, mapping);
    task.place = workflow_place_of(&file->context, given != NULL ? given : at);
    prev_name(&task.depends, task.name);
    prev_name(&task.after, task.name);
    prev_name(&task.cancels, task.name);
    if (r.command != NULL && r.script != NULL)
        node_fault(&file->context, r.command, "a task has a 'command' or a 'script', not both");
    if (!commit)
        triggers_settle(file, &r);
    /* A task with faulty keys still defines its name: else each task that names it would get a second fault. */
    if (task.name.len > 0 && (given != NULL || before == file->read->diags->n_errors))
        task_keep(file, &task, given != NULL ? given : at);
}

/* -- the shorthand -- */

struct step_ends { /* the names that begin a step, and those that end it */
    struct workflow_step *first, *last;
    size_t n_first, cap_first, n_last, cap_last;
};

static struct step_ends steps_read(struct file_read *file, const struct doc_node *node, bool parallel);

static struct step_ends step_read(struct file_read *file, const struct doc_node *node)
{
    struct step_ends ends = { 0 };
    struct workflow_read *read = file->read;
    if (node->kind == NODE_SEQUENCE)
        return steps_read(file, node, false);
    if (node->kind == NODE_MAPPING) {
        struct str word = node->n == 1 ? node->pairs[0].key->text : (struct str){ 0 };
        if (str_eqz(word, "parallel") || str_eqz(word, "sequence"))
            return steps_read(file, node->pairs[0].value, str_eqz(word, "parallel"));
        static const struct str words[] = { { "parallel", 8 }, { "sequence", 8 } };
        node_fault(&file->context, node->n > 0 ? node->pairs[0].key : node,
            "a step is a task's name, or 'parallel' with a list of steps");
        diag_suggest_closest(read->diags, node->n > 0 ? node->pairs[0].key->text : (struct str){ 0 }, words, 2);
        return ends;
    }
    struct err err = { 0 };
    if (node_is_null(node)) {
        node_fault(&file->context, node, "a step is a task's name, not null");
    } else if (str_starts(node->text, STR("PREV"))) {
        node_fault(&file->context, node,
            "'workflow' orders the tasks of one revision: PREV stands in 'depends' or 'after' of a task");
    } else if (!name_check(node->text, "task", &err)) {
        node_fault(&file->context, node, "%s", err.text);
    } else {
        struct workflow_step step = { node->text, workflow_place_of(&file->context, node) };
        *ARENA_PUSH(read->arena, read->steps, read->n_steps, read->cap_steps) = step;
        *ARENA_PUSH(read->arena, ends.first, ends.n_first, ends.cap_first) = step;
        *ARENA_PUSH(read->arena, ends.last, ends.n_last, ends.cap_last) = step;
    }
    return ends;
}

static void steps_link(
    struct file_read *file, const struct doc_node *at, const struct step_ends *earlier, const struct step_ends *later)
{
    struct workflow_read *read = file->read;
    for (size_t i = 0; i < later->n_first; i++) {
        for (size_t k = 0; k < earlier->n_last; k++) {
            if (workflow_refs_full(read, &file->context, at))
                return;
            /* The place is the waiter's: what is wrong is wrong with its standing there. */
            *ARENA_PUSH(read->arena, read->links, read->n_links, read->cap_links) =
                (struct workflow_link){ later->first[i].name, { earlier->last[k].name, later->first[i].place } };
        }
    }
}

/* steps_join: the ends of parallel steps together. */
static void steps_join(struct workflow_read *read, struct step_ends *ends, const struct step_ends *more)
{
    for (size_t i = 0; i < more->n_first; i++)
        *ARENA_PUSH(read->arena, ends->first, ends->n_first, ends->cap_first) = more->first[i];
    for (size_t i = 0; i < more->n_last; i++)
        *ARENA_PUSH(read->arena, ends->last, ends->n_last, ends->cap_last) = more->last[i];
}

static struct step_ends steps_read(struct file_read *file, const struct doc_node *node, bool parallel)
{
    struct step_ends all = { 0 }, earlier = { 0 };
    if (node->kind != NODE_SEQUENCE || node->n == 0) {
        node_fault(&file->context, node, "steps must be a list of tasks' names, not %s",
            node->kind == NODE_SEQUENCE ? "an empty one" : node_found(&file->context, node));
        return all;
    }
    for (size_t i = 0; i < node->n; i++) {
        struct step_ends ends = step_read(file, node->items[i]);
        if (parallel) {
            steps_join(file->read, &all, &ends);
            continue;
        }
        if (ends.n_first == 0)
            continue; /* it was wrong; said */
        if (earlier.n_last == 0) {
            all.first = ends.first;
            all.n_first = ends.n_first;
        } else {
            steps_link(file, node->items[i], &earlier, &ends);
        }
        earlier = ends;
        all.last = ends.last;
        all.n_last = ends.n_last;
    }
    all.cap_first = all.n_first;
    all.cap_last = all.n_last;
    return all;
}

/* -- files -- */

static void semaphores_read(struct file_read *file, const struct doc_node *node)
{
    struct workflow_read *read = file->read;
    for (size_t i = 0; i < node->n; i++) {
        const struct doc_node *key = node->pairs[i].key;
        struct err err = { 0 };
        int64_t limit = 0;
        if (!name_check(key->text, "semaphore", &err)) {
            node_fault(&file->context, key, "%s", err.text);
            continue;
        }
        const char *what = str_dupz(read->arena, key->text);
        if (!node_i64(&file->context, node->pairs[i].value, what, 1, SEMAPHORE_MAX, &limit))
            continue;
        const struct workflow_semaphore *first = NULL;
        for (size_t k = 0; k < read->out->n_semaphores && first == NULL; k++)
            if (str_eq(read->out->semaphores[k].name, key->text))
                first = &read->out->semaphores[k];
        if (first != NULL)
            node_fault(&file->context, key, "there is a semaphore '%s' already, at %.*s:%u", what,
                STR_ARG(first->place.file), first->place.line);
        else
            *ARENA_PUSH(read->arena, read->out->semaphores, read->out->n_semaphores, read->out->cap_semaphores) =
                (struct workflow_semaphore){ key->text, limit, workflow_place_of(&file->context, key) };
    }
}

static void defaults_read(struct file_read *file, const struct doc_node *on, const struct doc_node *defaults)
{
    struct task_read r = {
        .read = file->read, .context = file->context, .place = TASK_IN_DEFAULTS, .task = &file->template, .key = "on"
    };
    if (on != NULL)
        value_on(&r, on);
    r.on = NULL;
    if (defaults != NULL)
        task_read_keys(&r, defaults);
    file->template_on = r.on != NULL;
}

static void mapping_read(struct file_read *file, const struct doc_node *root)
{
    struct node_reader reader;
    if (!node_read_begin(&reader, &file->context, root, "the file"))
        return;
    const struct doc_node *on = node_read_any(&reader, "on"), *defaults = node_read_mapping(&reader, "defaults"),
                          *semaphores = node_read_mapping(&reader, "semaphores"),
                          *steps = node_read_any(&reader, "workflow"), *tasks = node_read_any(&reader, "tasks"),
                          *jobs = node_read_any(&reader, "jobs");
    const struct doc_node *name = node_find(root, STR("name"));
    if (name != NULL && tasks == NULL && jobs == NULL) {
        node_fault(&file->context, root, "this looks like one task: tasks stand in a list");
        diag_suggest(
            file->context.diags, "begin it with '- name: %.*s' and indent the rest", STR_ARG(diag_shown(name->text)));
        return;
    }
    node_read_end(&reader);
    defaults_read(file, on, defaults);
    if (semaphores != NULL)
        semaphores_read(file, semaphores);
    if (tasks != NULL && tasks->kind != NODE_SEQUENCE) {
        node_fault(&file->context, tasks, "'tasks' must be a list, not %s", node_found(&file->context, tasks));
        if (tasks->kind == NODE_MAPPING)
            diag_suggest(file->context.diags, "a mapping by name is called 'jobs'");
    } else if (tasks != NULL) {
        for (size_t i = 0; i < tasks->n; i++)
            task_add(file, tasks->items[i], NULL);
    }
    if (jobs != NULL && jobs->kind != NODE_MAPPING) {
        node_fault(&file->context, jobs, "'jobs' must be a mapping by name, not %s", node_found(&file->context, jobs));
        if (jobs->kind == NODE_SEQUENCE)
            diag_suggest(file->context.diags, "a list is called 'tasks'");
    } else if (jobs != NULL) {
        for (size_t i = 0; i < jobs->n; i++)
            task_add(file, jobs->pairs[i].value, jobs->pairs[i].key);
    }
    if (steps != NULL)
        steps_read(file, steps, false);
}

static void source_read(struct workflow_read *read, const struct workflow_source *source)
{
    const struct doc_node *root =
        source->root != NULL ? source->root : node_parse(source->file, read->arena, read->diags);
    if (root == NULL)
        read->incomplete = true;
    if (root == NULL || node_is_null(root))
        return;
    struct file_read file = { .read = read, .context = { source->file, read->arena, read->diags, NULL } };
    file.template = task_doc_empty();
    if (root->kind == NODE_MAPPING) {
        mapping_read(&file, root);
    } else if (root->kind == NODE_SEQUENCE) {
        for (size_t i = 0; i < root->n; i++)
            task_add(&file, root->items[i], NULL);
    } else {
        node_fault(
            &file.context, root, "a workflow is a list of tasks or a mapping, not %s", node_found(&file.context, root));
    }
}

bool workflow_parse(const struct workflow_input *input, struct arena *arena, struct diags *diags, struct workflow *out)
{
    size_t n_errors = diags->n_errors;
    *out = (struct workflow){ 0 };
    struct workflow_read read = { .input = input, .arena = arena, .diags = diags, .out = out };
    if (input->n_sources > WORKFLOW_FILES_MAX) {
        return diag_error(diags, (struct diag_place){ input->sources[WORKFLOW_FILES_MAX].file, 0, 0 },
            "there are more than %d workflow files", WORKFLOW_FILES_MAX);
    }
    for (size_t i = 0; i < input->n_sources; i++)
        source_read(&read, &input->sources[i]);
    workflow_check(&read);
    smap_release(&read.by_name);
    diags_sort(diags);
    return diags->n_errors == n_errors;
}
