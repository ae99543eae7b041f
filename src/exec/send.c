/* send: the files that an ended job keeps (keep.h), sent to the server in pieces before the end is told.
 *
 * One request on its way for each job, the same place that log requests use. What the server has taken whole it answers
 * with its hash; the finish lists exactly those. An agent that is born meanwhile begins again: the same bytes give the
 * same hashes.
 *
 * A server that can't be reached is asked again, at growing distances; a file that it refuses, or whose pieces it loses
 * again and again, is left out, and the job's log says so. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "exec/agent.h"
#include "io/log.h"

enum { ROUNDS_MAX = 20, PIECE_MAX = 1 << 20, SEND_TIMEOUT_MS = 60000 };

void send_forget(struct seat *seat)
{
    arena_reset(&seat->kept_arena);
    seat->kept = NULL;
    seat->n_kept = seat->kept_at = 0;
    seat->kept_offset = 0;
    seat->kept_rounds = 0;
    seat->keeps = false;
    buf_reset(&seat->kept_list);
}

void send_begin(struct seat *seat)
{
    send_forget(seat);
    bool whole = seat->status.outcome != OUTCOME_lost; /* a shim that died has put nothing aside */
    seat->keeps = seat->wants && whole && keep_read(seat->dir_fd, &seat->kept_arena, &seat->kept, &seat->n_kept);
}

bool send_done(const struct seat *seat)
{
    return seat->state != SEAT_ENDED || seat->kept_at >= seat->n_kept;
}

/* send_skip: said in the job's log, once: without its file the next agent passes over it. */
static void send_skip(struct seat *seat, const char *why)
{
    const struct kept *file = &seat->kept[seat->kept_at];
    report_note(seat, "[weir: artifact '%.*s' isn't kept: %.200s]\n", STR_ARG(str_sub(file->name, 0, 200)), why);
    keep_remove(seat->dir_fd, seat->kept_at);
    log_warn("artifact.refused", "task=%lld name=%s reason=%s", (long long)seat->task, log_quote(file->name).z,
        log_quote(str_of(why)).z);
    seat->kept_at++;
    seat->kept_offset = 0;
    seat->kept_rounds = 0;
}

void send_add(struct seat *seat, const char *hash)
{
    const struct kept *file = &seat->kept[seat->kept_at];
    struct json json = json_to(&seat->kept_list);
    if (seat->kept_list.len > 0)
        buf_add_char(&seat->kept_list, ',');
    json_object_begin(&json);
    json_put_str(&json, "name", file->name);
    json_put_i64(&json, "bytes", file->bytes);
    json_put_z(&json, "sha256", hash);
    json_put_z(&json, "mode", file->executable ? "0755" : "0644");
    json_object_end(&json);
    seat->kept_at++;
    seat->kept_offset = 0;
    seat->kept_rounds = 0;
}

static void send_taken(struct seat *seat, const struct client_response *response, int64_t bytes)
{
    const struct kept *file = &seat->kept[seat->kept_at];
    seat->tries = 0;
    seat->kept_offset += bytes;
    json_t *answer = json_loadb(response->body.ptr ? response->body.ptr : "", response->body.len, 0, NULL);
    const char *hash = json_string_value(json_object_get(answer, "sha256"));
    if (seat->kept_offset >= file->bytes && hash == NULL) {
        send_skip(seat, "the server didn't say its hash");
    } else if (hash != NULL && seat->kept_list.len > KEEP_LIST_MAX * 2) { /* never, by what the shim put aside */
        send_skip(seat, "the names of this job's files are too long");
    } else if (hash != NULL) {
        send_add(seat, hash);
    }
    json_decref(answer);
}

static void send_refused(struct seat *seat, const struct client_response *response)
{
    struct err err = { .code = ERR_none };
    client_problem(response, &err);
    if (err.code == ERR_stale_fence || err.code == ERR_not_found || err.code == ERR_unknown_task) {
        log_event("task.stale", "task=%lld code=%s", (long long)seat->task, err_name(err.code));
        seat_drop(seat);
    } else if (err.code == ERR_log_gap && seat->kept_rounds++ >= ROUNDS_MAX) {
        send_skip(seat, "the server has lost pieces of it again and again");
    } else if (err.code == ERR_log_gap && err.expected >= 0 && err.expected < seat->kept_offset) {
        seat->kept_offset = err.expected; /* the server was restarted: it forgets what isn't whole */
        if (seat->tries++ > 3)
            report_later(seat, report_backoff(seat->tries));
    } else if (err.code == ERR_quota_full ||
               err.code == ERR_corrupt) { /* as it is now, and nothing that waiting changes */
        send_skip(seat, err.text);
    } else if (response->status >= 500 || err_retriable(err.code) || response->status == 401 ||
               response->status == 403) {
        report_later(seat, report_backoff(seat->tries++));
    } else {
        send_skip(seat, err.text);
    }
}

static void send_answered(struct client_response *response, struct err *err, void *owner)
{
    (void)err;
    struct seat *seat = owner;
    const struct kept *file = &seat->kept[seat->kept_at];
    int64_t left = file->bytes - seat->kept_offset;
    seat->post = NULL;
    if (response->status == 0)
        report_later(seat, report_backoff(seat->tries++));
    else if (response->status / 100 == 2)
        send_taken(seat, response, left < PIECE_MAX ? left : PIECE_MAX);
    else
        send_refused(seat, response);
    report_log(seat);
}

char *send_path(const struct seat *seat, struct arena *arena)
{
    const struct kept *file = &seat->kept[seat->kept_at];
    struct str fence = client_encode(arena, str_of(seat->fence)), name = client_encode(arena, file->name);
    bool last = file->bytes - seat->kept_offset <= PIECE_MAX;
    return str_dupz(arena, str_fmt(arena, "/v1/tasks/%" PRId64 "/artifacts/%.*s?fence=%.*s&offset=%" PRId64 "%s",
                               seat->task, STR_ARG(name), STR_ARG(fence), seat->kept_offset, last ? "&last=1" : ""));
}

void send_next(struct seat *seat)
{
    static char space[PIECE_MAX];
    const struct kept *file = &seat->kept[seat->kept_at];
    int64_t left = file->bytes - seat->kept_offset;
    size_t want = left < PIECE_MAX ? (size_t)left : PIECE_MAX;
    int fd = keep_open(seat->dir_fd, seat->kept_at);
    ssize_t n = fd >= 0 ? pread(fd, space, want, seat->kept_offset) : -1;
    if (fd >= 0)
        close(fd);
    if (fd < 0 && errno == ENOENT) { /* an earlier agent passed over it, and said so */
        seat->kept_at++;
        report_later(seat, 0);
        return;
    }
    if (n != (ssize_t)want) {
        send_skip(seat, n < 0 ? strerrordesc_np(errno) : "it is shorter than it was");
        report_later(seat, 0);
        return;
    }
    struct arena arena = { 0 };
    seat->post_client = agent_client(seat->agent);
    seat->post = client_start(seat->post_client, "POST", send_path(seat, &arena), (struct str){ space, (size_t)n },
        "application/octet-stream", SEND_TIMEOUT_MS, send_answered, seat);
    arena_release(&arena);
}

void send_item(struct seat *seat, struct json *json)
{
    if (!seat->keeps)
        return;
    json_key(json, "artifacts");
    struct buf text;
    buf_init(&text, (size_t)4 << 20);
    buf_addf(&text, "[%.*s]", STR_ARG(buf_str(&seat->kept_list)));
    json_raw(json, buf_str(&text));
    buf_release(&text);
}
