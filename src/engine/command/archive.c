/* archives: lanes whose tasks come from revisions. What is known of each (how far it is, who has its lock, its newest
 * definition) is kept here between turns; a turn changes a copy of its own, which is taken over after the commit. */
#include <string.h>

#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/targets.h"
#include "engine/tenants.h"
#include "engine/waiters.h"
#include "store/row_copy.h"

/* --- between turns --- */

void archive_put(struct engine *engine, const struct archive *row)
{
    struct known_archive *known = map_find(&engine->cache->archives, (uint64_t)row->lane);
    if (!known) {
        known = mem_alloc_zero(sizeof *known);
        map_put(&engine->cache->archives, (uint64_t)row->lane, known);
    }
    struct archive was = known->row;
    tenant_archives_moved(engine, row->lane, !row->removed - (was.lane && !was.removed));
    known->row = *row;
    /* url and branch change only when an archive is added again */
    known->row.url = str_eq(was.url, row->url) ? was.url : str_dup(&engine->cache->arena, row->url);
    known->row.branch = str_eq(was.branch, row->branch) ? was.branch : str_dup(&engine->cache->arena, row->branch);
    size_t tip = row->tip.len < sizeof known->tip ? row->tip.len : 0;
    if (tip && row->tip.ptr != known->tip)
        memcpy(known->tip, row->tip.ptr, tip);
    known->row.tip = (struct str){ known->tip, tip };
    if (row->n_lock_shared > known->cap_shared) {
        known->cap_shared = row->n_lock_shared * 2;
        known->shared = mem_realloc(known->shared, known->cap_shared * sizeof *known->shared);
    }
    if (row->n_lock_shared)
        memcpy(known->shared, row->lock_shared, row->n_lock_shared * sizeof *known->shared);
    known->row.lock_shared = known->shared;
}

void removing_add(struct engine *engine, int64_t lane)
{
    for (size_t i = 0; i < engine->backlog->removing.n; i++)
        if (engine->backlog->removing.at[i] == lane)
            return;
    *ARRAY_ADD(&engine->arena, engine->backlog->removing) = lane;
}

bool archives_load(struct engine *engine, struct err *err)
{
    struct arena scratch = { 0 };
    struct archive **rows;
    size_t n;
    bool ok = engine->store->ops->load_archives(engine->store, &scratch, &rows, &n, err);
    targets_look(engine);
    for (size_t i = 0; ok && i < n; i++) {
        archive_put(engine, rows[i]);
        engine->backlog->archives_left |= rows[i]->next <= rows[i]->youngest && !rows[i]->removed;
        if (rows[i]->removed)
            removing_add(engine, rows[i]->lane);
    }
    arena_release(&scratch);
    return ok;
}

void archives_drop(struct engine *engine)
{
    MAP_EACH (&engine->cache->archives, e) {
        struct known_archive *known = e->value;
        mem_free(known->shared);
        mem_free(known);
    }
    map_clear(&engine->cache->archives);
    definitions_drop(engine);
}

void definitions_drop(struct engine *engine)
{
    MAP_EACH (&engine->cache->definitions, e)
        definition_release(e->value);
    map_clear(&engine->cache->definitions);
}

void archives_follow(struct turn *turn)
{
    MAP_EACH (&turn->archives->rows, e)
        archive_put(turn->engine, e->value);
}

/* --- in a turn --- */

struct archive *turn_archive(struct turn *turn, int64_t lane)
{
    struct archive *copy = map_find(&turn->archives->rows, (uint64_t)lane);
    const struct known_archive *known = copy ? NULL : map_find(&turn->engine->cache->archives, (uint64_t)lane);
    if (!known)
        return copy;
    copy = ARENA_NEW(turn->arena, struct archive);
    *copy = known->row;
    map_put(&turn->archives->rows, (uint64_t)lane, copy);
    return copy;
}

struct archive *archive_own(struct turn *turn, int64_t lane)
{
    struct engine *engine = turn->engine;
    struct archive *copy = turn_archive(turn, lane), row;
    if (!copy || !turn->narrow.is || map_find(&turn->narrow.locked, (uint64_t)lane) || turn->slice->failed)
        return copy;
    row = *copy;
    bool locks = true;
    if (PLANT(archive_unlocked))
        locks = false;
    if (locks &&
        !turn_read(turn, engine->store->ops->shared->archive_lock(engine->store, turn->arena, lane, &row, turn->err)))
        return copy;
    archive_put(engine, &row);
    *copy = ((struct known_archive *)map_find(&engine->cache->archives, (uint64_t)lane))->row;
    map_put(&turn->narrow.locked, (uint64_t)lane, copy);
    return copy;
}

struct archive *archive_named(struct turn *turn, const struct command *command, struct str name)
{
    const struct lane *lane = cache_lane_find(turn, command->actor.tenant, name);
    return lane ? archive_own(turn, lane->id) : NULL;
}

static bool archive_same(const struct archive *a, const struct archive *b)
{
    return a->kind == b->kind && str_eq(a->url, b->url) && str_eq(a->branch, b->branch) && a->added == b->added &&
           a->removed == b->removed && a->first == b->first && a->next == b->next && a->youngest == b->youngest &&
           str_eq(a->tip, b->tip) && a->definition == b->definition && a->lock_exclusive == b->lock_exclusive &&
           a->lock_shared == b->lock_shared && a->n_lock_shared == b->n_lock_shared;
}

void changes_archives(struct turn *turn)
{
    struct changes *c = &turn->changes;
    MAP_EACH (&turn->archives->rows, e) {
        const struct known_archive *known = map_find(&turn->engine->cache->archives, e->key);
        if (!known || !archive_same(&known->row, e->value))
            *ARRAY_ADD(turn->arena, c->archives) = e->value;
    }
    for (size_t i = 0; i < turn->archives->revisions.n; i++)
        *ARRAY_ADD(turn->arena, c->revisions) = *turn->archives->revisions.at[i];
    for (size_t i = 0; i < turn->archives->tracks.n; i++)
        if (turn->archives->tracks.at[i]->dirty)
            *ARRAY_ADD(turn->arena, c->latest) = turn->archives->tracks.at[i]->latest;
}

/* --- definitions: kept as specs, whose body is the text --- */

static void definition_remember(struct engine *engine, int64_t id, struct definition *definition)
{
    if (engine->cache->definitions.n >= DEFINITIONS_MAX)
        definitions_drop(engine);
    map_put(&engine->cache->definitions, (uint64_t)id, definition);
}

struct definition *definition_get(struct turn *turn, int64_t id)
{
    struct definition *definition = map_find(&turn->engine->cache->definitions, (uint64_t)id);
    if (definition)
        return definition;
    const struct spec *spec = turn->engine->cache->rows.spec(turn->engine, id, turn->err);
    if (!turn_read(turn, spec != NULL))
        return NULL;
    definition = definition_of_text(spec->body);
    definition_remember(turn->engine, id, definition);
    return definition;
}

int64_t definition_put(struct turn *turn, struct definition *definition)
{
    int64_t id = cache_spec_get(turn, &(struct task_def){ .body = definition->text }, 0, NULL, 0);
    if (id == 0)
        return 0; /* the turn has failed */
    if (!map_find(&turn->engine->cache->definitions, (uint64_t)id))
        definition_remember(turn->engine, id, definition_keep(definition));
    return id;
}

/* --- what a job needs to check its revision out --- */

struct grant_source archive_source(struct turn *turn, const struct task *task, struct arena *arena)
{
    const struct archive *archive = task->rev ? turn_archive(turn, task->lane) : NULL;
    const struct revision *revision = archive ? revision_find(turn, task->lane, task->rev) : NULL;
    if (!archive)
        return (struct grant_source){ 0 };
    return (struct grant_source){ .kind = archive->kind,
        .url = str_dup(arena, archive->url),
        .ident = revision ? str_dup(arena, revision->ident) : (struct str){ 0 },
        .prev = revision && revision->n_prevs ? revision->prevs[0] : 0 };
}

/* --- commands --- */

static void archive_event(struct turn *turn, const struct command *command, enum event_kind kind,
    const struct archive *archive, struct str subject, struct str reason)
{
    slice_event(turn->slice,
        &(struct event){
            .kind = kind, .lane = archive->lane, .subject = subject, .actor = command->actor.name, .reason = reason });
}

static void archive_answer(struct command *command, const struct archive *archive)
{
    struct archive *out = &command->out.archive.archive;
    *out = *archive;
    row_copy_archive(command->arena, out);
}

/* A name that was paused before its first use is stored as a queue without tasks. Rows of tasks are never removed, so
 * a queue without tasks never had one. */
static bool lane_is_unused(struct turn *turn, int64_t id)
{
    const struct lane *lane = slice_lane(turn->slice, id);
    int64_t tasks = 0;
    for (size_t i = 0; i < STATE_COUNT; i++)
        tasks += lane->counts[i];
    return id > 0 && tasks == 0;
}

bool command_archive_add(struct turn *turn, struct command *command)
{
    struct str name = command->in.archive_add.name;
    const struct archive *wish = &command->in.archive_add.archive;
    struct kept_answer kept = { 0 };
    struct lane *lane = cache_lane_find(turn, command->actor.tenant, name);
    struct archive *archive = lane ? turn_archive(turn, lane->id) : NULL;
    if (idempotency_met(turn, command, &kept)) {
        if (!command->err.code && archive)
            archive_answer(command, archive);
        return true;
    }
    if (lane && !archive && !lane_is_unused(turn, lane->id))
        return turn_refuse(
            turn, command, ERR_name_taken, "'%.*s' is the name of a queue; choose another", STR_ARG(name));
    if (archive && !archive->removed) {
        bool same =
            archive->kind == wish->kind && str_eq(archive->url, wish->url) && str_eq(archive->branch, wish->branch);
        if (!same)
            turn_refuse(turn, command, ERR_name_taken,
                "there is an archive '%.*s' of another kind, address or branch: remove it first", STR_ARG(name));
        command->status = 200;
        archive_answer(command, archive);
        return true;
    }
    if (target_taken(turn->engine, name))
        return turn_refuse(turn, command, ERR_name_taken,
            "'%.*s' is the name of a target of another archive (targets): choose another", STR_ARG(name));
    if (quota_refused(turn, command, QUOTA_archives, 1))
        return false;
    if (!lane)
        lane = cache_lane_make(turn, command->actor.tenant, name, LANE_ARCHIVE);
    slice_lane(turn->slice, lane->id)->kind = LANE_ARCHIVE;
    int64_t first = wish->first > 0 ? wish->first : 1, before = archive ? archive->next : 0;
    struct archive *row = ARENA_NEW(turn->arena, struct archive);
    *row = archive ? *archive : (struct archive){ .lane = lane->id };
    row->kind = wish->kind;
    row->url = wish->url;
    row->branch = wish->branch;
    row->tip = wish->tip;
    row->added = turn->wall;
    row->removed = 0;
    row->first = row->next = first > before ? first : before; /* numbers are never used twice */
    if (row->youngest < row->next - 1)
        row->youngest = row->next - 1;
    map_put(&turn->archives->rows, (uint64_t)lane->id, row);
    tenant_now(turn, command->actor.tenant)->archives_more++;
    archive_event(turn, command, EVENT_archive, row, name,
        str_fmt(turn->arena, "%s %.*s", archive_kind_name(row->kind), STR_ARG(row->url)));
    command->status = 201;
    archive_answer(command, row);
    idempotency_keep(turn, command, &lane->id, 1);
    return true;
}

/* Why the tasks of the lane are put to an end; empty: they aren't, since the target has an archive. */
static struct str removing_reason(struct turn *turn, int64_t id)
{
    const struct lane *lane = slice_lane(turn->slice, id);
    struct target target;
    struct str why = STR("its archive was removed");
    if (lane->kind == LANE_TARGET && target_of(turn, &(struct task){ .lane = id }, &target, &why))
        return (struct str){ 0 };
    return why;
}

/* Change sets of the target that this turn has made aren't in the store yet. */
static bool target_grows(const struct turn *turn, int64_t lane)
{
    for (size_t i = 0; i < turn->slice->changesets.n; i++)
        if (turn->slice->changesets.at[i]->row.lane == lane && turn->slice->changesets.at[i]->was == STATE_NONE)
            return true;
    return false;
}

/* Puts a batch of the tasks to an end. Returns how many; those that execute are told, and end when their executors
 * report it. */
static size_t tasks_stop(struct turn *turn, const int64_t *ids, size_t n, struct str reason)
{
    size_t stopped = 0;
    for (size_t i = 0; i < n && stopped < turn->engine->batch; i++) {
        struct node *node = slice_find(turn->slice, ids[i]);
        if (!node || state_ended(node->row.state) || node->row.ending || node->row.marks & MARK_LOOK)
            continue; /* the last ends when it would be granted */
        task_stop(turn->slice, node, STATE_A, &(struct because){ .actor = STR("engine"), .reason = reason });
        stopped++;
    }
    return stopped;
}

/* One lane's batch; true: there may be more. One that executes hides others, a change set as often as it has paths: so
 * it is asked for more until one is found that can be stopped. Rollbacks have no paths: they end when they would be
 * granted. */
static bool lane_removing(struct turn *turn, int64_t lane, struct str reason)
{
    struct store *store = turn->engine->store;
    bool target = slice_lane(turn->slice, lane)->kind == LANE_TARGET, more = true;
    size_t stopped = 0;
    for (size_t ask = turn->engine->batch; more && !stopped; ask *= 2) {
        int64_t *ids;
        size_t n;
        if (!turn_read(turn, (target ? store->ops->changesets_open : store->ops->tasks_open)(
                                 store, turn->arena, lane, ask, &ids, &n, turn->err)))
            return true;
        stopped = tasks_stop(turn, ids, n, reason);
        more = n == ask;
    }
    slice_settle(turn->slice);
    return more || (target && target_grows(turn, lane));
}

void archives_removing(struct turn *turn)
{
    struct backlog *backlog = turn->engine->backlog;
    size_t left = 0, i = 0;
    for (; i < backlog->removing.n && !turn->slice->failed; i++) {
        int64_t lane = backlog->removing.at[i];
        struct str reason = removing_reason(turn, lane);
        if (reason.len && lane_removing(turn, lane, reason))
            backlog->removing.at[left++] = lane;
    }
    if (!turn->slice->failed) /* else everything is read again */
        backlog->removing.n = left;
}

bool command_archive_remove(struct turn *turn, struct command *command)
{
    struct str name = command->in.archive.name;
    struct archive *archive = archive_named(turn, command, name);
    if (!archive || archive->removed)
        return turn_refuse(turn, command, ERR_not_found, "there is no archive '%.*s'", STR_ARG(name));
    archive->removed = turn->wall;
    tenant_now(turn, command->actor.tenant)->archives_more--;
    /* in this very turn, after the commands; looked at again if it comes to nothing */
    removing_add(turn->engine, archive->lane);
    targets_look(turn->engine);
    archive->definition = 0;
    schedules_set(turn, archive, NULL);
    archive_event(turn, command, EVENT_archive_removed, archive, name, command->in.archive.reason);
    command->status = 200;
    archive_answer(command, archive);
    return true;
}

bool command_archive_skip(struct turn *turn, struct command *command)
{
    struct str name = command->in.archive.name;
    int64_t rev = command->in.archive.rev;
    struct archive *archive = archive_named(turn, command, name);
    if (!archive || archive->removed)
        return turn_refuse(turn, command, ERR_not_found, "there is no archive '%.*s'", STR_ARG(name));
    if (revision_find(turn, archive->lane, rev) || rev < archive->next)
        return turn_refuse(turn, command, ERR_conflict, "revision %lld of '%.*s' is known: there is nothing to skip",
            (long long)rev, STR_ARG(name));
    if (rev > archive->youngest && rev > archive->next)
        return turn_refuse(turn, command, ERR_conflict,
            "revision %lld of '%.*s' is beyond the youngest known one (%lld): no gap there", (long long)rev,
            STR_ARG(name), (long long)archive->youngest);
    /* the next one can't be read, and nothing would get past it */
    if (rev > archive->youngest)
        archive->youngest = rev;
    struct revision *row = ARENA_NEW(turn->arena, struct revision);
    *row = (struct revision){ .lane = archive->lane,
        .rev = rev,
        .state = REVISION_SKIPPED,
        .noted = turn->wall,
        .message = command->in.archive.reason };
    revision_put(turn, row);
    archive_event(turn, command, EVENT_revision_skipped, archive,
        str_fmt(turn->arena, "%.*s@%lld", STR_ARG(name), (long long)rev), command->in.archive.reason);
    if (!PLANT(skip_unopened))
        revisions_open(turn, archive);
    command->status = 200;
    archive_answer(command, archive);
    return true;
}

static void queue_again(struct turn *turn, struct node *node, const struct node *leaves)
{
    struct archive *archive = node->row.marks & MARK_LOCKED ? archive_own(turn, node->row.lane) : NULL;
    if (archive && !state_ended(node->row.state))
        lock_again(turn->slice, archive, node, leaves);
}

void archive_lock_again(struct turn *turn, struct node *node)
{
    queue_again(turn, node, NULL);
}

void locks_again(struct turn *turn, size_t from, const struct node *except)
{
    for (size_t i = from; i < turn->slice->restaged.n; i++)
        if (turn->slice->restaged.at[i] != except)
            queue_again(turn, turn->slice->restaged.at[i], except);
}
