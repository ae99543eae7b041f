/* beside: reads of the store that may last run beside the loop, on two threads with readers of their own.
 *
 * On PostgreSQL a read waits for another machine: while it does, nobody else would be answered. So the handlers in the table below, which
 * do nothing but read and render, are called on one of these threads, with an api of the thread's own (its reader, its names) and with a
 * copy of what was asked; how they end, an answer or a problem, is kept in the call and told by the loop's thread, when the call comes
 * back. Who went away meanwhile is told nothing. A call on its way belongs to the thread, but for `real` and `submitted`, which are the
 * loop's.
 *
 * Handlers that know more than the store says read beside, and render on the loop's thread (call_read).
 *
 * What the loop reads now and then for itself goes the same way, as a chore: `read` on a thread, `done` on the loop's with what it brought.
 *
 * Each statement has its limit (session_brief, session_hurried); a call that has waited QUEUED_MS for its turn, or finds QUEUED_MAX before
 * it, is refused (503, Retry-After). It was looked up before whether this server has come to the commit that was asked for (at_least): what
 * a thread reads is newer. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "api/call.h"
#include "io/clock.h"
#include "text/key.h"

enum { THREADS = 2, QUEUED_MAX = 4096, QUEUED_MS = 5000, NAP_MS = 50, NAPS = 30 };

static handler_fn *const handlers[] = {
    serve_tasks_list, serve_tasks_get, serve_tasks_why, serve_lanes_list, serve_semaphores_list, serve_revisions_list, serve_tokens_list,
};

struct beside_call { /* in the call's arena, or part of a chore */
    struct list_node node;
    struct call *call; /* NULL: a chore */
    struct http_request copy, *real; /* real: the loop's; NULL: gone */
    int64_t since_ms;
    bool (*read)(struct call *call); /* NULL: the route's handler */
    void (*done)(struct call *call);
};

struct beside_chore {
    struct beside_call item;
    bool under_way; /* the loop's */
    bool (*read)(struct api *hand, struct arena *arena, void *out);
    void (*done)(struct api *api, void *out);
    void *out;
    bool good;
    struct arena arena;
};

struct beside_hand {
    struct beside *beside;
    struct api api; /* what the handlers see: nothing of the loop's */
    pthread_t thread;
    bool runs;
};

struct beside {
    struct api *api;
    struct store_config store;
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct list waiting, over; /* struct beside_call; under the lock, as is: */
    bool stop;
    struct beside_hand hands[THREADS];
};

static bool hand_naps(struct beside_hand *hand)
{
    struct timespec ts = { .tv_nsec = NAP_MS * 1000000L };
    pthread_mutex_lock(&hand->beside->lock);
    bool stop = hand->beside->stop;
    pthread_mutex_unlock(&hand->beside->lock);
    if (!stop)
        nanosleep(&ts, NULL);
    return !stop;
}

/* A connection that was lost may be there again in a moment: call_misses has looked at the loop's only. */
static bool hand_ready(struct beside_hand *hand, struct err *err)
{
    struct api *api = &hand->api;
    if (api->config.reader == NULL)
        api->config.reader = reader_open(&hand->beside->store, err);
    if (api->config.reader == NULL)
        return false;
    for (int i = 0; i < NAPS && !reader_present(api->config.reader) && engine_health(api->config.engine) == ENGINE_OK; i++)
        if (!hand_naps(hand))
            break;
    return tenants_refresh(api, err);
}

static void hand_chore(struct beside_hand *hand, struct beside_chore *chore)
{
    struct err ignored = { 0 };
    chore->good = hand_ready(hand, &ignored) && chore->read(&hand->api, &chore->arena, chore->out);
}

static void hand_serve(struct beside_hand *hand, struct beside_call *item)
{
    struct call *call = item->call;
    struct api *home = call->api;
    call->api = &hand->api;
    if (clock_boot_ms() - item->since_ms > QUEUED_MS)
        err_set(&call->err, ERR_unavailable, "the database is slow: this read has waited %d s for those before it", QUEUED_MS / 1000);
    else if (hand_ready(hand, &call->err) && item->read == NULL)
        call->route->handler(call);
    else if (call->err.code == ERR_none && item->read(call))
        call->answered = -1; /* `done` answers */
    ASSERT(call->answered || call->err.code != ERR_none);
    call->api = home;
}

static void *hand_main(void *argument)
{
    struct beside_hand *hand = argument;
    struct beside *beside = hand->beside;
    pthread_mutex_lock(&beside->lock);
    while (!beside->stop) {
        struct list_node *node = list_take_first(&beside->waiting);
        if (node == NULL) {
            pthread_cond_wait(&beside->news, &beside->lock);
            continue;
        }
        struct beside_call *item = CONTAINER_OF(node, struct beside_call, node);
        pthread_mutex_unlock(&beside->lock);
        if (item->call != NULL)
            hand_serve(hand, item);
        else
            hand_chore(hand, CONTAINER_OF(item, struct beside_chore, item));
        pthread_mutex_lock(&beside->lock);
        list_append(&beside->over, &item->node);
        loop_wake(beside->api->config.loop);
    }
    pthread_mutex_unlock(&beside->lock);
    return NULL;
}

static void chore_end(struct api *api, struct beside_chore *chore, bool tell)
{
    chore->under_way = false;
    if (tell && chore->good)
        chore->done(api, chore->out);
    arena_reset(&chore->arena);
}

/* It is the loop's again. */
static void item_end(struct beside *beside, struct beside_call *item, bool answer)
{
    struct call *call = item->call;
    if (call == NULL) {
        chore_end(beside->api, CONTAINER_OF(item, struct beside_chore, item), answer);
        return;
    }
    call->request = item->real;
    call->beside = NULL;
    call->submitted = false;
    if (!answer || call->request == NULL)
        call_released(call);
    else if (call->answered < 0)
        item->done(call);
    else if (call->answered)
        call_answer_as(call, call->answered, call->answer_type, buf_str(&call->out), NULL);
    else
        call_problem(call);
}

static void beside_woken(void *owner)
{
    struct beside *beside = owner;
    for (;;) {
        pthread_mutex_lock(&beside->lock);
        struct list_node *node = list_take_first(&beside->over);
        pthread_mutex_unlock(&beside->lock);
        if (node == NULL)
            return;
        item_end(beside, CONTAINER_OF(node, struct beside_call, node), true);
    }
}

void beside_begin(struct api *api)
{
    if (!reader_is_shared(api->config.reader))
        return; /* a file of this machine: reads are short */
    struct beside *beside = mem_alloc_zero(sizeof *beside);
    beside->api = api;
    beside->store = *api->config.store;
    beside->store.hurried = true;
    pthread_mutex_init(&beside->lock, NULL);
    pthread_cond_init(&beside->news, NULL);
    loop_on_wake(api->config.loop, beside_woken, beside);
    for (size_t i = 0; i < THREADS; i++) {
        struct beside_hand *hand = &beside->hands[i];
        hand->beside = beside;
        hand->api.config = api->config;
        hand->api.config.reader = NULL;
        hand->api.config.loop = NULL; /* not theirs */
        buf_init(&hand->api.scratch, 4 * KEY_BYTES_MAX);
        hand->runs = pthread_create(&hand->thread, NULL, hand_main, hand) == 0;
    }
    if (beside->hands[0].runs || beside->hands[1].runs)
        api->beside = beside;
    else
        beside_free(beside);
}

/* What a thread is at ends with its statement's limit. */
void beside_stop(struct beside *beside)
{
    if (beside == NULL)
        return;
    pthread_mutex_lock(&beside->lock);
    beside->stop = true;
    pthread_cond_broadcast(&beside->news);
    pthread_mutex_unlock(&beside->lock);
    for (size_t i = 0; i < THREADS; i++) {
        if (beside->hands[i].runs)
            pthread_join(beside->hands[i].thread, NULL);
        beside->hands[i].runs = false;
    }
}

void beside_free(struct beside *beside)
{
    if (beside == NULL)
        return;
    loop_forget(beside->api->config.loop, beside);
    beside_stop(beside);
    for (size_t i = 0; i < THREADS; i++) {
        struct beside_hand *hand = &beside->hands[i];
        if (hand->api.config.reader != NULL)
            reader_close(hand->api.config.reader);
        names_release(&hand->api);
        auth_release(&hand->api);
        buf_release(&hand->api.scratch);
    }
    struct list *lists[] = { &beside->waiting, &beside->over };
    for (size_t i = 0; i < 2; i++)
        for (struct list_node *node; (node = list_take_first(lists[i])) != NULL;)
            item_end(beside, CONTAINER_OF(node, struct beside_call, node), false);
    pthread_cond_destroy(&beside->news);
    pthread_mutex_destroy(&beside->lock);
    mem_free(beside);
}

struct beside_chore *beside_chore_new(bool (*read)(struct api *, struct arena *, void *), void (*done)(struct api *, void *), void *out)
{
    struct beside_chore *chore = mem_alloc_zero(sizeof *chore);
    chore->read = read;
    chore->done = done;
    chore->out = out;
    return chore;
}

void beside_chore_free(struct beside_chore *chore)
{
    if (chore != NULL)
        arena_release(&chore->arena);
    mem_free(chore);
}

bool beside_chore_begin(struct api *api, struct beside_chore *chore)
{
    struct beside *beside = api->beside;
    if (beside == NULL)
        return false;
    if (chore->under_way)
        return true;
    chore->under_way = true;
    pthread_mutex_lock(&beside->lock);
    list_append(&beside->waiting, &chore->item.node);
    pthread_cond_signal(&beside->news);
    pthread_mutex_unlock(&beside->lock);
    return true;
}

static bool handler_fits(handler_fn *handler)
{
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (handlers[i] == handler)
            return true;
    return false;
}

/* What the thread may look at, in the call's own memory. */
static void question_copy(struct call *call, struct http_request *out)
{
    struct str *names;
    size_t n = call->request->query.len > 0 ? http_params(call->request, &names) : 0;
    call->n_params = 0; /* the handler may run a second time for this call */
    call->answered = 0;
    call->params = ARENA_ARRAY(&call->arena, struct call_param, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct str value = { 0 };
        (void)http_param(call->request, str_dupz(&call->arena, names[i]), &value);
        call->params[call->n_params++] = (struct call_param){ str_dup(&call->arena, names[i]), str_dup(&call->arena, value) };
    }
    *out = (struct http_request){ .method = str_dup(&call->arena, call->request->method) };
    struct str *texts[] = { &call->arg, &call->arg2, &call->actor.name, &call->actor.tenant };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i]->len > 0)
            *texts[i] = str_dup(&call->arena, *texts[i]);
}

static void call_begin(struct call *call, bool (*read)(struct call *call), void (*done)(struct call *call))
{
    struct beside *beside = call->api->beside;
    struct beside_call *item = ARENA_NEW(&call->arena, struct beside_call);
    *item = (struct beside_call){ .call = call, .real = call->request, .since_ms = clock_boot_ms(), .read = read, .done = done };
    question_copy(call, &item->copy);
    pthread_mutex_lock(&beside->lock);
    bool room = beside->waiting.n < QUEUED_MAX;
    if (room) {
        call->beside = &item->real;
        call->request = &item->copy;
        call->submitted = true; /* keeps the call when the client goes away */
        list_append(&beside->waiting, &item->node);
        pthread_cond_signal(&beside->news);
    }
    pthread_mutex_unlock(&beside->lock);
    if (!room)
        call_refuse(call, ERR_unavailable, "the database is slow: %d reads are waiting already", QUEUED_MAX);
}

void call_read(struct call *call, bool (*read)(struct call *call), void (*done)(struct call *call))
{
    if (call->api->beside != NULL)
        call_begin(call, read, done);
    else if (read(call))
        done(call);
    else
        call_problem(call);
}

void call_handle(struct call *call)
{
    if (call->api->beside != NULL && handler_fits(call->route->handler))
        call_begin(call, NULL, NULL);
    else
        call->route->handler(call);
}
