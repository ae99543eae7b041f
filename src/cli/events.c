/* events: what happened, as a list or as it happens.
 *
 * With -f every event is written as it comes, one line each (with --json: one JSON object a line, since a stream has no
 * end); a lost server is asked again from the last event seen. */
#include <poll.h>
#include <string.h>

#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { RECONNECT_MS = 60000, RECONNECT_STEP_MS = 250 };

struct events_run {
    struct session *session;
    struct json_lines lines;
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

static bool events_piece(struct str bytes, void *owner)
{
    struct events_run *run = owner;
    return json_lines_add(&run->lines, bytes);
}

static const char *events_path(struct events_run *run)
{
    struct session *s = run->session;
    const char *path = session_query_i64(s, "/v1/events", "since", run->since);
    path = session_query(s, path, "archive", run->archive);
    path = session_query(s, path, "queue", run->queue);
    path = session_query(s, path, "task", run->task);
    if (run->limit > 0)
        path = session_query_i64(s, path, "limit", run->limit - run->n);
    return session_query(s, path, "follow", run->follow ? "1" : NULL);
}

/* events_ask: one request; true: it was answered, or refused (session.status says which). */
static bool events_ask(struct events_run *run)
{
    json_lines_reset(&run->lines);
    return session_stream(run->session, events_path(run), events_piece, run);
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
    events_all(run);
    int status = s->status;
    if (status != 0)
        session_fail(s);
    if (run->array && (status == 0 || run->n > 0))
        puts(run->n > 0 ? "]" : "[]");
    json_lines_release(&run->lines);
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
