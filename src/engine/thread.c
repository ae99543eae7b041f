/* thread: the engine's own thread. Commands come in through a queue under a lock, one eventful wait between turns; answers go back through
 * another queue and a wake-up of the loop. The engine thread never touches the loop but by loop_wake. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "engine/turn.h"
#include "io/clock.h"

enum { TURN_COMMANDS_MAX = 4096 };

struct engine_thread {
    pthread_t thread;
    struct loop *loop;
    void (*on_commit)(int64_t seq, void *owner);
    void (*on_failure)(const struct err *err, void *owner);
    void *owner;

    pthread_mutex_t lock;
    pthread_cond_t news;
    struct list incoming, answered; /* under lock */
    int64_t seq, commit;            /* newest, for on_commit; under lock */
    bool stop, failed, wake;        /* under lock */
    struct err err;                 /* of the failure; under lock until failed is seen */
    int64_t told_seq, told_commit;  /* the loop's own */
    bool told_failure;
};

static void wait_for_news(struct engine_thread *t, int64_t until_boot)
{
    if (until_boot == INT64_MAX) {
        pthread_cond_wait(&t->news, &t->lock);
        return;
    }
    int64_t left = until_boot - clock_boot_ms();
    if (left <= 0) return;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += left / 1000;
    at.tv_nsec += (left % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&t->news, &t->lock, &at);
}

static void *run(void *arg)
{
    struct engine *engine = arg;
    struct engine_thread *t = engine->thread;
    struct command *batch[TURN_COMMANDS_MAX];
    int64_t next = clock_boot_ms();
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (!t->stop && !t->incoming.first && !t->wake && next > clock_boot_ms()) wait_for_news(t, next);
        t->wake = false;
        if (t->stop && !t->incoming.first) break;
        size_t n = 0;
        struct list_node *at;
        while (n < TURN_COMMANDS_MAX && (at = list_take_first(&t->incoming))) batch[n++] = CONTAINER_OF(at, struct command, node);
        pthread_mutex_unlock(&t->lock);

        struct list answered = { 0 };
        struct err err = { 0 };
        bool ok = engine_turn(engine, batch, n, clock_wall_ms(), clock_boot_ms(), &answered, &next, &err);

        pthread_mutex_lock(&t->lock);
        bool news = answered.first || engine->head.seq != t->seq || engine->head.commit != t->commit || !ok;
        while ((at = list_take_first(&answered))) list_append(&t->answered, at);
        t->seq = engine->head.seq;
        if (ok) t->commit = engine->head.commit;
        if (!ok) {
            t->failed = true;
            t->err = err;
        }
        if (news) loop_wake(t->loop);
        if (!ok) break;
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* On the loop's thread: gives answers back. */
static void woken(void *owner)
{
    struct engine *engine = owner;
    struct engine_thread *t = engine->thread;
    pthread_mutex_lock(&t->lock);
    struct list answered = t->answered;
    t->answered = (struct list){ 0 };
    bool commits = t->commit != t->told_commit;
    int64_t seq = t->seq;
    t->told_commit = t->commit;
    bool failed = t->failed;
    pthread_mutex_unlock(&t->lock);
    struct list_node *at;
    while ((at = list_take_first(&answered))) {
        struct command *command = CONTAINER_OF(at, struct command, node);
        command->done(command);
    }
    if (seq != t->told_seq || commits) {
        t->told_seq = seq;
        if (t->on_commit) t->on_commit(seq, t->owner);
    }
    if (failed && !t->told_failure) {
        t->told_failure = true;
        if (t->on_failure) t->on_failure(&t->err, t->owner);
    }
}

bool engine_start(struct engine *engine, struct loop *loop, void (*on_commit)(int64_t seq, void *owner),
    void (*on_failure)(const struct err *err, void *owner), void *owner, struct err *err)
{
    struct engine_thread *t = mem_alloc(sizeof *t);
    *t = (struct engine_thread){ .loop = loop,
        .on_commit = on_commit,
        .on_failure = on_failure,
        .owner = owner,
        .seq = engine->head.seq,
        .told_seq = engine->head.seq,
        .commit = engine->head.commit,
        .told_commit = engine->head.commit };
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&t->lock, NULL);
    engine->thread = t;
    loop_on_wake(loop, woken, engine);
    int code = pthread_create(&t->thread, NULL, run, engine);
    if (code == 0) return true;
    mem_free(t);
    engine->thread = NULL;
    return err_set(err, ERR_io, "the engine's thread could not be started: %s", strerror(code));
}

void engine_submit(struct engine *engine, struct command *command)
{
    struct engine_thread *t = engine->thread;
    pthread_mutex_lock(&t->lock);
    if (t->failed || t->stop) { /* nobody will take it: it has not been recorded */
        err_set(&command->err, ERR_unavailable, "the server is stopping");
        list_append(&t->answered, &command->node);
        loop_wake(t->loop);
    } else {
        list_append(&t->incoming, &command->node);
        pthread_cond_signal(&t->news);
    }
    pthread_mutex_unlock(&t->lock);
}

int64_t engine_time(const struct engine *engine)
{
    return engine->thread ? engine->thread->told_commit : 0;
}

void engine_wake(struct engine *engine)
{
    struct engine_thread *t = engine->thread;
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->wake = true;
    pthread_cond_signal(&t->news);
    pthread_mutex_unlock(&t->lock);
}

void engine_stop(struct engine *engine)
{
    struct engine_thread *t = engine->thread;
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    bool joined = t->stop;
    t->stop = true;
    pthread_cond_signal(&t->news);
    pthread_mutex_unlock(&t->lock);
    if (joined) return;
    pthread_join(t->thread, NULL);
    pthread_mutex_lock(&t->lock);
    polls_release(engine, &t->answered);
    pthread_mutex_unlock(&t->lock);
    woken(engine);
}

void engine_thread_free(struct engine *engine)
{
    struct engine_thread *t = engine->thread;
    if (!t) return;
    engine_stop(engine);
    pthread_cond_destroy(&t->news);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
    engine->thread = NULL;
}
