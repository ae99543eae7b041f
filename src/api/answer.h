/* answer: what the API answers, written once: the members of each object, from which both its rendering and its schema
 * in the OpenAPI document come. To add a member: a row here. To add an object: its list, and a row of ANSWERS below.
 *
 * A list ANSWER_Name(X) has a row for each member, in the order in which they are written:
 *   X(FIELD, name, type, value, says)                  always there
 *   X(OPTIONAL, name, type, when, value, says)         only if `when`
 *   X(PART, name, type, call, says)                    `call` writes the value
 *   X(OPTIONAL_PART, name, type, when, call, says)
 *   X(EACH, name, type, n, call, says)                 an array of n items; `call` writes item i
 *   X(OPTIONAL_EACH, name, type, when, n, call, says)
 *   X(UNDOCUMENTED, name, type, when, value)           written if `when`, but not in the document
 *   X(DOCUMENTED, name, type, says)                    in the document here; another list writes it
 * Values and calls use the variables of the function that renders; `json` is its writer. says: SAYS("a sentence") or
 * NONE.
 *
 * A type is a pair: PUT_type writes a value (a PART or EACH needs none), DOC_type in openapi.c is the schema.
 * AS(type, "enum": [...]) is written as `type` and has that schema. */
#ifndef WEIR_API_ANSWER_H
#define WEIR_API_ANSWER_H

#define PUT_INTEGER json_put_i64
#define PUT_NUMBER render_number
#define PUT_TEXT json_put_str
#define PUT_TEXT_OR_NULL render_text_or_null
#define PUT_WORD json_put_z
#define PUT_PLAIN render_plain
#define PUT_BOOLEAN json_put_bool
#define PUT_TRUE json_put_bool
#define PUT_TIME json_put_time
#define PUT_STATE render_state
#define PUT_OUTCOME render_outcome
#define PUT_MOVETYPE json_put_z
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
#define RENDER_EACH(name, type, n, call, says) \
    json_key(json, #name); \
    json_array_begin(json); \
    for (size_t i = 0; i < (n); i++) { \
        call; \
    } \
    json_array_end(json);
#define RENDER_OPTIONAL_EACH(name, type, when, n, call, says) \
    if (when) { \
        RENDER_EACH(name, type, n, call, says) \
    }
#define RENDER_UNDOCUMENTED(name, type, when, value) \
    if (when) \
        PUT_##type(json, #name, value);
#define RENDER_DOCUMENTED(name, type, says)
/* ANSWER_WRITE: an object with these members. ANSWER_CALL: the same as the answer to `call`; ANSWER_RETURN: as the last
 * thing that a handler does. */
#define ANSWER_WRITE(rows) \
    json_object_begin(json); \
    rows(RENDER) json_object_end(json)
/* RENDERER: a function that writes such an object from its parameters; RENDERER_SHARED: for other files too. */
#define RENDERER_SHARED(name, object, ...) \
    void name(__VA_ARGS__) \
    { \
        ANSWER_WRITE(ANSWER_##object); \
    }
#define RENDERER(name, object, ...) static RENDERER_SHARED(name, object, __VA_ARGS__)
#define ANSWER_CALL(status, rows) \
    do { \
        struct json answer_json = json_to(&call->out), *json = &answer_json; \
        ANSWER_WRITE(rows); \
        call_answer(call, status); \
    } while (0)
#define ANSWER_RETURN(status, rows) \
    struct json answer_json = json_to(&call->out), *json = &answer_json; \
    ANSWER_WRITE(rows); \
    return call_answer(call, status)

/* --- of all --- */

#define ANSWER_Fault(X) \
    X(FIELD, path, TEXT, item->path, SAYS("JSON pointer, or the name of a parameter or header")) \
    X(OPTIONAL, file, TEXT, item->file.len > 0, item->file, NONE) \
    X(OPTIONAL, line, INTEGER, item->line > 0, item->line, NONE) \
    X(OPTIONAL, column, INTEGER, item->line > 0, item->column, NONE) \
    X(FIELD, message, TEXT, item->message, NONE) \
    X(OPTIONAL, suggestion, TEXT, item->suggestion.len > 0, item->suggestion, NONE)

#define ANSWER_Problem(X) \
    X(FIELD, type, WORD, type, NONE) \
    X(FIELD, title, WORD, err_title(err->code), NONE) \
    X(FIELD, status, INTEGER, err_http(err->code), NONE) \
    X(FIELD, detail, WORD, err->text[0] != '\0' ? err->text : err_title(err->code), NONE) \
    X(FIELD, code, WORD, err_name(err->code), NONE) \
    X(OPTIONAL, expected, INTEGER, err->code == ERR_log_gap, err->expected, SAYS("log_gap: the offset wanted")) \
    X(OPTIONAL_EACH, errors, EVERY(Fault), err->n_items > 0, err->n_items, fault_render(json, &err->items[i]), NONE)

/* what ends a list: the cursor of its next page; null: this was the last one */
#define ANSWER_Next(X) X(FIELD, next, TEXT_OR_NULL, next, NONE)

/* --- tasks --- */

#define ANSWER_Key(X) \
    X(OPTIONAL, archive, TEXT, kind == LANE_ARCHIVE, lane_name, NONE) \
    X(OPTIONAL, rev, INTEGER, kind == LANE_ARCHIVE, task->rev, NONE) \
    X(OPTIONAL, queue, TEXT, kind == LANE_QUEUE, lane_name, NONE) \
    X(OPTIONAL, target, TEXT, kind == LANE_TARGET, target_name(lane_name), SAYS("of a change set: name is its CSID")) \
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
    X(FIELD, outcome, OUTCOME, attempt->outcome, NONE) \
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
    X(PART, key, REF(Key), render_key(json, shown->lane_name, shown->lane_kind, task), NONE) \
    X(OPTIONAL, csid, TEXT, shown->lane_kind == LANE_TARGET, task->name, SAYS("of a change set")) \
    X(FIELD, state, STATE, task->state, NONE) \
    X(FIELD, word, WORD, state_word(task->state), NONE) \
    X(OPTIONAL, ending, STATE, task->ending != STATE_NONE, task->ending, NONE) \
    X(OPTIONAL, outcome, OUTCOME, task->outcome != OUTCOME_none, task->outcome, NONE) \
    X(OPTIONAL, reason, TEXT, task->reason.len > 0, render_reason(api, task), NONE) \
    X(OPTIONAL_PART, cause, TEXT, task->cause > 0, json_key_text(api, json, 0, task->cause), NONE) \
    X(OPTIONAL, pruned, BOOLEAN, task->marks & MARK_PRUNED, true, SAYS("its logs, outputs and artifacts are gone")) \
    X(FIELD, priority, INTEGER, task->prio, NONE) \
    X(OPTIONAL, not_before, TIME, task->not_before > 0, task->not_before, NONE) \
    X(OPTIONAL, unique, TEXT, task->unique.len > 0, task->unique, NONE) \
    X(FIELD, created, TIME, task->created, NONE) \
    X(FIELD, ready, TIME, task->ready, NONE) \
    X(FIELD, started, TIME, task->started, NONE) \
    X(FIELD, finished, TIME, task->finished, NONE) \
    X(EACH, attempts, LIST(Attempt), view != NULL ? view->n_attempts : 0, \
        attempt_render(json, &view->attempts[i], view->executor_names[i]), NONE) \
    X(PART, depends, LIST(Other), others_render(api, json, shown, EDGE_DEPENDS, "success"), NONE) \
    X(PART, after, LIST(Other), others_render(api, json, shown, EDGE_AFTER, "finished"), NONE) \
    X(PART, cancels, LIST(Other), others_render(api, json, shown, EDGE_CANCELS, NULL), NONE) \
    X(PART, outputs, MAP_OF_TEXT, json_raw(json, outputs.len > 0 ? outputs : STR("{}")), NONE) \
    X(OPTIONAL_PART, artifacts, LIST(Artifact), artifacts.len > 0, json_raw(json, artifacts), SAYS("absent: none")) \
    X(OPTIONAL_PART, spec, OBJECT, shown->spec.len > 0, json_raw(json, shown->spec), \
        SAYS("what the executor is told")) \
    X(OPTIONAL, existing, TRUE, shown->existing, true, \
        SAYS("in the answer to a post: it was there already and has the unique key; nothing was made"))

#define ANSWER_Tasks(X) X(EACH, tasks, LIST(Task), n, good = good && task_listed(call, json, &task, i), NONE)

#define ANSWER_TaskList(X) \
    X(EACH, tasks, LIST(Task), n, render_task(call->api, json, &views[i], (struct str){ 0 }, false), NONE) \
    ANSWER_Next(X)

#define ANSWER_Event(X) \
    X(FIELD, seq, INTEGER, event->seq, NONE) \
    X(FIELD, time, TIME, event->time, NONE) \
    X(FIELD, kind, WORD, event_kind_name(event->kind), NONE) \
    X(OPTIONAL, task, INTEGER, event->task > 0, event->task, NONE) \
    X(OPTIONAL_PART, key, TEXT, event->task > 0, json_key_text(api, json, event->lane, event->task), NONE) \
    X(OPTIONAL, csid, TEXT, names.csid.len > 0, names.csid, SAYS("of a change set's task")) \
    X(OPTIONAL, submitter, TEXT, names.csid.len > 0, names.submitter, SAYS("likewise")) \
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
    X(EACH, conditions, EVERY(Condition), why->n_conditions, condition_render(json, &why->conditions[i]), NONE)

#define ANSWER_GraphTask(X) \
    X(FIELD, id, INTEGER, task->id, NONE) \
    X(FIELD, key, TEXT, view_key(call->api, &call->arena, task), NONE) \
    X(FIELD, name, TEXT, task->name, NONE) \
    X(FIELD, state, STATE, task->state, NONE) \
    X(FIELD, word, WORD, state_word(task->state), NONE) \
    X(FIELD, finished, TIME, task->finished, NONE)

#define ANSWER_Edge(X) \
    X(FIELD, from, TEXT, from, SAYS("the one that waits or cancels")) \
    X(FIELD, to, TEXT, to, NONE) \
    X(FIELD, kind, AS(WORD, "enum": ["after", "depends", "cancels"]), edge_kind_name(edge->kind), NONE)

#define ANSWER_Graph(X) \
    X(EACH, tasks, EVERY(GraphTask), graph->n_tasks, graph_task_render(call, json, graph->tasks[i]), NONE) \
    X(EACH, edges, EVERY(Edge), graph->n_edges, graph_edge_render(json, &graph->edges[i]), NONE) \
    X(FIELD, truncated, BOOLEAN, graph->truncated, NONE)

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
    X(UNDOCUMENTED, tenant, TEXT, executor->tenant.len > 0, executor->tenant) \
    X(PART, labels, OBJECT, labels_render(json, executor), NONE) \
    X(PART, kinds, ARRAY, kinds_render(json, executor), NONE) \
    X(FIELD, registered, TIME, executor->registered, NONE) \
    X(FIELD, processed, INTEGER, executor->processed, NONE) \
    X(FIELD, failed, INTEGER, executor->failed, NONE)

#define ANSWER_ExecutorList(X) \
    X(EACH, executors, LIST(Executor), n, executor_render(call, json, read->rows[i]), NONE) \
    ANSWER_Next(X)

#define ANSWER_Registration(X) \
    X(FIELD, id, INTEGER, call->command.out.reg.id, NONE) \
    X(FIELD, lease_ms, INTEGER, call->command.out.reg.lease_ms, NONE)

#define ANSWER_FinishResult(X) \
    X(FIELD, task, INTEGER, item->task, NONE) \
    X(FIELD, status, INTEGER, err_http(item->code), NONE) \
    X(OPTIONAL, code, WORD, item->code != ERR_none, err_name(item->code), NONE)

#define ANSWER_FinishResults(X) \
    X(EACH, results, LIST(FinishResult), n, render_finish(json, &items[i]), NONE)

/* where an archive's task gets its files */
#define ANSWER_GrantSource(X) \
    X(FIELD, archive, TEXT, grant->lane_name, NONE) \
    X(FIELD, kind, AS(WORD, "enum": ["svn", "git", "external"]), archive_kind_name(source->kind), NONE) \
    X(OPTIONAL, url, TEXT, source->url.len > 0, source->url, NONE) \
    X(FIELD, rev, INTEGER, grant->task.rev, NONE) \
    X(OPTIONAL, commit, TEXT, source->ident.len > 0, source->ident, NONE) \
    X(FIELD, prev, INTEGER, source->prev, SAYS("0: none"))

/* The document only says that a grant's `spec` is an object (ANSWER_Grant): it belongs to Weir's own executor, and the
 * stored body of the task goes into it too. */
#define ANSWER_Need(X) \
    X(FIELD, id, INTEGER, task->id, NONE) \
    X(PART, key, TEXT, render_key_text(api, json, need->lane_name, need->lane_kind, task), NONE) \
    X(FIELD, on, WORD, need->on_success ? "success" : "finished", NONE) \
    X(FIELD, state, STATE, task->state, NONE) \
    X(FIELD, outcome, OUTCOME, task->outcome, NONE) \
    X(FIELD, exit, KNOWN, need->exit, NONE) \
    X(FIELD, signal, KNOWN, need->signal > 0 ? need->signal : -1, NONE) \
    X(FIELD, reason, TEXT_OR_NULL, task->reason, NONE) \
    X(FIELD, attempts, INTEGER, task->attempts, NONE) \
    X(PART, outputs, OBJECT, json_raw(json, outputs.len > 0 ? outputs : STR("{}")), NONE) \
    X(PART, artifacts, ARRAY, json_raw(json, artifacts.len > 0 ? artifacts : STR("[]")), NONE) \
    X(OPTIONAL, left_out, TRUE, need->left, true, NONE)
#define ANSWER_Spec(X) \
    X(PART, key, TEXT, render_key_text(api, json, grant->lane_name, grant->lane_kind, &grant->task), NONE) \
    X(FIELD, name, TEXT, grant->task.name, NONE) \
    X(OPTIONAL, archive, TEXT, of_archive, grant->lane_name, NONE) \
    X(OPTIONAL, queue, TEXT, !of_archive, grant->lane_name, NONE) \
    X(OPTIONAL, rev, INTEGER, of_archive, grant->task.rev, NONE) \
    X(FIELD, attempt, INTEGER, grant->task.attempts, NONE) \
    X(FIELD, holds, BOOLEAN, grant->holds_slots, NONE) \
    X(FIELD, token, PLAIN, job_token_format(api, sealed).z, NONE) \
    X(OPTIONAL, timeout_ms, INTEGER, apply && apply->timeout_ms > 0, apply->timeout_ms, NONE) \
    X(OPTIONAL_PART, apply, OBJECT, apply, apply_render(api, json, grant), NONE) /* answer_apply.h */

#define ANSWER_Grant(X) \
    X(FIELD, task, INTEGER, grant->task.id, NONE) \
    X(FIELD, fence, PLAIN, fence.z, NONE) \
    X(FIELD, lease_ms, INTEGER, lease_ms, NONE) \
    X(PART, key, REF(Key), render_key(json, grant->lane_name, grant->lane_kind, &grant->task), NONE) \
    X(OPTIONAL_PART, source, INSIDE(GrantSource), \
        grant->lane_kind == LANE_ARCHIVE && grant->source.kind != ARCHIVE_NONE, source_render(json, grant), \
        SAYS("where an archive's task gets its files")) \
    X(PART, spec, OBJECT, spec_render(api, json, grant, fence.z), NONE)

#define ANSWER_CancelOrder(X) \
    X(FIELD, task, INTEGER, task, NONE) \
    X(FIELD, fence, TEXT, fence, NONE) \
    X(FIELD, signal, AS(WORD, "enum": ["TERM", "HUP", "KILL"]), signal, NONE) \
    X(OPTIONAL, stop_ms, INTEGER, stop_ms > 0, stop_ms, SAYS("then KILL follows; else after the job's grace")) \
    X(OPTIONAL, reason, WORD, stale, "stale_fence", NONE)

#define ANSWER_PollAnswer(X) \
    X(EACH, grants, EVERY(Grant), command->out.poll.n_grants, \
        render_grant(call->api, json, &command->out.poll.grants[i], command->out.poll.lease_ms), NONE) \
    X(PART, cancels, EVERY(CancelOrder), cancels_render(call, json), NONE) \
    X(OPTIONAL_EACH, results, LIST(FinishResult), command->in.poll.n_finishes > 0, command->in.poll.n_finishes, \
        render_finish(json, &command->in.poll.finishes[i]), NONE) \
    X(FIELD, state, WORD, executor_state_name(command->out.poll.state), NONE) \
    X(FIELD, lease_ms, INTEGER, command->out.poll.lease_ms, NONE) \
    X(OPTIONAL, seen, TEXT, command->out.poll.head_seq > 0, /* 0: answered without a turn, as the server ends */ \
        seen_seal(&call->api->fence_key, &call->arena, command->out.poll.incarnation, command->out.poll.head_seq), \
        SAYS("the newest event, signed: to be sent with the next poll"))

#define ANSWER_OutputsKept(X) X(FIELD, task, INTEGER, call->command.in.outputs.fence.task, NONE)
#define ANSWER_LogPosition(X) \
    X(FIELD, stored, INTEGER, position->stored, NONE) \
    X(FIELD, durable, INTEGER, position->durable, NONE)

#define ANSWER_Artifact(X) \
    X(FIELD, name, TEXT, name, NONE) \
    X(FIELD, bytes, INTEGER, bytes, NONE) \
    X(OPTIONAL, sha256, AS(TEXT, "type": "string", "pattern": "^[0-9a-f]{64}$"), hex.len > 0, hex, NONE) \
    X(OPTIONAL, mode, AS(TEXT, "enum": ["0644", "0755"], "default": "0644"), mode.len > 0, mode, NONE)

/* --- the site --- */

#define ANSWER_Counts(X) \
    X(FIELD, processed, INTEGER, counts->processed, NONE) \
    X(FIELD, failed, INTEGER, counts->failed, NONE) \
    X(FIELD, queued, INTEGER, counts->queued, NONE) \
    X(FIELD, working, INTEGER, counts->working, NONE) \
    X(OPTIONAL, terminated, INTEGER, of_queue, counts->terminated, SAYS("of queues")) \
    X(OPTIONAL, abandoned, INTEGER, of_queue, counts->abandoned, SAYS("of queues"))

#define ANSWER_Stats(X) \
    X(FIELD, processed, INTEGER, all.processed, SAYS("ended, whichever way")) \
    X(FIELD, failed, INTEGER, all.failed, NONE) \
    X(FIELD, queued, INTEGER, all.queued, NONE) \
    X(FIELD, working, INTEGER, all.working, NONE) \
    X(FIELD, terminated, INTEGER, all.terminated, NONE) \
    X(FIELD, abandoned, INTEGER, all.abandoned, NONE) \
    X(PART, queues, MAP(Counts), queues_render(json, &facts), NONE) \
    X(PART, executors, MAP(Counts), executors_render(call, json, &facts), NONE) \
    X(FIELD, seq, INTEGER, facts.head.seq, \
        SAYS("of the newest event: GET /v1/events?since=SEQ tells everything that isn't counted here")) \
    X(UNDOCUMENTED, turn, INTEGER, true, facts.head.commit) \
    X(PART, warnings, TEXTS, warnings_render(call, json), \
        SAYS("Why the server that answers takes no new work, and what to do; that its clock jumped within the last " \
             "hour"))

#define ANSWER_Semaphore(X) \
    X(FIELD, name, TEXT, slot->name, NONE) \
    X(FIELD, scope, AS(WORD, "enum": ["global", "tenant"]), slot->tenant.len > 0 ? "tenant" : "global", NONE) \
    X(FIELD, limit, INTEGER, slot->limit, NONE) \
    X(FIELD, used, INTEGER, slot->used, NONE) \
    X(EACH, holders, TEXTS, n_holders, json_holder(call, json, holders[i].task), \
        SAYS("keys; of others 'another tenant'")) \
    X(FIELD, waiting, INTEGER, slot->waiting, NONE) \
    X(EACH, waiters, TEXTS, n_waiting, json_holder(call, json, waiting[i].task), \
        SAYS("who comes next, first; at most 1000"))

#define ANSWER_SemaphoreList(X) \
    X(EACH, semaphores, EVERY(Semaphore), n, good = good && semaphore_render(call, json, slots[i]), NONE) \
    ANSWER_Next(X)

#define ANSWER_Quota(X) \
    X(OPTIONAL, used, INTEGER, q != QUOTA_requests, row->used[q], NONE) \
    X(FIELD, limit, KNOWN, row->limits[q], NONE)

#define ANSWER_Tenant(X) \
    X(FIELD, name, TEXT, row->name, NONE) \
    X(PART, quotas, MAP_OF(Quota), quotas_render(json, row), NONE)

#define ANSWER_TenantList(X) \
    X(EACH, tenants, EVERY(Tenant), list.n, tenant_render(json, &list.rows[i]), NONE) \
    X(FIELD, version, INTEGER, list.version, SAYS("of the site's key `tenants`")) \
    ANSWER_Next(X)

/* a server, or (with `executor`) an executor */
#define ANSWER_Node(X) \
    X(FIELD, name, TEXT, node->name, NONE) \
    X(FIELD, role, AS(WORD, "enum": ["server", "executor"]), node->executor != NULL ? "executor" : "server", NONE) \
    X(FIELD, version, TEXT, node->version, NONE) \
    X(FIELD, host, TEXT, node->host, NONE) \
    X(FIELD, state, WORD, node->state, NONE) \
    X(OPTIONAL, reason, WORD, node->reason != NULL, node->reason, \
        SAYS("Of the server that answers, when it takes no new work: why, and what to do")) \
    X(FIELD, load, NUMBER, node->load, NONE) \
    X(OPTIONAL, running, INTEGER, node->executor != NULL, node->running, NONE) \
    X(OPTIONAL, slots, INTEGER, node->executor != NULL, node->executor->slots, NONE) \
    X(OPTIONAL, zone, TEXT, node->executor != NULL, node->executor->zone, NONE) \
    X(OPTIONAL, server, WORD, node->server != NULL, node->server, \
        SAYS("Of an executor: the server that hears it, where a coordination service says so")) \
    X(OPTIONAL_PART, warnings, TEXTS, node->executor == NULL, node_warnings(call, json, node), \
        SAYS("Of servers: where its file says other keys of the site than it goes by; of the one that answers also " \
             "what accepted work would not survive"))

#define ANSWER_Coordination(X) \
    X(FIELD, kind, AS(WORD, "enum": ["alone", "store", "zookeeper"]), status.kind, NONE) \
    X(FIELD, state, AS(WORD, "enum": ["active", "away"]), status.away ? "away" : "active", NONE) \
    X(OPTIONAL, since, AS(TIME, "type": "string"), status.since > 0, status.since, NONE) \
    X(OPTIONAL, detail, WORD, status.away, status.text, NONE)

#define ANSWER_NodeList(X) \
    X(PART, nodes, EVERY(Node), nodes_render(call, json, read), NONE) \
    X(PART, coordination, INSIDE(Coordination), coordination_render(call, json), NONE) \
    ANSWER_Next(X)

#define ANSWER_Health(X) \
    X(FIELD, status, AS(WORD, "const": "ok"), "ok", NONE) \
    X(UNDOCUMENTED, coordination, WORD, status.away, "away") \
    X(OPTIONAL, spool, AS(WORD, "enum": ["stopped"]), spool_stopped, "stopped", \
        SAYS("the directories of change sets don't follow the queue now; the server's log says why"))

#define ANSWER_SpoolScanned(X) \
    X(FIELD, accepted, INTEGER, counts->accepted, SAYS("entries that are change sets now")) \
    X(FIELD, known, INTEGER, counts->known, SAYS("whose content was submitted before: removed")) \
    X(FIELD, corrupt, INTEGER, counts->corrupt, SAYS("moved to corrupt/, each with its reason")) \
    X(FIELD, waiting, INTEGER, counts->waiting, SAYS("whose tarball or dependency isn't there, for at most 10 s"))

#define ANSWER_Lane(X) \
    X(FIELD, name, TEXT, lane->id == 0 ? STR("all") : target_name(lane->name), NONE) \
    X(FIELD, kind, AS(WORD, "enum": ["queue", "archive", "target", "all"]), lane_kind_word(lane), NONE) \
    X(OPTIONAL, removed, BOOLEAN, removed, true, SAYS("an archive that was removed, with tasks that haven't ended")) \
    ANSWER_LaneState(X)
/* what an archive has too */
#define ANSWER_LaneState(X) \
    X(FIELD, paused, BOOLEAN, lane->paused_since > 0, NONE) \
    X(OPTIONAL, paused_since, TIME, lane->paused_since > 0, lane->paused_since, NONE) \
    X(OPTIONAL, paused_by, TEXT, lane->paused_since > 0, lane->paused_by, NONE) \
    X(OPTIONAL, reason, TEXT, lane->paused_since > 0, lane->paused_reason, NONE) \
    X(OPTIONAL_PART, counts, OBJECT, lane->id != 0, render_counts(json, lane), NONE) \
    X(OPTIONAL, log_bytes, INTEGER, lane->id != 0, lane->log_bytes, SAYS("kept logs, as the quota counts them")) \
    X(OPTIONAL, file_bytes, INTEGER, lane->id != 0, lane->file_bytes, SAYS("kept files, likewise"))

#define ANSWER_LaneList(X) \
    X(EACH, lanes, LIST(Lane), n, good = good && lane_listed(call, json, lanes[i]), NONE) \
    ANSWER_Next(X)

#define ANSWER_Token(X) \
    X(UNDOCUMENTED, id, INTEGER, token->id > 0, token->id) \
    ANSWER_TokenGiven(X) \
    X(DOCUMENTED, revoked, BOOLEAN, NONE)
#define ANSWER_TokenRevoked(X) \
    X(FIELD, name, TEXT, call->command.in.token_revoke.name, NONE) \
    X(FIELD, revoked, BOOLEAN, true, NONE)
#define ANSWER_TokenGiven(X) \
    X(FIELD, name, TEXT, token->name, NONE) \
    X(PART, scopes, TEXTS, scopes_render(json, token->scopes), NONE) \
    X(FIELD, tenant, TEXT, token->tenant, NONE) \
    X(FIELD, created, TIME, token->created, NONE) \
    X(FIELD, expires, TIME, token->expires, NONE)
#define ANSWER_NewTokenAnswer(X) \
    X(FIELD, token, TEXT, text, SAYS("shown once; again only to the same Idempotency-Key and body")) \
    ANSWER_TokenGiven(X)
#define ANSWER_TokenList(X) \
    X(EACH, tokens, LIST(Token), n, token_render(json, tokens[i]), NONE) \
    ANSWER_Next(X)

#define ANSWER_ConfigKey(X) \
    X(FIELD, name, AS(TEXT, "enum": ["semaphores", "tenants", "retention"]), key->name, NONE) \
    X(FIELD, version, INTEGER, key->version, SAYS("0: nobody has said it yet")) \
    X(FIELD, changed, TIME, key->changed, NONE) \
    X(OPTIONAL, changed_by, TEXT, key->version > 0, key->changed_by, NONE) \
    X(PART, value, OBJECT, json_raw(json, key->body), NONE)

#define ANSWER_Config(X) \
    X(EACH, keys, LIST(ConfigKey), SITE_KEYS, key_render(json, &read->keys[i]), NONE) \
    X(FIELD, text, TEXT, buf_str(&text), SAYS("all of it as YAML, a line a key, as POST takes it")) \
    X(PART, warnings, TEXTS, differs_render(call, json, read), \
        SAYS("Which servers have a file that says otherwise, by name and key"))

#define ANSWER_ConfigEdit(X) \
    X(FIELD, path, TEXT, change->path, NONE) \
    X(FIELD, before, TEXT_OR_NULL, change->before, NONE) \
    X(FIELD, after, TEXT_OR_NULL, change->after, NONE)

#define ANSWER_ConfigChanged(X) \
    X(FIELD, dry_run, BOOLEAN, command->in.site.dry_run, NONE) \
    X(PART, changes, EVERY(ConfigEdit), changes_render(call, json), NONE) \
    X(EACH, keys, LIST(ConfigKey), SITE_KEYS, key_render(json, &command->out.site.after[i]), NONE)

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
    ANSWER_LaneState(X) \
    X(EACH, schedules, EVERY(Schedule), n_schedules, schedule_render(json, &schedules[i]), NONE)

#define ANSWER_ArchiveList(X) \
    X(EACH, archives, LIST(Archive), n, good = good && archive_render(call, json, &views[i]), NONE) \
    ANSWER_Next(X) \
    X(OPTIONAL, notify, WORD, socket != NULL, socket, \
        SAYS("with notify=1: the socket of this very server that hooks write to"))

#define ANSWER_ArchiveRemoved(X) \
    X(FIELD, name, TEXT, call->command.in.archive.name, NONE) \
    X(FIELD, removed, TRUE, true, NONE)

/* what never changes once it was said: the same for the first post and every repetition */
#define ANSWER_RevisionSaid(X) \
    X(FIELD, archive, TEXT, archive, NONE) \
    X(FIELD, rev, INTEGER, row->rev, NONE) \
    X(OPTIONAL, commit, TEXT, row->ident.len > 0, row->ident, NONE) \
    X(OPTIONAL, txn, TEXT, row->txn.len > 0, row->txn, NONE) \
    X(OPTIONAL, author, TEXT, row->author.len > 0, row->author, NONE) \
    X(OPTIONAL, message, TEXT, row->message.len > 0, row->message, NONE) \
    X(OPTIONAL, time, TIME, row->time > 0, row->time, NONE) \
    X(OPTIONAL, noted, TIME, row->noted > 0, row->noted, NONE)

#define ANSWER_RevisionNoted(X) \
    ANSWER_RevisionSaid(X) \
    X(OPTIONAL, depth, INTEGER, whole, row->depth, NONE) \
    X(OPTIONAL, state, WORD, reason.len > 0, revision_state_name(row->state), NONE) \
    X(OPTIONAL, reason, TEXT, reason.len > 0, reason, NONE)

#define ANSWER_RevisionFile(X) \
    X(FIELD, name, TEXT, file->name, NONE) \
    X(FIELD, text, TEXT, file->text, NONE)

#define ANSWER_RevisionEdge(X) \
    ANSWER_Edge(X) \
    X(OPTIONAL, lock, BOOLEAN, edge->flags & EDGE_LOCK, true, SAYS("it stands for the archive's lock"))

/* read: NULL in a list */
#define ANSWER_Revision(X) \
    X(FIELD, state, AS(WORD, "enum": ["waiting", "known", "skipped"]), revision_state_name(row->state), \
        SAYS("waiting: behind one that is missing")) \
    ANSWER_RevisionSaid(X) \
    X(FIELD, depth, INTEGER, row->depth, SAYS("revisions made by jobs in a row")) \
    X(OPTIONAL_PART, cause, TEXT, row->cause > 0, json_key_text(call->api, json, 0, row->cause), NONE) \
    X(EACH, prev, INTEGERS, row->n_prevs, json_i64(json, row->prevs[i]), NONE) \
    X(OPTIONAL_EACH, definition, EVERY(RevisionFile), read != NULL, read->n_files, \
        file_render(json, &read->files[i]), NONE) \
    X(OPTIONAL_EACH, tasks, LIST(Task), read != NULL, read->n_tasks, \
        render_task(call->api, json, &read->tasks[read->n_tasks - 1 - i], (struct str){ 0 }, false), NONE) \
    X(OPTIONAL_PART, edges, EVERY(RevisionEdge), read != NULL, edges_render(call, json, read), NONE)

#define ANSWER_RevisionList(X) \
    X(EACH, revisions, LIST(Revision), n, revision_render(call, json, view.lane.name, &rows[i], NULL), NONE) \
    ANSWER_Next(X)

#include "api/answer_changeset.h"

/* All objects, with those of their members that the document calls required.
 * SHARED: a schema of its own, which others refer to. NESTED: written out where it is used. */
#define ANSWERS(SHARED, NESTED) \
    NESTED(Fault, REQUIRED("path", "message")) \
    SHARED(Problem, REQUIRED("type", "title", "status", "detail", "code")) \
    SHARED(Key, REQUIRED("name")) \
    NESTED(Usage, NONE) \
    SHARED(Attempt, NONE) \
    SHARED(Other, NONE) \
    SHARED(Task, REQUIRED("id", "key", "state", "word", "priority", "created", "attempts", "depends", "after", \
                     "cancels", "outputs")) \
    NESTED(Tasks, NONE) \
    SHARED(TaskList, REQUIRED("tasks", "next")) \
    SHARED(Event, REQUIRED("seq", "time", "kind", "actor")) \
    NESTED(Condition, REQUIRED("kind", "detail")) \
    SHARED(Why, REQUIRED("id", "key", "state", "verdict", "conditions")) \
    NESTED(GraphTask, NONE) \
    NESTED(Edge, NONE) \
    SHARED(Graph, NONE) \
    SHARED(Executor, NONE) \
    SHARED(ExecutorList, NONE) \
    SHARED(Registration, NONE) \
    SHARED(FinishResult, NONE) \
    SHARED(FinishResults, NONE) \
    NESTED(GrantSource, NONE) \
    NESTED(Grant, NONE) \
    NESTED(CancelOrder, NONE) \
    SHARED(PollAnswer, NONE) \
    SHARED(LogPosition, NONE) \
    SHARED(OutputsKept, NONE) \
    SHARED(Artifact, REQUIRED("name", "bytes")) \
    SHARED(Counts, NONE) \
    SHARED(Stats, NONE) \
    NESTED(Semaphore, NONE) \
    SHARED(SemaphoreList, NONE) \
    NESTED(Quota, NONE) \
    NESTED(Tenant, REQUIRED("name", "quotas")) \
    SHARED(TenantList, NONE) \
    NESTED(Node, REQUIRED("name", "role", "version", "host", "load", "state")) \
    NESTED(Coordination, NONE) \
    SHARED(NodeList, NONE) \
    SHARED(Health, NONE) \
    SHARED(SpoolScanned, NONE) \
    SHARED(Lane, NONE) \
    SHARED(LaneList, NONE) \
    SHARED(Token, NONE) \
    SHARED(NewTokenAnswer, NONE) \
    SHARED(TokenList, NONE) \
    SHARED(ConfigKey, REQUIRED("name", "version", "value")) \
    SHARED(Config, REQUIRED("keys", "text", "warnings")) \
    NESTED(ConfigEdit, REQUIRED("path", "before", "after")) \
    SHARED(ConfigChanged, REQUIRED("dry_run", "changes", "keys")) \
    NESTED(Head, NONE) \
    SHARED(VerifyReport, NONE) \
    SHARED(PruneAnswer, NONE) \
    SHARED(BackupAnswer, NONE) \
    NESTED(Watch, NONE) \
    NESTED(Schedule, NONE) \
    SHARED(Archive, REQUIRED("name", "kind", "next", "counts", "schedules")) \
    SHARED(ArchiveList, REQUIRED("archives", "next")) \
    SHARED(ArchiveRemoved, NONE) \
    SHARED(RevisionNoted, REQUIRED("archive", "rev")) \
    NESTED(RevisionFile, NONE) \
    NESTED(RevisionEdge, NONE) \
    SHARED(Revision, REQUIRED("archive", "rev", "state", "prev")) \
    SHARED(RevisionList, REQUIRED("revisions", "next")) \
    ANSWERS_CHANGESET(SHARED, NESTED)

#endif
