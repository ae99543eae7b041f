/* report: logs by offset while they grow, and the end of a job as an item of the next poll.
 *
 * Promises: one log request per job on its way; bytes stay in the spool until the server says they are durable; an end
 * is told only when all log bytes before its inline part are stored. A server that can't be reached is asked again, at
 * growing distances; one that refuses (a newer grant, no such task) ends the job here. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/when.h"
#include "exec/agent.h"
#include "exec/base64.h"
#include "exec/output.h"
#include "io/log.h"

enum {
    INLINE_MAX = 16 << 10,
    CHUNK_MAX = 256 << 10,
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 2000,
    POST_TIMEOUT_MS = 15000,
    SETTLE_MS = 30
};

static void report_post(struct seat *seat, int64_t offset, int64_t bytes);

int64_t report_backoff(unsigned tries)
{
    int64_t ms = RETRY_MIN_MS << (tries < 6 ? tries : 6);
    return ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
}

static void report_due(struct loop_timer *timer)
{
    report_log(timer->owner);
}

void report_later(struct seat *seat, int64_t ms)
{
    seat->retry.due = report_due;
    seat->retry.owner = seat;
    loop_arm(seat->agent->loop, &seat->retry, loop_now(seat->agent->loop) + ms);
}

void report_forget(struct seat *seat)
{
    if (seat->post)
        client_cancel(seat->post_client, seat->post);
    seat->post = NULL;
    if (seat->agent->loop)
        loop_disarm(seat->agent->loop, &seat->retry);
}

int64_t report_before_end(const struct seat *seat)
{
    return seat->inline_from >= 0 ? seat->inline_from : seat->spool_bytes;
}

void report_doubt(struct seat *seat)
{
    if (seat->stored > seat->durable)
        seat->stored = seat->durable;
}

/* SETTLING: the end is known to the server; the log must still become durable there. */
static void report_settle(struct seat *seat)
{
    if (seat->log_dead || seat->durable >= seat->settle_bytes)
        seat_release(seat);
    else if (seat->stored < seat->settle_bytes)
        report_post(seat, seat->stored, seat->settle_bytes - seat->stored);
    else
        report_post(seat, 0, 1); /* repeats a byte: the answer says how far it is */
}

void report_log(struct seat *seat)
{
    if (seat->post || seat->retry.node.pos > 0 || !seat->agent->registered)
        return;
    if (seat->state == SEAT_SETTLING) {
        report_settle(seat);
        return;
    }
    int64_t fresh = seat->spool_bytes - seat->stored;
    if ((seat->state != SEAT_RUNNING && seat->state != SEAT_ENDED) || seat->told)
        return;
    if (!seat->log_dead && fresh > 0 && seat->probe)
        report_post(seat, 0, 1);
    else if (!seat->log_dead && fresh > 0 && (seat->state == SEAT_RUNNING || fresh > INLINE_MAX))
        report_post(seat, seat->stored, fresh);
    else if (!send_done(seat))
        send_next(seat);
}

/* --- answers to log requests --- */

static void log_dead(struct seat *seat, const struct err *err)
{
    log_warn("log.refused", "task=%lld code=%s detail=%s", (long long)seat->task, err_name(err->code),
        log_quote(str_of(err->text)).z);
    seat->log_dead = true;
}

static void log_stored(struct seat *seat, const struct client_response *response)
{
    struct err err = { .code = ERR_none };
    json_t *answer = json_loadb(response->body.ptr ? response->body.ptr : "", response->body.len, 0, NULL);
    const json_t *stored = json_object_get(answer, "stored"), *durable = json_object_get(answer, "durable");
    int64_t before = seat->stored;
    bool asked = seat->probe || seat->state == SEAT_SETTLING;
    if (json_is_integer(stored) && json_integer_value(stored) >= 0)
        seat->stored = json_integer_value(stored);
    if (json_is_integer(durable) && json_integer_value(durable) >= 0)
        seat->durable = json_integer_value(durable);
    if (seat->stored <= before && !asked) {
        err_set(&err, ERR_invalid, "the server took none of %lld bytes", (long long)(seat->spool_bytes - before));
        log_dead(seat, &err);
    }
    seat->probe = false;
    seat->tries = 0;
    json_decref(answer);
    if (seat->state == SEAT_SETTLING && !seat->log_dead && seat->stored >= seat->settle_bytes &&
        seat->durable < seat->settle_bytes)
        report_later(seat, SETTLE_MS);
}

static void log_refused(struct seat *seat, const struct client_response *response)
{
    struct err err = { .code = ERR_none };
    client_problem(response, &err);
    if (err.code == ERR_stale_fence || err.code == ERR_not_found || err.code == ERR_unknown_task) {
        log_event("task.stale", "task=%lld code=%s", (long long)seat->task, err_name(err.code));
        seat_drop(seat);
    } else if (err.code == ERR_log_gap && err.expected >= 0 && err.expected < seat->spool_bytes) {
        seat->probe = false;
        seat->stored = err.expected;
        if (seat->tries++ > 3)
            report_later(seat, report_backoff(seat->tries));
    } else if (response->status >= 500 || err_retriable(err.code) || response->status == 401 ||
               response->status == 403) {
        report_later(seat, report_backoff(seat->tries++));
    } else {
        log_dead(seat, &err);
    }
}

static void report_posted(struct client_response *response, struct err *err, void *owner)
{
    (void)err;
    struct seat *seat = owner;
    seat->post = NULL;
    if (response->status == 0)
        report_later(seat, report_backoff(seat->tries++));
    else if (response->status / 100 == 2)
        log_stored(seat, response);
    else
        log_refused(seat, response);
    report_log(seat);
}

static void report_post(struct seat *seat, int64_t offset, int64_t bytes)
{
    static char space[CHUNK_MAX];
    size_t want = bytes < CHUNK_MAX ? (size_t)bytes : CHUNK_MAX;
    ssize_t n = pread(seat->log_fd, space, want, offset);
    if (n <= 0) {
        struct err err = { .code = ERR_none };
        err_set(&err, ERR_io, "%s/log: %s", seat->dir, n < 0 ? strerrordesc_np(errno) : "shorter than it should be");
        log_dead(seat, &err);
        return;
    }
    struct agent *agent = seat->agent;
    struct arena arena = { 0 };
    struct str fence = client_encode(&arena, str_of(seat->fence));
    struct str path =
        str_fmt(&arena, "/v1/tasks/%" PRId64 "/log?fence=%.*s&offset=%" PRId64, seat->task, STR_ARG(fence), offset);
    seat->post_client = agent_client(agent);
    seat->post = client_start(seat->post_client, "POST", str_dupz(&arena, path), (struct str){ space, (size_t)n },
        "application/octet-stream", POST_TIMEOUT_MS, report_posted, seat);
    arena_release(&arena);
}

/* The status on disk knows of the line too: the next agent would report a log without it. */
void report_note(struct seat *seat, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t len = n < (int)sizeof text ? (size_t)(n > 0 ? n : 0) : sizeof text - 1;
    if (seat->state != SEAT_ENDED || seat->log_dead || len == 0)
        return;
    text[len - 1] = '\n'; /* also when it was cut */
    if (pwrite(seat->log_fd, text, len, seat->spool_bytes) != (ssize_t)len)
        return;
    seat->spool_bytes += (int64_t)len;
    seat->status.log_bytes = seat->spool_bytes;
    if (pwrite(seat->status_fd, &seat->status, sizeof seat->status, 0) < 0)
        log_warn("status.write", "dir=%s error=\"%s\"", seat->dir, strerrordesc_np(errno));
}

/* --- ends --- */

bool report_ready(const struct seat *seat)
{
    if (seat->state != SEAT_ENDED || seat->told || seat->finish_at_ms > loop_now(seat->agent->loop))
        return false;
    if (seat->post || !send_done(seat))
        return false;
    if (seat->log_dead)
        return true;
    return !(seat->probe && seat->spool_bytes > 0) && seat->spool_bytes - seat->stored <= INLINE_MAX;
}

static void item_log(struct seat *seat, struct json *json)
{
    static char space[INLINE_MAX];
    seat->inline_from = -1;
    json_put_i64(json, "log_bytes", seat->log_dead ? seat->stored : seat->spool_bytes);
    int64_t fresh = seat->spool_bytes - seat->stored;
    if (seat->log_dead || fresh <= 0)
        return;
    ssize_t n = pread(seat->log_fd, space, (size_t)fresh, seat->stored);
    if (n != fresh)
        return;
    seat->inline_from = seat->stored;
    json_put_i64(json, "log_offset", seat->stored);
    json_key(json, "log");
    struct buf text;
    buf_init(&text, INLINE_MAX * 2);
    base64_add(&text, (struct str){ space, (size_t)n });
    json_str(json, buf_str(&text));
    buf_release(&text);
}

static void item_outputs(struct seat *seat, struct json *json)
{
    struct buf text;
    size_t left;
    buf_init(&text, OUTPUT_BYTES_MAX + 1);
    if (output_read(seat->dir_fd, &text)) {
        json_key(json, "outputs");
        output_put(buf_str(&text), json, &left); /* what is left out the shim has said in the job's log */
    }
    buf_release(&text);
}

void report_item(struct seat *seat, struct json *json)
{
    const struct status *status = &seat->status;
    json_object_begin(json);
    json_put_i64(json, "task", seat->task);
    json_put_z(json, "fence", seat->fence);
    if (status->outcome != OUTCOME_none)
        json_put_z(json, "outcome", outcome_name((enum outcome)status->outcome));
    else if (status->signo >= 0)
        json_put_i64(json, "signal", status->signo);
    else
        json_put_i64(json, "exit", status->exit);
    /* the container program's own: it tells why there was no container */
    if (status->outcome == OUTCOME_temporary && status->exit >= 0)
        json_put_i64(json, "exit", status->exit);
    if (seat->bare == 0 && status->reason[0] != '\0')
        json_put_z(json, "reason", status->reason);
    if (seat->bare == 0) {
        item_outputs(seat, json);
        send_item(seat, json);
    }
    if (status->outcome != OUTCOME_lost || status->cpu_us > 0) {
        json_key(json, "usage");
        json_object_begin(json);
        json_put_i64(json, "cpu_ms", (status->cpu_us + 500) / 1000);
        json_put_i64(json, "max_rss_bytes", status->max_rss_bytes);
        json_object_end(json);
    }
    item_log(seat, json);
    if (status->started_ms > 0)
        json_put_time(json, "started", status->started_ms);
    json_put_time(json, "finished", status->finished_ms);
    json_object_end(json);
    seat->told = true;
}

bool report_unreadable(int status)
{
    return status == 400 || status == 413 || status == 422;
}

/* report_result: the server's word on one end. Everything but "try again" is the last word. */
void report_result(struct seat *seat, int status, struct str code)
{
    struct agent *agent = seat->agent;
    seat->told = false;
    if (status == 429 || status >= 500) {
        seat->finish_at_ms = loop_now(agent->loop) + report_backoff(seat->tries++);
        report_later(seat, report_backoff(seat->tries));
        return;
    }
    /* the server forgot what it had: once more */
    if (str_eqz(code, err_name(ERR_artifact_unknown)) && seat->keeps && !seat->resent) {
        log_event("finish.resend", "task=%lld", (long long)seat->task);
        seat->resent = true;
        send_begin(seat);
        report_log(seat);
        return;
    }
    if (report_unreadable(status) && seat->bare < 2) { /* at least the end must arrive */
        log_warn("finish.bare", "task=%lld status=%d code=%.*s", (long long)seat->task, status, STR_ARG(code));
        if (seat->bare++ == 0)
            report_note(seat,
                "[weir: the server refused what this job left (%d %.*s): no outputs or artifacts are kept]\n", status,
                STR_ARG(code));
        else
            seat->log_dead = true;
        report_log(seat); /* the log has a line more */
        return;
    }
    if (status / 100 != 2) {
        log_warn("finish.refused", "task=%lld status=%d code=%.*s", (long long)seat->task, status, STR_ARG(code));
        seat_release(seat);
        return;
    }
    seat->settle_bytes = report_before_end(seat);
    seat->state = SEAT_SETTLING;
    seat->tries = 0;
    report_settle(seat);
}
