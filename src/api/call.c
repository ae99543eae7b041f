/* call: the life of a request inside the api, and what every handler needs of it: its body, its query, its answer.
 *
 * Calls are kept in a pool with their arenas and buffers, so that a plain request allocates nothing of its own. A call
 * that was submitted to the engine stays until the command is done, also when the client has gone. It fails by
 * answering: a function that returns false has answered. */
#include "api/call.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CALLS_IDLE_MAX = 256, OUT_KEPT_MAX = 256 * 1024, HEADERS_MAX = 8 };
#define OUT_BYTES_MAX (256 * MIB) /* a bulk of 10,000 tasks renders to about 5 MiB */
#define IDEMPOTENCY_KEY_MAX 255

static void call_gone(struct http_request *request)
{
    struct call *call = request->user;
    request->gone = NULL;
    request->user = NULL;
    if (call->on_thread != NULL) { /* the rest of it isn't ours now */
        *call->on_thread = NULL;
        return;
    }
    call->request = NULL;
    if (call->on_gone != NULL)
        call->on_gone(call);
    if (!call->submitted)
        call_released(call);
}

struct call *call_new(struct api *api, struct http_request *request)
{
    struct list_node *node = list_take_first(&api->idle);
    struct call *call = node != NULL ? CONTAINER_OF(node, struct call, node) : NULL;
    if (call == NULL) {
        call = mem_alloc_zero(sizeof *call);
        buf_init(&call->out, OUT_BYTES_MAX);
    }
    call->api = api;
    call->request = request;
    call->err.arena = &call->arena;
    call->turn = engine_time(api->config.engine);
    request->user = call;
    request->gone = call_gone;
    list_append(&api->calls, &call->node);
    api->requests++;
    return call;
}

void call_released(struct call *call)
{
    struct api *api = call->api;
    if (call->on_release != NULL)
        call->on_release(call);
    if (call->request != NULL) {
        call->request->gone = NULL;
        call->request->user = NULL;
    }
    list_remove(&api->calls, &call->node);
    if (call->out.size > OUT_KEPT_MAX) {
        buf_release(&call->out);
        buf_init(&call->out, OUT_BYTES_MAX);
    }
    buf_reset(&call->out);
    arena_reset(&call->arena);
    struct arena arena = call->arena;
    struct buf out = call->out;
    memset(call, 0, sizeof *call);
    call->arena = arena;
    call->out = out;
    if (api->idle.n < CALLS_IDLE_MAX) {
        list_append(&api->idle, &call->node);
        return;
    }
    arena_release(&call->arena);
    buf_release(&call->out);
    mem_free(call);
}

bool call_answer_as(
    struct call *call, int status, const char *content_type, struct str body, const char *const *headers)
{
    struct http_request *request = call->request;
    ASSERT(request != NULL);
    if (call->on_thread != NULL) {
        ASSERT(headers == NULL && body.ptr == call->out.ptr);
        call->reading.answered = status;
        call->reading.answer_type = content_type;
        return true;
    }
    request->gone = NULL; /* the body is copied: nobody waits for this call any more */
    request->user = NULL;
    call->request = NULL;
    /* the turn, and the caller's own headers */
    struct i64_text turn = i64_format(call->turn);
    const char *all[2 * HEADERS_MAX + 3] = { "Weir-Turn", turn.z };
    for (size_t i = 0; headers != NULL && headers[i] != NULL; i++) {
        ASSERT(i < (size_t)2 * HEADERS_MAX);
        all[2 + i] = headers[i];
    }
    http_answer(request, status, content_type, body, all);
    call_released(call);
    return true;
}

bool call_stream_begin(
    struct call *call, int status, const char *content_type, void (*drained)(struct http_request *request))
{
    bool head = str_eqz(call->request->method, "HEAD");
    http_stream_header(call->request, "Weir-Turn", i64_format(call->turn).z);
    http_stream_begin(call->request, status, content_type, drained);
    if (head) { /* nothing is read that nobody gets */
        call_stream_end(call);
        return false;
    }
    call->streams = true;
    auth_stream_began(call);
    return true;
}

bool call_answer(struct call *call, int status)
{
    if (call->out.full)
        return call_refuse(call, ERR_internal, "the answer is over %zu bytes", (size_t)OUT_BYTES_MAX);
    return call_answer_as(call, status, "application/json", buf_str(&call->out), NULL);
}

bool call_problem(struct call *call)
{
    static const char *const bearer[] = { "WWW-Authenticate", "Bearer realm=\"weir\"", NULL };
    static const char *const later[] = { "Retry-After", "1", NULL };
    ASSERT(call->err.code != ERR_none);
    if (call->on_thread != NULL || call_missed(call))
        return false;
    call->api->refused++;
    buf_reset(&call->out);
    call->out.full = false;
    problem_render(&call->out, &call->err);
    const char *const *headers = call->err.code == ERR_unauthorized ? bearer
                                 : err_retriable(call->err.code)    ? later
                                                                    : NULL;
    call_answer_as(call, err_http(call->err.code), "application/problem+json", buf_str(&call->out), headers);
    return false;
}

bool call_end(struct call *call, bool good, int status)
{
    return good ? call_answer(call, status) : call_problem(call);
}

bool call_refuse(struct call *call, enum err_code code, const char *fmt, ...)
{
    struct buf detail;
    buf_init(&detail, sizeof call->err.text - 1);
    va_list args;
    va_start(args, fmt);
    buf_vaddf(&detail, fmt, args);
    va_end(args);
    err_set(&call->err, code, "%.*s", STR_ARG(buf_str(&detail)));
    buf_release(&detail);
    return call_problem(call);
}

void call_stream_end(struct call *call)
{
    struct http_request *request = call->request;
    call->request = NULL;
    request->gone = NULL;
    request->user = NULL;
    http_stream_end(request);
    call_released(call);
}

void call_stream_break(struct call *call)
{
    http_stream_break(call->request);
    call_stream_end(call);
}

struct str call_header(const struct call *call, const char *name)
{
    if (call->on_thread == NULL)
        return http_header(call->request, name);
    for (size_t i = 0; i < call->reading.n_headers; i++)
        if (str_eqz(call->reading.headers[i].name, name))
            return call->reading.headers[i].value;
    return (struct str){ 0 };
}

static void command_done(struct command *command)
{
    struct call *call = CONTAINER_OF(command, struct call, command);
    handler_fn *done = call->done;
    call->submitted = false;
    call->reading.since = 0; /* what is read of what it did has its own time */
    call->turn = engine_time(call->api->config.engine);
    if (call->request == NULL) {
        call_released(call);
        return;
    }
    if (command->err.code != ERR_none) {
        call->err = command->err;
        call_problem(call);
        return;
    }
    done(call);
}

void call_command(struct call *call)
{
    struct command *command = &call->command;
    command->actor = call->actor;
    command->token = call->token;
    command->admin = call->scopes & SCOPE_ADMIN;
    command->arena = &call->arena;
    command->err.arena = &call->arena;
    call->submitted = true;
}

bool call_submit(struct call *call, handler_fn *done)
{
    struct command *command = &call->command;
    if (call->on_thread != NULL) {
        call->reading.on_loop = done;
        call->reading.answered = CALL_SUBMITS;
        return true;
    }
    call_command(call);
    command->done = command_done;
    call->done = done;
    engine_submit(call->api->config.engine, command);
    return true;
}

bool call_json(struct call *call)
{
    call->text = str_dup(&call->arena, call->request->body);
    call->body = json_read_body(call->text, &call->arena, &call->err);
    return call->body != NULL || call_problem(call);
}

bool call_object(struct call *call, struct json_reader *out)
{
    return call_json(call) &&
           (json_read_object(out, call->body, (struct str){ 0 }, &call->arena, &call->err) || call_problem(call));
}

bool call_object_or_nothing(struct call *call, struct json_reader *out)
{
    if (str_trim(call->request->body).len == 0)
        call->request->body = STR("{}");
    return call_object(call, out);
}

bool call_read_done(struct call *call, struct json_reader *reader)
{
    json_read_end(reader);
    return call->err.code == ERR_none || call_problem(call);
}

void call_name(struct json_reader *reader, const char *field, const char *what, size_t len_max,
    bool (*check)(struct str name, const char *what, struct err *err), struct str *out)
{
    struct err fault = { 0 };
    if (json_read_str(reader, field, len_max, out) && !check(*out, what, &fault))
        err_item(reader->err, ERR_invalid, json_read_path(reader, field), "%s", fault.text);
}

bool call_idempotency(struct call *call)
{
    struct str key = call_header(call, "Idempotency-Key");
    if (key.ptr == NULL)
        return true;
    bool good = key.len > 0 && key.len <= IDEMPOTENCY_KEY_MAX;
    for (size_t i = 0; i < key.len && good; i++)
        good = key.ptr[i] >= ' ' && key.ptr[i] <= '~';
    if (!good) {
        err_item(&call->err, ERR_bad_request, STR("Idempotency-Key"),
            "the header Idempotency-Key must be 1 to %d printable characters", IDEMPOTENCY_KEY_MAX);
        return call_problem(call);
    }
    struct command *command = &call->command;
    command->idempotency.key = str_dup(&call->arena, key);
    command->idempotency.route = str_fmt(&call->arena, "%s %s", call->route->method, call->route->path);
    crypto_generichash(command->idempotency.body_hash, sizeof command->idempotency.body_hash,
        (const unsigned char *)call->request->body.ptr, call->request->body.len, NULL, 0);
    return true;
}

static bool param_fault(struct call *call, const char *name, struct str value, const char *wanted)
{
    return err_item(&call->err, ERR_bad_request, str_of(name), "the query parameter '%s' must be %s, not '%.*s'", name,
        wanted, STR_ARG(str_sub(value, 0, 64)));
}

bool call_param_str(struct call *call, const char *name, struct str *out)
{
    struct str value;
    for (size_t i = 0; i < call->reading.n_params && call->on_thread != NULL; i++) {
        if (!str_eqz(call->reading.params[i].name, name))
            continue;
        *out = call->reading.params[i].value;
        return true;
    }
    if (call->on_thread != NULL || call->request->query.len == 0 || !http_param(call->request, name, &value))
        return false;
    *out = str_dup(&call->arena, value);
    return true;
}

bool call_param_i64(struct call *call, const char *name, int64_t min, int64_t max, int64_t *out)
{
    struct str value;
    int64_t n;
    if (!call_param_str(call, name, &value))
        return true;
    if (!str_to_i64(value, &n) || n < min || n > max) {
        struct str wanted = max == INT64_MAX
                                ? str_fmt(&call->arena, "a number from %lld", (long long)min)
                                : str_fmt(&call->arena, "a number from %lld to %lld", (long long)min, (long long)max);
        return param_fault(call, name, value, str_dupz(&call->arena, wanted));
    }
    *out = n;
    return true;
}

bool call_param_limit(struct call *call, int64_t most, int64_t *out)
{
    if (!call_param_i64(call, "limit", 1, INT64_MAX, out))
        return false;
    if (*out > most)
        *out = most;
    return true;
}

bool call_page(struct call *call, int64_t from, struct list_page *out)
{
    int64_t limit = PAGE_MAX;
    *out = (struct list_page){ .from = from, .tenant = call->actor.tenant };
    call_param_limit(call, PAGE_MAX, &limit);
    call_param_i64(call, "cursor", 0, INT64_MAX, &out->from);
    out->limit = (size_t)limit + 1; /* whether there is one more */
    return call->err.code == ERR_none || call_problem(call);
}

struct str call_cursor(struct call *call, int64_t last)
{
    return str_fmt(&call->arena, "%lld", (long long)last);
}

bool call_param_flag(struct call *call, const char *name, bool *out)
{
    struct str value;
    if (!call_param_str(call, name, &value))
        return true;
    if (str_eqz(value, "1") || str_eqz(value, "true"))
        *out = true;
    else if (str_eqz(value, "0") || str_eqz(value, "false"))
        *out = false;
    else
        return param_fault(call, name, value, "0 or 1");
    return true;
}

/* task_id_find: -1: the key names nothing. */
static bool task_id_find(struct call *call, const struct key *key, int64_t *out_id)
{
    switch (key->kind) {
    case KEY_ID:
    case KEY_QUEUE_TASK:
        *out_id = key->id;
        return true;
    case KEY_TASK:
        return reader_find(call->api->config.reader, call->actor.tenant, key->lane, key->rev, key->name, key->variant,
            key->run, out_id, &call->err);
    case KEY_CHANGESET:
    case KEY_LANE:
        return reader_changeset_find(call->api->config.reader, call->actor.tenant,
            key->kind == KEY_LANE ? key->lane : key->name, out_id, &call->err);
    case KEY_NONE:
    case KEY_REVISION:
        break;
    }
    *out_id = 0;
    return true;
}

bool call_task_id(struct call *call, int64_t *out_id)
{
    struct key key;
    struct err fault = { 0 };
    struct str arg = str_sub(call->arg, 0, 200);
    if (!key_parse(call->arg, &key, &fault))
        return call_refuse(
            call, ERR_bad_request, "'%.*s' is neither a task id nor a key: %.200s", STR_ARG(arg), fault.text);
    int64_t id = 0;
    if (!task_id_find(call, &key, &id))
        return call_problem(call);
    if (id <= 0) {
        bool whole = key.kind == KEY_REVISION || key.kind == KEY_LANE; /* a place with tasks in it, or nothing at all */
        return call_refuse(call, ERR_not_found, "there is no task %.*s%s", STR_ARG(arg),
            whole ? ": a task is written ARCHIVE@REV:NAME, QUEUE:ID or as its id, a change set as its CSID; weir list "
                    "shows them"
                  : "");
    }
    *out_id = id;
    call->lane_wanted = key.kind == KEY_QUEUE_TASK  ? key.lane
                        : key.kind == KEY_CHANGESET ? str_fmt(&call->arena, TARGET_LANE "%.*s", STR_ARG(key.lane))
                                                    : (struct str){ 0 };
    return true;
}

bool call_task_of_executor(struct call *call, int64_t *out_id)
{
    if (!call_task_id(call, out_id))
        return false;
    if (str_eqz(call->actor.tenant, TENANT_DEFAULT) || !task_is_foreign(call->api, *out_id, call->actor.tenant))
        return true;
    return call_refuse(call, ERR_not_found, "there is no task %.*s", STR_ARG(str_sub(call->arg, 0, 200)));
}

bool call_task_view(struct call *call, struct task_view *out)
{
    int64_t id;
    bool found;
    if (!call_task_id(call, &id))
        return false;
    if (!reader_task(call->api->config.reader, &call->arena, id, out, &found, &call->err))
        return call_problem(call);
    if (!found || !str_eq(out->tenant, call->actor.tenant) ||
        (call->lane_wanted.len > 0 && !str_eq(call->lane_wanted, out->lane_name)))
        return call_refuse(call, ERR_not_found, "there is no task %.*s", STR_ARG(str_sub(call->arg, 0, 200)));
    return true;
}
