/* enqueue: posts tasks from a file, from stdin, or one command from the command line. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "text/json_value.h"

enum { INPUT_DEPTH_MAX = 64 };
static const size_t INPUT_MAX = (size_t)32 << 20; /* what the server takes */

static json_t *input_parse(struct session *s, const char *file, struct str bytes)
{
    s->err = (struct err){ .arena = &s->arena };
    json_t *document = json_parse(bytes, INPUT_DEPTH_MAX, &s->err);
    if (!document) {
        err_context(&s->err, "%s", strcmp(file, "-") == 0 ? "stdin" : file);
        s->status = err_exit(s->err.code);
        session_fail(s);
        return NULL;
    }
    if (!json_is_object(document) && !json_is_array(document)) {
        session_err(s, ERR_invalid, "%s: a task is a JSON object, several are a list of objects",
            strcmp(file, "-") == 0 ? "stdin" : file);
        json_decref(document);
        return NULL;
    }
    return document;
}

static json_t *command_task(struct session *s)
{
    json_t *words = json_array();
    for (size_t i = 0; i < s->options.n_operands; i++)
        json_array_append_new(words, json_string(s->options.operands[i]));
    if (json_array_size(words) != s->options.n_operands) {
        session_err(s, ERR_invalid, "the command holds bytes that aren't UTF-8");
        json_decref(words);
        return NULL;
    }
    const char *slash = strrchr(s->options.operands[0], '/');
    json_t *task = json_object();
    json_object_set_new(task, "name", json_string(slash && slash[1] ? slash + 1 : s->options.operands[0]));
    json_object_set_new(task, "command", words);
    return task;
}

/* task_fill: what the options say goes into tasks that don't say it themselves. */
static void task_fill(json_t *task, const struct options *options, int64_t priority)
{
    const char *queue = option_get(options, "queue"), *name = option_get(options, "name");
    if (!json_is_object(task))
        return; /* the server names the fault and its place */
    if (queue && !json_object_get(task, "queue"))
        json_object_set_new(task, "queue", json_string(queue));
    if (name)
        json_object_set_new(task, "name", json_string(name));
    if (option_given(options, "priority") && !json_object_get(task, "priority"))
        json_object_set_new(task, "priority", json_integer(priority));
}

/* document_fill: options into the tasks; a plain list is wrapped. Consumes and returns the document, NULL: reported. */
static json_t *document_fill(struct session *s, json_t *document)
{
    int64_t priority = 0;
    if (!option_i64(&s->options, "priority", -1000, 1000, &priority)) {
        s->status = EXIT_USAGE;
        json_decref(document);
        return NULL;
    }
    if (json_is_array(document)) {
        json_t *wrapped = json_object();
        json_object_set_new(wrapped, "tasks", document);
        document = wrapped;
    }
    json_t *tasks = json_object_get(document, "tasks"), *task;
    size_t i;
    if (!json_is_array(tasks)) {
        task_fill(document, &s->options, priority);
        return document;
    }
    if (option_given(&s->options, "name") && json_array_size(tasks) != 1) {
        s->status =
            usage_error(s->options.spec, "--name names a single task, and there are %zu", json_array_size(tasks));
        json_decref(document);
        return NULL;
    }
    json_array_foreach (tasks, i, task)
        task_fill(task, &s->options, priority);
    return document;
}

static void task_print(struct session *s, const json_t *task)
{
    fputs(term_safe_z(&s->arena, task_key(&s->arena, task)), stdout);
    if (s->term.tty)
        printf("  %s%s%s", paint_on(&s->term, PAINT_DIM), term_safe_z(&s->arena, task_name(task)),
            paint_off(&s->term, PAINT_DIM));
    fputc('\n', stdout);
    if (json_is_true(json_object_get(task, "existing")))
        session_note(s, "%s was there already and has the same unique key: no task was made",
            term_safe_z(&s->arena, task_key(&s->arena, task)));
}

static void answer_print(struct session *s, const json_t *answer)
{
    const json_t *task;
    size_t i;
    if (!json_is_array(answer))
        task_print(s, answer);
    json_array_foreach (answer, i, task)
        task_print(s, task);
}

static int enqueue_send(struct session *s, json_t *document)
{
    json_t *answer = session_post(s, "/v1/tasks", document), *tasks = json_incref(json_object_get(answer, "tasks"));
    if (tasks)
        json_decref(answer);
    return session_answer(s, tasks ? tasks : answer, answer_print);
}

int enqueue_command(struct session *s)
{
    json_t *document = NULL;
    if (option_given(&s->options, "command")) {
        document = command_task(s);
    } else if (s->options.n_operands > 1) {
        s->status = usage_error(s->options.spec,
            "'%s' is one word too many; to run a command: weir enqueue --command -- COMMAND...",
            s->options.operands[1]);
    } else {
        struct buf bytes;
        buf_init(&bytes, INPUT_MAX);
        if (session_input(s, s->options.operands[0], "32 MiB; send the tasks in several calls", &bytes))
            document = input_parse(s, s->options.operands[0], buf_str(&bytes));
        buf_release(&bytes);
    }
    if (document && (!session_utf8(s, "queue") || !session_utf8(s, "name"))) {
        json_decref(document);
        document = NULL;
    }
    if (document)
        document = document_fill(s, document);
    return document ? enqueue_send(s, document) : s->status;
}
