/* report: sends logs by offset while they grow, and the end of a job as an item of the next poll.
 *
 * Promises: at most one log request of a job is under way; bytes stay in the log file until the server reports them
 * durable; an end is sent only when the server has stored all log bytes before its inline part. An unreachable server
 * is retried with growing pauses; when the server refuses (a newer grant exists, no such task) the job is dropped. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/when.h"
#include "exec/agent/agent.h"
#include "exec/base64.h"
#include "exec/output.h"
#include "io/fsx.h"
#include "io/log.h"

enum {
    INLINE_MAX = 16 << 10,
    CHUNK_MAX = 256 << 10,
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 2000,
    POST_TIMEOUT_MS = 15000,
    SETTLE_MS = 30,
    REVISION_MAX = 100,
    REASON_BYTES_MAX = 900
};

static void report_post(struct shim_handle *handle, int64_t offset, int64_t bytes);

int64_t report_backoff(unsigned tries)
{
    int64_t ms = RETRY_MIN_MS << (tries < 6 ? tries : 6);
    return ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
}

static void report_due(struct loop_timer *timer)
{
    report_log(timer->owner);
}

void report_later(struct shim_handle *handle, int64_t ms)
{
    handle->retry.due = report_due;
    handle->retry.owner = handle;
    loop_arm(handle->agent->loop, &handle->retry, loop_now(handle->agent->loop) + ms);
}

void report_forget(struct shim_handle *handle)
{
    if (handle->post)
        client_cancel(handle->post_client, handle->post);
    handle->post = NULL;
    if (handle->agent->loop)
        loop_disarm(handle->agent->loop, &handle->retry);
}

int64_t report_before_end(const struct shim_handle *handle)
{
    return handle->inline_from >= 0 ? handle->inline_from : handle->log_bytes;
}

void report_doubt(struct shim_handle *handle)
{
    if (handle->stored > handle->durable)
        handle->stored = handle->durable;
}

/* report_settle: the server has the end; its log must still become durable there. */
static void report_settle(struct shim_handle *handle)
{
    if (handle->log_dead || handle->durable >= handle->settle_bytes)
        shim_handle_release(handle);
    else if (handle->stored < handle->settle_bytes)
        report_post(handle, handle->stored, handle->settle_bytes - handle->stored);
    else
        report_post(handle, 0, 1); /* sends a byte again: the answer says how many are durable */
}

void report_log(struct shim_handle *handle)
{
    if (handle->post || handle->retry.node.pos > 0 || !handle->agent->registered)
        return;
    if (handle->state == HANDLE_SETTLING) {
        report_settle(handle);
        return;
    }
    int64_t fresh = handle->log_bytes - handle->stored;
    if ((handle->state != HANDLE_RUNNING && handle->state != HANDLE_ENDED) || handle->told)
        return;
    if (!handle->log_dead && fresh > 0 && handle->probe)
        report_post(handle, 0, 1);
    else if (!handle->log_dead && fresh > 0 && (handle->state == HANDLE_RUNNING || fresh > INLINE_MAX))
        report_post(handle, handle->stored, fresh);
    else if (!send_done(handle))
        send_next(handle);
}

/* --- answers to log requests --- */

static void log_dead(struct shim_handle *handle, const struct err *err)
{
    log_warn("log.refused", "task=%lld code=%s detail=%s", (long long)handle->task, err_name(err->code),
        log_quote(str_of(err->text)).z);
    handle->log_dead = true;
}

static void log_stored(struct shim_handle *handle, const struct client_response *response)
{
    struct err err = { .code = ERR_none };
    json_t *answer = json_loadb(response->body.ptr ? response->body.ptr : "", response->body.len, 0, NULL);
    const json_t *stored = json_object_get(answer, "stored"), *durable = json_object_get(answer, "durable");
    int64_t before = handle->stored;
    bool asked = handle->probe || handle->state == HANDLE_SETTLING;
    if (json_is_integer(stored) && json_integer_value(stored) >= 0)
        handle->stored = json_integer_value(stored);
    if (json_is_integer(durable) && json_integer_value(durable) >= 0)
        handle->durable = json_integer_value(durable);
    if (handle->stored <= before && !asked) {
        err_set(&err, ERR_invalid, "the server took none of %lld bytes", (long long)(handle->log_bytes - before));
        log_dead(handle, &err);
    }
    handle->probe = false;
    handle->tries = 0;
    json_decref(answer);
    if (handle->state == HANDLE_SETTLING && !handle->log_dead && handle->stored >= handle->settle_bytes &&
        handle->durable < handle->settle_bytes)
        report_later(handle, SETTLE_MS);
}

static void log_refused(struct shim_handle *handle, const struct client_response *response)
{
    struct err err = { .code = ERR_none };
    client_problem(response, &err);
    if (err.code == ERR_stale_fence || err.code == ERR_not_found || err.code == ERR_unknown_task) {
        log_event("task.stale", "task=%lld code=%s", (long long)handle->task, err_name(err.code));
        shim_handle_drop(handle);
    } else if (err.code == ERR_log_gap && err.expected >= 0 && err.expected < handle->log_bytes) {
        handle->probe = false;
        handle->stored = err.expected;
        if (handle->tries++ > 3)
            report_later(handle, report_backoff(handle->tries));
    } else if (response->status >= 500 || err_retriable(err.code) || response->status == 401 ||
               response->status == 403) {
        report_later(handle, report_backoff(handle->tries++));
    } else {
        log_dead(handle, &err);
    }
}

static void report_posted(struct client_response *response, struct err *err, void *owner)
{
    (void)err;
    struct shim_handle *handle = owner;
    handle->post = NULL;
    if (response->status == 0)
        report_later(handle, report_backoff(handle->tries++));
    else if (response->status / 100 == 2)
        log_stored(handle, response);
    else
        log_refused(handle, response);
    report_log(handle);
}

static void report_post(struct shim_handle *handle, int64_t offset, int64_t bytes)
{
    static char space[CHUNK_MAX];
    ASSERT(!handle->post && bytes > 0);
    size_t want = bytes < CHUNK_MAX ? (size_t)bytes : CHUNK_MAX;
    ssize_t n = pread(handle->log_fd, space, want, offset);
    if (n <= 0) {
        struct err err = { .code = ERR_none };
        err_set(&err, ERR_io, "%s/log: %s", handle->dir, n < 0 ? strerrordesc_np(errno) : "shorter than it should be");
        log_dead(handle, &err);
        return;
    }
    struct agent *agent = handle->agent;
    struct arena arena = { 0 };
    struct str fence = client_encode(&arena, str_of(handle->fence));
    struct str path =
        str_fmt(&arena, "/v1/tasks/%" PRId64 "/log?fence=%.*s&offset=%" PRId64, handle->task, STR_ARG(fence), offset);
    handle->post_client = agent_client(agent);
    handle->post = client_start(handle->post_client, "POST", str_dupz(&arena, path), (struct str){ space, (size_t)n },
        "application/octet-stream", POST_TIMEOUT_MS, report_posted, handle);
    arena_release(&arena);
}

/* The status on disk counts the line too: otherwise the next agent would report a log without it. */
void report_note(struct shim_handle *handle, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t len = n < (int)sizeof text ? (size_t)(n > 0 ? n : 0) : sizeof text - 1;
    if (handle->state != HANDLE_ENDED || handle->log_dead || len == 0)
        return;
    text[len - 1] = '\n'; /* also when it was cut */
    if (pwrite(handle->log_fd, text, len, handle->log_bytes) != (ssize_t)len)
        return;
    handle->log_bytes += (int64_t)len;
    handle->status.log_bytes = handle->log_bytes;
    if (pwrite(handle->status_fd, &handle->status, sizeof handle->status, 0) < 0)
        log_warn("status.write", "dir=%s error=\"%s\"", handle->dir, strerrordesc_np(errno));
}

/* --- ends --- */

bool report_ready(const struct shim_handle *handle)
{
    if (handle->state != HANDLE_ENDED || handle->told || handle->finish_at_ms > loop_now(handle->agent->loop))
        return false;
    if (handle->post || !send_done(handle))
        return false;
    if (handle->log_dead)
        return true;
    return !(handle->probe && handle->log_bytes > 0) && handle->log_bytes - handle->stored <= INLINE_MAX;
}

static void item_log(struct shim_handle *handle, struct json *json)
{
    static char space[INLINE_MAX];
    handle->inline_from = -1;
    json_put_i64(json, "log_bytes", handle->log_dead ? handle->stored : handle->log_bytes);
    int64_t fresh = handle->log_bytes - handle->stored;
    if (handle->log_dead || fresh <= 0)
        return;
    ssize_t n = pread(handle->log_fd, space, (size_t)fresh, handle->stored);
    if (n != fresh)
        return;
    handle->inline_from = handle->stored;
    json_put_i64(json, "log_offset", handle->stored);
    json_key(json, "log");
    struct buf text;
    buf_init(&text, INLINE_MAX * 2);
    base64_add(&text, (struct str){ space, (size_t)n });
    json_str(json, buf_str(&text));
    buf_release(&text);
}

static void item_outputs(struct shim_handle *handle, struct json *json)
{
    struct buf text;
    size_t left;
    buf_init(&text, OUTPUT_BYTES_MAX + 1);
    if (output_read(handle->dir_fd, &text)) {
        json_key(json, "outputs");
        output_put(buf_str(&text), json, &left); /* the shim has written to the job's log what is left out */
    }
    buf_release(&text);
}

/* item_revision: what the change set has become, as the server takes it. */
static void item_revision(struct shim_handle *handle, struct json *json)
{
    struct buf text;
    buf_init(&text, OUTPUT_BYTES_MAX + 1);
    struct str revision =
        output_read(handle->dir_fd, &text) ? output_find(buf_str(&text), STR("revision")) : (struct str){ 0 };
    bool good = revision.len > 0 && revision.len <= REVISION_MAX;
    for (size_t i = 0; good && i < revision.len; i++)
        good = revision.ptr[i] > ' ' && revision.ptr[i] <= '~';
    if (good) {
        json_key(json, "revision");
        json_str(json, revision);
    }
    buf_release(&text);
}

/* item_reason: the shim's word, or that of `weir apply`, which knows more. */
static void item_reason(struct shim_handle *handle, struct json *json)
{
    char text[REASON_BYTES_MAX + 1] = "";
    if (handle->applies)
        fsx_read_text(handle->dir_fd, "io/reason", O_NOFOLLOW | O_NONBLOCK, text, sizeof text);
    const char *reason = text[0] != '\0' ? text : handle->status.reason;
    if (reason[0] != '\0')
        json_put_z(json, "reason", reason);
}

void report_item(struct shim_handle *handle, struct json *json)
{
    const struct status *status = &handle->status;
    ASSERT(handle->state == HANDLE_ENDED);
    json_object_begin(json);
    json_put_i64(json, "task", handle->task);
    json_put_z(json, "fence", handle->fence);
    if (status->outcome != OUTCOME_none)
        json_put_z(json, "outcome", outcome_name((enum outcome)status->outcome));
    else if (status->signo >= 0)
        json_put_i64(json, "signal", status->signo);
    else
        json_put_i64(json, "exit", status->exit);
    /* the container program's own exit status: it shows why there was no container */
    if (status->outcome == OUTCOME_temporary && status->exit >= 0)
        json_put_i64(json, "exit", status->exit);
    if (handle->applies && status->outcome != OUTCOME_none && status->signo >= 0)
        json_put_i64(json, "signal", status->signo); /* killed, it couldn't look whether it had committed */
    if (handle->applies)
        item_revision(handle, json);
    if (handle->bare == 0)
        item_reason(handle, json);
    if (handle->bare == 0) {
        item_outputs(handle, json);
        send_item(handle, json);
    }
    if (status->outcome != OUTCOME_lost || status->cpu_us > 0) {
        json_key(json, "usage");
        json_object_begin(json);
        json_put_i64(json, "cpu_ms", (status->cpu_us + 500) / 1000);
        json_put_i64(json, "max_rss_bytes", status->max_rss_bytes);
        json_object_end(json);
    }
    item_log(handle, json);
    if (status->started_ms > 0)
        json_put_time(json, "started", status->started_ms);
    json_put_time(json, "finished", status->finished_ms);
    json_object_end(json);
    handle->told = true;
}

bool report_unreadable(int status)
{
    return status == 400 || status == 413 || status == 422;
}

/* report_result: the server's answer to one end. Only an answer that asks for a retry isn't final. */
void report_result(struct shim_handle *handle, int status, struct str code)
{
    struct agent *agent = handle->agent;
    handle->told = false;
    if (status == 429 || status >= 500) {
        handle->finish_at_ms = loop_now(agent->loop) + report_backoff(handle->tries++);
        report_later(handle, report_backoff(handle->tries));
        return;
    }
    /* the server has forgotten artifacts that it had: send all of them once more */
    if (str_eqz(code, err_name(ERR_artifact_unknown)) && handle->upload.listed && !handle->upload.resent) {
        log_event("finish.resend", "task=%lld", (long long)handle->task);
        handle->upload.resent = true;
        send_begin(handle);
        report_log(handle);
        return;
    }
    if (report_unreadable(status) && handle->bare < 2) { /* better a bare end than none */
        log_warn("finish.bare", "task=%lld status=%d code=%.*s", (long long)handle->task, status, STR_ARG(code));
        if (handle->bare++ == 0)
            report_note(handle,
                "[weir: the server refused what this job left (%d %.*s): no outputs or artifacts are kept]\n", status,
                STR_ARG(code));
        else
            handle->log_dead = true;
        report_log(handle); /* the log has a line more */
        return;
    }
    if (status / 100 != 2) {
        log_warn("finish.refused", "task=%lld status=%d code=%.*s", (long long)handle->task, status, STR_ARG(code));
        shim_handle_release(handle);
        return;
    }
    handle->settle_bytes = report_before_end(handle);
    handle->state = HANDLE_SETTLING;
    handle->tries = 0;
    report_settle(handle);
}
