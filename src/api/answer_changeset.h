/* answer_changeset: what the API answers about change sets: lists as those of answer.h, which includes this file. */
#ifndef WEIR_API_ANSWER_CHANGESET_H
#define WEIR_API_ANSWER_CHANGESET_H

#define ANSWER_ChangesetAccepted(X) \
    X(FIELD, csid, TEXT, csid, NONE) \
    X(FIELD, name, TEXT, name, SAYS("of its file, in the order of the queue")) \
    X(FIELD, task, INTEGER, submission->task, NONE) \
    X(FIELD, state, STATE, submission->state, NONE)

#define ANSWER_Conflict(X) \
    X(OPTIONAL, path, TEXT, conflict->path.len > 0, conflict->path, NONE) \
    X(OPTIONAL, first_line, INTEGER, conflict->first_line > 0, conflict->first_line, NONE) \
    X(OPTIONAL, last_line, INTEGER, conflict->last_line > 0, conflict->last_line, NONE) \
    X(OPTIONAL, revision, TEXT, conflict->revision.len > 0, conflict->revision, SAYS("that is in the way")) \
    X(OPTIONAL, csid, TEXT, conflict->csid.len > 0, conflict->csid, SAYS("the change set that became it")) \
    X(FIELD, message, TEXT, conflict->text, NONE)

#define ANSWER_ChangesetChecked(X) \
    X(FIELD, target, TEXT, def->target, NONE) \
    X(FIELD, movetype, WORD, movetype_name(def->movetype), NONE) \
    X(EACH, precursors, TEXTS, n_precursors, json_str(json, precursors[i]), SAYS("CSIDs that it would wait for")) \
    X(EACH, conflicts, EVERY(Conflict), submission->n_conflicts, conflict_render(json, &submission->conflicts[i]), \
        SAYS("what is in its way in the repository now, at most 100")) \
    X(FIELD, looked, BOOLEAN, submission->looked, \
        SAYS("false: the target has no repository that this server can look into now")) \
    X(OPTIONAL, unlooked, WORD, !submission->looked && submission->err.text[0] != '\0', submission->err.text, \
        SAYS("why not"))

#define ANSWER_HistoryEntry(X) \
    X(FIELD, time, TIME, event->time, NONE) \
    X(FIELD, kind, AS(WORD, "enum": ["created", "move", "approved"]), event_kind_name(event->kind), NONE) \
    X(FIELD, state, STATE, event->to, SAYS("the state that it had from then on")) \
    X(FIELD, actor, TEXT, event->actor, NONE) \
    X(OPTIONAL, reason, TEXT, event->reason.len > 0, event->reason, SAYS("of an approval: the ticket"))

#define ANSWER_Changeset(X) \
    X(FIELD, csid, TEXT, row->csid, NONE) \
    X(FIELD, name, TEXT, row->name, SAYS("of its tarball and of its job file")) \
    X(FIELD, state, STATE, view->task.state, NONE) \
    X(FIELD, movetype, MOVETYPE, movetype_name(row->movetype), NONE) \
    X(FIELD, target, TEXT, target_name(view->lane_name), NONE) \
    X(PART, files, TEXTS, paths_render(json, row->files), SAYS("that it adds or changes")) \
    X(PART, removed, TEXTS, paths_render(json, row->removed), NONE) \
    X(PART, dependencies, TEXTS, dependencies_render(call, json, row, view), \
        SAYS("CSIDs; of a rollback those that it is to undo, and once it is done those that it has undone")) \
    X(PART, precursors, TEXTS, names_render(json, view, EDGE_AFTER), NONE) \
    X(FIELD, approval, TEXT_OR_NULL, row->ticket, SAYS("the ticket; null: none")) \
    X(FIELD, submitter, TEXT, row->submitter, NONE) \
    X(FIELD, revision, TEXT_OR_NULL, row->revision, SAYS("that it became; null: it isn't applied")) \
    X(FIELD, rolled_back_by, TEXT_OR_NULL, undone_by, SAYS("the CSID of the rollback; its state stays D")) \
    X(FIELD, reason, TEXT_OR_NULL, render_reason(call->api, &view->task), NONE) \
    X(PART, history, EVERY(HistoryEntry), history_render(json, events, n_events), \
        SAYS("oldest first; of very many the newest"))

/* in lists, without its paths; position below 1: it has none there */
#define ANSWER_ChangesetEntry(X) \
    X(OPTIONAL, position, INTEGER, position > 0, position, SAYS("in its target's queue: 1 is the next to start")) \
    X(FIELD, csid, TEXT, view->changeset.csid, NONE) \
    X(FIELD, name, TEXT, view->changeset.name, NONE) \
    X(FIELD, task, INTEGER, view->task.id, NONE) \
    X(FIELD, state, STATE, view->task.state, NONE) \
    X(FIELD, word, WORD, state_word(view->task.state), NONE) \
    X(FIELD, movetype, MOVETYPE, movetype_name(view->changeset.movetype), NONE) \
    X(FIELD, target, TEXT, target_name(view->lane_name), NONE) \
    X(FIELD, priority, INTEGER, view->task.prio, NONE) \
    X(FIELD, approval, TEXT_OR_NULL, view->changeset.ticket, NONE) \
    X(FIELD, submitter, TEXT, view->changeset.submitter, NONE) \
    X(FIELD, revision, TEXT_OR_NULL, view->changeset.revision, NONE) \
    X(FIELD, rolled_back_by, TEXT_OR_NULL, \
        changeset_csid(call->api, &call->arena, view->changeset.rolled_back_by), NONE) \
    X(FIELD, reason, TEXT_OR_NULL, render_reason(call->api, &view->task), NONE) \
    X(FIELD, created, TIME, view->task.created, NONE) \
    X(FIELD, started, TIME, view->task.started, NONE) \
    X(FIELD, finished, TIME, view->task.finished, NONE)

#define ANSWER_ChangesetList(X) \
    X(EACH, changesets, LIST(ChangesetEntry), n, render_changeset(call, json, &views[i], 0), NONE) \
    ANSWER_Next(X)

#define ANSWER_ChangesetDeps(X) \
    X(FIELD, csid, TEXT, call->arg, NONE) \
    X(EACH, deps, TEXTS, links.n, json_str(json, links.edges[i].name), SAYS("CSIDs, oldest first")) \
    X(FIELD, truncated, BOOLEAN, links.truncated, NONE)
#define ANSWER_ChangesetSupports(X) \
    X(FIELD, csid, TEXT, call->arg, NONE) \
    X(EACH, supports, TEXTS, links.n, json_str(json, links.edges[i].name), SAYS("CSIDs, oldest first")) \
    X(FIELD, truncated, BOOLEAN, links.truncated, SAYS("there are more than these"))

#define ANSWER_RollbackMember(X) \
    X(FIELD, csid, TEXT, member->csid, NONE) \
    X(FIELD, because, TEXT_OR_NULL, parent != NULL ? parent->csid : (struct str){ 0 }, \
        SAYS("the member that it depends on; null: the call names it")) \
    X(FIELD, depth, INTEGER, (int64_t)depth, SAYS("in the tree; 0: the call names it")) \
    X(FIELD, overlaps, BOOLEAN, member->overlaps, SAYS("it doesn't depend on that one, but has a file of it")) \
    X(FIELD, state, STATE, member->state, NONE) \
    X(FIELD, word, WORD, state_word(member->state), NONE) \
    X(FIELD, movetype, MOVETYPE, movetype_name(member->movetype), NONE) \
    X(FIELD, submitter, TEXT, member->submitter, NONE) \
    X(FIELD, revision, TEXT_OR_NULL, member->revision, NONE) \
    X(FIELD, rolled_back_by, TEXT_OR_NULL, \
        changeset_csid(call->api, &call->arena, member->rolled_back_by), NONE) \
    X(FIELD, action, AS(WORD, "enum": ["undo", "stop", "abandon", "none"]), \
        member->rank < 0 ? "none" : actions[member->rank], \
        SAYS("undo: it is applied; stop: it runs, and is stopped first; abandon: it waits"))

#define ANSWER_RollbackPlan(X) \
    X(FIELD, dry_run, TRUE, true, NONE) \
    X(FIELD, target, TEXT, command->in.changeset.def.target, NONE) \
    X(FIELD, limit, INTEGER, (int64_t)limit, SAYS("changesets.rollback_limit")) \
    X(FIELD, exceeded, BOOLEAN, exceeded, SAYS("there are more members than that: the rollback would fail")) \
    X(EACH, members, EVERY(RollbackMember), plan.n, plan_row_render(call, json, &plan, i), \
        SAYS("a tree, each behind its parent; when the limit is exceeded, not all"))

#define ANSWER_TargetQueue(X) \
    X(FIELD, target, TEXT, target, NONE) \
    X(FIELD, paused, BOOLEAN, lane->paused_since > 0, NONE) \
    X(OPTIONAL, paused_since, TIME, lane->paused_since > 0, lane->paused_since, NONE) \
    X(OPTIONAL, paused_by, TEXT, lane->paused_since > 0, lane->paused_by, NONE) \
    X(OPTIONAL, reason, TEXT, lane->paused_since > 0, lane->paused_reason, NONE) \
    X(PART, counts, OBJECT, render_counts(json, lane), SAYS("of all of its change sets, by state")) \
    X(EACH, queue, LIST(ChangesetEntry), end - begin, good = good && entry_render(call, json, queue, begin + i), \
        SAYS("what is being applied (without a position), then what waits, in the order of the starts")) \
    X(FIELD, truncated, BOOLEAN, queue->truncated, SAYS("it is too long to be looked at whole")) \
    ANSWER_Next(X)

#define ANSWER_ReportRow(X) \
    X(OPTIONAL, target, TEXT, row->by[BY_TARGET].len > 0, row->by[BY_TARGET], NONE) \
    X(OPTIONAL, type, TEXT, row->by[BY_TYPE].len > 0, row->by[BY_TYPE], NONE) \
    X(OPTIONAL, submitter, TEXT, row->by[BY_SUBMITTER].len > 0, row->by[BY_SUBMITTER], NONE) \
    X(OPTIONAL, day, TEXT, row->by[BY_DAY].len > 0, row->by[BY_DAY], SAYS("of its arrival, UTC")) \
    X(FIELD, changesets, INTEGER, row->n, SAYS("the sum of these:")) \
    X(FIELD, submitted, INTEGER, row->counts[SUBMITTED], SAYS("Q")) \
    X(FIELD, in_progress, INTEGER, row->counts[IN_PROGRESS], SAYS("S, P and X")) \
    X(FIELD, applied, INTEGER, row->counts[APPLIED], SAYS("D, and not rolled back")) \
    X(FIELD, failed, INTEGER, row->counts[FAILED], SAYS("F")) \
    X(FIELD, terminated, INTEGER, row->counts[TERMINATED], SAYS("T")) \
    X(FIELD, abandoned, INTEGER, row->counts[ABANDONED], SAYS("A")) \
    X(FIELD, rolled_back, INTEGER, row->counts[ROLLED_BACK], SAYS("D, with rolled_back_by")) \
    X(FIELD, waiting_median_ms, KNOWN, row->median, SAYS("from arrival to start; null: none was started")) \
    X(FIELD, waiting_p95_ms, KNOWN, row->p95, NONE)

#define ANSWER_Report(X) \
    X(FIELD, from, TIME, report->from, NONE) \
    X(FIELD, until, TIME, report->until, NONE) \
    X(PART, total, INSIDE(ReportRow), row_render(json, &report->total), NONE) \
    X(EACH, rows, EVERY(ReportRow), report->n, row_render(json, report->sorted[i]), NONE) \
    X(FIELD, truncated, BOOLEAN, report->truncated, SAYS("the oldest, or some groups, are left out"))

/* of ANSWERS */
#define ANSWERS_CHANGESET(SHARED, NESTED) \
    SHARED(ChangesetAccepted, REQUIRED("csid", "name", "task", "state")) \
    NESTED(Conflict, REQUIRED("message")) \
    SHARED(ChangesetChecked, REQUIRED("target", "movetype", "precursors", "conflicts", "looked")) \
    NESTED(HistoryEntry, NONE) \
    SHARED(Changeset, REQUIRED("csid", "name", "state", "movetype", "target", "files", "removed", "dependencies", \
                          "precursors", "approval", "submitter", "revision", "rolled_back_by", "reason", "history")) \
    SHARED(ChangesetEntry, REQUIRED("csid", "state", "movetype", "target")) \
    SHARED(ChangesetList, REQUIRED("changesets", "next")) \
    NESTED(RollbackMember, REQUIRED("csid", "state", "action")) \
    SHARED(RollbackPlan, REQUIRED("members", "limit", "exceeded")) \
    SHARED(TargetQueue, REQUIRED("target", "paused", "counts", "queue", "next")) \
    NESTED(ReportRow, NONE) \
    SHARED(Report, REQUIRED("total", "rows")) \
    SHARED(ChangesetDeps, REQUIRED("csid", "deps")) \
    SHARED(ChangesetSupports, REQUIRED("csid", "supports"))

#endif
