/* render: tasks, events and executors as the JSON that INTERFACES.md shows.
 *
 * Pure writing: what is shown was read or decided before. A task that was just created is written from what the engine
 * answered, without a read. */
#include "api/answer.h"
#include "api/call.h"
#include "base/when.h"

void render_known(struct json *json, const char *key, int64_t n)
{
    json_key(json, key);
    if (n < 0)
        json_nil(json);
    else
        json_i64(json, n);
}

void render_state(struct json *json, const char *key, enum task_state state)
{
    char letter = state_letter(state);
    json_put_str(json, key, (struct str){ &letter, 1 });
}

void render_number(struct json *json, const char *key, double n)
{
    json_key(json, key);
    json_f64(json, n);
}

/* Looking for what to escape is most of the cost of a long text. */
void render_plain(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_raw(json, STR("\""));
    buf_add_z(json->out, text);
    buf_add_char(json->out, '"');
}

void render_text_or_null(struct json *json, const char *key, struct str text)
{
    json_key(json, key);
    if (text.len > 0)
        json_str(json, text);
    else
        json_nil(json);
}

void render_outcome(struct json *json, const char *key, enum outcome outcome)
{
    render_text_or_null(json, key, outcome != OUTCOME_none ? str_of(outcome_name(outcome)) : (struct str){ 0 });
}

RENDERER_SHARED(render_key, Key, struct json *json, struct str lane_name, enum lane_kind kind, const struct task *task)

void render_key_text(
    struct api *api, struct json *json, struct str lane_name, enum lane_kind kind, const struct task *task)
{
    buf_reset(&api->scratch);
    key_add_task(&api->scratch, lane_name, kind, task);
    json_str(json, buf_str(&api->scratch));
}

struct str render_reason(struct api *api, const struct task *task)
{
    struct buf *text = &api->scratch;
    if (task->cause == 0)
        return task->reason;
    buf_reset(text);
    buf_add_str(text, task->reason);
    buf_add_z(text, " (");
    key_add(api, text, 0, task->cause);
    buf_add_char(text, ')');
    return text->full ? task->reason : buf_str(text);
}

RENDERER(usage_render, Usage, struct json *json, const struct attempt *attempt, bool ended)

static void attempt_render(struct json *json, const struct attempt *attempt, struct str executor)
{
    bool ended = attempt->finished > 0;
    char number[24];
    /* it has gone (engine/expiry.c); the history has its name */
    snprintf(number, sizeof number, "#%lld", (long long)attempt->executor);
    if (executor.len == 0 && attempt->executor)
        executor = str_of(number);
    ANSWER_WRITE(ANSWER_Attempt);
}

struct task_shown {
    const struct task *task;
    struct str lane_name;
    enum lane_kind lane_kind;
    const struct task_view *view;      /* as it was read; NULL: it is new: */
    const struct render_new *new_task; /* as it was made */
    struct str spec;
    bool existing;
};

static void other_key(struct api *api, struct json *json, const struct edge_view *edge, int64_t lane, int64_t id)
{
    if (!edge) {
        json_key_text(api, json, lane, id);
        return;
    }
    buf_reset(&api->scratch);
    key_add_view(&api->scratch, edge);
    json_str(json, buf_str(&api->scratch));
}

/* other_render: edge: as it was read; NULL: only its id and lane are known. */
RENDERER(other_render, Other, struct api *api, struct json *json, const struct edge_view *edge, int64_t lane,
    int64_t id, const char *on)

static void ref_render(
    struct api *api, struct json *json, const struct render_new *task, const struct task_ref *ref, const char *on)
{
    const struct task *other = ref->id > 0 ? NULL : &task->tasks[ref->index].task;
    other_render(api, json, NULL, other != NULL ? other->lane : 0, other != NULL ? other->id : ref->id, on);
}

static void others_render(
    struct api *api, struct json *json, const struct task_shown *shown, enum edge_kind kind, const char *on)
{
    const struct task_view *view = shown->view;
    const struct task_def *def = view ? NULL : &shown->new_task->defs[shown->new_task->index];
    json_array_begin(json);
    for (size_t i = 0; view && i < view->n_needs; i++)
        if (view->needs[i].kind == kind)
            other_render(api, json, &view->needs[i], 0, view->needs[i].id, on);
    for (size_t i = 0; def && i < def->n_refs; i++)
        if (def->refs[i].kind == kind)
            ref_render(api, json, shown->new_task, &def->refs[i], on);
    json_array_end(json);
}

static void task_render(struct api *api, struct json *json, const struct task_shown *shown)
{
    const struct task *task = shown->task;
    const struct task_view *view = shown->view;
    struct str outputs = view ? view->outputs : (struct str){ 0 }, artifacts = artifacts_split(&outputs);
    ANSWER_WRITE(ANSWER_Task);
}

void render_task(struct api *api, struct json *json, const struct task_view *view, struct str spec, bool existing)
{
    struct task_shown shown = { .task = &view->task,
        .lane_name = view->lane_name,
        .lane_kind = view->lane_kind,
        .view = view,
        .spec = spec,
        .existing = existing };
    task_render(api, json, &shown);
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

/* plain_render: a new task that says nothing unusual, as ready-made text around its few values; names need no escapes.
 * It must come out exactly as render_task would write it, and costs a fourth of that, ten thousand times in a call. */
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
    struct task_shown shown = {
        .task = &enqueued->task, .lane_name = enqueued->lane_name, .lane_kind = LANE_QUEUE, .new_task = task
    };
    task_render(api, json, &shown);
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
    /* only these change a state: they fold to it */
    bool moves = event->kind == EVENT_move || event->kind == EVENT_created;
    /* others could speak for the grant with a fence: they read which grant it was */
    bool whole = call->scopes & SCOPE_ADMIN;
    struct fence fence = { api->incarnation, event->task, event->grant };
    struct changeset_names names =
        event->lane > 0 ? changeset_names_of(api, event->lane, event->task) : (struct changeset_names){ 0 };
    ANSWER_WRITE(ANSWER_Event);
}

static void labels_render(struct json *json, const struct executor *executor)
{
    json_object_begin(json);
    for (size_t i = 0; i < executor->n_labels; i++) {
        json_key_str(json, executor->labels[i].name);
        json_str(json, executor->labels[i].value);
    }
    json_object_end(json);
}

static void kinds_render(struct json *json, const struct executor *executor)
{
    json_array_begin(json);
    for (int kind = KIND_COMMAND; kind < KIND_COUNT; kind++)
        if (executor->kinds & (1u << kind))
            json_z(json, class_kind_name((enum class_kind)kind));
    json_array_end(json);
}

RENDERER_SHARED(render_executor, Executor, struct json *json, const struct executor *executor,
    const struct executor_live *live, const char *state)
