/* finish: reports of ended attempts, one by one or in bulk, alone or inside a poll.
 *
 * Each item is read by itself: one that can't be read is answered 422 in its place and the others count. Two reports with the same fence
 * are the same when their meaning is (exit, signal, outcome, outputs, length of the log), whatever order or spelling they came in. */
#include <sodium.h>
#include <string.h>

#include "api/call.h"
#include "api/quick.h"
#include "api/raw.h"

enum {
    ITEMS_MAX = 10000,
    LOG_TAIL_MAX = 16 * 1024,
    REASON_MAX = 1000,
    OUTPUTS_MAX = 1000,
    FENCE_BYTES_MAX = 96
};
/* So large that nothing is in the way, and so small that sums over all tasks of a tenant don't overflow. */
#define LOG_BYTES_MAX ((int64_t)1 << 38) /* as store/logs_seek.h: 256 GiB */
#define USAGE_MAX ((int64_t)1 << 53)

static void outputs_read(struct json_reader *reader, struct finish_item *out)
{
    const json_t *value = json_read_any(reader, "outputs");
    if (value == NULL)
        return;
    struct str path = json_read_path(reader, "outputs");
    if (!json_is_object(value) || json_object_size(value) > OUTPUTS_MAX) {
        err_item(reader->err, ERR_invalid, path, "'outputs' must be an object of at most %d strings", OUTPUTS_MAX);
        return;
    }
    struct json_reader outputs;
    json_read_object(&outputs, value, path, reader->arena, reader->err);
    for (size_t i = 0; i < outputs.n_fields; i++) {
        const struct json_field *field = &outputs.fields[i];
        struct str at = json_pointer_add(reader->arena, path, str_sub(field->key, 0, OUTPUT_NAME_BYTES_MAX));
        if (!output_name_is_valid(field->key))
            err_item(reader->err, ERR_invalid, at, "an output's name must have 1 to %d bytes", OUTPUT_NAME_BYTES_MAX);
        else if (!json_is_string(field->value) || json_string_length(field->value) > OUTPUT_VALUE_BYTES_MAX)
            err_item(reader->err, ERR_invalid, at, "an output must be a string of at most %d bytes", OUTPUT_VALUE_BYTES_MAX);
    }
    out->outputs = json_text(reader->arena, value, true);
}

static void log_read(struct json_reader *reader, struct finish_item *out)
{
    struct str text;
    json_read_i64(reader, "log_offset", 0, LOG_BYTES_MAX, &out->log_offset);
    if (!json_read_str(reader, "log", sodium_base64_ENCODED_LEN(LOG_TAIL_MAX, sodium_base64_VARIANT_ORIGINAL), &text))
        return;
    unsigned char *bytes = arena_alloc(reader->arena, text.len + 1);
    size_t n = 0;
    if (sodium_base642bin(bytes, text.len + 1, text.ptr, text.len, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) != 0 ||
        n > LOG_TAIL_MAX) {
        err_item(reader->err, ERR_invalid, json_read_path(reader, "log"), "'log' must be at most %d bytes in base64", LOG_TAIL_MAX);
        return;
    }
    out->log = (struct str){ (const char *)bytes, n };
}

static void usage_read(struct json_reader *reader, struct finish_item *out)
{
    struct json_reader usage;
    if (!json_read_child(reader, "usage", &usage))
        return;
    json_read_i64(&usage, "cpu_ms", 0, USAGE_MAX, &out->cpu_ms);
    json_read_i64(&usage, "max_rss_bytes", 0, USAGE_MAX, &out->max_rss_bytes);
    json_read_end(&usage);
}

static void fence_read(const struct fence_key *key, struct json_reader *reader, int64_t task, struct finish_item *out)
{
    struct str text;
    int64_t given = task;
    json_read_i64(reader, "task", 1, INT64_MAX, &given);
    out->task = given;
    if (json_read_any(reader, "fence") == NULL) {
        err_item(reader->err, ERR_invalid, json_read_path(reader, "fence"), "'fence' is required");
        return;
    }
    if (!json_read_str(reader, "fence", FENCE_BYTES_MAX, &text))
        return;
    bool parsed = fence_open(key, text, &out->fence);
    if (!parsed && given == 0)
        given = fence_task(text);
    if (task > 0 && given != task)
        err_item(reader->err, ERR_invalid, json_read_path(reader, "task"), "'task' must be %lld here, not %lld", (long long)task,
            (long long)given);
    else if (given > 0 && (!parsed || given != out->fence.task))
        out->fence = (struct fence){ .task = given }; /* opaque to who sends it: one that was never given out is as stale as an old one */
    else if (!parsed)
        err_item(
            reader->err, ERR_invalid, json_read_path(reader, "fence"), "'fence' must be the fence of a grant, not \"%.*s\"", STR_ARG(text));
}

static bool reason_good(struct str reason)
{
    for (size_t i = 0; i < reason.len; i++)
        if ((unsigned char)reason.ptr[i] < ' ' || reason.ptr[i] == 127)
            return false;
    return true;
}

static void meaning_hash(struct finish_item *item)
{
    crypto_generichash_state state;
    int64_t numbers[] = { item->exit, item->signal, (int64_t)item->outcome, item->log_bytes };
    crypto_generichash_init(&state, NULL, 0, sizeof item->hash);
    crypto_generichash_update(&state, (const unsigned char *)numbers, sizeof numbers);
    if (item->outputs.len > 0 && !str_eqz(item->outputs, "{}"))
        crypto_generichash_update(&state, (const unsigned char *)item->outputs.ptr, item->outputs.len);
    crypto_generichash_final(&state, item->hash, sizeof item->hash);
}

bool finish_read(const struct fence_key *key, struct arena *arena, const json_t *value, struct str path, int64_t task,
    struct finish_item *out, struct err *err)
{
    struct json_reader reader;
    struct str outcome;
    int64_t when;
    *out = (struct finish_item){ .exit = -1, .signal = -1, .cpu_ms = -1, .max_rss_bytes = -1, .log_bytes = -1, .task = task };
    out->malformed = true;
    out->code = ERR_invalid;
    if (!json_read_object(&reader, value, path, arena, err))
        return false;
    fence_read(key, &reader, task, out);
    json_read_i64(&reader, "exit", 0, 255, &out->exit);
    json_read_i64(&reader, "signal", 1, 64, &out->signal);
    if (json_read_str(&reader, "outcome", 40, &outcome)) {
        out->outcome = outcome_find(outcome);
        if (out->outcome == OUTCOME_none)
            err_item(err, ERR_invalid, json_read_path(&reader, "outcome"),
                "'outcome' must be done, skipped, failed, permanent, temporary, timeout, killed, lost or cancelled, not \"%.*s\"",
                STR_ARG(outcome));
    }
    outputs_read(&reader, out);
    artifacts_read(&reader, out);
    usage_read(&reader, out);
    if (json_read_str(&reader, "reason", REASON_MAX, &out->reason) && !reason_good(out->reason))
        err_item(err, ERR_invalid, json_read_path(&reader, "reason"), "'reason' must not have control characters");
    json_read_i64(&reader, "log_bytes", 0, LOG_BYTES_MAX, &out->log_bytes);
    log_read(&reader, out);
    json_read_time(&reader, "started", &when); /* the executor's own clock: taken, and ours is what counts */
    json_read_time(&reader, "finished", &when);
    json_read_end(&reader);
    if (err->code == ERR_none && out->exit < 0 && out->signal < 0 && out->outcome == OUTCOME_none)
        err_item(err, ERR_invalid, json_read_path(&reader, "exit"), "one of 'exit', 'signal' and 'outcome' is required");
    if (err->code != ERR_none)
        return false;
    meaning_hash(out);
    out->malformed = false;
    out->code = ERR_none;
    out->task = out->fence.task;
    return true;
}

bool finish_read_list(const struct fence_key *key, struct arena *arena, const json_t *list, struct str path, struct finish_item **out,
    size_t *out_n, struct err *err)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > ITEMS_MAX)
        return err_item(err, ERR_invalid, path, "the finishes must be an array of at most %d items", ITEMS_MAX);
    *out = ARENA_ARRAY(arena, struct finish_item, n);
    *out_n = n;
    for (size_t i = 0; i < n; i++) {
        struct err fault = { .arena = arena };
        finish_read(key, arena, json_array_get(list, i), json_pointer_at(arena, path, i), 0, &(*out)[i], &fault);
    }
    return true;
}

/* ---- the quick way: plain reports from the bytes of a document that quick_check liked; anything else is left to the general one ---- */

static bool quick_text(struct str raw, size_t max, struct str *out)
{
    if (raw.len < 2 || raw.len - 2 > max || raw.ptr[0] != '"' || memchr(raw.ptr, '\\', raw.len) != NULL)
        return false;
    *out = str_sub(raw, 1, raw.len - 1);
    return true;
}

static bool quick_number(struct str raw, int64_t min, int64_t max, int64_t *out)
{
    return str_to_i64(raw, out) && *out >= min && *out <= max;
}

static bool quick_usage(struct str raw, struct finish_item *out)
{
    struct str rest = raw_members(raw), name, value;
    if (raw.ptr[0] != '{')
        return false;
    while (raw_member_next(&rest, &name, &value)) {
        int64_t *number = str_eqz(name, "cpu_ms") ? &out->cpu_ms : str_eqz(name, "max_rss_bytes") ? &out->max_rss_bytes : NULL;
        if (number == NULL || !quick_number(value, 0, USAGE_MAX, number))
            return false;
    }
    return true;
}

static bool quick_item(const struct fence_key *key, struct str raw, struct finish_item *out)
{
    struct str rest = raw_members(raw), name, value, text;
    int64_t task = 0;
    bool fenced = false, plain = raw.ptr[0] == '{';
    *out = (struct finish_item){ .exit = -1, .signal = -1, .cpu_ms = -1, .max_rss_bytes = -1, .log_bytes = -1 };
    while (plain && raw_member_next(&rest, &name, &value)) {
        if (str_eqz(name, "fence"))
            fenced = plain = quick_text(value, FENCE_BYTES_MAX, &text) && fence_open(key, text, &out->fence);
        else if (str_eqz(name, "exit"))
            plain = quick_number(value, 0, 255, &out->exit);
        else if (str_eqz(name, "task"))
            plain = quick_number(value, 1, INT64_MAX, &task);
        else if (str_eqz(name, "usage"))
            plain = quick_usage(value, out);
        else if (str_eqz(name, "log_bytes"))
            plain = quick_number(value, 0, LOG_BYTES_MAX, &out->log_bytes);
        else
            plain = false;
    }
    if (!plain || !fenced || out->exit < 0 || (task > 0 && task != out->fence.task))
        return false;
    out->task = out->fence.task;
    meaning_hash(out);
    return true;
}

bool finishes_read_quick(const struct fence_key *key, struct arena *arena, struct str raw, struct finish_item **out, size_t *out_n)
{
    struct str members = raw_members(raw), name, list, item, more;
    if (!quick_check(raw) || str_trim(raw).ptr[0] != '{' || !raw_member_next(&members, &name, &list) || !str_eqz(name, "items") ||
        list.ptr[0] != '[' || raw_member_next(&members, &more, &item))
        return false;
    size_t cap = 0;
    *out = NULL, *out_n = 0;
    for (struct str rest = raw_items(list); raw_next(&rest, &item);)
        if (*out_n == ITEMS_MAX || !quick_item(key, item, ARENA_PUSH(arena, *out, *out_n, cap)))
            return false;
    return *out_n > 0;
}

void finish_render_results(struct json *json, const struct finish_item *items, size_t n)
{
    json_key(json, "results");
    json_array_begin(json);
    for (size_t i = 0; i < n; i++) {
        json_object_begin(json);
        json_put_i64(json, "task", items[i].task);
        json_put_i64(json, "status", err_http(items[i].code));
        if (items[i].code != ERR_none)
            json_put_z(json, "code", err_name(items[i].code));
        json_object_end(json);
    }
    json_array_end(json);
}

static void task_finished(struct call *call)
{
    const struct finish_item *item = &call->command.in.finish.items[0];
    uploads_ended(call->api, item, 1);
    if (item->code != ERR_none) {
        call_refuse(call, item->code, "%s", err_title(item->code));
        return;
    }
    struct json json = json_to(&call->out);
    json_object_begin(&json);
    json_put_i64(&json, "task", item->task);
    json_put_i64(&json, "status", 200);
    json_object_end(&json);
    call_answer(call, 200);
}

static void task_finish(struct call *call)
{
    call_submit(call, task_finished);
}

static void finish_prove(struct call *call)
{
    artifacts_prove(call, call->command.in.finish.items, 1, task_finish);
}

static void finish_begin(struct call *call)
{
    int64_t task;
    struct finish_item *item = ARENA_NEW(&call->arena, struct finish_item);
    if (!call_task_of_executor(call, &task) || !call_json(call))
        return;
    bool good = finish_read(&call->api->fence_key, &call->arena, call->body, (struct str){ 0 }, task, item, &call->err);
    bool stray = good && item->fence.grant == 0; /* of no grant: there is no such task, or it is stale */
    if (stray && call_moves(call, finish_begin))
        return;
    if (!good || (stray && !grant_check(call, item->fence))) {
        call_problem(call);
        return;
    }
    call->command.kind = CMD_FINISH;
    call->command.in.finish.items = item;
    call->command.in.finish.n_items = 1;
    call_home(call, finish_prove);
}

/* Of a task that is named by its id, of the tenant `default`, nothing is read. */
void serve_tasks_finish(struct call *call)
{
    int64_t id;
    if (str_to_i64(call->arg, &id) && str_eqz(call->actor.tenant, TENANT_DEFAULT))
        finish_begin(call);
    else
        call_beside(call, finish_begin);
}

static void finishes_done(struct call *call)
{
    uploads_ended(call->api, call->command.in.finish.items, call->command.in.finish.n_items);
    struct json json = json_to(&call->out);
    json_object_begin(&json);
    finish_render_results(&json, call->command.in.finish.items, call->command.in.finish.n_items);
    json_object_end(&json);
    call_answer(call, 200);
}

static void finishes_submit(struct call *call)
{
    call_submit(call, finishes_done);
}

void serve_finishes_create(struct call *call)
{
    struct json_reader reader;
    call->command.kind = CMD_FINISH;
    struct finish_item **list = &call->command.in.finish.items;
    size_t *n = &call->command.in.finish.n_items;
    if (finishes_read_quick(&call->api->fence_key, &call->arena, call->request->body, list, n)) {
        call_submit(call, finishes_done);
        return;
    }
    *n = 0;
    if (!call_object(call, &reader))
        return;
    const json_t *items = json_read_any(&reader, "items");
    if (items == NULL)
        err_item(&call->err, ERR_invalid, STR("/items"), "'items' is required");
    else
        finish_read_list(&call->api->fence_key, &call->arena, items, STR("/items"), list, n, &call->err);
    if (call_read_done(call, &reader))
        artifacts_prove(call, call->command.in.finish.items, call->command.in.finish.n_items, finishes_submit);
}
