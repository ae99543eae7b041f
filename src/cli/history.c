/* history: the tasks that have ended, newest first, with the revisions that they belong to; or all that happened to one
 * task. */
#include <string.h>

#include "base/map.h"
#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "cli/task_table.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { HISTORY_DEFAULT = 50, REVISIONS_PAGE = 200, PAGE_MAX = 1000, AUTHOR_WIDTH = 20, MESSAGE_WIDTH = 40 };

struct history {
    struct session *session;
    int64_t rev_from, rev_to; /* 0: any */
    int64_t since, until;     /* 0: any */
    const char *author;
    int64_t limit;
    json_t *tasks;         /* those that match */
    json_t *revisions;     /* "ARCHIVE@REV" -> revision, or null */
    bool more, revisioned; /* revisioned: one of them has a revision */
};

/* --- filters --- */

static bool range_read(struct history *h)
{
    const char *text = option_get(&h->session->options, "rev");
    if (!text)
        return true;
    struct str from = str_of(text), to;
    const char *dots = strstr(text, "..");
    to = dots ? str_of(dots + 2) : from;
    if (dots)
        from.len = (size_t)(dots - text);
    bool good =
        str_to_i64(from, &h->rev_from) && str_to_i64(to, &h->rev_to) && h->rev_from > 0 && h->rev_to >= h->rev_from;
    if (!good)
        usage_error(h->session->options.spec, "--rev '%s' is neither a revision nor N..M", text);
    return good;
}

static bool time_read(struct history *h, const char *option, int64_t *out)
{
    const char *text = option_get(&h->session->options, option);
    int64_t ago;
    if (!text || when_parse(str_of(text), out))
        return true;
    if (duration_parse(str_of(text), &ago)) {
        *out = clock_wall_ms() - ago;
        return true;
    }
    usage_error(h->session->options.spec, "--%s '%s' is neither a time (2026-11-15T06:00:00Z) nor a duration (7d)",
        option, text);
    return false;
}

/* --- revisions: read where they are needed, a page at a time --- */

static const char *revision_key(struct session *s, const char *archive, int64_t rev)
{
    return str_dupz(&s->arena, str_fmt(&s->arena, "%s@%lld", archive, (long long)rev));
}

static const json_t *revision_of(struct history *h, const json_t *task)
{
    struct session *s = h->session;
    const json_t *key = json_object_get(task, "key"), *item;
    const char *archive = field_z(key, "archive");
    int64_t rev = field_i64(key, "rev", 0);
    if (!*archive || rev <= 0)
        return NULL;
    const char *wanted = revision_key(s, archive, rev);
    const json_t *known = json_object_get(h->revisions, wanted);
    if (known)
        return json_is_null(known) ? NULL : known;
    char tail[80];
    size_t i;
    snprintf(tail, sizeof tail, "/revisions?limit=%d&cursor=%lld", REVISIONS_PAGE, (long long)rev + 1);
    json_t *page = session_look(s, archive_path(s, archive, tail));
    json_array_foreach (json_object_get(page, "revisions"), i, item)
        json_object_set(h->revisions, revision_key(s, archive, field_i64(item, "rev", 0)), (json_t *)(uintptr_t)item);
    json_decref(page);
    if (!json_object_get(h->revisions, wanted))
        json_object_set_new(h->revisions, wanted, json_null());
    known = json_object_get(h->revisions, wanted);
    return json_is_null(known) ? NULL : known;
}

/* task_take: for session_walk. Tasks come newest first, so the first one that is too old ends it. */
static bool task_take(json_t *task, void *owner)
{
    struct history *h = owner;
    int64_t made = 0, rev = field_i64(json_object_get(task, "key"), "rev", 0);
    field_time(task, "created", &made);
    if (h->since > 0 && made < h->since)
        return false;
    if ((h->until > 0 && made >= h->until) || (h->rev_from > 0 && (rev < h->rev_from || rev > h->rev_to)))
        return true;
    const json_t *revision = revision_of(h, task);
    if (h->author && (!revision || !strstr(field_z(revision, "author"), h->author)))
        return true;
    h->more = h->limit > 0 && (int64_t)json_array_size(h->tasks) >= h->limit;
    if (h->more)
        return false;
    if (revision) {
        json_object_set(task, "revision", (json_t *)(uintptr_t)revision);
        h->revisioned = true;
    }
    json_array_append(h->tasks, task);
    return true;
}

static void history_print(struct history *h)
{
    struct session *s = h->session;
    struct table table;
    int64_t now = clock_wall_ms(), finished, took;
    const json_t *task;
    size_t i;
    table_init(&table, &s->arena,
        h->revisioned ? "ENDED|STATE|KEY|AUTHOR|MESSAGE|>TOOK|>ATTEMPTS|REASON"
                      : "ENDED|STATE|KEY|NAME|>TOOK|>ATTEMPTS|REASON");
    json_array_foreach (h->tasks, i, task) {
        char letter = task_letter(task);
        const json_t *revision = json_object_get(task, "revision");
        table_add(&table, PAINT_DIM, "%s", field_time(task, "finished", &finished) ? local_text(finished).z : "");
        table_add(&table, paint_of_state(letter), "%c %s", letter, letter_word(letter));
        table_add(&table, PAINT_NONE, "%s", task_key(&s->arena, task));
        table_add(&table, PAINT_NONE, "%s",
            h->revisioned ? first_line(s, field_z(revision, "author"), AUTHOR_WIDTH) : task_name(task));
        if (h->revisioned)
            table_add(&table, PAINT_NONE, "%s",
                first_line(s, revision ? field_z(revision, "message") : task_name(task), MESSAGE_WIDTH));
        table_add(&table, PAINT_DIM, "%s", task_took(task, now, &took) ? span_text(took).z : "");
        table_add(&table, PAINT_DIM, "%zu", json_array_size(json_object_get(task, "attempts")));
        table_add(&table, PAINT_NONE, "%s", task_reason(&s->arena, task));
    }
    table_print(&table, &s->term, stdout, 0);
    if (i == 0)
        session_note(s, "nothing has ended that matches");
    if (h->more)
        session_note(s, "there are more; --limit shows them");
}

/* history_path: what the server can filter; the rest is done here. */
static const char *history_path(struct history *h)
{
    struct session *s = h->session;
    bool here = h->author || h->since > 0 || h->until > 0 || h->rev_to > h->rev_from;
    const char *path = task_filters(s, here ? PAGE_MAX : h->limit);
    if (path && h->rev_from > 0 && h->rev_from == h->rev_to)
        path = session_query_i64(s, path, "rev", h->rev_from);
    return path ? session_query(s, path, "state", option_given(&s->options, "state") ? NULL : "DFTA") : NULL;
}

static int history_of_all(struct session *s)
{
    struct history h = { .session = s, .author = option_get(&s->options, "author"), .limit = HISTORY_DEFAULT };
    const char *path = NULL;
    bool ok = option_i64(&s->options, "limit", 0, INT32_MAX, &h.limit) && range_read(&h) &&
              time_read(&h, "since", &h.since) && time_read(&h, "until", &h.until) && (path = history_path(&h)) != NULL;
    h.tasks = json_array();
    h.revisions = json_object();
    int status = ok ? 0 : EXIT_USAGE;
    if (ok && !session_walk(s, path, "tasks", task_take, &h))
        status = s->status;
    else if (ok && s->json)
        session_print(s, h.tasks);
    else if (ok)
        history_print(&h);
    json_decref(h.tasks);
    json_decref(h.revisions);
    return status;
}

int history_command(struct session *s)
{
    return s->options.n_operands ? events_of_task(s, s->options.operands[0]) : history_of_all(s);
}

/* --- history prune: removes logs, outputs and artifacts of old tasks; the tasks themselves stay --- */

static void pruned_print(struct session *s, const json_t *answer)
{
    int64_t before = 0;
    field_time(answer, "before", &before);
    printf("%s of %lld tasks that ended before %s: %s of logs\n",
        option_given(&s->options, "apply") ? "removed the results" : "results",
        (long long)field_i64(answer, "tasks", 0), local_text(before).z,
        bytes_text(field_i64(answer, "log_bytes", 0)).z);
}

int history_prune_command(struct session *s)
{
    int64_t older;
    if (option_given(&s->options, "dry-run") == option_given(&s->options, "apply"))
        return usage_error(s->options.spec, "say --dry-run or --apply");
    if (!option_duration(&s->options, "older-than", &older))
        return EXIT_USAGE;
    if (!session_utf8(s, "archive") || !session_utf8(s, "queue"))
        return s->status;
    json_t *body = json_pack("{s:b}", "dry_run", option_given(&s->options, "dry-run"));
    session_put(s, body, "older-than", "older_than");
    session_put(s, body, "archive", "archive");
    session_put(s, body, "queue", "queue");
    return session_answer(s, session_post(s, "/v1/prune", body), pruned_print);
}
