/* follow: when to scan a repository, and what to do with the result.
 *
 * Owns the times of an archive: a hint brings the next scan forward, a fault puts it off; after a scan that found
 * nothing the next one comes with a hint or by the timer. Promises that one thread at a time has an archive, that
 * batches reach the engine in order and one by one, and that a state is logged when it changes and not again.
 *
 * Never fails: a fault becomes the archive's status. */
#include <stdio.h>
#include <string.h>

#include "engine/definition.h"
#include "io/clock.h"
#include "io/log.h"
#include "source/hook.h"
#include "watch/follow.h"

enum {
    SPACING_LOCAL_MS = 10, /* between two scans, however many hints come */
    SPACING_SERVED_MS = 500,
    SOON_MS = 50,
    TIDY_SCAN_MS = 1000,
    PAUSE_FIRST_MS = 500,
    PAUSE_LOCAL_MAX_MS = 5000,
    PAUSE_SERVED_MAX_MS = 60000,
    OVERDUE_MS = 30000, /* a scan that takes longer is reported as a fault */
};

bool place_is_served(enum archive_kind kind, struct str url)
{
    return kind == ARCHIVE_SVN && !str_starts(url, STR("file://")) && memmem(url.ptr, url.len, "://", 3) != NULL;
}

struct follow *follow_new(struct watch *watch, const struct archive *archive, const struct lane *lane)
{
    struct follow *follow = mem_alloc_zero(sizeof *follow);
    follow->watch = watch;
    follow->kind = archive->kind;
    follow->lane = archive->lane;
    follow->name = str_dup(&follow->arena, lane->name);
    follow->tenant = str_dup(&follow->arena, lane->tenant);
    follow->url = str_dup(&follow->arena, archive->url);
    follow->branch = str_dup(&follow->arena, archive->branch);
    follow->served = place_is_served(archive->kind, archive->url);
    follow->job = (struct pool_job){ .work = scan_work, .done = NULL };
    follow->causes.wait_ms = CAUSE_WAIT_MS;
    follow->status = (struct watch_status){ .state = WATCH_BEHIND, .since = clock_wall_ms(), .youngest = -1 };
    list_append(&watch->follows, &follow->node);
    return follow;
}

void follow_free(struct follow *follow)
{
    struct watch *watch = follow->watch;
    heap_take(&watch->dues, &follow->due);
    list_remove(&watch->follows, &follow->node);
    inotify_unfollow(follow);
    follow_source_close(follow);
    matcher_release(&follow->matcher);
    causes_release(follow);
    mem_free(follow->place);
    if (follow->sent != NULL)
        batch_free(follow->sent);
    if (follow->batch != NULL)
        batch_free(follow->batch);
    arena_release(&follow->arena);
    mem_free(follow);
}

void follow_end(struct follow *follow)
{
    follow->gone = true;
    heap_take(&follow->watch->dues, &follow->due);
    if (!follow->busy)
        follow_free(follow);
}

/* --- when --- */

void dues_arm(struct watch *watch)
{
    struct heap_node *first = heap_first(&watch->dues);
    if (first == NULL || watch->closing)
        loop_disarm(watch->config.loop, &watch->timer);
    else
        loop_arm(watch->config.loop, &watch->timer, first->key);
}

static void due_at(struct follow *follow, int64_t boot_ms)
{
    heap_put(&follow->watch->dues, &follow->due, boot_ms);
    dues_arm(follow->watch);
}

static void due_by(struct follow *follow, int64_t boot_ms)
{
    int64_t earliest = follow->ended + (follow->served ? SPACING_SERVED_MS : SPACING_LOCAL_MS);
    if (follow->pause_ms > 0)
        earliest = follow->ended + PAUSE_FIRST_MS;
    if (boot_ms < earliest && follow->ended > 0)
        boot_ms = earliest;
    if (follow->due.pos == 0 || follow->due.key > boot_ms)
        due_at(follow, boot_ms);
}

/* scan_by: a scan that is under way may have begun too early to see the change: then another one follows. */
static void scan_by(struct follow *follow, int64_t boot_ms)
{
    if (!follow->busy)
        due_by(follow, boot_ms);
    else if (follow->again_at == 0 || follow->again_at > boot_ms)
        follow->again_at = boot_ms;
}

void follow_poke(struct follow *follow)
{
    scan_by(follow, loop_now(follow->watch->config.loop));
}

/* hook_speaks: will a hook send a hint about the commit? A hook that can't be read counts as none. */
static bool hook_speaks(struct follow *follow)
{
    struct err ignored = { 0 };
    struct arena arena = { 0 };
    struct hook_paths paths = { 0 };
    pthread_mutex_lock(&follow->watch->lock);
    bool speaks = follow->hinted;
    const char *place = follow->place; /* set once */
    pthread_mutex_unlock(&follow->watch->lock);
    if (!speaks && place != NULL)
        speaks = hook_find(follow->kind, place, follow->name, &arena, &paths, &ignored) && paths.n_installed > 0;
    arena_release(&arena);
    return speaks;
}

/* follow_seen: only the hook knows the cause, so the scan waits for its hint, which ends the wait. */
void follow_seen(struct follow *follow)
{
    int64_t now = loop_now(follow->watch->config.loop), at = now;
    if (engine_jobs_run(follow->watch->config.engine) && hook_speaks(follow)) { /* else no commit is a job's */
        pthread_mutex_lock(&follow->watch->lock);
        if (follow->causes.wait_until <= now) /* else it is awaited already, and not for longer because of more */
            follow->causes.wait_until = now + follow->causes.wait_ms;
        at = follow->causes.wait_until;
        pthread_mutex_unlock(&follow->watch->lock);
        if (follow->seen_at == 0)
            follow->seen_at = now;
    }
    scan_by(follow, at);
}

void follow_hint(struct follow *follow, const struct watch_hint *hint)
{
    int64_t took = follow->seen_at > 0 ? loop_now(follow->watch->config.loop) - follow->seen_at : -1;
    pthread_mutex_lock(&follow->watch->lock);
    follow->hinted = true;
    if (took >= 0 && 2 * took < follow->causes.wait_ms) /* hooks are quicker again */
        follow->causes.wait_ms = 2 * took > CAUSE_WAIT_MS ? 2 * took : CAUSE_WAIT_MS;
    causes_add(follow, hint);
    pthread_mutex_unlock(&follow->watch->lock);
    follow->seen_at = 0;
    follow_poke(follow);
}

/* --- what came of it --- */

static void status_say(struct follow *follow, enum watch_state was, const struct watch_status *now)
{
    struct log_quoted name = log_quote(follow->name);
    if (now->state == WATCH_FAULT)
        log_warn("archive.fault", "archive=%s error=%s", name.z, log_quote(str_of(now->text)).z);
    else if (was == WATCH_FAULT)
        log_event("archive.healed", "archive=%s", name.z);
}

static void status_set(struct follow *follow, enum watch_state state, const char *text)
{
    struct watch_status *status = &follow->status;
    pthread_mutex_lock(&follow->watch->lock);
    enum watch_state was = status->state;
    bool changed = was != state || (state == WATCH_FAULT && strcmp(status->text, text) != 0);
    if (was != state)
        status->since = clock_wall_ms();
    status->state = state;
    status->looked = clock_wall_ms();
    size_t len = strnlen(text, sizeof status->text - 1);
    memcpy(status->text, text, len);
    status->text[len] = '\0';
    struct watch_status copy = *status;
    pthread_mutex_unlock(&follow->watch->lock);
    if (changed)
        status_say(follow, was, &copy);
}

static void behind_set(struct follow *follow)
{
    char text[80];
    long long n = (long long)follow->left + (long long)(follow->batch->n - follow->batch->n_late);
    if (n == 0)
        return;
    snprintf(text, sizeof text, "%lld revision%s to take", n, n == 1 ? "" : "s");
    status_set(follow, WATCH_BEHIND, text);
}

static int64_t scan_interval(const struct follow *follow)
{
    const struct watch_config *config = &follow->watch->config;
    if (follow->served)
        return config->scan_remote_ms;
    pthread_mutex_lock(&follow->watch->lock);
    bool complete = follow->inotify.complete;
    pthread_mutex_unlock(&follow->watch->lock);
    return complete ? config->scan_safety_ms : config->scan_local_ms;
}

/* settle: the scan is over; decides when the next one is due. */
static void settle(struct follow *follow, const struct err *fault)
{
    struct watch *watch = follow->watch;
    int64_t now = clock_boot_ms();
    follow->busy = false;
    follow->ended = now;
    if (follow->gone) {
        follow_free(follow);
        return;
    }
    if (fault != NULL) {
        int64_t most = follow->served ? PAUSE_SERVED_MAX_MS : PAUSE_LOCAL_MAX_MS;
        follow->pause_ms = follow->pause_ms == 0         ? PAUSE_FIRST_MS
                           : 2 * follow->pause_ms < most ? 2 * follow->pause_ms
                                                         : most;
        status_set(follow, WATCH_FAULT, fault->text);
        due_at(follow, now + follow->pause_ms);
    } else {
        follow->pause_ms = 0;
        status_set(follow, WATCH_OK, "");
        due_at(follow, now + (follow->soon ? SOON_MS : follow->tidy ? TIDY_SCAN_MS : scan_interval(follow)));
    }
    pthread_mutex_lock(&watch->lock);
    int64_t wait_until = follow->causes.wait_until;
    pthread_mutex_unlock(&watch->lock);
    if (wait_until > now && !watch->closing)
        due_by(follow, wait_until);
    if (follow->again_at > 0 && !watch->closing)
        due_by(follow, follow->again_at);
    follow->again_at = 0;
}

static void follow_give(struct follow *follow); /* to the pool */

static void batch_answered(struct batch *batch)
{
    struct follow *follow = batch->follow;
    struct err err = batch->err;
    follow->sent = NULL;
    if (err.code != ERR_none)
        follow->asked_next = 0;
    batch_free(batch);
    if (err.code != ERR_none || follow->gone || follow->watch->closing)
        settle(follow, err.code != ERR_none && err.code != ERR_stale_fence ? &err : NULL);
    else
        follow_give(follow); /* there may be more */
}

static void revision_done(struct command *command)
{
    struct batch *batch = command->owner;
    if (command->err.code != ERR_none && batch->err.code == ERR_none) {
        err_set(&batch->err, command->err.code, "revision %lld wasn't taken: %s",
            (long long)command->in.revision.row.rev, command->err.text);
    }
    if (--batch->waiting == 0)
        batch_answered(batch);
}

static void batch_send(struct follow *follow)
{
    struct batch *batch = follow->batch;
    follow->batch = NULL;
    if (follow->gone || follow->watch->closing) {
        batch_free(batch);
        settle(follow, NULL);
        return;
    }
    ASSERT(follow->sent == NULL && batch->n > 0);
    follow->sent = batch;
    batch->waiting = batch->n;
    for (size_t i = 0; i < batch->n; i++) {
        batch->commands[i].done = revision_done;
        batch->commands[i].owner = batch;
        batch->commands[i].under.duty = DUTY_watch;
        batch->commands[i].under.epoch = follow->epoch;
    }
    /* all in one turn: the revisions of a push get the same `noted` time, by which causes.c knows them */
    engine_submit_all(follow->watch->config.engine, batch->commands, batch->n);
}

static void scan_done(struct pool_job *job)
{
    struct follow *follow = CONTAINER_OF(job, struct follow, job);
    switch (follow->end) {
    case SCAN_BATCH:
        behind_set(follow);
        batch_send(follow);
        break;
    case SCAN_FAULT:
        settle(follow, &follow->err);
        break;
    case SCAN_IDLE:
        settle(follow, NULL);
        break;
    }
}

/* follow_rest: stops scanning because another server holds the duty, or may hold it; `woken` starts it again when this
 * server holds the duty, or when it is sure that another does. */
static void follow_rest(struct follow *follow)
{
    heap_take(&follow->watch->dues, &follow->due);
    dues_arm(follow->watch);
    if (engine_duty_claimed(follow->watch->config.engine, DUTY_watch)) {
        follow->watch->lapsed = true; /* what was known of it is all that is known */
        return;
    }
    inotify_unfollow(follow);
    follow_source_close(follow);
    follow->recheck = true;
    follow->pause_ms = 0;
    status_set(follow, WATCH_OK,
        engine_held(follow->watch->config.engine) ? "the store was restored, and is paused: weir resume all"
                                                  : "another server of this store follows it");
}

static void follow_give(struct follow *follow)
{
    follow->epoch = engine_duty(follow->watch->config.engine, DUTY_watch);
    if (follow->epoch == 0) {
        follow->watch->epoch = 0;
        if (follow->busy) /* in the middle of many */
            settle(follow, NULL);
        else
            follow_rest(follow);
        return;
    }
    follow->busy = true;
    follow->seen_at = 0;
    if (follow->recheck)
        follow->caught = follow->recheck = false;
    follow->job.done = scan_done;
    due_at(follow, clock_boot_ms() + OVERDUE_MS);
    thread_pool_add(follow->watch->pool, follow->served ? POOL_SERVED : POOL_LOCAL, &follow->job);
}

void follow_due(struct follow *follow)
{
    if (!follow->busy) {
        follow->again_at = 0;
        follow_give(follow);
        return;
    }
    due_at(follow, clock_boot_ms() + OVERDUE_MS);
    if (follow->sent == NULL)
        status_set(follow, WATCH_FAULT,
            follow->served ? "the server of the repository hasn't answered for half a minute; waiting for it"
                           : "the file system of the repository hasn't answered for half a minute; waiting for it");
}
