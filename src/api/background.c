/* background: work that would block the loop, each on a thread of its own.
 *
 * Long work (verify, backup): at most four at once; a fifth request is answered 503. Short work with files (pieces of
 * uploads, seals, looking up what was sealed): four more at once, and others queue, up to a limit. Checks of tarballs,
 * each of which may take as long as its sender likes: four more, likewise, so that nothing else waits for them. A
 * thread touches nothing of the api but its own struct; when it has ended, the loop's thread joins it and calls `done`.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "api/call.h"

enum { BACKGROUND_MAX = 4, WAITING_MAX = 200, PATIENCE_S = 2 };

struct background_thread {
    const struct background *background;
    struct call *call;
    void *state; /* the work's */
    struct err err;
    bool good;
    struct list_node node;
    pthread_t thread;
    atomic_bool over;
    struct loop *loop;
    enum background_pool pool;
};

static size_t background_running(const struct api *api, enum background_pool pool)
{
    size_t n = 0;
    for (struct list_node *node = api->background.running.first; node != NULL; node = node->next)
        n += CONTAINER_OF(node, struct background_thread, node)->pool == pool;
    return n;
}

static void *background_main(void *argument)
{
    struct background_thread *thread = argument;
    struct loop *loop = thread->loop;
    thread->good = thread->background->work(thread->state, &thread->err);
    atomic_store(&thread->over, true); /* from here on the loop's thread may free it */
    loop_wake(loop);
    return NULL;
}

static void background_reap(struct api *api, struct background_thread *thread, bool answer)
{
    list_remove(&api->background.running, &thread->node);
    struct call *call = thread->call;
    call->submitted = false;
    call->err.expected = thread->err.expected;
    if (!answer || (call->request == NULL && !thread->background->goes_on))
        call_released(call);
    else if (thread->good)
        thread->background->done(call, thread->state);
    else
        call_refuse(call, thread->err.code, "%s", thread->err.text);
    mem_free(thread);
}

static bool background_begin(struct api *api, struct background_thread *thread)
{
    if (pthread_create(&thread->thread, NULL, background_main, thread) != 0)
        return false;
    list_append(&api->background.running, &thread->node);
    return true;
}

static bool background_refuse(struct background_thread *thread)
{
    struct call *call = thread->call;
    mem_free(thread);
    call->submitted = false;
    if (call->request != NULL)
        return call_refuse(call, ERR_unavailable, "no thread can be started");
    call_released(call);
    return false;
}

/* waiting_begin: starts queued work while threads are free. */
static void waiting_begin(struct api *api, enum background_pool pool)
{
    struct list *queued = &api->background.queued[pool];
    while (queued->first != NULL && background_running(api, pool) < BACKGROUND_MAX) {
        struct background_thread *thread = CONTAINER_OF(list_take_first(queued), struct background_thread, node);
        if (!background_begin(api, thread))
            background_refuse(thread);
    }
}

static void background_woken(void *owner)
{
    struct api *api = owner;
    for (struct list_node *node = api->background.running.first, *next; node != NULL; node = next) {
        struct background_thread *thread = CONTAINER_OF(node, struct background_thread, node);
        next = node->next;
        if (!atomic_load(&thread->over))
            continue;
        pthread_join(thread->thread, NULL);
        background_reap(api, thread, true);
    }
    waiting_begin(api, POOL_FILES);
    waiting_begin(api, POOL_CHECKS);
}

void background_init(struct api *api)
{
    loop_on_wake(api->config.loop, background_woken, api);
}

static struct background_thread *background_make(struct call *call, const struct background *background, void *state)
{
    struct background_thread *thread = mem_alloc_zero(sizeof *thread);
    thread->background = background;
    thread->call = call;
    thread->state = state;
    thread->loop = call->api->config.loop;
    call->submitted = true; /* keeps the call when the client goes away */
    return thread;
}

bool background_start(struct call *call, const struct background *background, void *state)
{
    struct api *api = call->api;
    if (background_running(api, POOL_LONG) >= BACKGROUND_MAX)
        return call_refuse(call, ERR_unavailable, "%d long jobs are running already", BACKGROUND_MAX);
    struct background_thread *thread = background_make(call, background, state);
    return background_begin(api, thread) || background_refuse(thread);
}

static bool pool_queue(
    struct call *call, const struct background *background, void *state, enum background_pool pool, const char *what)
{
    struct api *api = call->api;
    if (api->background.queued[pool].n >= WAITING_MAX && !background->goes_on)
        return call_refuse(call, ERR_unavailable, "%d %s are waiting already", WAITING_MAX, what);
    struct background_thread *thread = background_make(call, background, state);
    thread->pool = pool;
    list_append(&api->background.queued[pool], &thread->node);
    waiting_begin(api, pool);
    return true;
}

bool background_queue(struct call *call, const struct background *background, void *state)
{
    return pool_queue(call, background, state, POOL_FILES, "requests with files");
}

bool background_check(struct call *call, const struct background *background, void *state)
{
    return pool_queue(call, background, state, POOL_CHECKS, "tarballs");
}

/* A server that stops doesn't wait for a long verify: the process ends, and with it the thread, which only reads. Its
 * memory isn't freed, since the thread still uses it. */
void background_release(struct api *api)
{
    struct timespec until;
    loop_forget(api->config.loop, api);
    for (size_t pool = 0; pool < POOL_COUNT; pool++)
        for (struct list_node *node; (node = list_take_first(&api->background.queued[pool])) != NULL;) {
            struct background_thread *thread = CONTAINER_OF(node, struct background_thread, node);
            thread->call->submitted = false;
            call_released(thread->call);
            mem_free(thread);
        }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    while (api->background.running.first != NULL) {
        struct background_thread *thread = CONTAINER_OF(api->background.running.first, struct background_thread, node);
        if (pthread_timedjoin_np(thread->thread, NULL, &until) == 0) {
            background_reap(api, thread, false);
            continue;
        }
        pthread_detach(thread->thread);
        list_remove(&api->background.running, &thread->node);
        list_remove(&api->calls, &thread->call->node);
    }
}
