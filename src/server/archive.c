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
    if (option_given(o, "branch"))
        json_object_set_new(body, "branch", json_string(option_get(o, "branch")));
    if (from > 0)
        json_object_set_new(body, "from", json_integer((json_int_t)from));
    return body;
}

int archive_add_command(struct session *s)
{
    json_t *body = add_body(s);
    if (!body)
        return s->status;
    const char *key = option_get(&s->options, "idempotency-key");
    const char *const headers[] = { "Idempotency-Key", key, NULL };
    struct str text = json_text(&s->arena, body, false);
    bool hook = !option_given(&s->options, "no-hook"), early = hook && archive_hook_early(s, body);
    json_t *archive =
        session_call(s, &(struct session_request){
                            .method = "POST", .path = "/v1/archives", .body = text, .headers = key ? headers : NULL });
    if (!archive && early)
        archive_hook_remove(s, body);
    json_decref(body);
    if (!archive)
        return s->status;
    if (s->json)
        session_print(s, archive);
    else
        printf("%s: %s, next revision %lld\n", term_safe_z(&s->arena, field_z(archive, "name")),
            field_z(archive, "kind"), (long long)field_i64(archive, "next", 0));
    fflush(stdout);
    if (hook)
        archive_hook_install(s, archive);
    json_decref(archive);
    return 0;
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

static void line(struct session *s, const char *label, const char *text)
{
    if (*text)
        printf("%-10s %s\n", label, term_safe_z(&s->arena, text));
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

static void archive_print(struct session *s, const json_t *archive)
{
    const char *paused = lane_paused(&s->arena, archive);
    int64_t added, now = clock_wall_ms();
    line(s, "archive", field_z(archive, "name"));
    line(s, "kind", field_z(archive, "kind"));
    line(s, "place", field_z(archive, "url"));
    line(s, "branch", field_z(archive, "branch"));
    if (field_time(archive, "added", &added))
        printf("%-10s %s  (%s)\n", "added", local_text(added).z, ago_text(added, now).z);
    printf("%-10s %lld\n", "from", (long long)field_i64(archive, "from", 1));
    printf("%-10s %lld\n", "next", (long long)field_i64(archive, "next", 0));
    if (field_i64(archive, "youngest", 0) > 0)
        printf("%-10s %lld\n", "youngest", (long long)field_i64(archive, "youngest", 0));
    line(s, "state", watch_text(s, archive));
    line(s, "hook", archive_hook_state(s, archive));
    line(s, "paused", paused ? paused : "");
    printf("%-10s", "tasks");
    for (const char *c = state_letters; *c; c++)
        if (lane_count(archive, *c) > 0)
            printf(" %s%lld %s%s", paint_on(&s->term, paint_of_state(*c)), (long long)lane_count(archive, *c),
                letter_word(*c), paint_off(&s->term, paint_of_state(*c)));
    fputc('\n', stdout);
    schedules_print(s, archive);
}

int archive_show_command(struct session *s)
{
    json_t *archive = session_get(s, archive_path(s, s->options.operands[0], "")), *revisions = NULL;
    if (!archive)
        return s->status;
    if (s->json) {
        session_print(s, archive);
    } else {
        bool more;
        archive_print(s, archive);
        const char *path = archive_path(s, s->options.operands[0], "/revisions?limit=10");
        if ((revisions = session_pages(s, path, "revisions", REVISIONS_SHOWN, &more)) != NULL &&
            json_array_size(revisions) > 0) {
            fputc('\n', stdout);
            revision_table_print(s, revisions);
        }
    }
    json_decref(revisions);
    json_decref(archive);
    return 0;
}

/* --- remove, skip --- */

int archive_remove_command(struct session *s)
{
    int status = 0;
    json_t *archive = session_get(s, archive_path(s, s->options.operands[0], "")), *answer = NULL;
    if (archive) {
        struct buf path;
        buf_init(&path, 16384);
        buf_add_z(&path, archive_path(s, s->options.operands[0], ""));
        session_query(s, &path, "reason", option_get(&s->options, "reason"));
        answer = session_call(s, &(struct session_request){ .method = "DELETE", .path = path.ptr });
        buf_release(&path);
    }
    if (answer && s->json)
        session_print(s, answer);
    else if (answer)
        printf("%s is removed\n", term_safe_z(&s->arena, s->options.operands[0]));
    if (answer)
        archive_hook_remove(s, archive);
    status = answer ? 0 : s->status;
    json_decref(answer);
    json_decref(archive);
    return status;
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
    if (!answer)
        return s->status;
    if (s->json)
        session_print(s, answer);
    else
        printf("%s@%lld is skipped\n", term_safe_z(&s->arena, s->options.operands[0]), (long long)rev);
    json_decref(answer);
    return 0;
}
