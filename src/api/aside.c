/* aside: work that would hold the loop up (verify, backup) on a thread of its own.
 *
 * At most four at once; a fifth is answered 503. The thread touches nothing of the api but its own struct; when it is through, the loop's
 * thread joins it and calls `done`. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "api/call.h"

enum { ASIDE_MAX = 4, PATIENCE_S = 2 };

struct aside_thread {
    struct aside aside;
    struct list_node node;
    pthread_t thread;
    atomic_bool over;
    struct loop *loop;
};

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
}

void aside_init(struct api *api)
{
    loop_on_wake(api->config.loop, aside_woken, api);
}

bool aside_start(struct call *call, void (*work)(struct aside *), void (*done)(struct aside *), void *state)
{
    struct api *api = call->api;
    if (api->aside.n >= ASIDE_MAX) {
        call_refuse(call, ERR_unavailable, "%d long jobs are running already", ASIDE_MAX);
        return false;
    }
    struct aside_thread *thread = mem_alloc(sizeof *thread);
    memset(thread, 0, sizeof *thread);
    thread->aside = (struct aside){ .call = call, .work = work, .done = done, .state = state };
    thread->loop = api->config.loop;
    call->submitted = true; /* keeps the call when the client goes away */
    if (pthread_create(&thread->thread, NULL, aside_main, thread) != 0) {
        mem_free(thread);
        call->submitted = false;
        call_refuse(call, ERR_unavailable, "no thread can be started");
        return false;
    }
    list_append(&api->aside, &thread->node);
    return true;
}

/* A server that stops doesn't wait for a long verify: the process ends, and with it a thread that only reads. Its memory is left to it. */
void aside_release(struct api *api)
{
    struct timespec until;
    loop_forget(api->config.loop, api);
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
