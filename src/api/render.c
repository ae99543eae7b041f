/* render: tasks, events and executors as the JSON that INTERFACES.md shows.
 *
 * Pure writing: what is shown was read or decided before. A task that was just created is written from what the engine answered, without a
 * read. */
#include "api/call.h"
#include "base/when.h"

void render_key(struct json *json, struct str lane_name, enum lane_kind kind, const struct task *task)
{
    json_key(json, "key");
    json_object_begin(json);
    if (kind == LANE_ARCHIVE) {
        json_put_str(json, "archive", lane_name);
        json_put_i64(json, "rev", task->rev);
    } else {
        json_put_str(json, "queue", lane_name);
    }
    json_put_str(json, "name", task->name);
    if (task->variant.len > 0)
        json_put_str(json, "variant", task->variant);
    if (task->run > 0)
        json_put_i64(json, "run", task->run);
    json_object_end(json);
}

static void put_known(struct json *json, const char *key, int64_t n)
{
    json_key(json, key);
    if (n < 0)
        json_nil(json);
    else
        json_i64(json, n);
}

static void state_put(struct json *json, const char *key, enum task_state state)
{
    char letter = state_letter(state);
    json_put_str(json, key, (struct str){ &letter, 1 });
}

void render_reason(struct api *api, struct json *json, const struct task *task)
{
    struct buf *text = &api->scratch;
    buf_reset(text);
    buf_add_str(text, task->reason);
    if (task->reason.len > 0 && task->cause > 0) {
        buf_add_z(text, " (");
        key_add(api, text, 0, task->cause);
        buf_add_char(text, ')');
    }
    if (task->reason.len > 0)
        json_put_str(json, "reason", text->full ? task->reason : buf_str(text));
    if (task->cause > 0) {
        json_key(json, "cause");
        json_key_text(api, json, 0, task->cause);
    }
}

/* head_render: everything up to attempts. */
static void head_render(struct api *api, struct json *json, struct str lane_name, enum lane_kind kind, const struct task *task)
{
    json_put_i64(json, "id", task->id);
    render_key(json, lane_name, kind, task);
    state_put(json, "state", task->state);
    json_put_z(json, "word", state_word(task->state));
    if (task->ending != STATE_NONE)
        state_put(json, "ending", task->ending);
    if (task->outcome != OUTCOME_none)
        json_put_z(json, "outcome", outcome_name(task->outcome));
    render_reason(api, json, task);
    if (task->marks & MARK_PRUNED)
        json_put_bool(json, "pruned", true);
    json_put_i64(json, "priority", task->prio);
    if (task->not_before > 0)
        json_put_time(json, "not_before", task->not_before);
    if (task->unique.len > 0)
        json_put_str(json, "unique", task->unique);
    json_put_time(json, "created", task->created);
    json_put_time(json, "ready", task->ready);
    json_put_time(json, "started", task->started);
    json_put_time(json, "finished", task->finished);
}

static void attempt_render(struct json *json, const struct attempt *attempt, struct str executor)
{
    json_object_begin(json);
    json_put_i64(json, "number", attempt->number);
    char number[24];
    snprintf(number, sizeof number, "#%lld", (long long)attempt->executor); /* it has gone (engine/expiry.c); the history has its name */
    json_put_str(json, "executor", executor.len || !attempt->executor ? executor : str_of(number));
    json_put_time(json, "started", attempt->started);
    json_put_time(json, "finished", attempt->finished);
    put_known(json, "exit", attempt->finished > 0 ? attempt->exit : -1);
    put_known(json, "signal", attempt->finished > 0 ? attempt->signal : -1);
    json_key(json, "outcome");
    if (attempt->outcome == OUTCOME_none)
        json_nil(json);
    else
        json_z(json, outcome_name(attempt->outcome));
    json_key(json, "usage");
    json_object_begin(json);
    put_known(json, "cpu_ms", attempt->finished > 0 ? attempt->cpu_ms : -1);
    put_known(json, "max_rss_bytes", attempt->finished > 0 ? attempt->max_rss_bytes : -1);
    json_object_end(json);
    put_known(json, "log_bytes", attempt->finished > 0 ? attempt->log_bytes : -1);
    json_object_end(json);
}

static const struct {
    const char *field, *on;
    enum edge_kind kind;
} edge_lists[] = {
    { "depends", "success", EDGE_DEPENDS },
    { "after", "finished", EDGE_AFTER },
    { "cancels", NULL, EDGE_CANCELS },
};
enum { EDGE_LISTS = sizeof edge_lists / sizeof edge_lists[0] };

static void needs_render(struct api *api, struct json *json, const struct task_view *view)
{
    for (size_t k = 0; k < EDGE_LISTS; k++) {
        json_key(json, edge_lists[k].field);
        json_array_begin(json);
        for (size_t i = 0; i < view->n_needs; i++) {
            const struct edge_view *edge = &view->needs[i];
            if (edge->kind != edge_lists[k].kind)
                continue;
            json_object_begin(json);
            json_put_i64(json, "id", edge->id);
            json_key(json, "key");
            buf_reset(&api->scratch);
            key_add_view(&api->scratch, edge);
            json_str(json, buf_str(&api->scratch));
            if (edge_lists[k].on != NULL)
                json_put_z(json, "on", edge_lists[k].on);
            state_put(json, "state", edge->state);
            json_object_end(json);
        }
        json_array_end(json);
    }
}

static void outputs_render(struct json *json, struct str outputs)
{
    struct str artifacts = artifacts_split(&outputs);
    json_key(json, "outputs");
    json_raw(json, outputs.len > 0 ? outputs : STR("{}"));
    if (artifacts.len > 0) {
        json_key(json, "artifacts");
        json_raw(json, artifacts);
    }
}

static void task_render(struct api *api, struct json *json, const struct task_view *view, struct str spec, bool existing)
{
    json_object_begin(json);
    head_render(api, json, view->lane_name, view->lane_kind, &view->task);
    json_key(json, "attempts");
    json_array_begin(json);
    for (size_t i = 0; i < view->n_attempts; i++)
        attempt_render(json, &view->attempts[i], view->executor_names[i]);
    json_array_end(json);
    needs_render(api, json, view);
    outputs_render(json, view->outputs);
    if (spec.len > 0) {
        json_key(json, "spec");
        json_raw(json, spec);
    }
    if (existing)
        json_put_bool(json, "existing", true);
    json_object_end(json);
}

void render_task(struct api *api, struct json *json, const struct task_view *view, struct str spec)
{
    task_render(api, json, view, spec, false);
}

void render_task_existing(struct api *api, struct json *json, const struct task_view *view)
{
    task_render(api, json, view, (struct str){ 0 }, true);
}

static void ref_render(struct api *api, struct json *json, const struct render_new *task, const struct task_ref *ref, const char *on)
{
    const struct task *other = ref->id > 0 ? NULL : &task->tasks[ref->index].task;
    json_object_begin(json);
    json_put_i64(json, "id", other != NULL ? other->id : ref->id);
    json_key(json, "key");
    json_key_text(api, json, other != NULL ? other->lane : 0, other != NULL ? other->id : ref->id);
    if (on != NULL)
        json_put_z(json, "on", on);
    json_object_end(json);
}

static void time_add(struct buf *out, const char *key, int64_t ms)
{
    buf_add_z(out, key);
    if (ms == 0) {
        buf_add(out, "null", 4);
        return;
    }
    buf_add_char(out, '"');
    buf_add_z(out, when_format(ms).z);
    buf_add_char(out, '"');
}

/* plain_render: a new task that says nothing unusual, as ready-made text around its few values; names need no escapes. It must come out
 * exactly as render_task would write it, and costs a fourth of that, ten thousand times in a call. */
static void plain_render(struct json *json, struct str lane_name, const struct task *task)
{
    struct buf *out = json->out;
    char letter = state_letter(task->state);
    json_raw(json, STR("{\"id\":"));
    buf_add_i64(out, task->id);
    buf_add_z(out, ",\"key\":{\"queue\":\"");
    buf_add_str(out, lane_name);
    buf_add_z(out, "\",\"name\":\"");
    buf_add_str(out, task->name);
    buf_add_z(out, "\"},\"state\":\"");
    buf_add_char(out, letter);
    buf_add_z(out, "\",\"word\":\"");
    buf_add_z(out, state_word(task->state));
    buf_add_z(out, "\",\"priority\":");
    buf_add_i64(out, task->prio);
    time_add(out, ",\"created\":", task->created);
    time_add(out, ",\"ready\":", task->ready);
    time_add(out, ",\"started\":", task->started);
    time_add(out, ",\"finished\":", task->finished);
    buf_add_z(out, ",\"attempts\":[],\"depends\":[],\"after\":[],\"cancels\":[],\"outputs\":{}}");
}

static bool task_is_plain(const struct task *task)
{
    return task->ending == STATE_NONE && task->outcome == OUTCOME_none && task->reason.len == 0 && task->cause == 0 &&
           task->not_before == 0 && task->unique.len == 0 && task->variant.len == 0 && task->run == 0;
}

void render_task_new(struct api *api, struct json *json, const struct render_new *task)
{
    const struct enqueued *enqueued = &task->tasks[task->index];
    const struct task_def *def = &task->defs[task->index];
    if (def->n_refs == 0 && task_is_plain(&enqueued->task)) {
        plain_render(json, enqueued->lane_name, &enqueued->task);
        return;
    }
    json_object_begin(json);
    head_render(api, json, enqueued->lane_name, LANE_QUEUE, &enqueued->task);
    json_key(json, "attempts");
    json_raw(json, STR("[]"));
    for (size_t k = 0; k < EDGE_LISTS; k++) {
        json_key(json, edge_lists[k].field);
        json_array_begin(json);
        for (size_t i = 0; i < def->n_refs; i++)
            if (def->refs[i].kind == edge_lists[k].kind)
                ref_render(api, json, task, &def->refs[i], edge_lists[k].on);
        json_array_end(json);
    }
    outputs_render(json, (struct str){ 0 });
    json_object_end(json);
}

/* subject_shown: TENANT/NAME, of what no lane stands for, is NAME to the tenant itself. */
static struct str subject_shown(const struct event *event, struct str tenant)
{
    ptrdiff_t cut = event->lane == 0 ? str_index(event->subject, '/') : -1;
    bool own = cut >= 0 && str_eq(str_sub(event->subject, 0, (size_t)cut), tenant);
    return own ? str_sub(event->subject, (size_t)cut + 1, event->subject.len) : event->subject;
}

void render_event(const struct call *call, struct json *json, const struct event *event)
{
    struct api *api = call->api;
    json_object_begin(json);
    json_put_i64(json, "seq", event->seq);
    json_put_time(json, "time", event->time);
    json_put_z(json, "kind", event_kind_name(event->kind));
    if (event->task > 0) {
        json_put_i64(json, "task", event->task);
        json_key(json, "key");
        json_key_text(api, json, event->lane, event->task);
    }
    bool moves = event->kind == EVENT_move || event->kind == EVENT_created; /* only these change a state: they fold to it */
    if (moves && event->from != STATE_NONE)
        state_put(json, "from", event->from);
    if (moves && event->to != STATE_NONE)
        state_put(json, "to", event->to);
    if (event->kind == EVENT_ending)
        state_put(json, "ending", event->to);
    if (event->attempt > 0)
        json_put_i64(json, "attempt", event->attempt);
    if (event->grant > 0 && event->task > 0) {
        struct fence fence = { api->incarnation, event->task, event->grant };
        bool whole = call->scopes & SCOPE_ADMIN; /* others could speak for the grant with it: they read which one it was */
        json_put_z(json, "fence", whole ? fence_seal(&api->fence_key, fence).z : fence_format(fence).z);
    }
    if (event->subject.len > 0)
        json_put_str(json, "subject", subject_shown(event, call->actor.tenant));
    json_put_str(json, "actor", event->actor);
    if (event->cause > 0) {
        json_key(json, "cause");
        json_key_text(api, json, 0, event->cause);
    }
    if (event->reason.len > 0)
        json_put_str(json, "reason", event->reason);
    json_object_end(json);
}

void render_executor(struct json *json, const struct executor *executor, const struct executor_live *live, const char *state)
{
    json_object_begin(json);
    json_put_i64(json, "id", executor->id);
    json_put_str(json, "name", executor->name);
    json_put_str(json, "host", executor->host);
    json_put_str(json, "version", executor->version);
    json_put_z(json, "state", state);
    json_put_i64(json, "slots", executor->slots);
    json_put_i64(json, "running", live != NULL ? live->running : 0);
    json_put_i64(json, "free", live != NULL ? live->free : 0);
    json_put_str(json, "zone", executor->zone);
    if (executor->tenant.len > 0)
        json_put_str(json, "tenant", executor->tenant);
    json_key(json, "labels");
    json_object_begin(json);
    for (size_t i = 0; i < executor->n_labels; i++) {
        json_key_str(json, executor->labels[i].name);
        json_str(json, executor->labels[i].value);
    }
    json_object_end(json);
    json_key(json, "kinds");
    json_array_begin(json);
    for (int kind = KIND_COMMAND; kind < KIND_COUNT; kind++)
        if (executor->kinds & (1u << kind))
            json_z(json, class_kind_name((enum class_kind)kind));
    json_array_end(json);
    json_put_time(json, "registered", executor->registered);
    json_put_i64(json, "processed", executor->processed);
    json_put_i64(json, "failed", executor->failed);
    json_object_end(json);
}
