/* wait: until tasks, a revision, or everything in a queue or an archive has ended.
 *
 * It follows the event stream from before the first look, so that nothing is missed, and asks again only about what an
 * event touched: an end is believed when the server's own document says it. Exit 0 only if all is D. */
#include "cli/wait.h"

#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/lane_table.h"
#include "cli/revision_text.h"
#include "cli/task_table.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { REFRESH_MS = 200, TICK_MS = 1000, RUNNING_SHOWN = 12, SCREEN_BYTES = 64 * 1024 };

/* --- what is waited for --- */

struct wait_task *wait_task_find(struct wait *w, int64_t id)
{
    uintptr_t index = (uintptr_t)map_find(&w->task_by_id, (uint64_t)id);
    return index ? &w->tasks[index - 1] : NULL;
}

static struct wait_task *task_add(struct wait *w, const json_t *document)
{
    struct arena *arena = &w->session->arena;
    int64_t id = field_i64(document, "id", 0);
    struct wait_task *task = wait_task_find(w, id);
    if (!task) {
        task = ARENA_PUSH(arena, w->tasks, w->n_tasks, w->cap_tasks);
        task->id = id;
        task->key = task_key(arena, document);
        task->name = str_dupz(arena, str_of(task_name(document)));
        map_put(&w->task_by_id, (uint64_t)id, (void *)(uintptr_t)w->n_tasks);
    }
    task->letter = task_letter(document);
    field_time(document, "started", &task->since);
    return task;
}

static void task_keep(struct wait *w, json_t *document /* consumed */)
{
    struct wait_task *task = task_add(w, document);
    json_decref(task->document);
    task->document = document;
    task->wanted = true;
    task->stale = false;
}

void wait_graph_add(struct wait *w, const char *key, bool whole)
{
    struct session *s = w->session;
    json_t *graph = session_look(s, session_task_path(s, key, "/graph"));
    const json_t *item;
    struct smap by_key = { 0 };
    size_t i;
    json_array_foreach (json_object_get(graph, "tasks"), i, item) {
        const struct wait_task *task = whole ? wait_task_find(w, field_i64(item, "id", 0)) : task_add(w, item);
        if (task)
            smap_put(&by_key, str_of(task_key(&s->arena, item)), (void *)(uintptr_t)(task - w->tasks + 1));
    }
    json_array_foreach (json_object_get(graph, "edges"), i, item) {
        uintptr_t from = (uintptr_t)smap_find(&by_key, str_of(field_z(item, "from"))),
                  to = (uintptr_t)smap_find(&by_key, str_of(field_z(item, "to")));
        if (!from || !to || (whole && strcmp(field_z(item, "kind"), "cancels") == 0))
            continue;
        struct wait_task *waiter = &w->tasks[from - 1];
        *ARENA_PUSH(&s->arena, waiter->needs, waiter->n_needs, waiter->cap_needs) = (uint32_t)(to - 1);
        w->tasks[to - 1].wanted &= !whole;
    }
    smap_release(&by_key);
    json_decref(graph);
}

static bool lanes_read(struct wait *w)
{
    struct session *s = w->session;
    json_t *answer = session_try_pages(s, "/v1/lanes", "lanes", 0);
    if (!answer)
        return false;
    const json_t *lanes = json_object_get(answer, "lanes");
    for (size_t i = 0; i < w->n_lanes; i++) {
        struct wait_lane *lane = &w->lanes[i];
        const json_t *found = lane_find(lanes, lane->name);
        if (!found)
            continue;
        json_decref(lane->document);
        lane->document = json_incref((json_t *)(uintptr_t)found);
        lane->stale = false;
    }
    json_decref(answer);
    return true;
}

static void lane_read_running(struct wait *w, struct wait_lane *lane)
{
    const char *filter = strcmp(field_z(lane->document, "kind"), "archive") == 0 ? "archive" : "queue";
    const char *path = session_query_i64(w->session, "/v1/tasks?state=X", "limit", RUNNING_SHOWN);
    json_t *answer = session_look(w->session, session_query(w->session, path, filter, lane->name));
    json_decref(lane->running);
    lane->running = json_incref(json_object_get(answer, "tasks"));
    json_decref(answer);
}

static bool operand_is_task(const char *operand)
{
    int64_t id;
    return strchr(operand, ':') != NULL || str_to_i64(str_of(operand), &id);
}

static bool revision_add(struct wait *w, const char *operand)
{
    struct session *s = w->session;
    json_t *revision = session_get(s, revision_path(s, operand)), *task;
    size_t i;
    json_array_foreach (json_object_get(revision, "tasks"), i, task)
        task_keep(w, json_incref(task));
    json_decref(revision);
    return revision != NULL;
}

static bool operand_add(struct wait *w, const char *operand)
{
    struct session *s = w->session;
    if (operand_is_task(operand)) {
        json_t *task = session_get(s, session_task_path(s, operand, ""));
        if (!task)
            return false;
        task_keep(w, task);
        return true;
    }
    if (operand_is_revision(operand))
        return revision_add(w, operand);
    struct wait_lane *lane = ARENA_PUSH(&s->arena, w->lanes, w->n_lanes, w->cap_lanes);
    lane->name = operand;
    if (!lanes_read(w)) {
        session_fail(s);
        return false;
    }
    json_t *changeset = lane->document ? NULL : session_look(s, session_task_path(s, operand, ""));
    if (changeset) { /* a CSID */
        w->n_lanes--;
        task_keep(w, changeset);
        return true;
    }
    if (!lane->document) {
        session_err(s, ERR_not_found,
            "there is no archive, queue or task '%s'; `weir status` lists the queues and archives", operand);
        return false;
    }
    if (w->live)
        lane_read_running(w, lane);
    return true;
}

static bool all_ended(const struct wait *w)
{
    for (size_t i = 0; i < w->n_tasks; i++)
        if (w->tasks[i].wanted && (w->tasks[i].stale || !letter_ended(task_letter(w->tasks[i].document))))
            return false;
    for (size_t i = 0; i < w->n_lanes; i++)
        if (w->lanes[i].stale || lane_unfinished(w->lanes[i].document) > 0)
            return false;
    return true;
}

/* --- following --- */

static void refresh_soon(struct wait *w)
{
    int64_t now = clock_boot_ms(), due = w->refreshed + REFRESH_MS;
    if (!w->refresh.node.pos)
        loop_arm(w->session->loop, &w->refresh, due > now ? due : now);
}

void wait_change_print(const struct wait *w, const char *key, char letter, const char *reason)
{
    struct arena scratch = { 0 };
    if (w->live || w->session->quiet || !letter)
        return;
    fprintf(stderr, "%s  %c %s%s%s\n", term_safe_z(&scratch, key), letter, letter_word(letter), *reason ? ": " : "",
        term_safe_z(&scratch, reason));
    arena_release(&scratch);
}

/* lane_of_event: keys are LANE:ID and LANE@REV:NAME; names hold neither sign. */
static struct wait_lane *lane_of_event(struct wait *w, const json_t *event)
{
    const char *key = field_z(event, "key");
    size_t len = strcspn(key, ":@");
    for (size_t i = 0; i < w->n_lanes; i++)
        if (strlen(w->lanes[i].name) == len && strncmp(w->lanes[i].name, key, len) == 0)
            return &w->lanes[i];
    return NULL;
}

static void on_event(const json_t *event, void *owner)
{
    struct wait *w = owner;
    const char *to = field_z(event, "to");
    struct wait_task *task = wait_task_find(w, field_i64(event, "task", 0));
    struct wait_lane *lane = lane_of_event(w, event);
    if (task && *to) {
        task->letter = *to;
        if (*to != 'X')
            task->since = 0;
        else
            field_time(event, "time", &task->since);
        task->stale = task->wanted;
    }
    if (lane)
        lane->stale = true;
    if (!task && !lane)
        return;
    if ((task && task->wanted) || lane)
        wait_change_print(w, task ? task->key : field_z(event, "key"), *to, field_z(event, "reason"));
    refresh_soon(w);
}

static void on_joined(void *owner)
{
    struct wait *w = owner;
    for (size_t i = 0; i < w->n_tasks; i++)
        w->tasks[i].stale = w->tasks[i].wanted;
    for (size_t i = 0; i < w->n_lanes; i++)
        w->lanes[i].stale = true;
    refresh_soon(w);
}

static void on_lost(void *owner)
{
    struct wait *w = owner;
    w->broken = true;
    loop_stop(w->session->loop);
}

/* stale_read: asks about what an event touched; false: the server didn't answer, ask again later. */
static bool stale_read(struct wait *w)
{
    struct session *s = w->session;
    bool lanes_stale = false, ok = true;
    for (size_t i = 0; ok && i < w->n_tasks; i++) {
        struct wait_task *task = &w->tasks[i];
        if (!task->stale)
            continue;
        if (!letter_ended(task->letter) && !letter_ended(task_letter(task->document))) {
            task->stale = false; /* it moved on, but not to its end: nothing to believe yet */
            continue;
        }
        json_t *document = session_look(s, session_task_path(s, i64_format(task->id).z, ""));
        ok = document != NULL;
        if (ok)
            task_keep(w, document);
    }
    for (size_t i = 0; i < w->n_lanes; i++)
        lanes_stale = lanes_stale || w->lanes[i].stale;
    if (ok && lanes_stale) {
        ok = lanes_read(w);
        for (size_t i = 0; ok && w->live && i < w->n_lanes; i++)
            lane_read_running(w, &w->lanes[i]);
    }
    return ok;
}

static void on_refresh(struct loop_timer *timer)
{
    struct wait *w = timer->owner;
    bool ok = stale_read(w);
    w->refreshed = clock_boot_ms();
    if (w->live)
        wait_draw(w);
    if (all_ended(w))
        loop_stop(w->session->loop);
    else if (!ok)
        refresh_soon(w);
}

static void on_deadline(struct loop_timer *timer)
{
    struct wait *w = timer->owner;
    w->timed_out = true;
    loop_stop(w->session->loop);
}

static void on_tick(struct loop_timer *timer)
{
    struct wait *w = timer->owner;
    wait_draw(w);
    loop_arm(w->session->loop, timer, clock_boot_ms() + TICK_MS);
}

/* --- the end --- */

static void ends_json(struct wait *w)
{
    json_t *all = json_array();
    for (size_t i = 0; i < w->n_tasks; i++)
        if (w->tasks[i].wanted)
            json_array_append(all, w->tasks[i].document);
    for (size_t i = 0; i < w->n_lanes; i++)
        json_array_append(all, w->lanes[i].document);
    bool one = w->session->options.n_operands == 1 && json_array_size(all) == 1;
    session_print(w->session, one ? json_array_get(all, 0) : all);
    json_decref(all);
}

static void ends_print(struct wait *w)
{
    struct session *s = w->session;
    for (size_t i = 0; i < w->n_tasks; i++) {
        const json_t *task = w->tasks[i].document;
        int64_t took;
        if (!w->tasks[i].wanted)
            continue;
        char letter = task_letter(task);
        printf("%s%c %s%s  %s  %s", paint_on(&s->term, paint_of_state(letter)), letter, letter_word(letter),
            paint_off(&s->term, paint_of_state(letter)), term_safe_z(&s->arena, w->tasks[i].key),
            term_safe_z(&s->arena, w->tasks[i].name));
        if (task_took(task, clock_wall_ms(), &took))
            printf("  %s", span_text(took).z);
        if (*field_z(task, "reason"))
            printf("  %s", term_safe_z(&s->arena, task_reason(&s->arena, task)));
        fputc('\n', stdout);
    }
    for (size_t i = 0; i < w->n_lanes; i++) {
        fputs(term_safe_z(&s->arena, w->lanes[i].name), stdout);
        for (const char *c = state_letters; *c; c++)
            if (lane_count(w->lanes[i].document, *c) > 0)
                printf("  %s%lld %s%s", paint_on(&s->term, paint_of_state(*c)),
                    (long long)lane_count(w->lanes[i].document, *c), letter_word(*c),
                    paint_off(&s->term, paint_of_state(*c)));
        fputc('\n', stdout);
    }
}

static bool all_done(const struct wait *w)
{
    for (size_t i = 0; i < w->n_tasks; i++)
        if (w->tasks[i].wanted && task_letter(w->tasks[i].document) != 'D')
            return false;
    for (size_t i = 0; i < w->n_lanes; i++)
        for (const char *c = state_letters; *c; c++)
            if (*c != 'D' && lane_count(w->lanes[i].document, *c) > 0)
                return false;
    return true;
}

/* unfinished_read: how things stand when the time is over. */
static void unfinished_read(struct wait *w)
{
    for (size_t i = 0; i < w->n_tasks; i++) {
        struct wait_task *task = &w->tasks[i];
        if (!task->wanted || letter_ended(task_letter(task->document)))
            continue;
        const char *path = session_task_path(w->session, i64_format(task->id).z, "");
        json_t *document =
            session_try(w->session, &(struct session_request){ .method = "GET", .path = path, .timeout_ms = TICK_MS });
        if (document)
            task_keep(w, document);
    }
    if (w->n_lanes > 0 && !lanes_read(w))
        session_note(w->session, "weir wait: the server doesn't answer; these are the last counts known");
}

/* archives_read: false when the repository of an archive that was waited for can't be read: there may be revisions that
 * nobody knows. */
static bool archives_read(struct wait *w)
{
    struct session *s = w->session;
    bool all = true;
    for (size_t i = 0; i < w->n_lanes; i++) {
        const struct wait_lane *lane = &w->lanes[i];
        if (strcmp(field_z(lane->document, "kind"), "archive") != 0)
            continue;
        json_t *archive = session_look(s, archive_path(s, lane->name, ""));
        const char *fault = field_z(json_object_get(archive, "watch"), "fault");
        if (*fault) {
            fflush(stdout);
            fprintf(stderr, "weir wait: %s: what is known has ended, but the repository can't be read: %s\n",
                term_safe_z(&s->arena, lane->name), term_safe_z(&s->arena, fault));
            all = false;
        }
        json_decref(archive);
    }
    return all;
}

static int wait_end(struct wait *w)
{
    struct session *s = w->session;
    wait_erase(w);
    fflush(stderr);
    if (w->broken)
        return session_fail(s);
    if (w->timed_out)
        unfinished_read(w);
    if (s->json)
        ends_json(w);
    else
        ends_print(w);
    if (!w->timed_out && !all_done(w))
        return 1;
    if (!w->timed_out)
        return archives_read(w) ? 0 : EXIT_LATER;
    fflush(stdout);
    fprintf(stderr,
        "weir wait: the time is over and not everything has ended; `weir why KEY` tells what a task waits for\n");
    return EXIT_LATER;
}

/* begin_print: how things stand when the waiting begins, in the form of the changes that follow. */
static void begin_print(struct wait *w)
{
    struct session *s = w->session;
    for (size_t i = 0; i < w->n_tasks; i++)
        if (w->tasks[i].wanted && !letter_ended(w->tasks[i].letter))
            session_note(s, "%s  %c %s", term_safe_z(&s->arena, w->tasks[i].key), w->tasks[i].letter,
                letter_word(w->tasks[i].letter));
    for (size_t i = 0; i < w->n_lanes; i++)
        session_note(s, "%s  %lld not ended", term_safe_z(&s->arena, w->lanes[i].name),
            (long long)lane_unfinished(w->lanes[i].document));
}

static int wait_run(struct wait *w)
{
    struct session *s = w->session;
    int64_t timeout = -1;
    if (!option_duration(&s->options, "timeout", &timeout))
        return EXIT_USAGE;
    w->feed = (struct feed){ .session = s, .event = on_event, .joined = on_joined, .lost = on_lost, .owner = w };
    if (!feed_open(&w->feed)) {
        w->feed.session = NULL;
        return session_fail(s);
    }
    for (size_t i = 0; i < s->options.n_operands; i++)
        if (!operand_add(w, s->options.operands[i]))
            return s->status;
    if (all_ended(w))
        return wait_end(w);
    /* after all operands, so that they stand in the order given */
    for (size_t i = 0; w->live && i < s->options.n_operands; i++)
        if (operand_is_task(s->options.operands[i]))
            wait_graph_add(w, s->options.operands[i], false);
    if (timeout >= 0)
        loop_arm(s->loop, &w->deadline, w->began + timeout);
    if (w->live)
        loop_arm(s->loop, &w->tick, w->began);
    else
        begin_print(w);
    loop_run(s->loop);
    return wait_end(w);
}

void wait_init(struct wait *w, struct session *s, bool no_color)
{
    *w = (struct wait){ .session = s, .began = clock_boot_ms() };
    term_init(&w->screen, STDERR_FILENO, no_color);
    w->live = w->screen.tty && !s->quiet;
    if (w->live) /* a picture in one write doesn't flicker; it is flushed when it is drawn */
        setvbuf(stderr, NULL, _IOFBF, SCREEN_BYTES);
}

int wait_command(struct session *s)
{
    struct wait w;
    wait_init(&w, s, option_given(&s->options, "no-color"));
    w.refresh = (struct loop_timer){ .due = on_refresh, .owner = &w };
    w.deadline = (struct loop_timer){ .due = on_deadline, .owner = &w };
    w.tick = (struct loop_timer){ .due = on_tick, .owner = &w };
    int status = wait_run(&w);
    feed_close(&w.feed);
    loop_disarm(s->loop, &w.refresh);
    loop_disarm(s->loop, &w.deadline);
    loop_disarm(s->loop, &w.tick);
    for (size_t i = 0; i < w.n_tasks; i++)
        json_decref(w.tasks[i].document);
    for (size_t i = 0; i < w.n_lanes; i++) {
        json_decref(w.lanes[i].document);
        json_decref(w.lanes[i].running);
    }
    map_release(&w.task_by_id);
    return status;
}
