/* list: tasks, newest first, by filters. */
#include <ctype.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/revision_text.h"
#include "cmd/session.h"
#include "cmd/task_table.h"
#include "cmd/task_text.h"

enum { LIST_DEFAULT = 1000, LIST_PATH_CAP = 16 * 1024 };

static const struct option_spec list_options[] = {
    { "state", 0, "LETTERS",
        "only these states, such as SPX: Q queued, S staged, P pending, X executing, D done, F failed, T terminated, A abandoned",
        OPTION_NON_EMPTY, NULL },
    { "archive", 0, "A", "only this archive", OPTION_NON_EMPTY, NULL },
    { "rev", 0, "N", "with --archive: only this revision", 0, NULL },
    { "queue", 0, "Q", "only this queue", OPTION_NON_EMPTY, NULL },
    { "task", 0, "T", "only tasks of this name", OPTION_NON_EMPTY, NULL },
    { "limit", 0, "N", "at most N, the newest (default 1000; 0: all)", 0, NULL },
    { 0 },
};
static const char *const list_examples[] = {
    "what runs or waits",
    "weir list --state SPX",
    "a task of an archive, revision by revision",
    "weir list --archive docs --task build-PDF",
    "the last ten failures of a queue",
    "weir list --state F --queue builds --limit 10",
    NULL,
};
const struct command_spec list_spec = {
    .name = "list",
    .operands = "",
    .summary = "tasks, newest first",
    .options = list_options,
    .flags = COMMAND_CLIENT,
    .examples = list_examples,
};

int list_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &list_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    int64_t limit = LIST_DEFAULT, rev = 0;
    struct buf path;
    buf_init(&path, LIST_PATH_CAP);
    if (!option_i64(&s.options, "limit", 0, INT32_MAX, &limit) || !option_i64(&s.options, "rev", 1, INT64_MAX, &rev) ||
        !task_filters(&s, &path, limit)) {
        buf_release(&path);
        return session_close(&s, EXIT_USAGE);
    }
    session_query(&s, &path, "rev", option_get(&s.options, "rev"));
    bool more;
    json_t *tasks = session_pages(&s, path.ptr, "tasks", limit, &more);
    buf_release(&path);
    const char *archive = option_get(&s.options, "archive");
    if (tasks && json_array_size(tasks) == 0 && archive) { /* nothing of an archive that isn't there is no answer */
        json_t *asked = session_get(&s, archive_path(&s, archive, ""));
        if (!asked) {
            json_decref(tasks);
            tasks = NULL;
        }
        json_decref(asked);
    }
    if (!tasks)
        return session_close(&s, s.status);
    if (s.json) {
        session_print(&s, tasks);
    } else {
        task_table_print(&s, tasks);
        if (json_array_size(tasks) == 0)
            session_note(&s, "no tasks match");
        if (more)
            session_note(&s, "there are more; --limit shows them");
    }
    json_decref(tasks);
    return session_close(&s, 0);
}
