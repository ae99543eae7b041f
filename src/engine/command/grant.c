/* grant: a grant is made, rendered into the answer of a poll, and undone when a later poll says that it never arrived.
 */
#include <string.h>

#include "core/changeset.h"
#include "core/lease.h"
#include "core/rollback.h"
#include "engine/archives.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/targets.h"
#include "engine/tenants.h"
#include "store/row_copy.h"

/* How the last attempt of an ended task ended. For a done task its outcome says that, and no attempt is read. */
static void need_end(struct turn *turn, const struct task *row, struct need *need)
{
    need->exit = need->signal = -1;
    if (row->attempts == 0)
        return;
    if (row->state == STATE_D) {
        need->exit = row->outcome == OUTCOME_done ? 0 : -1;
        return;
    }
    const struct pending_attempt *last = attempt_find(turn, row->id, row->grant);
    if (!last)
        return;
    need->exit = last->attempt.exit;
    need->signal = last->attempt.signal;
}

/* grant_needs: states and outputs of the tasks that the task depends on; returns about how many bytes that is. */
static size_t grant_needs(struct turn *turn, struct command *poll, struct node *node, struct grant *grant)
{
    size_t n, bytes = 0;
    if (!(node->row.marks & MARK_NEEDS))
        return 0;
    struct edge *ins = slice_ins(turn->slice, node, &n);
    grant->needs = ARENA_ARRAY(poll->arena, struct need, n + 1);
    for (size_t i = 0; i < n; i++) {
        bool wanted = ins[i].kind == EDGE_DEPENDS || ins[i].flags & EDGE_NEEDED;
        struct node *pred = wanted ? slice_find(turn->slice, ins[i].pred) : NULL;
        if (!pred || (!(ins[i].flags & EDGE_NEEDED) && !(pred->row.marks & MARK_OUTPUTS)))
            continue;
        const struct lane *lane = slice_lane(turn->slice, pred->row.lane);
        struct need *need = &grant->needs[grant->n_needs++];
        *need = (struct need){ .task = pred->row,
            .lane_name = str_dup(poll->arena, lane->name),
            .lane_kind = lane->kind,
            .by_id = ins[i].flags & EDGE_BY_ID,
            .on_success = ins[i].kind == EDGE_DEPENDS,
            .left = bytes > NEEDS_BYTES_MAX };
        row_copy_task(poll->arena, &need->task);
        need_end(turn, &pred->row, need);
        struct str outputs = need->left ? (struct str){ 0 } : outputs_of(turn, &pred->row);
        need->left |= bytes + outputs.len > NEEDS_BYTES_MAX;
        if (!need->left)
            need->outputs = str_dup(poll->arena, outputs);
        bytes += NEED_BYTES + need->outputs.len;
    }
    return bytes;
}

static void grant_undoes(struct turn *turn, struct command *poll, struct node *node, struct grant *grant)
{
    size_t n;
    struct node **members = rollback_undoes(turn->slice, node, &n);
    grant->undoes = ARENA_ARRAY(poll->arena, struct undo, n + 1);
    for (size_t i = 0; i < n; i++) {
        const struct changeset *row = changeset_of(turn->slice, members[i]);
        if (row)
            grant->undoes[grant->n_undoes++] =
                (struct undo){ str_dup(poll->arena, row->csid), str_dup(poll->arena, row->revision) };
    }
}

static void grant_apply(struct turn *turn, struct command *poll, struct node *node, struct grant *grant)
{
    const struct changeset *row = changeset_of(turn->slice, node);
    struct target target;
    struct str why;
    struct arena *arena = poll->arena;
    if (!row || !target_of(turn, &node->row, &target, &why))
        return; /* the turn has failed; or an earlier grant is repeated whose target is gone: it is being cancelled */
    const struct archive *archive = target.archive;
    struct conf_target *conf = ARENA_NEW(arena, struct conf_target);
    conf_target_copy(arena, &target.conf, conf);
    grant->apply = ARENA_NEW(arena, struct grant_apply);
    *grant->apply = (struct grant_apply){ .target = conf->name,
        .csid = str_dup(arena, row->csid),
        .name = str_dup(arena, row->name),
        .movetype = row->movetype,
        .submitter = str_dup(arena, row->submitter),
        .ticket = str_dup(arena, row->ticket),
        .approver = str_dup(arena, row->approver),
        .approved = row->approved,
        .base = str_dup(arena, row->base),
        .archive = { conf->archive, str_dup(arena, archive->url), str_dup(arena, archive->branch), conf->path,
            archive->kind },
        .program = conf->apply,
        .n_program = conf->n_apply,
        .timeout_ms = conf->timeout_ms,
        .limits = turn->engine->site->changesets.limits,
        .look = (node->row.marks & MARK_LOOK) != 0 };
}

static void grant_render(struct turn *turn, struct command *poll, struct node *node)
{
    struct grant *grants = poll->out.poll.grants;
    size_t n = poll->out.poll.n_grants;
    if ((n & (n - 1)) == 0) { /* grows by doubling */
        struct grant *more = ARENA_ARRAY(poll->arena, struct grant, n ? n * 2 : 1);
        if (n)
            memcpy(more, grants, n * sizeof *more);
        poll->out.poll.grants = grants = more;
    }
    const struct spec *spec = slice_spec(turn->slice, node);
    const struct lane *lane = slice_lane(turn->slice, node->row.lane);
    struct grant *grant = &grants[poll->out.poll.n_grants++];
    *grant = (struct grant){ .task = node->row,
        .lane_name = str_dup(poll->arena, lane->name),
        .lane_kind = lane->kind,
        .fence = { turn->head.incarnation, node->row.id, node->row.grant },
        .body = str_dup(poll->arena, spec->body),
        .holds_slots = spec->n_slots > 0 || (node->row.marks & (MARK_LOCKED | MARK_CHANGESET)),
        .source = archive_source(turn, &node->row, poll->arena) };
    row_copy_task(poll->arena, &grant->task);
    if (node->row.marks & MARK_CHANGESET)
        grant_apply(turn, poll, node, grant);
    if (node->row.marks & MARK_ROLLBACK)
        grant_undoes(turn, poll, node, grant);
    poll->out.poll.grant_bytes += grant->body.len + grant_needs(turn, poll, node, grant);
}

void grant_make(struct turn *turn, struct known_executor *known, struct command *poll, struct node *node)
{
    struct task *row = &node->row;
    row->grant++;
    row->attempts++;
    if (row->vt > turn->slice->v_now && !(row->marks & MARK_CHANGESET)) /* of a change set it is its label */
        turn->slice->v_now = row->vt;
    row->unique = (struct str){ 0 }; /* it has started: its key is free for another task */
    if (row->marks & MARK_ROLLBACK)
        rollback_start(turn->slice, node);
    slice_move(turn->slice, node, STATE_X, &(struct because){ .actor = known->row.name });
    struct attempt attempt = { .task = row->id,
        .number = row->attempts,
        .grant = row->grant,
        .executor = known->row.id,
        .started = turn->slice->stamp,
        .poll_seq = poll->in.poll.seq,
        .exit = -1,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1 };
    struct pending_attempt *pending = attempt_change(turn, &attempt);
    pending->is_new = true;
    if (row->grant > 1) /* the log of an older attempt is closed */
        *ARRAY_ADD(turn->arena, turn->sealed) = (struct log_name){ row->id, row->grant - 1 };
    turn->n_granted++;
    grant_render(turn, poll, node);
}

/* The grant never reached its executor: all but its number is undone. */
static void grant_undo(
    struct turn *turn, const struct known_executor *known, struct node *node, const struct attempt *attempt)
{
    struct because because = { .actor = known->row.name, .reason = STR("the grant did not arrive") };
    attempt_change(turn, attempt)->removed = true;
    node->row.attempts--;
    const struct changeset *changeset = changeset_of(turn->slice, node);
    bool look = changeset && changeset->base.len && node->row.ending; /* of an attempt before this one */
    if (look || node->row.marks & MARK_LOOK)
        task_look(turn->slice, node, look ? node->row.ending : look_end(node), &because);
    else if (node->row.ending && node->row.ending != STATE_S)
        task_end(turn->slice, node, node->row.ending, OUTCOME_cancelled, &because);
    else
        task_return(turn->slice, node, &because);
    slice_settle(turn->slice);
}

/* See the head of poll.c. */
void grant_absent(struct turn *turn, struct known_executor *known, struct command *poll, struct active_grant *live)
{
    struct pending_attempt *changed = map_find(&turn->attempts, (uint64_t)live->attempt.task);
    const struct attempt *granted = active_grant_read(turn, live);
    const struct attempt *now = changed ? &changed->attempt : granted;
    enum absence absence = absence_of(poll->in.poll.seq, now->poll_seq, now->forgotten, live->named);
    struct node *node = absence == ABSENCE_NOTHING ? NULL : slice_find(turn->slice, live->attempt.task);
    /* it ended in this turn */
    if (!node || node->row.state != STATE_X || node->row.grant != live->attempt.grant)
        return;
    if (absence == ABSENCE_RESEND) {
        lease_renew(turn->engine, live, turn->boot);
        grant_render(turn, poll, node);
    } else if (absence == ABSENCE_REQUEUE) {
        grant_undo(turn, known, node, granted);
    } else {
        struct because because = { .actor = known->row.name, .reason = STR("its executor doesn't have it any more") };
        attempt_lost(turn, node, granted, &because);
    }
}
