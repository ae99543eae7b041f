/* status: what is going on: queues and archives with their counts, what runs, what is paused. */
#include <string.h>

#include "cli/changeset_text.h"
#include "cli/command.h"
#include "cli/lane_table.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "cli/task_table.h"
#include "cli/task_text.h"

static void lanes_print(struct session *s, const json_t *lanes)
{
    struct table table;
    lane_table(&table, &s->arena, lanes);
    table_print(&table, &s->term, stdout, 0);
    if (json_array_size(lanes) == 0)
        session_note(
            s, "no queue and no archive is here; `weir enqueue` posts a task, `weir archive add` follows a repository");
}

/* archive_stand: of an archive: where its revisions stand. Nothing when that can't be asked: the counts are there all
 * the same. */
static void archive_stand(struct session *s, const char *name)
{
    json_t *archive = session_look(s, archive_path(s, name, ""));
    json_t *page = session_look(s, archive_path(s, name, "/revisions?limit=5"));
    const json_t *revisions = json_object_get(page, "revisions");
    const char *fault = field_z(json_object_get(archive, "watch"), "fault");
    if (json_is_integer(json_object_get(archive, "missing")))
        printf(
            "\nrevision %lld is missing: those behind it wait for it\n", (long long)field_i64(archive, "missing", 0));
    if (*fault)
        printf("\nthe repository can't be read: %s\n", term_safe_z(&s->arena, fault));
    if (json_array_size(revisions) > 0) {
        fputc('\n', stdout);
        revision_table_print(s, revisions);
    }
    json_decref(page);
    json_decref(archive);
}

/* queue_stand: of a target: its change sets, in the order in which they are taken. */
static void queue_stand(struct session *s, const char *name)
{
    json_t *queue = queue_read(s, name);
    if (json_array_size(queue) > 0) {
        fputc('\n', stdout);
        queue_print(s, queue);
    }
    json_decref(queue);
}

static int status_lane(struct session *s, const json_t *lanes, const char *name)
{
    const json_t *lane = lane_find(lanes, name);
    if (!lane)
        return session_err(s, ERR_not_found, "there is no archive or queue '%s'; `weir status` lists them", name);
    if (s->json) {
        session_print(s, lane);
        return 0;
    }
    json_t *both = json_array(), *other; /* an archive, and the target of its name */
    bool is_target = false;
    size_t i;
    json_array_foreach (lanes, i, other)
        if (strcmp(field_z(other, "name"), name) == 0 && strcmp(field_z(other, "kind"), "all") != 0) {
            json_array_append(both, other);
            is_target = is_target || strcmp(field_z(other, "kind"), "target") == 0;
        }
    lanes_print(s, both);
    json_decref(both);
    if (is_target)
        queue_stand(s, name);
    if (strcmp(field_z(lane, "kind"), "target") == 0)
        return 0;
    bool is_archive = strcmp(field_z(lane, "kind"), "archive") == 0;
    if (is_archive)
        archive_stand(s, name);
    if (lane_unfinished(lane) == 0)
        return 0;
    bool more;
    const char *path = session_query(s, "/v1/tasks?state=QSPX&limit=50", is_archive ? "archive" : "queue", name);
    json_t *tasks = session_pages(s, path, "tasks", 50, &more);
    if (!tasks)
        return s->status;
    fputc('\n', stdout);
    task_table_print(s, tasks);
    if (more)
        session_note(s, "there are more: weir list --%s %s --state QSPX", is_archive ? "archive" : "queue", name);
    json_decref(tasks);
    return 0;
}

int status_command(struct session *s)
{
    const char *name = s->options.n_operands ? s->options.operands[0] : NULL;
    if (name && operand_is_revision(name))
        return session_answer(s, session_get(s, revision_path(s, name)), revision_print);
    bool more;
    json_t *lanes = session_pages(s, "/v1/lanes", "lanes", 0, &more);
    if (!lanes)
        return s->status;
    json_t *stats = session_look(s, "/v1/stats");
    warnings_say(s, json_object_get(stats, "warnings")); /* why the server takes no new work; its clock jumped */
    json_decref(stats);
    if (!name)
        return session_answer(s, lanes, lanes_print);
    int status = status_lane(s, lanes, name);
    json_decref(lanes);
    return status;
}
