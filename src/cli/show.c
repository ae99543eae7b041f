/* show: one task, everything that is known about it. */
#include "cli/command.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "cli/task_table.h"
#include "cli/task_text.h"
#include "io/clock.h"
#include "text/json_value.h"

/* edge_lines: depends, after, cancels; each {id, key, on, state}. */
static void edge_lines(struct session *s, const json_t *task, const char *field)
{
    const json_t *edges = json_object_get(task, field), *edge;
    size_t i;
    json_array_foreach (edges, i, edge) {
        const char *state = field_z(edge, "state"), *on = field_z(edge, "on");
        printf("%-10s %s", i ? "" : field, term_safe_z(&s->arena, task_key(&s->arena, edge)));
        if (*on)
            printf(" on %s", term_safe_z(&s->arena, on));
        if (*state)
            printf("  %s%c %s%s", paint_on(&s->term, paint_of_state(*state)), *state, letter_word(*state),
                paint_off(&s->term, paint_of_state(*state)));
        fputc('\n', stdout);
    }
}

static void attempts_print(struct session *s, const json_t *task, int64_t now)
{
    const json_t *attempts = json_object_get(task, "attempts"), *a;
    struct table table;
    size_t i;
    table_init(&table, &s->arena, ">ATTEMPT|EXECUTOR|STARTED|>TOOK|OUTCOME|EXIT|>CPU|>MEMORY");
    json_array_foreach (attempts, i, a) {
        const json_t *usage = json_object_get(a, "usage");
        int64_t started, took, cpu = field_i64(usage, "cpu_ms", -1), rss = field_i64(usage, "max_rss_bytes", -1);
        char end[32] = "";
        if (json_is_integer(json_object_get(a, "exit")))
            snprintf(end, sizeof end, "%lld", (long long)field_i64(a, "exit", 0));
        else if (json_is_integer(json_object_get(a, "signal")))
            snprintf(end, sizeof end, "signal %lld", (long long)field_i64(a, "signal", 0));
        table_add(&table, PAINT_NONE, "%lld", (long long)field_i64(a, "number", (int64_t)i + 1));
        table_add(&table, PAINT_NONE, "%s", field_z(a, "executor"));
        table_add(&table, PAINT_NONE, "%s", field_time(a, "started", &started) ? local_text(started).z : "");
        table_add(&table, PAINT_NONE, "%s", task_took(a, now, &took) ? span_text(took).z : "");
        table_add(&table, PAINT_NONE, "%s", field_z(a, "outcome"));
        table_add(&table, PAINT_NONE, "%s", end);
        table_add(&table, PAINT_DIM, "%s", cpu >= 0 ? span_text(cpu).z : "");
        table_add(&table, PAINT_DIM, "%s", rss >= 0 ? bytes_text(rss).z : "");
    }
    if (json_array_size(attempts) > 0)
        fputc('\n', stdout);
    table_print(&table, &s->term, stdout, 0);
}

static void artifacts_print(struct session *s, const json_t *task)
{
    const json_t *list = json_object_get(task, "artifacts");
    if (json_array_size(list) == 0)
        return;
    fputs("\nartifacts\n", stdout);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        printf("  %s  (%lld bytes)\n", term_safe_z(&s->arena, field_z(row, "name")),
            (long long)field_i64(row, "bytes", 0));
    }
}

static void pairs_print(struct session *s, const char *title, json_t *pairs)
{
    json_t *value;
    const char *name;
    if (json_object_size(pairs) == 0)
        return;
    printf("\n%s\n", title);
    json_object_foreach (pairs, name, value) {
        struct str text = json_is_string(value) ? str_of(json_string_value(value)) : json_text(&s->arena, value, false);
        printf("  %s=%s\n", term_safe_z(&s->arena, name), term_safe(&s->arena, text));
    }
}

static void task_print(struct session *s, const json_t *task)
{
    static const struct {
        const char *label, *field;
    } times[] = {
        { "created", "created" },
        { "not before", "not_before" },
        { "ready", "ready" },
        { "started", "started" },
        { "finished", "finished" },
    };
    int64_t now = clock_wall_ms(), took;
    char letter = task_letter(task), state[64];
    snprintf(state, sizeof state, "%c %s", letter, letter_word(letter));
    session_line(s, "task", PAINT_BOLD, task_key(&s->arena, task));
    session_line(s, "id", PAINT_NONE, i64_format(field_i64(task, "id", 0)).z);
    session_line(s, "name", PAINT_NONE, task_name(task));
    session_line(s, "state", paint_of_state(letter), state);
    session_line(s, "reason", PAINT_NONE, task_reason(&s->arena, task));
    session_line(s, "outcome", PAINT_NONE, field_z(task, "outcome"));
    if (field_i64(task, "priority", 0) != 0)
        session_line(s, "priority", PAINT_NONE, i64_format(field_i64(task, "priority", 0)).z);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        time_line(task, times[i].label, times[i].field, now);
    if (task_took(task, now, &took))
        session_line(s, "took", PAINT_NONE, span_text(took).z);
    edge_lines(s, task, "depends");
    edge_lines(s, task, "after");
    edge_lines(s, task, "cancels");
    attempts_print(s, task, now);
    pairs_print(s, "parameters", json_object_get(json_object_get(task, "spec"), "params"));
    pairs_print(s, "outputs", json_object_get(task, "outputs"));
    artifacts_print(s, task);
    if (!letter_ended(letter) && letter != 'X')
        session_note(s, "\n`weir why %s` tells why it doesn't run", s->options.operands[0]);
}

static void revision_show(struct session *s, const json_t *revision)
{
    revision_head_print(s, revision);
    definition_print(s, revision);
    revision_tasks_print(s, revision);
}

int show_command(struct session *s)
{
    const char *operand = s->options.operands[0];
    if (operand_is_revision(operand))
        return session_answer(s, session_get(s, revision_path(s, operand)), revision_show);
    return session_answer(s, session_get(s, session_task_path(s, operand, "")), task_print);
}
