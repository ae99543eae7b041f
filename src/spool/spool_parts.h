/* spool_parts: what the files of the room share. Private to it. */
#ifndef WEIR_SPOOL_SPOOL_PARTS_H
#define WEIR_SPOOL_SPOOL_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "spool/control.h"
#include "spool/hand_changes.h"
#include "spool/prequeue.h"
#include "spool/spool.h"

struct projection {
    pthread_t thread;
    bool runs;
    int wake_fd;
    atomic_bool woken; /* wake_fd has been written since the thread looked last */
    struct follower follower;
    struct hand_changes changes;
};

struct pulls { /* what wakes the scans of prequeue/, and who waits for them */
    pthread_t thread;
    bool runs;
    int wake_fd, inotify_fd;
    int data_wd; /* of data/: a tarball that an entry waits for */
    struct prequeue prequeue;
    struct errands errands;
    struct list asked;  /* struct spool_scan; under the spool's lock: for the next scan */
    struct list being;  /* likewise: for the one that goes on */
    struct list served; /* likewise: for the loop */
};

struct spool {
    struct spool_config config;
    struct folders folders;
    struct control control;
    bool is_open; /* there is a target */
    atomic_bool stop;
    struct projection projection;
    struct pulls pulls;
    pthread_mutex_t lock;
    char trouble[SPOOL_TEXT_MAX]; /* under the lock; empty: none */
};

bool projection_start(struct spool *spool, struct err *err);
void projection_wake(struct spool *spool);
void projection_end(struct spool *spool); /* once `stop` is set */

bool pulls_start(struct spool *spool, struct err *err);
void pulls_end(struct spool *spool); /* once `stop` is set */

void spool_trouble_set(struct spool *spool, const struct err *err); /* NULL: it is over. Any thread */

#endif
