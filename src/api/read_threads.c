/* read_threads: on PostgreSQL, three threads with readers of their own do all reads of the store for the loop.
 *
 * There a read waits for another machine, and no other client would be answered meanwhile. So the handlers of routes
 * that are ON_THREAD (route.def) run on one of these threads, with an api of the thread's own (its reader, its names)
 * and a copy of the request.
 * How they end (an answer, a problem, or a command for the engine) is kept in the call, and the loop's thread does it
 * when it gets the call back; if the client has gone meanwhile, nothing is sent. While a thread has a call, the loop
 * touches only `real` and `submitted` of it. A body isn't copied: its request stays until it is answered, whatever its
 * client does.
 *
 * Other handlers don't read, or only sometimes (a task named by its key, one that was there
 * already): then they give that part to a thread (call_on_thread). What needs the loop's own things (lists of
 * followers, watchers, who has polled lately) is given back to it (call_on_loop). Streams do so for each piece that
 * they send. One of the threads serves only executors and the loop itself: slow reads of people delay no job.
 *
 * A chore is a read that the loop itself needs from time to time: `read` runs on a thread, `done` on the loop's thread
 * with the result.
 *
 * Each statement has its limit (session_brief, session_hurried); all of a call together, with the time in the queue,
 * have READ_MS. Behind QUEUED_MAX others a call is refused at once (503, Retry-After; a stream breaks off). The commit
 * that a call asks for (at_least) was waited for before: a thread reads nothing older. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "api/call.h"
#include "io/clock.h"
#include "text/key.h"

enum { THREADS = 3, QUEUES = 2, QUEUED_MAX = 4096, READ_MS = 5000, NAP_MS = 50, NAPS = 30 };

static const char *const headers[] = { "Idempotency-Key", "Accept", "Last-Event-ID", "Range" }; /* that they look at */
enum { HEADERS = sizeof headers / sizeof *headers };

struct read_item { /* in the call's arena, or part of a chore */
    struct list_node node;
    struct call *call;                          /* NULL: a chore */
    struct http_request copy, *real;            /* real: the loop's; NULL: gone */
    void (*gone)(struct http_request *request); /* of `real`, which has none meanwhile if it has a body */
    uint64_t incarnation;                       /* as the loop knows it */
    handler_fn *run;
    bool (*read)(struct call *call); /* instead of `run`; then the loop calls `done` */
    handler_fn *done;
};

struct chore {
    struct read_item item;
    bool under_way; /* the loop's */
    bool (*read)(struct api *own, struct arena *arena, void *out);
    void (*done)(struct api *api, void *out);
    void *out;
    bool good;
    struct arena arena;
};

struct read_thread {
    struct read_threads *threads;
    struct api api; /* what the handlers see: nothing of the loop's */
    size_t queues;  /* it serves the first so many of threads->waiting */
    pthread_t id;
    bool runs;
};

struct read_threads {
    struct api *api;
    struct store_config store;
    pthread_mutex_t lock;
    pthread_cond_t news;
    /* under the lock: */
    struct list waiting[QUEUES], over; /* struct read_item; waiting[0]: of executors and chores, [1]: of others */
    bool stop;
    struct read_thread threads[THREADS];
};

static bool thread_naps(struct read_thread *thread)
{
    struct timespec ts = { .tv_nsec = NAP_MS * 1000000L };
    pthread_mutex_lock(&thread->threads->lock);
    bool stop = thread->threads->stop;
    pthread_mutex_unlock(&thread->threads->lock);
    if (!stop)
        nanosleep(&ts, NULL);
    return !stop;
}

/* thread_ready: waits a moment for a connection that was lost: call_misses checked only the loop's own. */
static bool thread_ready(struct read_thread *thread, struct err *err)
{
    struct api *api = &thread->api;
    if (api->config.reader == NULL)
        api->config.reader = reader_open(&thread->threads->store, err);
    if (api->config.reader == NULL)
        return false;
    for (int i = 0; i < NAPS && !reader_present(api->config.reader) && engine_health(api->config.engine) == ENGINE_OK;
         i++)
        if (!thread_naps(thread))
            break;
    return tenants_refresh(api, err);
}

static void thread_chore(struct read_thread *thread, struct chore *chore)
{
    struct err ignored = { 0 };
    chore->good = thread_ready(thread, &ignored) && chore->read(&thread->api, &chore->arena, chore->out);
}

static void thread_serve(struct read_thread *thread, struct read_item *item)
{
    struct call *call = item->call;
    struct api *loops = call->api;
    call->api = &thread->api;
    thread->api.incarnation = item->incarnation;
    if (clock_boot_ms() - call->reading.since > READ_MS)
        err_set(&call->err, ERR_unavailable, "the database is slow: this has waited %d s for reads before it",
            READ_MS / 1000);
    else if (thread_ready(thread, &call->err)) {
        reader_limit(thread->api.config.reader, call->reading.since + READ_MS);
        if (item->run != NULL)
            item->run(call);
        else if (item->read(call))
            call_on_loop(call, item->done);
        reader_limit(thread->api.config.reader, 0);
    }
    ASSERT(call->reading.answered || call->err.code != ERR_none);
    call->api = loops;
}

static struct list_node *thread_take(struct read_thread *thread)
{
    struct list_node *node = NULL;
    for (size_t i = thread->queues; i > 0 && node == NULL; i--)
        node = list_take_first(&thread->threads->waiting[i - 1]);
    return node;
}

static void *thread_main(void *argument)
{
    struct read_thread *thread = argument;
    struct read_threads *threads = thread->threads;
    pthread_mutex_lock(&threads->lock);
    while (!threads->stop) {
        struct list_node *node = thread_take(thread);
        if (node == NULL) {
            pthread_cond_wait(&threads->news, &threads->lock);
            continue;
        }
        struct read_item *item = CONTAINER_OF(node, struct read_item, node);
        pthread_mutex_unlock(&threads->lock);
        if (item->call != NULL)
            thread_serve(thread, item);
        else
            thread_chore(thread, CONTAINER_OF(item, struct chore, item));
        pthread_mutex_lock(&threads->lock);
        list_append(&threads->over, &item->node);
        loop_wake(threads->api->config.loop);
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

static void chore_end(struct api *api, struct chore *chore, bool tell)
{
    chore->under_way = false;
    if (tell && chore->good)
        chore->done(api, chore->out);
    arena_reset(&chore->arena);
}

/* It is the loop's again. */
static void item_end(struct read_threads *threads, struct read_item *item, bool answer)
{
    struct call *call = item->call;
    if (call == NULL) {
        chore_end(threads->api, CONTAINER_OF(item, struct chore, item), answer);
        return;
    }
    call->request = item->real;
    call->on_thread = NULL;
    call->submitted = false;
    int ended = call->reading.answered;
    call->reading.answered = 0;
    if (call->request != NULL)
        call->request->gone = item->gone;
    if (!answer || call->request == NULL)
        call_released(call);
    else if (call->streams && !auth_lasts(call))
        return;
    else if (ended == CALL_BACK_TO_LOOP)
        call->reading.on_loop(call);
    else if (ended == CALL_SUBMITS)
        call_submit(call, call->reading.on_loop);
    else if (call->streams)
        call_stream_break(call);
    else if (ended)
        call_answer_as(call, ended, call->reading.answer_type, buf_str(&call->out), NULL);
    else
        call_problem(call);
}

static void read_threads_woken(void *owner)
{
    struct read_threads *threads = owner;
    for (;;) {
        pthread_mutex_lock(&threads->lock);
        struct list_node *node = list_take_first(&threads->over);
        pthread_mutex_unlock(&threads->lock);
        if (node == NULL)
            return;
        item_end(threads, CONTAINER_OF(node, struct read_item, node), true);
    }
}

void read_threads_begin(struct api *api)
{
    if (!reader_is_shared(api->config.reader))
        return; /* a file of this machine: reads are short */
    struct read_threads *threads = mem_alloc_zero(sizeof *threads);
    threads->api = api;
    threads->store = *api->config.store;
    threads->store.hurried = true;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->news, NULL);
    loop_on_wake(api->config.loop, read_threads_woken, threads);
    for (size_t i = 0; i < THREADS; i++) {
        struct read_thread *thread = &threads->threads[i];
        thread->threads = threads;
        thread->queues = i == 0 ? 1 : QUEUES;
        thread->api.config = api->config;
        thread->api.config.reader = NULL;
        thread->api.config.loop = NULL; /* not theirs */
        thread->api.blobs = api->blobs;
        thread->api.uploads = api->uploads; /* its version alone */
        memcpy(thread->api.job_key, api->job_key, sizeof api->job_key);
        thread->api.fence_key = api->fence_key;
        buf_init(&thread->api.scratch, 4 * KEY_BYTES_MAX);
        thread->runs = pthread_create(&thread->id, NULL, thread_main, thread) == 0;
    }
    if (threads->threads[1].runs || threads->threads[2].runs)
        api->read_threads = threads;
    else
        read_threads_free(threads);
}

/* items_let_go: requests have their `gone` again: the HTTP server is closed next, and drops them. */
static void items_let_go(struct list *items)
{
    for (struct list_node *node = items->first; node != NULL; node = node->next) {
        struct read_item *item = CONTAINER_OF(node, struct read_item, node);
        if (item->call != NULL && item->real != NULL)
            item->real->gone = item->gone;
    }
}

/* A thread that reads ends its statement first, at the latest at the statement's limit. */
void read_threads_stop(struct read_threads *threads)
{
    if (threads == NULL)
        return;
    pthread_mutex_lock(&threads->lock);
    threads->stop = true;
    pthread_cond_broadcast(&threads->news);
    pthread_mutex_unlock(&threads->lock);
    for (size_t i = 0; i < THREADS; i++) {
        if (threads->threads[i].runs)
            pthread_join(threads->threads[i].id, NULL);
        threads->threads[i].runs = false;
    }
    for (size_t i = 0; i < QUEUES; i++)
        items_let_go(&threads->waiting[i]);
    items_let_go(&threads->over);
}

void read_threads_free(struct read_threads *threads)
{
    if (threads == NULL)
        return;
    loop_forget(threads->api->config.loop, threads);
    read_threads_stop(threads);
    for (size_t i = 0; i < THREADS; i++) {
        struct read_thread *thread = &threads->threads[i];
        if (thread->api.config.reader != NULL)
            reader_close(thread->api.config.reader);
        names_release(&thread->api);
        auth_release(&thread->api);
        posted_workflows_release(&thread->api);
        files_used_release(&thread->api.files_used);
        buf_release(&thread->api.scratch);
    }
    struct list *lists[QUEUES + 1] = { &threads->over };
    for (size_t i = 0; i < QUEUES; i++)
        lists[1 + i] = &threads->waiting[i];
    for (size_t i = 0; i < QUEUES + 1; i++)
        for (struct list_node *node; (node = list_take_first(lists[i])) != NULL;)
            item_end(threads, CONTAINER_OF(node, struct read_item, node), false);
    pthread_cond_destroy(&threads->news);
    pthread_mutex_destroy(&threads->lock);
    mem_free(threads);
}

struct chore *chore_new(
    bool (*read)(struct api *, struct arena *, void *), void (*done)(struct api *, void *), void *out)
{
    struct chore *chore = mem_alloc_zero(sizeof *chore);
    chore->read = read;
    chore->done = done;
    chore->out = out;
    return chore;
}

void chore_free(struct chore *chore)
{
    if (chore != NULL)
        arena_release(&chore->arena);
    mem_free(chore);
}

bool chore_runs(const struct chore *chore)
{
    return chore->under_way;
}

bool chore_begin(struct api *api, struct chore *chore)
{
    struct read_threads *threads = api->read_threads;
    if (threads == NULL)
        return false;
    if (chore->under_way)
        return true;
    chore->under_way = true;
    pthread_mutex_lock(&threads->lock);
    list_append(&threads->waiting[0], &chore->item.node);
    pthread_cond_broadcast(&threads->news);
    pthread_mutex_unlock(&threads->lock);
    return true;
}

void chore_run(struct api *api, struct chore *chore)
{
    if (chore_begin(api, chore))
        return;
    chore->good = chore->read(api, &chore->arena, chore->out);
    chore_end(api, chore, true);
}

/* question_copy: what the thread may read of the request, in the call's own memory, except the body, which may be
 * large. */
static void question_copy(struct call *call, struct http_request *out)
{
    struct http_request *real = call->request;
    struct call_reading *reading = &call->reading;
    struct str *names;
    size_t n = real->query.len > 0 ? http_params(real, &names) : 0;
    reading->n_params = reading->n_headers = 0; /* it may go to a thread more than once */
    reading->params = ARENA_ARRAY(&call->arena, struct call_param, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct str value = { 0 };
        (void)http_param(real, str_dupz(&call->arena, names[i]), &value);
        reading->params[reading->n_params++] =
            (struct call_param){ str_dup(&call->arena, names[i]), str_dup(&call->arena, value) };
    }
    reading->headers = ARENA_ARRAY(&call->arena, struct call_param, HEADERS);
    for (size_t i = 0; i < HEADERS; i++) {
        struct str value = http_header(real, headers[i]);
        if (value.ptr != NULL)
            reading->headers[reading->n_headers++] =
                (struct call_param){ str_of(headers[i]), str_dup(&call->arena, value) };
    }
    *out = (struct http_request){
        .method = str_dup(&call->arena, real->method), .path = str_dup(&call->arena, real->path), .body = real->body
    };
    struct str *texts[] = { &call->arg, &call->arg2, &call->actor.name, &call->actor.tenant };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i]->len > 0)
            *texts[i] = str_dup(&call->arena, *texts[i]);
}

static struct read_item *item_new(struct call *call)
{
    if (call->reading.item == NULL) /* a thread has it once at a time */
        call->reading.item = ARENA_NEW(&call->arena, struct read_item);
    struct read_item *item = call->reading.item;
    *item = (struct read_item){
        .call = call, .real = call->request, .gone = call->request->gone, .incarnation = call->api->incarnation
    };
    return item;
}

static void call_begin(struct call *call, struct read_item *item)
{
    struct read_threads *threads = call->api->read_threads;
    if (call->reading.since == 0 || call->streams)
        call->reading.since = clock_boot_ms();
    call->reading.answered = 0;
    if (call->streams) /* the next piece: its handler needs nothing of the request */
        item->copy = (struct http_request){ .method = STR("GET") };
    else
        question_copy(call, &item->copy);
    struct list *queue = &threads->waiting[call->route == NULL || call->route->scope != SCOPE_EXECUTE];
    pthread_mutex_lock(&threads->lock);
    bool room = queue->n < QUEUED_MAX;
    if (room) {
        if (item->copy.body.len > 0)
            item->real->gone = NULL;
        call->on_thread = &item->real;
        call->request = &item->copy;
        call->submitted = true; /* keeps the call when the client goes away */
        list_append(queue, &item->node);
        pthread_cond_broadcast(&threads->news); /* all: one of the threads may not serve this queue */
    }
    pthread_mutex_unlock(&threads->lock);
    if (!room && call->streams)
        call_stream_break(call);
    else if (!room)
        call_refuse(call, ERR_unavailable, "the database is slow: %d reads are waiting already", QUEUED_MAX);
}

bool call_moved(struct call *call, handler_fn *fn)
{
    if (call->api->read_threads == NULL) /* a thread's own api has none either */
        return false;
    struct read_item *item = item_new(call);
    item->run = fn;
    call_begin(call, item);
    return true;
}

bool call_on_thread(struct call *call, handler_fn *fn)
{
    return call_moved(call, fn) || fn(call);
}

bool call_on_loop(struct call *call, handler_fn *fn)
{
    if (call->on_thread == NULL)
        return fn(call);
    call->reading.on_loop = fn;
    call->reading.answered = CALL_BACK_TO_LOOP;
    return true;
}

bool call_read(struct call *call, bool (*read)(struct call *call), handler_fn *done)
{
    if (call->api->read_threads == NULL)
        return read(call) ? done(call) : call_problem(call);
    struct read_item *item = item_new(call);
    item->read = read;
    item->done = done;
    call_begin(call, item);
    return true;
}

bool call_handle(struct call *call)
{
    handler_fn *handler = call->route->handler;
    return call->route->where == ON_THREAD ? call_on_thread(call, handler) : handler(call);
}
