/* local_work: a definition as `weir local` runs it: which of its tasks, and where.
 *
 * The executor is the server's own, and to it a local run is an external archive, which has no files. So a task that
 * would work in a checkout gets a command that goes to the root first; its script becomes a file of the run's folder.
 * Tasks with `checkout: false` keep their empty directory, tasks with an image see the root as a mount (see
 * executor_main in local.c). */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "server/local.h"
#include "text/json_value.h"
#include "cli/term.h"

enum { SPEC_DEPTH = 64 };

/* -- which tasks -- */

struct choice {
    const struct workflow *workflow;
    struct smap by_name; /* -> index + 1 */
    signed char *state;  /* 0: not decided yet; 1: chosen; -1: not */
};

static size_t index_of(const struct choice *choice, struct str name)
{
    return (size_t)(uintptr_t)smap_find(&choice->by_name, name) - 1; /* SIZE_MAX: COMMIT, or none */
}

static size_t index_of_ref(const struct choice *choice, const struct workflow_ref *ref)
{
    return ref->prev ? SIZE_MAX : index_of(choice, ref->name);
}

/* choose: the task and what it depends on. As deep as the workflow is, which has no circles and at most 5,000 tasks. */
static void choose(struct choice *choice, size_t index)
{
    const struct workflow_task *task = &choice->workflow->tasks[index];
    if (choice->state[index] > 0)
        return;
    choice->state[index] = 1;
    for (size_t i = 0; i < task->depends.n; i++) {
        size_t other = index_of_ref(choice, &task->depends.items[i]);
        if (other != SIZE_MAX)
            choose(choice, other);
    }
}

static void name_unknown(struct local *local, const char *name)
{
    const struct workflow *workflow = &local->definition->workflow;
    struct str *names = ARENA_ARRAY(&local->arena, struct str, workflow->n_tasks + 1);
    for (size_t i = 0; i < workflow->n_tasks; i++)
        names[i] = workflow->tasks[i].name;
    struct str near = str_closest(str_of(name), names, workflow->n_tasks);
    term_say(stderr, "weir local: there is no task '%s' in the workflow%s%.*s%s", name,
        near.len > 0 ? "; did you mean '" : "", STR_ARG(near), near.len > 0 ? "'?" : "");
}

/* is_made: whether a commit makes the task: it has that trigger and depends on nothing that isn't made. */
static bool is_made(struct choice *choice, size_t index)
{
    const struct workflow_task *task = &choice->workflow->tasks[index];
    if (choice->state[index] != 0)
        return choice->state[index] > 0;
    bool made = (task->triggers & TRIGGER_COMMIT) != 0 && !task->detached;
    for (size_t i = 0; i < task->depends.n && made; i++) {
        size_t other = index_of_ref(choice, &task->depends.items[i]);
        made = other == SIZE_MAX || is_made(choice, other);
    }
    choice->state[index] = made ? 1 : -1;
    return made;
}

/* choice_make: false: a name isn't there, which was reported. */
static bool choice_make(struct local *local, struct choice *choice)
{
    size_t n = option_count(&local->options, "task");
    for (size_t i = 0; i < n; i++) {
        size_t index = index_of(choice, str_of(option_nth(&local->options, "task", i)));
        if (index == SIZE_MAX) {
            name_unknown(local, option_nth(&local->options, "task", i));
            return false;
        }
        choose(choice, index);
    }
    for (size_t i = 0; i < choice->workflow->n_tasks && n == 0; i++)
        is_made(choice, i);
    return true;
}

bool local_select(struct local *local, size_t *out_n)
{
    struct workflow *workflow = &local->definition->workflow;
    struct choice choice = { .workflow = workflow,
        .state = ARENA_ARRAY(&local->arena, signed char, workflow->n_tasks + 1) };
    for (size_t i = 0; i < workflow->n_tasks; i++)
        smap_put(&choice.by_name, workflow->tasks[i].name, (void *)(uintptr_t)(i + 1));
    bool ok = choice_make(local, &choice);
    smap_release(&choice.by_name);
    *out_n = 0;
    for (size_t i = 0; i < workflow->n_tasks && ok; i++) {
        struct workflow_task *task = &workflow->tasks[i];
        bool chosen = choice.state[i] > 0;
        *out_n += chosen;
        task->triggers = chosen ? TRIGGER_COMMIT : 0;
        task->detached = !chosen;
        task->schedule.n = 0; /* the clock starts nothing here */
    }
    return ok;
}

/* -- where -- */

static bool script_write(struct local *local, size_t index, struct str text, const char **out_path, struct err *err)
{
    const char *path = str_dupz(&local->arena, str_fmt(&local->arena, "%s/script.%zu", local->folder, index));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0;
    for (size_t done = 0; ok && done < text.len;) {
        ssize_t n = write(fd, text.ptr + done, text.len - done);
        ok = n > 0 || errno == EINTR;
        done += n > 0 ? (size_t)n : 0;
    }
    int saved = errno;
    if (fd >= 0)
        close(fd);
    *out_path = path;
    return ok || err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(saved));
}

/* command_in: `env -C ROOT` before the command, or before the shell and the script's file. env(1) hands every variable
 * on as it is. */
static bool command_in(struct local *local, size_t index, json_t *body, struct err *err)
{
    json_t *words = json_pack("[s, s, s]", "env", "-C", local->root), *command = json_object_get(body, "command");
    if (command) {
        json_array_extend(words, command);
    } else {
        const json_t *script = json_object_get(body, "script"), *shell = json_object_get(body, "shell");
        const char *path;
        if (!script_write(
                local, index, (struct str){ json_string_value(script), json_string_length(script) }, &path, err)) {
            json_decref(words);
            return false;
        }
        json_array_append_new(words, json_string(shell ? json_string_value(shell) : "sh"));
        json_array_append_new(words, json_string(path));
        json_object_del(body, "script");
        json_object_del(body, "shell");
    }
    return json_object_set_new(body, "command", words) == 0;
}

static void home_set(json_t *body, const char *home)
{
    json_t *env = json_object_get(body, "env");
    if (!env) {
        env = json_object();
        json_object_set_new(body, "env", env);
    }
    if (!json_object_get(env, "HOME"))
        json_object_set_new(env, "HOME", json_string(home));
}

/* body_settle_in: an image's task finds the root by the executor's options; any other goes there by its command. */
static bool body_settle_in(struct local *local, size_t index, json_t *body, struct err *err)
{
    const struct workflow_task *task = &local->definition->workflow.tasks[index];
    struct task_def *def = &local->definition->defs[index];
    json_object_del(body, "artifacts"); /* they are where the task put them */
    if (def->kind == KIND_IMAGE)
        return true;
    if (task->sandbox == WORKFLOW_SANDBOX_STRICT)
        fprintf(stderr, "weir local: `sandbox: strict` of '%.*s' doesn't count here: it runs as you, in %s\n",
            STR_ARG(task->name), local->root);
    json_object_del(body, "sandbox");
    home_set(body, local->root);
    def->kind = KIND_COMMAND;
    return command_in(local, index, body, err);
}

static bool task_settle_in(struct local *local, size_t index, struct err *err)
{
    const struct workflow_task *task = &local->definition->workflow.tasks[index];
    struct task_def *def = &local->definition->defs[index];
    def->zone = (struct str){ 0 };
    def->n_labels = 0;
    if (task->detached || def->kind == KIND_NONE || !task->checkout)
        return true;
    json_t *body = json_parse(def->body, SPEC_DEPTH, err);
    bool ok = body && body_settle_in(local, index, body, err);
    if (ok)
        def->body = str_dup(&local->definition->arena, json_text(&local->arena, body, false));
    json_decref(body);
    return ok;
}

bool local_settle_in(struct local *local, struct err *err)
{
    for (size_t i = 0; i < local->definition->workflow.n_tasks; i++)
        if (!task_settle_in(local, i, err))
            return false;
    return true;
}
