/* send: sends an ended job's artifacts (artifacts.h) to the server, in pieces, before its end.
 *
 * A job has at most one request under way, be it for its log or its artifacts. When the server has a whole file it
 * answers with the hash; the finish lists exactly those files. A restarted agent begins again: the same bytes give the
 * same hashes.
 *
 * An unreachable server is retried with growing pauses; a file that the server refuses, or whose pieces it loses again
 * and again, is left out, and the job's log says so. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "exec/agent/agent.h"
#include "io/fsx.h"
#include "io/log.h"

enum { ROUNDS_MAX = 20, PIECE_MAX = 1 << 20, SEND_TIMEOUT_MS = 60000 };

/* send_at: file number `at` is the one to be sent, from its beginning. */
static void send_at(struct shim_handle *handle, size_t at)
{
    handle->upload.at = at;
    handle->upload.offset = 0;
    handle->upload.rounds = 0;
}

void send_forget(struct shim_handle *handle)
{
    arena_reset(&handle->upload.arena);
    handle->upload.files = NULL;
    handle->upload.n = 0;
    send_at(handle, 0);
    handle->upload.listed = false;
    buf_reset(&handle->upload.list);
}

void send_begin(struct shim_handle *handle)
{
    send_forget(handle);
    bool whole = handle->status.outcome != OUTCOME_lost; /* a shim that died hasn't collected any */
    handle->upload.listed =
        handle->upload.wanted && whole &&
        artifacts_list(handle->dir_fd, &handle->upload.arena, &handle->upload.files, &handle->upload.n);
}

bool send_done(const struct shim_handle *handle)
{
    return handle->state != HANDLE_ENDED || handle->upload.at >= handle->upload.n;
}

/* send_skip: leaves a file out, with one line in the job's log. It is removed, so that a restarted agent skips it
 * without another line. */
static void send_skip(struct shim_handle *handle, const char *why)
{
    const struct artifact *file = &handle->upload.files[handle->upload.at];
    report_note(handle, "[weir: artifact '%.*s' isn't kept: %.200s]\n", STR_ARG(str_sub(file->name, 0, 200)), why);
    artifact_remove(handle->dir_fd, handle->upload.at);
    log_warn("artifact.refused", "task=%lld name=%s reason=%s", (long long)handle->task, log_quote(file->name).z,
        log_quote(str_of(why)).z);
    send_at(handle, handle->upload.at + 1);
}

void send_add(struct shim_handle *handle, const char *hash)
{
    const struct artifact *file = &handle->upload.files[handle->upload.at];
    struct json json = json_to(&handle->upload.list);
    if (handle->upload.list.len > 0)
        buf_add_char(&handle->upload.list, ',');
    json_object_begin(&json);
    json_put_str(&json, "name", file->name);
    json_put_i64(&json, "bytes", file->bytes);
    json_put_z(&json, "sha256", hash);
    json_put_z(&json, "mode", file->executable ? "0755" : "0644");
    json_object_end(&json);
    send_at(handle, handle->upload.at + 1);
}

static void send_taken(struct shim_handle *handle, const struct client_response *response, int64_t bytes)
{
    const struct artifact *file = &handle->upload.files[handle->upload.at];
    handle->tries = 0;
    handle->upload.offset += bytes;
    json_t *answer = json_loadb(response->body.ptr ? response->body.ptr : "", response->body.len, 0, NULL);
    const char *hash = json_string_value(json_object_get(answer, "sha256"));
    if (handle->upload.offset >= file->bytes && hash == NULL) {
        send_skip(handle, "the server didn't say its hash");
    } else if (hash != NULL &&
               handle->upload.list.len > ARTIFACT_LIST_BYTES_MAX * 2) { /* can't be: the shim's limit is lower */
        send_skip(handle, "the names of this job's files are too long");
    } else if (hash != NULL) {
        send_add(handle, hash);
    }
    json_decref(answer);
}

static void send_refused(struct shim_handle *handle, const struct client_response *response)
{
    struct err err = { .code = ERR_none };
    client_problem(response, &err);
    if (err.code == ERR_stale_fence || err.code == ERR_not_found || err.code == ERR_unknown_task) {
        log_event("task.stale", "task=%lld code=%s", (long long)handle->task, err_name(err.code));
        shim_handle_drop(handle);
    } else if (err.code == ERR_log_gap && handle->upload.rounds++ >= ROUNDS_MAX) {
        send_skip(handle, "the server has lost pieces of it again and again");
    } else if (err.code == ERR_log_gap && err.expected >= 0 && err.expected < handle->upload.offset) {
        handle->upload.offset = err.expected; /* the server was restarted: it forgets files that aren't complete */
        if (handle->tries++ > 3)
            report_later(handle, report_backoff(handle->tries));
    } else if (err.code == ERR_quota_full || err.code == ERR_corrupt) { /* waiting won't change it */
        send_skip(handle, err.text);
    } else if (response->status >= 500 || err_retriable(err.code) || response->status == 401 ||
               response->status == 403) {
        report_later(handle, report_backoff(handle->tries++));
    } else {
        send_skip(handle, err.text);
    }
}

static void send_answered(struct client_response *response, struct err *err, void *owner)
{
    (void)err;
    struct shim_handle *handle = owner;
    const struct artifact *file = &handle->upload.files[handle->upload.at];
    int64_t left = file->bytes - handle->upload.offset;
    handle->post = NULL;
    if (response->status == 0)
        report_later(handle, report_backoff(handle->tries++));
    else if (response->status / 100 == 2)
        send_taken(handle, response, left < PIECE_MAX ? left : PIECE_MAX);
    else
        send_refused(handle, response);
    report_log(handle);
}

char *send_path(const struct shim_handle *handle, struct arena *arena)
{
    const struct artifact *file = &handle->upload.files[handle->upload.at];
    struct str fence = client_encode(arena, str_of(handle->fence)), name = client_encode(arena, file->name);
    bool last = file->bytes - handle->upload.offset <= PIECE_MAX;
    return str_dupz(
        arena, str_fmt(arena, "/v1/tasks/%" PRId64 "/artifacts/%.*s?fence=%.*s&offset=%" PRId64 "%s", handle->task,
                   STR_ARG(name), STR_ARG(fence), handle->upload.offset, last ? "&last=1" : ""));
}

void send_next(struct shim_handle *handle)
{
    static char space[PIECE_MAX];
    ASSERT(handle->upload.at < handle->upload.n && !handle->post);
    const struct artifact *file = &handle->upload.files[handle->upload.at];
    int64_t left = file->bytes - handle->upload.offset;
    size_t want = left < PIECE_MAX ? (size_t)left : PIECE_MAX;
    int fd = artifact_open(handle->dir_fd, handle->upload.at);
    ssize_t n = fd >= 0 ? pread(fd, space, want, handle->upload.offset) : -1;
    fsx_close(fd);
    if (fd < 0 && errno == ENOENT) { /* an earlier agent skipped it, see send_skip */
        handle->upload.at++;
        report_later(handle, 0);
        return;
    }
    if (n != (ssize_t)want) {
        send_skip(handle, n < 0 ? strerrordesc_np(errno) : "it is shorter than it was");
        report_later(handle, 0);
        return;
    }
    struct arena arena = { 0 };
    handle->post_client = agent_client(handle->agent);
    handle->post = client_start(handle->post_client, "POST", send_path(handle, &arena),
        (struct str){ space, (size_t)n }, "application/octet-stream", SEND_TIMEOUT_MS, send_answered, handle);
    arena_release(&arena);
}

void send_item(struct shim_handle *handle, struct json *json)
{
    if (!handle->upload.listed)
        return;
    json_key(json, "artifacts");
    struct buf text;
    buf_init(&text, (size_t)4 << 20);
    buf_addf(&text, "[%.*s]", STR_ARG(buf_str(&handle->upload.list)));
    json_raw(json, buf_str(&text));
    buf_release(&text);
}
