/* crew: the threads that read repositories, in companies that don't wait for each other.
 *
 * A job is given with crew_add and comes back with `done` on the loop's thread. A company starts threads only while all
 * it has are busy and work waits; a thread without work sleeps and costs no wake-up. Jobs of a company begin in the
 * order given. */
#ifndef WEIR_WATCH_CREW_H
#define WEIR_WATCH_CREW_H

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

/* name, most threads. Served repositories may hang for as long as their server does: they never take a thread from the
 * local ones. */
#define CREW_COMPANIES(X) X(LOCAL, 16) X(SERVED, 64) X(PROBE, 8) X(TREE, 16) X(STORE, 1)
enum crew_company {
#define X(name, threads) CREW_##name,
    CREW_COMPANIES(X)
#undef X
    CREW_COUNT
};

struct reader;
struct store_config;
struct crew;

struct crew_hand { /* what a thread has of its own */
    const struct store_config *store;
    struct reader *reader; /* opened when first asked for */
};
struct reader *crew_reader(struct crew_hand *hand, struct err *err); /* NULL: err */

struct crew_job {
    struct list_node node; /* private */
    void (*work)(struct crew_job *job, struct crew_hand *hand);
    void (*done)(struct crew_job *job); /* on the loop's thread */
};

struct crew *crew_new(struct loop *loop, const struct store_config *store);
void crew_add(struct crew *crew, enum crew_company company, struct crew_job *job); /* from the loop's thread */
/* true: it hadn't begun; done isn't called */
bool crew_withdraw(struct crew *crew, enum crew_company company, struct crew_job *job);

/* crew_tell: a job at work has news: `told` is called on the loop's thread. A notice is in flight once at most. */
struct crew_notice {
    struct list_node node; /* private */
    void (*told)(struct crew_notice *notice);
};
void crew_tell(struct crew *crew, struct crew_notice *notice); /* from the job's thread */
void crew_untell(struct crew *crew, struct crew_notice *notice);

/* crew_close: nothing begins any more; waits two seconds for what runs. false: some hang: they are let go and the crew,
 * and what their jobs use, must be left as it is until the process ends. Then or before, `done` is called for nothing.
 */
bool crew_close(struct crew *crew);

#endif
