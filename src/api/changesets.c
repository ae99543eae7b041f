/* changesets: change sets listed, shown and approved; what one depends on, and what depends on it.
 *
 * A change set is a task of its target's lane, and its CSID names it. What its row and its task say is put together
 * here. A change set of another tenant isn't there (404). Lists are newest first and leave the paths out, which may be
 * many. */
#include "api/answer.h"
#include "api/call.h"

#include <stdlib.h>

enum { LIST_MAX = 1000, HISTORY_MAX = 1000, LINKS_MAX = 10000, TICKET_BYTES_MAX = 1000 };

bool call_changeset(struct call *call, struct changeset *out_row, struct task_view *out_view)
{
    struct reader *reader = call->api->config.reader;
    struct arena *arena = &call->arena;
    int64_t id = 0;
    bool found = false;
    if (!reader_changeset_find(reader, call->actor.tenant, call->arg, &id, &call->err) ||
        (id > 0 && !reader_changeset(reader, arena, id, out_row, &found, &call->err)) ||
        (found && !reader_task(reader, arena, id, out_view, &found, &call->err)))
        return call_problem(call);
    return found ||
           call_refuse(call, ERR_not_found, "there is no change set '%.*s'", STR_ARG(str_sub(call->arg, 0, 100)));
}

struct str changeset_csid(struct api *api, struct arena *arena, int64_t task)
{
    return task > 0 ? str_dup(arena, changeset_names_of(api, 0, task).csid) : (struct str){ 0 };
}

/* --- one --- */

static void paths_render(struct json *json, struct str joined)
{
    struct str path;
    json_array_begin(json);
    while (str_cut(&joined, CHANGESET_JOINT, &path))
        json_str(json, path);
    json_array_end(json);
}

/* names_render: the change sets at the other ends of its edges of that kind. */
static void names_render(struct json *json, const struct task_view *view, enum edge_kind kind)
{
    json_array_begin(json);
    for (size_t i = 0; i < view->n_needs; i++)
        if (view->needs[i].kind == kind && edge_counts(kind, view->needs[i].flags))
            json_str(json, view->needs[i].name);
    json_array_end(json);
}

/* dependencies_render: of a rollback what it undoes: it has no edges. */
static void dependencies_render(
    struct call *call, struct json *json, const struct changeset *row, const struct task_view *view)
{
    if (row->movetype != MOVE_RB) {
        names_render(json, view, EDGE_DEPENDS);
        return;
    }
    json_array_begin(json);
    for (size_t i = 0; i < row->n_undoes; i++)
        json_str(json, changeset_csid(call->api, &call->arena, row->undoes[i]));
    json_array_end(json);
}

static bool event_is_history(const struct event *event)
{
    return event->kind == EVENT_created || event->kind == EVENT_move || event->kind == EVENT_approved;
}

RENDERER(history_entry_render, HistoryEntry, struct json *json, const struct event *event)

static void history_render(struct json *json, const struct event *events, size_t n)
{
    json_array_begin(json);
    for (size_t i = n; i-- > 0;) /* they were read newest first */
        if (event_is_history(&events[i]))
            history_entry_render(json, &events[i]);
    json_array_end(json);
}

bool serve_changesets_get(struct call *call)
{
    struct changeset found, *row = &found;
    struct task_view of_task, *view = &of_task;
    struct event *events;
    size_t n_events;
    if (!call_changeset(call, row, view))
        return false;
    if (!reader_task_events(
            call->api->config.reader, &call->arena, row->task, HISTORY_MAX, &events, &n_events, &call->err))
        return call_problem(call);
    struct str undone_by = changeset_csid(call->api, &call->arena, row->rolled_back_by);
    ANSWER_RETURN(200, ANSWER_Changeset);
}

/* --- lists --- */

RENDERER_SHARED(render_changeset, ChangesetEntry, struct call *call, struct json *json,
    const struct changeset_view *view, int64_t position)

bool call_param_movetype(struct call *call, enum movetype *out)
{
    struct str text;
    if (!call_param_str(call, "type", &text))
        return true;
    *out = movetype_find(text);
    return *out != MOVE_NONE ||
           err_item(&call->err, ERR_bad_request, STR("type"),
               "the query parameter 'type' is one of DC, BF, EM and RB, not '%.*s'", STR_ARG(str_sub(text, 0, 40)));
}

bool call_param_target(struct call *call, int64_t *out_lane)
{
    struct str text;
    if (!call_param_str(call, "target", &text))
        return true;
    if (!name_is_valid(text))
        return err_item(&call->err, ERR_bad_request, STR("target"),
            "the query parameter 'target' must be a name, not '%.*s'", STR_ARG(str_sub(text, 0, 64)));
    return target_lane_of(call, text, out_lane);
}

bool target_lane_of(struct call *call, struct str target, int64_t *out_lane)
{
    struct str lane = str_fmt(&call->arena, TARGET_LANE "%.*s", STR_ARG(target));
    return lane_id_of(call->api, call->actor.tenant, lane, out_lane, &call->err);
}

static bool filter_read(struct call *call, struct changeset_filter *out)
{
    int64_t limit = LIST_MAX;
    *out = (struct changeset_filter){ .tenant = call->actor.tenant };
    call_param_states(call, &out->states);
    call_param_movetype(call, &out->movetype);
    call_param_limit(call, LIST_MAX, &limit);
    call_param_i64(call, "cursor", 1, INT64_MAX, &out->before);
    out->limit = (size_t)limit;
    return call_param_target(call, &out->lane) && call->err.code == ERR_none;
}

bool serve_changesets_list(struct call *call)
{
    struct changeset_filter filter;
    struct changeset_view *views = NULL;
    size_t n = 0;
    int64_t last = 0;
    if (!filter_read(call, &filter) ||
        (filter.lane >= 0 && /* a target without change sets has no lane */
            !reader_changesets(call->api->config.reader, &call->arena, &filter, &views, &n, &last, &call->err)))
        return call_problem(call);
    struct str next = last > 0 ? call_cursor(call, last) : (struct str){ 0 };
    ANSWER_RETURN(200, ANSWER_ChangesetList);
}

/* --- dependencies and their inverse --- */

struct links {
    struct edge_view *edges;
    size_t n;
    bool truncated;
};

static int links_order(const void *a, const void *b)
{
    const struct edge_view *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* links_read: the change sets that this one depends on, or those that depend on it, oldest first. */
static bool links_read(struct call *call, bool supports, struct links *out)
{
    struct changeset row;
    struct task_view view;
    struct edge_view *edges;
    size_t n;
    if (!call_changeset(call, &row, &view))
        return false;
    if (!reader_edges(call->api->config.reader, &call->arena, row.task, supports, &edges, &n, &call->err))
        return call_problem(call);
    *out = (struct links){ .edges = edges };
    for (size_t i = 0; i < n; i++)
        if (edges[i].kind == EDGE_DEPENDS && str_starts(edges[i].lane_name, STR(TARGET_LANE)))
            edges[out->n++] = edges[i];
    if (out->n > 1)
        qsort(edges, out->n, sizeof *edges, links_order);
    out->truncated = out->n > LINKS_MAX;
    out->n = out->truncated ? LINKS_MAX : out->n;
    return true;
}

bool serve_changesets_deps(struct call *call)
{
    struct links links;
    if (!links_read(call, false, &links))
        return false;
    ANSWER_RETURN(200, ANSWER_ChangesetDeps);
}

bool serve_changesets_supports(struct call *call)
{
    struct links links;
    if (!links_read(call, true, &links))
        return false;
    ANSWER_RETURN(200, ANSWER_ChangesetSupports);
}

/* --- approval --- */

static bool approved_show(struct call *call)
{
    call->arg = call->command.in.approve.csid;
    return serve_changesets_get(call);
}

static bool changeset_approved(struct call *call)
{
    return call_on_thread(call, approved_show);
}

/* A ticket is a line of the commit's message and of the job file. */
static void ticket_check(struct call *call, struct str ticket)
{
    if (ticket.len == 0)
        err_item(&call->err, ERR_invalid, STR("/ticket"), "'ticket' is empty");
    else if (str_has_control(ticket))
        err_item(&call->err, ERR_invalid, STR("/ticket"), "'ticket' is one line, without control characters");
}

bool serve_changesets_approve(struct call *call)
{
    struct json_reader reader;
    struct command *command = &call->command;
    struct str ticket = { 0 };
    if (!call_object(call, &reader))
        return false;
    if (json_read_need(&reader, "ticket", "") && json_read_str(&reader, "ticket", TICKET_BYTES_MAX, &ticket)) {
        ticket = str_trim(ticket);
        ticket_check(call, ticket);
    }
    if (!call_read_done(call, &reader))
        return false;
    command->kind = CMD_APPROVE;
    command->in.approve.csid = str_dup(&call->arena, call->arg);
    command->in.approve.ticket = ticket;
    return call_submit(call, changeset_approved);
}
