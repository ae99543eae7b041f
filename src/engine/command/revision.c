/* revisions: a revision's workflow becomes tasks and edges, in the order of the revisions; and tasks that are run by
 * hand or by the clock.
 *
 * A revision that comes before its predecessors waits: its row says so and its tasks stand in Q without edges, because
 * what PREV means isn't known yet. Those with a unique key aren't made before it is opened: keys are taken in the order
 * of the revisions. A task that stands there as skipped says that the revision doesn't touch its paths. It is opened in
 * the turn that closes the gap. Opening asks core/expand for the tasks and edges, finds or makes the rows and lets
 * slice_settle carry on. */
#include <string.h>

#include "core/expand.h"
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"
#include "store/row_copy.h"

static const struct workflow no_workflow;
#define REPORT_BYTES_MAX ((size_t)16 << 10) /* of diagnostics, as the log of WORKFLOW */

struct opening { /* one revision, or one run, on its way to rows */
    struct turn *turn;
    struct archive *archive;
    const struct revision *revision;
    const struct definition *definition; /* NULL: no workflow */
    const bool *touched;
    struct str tenant, archive_name;
    struct because because;
    struct smap earlier; /* revision and name -> task id, of what `expand` was told about */
    struct node **nodes, **doomed_by;
    struct smap keys; /* unique keys that tasks of this opening take */
    bool waited;      /* the revision was told before its turn came */
};

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
    if (!store->ops->latest_find(store, turn->arena, lane, name, STR(""), &track->latest, &found, turn->err))
        turn->slice->failed = true;
    if (!found)
        track->latest = (struct latest){ .lane = lane, .name = str_dup(turn->arena, name) };
    smap_put(&turn->archives->names, key, track);
    *ARRAY_ADD(turn->arena, turn->archives->tracks) = track;
    return track;
}

/* The newest at or below `upto`; `ran`: of those that weren't skipped. 0: none. */
static int64_t track_upto(struct turn *turn, const struct name_track *track, int64_t upto, bool ran, int64_t *out_task)
{
    const struct latest *latest = &track->latest;
    int64_t rev = ran ? latest->ran_rev : latest->rev;
    *out_task = ran ? latest->ran_task : latest->task;
    if (rev <= upto || (rev && PLANT(prev_newest)))
        return rev;
    for (const struct made *made = track->made; made; made = made->before) {
        if (made->rev > upto || made->run > 0 || (ran && made->skipped))
            continue;
        *out_task = made->task;
        return made->rev;
    }
    struct store *store = turn->engine->store;
    for (;;) {
        if (!store->ops->task_upto(store, latest->lane, latest->name, STR(""), upto, out_task, &rev, turn->err)) {
            turn->slice->failed = true;
            return 0;
        }
        const struct node *node = rev && ran ? slice_find(turn->slice, *out_task) : NULL;
        if (!node || !(node->row.marks & MARK_SKIPPED))
            return rev;
        upto = rev - 1;
    }
}

static void track_made(struct turn *turn, struct name_track *track, const struct node *node)
{
    struct made *made = ARENA_NEW(turn->arena, struct made);
    bool skipped = (node->row.marks & MARK_SKIPPED) != 0;
    *made = (struct made){ node->row.rev, node->row.id, node->row.run, skipped, track->made };
    track->made = made;
    if (node->row.run > 0)
        return; /* second runs don't count */
    if (node->row.rev >= track->latest.rev) {
        track->latest.rev = node->row.rev;
        track->latest.task = node->row.id;
        track->dirty = true;
    }
    if (!skipped && node->row.rev >= track->latest.ran_rev) {
        track->latest.ran_rev = node->row.rev;
        track->latest.ran_task = node->row.id;
        track->dirty = true;
    }
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

/* --- the archive's lock --- */

/* The lock as expand knows it; those that have ended are forgotten. */
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

static const struct task_def nothing = { .body = { "{}", 2 }, .attempts_max = 1, .backoff_ms = 1000 };

static struct task_def def_of(struct opening *o, const struct expand_task *task, struct str params)
{
    struct arena *arena = o->turn->arena;
    bool real = o->definition && task->def != &o->definition->workflow.commit && task->def != &no_workflow.commit &&
                !task->skipped;
    struct task_def def = nothing;
    if (real)
        def = o->definition->defs[task->def - o->definition->workflow.tasks];
    def.name = str_dup(arena, task->name); /* the definition may be forgotten within the turn */
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

static struct node *task_new(struct opening *o, const struct expand_task *task, int64_t run, struct str params)
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

/* The task of a waiting revision stands there already. */
static struct node *task_waiting(struct opening *o, struct str name)
{
    struct turn *turn = o->turn;
    struct store *store = turn->engine->store;
    int64_t id = 0, run;
    for (const struct made *made = track_of(turn, o->archive->lane, name)->made; made; made = made->before)
        if (made->rev == o->revision->rev && made->run == 0)
            return slice_find(turn->slice, made->task);
    if (!store->ops->task_find(store, o->archive->lane, o->revision->rev, name, STR(""), 0, &id, &run, turn->err))
        turn->slice->failed = true;
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

/* --- unique keys --- */

static struct str unique_key_of(struct opening *o, const struct workflow_task *task)
{
    struct str template = o->definition->defs[task - o->definition->workflow.tasks].unique;
    return template.len ? template_fill(o, template, task->name) : template;
}

/* The task that has the key; NULL: none. One of a later revision, which an older version let have it too early, gives
 * it up. */
static struct node *unique_holder(struct opening *o, struct str key)
{
    struct node *node = unique_find(o->turn, o->tenant, key);
    if (!node || node->row.lane != o->archive->lane || node->row.rev <= o->revision->rev || PLANT(unique_early))
        return node;
    node->row.unique = (struct str){ 0 };
    node->dirty = true;
    return NULL;
}

/* Another task has its key, or one that stands before it in this very workflow takes it. */
static bool opening_replaced(void *context, const struct workflow_task *task)
{
    struct opening *o = context;
    struct str key = unique_key_of(o, task);
    if (!key.len || (o->waited && task_waiting(o, task->name)))
        return false;
    if (smap_find(&o->keys, key) || unique_holder(o, key))
        return true;
    smap_put(&o->keys, key, o);
    return false;
}

/* It was stopped behind the gap. */
static bool opening_over(void *context, const struct workflow_task *task)
{
    struct opening *o = context;
    const struct node *node = o->waited ? task_waiting(o, task->name) : NULL;
    return node && state_ended(node->row.state);
}

/* The number of the next run of a task in a revision: 0 for the first, then 2, 3, ... */
static int64_t run_next(struct opening *o, struct str name)
{
    struct turn *turn = o->turn;
    struct store *store = turn->engine->store;
    int64_t id = 0, last = 0, seen = -1;
    if (!store->ops->task_find(store, o->archive->lane, o->revision->rev, name, STR(""), -1, &id, &last, turn->err))
        turn->slice->failed = true;
    if (id)
        seen = last;
    for (const struct made *made = track_of(turn, o->archive->lane, name)->made; made; made = made->before)
        if (made->rev == o->revision->rev && made->run > seen)
            seen = made->run;
    return seen < 0 ? 0 : seen == 0 ? 2 : seen + 1;
}

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
    return id ? slice_find(slice, id) : NULL; /* pruned: it has ended */
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
    /* two tasks of the workflow are one, which stands before the waiter already */
    if (twins && leads_to(slice, other, node))
        return;
    if (edge->lock)
        slice_edge_add_lock(slice, node, other);
    else
        edge_make(o->turn, node, other, edge->kind, flags, &o->doomed_by[edge->task]);
}

/* Is the edge to a task of this very opening that stands in for another one? Then it may close a circle that the
 * workflow doesn't have. */
static bool to_twin(struct opening *o, const struct expansion *x, const struct expand_edge *edge)
{
    if (edge->other.id || edge->other.rev != o->revision->rev || edge->kind == EDGE_CANCELS || !o->keys.n)
        return false;
    for (size_t i = 0; i < x->n_tasks; i++)
        if (x->tasks[i].replaced && str_eq(x->tasks[i].name, edge->other.name))
            return o->nodes[i]->was == STATE_NONE;
    return false;
}

/* Edges to what has ended are judged by its end; then everything is looked at. A task that ended while it waited has
 * its place all the same.
 */
static void edges_make(struct opening *o, const struct expansion *x)
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

static void opening_begin(struct opening *o, struct turn *turn, struct archive *archive,
    const struct revision *revision, const struct definition *definition, const struct because *because)
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

static struct expand_input expand_input_of(struct opening *o)
{
    bool usable =
        o->definition && o->definition->valid && (o->revision->depth <= CAUSE_DEPTH_MAX || PLANT(depth_ignored));
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

static void opening_room(struct opening *o, size_t n)
{
    o->nodes = ARENA_ARRAY(o->turn->arena, struct node *, n + 1);
    o->doomed_by = ARENA_ARRAY(o->turn->arena, struct node *, n + 1);
}

/* A workflow that can't be read: a task that has failed says so, with the diagnostics as its log; nobody waits for it.
 */
static void workflow_fail(struct opening *o, const struct definition *definition)
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
    *ARRAY_ADD(turn->arena, turn->changes.log_tails) =
        (struct log_tail){ .task = node->row.id, .grant = 1, .bytes = str_dup(turn->arena, report) };
    task_end(turn->slice, node, STATE_F, OUTCOME_failed,
        &(struct because){ .actor = STR("engine"), .reason = str_dup(turn->arena, definition->summary) });
    track_made(turn, track_of(turn, o->archive->lane, def.name), node);
}

/* --- semaphores that a workflow declares --- */

static void semaphores_declare(struct opening *o)
{
    struct turn *turn = o->turn;
    const struct workflow *workflow = &o->definition->workflow;
    for (size_t i = 0; i < workflow->n_semaphores; i++) {
        const struct slot *known = cache_slot_find(turn, o->tenant, workflow->semaphores[i].name);
        if (!known && workflow->semaphores[i].limit == 1)
            continue; /* what it has anyway, when somebody wants it */
        if (!known)
            known = cache_slot_put(turn, o->tenant, workflow->semaphores[i].name, 1);
        if (turn->slice->failed)
            return;
        struct slot *slot = slice_slot(turn->slice, known->id);
        /* a global one is the site's */
        if (slot->tenant.len == 0 || slot->limit == workflow->semaphores[i].limit)
            continue;
        if (semaphore_is_configured(turn->engine, o->tenant, slot->name))
            continue; /* and so is this */
        slot->limit = workflow->semaphores[i].limit;
        slot_changed(turn->slice, slot->id);
        slice_event(turn->slice, &(struct event){ .kind = EVENT_semaphore,
                                     .subject = tenant_subject(turn->arena, slot->tenant, slot->name),
                                     .actor = o->because.actor,
                                     .reason = str_fmt(turn->arena, "limit %lld", (long long)slot->limit) });
    }
}

/* --- opening a revision --- */

static struct node *opening_node(struct opening *o, const struct expand_task *task)
{
    struct turn *turn = o->turn;
    struct node *node = o->waited ? task_waiting(o, task->name) : NULL;
    if (node)
        return node;
    if (task->replaced)
        node = unique_holder(o, unique_key_of(o, task->def));
    if (node)
        unique_tell(turn, node, o->because.actor,
            str_fmt(turn->arena, "%.*s@%lld:%.*s", STR_ARG(o->archive_name), (long long)o->revision->rev,
                STR_ARG(task->name)));
    return node ? node : task_new(o, task, 0, (struct str){ 0 });
}

static void opening_end(struct opening *o)
{
    smap_release(&o->earlier);
    smap_release(&o->keys);
}

static void depth_event(struct turn *turn, const struct revision *row, struct str actor)
{
    slice_event(turn->slice,
        &(struct event){ .kind = EVENT_cause_depth,
            .lane = row->lane,
            .actor = actor,
            .cause = row->cause,
            .subject = str_fmt(
                turn->arena, "%.*s@%lld", STR_ARG(slice_lane(turn->slice, row->lane)->name), (long long)row->rev),
            .reason = str_fmt(turn->arena, "made by a job %lld deep (at most %d): its workflow isn't started",
                (long long)row->depth, CAUSE_DEPTH_MAX) });
}

static void revision_open(struct turn *turn, struct archive *archive, struct revision *revision,
    struct definition *definition, const bool *touched, struct str actor)
{
    struct opening o;
    struct expansion x;
    opening_begin(&o, turn, archive, revision, definition, &(struct because){ .actor = actor });
    o.waited = revision->state == REVISION_WAITING;
    o.touched = touched;
    struct expand_input input = expand_input_of(&o);
    if (definition)
        definition_keep(definition);
    if (o.waited && PLANT(prev_forgotten))
        input.n_prevs = 0;
    input.lock = lock_in(&o);
    expand(&input, turn->arena, &x);
    opening_room(&o, x.n_tasks);
    if (o.definition)
        semaphores_declare(&o);
    for (size_t i = 0; i < x.n_tasks; i++) {
        o.nodes[i] = opening_node(&o, &x.tasks[i]);
        if (!x.tasks[i].replaced)
            track_made(turn, track_of(turn, archive->lane, x.tasks[i].name), o.nodes[i]);
    }
    edges_make(&o, &x);
    lock_out(&o, &x);
    if (definition && !definition->valid)
        workflow_fail(&o, definition);
    revision->state = REVISION_KNOWN;
    archive->next = revision->rev + 1;
    if (revision->ident.len)
        archive->tip = revision->ident;
    if (revision->depth > CAUSE_DEPTH_MAX)
        depth_event(turn, revision, actor);
    bool newer = archive->definition != revision->definition && (!definition || definition->valid);
    if (newer) {
        archive->definition = revision->definition;
        schedules_set(turn, archive, definition);
    }
    slice_settle(turn->slice);
    opening_end(&o);
    definition_release(definition);
}

struct revision_mark {
    struct revision_mark *next; /* of the same hash, older */
    struct revision *row;
};

static uint64_t revision_hash(int64_t lane, int64_t rev)
{
    return (uint64_t)lane * 0x9e3779b97f4a7c15u ^ (uint64_t)rev;
}

struct revision *revision_told(struct turn *turn, int64_t lane, int64_t rev)
{
    const struct revision_mark *mark = map_find(&turn->archives->revisions_at, revision_hash(lane, rev));
    while (mark && (mark->row->lane != lane || mark->row->rev != rev))
        mark = mark->next;
    return mark ? mark->row : NULL;
}

static struct revision *revision_find(struct turn *turn, int64_t lane, int64_t rev)
{
    struct store *store = turn->engine->store;
    bool found = false;
    struct revision *row = revision_told(turn, lane, rev);
    if (row)
        return row;
    row = ARENA_NEW(turn->arena, struct revision);
    if (!store->ops->load_revision(store, turn->arena, lane, rev, row, &found, turn->err))
        turn->slice->failed = true;
    return found ? row : NULL;
}

/* The newest initialised one that isn't a gap that was given up; NULL: none. */
struct revision *revision_newest(struct turn *turn, const struct archive *archive)
{
    struct revision *row;
    int64_t last = archive->next - GAPS_LOOK_MAX > archive->first ? archive->next - GAPS_LOOK_MAX : archive->first;
    for (int64_t rev = archive->next - 1; rev >= last && !turn->slice->failed; rev--) {
        row = revision_find(turn, archive->lane, rev);
        if (!row || row->state != REVISION_SKIPPED)
            return row;
    }
    return NULL;
}

void revision_put(struct turn *turn, struct revision *row)
{
    uint64_t hash = revision_hash(row->lane, row->rev);
    struct revision_mark *first = map_find(&turn->archives->revisions_at, hash);
    for (const struct revision_mark *mark = first; mark; mark = mark->next)
        if (mark->row == row)
            return;
    struct revision_mark *mark = ARENA_NEW(turn->arena, struct revision_mark);
    *mark = (struct revision_mark){ first, row };
    map_put(&turn->archives->revisions_at, hash, mark);
    *ARRAY_ADD(turn->arena, turn->archives->revisions) = row;
}

void revisions_open(struct turn *turn, struct archive *archive)
{
    for (size_t n = 0; archive->next <= archive->youngest && !turn->slice->failed; n++) {
        if (n == REVISIONS_BATCH) {
            turn->engine->backlog->archives_left = true;
            return;
        }
        struct revision *row = revision_find(turn, archive->lane, archive->next);
        if (!row)
            return; /* the gap */
        if (row->state == REVISION_SKIPPED) {
            archive->next++;
            continue;
        }
        struct definition *definition = row->definition ? definition_get(turn, row->definition) : NULL;
        if (turn->slice->failed)
            return;
        revision_put(turn, row);
        revision_open(turn, archive, row, definition, NULL, STR("engine"));
    }
}

void revisions_left(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!engine->backlog->archives_left)
        return;
    engine->backlog->archives_left = false;
    MAP_EACH (&engine->cache->archives, e) {
        const struct known_archive *known = e->value;
        if (!known->row.removed && known->row.next <= known->row.youngest)
            revisions_open(turn, turn_archive(turn, known->row.lane));
    }
}

/* --- commands --- */

/* Behind a gap: the tasks are there to be seen, in Q. Which there will be depends on the workflow alone, but for those
 * with a unique key.
 */
static void revision_wait(struct turn *turn, struct archive *archive, struct revision *row,
    struct definition *definition, const bool *touched, struct str actor)
{
    struct opening o;
    struct expansion x;
    opening_begin(&o, turn, archive, row, definition, &(struct because){ .actor = actor });
    o.touched = PLANT(touched_forgotten) ? NULL : touched;
    struct expand_input input = expand_input_of(&o);
    input.n_prevs = 0;
    input.replaced = NULL;
    row->state = REVISION_WAITING;
    expand(&input, turn->arena, &x);
    for (size_t i = 0; i < x.n_tasks; i++) {
        bool commit = x.tasks[i].def == &input.workflow->commit;
        if (!commit && !x.tasks[i].skipped && unique_key_of(&o, x.tasks[i].def).len && !PLANT(unique_early))
            continue;
        struct node *node = task_new(&o, &x.tasks[i], 0, (struct str){ 0 });
        struct name_track *track = track_of(turn, archive->lane, x.tasks[i].name);
        struct made *made = ARENA_NEW(turn->arena, struct made);
        *made =
            (struct made){ row->rev, node->row.id, 0, x.tasks[i].skipped, track->made }; /* not what PREV means yet */
        track->made = made;
    }
    opening_end(&o);
}

/* The task whose job made the revision, and how deep it stands. `late`: the revision is known, so the job must have run
 * at that time. */
static bool cause_find(struct turn *turn, const struct command *command, bool late, struct revision *row)
{
    struct key key;
    struct err ignored = { 0 };
    struct store *store = turn->engine->store;
    int64_t id = 0, run;
    if (!command->in.revision.cause.len || !key_parse(command->in.revision.cause, &key, &ignored))
        return false;
    if (key.kind == KEY_ID || key.kind == KEY_QUEUE_TASK)
        id = key.id;
    const struct lane *lane = key.kind == KEY_TASK ? cache_lane_find(turn, command->actor.tenant, key.lane) : NULL;
    if (lane && !store->ops->task_find(store, lane->id, key.rev, key.name, key.variant, key.run, &id, &run, turn->err))
        turn->slice->failed = true;
    const struct node *node = id ? slice_find(turn->slice, id) : NULL;
    if (!node || !str_eq(slice_lane(turn->slice, node->row.lane)->tenant, command->actor.tenant))
        return false;
    bool ran = node->row.started > 0 && node->row.started <= row->noted &&
               (node->row.finished < node->row.started || node->row.finished + CAUSE_LATE_MS >= row->noted);
    if (late && !ran)
        return false;
    row->cause = id;
    row->depth = 1;
    const struct revision *made_in = node->row.rev ? revision_find(turn, node->row.lane, node->row.rev) : NULL;
    if (made_in)
        row->depth = made_in->depth + 1;
    return true;
}

static void revision_answer(struct command *command, const struct revision *row)
{
    struct revision *out = &command->out.revision.row;
    *out = *row;
    row_copy_revision(command->arena, out);
}

/* depth_hold: the revision turns out to be too deep: what hasn't begun doesn't. */
static void depth_hold(struct turn *turn, const struct revision *row, struct str actor)
{
    struct store *store = turn->engine->store;
    const struct definition *definition = row->definition ? definition_get(turn, row->definition) : NULL;
    depth_event(turn, row, actor);
    for (size_t i = 0; definition && definition->valid && i < definition->workflow.n_tasks && !turn->slice->failed;
         i++) {
        int64_t id = 0, run;
        if (!store->ops->task_find(
                store, row->lane, row->rev, definition->workflow.tasks[i].name, STR(""), 0, &id, &run, turn->err))
            turn->slice->failed = true;
        struct node *node = id ? slice_find(turn->slice, id) : NULL;
        if (!node || state_ended(node->row.state) || node->row.state == STATE_X)
            continue;
        task_stop(turn->slice, node, STATE_A,
            &(struct because){ .actor = actor, .reason = STR("its revision was made by jobs, too many in a row") });
    }
    slice_settle(turn->slice);
}

static void depth_follow(struct turn *turn, const struct revision *row, int64_t was, struct str actor)
{
    slice_event(turn->slice, &(struct event){ .kind = EVENT_cause,
                                 .lane = row->lane,
                                 .actor = actor,
                                 .cause = row->cause,
                                 .subject = str_fmt(turn->arena, "%.*s@%lld",
                                     STR_ARG(slice_lane(turn->slice, row->lane)->name), (long long)row->rev),
                                 .reason = str_fmt(turn->arena, "known late: depth %lld", (long long)row->depth) });
    if (was <= CAUSE_DEPTH_MAX && row->depth > CAUSE_DEPTH_MAX)
        depth_hold(turn, row, actor);
}

/* cause_late: a revision was taken for a person's; now it is known whose job made it. Those that its own jobs made are
 * deeper then too. */
static void cause_late(
    struct turn *turn, const struct command *command, const struct archive *archive, struct revision *row)
{
    struct str actor = command->actor.name;
    if (row->cause || row->state == REVISION_SKIPPED || !cause_find(turn, command, true, row))
        return;
    revision_put(turn, row);
    depth_follow(turn, row, 0, actor);
    struct revision *deeper[CAUSE_HEIRS_MAX + 1] = { row };
    size_t n_deeper = 1;
    for (int64_t rev = row->rev + 1;
         rev <= archive->youngest && rev <= row->rev + CAUSE_HEIRS_MAX && !turn->slice->failed; rev++) {
        struct revision *heir = revision_find(turn, row->lane, rev);
        const struct node *node = heir && heir->cause ? slice_find(turn->slice, heir->cause) : NULL;
        for (size_t i = 0; node && i < n_deeper; i++) {
            if (node->row.lane != row->lane || node->row.rev != deeper[i]->rev || heir->depth > deeper[i]->depth)
                continue;
            int64_t was = heir->depth;
            heir->depth = deeper[i]->depth + 1;
            revision_put(turn, heir);
            depth_follow(turn, heir, was, actor);
            deeper[n_deeper++] = heir;
            break;
        }
    }
}

void command_cause(struct turn *turn, struct command *command)
{
    struct archive *archive = archive_named(turn, command, command->in.revision.archive);
    struct revision *row =
        archive && !archive->removed ? revision_find(turn, archive->lane, command->in.revision.row.rev) : NULL;
    command->status = 200;
    if (!row || turn->slice->failed)
        return; /* gone meanwhile: nobody asks any more */
    if (command->in.revision.row.txn.len && !row->txn.len) {
        row->txn = command->in.revision.row.txn;
        revision_put(turn, row);
    }
    cause_late(turn, command, archive, row);
    revision_answer(command, row);
}

static bool revision_refused(struct turn *turn, struct command *command, const struct archive *archive)
{
    int64_t rev = command->in.revision.row.rev,
            ahead = archive ? rev - (archive->youngest > archive->next - 1 ? archive->youngest : archive->next - 1) : 0;
    if (!archive || archive->removed)
        return !turn_refuse(
            turn, command, ERR_not_found, "there is no archive '%.*s'", STR_ARG(command->in.revision.archive));
    if (ahead > REVISION_GAP_MAX)
        return !err_item(&command->err, ERR_gap_too_large, STR("/rev"),
            "revision %lld is more than %d ahead of the youngest known one (%lld)", (long long)rev, REVISION_GAP_MAX,
            (long long)archive->youngest);
    return intake_closed(turn, command);
}

/* prevs_set: by default the revision before; those that are named but not below it, or below the archive's first, don't
 * count. */
static void prevs_set(struct turn *turn, const struct archive *archive, struct revision *row)
{
    int64_t *prevs = ARENA_ARRAY(turn->arena, int64_t, row->n_prevs + 2);
    size_t n = 0;
    for (size_t i = 0; i < row->n_prevs; i++)
        if (row->prevs[i] > 0 && row->prevs[i] < row->rev)
            prevs[n++] = row->prevs[i];
    if (n == 0 && row->rev > archive->first)
        prevs[n++] = row->rev - 1;
    row->prevs = prevs;
    row->n_prevs = n;
}

void command_revision(struct turn *turn, struct command *command)
{
    struct archive *archive = archive_named(turn, command, command->in.revision.archive);
    struct definition *definition = command->in.revision.definition;
    int64_t rev = command->in.revision.row.rev;
    struct kept_answer kept = { 0 };
    if (idempotency_met(turn, command, &kept)) {
        const struct revision *told = archive && !command->err.code ? revision_find(turn, archive->lane, rev) : NULL;
        if (told)
            revision_answer(command, told);
        return;
    }
    if (revision_refused(turn, command, archive))
        return;
    struct revision *known = rev < archive->first ? NULL : revision_find(turn, archive->lane, rev);
    if (known && known->state == REVISION_WAITING && PLANT(revision_twice))
        known = NULL;
    command->status = 200;
    if (!known && command->in.revision.row.ident.len) { /* another server may have given the commit its number */
        int64_t numbered = 0;
        struct store *store = turn->engine->store;
        if (!store->ops->revision_of_ident(store, archive->lane, command->in.revision.row.ident, &numbered, turn->err))
            turn->slice->failed = true;
        if (numbered && !command->in.revision.rewritten)
            known = revision_find(turn, archive->lane, numbered);
    }
    if (turn->slice->failed)
        return;
    if (known || rev < archive->next) {
        /* another server didn't hear of it */
        if (known && archive->kind != ARCHIVE_EXTERNAL)
            cause_late(turn, command, archive, known);
        if (known)
            revision_answer(command, known);
        idempotency_keep(turn, command, &rev, 1);
        return;
    }
    if (quota_revision_refused(turn, command, definition))
        return;
    struct revision *row = ARENA_NEW(turn->arena, struct revision);
    *row = command->in.revision.row;
    row->lane = archive->lane;
    row->noted = turn->wall;
    row->state = REVISION_NONE;
    prevs_set(turn, archive, row);
    cause_find(turn, command, false, row);
    row->definition = definition ? definition_put(turn, definition) : 0;
    revision_put(turn, row);
    struct str name = slice_lane(turn->slice, archive->lane)->name;
    if (command->in.revision.rewritten)
        slice_event(
            turn->slice, &(struct event){ .kind = EVENT_rewritten,
                             .lane = archive->lane,
                             .subject = name,
                             .actor = command->actor.name,
                             .reason = str_fmt(turn->arena,
                                 "the branch was rewritten: %.*s isn't an ancestor of %.*s; numbers go on at %lld",
                                 STR_ARG(archive->tip), STR_ARG(row->ident), (long long)rev) });
    slice_event(turn->slice, &(struct event){ .kind = EVENT_revision,
                                 .lane = archive->lane,
                                 .actor = command->actor.name,
                                 .reason = command->under.epoch ? duty_text(turn, DUTY_watch) : (struct str){ 0 },
                                 .cause = row->cause,
                                 .subject = str_fmt(turn->arena, "%.*s@%lld", STR_ARG(name), (long long)rev) });
    if (rev > archive->youngest)
        archive->youngest = rev;
    if (rev == archive->next || PLANT(gap_ignored)) {
        revision_open(turn, archive, row, definition, command->in.revision.touched, command->actor.name);
        revisions_open(turn, archive);
    } else {
        revision_wait(turn, archive, row, definition, command->in.revision.touched, command->actor.name);
    }
    command->status = 202;
    revision_answer(command, row);
    idempotency_keep(turn, command, &rev, 1);
}

/* --- runs --- */

struct node *run_make(struct turn *turn, struct archive *archive, const struct revision *revision,
    struct definition *definition, struct str task, struct str params, const struct because *because)
{
    struct opening o;
    struct expansion x;
    struct node **asked = NULL;
    opening_begin(&o, turn, archive, revision, definition, because);
    struct expand_input input = expand_input_of(&o);
    if (!o.definition || !workflow_find(&definition->workflow, task))
        return NULL;
    input.run = &task;
    input.n_run = 1;
    input.lock = lock_in(&o);
    expand(&input, turn->arena, &x);
    opening_room(&o, x.n_tasks);
    for (size_t i = 0; i < x.n_tasks; i++) {
        struct str name = x.tasks[i].name;
        if (x.tasks[i].replaced)
            o.nodes[i] = opening_node(&o, &x.tasks[i]);
        if (str_eq(name, task))
            asked = &o.nodes[i];
        if (x.tasks[i].replaced)
            continue;
        o.nodes[i] = task_new(&o, &x.tasks[i], run_next(&o, name), params);
        o.nodes[i]->row.reason = because->reason;
        track_made(turn, track_of(turn, archive->lane, name), o.nodes[i]);
    }
    edges_make(&o, &x);
    lock_out(&o, &x);
    slice_settle(turn->slice);
    opening_end(&o);
    return asked ? *asked : NULL;
}

void command_run(struct turn *turn, struct command *command)
{
    struct kept_answer kept = { 0 };
    if (idempotency_met(turn, command, &kept)) {
        command->out.run.task = kept.n ? kept.numbers[0] : 0;
        return;
    }
    struct str name = command->in.run.archive;
    struct archive *archive = archive_named(turn, command, name);
    int64_t rev = command->in.run.rev;
    if (!archive || archive->removed) {
        turn_refuse(turn, command, ERR_not_found, "there is no archive '%.*s'", STR_ARG(name));
        return;
    }
    const struct revision *revision = rev <= 0              ? revision_newest(turn, archive)
                                      : rev < archive->next ? revision_find(turn, archive->lane, rev)
                                                            : NULL;
    if (rev <= 0)
        rev = revision ? revision->rev : archive->next - 1;
    if (!revision || revision->state != REVISION_KNOWN) {
        turn_refuse(turn, command, ERR_not_found, "revision %lld of '%.*s' isn't known", (long long)rev, STR_ARG(name));
        return;
    }
    struct definition *definition = command->in.run.definition;
    if (!definition && revision->definition)
        definition = definition_get(turn, revision->definition);
    if (turn->slice->failed || intake_closed(turn, command) || quota_tasks_refused(turn, command, 1))
        return;
    const struct node *node =
        definition ? run_make(turn, archive, revision, definition, command->in.run.task, command->in.run.params,
                         &(struct because){ .actor = command->actor.name, .reason = command->in.run.reason })
                   : NULL;
    if (!node) {
        turn_refuse(turn, command, ERR_not_found, "the workflow of %.*s@%lld has no task '%.*s'", STR_ARG(name),
            (long long)rev, STR_ARG(command->in.run.task));
        return;
    }
    command->out.run.task = node->row.id;
    command->status = node->was == STATE_NONE ? 201 : 200; /* or another task has its unique key */
    idempotency_keep(turn, command, &node->row.id, 1);
}
