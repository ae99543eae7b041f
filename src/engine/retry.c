/* retry: a turn with its commands, and what is done when it fails.
 *
 * A turn that fails has changed nothing, or nobody knows what it has changed (outcome_unknown). What is tried then
 * depends on the kind of failure and on the store: see `remedies`. Every command is answered in the end; none is
 * answered as recorded that isn't. */
#include "engine/archives.h"
#include "engine/command/command.h"
#include "engine/expiry.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/seals.h"
#include "engine/shared/shared.h"
#include "engine/thread.h"
#include "engine/waiters.h"

enum {
    TRY_AGAIN_MS = 200,
    LOCKED_MS = 30000,       /* a lock was met, and nothing has shown since that it is gone */
    WAITED_US = 5000000,     /* a narrow turn that took longer has waited for a lock of somebody else */
    HEAR_AGAIN_MS = 100,     /* the loop is asked whether it turns */
    FAILING_AGAIN_MS = 1000, /* while turns fail: whether they still do */
    DAMAGED_AGAIN_MS = 5000,
};

struct work { /* what one call of engine_turn has to do */
    struct engine *engine;
    struct command **commands;
    size_t n;
    int64_t wall, boot;
    struct list *out;           /* the answered */
    enum engine_health trouble; /* the store's fault; ENGINE_OK: none */
    struct err *err;            /* why the last try failed */
};

enum remedy {
    ONE_BY_ONE = 1, /* so that only the command at fault is refused; when the disk is full, without intake */
    ONCE_MORE,      /* the store was lost: it comes back, or another server does the work */
    TELL_AWAY,      /* nothing was recorded, and the store is still away */
    /* a lock of a table was waited for too long (somebody works on it): another try would wait as long again */
    TELL_LOCKED,
    /* the server goes on: the next turn rereads the store, and sees whether the commands were recorded */
    TELL_UNKNOWN,
    /* of our own store nothing can be believed any more: the process ends, and the next one reads what is there */
    GIVE_UP,
};

static const struct {
    enum err_code failure; /* ERR_none: any other */
    enum remedy own, shared, shared_again;
} remedies[] = {
    { ERR_unavailable, ONE_BY_ONE, ONCE_MORE, TELL_AWAY },
    { ERR_conflict, ONE_BY_ONE, TELL_LOCKED, TELL_LOCKED },
    { ERR_outcome_unknown, GIVE_UP, TELL_UNKNOWN, TELL_UNKNOWN },
    { ERR_none, ONE_BY_ONE, ONE_BY_ONE, ONE_BY_ONE },
};

static enum remedy remedy_of(const struct engine *engine, enum err_code failure, bool again)
{
    size_t i = 0;
    while (remedies[i].failure != ERR_none && remedies[i].failure != failure)
        i++;
    return engine->store->exclusive ? remedies[i].own : again ? remedies[i].shared_again : remedies[i].shared;
}

/* --- one try --- */

static void answers_take(struct turn *turn, struct list *out)
{
    for (size_t i = 0; i < turn->answered.n; i++) {
        struct command *command = turn->answered.at[i];
        if (command->kind == CMD_POLL) {
            command->out.poll.head_seq = turn->engine->head.seq;
            command->out.poll.incarnation = turn->engine->head.incarnation;
        }
        list_append(out, &turn->answered.at[i]->node);
    }
}

static void answer_all(struct work *work, enum err_code code, const char *text)
{
    for (size_t i = 0; i < work->n; i++) {
        err_set(&work->commands[i]->err, code, "%s", text);
        list_append(work->out, &work->commands[i]->node);
    }
}

/* Some of them may be in use: it isn't known what became of the turn. */
static void numbers_forget(struct engine *engine)
{
    if (PLANT(numbers_kept))
        return;
    engine->shared->own = (struct numbers){ 0 };
}

/* *out_again: it was narrow, and has to be taken once more, wide. */
static bool run_as(struct work *work, bool narrow, bool *out_again)
{
    struct engine *engine = work->engine;
    struct turn turn;
    turn_open(&turn, engine, work->wall, work->boot, work->err);
    turn.narrow.is = narrow;
    bool ok = turn_run(&turn, work->commands, &work->n, work->err);
    engine->shared->narrow = engine->turn = NULL;
    if (ok)
        answers_take(&turn, work->out);
    *out_again =
        !ok && narrow && (turn.narrow.widened || work->err->code == ERR_conflict || work->err->code == ERR_internal);
    if (*out_again)
        narrow_undo(&turn, work->commands, work->n);
    else if (!ok)
        numbers_forget(engine);
    turn_close(&turn);
    return ok;
}

static bool run_once(struct work *work)
{
    struct engine *engine = work->engine;
    bool narrow = turn_can_be_narrow(engine, work->commands, work->n, work->wall, work->boot), again = false;
    int64_t before = thread_stopwatch_us(engine);
    bool ok = run_as(work, narrow, &again);
    turn_noted(engine, work->commands, work->n, work->boot);
    if (!again)
        return ok;
    /* a wide one would wait as long again */
    if (work->err->code == ERR_conflict && thread_stopwatch_us(engine) - before > WAITED_US)
        return false;
    *work->err = (struct err){ .arena = work->err->arena };
    engine->shared->gathers = false;
    atomic_fetch_add(&engine->tally->widened, 1);
    return run_as(work, false, &again);
}

/* --- when it failed --- */

/* A shared store was lost in the middle of a turn: nothing of it was recorded, or the store would have said 'unknown'.
 */
static void store_lost(struct work *work)
{
    struct engine *engine = work->engine;
    commands_undo(engine, work->commands, work->n);
    engine->shared->stale = true;
    /* looked at again: the turn may have seen that the clock was set */
    engine->backlog->clock_offset = engine->schedules->offset = OFFSET_UNKNOWN;
}

/* A turn failed: the caches are reloaded. Of a shared store the next turn does it, since it may have to wait; of our
 * own, now. */
static bool turn_forget(struct work *work)
{
    struct engine *engine = work->engine;
    if (engine->store->exclusive)
        return engine_recover(engine, work->commands, work->n, work->boot, work->err);
    store_lost(work);
    return true;
}

/* The command that failed alone is refused. A shared store that keeps one of them waiting would keep the others
 * waiting, too: they are refused with it. How many were refused. */
static size_t refuse(struct work *rest, const struct err *why)
{
    bool waits = !rest->engine->store->exclusive && (why->code == ERR_unavailable || why->code == ERR_conflict);
    bool later = why->code == ERR_disk_full || why->code == ERR_unavailable || waits;
    if (!waits)
        rest->n = 1;
    answer_all(rest, waits ? ERR_unavailable : later ? why->code : ERR_internal, why->text);
    return rest->n;
}

static bool one_by_one(struct work *work)
{
    struct engine *engine = work->engine;
    bool full = work->err->code == ERR_disk_full;
    if (full && engine->store->exclusive)
        space_ran_out(engine->space);
    else if (full)
        space_ran_out_away(engine->space, work->boot);
    if (work->err->code == ERR_corrupt)
        health_corrupt(engine, work->err);
    if (!turn_forget(work))
        return false;
    for (size_t i = 0; i < work->n; i++) {
        struct err why = { 0 };
        struct work one = *work, rest = *work;
        one.commands = rest.commands = work->commands + i;
        one.n = 1;
        rest.n = work->n - i;
        one.err = &why;
        if (run_once(&one))
            continue;
        bool unknown = why.code == ERR_outcome_unknown;
        if (unknown)
            *work->err = why;
        if (unknown || !turn_forget(work)) {
            answer_all(&rest, ERR_outcome_unknown, why.text);
            return false;
        }
        if (why.code == ERR_corrupt)
            health_corrupt(engine, &why);
        if (refuse(&rest, &why) > 1)
            break;
    }
    return true;
}

/* True: all are answered, and the engine can go on. */
static bool tell_all(struct work *work, enum remedy remedy)
{
    if (remedy == GIVE_UP) {
        answer_all(work, ERR_outcome_unknown, work->err->text);
        return false;
    }
    work->trouble = remedy == TELL_LOCKED ? ENGINE_STORE_LOCKED : ENGINE_STORE_AWAY;
    store_lost(work);
    if (remedy == TELL_UNKNOWN)
        answer_all(work, ERR_outcome_unknown, work->err->text);
    if (remedy == TELL_LOCKED)
        answer_all(work, ERR_unavailable, "a lock in the database holds up every turn; nothing was recorded");
    if (remedy == TELL_AWAY)
        answer_all(work, ERR_unavailable, "the database can't be reached; nothing was recorded");
    return true;
}

/* The first try failed. *out_why: with what, or with what the second one did. */
static bool run_again(struct work *work, struct err *out_why)
{
    enum remedy remedy = remedy_of(work->engine, work->err->code, false);
    bool ok = false;
    if (remedy == ONCE_MORE) {
        store_lost(work);
        *work->err = (struct err){ .code = ERR_none };
        ok = run_once(work);
        remedy = ok ? 0 : remedy_of(work->engine, work->err->code, true);
    }
    *out_why = *work->err;
    return ok || (remedy == ONE_BY_ONE ? one_by_one(work) : tell_all(work, remedy));
}

/* --- what the turn says of the store, and when the next one is due --- */

static int64_t next_turn(struct engine *engine, int64_t wall, int64_t boot)
{
    int64_t next = polls_deadline(engine);
    struct heap_node *first = heap_first(&engine->grants->deadlines);
    if (first && first->key < next)
        next = first->key;
    if (engine->backlog->resuming.n || engine->polls->left || engine->backlog->removing.n ||
        engine->backlog->archives_left || engine->slots->left.n)
        next = boot;
    if (served_due(engine) || engine->backlog->tells_due || engine->grants->beats_due)
        next = boot;
    if (engine->shared->taken.commit != engine->head.commit)
        next = boot; /* others committed beside the last turn */
    if (schedules_due(engine, wall, boot))
        next = boot;
    if (silence_next(engine) < next)
        next = silence_next(engine);
    if (duties_next(engine) < next)
        next = duties_next(engine);
    if (expiry_next(engine) < next)
        next = expiry_next(engine);
    if (seals_next(engine) < next)
        next = seals_next(engine);
    int64_t due = coord_holds(engine->shared->coord, DUTY_schedules) ? schedules_next(engine) : INT64_MAX;
    if (coord_holds(engine->shared->coord, DUTY_timers) && engine->backlog->next_time < due)
        due = engine->backlog->next_time;
    if (engine->space->full && boot + SPACE_LOOK_MS < next)
        next = boot + SPACE_LOOK_MS; /* intake opens by itself */
    if (due != INT64_MAX) {
        int64_t in = due - wall;
        if (in < 0)
            in = 0;
        if (in > 60000)
            in = 60000; /* the wall clock may be set */
        if (boot + in < next)
            next = boot + in;
    }
    return next;
}

/* A turn met a lock, this one didn't: it may have written nothing that the lock is on. */
static bool lock_gone(const struct engine *engine, size_t n, int64_t boot)
{
    const struct store_shared_ops *ops = engine->store->ops->shared;
    if (ops && ops->writable)
        return ops->writable(engine->store);
    return (n && engine->wrote) || boot - engine->health->locked > LOCKED_MS;
}

/* What the turn says of the store. again: its first try failed; why: in the store's words. */
static void turn_judge(const struct work *work, bool ok, bool again, const struct err *why)
{
    struct engine *engine = work->engine;
    enum engine_health trouble = work->trouble;
    size_t n = work->n;
    int64_t boot = work->boot;
    struct health *health = engine->health;
    if (trouble == ENGINE_STORE_LOCKED)
        health->locked = boot;
    else if (health->locked && lock_gone(engine, n, boot))
        health->locked = 0;
    bool refused = why->code != ERR_disk_full && why->code != ERR_corrupt && why->code != ERR_unavailable;
    bool failed = ok && again && trouble == ENGINE_OK && !engine->wrote && refused;
    bool failing = health_turn(health, failed, n == 0, engine->wrote, boot);
    if (failed)
        atomic_fetch_add(&engine->tally->failed, 1);
    enum engine_health state = !ok                   ? ENGINE_FAILED
                               : trouble             ? trouble
                               : engine->space->full ? ENGINE_DISK_FULL
                                                     : ENGINE_OK;
    if (state == ENGINE_OK && failing)
        state = ENGINE_TURNS_FAIL;
    if (state == ENGINE_OK && health->locked)
        state = ENGINE_STORE_LOCKED;
    health_set(engine, state, ok && !failed && !trouble ? "" : why->text);
}

/* While the loop stands still nobody can be heard, so nobody is late. */
static void hearing_look(struct engine *engine, int64_t boot)
{
    const struct heap_node *first = heap_first(&engine->grants->deadlines);
    bool due = (first && first->key <= boot) || silence_next(engine) <= boot;
    enum hearing hears = thread_hears(engine, boot, due);
    engine->grants->deaf = hears != HEARS;
    if (hears == HEARS_NOTHING)
        leases_keep(engine, boot);
}

bool engine_turn(struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot,
    struct list *out_answered, int64_t *out_next, struct err *err)
{
    int64_t before = thread_stopwatch_us(engine);
    struct err why = { 0 };
    struct work work = { engine, commands, n, wall, boot, out_answered, ENGINE_OK, err };
    /* This process was stopped or starved: nobody could have been heard, so nobody is late. */
    bool stood_still = boot - engine->wanted > engine->config.lease_ms / 3 && engine->wanted != INT64_MAX;
    if (PLANT(no_new_watch))
        stood_still = false;
    if (stood_still)
        leases_watch_anew(engine, boot);
    hearing_look(engine, boot);
    health_clock(engine, wall, boot);
    space_look(engine->space, boot);
    /* Alone there is no wait: what comes now makes the next turn meanwhile. */
    engine->shared->gathers = engine->gather && commands && engine->shared->peers_about;
    engine->wrote = false;
    bool ok = run_once(&work), again = !ok;
    if (!ok)
        ok = run_again(&work, &why);
    *out_next = next_turn(engine, wall, boot);
    /* what failed now will fail at once again */
    int64_t pause = engine_damaged(engine) ? DAMAGED_AGAIN_MS : TRY_AGAIN_MS;
    if (again && *out_next < boot + pause)
        *out_next = boot + pause;
    /* else turns of the loop would put it off for ever */
    if (engine->grants->deaf && !engine->on_loop && *out_next < boot + HEAR_AGAIN_MS)
        *out_next = boot + HEAR_AGAIN_MS;
    engine->wanted = *out_next > boot ? *out_next : boot;
    turn_judge(&work, ok, again, ok ? &why : err);
    if ((engine->health->failing_since || engine->health->locked) && *out_next > boot + FAILING_AGAIN_MS)
        *out_next = boot + FAILING_AGAIN_MS;
    if (ok)
        *err = (struct err){ .code = ERR_none };
    atomic_fetch_add(&engine->tally->turns, 1);
    atomic_fetch_add(&engine->tally->commands, work.n);
    atomic_fetch_add(&engine->tally->turn_us, (uint64_t)(thread_stopwatch_us(engine) - before));
    return ok;
}
