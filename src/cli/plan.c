/* plan: the tasks and edges that a revision would get from a workflow, without running anything. A server is asked only
 * for the workflow of a revision that it knows. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map.h"
#include "cli/command.h"
#include "cli/revision_text.h"
#include "cli/task_text.h"
#include "cli/term.h"
#include "cli/workflow_files.h"
#include "core/expand.h"
#include "text/glob.h"
#include "text/json.h"
#include "text/key.h"

#define OUT_CAP ((size_t)256 << 20)

struct plan {
    int argc;
    char **argv;
    struct arena arena;
    struct options options;
    struct session session; /* when a revision is asked for */
    bool session_is_open;
    const char *archive;
    int64_t rev, prev;
    struct workflow_sets sets; /* the workflow, then the one before if it is another */
    const struct workflow *now, *before;
    bool diff;
    struct smap earlier; /* names that revision `prev` has */
    struct expand_lock lock;
};

static int64_t plan_earlier(void *context, struct str name, int64_t upto, bool ran)
{
    struct plan *plan = context;
    (void)ran;
    return plan->prev > 0 && upto >= plan->prev && smap_find(&plan->earlier, name) != NULL ? plan->prev : 0;
}

static bool plan_touched(void *context, const struct workflow_task *task)
{
    struct plan *plan = context;
    struct globs globs = { ARENA_ARRAY(&plan->arena, struct glob, task->paths.n), 0 };
    for (size_t i = 0; i < task->paths.n; i++)
        if (glob_parse(task->paths.items[i], &plan->arena, &globs.items[globs.n]) == NULL)
            globs.n++;
    for (size_t i = 0; i < option_count(&plan->options, "touch"); i++)
        if (globs_match(&globs, str_of(option_nth(&plan->options, "touch", i))))
            return true;
    return false;
}

static void plan_expand(struct plan *plan, const struct workflow *workflow, struct expansion *out)
{
    struct expand_input input = { .workflow = workflow,
        .rev = plan->rev,
        .prevs = &plan->prev,
        .n_prevs = plan->prev > 0,
        .earlier = plan_earlier,
        .touched = option_count(&plan->options, "touch") > 0 ? plan_touched : NULL,
        .context = plan,
        .lock = plan->lock };
    expand(&input, &plan->arena, out);
}

/* earlier_make: what revision `prev` has, and how it leaves the lock. */
static void earlier_make(struct plan *plan)
{
    struct expansion out;
    struct expand_input input = {
        .workflow = plan->before, .rev = plan->prev, .earlier = plan_earlier, .context = plan
    };
    if (plan->prev == 0)
        return;
    expand(&input, &plan->arena, &out);
    plan->lock = out.lock;
    for (size_t i = 0; i < out.n_tasks; i++)
        smap_put(&plan->earlier, out.tasks[i].name, &out.tasks[i]);
}

static struct str key_of(struct plan *plan, int64_t rev, struct str name)
{
    return str_fmt(&plan->arena, "%s@%lld:%.*s", plan->archive, (long long)rev, STR_ARG(name));
}

/* omitted_why: why a commit doesn't create the task; NULL: it does. */
static const char *omitted_why(const struct workflow_task *task, const struct smap *created)
{
    if (smap_find(created, task->name) != NULL)
        return NULL;
    if (task->detached)
        return "detached";
    if ((task->triggers & TRIGGER_COMMIT) != 0 || task->triggers == 0)
        return "chain"; /* comes with what it depends on */
    return (task->triggers & TRIGGER_SCHEDULE) != 0  ? "schedule"
           : (task->triggers & TRIGGER_MESSAGE) != 0 ? "message"
                                                     : "manual";
}

static struct smap created_of(const struct expansion *out)
{
    struct smap created = { 0 };
    for (size_t i = 0; i < out->n_tasks; i++)
        smap_put(&created, out->tasks[i].name, &out->tasks[i]);
    return created;
}

/* -- JSON -- */

static void task_json(struct json *json, const struct plan *plan, const struct expand_task *task)
{
    static const char *const locks[] = {
        [WORKFLOW_LOCK_NONE] = "none", [WORKFLOW_LOCK_SHARED] = "shared", [WORKFLOW_LOCK_EXCLUSIVE] = "exclusive"
    };
    json_object_begin(json);
    json_key(json, "key");
    json_object_begin(json);
    json_put_z(json, "archive", plan->archive);
    json_put_i64(json, "rev", plan->rev);
    json_put_str(json, "name", task->name);
    json_object_end(json);
    json_put_str(json, "name", task->name);
    json_put_bool(json, "skipped", task->skipped);
    json_put_z(json, "lock", locks[task->def->lock]);
    if (task->def->place.line > 0) {
        json_put_str(json, "file", task->def->place.file);
        json_put_i64(json, "line", task->def->place.line);
        json_put_i64(json, "column", task->def->place.column);
    }
    json_object_end(json);
}

static void edge_json(struct json *json, struct plan *plan, const struct expansion *out, const struct expand_edge *edge)
{
    json_object_begin(json);
    json_put_str(json, "from", key_of(plan, plan->rev, out->tasks[edge->task].name));
    json_put_str(json, "to", key_of(plan, edge->other.rev, edge->other.name));
    json_put_z(json, "kind", edge_kind_name(edge->kind));
    if (edge->lock)
        json_put_bool(json, "lock", true);
    json_object_end(json);
}

static struct str edge_line(
    struct plan *plan, const struct expansion *out, const struct expand_edge *edge, size_t width)
{
    struct str other = key_of(plan, edge->other.rev, edge->other.name),
               own = key_of(plan, plan->rev, out->tasks[edge->task].name);
    return str_fmt(&plan->arena, "%.*s%*s %s %.*s  (%s%s)", STR_ARG(other),
        (int)(width > other.len ? width - other.len : 0), "", edge->kind == EDGE_CANCELS ? "<!=" : "<--", STR_ARG(own),
        edge_kind_name(edge->kind), edge->lock ? ", lock" : "");
}

static struct str task_mark(struct plan *plan, const struct expand_task *task)
{
    return str_fmt(&plan->arena, "task %.*s", STR_ARG(key_of(plan, plan->rev, task->name)));
}

static struct str edge_mark(struct plan *plan, const struct expansion *out, const struct expand_edge *edge)
{
    return str_fmt(&plan->arena, "edge %.*s", STR_ARG(edge_line(plan, out, edge, 0)));
}

/* lines_of: tasks and edges, each as a line that says everything about it. */
static struct smap lines_of(struct plan *plan, const struct expansion *out)
{
    struct smap lines = { 0 };
    for (size_t i = 0; i < out->n_tasks; i++)
        smap_put(&lines, task_mark(plan, &out->tasks[i]), &out->tasks[i]);
    for (size_t i = 0; i < out->n_edges; i++)
        smap_put(&lines, edge_mark(plan, out, &out->edges[i]), &out->edges[i]);
    return lines;
}

/* lists_json: tasks and edges; others: without those that stand among these lines. NULL: all. */
static void lists_json(struct plan *plan, struct json *json, const struct expansion *out, const struct smap *others)
{
    json_key(json, "tasks");
    json_array_begin(json);
    for (size_t i = 0; i < out->n_tasks; i++)
        if (!others || smap_find(others, task_mark(plan, &out->tasks[i])) == NULL)
            task_json(json, plan, &out->tasks[i]);
    json_array_end(json);
    json_key(json, "edges");
    json_array_begin(json);
    for (size_t i = 0; i < out->n_edges; i++)
        if (!others || smap_find(others, edge_mark(plan, out, &out->edges[i])) == NULL)
            edge_json(json, plan, out, &out->edges[i]);
    json_array_end(json);
}

static void plan_json(struct plan *plan, struct buf *text, const struct expansion *out)
{
    struct json json = json_to(text);
    struct smap created = created_of(out);
    json_object_begin(&json);
    json_put_z(&json, "archive", plan->archive);
    json_put_i64(&json, "rev", plan->rev);
    if (plan->prev > 0)
        json_put_i64(&json, "prev", plan->prev);
    lists_json(plan, &json, out, NULL);
    json_key(&json, "omitted");
    json_array_begin(&json);
    for (size_t i = 0; i < plan->now->n_tasks; i++) {
        const char *why = omitted_why(&plan->now->tasks[i], &created);
        if (why == NULL)
            continue;
        json_object_begin(&json);
        json_put_str(&json, "name", plan->now->tasks[i].name);
        json_put_z(&json, "why", why);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
    buf_add_char(text, '\n');
    smap_release(&created);
}

/* -- text -- */

static void plan_text(struct plan *plan, struct buf *text, const struct expansion *out)
{
    struct smap created = created_of(out);
    size_t width = 0;
    bool head = false;
    buf_addf(text, "%s@%lld: %zu tasks, %zu edges\n", plan->archive, (long long)plan->rev, out->n_tasks, out->n_edges);
    for (size_t i = 0; i < out->n_tasks; i++) {
        const struct expand_task *task = &out->tasks[i];
        buf_addf(text, "  %.*s%s%s\n", STR_ARG(task->name),
            task->skipped ? "  (skipped: its paths aren't touched)" : "",
            task->def->lock == WORKFLOW_LOCK_EXCLUSIVE ? "  (exclusive)"
            : task->def->lock == WORKFLOW_LOCK_SHARED  ? "  (shared)"
                                                       : "");
    }
    for (size_t i = 0; i < out->n_edges; i++) {
        size_t len = key_of(plan, out->edges[i].other.rev, out->edges[i].other.name).len;
        width = len > width ? len : width;
    }
    buf_add_z(text, out->n_edges > 0 ? "edges (<-- waits for, <!= cancels)\n" : "");
    for (size_t i = 0; i < out->n_edges; i++)
        buf_addf(text, "  %.*s\n", STR_ARG(edge_line(plan, out, &out->edges[i], width)));
    for (size_t i = 0; i < plan->now->n_tasks; i++) {
        const char *why = omitted_why(&plan->now->tasks[i], &created);
        if (why == NULL)
            continue;
        buf_add_z(text, head ? "" : "not created by a commit\n");
        head = true;
        buf_addf(text, "  %.*s  (%s)\n", STR_ARG(plan->now->tasks[i].name),
            strcmp(why, "chain") == 0 ? "comes with what it depends on" : why);
    }
    smap_release(&created);
}

/* -- the difference -- */

static void diff_lines(struct buf *text, const struct smap *lines, const struct smap *others, char sign)
{
    SMAP_EACH (lines, e) {
        if (smap_find(others, e->key) == NULL)
            buf_addf(text, "%c %.*s\n", sign, STR_ARG(e->key));
    }
}

static void diff_json(
    struct plan *plan, struct json *json, const char *name, const struct expansion *mine, const struct smap *others)
{
    json_key(json, name);
    json_object_begin(json);
    lists_json(plan, json, mine, others);
    json_object_end(json);
}

static void plan_diff(struct plan *plan, struct buf *text, const struct expansion *now)
{
    struct expansion before;
    plan_expand(plan, plan->before, &before);
    struct smap new_lines = lines_of(plan, now), old_lines = lines_of(plan, &before);
    if (option_given(&plan->options, "json")) {
        struct json json = json_to(text);
        json_object_begin(&json);
        json_put_z(&json, "archive", plan->archive);
        json_put_i64(&json, "rev", plan->rev);
        diff_json(plan, &json, "removed", &before, &new_lines);
        diff_json(plan, &json, "added", now, &old_lines);
        json_object_end(&json);
        buf_add_char(text, '\n');
    } else {
        buf_add_z(text, "");
        diff_lines(text, &old_lines, &new_lines, '-');
        diff_lines(text, &new_lines, &old_lines, '+');
        if (text->len == 0)
            fprintf(stderr, "no difference\n");
    }
    smap_release(&new_lines);
    smap_release(&old_lines);
}

/* -- the command -- */

static int plan_print(struct plan *plan)
{
    struct expansion out;
    struct buf text;
    earlier_make(plan);
    plan_expand(plan, plan->now, &out);
    buf_init(&text, OUT_CAP);
    if (plan->diff)
        plan_diff(plan, &text, &out);
    else if (option_given(&plan->options, "json"))
        plan_json(plan, &text, &out);
    else
        plan_text(plan, &text, &out);
    if (text.len > 0)
        fwrite(text.ptr, 1, text.len, stdout);
    bool full = text.full;
    buf_release(&text);
    return fflush(stdout) == 0 && !full ? 0 : 1;
}

/* -- where the workflows come from -- */

/* operand_is_known: ARCHIVE@REV, unless there is a file of that name. */
static bool operand_is_known(const char *operand)
{
    struct stat st;
    return operand_is_revision(operand) && lstat(operand, &st) != 0;
}

/* revision_load: a revision's workflow files as a set; *out_prev: the revision before it, 0: none. The exit code, or
 * OPTIONS_RUN. */
static int revision_load(struct plan *plan, const char *operand, size_t *out_set, int64_t *out_prev)
{
    struct session *s = &plan->session;
    int status = plan->session_is_open ? OPTIONS_RUN : session_open(s, plan->options.spec, plan->argc, plan->argv);
    if (status != OPTIONS_RUN)
        return status;
    plan->session_is_open = true;
    json_t *revision = session_get(s, revision_path(s, operand));
    if (!revision)
        return s->status;
    const json_t *files = json_object_get(revision, "definition"), *file;
    size_t i;
    *out_set = workflow_sets_add_empty(&plan->sets);
    json_array_foreach (files, i, file)
        workflow_sets_add_text(&plan->sets, *out_set, field_z(file, "name"), field_z(file, "text"));
    *out_prev = json_integer_value(json_array_get(json_object_get(revision, "prev"), 0));
    json_decref(revision);
    return OPTIONS_RUN;
}

static int path_load(struct plan *plan, const char *path, size_t *out_set)
{
    struct err err = { 0 };
    *out_set = plan->sets.n;
    if (!workflow_sets_add(&plan->sets, path, &err)) {
        term_say(stderr, "weir plan: %s", err.text);
        return err_exit(err.code);
    }
    if (*out_set == plan->sets.n) /* the same folder again */
        *out_set = 0;
    return OPTIONS_RUN;
}

/* place_of: archive and number of an operand ARCHIVE@REV; false: reported. */
static bool place_of(struct plan *plan, const char *operand)
{
    struct key key;
    struct err err = { 0 };
    if (!key_parse(str_of(operand), &key, &err) || key.kind != KEY_REVISION) {
        usage_error(plan->options.spec, "'%s' is neither a PATH nor ARCHIVE@REV", operand);
        return false;
    }
    if (!option_given(&plan->options, "archive"))
        plan->archive = str_dupz(&plan->arena, key.lane);
    if (!option_given(&plan->options, "rev"))
        plan->rev = key.rev;
    return true;
}

/* workflows_load: reads and checks; the exit code, or OPTIONS_RUN. */
static int workflows_load(struct plan *plan)
{
    const char *before = option_get(&plan->options, "before"), *now = plan->options.operands[0];
    bool known = operand_is_known(now), two = plan->options.n_operands == 2;
    size_t now_set = 0, before_set = 0;
    int64_t prev = 0, ignored;
    if (two && (before != NULL || !known || !operand_is_known(plan->options.operands[1])))
        return usage_error(plan->options.spec,
            "two operands are two revisions, ARCHIVE@REV; two folders are compared with --before PATH --diff");
    if (two) {
        before = now;
        now = plan->options.operands[1];
        plan->diff = true;
    }
    if (known && !place_of(plan, now))
        return EXIT_USAGE;
    int status = known ? revision_load(plan, now, &now_set, &prev) : path_load(plan, now, &now_set);
    if (known && !option_given(&plan->options, "prev"))
        plan->prev = prev;
    if (status == OPTIONS_RUN && before == NULL && known && prev > 0)
        before = str_dupz(&plan->arena, str_fmt(&plan->arena, "%s@%lld", plan->archive, (long long)prev));
    before_set = now_set;
    if (status == OPTIONS_RUN && before != NULL)
        status = operand_is_known(before) ? revision_load(plan, before, &before_set, &ignored)
                                          : path_load(plan, before, &before_set);
    if (status != OPTIONS_RUN)
        return status;
    workflow_sets_check(&plan->sets);
    diags_say(&plan->sets.diags);
    if (plan->sets.diags.n_errors > 0)
        return err_exit(ERR_invalid);
    plan->now = &plan->sets.items[now_set].workflow;
    plan->before = &plan->sets.items[before_set].workflow;
    return OPTIONS_RUN;
}

static int plan_run(struct plan *plan)
{
    struct err err = { 0 };
    plan->rev = 2;
    plan->archive = option_get(&plan->options, "archive") != NULL ? option_get(&plan->options, "archive") : "archive";
    plan->diff = option_given(&plan->options, "diff");
    if (!name_check_new(str_of(plan->archive), "archive", &err))
        return usage_error(plan->options.spec, "--archive: %s", err.text);
    if (!option_i64(&plan->options, "rev", 1, INT64_MAX, &plan->rev))
        return EXIT_USAGE;
    plan->prev = plan->rev - 1;
    if (!option_i64(&plan->options, "prev", 0, plan->rev - 1, &plan->prev))
        return EXIT_USAGE;
    if (plan->diff && !option_given(&plan->options, "before"))
        return usage_error(plan->options.spec, "--diff needs --before PATH");
    workflow_sets_init(&plan->sets, &plan->arena);
    int status = workflows_load(plan);
    return status == OPTIONS_RUN ? plan_print(plan) : status;
}

int plan_main(const struct command_spec *spec, int argc, char **argv)
{
    struct plan plan = { .argc = argc, .argv = argv };
    int status = options_parse(&plan.options, spec, argc, argv, &plan.arena);
    if (status == OPTIONS_RUN)
        status = plan_run(&plan);
    if (plan.session_is_open)
        status = session_close(&plan.session, status);
    smap_release(&plan.earlier);
    arena_release(&plan.arena);
    return status;
}
