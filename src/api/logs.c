/* logs: the output of attempts: appended by executors at offsets, read by people, followed while it grows.
 *
 * A chunk is checked against the task's newest grant, then stored byte-exactly by store/logs. A reader sees the stored
 * bytes and, behind them, the last bytes that came with the finish. A follower is woken by new chunks and by commits,
 * and ends when the attempt has ended and all is sent.
 *
 * Pieces are read on read threads where there are any. One that can't be read breaks a stream off, unless
 * it follows: its client then asks again from where it stood.
 *
 * Bytes that an ended attempt wrote and nobody has (a worker that didn't send them, a disk that lost them) are never
 * passed over in silence: a request for such bytes gets a problem, a request for bytes before them gets exactly those,
 * and a header with the number that is missing. */
#include <stdio.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"

#define PIECE_BYTES (64 * KIB)
#define PENDING_MAX (256 * KIB)
enum { SHARED_CHECK_MS = 250 };

struct log_stream {
    struct stream base;  /* first */
    int64_t task, grant; /* grant 0: follows a task that has no attempt yet */
    int64_t offset;
    int64_t wrote; /* bytes of an ended attempt, as its finish says; -1: not known */
    bool ended;
    int64_t missing;      /* bytes that nobody has */
    struct log_tail tail; /* bytes of the finish, in the call's arena */
    bool tail_known;
    struct list_node node;
};

struct log_appended {
    int64_t task;
    struct log_position position;
};

/* owner_check: a grant is its executor's, and that is its token's; `admin` speaks for all of the tenant's
 * (call_task_of_executor). */
static bool owner_check(struct call *call, struct fence fence)
{
    int64_t owner = -1;
    bool found = false;
    if (call->scopes & SCOPE_ADMIN)
        return true;
    if (!reader_grant_owner(call->api->config.reader, fence.task, fence.grant, &owner, &found, &call->err))
        return false;
    if (found && owner >= 0 && owner != call->token)
        return err_set(
            &call->err, ERR_forbidden, "task %lld was granted to an executor of another token", (long long)fence.task);
    return true;
}

static bool grant_state(struct call *call, struct fence fence, enum task_state *out_state)
{
    int64_t newest;
    bool found;
    struct store_head head;
    if (!reader_grant(call->api->config.reader, fence.task, &newest, out_state, &found, &call->err))
        return false;
    if (!found)
        return err_set(&call->err, ERR_not_found, "there is no task %lld", (long long)fence.task);
    if (fence.incarnation != call->api->incarnation) {
        if (!reader_head(call->api->config.reader, &head, &call->err))
            return false;
        call->api->incarnation = head.incarnation;
    }
    if (fence.incarnation != call->api->incarnation || fence.grant != newest)
        return err_set(&call->err, ERR_stale_fence, "%s", err_title(ERR_stale_fence));
    return owner_check(call, fence);
}

/* grant_check: only the newest grant counts, and only from the executor that has it. */
bool grant_check(struct call *call, struct fence fence)
{
    enum task_state ignored;
    return grant_state(call, fence, &ignored);
}

bool fence_param(struct call *call, int64_t task, struct fence *out)
{
    struct str text = { 0 };
    if (!call_param_str(call, "fence", &text))
        return err_item(&call->err, ERR_bad_request, STR("fence"), "the query parameter 'fence' is required");
    if (!fence_open(&call->api->fence_key, text, out) || out->task != task)
        *out = (struct fence){ .task = task }; /* never given out for this task: as stale as an old one */
    return true;
}

static bool log_appended(struct call *call)
{
    struct api *api = call->api;
    const struct log_appended *appended = call->state;
    const struct log_position *position = &appended->position;
    struct json out = json_to(&call->out), *json = &out;
    ANSWER_WRITE(ANSWER_LogPosition);
    int64_t task = appended->task;
    call_answer(call, 200);
    logs_wake_followers(api, task);
    return true;
}

/* runs_still: an attempt that is given up between the look before an append and the append may be counted without these
 * bytes, so it is looked at once more. Not on a shared store: there the log store looks, when it has stored them. */
static bool runs_still(struct call *call, int64_t task, enum task_state before)
{
    enum task_state state = before;
    int64_t newest;
    bool found;
    struct err ignored = { 0 };
    if (before == STATE_X && !reader_is_shared(call->api->config.reader))
        (void)reader_grant(call->api->config.reader, task, &newest, &state, &found, &ignored);
    return state == STATE_X;
}

bool serve_logs_post(struct call *call)
{
    int64_t offset = -1;
    struct fence fence;
    struct log_appended *appended = ARENA_NEW(&call->arena, struct log_appended);
    if (!call_task_of_executor(call, &appended->task))
        return false;
    bool good = fence_param(call, appended->task, &fence) && call_param_i64(call, "offset", 0, INT64_MAX, &offset);
    if (good && offset < 0)
        good = err_item(&call->err, ERR_bad_request, STR("offset"), "the query parameter 'offset' is required");
    enum task_state state = STATE_NONE;
    if (!good || !grant_state(call, fence, &state) ||
        !logs_append(call->api->config.logs, appended->task, fence.grant, offset, call->request->body,
            &appended->position, &call->err))
        return call_problem(call);
    call->state = appended;
    if (runs_still(call, appended->task, state))
        return call_on_loop(call, log_appended);
    call->command.kind = CMD_LOG_GROWN; /* it may never report an end, at which its bytes would be counted */
    call->command.in.log.task = appended->task;
    call->command.in.log.grant = fence.grant;
    call->command.in.log.bytes = appended->position.stored;
    return call_submit(call, log_appended);
}

static void stream_released(struct call *call)
{
    struct log_stream *stream = call->state;
    list_remove(&call->api->log_followers, &stream->node);
    buf_release(&stream->base.out);
}

/* attempt_find: the attempt asked for; a grant of 0 means that there is none yet. */
static bool attempt_find(struct call *call, const struct task_view *view, int64_t number, struct log_stream *stream)
{
    const struct attempt *found = NULL;
    for (size_t i = 0; i < view->n_attempts; i++)
        if (number == 0 ? found == NULL || view->attempts[i].grant > found->grant : view->attempts[i].number == number)
            found = &view->attempts[i];
    if (found == NULL && number > 0)
        return err_set(&call->err, ERR_not_found, "the task has no attempt %lld", (long long)number);
    stream->grant = found != NULL ? found->grant : 0;
    stream->wrote = found != NULL && found->finished > 0 ? found->log_bytes : -1;
    stream->ended =
        found != NULL ? found->finished > 0 || found->grant < view->task.grant : state_ended(view->task.state);
    return true;
}

/* view_refresh: what the task's attempts say now. */
static bool view_refresh(struct log_stream *stream, struct arena *arena)
{
    struct call *call = stream->base.call;
    struct task_view view;
    bool found;
    if (!reader_task(call->api->config.reader, arena, stream->task, &view, &found, &call->err))
        return false;
    if (found && stream->grant == 0)
        return attempt_find(call, &view, 0, stream);
    stream->ended = true;
    for (size_t i = 0; found && i < view.n_attempts; i++)
        if (view.attempts[i].grant == stream->grant)
            stream->ended = view.attempts[i].finished > 0 || stream->grant < view.task.grant;
    return true;
}

/* state_refresh: has the attempt ended, or one begun? The usual answer, neither, costs one short read. */
static bool state_refresh(struct log_stream *stream)
{
    struct call *call = stream->base.call;
    bool found;
    int64_t newest;
    enum task_state state;
    if (!reader_grant(call->api->config.reader, stream->task, &newest, &state, &found, &call->err))
        return false;
    if (found && newest == stream->grant && (state == STATE_X || (newest == 0 && !state_ended(state))))
        return true;
    struct arena arena = { 0 };
    bool good = view_refresh(stream, &arena);
    arena_release(&arena);
    return good;
}

/* tail_add: what the finish carried beyond what was stored. */
static bool tail_add(struct log_stream *stream, int64_t stored)
{
    struct call *call = stream->base.call;
    if (!stream->tail_known && !reader_log_tail(call->api->config.reader, &call->arena, stream->task, stream->grant,
                                   &stream->tail, &stream->tail_known, &call->err))
        return false;
    if (!stream->tail_known || stream->offset < stored)
        return true;
    int64_t end = stream->tail.offset + (int64_t)stream->tail.bytes.len;
    if (stream->offset >= stream->tail.offset && stream->offset < end)
        buf_add_str(&stream->base.out,
            str_sub(stream->tail.bytes, (size_t)(stream->offset - stream->tail.offset), stream->tail.bytes.len));
    return true;
}

/* piece_read: the next bytes into stream->base.out; nothing: all that is there was read. */
static bool piece_read(struct log_stream *stream)
{
    struct call *call = stream->base.call;
    struct logs *logs = call->api->config.logs;
    int64_t stored = 0;
    buf_reset(&stream->base.out);
    if (stream->grant == 0)
        return true;
    if (!logs_size(logs, stream->task, stream->grant, &stored, &call->err))
        return false;
    if (stream->offset < stored) {
        if (!logs_read(logs, stream->task, stream->grant, stream->offset, PIECE_BYTES, &stream->base.out, &call->err))
            return false;
    } else if (stream->ended && !tail_add(stream, stored)) {
        return false;
    }
    stream->offset += (int64_t)stream->base.out.len;
    return true;
}

/* step_read: the next piece; where there is none, what has become of the attempt. */
static bool step_read(struct stream *base)
{
    struct log_stream *stream = CONTAINER_OF(base, struct log_stream, base);
    int64_t grant = stream->grant;
    base->again = piece_read(stream);
    if (!base->again || base->out.len > 0)
        return base->again;
    base->over = !base->follow || stream->ended;
    bool good = base->over || state_refresh(stream);
    /* it has ended or begun meanwhile: there may be bytes from then */
    base->again = stream->ended || stream->grant != grant;
    return good;
}

static bool total_bytes(struct log_stream *stream, int64_t *out)
{
    struct call *call = stream->base.call;
    *out = 0;
    if (stream->grant == 0)
        return true;
    if (!logs_size(call->api->config.logs, stream->task, stream->grant, out, &call->err) ||
        !reader_log_tail(call->api->config.reader, &call->arena, stream->task, stream->grant, &stream->tail,
            &stream->tail_known, &call->err))
        return false;
    int64_t end =
        stream->tail_known && stream->tail.offset <= *out ? stream->tail.offset + (int64_t)stream->tail.bytes.len : 0;
    if (end > *out)
        *out = end;
    return true;
}

/* missing_bytes: how many of the bytes that the attempt wrote nobody has; total: those there are from the beginning on.
 */
static int64_t missing_bytes(const struct log_stream *stream, int64_t total)
{
    int64_t there = total;
    if (stream->tail_known && stream->tail.offset > total)
        there += (int64_t)stream->tail.bytes.len; /* behind the hole */
    return stream->wrote > there ? stream->wrote - there : 0;
}

/* missing_asked: is the first byte asked for one of them? */
static bool missing_asked(const struct log_stream *stream, int64_t total)
{
    int64_t end = stream->tail_known ? stream->tail.offset + (int64_t)stream->tail.bytes.len : 0;
    bool in_tail = stream->tail_known && stream->offset >= stream->tail.offset && stream->offset < end;
    return stream->offset >= total && stream->offset < stream->wrote && !in_tail;
}

/* small_read: a log that fits one piece is answered with its length; false: this one doesn't. */
static bool small_read(struct log_stream *stream, int64_t total)
{
    struct call *call = stream->base.call;
    if (stream->base.follow || total - stream->offset > (int64_t)PIECE_BYTES)
        return false;
    stream->ended = true; /* the tail counts, whether or not somebody still writes */
    while (piece_read(stream) && stream->base.out.len > 0)
        buf_add_str(&call->out, buf_str(&stream->base.out));
    return true;
}

static bool small_answer(struct call *call)
{
    const struct log_stream *stream = call->state;
    struct i64_text count = i64_format(stream->missing);
    const char *const headers[] = { "X-Content-Type-Options", "nosniff",
        stream->missing > 0 ? "Weir-Log-Missing" : NULL, count.z, NULL };
    return call_answer_as(call, 200, "application/octet-stream", buf_str(&call->out), headers);
}

/* check_later: chunks that come to another server of a shared store wake nobody here. */
static void check_later(struct api *api)
{
    if (api->log_followers.n > 0 && api->log_check.node.pos == 0 && reader_is_shared(api->config.reader))
        loop_arm(api->config.loop, &api->log_check, loop_now(api->config.loop) + SHARED_CHECK_MS);
}

static bool stream_open(struct call *call)
{
    struct log_stream *stream = call->state;
    if (stream->missing > 0)
        http_stream_header(call->request, "Weir-Log-Missing", i64_format(stream->missing).z);
    http_stream_header(call->request, "X-Content-Type-Options", "nosniff");
    if (!stream_begin(&stream->base, 200, "application/octet-stream"))
        return true; /* a HEAD: that was all */
    if (stream->base.follow) {
        list_append(&call->api->log_followers, &stream->node);
        check_later(call->api);
    }
    stream_wake(&stream->base);
    return true;
}

bool serve_logs_get(struct call *call)
{
    struct task_view view;
    int64_t attempt = 0, offset = 0, tail = -1, total = 0;
    if (!call_task_view(call, &view))
        return false;
    struct log_stream *stream = ARENA_NEW(&call->arena, struct log_stream);
    stream->base = (struct stream){ .call = call, .read = step_read, .pending_max = PENDING_MAX };
    stream->task = view.task.id;
    call_param_i64(call, "attempt", 1, INT64_MAX, &attempt);
    call_param_i64(call, "offset", 0, INT64_MAX, &offset);
    call_param_i64(call, "tail", 0, INT64_MAX, &tail);
    call_param_flag(call, "follow", &stream->base.follow);
    buf_init(&stream->base.out, 2 * PIECE_BYTES);
    call->state = stream;
    call->on_release = stream_released;
    if (call->err.code != ERR_none || !attempt_find(call, &view, attempt, stream) || !total_bytes(stream, &total))
        return call_problem(call);
    stream->offset = offset;
    if (tail >= 0 && total - tail > offset)
        stream->offset = total - tail;
    if ((view.task.marks & MARK_PRUNED) && total == 0 && stream->wrote > 0)
        return call_refuse(call, ERR_not_found,
            "the log of this task, %lld bytes, is gone: retention let it go; what the task was and how it ended is "
            "kept",
            (long long)stream->wrote);
    stream->missing = missing_bytes(stream, total);
    if (stream->missing > 0 && missing_asked(stream, total))
        return call_refuse(call, ERR_not_found, "%lld of the %lld bytes of this log are missing, from byte %lld on",
            (long long)stream->missing, (long long)stream->wrote, (long long)total);
    bool small = small_read(stream, total);
    /* before the answer begins: it may have to be another one */
    if (call->err.code != ERR_none || (!small && !piece_read(stream)))
        return call_problem(call);
    return call_on_loop(call, small ? small_answer : stream_open);
}

void logs_wake_followers(struct api *api, int64_t task)
{
    for (struct list_node *node = api->log_followers.first, *next; node != NULL; node = next) {
        struct log_stream *stream = CONTAINER_OF(node, struct log_stream, node);
        next = node->next;
        if (task == 0 || stream->task == task)
            stream_wake(&stream->base);
    }
}

void logs_check_due(struct loop_timer *timer)
{
    struct api *api = timer->owner;
    logs_wake_followers(api, 0);
    check_later(api);
}
