/* tasks: creating, listing, showing, cancelling, retrying and promoting tasks over HTTP.
 *
 * A creation is answered from what the engine gave back, without reading the store; only replays of an idempotency key
 * and tasks found by their unique key are read, because they have a history. It fails as INTERFACES.md section 7 says:
 * 400 for what isn't JSON, 422 for what is refused, with pointers. */
#include <string.h>

#include "api/answer.h"
#include "api/call.h"

enum { LIST_MAX = 1000 };

/* task_add: one task as it is now, from the store. */
static bool task_add(struct call *call, struct json *json, int64_t id, bool existing)
{
    struct task_view view;
    bool found;
    if (!reader_task(call->api->config.reader, &call->arena, id, &view, &found, &call->err))
        return false;
    if (!found)
        return err_set(&call->err, ERR_not_found, "there is no task %lld", (long long)id);
    render_task(call->api, json, &view, (struct str){ 0 }, existing);
    return true;
}

static bool task_listed(struct call *call, struct json *json, struct render_new *task, size_t i)
{
    const struct enqueued *enqueued = &task->tasks[i];
    if (call->command.replay || enqueued->existing)
        return task_add(call, json, enqueued->task.id, enqueued->existing);
    task->index = i;
    render_task_new(call->api, json, task);
    return true;
}

static bool tasks_show(struct call *call)
{
    const struct command *command = &call->command;
    const struct task_body *body = call->state;
    struct render_new task = { .tasks = command->out.enqueue.tasks, .defs = body->defs };
    size_t n = command->out.enqueue.n_tasks;
    struct json out = json_to(&call->out), *json = &out;
    bool good = true;
    if (body->many) {
        ANSWER_WRITE(ANSWER_Tasks);
    } else {
        good = task_listed(call, json, &task, 0);
    }
    return call_end(call, good, command->status != 0 ? command->status : 201);
}

/* What was just created is known without a read, but for the keys of what it comes after. */
static bool tasks_created(struct call *call)
{
    const struct command *command = &call->command;
    const struct task_body *body = call->state;
    bool known = !command->replay;
    for (size_t i = 0; known && i < command->out.enqueue.n_tasks; i++)
        known = !command->out.enqueue.tasks[i].existing && body->defs[i].n_refs == 0;
    if (known)
        return tasks_show(call);
    return call_on_thread(call, tasks_show);
}

struct posting {
    struct task_body body; /* first */
    bool reads;            /* it names tasks that have to be looked up, and this is the loop */
};

static bool named_task_find(void *owner, const struct key *key, int64_t *out_id, struct err *err)
{
    const struct call *call = owner;
    struct posting *posting = call->state;
    *out_id = 0;
    posting->reads = call->api->read_threads != NULL;
    if (!posting->reads && key->kind == KEY_CHANGESET)
        return reader_changeset_find(call->api->config.reader, call->actor.tenant, key->name, out_id, err);
    return posting->reads || reader_find(call->api->config.reader, call->actor.tenant, key->lane, key->rev, key->name,
                                 key->variant, key->run, out_id, err);
}

bool serve_tasks_create(struct call *call)
{
    if (!call_idempotency(call))
        return false;
    struct posting *posting = ARENA_NEW(&call->arena, struct posting);
    struct task_body *body = &posting->body;
    body->find = named_task_find;
    body->owner = call;
    call->state = posting;
    bool good = task_body_read(&call->arena, call->request->body, body, &call->err);
    if (posting->reads) {
        call->err = (struct err){ .arena = &call->arena };
        return call_on_thread(call, serve_tasks_create);
    }
    if (!good)
        return call_problem(call);
    call->command.kind = CMD_ENQUEUE;
    call->command.in.enqueue.defs = body->defs;
    call->command.in.enqueue.n_defs = body->n;
    return call_submit(call, tasks_created);
}

bool call_param_states(struct call *call, unsigned *out)
{
    struct str letters;
    if (!call_param_str(call, "state", &letters))
        return true;
    for (size_t i = 0; i < letters.len; i++) {
        if (letters.ptr[i] == ',')
            continue;
        enum task_state state = state_of_letter(letters.ptr[i]);
        if (state == STATE_NONE)
            return err_item(&call->err, ERR_bad_request, STR("state"),
                "the query parameter 'state' is made of the letters Q S P X D F T A, not '%.*s'",
                STR_ARG(str_sub(letters, 0, 40)));
        *out |= 1u << state;
    }
    return true;
}

static void filter_name(struct call *call, const char *param, struct str *out)
{
    if (call_param_str(call, param, out) && !name_is_valid(*out))
        err_item(&call->err, ERR_bad_request, str_of(param), "the query parameter '%s' must be a name, not '%.*s'",
            param, STR_ARG(str_sub(*out, 0, 64)));
}

static bool filter_read(struct call *call, struct task_filter *out)
{
    int64_t limit = LIST_MAX;
    struct str queue = { 0 };
    *out = (struct task_filter){ .tenant = call->actor.tenant };
    call_param_states(call, &out->states);
    filter_name(call, "archive", &out->lane);
    filter_name(call, "queue", &queue);
    filter_name(call, "name", &out->name);
    call_param_i64(call, "rev", 1, INT64_MAX, &out->rev);
    call_param_limit(call, LIST_MAX, &limit);
    call_param_i64(call, "cursor", 1, INT64_MAX, &out->before);
    if (out->lane.len > 0 && queue.len > 0)
        err_item(&call->err, ERR_bad_request, STR("queue"), "'archive' and 'queue' exclude each other");
    if (queue.len > 0)
        out->lane = queue;
    out->limit = (size_t)limit;
    return call->err.code == ERR_none;
}

bool serve_tasks_list(struct call *call)
{
    struct task_filter filter;
    struct task_view *views;
    size_t n;
    int64_t last;
    if (!filter_read(call, &filter) ||
        !reader_tasks(call->api->config.reader, &call->arena, &filter, &views, &n, &last, &call->err))
        return call_problem(call);
    struct str next = last > 0 ? call_cursor(call, last) : (struct str){ 0 };
    ANSWER_RETURN(200, ANSWER_TaskList);
}

bool serve_tasks_get(struct call *call)
{
    struct task_view view;
    struct str spec = { 0 };
    if (!call_task_view(call, &view))
        return false;
    if (!reader_spec(call->api->config.reader, &call->arena, view.task.spec, &spec, &call->err))
        return call_problem(call);
    struct json json = json_to(&call->out);
    render_task(call->api, &json, &view, spec, false);
    return call_answer(call, 200);
}

bool task_answer(struct call *call, int64_t id, int status)
{
    struct json json = json_to(&call->out);
    return call_end(call, task_add(call, &json, id, false), call->command.status != 0 ? call->command.status : status);
}

static bool task_changed(struct call *call)
{
    return call_moved(call, task_changed) || task_answer(call, call->command.in.task.task, 200);
}

/* task_command: cancel, retry and promote differ in their kind and in whether `force` means something. */
static bool task_command(struct call *call, enum command_kind kind)
{
    struct task_view view;
    struct json_reader reader;
    struct command *command = &call->command;
    if (!call_task_view(call, &view) || !call_object_or_nothing(call, &reader))
        return false;
    json_read_str(&reader, "reason", REASON_BYTES_MAX, &command->in.task.reason);
    if (kind == CMD_RETRY && json_read_bool(&reader, "force", &command->in.task.force) && command->in.task.force &&
        command->in.task.reason.len == 0)
        err_item(&call->err, ERR_invalid, STR("/reason"), "'force' needs a 'reason'");
    if (!call_read_done(call, &reader))
        return false;
    command->kind = kind;
    command->in.task.task = view.task.id;
    return call_submit(call, task_changed);
}

HANDLER_OF(serve_tasks_cancel, task_command, CMD_CANCEL)
HANDLER_OF(serve_tasks_retry, task_command, CMD_RETRY)
HANDLER_OF(serve_tasks_promote, task_command, CMD_PROMOTE)
