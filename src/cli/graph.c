/* graph: the tasks around a task, or of a revision, with their edges and states. */
#include <string.h>

#include "base/map.h"
#include "cli/command.h"
#include "cli/graph_draw.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "cli/task_text.h"

static const char *graph_path(struct session *s, const char *operand)
{
    return operand_is_revision(operand) ? revision_path(s, operand) : session_task_path(s, operand, "/graph");
}

static const char *task_label(struct session *s, const struct graph_task *task)
{
    struct str name = term_cut(&s->arena, &s->term, str_of(task->name), 40);
    return str_dupz(&s->arena, name.len
                                   ? str_fmt(&s->arena, "%c %lld %.*s", task->state, (long long)task->id, STR_ARG(name))
                                   : str_fmt(&s->arena, "%c %s", task->state, task->key));
}

static char edge_kind(const json_t *edge)
{
    const char *kind = field_z(edge, "kind");
    return strcmp(kind, "after") == 0 ? 'a' : strcmp(kind, "cancels") == 0 ? 'c' : 'd';
}

/* name_of_key: ARCHIVE@REV:NAME, of another revision: shown with its number, since the same name stands there twice. */
static const char *name_of_key(struct session *s, const char *key)
{
    const char *at = strchr(key, '@');
    return term_safe_z(&s->arena, at ? at + 1 : key);
}

/* name_in_key: as the key has it, with variant and run, which tell tasks of one name apart. */
static const char *name_in_key(struct session *s, const json_t *task, const char *key)
{
    const char *colon = *field_z(json_object_get(task, "key"), "archive") ? strchr(key, ':') : NULL;
    return term_safe_z(&s->arena, colon ? colon + 1 : task_name(task));
}

struct graph_loading {
    struct session *session;
    struct graph *out;
    struct smap by_key; /* -> index + 1 */
};

static void task_load(struct graph_loading *loading, const json_t *item, const char *key, const char *name)
{
    struct session *s = loading->session;
    struct graph *out = loading->out;
    struct graph_task *task = ARENA_PUSH(&s->arena, out->tasks, out->n_tasks, out->cap_tasks);
    *task = (struct graph_task){
        .id = field_i64(item, "id", 0), .state = task_letter(item), .key = term_safe_z(&s->arena, key), .name = name
    };
    task->label = task_label(s, task);
    smap_put(&loading->by_key, str_of(key), (void *)(uintptr_t)out->n_tasks);
}

/* others_load: what a revision's tasks wait for or cancel in earlier revisions; it stands in the tasks themselves. */
static void others_load(struct graph_loading *loading, const json_t *task)
{
    static const char *const lists[] = { "depends", "after", "cancels" };
    const json_t *other;
    size_t i;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        json_array_foreach (json_object_get(task, lists[l]), i, other) {
            const char *key = field_z(other, "key");
            if (*key && smap_find(&loading->by_key, str_of(key)) == NULL)
                task_load(loading, other, key, name_of_key(loading->session, key));
        }
}

/* graph_load: the document's tasks and edges; edges that name a task which isn't there are left out. */
static void graph_load(struct session *s, const json_t *document, struct graph *out)
{
    const json_t *tasks = json_object_get(document, "tasks"), *edges = json_object_get(document, "edges"), *item;
    struct graph_loading loading = { .session = s, .out = out };
    size_t i;
    json_array_foreach (tasks, i, item) {
        const char *key = task_key(&s->arena, item);
        task_load(&loading, item, key, name_in_key(s, item, key));
    }
    json_array_foreach (tasks, i, item)
        others_load(&loading, item);
    json_array_foreach (edges, i, item) {
        uintptr_t from = (uintptr_t)smap_find(&loading.by_key, str_of(field_z(item, "from"))),
                  to = (uintptr_t)smap_find(&loading.by_key, str_of(field_z(item, "to")));
        if (from && to)
            *ARENA_PUSH(&s->arena, out->edges, out->n_edges, out->cap_edges) =
                (struct graph_edge){ (uint32_t)(from - 1), (uint32_t)(to - 1), edge_kind(item) };
    }
    smap_release(&loading.by_key);
}

static int graph_print(struct session *s, const struct graph *graph, const char *format)
{
    int64_t columns = s->term.tty ? s->term.columns : 0;
    if (!option_i64(&s->options, "width", 0, 100000, &columns))
        return EXIT_USAGE;
    if (strcmp(format, "dot") == 0) {
        graph_dot(stdout, graph);
    } else if (strcmp(format, "svg") == 0) {
        if (!graph_svg(stdout, &s->arena, graph))
            return session_err(s, ERR_invalid,
                "the graph is too large for a drawing (%zu tasks); try --format dot or json", graph->n_tasks);
    } else if (!graph_ascii(stdout, &s->arena, &s->term, graph, (int)columns)) {
        graph_list(stdout, &s->arena, &s->term, graph);
        session_note(s, "the drawing would not fit; --width 0 draws it all the same where it can, --format svg or dot "
                        "draws it elsewhere");
    }
    return 0;
}

int graph_command(struct session *s)
{
    int status = 0;
    const char *format = option_get(&s->options, "format");
    format = format ? format : s->json ? "json" : "ascii";
    if (s->json && strcmp(format, "json") != 0)
        return usage_error(s->options.spec, "--json and --format %s contradict each other", format);
    json_t *document = session_get(s, graph_path(s, s->options.operands[0]));
    if (!document)
        return s->status;
    if (strcmp(format, "json") == 0) {
        session_print(s, document);
    } else {
        struct graph graph = { 0 };
        graph_load(s, document, &graph);
        if (json_is_true(json_object_get(document, "truncated")))
            session_note(s, "the graph is larger than the server gives away in one piece: this is the part around %s",
                s->options.operands[0]);
        status = graph_print(s, &graph, format);
    }
    json_decref(document);
    return status == OPTIONS_RUN ? 0 : status;
}
