/* Messages of executors: bodies of polls, registrations and finishes, as the server reads them. What is accepted,
 * written again from what was understood, is understood the same; a finish's hash is a function of its meaning alone;
 * what is refused names a field.
 *
 * The handlers are the real ones; what they hand over to (the engine, the answer) is caught here by the linker's
 * --wrap. */
#include "api/call.h"
#include "exec/base64.h"
#include "fuzz.h"

#define SHAPES(X) \
    X(poll) X(poll_renew) X(poll_finish) X(registered) X(labels) X(finish) X(finish_malformed) X(finish_log) \
    X(refused) X(not_json)
FUZZ_SHAPES(SHAPES)

static struct str body;
static bool submitted;

void __wrap_call_submit(struct call *call, void (*done)(struct call *call));
void __wrap_call_problem(struct call *call);
bool __wrap_call_idempotency(struct call *call);
bool __wrap_call_object(struct call *call, struct json_reader *out);
bool __wrap_call_object_or_nothing(struct call *call, struct json_reader *out);
bool __wrap_call_read_done(struct call *call, struct json_reader *reader);
int64_t __wrap_loop_now(const struct loop *loop);
void __wrap_register_soon(struct api *told);
bool __wrap_fence_open(const struct fence_key *key, struct str text, struct fence *out);

void __wrap_call_submit(struct call *call, void (*done)(struct call *call))
{
    (void)call;
    (void)done;
    submitted = true;
}

void __wrap_call_problem(struct call *call)
{
    HOLDS(call->err.code != ERR_none && call->err.text[0]);
}

bool __wrap_call_idempotency(struct call *call)
{
    (void)call;
    return true;
}

bool __wrap_call_object(struct call *call, struct json_reader *out)
{
    call->text = body;
    call->body = json_read_body(body, &call->arena, &call->err);
    SEEN_IF(not_json, !call->body);
    return call->body && json_read_object(out, call->body, (struct str){ 0 }, &call->arena, &call->err);
}

bool __wrap_call_object_or_nothing(struct call *call, struct json_reader *out)
{
    return __wrap_call_object(call, out);
}

bool __wrap_call_read_done(struct call *call, struct json_reader *reader)
{
    json_read_end(reader);
    return call->err.code == ERR_none;
}

int64_t __wrap_loop_now(const struct loop *loop)
{
    (void)loop;
    return 1;
}

void __wrap_register_soon(struct api *told) /* there is no engine, and nobody to tell of who polls */
{
    (void)told;
}

/* chance won't find a tag (test_fence.c) */
bool __wrap_fence_open(const struct fence_key *key, struct str text, struct fence *out)
{
    (void)key;
    return fence_parse(text, out);
}

static struct api api = { .config = { .lease_ms = 15000 } };

/* serve: the body given to a handler; false: it was refused, and every fault has a place and a text. */
static bool serve(struct call *call, handler_fn *handler, struct str text)
{
    static struct http_request request;
    request.body = text;
    *call = (struct call){ .api = &api, .arg = STR("7"), .request = &request };
    call->err.arena = &call->arena;
    body = text;
    submitted = false;
    handler(call);
    HOLDS(submitted == (call->err.code == ERR_none));
    for (size_t i = 0; i < call->err.n_items; i++) {
        const struct err_item *item = &call->err.items[i];
        HOLDS(item->message.len > 0 &&
              (call->err.code == ERR_bad_json || item->path.len == 0 || item->path.ptr[0] == '/'));
    }
    SEEN_IF(refused, !submitted && call->body);
    return submitted;
}

static void call_drop(struct call *call)
{
    arena_release(&call->arena);
}

static void finish_write(struct json *json, const struct finish_item *item)
{
    json_object_begin(json);
    if (item->malformed) {
        json_object_end(json);
        return;
    }
    json_put_i64(json, "task", item->task); /* with it, a fence that nobody was given is read too, as a stale one */
    if (item->fence.grant > 0)
        json_put_z(json, "fence", fence_format(item->fence).z);
    else
        json_put_z(json, "fence", "nobody's");
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = { { "exit", item->exit }, { "signal", item->signal }, { "log_bytes", item->log_bytes } };
    for (size_t i = 0; i < 3; i++)
        if (numbers[i].value >= 0)
            json_put_i64(json, numbers[i].name, numbers[i].value);
    if (item->outcome != OUTCOME_none)
        json_put_z(json, "outcome", outcome_name(item->outcome));
    if (item->revision.len > 0)
        json_put_str(json, "revision", item->revision);
    if (item->outputs.len > 0) {
        json_key(json, "outputs");
        json_raw(json, item->outputs);
    }
    if (item->log.len > 0) {
        struct buf text;
        buf_init(&text, 1 << 16);
        base64_add(&text, item->log);
        json_put_i64(json, "log_offset", item->log_offset);
        json_put_str(json, "log", buf_str(&text));
        buf_release(&text);
    }
    json_object_end(json);
}

static void finishes_same(const struct finish_item *a, const struct finish_item *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        HOLDS(a[i].malformed == b[i].malformed);
        SEEN_IF(finish_malformed, a[i].malformed);
        SEEN_IF(finish, !a[i].malformed);
        SEEN_IF(finish_log, a[i].log.len > 0);
        HOLDS(a[i].malformed == (a[i].code != ERR_none));
        if (a[i].malformed)
            continue;
        HOLDS(memcmp(a[i].hash, b[i].hash, sizeof a[i].hash) == 0);
        HOLDS(memcmp(&a[i].fence, &b[i].fence, sizeof a[i].fence) == 0 && a[i].fence.task > 0);
        HOLDS(a[i].fence.grant > 0 || a[i].fence.incarnation == 0);
        HOLDS(a[i].task == a[i].fence.task && str_eq(a[i].log, b[i].log) && str_eq(a[i].outputs, b[i].outputs));
        HOLDS(str_eq(a[i].revision, b[i].revision));
    }
}

static void finishes_write(struct json *json, const char *key, const struct finish_item *items, size_t n)
{
    json_key(json, key);
    json_array_begin(json);
    for (size_t i = 0; i < n; i++)
        finish_write(json, &items[i]);
    json_array_end(json);
}

static void as_poll(struct str text)
{
    struct call call, again;
    struct buf out;
    buf_init(&out, 1 << 24);
    if (serve(&call, serve_executors_poll, text)) {
        const struct command *in = &call.command;
        HOLDS(in->in.poll.executor == 7 && in->in.poll.wait_ms <= 5000 && in->in.poll.seq >= -1);
        struct json json = json_to(&out);
        json_object_begin(&json);
        json_put_i64(&json, "free", in->in.poll.free);
        json_put_i64(&json, "wait_ms", in->in.poll.wait_ms);
        json_put_i64(&json, "seen", in->in.poll.seen_seq);
        if (in->in.poll.seq >= 0)
            json_put_i64(&json, "seq", in->in.poll.seq);
        json_key(&json, "renew");
        json_array_begin(&json);
        for (size_t i = 0; i < in->in.poll.n_renew; i++) {
            json_object_begin(&json);
            json_put_z(&json, "fence", fence_format(in->in.poll.renew[i].fence).z);
            json_object_end(&json);
        }
        json_array_end(&json);
        finishes_write(&json, "finishes", in->in.poll.finishes, in->in.poll.n_finishes);
        json_object_end(&json);
        HOLDS(serve(&again, serve_executors_poll, buf_str(&out)));
        const struct command *back = &again.command;
        HOLDS(in->in.poll.free == back->in.poll.free && in->in.poll.seq == back->in.poll.seq &&
              in->in.poll.wait_ms == back->in.poll.wait_ms);
        HOLDS(in->in.poll.seen_seq == back->in.poll.seen_seq && in->in.poll.n_renew == back->in.poll.n_renew);
        HOLDS(in->in.poll.n_finishes == back->in.poll.n_finishes);
        HOLDS(in->in.poll.n_renew == 0 ||
              memcmp(in->in.poll.renew, back->in.poll.renew, in->in.poll.n_renew * sizeof in->in.poll.renew[0]) == 0);
        finishes_same(in->in.poll.finishes, back->in.poll.finishes, in->in.poll.n_finishes);
        SEEN(poll);
        SEEN_IF(poll_renew, in->in.poll.n_renew > 0);
        SEEN_IF(poll_finish, in->in.poll.n_finishes > 0);
        call_drop(&again);
    }
    call_drop(&call);
    buf_release(&out);
}

static void as_finishes(struct str text)
{
    struct call call, again;
    struct buf out;
    buf_init(&out, 1 << 24);
    if (serve(&call, serve_finishes_create, text)) {
        const struct command *in = &call.command;
        struct json json = json_to(&out);
        json_object_begin(&json);
        finishes_write(&json, "items", in->in.finish.items, in->in.finish.n_items);
        json_object_end(&json);
        HOLDS(serve(&again, serve_finishes_create, buf_str(&out)) &&
              in->in.finish.n_items == again.command.in.finish.n_items);
        finishes_same(in->in.finish.items, again.command.in.finish.items, in->in.finish.n_items);
        call_drop(&again);
    }
    call_drop(&call);
    buf_release(&out);
}

static void as_registration(struct str text)
{
    struct call call;
    if (serve(&call, serve_executors_create, text)) {
        const struct executor *executor = &call.command.in.reg.executor;
        HOLDS(name_is_valid(executor->name) && !name_is_reserved(executor->name) && executor->slots >= 0);
        HOLDS(executor->zone.len == 0 || name_is_valid(executor->zone));
        for (size_t i = 0; i < executor->n_labels; i++) {
            HOLDS(name_is_valid(executor->labels[i].name));
            HOLDS(i == 0 || str_cmp(executor->labels[i - 1].name, executor->labels[i].name) < 0);
        }
        SEEN(registered);
        SEEN_IF(labels, executor->n_labels > 1);
    }
    call_drop(&call);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len };
    as_poll(text);
    as_finishes(text);
    as_registration(text);
    return 0;
}
