/* events: what happened, as a list or as it happens.
 *
 * With -f every event is written as it comes, one line each (with --json: one JSON object a line, since a stream has no
 * end); a lost server is asked again from the last event seen. */
#include <poll.h>
#include <string.h>

#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/events.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { EVENTS_PATH_CAP = 8192, RECONNECT_MS = 60000, RECONNECT_STEP_MS = 250 };

struct events_run {
    struct session *session;
    struct json_lines lines;
    struct client_response refusal;
    /* --json without -f: one document, written as it comes, so that a long history needs no memory */
    bool array;
    const char *archive, *queue, *task; /* filters; NULL: all. task is an id */
    int64_t since, limit, n;
    bool follow;
};

static bool events_line(const json_t *event, void *owner)
{
    struct events_run *run = owner;
    struct session *s = run->session;
    run->since = field_i64(event, "seq", run->since);
    if (run->array)
        fputc(run->n == 0 ? '[' : ',', stdout);
    if (s->json)
        session_print(s, event);
    else
        event_print(s, event, stdout);
    if (run->follow)
        fflush(stdout);
    run->n++;
    return !ferror(stdout) && (run->limit == 0 || run->n < run->limit);
}

static bool events_piece(int status, struct str bytes, void *owner)
{
    struct events_run *run = owner;
    if (status >= 200 && status <= 299)
        return json_lines_add(&run->lines, bytes);
    buf_add(&run->refusal.body, bytes.ptr, bytes.len);
    return true;
}

static const char *events_path(struct events_run *run)
{
    struct session *s = run->session;
    struct buf path;
    char number[32];
    buf_init(&path, EVENTS_PATH_CAP);
    buf_add_z(&path, "/v1/events");
    snprintf(number, sizeof number, "%lld", (long long)run->since);
    session_query(s, &path, "since", number);
    session_query(s, &path, "archive", run->archive);
    session_query(s, &path, "queue", run->queue);
    session_query(s, &path, "task", run->task);
    if (run->limit > 0) {
        snprintf(number, sizeof number, "%lld", (long long)(run->limit - run->n));
        session_query(s, &path, "limit", number);
    }
    session_query(s, &path, "follow", run->follow ? "1" : NULL);
    const char *z = str_dupz(&s->arena, buf_str(&path));
    buf_release(&path);
    return z;
}

/* events_ask: one request; true: it was answered, or refused (session.status says which). */
static bool events_ask(struct events_run *run)
{
    struct session *s = run->session;
    int http = 0;
    s->err = (struct err){ .arena = &s->arena };
    json_lines_reset(&run->lines);
    if (!client_stream(s->client, "GET", events_path(run), NULL, events_piece, run, &http, &s->err)) {
        s->status = err_exit(s->err.code);
        return false;
    }
    s->status = 0;
    if (http < 200 || http > 299) {
        run->refusal.status = http;
        client_problem(&run->refusal, &s->err);
        s->status = err_exit(s->err.code);
    }
    return true;
}

/* events_all: a follower goes on after the server was away; the first failure of all is final. */
static void events_all(struct events_run *run)
{
    struct session *s = run->session;
    int64_t give_up = 0;
    bool answered = false;
    for (;;) {
        int64_t n_before = run->n;
        bool ok = events_ask(run);
        answered = answered || ok || run->n > 0;
        bool enough = ferror(stdout) || (run->limit > 0 && run->n >= run->limit);
        if (!run->follow || enough || (ok && s->status != 0) || !answered)
            return;
        int64_t now = clock_boot_ms();
        if (ok || run->n > n_before || give_up == 0)
            give_up = now + RECONNECT_MS;
        if (now >= give_up)
            return;
        poll(NULL, 0, RECONNECT_STEP_MS);
    }
}

static int events_run(struct events_run *run)
{
    struct session *s = run->session;
    run->array = s->json && !run->follow;
    json_lines_init(&run->lines, events_line, run);
    buf_init(&run->refusal.body, 1 << 20);
    events_all(run);
    int status = s->status;
    if (status != 0)
        session_fail(s);
    if (run->array && (status == 0 || run->n > 0))
        puts(run->n > 0 ? "]" : "[]");
    json_lines_release(&run->lines);
    buf_release(&run->refusal.body);
    return status;
}

/* task_id: the number behind a key, as text; NULL: reported. */
static const char *task_id(struct session *s, const char *key)
{
    json_t *task = session_get(s, session_task_path(s, key, ""));
    if (!task)
        return NULL;
    struct str id = str_fmt(&s->arena, "%lld", (long long)field_i64(task, "id", 0));
    json_decref(task);
    return str_dupz(&s->arena, id);
}

int events_of_task(struct session *s, const char *key)
{
    struct events_run run = { .session = s, .task = task_id(s, key) };
    return run.task ? events_run(&run) : s->status;
}

int events_command(struct session *s)
{
    struct events_run run = { .session = s, .follow = option_given(&s->options, "follow") };
    const char *key = option_get(&s->options, "task");
    run.archive = option_get(&s->options, "archive");
    run.queue = option_get(&s->options, "queue");
    if (!option_i64(&s->options, "since", 0, INT64_MAX, &run.since) ||
        !option_i64(&s->options, "limit", 1, INT32_MAX, &run.limit))
        return EXIT_USAGE;
    if (run.archive && run.queue)
        return usage_error(s->options.spec, "--archive and --queue exclude each other");
    if (key && !(run.task = task_id(s, key)))
        return s->status;
    return events_run(&run);
}
