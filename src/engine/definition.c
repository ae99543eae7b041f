/* definition: see definition.h. */
#include "engine/definition.h"

#include <string.h>

#include "io/timezone.h"
#include "text/json.h"
#include "text/json_value.h"
#include "text/task_doc.h"
#include "text/workflow.h"

enum { TEXT_DEPTH = 8, SUMMARY_BYTES = 400 };
#define FAULT_WORD ": error: "
#define TEXT_BYTES_MAX ((size_t)64 << 20)

static bool timezone_is_known(void *context, struct str name)
{
    struct arena scratch = { 0 };
    struct err ignored = { 0 };
    const struct time_zone *tz;
    (void)context;
    bool known = timezone_load(NULL, name, &scratch, &tz, &ignored);
    arena_release(&scratch);
    return known;
}

/* --- what the store keeps --- */

static void text_write(struct definition *definition, struct str fault)
{
    struct buf out;
    buf_init(&out, TEXT_BYTES_MAX);
    struct json json = json_to(&out);
    json_object_begin(&json);
    json_key(&json, "files");
    json_array_begin(&json);
    for (size_t i = 0; i < definition->n_files; i++) {
        json_object_begin(&json);
        json_put_str(&json, "name", definition->files[i].name);
        json_put_str(&json, "text", definition->files[i].text);
        json_object_end(&json);
    }
    json_array_end(&json);
    if (fault.len > 0)
        json_put_str(&json, "fault", fault);
    json_object_end(&json);
    definition->text = str_dup(&definition->arena, buf_str(&out));
    buf_release(&out);
}

/* --- what a turn makes tasks of --- */

static struct label *labels_sorted(struct arena *arena, const struct workflow_pairs *labels)
{
    struct label *sorted = ARENA_ARRAY(arena, struct label, labels->n + 1);
    for (size_t i = 0; i < labels->n; i++) {
        size_t at = i;
        for (; at > 0 && str_cmp(labels->items[i].name, sorted[at - 1].name) < 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = labels->items[i];
    }
    return sorted;
}

struct task_def definition_def(struct arena *arena, const struct workflow_task *task, struct buf *scratch)
{
    bool runs = task->command.n > 0 || task->script.ptr != NULL;
    buf_reset(scratch);
    task_doc_body(scratch, task);
    return (struct task_def){ .queue = task->queue,
        .name = task->name,
        .kind = task->image.len > 0 && runs ? KIND_IMAGE
                : task->command.n > 0       ? KIND_COMMAND
                : runs                      ? KIND_SCRIPT
                : task->data.len > 0        ? KIND_DATA
                                            : KIND_NONE,
        .body = str_dup(arena, buf_str(scratch)),
        .zone = task->zone,
        .unique = task->unique,
        .concurrency = task->concurrency,
        .labels = labels_sorted(arena, &task->labels),
        .n_labels = task->labels.n,
        .semaphores = task->semaphores.items,
        .n_semaphores = task->semaphores.n,
        .prio = task->priority,
        .not_before = task->not_before,
        .attempts_max = task->attempts_max,
        .backoff_ms = task->backoff_ms,
        .retry_on = task->retry_on };
}

static void defs_make(struct definition *definition)
{
    const struct workflow *workflow = &definition->workflow;
    struct buf body;
    buf_init(&body, TEXT_BYTES_MAX);
    definition->defs = ARENA_ARRAY(&definition->arena, struct task_def, workflow->n_tasks + 1);
    for (size_t i = 0; i < workflow->n_tasks; i++)
        definition->defs[i] = definition_def(&definition->arena, &workflow->tasks[i], &body);
    buf_release(&body);
}

/* --- faults --- */

static void faults_tell(struct definition *definition)
{
    struct buf out;
    const struct diag *first = NULL;
    buf_init(&out, TEXT_BYTES_MAX);
    diags_sort(&definition->diags);
    diags_text(&out, &definition->diags);
    definition->report = str_dup(&definition->arena, buf_str(&out));
    buf_release(&out);
    for (size_t i = 0; i < definition->diags.n && first == NULL; i++)
        if (definition->diags.items[i].severity == DIAG_ERROR)
            first = &definition->diags.items[i];
    ASSERT(first != NULL);
    size_t more = definition->diags.n_errors - 1;
    struct str file = first->place.file ? first->place.file->name : STR("_workflows");
    struct str message =
        str_sub(first->message, 0, first->message.len < SUMMARY_BYTES ? first->message.len : SUMMARY_BYTES);
    struct str place =
        first->place.line ? str_fmt(&definition->arena, ":%u:%u", first->place.line, first->place.column) : STR("");
    struct str rest = more > 0 ? str_fmt(&definition->arena, " (and %zu more)", more) : STR("");
    definition->summary = str_fmt(
        &definition->arena, "%.*s%.*s: %.*s%.*s", STR_ARG(file), STR_ARG(place), STR_ARG(message), STR_ARG(rest));
}

/* faults_place: what was wrong with the files before they could be parsed, a line each: FILE: error: WHAT. */
static void faults_place(struct definition *definition, struct str fault)
{
    for (struct str rest = fault, line; str_cut(&rest, '\n', &line);) {
        const char *at = line.len > 0 ? memmem(line.ptr, line.len, FAULT_WORD, strlen(FAULT_WORD)) : NULL;
        struct diag_file *file = ARENA_NEW(&definition->arena, struct diag_file);
        *file = (struct diag_file){ .name = at != NULL
                                                ? str_dup(&definition->arena, str_sub(line, 0, (size_t)(at - line.ptr)))
                                                : STR("_workflows") };
        struct str what = at != NULL ? str_sub(line, (size_t)(at - line.ptr) + strlen(FAULT_WORD), line.len) : line;
        diag_error(&definition->diags, (struct diag_place){ file, 0, 0 }, "%.*s", STR_ARG(what));
    }
}

/* --- life --- */

struct definition *definition_read(const struct definition_file *files, size_t n, struct str fault)
{
    struct definition *definition = mem_alloc_zero(sizeof *definition);
    struct arena *arena = &definition->arena;
    atomic_store(&definition->users, 1);
    definition->diags.arena = arena;
    definition->files = ARENA_ARRAY(arena, struct definition_file, n + 1);
    definition->n_files = n;
    struct diag_file *texts = ARENA_ARRAY(arena, struct diag_file, n + 1);
    struct workflow_source *sources = ARENA_ARRAY(arena, struct workflow_source, n + 1);
    for (size_t i = 0; i < n; i++) {
        definition->files[i] = (struct definition_file){ str_dup(arena, files[i].name), str_dup(arena, files[i].text) };
        texts[i] = (struct diag_file){ definition->files[i].name, definition->files[i].text };
        sources[i].file = &texts[i];
    }
    text_write(definition, fault);
    struct workflow_input input = { .sources = sources, .n_sources = n, .timezone_is_known = timezone_is_known };
    if (fault.len > 0)
        faults_place(definition, fault);
    else
        workflow_parse(&input, arena, &definition->diags, &definition->workflow);
    definition->valid = definition->diags.n_errors == 0;
    if (definition->valid)
        defs_make(definition);
    else
        faults_tell(definition);
    return definition;
}

struct definition *definition_of_text(struct str text)
{
    struct err err = { 0 };
    json_t *root = json_parse(text, TEXT_DEPTH, &err);
    const json_t *list = json_object_get(root, "files"), *fault = json_object_get(root, "fault");
    size_t n = json_array_size(list);
    struct arena scratch = { 0 };
    struct definition_file *files = ARENA_ARRAY(&scratch, struct definition_file, n + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_object_get(json_array_get(list, i), "name"),
                     *body = json_object_get(json_array_get(list, i), "text");
        files[i] = (struct definition_file){ { json_string_value(name), json_string_length(name) },
            { json_string_value(body), json_string_length(body) } };
    }
    struct str said = { json_string_value(fault), json_string_length(fault) };
    if (root == NULL)
        said = STR("the stored definition can't be read");
    struct definition *definition = definition_read(files, n, said);
    arena_release(&scratch);
    json_decref(root);
    return definition;
}

struct definition *definition_keep(struct definition *definition)
{
    atomic_fetch_add(&definition->users, 1);
    return definition;
}

void definition_release(struct definition *definition)
{
    if (definition == NULL || atomic_fetch_sub(&definition->users, 1) > 1)
        return;
    arena_release(&definition->arena);
    mem_free(definition);
}
