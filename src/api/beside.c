/* beside: all reads of the store run beside the loop, on three threads with readers of their own.
 *
 * On PostgreSQL a read waits for another machine: while it does, nobody else would be answered. So the handlers in the
 * table below are called on one of these threads, with an api of the thread's own (its reader, its names) and with a
 * copy of what was asked; how they end, an answer, a problem or a command for the engine, is kept in the call and done
 * by the loop's thread, when the call comes back. Who went away meanwhile is told nothing. A call on its way belongs to
 * the thread, but for `real` and `submitted`, which are the loop's. A body isn't copied: its request stays until it is
 * answered, whatever its client does.
 *
 * Handlers that aren't in the table read nothing on their way, or only now and then (a task that is named by its key,
 * one that was there already): then they go beside with that part (call_beside). What needs the loop's own things
 * (lists of followers, watchers, who has polled lately) comes back for it (call_home). Streams do so for each piece
 * that they send. One of the threads serves only executors, and the loop itself: what people look at, however slow,
 * holds no job up.
 *
 * What the loop reads now and then for itself goes the same way, as a chore: `read` on a thread, `done` on the loop's
 * with what it brought.
 *
 * Each statement has its limit (session_brief, session_hurried), and all of a call together READ_MS, with the time that
 * it waits for its turn; behind QUEUED_MAX others it is refused at once (503, Retry-After; a stream breaks off). It was
 * looked up before whether this server has come to the commit that was asked for (at_least): what a thread reads is
 * newer. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "api/call.h"
#include "io/clock.h"
#include "text/key.h"

enum { THREADS = 3, LINES = 2, QUEUED_MAX = 4096, READ_MS = 5000, NAP_MS = 50, NAPS = 30 };

/* They touch nothing of struct api but reader, names, scratch, tenants, files_used, workflows, the keys and what is
 * thread-safe (engine, logs, blobs, watch_status). */
static handler_fn *const handlers[] = {
    serve_tasks_list,
    serve_tasks_get,
    serve_tasks_why,
    serve_tasks_graph,
    serve_tasks_cancel,
    serve_tasks_retry,
    serve_tasks_promote,
    serve_logs_get,
    serve_logs_post,
    serve_artifacts_get,
    serve_artifacts_post,
    serve_events_get,
    serve_lanes_list,
    serve_semaphores_list,
    serve_tokens_list,
    serve_tenants_list,
    serve_config_get,
    serve_executors_get,
    serve_executors_pause,
    serve_executors_resume,
    serve_executors_drain,
    serve_archives_list,
    serve_archives_get,
    serve_archives_remove,
    serve_archives_skip,
    serve_revisions_list,
    serve_revisions_get,
    serve_revisions_tree,
    serve_revisions_create,
    serve_runs_create,
};

static const char *const headers[] = { "Idempotency-Key", "Accept", "Last-Event-ID", "Range" }; /* that they look at */
enum { HEADERS = sizeof headers / sizeof *headers };

struct beside_call { /* in the call's arena, or part of a chore */
    struct list_node node;
    struct call *call;                          /* NULL: a chore */
    struct http_request copy, *real;            /* real: the loop's; NULL: gone */
    void (*gone)(struct http_request *request); /* of `real`, which has none meanwhile if it has a body */
    uint64_t incarnation;                       /* as the loop knows it */
    handler_fn *run;
    bool (*read)(struct call *call); /* instead of `run`; then `done` is called at home */
    handler_fn *done;
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
    size_t lines;   /* of beside->waiting it takes from the first so many */
    pthread_t thread;
    bool runs;
};

struct beside {
    struct api *api;
    struct store_config store;
    pthread_mutex_t lock;
    pthread_cond_t news;
    /* struct beside_call; waiting: executors' and chores, others'. Under the lock, as is: */
    struct list waiting[LINES], over;
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
    for (int i = 0; i < NAPS && !reader_present(api->config.reader) && engine_health(api->config.engine) == ENGINE_OK;
         i++)
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
    hand->api.incarnation = item->incarnation;
    if (clock_boot_ms() - call->read_since > READ_MS)
        err_set(&call->err, ERR_unavailable, "the database is slow: this has waited %d s for reads before it",
            READ_MS / 1000);
    else if (hand_ready(hand, &call->err)) {
        reader_limit(hand->api.config.reader, call->read_since + READ_MS);
        if (item->run != NULL)
            item->run(call);
        else if (item->read(call))
            call_home(call, item->done);
        reader_limit(hand->api.config.reader, 0);
    }
    ASSERT(call->answered || call->err.code != ERR_none);
    call->api = home;
}

static struct list_node *hand_take(struct beside_hand *hand)
{
    struct list_node *node = NULL;
    for (size_t i = hand->lines; i > 0 && node == NULL; i--)
        node = list_take_first(&hand->beside->waiting[i - 1]);
    return node;
}

static void *hand_main(void *argument)
{
    struct beside_hand *hand = argument;
    struct beside *beside = hand->beside;
    pthread_mutex_lock(&beside->lock);
    while (!beside->stop) {
        struct list_node *node = hand_take(hand);
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
    int ended = call->answered;
    call->answered = 0;
    if (call->request != NULL)
        call->request->gone = item->gone;
    if (!answer || call->request == NULL)
        call_released(call);
    else if (call->streams && !auth_lasts(call))
        return;
    else if (ended == CALL_GOES_HOME)
        call->home(call);
    else if (ended == CALL_SUBMITS)
        call_submit(call, call->home);
    else if (call->streams)
        call_stream_break(call);
    else if (ended)
        call_answer_as(call, ended, call->answer_type, buf_str(&call->out), NULL);
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
        hand->lines = i == 0 ? 1 : LINES;
        hand->api.config = api->config;
        hand->api.config.reader = NULL;
        hand->api.config.loop = NULL; /* not theirs */
        hand->api.blobs = api->blobs;
        hand->api.uploads = api->uploads; /* its version alone */
        memcpy(hand->api.job_key, api->job_key, sizeof api->job_key);
        hand->api.fence_key = api->fence_key;
        buf_init(&hand->api.scratch, 4 * KEY_BYTES_MAX);
        hand->runs = pthread_create(&hand->thread, NULL, hand_main, hand) == 0;
    }
    if (beside->hands[1].runs || beside->hands[2].runs)
        api->beside = beside;
    else
        beside_free(beside);
}

/* Their clients are told of again when they go away: the server that they came to is closed next. */
static void items_let_go(struct list *items)
{
    for (struct list_node *node = items->first; node != NULL; node = node->next) {
        struct beside_call *item = CONTAINER_OF(node, struct beside_call, node);
        if (item->call != NULL && item->real != NULL)
            item->real->gone = item->gone;
    }
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
    for (size_t i = 0; i < LINES; i++)
        items_let_go(&beside->waiting[i]);
    items_let_go(&beside->over);
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
        posted_workflows_release(&hand->api);
        files_used_release(&hand->api.files_used);
        buf_release(&hand->api.scratch);
    }
    struct list *lists[LINES + 1] = { &beside->over };
    for (size_t i = 0; i < LINES; i++)
        lists[1 + i] = &beside->waiting[i];
    for (size_t i = 0; i < LINES + 1; i++)
        for (struct list_node *node; (node = list_take_first(lists[i])) != NULL;)
            item_end(beside, CONTAINER_OF(node, struct beside_call, node), false);
    pthread_cond_destroy(&beside->news);
    pthread_mutex_destroy(&beside->lock);
    mem_free(beside);
}

struct beside_chore *beside_chore_new(
    bool (*read)(struct api *, struct arena *, void *), void (*done)(struct api *, void *), void *out)
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

bool beside_chore_runs(const struct beside_chore *chore)
{
    return chore->under_way;
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
    list_append(&beside->waiting[0], &chore->item.node);
    pthread_cond_broadcast(&beside->news);
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

/* What the thread may look at, in the call's own memory; but for the body, which may be large. */
static void question_copy(struct call *call, struct http_request *out)
{
    struct http_request *real = call->request;
    struct str *names;
    size_t n = real->query.len > 0 ? http_params(real, &names) : 0;
    call->n_params = call->n_headers = 0; /* it may go beside more than once */
    call->params = ARENA_ARRAY(&call->arena, struct call_param, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct str value = { 0 };
        (void)http_param(real, str_dupz(&call->arena, names[i]), &value);
        call->params[call->n_params++] =
            (struct call_param){ str_dup(&call->arena, names[i]), str_dup(&call->arena, value) };
    }
    call->headers = ARENA_ARRAY(&call->arena, struct call_param, HEADERS);
    for (size_t i = 0; i < HEADERS; i++) {
        struct str value = http_header(real, headers[i]);
        if (value.ptr != NULL)
            call->headers[call->n_headers++] = (struct call_param){ str_of(headers[i]), str_dup(&call->arena, value) };
    }
    *out = (struct http_request){
        .method = str_dup(&call->arena, real->method), .path = str_dup(&call->arena, real->path), .body = real->body
    };
    struct str *texts[] = { &call->arg, &call->arg2, &call->actor.name, &call->actor.tenant };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i]->len > 0)
            *texts[i] = str_dup(&call->arena, *texts[i]);
}

static struct beside_call *item_new(struct call *call)
{
    if (call->item == NULL) /* it is beside once at a time */
        call->item = ARENA_NEW(&call->arena, struct beside_call);
    struct beside_call *item = call->item;
    *item = (struct beside_call){
        .call = call, .real = call->request, .gone = call->request->gone, .incarnation = call->api->incarnation
    };
    return item;
}

static void call_begin(struct call *call, struct beside_call *item)
{
    struct beside *beside = call->api->beside;
    if (call->read_since == 0 || call->streams)
        call->read_since = clock_boot_ms();
    call->answered = 0;
    if (call->streams) /* it asks nothing new, again and again */
        item->copy = (struct http_request){ .method = STR("GET") };
    else
        question_copy(call, &item->copy);
    struct list *line = &beside->waiting[call->route == NULL || call->route->scope != SCOPE_EXECUTE];
    pthread_mutex_lock(&beside->lock);
    bool room = line->n < QUEUED_MAX;
    if (room) {
        if (item->copy.body.len > 0)
            item->real->gone = NULL;
        call->beside = &item->real;
        call->request = &item->copy;
        call->submitted = true; /* keeps the call when the client goes away */
        list_append(line, &item->node);
        pthread_cond_broadcast(&beside->news); /* one of them may not be for it */
    }
    pthread_mutex_unlock(&beside->lock);
    if (!room && call->streams)
        call_stream_break(call);
    else if (!room)
        call_refuse(call, ERR_unavailable, "the database is slow: %d reads are waiting already", QUEUED_MAX);
}

bool call_moves(struct call *call, handler_fn *fn)
{
    if (call->api->beside == NULL) /* a thread's own api has none either */
        return false;
    struct beside_call *item = item_new(call);
    item->run = fn;
    call_begin(call, item);
    return true;
}

void call_beside(struct call *call, handler_fn *fn)
{
    if (!call_moves(call, fn))
        fn(call);
}

void call_home(struct call *call, handler_fn *fn)
{
    if (call->beside == NULL) {
        fn(call);
        return;
    }
    call->home = fn;
    call->answered = CALL_GOES_HOME;
}

void call_read(struct call *call, bool (*read)(struct call *call), handler_fn *done)
{
    if (call->api->beside != NULL) {
        struct beside_call *item = item_new(call);
        item->read = read;
        item->done = done;
        call_begin(call, item);
    } else if (read(call)) {
        done(call);
    } else {
        call_problem(call);
    }
}

void call_handle(struct call *call)
{
    if (handler_fits(call->route->handler))
        call_beside(call, call->route->handler);
    else
        call->route->handler(call);
}
