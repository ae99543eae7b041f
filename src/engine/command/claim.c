/* claim: polls get pending tasks.
 *
 * Pending tasks are read class by class, in the order in which they are granted (supply); the classes that fit an
 * executor are merged by their first tasks (picks). */
#include <stdlib.h>

#include "core/pick.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/shared/shared.h"
#include "engine/targets.h"

/* --- pending tasks, by class --- */

struct supply {
    int64_t class_id;
    struct ready_row *rows; /* stored ones, in order */
    size_t n_rows, next, asked;
    struct node **fresh; /* this turn's, in order */
    size_t n_fresh, cap_fresh, next_fresh;
};

static int by_rank(const void *a, const void *b)
{
    struct ready_row x = ready_row_of(&(*(const struct node *const *)a)->row),
                     y = ready_row_of(&(*(const struct node *const *)b)->row);
    return ready_order(&x, &y);
}

static void supply_ask(struct turn *turn, struct supply *supply, size_t n)
{
    struct store *store = turn->engine->store;
    supply->asked = n;
    supply->next = 0;
    if (!store->ops->ready_first(store, turn->arena, supply->class_id, n, &supply->rows, &supply->n_rows, turn->err)) {
        turn->slice->failed = true;
        supply->n_rows = 0;
    }
}

static struct supply *supply_of(struct turn *turn, int64_t class_id)
{
    struct supply *supply = map_find(&turn->claims.supplies, (uint64_t)class_id);
    if (supply)
        return supply;
    supply = ARENA_NEW(turn->arena, struct supply);
    supply->class_id = class_id;
    map_put(&turn->claims.supplies, (uint64_t)class_id, supply);
    return supply;
}

/* Adds the tasks that became pending since the last call to their classes, each once. */
static void supplies_fresh(struct turn *turn)
{
    for (; turn->claims.n_supplied < turn->slice->fresh.n; turn->claims.n_supplied++) {
        struct node *node = turn->slice->fresh.at[turn->claims.n_supplied];
        struct supply *supply = node->row.state == STATE_P ? supply_of(turn, node->row.class_id) : NULL;
        if (supply && !supply->asked)
            *ARENA_PUSH(turn->arena, supply->fresh, supply->n_fresh, supply->cap_fresh) = node;
    }
}

static struct supply *supply_get(struct turn *turn, int64_t class_id, size_t want)
{
    /* their stored rows may be void; if too few rows are left, supply_row reads more */
    if (!turn->claims.supplied)
        MAP_EACH (&turn->slice->nodes, e)
            turn->claims.n_were_pending += ((const struct node *)e->value)->was == STATE_P;
    turn->claims.supplied = true;
    supplies_fresh(turn);
    struct supply *supply = supply_of(turn, class_id);
    if (supply->asked)
        return supply;
    if (supply->n_fresh > 1)
        qsort(supply->fresh, supply->n_fresh, sizeof *supply->fresh, by_rank);
    supply_ask(turn, supply, want + turn->claims.n_were_pending);
    return supply;
}

/* A stored row is valid while this turn has not touched its task, or left it pending at the same place. */
static bool row_stands(struct turn *turn, const struct ready_row *row)
{
    const struct node *node = map_find(&turn->slice->nodes, (uint64_t)row->task);
    return !node || (node->row.state == STATE_P && !node->in_fresh && node->row.vt == row->vt);
}

static const struct ready_row *supply_row(struct turn *turn, struct supply *supply)
{
    for (;;) {
        while (supply->next < supply->n_rows && !row_stands(turn, &supply->rows[supply->next]))
            supply->next++;
        if (supply->next < supply->n_rows)
            return &supply->rows[supply->next];
        if (supply->n_rows < supply->asked || turn->slice->failed)
            return NULL;
        supply_ask(turn, supply, supply->asked * 2);
    }
}

static struct node *supply_fresh(struct supply *supply)
{
    while (supply->next_fresh < supply->n_fresh && supply->fresh[supply->next_fresh]->row.state != STATE_P)
        supply->next_fresh++;
    return supply->next_fresh < supply->n_fresh ? supply->fresh[supply->next_fresh] : NULL;
}

/* The first pending task of a class; false: it has none. */
static bool supply_head(struct turn *turn, struct supply *supply, struct ready_row *out)
{
    const struct ready_row *row = supply_row(turn, supply), *first;
    const struct node *fresh = supply_fresh(supply);
    struct ready_row fresh_row = fresh ? ready_row_of(&fresh->row) : (struct ready_row){ 0 };
    first = ready_earlier(fresh ? &fresh_row : NULL, row);
    if (first)
        *out = *first;
    return first != NULL;
}

/* The classes that fit an executor, collected once a poll, not once a grant. */
static struct picks picks_open(struct turn *turn, struct known_executor *known, size_t want)
{
    struct picks picks = { 0 };
    MAP_EACH (&turn->engine->cache->classes, e) {
        const struct task_class *class_ = e->value;
        struct ready_row head;
        if (!cache_fits(turn->engine, known, class_->id))
            continue;
        struct supply *supply = supply_get(turn, class_->id, want);
        if (!supply_head(turn, supply, &head))
            continue;
        if (class_->kind == KIND_APPLY)
            head.vt = 0; /* vt orders a target's own change sets; among classes they are the first of their priority */
        picks_add(&picks, turn->arena, &head, supply);
    }
    return picks;
}

/* The first pending task that fits the executor, whatever its class. While one poll is served a class's first task is
 * only ever replaced by a later one, as `picks` asks. */
static struct node *pick_next(struct turn *turn, struct picks *picks)
{
    const struct pick *top;
    while ((top = picks_first(picks))) {
        struct ready_row head;
        bool has = supply_head(turn, top->supply, &head);
        if (has && head.task == top->head.task)
            return slice_find(turn->slice, head.task);
        picks_replace(picks, has ? &head : NULL);
    }
    return NULL;
}

/* How many grants the poll may receive: the free slots that it reports, but at most the executor's slots, and the few
 * it takes ahead while its jobs are very short, less its active grants. */
static int64_t grants_most(struct turn *turn, const struct known_executor *known, const struct command *poll)
{
    int64_t free = poll->in.poll.free, again = (int64_t)poll->out.poll.n_grants;
    int64_t room = known->row.slots + poll->in.poll.ahead - (int64_t)known->active_grants.n - poll->revived;
    if (again + room >= free)
        return free;
    for (struct list_node *at = known->active_grants.first; at;
         at = at->next) { /* those that end in this turn are free again */
        const struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
        const struct pending_attempt *pending = map_find(&turn->attempts, (uint64_t)live->attempt.task);
        room += pending && (pending->ended || pending->removed) && pending->attempt.grant == live->attempt.grant;
    }
    room = again + (room > 0 ? room : 0);
    return room < free ? room : free;
}

static void grants_take(struct turn *turn, struct command *poll, size_t want)
{
    struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)poll->in.poll.executor);
    if (!known || known->parked != poll || known->row.state != EXECUTOR_ACTIVE)
        return;
    if (atomic_load(&poll->gone)) {
        poll_answer(turn, poll);
        return;
    }
    int64_t most = grants_most(turn, known, poll);
    poll->limited = most < poll->in.poll.free;
    if (most > GRANTS_MAX)
        most = GRANTS_MAX;
    if ((int64_t)poll->out.poll.n_grants >= most)
        return;
    struct picks picks = picks_open(turn, known, want);
    while ((int64_t)poll->out.poll.n_grants < most) {
        struct node *node = pick_next(turn, &picks);
        if (!node || turn->slice->failed)
            return;
        if (node->row.marks & MARK_CHANGESET && turn->narrow.is) {
            turn_widen(turn); /* two servers would start two of one target */
            return;
        }
        struct target target;
        struct str why;
        if (node->row.marks & MARK_CHANGESET && !target_of(turn, &node->row, &target, &why)) {
            struct because gone = { .actor = STR("engine"), .reason = why };
            if (turn->claims.n_parked_tasks++ >= turn->engine->batch)
                return; /* what its end makes pending is too late for this turn, too */
            if (node->row.marks & MARK_LOOK)
                task_end(turn->slice, node, STATE_A, OUTCOME_cancelled, &gone); /* nowhere to look */
            else
                task_stop(turn->slice, node, STATE_A, &gone);
            slice_settle(turn->slice);
            continue;
        }
        if (node->row.marks & MARK_CHANGESET && !target_is_free(turn, node, &target)) {
            picks_replace(&picks, NULL); /* the class is the target's: none of it starts now */
            continue;
        }
        bool closed = lane_closed(turn->slice, node->row.lane) && !(node->row.marks & MARK_LOOK); /* starts nothing */
        if (PLANT(pause_ignored))
            closed = false;
        if (closed) {
            if (turn->claims.n_parked_tasks++ >= turn->engine->batch)
                return; /* the next turn goes on parking */
            task_park(turn->slice, node);
            slice_settle(turn->slice);
            continue;
        }
        size_t bytes = slice_spec(turn->slice, node)->body.len;
        /* it goes into the answer of the next poll */
        if (poll->out.poll.n_grants && poll->out.poll.grant_bytes + bytes > GRANTS_BYTES_MAX)
            return;
        grant_make(turn, known, poll, node);
    }
}

/* Tasks that were made together have numbers near each other. */
static bool grants_near(const struct pending_attempt *a, const struct pending_attempt *b)
{
    return a->attempt.task - b->attempt.task <= NEAR_MAX && b->attempt.task - a->attempt.task <= NEAR_MAX;
}

static void claim_for(struct turn *turn, struct command *poll, size_t want)
{
    size_t first = turn->attempt_list.n;
    if (engine_damaged(turn->engine))
        return; /* the result might not be recorded */
    grants_take(turn, poll, want);
    struct pending_attempt **list = turn->attempt_list.at;
    for (size_t i = first, end = turn->attempt_list.n; i < end && end - first >= turn->engine->many; i++)
        list[i]->attempt.many =
            (i > first && grants_near(list[i], list[i - 1])) || (i + 1 < end && grants_near(list[i], list[i + 1]));
}

/* Classes of the tasks that became pending in this turn and still are. */
struct fresh_classes {
    int64_t ids[32];
    size_t n;
    bool all; /* too many for the list: every parked poll is tried */
};

static void fresh_class_add(struct fresh_classes *classes, int64_t id)
{
    for (size_t i = 0; i < classes->n; i++)
        if (classes->ids[i] == id)
            return;
    if (classes->n == sizeof classes->ids / sizeof *classes->ids)
        classes->all = true;
    else
        classes->ids[classes->n++] = id;
}

static bool fresh_fits(struct turn *turn, const struct fresh_classes *classes, const struct command *poll)
{
    bool fits = classes->all;
    for (size_t i = 0; i < classes->n && !fits; i++)
        fits = cache_fits(turn->engine, poll->known, classes->ids[i]);
    return fits;
}

void claims_run(struct turn *turn)
{
    size_t want = 0;
    for (size_t i = 0; i < turn->claims.polls.n; i++)
        want += (size_t)turn->claims.polls.at[i]->in.poll.free < GRANTS_MAX
                    ? (size_t)turn->claims.polls.at[i]->in.poll.free
                    : GRANTS_MAX;
    struct engine *engine = turn->engine;
    for (size_t i = 0; i < turn->claims.polls.n; i++)
        claim_for(turn, turn->claims.polls.at[i], want);
    /* A parked poll found nothing when it came: only tasks that became pending in this turn can be granted to it. */
    size_t fresh = 0;
    struct fresh_classes classes = { 0 };
    for (size_t i = 0; i < turn->slice->fresh.n; i++) {
        const struct task *row = &turn->slice->fresh.at[i]->row;
        if (row->state != STATE_P)
            continue;
        fresh++;
        if (!classes.all)
            fresh_class_add(&classes, row->class_id);
    }
    for (size_t i = 0; i < turn->slice->freed.n; i++, fresh++) /* a pending change set of the target may start */
        fresh_class_add(&classes, turn->slice->freed.at[i]);
    classes.all |= engine->polls->left;
    bool all = engine->polls->left;
    for (struct list_node *at = engine->polls->parked.first; at && (fresh > 0 || all); at = at->next) {
        struct command *poll = CONTAINER_OF(at, struct command, node);
        if (!fresh_fits(turn, &classes, poll))
            continue;
        size_t before = poll->out.poll.n_grants;
        /* a narrow turn locks every row it reads */
        size_t more = turn->narrow.is ? (size_t)poll->in.poll.free : GRANTS_MAX;
        claim_for(turn, poll, all ? fresh + more : fresh);
        size_t granted = poll->out.poll.n_grants - before;
        if (granted)
            poll_answer(turn, poll);
        fresh = granted < fresh ? fresh - granted : 0;
    }
    engine->shared->passed_over = turn->narrow.is && engine->store->ops->shared->ready_passed(engine->store);
    /* parked tasks released slots, which may have made others pending too late for this turn */
    engine->polls->left = turn->claims.n_parked_tasks > 0 || engine->shared->passed_over;
}
