/* history: the tasks that have ended, newest first; or all that happened to one task. */
#include "cmd/command.h"
#include "cmd/events.h"
#include "cmd/session.h"
#include "cmd/task_table.h"
#include "cmd/task_text.h"
#include "io/clock.h"

enum { HISTORY_DEFAULT = 50, HISTORY_PATH_CAP = 16 * 1024 };

static const struct option_spec history_options[] = {
    { "state", 0, "LETTERS", "only these ends: D done, F failed, T terminated, A abandoned (default: all four)", OPTION_NON_EMPTY, NULL },
    { "archive", 0, "A", "only this archive", OPTION_NON_EMPTY, NULL },
    { "queue", 0, "Q", "only this queue", OPTION_NON_EMPTY, NULL },
    { "task", 0, "T", "only tasks of this name", OPTION_NON_EMPTY, NULL },
    { "limit", 0, "N", "at most N, the newest (default 50; 0: all)", 0, NULL },
    { 0 },
};
const struct command_spec history_spec = {
    .name = "history",
    .operands = "[KEY]",
    .operands_max = 1,
    .summary = "what has ended, newest first; with a KEY: all that happened to that task",
    .options = history_options,
    .flags = COMMAND_CLIENT,
};

static void history_print(struct session *s, const json_t *tasks)
{
    struct table table;
    int64_t now = clock_wall_ms(), finished, took;
    const json_t *task;
    size_t i;
    table_init(&table, &s->arena, "ENDED|STATE|KEY|NAME|>TOOK|>ATTEMPTS|REASON");
    json_array_foreach (tasks, i, task) {
        char letter = task_letter(task);
        table_add(&table, PAINT_DIM, "%s", field_time(task, "finished", &finished) ? local_text(finished).z : "");
        table_add(&table, paint_of_state(letter), "%c %s", letter, letter_word(letter));
        table_add(&table, PAINT_NONE, "%s", task_key(&s->arena, task));
        table_add(&table, PAINT_NONE, "%s", task_name(task));
        table_add(&table, PAINT_DIM, "%s", task_took(task, now, &took) ? span_text(took).z : "");
        table_add(&table, PAINT_DIM, "%zu", json_array_size(json_object_get(task, "attempts")));
        table_add(&table, PAINT_NONE, "%s", task_reason(&s->arena, task));
    }
    table_print(&table, &s->term, stdout, 0);
    if (i == 0)
        session_note(s, "nothing has ended that matches");
}

static int history_of_all(struct session *s)
{
    int64_t limit = HISTORY_DEFAULT;
    struct buf path;
    bool more;
    buf_init(&path, HISTORY_PATH_CAP);
    bool ok = option_i64(&s->options, "limit", 0, INT32_MAX, &limit) && task_filters(s, &path, limit);
    if (ok && !option_given(&s->options, "state"))
        session_query(s, &path, "state", "DFTA");
    json_t *tasks = ok ? session_pages(s, path.ptr, "tasks", limit, &more) : NULL;
    buf_release(&path);
    if (!tasks)
        return ok ? s->status : EXIT_USAGE;
    if (s->json)
        session_print(s, tasks);
    else
        history_print(s, tasks);
    json_decref(tasks);
    return 0;
}

int history_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &history_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    status = s.options.n_operands ? events_of_task(&s, s.options.operands[0]) : history_of_all(&s);
    return session_close(&s, status);
}
