/* watch: which archives are followed, and the door of the room.
 *
 * Owns the list of followed archives, which is read from the store at the start and after each reported change. One
 * timer serves them all.
 *
 * Opening fails if the store or the notify socket can't be opened. Later faults belong to single archives
 * (watch_status). */
#include <string.h>

#include "io/clock.h"
#include "io/log.h"
#include "store/read.h"
#include "watch/follow.h"

enum { SCAN_LOCAL_MS = 1000, SCAN_SAFETY_MS = 30000, SCAN_REMOTE_MS = 60000 };

static struct watch *left; /* never freed: threads that hung at the end still use them */

const char *watch_state_name(enum watch_state state)
{
    static const char *const names[WATCH_STATE_COUNT] = { "", "ok", "behind", "fault" };
    return names[state];
}

static void timer_due(struct loop_timer *timer)
{
    struct watch *watch = timer->owner;
    int64_t now = loop_now(watch->config.loop);
    struct heap_node *first;
    while (!watch->closing && (first = heap_first(&watch->dues)) != NULL && first->key <= now)
        follow_due(CONTAINER_OF(first, struct follow, due));
    dues_arm(watch);
}

/* --- which archives --- */

static bool is_followed_as(const struct follow *follow, const struct archive *archive)
{
    return follow->lane == archive->lane && follow->kind == archive->kind && str_eq(follow->url, archive->url) &&
           str_eq(follow->branch, archive->branch);
}

static struct follow *follow_find(struct watch *watch, int64_t lane)
{
    return map_find(&watch->by_lane, (uint64_t)lane);
}

static void unfollow(struct watch *watch, struct follow *follow)
{
    pthread_mutex_lock(&watch->lock);
    map_take(&watch->by_lane, (uint64_t)follow->lane);
    pthread_mutex_unlock(&watch->lock);
    follow_end(follow);
}

void watch_archive_told(struct watch *watch, const struct archive_view *view)
{
    const struct archive *archive = &view->archive;
    struct follow *follow = follow_find(watch, archive->lane);
    bool wanted = archive->removed == 0 && (archive->kind == ARCHIVE_SVN || archive->kind == ARCHIVE_GIT);
    if (follow != NULL && (!wanted || !is_followed_as(follow, archive))) {
        unfollow(watch, follow);
        follow = NULL;
    }
    if (!wanted)
        return;
    if (follow == NULL) {
        follow = follow_new(watch, archive, &view->lane);
        pthread_mutex_lock(&watch->lock);
        map_put(&watch->by_lane, (uint64_t)follow->lane, follow);
        pthread_mutex_unlock(&watch->lock);
    }
    follow->recheck = true; /* its row may have changed, as by a skipped revision */
    follow_poke(follow);
}

/* archives_read: before the loop runs. */
static bool archives_read(struct watch *watch, struct err *err)
{
    struct arena arena = { 0 };
    struct archive_view *views = NULL;
    size_t n = 0;
    bool good = reader_archives(watch->reader, &arena, &views, &n, err);
    for (size_t i = 0; good && i < n; i++)
        watch_archive_told(watch, &views[i]);
    arena_release(&arena);
    return good;
}

/* --- hints and states --- */

/* hint_give: to the server that follows repositories. */
static void hint_give(struct watch *watch, struct follow *follow, const struct watch_hint *hint)
{
    if (engine_duty(watch->config.engine, DUTY_watch) > 0)
        follow_hint(follow, hint);
    else
        hint_messages_pass(watch, follow, hint);
}

bool follows_hint(struct watch *watch, struct str archive, const struct watch_hint *hint)
{
    bool any = false;
    for (struct list_node *node = watch->follows.first; node != NULL; node = node->next) {
        struct follow *follow = CONTAINER_OF(node, struct follow, node);
        if (follow->gone || !str_eq(follow->name, archive))
            continue;
        hint_give(watch, follow, hint);
        any = true;
    }
    return any;
}

bool watch_hint(struct watch *watch, int64_t lane, const struct watch_hint *hint)
{
    struct follow *follow = follow_find(watch, lane);
    if (follow == NULL)
        return false;
    hint_give(watch, follow, hint);
    return true;
}

/* woken: the engine calls it: does this server hold the duty now, or have peers added or removed archives? */
static void woken(void *owner)
{
    struct watch *watch = owner;
    if (watch->closing)
        return;
    int64_t epoch = engine_duty(watch->config.engine, DUTY_watch);
    uint64_t version = engine_archives_version(watch->config.engine);
    /* this server held the duty before; a peer has it now */
    bool taken = watch->lapsed && epoch == 0 && !engine_duty_claimed(watch->config.engine, DUTY_watch);
    bool all = (epoch > 0 && epoch != watch->epoch) || taken, any = false;
    int64_t lanes[ARCHIVE_NEWS_MAX];
    size_t n = version != watch->archives_version ? engine_archive_news(watch->config.engine, lanes, &any) : 0;
    watch->lapsed = watch->lapsed && epoch == 0 && !taken;
    watch->epoch = epoch;
    watch->archives_version = version;
    if (all || any)
        watch_archives_changed(watch); /* each is scanned too */
    for (size_t i = 0; i < n && !all && !any; i++)
        archive_read_lane(watch, lanes[i]);
    hint_messages_take(watch);
}

const char *watch_notify_path(const struct watch *watch)
{
    return watch->notify_path;
}

bool watch_status(struct watch *watch, int64_t lane, struct watch_status *out)
{
    pthread_mutex_lock(&watch->lock);
    struct follow *follow = follow_find(watch, lane);
    if (follow != NULL)
        *out = follow->status;
    pthread_mutex_unlock(&watch->lock);
    return follow != NULL;
}

/* --- life --- */

static void watch_free(struct watch *watch)
{
    hint_messages_release(watch);
    inotify_release(watch);
    heap_release(&watch->dues);
    map_release(&watch->by_lane);
    pthread_mutex_destroy(&watch->lock);
    mem_free(watch);
}

struct watch *watch_open(const struct watch_config *config, struct err *err)
{
    struct watch *watch = mem_alloc_zero(sizeof *watch);
    watch->config = *config;
    if (config->scan_local_ms == 0)
        watch->config.scan_local_ms = SCAN_LOCAL_MS;
    if (config->scan_safety_ms == 0)
        watch->config.scan_safety_ms = SCAN_SAFETY_MS;
    if (config->scan_remote_ms == 0)
        watch->config.scan_remote_ms = SCAN_REMOTE_MS;
    loop_on_wake(config->loop, woken, watch);
    watch->timer = (struct loop_timer){ .due = timer_due, .owner = watch };
    watch->notify_fd.fd = -1;
    pthread_mutex_init(&watch->lock, NULL);
    watch->pool = thread_pool_new(config->loop, config->store);
    inotify_start(watch);
    archive_reads_init(watch);
    watch->reader = reader_open(config->store, err);
    if (watch->reader != NULL && notify_init(watch, err) && archives_read(watch, err))
        return watch;
    watch_close(watch);
    return NULL;
}

void watch_closing(struct watch *watch)
{
    watch->closing = true;
    loop_forget(watch->config.loop, watch);
    loop_disarm(watch->config.loop, &watch->timer);
    loop_disarm(watch->config.loop, &watch->archive_read_timer);
    notify_release(watch);
    tar_streams_stop(watch);
}

bool watch_close(struct watch *watch)
{
    if (!watch->closing)
        watch_closing(watch);
    inotify_stop(watch);
    watch->closed = true;
    bool all = thread_pool_close(watch->pool);
    probes_release(watch, all);
    tar_streams_release(watch, all);
    archive_reads_release(watch, all);
    if (watch->reader != NULL)
        reader_close(watch->reader);
    for (struct list_node *node = watch->follows.first, *next; node != NULL; node = next) {
        struct follow *follow = CONTAINER_OF(node, struct follow, node);
        next = node->next;
        if (all || !follow->busy)
            follow_free(follow);
    }
    if (!all) { /* a thread that hangs still uses the memory */
        watch->left_before = left;
        left = watch;
        return false;
    }
    watch_free(watch);
    return true;
}
