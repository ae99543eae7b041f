/* finish: reports of ended attempts, one by one or in bulk, alone or inside a poll.
 *
 * Each item is read by itself: one that can't be read is answered 422 in its place and the others count. Two reports
 * with the same fence are the same when their meaning is (exit, signal, outcome, outputs, revision, length of the log),
 * whatever order or spelling they came in. */
#include <sodium.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "base/when.h"
#include "watch/watch.h"

enum { ITEMS_MAX = 10000, LOG_TAIL_MAX = 16 * 1024, REASON_MAX = 1000, OUTPUTS_MAX = 1000, FENCE_BYTES_MAX = 96 };
enum { REVISION_BYTES_MAX = 100, POSTED_BYTES_MAX = 256 * 1024 };
/* So large that nothing is in the way, and so small that sums over all tasks of a tenant don't overflow. */
#define LOG_BYTES_MAX ((int64_t)1 << 38) /* as store/logs/seek.h: 256 GiB */
#define OUTPUTS_BYTES_MAX (512 * MIB)    /* more than any body becomes */
#define USAGE_MAX ((int64_t)1 << 53)

/* A report being read: its members in the order they came in, each by its row. */
struct finish_read {
    const struct fence_key *key;
    struct arena *arena;
    struct err *err;
    struct str path;
    struct finish_item *out;
    struct str fence;
    bool fenced, fence_good;
    const struct doc_node *artifacts;
};

struct field {
    struct str name; /* NUL-terminated */
    void (*read)(struct finish_read *r, const struct field *field, const struct doc_node *value);
    int64_t min, max; /* of a number, or the bytes of a text */
    size_t member;    /* of struct finish_item: where a number goes */
};

static struct str path_of(struct finish_read *r, const char *name)
{
    return json_pointer_add(r->arena, r->path, str_of(name));
}

static void read_number(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    const char *name = field->name.ptr;
    int64_t n;
    if (!node_is_whole(value, &n))
        err_item(r->err, ERR_invalid, path_of(r, name), "'%s' must be a whole number, not %s", name, json_found(value));
    else if (n < field->min || n > field->max)
        err_item(r->err, ERR_invalid, path_of(r, name), "'%s' must be from %lld to %lld, not %lld", name,
            (long long)field->min, (long long)field->max, (long long)n);
    else
        *(int64_t *)(void *)((char *)r->out + field->member) = n;
}

static bool text_read(struct finish_read *r, const struct field *field, const struct doc_node *value, struct str *out)
{
    const char *name = field->name.ptr;
    struct str text;
    if (!node_is_text(value, &text))
        return err_item(
            r->err, ERR_invalid, path_of(r, name), "'%s' must be a string, not %s", name, json_found(value));
    if (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL)
        return err_item(r->err, ERR_invalid, path_of(r, name), "'%s' must not contain a NUL character", name);
    if (text.len > (size_t)field->max)
        return err_item(
            r->err, ERR_invalid, path_of(r, name), "'%s' is longer than %lld bytes", name, (long long)field->max);
    *out = text;
    return true;
}

static int pair_compare(const void *a, const void *b)
{
    const struct node_pair *x = a, *y = b;
    return str_cmp(x->key->text, y->key->text);
}

/* outputs_text: as text with sorted names, so that the same outputs are the same text. most: bytes of a value. */
static struct str outputs_text(
    struct arena *arena, const struct doc_node *value, struct str path, size_t most, struct err *err)
{
    struct str text;
    struct node_pair *pairs = ARENA_ARRAY(arena, struct node_pair, value->n + 1);
    for (size_t i = 0; i < value->n; i++)
        pairs[i] = value->pairs[i];
    qsort(pairs, value->n, sizeof pairs[0], pair_compare);
    struct buf out;
    buf_init(&out, OUTPUTS_BYTES_MAX);
    struct json json = json_to(&out);
    json_object_begin(&json);
    for (size_t i = 0; i < value->n; i++) {
        struct str name = pairs[i].key->text,
                   at = json_pointer_add(arena, path, str_sub(name, 0, OUTPUT_NAME_BYTES_MAX));
        if (!output_name_is_valid(name))
            err_item(err, ERR_invalid, at, "an output's name must have 1 to %d bytes", OUTPUT_NAME_BYTES_MAX);
        else if (!node_is_text(pairs[i].value, &text) || text.len > most)
            err_item(err, ERR_invalid, at, "an output must be a string of at most %zu bytes", most);
        else {
            json_key_str(&json, name);
            json_str(&json, text);
        }
    }
    json_object_end(&json);
    text = str_dup(arena, buf_str(&out));
    buf_release(&out);
    return text;
}

static void read_outputs(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    struct str path = path_of(r, field->name.ptr);
    if (value->kind != NODE_MAPPING || value->n > OUTPUTS_MAX)
        err_item(r->err, ERR_invalid, path, "'outputs' must be an object of at most %d strings", OUTPUTS_MAX);
    else
        r->out->outputs = outputs_text(r->arena, value, path, OUTPUT_VALUE_BYTES_MAX, r->err);
}

static void read_log(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    struct str text;
    if (!text_read(r, field, value, &text))
        return;
    unsigned char *bytes = arena_alloc(r->arena, text.len + 1);
    size_t n = 0;
    if (sodium_base642bin(bytes, text.len + 1, text.ptr, text.len, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) !=
            0 ||
        n > LOG_TAIL_MAX)
        err_item(r->err, ERR_invalid, path_of(r, "log"), "'log' must be at most %d bytes in base64", LOG_TAIL_MAX);
    else
        r->out->log = (struct str){ (const char *)bytes, n };
}

static void read_outcome(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    struct str text;
    if (!text_read(r, field, value, &text))
        return;
    r->out->outcome = outcome_find(text);
    if (r->out->outcome == OUTCOME_none)
        err_item(r->err, ERR_invalid, path_of(r, "outcome"),
            "'outcome' must be done, skipped, failed, permanent, temporary, timeout, killed, lost or cancelled, not "
            "\"%.*s\"",
            STR_ARG(text));
}

/* read_time: a time of the executor's clock: only its form is checked; the server's clock counts. */
static void read_time(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    struct str text;
    int64_t when;
    if (text_read(r, field, value, &text) && !when_parse(text, &when))
        err_item(r->err, ERR_invalid, path_of(r, field->name.ptr),
            "'%s' must be a time such as \"2026-11-15T05:46:00Z\" (RFC 3339), not \"%.*s\"", field->name.ptr,
            STR_ARG(text));
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
    if (item->revision.len > 0) {
        static const unsigned char mark[] = "\nrevision\n"; /* no outputs have a line feed */
        crypto_generichash_update(&state, mark, sizeof mark);
        crypto_generichash_update(&state, (const unsigned char *)item->revision.ptr, item->revision.len);
    }
    crypto_generichash_final(&state, item->hash, sizeof item->hash);
}

static void read_fence(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    r->fenced = true;
    r->fence_good = text_read(r, field, value, &r->fence);
}

static void read_artifacts(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    (void)field;
    r->artifacts = value;
}

static void read_reason(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    struct str text;
    if (!text_read(r, field, value, &text))
        return;
    if (!reason_good(text))
        err_item(r->err, ERR_invalid, path_of(r, "reason"), "'reason' must not have control characters");
    r->out->reason = str_dup(r->arena, text);
}

/* read_revision: what a change set has become. Of other tasks it says nothing. */
static void read_revision(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    struct str text;
    bool good = text_read(r, field, value, &text);
    for (size_t i = 0; good && i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~')
            good =
                err_item(r->err, ERR_invalid, path_of(r, "revision"), "'revision' must be printable, without blanks");
    if (good)
        r->out->revision = str_dup(r->arena, text);
}

static void field_unknown(struct finish_read *r, struct str name, const struct field *fields, size_t n)
{
    struct str *known = ARENA_ARRAY(r->arena, struct str, n);
    for (size_t i = 0; i < n; i++)
        known[i] = fields[i].name;
    size_t before = r->err->n_items;
    err_item(r->err, ERR_invalid, json_pointer_add(r->arena, r->path, str_sub(name, 0, 200)), "unknown field '%.*s'",
        STR_ARG(str_sub(name, 0, 100)));
    struct str near = str_closest(name, known, n);
    if (near.len > 0 && r->err->n_items > before)
        err_item_last(r->err)->suggestion = str_fmt(r->arena, "did you mean '%.*s'?", STR_ARG(near));
}

static void fields_read(struct finish_read *r, const struct doc_node *object, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < object->n; i++) {
        struct str name = object->pairs[i].key->text;
        const struct doc_node *value = object->pairs[i].value;
        size_t k = 0;
        while (k < n && !str_eq(fields[k].name, name))
            k++;
        if (k == n)
            field_unknown(r, name, fields, n);
        else if (!node_is_null(value))
            fields[k].read(r, &fields[k], value);
    }
}

#define STRING(name) \
    { \
#name, sizeof #name - 1 \
    }
#define NUMBER(name, min, max) \
    { \
        STRING(name), read_number, min, max, offsetof(struct finish_item, name) \
    }
#define TEXT(name, read, max) \
    { \
        STRING(name), read, 0, max, 0 \
    }
#define OTHER(name) \
    { \
        STRING(name), read_##name, 0, 0, 0 \
    }
enum { LOG_TEXT_MAX = sodium_base64_ENCODED_LEN(LOG_TAIL_MAX, sodium_base64_VARIANT_ORIGINAL) };

static const struct field usage_fields[] = { NUMBER(cpu_ms, 0, USAGE_MAX), NUMBER(max_rss_bytes, 0, USAGE_MAX) };

static void read_usage(struct finish_read *r, const struct field *field, const struct doc_node *value)
{
    struct str outside = r->path;
    if (value->kind != NODE_MAPPING) {
        err_item(r->err, ERR_invalid, path_of(r, "usage"), "'usage' must be an object, not %s", json_found(value));
        return;
    }
    r->path = path_of(r, field->name.ptr);
    fields_read(r, value, usage_fields, sizeof usage_fields / sizeof usage_fields[0]);
    r->path = outside;
}

static const struct field finish_fields[] = {
    NUMBER(task, 1, INT64_MAX),
    TEXT(fence, read_fence, FENCE_BYTES_MAX),
    NUMBER(exit, 0, 255),
    OTHER(usage),
    NUMBER(log_bytes, 0, LOG_BYTES_MAX),
    NUMBER(signal, 1, 64),
    TEXT(outcome, read_outcome, 40),
    OTHER(outputs),
    OTHER(artifacts),
    TEXT(reason, read_reason, REASON_MAX),
    TEXT(revision, read_revision, REVISION_BYTES_MAX),
    NUMBER(log_offset, 0, LOG_BYTES_MAX),
    TEXT(log, read_log, LOG_TEXT_MAX),
    TEXT(started, read_time, 64),
    TEXT(finished, read_time, 64),
};

/* fence_settle: which grant the report is about. `task`: the one that the address names; 0: any. */
static void fence_settle(struct finish_read *r, int64_t task)
{
    struct finish_item *out = r->out;
    int64_t given = out->task > 0 ? out->task : task; /* the one that the report names, if it does */
    out->task = given;
    if (!r->fenced)
        err_item(r->err, ERR_invalid, path_of(r, "fence"), "'fence' is required");
    if (!r->fence_good)
        return;
    bool opened = fence_open(r->key, r->fence, &out->fence);
    if (!opened && given == 0)
        given = fence_task(r->fence);
    if (task > 0 && given != task)
        err_item(r->err, ERR_invalid, path_of(r, "task"), "'task' must be %lld here, not %lld", (long long)task,
            (long long)given);
    else if (given > 0 && (!opened || given != out->fence.task))
        /* opaque to who sends it: one that was never given out is as stale as an old one */
        out->fence = (struct fence){ .task = given };
    else if (!opened)
        err_item(r->err, ERR_invalid, path_of(r, "fence"), "'fence' must be the fence of a grant, not \"%.*s\"",
            STR_ARG(r->fence));
}

bool finish_read(const struct fence_key *key, struct arena *arena, const struct doc_node *value, struct str path,
    int64_t task, struct finish_item *out, struct err *err)
{
    struct finish_read r = { .key = key, .arena = arena, .err = err, .path = path, .out = out };
    *out = (struct finish_item){
        .exit = -1, .signal = -1, .cpu_ms = -1, .max_rss_bytes = -1, .log_bytes = -1, .task = task
    };
    out->malformed = true;
    out->code = ERR_invalid;
    if (value->kind != NODE_MAPPING)
        return path.len == 0
                   ? err_item(err, ERR_invalid, path, "the document must be an object, not %s", json_found(value))
                   : err_item(err, ERR_invalid, path, "'%.*s' must be an object, not %s",
                         STR_ARG(str_sub(path, 1, path.len)), json_found(value));
    out->task = 0;
    fields_read(&r, value, finish_fields, sizeof finish_fields / sizeof finish_fields[0]);
    fence_settle(&r, task);
    if (r.artifacts != NULL)
        artifacts_read(r.artifacts, path_of(&r, "artifacts"), arena, err, out);
    if (err->code == ERR_none && out->exit < 0 && out->signal < 0 && out->outcome == OUTCOME_none)
        err_item(err, ERR_invalid, path_of(&r, "exit"), "one of 'exit', 'signal' and 'outcome' is required");
    if (err->code != ERR_none)
        return false;
    meaning_hash(out);
    out->malformed = false;
    out->code = ERR_none;
    out->task = out->fence.task;
    return true;
}

bool finish_read_list(const struct fence_key *key, struct arena *arena, const struct doc_node *list, struct str path,
    struct finish_item **out, size_t *out_n, struct err *err)
{
    size_t n = list->n;
    if (list->kind != NODE_SEQUENCE || n > ITEMS_MAX)
        return err_item(err, ERR_invalid, path, "the finishes must be an array of at most %d items", ITEMS_MAX);
    *out = ARENA_ARRAY(arena, struct finish_item, n);
    *out_n = n;
    for (size_t i = 0; i < n; i++) {
        struct err fault = { .arena = arena };
        finish_read(key, arena, list->items[i], json_pointer_at(arena, path, i), 0, &(*out)[i], &fault);
    }
    return true;
}

RENDERER_SHARED(render_finish, FinishResult, struct json *json, const struct finish_item *item)

void revisions_applied(struct api *api, const struct finish_item *items, size_t n)
{
    for (size_t i = 0; i < n && api->config.watch; i++)
        if (items[i].archive && items[i].code == ERR_none)
            watch_hint(api->config.watch, items[i].archive, &(struct watch_hint){ 0 });
}

static bool task_finished(struct call *call)
{
    const struct finish_item *item = &call->command.in.finish.items[0];
    uploads_ended(call->api, item, 1);
    revisions_applied(call->api, item, 1);
    if (item->code != ERR_none)
        return call_refuse(call, item->code, "%s", err_title(item->code));
    ANSWER_RETURN(200, ANSWER_FinishResult);
}

static bool finishes_done(struct call *call)
{
    const struct finish_item *items = call->command.in.finish.items;
    size_t n = call->command.in.finish.n_items;
    uploads_ended(call->api, items, n);
    revisions_applied(call->api, items, n);
    ANSWER_RETURN(200, ANSWER_FinishResults);
}

/* finish_submit: of one task, which the address names, or of many. */
static bool finish_submit(struct call *call)
{
    return call_submit(call, call->arg.len > 0 ? task_finished : finishes_done);
}

static bool finish_prove(struct call *call)
{
    return artifacts_prove(call, call->command.in.finish.items, call->command.in.finish.n_items, finish_submit);
}

static bool finish_begin(struct call *call)
{
    int64_t task;
    struct finish_item *item = ARENA_NEW(&call->arena, struct finish_item);
    if (!call_task_of_executor(call, &task) || !call_json(call))
        return false;
    bool good = finish_read(&call->api->fence_key, &call->arena, call->body, (struct str){ 0 }, task, item, &call->err);
    bool stray = good && item->fence.grant == 0; /* of no grant: there is no such task, or it is stale */
    if (stray && call_moved(call, finish_begin))
        return true;
    if (!good || (stray && !grant_check(call, item->fence)))
        return call_problem(call);
    call->command.kind = CMD_FINISH;
    call->command.in.finish.items = item;
    call->command.in.finish.n_items = 1;
    return call_on_loop(call, finish_prove);
}

/* Of a task that is named by its id, of the tenant `default`, nothing is read. */
bool serve_tasks_finish(struct call *call)
{
    int64_t id;
    if (str_to_i64(call->arg, &id) && str_eqz(call->actor.tenant, TENANT_DEFAULT))
        return finish_begin(call);
    return call_on_thread(call, finish_begin);
}

bool serve_finishes_create(struct call *call)
{
    struct json_reader reader;
    call->command.kind = CMD_FINISH;
    struct finish_item **list = &call->command.in.finish.items;
    size_t *n = &call->command.in.finish.n_items;
    if (!call_object(call, &reader))
        return false;
    if (json_read_need(&reader, "items", ""))
        finish_read_list(
            &call->api->fence_key, &call->arena, json_read_any(&reader, "items"), STR("/items"), list, n, &call->err);
    return call_read_done(call, &reader) && finish_prove(call);
}

static bool outputs_done(struct call *call)
{
    ANSWER_RETURN(200, ANSWER_OutputsKept);
}

static bool outputs_begin(struct call *call)
{
    int64_t task;
    struct fence fence;
    if (!call_task_of_executor(call, &task) || !call_json(call))
        return false;
    bool good = fence_param(call, task, &fence);
    if (good && (call->body->kind != NODE_MAPPING || call->body->n > OUTPUTS_MAX))
        good = err_item(&call->err, ERR_invalid, (struct str){ 0 },
            "the document must be an object of at most %d strings", OUTPUTS_MAX);
    if (good)
        call->command.in.outputs.text =
            outputs_text(&call->arena, call->body, (struct str){ 0 }, POSTED_BYTES_MAX, &call->err);
    if (!good || call->err.code != ERR_none)
        return call_problem(call);
    call->command.kind = CMD_OUTPUTS;
    call->command.in.outputs.fence = fence;
    call->command.in.outputs.own = call->job == task;
    return call_submit(call, outputs_done);
}

/* serve_tasks_outputs: of a running attempt. */
bool serve_tasks_outputs(struct call *call)
{
    int64_t id;
    if (str_to_i64(call->arg, &id) && str_eqz(call->actor.tenant, TENANT_DEFAULT))
        return outputs_begin(call);
    return call_on_thread(call, outputs_begin);
}
