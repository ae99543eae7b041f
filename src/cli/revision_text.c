/* revision_text: see revision_text.h. Nothing here fails: an absent field is shown as nothing. */
#include "cli/revision_text.h"

#include <string.h>

#include "cli/task_table.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { MESSAGE_WIDTH = 60, LOG_CAP = 4 << 20 };

bool operand_is_revision(const char *operand)
{
    const char *at = strchr(operand, '@');
    return at && !strchr(at, ':');
}

const char *revision_path(struct session *s, const char *operand)
{
    const char *at = strchr(operand, '@');
    struct str archive = client_encode(&s->arena, (struct str){ operand, (size_t)(at - operand) }),
               rev = client_encode(&s->arena, str_of(at + 1));
    return str_dupz(&s->arena, str_fmt(&s->arena, "/v1/archives/%.*s/revisions/%.*s", STR_ARG(archive), STR_ARG(rev)));
}

const char *archive_path(struct session *s, const char *name, const char *tail)
{
    struct str archive = client_encode(&s->arena, str_of(name));
    return str_dupz(&s->arena, str_fmt(&s->arena, "/v1/archives/%.*s%s", STR_ARG(archive), tail));
}

const char *first_line(struct session *s, const char *text, int width)
{
    struct str rest = str_of(text), line = { 0 };
    str_cut(&rest, '\n', &line);
    return str_dupz(&s->arena, term_cut(&s->arena, &s->term, str_of(term_safe(&s->arena, line)), width));
}

static void message_print(struct session *s, const char *message)
{
    struct str rest = str_of(message), one;
    for (bool first = true; str_cut(&rest, '\n', &one); first = false)
        if (first || one.len > 0 || rest.len > 0)
            printf("%-10s %s\n", first ? "message" : "", term_safe(&s->arena, one));
}

static void prevs_print(const json_t *revision)
{
    const json_t *prevs = json_object_get(revision, "prev"), *prev;
    size_t i;
    json_array_foreach (prevs, i, prev)
        printf("%-10s %lld\n", i ? "" : "previous", (long long)json_integer_value(prev));
}

void revision_head_print(struct session *s, const json_t *revision)
{
    char title[200];
    int64_t now = clock_wall_ms();
    const char *state = field_z(revision, "state");
    snprintf(
        title, sizeof title, "%.120s@%lld", field_z(revision, "archive"), (long long)field_i64(revision, "rev", 0));
    session_line(s, "revision", PAINT_BOLD, title);
    if (strcmp(state, "known") != 0)
        session_line(s, "state", PAINT_YELLOW,
            strcmp(state, "waiting") == 0 ? "waiting: an earlier revision is missing" : state);
    session_line(s, "commit", PAINT_NONE, field_z(revision, "commit"));
    session_line(s, "author", PAINT_NONE, field_z(revision, "author"));
    if (*field_z(revision, "message"))
        message_print(s, field_z(revision, "message"));
    time_line(revision, "committed", "time", now);
    time_line(revision, "noted", "noted", now);
    session_line(s, "cause", PAINT_NONE, field_z(revision, "cause"));
    if (field_i64(revision, "depth", 0) > 0)
        session_line(s, "depth", PAINT_NONE, i64_format(field_i64(revision, "depth", 0)).z);
    prevs_print(revision);
}

void revision_tasks_print(struct session *s, const json_t *revision)
{
    fputc('\n', stdout);
    task_table_print(s, json_object_get(revision, "tasks"));
}

void revision_print(struct session *s, const json_t *revision)
{
    revision_head_print(s, revision);
    revision_tasks_print(s, revision);
}

void definition_print(struct session *s, const json_t *revision)
{
    const json_t *files = json_object_get(revision, "definition"), *file;
    size_t i;
    json_array_foreach (files, i, file) {
        struct str text = str_of(field_z(file, "text"));
        struct term_filter filter = { 0 };
        struct buf clean;
        printf("\n%s%s%s\n", paint_on(&s->term, PAINT_BOLD), term_safe_z(&s->arena, field_z(file, "name")),
            paint_off(&s->term, PAINT_BOLD));
        buf_init(&clean, LOG_CAP);
        if (s->term.tty)
            term_filter_add(&filter, text, &clean);
        struct str shown = s->term.tty ? buf_str(&clean) : text;
        if (shown.len > 0)
            fwrite(shown.ptr, 1, shown.len, stdout);
        if (shown.len > 0 && shown.ptr[shown.len - 1] != '\n')
            fputc('\n', stdout);
        buf_release(&clean);
    }
}

void revision_table_print(struct session *s, const json_t *revisions)
{
    struct table table;
    const json_t *revision;
    int64_t now = clock_wall_ms(), time;
    size_t i;
    table_init(&table, &s->arena, ">REV|STATE|AUTHOR|>NOTED|MESSAGE");
    json_array_foreach (revisions, i, revision) {
        const char *state = field_z(revision, "state");
        table_add(&table, PAINT_BOLD, "%lld", (long long)field_i64(revision, "rev", 0));
        table_add(&table, strcmp(state, "known") == 0 ? PAINT_DIM : PAINT_YELLOW, "%s", state);
        table_add(&table, PAINT_NONE, "%s", first_line(s, field_z(revision, "author"), 30));
        table_add(&table, PAINT_DIM, "%s", field_time(revision, "noted", &time) ? ago_text(time, now).z : "");
        table_add(&table, PAINT_NONE, "%s", first_line(s, field_z(revision, "message"), MESSAGE_WIDTH));
    }
    table_print(&table, &s->term, stdout, 0);
}
