/* executors: registration, lists, and what people do to executors. Their long poll is polls.c. */
#include <stdlib.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"

enum { SLOTS_MAX = 100000, LABELS_MAX = 64, TEXT_MAX = 200, SILENT_MS = 4500, SILENT_SHORT_MS = 9000 };
enum { KINDS_ALL = 1u << KIND_COMMAND | 1u << KIND_SCRIPT | 1u << KIND_IMAGE | 1u << KIND_DATA };

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
                "'kinds' knows command, script, image, data and apply");
        else
            out->kinds |= 1u << kind;
    }
}

static bool executor_registered(struct call *call)
{
    executor_poll_of(call->api, call->command.out.reg.id)->last_ms = loop_now(call->api->config.loop);
    ANSWER_RETURN(call->command.status != 0 ? call->command.status : 201, ANSWER_Registration);
}

bool serve_executors_create(struct call *call)
{
    struct json_reader reader;
    struct executor *executor = &call->command.in.reg.executor;
    if (!call_idempotency(call) || !call_object(call, &reader))
        return false;
    *executor = (struct executor){ .slots = 1, .state = EXECUTOR_ACTIVE };
    if (json_read_need(&reader, "name", ""))
        call_name(&reader, "name", "executor", TEXT_MAX, name_check_new, &executor->name);
    json_read_i64(&reader, "slots", 0, SLOTS_MAX, &executor->slots);
    labels_read(&reader, executor);
    call_name(&reader, "zone", "zone", TEXT_MAX, name_check_new, &executor->zone);
    kinds_read(&reader, executor);
    json_read_str(&reader, "host", TEXT_MAX, &executor->host);
    json_read_str(&reader, "version", TEXT_MAX, &executor->version);
    json_read_str(&reader, "instance", TEXT_MAX, &executor->instance);
    json_read_str(&reader, "memory", TEXT_MAX, &call->command.in.reg.memory);
    if (!call_read_done(call, &reader))
        return false;
    call->command.kind = CMD_REGISTER;
    return call_submit(call, executor_registered);
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

struct executor *executor_find(struct call *call)
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

static bool executors_render(struct call *call)
{
    const struct executors_page *read = call->state;
    bool more = read->n == read->page.limit;
    size_t n = read->n - more;
    struct str next = more ? call_cursor(call, read->rows[n - 1]->id) : (struct str){ 0 };
    ANSWER_RETURN(200, ANSWER_ExecutorList);
}

bool serve_executors_list(struct call *call)
{
    struct executors_page *read = ARENA_NEW(&call->arena, struct executors_page);
    *read = (struct executors_page){ 0 };
    if (!call_page(call, 0, &read->page))
        return false;
    struct list_page whose = executors_page_of(call);
    read->page.all = whose.all;
    read->page.tenant = whose.tenant;
    call->state = read;
    return call_read(call, executors_read, executors_render);
}

static bool executor_answer(struct call *call)
{
    struct json json = json_to(&call->out);
    executor_render(call, &json, call->state);
    return call_answer(call, 200);
}

bool serve_executors_get(struct call *call)
{
    if (call_moved(call, serve_executors_get)) /* after a command it comes here from the loop */
        return true;
    call->state = executor_find(call);
    if (call->state == NULL)
        return false;
    return call_on_loop(call, executor_answer);
}

static bool state_command(struct call *call, enum executor_state state)
{
    struct json_reader reader;
    struct command *command = &call->command;
    const struct executor *executor = executor_find(call);
    if (executor == NULL || !call_object_or_nothing(call, &reader))
        return false;
    call->arg = str_dup(&call->arena, call->arg); /* the request's text may be gone when the command is done */
    json_read_str(&reader, "reason", REASON_BYTES_MAX, &command->in.executor_state.reason);
    if (!call_read_done(call, &reader))
        return false;
    if (executor->tenant.len > 0)
        call->actor.tenant = str_dup(&call->arena, executor->tenant); /* the site's admin: it is visible */
    command->kind = CMD_EXECUTOR_STATE;
    command->in.executor_state.executor = executor->id;
    command->in.executor_state.state = state;
    return call_submit(call, serve_executors_get);
}

HANDLER_OF(serve_executors_pause, state_command, EXECUTOR_PAUSED)
HANDLER_OF(serve_executors_resume, state_command, EXECUTOR_ACTIVE)
HANDLER_OF(serve_executors_drain, state_command, EXECUTOR_DRAINING)
