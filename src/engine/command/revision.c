/* revisions: a revision's workflow becomes tasks and edges (opening.c), in the order of the revisions.
 *
 * A revision that comes before its predecessors waits: its row says so and its tasks stand in Q without edges, because
 * what PREV means isn't known yet. Tasks with a unique key aren't made before the revision is opened: keys are taken in
 * the order of the revisions. A task that stands there as skipped says that the revision doesn't touch its paths. The
 * turn that closes the gap opens the revision.
 *
 * A revision that a job made has a cause and a depth: one that is too deep gets no tasks but COMMIT, so that jobs that
 * commit don't start each other without an end. */
#include "core/changeset.h"
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/command/opening.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"
#include "store/row_copy.h"

/* --- rows of revisions --- */

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

struct revision *revision_find(struct turn *turn, int64_t lane, int64_t rev)
{
    struct store *store = turn->engine->store;
    bool found = false;
    struct revision *row = revision_told(turn, lane, rev);
    if (row)
        return row;
    row = ARENA_NEW(turn->arena, struct revision);
    turn_read(turn, store->ops->load_revision(store, turn->arena, lane, rev, row, &found, turn->err));
    return found ? row : NULL;
}

/* The newest opened revision that wasn't skipped; NULL: none. */
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

/* --- opening a revision --- */

static void semaphores_declare(struct opening *o)
{
    struct turn *turn = o->turn;
    const struct workflow *workflow = &o->definition->workflow;
    for (size_t i = 0; i < workflow->n_semaphores; i++) {
        const struct slot *known = cache_slot_find(turn, o->tenant, workflow->semaphores[i].name);
        if (!known && workflow->semaphores[i].limit == 1)
            continue; /* 1 is the limit of a semaphore that nobody declares */
        if (!known)
            known = cache_slot_put(turn, o->tenant, workflow->semaphores[i].name, 1);
        if (turn->slice->failed)
            return;
        struct slot *slot = slice_slot(turn->slice, known->id);
        /* the configuration decides the limits of global semaphores */
        if (slot->tenant.len == 0 || slot->limit == workflow->semaphores[i].limit)
            continue;
        if (semaphore_is_configured(turn->engine, o->tenant, slot->name))
            continue; /* and of those that it names */
        slot->limit = workflow->semaphores[i].limit;
        slot_changed(turn->slice, slot->id);
        slice_event(turn->slice, &(struct event){ .kind = EVENT_semaphore,
                                     .subject = tenant_subject(turn->arena, slot->tenant, slot->name),
                                     .actor = o->because.actor,
                                     .reason = str_fmt(turn->arena, "limit %lld", (long long)slot->limit) });
    }
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
    opening_init(&o, turn, archive, revision, definition, &(struct because){ .actor = actor });
    o.waited = revision->state == REVISION_WAITING;
    o.touched = touched;
    struct expand_input input = opening_input(&o);
    if (definition)
        definition_keep(definition);
    if (PLANT(prev_forgotten))
        input.n_prevs = o.waited ? 0 : input.n_prevs;
    opening_expand(&o, &input, &x);
    if (o.definition)
        semaphores_declare(&o);
    for (size_t i = 0; i < x.n_tasks; i++) {
        o.nodes[i] = opening_node(&o, &x.tasks[i]);
        if (!x.tasks[i].replaced)
            opening_track(&o, o.nodes[i]);
    }
    opening_connect(&o, &x);
    if (definition && !definition->valid)
        opening_workflow_fail(&o, definition);
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
    opening_release(&o);
    definition_release(definition);
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
            return; /* missing: the gap begins here */
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

/* A revision behind a gap: its tasks are made in Q, so that clients see them, but for those with a unique key, which
 * depend on what earlier revisions take. */
static void revision_wait(struct turn *turn, struct archive *archive, struct revision *row,
    struct definition *definition, const bool *touched, struct str actor)
{
    struct opening o;
    struct expansion x;
    opening_init(&o, turn, archive, row, definition, &(struct because){ .actor = actor });
    o.touched = touched;
    if (PLANT(touched_forgotten))
        o.touched = NULL;
    struct expand_input input = opening_input(&o);
    input.n_prevs = 0;
    input.replaced = NULL;
    row->state = REVISION_WAITING;
    expand(&input, turn->arena, &x);
    for (size_t i = 0; i < x.n_tasks; i++) {
        bool commit = x.tasks[i].def == &input.workflow->commit;
        bool unique = !commit && !x.tasks[i].skipped && opening_unique_key(&o, x.tasks[i].def).len;
        if (PLANT(unique_early))
            unique = false;
        if (unique)
            continue;
        opening_track_waiting(&o, opening_task_make(&o, &x.tasks[i], 0, (struct str){ 0 }));
    }
    opening_release(&o);
}

/* --- causes --- */

/* key_task: the tenant's task that a key names; NULL: none, or the text is no key. */
static struct node *key_task(struct turn *turn, struct str tenant, struct str text)
{
    struct key key;
    struct err ignored = { 0 };
    struct store *store = turn->engine->store;
    int64_t id = 0, run;
    if (!text.len || !key_parse(text, &key, &ignored))
        return NULL;
    if (key.kind == KEY_ID || key.kind == KEY_QUEUE_TASK)
        id = key.id;
    if (key.kind == KEY_CHANGESET && !store->ops->changeset_find(store, tenant, key.name, &id, turn->err))
        turn->slice->failed = true;
    const struct lane *lane = key.kind == KEY_TASK ? cache_lane_find(turn, tenant, key.lane) : NULL;
    if (lane && !store->ops->task_find(store, lane->id, key.rev, key.name, key.variant, key.run, &id, &run, turn->err))
        turn->slice->failed = true;
    struct node *node = id ? slice_find(turn->slice, id) : NULL;
    return node && str_eq(slice_lane(turn->slice, node->row.lane)->tenant, tenant) ? node : NULL;
}

/* depth_after: of a revision that this task's job has made. A change set that a person has submitted begins at 0 */
static int64_t depth_after(struct turn *turn, struct str tenant, struct node *node)
{
    const struct changeset *changeset = changeset_of(turn->slice, node);
    if (changeset) {
        node =
            str_starts(changeset->submitter, STR(JOB_ACTOR))
                ? key_task(turn, tenant, str_sub(changeset->submitter, sizeof JOB_ACTOR - 1, changeset->submitter.len))
                : NULL;
        if (!node)
            return 0;
    }
    const struct revision *made_in = node->row.rev ? revision_find(turn, node->row.lane, node->row.rev) : NULL;
    return made_in ? made_in->depth + 1 : 1;
}

/* Sets the task whose job made the revision, and the depth. `late`: the revision was stored before, so the job must
 * have run at that time. */
static bool cause_find(struct turn *turn, const struct command *command, bool late, struct revision *row)
{
    struct node *node = key_task(turn, command->actor.tenant, command->in.revision.cause);
    if (!node)
        return false;
    bool ran = node->row.started > 0 && node->row.started <= row->noted &&
               (node->row.finished < node->row.started || node->row.finished + CAUSE_LATE_MS >= row->noted);
    if (late && !ran)
        return false;
    row->cause = node->row.id;
    row->depth = depth_after(turn, command->actor.tenant, node);
    return true;
}

static void revision_answer(struct command *command, const struct revision *row)
{
    struct revision *out = &command->out.revision.row;
    *out = *row;
    row_copy_revision(command->arena, out);
}

/* depth_hold: the revision turns out to be too deep: tasks that haven't started are stopped. */
static void depth_hold(struct turn *turn, const struct revision *row, struct str actor)
{
    struct store *store = turn->engine->store;
    const struct definition *definition = row->definition ? definition_get(turn, row->definition) : NULL;
    depth_event(turn, row, actor);
    for (size_t i = 0; definition && definition->valid && i < definition->workflow.n_tasks && !turn->slice->failed;
         i++) {
        int64_t id = 0, run;
        turn_read(turn, store->ops->task_find(store, row->lane, row->rev, definition->workflow.tasks[i].name, STR(""),
                            0, &id, &run, turn->err));
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

/* cause_late: a revision was stored as a person's; now the job that made it is known. Revisions that its own jobs made
 * become deeper too. */
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

bool command_cause(struct turn *turn, struct command *command)
{
    struct archive *archive = archive_named(turn, command, command->in.revision.archive);
    struct revision *row =
        archive && !archive->removed ? revision_find(turn, archive->lane, command->in.revision.row.rev) : NULL;
    command->status = 200;
    if (!row || turn->slice->failed)
        return true; /* the archive or the revision was removed meanwhile */
    if (command->in.revision.row.txn.len && !row->txn.len) {
        row->txn = command->in.revision.row.txn;
        revision_put(turn, row);
    }
    cause_late(turn, command, archive, row);
    revision_answer(command, row);
    return true;
}

/* --- the command --- */

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

/* prevs_set: keeps the named predecessors that are below the revision; without any, the revision before, unless it is
 * the archive's first. */
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

/* revision_known: the row of a revision that is stored already, under this number or, since another server may have
 * given the commit its number, under another one; NULL: none. */
static struct revision *revision_known(struct turn *turn, const struct command *command, const struct archive *archive)
{
    const struct revision *in = &command->in.revision.row;
    struct store *store = turn->engine->store;
    int64_t numbered = 0;
    struct revision *known = in->rev < archive->first ? NULL : revision_find(turn, archive->lane, in->rev);
    if (PLANT(revision_twice))
        known = known && known->state == REVISION_WAITING ? NULL : known;
    if (known || !in->ident.len)
        return known;
    turn_read(turn, store->ops->revision_of_ident(store, archive->lane, in->ident, &numbered, turn->err));
    return numbered && !command->in.revision.rewritten ? revision_find(turn, archive->lane, numbered) : NULL;
}

static void revision_events(
    struct turn *turn, const struct command *command, const struct archive *archive, const struct revision *row)
{
    struct str name = slice_lane(turn->slice, archive->lane)->name;
    if (command->in.revision.rewritten)
        slice_event(
            turn->slice, &(struct event){ .kind = EVENT_rewritten,
                             .lane = archive->lane,
                             .subject = name,
                             .actor = command->actor.name,
                             .reason = str_fmt(turn->arena,
                                 "the branch was rewritten: %.*s isn't an ancestor of %.*s; numbers go on at %lld",
                                 STR_ARG(archive->tip), STR_ARG(row->ident), (long long)row->rev) });
    slice_event(turn->slice, &(struct event){ .kind = EVENT_revision,
                                 .lane = archive->lane,
                                 .actor = command->actor.name,
                                 .reason = command->under.epoch ? duty_text(turn, DUTY_watch) : (struct str){ 0 },
                                 .cause = row->cause,
                                 .subject = str_fmt(turn->arena, "%.*s@%lld", STR_ARG(name), (long long)row->rev) });
}

/* The row of a new revision; its tasks and edges follow when it is opened. */
static struct revision *revision_make(struct turn *turn, const struct command *command, const struct archive *archive)
{
    struct definition *definition = command->in.revision.definition;
    struct revision *row = ARENA_NEW(turn->arena, struct revision);
    *row = command->in.revision.row;
    row->lane = archive->lane;
    row->noted = turn->wall;
    row->state = REVISION_NONE;
    prevs_set(turn, archive, row);
    cause_find(turn, command, false, row);
    row->definition = definition ? definition_put(turn, definition) : 0;
    revision_put(turn, row);
    revision_events(turn, command, archive, row);
    return row;
}

bool command_revision(struct turn *turn, struct command *command)
{
    struct archive *archive = archive_named(turn, command, command->in.revision.archive);
    struct definition *definition = command->in.revision.definition;
    int64_t rev = command->in.revision.row.rev;
    struct kept_answer kept = { 0 };
    if (idempotency_met(turn, command, &kept)) {
        const struct revision *told = archive && !command->err.code ? revision_find(turn, archive->lane, rev) : NULL;
        if (told)
            revision_answer(command, told);
        return true;
    }
    if (revision_refused(turn, command, archive))
        return true;
    struct revision *known = revision_known(turn, command, archive);
    command->status = 200;
    if (turn->slice->failed)
        return true;
    if (known || rev < archive->next) {
        /* the server that made it may not have known its cause */
        if (known && archive->kind != ARCHIVE_EXTERNAL)
            cause_late(turn, command, archive, known);
        if (known)
            revision_answer(command, known);
        idempotency_keep(turn, command, &rev, 1);
        return true;
    }
    if (quota_revision_refused(turn, command, definition))
        return true;
    struct revision *row = revision_make(turn, command, archive);
    if (rev > archive->youngest)
        archive->youngest = rev;
    bool opens = rev == archive->next;
    if (PLANT(gap_ignored))
        opens = true;
    if (opens) {
        revision_open(turn, archive, row, definition, command->in.revision.touched, command->actor.name);
        revisions_open(turn, archive);
    } else {
        revision_wait(turn, archive, row, definition, command->in.revision.touched, command->actor.name);
    }
    command->status = 202;
    revision_answer(command, row);
    idempotency_keep(turn, command, &rev, 1);
    return true;
}
