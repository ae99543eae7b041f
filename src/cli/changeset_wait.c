/* changeset_wait: a change set followed from its submission to its end, by events; nothing polls. */
#include <stdio.h>
#include <string.h>

#include "cli/changeset_text.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { AGAIN_MS = 200 };

static void refresh_soon(struct changeset_wait *w)
{
    int64_t now = clock_boot_ms(), due = w->refreshed + AGAIN_MS;
    if (!w->refresh.node.pos)
        loop_arm(w->session->loop, &w->refresh, due > now ? due : now);
}

/* is_near: an event of the change set itself, or of its target, which may move its position. */
static bool is_near(const struct changeset_wait *w, const json_t *event)
{
    const char *key = field_z(event, "key"), *target = field_z(w->document, "target");
    if (!*target) /* a task's document */
        target = field_z(json_object_get(w->document, "key"), "target");
    size_t len = strlen(target);
    return field_i64(event, "task", 0) == w->task || (strncmp(key, target, len) == 0 && key[len] == ':');
}

static void on_event(const json_t *event, void *owner)
{
    struct changeset_wait *w = owner;
    if (w->csid && is_near(w, event))
        refresh_soon(w);
}

static void on_joined(void *owner)
{
    refresh_soon(owner);
}

static void on_lost(void *owner)
{
    struct changeset_wait *w = owner;
    w->broken = true;
    loop_stop(w->session->loop);
}

/* progress_say: a line when state or position is another one than before. */
static void progress_say(struct changeset_wait *w)
{
    struct session *s = w->session;
    char letter = task_letter(w->document), line[sizeof w->said] = "", position[40] = "";
    if (!letter_ended(letter) && field_i64(w->document, "position", 0) > 0)
        snprintf(position, sizeof position, ", position %lld", (long long)field_i64(w->document, "position", 0));
    snprintf(line, sizeof line, "%c %s%s", letter, letter_word(letter), position);
    if (strcmp(line, w->said) == 0 || letter_ended(letter))
        return;
    memcpy(w->said, line, sizeof line);
    const char *reason = field_z(w->document, "reason");
    session_note(s, "%s  %s%s%s", w->csid, line, *reason ? ": " : "", reason);
}

/* changeset_read: how it stands; false: the server doesn't say, ask again later. */
static bool changeset_read(struct changeset_wait *w)
{
    struct session *s = w->session;
    json_t *document = session_look(s, changeset_path(s, w->csid, ""));
    if (!document && s->err.code == ERR_not_found) /* a server that tells of its task alone: no position then */
        document = session_look(s, session_task_path(s, i64_format(w->task).z, ""));
    w->refreshed = clock_boot_ms();
    if (!document)
        return false;
    json_decref(w->document);
    w->document = document;
    progress_say(w);
    return true;
}

static void on_refresh(struct loop_timer *timer)
{
    struct changeset_wait *w = timer->owner;
    if (!changeset_read(w))
        refresh_soon(w);
    else if (letter_ended(task_letter(w->document)))
        loop_stop(w->session->loop);
}

bool changeset_wait_open(struct changeset_wait *w, struct session *s)
{
    *w = (struct changeset_wait){ .session = s };
    w->feed = (struct feed){ .session = s, .event = on_event, .joined = on_joined, .lost = on_lost, .owner = w };
    w->refresh = (struct loop_timer){ .due = on_refresh, .owner = w };
    if (feed_open(&w->feed))
        return true;
    w->feed.session = NULL;
    session_fail(s);
    return false;
}

static int end_say(struct changeset_wait *w)
{
    struct session *s = w->session;
    char letter = task_letter(w->document);
    const char *revision = field_z(w->document, "revision"), *reason = field_z(w->document, "reason");
    if (json_is_integer(json_object_get(w->document, "revision")))
        revision = str_dupz(&s->arena, str_of(i64_format(field_i64(w->document, "revision", 0)).z));
    /* also with -q where it failed: the reason is what was waited for */
    if (!s->quiet || letter != 'D')
        term_say(stderr, "%s  %c %s%s%s%s%s", w->csid, letter, letter_word(letter), *revision ? ", revision " : "",
            revision, *reason ? ": " : "", reason);
    return letter == 'D' ? 0 : 1;
}

int changeset_wait_run(struct changeset_wait *w, const json_t *submitted)
{
    struct session *s = w->session;
    w->csid = str_dupz(&s->arena, str_of(field_z(submitted, "csid")));
    w->task = field_i64(submitted, "task", 0);
    if (!changeset_read(w))
        return session_fail(s);
    if (!letter_ended(task_letter(w->document)))
        loop_run(s->loop);
    return w->broken ? session_fail(s) : end_say(w);
}

void changeset_wait_close(struct changeset_wait *w)
{
    if (!w->session)
        return;
    feed_close(&w->feed);
    loop_disarm(w->session->loop, &w->refresh);
    json_decref(w->document);
}
