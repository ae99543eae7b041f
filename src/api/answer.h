/* answer: what the API answers, written once: the members of each object, from which both its rendering and its schema
 * in the OpenAPI document come. To add a member: a row here.
 *
 * A list ANSWER_Name(X) has a row a member, in the order in which they are written:
 *   X(FIELD, name, type, value, says)            always there
 *   X(OPTIONAL, name, type, when, value, says)   only then
 *   X(PART, name, type, call, says)              `call` writes the value
 *   X(OPTIONAL_PART, name, type, when, call, says)
 *   X(SILENT_IF, name, type, when, value)        written then, but not in the document
 *   X(WITH, name, type, call)                    `call` writes this member, and those SPOKEN before it
 *   X(SPOKEN, name, type, says)                  in the document here; another row, or other code, writes it
 * Values and calls stand in terms of the function that renders; `json` is its writer. says: SAYS("a sentence") or NONE.
 *
 * A type is a pair: PUT_type writes a value, DOC_type is the schema. AS(type, "enum": [...]) is written as `type` and
 * has that schema. */
#ifndef WEIR_API_ANSWER_H
#define WEIR_API_ANSWER_H

#define PUT_INTEGER json_put_i64
#define PUT_TEXT json_put_str
#define PUT_WORD json_put_z
#define PUT_BOOLEAN json_put_bool
#define PUT_TRUE json_put_bool
#define PUT_TIME json_put_time
#define PUT_STATE render_state
#define PUT_OUTCOME json_put_z
#define PUT_KNOWN render_known
#define PUT_AS(type, ...) PUT_##type

#define RENDER(kind, ...) RENDER_##kind(__VA_ARGS__)
#define RENDER_FIELD(name, type, value, says) PUT_##type(json, #name, value);
#define RENDER_OPTIONAL(name, type, when, value, says) \
    if (when) \
        PUT_##type(json, #name, value);
#define RENDER_PART(name, type, call, says) \
    json_key(json, #name); \
    call;
#define RENDER_OPTIONAL_PART(name, type, when, call, says) \
    if (when) { \
        json_key(json, #name); \
        call; \
    }
#define RENDER_SILENT_IF(name, type, when, value) \
    if (when) \
        PUT_##type(json, #name, value);
#define RENDER_SPOKEN(name, type, says)
#define RENDER_WITH(name, type, call) call;
/* ANSWER_WRITE: an object with these members. */
#define ANSWER_WRITE(rows) \
    json_object_begin(json); \
    rows(RENDER) json_object_end(json)

/* --- tasks --- */

#define ANSWER_Key(X) \
    X(OPTIONAL, archive, TEXT, kind == LANE_ARCHIVE, lane_name, NONE) \
    X(OPTIONAL, rev, INTEGER, kind == LANE_ARCHIVE, task->rev, NONE) \
    X(OPTIONAL, queue, TEXT, kind != LANE_ARCHIVE, lane_name, NONE) \
    X(FIELD, name, TEXT, task->name, NONE) \
    X(OPTIONAL, variant, TEXT, task->variant.len > 0, task->variant, NONE) \
    X(OPTIONAL, run, INTEGER, task->run > 0, task->run, NONE)

#define ANSWER_Usage(X) \
    X(FIELD, cpu_ms, KNOWN, ended ? attempt->cpu_ms : -1, NONE) \
    X(FIELD, max_rss_bytes, KNOWN, ended ? attempt->max_rss_bytes : -1, NONE)

#define ANSWER_Attempt(X) \
    X(FIELD, number, INTEGER, attempt->number, NONE) \
    X(FIELD, executor, TEXT, executor, NONE) \
    X(FIELD, started, TIME, attempt->started, NONE) \
    X(FIELD, finished, TIME, attempt->finished, NONE) \
    X(FIELD, exit, KNOWN, ended ? attempt->exit : -1, NONE) \
    X(FIELD, signal, KNOWN, ended ? attempt->signal : -1, NONE) \
    X(PART, outcome, OUTCOME, outcome_render(json, attempt->outcome), NONE) \
    X(PART, usage, INSIDE(Usage), usage_render(json, attempt, ended), NONE) \
    X(FIELD, log_bytes, KNOWN, ended ? attempt->log_bytes : -1, NONE)

/* another task that one waits for or cancels */
#define ANSWER_Other(X) \
    X(FIELD, id, INTEGER, id, NONE) \
    X(PART, key, TEXT, other_key(api, json, edge, lane, id), NONE) \
    X(OPTIONAL, on, AS(WORD, "enum": ["success", "finished"]), on != NULL, on, NONE) \
    X(OPTIONAL, state, STATE, edge != NULL, edge->state, NONE)

/* what a new task has too, and what is written of it in ready-made text (plain_render) */
#define ANSWER_Task(X) \
    X(FIELD, id, INTEGER, task->id, NONE) \
    X(PART, key, REF(Key), key_render(json, shown->lane_name, shown->lane_kind, task), NONE) \
    X(FIELD, state, STATE, task->state, NONE) \
    X(FIELD, word, WORD, state_word(task->state), NONE) \
    X(OPTIONAL, ending, STATE, task->ending != STATE_NONE, task->ending, NONE) \
    X(OPTIONAL, outcome, OUTCOME, task->outcome != OUTCOME_none, outcome_name(task->outcome), NONE) \
    X(OPTIONAL, reason, TEXT, task->reason.len > 0, render_reason(api, task), NONE) \
    X(OPTIONAL_PART, cause, TEXT, task->cause > 0, json_key_text(api, json, 0, task->cause), NONE) \
    X(OPTIONAL, pruned, BOOLEAN, task->marks & MARK_PRUNED, true, SAYS("its logs, outputs and artifacts are gone")) \
    X(FIELD, priority, INTEGER, task->prio, NONE) \
    X(OPTIONAL, not_before, TIME, task->not_before > 0, task->not_before, NONE) \
    X(OPTIONAL, unique, TEXT, task->unique.len > 0, task->unique, NONE) \
    X(SPOKEN, existing, TRUE, \
        SAYS("in the answer to a post: it was there already and has the unique key; nothing was made")) \
    X(FIELD, created, TIME, task->created, NONE) \
    X(FIELD, ready, TIME, task->ready, NONE) \
    X(FIELD, started, TIME, task->started, NONE) \
    X(FIELD, finished, TIME, task->finished, NONE) \
    X(PART, attempts, LIST(Attempt), attempts_render(json, shown->view), NONE) \
    X(PART, depends, LIST(Other), others_render(api, json, shown, EDGE_DEPENDS, "success"), NONE) \
    X(PART, after, LIST(Other), others_render(api, json, shown, EDGE_AFTER, "finished"), NONE) \
    X(PART, cancels, LIST(Other), others_render(api, json, shown, EDGE_CANCELS, NULL), NONE) \
    X(PART, outputs, MAP_OF_TEXT, json_raw(json, outputs.len > 0 ? outputs : STR("{}")), NONE) \
    X(OPTIONAL_PART, artifacts, LIST(Artifact), artifacts.len > 0, json_raw(json, artifacts), SAYS("absent: none")) \
    X(OPTIONAL_PART, spec, OBJECT, shown->spec.len > 0, json_raw(json, shown->spec), \
        SAYS("what the executor is told")) \
    X(SILENT_IF, existing, TRUE, shown->existing, true)

#define ANSWER_Event(X) \
    X(FIELD, seq, INTEGER, event->seq, NONE) \
    X(FIELD, time, TIME, event->time, NONE) \
    X(FIELD, kind, WORD, event_kind_name(event->kind), NONE) \
    X(OPTIONAL, task, INTEGER, event->task > 0, event->task, NONE) \
    X(OPTIONAL_PART, key, TEXT, event->task > 0, json_key_text(api, json, event->lane, event->task), NONE) \
    X(OPTIONAL, from, STATE, moves && event->from != STATE_NONE, event->from, NONE) \
    X(OPTIONAL, to, STATE, moves && event->to != STATE_NONE, event->to, NONE) \
    X(OPTIONAL, ending, STATE, event->kind == EVENT_ending, event->to, NONE) \
    X(OPTIONAL, attempt, INTEGER, event->attempt > 0, event->attempt, NONE) \
    X(OPTIONAL, fence, WORD, event->grant > 0 && event->task > 0, \
        whole ? fence_seal(&api->fence_key, fence).z : fence_format(fence).z, NONE) \
    X(OPTIONAL, subject, TEXT, event->subject.len > 0, subject_shown(event, call->actor.tenant), NONE) \
    X(FIELD, actor, TEXT, event->actor, NONE) \
    X(OPTIONAL_PART, cause, TEXT, event->cause > 0, json_key_text(api, json, 0, event->cause), NONE) \
    X(OPTIONAL, reason, TEXT, event->reason.len > 0, event->reason, NONE)

#define ANSWER_Condition(X) \
    X(FIELD, kind, \
        AS(WORD, "enum": ["dependency", "precursor", "gap", "lock", "semaphore", "freeze", "window", "rollback", \
            "not_before", \
            "blocked_by", "concurrency", "collapse", "approval", "pause", "executor", "quota"]), \
        condition->kind, NONE) \
    X(FIELD, detail, TEXT, condition->detail, NONE) \
    X(OPTIONAL, holder, TEXT, condition->holder.len > 0, condition->holder, NONE) \
    X(FIELD, since, TIME, condition->since, NONE) \
    X(OPTIONAL, until, TIME, condition->until > 0, condition->until, NONE) \
    X(OPTIONAL, remedy, TEXT, condition->remedy.len > 0, condition->remedy, NONE)

#define ANSWER_Why(X) \
    X(FIELD, id, INTEGER, task->id, NONE) \
    X(FIELD, key, TEXT, buf_str(&api->scratch), NONE) \
    X(FIELD, state, STATE, task->state, NONE) \
    X(FIELD, verdict, AS(WORD, "enum": ["running", "ended", "waiting", "never"]), verdicts[why->verdict], NONE) \
    X(OPTIONAL, reason, TEXT, task->reason.len > 0, render_reason(api, task), NONE) \
    X(OPTIONAL_PART, cause, TEXT, task->cause > 0, json_key_text(api, json, 0, task->cause), NONE) \
    X(PART, conditions, EACH(Condition, "kind", "detail"), conditions_render(json, why), NONE)

/* --- executors --- */

#define ANSWER_Executor(X) \
    X(FIELD, id, INTEGER, executor->id, NONE) \
    X(FIELD, name, TEXT, executor->name, NONE) \
    X(FIELD, host, TEXT, executor->host, NONE) \
    X(FIELD, version, TEXT, executor->version, NONE) \
    X(FIELD, state, AS(WORD, "enum": ["active", "paused", "draining", "lost"]), state, NONE) \
    X(FIELD, slots, INTEGER, executor->slots, NONE) \
    X(FIELD, running, INTEGER, live != NULL ? live->running : 0, NONE) \
    X(FIELD, free, INTEGER, live != NULL ? live->free : 0, NONE) \
    X(FIELD, zone, TEXT, executor->zone, NONE) \
    X(SILENT_IF, tenant, TEXT, executor->tenant.len > 0, executor->tenant) \
    X(PART, labels, OBJECT, labels_render(json, executor), NONE) \
    X(PART, kinds, ARRAY, kinds_render(json, executor), NONE) \
    X(FIELD, registered, TIME, executor->registered, NONE) \
    X(FIELD, processed, INTEGER, executor->processed, NONE) \
    X(FIELD, failed, INTEGER, executor->failed, NONE)

#define ANSWER_Registration(X) \
    X(FIELD, id, INTEGER, call->command.out.reg.id, NONE) \
    X(FIELD, lease_ms, INTEGER, call->command.out.reg.lease_ms, NONE)

#define ANSWER_FinishResult(X) \
    X(FIELD, task, INTEGER, item->task, NONE) \
    X(FIELD, status, INTEGER, err_http(item->code), NONE) \
    X(OPTIONAL, code, WORD, item->code != ERR_none, err_name(item->code), NONE)

#define ANSWER_LogPosition(X) \
    X(FIELD, stored, INTEGER, position->stored, NONE) \
    X(FIELD, durable, INTEGER, position->durable, NONE)

#define ANSWER_Artifact(X) \
    X(FIELD, name, TEXT, name, NONE) \
    X(FIELD, bytes, INTEGER, bytes, NONE) \
    X(FIELD, sha256, AS(TEXT, "type": "string", "pattern": "^[0-9a-f]{64}$"), hex, NONE) \
    X(OPTIONAL, mode, AS(TEXT, "enum": ["0644", "0755"], "default": "0644"), mode.len > 0, mode, NONE)

/* --- the site --- */

#define ANSWER_Counts(X) \
    X(FIELD, processed, INTEGER, counts->processed, NONE) \
    X(FIELD, failed, INTEGER, counts->failed, NONE) \
    X(FIELD, queued, INTEGER, counts->queued, NONE) \
    X(FIELD, working, INTEGER, counts->working, NONE) \
    X(OPTIONAL, terminated, INTEGER, of_queue, counts->terminated, SAYS("of queues")) \
    X(OPTIONAL, abandoned, INTEGER, of_queue, counts->abandoned, SAYS("of queues"))

#define ANSWER_Lane(X) \
    X(FIELD, name, TEXT, lane->id == 0 ? STR("all") : lane->name, NONE) \
    X(FIELD, kind, AS(WORD, "enum": ["queue", "archive", "all"]), \
        lane->id == 0 ? "all" : lane->kind == LANE_ARCHIVE ? "archive" : "queue", NONE) \
    X(OPTIONAL, removed, BOOLEAN, removed, true, SAYS("an archive that was removed, with tasks that haven't ended")) \
    ANSWER_LaneState(X)
/* what an archive has too */
#define ANSWER_LaneState(X) \
    X(FIELD, paused, BOOLEAN, lane->paused_since > 0, NONE) \
    X(OPTIONAL, paused_since, TIME, lane->paused_since > 0, lane->paused_since, NONE) \
    X(OPTIONAL, paused_by, TEXT, lane->paused_since > 0, lane->paused_by, NONE) \
    X(OPTIONAL, reason, TEXT, lane->paused_since > 0, lane->paused_reason, NONE) \
    X(OPTIONAL_PART, counts, OBJECT, lane->id != 0, counts_render(json, lane), NONE)

#define ANSWER_Token(X) \
    X(SILENT_IF, id, INTEGER, token->id > 0, token->id) \
    ANSWER_TokenGiven(X) \
    X(SPOKEN, revoked, BOOLEAN, NONE)
#define ANSWER_TokenGiven(X) \
    X(FIELD, name, TEXT, token->name, NONE) \
    X(PART, scopes, TEXTS, scopes_render(json, token->scopes), NONE) \
    X(FIELD, tenant, TEXT, token->tenant, NONE) \
    X(FIELD, created, TIME, token->created, NONE) \
    X(FIELD, expires, TIME, token->expires, NONE)
#define ANSWER_NewTokenAnswer(X) \
    X(FIELD, token, TEXT, text, SAYS("shown once; again only to the same Idempotency-Key and body")) \
    ANSWER_TokenGiven(X)

#define ANSWER_ConfigKey(X) \
    X(FIELD, name, AS(TEXT, "enum": ["semaphores", "tenants", "retention"]), key->name, NONE) \
    X(FIELD, version, INTEGER, key->version, SAYS("0: nobody has said it yet")) \
    X(FIELD, changed, TIME, key->changed, NONE) \
    X(OPTIONAL, changed_by, TEXT, key->version > 0, key->changed_by, NONE) \
    X(PART, value, OBJECT, json_raw(json, key->body), NONE)

#define ANSWER_Head(X) \
    X(FIELD, seq, INTEGER, report->head_seq, NONE) \
    X(FIELD, hash, WORD, store_hash_format(report->head_hash).z, NONE)

#define ANSWER_VerifyReport(X) \
    X(FIELD, ok, BOOLEAN, report->ok, NONE) \
    X(FIELD, turns, INTEGER, report->turns, NONE) \
    X(FIELD, events, INTEGER, report->events, NONE) \
    X(FIELD, tasks, INTEGER, report->tasks, NONE) \
    X(PART, head, INSIDE(Head), head_render(json, report), NONE) \
    X(OPTIONAL, database, WORD, report->database[0] != '\0', report->database, \
        SAYS("what its own check came to, or why there was none")) \
    X(OPTIONAL, logs, INTEGER, whole, report->logs, NONE) \
    X(OPTIONAL, log_bytes, INTEGER, whole, report->log_bytes, NONE) \
    X(OPTIONAL, logs_unnoted, INTEGER, whole, report->logs_unnoted, \
        SAYS("logs whose hash isn't noted (just sealed, still open, or of an older version): read, not compared")) \
    X(OPTIONAL, logs_short, INTEGER, whole, report->logs_short, SAYS("logs with fewer bytes than were reported")) \
    X(OPTIONAL, log_missing, WORD, whole && report->logs_short > 0, report->log_missing, SAYS("the first of them")) \
    X(OPTIONAL, files, INTEGER, whole, report->files, SAYS("kept files, hashed again")) \
    X(OPTIONAL, file_bytes, INTEGER, whole, report->file_bytes, NONE) \
    X(OPTIONAL, fault, WORD, !report->ok, report->fault, NONE)

#define ANSWER_PruneAnswer(X) \
    X(FIELD, tasks, INTEGER, prune->tasks, NONE) \
    X(FIELD, log_bytes, INTEGER, prune->log_bytes, NONE) \
    X(FIELD, before, TIME, prune->before, NONE) \
    X(FIELD, dry_run, BOOLEAN, prune->dry_run, NONE)

#define ANSWER_BackupAnswer(X) \
    X(FIELD, file, WORD, state->file, NONE) \
    X(FIELD, without_artifacts, BOOLEAN, state->facts.without_artifacts, NONE) \
    X(FIELD, artifacts, INTEGER, state->facts.artifacts, SAYS("kept files that are in it")) \
    X(FIELD, artifacts_missing, INTEGER, state->facts.missing, SAYS("files that tasks list and that aren't in it"))

/* --- archives --- */

#define ANSWER_Watch(X) \
    X(FIELD, state, AS(WORD, "enum": ["ok", "behind", "fault"]), watch_state_name(status->state), NONE) \
    X(OPTIONAL, fault, WORD, said && status->state == WATCH_FAULT, status->text, NONE) \
    X(OPTIONAL, detail, WORD, said && status->state != WATCH_FAULT, status->text, NONE) \
    X(FIELD, since, TIME, status->since, NONE) \
    X(FIELD, looked, TIME, status->looked, NONE) \
    X(OPTIONAL, youngest, INTEGER, status->youngest >= 0, status->youngest, NONE) \
    X(OPTIONAL, tip, WORD, status->tip[0] != '\0', status->tip, NONE)

#define ANSWER_Schedule(X) \
    X(FIELD, task, TEXT, schedule->task, NONE) \
    X(FIELD, next, TIME, schedule->next, NONE) \
    X(FIELD, cron, TEXT, schedule->cron, NONE) \
    X(OPTIONAL, tz, TEXT, schedule->timezone.len > 0, schedule->timezone, NONE)

#define ANSWER_Archive(X) \
    X(FIELD, name, TEXT, lane->name, NONE) \
    X(FIELD, kind, AS(WORD, "enum": ["svn", "git", "external"]), archive_kind_name(archive->kind), NONE) \
    X(OPTIONAL, url, TEXT, archive->url.len > 0, archive->url, NONE) \
    X(OPTIONAL, branch, TEXT, archive->branch.len > 0, archive->branch, NONE) \
    X(FIELD, added, TIME, archive->added, NONE) \
    X(FIELD, from, INTEGER, archive->first, NONE) \
    X(FIELD, next, INTEGER, archive->next, SAYS("the first revision that isn't initialised")) \
    X(FIELD, youngest, KNOWN, archive->youngest > 0 ? archive->youngest : -1, NONE) \
    X(OPTIONAL, missing, INTEGER, missing > 0, missing, SAYS("the revision that those behind it wait for")) \
    X(OPTIONAL, tip, TEXT, archive->tip.len > 0, archive->tip, NONE) \
    X(OPTIONAL_PART, watch, INSIDE(Watch), followed, watcher_render(json, &status), NONE) \
    X(OPTIONAL, notify, WORD, followed && watch_notify_path(watch) != NULL, watch_notify_path(watch), \
        SAYS("the socket that hooks write to")) \
    X(SPOKEN, paused, BOOLEAN, NONE) /* these by render_lane */ \
    X(SPOKEN, paused_since, TIME, NONE) \
    X(SPOKEN, paused_by, TEXT, NONE) \
    X(SPOKEN, reason, TEXT, NONE) \
    X(WITH, counts, OBJECT, render_lane(json, lane)) \
    X(PART, schedules, EVERY(Schedule), schedules_render(json, schedules, n_schedules), NONE)

#define ANSWER_ArchiveRemoved(X) \
    X(FIELD, name, TEXT, call->command.in.archive.name, NONE) \
    X(FIELD, removed, TRUE, true, NONE)

#endif
