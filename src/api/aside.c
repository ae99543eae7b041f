/* aside: work that would hold the loop up (verify, backup) on a thread of its own.
 *
 * Of long work (verify, backup) at most four at once; a fifth is answered 503. Of short work with files (pieces of
 * uploads, seals, looking up what was sealed) four run at once beside those, and others wait for their turn, up to a
 * limit. The thread touches nothing of the api but its own struct; when it is through, the loop's thread joins it and
 * calls `done`. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "api/call.h"

enum { ASIDE_MAX = 4, WAITING_MAX = 200, PATIENCE_S = 2 };

struct aside_thread {
    struct aside aside;
    struct list_node node;
    pthread_t thread;
    atomic_bool over;
    struct loop *loop;
    bool queued; /* of the short work */
};

static size_t aside_running(const struct api *api, bool queued)
{
    size_t n = 0;
    for (struct list_node *node = api->aside.first; node != NULL; node = node->next)
        n += CONTAINER_OF(node, struct aside_thread, node)->queued == queued;
    return n;
}

static void *aside_main(void *argument)
{
    struct aside_thread *thread = argument;
    struct loop *loop = thread->loop;
    thread->aside.work(&thread->aside);
    atomic_store(&thread->over, true); /* from here on the loop's thread may free it */
    loop_wake(loop);
    return NULL;
}

static void aside_reap(struct api *api, struct aside_thread *thread, bool answer)
{
    list_remove(&api->aside, &thread->node);
    struct call *call = thread->aside.call;
    call->submitted = false;
    if (answer && call->request != NULL)
        thread->aside.done(&thread->aside);
    else
        call_released(call);
    mem_free(thread);
}

static bool aside_begin(struct api *api, struct aside_thread *thread)
{
    if (pthread_create(&thread->thread, NULL, aside_main, thread) != 0)
        return false;
    list_append(&api->aside, &thread->node);
    return true;
}

static void aside_refuse(struct call *call, struct aside_thread *thread)
{
    mem_free(thread);
    call->submitted = false;
    if (call->request != NULL)
        call_refuse(call, ERR_unavailable, "no thread can be started");
    else
        call_released(call);
}

/* waiting_begin: those whose turn it is. */
static void waiting_begin(struct api *api)
{
    while (api->aside_waiting.first != NULL && aside_running(api, true) < ASIDE_MAX) {
        struct aside_thread *thread = CONTAINER_OF(list_take_first(&api->aside_waiting), struct aside_thread, node);
        if (!aside_begin(api, thread))
            aside_refuse(thread->aside.call, thread);
    }
}

static void aside_woken(void *owner)
{
    struct api *api = owner;
    for (struct list_node *node = api->aside.first, *next; node != NULL; node = next) {
        struct aside_thread *thread = CONTAINER_OF(node, struct aside_thread, node);
        next = node->next;
        if (!atomic_load(&thread->over))
            continue;
        pthread_join(thread->thread, NULL);
        aside_reap(api, thread, true);
    }
    waiting_begin(api);
}

void aside_init(struct api *api)
{
    loop_on_wake(api->config.loop, aside_woken, api);
}

static struct aside_thread *aside_make(
    struct call *call, void (*work)(struct aside *), void (*done)(struct aside *), void *state)
{
    struct aside_thread *thread = mem_alloc_zero(sizeof *thread);
    thread->aside = (struct aside){ .call = call, .work = work, .done = done, .state = state };
    thread->loop = call->api->config.loop;
    call->submitted = true; /* keeps the call when the client goes away */
    return thread;
}

bool aside_start(struct call *call, void (*work)(struct aside *), void (*done)(struct aside *), void *state)
{
    struct api *api = call->api;
    if (aside_running(api, false) >= ASIDE_MAX) {
        call_refuse(call, ERR_unavailable, "%d long jobs are running already", ASIDE_MAX);
        return false;
    }
    struct aside_thread *thread = aside_make(call, work, done, state);
    if (aside_begin(api, thread))
        return true;
    aside_refuse(call, thread);
    return false;
}

bool aside_queue(struct call *call, void (*work)(struct aside *), void (*done)(struct aside *), void *state)
{
    struct api *api = call->api;
    if (api->aside_waiting.n >= WAITING_MAX) {
        call_refuse(call, ERR_unavailable, "%d requests with files are waiting already", WAITING_MAX);
        return false;
    }
    struct aside_thread *thread = aside_make(call, work, done, state);
    thread->queued = true;
    list_append(&api->aside_waiting, &thread->node);
    waiting_begin(api);
    return true;
}

/* A server that stops doesn't wait for a long verify: the process ends, and with it a thread that only reads. Its
 * memory is left to it. */
void aside_release(struct api *api)
{
    struct timespec until;
    loop_forget(api->config.loop, api);
    for (struct list_node *node; (node = list_take_first(&api->aside_waiting)) != NULL;) {
        struct aside_thread *thread = CONTAINER_OF(node, struct aside_thread, node);
        thread->aside.call->submitted = false;
        call_released(thread->aside.call);
        mem_free(thread);
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    while (api->aside.first != NULL) {
        struct aside_thread *thread = CONTAINER_OF(api->aside.first, struct aside_thread, node);
        if (pthread_timedjoin_np(thread->thread, NULL, &until) == 0) {
            aside_reap(api, thread, false);
            continue;
        }
        pthread_detach(thread->thread);
        list_remove(&api->aside, &thread->node);
        list_remove(&api->calls, &thread->aside.call->node);
    }
}
