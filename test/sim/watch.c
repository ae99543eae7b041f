/* watch: what a turn may do, judged by what the store held before and holds after it, and by what the simulator knows
 * of its executors. Only turns whose commit went well at once are judged; what a failed one leaves behind is check.c's
 * matter. */
#include <string.h>

#include "core/task_state.h"
#include "core/verdict.h"
#include "core/why.h"
#include "world.h"

enum { VT_STEP = 1 << 10, LIFE = 10000 /* polls of a life of an executor: executors.c */ };

/* --- lookups --- */

const struct task *store_task(const struct world *w, int64_t id)
{
    return map_find(&w->store->tasks, (uint64_t)id);
}

static const struct attempt *attempt_in(const struct attempt *list, size_t n, int64_t task, int64_t grant)
{
    for (size_t i = n; i-- > 0;)
        if (list[i].task == task && list[i].grant == grant)
            return &list[i];
    return NULL;
}

const struct attempt *store_attempt(const struct world *w, int64_t task, int64_t grant)
{
    return attempt_in(w->store->attempts, w->store->n_attempts, task, grant);
}

struct sim_executor *executor_of(struct world *w, int64_t id)
{
    const struct executor *row = map_find(&w->store->executors, (uint64_t)id);
    return row && row->name.len == 2 ? &w->executors[row->name.ptr[1] - '0'] : NULL;
}

/* The labels of this world by hand, not by core's own rule. */
const struct task_class *class_of(const struct world *w, const struct task *task, struct arena *arena)
{
    const struct task_class *row = map_find(&w->store->classes, (uint64_t)task->class_id);
    if (row || !task->class_id)
        return row;
    const struct spec *spec = map_find(&w->store->specs, (uint64_t)task->spec);
    return spec ? class_of_key(arena, spec->class_key, ARENA_NEW(arena, struct task_class)) : NULL;
}

static bool class_has_labels(const struct world *w, const struct task *task, bool *out_known)
{
    struct arena arena = { 0 };
    const struct task_class *class_ = class_of(w, task, &arena);
    bool labels = class_ && class_->n_labels;
    *out_known = class_ != NULL;
    arena_release(&arena);
    return labels;
}

bool executor_fits(const struct world *w, const struct sim_executor *e, const struct task *task)
{
    if (task->marks & MARK_CHANGESET)
        return e->applies;
    bool known, labels = class_has_labels(w, task, &known);
    return known && (!labels || e->index % 2 == 0);
}

static bool hashed(const struct attempt *attempt)
{
    static const uint8_t zero[16];
    return attempt && memcmp(attempt->finish_hash, zero, sizeof zero) != 0;
}

/* Of another incarnation: of a time that a backup has undone. */
static bool fence_is(const struct world *w, struct fence fence, int64_t task, int64_t grant)
{
    return fence.task == task && fence.grant == grant && fence.incarnation == w->store->head.incarnation;
}

static const struct job *job_of(struct world *w, int64_t executor, int64_t task, int64_t grant)
{
    struct sim_executor *e = executor_of(w, executor);
    for (size_t i = 0; e && i < JOBS_MAX; i++)
        if (e->jobs[i].used && fence_is(w, e->jobs[i].fence, task, grant))
            return &e->jobs[i];
    return NULL;
}

/* --- before --- */

void watch_anew(struct world *w)
{
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *attempt = &w->store->attempts[i];
        struct watch *watch = &w->known.watches[attempt->task];
        if (attempt->finished || watch->grant != attempt->grant)
            continue;
        watch->surely[w->at->index] = watch->possibly[w->at->index] = w->boot;
        if (w->at->engine)
            MARK(w, stall_live);
    }
}

void watch_before(struct world *w)
{
    struct memstore *m = w->store;
    MAP_EACH (&m->tasks, t) {
        const struct task *task = t->value;
        w->before[task->id] =
            (struct before){ .state = task->state, .ending = task->ending, .grant = task->grant, .holds = task->holds };
    }
    if (w->cap_attempts_before < m->n_attempts) {
        w->cap_attempts_before = m->n_attempts * 2;
        w->attempts_before = mem_realloc(w->attempts_before, w->cap_attempts_before * sizeof *w->attempts_before);
    }
    if (m->n_attempts)
        memcpy(w->attempts_before, m->attempts, m->n_attempts * sizeof *m->attempts);
    w->n_attempts_before = m->n_attempts;
    if (w->cap_holds_before < m->n_holds) {
        w->cap_holds_before = m->n_holds * 2;
        w->holds_before = mem_realloc(w->holds_before, w->cap_holds_before * sizeof *w->holds_before);
    }
    if (m->n_holds)
        memcpy(w->holds_before, m->holds, m->n_holds * sizeof *m->holds);
    w->n_holds_before = m->n_holds;
    w->v_now_before = m->head.v_now;
    w->incarnation_before = m->head.incarnation;
    w->n_slots_before = 0;
    MAP_EACH (&m->slots, s)
        *ARENA_PUSH(&m->arena, w->slots_before, w->n_slots_before, w->cap_slots_before) =
            *(const struct slot *)s->value;
}

/* --- leases --- */

/* Has a poll of this turn, sent after the grant was answered, left the grant out? */
static bool left_out(struct world *w, const struct attempt *was, struct command **commands, size_t n)
{
    const struct sim_executor *e = executor_of(w, was->executor);
    for (size_t i = 0; i < n; i++) {
        const struct command *poll = commands[i];
        if (poll->kind != CMD_POLL || (intptr_t)poll->owner != e->index || poll->in.poll.seq < was->poll_seq)
            continue;
        bool named = false;
        for (size_t k = 0; k < poll->in.poll.n_renew; k++)
            named |= fence_is(w, poll->in.poll.renew[k].fence, was->task, was->grant);
        if (!named)
            return true;
    }
    return false;
}

/* A grant that was live before the turn and isn't any more: by a finish, by its lease, or because its executor doesn't
 * have it. */
static void check_gone(
    struct world *w, const struct attempt *was, const struct attempt *is, struct command **commands, size_t n)
{
    const struct watch *watch = &w->known.watches[was->task];
    bool known = watch->grant == was->grant;
    if (hashed(is))
        return;
    if (is) {
        bool early = known && w->boot - watch->surely[w->at->index] < LEASE_MS;
        if (early && job_of(w, was->executor, was->task, was->grant))
            world_fail(w, "R4 a job was taken for lost though its executor has it", was->task);
        if (early && !left_out(w, was, commands, n))
            world_fail(w, "R15 a lease lapsed before its time", was->task);
        if (early && !watch->named)
            MARK(w, missed_by_forgetful);
        if (!early)
            MARK(w, lease_lapsed);
        if (!early && watch->server != w->at->index)
            MARK(w, lapsed_elsewhere);
        if (!early && w->before[was->task].ending)
            MARK(w, lapsed_ending);
        return;
    }
    const struct sim_executor *e = executor_of(w, was->executor);
    if (job_of(w, was->executor, was->task, was->grant))
        world_fail(w, "a grant was taken back though it had arrived", was->task);
    if (w->n_crashes > 0 && was->poll_seq / LIFE == e->seq / LIFE)
        MARK(w, undone_after_crash);
    if (was->poll_seq / LIFE != e->seq / LIFE)
        MARK(w, undone_by_restarted);
}

static void check_lapses(struct world *w, struct command **commands, size_t n)
{
    for (size_t i = 0; i < w->n_attempts_before; i++) {
        const struct attempt *was = &w->attempts_before[i], *is = store_attempt(w, was->task, was->grant);
        if (!was->finished && (!is || is->finished))
            check_gone(w, was, is, commands, n);
    }
}

/* Of several that lapse at once a turn takes a batch, and each of the next ones does its part. */
static void check_leases(struct world *w)
{
    int64_t left = 0;
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *is = &w->store->attempts[i];
        struct watch *watch = &w->known.watches[is->task];
        if (is->finished)
            continue;
        if (w->boot - watch->possibly[w->at->index] >= LEASE_MS)
            left = is->task;
        if (w->at->next_turn > w->boot && w->at->next_turn > watch->possibly[w->at->index] + LEASE_MS)
            world_fail(w, "I10 no wake-up for a lease", is->task);
    }
    if (left)
        MARK(w, lapse_batches);
    w->at->lapsing = left ? w->at->lapsing + 1 : 0;
    if (left && (!w->batch || w->at->lapsing > JOBS_MAX * EXECUTORS_MAX))
        world_fail(w, "R9 a lapsed lease was not noticed", left);
}

/* Who says nothing is taken for lost, a batch a turn; whose poll is kept waiting a lease later. Of several servers: any
 * of them may have heard it. */
static void check_silence(struct world *w)
{
    MAP_EACH (&w->store->executors, x) {
        const struct executor *row = x->value;
        const struct sim_executor *e = row->state == EXECUTOR_ACTIVE ? executor_of(w, row->id) : NULL;
        if (!e)
            continue;
        int64_t heard = e->heard > w->at->began ? e->heard : w->at->began, late = heard + 2 * LEASE_MS + 1;
        if (w->boot > heard + LEASE_MS + 1 && w->batch)
            MARK(w, silence_batches);
        if (w->at->next_turn > w->boot && w->at->next_turn > late && !several(w))
            world_fail(w, "I10 no wake-up for an executor's silence", row->id);
    }
}

/* Several servers: who takes over that another one has heard the executor, or done something to the task, counts its
 * lease from then on. What is written by this turn is taken over by the others at their next, and counts unless they
 * were told the same a moment before. */
static void leases_followed(struct world *w)
{
    enum { MOMENT_MS = 200 };
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *is = &w->store->attempts[i];
        struct watch *watch = &w->known.watches[is->task];
        if (is->finished)
            continue;
        int64_t heard = memstore_touched(w->store, MEM_EXECUTOR, is->executor),
                task = memstore_touched(w->store, MEM_TASK, is->task);
        if (heard > w->at->seen_commit || task > w->at->seen_commit || w->anew)
            watch->possibly[w->at->index] = w->boot;
        for (size_t k = 0; k < w->n_servers && heard > w->commit_before; k++)
            if ((int)k != w->at->index && watch->surely[k] < w->boot - MOMENT_MS)
                watch->surely[k] = w->boot - MOMENT_MS;
    }
}

/* What the polls of this turn said of leases. A poll that is older than another one may count for nothing. */
static void leases_heard(struct world *w, struct command **commands, size_t n)
{
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *is = &w->store->attempts[i];
        struct watch *watch = &w->known.watches[is->task];
        if (is->finished || watch->grant == is->grant)
            continue;
        fence_issue(w, is->task, is->grant);
        *watch =
            (struct watch){ .grant = is->grant, .executor = is->executor, .granted = w->boot, .server = w->at->index };
        for (size_t k = 0; k < SERVERS_MAX; k++)
            watch->surely[k] = watch->possibly[k] = w->boot;
    }
    if (several(w))
        leases_followed(w);
    for (size_t i = 0; i < n; i++) {
        struct sim_executor *e = (intptr_t)commands[i]->owner >= 0 ? &w->executors[(intptr_t)commands[i]->owner] : NULL;
        if (e)
            e->heard = w->boot;
        bool unknown = commands[i]->err.code == ERR_outcome_unknown; /* then the server may have forgotten, or not */
        if (e && commands[i]->kind == CMD_REGISTER && (unknown || !commands[i]->err.code)) {
            e->seq_unsure[w->at->index] = unknown;
            if (!unknown)
                e->server_seq[w->at->index] = 0;
        }
        if (!e || commands[i]->kind != CMD_POLL || commands[i]->err.code)
            continue;
        const struct command *poll = commands[i];
        bool newest = poll->in.poll.seq >= e->server_seq[w->at->index];
        if (newest) {
            e->server_seq[w->at->index] = poll->in.poll.seq;
            e->seq_unsure[w->at->index] = false;
        }
        for (size_t k = 0; k < poll->in.poll.n_renew; k++) {
            struct watch *watch = &w->known.watches[poll->in.poll.renew[k].fence.task];
            struct fence fence = poll->in.poll.renew[k].fence;
            /* it changed within the turn */
            bool old = fence.incarnation == w->incarnation_before && fence.grant == watch->grant;
            if (!old && !fence_is(w, fence, fence.task, watch->grant))
                continue;
            watch->possibly[w->at->index] = w->boot;
            watch->named = true;
            if (newest)
                watch->surely[w->at->index] = w->boot;
        }
        for (size_t k = 0; k < poll->out.poll.n_grants; k++) {
            struct watch *watch = &w->known.watches[poll->out.poll.grants[k].fence.task];
            if (watch->grant != poll->out.poll.grants[k].fence.grant)
                continue;
            if (watch->granted < w->boot)
                MARK(w, poll_replayed);
            watch->possibly[w->at->index] = watch->surely[w->at->index] = w->boot;
        }
    }
}

/* A job starts: what the executor was given is its own, or was until its lease ended. */
void watch_start(struct world *w, const struct sim_executor *e, struct fence fence)
{
    const struct watch *watch = &w->known.watches[fence.task];
    if (fence.incarnation != w->store->head.incarnation)
        return; /* of a time that a backup has undone */
    w->known.starts[fence.task]++;
    if (watch->grant == fence.grant && !store_attempt(w, fence.task, fence.grant))
        world_fail(w, "a grant was taken back while its answer was under way", fence.task);
    const struct task *task = store_task(w, fence.task);
    if (!task)
        world_fail(w, "I1 a job without a task", fence.task);
    if (!executor_fits(w, e, task))
        world_fail(w, "granted to an executor that doesn't fit", fence.task);
    bool known;
    if (!(task->marks & MARK_CHANGESET) && class_has_labels(w, task, &known))
        MARK(w, labels);
}

/* --- finishes --- */

/* The finish that a new hash in the store came from; NULL: none of this turn's. */
static const struct finish_item *item_of(
    const struct world *w, const struct attempt *attempt, struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; commands[i]->kind == CMD_POLL && k < commands[i]->in.poll.n_finishes; k++) {
            const struct finish_item *item = &commands[i]->in.poll.finishes[k];
            if (fence_is(w, item->fence, attempt->task, attempt->grant) &&
                memcmp(item->hash, attempt->finish_hash, sizeof item->hash) == 0)
                return item;
        }
    }
    return NULL;
}

/* I2, I3: a completion has effect once, by the newest grant, with what that grant's executor said. */
static void check_effects(struct world *w, struct command **commands, size_t n)
{
    bool retried = false; /* then an end is none any more */
    for (size_t i = 0; i < n; i++)
        retried |= commands[i]->kind == CMD_RETRY;
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *is = &w->store->attempts[i],
                             *was = attempt_in(w->attempts_before, w->n_attempts_before, is->task, is->grant);
        if (!hashed(is) || hashed(was)) {
            if (hashed(was) && memcmp(was, is, sizeof *is) != 0)
                world_fail(w, "I2 a completion was changed afterwards", is->task);
            continue;
        }
        const struct before *before = &w->before[is->task];
        w->n_effective++;
        if (w->known.watches[is->task].grant == is->grant && w->known.watches[is->task].server != w->at->index)
            MARK(w, grant_elsewhere);
        if (!was)
            world_fail(w, "I3 a completion of a grant that was not out", is->task);
        if (is->grant != before->grant)
            world_fail(w, "I3 an older grant's completion had effect", is->task);
        if (!item_of(w, is, commands, n))
            world_fail(w, "R4 a completion was booked on another grant", is->task);
        bool lost_before = before->state == STATE_F && was->outcome == OUTCOME_lost;
        if (state_ended(before->state) && !lost_before && !retried)
            world_fail(w, "I2 a completion after the end", is->task);
        w->n_late += before->state != STATE_X;
    }
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (task->state != STATE_D || w->before[task->id].state == STATE_D || !task->class_id)
            continue;
        const struct attempt *is = store_attempt(w, task->id, w->before[task->id].grant);
        bool good = hashed(is) && (is->outcome == OUTCOME_done || is->outcome == OUTCOME_skipped);
        if (!good)
            world_fail(w, "I2 done without a completion", task->id);
    }
}

/* How a finish must be answered, where nothing else in the turn had a say. */
static enum err_code finish_expect(const struct world *w, const struct finish_item *item)
{
    const struct before *before = &w->before[item->fence.task];
    const struct attempt *was =
        attempt_in(w->attempts_before, w->n_attempts_before, item->fence.task, item->fence.grant);
    if (item->fence.incarnation != w->store->head.incarnation)
        return ERR_stale_fence;
    if (hashed(was))
        return memcmp(was->finish_hash, item->hash, sizeof item->hash) == 0 ? ERR_none : ERR_already_finished;
    if (item->fence.grant != before->grant)
        return ERR_stale_fence;
    /* stopped, and its lease had lapsed */
    if (was && was->finished && was->outcome != OUTCOME_lost)
        return ERR_already_ended;
    if (before->state == STATE_X)
        return ERR_none;
    bool lost_before = before->state == STATE_F && was && was->outcome == OUTCOME_lost;
    /* R5: late, and nobody else has it */
    return state_ended(before->state) && !lost_before ? ERR_already_ended : ERR_none;
}

static void check_finish(struct world *w, const struct finish_item *item)
{
    enum err_code expected = finish_expect(w, item);
    const struct watch *watch = &w->known.watches[item->fence.task];
    const struct before *before = &w->before[item->fence.task];
    if (before->ending && watch->grant == item->fence.grant && w->boot - watch->possibly[w->at->index] >= LEASE_MS)
        return;                                                /* it ended by its lease in this very turn */
    const struct task *task = store_task(w, item->fence.task); /* none: of a time that a backup has undone */
    /* superseded by what became ready before */
    bool stopped = task && !state_ended(before->state) && state_ended(task->state);
    if (item->code == ERR_already_ended && stopped)
        return;
    if (expected == ERR_stale_fence)
        MARK(w, stale_finish);
    if (expected == ERR_stale_fence && item->fence.incarnation != w->store->head.incarnation)
        MARK(w, stale_incarnation);
    if (item->code == expected)
        return;
    trace(w, "  a finish of %lld/%lld was answered %s instead of %s", (long long)item->fence.task,
        (long long)item->fence.grant, err_name(item->code), err_name(expected));
    if (expected == ERR_none && before->state != STATE_X)
        world_fail(w, "R5 a late result was refused though nobody else had the task", item->fence.task);
    world_fail(w, "R4 a finish was answered wrongly", item->fence.task);
}

/* A poll that a newer one of its executor overtook, before or within this turn, isn't looked at. */
static bool overtaken(const struct world *w, struct command **commands, size_t n, const struct command *poll)
{
    for (size_t i = 0; i < n; i++)
        if (commands[i]->kind == CMD_POLL && commands[i]->owner == poll->owner &&
            commands[i]->in.poll.seq > poll->in.poll.seq)
            return true;
    return poll->in.poll.seq < w->executors[(intptr_t)poll->owner].server_seq[w->at->index];
}

static void check_finishes(struct world *w, struct command **commands, size_t n)
{
    static uint8_t named[IDS_MAX];
    memset(named, 0, sizeof named);
    for (size_t i = 0; i < n; i++) {
        if (commands[i]->kind != CMD_POLL && commands[i]->kind != CMD_REGISTER && commands[i]->kind != CMD_LANE_PAUSE)
            return; /* they have consequences */
        for (size_t k = 0; commands[i]->kind == CMD_POLL && k < commands[i]->in.poll.n_finishes; k++)
            named[commands[i]->in.poll.finishes[k].fence.task]++;
        for (size_t k = 0; commands[i]->kind == CMD_POLL && k < commands[i]->in.poll.n_renew; k++)
            named[commands[i]->in.poll.renew[k].fence.task] += 16;
    }
    for (size_t i = 0; i < n; i++) {
        const struct command *poll = commands[i];
        if (poll->kind != CMD_POLL || poll->err.code || overtaken(w, commands, n, poll))
            continue;
        for (size_t k = 0; k < poll->in.poll.n_finishes; k++) {
            const struct finish_item *item = &poll->in.poll.finishes[k];
            const struct attempt *was =
                attempt_in(w->attempts_before, w->n_attempts_before, item->fence.task, item->fence.grant);
            if (hashed(was) && item->code == ERR_none)
                MARK(w, finish_again);
            if (named[item->fence.task] == 17)
                check_finish(w, item);
        }
    }
}

/* --- polls --- */

static bool cancel_told(const struct command *poll, struct fence fence, bool stale)
{
    for (size_t i = 0; i < poll->out.poll.n_cancels; i++)
        if (poll->out.poll.cancels[i].fence.task == fence.task &&
            poll->out.poll.cancels[i].fence.grant == fence.grant &&
            poll->out.poll.cancels[i].fence.incarnation == fence.incarnation)
            return poll->out.poll.cancels[i].stale == stale;
    return false;
}

static bool poll_names(const struct world *w, const struct command *poll, int64_t task, int64_t grant)
{
    for (size_t i = 0; i < poll->in.poll.n_renew; i++)
        if (fence_is(w, poll->in.poll.renew[i].fence, task, grant))
            return true;
    for (size_t i = 0; i < poll->out.poll.n_grants; i++)
        if (poll->out.poll.grants[i].fence.task == task && poll->out.poll.grants[i].fence.grant == grant)
            return true;
    return false;
}

/* The newest poll of an executor: it is told what is to end and what isn't its own any more, and what it doesn't name
 * is not left with it.
 */
static void check_poll(struct world *w, const struct command *poll)
{
    /* it may have come while this turn was taken: then the next poll is told */
    bool news = w->depth || w->at->overtaken;
    for (size_t i = 0; i < poll->in.poll.n_renew; i++) {
        struct fence fence = poll->in.poll.renew[i].fence;
        const struct attempt *is = store_attempt(w, fence.task, fence.grant);
        bool live = is && !is->finished && fence_is(w, fence, fence.task, fence.grant), finishing = false;
        for (size_t k = 0; k < poll->in.poll.n_finishes; k++)
            finishing |= poll->in.poll.finishes[k].fence.task == fence.task;
        if (live && w->before[fence.task].ending && !news && !cancel_told(poll, fence, false))
            world_fail(w, "R17 an executor was not told of a cancel", fence.task);
        if (live || finishing)
            continue;
        if (!news && !cancel_told(poll, fence, true))
            world_fail(w, "R4 an executor was not told that its grant is stale", fence.task);
        MARK(w, stale_told);
    }
    for (size_t i = 0; i < w->n_attempts_before; i++) {
        const struct attempt *was = &w->attempts_before[i];
        if (was->finished || was->executor != poll->in.poll.executor || poll_names(w, poll, was->task, was->grant))
            continue;
        if (poll->in.poll.seq < was->poll_seq)
            MARK(w, late_poll_old);
        if (poll->in.poll.seq <= was->poll_seq)
            continue;
        const struct attempt *is = store_attempt(w, was->task, was->grant);
        if (is && !is->finished && !news)
            world_fail(w, "a grant that the executor doesn't know is left with it", was->task);
    }
}

static void check_polls(struct world *w, struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct command *poll = commands[i];
        const struct sim_executor *e = poll->kind == CMD_POLL ? &w->executors[(intptr_t)poll->owner] : NULL;
        if (!e || poll->err.code)
            continue;
        size_t of_it = 0; /* with another one of the same executor in the turn it is not clear what either was told */
        for (size_t k = 0; k < n; k++)
            of_it += (commands[k]->kind == CMD_POLL || commands[k]->kind == CMD_REGISTER) &&
                     commands[k]->owner == poll->owner;
        if (of_it == 1 && poll->in.poll.seq >= e->server_seq[w->at->index])
            check_poll(w, poll);
        if (of_it == 1 && poll->in.poll.seq < e->server_seq[w->at->index] && !e->seq_unsure[w->at->index] &&
            poll->out.poll.n_grants)
            world_fail(w, "an overtaken poll was given work", 0);
    }
}

/* --- grants --- */

bool lane_shut(const struct world *w, int64_t lane)
{
    const struct lane *all = map_find(&w->store->lanes, 1), *own = map_find(&w->store->lanes, (uint64_t)lane + 1);
    return (all && all->paused_since) || (own && own->paused_since);
}

/* Labels order a target's own change sets; among others these are the first of their priority. */
static bool ranks_before(const struct task *a, const struct task *b)
{
    bool sets = a->lane == b->lane;
    int64_t a_vt = a->marks & MARK_CHANGESET && !sets ? 0 : a->vt,
            b_vt = b->marks & MARK_CHANGESET && !sets ? 0 : b->vt;
    if (a->prio != b->prio)
        return a->prio > b->prio;
    if (a_vt != b_vt)
        return a_vt < b_vt;
    return a->id < b->id;
}

bool target_busy(const struct world *w, const struct task *task)
{
    const struct lane *lane = map_find(&w->store->lanes, (uint64_t)task->lane + 1);
    return task->marks & MARK_CHANGESET && lane && lane->counts[STATE_X] > 0;
}

/* Nobody that fits the executor and stays pending stands before what was granted; shares of lanes stay fair. */
static void check_grant(struct world *w, const struct attempt *attempt)
{
    const struct task *task = store_task(w, attempt->task);
    const struct sim_executor *e = executor_of(w, attempt->executor);
    if (lane_shut(w, task->lane))
        world_fail(w, "a paused lane's task was granted", task->id);
    if (!executor_fits(w, e, task))
        world_fail(w, "granted to an executor that doesn't fit", task->id);
    MAP_EACH (&w->store->tasks, t) {
        const struct task *other = t->value;
        if (other->state != STATE_P || !executor_fits(w, e, other) || target_busy(w, other))
            continue;
        bool beside = w->depth || w->at->overtaken; /* what another turn has locked is passed over */
        if (!w->parked_tasks && !beside && ranks_before(other, task))
            world_fail(w, "a grant out of the order of rank", task->id);
        if (!w->flat || other->lane == task->lane || other->lane >= 8 || task->grant > 1 ||
            w->before[other->id].state != STATE_P)
            continue;
        struct passed *passed = &w->known.passed[other->id];
        MARK(w, passed_over);
        if (passed->bound && passed->vt == other->vt && ++passed->by[task->lane & 7] > passed->bound)
            world_fail(w, "R28 passed over more often than fair", other->id);
    }
}

static void check_grants(struct world *w)
{
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *is = &w->store->attempts[i];
        if (!is->finished && is->grant > w->before[is->task].grant)
            check_grant(w, is);
    }
    /* those who become pending: how often may another lane's task pass them from now on? */
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (task->state != STATE_P || w->known.passed[task->id].vt == task->vt || task->marks & MARK_CHANGESET)
            continue;
        bool plain = task->attempts == 0 && task->base == 0 && task->vt > 0;
        /* each of them may give a lane its next place at the same time */
        int64_t times = several(w) ? (int64_t)w->n_servers : 1;
        int64_t bound = ((task->vt - w->v_now_before) / VT_STEP + 1) * times;
        w->known.passed[task->id] = (struct passed){ .vt = task->vt, .bound = plain ? bound : 0 };
    }
}

/* slots_left: what the store doesn't hold it to have; an executor that doesn't name all of that isn't granted more than
 * its slots. */
static int64_t slots_left(const struct world *w, const struct executor *row)
{
    int64_t left = row->slots;
    for (size_t i = 0; i < w->store->n_attempts; i++)
        left -= !w->store->attempts[i].finished && w->store->attempts[i].executor == row->id;
    return left;
}

bool executor_full(const struct world *w, const struct executor *row)
{
    return slots_left(w, row) <= 0;
}

/* An executor with room and a pending task that fits it never wait for each other. */
static void check_idle(struct world *w)
{
    if (w->at->overtaken)
        return; /* it may have become pending in the middle of this turn: the hint will tell */
    for (size_t i = 0; i < w->n_executors; i++) {
        const struct sim_executor *e = &w->executors[i];
        const struct command *parked = e->parked[w->at->index];
        const struct executor *row = parked ? map_find(&w->store->executors, (uint64_t)parked->in.poll.executor) : NULL;
        if (!row || row->state != EXECUTOR_ACTIVE || parked->in.poll.free <= 0 || slots_left(w, row) <= 0)
            continue;
        MAP_EACH (&w->store->tasks, t) {
            const struct task *task = t->value;
            if (task->state != STATE_P || !executor_fits(w, e, task) || lane_shut(w, task->lane) ||
                target_busy(w, task))
                continue;
            if (w->at->next_turn > w->boot)
                world_fail(w, "R8 a pending task beside an executor that waits for work", task->id);
        }
    }
}

/* --- waiting --- */

static const struct hold *hold_in(const struct hold *holds, size_t n, enum hold_kind kind, int64_t key, int64_t task)
{
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind == kind && holds[i].key == key && holds[i].task == task)
            return &holds[i];
    return NULL;
}

/* Was the slot taken in this turn? Also by a task that had it, gave it back (a cancel) and came again (a retry). */
static bool taken_now(const struct world *w, const struct hold *hold)
{
    const struct memstore *m = w->store;
    return hold->kind == HOLD_held && (!hold_in(w->holds_before, w->n_holds_before, HOLD_held, hold->key, hold->task) ||
                                          store_task(w, hold->task)->ready == m->turns[m->n_turns - 1].time);
}

/* Nobody who comes now gets a slot past somebody who waited for it already with at least its priority, and waits on. */
static void check_overtaking(struct world *w)
{
    const struct memstore *m = w->store;
    if (w->at->overtaken)
        return; /* who waits may have come in the middle of this turn, after it had begun */
    for (size_t i = 0; i < m->n_holds; i++) {
        const struct hold *got = &m->holds[i];
        if (got->kind != HOLD_held || hold_in(w->holds_before, w->n_holds_before, HOLD_held, got->key, got->task))
            continue;
        if (hold_in(w->holds_before, w->n_holds_before, HOLD_slot, got->key, got->task))
            continue;
        size_t came = 0; /* with another one in the turn, of a larger priority, a place that was kept may be gone */
        for (size_t k = 0; k < m->n_holds; k++)
            came += m->holds[k].key == got->key && taken_now(w, &m->holds[k]);
        for (size_t k = 0; k < w->n_holds_before && came == 1; k++) {
            const struct hold *was = &w->holds_before[k];
            if (was->kind != HOLD_slot || was->key != got->key)
                continue;
            const struct hold *is = hold_in(m->holds, m->n_holds, HOLD_slot, was->key, was->task);
            /* with room left for it, its place is kept */
            const struct slot *slot = map_find(&m->slots, (uint64_t)was->key);
            if (slot->used >= slot->limit && is && is->rank == was->rank &&
                store_task(w, was->task)->prio >= store_task(w, got->task)->prio)
                world_fail(w, "R28 a slot was taken past somebody who waited", was->task);
        }
    }
}

/* I10: every wait has a wake-up. */
static void check_wakeups(struct world *w)
{
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        int64_t tries = task->attempts - task->base;
        bool waits = task->state == STATE_S && tries > 0 && task->holds & (1u << HOLD_time);
        const struct spec *spec = map_find(&w->store->specs, (uint64_t)task->spec);
        bool judged = !w->clocks_differ && duty_acted(w, DUTY_timers);
        int64_t most = task->marks & MARK_CHANGESET ? BACKOFF_MAX_MS : spec->backoff_ms << (tries > 0 ? tries - 1 : 0);
        if (waits && judged && task->not_before - w->wall > most + 1000)
            world_fail(w, "R15 a back-off was stretched by the clock", task->id);
    }
    const struct memstore *m = w->store;
    for (size_t i = 0; i < m->n_holds; i++) {
        const struct hold *hold = &m->holds[i];
        /* else the hint of whoever made it will tell */
        if (hold->kind == HOLD_time && duty_had(w, DUTY_timers) && !w->at->overtaken) {
            int64_t in = hold->key - w->wall;
            if (in < 0)
                in = 0;
            if (in > 60000)
                in = 60000; /* the wall clock may be set */
            if (w->at->next_turn > w->boot + in)
                world_fail(w, "I10 no wake-up for a time", hold->task);
        }
        if (hold->kind == HOLD_telling)
            MARK(w, tell_batches);
        if (hold->kind == HOLD_returning && w->at->next_turn > w->boot && !several(w))
            world_fail(
                w, "I10 who ended because of what was retried isn't brought back, and no turn comes", hold->task);
        if (hold->kind == HOLD_telling && w->at->next_turn > w->boot && !several(w))
            world_fail(w, "I10 who waits for what has ended isn't told, and no turn comes", hold->task);
        if (hold->kind != HOLD_pause)
            continue;
        const struct lane *lane = map_find(&m->lanes, (uint64_t)hold->key + 1);
        if (lane && lane->paused_since)
            continue; /* `all` is stored when it was paused first */
        MARK(w, resume_batches);
        if (w->at->next_turn > w->boot && !several(w))
            world_fail(w, "I10 parked in a lane that isn't paused", hold->task);
    }
}

void watch_after(struct world *w, struct command **commands, size_t n, bool plain)
{
    if (!plain || w->incarnation_before != w->store->head.incarnation) {
        leases_heard(w, commands, n);
        return;
    }
    check_effects(w, commands, n);
    check_lapses(w, commands, n);
    check_finishes(w, commands, n);
    check_polls(w, commands, n);
    leases_heard(w, commands, n);
    check_leases(w);
    check_silence(w);
    check_grants(w);
    check_idle(w);
    if (!(w->revised & 1))
        check_overtaking(w); /* no limit changed on the way */
    check_wakeups(w);
    check_served(w, commands, n);
    check_schedules(w);
    check_limits(w, commands, n);
    for (size_t i = 0; i < n; i++) {
        const struct task *task = commands[i]->kind == CMD_RETRY ? store_task(w, commands[i]->in.task.task) : NULL;
        if (task && !commands[i]->err.code && !commands[i]->in.task.force)
            check_again(w, task);
        if (task && commands[i]->err.code == ERR_order_passed)
            MARK(w, order_passed);
        if (commands[i]->kind == CMD_RUN && !commands[i]->err.code)
            MARK(w, run_by_hand);
    }
}
