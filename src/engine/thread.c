/* thread: who takes the turns. Commands come in through a queue under a lock; whoever holds `turning` takes all of them
 * as one turn.
 *
 * A turn of a few small commands is taken on the loop's own thread, before it waits: it sleeps and wakes nobody, which
 * would cost more than the turn. Everything else (large calls, rare kinds, what falls due, a store that is shared or
 * slow just now) is taken by the engine's thread, so that the loop goes on answering; its answers go back through
 * another queue and a wake-up of the loop. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/command/command.h"
#include "engine/seals.h"
#include "engine/shared/shared.h"
#include "engine/thread.h"
#include "io/clock.h"

enum {
    TURN_COMMANDS_MAX = 4096,
    LOOP_WEIGHT_MAX = 256, /* tasks, results and polls of a turn that the loop takes itself */
    /* results, and tasks that polls may take, from which on the two go apart; more than the loop takes */
    APART_MIN = 400,
    LOOP_TURN_US_MAX = 2000, /* turns that take longer, on average, keep the loop from its other clients */
    LISTEN_MS = 1000,        /* a loop that doesn't answer for so long stands still */
    HINT_MS = 5, /* hints that follow one another sooner wait so long: a busy server must not drive the idle ones */
};

struct engine_thread {
    pthread_t thread;
    struct loop *loop;
    void (*on_commit)(int64_t seq, void *owner);
    void (*on_failure)(const struct err *err, void *owner);
    void *owner;

    pthread_mutex_t lock;
    pthread_cond_t news;
    struct list incoming, answered; /* under lock */
    size_t weight;                  /* of incoming; under lock */
    /* of incoming: ends that are reported, tasks that polls have room for; under lock */
    size_t n_results, n_wanted;
    bool apart;              /* what is left of incoming stood behind its polls; under lock */
    bool turning;            /* somebody takes a turn; under lock */
    bool loops;              /* incoming is the loop's to take, before it waits; under lock */
    int64_t next;            /* boot ms of the turn that is due without commands; under lock */
    int64_t sleeps_until;    /* boot ms, the engine's thread; INT64_MIN: it is awake; under lock */
    int64_t turn_us;         /* how long a turn that the loop could take takes, smoothed; under lock */
    int64_t seq, commit;     /* newest, for on_commit; under lock */
    bool stop, failed, wake; /* under lock */
    /* boot ms of the loop's last pass; and of the last in which it was woken; under lock */
    int64_t turned, answered_at;
    int64_t asked;                 /* boot ms, by the engine, whether the loop turns; 0: it isn't asked; under lock */
    int64_t followed;              /* boot ms of the last turn that was taken for a hint alone */
    struct err err;                /* of the failure; under lock until failed is seen */
    int64_t told_seq, told_commit; /* the loop's own */
    bool told_failure;
    struct command *batch[TURN_COMMANDS_MAX]; /* of the turn; whose `turning` is */
};

/* --- guards --- */

struct guards {
    pthread_mutex_t locks[GUARD_COUNT];
};

void guards_open(struct engine *engine)
{
    engine->guards = mem_alloc(sizeof *engine->guards);
    for (int i = 0; i < GUARD_COUNT; i++)
        pthread_mutex_init(&engine->guards->locks[i], NULL);
}

void guards_release(struct engine *engine)
{
    for (int i = 0; i < GUARD_COUNT; i++)
        pthread_mutex_destroy(&engine->guards->locks[i]);
    mem_free(engine->guards);
}

void guard_enter(const struct engine *engine, enum guard guard)
{
    pthread_mutex_lock(&engine->guards->locks[guard]);
}

void guard_leave(const struct engine *engine, enum guard guard)
{
    pthread_mutex_unlock(&engine->guards->locks[guard]);
}

/* --- turns --- */

static void wait_for_news(struct engine_thread *t, int64_t until_boot)
{
    if (until_boot == INT64_MAX) {
        pthread_cond_wait(&t->news, &t->lock);
        return;
    }
    int64_t left = until_boot - clock_boot_ms();
    if (left <= 0)
        return;
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

/* What a command costs, roughly; one that may cost anything is more than the loop takes. */
static size_t command_weight(const struct command *command)
{
    if (command->kind == CMD_ENQUEUE)
        return command->in.enqueue.n_defs;
    if (command->kind == CMD_FINISH)
        return command->in.finish.n_items;
    if (command->kind == CMD_POLL)
        return 1 + command->in.poll.n_renew + command->in.poll.n_finishes;
    return LOOP_WEIGHT_MAX + 1;
}

/* The machine's load goes into the server's row, with its beat. */
static void load_look(struct engine *engine, int64_t boot)
{
    double load[1] = { 0 };
    if (engine->store->exclusive || boot - engine->load_seen < COORD_BEAT_MS / 2)
        return;
    engine->load_seen = boot;
    if (getloadavg(load, 1) == 1)
        engine->shared->server.load = (int64_t)(load[0] * SERVER_LOAD_UNIT);
}

/* Takes commands of incoming for a turn; with the lock held. Many results and polls for many tasks don't go together:
 * an executor that has sent both waits for both answers then, and while it works on them the store has nothing to do.
 * Apart, and the polls first, each is worked on while the store has the other one. Results stand back once. */
static size_t batch_take(struct engine_thread *t)
{
    size_t n = 0;
    struct list_node *at;
    struct list left = { 0 };
    bool apart = !t->apart && t->n_results >= APART_MIN && t->n_wanted >= APART_MIN;
    while (n < TURN_COMMANDS_MAX && (at = list_take_first(&t->incoming))) {
        struct command *command = CONTAINER_OF(at, struct command, node);
        if (apart && command->kind == CMD_FINISH)
            list_append(&left, at);
        else
            t->batch[n++] = command;
    }
    while ((at = list_take_first(&t->incoming)))
        list_append(&left, at);
    t->incoming = left;
    t->apart = apart;
    t->n_wanted = 0;
    if (!left.first)
        t->weight = t->n_results = 0;
    return n;
}

/* Takes one turn with what has come; called and left with the lock held, which is given up meanwhile. */
static void turn_take(struct engine *engine, bool on_loop)
{
    struct engine_thread *t = engine->thread;
    size_t weight = t->weight, n = batch_take(t);
    struct list_node *at;
    t->turning = true;
    t->wake = t->loops = false;
    engine->on_loop = on_loop;
    pthread_mutex_unlock(&t->lock);

    struct list answered = { 0 };
    struct err err = { 0 };
    int64_t next, before = clock_boot_us(), boot = clock_boot_ms();
    load_look(engine, boot);
    enum engine_health health = engine_health(engine);
    struct clock_jump jump, jump_after;
    engine_clock(engine, &jump);
    bool ok = engine_turn(engine, t->batch, n, clock_wall_ms(), boot, &answered, &next, &err);
    coord_turn_ended(engine->shared->coord, boot, clock_boot_ms());
    int64_t took = clock_boot_us() - before;
    engine_clock(engine, &jump_after);
    if (engine_health(engine) != health || jump_after.count != jump.count)
        loop_wake(t->loop); /* on_wake tells it */

    pthread_mutex_lock(&t->lock);
    t->turning = false;
    t->next = next;
    if (weight && weight <= LOOP_WEIGHT_MAX)
        t->turn_us += (took - t->turn_us) / 8;
    while ((at = list_take_first(&answered)))
        list_append(&t->answered, at);
    t->seq = engine->head.seq;
    if (ok)
        t->commit = engine->head.commit;
    if (!ok) {
        t->failed = true;
        t->err = err;
    }
}

enum hearing thread_hears(struct engine *engine, int64_t boot, bool due)
{
    struct engine_thread *t = engine->thread;
    enum hearing hears = HEARS;
    if (!t)
        return HEARS;
    /* it may have stood still until now, and has read nothing since */
    if (engine->on_loop)
        return due ? HEARS_LATER : HEARS;
    pthread_mutex_lock(&t->lock);
    if (!t->asked && (due || boot - t->turned > LISTEN_MS)) {
        t->asked = boot;
        loop_wake(t->loop);
        hears = due ? HEARS_LATER : HEARS;
    } else if (t->asked && t->answered_at >= t->asked) {
        hears = t->answered_at - t->asked > engine->config.lease_ms / 3 ? HEARS_NOTHING : HEARS;
        t->asked = 0;
    } else if (t->asked) {
        hears = boot - t->asked > LISTEN_MS ? HEARS_NOTHING : due ? HEARS_LATER : HEARS;
    }
    pthread_mutex_unlock(&t->lock);
    return hears;
}

int64_t thread_stopwatch_us(const struct engine *engine)
{
    return engine->thread ? clock_boot_us() : 0;
}

/* Commands that have come since the turn began, behind the n that it has. */
static size_t gather(struct engine *engine, struct command **commands, size_t n)
{
    struct engine_thread *t = engine->thread;
    struct list_node *at;
    pthread_mutex_lock(&t->lock);
    while (n < TURN_COMMANDS_MAX && (at = list_take_first(&t->incoming)))
        commands[n++] = CONTAINER_OF(at, struct command, node);
    if (!t->incoming.first)
        t->weight = t->n_results = t->n_wanted = 0;
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* When a hint of another server is followed; INT64_MAX: there is none. */
static int64_t hint_due(const struct engine_thread *t)
{
    return t->wake ? t->followed + HINT_MS : INT64_MAX;
}

static bool thread_waits(struct engine_thread *t)
{
    int64_t now = clock_boot_ms();
    if (t->turning)
        return true;
    if (t->stop || t->failed || (t->incoming.first && !t->loops) || t->next <= now)
        return false;
    if (hint_due(t) > now)
        return true;
    t->followed = now;
    return false;
}

/* A last turn, so that others needn't wait until our duties are free, and what logs were is noted; not when the store
 * wasn't there lately: nobody waits for it now. */
static void leave(struct engine *engine)
{
    struct list answered = { 0 };
    struct err err = { 0 };
    int64_t next, boot = clock_boot_ms();
    bool seals = seals_next(engine) != INT64_MAX;
    if (engine->store->exclusive ? !seals : engine->shared->stale || boot - engine->shared->beaten > 2 * COORD_BEAT_MS)
        return;
    if (seals)
        atomic_store(&engine->seals_due, boot);
    if (!engine->store->exclusive)
        coord_leave(engine->shared->coord);
    (void)engine_turn(engine, NULL, 0, clock_wall_ms(), boot, &answered, &next, &err);
    struct list_node *at;
    pthread_mutex_lock(&engine->thread->lock);
    while ((at = list_take_first(&answered)))
        list_append(&engine->thread->answered, at);
    pthread_mutex_unlock(&engine->thread->lock);
}

static void *run(void *arg)
{
    struct engine *engine = arg;
    struct engine_thread *t = engine->thread;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (thread_waits(t)) {
            t->sleeps_until = t->turning ? INT64_MAX : t->next < hint_due(t) ? t->next : hint_due(t);
            wait_for_news(t, t->sleeps_until);
        }
        t->sleeps_until = INT64_MIN;
        if (t->failed || (t->stop && !t->incoming.first))
            break;
        int64_t seq = t->seq, commit = t->commit;
        turn_take(engine, false);
        if (t->answered.first || t->seq != seq || t->commit != commit || t->failed)
            loop_wake(t->loop);
    }
    bool failed = t->failed;
    pthread_mutex_unlock(&t->lock);
    if (!failed)
        leave(engine);
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
    t->turned = t->answered_at = clock_boot_ms();
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
        if (t->on_commit)
            t->on_commit(seq, t->owner);
    }
    if (failed && !t->told_failure) {
        t->told_failure = true;
        if (t->on_failure)
            t->on_failure(&t->err, t->owner);
    }
}

/* On the loop's thread, before it waits: the turn that is the loop's to take. */
static int64_t loop_turn(void *owner)
{
    struct engine *engine = owner;
    struct engine_thread *t = engine->thread;
    pthread_mutex_lock(&t->lock);
    bool mine = t->loops && !t->turning && !t->failed;
    t->turned = clock_boot_ms();
    if (mine) {
        turn_take(engine, true);
        if (t->next < t->sleeps_until || t->wake || t->failed)
            pthread_cond_signal(&t->news);
    }
    pthread_mutex_unlock(&t->lock);
    if (mine)
        woken(engine);
    return INT64_MAX;
}

/* A row may have become free, or the api has something new to say. Any thread. */
static void coord_changed(void *owner)
{
    struct engine *engine = owner;
    engine_wake(engine);
    loop_wake(engine->thread->loop);
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
        .told_commit = engine->head.commit,
        .turned = clock_boot_ms(),
        .next = clock_boot_ms() };
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&t->lock, NULL);
    engine->thread = t;
    engine->gather = gather;
    seals_listen(engine, true);
    loop_on_wake(loop, woken, engine);
    loop_before_wait(loop, loop_turn, engine);
    int code = pthread_create(&t->thread, NULL, run, engine);
    if (code == 0)
        return coord_start(engine->shared->coord, coord_changed, engine, err);
    loop_forget(loop, engine);
    seals_listen(engine, false);
    mem_free(t);
    engine->thread = NULL;
    engine->gather = NULL;
    return err_set(err, ERR_io, "the engine's thread could not be started: %s", strerror(code));
}

/* command_queue: with the lock held. */
static void command_queue(struct engine *engine, struct command *command)
{
    struct engine_thread *t = engine->thread;
    if (t->failed || t->stop) { /* nobody will take it: it has not been recorded */
        err_set(&command->err, ERR_unavailable, "the server is stopping");
        list_append(&t->answered, &command->node);
        loop_wake(t->loop);
    } else {
        list_append(&t->incoming, &command->node);
        t->weight += command_weight(command);
        if (command->kind == CMD_FINISH)
            t->n_results += command->in.finish.n_items;
        if (command->kind == CMD_POLL && command->in.poll.free > 0)
            t->n_wanted += (size_t)command->in.poll.free;
        bool small = t->weight <= LOOP_WEIGHT_MAX && t->turn_us <= LOOP_TURN_US_MAX && engine->store->exclusive;
        t->loops = small && !t->turning;
        if (t->loops)
            loop_again(t->loop);
        else
            pthread_cond_signal(&t->news);
    }
}

void engine_submit(struct engine *engine, struct command *command)
{
    engine_submit_all(engine, command, 1);
}

void engine_submit_all(struct engine *engine, struct command *commands, size_t n)
{
    struct engine_thread *t = engine->thread;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < n; i++)
        command_queue(engine, &commands[i]);
    pthread_mutex_unlock(&t->lock);
}

int64_t engine_time(const struct engine *engine)
{
    return engine->thread ? engine->thread->told_commit : 0;
}

void engine_wake(struct engine *engine)
{
    struct engine_thread *t = engine->thread;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->wake = true;
    pthread_cond_signal(&t->news);
    pthread_mutex_unlock(&t->lock);
}

void engine_stop(struct engine *engine)
{
    struct engine_thread *t = engine->thread;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    bool joined = t->stop;
    t->stop = true;
    pthread_cond_signal(&t->news);
    pthread_mutex_unlock(&t->lock);
    if (joined)
        return;
    pthread_join(t->thread, NULL);
    pthread_mutex_lock(&t->lock);
    polls_release(engine, &t->answered);
    pthread_mutex_unlock(&t->lock);
    woken(engine);
}

void engine_thread_free(struct engine *engine)
{
    struct engine_thread *t = engine->thread;
    if (!t)
        return;
    engine_stop(engine);
    seals_listen(engine, false);
    loop_forget(t->loop, engine);
    pthread_cond_destroy(&t->news);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
    engine->thread = NULL;
    engine->gather = NULL;
}
