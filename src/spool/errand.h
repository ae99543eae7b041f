/* errand: a command that a thread of the spool gives to the engine, by way of the loop, and waits for. */
#ifndef WEIR_SPOOL_ERRAND_H
#define WEIR_SPOOL_ERRAND_H

#include <pthread.h>

#include "engine/engine.h"

struct errands {
    struct loop *loop;
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct list waiting; /* the loop hasn't seen them yet */
    bool closed;         /* nothing is given to the engine any more */
    bool left;           /* and nothing is answered any more */
};

void errands_open(struct errands *errands, struct loop *loop, struct engine *engine); /* on the loop's thread */
void errands_closing(struct errands *errands); /* before engine_stop: what the engine hasn't got yet is unavailable */
void errands_leave(struct errands *errands); /* after engine_stop, on the loop's thread, before the thread is joined */
void errands_release(struct errands *errands); /* once the thread is joined */

bool errands_closed(struct errands *errands); /* any thread */

/* errand_run: from the spool's thread: submits the change set and waits for the engine's turn. false: err, with its
 * items in err->arena, which must be set. */
struct errand_answer {
    int64_t task;
    bool is_known; /* its content was, or the same name */
};
bool errand_run(struct errands *errands, const struct changeset_def *def, struct errand_answer *out, struct err *err);

#endif
