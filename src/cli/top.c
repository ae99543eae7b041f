/* top: a live view in the terminal: queues, running tasks, executors, throughput.
 *
 * Events tell that something changed, a timer asks at most every half second then, and every two seconds anyway for
 * ages and loads. The terminal's own screen comes back on every way out but SIGKILL. Not on a terminal: the same, once,
 * as plain lines. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>

#include "cli/changeset_text.h"
#include "cli/command.h"
#include "cli/feed.h"
#include "cli/lane_table.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { TOP_AGAIN_MS = 500, TOP_TICK_MS = 2000, RATE_SECONDS = 60, RATE_SHOWN = 10, SCREEN_BYTES = 64 * 1024 };

struct top {
    struct session *session;
    struct feed feed;
    struct arena arena;                              /* of one picture */
    json_t *stats, *lanes, *nodes, *running, *queue; /* queue: change sets, in order; NULL: no target has any */
    struct loop_timer again, tick;
    struct loop_fd keys;
    struct termios before;
    bool raw, broken, answered;
    int64_t asked;
    int64_t second;              /* boot second of ends[second % RATE_SECONDS] */
    unsigned ends[RATE_SECONDS]; /* tasks that ended, by second */
    int64_t watched;             /* since when we count */
};

/* --- reading --- */

/* list: the name of what comes in pages; NULL: it doesn't. */
static bool part_read(struct top *t, const char *path, const char *list, json_t **out)
{
    struct session_request request = { .method = "GET", .path = path, .timeout_ms = TOP_TICK_MS };
    json_t *document =
        list ? session_try_pages(t->session, path, list, TOP_TICK_MS) : session_try(t->session, &request);
    if (!document)
        return false;
    json_decref(*out);
    *out = document;
    return true;
}

/* queue_refresh: only where there are targets with something in them. */
static void queue_refresh(struct top *t)
{
    const json_t *lane;
    bool any = false;
    size_t i;
    json_array_foreach (json_object_get(t->lanes, "lanes"), i, lane)
        any = any || (strcmp(field_z(lane, "kind"), "target") == 0 && lane_unfinished(lane) > 0);
    json_decref(t->queue);
    t->queue = NULL;
    struct session_request request = {
        .method = "GET", .path = "/v1/changesets?state=QSPX&limit=1000", .timeout_ms = TOP_TICK_MS
    };
    json_t *page = any ? session_try(t->session, &request) : NULL;
    if (page)
        t->queue = queue_sort(json_object_get(page, "changesets"));
    json_decref(page);
}

static bool top_read(struct top *t)
{
    t->asked = clock_boot_ms();
    t->answered = part_read(t, "/v1/stats", NULL, &t->stats) && part_read(t, "/v1/lanes", "lanes", &t->lanes) &&
                  part_read(t, "/v1/nodes", "nodes", &t->nodes) &&
                  part_read(t, "/v1/tasks?state=X&limit=200", NULL, &t->running);
    if (t->answered)
        queue_refresh(t);
    return t->answered;
}

static void ends_advance(struct top *t)
{
    int64_t now = clock_boot_ms() / 1000;
    while (t->second < now) {
        t->second = now - t->second > RATE_SECONDS ? now - RATE_SECONDS : t->second + 1;
        t->ends[t->second % RATE_SECONDS] = 0;
    }
}

static double rate(struct top *t, int seconds)
{
    ends_advance(t);
    int64_t watched = (clock_boot_ms() - t->watched) / 1000;
    int64_t span = watched < seconds ? (watched > 0 ? watched : 1) : seconds;
    unsigned sum = 0;
    for (int64_t i = 0; i < span; i++)
        sum += t->ends[(t->second - i) % RATE_SECONDS];
    return (double)sum / (double)span;
}

/* --- drawing --- */

static void head_print(struct top *t)
{
    struct session *s = t->session;
    fprintf(stdout, "%sweir%s  %s  %s", paint_on(&s->term, PAINT_BOLD), paint_off(&s->term, PAINT_BOLD), s->server,
        local_text(clock_wall_ms()).z);
    if (!t->answered)
        fprintf(stdout, "  %sno answer%s", paint_on(&s->term, PAINT_RED), paint_off(&s->term, PAINT_RED));
    fprintf(stdout, "\nprocessed %lld  failed %lld  queued %lld  working %lld",
        (long long)field_i64(t->stats, "processed", 0), (long long)field_i64(t->stats, "failed", 0),
        (long long)field_i64(t->stats, "queued", 0), (long long)field_i64(t->stats, "working", 0));
    if (t->watched)
        fprintf(stdout, "  ended %.1f/s (10 s)  %.1f/s (1 min)", rate(t, RATE_SHOWN), rate(t, RATE_SECONDS));
    fputc('\n', stdout);
    const json_t *warning;
    size_t i;
    json_array_foreach (json_object_get(t->stats, "warnings"), i, warning)
        fprintf(stdout, "%swarning: %s%s\n", paint_on(&s->term, PAINT_RED),
            term_safe_z(&t->arena, json_string_value(warning)), paint_off(&s->term, PAINT_RED));
}

static const char *executor_of(const json_t *task)
{
    const json_t *attempts = json_object_get(task, "attempts");
    size_t n = json_array_size(attempts);
    return n ? field_z(json_array_get(attempts, n - 1), "executor") : "";
}

static void running_table(struct top *t, struct table *table)
{
    const json_t *task;
    int64_t now = clock_wall_ms(), started;
    size_t i;
    table_init(table, &t->arena, ">AGE|EXECUTOR|KEY|NAME");
    json_array_foreach (json_object_get(t->running, "tasks"), i, task) {
        table_add(table, PAINT_NONE, "%s", field_time(task, "started", &started) ? span_text(now - started).z : "");
        table_add(table, PAINT_NONE, "%s", executor_of(task));
        table_add(table, PAINT_BLUE, "%s", task_key(&t->arena, task));
        table_add(table, PAINT_NONE, "%s", task_name(task));
    }
}

/* part_print: a title and a table in at most `rows` lines (0: all); returns the lines used. */
static int part_print(struct top *t, const char *title, const struct table *table, int rows)
{
    struct session *s = t->session;
    int n = table->n_columns ? (int)(table->n_cells / table->n_columns) : 0;
    if (rows > 0 && rows < 4)
        return 0;
    fprintf(stdout, "\n%s%s%s\n", paint_on(&s->term, PAINT_BOLD), title, paint_off(&s->term, PAINT_BOLD));
    if (n == 0) {
        fputs("none\n", stdout);
        return 3;
    }
    int shown = rows > 0 && n > rows - 3 ? rows - 3 : n;
    table_print(table, &s->term, stdout, shown);
    return shown + 3;
}

static void picture_print(struct top *t, bool plain)
{
    struct table lanes, running, executors, queue;
    int left = plain ? 0 : t->session->term.rows - 4;
    lane_table(&lanes, &t->arena, json_object_get(t->lanes, "lanes"));
    node_table(&executors, &t->arena, json_object_get(t->nodes, "nodes"), "executor");
    running_table(t, &running);
    head_print(t);
    left -= part_print(t, "queues", &lanes, plain ? 0 : left / 3);
    if (json_array_size(t->queue) > 0) {
        queue_table(&queue, &t->arena, t->queue);
        left -= part_print(t, "change sets", &queue, plain ? 0 : left / 3);
    }
    left -= part_print(t, "executors", &executors, plain ? 0 : left / 2);
    part_print(t, "running", &running, plain ? 0 : left > 4 ? left : 4);
    arena_reset(&t->arena);
}

static void top_draw(struct top *t)
{
    term_measure(&t->session->term);
    fputs("\033[H\033[J", stdout);
    picture_print(t, false);
    fprintf(stdout, "\033[%d;1H%sq leaves%s", t->session->term.rows, paint_on(&t->session->term, PAINT_DIM),
        paint_off(&t->session->term, PAINT_DIM));
    fflush(stdout);
}

/* --- the terminal --- */

static void screen_take(struct top *t)
{
    setvbuf(stdout, NULL, _IOFBF, SCREEN_BYTES); /* a picture in one write doesn't flicker */
    if (isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &t->before) == 0) {
        struct termios raw = t->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        t->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    fputs("\033[?1049h\033[?25l", stdout);
    fflush(stdout);
}

static void screen_give_back(struct top *t)
{
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (t->raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
}

static void on_key(struct loop_fd *watch, uint32_t events)
{
    struct top *t = watch->owner;
    char key[16];
    ssize_t n = read(watch->fd, key, sizeof key);
    (void)events;
    if (n <= 0)
        loop_remove(t->session->loop, watch);
    if (n > 0 && (memchr(key, 'q', (size_t)n) || memchr(key, 'Q', (size_t)n) || memchr(key, 4, (size_t)n)))
        loop_stop(t->session->loop);
}

static void on_signal(int signo, void *owner)
{
    struct top *t = owner;
    if (signo == SIGWINCH)
        top_draw(t);
    else
        loop_stop(t->session->loop);
}

/* --- the loop --- */

static void on_event(const json_t *event, void *owner)
{
    struct top *t = owner;
    const char *to = field_z(event, "to");
    int64_t now = clock_boot_ms(), due = t->asked + TOP_AGAIN_MS;
    ends_advance(t);
    if (*to && letter_ended(*to))
        t->ends[t->second % RATE_SECONDS]++;
    if (!t->again.node.pos)
        loop_arm(t->session->loop, &t->again, due > now ? due : now);
}

static void on_lost(void *owner)
{
    struct top *t = owner;
    t->broken = true;
    loop_stop(t->session->loop);
}

static void on_due(struct loop_timer *timer)
{
    struct top *t = timer->owner;
    struct loop *loop = t->session->loop;
    top_read(t);
    top_draw(t);
    loop_disarm(loop, &t->again);
    loop_arm(loop, &t->tick, clock_boot_ms() + TOP_TICK_MS);
}

static int top_live(struct top *t)
{
    struct session *s = t->session;
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
    t->feed = (struct feed){ .session = s, .event = on_event, .lost = on_lost, .owner = t };
    if (!feed_open(&t->feed)) {
        t->feed.session = NULL;
        return session_fail(s);
    }
    t->watched = clock_boot_ms();
    t->second = t->watched / 1000;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        loop_on_signal(s->loop, signals[i], on_signal, t);
    screen_take(t);
    t->keys = (struct loop_fd){ STDIN_FILENO, on_key, t };
    if (t->raw)
        loop_add(s->loop, &t->keys, EPOLLIN);
    top_draw(t);
    loop_arm(s->loop, &t->tick, t->watched + TOP_TICK_MS);
    loop_run(s->loop);
    if (t->raw)
        loop_remove(s->loop, &t->keys);
    screen_give_back(t);
    return t->broken ? session_fail(s) : 0;
}

static void top_json(struct top *t)
{
    json_t *all = json_object();
    json_object_set(all, "stats", t->stats);
    json_object_set(all, "lanes", json_object_get(t->lanes, "lanes"));
    json_object_set(all, "nodes", json_object_get(t->nodes, "nodes"));
    json_object_set(all, "running", json_object_get(t->running, "tasks"));
    if (t->queue)
        json_object_set(all, "changesets", t->queue);
    session_print(t->session, all);
    json_decref(all);
}

int top_command(struct session *s)
{
    int status = 0;
    struct top t = { .session = s };
    t.again = (struct loop_timer){ .due = on_due, .owner = &t };
    t.tick = (struct loop_timer){ .due = on_due, .owner = &t };
    if (!top_read(&t))
        status = session_fail(s);
    else if (s->json)
        status = 0, top_json(&t);
    else if (s->term.tty)
        status = top_live(&t);
    else
        status = 0, picture_print(&t, true);
    feed_close(&t.feed);
    loop_disarm(s->loop, &t.again);
    loop_disarm(s->loop, &t.tick);
    json_decref(t.stats);
    json_decref(t.lanes);
    json_decref(t.nodes);
    json_decref(t.running);
    json_decref(t.queue);
    arena_release(&t.arena);
    return status;
}
