/* executors: registration, the long poll that claims, renews, reports and hears of cancels, and what people do to
 * executors.
 *
 * A poll is parsed here and parked in the engine; its answer is rendered when there is work, a cancel, or its time is
 * over. Open polls are counted by executor, so that /v1/nodes knows of a death sooner than the lease does. */
#include <stdlib.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"

enum {
    AHEAD_MAX = 16,
    SLOTS_MAX = 100000,
    RENEW_MAX = 100000,
    LABELS_MAX = 64,
    TEXT_MAX = 200,
    SILENT_MS = 4500,
    SILENT_SHORT_MS = 9000,
    POLLS_FEW = 64
};
enum { KINDS_ALL = 1u << KIND_COMMAND | 1u << KIND_SCRIPT | 1u << KIND_IMAGE | 1u << KIND_DATA };

/* Renewals whose fence was never given out for their task. A fence is opaque to who sends it, so they are refused as
 * stale ones are: each comes back among the cancels, in its own words, and the others are renewed. */
struct stray_renewal {
    int64_t task;
    struct str fence;
};
struct stray_renewals {
    struct stray_renewal *items;
    size_t n, cap;
};

static int label_compare(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

static void labels_read(struct json_reader *reader, struct executor *out)
{
    struct json_reader labels;
    if (!json_read_child(reader, "labels", &labels))
        return;
    size_t n = labels.value->n;
    if (n > LABELS_MAX) {
        err_item(
            reader->err, ERR_invalid, labels.path, "'labels' has %zu members; at most %d are taken", n, LABELS_MAX);
        return;
    }
    out->labels = ARENA_ARRAY(reader->arena, struct label, n);
    for (size_t i = 0; i < n; i++) {
        struct str name = labels.value->pairs[i].key->text, text;
        struct str path = json_pointer_add(reader->arena, labels.path, str_sub(name, 0, TEXT_MAX));
        if (!name_is_valid(name) || !node_is_text(labels.value->pairs[i].value, &text) || text.len > NAME_CHARS_MAX)
            err_item(
                reader->err, ERR_invalid, path, "a label is a name with a string of at most %d bytes", NAME_CHARS_MAX);
        else
            out->labels[out->n_labels++] = (struct label){ str_dup(reader->arena, name), str_dup(reader->arena, text) };
    }
    if (out->n_labels > 1)
        qsort(out->labels, out->n_labels, sizeof out->labels[0], label_compare);
}

static void kinds_read(struct json_reader *reader, struct executor *out)
{
    const struct doc_node *list;
    out->kinds = KINDS_ALL;
    if (!json_read_array(reader, "kinds", KIND_COUNT, &list))
        return;
    out->kinds = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct str word = { 0 };
        enum class_kind kind = node_is_text(list->items[i], &word) ? class_kind_find(word) : KIND_NONE;
        if (kind == KIND_NONE)
            err_item(reader->err, ERR_invalid, json_pointer_at(reader->arena, json_read_path(reader, "kinds"), i),
                "'kinds' knows command, script, image and data");
        else
            out->kinds |= 1u << kind;
    }
}

static void name_read(struct json_reader *reader, const char *field, bool required, struct str *out)
{
    struct err fault = { 0 };
    if (json_read_str(reader, field, TEXT_MAX, out)) {
        if (!name_check_new(*out, strcmp(field, "name") == 0 ? "executor" : field, &fault))
            err_item(reader->err, ERR_invalid, json_read_path(reader, field), "%s", fault.text);
    } else if (required && json_read_any(reader, field) == NULL) {
        err_item(reader->err, ERR_invalid, json_read_path(reader, field), "'%s' is required", field);
    }
}

/* polls_sweep: those of executors that have gone (engine/expiry.c) go, each time that there are twice as many as were
 * left. */
static void polls_sweep(struct api *api)
{
    struct executor_live ignored;
    if (api->polls.n < POLLS_FEW || api->polls.n < 2 * api->polls_left)
        return;
    MAP_EACH (&api->polls, entry) {
        if (((const struct executor_poll *)entry->value)->open > 0 ||
            engine_executor(api->config.engine, (int64_t)entry->key, &ignored))
            continue;
        mem_free(map_take(&api->polls, entry->key));
    }
    api->polls_left = api->polls.n;
}

static struct executor_poll *poll_of(struct api *api, int64_t executor)
{
    struct executor_poll *poll = map_find(&api->polls, (uint64_t)executor);
    if (poll == NULL) {
        polls_sweep(api);
        poll = mem_alloc(sizeof *poll);
        *poll = (struct executor_poll){ 0 };
        map_put(&api->polls, (uint64_t)executor, poll);
        executor_register_soon(api);
    }
    return poll;
}

static void executor_registered(struct call *call)
{
    poll_of(call->api, call->command.out.reg.id)->last_ms = loop_now(call->api->config.loop);
    ANSWER_CALL(call->command.status != 0 ? call->command.status : 201, ANSWER_Registration);
}

void serve_executors_create(struct call *call)
{
    struct json_reader reader;
    struct executor *executor = &call->command.in.reg.executor;
    if (!call_idempotency(call) || !call_object(call, &reader))
        return;
    *executor = (struct executor){ .slots = 1, .state = EXECUTOR_ACTIVE };
    name_read(&reader, "name", true, &executor->name);
    json_read_i64(&reader, "slots", 0, SLOTS_MAX, &executor->slots);
    labels_read(&reader, executor);
    name_read(&reader, "zone", false, &executor->zone);
    kinds_read(&reader, executor);
    json_read_str(&reader, "host", TEXT_MAX, &executor->host);
    json_read_str(&reader, "version", TEXT_MAX, &executor->version);
    json_read_str(&reader, "instance", TEXT_MAX, &executor->instance);
    json_read_str(&reader, "memory", TEXT_MAX, &call->command.in.reg.memory);
    if (!call_read_done(call, &reader))
        return;
    call->command.kind = CMD_REGISTER;
    call_submit(call, executor_registered);
}

bool executor_is_own(const struct call *call, const struct executor *executor)
{
    bool shared = executor->tenant.len == 0;
    return shared ? str_eqz(call->actor.tenant, TENANT_DEFAULT) : str_eq(executor->tenant, call->actor.tenant);
}

bool executor_visible(const struct call *call, const struct executor *executor)
{
    return (call->site && !call->tenant_named) || executor_is_own(call, executor);
}

/* executor_elsewhere: for the site's admin, looks through the executors of all tenants. NULL: the call was answered. */
static struct executor *executor_elsewhere(struct call *call)
{
    struct executor **executors;
    size_t n = 0, n_found = 0;
    struct executor *found = NULL;
    if (call->site && !call->tenant_named &&
        !reader_executors(call->api->config.reader, &call->arena, &executors, &n, &call->err)) {
        call_problem(call);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (str_eq(executors[i]->name, call->arg))
            found = executors[i], n_found++;
    if (n_found == 1)
        return found;
    if (n_found > 1)
        call_refuse(
            call, ERR_bad_request, "%zu tenants have an executor of that name: say which one with ?tenant=", n_found);
    else
        call_refuse(call, ERR_not_found, "there is no executor %.*s", STR_ARG(str_sub(call->arg, 0, 100)));
    return NULL;
}

/* executor_find: by id or name; NULL: answered. */
static struct executor *executor_find(struct call *call)
{
    struct executor *found = NULL;
    int64_t id = 0;
    bool by_id = str_to_i64(call->arg, &id);
    if (!by_id)
        id = engine_executor_named(call->api->config.engine, &call->arena, call->actor.tenant, call->arg);
    if (id > 0 && !reader_executor(call->api->config.reader, &call->arena, id, &found, &call->err)) {
        call_problem(call);
        return NULL;
    }
    if (found != NULL && executor_visible(call, found))
        return found;
    if (!by_id)
        return executor_elsewhere(call);
    call_refuse(call, ERR_not_found, "there is no executor %.*s", STR_ARG(str_sub(call->arg, 0, 100)));
    return NULL;
}

static void poll_opened(struct call *call, struct executor_poll *poll)
{
    if (poll == NULL)
        return;
    poll->open++;
    poll->waits = call->command.in.poll.wait_ms > 0;
    poll->last_ms = loop_now(call->api->config.loop);
}

static void poll_closed(struct call *call)
{
    call->on_gone = call->on_release = NULL; /* once, whichever comes first */
    struct executor_poll *poll = map_find(&call->api->polls, (uint64_t)call->command.in.poll.executor);
    if (poll == NULL)
        return; /* nobody knows whether there is such an executor */
    if (poll->open > 0)
        poll->open--;
    poll->last_ms = loop_now(call->api->config.loop);
}

/* poll_left: nobody reads the answer any more, so nothing must be granted to it. */
static void poll_left(struct call *call)
{
    atomic_store(&call->command.gone, true);
    poll_closed(call);
}

/* need_name: as `depends` wrote it; one that another has already is told by its id, so that a document never has a
 * member twice. */
static struct str need_name(
    struct arena *arena, const struct grant *grant, const struct need *need, struct str name, struct smap *seen)
{
    const struct task *task = &need->task;
    bool earlier = need->lane_kind == LANE_ARCHIVE && task->rev != grant->task.rev;
    if (earlier && str_eq(task->name, grant->task.name))
        name = STR("PREV");
    else if (earlier)
        name = str_fmt(arena, "PREV:%.*s", STR_ARG(name));
    if (need->by_id || smap_find(seen, name) != NULL)
        name = str_fmt(arena, "%lld", (long long)task->id);
    smap_put(seen, name, seen);
    return name;
}

static void need_render(struct api *api, struct json *json, const struct need *need)
{
    const struct task *task = &need->task;
    struct str outputs = need->outputs, artifacts = artifacts_split(&outputs);
    ANSWER_WRITE(ANSWER_Need);
}

/* needs_render: WEIR_NEEDS of the job; and the names of the tasks whose members are named otherwise, for
 * WEIR_OUTPUT_<TASK>_<NAME>. */
static void needs_render(struct api *api, struct json *json, const struct grant *grant)
{
    struct arena arena = { 0 };
    struct smap seen = { 0 };
    size_t n = grant->n_needs, n_other = 0;
    if (n == 0)
        return;
    struct str(*names)[2] = arena_array(&arena, n, sizeof *names);
    json_key(json, "needs");
    json_object_begin(json);
    for (size_t i = 0; i < n; i++) {
        const struct task *task = &grant->needs[i].task;
        names[n_other][1] = task->variant.len > 0
                                ? str_fmt(&arena, "%.*s[%.*s]", STR_ARG(task->name), STR_ARG(task->variant))
                                : task->name;
        names[n_other][0] = need_name(&arena, grant, &grant->needs[i], names[n_other][1], &seen);
        json_key_str(json, names[n_other][0]);
        need_render(api, json, &grant->needs[i]);
        n_other += !str_eq(names[n_other][0], names[n_other][1]);
    }
    json_object_end(json);
    if (n_other > 0)
        json_key(json, "needs_names");
    if (n_other > 0)
        json_object_begin(json);
    for (size_t i = 0; i < n_other; i++) {
        json_key_str(json, names[i][0]);
        json_str(json, names[i][1]);
    }
    if (n_other > 0)
        json_object_end(json);
    smap_release(&seen);
    arena_release(&arena);
}

static void source_render(struct json *json, const struct grant *grant)
{
    const struct grant_source *source = &grant->source;
    ANSWER_WRITE(ANSWER_GrantSource);
}

/* spec_render: what the engine knows of the task, with the stored body put in as it is. */
static void spec_render(struct api *api, struct json *json, const struct grant *grant, const char *sealed)
{
    bool of_archive = grant->lane_kind == LANE_ARCHIVE;
    struct str body = str_trim(grant->body);
    json_object_begin(json);
    ANSWER_Spec(RENDER) needs_render(api, json, grant);
    if (body.len > 2) {
        buf_add_char(json->out, ',');
        buf_add_str(json->out, str_sub(body, 1, body.len - 1));
    }
    json_object_end(json);
}

static void grant_render(struct api *api, struct json *json, const struct grant *grant, int64_t lease_ms)
{
    struct fence_sealed fence = fence_seal(&api->fence_key, grant->fence);
    api->incarnation = grant->fence.incarnation; /* a store that went back in time has taken a new one */
    ANSWER_WRITE(ANSWER_Grant);
}

static void cancel_render(struct json *json, int64_t task, struct str fence, const char *signal, bool stale)
{
    ANSWER_WRITE(ANSWER_CancelOrder);
}

static void cancels_render(struct call *call, struct json *json)
{
    const struct command *command = &call->command;
    const struct stray_renewals *strays = call->state;
    json_array_begin(json);
    for (size_t i = 0; i < command->out.poll.n_cancels; i++) {
        const struct cancel_order *cancel = &command->out.poll.cancels[i];
        cancel_render(json, cancel->fence.task, str_of(fence_seal(&call->api->fence_key, cancel->fence).z),
            cancel->signal, cancel->stale);
    }
    for (size_t i = 0; strays != NULL && i < strays->n; i++)
        cancel_render(json, strays->items[i].task, strays->items[i].fence, "KILL", true);
    json_array_end(json);
}

static void poll_answered(struct call *call)
{
    const struct command *command = &call->command;
    uploads_ended(call->api, command->in.poll.finishes, command->in.poll.n_finishes);
    if (map_find(&call->api->polls, (uint64_t)command->in.poll.executor) == NULL)
        poll_opened(call, poll_of(call->api, command->in.poll.executor)); /* there is such an executor */
    ANSWER_CALL(200, ANSWER_PollAnswer);
}

static void renew_read(struct call *call, struct json_reader *reader)
{
    const struct doc_node *list;
    struct command *command = &call->command;
    if (!json_read_array(reader, "renew", RENEW_MAX, &list))
        return;
    struct stray_renewals *strays = call->state = ARENA_NEW(&call->arena, struct stray_renewals);
    command->in.poll.renew = ARENA_ARRAY(&call->arena, struct renew_item, list->n);
    for (size_t i = 0; i < list->n; i++) {
        struct json_reader item;
        struct str text, path = json_pointer_at(&call->arena, STR("/renew"), i);
        int64_t task = 0;
        if (!json_read_object(&item, list->items[i], path, &call->arena, &call->err))
            continue;
        struct fence *fence = &command->in.poll.renew[command->in.poll.n_renew].fence;
        json_read_i64(&item, "task", 1, INT64_MAX, &task);
        if (!json_read_str(&item, "fence", TEXT_MAX, &text)) {
            if (json_read_any(&item, "fence") == NULL)
                err_item(&call->err, ERR_invalid, json_read_path(&item, "fence"), "'fence' is required");
        } else if (fence_open(&call->api->fence_key, text, fence) && (task == 0 || task == fence->task))
            command->in.poll.n_renew++;
        else if (task > 0 || (task = fence_task(text)) > 0)
            *ARENA_PUSH(&call->arena, strays->items, strays->n, strays->cap) =
                (struct stray_renewal){ task, str_dup(&call->arena, text) };
        else
            err_item(&call->err, ERR_invalid, json_read_path(&item, "fence"),
                "'fence' is no grant's, and no 'task' is named");
        json_read_end(&item);
    }
}

/* seen_read: the newest event that the executor was told of, as an answer gave it. What this site hasn't signed (also a
 * bare number, which older executors send) says nothing: else whoever may poll could make every fence of the site
 * stale. */
static void seen_read(struct call *call, struct json_reader *reader)
{
    struct command *command = &call->command;
    const struct doc_node *value = json_read_any(reader, "seen");
    struct str text;
    int64_t bare;
    if (value == NULL || node_is_whole(value, &bare))
        return;
    if (!node_is_text(value, &text) || text.len > TEXT_MAX)
        err_item(&call->err, ERR_invalid, json_read_path(reader, "seen"),
            "'seen' must be the 'seen' of an answer, or be left out");
    else if (!seen_open(&call->api->fence_key, &call->arena, text, &command->in.poll.seen_incarnation,
                 &command->in.poll.seen_seq))
        command->in.poll.seen_seq = 0;
}

static void poll_submit(struct call *call)
{
    /* else when the engine has answered */
    poll_opened(call, map_find(&call->api->polls, (uint64_t)call->command.in.poll.executor));
    auth_stream_began(call);
    call->on_gone = poll_left;
    call->on_release = poll_closed;
    call_submit(call, poll_answered);
}

static void poll_begin(struct call *call)
{
    struct json_reader reader;
    struct command *command = &call->command;
    int64_t wait_max = call->api->config.lease_ms / 3;
    if (!call_object_or_nothing(call, &reader))
        return;
    call->state = NULL;
    command->in.poll.seq = -1;
    json_read_i64(&reader, "free", 0, SLOTS_MAX, &command->in.poll.free);
    json_read_i64(&reader, "ahead", 0, AHEAD_MAX, &command->in.poll.ahead);
    json_read_i64(&reader, "wait_ms", 0, INT64_MAX, &command->in.poll.wait_ms);
    json_read_i64(&reader, "seq", 0, INT64_MAX, &command->in.poll.seq);
    seen_read(call, &reader);
    renew_read(call, &reader);
    const struct doc_node *finishes = json_read_any(&reader, "finishes");
    if (finishes != NULL)
        finish_read_list(&call->api->fence_key, &call->arena, finishes, STR("/finishes"), &command->in.poll.finishes,
            &command->in.poll.n_finishes, &call->err);
    if (!call_read_done(call, &reader))
        return;
    const struct stray_renewals *strays = call->state;
    if (command->in.poll.wait_ms > wait_max)
        command->in.poll.wait_ms = wait_max;
    if (strays != NULL && strays->n > 0)
        command->in.poll.wait_ms = 0; /* what is refused is told at once */
    command->kind = CMD_POLL;
    artifacts_prove(call, command->in.poll.finishes, command->in.poll.n_finishes, poll_submit);
}

static void poll_named(struct call *call)
{
    const struct executor *executor = executor_find(call);
    if (executor == NULL)
        return;
    call->command.in.poll.executor = executor->id;
    call_on_loop(call, poll_begin);
}

/* Nothing is read when the path has its id. */
void serve_executors_poll(struct call *call)
{
    int64_t id;
    if (str_to_i64(call->arg, &id) && id > 0) {
        call->command.in.poll.executor = id;
        poll_begin(call);
    } else {
        call_on_thread(call, poll_named);
    }
}

const struct executor_live *executor_live_find(const struct executor_live *live, size_t n, int64_t id)
{
    size_t low = 0, high = n;
    while (low < high) { /* by id, as engine_executors gives them */
        size_t mid = low + (high - low) / 2;
        if (live[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && live[low].id == id ? &live[low] : NULL;
}

const char *executor_state_now(struct api *api, const struct executor *executor, const struct executor_live *live)
{
    const struct executor_poll *poll = map_find(&api->polls, (uint64_t)executor->id);
    if (live == NULL || !live->live)
        return executor_state_name(EXECUTOR_LOST);
    int64_t silent = poll != NULL ? loop_now(api->config.loop) - poll->last_ms : 0;
    if (poll != NULL && poll->open == 0 && silent > (poll->waits ? SILENT_MS : SILENT_SHORT_MS))
        return executor_state_name(EXECUTOR_LOST);
    if ((poll == NULL || poll->open == 0) && executor_register_lost(api, executor, live))
        return executor_state_name(EXECUTOR_LOST);
    return executor_state_name(executor->state);
}

struct list_page executors_page_of(struct call *call)
{
    struct str tenant = call->actor.tenant;
    return (struct list_page){ .all = call->site && !call->tenant_named,
        .tenant = str_eqz(tenant, TENANT_DEFAULT) ? (struct str){ 0 } : str_dup(&call->arena, tenant) };
}

struct executors_page {
    struct list_page page;
    struct executor **rows;
    size_t n;
};

static bool executors_read(struct call *call)
{
    struct executors_page *read = call->state;
    return reader_executors_page(
        call->api->config.reader, &call->arena, &read->page, &read->rows, &read->n, &call->err);
}

static void executor_render(struct call *call, struct json *json, const struct executor *executor)
{
    struct executor_live heard;
    const struct executor_live *live = engine_executor(call->api->config.engine, executor->id, &heard) ? &heard : NULL;
    render_executor(json, executor, live, executor_state_now(call->api, executor, live));
}

static void executors_render(struct call *call)
{
    const struct executors_page *read = call->state;
    bool more = read->n == read->page.limit;
    size_t n = read->n - more;
    struct str next = more ? call_cursor(call, read->rows[n - 1]->id) : (struct str){ 0 };
    ANSWER_CALL(200, ANSWER_ExecutorList);
}

void serve_executors_list(struct call *call)
{
    struct executors_page *read = ARENA_NEW(&call->arena, struct executors_page);
    *read = (struct executors_page){ 0 };
    if (!call_page(call, 0, &read->page))
        return;
    struct list_page whose = executors_page_of(call);
    read->page.all = whose.all;
    read->page.tenant = whose.tenant;
    call->state = read;
    call_read(call, executors_read, executors_render);
}

static void executor_answer(struct call *call)
{
    struct json json = json_to(&call->out);
    executor_render(call, &json, call->state);
    call_answer(call, 200);
}

void serve_executors_get(struct call *call)
{
    struct executor *executor = executor_find(call);
    if (executor == NULL)
        return;
    call->state = executor;
    call_on_loop(call, executor_answer);
}

static void state_changed(struct call *call)
{
    call_on_thread(call, serve_executors_get);
}

static void state_command(struct call *call, enum executor_state state)
{
    struct json_reader reader;
    struct command *command = &call->command;
    const struct executor *executor = executor_find(call);
    if (executor == NULL || !call_object_or_nothing(call, &reader))
        return;
    call->arg = str_dup(&call->arena, call->arg); /* the request's text may be gone when the command is done */
    json_read_str(&reader, "reason", REASON_BYTES_MAX, &command->in.executor_state.reason);
    if (!call_read_done(call, &reader))
        return;
    if (executor->tenant.len > 0)
        call->actor.tenant = str_dup(&call->arena, executor->tenant); /* the site's admin: it is visible */
    command->kind = CMD_EXECUTOR_STATE;
    command->in.executor_state.executor = executor->id;
    command->in.executor_state.state = state;
    call_submit(call, state_changed);
}

void serve_executors_pause(struct call *call)
{
    state_command(call, EXECUTOR_PAUSED);
}

void serve_executors_resume(struct call *call)
{
    state_command(call, EXECUTOR_ACTIVE);
}

void serve_executors_drain(struct call *call)
{
    state_command(call, EXECUTOR_DRAINING);
}
