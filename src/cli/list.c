/* list: tasks, newest first, by filters. */
#include <ctype.h>
#include <string.h>

#include "cli/command.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "cli/task_table.h"
#include "cli/task_text.h"

enum { LIST_DEFAULT = 1000 };

int list_command(struct session *s)
{
    int64_t limit = LIST_DEFAULT, rev = 0;
    const char *path = NULL;
    if (!option_i64(&s->options, "limit", 0, INT32_MAX, &limit) ||
        !option_i64(&s->options, "rev", 1, INT64_MAX, &rev) || !(path = task_filters(s, limit)))
        return EXIT_USAGE;
    bool more;
    json_t *tasks =
        session_pages(s, session_query(s, path, "rev", option_get(&s->options, "rev")), "tasks", limit, &more);
    const char *archive = option_get(&s->options, "archive");
    if (tasks && json_array_size(tasks) == 0 && archive) { /* nothing of an archive that isn't there is no answer */
        json_t *asked = session_get(s, archive_path(s, archive, ""));
        if (!asked) {
            json_decref(tasks);
            tasks = NULL;
        }
        json_decref(asked);
    }
    if (!tasks)
        return s->status;
    bool none = json_array_size(tasks) == 0;
    session_answer(s, tasks, task_table_print);
    if (!s->json && none)
        session_note(s, "no tasks match");
    if (!s->json && more)
        session_note(s, "there are more; --limit shows them");
    return 0;
}
