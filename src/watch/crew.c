/* crew: one lock for all companies (it is held for a few instructions only), a condition each.
 *
 * Threads never touch the loop but by loop_wake, and that only under the lock while the crew isn't closed: a thread
 * that was let go at the end finds `closed` set and ends without touching anything that may be gone. */
#include "watch/crew.h"

#include <pthread.h>
#include <time.h>

#include "base/arena.h"
#include "store/read.h"

enum { PATIENCE_S = 2 };

struct company {
    struct crew *crew;
    size_t threads_max, n_threads, idle;
    struct list waiting;
    pthread_cond_t news;
};

struct crew {
    struct loop *loop;
    const struct store_config *store;
    pthread_mutex_t lock;
    struct company companies[CREW_COUNT];
    struct list done, notices;
    struct list threads;
    bool closed;
};

struct crew_thread {
    struct list_node node;
    struct company *company;
    pthread_t thread;
};

static const size_t threads_max[CREW_COUNT] = {
#define X(name, threads) [CREW_##name] = (threads),
    CREW_COMPANIES(X)
#undef X
};

struct reader *crew_reader(struct crew_hand *hand, struct err *err)
{
    if (hand->reader == NULL)
        hand->reader = reader_open(hand->store, err);
    return hand->reader;
}

static void *thread_main(void *argument)
{
    struct company *company = argument;
    struct crew *crew = company->crew;
    struct crew_hand hand = { .store = crew->store };
    pthread_mutex_lock(&crew->lock);
    while (!crew->closed) {
        struct list_node *node = list_take_first(&company->waiting);
        if (node == NULL) {
            company->idle++;
            pthread_cond_wait(&company->news, &crew->lock);
            company->idle--;
            continue;
        }
        pthread_mutex_unlock(&crew->lock);
        struct crew_job *job = CONTAINER_OF(node, struct crew_job, node);
        job->work(job, &hand);
        pthread_mutex_lock(&crew->lock);
        if (crew->closed)
            break;
        list_append(&crew->done, &job->node);
        loop_wake(crew->loop);
    }
    pthread_mutex_unlock(&crew->lock);
    if (hand.reader != NULL)
        reader_close(hand.reader);
    return NULL;
}

static void crew_woken(void *owner)
{
    struct crew *crew = owner;
    for (;;) {
        pthread_mutex_lock(&crew->lock);
        struct list_node *notice = list_take_first(&crew->notices);
        struct list_node *job = notice == NULL ? list_take_first(&crew->done) : NULL;
        pthread_mutex_unlock(&crew->lock);
        if (notice != NULL) {
            struct crew_notice *told = CONTAINER_OF(notice, struct crew_notice, node);
            told->told(told);
        } else if (job != NULL) {
            struct crew_job *done = CONTAINER_OF(job, struct crew_job, node);
            done->done(done);
        } else {
            return;
        }
    }
}

struct crew *crew_new(struct loop *loop, const struct store_config *store)
{
    struct crew *crew = mem_alloc_zero(sizeof *crew);
    crew->loop = loop;
    crew->store = store;
    pthread_mutex_init(&crew->lock, NULL);
    for (size_t i = 0; i < CREW_COUNT; i++) {
        crew->companies[i].crew = crew;
        crew->companies[i].threads_max = threads_max[i];
        pthread_cond_init(&crew->companies[i].news, NULL);
    }
    loop_on_wake(loop, crew_woken, crew);
    return crew;
}

/* thread_start: false when the system has no thread for us: the job waits for one of those that there are. */
static bool thread_start(struct crew *crew, struct company *company)
{
    struct crew_thread *thread = mem_alloc_zero(sizeof *thread);
    thread->company = company;
    if (pthread_create(&thread->thread, NULL, thread_main, company) != 0) {
        mem_free(thread);
        return false;
    }
    company->n_threads++;
    list_append(&crew->threads, &thread->node);
    return true;
}

void crew_add(struct crew *crew, enum crew_company which, struct crew_job *job)
{
    struct company *company = &crew->companies[which];
    pthread_mutex_lock(&crew->lock);
    list_append(&company->waiting, &job->node);
    bool started = company->waiting.n <= company->idle || company->n_threads >= company->threads_max ||
                   thread_start(crew, company);
    ASSERT(started || company->n_threads > 0); /* not one thread: this process can't do anything */
    pthread_cond_signal(&company->news);
    pthread_mutex_unlock(&crew->lock);
}

bool crew_withdraw(struct crew *crew, enum crew_company which, struct crew_job *job)
{
    struct company *company = &crew->companies[which];
    pthread_mutex_lock(&crew->lock);
    bool waits = false;
    for (struct list_node *node = company->waiting.first; node != NULL && !waits; node = node->next)
        waits = node == &job->node;
    if (waits)
        list_remove(&company->waiting, &job->node);
    pthread_mutex_unlock(&crew->lock);
    return waits;
}

void crew_tell(struct crew *crew, struct crew_notice *notice)
{
    pthread_mutex_lock(&crew->lock);
    if (!notice->node.in && !crew->closed) {
        list_append(&crew->notices, &notice->node);
        loop_wake(crew->loop);
    }
    pthread_mutex_unlock(&crew->lock);
}

void crew_untell(struct crew *crew, struct crew_notice *notice)
{
    pthread_mutex_lock(&crew->lock);
    list_remove(&crew->notices, &notice->node);
    pthread_mutex_unlock(&crew->lock);
}

bool crew_close(struct crew *crew)
{
    struct timespec until;
    bool all = true;
    loop_forget(crew->loop, crew);
    pthread_mutex_lock(&crew->lock);
    crew->closed = true;
    for (size_t i = 0; i < CREW_COUNT; i++)
        pthread_cond_broadcast(&crew->companies[i].news);
    pthread_mutex_unlock(&crew->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    struct list_node *node;
    while ((node = list_take_first(&crew->threads)) != NULL) {
        struct crew_thread *thread = CONTAINER_OF(node, struct crew_thread, node);
        if (pthread_timedjoin_np(thread->thread, NULL, &until) != 0) {
            pthread_detach(thread->thread);
            all = false;
        }
        mem_free(thread);
    }
    if (!all)
        return false;
    for (size_t i = 0; i < CREW_COUNT; i++)
        pthread_cond_destroy(&crew->companies[i].news);
    pthread_mutex_destroy(&crew->lock);
    mem_free(crew);
    return true;
}
