/* thread_pool: the threads that read repositories and the store, in groups that don't wait for each other.
 *
 * A job is added with thread_pool_add and comes back with `done` on the loop's thread. A group starts another thread
 * only while all its threads are busy and a job waits; a thread without work sleeps and costs no wake-up. Jobs of a
 * group start in the order in which they were added. */
#ifndef WEIR_WATCH_THREAD_POOL_H
#define WEIR_WATCH_THREAD_POOL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

/* name, most threads. A served repository may hang for as long as its server does: it never takes a thread from the
 * local ones. */
#define POOL_GROUPS(X) X(LOCAL, 16) X(SERVED, 64) X(PROBE, 8) X(TAR, 16) X(STORE, 1)
enum pool_group {
#define X(name, threads) POOL_##name,
    POOL_GROUPS(X)
#undef X
    POOL_GROUP_COUNT
};

struct reader;
struct store_config;
struct thread_pool;

struct pool_worker { /* what a thread has of its own */
    const struct store_config *store;
    struct reader *reader; /* opened when first asked for */
};
struct reader *pool_reader(struct pool_worker *worker, struct err *err); /* NULL: err */

struct pool_job {
    struct list_node node; /* private */
    void (*work)(struct pool_job *job, struct pool_worker *worker);
    void (*done)(struct pool_job *job); /* on the loop's thread */
};

struct thread_pool *thread_pool_new(struct loop *loop, const struct store_config *store);
void thread_pool_add(
    struct thread_pool *pool, enum pool_group group, struct pool_job *job); /* from the loop's thread */
/* thread_pool_withdraw: true: the job hadn't started, and done won't be called. */
bool thread_pool_withdraw(struct thread_pool *pool, enum pool_group group, struct pool_job *job);

/* thread_pool_notify: has `arrived` called on the loop's thread while the job goes on. A notice is queued once at most:
 * another call before `arrived` changes nothing. */
struct pool_notice {
    struct list_node node; /* private */
    void (*arrived)(struct pool_notice *notice);
};
void thread_pool_notify(struct thread_pool *pool, struct pool_notice *notice); /* from the job's thread */
void thread_pool_forget_notice(struct thread_pool *pool, struct pool_notice *notice);

/* thread_pool_close: no job starts any more; waits two seconds for running ones. false: some threads hang: they are
 * detached, and the pool and everything that their jobs use must stay as it is until the process ends. `done` and
 * `arrived` aren't called from then on. */
bool thread_pool_close(struct thread_pool *pool);

#endif
