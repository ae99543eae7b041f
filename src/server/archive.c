/* archive: add, look at, remove archives; give up a revision that will never come. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "server/archive_hook.h"
#include "cli/command.h"
#include "cli/lane_table.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"
#include "text/json_value.h"

enum { REVISIONS_SHOWN = 10 };

/* --- add --- */

static bool is_url(const char *text)
{
    return strstr(text, "://") != NULL;
}

/* place_of: an absolute path; NULL: reported. A path that is absolute and isn't here may be the server's: it says what
 * it finds there. */
static const char *place_of(struct session *s, const char *text)
{
    char real[PATH_MAX];
    if (is_url(text))
        return text;
    if (realpath(text, real) != NULL)
        return str_dupz(&s->arena, str_of(real));
    if (*text == '/')
        return text;
    session_err(s, ERR_not_found, "%s: %s", text, strerror(errno));
    return NULL;
}

static json_t *add_body(struct session *s)
{
    const struct options *o = &s->options;
    const char *svn = option_get(o, "svn"), *git = option_get(o, "git"), *url = NULL;
    int64_t from = 0;
    s->status = EXIT_USAGE;
    if ((svn != NULL) + (git != NULL) + option_given(o, "external") != 1) {
        usage_error(s->options.spec, "one of --svn, --git and --external is needed");
        return NULL;
    }
    if (option_given(o, "branch") && !git) {
        usage_error(s->options.spec, "--branch goes with --git");
        return NULL;
    }
    if (!option_i64(o, "from", 1, INT64_MAX / 2, &from))
        return NULL;
    if ((svn || git) && !(url = place_of(s, svn ? svn : git)))
        return NULL;
    if (!str_is_utf8(str_of(o->operands[0])) || (url && !str_is_utf8(str_of(url))) || !session_utf8(s, "branch")) {
        session_err(s, ERR_invalid, "the name, the path and the branch must be UTF-8");
        return NULL;
    }
    json_t *body = json_object();
    json_object_set_new(body, "name", json_string(o->operands[0]));
    json_object_set_new(body, "kind", json_string(svn ? "svn" : git ? "git" : "external"));
    if (url)
        json_object_set_new(body, "url", json_string(url));
    session_put(s, body, "branch", "branch");
    if (from > 0)
        json_object_set_new(body, "from", json_integer((json_int_t)from));
    return body;
}

static void added_print(struct session *s, const json_t *archive)
{
    printf("%s: %s, next revision %lld\n", term_safe_z(&s->arena, field_z(archive, "name")), field_z(archive, "kind"),
        (long long)field_i64(archive, "next", 0));
}

int archive_add_command(struct session *s)
{
    json_t *body = add_body(s), *posted = json_copy(body); /* the hook adds to the body what it knows */
    if (!body)
        return s->status;
    bool hook = !option_given(&s->options, "no-hook"), early = hook && archive_hook_early(s, body);
    json_t *archive = session_post(s, "/v1/archives", posted);
    if (!archive && early)
        archive_hook_remove(s, body);
    json_decref(body);
    int status = session_answer(s, json_incref(archive), added_print);
    fflush(stdout);
    if (archive && hook)
        archive_hook_install(s, archive);
    json_decref(archive);
    return status;
}

/* --- list, show --- */

static const char *watch_text(struct session *s, const json_t *archive)
{
    const json_t *watch = json_object_get(archive, "watch");
    const char *detail = *field_z(watch, "fault") ? field_z(watch, "fault") : field_z(watch, "detail");
    if (json_is_integer(json_object_get(archive, "missing")))
        return str_dupz(
            &s->arena, str_fmt(&s->arena, "waits for revision %lld", (long long)field_i64(archive, "missing", 0)));
    return str_dupz(&s->arena, str_fmt(&s->arena, "%s%s%s", field_z(watch, "state"), *detail ? ": " : "", detail));
}

void archives_print(struct session *s, const json_t *archives)
{
    struct table table;
    const json_t *archive;
    size_t i;
    table_init(&table, &s->arena, "NAME|KIND|>NEXT|>YOUNGEST|>WAIT|>RUN|>FAILED|STATE|PLACE");
    json_array_foreach (archives, i, archive) {
        int64_t youngest = field_i64(archive, "youngest", 0), failed = lane_count(archive, 'F'),
                running = lane_count(archive, 'X');
        const char *watch = watch_text(s, archive);
        table_add(&table, PAINT_BOLD, "%s", field_z(archive, "name"));
        table_add(&table, PAINT_NONE, "%s", field_z(archive, "kind"));
        table_add(&table, PAINT_NONE, "%lld", (long long)field_i64(archive, "next", 0));
        table_add(&table, PAINT_NONE, youngest > 0 ? "%lld" : "", (long long)youngest);
        table_add(&table, PAINT_NONE, "%lld", (long long)(lane_unfinished(archive) - running));
        table_add(&table, PAINT_NONE, "%lld", (long long)running);
        table_add(&table, failed ? PAINT_RED : PAINT_DIM, "%lld", (long long)failed);
        table_add(&table, strcmp(watch, "ok") == 0 ? PAINT_DIM : PAINT_YELLOW, "%s", first_line(s, watch, 60));
        table_add(&table, PAINT_NONE, "%s%s%s", field_z(archive, "url"), *field_z(archive, "branch") ? " " : "",
            field_z(archive, "branch"));
    }
    table_print(&table, &s->term, stdout, 0);
    if (i == 0)
        session_note(s, "there are no archives; `weir archive add` makes one");
}

static void schedules_print(struct session *s, const json_t *archive)
{
    const json_t *schedules = json_object_get(archive, "schedules"), *schedule;
    int64_t now = clock_wall_ms(), next;
    struct table table;
    size_t i;
    table_init(&table, &s->arena, "SCHEDULED|CRON|ZONE|NEXT");
    json_array_foreach (schedules, i, schedule) {
        table_add(&table, PAINT_BOLD, "%s", field_z(schedule, "task"));
        table_add(&table, PAINT_NONE, "%s", field_z(schedule, "cron"));
        table_add(&table, PAINT_NONE, "%s", *field_z(schedule, "tz") ? field_z(schedule, "tz") : "UTC");
        if (field_time(schedule, "next", &next))
            table_add(&table, PAINT_NONE, "%s  (%s)", local_text(next).z, ago_text(next, now).z);
        else
            table_add(&table, PAINT_NONE, "never");
    }
    if (json_array_size(schedules) > 0)
        fputc('\n', stdout);
    table_print(&table, &s->term, stdout, 0);
}

void archive_print(struct session *s, const json_t *archive)
{
    const char *paused = lane_paused(&s->arena, archive);
    session_line(s, "archive", PAINT_NONE, field_z(archive, "name"));
    session_line(s, "kind", PAINT_NONE, field_z(archive, "kind"));
    session_line(s, "place", PAINT_NONE, field_z(archive, "url"));
    session_line(s, "branch", PAINT_NONE, field_z(archive, "branch"));
    time_line(archive, "added", "added", clock_wall_ms());
    printf("%-10s %lld\n", "from", (long long)field_i64(archive, "from", 1));
    printf("%-10s %lld\n", "next", (long long)field_i64(archive, "next", 0));
    if (field_i64(archive, "youngest", 0) > 0)
        printf("%-10s %lld\n", "youngest", (long long)field_i64(archive, "youngest", 0));
    session_line(s, "state", PAINT_NONE, watch_text(s, archive));
    session_line(s, "hook", PAINT_NONE, archive_hook_state(s, archive));
    session_line(s, "paused", PAINT_NONE, paused ? paused : "");
    printf("%-10s", "tasks");
    for (const char *c = state_letters; *c; c++)
        if (lane_count(archive, *c) > 0)
            printf(" %s%lld %s%s", paint_on(&s->term, paint_of_state(*c)), (long long)lane_count(archive, *c),
                letter_word(*c), paint_off(&s->term, paint_of_state(*c)));
    fputc('\n', stdout);
    schedules_print(s, archive);
    bool more;
    const char *path = archive_path(s, s->options.operands[0], "/revisions?limit=10");
    json_t *revisions = session_pages(s, path, "revisions", REVISIONS_SHOWN, &more);
    if (json_array_size(revisions) > 0) {
        fputc('\n', stdout);
        revision_table_print(s, revisions);
    }
    json_decref(revisions);
}

/* --- remove, skip --- */

static void removed_print(struct session *s, const json_t *answer)
{
    (void)answer;
    printf("%s is removed\n", term_safe_z(&s->arena, s->options.operands[0]));
}

int archive_remove_command(struct session *s)
{
    const char *path = archive_path(s, s->options.operands[0], "");
    json_t *archive = session_get(s, path);
    if (!archive)
        return s->status;
    path = session_query(s, path, "reason", option_get(&s->options, "reason"));
    int status = session_answer(
        s, session_call(s, &(struct session_request){ .method = "DELETE", .path = path }), removed_print);
    if (status == 0)
        archive_hook_remove(s, archive);
    json_decref(archive);
    return status;
}

static void skipped_print(struct session *s, const json_t *answer)
{
    printf(
        "%s@%lld is skipped\n", term_safe_z(&s->arena, s->options.operands[0]), (long long)field_i64(answer, "rev", 0));
}

int archive_skip_command(struct session *s)
{
    int64_t rev;
    if (!str_to_i64(str_of(s->options.operands[1]), &rev) || rev < 1)
        return usage_error(s->options.spec, "'%s' is no revision", s->options.operands[1]);
    if (!session_utf8(s, "reason"))
        return s->status;
    json_t *answer = session_post(s, archive_path(s, s->options.operands[0], "/skip"),
        json_pack("{s:I, s:s}", "rev", (json_int_t)rev, "reason", option_get(&s->options, "reason")));
    return session_answer(s, answer, skipped_print);
}
