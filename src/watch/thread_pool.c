/* thread_pool: one lock for all groups (held for a few instructions only), a condition for each.
 *
 * Threads touch the loop only by loop_wake, under the lock and while the pool isn't closed: a thread that was detached
 * by thread_pool_close finds `closed` set and ends without touching anything that may be freed. */
#include "watch/thread_pool.h"

#include <pthread.h>
#include <time.h>

#include "base/arena.h"
#include "store/read.h"

enum { PATIENCE_S = 2 };

struct thread_group {
    struct thread_pool *pool;
    size_t threads_max, n_threads, idle;
    struct list waiting;
    pthread_cond_t news;
};

struct thread_pool {
    struct loop *loop;
    const struct store_config *store;
    pthread_mutex_t lock;
    struct thread_group groups[POOL_GROUP_COUNT];
    struct list done, notices;
    struct list threads;
    bool closed;
};

struct pool_thread {
    struct list_node node;
    struct thread_group *group;
    pthread_t thread;
};

static const size_t threads_max[POOL_GROUP_COUNT] = {
#define X(name, threads) [POOL_##name] = (threads),
    POOL_GROUPS(X)
#undef X
};

struct reader *pool_reader(struct pool_worker *worker, struct err *err)
{
    if (worker->reader == NULL)
        worker->reader = reader_open(worker->store, err);
    return worker->reader;
}

static void *thread_main(void *argument)
{
    struct thread_group *group = argument;
    struct thread_pool *pool = group->pool;
    struct pool_worker worker = { .store = pool->store };
    pthread_mutex_lock(&pool->lock);
    while (!pool->closed) {
        struct list_node *node = list_take_first(&group->waiting);
        if (node == NULL) {
            group->idle++;
            pthread_cond_wait(&group->news, &pool->lock);
            group->idle--;
            continue;
        }
        pthread_mutex_unlock(&pool->lock);
        struct pool_job *job = CONTAINER_OF(node, struct pool_job, node);
        job->work(job, &worker);
        pthread_mutex_lock(&pool->lock);
        if (pool->closed)
            break;
        list_append(&pool->done, &job->node);
        loop_wake(pool->loop);
    }
    pthread_mutex_unlock(&pool->lock);
    if (worker.reader != NULL)
        reader_close(worker.reader);
    return NULL;
}

static void thread_pool_woken(void *owner)
{
    struct thread_pool *pool = owner;
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        struct list_node *notice = list_take_first(&pool->notices);
        struct list_node *job = notice == NULL ? list_take_first(&pool->done) : NULL;
        pthread_mutex_unlock(&pool->lock);
        if (notice != NULL) {
            struct pool_notice *queued = CONTAINER_OF(notice, struct pool_notice, node);
            queued->arrived(queued);
        } else if (job != NULL) {
            struct pool_job *done = CONTAINER_OF(job, struct pool_job, node);
            done->done(done);
        } else {
            return;
        }
    }
}

struct thread_pool *thread_pool_new(struct loop *loop, const struct store_config *store)
{
    struct thread_pool *pool = mem_alloc_zero(sizeof *pool);
    pool->loop = loop;
    pool->store = store;
    pthread_mutex_init(&pool->lock, NULL);
    for (size_t i = 0; i < POOL_GROUP_COUNT; i++) {
        pool->groups[i].pool = pool;
        pool->groups[i].threads_max = threads_max[i];
        pthread_cond_init(&pool->groups[i].news, NULL);
    }
    loop_on_wake(loop, thread_pool_woken, pool);
    return pool;
}

/* thread_start: false when the system has no thread for us: the job waits for one of those that there are. */
static bool thread_start(struct thread_pool *pool, struct thread_group *group)
{
    struct pool_thread *thread = mem_alloc_zero(sizeof *thread);
    thread->group = group;
    if (pthread_create(&thread->thread, NULL, thread_main, group) != 0) {
        mem_free(thread);
        return false;
    }
    group->n_threads++;
    list_append(&pool->threads, &thread->node);
    return true;
}

void thread_pool_add(struct thread_pool *pool, enum pool_group which, struct pool_job *job)
{
    struct thread_group *group = &pool->groups[which];
    pthread_mutex_lock(&pool->lock);
    list_append(&group->waiting, &job->node);
    bool started =
        group->waiting.n <= group->idle || group->n_threads >= group->threads_max || thread_start(pool, group);
    ASSERT(started || group->n_threads > 0); /* not one thread: this process can't do anything */
    pthread_cond_signal(&group->news);
    pthread_mutex_unlock(&pool->lock);
}

bool thread_pool_withdraw(struct thread_pool *pool, enum pool_group which, struct pool_job *job)
{
    struct thread_group *group = &pool->groups[which];
    pthread_mutex_lock(&pool->lock);
    bool waits = false;
    for (struct list_node *node = group->waiting.first; node != NULL && !waits; node = node->next)
        waits = node == &job->node;
    if (waits)
        list_remove(&group->waiting, &job->node);
    pthread_mutex_unlock(&pool->lock);
    return waits;
}

void thread_pool_notify(struct thread_pool *pool, struct pool_notice *notice)
{
    pthread_mutex_lock(&pool->lock);
    if (!notice->node.in && !pool->closed) {
        list_append(&pool->notices, &notice->node);
        loop_wake(pool->loop);
    }
    pthread_mutex_unlock(&pool->lock);
}

void thread_pool_forget_notice(struct thread_pool *pool, struct pool_notice *notice)
{
    pthread_mutex_lock(&pool->lock);
    list_remove(&pool->notices, &notice->node);
    pthread_mutex_unlock(&pool->lock);
}

bool thread_pool_close(struct thread_pool *pool)
{
    struct timespec until;
    bool all = true;
    loop_forget(pool->loop, pool);
    pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    for (size_t i = 0; i < POOL_GROUP_COUNT; i++)
        pthread_cond_broadcast(&pool->groups[i].news);
    pthread_mutex_unlock(&pool->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    struct list_node *node;
    while ((node = list_take_first(&pool->threads)) != NULL) {
        struct pool_thread *thread = CONTAINER_OF(node, struct pool_thread, node);
        if (pthread_timedjoin_np(thread->thread, NULL, &until) != 0) {
            pthread_detach(thread->thread);
            all = false;
        }
        mem_free(thread);
    }
    if (!all)
        return false;
    for (size_t i = 0; i < POOL_GROUP_COUNT; i++)
        pthread_cond_destroy(&pool->groups[i].news);
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
    return true;
}
