/* task_table: see task_table.h. */
#include "cli/task_table.h"

#include <ctype.h>
#include <string.h>

#include "cli/task_text.h"
#include "io/clock.h"

enum { PAGE_MAX = 1000 };

/* letters_check: upper-cases and checks --state; NULL: reported. */
static const char *letters_check(struct session *s, const char *letters)
{
    char *out = str_dupz(&s->arena, str_of(letters));
    size_t n = 0;
    for (const char *c = letters; *c; c++) {
        if (*c == ',' || *c == ' ')
            continue;
        out[n] = (char)toupper((unsigned char)*c);
        if (!strchr(state_letters, out[n])) {
            usage_error(s->options.spec, "--state: '%c' is no state; the letters are %s", *c, state_letters);
            return NULL;
        }
        n++;
    }
    out[n] = '\0';
    return out;
}

const char *task_filters(struct session *s, int64_t limit)
{
    static const struct {
        const char *option, *parameter;
    } filters[] = { { "archive", "archive" }, { "queue", "queue" }, { "task", "name" } };
    const char *letters = option_get(&s->options, "state");
    const char *path = session_query_i64(s, "/v1/tasks", "limit", limit == 0 || limit > PAGE_MAX ? PAGE_MAX : limit);
    if (letters && !(letters = letters_check(s, letters)))
        return NULL;
    path = session_query(s, path, "state", letters);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        path = session_query(s, path, filters[i].parameter, option_get(&s->options, filters[i].option));
    return path;
}

bool task_took(const json_t *task, int64_t now_ms, int64_t *out_ms)
{
    int64_t started, finished = now_ms;
    const char *state = json_string_value(json_object_get(task, "state")); /* an attempt has none */
    bool waits = state != NULL && state[0] != '\0' && strchr("QSP", state[0]) != NULL;
    if (waits || !field_time(task, "started", &started))
        return false;
    field_time(task, "finished", &finished);
    *out_ms = finished - started;
    return true;
}

void task_table_print(struct session *s, const json_t *tasks)
{
    struct table table;
    int64_t now = clock_wall_ms();
    const json_t *task;
    size_t i;
    table_init(&table, &s->arena, "STATE|KEY|NAME|>CREATED|>TOOK|REASON");
    json_array_foreach (tasks, i, task) {
        char letter = task_letter(task);
        int64_t created, took;
        table_add(&table, paint_of_state(letter), "%c %s", letter, letter_word(letter));
        table_add(&table, PAINT_NONE, "%s", task_key(&s->arena, task));
        table_add(&table, PAINT_NONE, "%s", task_name(task));
        table_add(&table, PAINT_DIM, "%s", field_time(task, "created", &created) ? ago_text(created, now).z : "");
        table_add(&table, PAINT_DIM, "%s", task_took(task, now, &took) ? span_text(took).z : "");
        table_add(&table, PAINT_NONE, "%s", task_reason(&s->arena, task));
    }
    table_print(&table, &s->term, stdout, 0);
}
