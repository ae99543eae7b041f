/* local_view: what a person sees of `weir local`: the picture of `weir wait` on a terminal, else a line a change; then
 * the ends, and the logs of what failed.
 *
 * It is a client of the house like any other. It ends when all tasks have ended by the house's own word, when a signal
 * comes (130 and the like), or when the house or the executor dies, which is reported. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/local.h"
#include "cli/task_table.h"
#include "cli/task_text.h"
#include "cli/wait.h"
#include "io/clock.h"
#include "io/fsx.h"

enum { TICK_MS = 500, DRAW_MS = 100, LOG_TAIL_BYTES = 64 << 10, PIECE_CAP = 4 << 20, SAID_BYTES_MAX = 4 << 20 };

struct view {
    struct local *local;
    struct session session;
    struct wait wait;
    const char *list; /* path of the run's tasks */
    size_t n_open;
    struct loop_timer draw; /* soon after a change */
    int signo;
    bool dead;
};

/* -- the tasks and what they wait for -- */

static void tasks_add(struct view *view, const json_t *tasks)
{
    struct wait *w = &view->wait;
    struct arena *arena = &view->session.arena;
    for (size_t i = json_array_size(tasks); i > 0; i--) { /* newest first, as the server lists them */
        const json_t *document = json_array_get(tasks, i - 1);
        struct wait_task *task = ARENA_PUSH(arena, w->tasks, w->n_tasks, w->cap_tasks);
        *task = (struct wait_task){ .id = field_i64(document, "id", 0),
            .letter = task_letter(document),
            .key = str_dupz(arena, str_of(task_name(document))),
            .name = "",
            .wanted = true };
        map_put(&w->task_by_id, (uint64_t)task->id, (void *)(uintptr_t)w->n_tasks);
        view->n_open += !letter_ended(task->letter);
    }
}

/* -- following -- */

static void on_event(const json_t *event, void *owner)
{
    struct view *view = owner;
    struct wait_task *task = wait_task_find(&view->wait, field_i64(event, "task", 0));
    char to = *field_z(event, "to");
    if (!task || !to)
        return;
    view->n_open -= !letter_ended(task->letter);
    view->n_open += !letter_ended(to);
    task->letter = to;
    task->since = 0;
    if (to == 'X')
        field_time(event, "time", &task->since);
    if (to == 'X' || letter_ended(to) || *field_z(event, "from") == 'X')
        wait_change_print(&view->wait, task->key, to, field_z(event, "reason"));
    if (view->wait.live && !view->draw.node.pos)
        loop_arm(view->session.loop, &view->draw, clock_boot_ms() + DRAW_MS);
    if (view->n_open == 0)
        loop_stop(view->session.loop);
}

static void on_lost(void *owner)
{
    struct view *view = owner;
    view->dead = true;
    loop_stop(view->session.loop);
}

static void on_draw(struct loop_timer *timer)
{
    struct view *view = timer->owner;
    wait_draw(&view->wait);
}

static void on_tick(struct loop_timer *timer)
{
    struct view *view = timer->owner;
    wait_draw(&view->wait);
    loop_arm(view->session.loop, timer, clock_boot_ms() + TICK_MS);
}

static void on_signal(int signo, void *owner)
{
    struct view *view = owner;
    view->signo = signo;
    loop_stop(view->session.loop);
}

static void on_child(int signo, void *owner)
{
    struct view *view = owner;
    pid_t *const parts[] = { &view->local->house, &view->local->executor };
    (void)signo;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (*parts[i] > 0 && waitpid(*parts[i], NULL, WNOHANG) == *parts[i]) {
            *parts[i] = 0;
            on_lost(view);
        }
}

/* -- the end -- */

struct log_output {
    const struct term *term;
    struct term_filter filter;
    bool any;
    char last;
};

static bool log_piece(struct str bytes, void *owner)
{
    struct log_output *out = owner;
    struct buf clean;
    if (bytes.len == 0)
        return true;
    out->any = true;
    out->last = bytes.ptr[bytes.len - 1];
    if (!out->term->tty)
        return fwrite(bytes.ptr, 1, bytes.len, stdout) == bytes.len;
    buf_init(&clean, PIECE_CAP);
    term_filter_add(&out->filter, bytes, &clean);
    bool ok = fwrite(clean.ptr, 1, clean.len, stdout) == clean.len;
    buf_release(&clean);
    return ok;
}

static void log_print(struct view *view, const json_t *task)
{
    struct session *s = &view->session;
    struct log_output out = { .term = &s->term };
    char tail[48];
    snprintf(tail, sizeof tail, "/log?tail=%d", LOG_TAIL_BYTES);
    printf("\n%slog of %s%s\n", paint_on(&s->term, PAINT_BOLD), term_safe_z(&s->arena, task_name(task)),
        paint_off(&s->term, PAINT_BOLD));
    const char *path = session_task_path(s, i64_format(field_i64(task, "id", 0)).z, tail);
    if (!session_stream(s, path, log_piece, &out))
        printf("(it can't be read: %s)\n", s->err.text);
    else if (!out.any)
        puts("(it wrote nothing)");
    else if (out.last != '\n')
        putchar('\n');
}

static bool is_allowed(const struct view *view, const json_t *task)
{
    const struct workflow_task *def = workflow_find(&view->local->definition->workflow, str_of(task_name(task)));
    return def && def->allow_failure;
}

static void ends_print(struct view *view, const json_t *tasks)
{
    struct session *s = &view->session;
    struct table table;
    size_t counts[128] = { 0 };
    table_init(&table, &s->arena, "STATE|TASK|>TOOK|REASON");
    for (size_t i = json_array_size(tasks); i > 0; i--) {
        const json_t *task = json_array_get(tasks, i - 1);
        char letter = task_letter(task);
        int64_t took;
        if (strcmp(task_name(task), "COMMIT") == 0)
            continue;
        counts[(unsigned char)letter % 128]++;
        table_add(&table, paint_of_state(letter), "%c %s", letter, letter_word(letter));
        table_add(&table, PAINT_NONE, "%s", task_name(task));
        table_add(&table, PAINT_NONE, "%s", task_took(task, clock_wall_ms(), &took) ? span_text(took).z : "");
        table_add(&table, PAINT_NONE, "%s%s", task_reason(&s->arena, task),
            letter == 'F' && is_allowed(view, task) ? " (allowed)" : "");
    }
    table_print(&table, &s->term, stdout, 0);
    for (size_t i = json_array_size(tasks); i > 0; i--) {
        const json_t *task = json_array_get(tasks, i - 1);
        if (task_letter(task) != 'D' && json_array_size(json_object_get(task, "attempts")) > 0)
            log_print(view, task);
    }
    const char *between = "\n";
    for (const char *c = state_letters; *c; c++)
        if (counts[(unsigned char)*c] > 0) {
            printf("%s%s%zu %s%s", between, paint_on(&s->term, paint_of_state(*c)), counts[(unsigned char)*c],
                letter_word(*c), paint_off(&s->term, paint_of_state(*c)));
            between = ", ";
        }
    printf(", %s\n", span_text(clock_boot_ms() - view->wait.began).z);
}

/* view_end: by the house's own word, not by what the events made us believe. */
static int view_end(struct view *view)
{
    struct session *s = &view->session;
    bool more, failed = false;
    json_t *tasks = session_pages(s, view->list, "tasks", 0, &more), *task;
    size_t i;
    if (!tasks)
        return s->status;
    json_array_foreach (tasks, i, task)
        failed |= task_letter(task) != 'D' && !(task_letter(task) == 'F' && is_allowed(view, task));
    if (s->json)
        session_print(s, tasks);
    else
        ends_print(view, tasks);
    json_decref(tasks);
    return failed ? 1 : 0;
}

/* death_say: the last words of the process that died. */
static int death_say(struct view *view)
{
    struct arena *arena = &view->session.arena;
    struct str said = { 0 };
    struct err err = { 0 };
    const char *file = str_dupz(arena, str_fmt(arena, "%s/executor.log", view->local->folder));
    fprintf(stderr, "weir local: %s has died; nothing more can run\n",
        view->local->house == 0 ? "the engine's process" : "the executor");
    if (view->local->executor == 0 && fsx_read(file, SAID_BYTES_MAX, arena, &said, &err))
        fwrite(said.ptr, 1, said.len, stderr);
    return 1;
}

static int view_follow(struct view *view)
{
    struct session *s = &view->session;
    bool more;
    view->wait.feed = (struct feed){ .session = s, .event = on_event, .lost = on_lost, .owner = view };
    if (!feed_open(&view->wait.feed)) {
        view->wait.feed.session = NULL;
        return session_fail(s);
    }
    json_t *tasks = session_pages(s, view->list, "tasks", 0, &more);
    if (!tasks)
        return s->status;
    tasks_add(view, tasks);
    json_decref(tasks);
    close(view->local->go);
    view->local->go = -1;
    if (view->wait.live) {
        if (view->wait.n_tasks > 0) /* COMMIT: everything hangs together through it */
            wait_graph_add(&view->wait, i64_format(view->wait.tasks[0].id).z, true);
        loop_arm(s->loop, &view->wait.tick, clock_boot_ms() + DRAW_MS); /* a run that ends sooner needs no picture */
    }
    while (view->n_open > 0 && view->signo == 0 && !view->dead)
        loop_run(s->loop);
    wait_erase(&view->wait);
    fflush(stderr);
    if (view->signo != 0) {
        session_note(s, "weir local: interrupted; what runs is being ended");
        return 128 + view->signo;
    }
    return view->dead ? death_say(view) : view_end(view);
}

static int view_open(struct view *view)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct session *s = &view->session;
    const struct local *local = view->local;
    s->options = local->options;
    session_local(s);
    s->server = str_dupz(&s->arena, str_fmt(&s->arena, "unix:%s", local->socket));
    int status = session_connect(s, true);
    if (status != OPTIONS_RUN)
        return status;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        loop_on_signal(s->loop, signals[i], on_signal, view);
    loop_on_signal(s->loop, SIGCHLD, on_child, view);
    view->list = session_query(s, "/v1/tasks", "archive", str_dupz(&s->arena, local->archive));
    return OPTIONS_RUN;
}

int local_view(struct local *local)
{
    static struct view view;
    view = (struct view){ .local = local };
    int status = view_open(&view);
    if (status != OPTIONS_RUN)
        return status;
    struct wait *w = &view.wait;
    wait_init(w, &view.session, option_given(&local->options, "no-color"));
    w->tick = (struct loop_timer){ .due = on_tick, .owner = &view };
    view.draw = (struct loop_timer){ .due = on_draw, .owner = &view };
    status = view_follow(&view);
    feed_close(&w->feed);
    loop_disarm(view.session.loop, &w->tick);
    loop_disarm(view.session.loop, &view.draw);
    map_release(&w->task_by_id);
    return session_close(&view.session, status);
}
