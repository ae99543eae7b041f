/* polls: the long poll with which an executor claims work, renews leases, reports ends and gets cancels.
 *
 * A poll is parsed here and parked in the engine; its answer is rendered when there is work or a cancel, or when its
 * time is over. Open polls are counted by executor, so that /v1/nodes notices a dead executor before its lease expires.
 */
#include "api/answer.h"
#include "api/call.h"

enum { AHEAD_MAX = 16, FREE_MAX = 100000, RENEW_MAX = 100000, TEXT_MAX = 200, POLLS_FEW = 64 };

/* Renewals whose fence was never given out for their task. Executors can't look into a fence, so these are refused as
 * stale ones are: each comes back among the cancels with the text it was sent with, and the others are renewed. */
struct stray_renewal {
    int64_t task;
    struct str fence;
};
struct stray_renewals {
    struct stray_renewal *items;
    size_t n, cap;
};

/* polls_sweep: forgets executors that have gone (engine/expiry.c), each time that twice as many are kept as the last
 * sweep left. */
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

struct executor_poll *executor_poll_of(struct api *api, int64_t executor)
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
        return; /* the engine hasn't confirmed that there is such an executor */
    if (poll->open > 0)
        poll->open--;
    poll->last_ms = loop_now(call->api->config.loop);
}

/* poll_left: the client has gone, so nothing must be granted to this poll. */
static void poll_left(struct call *call)
{
    atomic_store(&call->command.gone, true);
    poll_closed(call);
}

RENDERER(cancel_render, CancelOrder, struct json *json, int64_t task, struct str fence, const char *signal,
    int64_t stop_ms, bool stale)

static void cancels_render(struct call *call, struct json *json)
{
    const struct command *command = &call->command;
    const struct stray_renewals *strays = call->state;
    json_array_begin(json);
    for (size_t i = 0; i < command->out.poll.n_cancels; i++) {
        const struct cancel_order *cancel = &command->out.poll.cancels[i];
        cancel_render(json, cancel->fence.task, str_of(fence_seal(&call->api->fence_key, cancel->fence).z),
            cancel->signal, cancel->stop_ms, cancel->stale);
    }
    for (size_t i = 0; strays != NULL && i < strays->n; i++)
        cancel_render(json, strays->items[i].task, strays->items[i].fence, "KILL", 0, true);
    json_array_end(json);
}

static bool poll_answered(struct call *call)
{
    const struct command *command = &call->command;
    uploads_ended(call->api, command->in.poll.finishes, command->in.poll.n_finishes);
    revisions_applied(call->api, command->in.poll.finishes, command->in.poll.n_finishes);
    if (map_find(&call->api->polls, (uint64_t)command->in.poll.executor) == NULL)
        poll_opened(call, executor_poll_of(call->api, command->in.poll.executor)); /* there is such an executor */
    ANSWER_RETURN(200, ANSWER_PollAnswer);
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
        bool given = json_read_need(&item, "fence", "") && json_read_str(&item, "fence", TEXT_MAX, &text);
        if (given && fence_open(&call->api->fence_key, text, fence) && (task == 0 || task == fence->task))
            command->in.poll.n_renew++;
        else if (given && (task > 0 || (task = fence_task(text)) > 0))
            *ARENA_PUSH(&call->arena, strays->items, strays->n, strays->cap) =
                (struct stray_renewal){ task, str_dup(&call->arena, text) };
        else if (given)
            err_item(&call->err, ERR_invalid, json_read_path(&item, "fence"),
                "'fence' is no grant's, and no 'task' is named");
        json_read_end(&item);
    }
}

/* seen_read: the newest event that an answer named to this executor. What this site hasn't signed (also a bare number,
 * which older executors send) is ignored: else any executor could make every fence of the site stale. */
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

static bool poll_submit(struct call *call)
{
    /* else when the engine has answered */
    poll_opened(call, map_find(&call->api->polls, (uint64_t)call->command.in.poll.executor));
    auth_stream_began(call);
    call->on_gone = poll_left;
    call->on_release = poll_closed;
    return call_submit(call, poll_answered);
}

static bool poll_begin(struct call *call)
{
    struct json_reader reader;
    struct command *command = &call->command;
    int64_t wait_max = call->api->config.lease_ms / 3;
    if (!call_object_or_nothing(call, &reader))
        return false;
    call->state = NULL;
    command->in.poll.seq = -1;
    json_read_i64(&reader, "free", 0, FREE_MAX, &command->in.poll.free);
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
        return false;
    const struct stray_renewals *strays = call->state;
    if (command->in.poll.wait_ms > wait_max)
        command->in.poll.wait_ms = wait_max;
    if (strays != NULL && strays->n > 0)
        command->in.poll.wait_ms = 0; /* a refused renewal is answered at once */
    command->kind = CMD_POLL;
    return artifacts_prove(call, command->in.poll.finishes, command->in.poll.n_finishes, poll_submit);
}

static bool poll_named(struct call *call)
{
    const struct executor *executor = executor_find(call);
    if (executor == NULL)
        return false;
    call->command.in.poll.executor = executor->id;
    return call_on_loop(call, poll_begin);
}

/* Nothing is read when the path has its id. */
bool serve_executors_poll(struct call *call)
{
    int64_t id;
    if (str_to_i64(call->arg, &id) && id > 0) {
        call->command.in.poll.executor = id;
        return poll_begin(call);
    }
    return call_on_thread(call, poll_named);
}
