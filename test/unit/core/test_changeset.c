/* Change sets and rollbacks against an oracle that keeps plain lists: the steps 3 to 8 of the Repository Queue's
 * document, with the decisions of SEEDS.md and ENGINE.md (a dependency that is queued is waited for; members of a
 * rollback are held until its outcome is known). The oracle has no index, no chain and no edges: after each step it
 * looks at all change sets again. Both are driven by the same random history; states, the order of starts and the
 * closures of rollbacks must be equal after every step.
 *
 * What core decides on is kept between turns as a store would keep it: a turn ends at random, so that rows are met both
 * as stored and as changed by the same turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "core/changeset.h"
#include "core/hold.h"
#include "core/pick.h"
#include "core/rollback.h"
#include "core/settle.h"

enum { MANY = 40, STEPS = 120, PATHS = 5, LIMIT = 6, EDGES = 4000, HOLDS = 2000, FILES = 4000, LANE = 7 };

/* --- a store of arrays --- */

struct kept {
    struct task tasks[MANY + 1];
    struct changeset changesets[MANY + 1];
    struct edge edges[EDGES];
    struct hold holds[HOLDS];
    struct changeset_file files[FILES];
    size_t n_tasks, n_edges, n_holds, n_files;
    struct lane lane, all;
    int64_t ranks;
    int64_t undoes[MANY + 1][MANY + 1];
};

static bool kept_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct kept *kept = owner;
    (void)arena, (void)err;
    *out_found = id >= 1 && id <= (int64_t)kept->n_tasks && kept->tasks[id].id == id;
    if (*out_found)
        *out = kept->tasks[id];
    return true;
}

static int edge_order(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->waiter != y->waiter)
        return x->waiter < y->waiter ? -1 : 1;
    return x->pred < y->pred ? -1 : x->pred > y->pred;
}

static struct edge *edges_where(
    struct kept *kept, struct arena *arena, int64_t id, bool by_pred, int64_t after, enum edge_kind but, size_t *out_n)
{
    struct edge *out = ARENA_ARRAY(arena, struct edge, kept->n_edges + 1);
    size_t n = 0;
    for (size_t i = 0; i < kept->n_edges; i++) {
        const struct edge *e = &kept->edges[i];
        if ((by_pred ? e->pred : e->waiter) == id && e->kind != but && (!by_pred || e->waiter > after))
            out[n++] = *e;
    }
    qsort(out, n, sizeof *out, edge_order);
    *out_n = n;
    return out;
}

static bool kept_edges(
    void *owner, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err)
{
    (void)err;
    *out = edges_where(owner, arena, id, by_pred, 0, EDGE_NONE, out_n);
    return true;
}

static bool kept_others(void *owner, struct arena *arena, int64_t pred, enum edge_kind but, struct edge **out,
    size_t *out_n, struct err *err)
{
    (void)err;
    *out = edges_where(owner, arena, pred, true, 0, but, out_n);
    return true;
}

static int hold_order(const void *a, const void *b)
{
    const struct hold *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

static bool kept_holds(void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out,
    size_t *out_n, struct err *err)
{
    const struct kept *kept = owner;
    (void)err;
    *out = ARENA_ARRAY(arena, struct hold, kept->n_holds + 1);
    *out_n = 0;
    for (size_t i = 0; i < kept->n_holds; i++)
        if (kept->holds[i].kind == kind && kept->holds[i].key == key)
            (*out)[(*out_n)++] = kept->holds[i];
    qsort(*out, *out_n, sizeof **out, hold_order);
    if (*out_n > n)
        *out_n = n;
    return true;
}

static bool kept_holds_of_task(
    void *owner, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    const struct kept *kept = owner;
    (void)err;
    *out = ARENA_ARRAY(arena, struct hold, kept->n_holds + 1);
    *out_n = 0;
    for (size_t i = 0; i < kept->n_holds; i++)
        if (kept->holds[i].task == task)
            (*out)[(*out_n)++] = kept->holds[i];
    return true;
}

static const struct spec *kept_spec(void *owner, int64_t id, struct err *err)
{
    static const struct spec spec = { .attempts_max = 3 };
    (void)owner, (void)id, (void)err;
    return &spec;
}

static const struct lane *kept_lane(void *owner, int64_t id)
{
    const struct kept *kept = owner;
    return id ? &kept->lane : &kept->all;
}

static bool yes(void *owner, int64_t class_id)
{
    (void)owner, (void)class_id;
    return true;
}

static bool kept_changeset(
    void *owner, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    struct kept *kept = owner;
    (void)arena, (void)err;
    *out_found = kept->changesets[task].task == task;
    *out = kept->changesets[task];
    return true;
}

static bool kept_near(void *owner, struct arena *arena, int64_t lane, bool applied, struct str path, int64_t rank,
    bool after, struct changeset_file *out, bool *out_found, struct err *err)
{
    const struct kept *kept = owner;
    (void)arena, (void)err;
    *out_found = false;
    for (size_t i = 0; i < kept->n_files; i++) {
        const struct changeset_file *f = &kept->files[i];
        bool fits = f->lane == lane && f->applied == applied && str_eq(f->path, path);
        if (!fits || (after ? f->rank <= rank : f->rank >= rank))
            continue;
        if (*out_found && (after ? f->rank > out->rank : f->rank < out->rank))
            continue;
        *out = *f;
        *out_found = true;
    }
    return true;
}

static int64_t kept_rank(void *owner)
{
    return ++((struct kept *)owner)->ranks;
}

struct world {
    struct kept kept;
    struct rows rows;
    struct slice slice;
    struct arena arena;
    struct err err;
    int64_t turn, now;
};

static void turn_begin(struct world *w)
{
    slice_init(&w->slice, &w->arena, &w->rows, w->now, ++w->turn, &w->err);
    w->slice.rollback_limit = LIMIT;
}

static void edges_keep(struct kept *kept, const struct slice *slice)
{
    for (size_t i = 0; i < slice->edges_new.n; i++)
        kept->edges[kept->n_edges++] = slice->edges_new.at[i];
    for (size_t i = 0; i < slice->edges_changed.n; i++)
        for (size_t k = 0; k < kept->n_edges; k++)
            if (edge_order(&kept->edges[k], &slice->edges_changed.at[i]) == 0 &&
                kept->edges[k].kind == slice->edges_changed.at[i].kind)
                kept->edges[k].flags = slice->edges_changed.at[i].flags;
    assert_true(kept->n_edges < EDGES);
}

static void holds_keep(struct kept *kept, struct slice *slice)
{
    slice_holds_pack(slice);
    for (size_t i = 0; i < slice->holds_remove.n; i++) {
        const struct hold *gone = &slice->holds_remove.at[i];
        size_t before = kept->n_holds, left = 0;
        for (size_t k = 0; k < before; k++) {
            const struct hold *h = &kept->holds[k];
            bool same = h->kind == gone->kind && h->key == gone->key && h->rank == gone->rank && h->task == gone->task;
            if (!same)
                kept->holds[left++] = *h;
        }
        assert_int_equal(left + 1, before); /* what is taken away was there */
        kept->n_holds = left;
    }
    for (size_t i = 0; i < slice->holds_add.n; i++)
        kept->holds[kept->n_holds++] = slice->holds_add.at[i];
    assert_true(kept->n_holds < HOLDS);
}

static void file_drop(struct kept *kept, const struct changeset_file *gone)
{
    size_t before = kept->n_files, left = 0;
    for (size_t k = 0; k < before; k++) {
        const struct changeset_file *f = &kept->files[k];
        bool same = f->applied == gone->applied && f->rank == gone->rank && str_eq(f->path, gone->path);
        if (!same)
            kept->files[left++] = *f;
    }
    assert_int_equal(left + 1, before);
    kept->n_files = left;
}

static void turn_end(struct world *w)
{
    struct kept *kept = &w->kept;
    MAP_EACH (&w->slice.nodes, e) {
        const struct node *node = e->value;
        if (!node->dirty)
            continue;
        kept->tasks[node->row.id] = node->row;
        if ((size_t)node->row.id > kept->n_tasks)
            kept->n_tasks = (size_t)node->row.id;
    }
    edges_keep(kept, &w->slice);
    holds_keep(kept, &w->slice);
    for (size_t i = 0; i < w->slice.files.n; i++) {
        const struct path_change *change = &w->slice.files.at[i];
        if (!change->undone && change->add)
            kept->files[kept->n_files++] = change->file;
        else if (!change->undone)
            file_drop(kept, &change->file);
    }
    assert_true(kept->n_files < FILES);
    for (size_t i = 0; i < w->slice.changesets.n; i++) {
        const struct changeset *row = w->slice.changesets.at[i]->changeset;
        struct changeset *to = &kept->changesets[row->task];
        *to = *row;
        for (size_t k = 0; k < row->n_undoes; k++)
            kept->undoes[row->task][k] = row->undoes[k];
        to->undoes = kept->undoes[row->task];
    }
    kept->lane = *slice_lane(&w->slice, LANE);
    turn_begin(w);
}

/* --- the oracle --- */

struct cs {
    char state;
    bool rollback, unapproved, fixed, overlapping, begun;
    int prio;
    int64_t tai, rank;
    unsigned files;            /* a bit a path */
    bool depends[MANY + 1];    /* of a rollback: what it names, then what it has undone */
    bool precursors[MANY + 1]; /* that its meta brought */
    bool held_by[MANY + 1];
    char ending;
    int rolled_back_by, cause;
    bool passed_on; /* it failed because of `cause` */
    int64_t done;   /* when, by steps */
};

struct oracle {
    struct cs all[MANY + 1];
    int n;
    int64_t ranks, clock;
};

static bool over(char state)
{
    return strchr("DFTA", state) != NULL;
}

static void o_end(struct oracle *o, int i, char to)
{
    o->all[i].state = to;
    o->all[i].ending = 0;
    o->all[i].done = ++o->clock;
}

static int o_closure(const struct oracle *o, int rb, bool *member)
{
    int n = 0;
    memset(member, 0, MANY + 1);
    for (int i = 1; i <= o->n; i++)
        member[i] = o->all[rb].depends[i];
    for (bool more = true; more;) {
        more = false;
        for (int i = 1; i <= o->n; i++) {
            if (!member[i] || o->all[i].rollback)
                continue;
            for (int k = 1; k <= o->n; k++) {
                const struct cs *c = &o->all[k];
                bool depends = !c->rollback && c->depends[i];
                bool there = !over(c->state) || c->state == 'D';
                bool later = o->all[rb].overlapping && !c->rollback && c->files & o->all[i].files &&
                             c->rank > o->all[i].rank && there;
                if (!member[k] && (depends || later))
                    member[k] = more = true;
            }
        }
    }
    for (int i = 1; i <= o->n; i++)
        n += member[i];
    return n;
}

static void o_hold(struct oracle *o, int rb, int i)
{
    struct cs *c = &o->all[i];
    bool nothing = strchr("FTA", c->state) || (c->state == 'D' && c->rolled_back_by) || i == rb;
    if (nothing)
        return;
    c->held_by[rb] = true;
    if (c->state == 'P')
        c->state = 'S';
    if (c->state == 'X' && !c->ending)
        c->ending = 'S';
}

static bool o_held(const struct oracle *o, int i)
{
    for (int r = 1; r <= o->n; r++)
        if (o->all[i].held_by[r] && r != i)
            return true;
    return false;
}

static bool o_member_runs(const struct oracle *o, int rb)
{
    for (int i = 1; i <= o->n; i++)
        if (o->all[i].held_by[rb] && o->all[i].state == 'X')
            return true;
    return false;
}

/* Steps 3 and 4 for a rollback: true: it has moved. */
static bool o_rollback(struct oracle *o, int rb)
{
    bool member[MANY + 1];
    struct cs *c = &o->all[rb];
    if (c->unapproved || o_held(o, rb))
        return false;
    bool fixed = c->fixed;
    if (!fixed && o_closure(o, rb, member) > LIMIT) {
        o_end(o, rb, 'F');
        return true;
    }
    c->fixed = true;
    for (int i = 1; i <= o->n && !fixed; i++)
        if (member[i])
            o_hold(o, rb, i);
    if (!o_member_runs(o, rb))
        c->state = 'P';
    return c->state == 'P';
}

/* Steps 3 and 4 for any other. */
static bool o_stage(struct oracle *o, int i)
{
    struct cs *c = &o->all[i];
    bool waits = c->unapproved || o_held(o, i);
    for (int k = 1; k <= o->n; k++) {
        const struct cs *other = &o->all[k];
        if (c->depends[k] && strchr("FTA", other->state)) {
            o_end(o, i, 'F');
            memset(c->held_by, 0, sizeof c->held_by);
            c->cause = k;
            c->passed_on = true;
            return true;
        }
        waits |= c->depends[k] && other->state != 'D';
        waits |= c->precursors[k] && !over(other->state);
        waits |= !other->rollback && !over(other->state) && other->files & c->files && other->rank < c->rank;
    }
    if (!waits)
        c->state = 'P';
    return !waits;
}

static void o_settle(struct oracle *o)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 1; i <= o->n; i++)
            if (o->all[i].state == 'S')
                moved |= o->all[i].rollback ? o_rollback(o, i) : o_stage(o, i);
    }
}

static void o_rollback_over(struct oracle *o, int rb)
{
    bool done = o->all[rb].state == 'D', undone[MANY + 1] = { false }, any = false;
    for (int i = 1; i <= o->n; i++) {
        struct cs *c = &o->all[i];
        if (!c->held_by[rb])
            continue;
        c->held_by[rb] = false;
        if (done && c->state == 'D' && !c->rolled_back_by) {
            c->rolled_back_by = rb;
            undone[i] = any = true;
            for (int k = 1; k <= o->n && c->rollback; k++)
                if (c->depends[k] && o->all[k].rolled_back_by == i)
                    o->all[k].rolled_back_by = 0;
        } else if (done && !over(c->state)) {
            o_end(o, i, 'A');
            memset(c->held_by, 0, sizeof c->held_by);
            if (c->rollback)
                o_rollback_over(o, i);
        }
    }
    if (any)
        memcpy(o->all[rb].depends, undone, sizeof undone);
}

/* An end that isn't success takes the change set out of every rollback. */
static void o_over(struct oracle *o, int i, char to)
{
    o_end(o, i, to);
    if (to != 'D')
        memset(o->all[i].held_by, 0, sizeof o->all[i].held_by);
    if (o->all[i].rollback)
        o_rollback_over(o, i);
}

/* --- the same history for both --- */

struct shapes {
    size_t overlaps, failed_by_dependency, inherited, held, stopped, stopped_applied, too_large, rolled_back, abandoned,
        undone_again, joined, retried, retried_along, unapproved, tie, precursor_brought, overlapping, rb_failed,
        starts, late_member;
};

struct history {
    struct world *w;
    struct oracle *o;
    struct rng rng;
    struct shapes *shapes;
    bool independent;
};

static const struct because by_test = { .actor = { "test", 4 } };

static struct node *node_of(struct history *h, int i)
{
    struct node *node = slice_find(&h->w->slice, i);
    assert_non_null(node);
    return node;
}

static void settle(struct history *h)
{
    slice_settle(&h->w->slice);
    assert_false(h->w->slice.failed);
    h->w->slice.now = h->w->slice.stamp = ++h->w->now; /* what ends later has a later time */
    o_settle(h->o);
    for (int i = 1; i <= h->o->n;
         i++) { /* which of several failed dependencies is named as the cause is core's choice */
        struct cs *c = &h->o->all[i];
        int cause = c->state == 'F' && c->passed_on ? (int)node_of(h, i)->row.cause : 0;
        if (cause)
            assert_true(c->depends[cause]);
        if (cause)
            c->cause = cause;
    }
}

static struct str paths_text(struct arena *arena, unsigned files)
{
    struct str text = { 0 };
    for (int p = 0; p < PATHS; p++)
        if (files & 1u << p)
            text = str_fmt(arena, "%.*s%sdir/%d", STR_ARG(text), text.len ? "\n" : "", p);
    return text;
}

static struct node *submit(struct history *h, const struct cs *c, int id)
{
    struct slice *slice = &h->w->slice;
    unsigned removed = c->files & 1u << (id % PATHS); /* some of them are removals */
    struct task row = { .id = id,
        .lane = LANE,
        .name = str_fmt(&h->w->arena, "cs%d", id),
        .class_id = 1,
        .spec = 1,
        .prio = c->prio,
        .vt = c->tai,
        .marks = MARK_CHANGESET | (c->rollback ? MARK_ROLLBACK : 0u) | (c->unapproved ? MARK_UNAPPROVED : 0u) };
    struct node *node = slice_create(slice, &row, &by_test);
    struct changeset *changeset = ARENA_NEW(&h->w->arena, struct changeset);
    int64_t *undoes = ARENA_ARRAY(&h->w->arena, int64_t, MANY + 1);
    *changeset = (struct changeset){ .task = id,
        .lane = LANE,
        .tai = c->tai,
        .rank = kept_rank(&h->w->kept),
        .files = paths_text(&h->w->arena, c->files & ~removed),
        .removed = paths_text(&h->w->arena, removed),
        .overlapping = c->overlapping,
        .undoes = undoes };
    for (int k = 1; k < id && c->rollback; k++)
        if (c->depends[k])
            undoes[changeset->n_undoes++] = k;
    node->changeset = changeset;
    changeset_place(slice, node);
    return node;
}

static void op_submit(struct history *h)
{
    struct oracle *o = h->o;
    if (o->n >= MANY)
        return;
    struct rng *rng = &h->rng;
    int id = o->n + 1;
    struct cs c = { .state = 'S', .rank = ++o->ranks, .prio = (int)rng_below(rng, 3) * 300 };
    c.tai = 1000 + (int64_t)rng_below(rng, 20);
    c.unapproved = rng_below(rng, 6) == 0;
    c.files = 1 + (unsigned)rng_below(rng, (1u << PATHS) - 1);
    if (rng_below(rng, 2))
        c.files = 1u << rng_below(rng, PATHS);
    for (int k = 1; k < id; k++) {
        h->shapes->overlaps += !over(o->all[k].state) && (o->all[k].files & c.files) != 0;
        c.depends[k] = !o->all[k].rollback && rng_below(rng, 12) == 0;
        c.precursors[k] = !o->all[k].rollback && rng_below(rng, 25) == 0;
        h->shapes->precursor_brought += c.precursors[k] && !over(o->all[k].state);
        h->shapes->tie += o->all[k].tai == c.tai && o->all[k].prio == c.prio && o->all[k].state == 'P';
    }
    h->shapes->unapproved += c.unapproved;
    o->all[id] = c;
    o->n = id;
    struct node *node = submit(h, &c, id), *lost = NULL;
    for (int k = 1; k < id; k++) {
        struct node *other = c.depends[k] || c.precursors[k] ? node_of(h, k) : NULL;
        if (c.depends[k])
            slice_edge_add(&h->w->slice, node, other, EDGE_DEPENDS);
        if (c.precursors[k])
            slice_edge_add(&h->w->slice, node, other, EDGE_AFTER);
        if (c.depends[k] && dependency_lost(&h->w->slice, other) && !lost)
            lost = other;
        if (c.depends[k] && o->all[k].state == 'D' && o->all[k].rolled_back_by && !o->all[id].passed_on) {
            o_end(o, id, 'F');
            o->all[id].cause = k;
            o->all[id].passed_on = true;
        }
    }
    for (int k = 1; k < id && !over(o->all[id].state); k++)
        for (int r = 1; c.depends[k] && r < id; r++)
            if (o->all[k].held_by[r] && r != k && !o->all[id].held_by[r]) {
                h->shapes->joined++;
                o_hold(o, r, id);
            }
    if (lost) {
        if (o->all[id].state != 'F') { /* the oracle's settling finds the same; which one it names is core's choice */
            o_end(o, id, 'F');
            o->all[id].passed_on = true;
        }
        o->all[id].cause = (int)lost->row.id;
        memset(o->all[id].held_by, 0, sizeof o->all[id].held_by);
        task_pass_on(&h->w->slice, node, lost);
        return;
    }
    rollback_join(&h->w->slice, node);
    task_consider(&h->w->slice, node);
}

static void op_rollback(struct history *h)
{
    struct oracle *o = h->o;
    struct rng *rng = &h->rng;
    if (o->n >= MANY || o->n < 2)
        return;
    int id = o->n + 1, names = 1 + (int)rng_below(rng, 2);
    struct cs c = { .state = 'S', .rollback = true, .prio = 900, .rank = ++o->ranks };
    c.tai = 1000 + (int64_t)rng_below(rng, 20);
    c.unapproved = rng_below(rng, 8) == 0;
    c.overlapping = rng_below(rng, 4) == 0;
    h->shapes->overlapping += c.overlapping;
    for (int i = 0; i < names; i++)
        c.depends[1 + rng_below(rng, (uint64_t)o->n)] = true;
    o->all[id] = c;
    o->n = id;
    task_consider(&h->w->slice, submit(h, &c, id));
}

static void approve(struct history *h, int i)
{
    if (!h->o->all[i].unapproved || over(h->o->all[i].state))
        return;
    h->o->all[i].unapproved = false;
    struct node *node = node_of(h, i);
    node->row.marks &= ~(unsigned)MARK_UNAPPROVED;
    node->dirty = true;
    task_consider(&h->w->slice, node);
}

static void op_approve(struct history *h)
{
    approve(h, 1 + (int)rng_below(&h->rng, (uint64_t)h->o->n));
}

/* Step 7: the members as they are when the rollback starts: what it names, and what it held already, with what depends
 * on that. */
static void o_start(struct history *h, int rb)
{
    struct oracle *o = h->o;
    bool member[MANY + 1] = { false };
    for (int i = 1; i <= o->n; i++)
        member[i] = o->all[rb].depends[i] || o->all[i].held_by[rb];
    for (bool more = true; more;) {
        more = false;
        for (int i = 1; i <= o->n; i++)
            for (int k = 1; k <= o->n && member[i] && !o->all[i].rollback; k++)
                if (!o->all[k].rollback && o->all[k].depends[i] && !member[k])
                    member[k] = more = true;
    }
    for (int i = 1; i <= o->n; i++) {
        bool held = o->all[i].held_by[rb];
        if (member[i])
            o_hold(o, rb, i);
        h->shapes->late_member += o->all[i].held_by[rb] && !held;
    }
}

/* Step 6: the first pending one, by priority, label and number; nothing beside a rollback. */
static void op_start(struct history *h)
{
    struct oracle *o = h->o;
    int first = 0, best = 0, running = 0;
    bool rollback_runs = false;
    struct ready_row best_row = { 0 };
    for (int i = 1; i <= o->n; i++) {
        const struct cs *c = &o->all[i], *f = &o->all[first];
        running += c->state == 'X';
        rollback_runs |= c->state == 'X' && c->rollback;
        if (c->state == 'P' && (!first || c->prio > f->prio ||
                                   (c->prio == f->prio && (c->tai < f->tai || (c->tai == f->tai && i < first)))))
            first = i;
        struct ready_row row = ready_row_of(&node_of(h, i)->row);
        if (node_of(h, i)->row.state == STATE_P && (!best || ready_order(&row, &best_row) < 0))
            best = i, best_row = row;
    }
    assert_int_equal(first, best);
    bool may = first && !rollback_runs && (running == 0 || (h->independent && !o->all[first].rollback));
    if (!may)
        return;
    h->shapes->starts++;
    o->all[first].state = 'X';
    if (o->all[first].rollback && !o->all[first].begun) {
        o_start(h, first);
    }
    if (o->all[first].rollback)
        rollback_start(&h->w->slice, node_of(h, first));
    o->all[first].begun = true;
    slice_move(&h->w->slice, node_of(h, first), STATE_X, &by_test);
}

static void undoes_agree(struct history *h, int rb)
{
    size_t n;
    int expected = 0;
    struct node **list = rollback_undoes(&h->w->slice, node_of(h, rb), &n);
    for (int i = 1; i <= h->o->n; i++)
        expected += h->o->all[i].held_by[rb] && h->o->all[i].state == 'D' && !h->o->all[i].rolled_back_by;
    assert_int_equal((int)n, expected);
    for (size_t i = 0; i < n; i++) {
        const struct cs *c = &h->o->all[list[i]->row.id];
        assert_true(c->held_by[rb] && c->state == 'D');
        if (i)
            assert_true(h->o->all[list[i - 1]->row.id].done > c->done); /* newest first */
    }
}

static void op_end(struct history *h)
{
    struct oracle *o = h->o;
    int i = 1 + (int)rng_below(&h->rng, (uint64_t)o->n);
    for (int k = 0; k < o->n && o->all[i].state != 'X'; k++)
        i = i % o->n + 1;
    struct cs *c = &o->all[i];
    if (c->state != 'X')
        return;
    struct node *node = node_of(h, i);
    if (c->rollback)
        undoes_agree(h, i);
    uint64_t how = rng_below(&h->rng, 10);
    if (how < 5) { /* it is in the repository, whatever was ordered meanwhile */
        h->shapes->stopped_applied += c->ending == 'S';
        o_over(o, i, 'D');
        task_end(&h->w->slice, node, STATE_D, OUTCOME_done, &by_test);
    } else if (c->ending == 'S') { /* dead by its HUP */
        h->shapes->stopped++;
        c->state = 'S';
        c->ending = 0;
        task_wait(&h->w->slice, node, 0, &by_test);
    } else if (c->ending == 'T') {
        o_over(o, i, 'T');
        task_end(&h->w->slice, node, STATE_T, OUTCOME_cancelled, &by_test);
    } else if (how < 7) {
        h->shapes->rb_failed += c->rollback;
        o_over(o, i, 'F');
        task_end(&h->w->slice, node, STATE_F, OUTCOME_failed, &by_test);
    } else { /* lost, or a back-off that is over */
        c->state = 'S';
        if (how == 8)
            task_wait(&h->w->slice, node, 0, &by_test);
        else
            task_return(&h->w->slice, node, &by_test);
    }
}

static void op_cancel(struct history *h)
{
    int i = 1 + (int)rng_below(&h->rng, (uint64_t)h->o->n);
    struct cs *c = &h->o->all[i];
    struct node *node = node_of(h, i);
    if (over(c->state))
        return;
    if (c->state == 'S')
        for (int k = 1; k <= h->o->n; k++)
            h->shapes->inherited += h->o->all[k].state == 'S' && h->o->all[k].rank > c->rank &&
                                    h->o->all[k].files & c->files && !h->o->all[k].rollback;
    if (c->state == 'X') {
        c->ending = 'T';
        node->row.ending = STATE_NONE;
    } else {
        o_over(h->o, i, 'T');
    }
    task_stop(&h->w->slice, node, STATE_T, &by_test);
}

/* The engine refuses the others. */
static bool may_retry(const struct oracle *o, int i)
{
    const struct cs *c = &o->all[i];
    if (!strchr("FTA", c->state))
        return false;
    for (int k = 1; k <= o->n && !c->rollback; k++)
        if (c->depends[k] && (strchr("FTA", o->all[k].state) || o->all[k].rolled_back_by))
            return false;
    return true;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void o_again(struct oracle *o, int i, struct shapes *shapes)
{
    int list[MANY + 1], n = 0;
    list[n++] = i;
    o->all[i].state = 'S';
    for (int at = 0; at < n; at++)
        for (int k = 1; k <= o->n; k++) {
            struct cs *c = &o->all[k];
            if (c->rollback || !c->depends[list[at]] || !c->passed_on || c->cause != list[at] || c->state != 'F')
                continue;
            c->state = 'S';
            shapes->retried_along++;
            list[n++] = k;
        }
    qsort(list, (size_t)n, sizeof *list, by_number); /* dependencies have smaller numbers than what depends on them */
    for (int at = 0; at < n; at++) {
        struct cs *c = &o->all[list[at]];
        c->rank = ++o->ranks;
        c->passed_on = c->fixed = c->begun = false;
        c->cause = 0;
        for (int k = 1; k <= o->n; k++)
            o->all[k].precursors[list[at]] = false; /* it comes behind them now */
    }
    for (int at = 0; at < n; at++)
        for (int k = 1; k <= o->n && !o->all[list[at]].rollback; k++)
            for (int r = 1; o->all[list[at]].depends[k] && r <= o->n; r++)
                if (o->all[k].held_by[r] && r != k)
                    o_hold(o, r, list[at]);
    for (int at = 0; at < n; at++) {
        struct cs *c = &o->all[list[at]];
        for (int k = 1; k <= o->n && !c->rollback; k++)
            if (c->depends[k] && o->all[k].rolled_back_by && c->state == 'S') {
                o_over(o, list[at], 'F');
                c->passed_on = true;
            }
    }
}

static void op_retry(struct history *h)
{
    int i = 1 + (int)rng_below(&h->rng, (uint64_t)h->o->n);
    if (!may_retry(h->o, i))
        return;
    h->shapes->retried++;
    o_again(h->o, i, h->shapes);
    task_restage(&h->w->slice, node_of(h, i), &by_test);
}

static void compare(struct history *h, int step)
{
    (void)step;
    for (int i = 1; i <= h->o->n; i++) {
        struct node *node = node_of(h, i);
        const struct cs *c = &h->o->all[i];
        const struct changeset *row = changeset_of(&h->w->slice, node);
        assert_int_equal(state_letter(node->row.state), c->state);
        assert_int_equal(row->rolled_back_by, c->rolled_back_by);
        assert_int_equal(rollback_holds(&h->w->slice, node), o_held(h->o, i));
        if (c->state == 'X')
            assert_int_equal(node->row.ending ? state_letter(node->row.ending) : 0, c->ending);
        h->shapes->held += c->state == 'S' && o_held(h->o, i);
        h->shapes->failed_by_dependency += c->passed_on && c->state == 'F';
        h->shapes->too_large += c->rollback && c->state == 'F' && !c->fixed;
        h->shapes->rolled_back += c->rolled_back_by != 0;
        h->shapes->undone_again += c->rollback && c->rolled_back_by;
        h->shapes->abandoned += c->state == 'A';
    }
}

/* WEIR_CHANGESET_TELL: what each step led to, the oracle's states above core's. */
static void tell(struct history *h, size_t op)
{
    char ours[MANY + 1] = "", theirs[MANY + 1] = "";
    if (!getenv("WEIR_CHANGESET_TELL"))
        return;
    for (int i = 1; i <= h->o->n; i++) {
        ours[i - 1] = h->o->all[i].state;
        theirs[i - 1] = state_letter(node_of(h, i)->row.state);
    }
    print_message("op %zu %s\n     %s\n", op, ours, theirs);
}

/* After a history everything that can end is brought to an end: nothing is stuck. */
static void drain(struct history *h)
{
    for (int i = 1; i <= h->o->n; i++) {
        approve(h, i);
        settle(h);
    }
    bool left = true;
    for (int step = 0; step < 20 * MANY && left; step++) {
        left = false;
        for (int i = 1; i <= h->o->n; i++)
            left |= !over(h->o->all[i].state);
        op_start(h);
        settle(h);
        op_end(h);
        settle(h);
        compare(h, step);
    }
    tell(h, 99);
    for (int i = 1; i <= h->o->n; i++)
        assert_true(over(h->o->all[i].state));
    turn_end(h->w);
    size_t unfinished = 0;
    for (size_t i = 0; i < h->w->kept.n_files; i++)
        unfinished += !h->w->kept.files[i].applied;
    assert_int_equal(unfinished, 0); /* the index of those that haven't ended is empty */
    assert_int_equal(h->w->kept.n_holds, 0);
}

static void history_run(uint64_t seed, struct shapes *shapes)
{
    static const struct {
        void (*op)(struct history *h);
        unsigned weight;
    } ops[] = { { op_submit, 7 }, { op_start, 6 }, { op_end, 6 }, { op_rollback, 2 }, { op_approve, 2 },
        { op_cancel, 1 }, { op_retry, 2 } };
    struct world *w = calloc(1, sizeof *w);
    struct oracle *o = calloc(1, sizeof *o);
    struct history h = { .w = w, .o = o, .shapes = shapes };
    rng_seed(&h.rng, seed);
    h.independent = rng_below(&h.rng, 4) == 0;
    w->kept.lane = (struct lane){ .id = LANE, .kind = LANE_TARGET };
    w->rows = (struct rows){ .owner = &w->kept,
        .task = kept_task,
        .edges = kept_edges,
        .outs_others = kept_others,
        .spec = kept_spec,
        .holds_of = kept_holds,
        .holds_of_task = kept_holds_of_task,
        .lane = kept_lane,
        .class_there = yes,
        .served = yes,
        .changeset = kept_changeset,
        .changeset_near = kept_near,
        .rank = kept_rank };
    turn_begin(w);
    op_submit(&h);
    settle(&h);
    for (int step = 0; step < STEPS; step++) {
        uint64_t which = rng_below(&h.rng, 26);
        size_t k = 0;
        for (; which >= ops[k].weight; k++)
            which -= ops[k].weight;
        ops[k].op(&h);
        settle(&h);
        tell(&h, k);
        compare(&h, step);
        if (rng_below(&h.rng, 3) == 0)
            turn_end(w);
    }
    drain(&h);
    slice_release(&w->slice);
    arena_release(&w->arena);
    free(w);
    free(o);
}

static void test_change_sets_agree_with_plain_lists(void **state)
{
    (void)state;
    const char *size = getenv("WEIR_CHANGESET_HISTORIES");
    uint64_t n = size ? strtoull(size, NULL, 10) : 20000, first = 1;
    if (getenv("WEIR_CHANGESET_SEED"))
        first = strtoull(getenv("WEIR_CHANGESET_SEED"), NULL, 10), n = 1;
    struct shapes s = { 0 };
    for (uint64_t seed = first; seed < first + n; seed++) {
        if (getenv("WEIR_CHANGESET_TELL"))
            print_message("seed %llu\n", (unsigned long long)seed);
        history_run(seed, &s);
    }
    size_t cells[] = { s.overlaps, s.failed_by_dependency, s.inherited, s.held, s.stopped, s.stopped_applied,
        s.too_large, s.rolled_back, s.abandoned, s.undone_again, s.joined, s.retried, s.retried_along, s.unapproved,
        s.tie, s.precursor_brought, s.overlapping, s.rb_failed, s.starts, s.late_member };
    for (size_t i = 0; n >= 2000 && i < sizeof cells / sizeof *cells; i++)
        assert_true(cells[i] >= 20); /* the generator makes every shape */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_change_sets_agree_with_plain_lists) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
