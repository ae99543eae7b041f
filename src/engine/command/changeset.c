/* changeset: change sets come in and are approved, and which of a target's may start.
 *
 * The caller has read and checked the tarball (its form, its paths against `meta`) and made the CSID. What it says of
 * other change sets is checked here, in the turn in which it is accepted. Nothing is made before everything is
 * checked. */
#include <string.h>

#include "core/changeset.h"
#include "core/rollback.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/shared/shared.h"
#include "engine/targets.h"
#include "engine/tenants.h"

enum { CHANGESET_ATTEMPTS = 3 }; /* that took the executor down; back-offs (exit 111) don't count */

/* --- checks --- */

/* changeset_task: the change set of this CSID, of the tenant; NULL: there is none. */
static struct node *changeset_task(struct turn *turn, struct str tenant, struct str csid)
{
    struct store *store = turn->engine->store;
    int64_t id = 0;
    for (size_t i = 0; i < turn->slice->changesets.n; i++) { /* this turn's: few */
        struct node *node = turn->slice->changesets.at[i];
        if (str_eq(node->changeset->csid, csid) && str_eq(node->changeset->tenant, tenant))
            return node;
    }
    if (!store->ops->changeset_find(store, tenant, csid, &id, turn->err))
        turn->slice->failed = true;
    return id && !turn->slice->failed ? slice_find(turn->slice, id) : NULL;
}

static struct node *content_task(struct turn *turn, struct str tenant, const uint8_t hash[32])
{
    struct store *store = turn->engine->store;
    int64_t id = 0;
    for (size_t i = turn->slice->changesets.n; i-- > 0;) {
        struct node *node = turn->slice->changesets.at[i];
        if (memcmp(node->changeset->hash, hash, 32) == 0 && str_eq(node->changeset->tenant, tenant))
            return node;
    }
    if (!store->ops->changeset_of_hash(store, tenant, hash, &id, turn->err))
        turn->slice->failed = true;
    return id && !turn->slice->failed ? slice_find(turn->slice, id) : NULL;
}

static struct str target_lane_name(struct turn *turn, struct str target)
{
    return str_fmt(turn->arena, TARGET_LANE "%.*s", STR_ARG(target));
}

static bool target_check(struct turn *turn, struct command *command, struct str name)
{
    struct target target;
    struct str why;
    if (target_find(turn, command->actor.tenant, name, &target, &why))
        return true;
    command->err.arena = command->arena;
    return err_item(&command->err, ERR_invalid, STR("/target"), "%.*s", STR_ARG(why));
}

/* Nobody has approved it. Where a submitter may not approve its own, the ticket that it brings approves nothing:
 * somebody else has to look at that. */
static bool is_unapproved(struct turn *turn, const struct changeset_def *def)
{
    const struct conf_changesets *conf = &turn->engine->site->changesets;
    return conf->approval & 1U << def->movetype && (!def->ticket.len || !conf->self_approval);
}

static const char *depends_field(const struct changeset_def *def)
{
    return def->depends_field ? def->depends_field : "dependencies";
}

/* The change sets that a section of `meta` names; NULL: one of them is refused. */
static struct node **named_get(
    struct turn *turn, struct command *command, const struct str *csids, size_t n, const char *section)
{
    const struct changeset_def *def = &command->in.changeset.def;
    struct node **nodes = ARENA_ARRAY(turn->arena, struct node *, n + 1);
    const struct lane *lane = cache_lane_find(turn, command->actor.tenant, target_lane_name(turn, def->target));
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        struct str at = str_fmt(command->arena, "/%s/%zu", section, i);
        nodes[i] = changeset_task(turn, command->actor.tenant, csids[i]);
        command->err.arena = command->arena;
        if (turn->slice->failed)
            return NULL;
        if (!nodes[i])
            good = err_item(&command->err, ERR_invalid, at, "there is no change set '%.*s'", STR_ARG(csids[i]));
        else if (!lane || nodes[i]->row.lane != lane->id)
            good = err_item(
                &command->err, ERR_invalid, at, "the change set '%.*s' is of another target", STR_ARG(csids[i]));
        else if (def->movetype != MOVE_RB && nodes[i]->row.marks & MARK_ROLLBACK)
            good = err_item(&command->err, ERR_invalid, at, "'%.*s' is a rollback: only another rollback can name it",
                STR_ARG(csids[i]));
    }
    return good ? nodes : NULL;
}

/* --- making --- */

static struct lane *target_lane_get(struct turn *turn, struct str tenant, struct str target)
{
    struct str name = target_lane_name(turn, target);
    struct lane *lane = cache_lane_find(turn, tenant, name);
    const struct lane *archive = cache_lane_find(turn, tenant, target);
    if (lane)
        return lane;
    lane = cache_lane_make(turn, tenant, name, LANE_TARGET);
    struct lane *row = slice_lane(turn->slice, lane->id);
    if (archive && !turn->narrow.is) { /* `weir pause NAME` meant both */
        row->paused_since = archive->paused_since;
        row->paused_by = archive->paused_by;
        row->paused_reason = archive->paused_reason;
    }
    return lane;
}

static struct node *changeset_make(struct turn *turn, struct command *command)
{
    const struct changeset_def *def = &command->in.changeset.def;
    struct str tenant = command->actor.tenant;
    struct lane *lane = target_lane_get(turn, tenant, def->target);
    struct label target = { STR(CLASS_TARGET), lane->name };
    bool rollback = def->movetype == MOVE_RB, unapproved = is_unapproved(turn, def);
    const struct task_def task = { .name = def->csid,
        .kind = KIND_APPLY,
        .body = def->body,
        .labels = &target,
        .n_labels = 1,
        .prio = def->prio,
        .attempts_max = CHANGESET_ATTEMPTS,
        .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED };
    int64_t label = def->tai;
    if (PLANT(label_ignored))
        label = turn->boot;
    const struct task like = { .lane = lane->id,
        .vt = label,
        .marks = MARK_CHANGESET | (rollback ? MARK_ROLLBACK : 0u) | (unapproved ? MARK_UNAPPROVED : 0u) };
    struct node *node = task_make_of(turn, tenant, &task, &like, &(struct because){ .actor = command->actor.name });
    struct changeset *row = ARENA_NEW(turn->arena, struct changeset);
    *row = (struct changeset){ .task = node->row.id,
        .lane = lane->id,
        .tenant = tenant,
        .csid = def->csid,
        .movetype = def->movetype,
        .name = def->name,
        .tai = def->tai,
        .files = def->files,
        .removed = def->removed,
        .submitter = def->submitter,
        .ticket = def->ticket,
        .rank = node->row.id,
        .overlapping = def->overlapping };
    memcpy(row->hash, def->hash, sizeof row->hash);
    node->changeset = row;
    kept_tarball(turn, node, def->bytes);
    return node;
}

static void undoes_set(struct turn *turn, struct node *node, struct node *const *named, size_t n)
{
    int64_t *ids = ARENA_ARRAY(turn->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        ids[i] = named[i]->row.id;
    node->changeset->undoes = ids;
    node->changeset->n_undoes = n;
}

static void answer_fill(struct command *command, const struct node *node, bool existing)
{
    command->out.changeset.task = node->row.id;
    command->out.changeset.csid = str_dup(command->arena, node->row.name);
    command->out.changeset.existing = existing;
}

/* Another change set has this CSID, or a lane has it as its name. */
static bool csid_refused(struct turn *turn, struct command *command)
{
    struct str csid = command->in.changeset.def.csid;
    const struct node *node = changeset_task(turn, command->actor.tenant, csid);
    if (node)
        return !turn_refuse(turn, command, ERR_csid_taken, "the change set %.*s has another content", STR_ARG(csid));
    if (cache_lane_find(turn, command->actor.tenant, csid))
        return !turn_refuse(
            turn, command, ERR_name_taken, "'%.*s' is the name of an archive, queue or target", STR_ARG(csid));
    return turn->slice->failed;
}

/* The content is known: the answer is the change set that has it. */
static bool content_met(struct turn *turn, struct command *command)
{
    const struct changeset_def *def = &command->in.changeset.def;
    static const uint8_t none[32];
    if (memcmp(def->hash, none, sizeof none) == 0)
        return false; /* a rollback without a tarball is always a new one */
    const struct node *node = content_task(turn, command->actor.tenant, def->hash);
    if (!node || (def->again && state_ended(node->row.state)))
        return false;
    answer_fill(command, node, true);
    command->status = 200;
    return true;
}

/* check_fill: the precursors that it would get now: the last unfinished change set of each of its paths, and those that
 * its meta names. */
static void check_fill(struct turn *turn, struct command *command, struct node *const *named)
{
    const struct changeset_def *def = &command->in.changeset.def;
    const struct lane *lane = cache_lane_find(turn, command->actor.tenant, target_lane_name(turn, def->target));
    const struct changeset row = { .files = def->files, .removed = def->removed };
    struct changeset_paths paths = changeset_paths(&row);
    struct smap seen = { 0 };
    struct str path, *list = NULL;
    size_t n = 0, cap = 0;
    for (size_t i = 0; i < def->n_precursors; i++)
        if (!state_ended(named[i]->row.state) && !smap_find(&seen, named[i]->row.name)) {
            struct str csid = str_dup(command->arena, named[i]->row.name);
            smap_put(&seen, csid, turn);
            *ARENA_PUSH(command->arena, list, n, cap) = csid;
        }
    while (lane && def->movetype != MOVE_RB && changeset_path_next(&paths, &path)) {
        struct changeset_file before;
        if (!changeset_near(turn->slice, lane->id, false, path, INT64_MAX, false, &before))
            continue;
        const struct node *node = slice_find(turn->slice, before.task);
        if (!node || smap_find(&seen, node->row.name))
            continue;
        struct str csid = str_dup(command->arena, node->row.name);
        smap_put(&seen, csid, turn);
        *ARENA_PUSH(command->arena, list, n, cap) = csid;
    }
    smap_release(&seen);
    command->out.changeset.precursors = list;
    command->out.changeset.n_precursors = n;
}

bool command_changeset(struct turn *turn, struct command *command)
{
    const struct changeset_def *def = &command->in.changeset.def;
    bool rollback = def->movetype == MOVE_RB;
    struct kept_answer kept = { 0 };
    turn_widen(turn); /* precursors are looked up in rows that no other turn may change meanwhile */
    if (turn->slice->failed)
        return true;
    if (idempotency_met(turn, command, &kept)) {
        const struct node *node = kept.n ? slice_find(turn->slice, kept.numbers[0]) : NULL;
        if (node)
            answer_fill(command, node, true);
        return true;
    }
    if ((!def->check && content_met(turn, command)) || turn->slice->failed || intake_closed(turn, command))
        return command->err.code == ERR_none;
    if (quota_tasks_refused(turn, command, 1) || quota_refused(turn, command, QUOTA_files, def->bytes) ||
        !target_check(turn, command, def->target) || csid_refused(turn, command))
        return false;
    struct node **depends = named_get(turn, command, def->depends, def->n_depends, depends_field(def));
    struct node **before = named_get(turn, command, def->precursors, def->n_precursors, "precursors");
    if (!depends || !before)
        return false;
    if (def->check) {
        check_fill(turn, command, before);
        command->status = 200;
        return true;
    }
    struct node *node = changeset_make(turn, command), *lost = NULL;
    if (rollback)
        undoes_set(turn, node, depends, def->n_depends);
    changeset_place(turn->slice, node);
    for (size_t i = 0; i < def->n_depends && !rollback; i++) {
        slice_edge_add(turn->slice, node, depends[i], EDGE_DEPENDS);
        if (!lost && dependency_lost(turn->slice, depends[i]))
            lost = depends[i];
    }
    for (size_t i = 0; i < def->n_precursors; i++)
        if (before[i] != node)
            slice_edge_add(turn->slice, node, before[i], EDGE_AFTER);
    if (lost) {
        task_pass_on(turn->slice, node, lost);
    } else {
        rollback_join(turn->slice, node);
        task_consider(turn->slice, node);
    }
    answer_fill(command, node, false);
    command->status = 202;
    idempotency_keep(turn, command, &node->row.id, 1);
    return true;
}

static void plan_fill(struct turn *turn, struct command *command, struct node *const *members,
    const struct rollback_place *places, size_t n)
{
    struct rollback_member *out = ARENA_ARRAY(command->arena, struct rollback_member, n + 1);
    for (size_t i = 0; i < n && !turn->slice->failed; i++) {
        const struct changeset *row = changeset_of(turn->slice, members[i]);
        if (!row)
            continue; /* the turn has failed */
        out[i] = (struct rollback_member){ .csid = str_dup(command->arena, row->csid),
            .submitter = str_dup(command->arena, row->submitter),
            .revision = str_dup(command->arena, row->revision),
            .task = members[i]->row.id,
            .rolled_back_by = row->rolled_back_by,
            .state = members[i]->row.state,
            .movetype = row->movetype,
            .rank = rollback_rank(turn->slice, members[i]),
            .named = places[i].named,
            .overlaps = places[i].overlaps,
            .parent = places[i].parent };
    }
    command->out.plan.members = out;
    command->out.plan.n = n;
}

/* The closure that the rollback would have if it was ready now. The rollback itself isn't made: its node is this
 * function's, and no list has it. */
bool command_rollback_plan(struct turn *turn, struct command *command)
{
    const struct changeset_def *def = &command->in.changeset.def;
    struct rollback_place *places = NULL;
    size_t n = 0, limit = turn->slice->rollback_limit;
    if (!target_check(turn, command, def->target))
        return turn->slice->failed;
    struct node **named = named_get(turn, command, def->depends, def->n_depends, depends_field(def));
    if (!named)
        return turn->slice->failed;
    struct changeset row = { .overlapping = def->overlapping, .movetype = MOVE_RB };
    struct node rollback = { .changeset = &row };
    undoes_set(turn, &rollback, named, def->n_depends);
    struct node **members = rollback_closure(turn->slice, &rollback, limit, &places, &n);
    command->out.plan.limit = limit;
    if (!turn->slice->failed)
        plan_fill(turn, command, members, places, n);
    command->status = 200;
    return true;
}

bool command_approve(struct turn *turn, struct command *command)
{
    struct node *node = changeset_task(turn, command->actor.tenant, command->in.approve.csid);
    turn_widen(turn);
    if (turn->slice->failed)
        return true;
    if (!node)
        return turn_refuse(
            turn, command, ERR_not_found, "there is no change set '%.*s'", STR_ARG(command->in.approve.csid));
    struct changeset *row = changeset_of(turn->slice, node);
    if (state_ended(node->row.state))
        return turn_refuse(turn, command, ERR_already_ended, "the change set %.*s is %s", STR_ARG(row->csid),
            state_word(node->row.state));
    command->status = 200;
    answer_fill(command, node, true);
    if (!(node->row.marks & MARK_UNAPPROVED))
        return true; /* it needs none, or has one */
    if (!turn->engine->site->changesets.self_approval && str_eq(row->submitter, command->actor.name))
        return turn_refuse(turn, command, ERR_forbidden,
            "%.*s has submitted it, and somebody else has to approve it (changesets.self_approval)",
            STR_ARG(row->submitter));
    row->ticket = command->in.approve.ticket;
    row->approver = command->actor.name;
    row->approved = turn->slice->stamp;
    changeset_touch(turn->slice, node);
    node->row.marks &= ~(unsigned)MARK_UNAPPROVED;
    slice_node_event(turn->slice, node, EVENT_approved, node->row.state, node->row.state,
        &(struct because){ .actor = command->actor.name, .reason = command->in.approve.ticket });
    task_consider(turn->slice, node);
    return true;
}

/* --- starting --- */

static bool is_running_rollback(struct turn *turn, int64_t task, int64_t lane)
{
    const struct node *node = slice_find(turn->slice, task);
    return node && node->row.lane == lane && node->row.state == STATE_X && node->row.marks & MARK_ROLLBACK;
}

/* Of a target of which one change set runs: is that a rollback? Looks at the grants of executors that take change sets,
 * and reads each grant's task once in its life. */
static bool rollback_runs(struct turn *turn, int64_t lane)
{
    for (size_t i = 0; i < turn->attempt_list.n; i++)
        if (turn->attempt_list.at[i]->is_new && is_running_rollback(turn, turn->attempt_list.at[i]->attempt.task, lane))
            return true;
    MAP_EACH (&turn->engine->cache->executors, e) {
        const struct known_executor *known = e->value;
        bool applies = known->row.kinds & 1U << KIND_APPLY;
        for (struct list_node *at = applies ? known->active_grants.first : NULL; at; at = at->next) {
            struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
            const struct node *node = live->lane ? NULL : slice_find(turn->slice, live->attempt.task);
            if (node) {
                live->lane = node->row.lane;
                live->rollback = node->row.marks & MARK_ROLLBACK;
            }
            if (live->rollback && live->lane == lane && is_running_rollback(turn, live->attempt.task, lane))
                return true;
        }
    }
    return false;
}

bool target_is_free(struct turn *turn, struct node *node, const struct target *target)
{
    int64_t running = slice_lane(turn->slice, node->row.lane)->counts[STATE_X];
    if (PLANT(target_unlimited))
        running = 0;
    if (running == 0)
        return true;
    if (!target->conf.independent || node->row.marks & MARK_ROLLBACK)
        return false;
    return running > 1 || !rollback_runs(turn, node->row.lane); /* a rollback runs alone */
}
