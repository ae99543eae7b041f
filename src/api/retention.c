/* retention: removes the results of old tasks (logs, outputs, artifacts), by a rule of the configuration or on request;
 * what a task was and how it ended is kept.
 *
 * A prune is a sequence of commands, a batch of tasks each; one prune runs at a time. Afterwards a thread with a reader
 * of its own removes files that no task names any more, and logs of pruned attempts that were left: a server was killed
 * between the commit and the removal, or its database refused it. A server that takes over the duty of retention looks
 * for such logs once. A dry run counts what the real one would remove, and changes nothing. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "base/when.h"
#include "io/clock.h"
#include "io/log.h"
#include "store/blobs/blobs.h"

enum { RULE_FIRST_MS = 60 * 1000, RULE_EVERY_MS = 3600 * 1000, SWEEP_PAGE = 500, SWEEP_AGE_S = 24 * 3600 };
enum { LEFT_FIRST_MS = 2000, LEFT_LOOK_MS = 10 * 1000 };

struct prune {
    struct command command;
    struct arena arena;
    struct retention *retention;
    struct call *call; /* who asked; NULL: the rule, or the client went away */
    struct actor actor;
    struct str lane;
    int64_t before, newest, tasks, log_bytes;
    int64_t epoch; /* of the duty, when the rule asks; 0: a person */
    bool dry_run;
};

struct retention {
    struct api *api;
    struct loop_timer rule, left;
    int64_t swept;         /* the epoch of the duty under which what earlier holders have left was looked for */
    uint64_t site_version; /* of the rule in force */
    struct prune *running;
    pthread_t thread;           /* the sweep */
    bool sweeping, sweep_files; /* sweep_files: something was pruned */
    atomic_bool over, stop;
};

/* --- logs that a prune has left --- */

struct log_sweep {
    struct retention *retention;
    struct reader *reader;
    struct arena arena;
    struct err *err;
    size_t n;
};

static bool log_look(void *owner, int64_t task, int64_t grant)
{
    struct log_sweep *sweep = owner;
    struct task row;
    bool found = false;
    arena_reset(&sweep->arena);
    if (atomic_load(&sweep->retention->stop) ||
        !reader_row(sweep->reader, &sweep->arena, task, &row, &found, sweep->err))
        return false;
    if (found && task_pruned(&row) >= grant) {
        logs_remove(sweep->retention->api->config.logs, task, grant);
        sweep->n++;
    }
    return true;
}

static size_t logs_sweep(struct retention *r, struct reader *reader, struct err *err)
{
    struct log_sweep sweep = { .retention = r, .reader = reader, .err = err };
    if (r->api->config.logs != NULL && logs_each(r->api->config.logs, log_look, &sweep, err) && sweep.n > 0)
        log_event("retention.swept", "logs=%zu", sweep.n);
    arena_release(&sweep.arena);
    return sweep.n;
}

/* --- files that nobody names any more --- */

/* artifacts_note: the files of a task. */
static void artifacts_note(struct smap *wanted, struct arena *arena, struct str outputs)
{
    struct str list = artifacts_split(&outputs);
    struct err ignored = { .code = ERR_none };
    json_t *rows = list.len > 0 ? json_parse(list, 4, &ignored) : NULL;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        struct str hex = str_of(json_string_value(json_object_get(json_array_get(rows, i), "sha256")));
        if (hex.len > 0 && smap_find(wanted, hex) == NULL)
            smap_put(wanted, str_dup(arena, hex), wanted);
    }
    json_decref(rows);
}

/* tarball_note: of a change set whose results weren't pruned. */
static bool tarball_note(
    struct smap *wanted, struct arena *arena, struct reader *reader, const struct task *task, struct err *err)
{
    struct arena own = { 0 };
    struct changeset row;
    bool found = false;
    char hex[BLOB_HEX + 1];
    if (!(task->marks & MARK_CHANGESET) || task->marks & MARK_PRUNED)
        return true;
    bool good = reader_changeset(reader, &own, task->id, &row, &found, err);
    for (size_t i = 0; good && found && i < sizeof row.hash; i++)
        snprintf(hex + 2 * i, 3, "%02x", row.hash[i]);
    if (good && found && smap_find(wanted, str_of(hex)) == NULL)
        smap_put(wanted, str_dup(arena, str_of(hex)), wanted);
    arena_release(&own);
    return good;
}

static bool blob_wanted(const char *hex, void *owner)
{
    return smap_find(owner, str_of(hex)) != NULL;
}

/* wanted_read: every file that a task names; false: the store could not be read, and nothing may go. */
static bool wanted_read(
    struct retention *r, struct reader *reader, struct smap *wanted, struct arena *arena, struct err *err)
{
    struct task_filter filter = { .limit = SWEEP_PAGE };
    struct arena page = { 0 };
    bool good = true;
    do {
        struct task_view *views;
        size_t n = 0;
        arena_reset(&page);
        good = reader_tasks(reader, &page, &filter, &views, &n, &filter.before, err);
        for (size_t i = 0; good && i < n; i++) {
            artifacts_note(wanted, arena, views[i].outputs);
            good = tarball_note(wanted, arena, reader, &views[i].task, err);
        }
    } while (good && filter.before > 0 && !atomic_load(&r->stop));
    arena_release(&page);
    return good;
}

static void *sweep_main(void *argument)
{
    struct retention *r = argument;
    struct err err = { .code = ERR_none };
    struct arena arena = { 0 };
    struct smap wanted = { 0 };
    struct reader *reader = reader_open(r->api->config.store, &err);
    bool left = reader != NULL && logs_sweep(r, reader, &err) > 0, good = reader != NULL && err.code == ERR_none;
    /* a wrong clock would make files look old that are just being uploaded; the next prune sweeps them */
    bool files = good && (left || r->sweep_files) && engine_clock_agrees(r->api->config.engine);
    good = good && (!files || wanted_read(r, reader, &wanted, &arena, &err));
    if (files && good && !atomic_load(&r->stop))
        log_event("retention.swept", "files=%zu", blobs_sweep(r->api->blobs, SWEEP_AGE_S, blob_wanted, &wanted));
    else if (!good)
        log_warn("retention.swept", "error=%s", log_quote(str_of(err.text)).z);
    if (reader != NULL)
        reader_close(reader);
    smap_release(&wanted);
    arena_release(&arena);
    atomic_store(&r->over, true);
    loop_wake(r->api->config.loop);
    return NULL;
}

static void sweep_woken(void *owner)
{
    struct retention *r = owner;
    if (!r->sweeping || !atomic_load(&r->over))
        return;
    pthread_join(r->thread, NULL);
    r->sweeping = false;
}

static void sweep_start(struct retention *r, bool files)
{
    if (r->sweeping || r->api->closing)
        return;
    atomic_store(&r->over, false);
    r->sweep_files = files;
    r->sweeping = pthread_create(&r->thread, NULL, sweep_main, r) == 0;
}

static void left_due(struct loop_timer *timer)
{
    struct retention *r = timer->owner;
    struct api *api = r->api;
    int64_t epoch = engine_duty(api->config.engine, DUTY_retention);
    loop_arm(api->config.loop, &r->left, loop_now(api->config.loop) + LEFT_LOOK_MS);
    if (epoch == 0 || epoch == r->swept || r->sweeping || r->running != NULL)
        return; /* of the servers that share a store one does it */
    r->swept = epoch;
    sweep_start(r, false);
}

/* --- a prune --- */

static void prune_free(struct prune *prune)
{
    prune->retention->running = NULL;
    arena_release(&prune->arena);
    mem_free(prune);
}

static void prune_answer(struct call *call, const struct prune *prune)
{
    ANSWER_CALL(200, ANSWER_PruneAnswer);
}

static void prune_end(struct prune *prune)
{
    struct retention *r = prune->retention;
    struct call *call = prune->call;
    const struct err *err = &prune->command.err;
    if (call != NULL)
        call->state = NULL;
    if (call != NULL && err->code != ERR_none)
        call_refuse(call, err->code, "%s", err->text);
    else if (call != NULL)
        prune_answer(call, prune);
    else if (err->code != ERR_none)
        log_warn("retention.pruned", "error=%s", log_quote(str_of(err->text)).z);
    if (prune->tasks > 0 && !prune->dry_run) {
        log_event("retention.pruned", "tasks=%lld log_bytes=%lld before=%s", (long long)prune->tasks,
            (long long)prune->log_bytes, when_format(prune->before).z);
        sweep_start(r, true);
    }
    prune_free(prune);
}

static void prune_submit(struct prune *prune, int64_t after);

static void prune_done(struct command *command)
{
    struct prune *prune = CONTAINER_OF(command, struct prune, command);
    int64_t after = 0;
    if (command->err.code == ERR_none) {
        prune->tasks += command->out.prune.tasks;
        prune->log_bytes += command->out.prune.log_bytes;
        after = command->out.prune.after;
        prune->newest = command->out.prune.newest;
    }
    if (after > 0 && !prune->retention->api->closing)
        prune_submit(prune, after);
    else
        prune_end(prune);
}

static void prune_submit(struct prune *prune, int64_t after)
{
    prune->command =
        (struct command){ .kind = CMD_PRUNE, .actor = prune->actor, .arena = &prune->arena, .done = prune_done };
    prune->command.err.arena = &prune->arena;
    prune->command.under.duty = DUTY_retention;
    prune->command.under.epoch = prune->epoch;
    prune->command.in.prune.before = prune->before;
    prune->command.in.prune.after = after;
    prune->command.in.prune.newest = prune->newest;
    prune->command.in.prune.lane = prune->lane;
    prune->command.in.prune.dry_run = prune->dry_run;
    engine_submit(prune->retention->api->config.engine, &prune->command);
}

static void prune_gone(struct call *call)
{
    struct prune *prune = call->state;
    if (prune != NULL)
        prune->call = NULL; /* what was begun goes on */
}

static void rule_due(struct loop_timer *timer)
{
    struct retention *r = timer->owner;
    struct api *api = r->api;
    if (engine_history(api->config.engine) > 0)
        loop_arm(api->config.loop, &r->rule, loop_now(api->config.loop) + RULE_EVERY_MS);
    int64_t epoch = engine_duty(api->config.engine, DUTY_retention);
    if (r->running != NULL || epoch == 0 || engine_history(api->config.engine) <= 0)
        return; /* of the servers that share a store one does it */
    struct prune *prune = mem_alloc(sizeof *prune);
    *prune = (struct prune){ .retention = r, .epoch = epoch, .actor = { STR("retention"), { 0 } } };
    prune->before = engine_past(api->config.engine) - engine_history(api->config.engine);
    r->running = prune;
    prune_submit(prune, 0);
}

struct retention *retention_new(struct api *api)
{
    struct retention *r = mem_alloc_zero(sizeof *r);
    r->api = api;
    r->rule = (struct loop_timer){ .due = rule_due, .owner = r };
    r->left = (struct loop_timer){ .due = left_due, .owner = r };
    loop_on_wake(api->config.loop, sweep_woken, r);
    loop_arm(api->config.loop, &r->left, loop_now(api->config.loop) + LEFT_FIRST_MS);
    retention_changed(r);
    return r;
}

void retention_changed(struct retention *r)
{
    uint64_t version = engine_site_version(r->api->config.engine);
    if (version == r->site_version)
        return;
    r->site_version = version;
    if (engine_history(r->api->config.engine) > 0 && r->rule.node.pos == 0)
        loop_arm(r->api->config.loop, &r->rule, loop_now(r->api->config.loop) + RULE_FIRST_MS);
}

void retention_stop(struct retention *r)
{
    atomic_store(&r->stop, true);
    if (r->sweeping)
        pthread_join(r->thread, NULL);
    r->sweeping = false;
}

void retention_free(struct retention *r)
{
    if (r == NULL)
        return;
    retention_stop(r);
    loop_forget(r->api->config.loop, r);
    loop_disarm(r->api->config.loop, &r->rule);
    loop_disarm(r->api->config.loop, &r->left);
    if (r->running != NULL)
        prune_free(r->running);
    mem_free(r);
}

/* --- asked for --- */

static bool prune_read(struct call *call, struct str *lane, int64_t *older, bool *dry_run)
{
    struct json_reader reader;
    struct str queue = { 0 };
    if (!call_object(call, &reader))
        return false;
    *older = engine_history(call->api->config.engine);
    if (!json_read_duration(&reader, "older_than", older) && json_read_any(&reader, "older_than") == NULL &&
        *older <= 0)
        err_item(&call->err, ERR_invalid, STR("/older_than"),
            "'older_than' is required: the configuration keeps history for ever");
    else if (call->err.code == ERR_none && *older <= 0)
        err_item(&call->err, ERR_invalid, STR("/older_than"), "'older_than' must be longer than nothing");
    json_read_str(&reader, "archive", NAME_CHARS_MAX, lane);
    if (json_read_str(&reader, "queue", NAME_CHARS_MAX, &queue) && lane->len > 0)
        err_item(&call->err, ERR_invalid, STR("/queue"), "'archive' and 'queue' exclude each other");
    if (queue.len > 0)
        *lane = queue;
    if (json_read_need(&reader, "dry_run", ": true counts, false removes"))
        json_read_bool(&reader, "dry_run", dry_run);
    return call_read_done(call, &reader);
}

bool serve_prune_create(struct call *call)
{
    struct retention *r = call->api->retention;
    struct str lane = { 0 };
    int64_t older;
    bool dry_run = true;
    if (!prune_read(call, &lane, &older, &dry_run))
        return false;
    if (r->running != NULL)
        return call_refuse(call, ERR_unavailable, "another prune is running");
    struct prune *prune = mem_alloc(sizeof *prune);
    *prune = (struct prune){
        .retention = r, .call = call, .dry_run = dry_run, .before = engine_past(call->api->config.engine) - older
    };
    prune->actor =
        (struct actor){ str_dup(&prune->arena, call->actor.name), str_dup(&prune->arena, call->actor.tenant) };
    prune->lane = str_dup(&prune->arena, lane);
    call->state = prune;
    call->on_release = prune_gone;
    r->running = prune;
    prune_submit(prune, 0);
    return true;
}
