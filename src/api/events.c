/* events: what happened, as JSON lines or server-sent events, from any seq on, for as long as the client likes.
 *
 * A stream remembers the last seq that it read; it is fed in batches, whenever a turn has been committed or the
 * client has taken what was there, and never holds more than a batch beyond what the client has taken. A batch is read
 * on a read thread where there are any; a wake-up in the meantime counts when the batch is back. Filters: by
 * lane in the store, by task here. One that doesn't follow and can't be read to its end breaks off, so that nobody
 * takes it for all there was. */
#include <string.h>

#include "api/call.h"

enum { BATCH = 500, TASK_EVENTS_MAX = 10000, HEARTBEAT_MS = 10000 };
#define PENDING_MAX (256 * KIB)

struct events_stream {
    struct stream base;   /* first */
    int64_t since, until; /* until: the newest seq when it began; streams that don't follow end there */
    int64_t limit;        /* -1: none */
    int64_t lane;         /* 0: all; -1: one that doesn't exist yet */
    struct str lane_name;
    int64_t task;
    bool sse;
    bool more; /* behind the last batch there may be another one */
    struct arena batch;
    struct loop_timer next; /* it goes on reading in the loop's next round */
    struct list_node node;
};

static void stream_released(struct call *call)
{
    struct events_stream *stream = call->state;
    struct api *api = call->api;
    list_remove(&api->events_followers, &stream->node);
    loop_disarm(api->config.loop, &stream->next);
    if (api->events_followers.n == 0)
        loop_disarm(api->config.loop, &api->heartbeat);
    arena_release(&stream->batch);
    buf_release(&stream->base.out);
}

static void event_add(struct events_stream *stream, const struct event *event)
{
    if (stream->sse)
        buf_addf(&stream->base.out, "id: %lld\ndata: ", (long long)event->seq);
    struct json json = json_to(&stream->base.out);
    render_event(stream->base.call, &json, event);
    buf_add_z(&stream->base.out, stream->sse ? "\n\n" : "\n");
    if (stream->limit > 0)
        stream->limit--;
}

/* event_visible: an event of a lane belongs to the lane's tenant; others to the tenant in their subject (TENANT/NAME),
 * or to the site, whose events `default` sees. */
static bool event_visible(const struct call *call, const struct event *event)
{
    struct str tenant = call->actor.tenant;
    if (event->lane > 0)
        return str_eq(lane_tenant_of(call->api, event->lane), tenant);
    ptrdiff_t cut = str_index(event->subject, '/');
    if (cut >= 0 && str_eq(str_sub(event->subject, 0, (size_t)cut), tenant))
        return true;
    return str_eqz(tenant, TENANT_DEFAULT) && (cut < 0 || call->site);
}

static bool batch_find(struct events_stream *stream)
{
    struct call *call = stream->base.call;
    struct api *api = call->api;
    struct event *events;
    size_t n;
    int64_t last = stream->since;
    if (stream->lane < 0 && !lane_id_of(api, call->actor.tenant, stream->lane_name, &stream->lane, &call->err))
        return false;
    stream->more = false;
    if (stream->lane < 0)
        return true;
    arena_reset(&stream->batch);
    if (!reader_events(
            api->config.reader, &stream->batch, stream->since, stream->lane, BATCH, &events, &n, &last, &call->err))
        return false;
    for (size_t i = 0; i < n && stream->limit != 0; i++) {
        if (!stream->base.follow && events[i].seq > stream->until)
            break;
        if ((stream->task == 0 || events[i].task == stream->task) && event_visible(call, &events[i]))
            event_add(stream, &events[i]);
    }
    stream->more = last > stream->since;
    stream->since = last;
    return true;
}

static bool stream_ended(const struct events_stream *stream)
{
    return stream->limit == 0 || (!stream->base.follow && stream->since >= stream->until);
}

static bool batch_read(struct stream *base)
{
    struct events_stream *stream = CONTAINER_OF(base, struct events_stream, base);
    bool good = batch_find(stream);
    base->over = stream_ended(stream) || (!stream->more && !base->follow);
    base->again = stream->more && base->out.len > 0;
    return good;
}

/* batch_sent: where a batch had nothing for this reader, others have their turn before the next one. */
static void batch_sent(struct stream *base)
{
    struct events_stream *stream = CONTAINER_OF(base, struct events_stream, base);
    struct loop *loop = base->call->api->config.loop;
    if (stream->more && base->out.len == 0)
        loop_arm(loop, &stream->next, loop_now(loop));
}

static void next_due(struct loop_timer *timer)
{
    stream_wake(timer->owner);
}

/* task_history: the events of one task, oldest first, without reading everybody else's. */
static bool task_history(struct events_stream *stream)
{
    struct call *call = stream->base.call;
    struct event *events;
    size_t n;
    if (!reader_task_events(
            call->api->config.reader, &stream->batch, stream->task, TASK_EVENTS_MAX, &events, &n, &call->err))
        return false;
    for (size_t i = n; i > 0 && stream->limit != 0; i--)
        if (events[i - 1].seq > stream->since && events[i - 1].seq <= stream->until)
            event_add(stream, &events[i - 1]);
    stream->since = stream->until;
    return true;
}

static bool lane_read(struct call *call, struct events_stream *stream)
{
    struct str archive = { 0 }, queue = { 0 };
    call_param_str(call, "archive", &archive);
    call_param_str(call, "queue", &queue);
    if (archive.len > 0 && queue.len > 0)
        return err_item(&call->err, ERR_bad_request, STR("queue"), "'archive' and 'queue' exclude each other");
    stream->lane_name = archive.len > 0 ? archive : queue;
    if (stream->lane_name.len == 0)
        return true;
    if (!lane_id_of(call->api, call->actor.tenant, stream->lane_name, &stream->lane, &call->err))
        return false;
    if (stream->lane < 0 && !stream->base.follow)
        return err_set(&call->err, ERR_not_found, "there is no %s '%.*s'", archive.len > 0 ? "archive" : "queue",
            STR_ARG(str_sub(stream->lane_name, 0, 100)));
    return true;
}

static bool since_read(struct call *call, struct events_stream *stream)
{
    struct str last = call_header(call, "Last-Event-ID");
    if (!call_param_i64(call, "since", 0, INT64_MAX, &stream->since))
        return false;
    if (last.len > 0 && stream->sse && (!str_to_i64(last, &stream->since) || stream->since < 0))
        return err_item(
            &call->err, ERR_bad_request, STR("Last-Event-ID"), "the header Last-Event-ID must be the seq of an event");
    return true;
}

/* task_read: `task` by id or key; the call was answered when it returns false with no code set. */
static bool task_read(struct call *call, struct events_stream *stream, bool *out_answered)
{
    struct str text;
    struct task_view view;
    if (!call_param_str(call, "task", &text))
        return true;
    call->arg = text;
    *out_answered = !call_task_view(call, &view);
    if (*out_answered)
        return false;
    stream->task = view.task.id;
    stream->lane = view.task.lane;
    return true;
}

static bool stream_open(struct call *call)
{
    struct api *api = call->api;
    struct events_stream *stream = call->state;
    if (!stream_begin(&stream->base, 200, stream->sse ? "text/event-stream" : "application/x-ndjson"))
        return true; /* a HEAD: that was all */
    if (stream_ended(stream)) {
        call_stream_end(call);
        return true;
    }
    if (stream->base.follow) {
        if (api->events_followers.n == 0)
            loop_arm(api->config.loop, &api->heartbeat, loop_now(api->config.loop) + HEARTBEAT_MS);
        list_append(&api->events_followers, &stream->node);
    }
    stream_wake(&stream->base);
    return true;
}

bool serve_events_get(struct call *call)
{
    struct events_stream *stream = ARENA_NEW(&call->arena, struct events_stream);
    struct str accept = call_header(call, "Accept");
    bool answered = false;
    stream->base = (struct stream){ .call = call, .read = batch_read, .sent = batch_sent, .pending_max = PENDING_MAX };
    stream->next = (struct loop_timer){ .due = next_due, .owner = &stream->base };
    stream->limit = -1;
    stream->sse = accept.len > 0 && memmem(accept.ptr, accept.len, "text/event-stream", 17) != NULL;
    call_param_flag(call, "follow", &stream->base.follow);
    call_param_i64(call, "limit", 1, INT64_MAX, &stream->limit);
    bool good = since_read(call, stream) && lane_read(call, stream) && task_read(call, stream, &answered) &&
                call->err.code == ERR_none;
    if (answered)
        return false;
    struct store_head head = { 0 };
    if (good)
        good = reader_head(call->api->config.reader, &head, &call->err);
    stream->until = head.seq;
    buf_init(&stream->base.out, 64 * MIB);
    call->state = stream;
    call->on_release = stream_released;
    if (good && stream->task > 0)
        good = task_history(stream);
    if (!good)
        return call_problem(call);
    return call_on_loop(call, stream_open);
}

void events_wake(struct api *api)
{
    for (struct list_node *node = api->events_followers.first, *next; node != NULL; node = next) {
        next = node->next;
        stream_wake(&CONTAINER_OF(node, struct events_stream, node)->base);
    }
}

/* A comment now and then keeps proxies from closing the line, and finds out about clients that are gone. */
void events_heartbeat_due(struct loop_timer *timer)
{
    struct api *api = timer->owner;
    loop_arm(api->config.loop, &api->heartbeat, loop_now(api->config.loop) + HEARTBEAT_MS);
    for (struct list_node *node = api->events_followers.first, *next; node != NULL; node = next) {
        struct events_stream *stream = CONTAINER_OF(node, struct events_stream, node);
        next = node->next;
        if (stream->sse && stream->base.call->on_thread == NULL && http_stream_pending(stream->base.call->request) == 0)
            http_stream_add(stream->base.call->request, STR(":\n\n"));
    }
}
