/* opening: one revision, or one run, on its way to rows of tasks and edges.
 *
 * core/expand decides which tasks and edges there are; this file answers what it asks for (the tasks of earlier
 * revisions, the archive's lock, unique keys that other tasks hold) and finds or makes the rows. A task whose unique
 * key another task holds isn't made: the holder stands in for it.
 *
 * It fails as the turn does: a store that can't be read sets slice->failed, and nothing of the turn is committed. */
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/command/opening.h"
#include "engine/grants.h"
#include "engine/tenants.h"

static const struct workflow no_workflow;
static const struct task_def nothing = { .body = { "{}", 2 }, .attempts_max = 1, .backoff_ms = 1000 };
#define REPORT_BYTES_MAX ((size_t)16 << 10) /* of diagnostics, as the log of WORKFLOW */

/* --- what PREV means --- */

static struct name_track *track_of(struct turn *turn, int64_t lane, struct str name)
{
    struct str key = str_fmt(turn->arena, "%lld\x1f%.*s", (long long)lane, STR_ARG(name));
    struct name_track *track = smap_find(&turn->archives->names, key);
    struct store *store = turn->engine->store;
    bool found = false;
    if (track)
        return track;
    track = ARENA_NEW(turn->arena, struct name_track);
    turn_read(
        turn, store->ops->latest_find(store, turn->arena, lane, name, STR(""), &track->latest, &found, turn->err));
    if (!found)
        track->latest = (struct latest){ .lane = lane, .name = str_dup(turn->arena, name) };
    smap_put(&turn->archives->names, key, track);
    *ARRAY_ADD(turn->arena, turn->archives->tracks) = track;
    return track;
}

/* The newest revision at or below `upto` that has the task; `ran`: only where it wasn't skipped. 0: none. */
static int64_t track_upto(struct turn *turn, const struct name_track *track, int64_t upto, bool ran, int64_t *out_task)
{
    const struct latest *latest = &track->latest;
    int64_t rev = ran ? latest->ran_rev : latest->rev;
    *out_task = ran ? latest->ran_task : latest->task;
    if (PLANT(prev_newest))
        upto = rev;
    if (rev <= upto)
        return rev;
    for (const struct made *made = track->made; made; made = made->before) {
        if (made->rev > upto || made->run > 0 || (ran && made->skipped))
            continue;
        *out_task = made->task;
        return made->rev;
    }
    struct store *store = turn->engine->store;
    for (;;) {
        if (!turn_read(turn,
                store->ops->task_upto(store, latest->lane, latest->name, STR(""), upto, out_task, &rev, turn->err)))
            return 0;
        const struct node *node = rev && ran ? slice_find(turn->slice, *out_task) : NULL;
        if (!node || !(node->row.marks & MARK_SKIPPED))
            return rev;
        upto = rev - 1;
    }
}

static struct name_track *track_made(struct opening *o, const struct node *node)
{
    struct name_track *track = track_of(o->turn, o->archive->lane, node->row.name);
    struct made *made = ARENA_NEW(o->turn->arena, struct made);
    *made =
        (struct made){ node->row.rev, node->row.id, node->row.run, (node->row.marks & MARK_SKIPPED) != 0, track->made };
    track->made = made;
    return track;
}

static struct str earlier_key(struct opening *o, int64_t rev, struct str name)
{
    return str_fmt(o->turn->arena, "%lld\x1f%.*s", (long long)rev, STR_ARG(name));
}

static int64_t opening_earlier(void *context, struct str name, int64_t upto, bool ran)
{
    struct opening *o = context;
    int64_t task = 0, rev = track_upto(o->turn, track_of(o->turn, o->archive->lane, name), upto, ran, &task);
    if (rev > 0)
        smap_put(&o->earlier, earlier_key(o, rev, name), (void *)(uintptr_t)task);
    return rev;
}

void opening_track(struct opening *o, const struct node *node)
{
    const struct task *row = &node->row;
    struct name_track *track = track_made(o, node);
    if (row->run > 0)
        return; /* PREV never means a second run */
    if (row->rev >= track->latest.rev) {
        track->latest.rev = row->rev;
        track->latest.task = row->id;
        track->dirty = true;
    }
    if (!(row->marks & MARK_SKIPPED) && row->rev >= track->latest.ran_rev) {
        track->latest.ran_rev = row->rev;
        track->latest.ran_task = row->id;
        track->dirty = true;
    }
}

void opening_track_waiting(struct opening *o, const struct node *node)
{
    track_made(o, node);
}

/* --- the archive's lock --- */

/* The archive's lock as input of expand, without tasks that have ended. */
static struct expand_lock lock_in(struct opening *o)
{
    struct expand_lock lock = { 0 };
    struct slice *slice = o->turn->slice;
    size_t n;
    struct node **before = lock_before(o->turn->slice, o->archive, &n);
    for (size_t i = 0; i < n; i++) {
        struct expand_ref ref = { before[i]->row.rev, before[i]->row.name, before[i]->row.id, before[i]->row.run,
            !(before[i]->row.marks & MARK_EXCLUSIVE) };
        if (ref.id == o->archive->lock_exclusive)
            lock.exclusive = ref;
        else
            *ARENA_PUSH(o->turn->arena, lock.before, lock.n_before, lock.cap_before) = ref;
    }
    const struct node *node;
    for (size_t i = 0; i < o->archive->n_lock_shared; i++) {
        node = slice_find(slice, o->archive->lock_shared[i]);
        if (!node || state_ended(node->row.state))
            continue;
        *ARENA_PUSH(o->turn->arena, lock.shared, lock.n_shared, lock.cap_shared) =
            (struct expand_ref){ node->row.rev, node->row.name, node->row.id, node->row.run, true };
    }
    return lock;
}

static int64_t node_id_of(struct opening *o, const struct expansion *x, const struct expand_ref *ref)
{
    if (ref->id || ref->rev == 0)
        return ref->id;
    for (size_t i = 0; i < x->n_tasks; i++)
        if (str_eq(x->tasks[i].name, ref->name))
            return o->nodes[i]->row.id;
    return 0;
}

static void lock_out(struct opening *o, const struct expansion *x)
{
    int64_t *shared = ARENA_ARRAY(o->turn->arena, int64_t, x->lock.n_shared + 1);
    for (size_t i = 0; i < x->lock.n_shared; i++)
        shared[i] = node_id_of(o, x, &x->lock.shared[i]);
    if (x->lock.exclusive.rev || !x->lock.n_before)
        o->archive->lock_exclusive = node_id_of(o, x, &x->lock.exclusive);
    if (x->lock.n_shared == 0 && o->archive->n_lock_shared == 0)
        return;
    o->archive->lock_shared = shared;
    o->archive->n_lock_shared = x->lock.n_shared;
}

/* --- tasks --- */

static struct str template_fill(struct opening *o, struct str template, struct str name)
{
    struct str rev = str_of(i64_format(o->revision->rev).z);
    return workflow_template_fill(o->turn->arena, template, o->archive_name, rev, name);
}

static struct task_def def_of(struct opening *o, const struct expand_task *task, struct str params)
{
    struct arena *arena = o->turn->arena;
    bool real = o->definition && task->def != &o->definition->workflow.commit && task->def != &no_workflow.commit &&
                !task->skipped;
    struct task_def def = nothing;
    if (real)
        def = o->definition->defs[task->def - o->definition->workflow.tasks];
    def.name = str_dup(arena, task->name); /* the cache may drop the definition within the turn */
    if (!real)
        return def;
    if (def.unique.len)
        def.unique = template_fill(o, def.unique, task->name);
    if (def.concurrency.len)
        def.concurrency = template_fill(o, def.concurrency, task->name);
    if (params.len)
        def.body = str_fmt(arena, "%.*s%s\"params\":%.*s}", (int)(def.body.len - 1), def.body.ptr,
            def.body.len > 2 ? "," : "", STR_ARG(params));
    return def;
}

struct node *opening_task_make(struct opening *o, const struct expand_task *task, int64_t run, struct str params)
{
    struct task_def def = def_of(o, task, params);
    enum workflow_lock lock = task->skipped || !task->def ? WORKFLOW_LOCK_NONE : task->def->lock;
    struct task like = { .lane = o->archive->lane,
        .rev = o->revision->rev,
        .run = run,
        .marks = (task->skipped ? MARK_SKIPPED : 0u) | (lock != WORKFLOW_LOCK_NONE ? MARK_LOCKED : 0u) |
                 (lock == WORKFLOW_LOCK_EXCLUSIVE ? MARK_EXCLUSIVE : 0u) };
    return task_make_of(o->turn, o->tenant, &def, &like, &o->because);
}

/* The task's row, made when its revision came and had to wait; NULL: none. */
static struct node *task_waiting(struct opening *o, struct str name)
{
    struct turn *turn = o->turn;
    struct store *store = turn->engine->store;
    int64_t id = 0, run;
    for (const struct made *made = track_of(turn, o->archive->lane, name)->made; made; made = made->before)
        if (made->rev == o->revision->rev && made->run == 0)
            return slice_find(turn->slice, made->task);
    turn_read(
        turn, store->ops->task_find(store, o->archive->lane, o->revision->rev, name, STR(""), 0, &id, &run, turn->err));
    return id ? slice_find(turn->slice, id) : NULL;
}

static bool opening_touched(void *context, const struct workflow_task *task)
{
    struct opening *o = context;
    const struct node *node = o->waited ? task_waiting(o, task->name) : NULL;
    if (node)
        return !(node->row.marks & MARK_SKIPPED);
    return !o->touched || o->touched[task - o->definition->workflow.tasks];
}

int64_t opening_run_next(struct opening *o, struct str name)
{
    struct turn *turn = o->turn;
    struct store *store = turn->engine->store;
    int64_t id = 0, last = 0, seen = -1;
    turn_read(turn,
        store->ops->task_find(store, o->archive->lane, o->revision->rev, name, STR(""), -1, &id, &last, turn->err));
    if (id)
        seen = last;
    for (const struct made *made = track_of(turn, o->archive->lane, name)->made; made; made = made->before)
        if (made->rev == o->revision->rev && made->run > seen)
            seen = made->run;
    return seen < 0 ? 0 : seen == 0 ? 2 : seen + 1;
}

/* --- unique keys --- */

struct str opening_unique_key(struct opening *o, const struct workflow_task *task)
{
    struct str template = o->definition->defs[task - o->definition->workflow.tasks].unique;
    return template.len ? template_fill(o, template, task->name) : template;
}

/* The task that holds the key; NULL: none. A task of a later revision, which an older version of the server let take
 * the key too early, loses it. */
static struct node *unique_holder(struct opening *o, struct str key)
{
    struct node *node = unique_find(o->turn, o->tenant, key);
    if (PLANT(unique_early))
        return node;
    if (!node || node->row.lane != o->archive->lane || node->row.rev <= o->revision->rev)
        return node;
    node->row.unique = (struct str){ 0 };
    node->dirty = true;
    return NULL;
}

/* Is the task's key held by another task, or taken by an earlier task of the same workflow? */
static bool opening_replaced(void *context, const struct workflow_task *task)
{
    struct opening *o = context;
    struct str key = opening_unique_key(o, task);
    if (!key.len || (o->waited && task_waiting(o, task->name)))
        return false;
    if (smap_find(&o->keys, key) || unique_holder(o, key))
        return true;
    smap_put(&o->keys, key, o);
    return false;
}

/* Was the task stopped while its revision waited behind a gap? */
static bool opening_over(void *context, const struct workflow_task *task)
{
    struct opening *o = context;
    const struct node *node = o->waited ? task_waiting(o, task->name) : NULL;
    return node && state_ended(node->row.state);
}

struct node *opening_node(struct opening *o, const struct expand_task *task)
{
    struct turn *turn = o->turn;
    struct node *node = o->waited ? task_waiting(o, task->name) : NULL;
    if (node)
        return node;
    if (task->replaced)
        node = unique_holder(o, opening_unique_key(o, task->def));
    if (node)
        unique_tell(turn, node, o->because.actor,
            str_fmt(turn->arena, "%.*s@%lld:%.*s", STR_ARG(o->archive_name), (long long)o->revision->rev,
                STR_ARG(task->name)));
    return node ? node : opening_task_make(o, task, 0, (struct str){ 0 });
}

/* --- edges --- */

static struct node *edge_other(struct opening *o, const struct expansion *x, const struct expand_edge *edge)
{
    struct slice *slice = o->turn->slice;
    if (edge->other.id)
        return slice_find(slice, edge->other.id);
    if (edge->other.rev == o->revision->rev)
        for (size_t i = 0; i < x->n_tasks; i++)
            if (str_eq(x->tasks[i].name, edge->other.name))
                return o->nodes[i];
    int64_t id = (int64_t)(uintptr_t)smap_find(&o->earlier, earlier_key(o, edge->other.rev, edge->other.name));
    return id ? slice_find(slice, id) : NULL; /* NULL: pruned, so it has ended */
}

/* Does the task wait for `target`, by edges between tasks of this turn? */
static bool leads_to(struct slice *slice, struct node *node, const struct node *target)
{
    struct walk walk = slice_walk(slice, node);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = slice_ins(slice, walk.list[at], &n);
        if (walk.list[at] == target)
            return true;
        for (size_t i = 0; i < n; i++) {
            struct node *pred = ins[i].kind == EDGE_CANCELS ? NULL : slice_find(slice, ins[i].pred);
            if (pred && pred->was == STATE_NONE)
                slice_walk_add(&walk, pred);
        }
    }
    return false;
}

static void edge_open(struct opening *o, const struct expansion *x, const struct expand_edge *edge, bool twins)
{
    struct slice *slice = o->turn->slice;
    struct node *node = o->nodes[edge->task], *other = edge_other(o, x, edge);
    unsigned flags = (edge->prev ? EDGE_PREV : 0) | (edge->needed ? EDGE_NEEDED : 0);
    if (!other || other == node)
        return;
    /* two tasks of the workflow share one row, which waits for this task already: the edge would close a cycle */
    if (twins && leads_to(slice, other, node))
        return;
    if (edge->lock)
        slice_edge_add_lock(slice, node, other);
    else
        edge_make(o->turn, node, other, edge->kind, flags, &o->doomed_by[edge->task]);
}

/* Is the edge to a new task of this opening that stands in for another one? Then it may close a cycle that the
 * workflow doesn't have, and is made after the others. */
static bool to_twin(struct opening *o, const struct expansion *x, const struct expand_edge *edge)
{
    if (edge->other.id || edge->other.rev != o->revision->rev || edge->kind == EDGE_CANCELS || !o->keys.n)
        return false;
    for (size_t i = 0; i < x->n_tasks; i++)
        if (x->tasks[i].replaced && str_eq(x->tasks[i].name, edge->other.name))
            return o->nodes[i]->was == STATE_NONE;
    return false;
}

/* An edge to a task that has ended is decided by that end; then each task is considered. A task that was stopped
 * while its revision waited gets its edges too: later tasks find their place behind it. */
static void edges_open(struct opening *o, const struct expansion *x)
{
    struct slice *slice = o->turn->slice;
    for (size_t i = 0; i < x->n_edges; i++)
        if (!to_twin(o, x, &x->edges[i]))
            edge_open(o, x, &x->edges[i], false);
    for (size_t i = 0; i < x->n_edges && o->keys.n; i++)
        if (to_twin(o, x, &x->edges[i]))
            edge_open(o, x, &x->edges[i], true);
    for (size_t i = 0; i < x->n_tasks; i++) {
        struct node *node = o->nodes[i];
        if (x->tasks[i].replaced || state_ended(node->row.state))
            continue;
        if (o->doomed_by[i])
            task_pass_on(slice, node, o->doomed_by[i]);
        else
            task_consider(slice, node);
    }
}

void opening_connect(struct opening *o, const struct expansion *x)
{
    edges_open(o, x);
    lock_out(o, x);
}

/* --- from beginning to end --- */

void opening_init(struct opening *o, struct turn *turn, struct archive *archive, const struct revision *revision,
    const struct definition *definition, const struct because *because)
{
    const struct lane *lane = slice_lane(turn->slice, archive->lane);
    *o = (struct opening){ .turn = turn,
        .archive = archive,
        .revision = revision,
        .definition = definition,
        .tenant = lane->tenant,
        .archive_name = lane->name,
        .because = *because };
}

void opening_release(struct opening *o)
{
    smap_release(&o->earlier);
    smap_release(&o->keys);
}

struct expand_input opening_input(struct opening *o)
{
    int64_t depth = o->revision->depth;
    if (PLANT(depth_ignored))
        depth = 0;
    bool usable = o->definition && o->definition->valid && depth <= CAUSE_DEPTH_MAX;
    if (!usable)
        o->definition = NULL;
    return (struct expand_input){ .workflow = usable ? &o->definition->workflow : &no_workflow,
        .rev = o->revision->rev,
        .prevs = o->revision->prevs,
        .n_prevs = o->revision->n_prevs,
        .earlier = opening_earlier,
        .touched = opening_touched,
        .replaced = usable ? opening_replaced : NULL,
        .over = opening_over,
        .context = o };
}

void opening_expand(struct opening *o, struct expand_input *input, struct expansion *out)
{
    input->lock = lock_in(o);
    expand(input, o->turn->arena, out);
    o->nodes = ARENA_ARRAY(o->turn->arena, struct node *, out->n_tasks + 1);
    o->doomed_by = ARENA_ARRAY(o->turn->arena, struct node *, out->n_tasks + 1);
}

void opening_workflow_fail(struct opening *o, const struct definition *definition)
{
    struct turn *turn = o->turn;
    struct task_def def = nothing;
    def.name = STR("WORKFLOW");
    struct task like = { .lane = o->archive->lane, .rev = o->revision->rev, .grant = 1, .attempts = 1 };
    struct node *node = task_make_of(turn, o->tenant, &def, &like, &o->because);
    struct str report = str_sub(
        definition->report, 0, definition->report.len < REPORT_BYTES_MAX ? definition->report.len : REPORT_BYTES_MAX);
    struct attempt attempt = { .task = node->row.id,
        .number = 1,
        .grant = 1,
        .started = turn->slice->stamp,
        .finished = turn->slice->stamp,
        .exit = -1,
        .signal = -1,
        .outcome = OUTCOME_failed,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = (int64_t)report.len };
    struct pending_attempt *pending = attempt_change(turn, &attempt);
    pending->is_new = pending->ended = true;
    kept_add(turn, node, NULL, attempt.log_bytes, (struct str){ 0 });
    *ARRAY_ADD(turn->arena, turn->changes.logs.tails) =
        (struct log_tail){ .task = node->row.id, .grant = 1, .bytes = str_dup(turn->arena, report) };
    task_end(turn->slice, node, STATE_F, OUTCOME_failed,
        &(struct because){ .actor = STR("engine"), .reason = str_dup(turn->arena, definition->summary) });
    opening_track(o, node);
}
