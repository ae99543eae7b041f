#include "core/rollback.h"

#include <stdlib.h>

#include "base/plant.h"
#include "core/changeset.h"
#include "core/hold.h"
#include "core/settle.h"

static const struct because by_engine = { .actor = { "engine", 6 } };

/* --- members --- */

static void dependents_add(struct walk *walk, struct node *node)
{
    size_t n;
    if (PLANT(member_missed))
        return;
    const struct edge *outs = slice_outs_others(walk->slice, node, EDGE_AFTER, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = outs[i].kind == EDGE_DEPENDS ? slice_find(walk->slice, outs[i].waiter) : NULL;
        if (waiter && waiter->row.marks & MARK_CHANGESET)
            slice_walk_add(walk, waiter);
    }
}

/* Change sets behind this one on one of its paths. */
static void overlapping_add(struct walk *walk, struct node *node, size_t most)
{
    struct changeset *row = changeset_of(walk->slice, node);
    struct str path;
    struct changeset_paths paths = row ? changeset_paths(row) : (struct changeset_paths){ 0 };
    while (changeset_path_next(&paths, &path))
        for (int applied = 0; applied < 2; applied++) {
            struct changeset_file file = { .rank = row->rank };
            while (
                walk->n <= most && changeset_near(walk->slice, node->row.lane, applied, path, file.rank, true, &file)) {
                struct node *later = slice_find(walk->slice, file.task);
                if (later)
                    slice_walk_add(walk, later);
            }
        }
}

/* What the rollback names. */
static struct walk named_walk(struct slice *slice, struct node *rollback)
{
    struct walk walk = { .slice = slice, .visit = ++slice->visits };
    const struct changeset *row = changeset_of(slice, rollback);
    for (size_t i = 0; row && i < row->n_undoes; i++) {
        struct node *named = slice_find(slice, row->undoes[i]);
        if (named)
            slice_walk_add(&walk, named);
    }
    return walk;
}

struct places {
    struct rollback_place **out; /* NULL: nobody asks */
    size_t n, cap;
};

/* places_add: of the members that the walk has more than at the last call. */
static void places_add(struct walk *walk, struct places *places, struct rollback_place place)
{
    while (places->out && places->n < walk->n)
        *ARENA_PUSH(walk->slice->arena, *places->out, places->n, places->cap) = place;
}

static void walk_close(struct walk *walk, size_t most, bool overlapping, struct rollback_place **out_places)
{
    struct places places = { .out = out_places };
    places_add(walk, &places, (struct rollback_place){ .named = true });
    for (size_t at = 0; at < walk->n && walk->n <= most && !walk->slice->failed; at++) {
        struct node *member = walk->list[at];
        if (member->row.marks & MARK_ROLLBACK)
            continue; /* what it lists isn't a dependency */
        dependents_add(walk, member);
        places_add(walk, &places, (struct rollback_place){ .parent = at });
        if (overlapping)
            overlapping_add(walk, member, most);
        places_add(walk, &places, (struct rollback_place){ .parent = at, .overlaps = true });
    }
}

struct node **rollback_closure(
    struct slice *slice, struct node *rollback, size_t most, struct rollback_place **out_places, size_t *out_n)
{
    struct walk walk = named_walk(slice, rollback);
    const struct changeset *row = changeset_of(slice, rollback);
    walk_close(&walk, most, row && row->overlapping, out_places);
    *out_n = walk.n;
    return walk.list;
}

int64_t rollback_rank(struct slice *slice, struct node *node)
{
    if (node->row.state == STATE_X || (node->row.state == STATE_P && node->row.marks & MARK_LOOK))
        return MEMBER_RUNS; /* or it isn't known yet whether it has committed */
    if (!state_ended(node->row.state))
        return MEMBER_WAITS;
    const struct changeset *row = changeset_applied(node) ? changeset_of(slice, node) : NULL;
    return row && !row->rolled_back_by ? MEMBER_APPLIED : -1;
}

static bool is_member(struct slice *slice, const struct node *node, int64_t rollback)
{
    size_t n;
    const struct hold *holds = hold_has(node, HOLD_rollback) ? slice_holds_of_task(slice, node->row.id, &n) : NULL;
    for (size_t i = 0; holds && i < n; i++)
        if (holds[i].kind == HOLD_rollback && holds[i].key == rollback)
            return true;
    return false;
}

static struct because because_of(const struct node *rollback, struct slice *slice)
{
    return (struct because){ .actor = by_engine.actor,
        .reason = str_fmt(slice->arena, "held by the rollback %.*s", STR_ARG(rollback->row.name)),
        .cause = rollback->row.id };
}

static void member_add(struct slice *slice, struct node *rollback, struct node *member)
{
    int64_t rank = rollback_rank(slice, member);
    if (rank < 0 || member == rollback || is_member(slice, member, rollback->row.id))
        return;
    struct because because = because_of(rollback, slice);
    hold_put(slice, member, HOLD_rollback, rollback->row.id, rank);
    if (member->row.state == STATE_P && !(member->row.marks & MARK_LOOK)) {
        holds_drop(slice, member, HOLD_BIT(held));
        slice_move(slice, member, STATE_S, &because);
    } else if (member->row.state == STATE_X) {
        task_stop(slice, member, STATE_S, &because);
    }
}

/* --- the rollback --- */

static bool member_runs(struct slice *slice, const struct node *rollback)
{
    struct hold first;
    return slice_holds_first(slice, HOLD_rollback, rollback->row.id, 1, &first) > 0 && first.rank == MEMBER_RUNS;
}

static void hold_take(struct slice *slice, struct node *node, const struct hold *hold)
{
    size_t n, left = 0;
    slice_hold_remove(slice, hold);
    const struct hold *holds = slice_holds_of_task(slice, node->row.id, &n);
    for (size_t i = 0; i < n; i++)
        left += holds[i].kind == HOLD_rollback;
    if (left == 0)
        node->row.holds &= ~HOLD_BIT(rollback);
    node->dirty = true;
}

static bool members_fix(struct slice *slice, struct node *rollback)
{
    size_t n, most = slice->rollback_limit;
    struct node **members = rollback_closure(slice, rollback, most, NULL, &n);
    if (n > most) {
        task_end(slice, rollback, STATE_F, OUTCOME_failed,
            &(struct because){ .actor = by_engine.actor,
                .reason = str_fmt(slice->arena,
                    "more than %zu change sets would be rolled back (changesets.rollback_limit)", most) });
        return false;
    }
    rollback->row.marks |= MARK_FIXED;
    for (size_t i = 0; i < n; i++)
        member_add(slice, rollback, members[i]);
    return true;
}

bool rollback_ready(struct slice *slice, struct node *rollback)
{
    if (!(rollback->row.marks & MARK_FIXED) && !members_fix(slice, rollback))
        return false;
    bool runs = member_runs(slice, rollback);
    if (PLANT(rollback_beside))
        runs = false;
    bool waits = is_member(slice, rollback, rollback->row.id);
    if (runs && !waits)
        hold_put(slice, rollback, HOLD_rollback, rollback->row.id, MEMBER_ITSELF);
    return !runs && !slice->failed;
}

bool rollback_holds(struct slice *slice, struct node *node)
{
    size_t n;
    const struct hold *holds = hold_has(node, HOLD_rollback) ? slice_holds_of_task(slice, node->row.id, &n) : NULL;
    for (size_t i = 0; holds && i < n; i++)
        if (holds[i].kind == HOLD_rollback && holds[i].key != node->row.id)
            return true;
    return false;
}

void rollback_join(struct slice *slice, struct node *node)
{
    size_t n, n_holds;
    if (PLANT(member_late_missed))
        return;
    const struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = ins[i].kind == EDGE_DEPENDS ? slice_find(slice, ins[i].pred) : NULL;
        const struct hold *holds =
            pred && hold_has(pred, HOLD_rollback) ? slice_holds_of_task(slice, pred->row.id, &n_holds) : NULL;
        for (size_t k = 0; holds && k < n_holds; k++) {
            struct node *rollback = holds[k].kind == HOLD_rollback ? slice_find(slice, holds[k].key) : NULL;
            if (rollback)
                member_add(slice, rollback, node);
        }
    }
}

/* The rollback may be able to start: what kept it was that a member ran. */
static void rollback_look(struct slice *slice, struct node *rollback)
{
    if (state_ended(rollback->row.state) || member_runs(slice, rollback))
        return;
    size_t n;
    const struct hold *holds = slice_holds_of_task(slice, rollback->row.id, &n);
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind == HOLD_rollback && holds[i].key == rollback->row.id)
            hold_take(slice, rollback, &holds[i]);
    task_consider(slice, rollback);
}

void rollback_moved(struct slice *slice, struct node *node)
{
    size_t n;
    if (!hold_has(node, HOLD_rollback))
        return;
    int64_t rank = rollback_rank(slice, node);
    const struct hold *holds = slice_holds_of_task(slice, node->row.id, &n);
    for (size_t i = 0; i < n; i++) {
        struct hold hold = holds[i];
        if (hold.kind != HOLD_rollback || hold.key == node->row.id || hold.rank == rank)
            continue;
        hold_take(slice, node, &hold);
        if (rank >= 0)
            hold_put(slice, node, HOLD_rollback, hold.key, rank);
        struct node *rollback = hold.rank == MEMBER_RUNS ? slice_find(slice, hold.key) : NULL;
        if (rollback)
            rollback_look(slice, rollback);
    }
}

/* All members; a list of their own, since their rows go while it is walked. */
static struct node **members_of(struct slice *slice, struct node *rollback, struct hold **out_holds, size_t *out_n)
{
    size_t ask = 64, n;
    struct hold *holds;
    do {
        ask *= 2;
        holds = ARENA_ARRAY(slice->arena, struct hold, ask);
        n = slice_holds_first(slice, HOLD_rollback, rollback->row.id, ask, holds);
    } while (n == ask);
    struct node **members = ARENA_ARRAY(slice->arena, struct node *, n + 1);
    for (size_t i = 0; i < n; i++)
        members[i] = slice_find(slice, holds[i].task);
    *out_holds = holds;
    *out_n = slice->failed ? 0 : n;
    return members;
}

/* The rollback undoes an earlier rollback: change sets that the earlier one had undone count as applied again. */
static void members_restore(struct slice *slice, struct node *undone)
{
    const struct changeset *row = changeset_of(slice, undone);
    for (size_t i = 0; row && i < row->n_undoes; i++) {
        struct node *member = slice_find(slice, row->undoes[i]);
        struct changeset *changeset = member ? changeset_of(slice, member) : NULL;
        if (!changeset || changeset->rolled_back_by != undone->row.id)
            continue;
        changeset->rolled_back_by = 0;
        changeset_touch(slice, member);
    }
}

static void member_undone(struct slice *slice, struct node *rollback, struct node *member)
{
    struct changeset *row = changeset_of(slice, member);
    if (PLANT(undone_unmarked))
        return;
    row->rolled_back_by = rollback->row.id;
    changeset_touch(slice, member);
    if (member->row.marks & MARK_ROLLBACK)
        members_restore(slice, member);
}

/* What it has undone is kept in its row: a later rollback may undo that. */
static void undone_keep(struct slice *slice, struct node *rollback, struct node *const *members, size_t n)
{
    struct changeset *row = changeset_of(slice, rollback);
    int64_t *undone = ARENA_ARRAY(slice->arena, int64_t, n + 1);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        undone[kept++] = members[i]->row.id;
    if (!row)
        return;
    row->undoes = undone;
    row->n_undoes = kept;
    changeset_touch(slice, rollback);
}

void rollback_ended(struct slice *slice, struct node *rollback)
{
    size_t n, n_applied = 0, n_waiting = 0;
    struct hold *holds;
    struct node **members = members_of(slice, rollback, &holds, &n);
    struct node **applied = ARENA_ARRAY(slice->arena, struct node *, n + 1),
                **waiting = ARENA_ARRAY(slice->arena, struct node *, n + 1);
    bool done = rollback->row.state == STATE_D;
    if (PLANT(rollback_hold_kept) && !done)
        return;
    for (size_t i = 0; i < n; i++) {
        if (!members[i])
            continue;
        hold_take(slice, members[i], &holds[i]);
        const struct changeset *row = holds[i].rank == MEMBER_APPLIED ? changeset_of(slice, members[i]) : NULL;
        if (row && !row->rolled_back_by)
            applied[n_applied++] = members[i];
        else if (holds[i].rank == MEMBER_WAITS)
            waiting[n_waiting++] = members[i];
    }
    for (size_t i = 0; i < n_applied && done; i++)
        member_undone(slice, rollback, applied[i]);
    if (done && n_applied)
        undone_keep(slice, rollback, applied, n_applied);
    for (size_t i = 0; i < n_waiting; i++) {
        if (done)
            task_end(slice, waiting[i], STATE_A, OUTCOME_cancelled,
                &(struct because){ .actor = by_engine.actor,
                    .reason = str_fmt(slice->arena, "rolled back by %.*s", STR_ARG(rollback->row.name)),
                    .cause = rollback->row.id });
        else
            task_consider(slice, waiting[i]);
    }
}

/* Another rollback may have restored one of them, or a person retried one, since the members were fixed. What has come
 * behind a member on a path since is none. A later attempt undoes what the first one did: that may have committed. */
void rollback_start(struct slice *slice, struct node *rollback)
{
    size_t n;
    struct hold *holds;
    if (rollback->row.marks & MARK_BEGUN)
        return;
    rollback->row.marks |= MARK_BEGUN;
    struct node **members = members_of(slice, rollback, &holds, &n);
    struct walk walk = named_walk(slice, rollback);
    for (size_t i = 0; i < n; i++)
        if (members[i])
            slice_walk_add(&walk, members[i]);
    walk_close(&walk, SIZE_MAX, false, NULL);
    for (size_t i = 0; i < walk.n && !slice->failed; i++)
        member_add(slice, rollback, walk.list[i]);
}

static int newest_first(const void *a, const void *b)
{
    const struct task *x = &(*(const struct node *const *)a)->row, *y = &(*(const struct node *const *)b)->row;
    if (x->finished != y->finished)
        return x->finished > y->finished ? -1 : 1;
    if (x->last_turn != y->last_turn)
        return x->last_turn > y->last_turn ? -1 : 1;
    return x->id > y->id ? -1 : x->id < y->id;
}

struct node **rollback_undoes(struct slice *slice, struct node *rollback, size_t *out_n)
{
    size_t n, kept = 0;
    struct hold *holds;
    struct node **members = members_of(slice, rollback, &holds, &n);
    for (size_t i = 0; i < n; i++) {
        const struct changeset *row =
            members[i] && holds[i].rank == MEMBER_APPLIED ? changeset_of(slice, members[i]) : NULL;
        if (row && !row->rolled_back_by)
            members[kept++] = members[i];
    }
    if (kept > 1)
        qsort(members, kept, sizeof *members, newest_first);
    *out_n = kept;
    return members;
}
