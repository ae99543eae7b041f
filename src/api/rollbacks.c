/* rollbacks: change sets taken back over HTTP: a rollback is a change set of move type RB without a tarball.
 *
 * All or nothing: a CSID that isn't known, or is of another target, refuses the call at its place in `csids`. The
 * engine decides which others go with the named ones; with dry_run it only says so, as a tree, and nothing changes. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/answer.h"
#include "api/call.h"
#include "core/rollback.h"
#include "io/clock.h"
#include "text/changeset_name.h"

enum { CSIDS_MAX = 1000, CSID_RANDOM_BYTES = 8 };
#define MESSAGE_BYTES_MAX (64 * KIB)

struct rollback_post {
    bool dry_run;
    struct str message;
};

/* --- what is asked for --- */

static void csid_read(struct call *call, const struct doc_node *value, struct str path, struct str *out)
{
    struct err fault = { 0 };
    bool text = value->kind == NODE_SCALAR && !value->plain;
    const struct changeset_def *def = &call->command.in.changeset.def;
    *out = value->text;
    if (!text || !csid_check(value->text, &fault)) {
        err_item(&call->err, ERR_invalid, path, "%s", text ? fault.text : "a change set is named by its CSID, a text");
        return;
    }
    for (size_t i = 0; i < def->n_depends; i++)
        if (str_eq(def->depends[i], value->text))
            err_item(&call->err, ERR_invalid, path, "'%.*s' is named twice", STR_ARG(value->text));
}

static void csids_read(struct call *call, struct json_reader *reader)
{
    const struct doc_node *list;
    struct changeset_def *def = &call->command.in.changeset.def;
    if (!json_read_need(reader, "csids", ": the change sets to take back") ||
        !json_read_array(reader, "csids", CSIDS_MAX, &list))
        return;
    if (list->n == 0)
        err_item(&call->err, ERR_invalid, STR("/csids"), "'csids' is empty: there is nothing to take back");
    def->depends = ARENA_ARRAY(&call->arena, struct str, list->n + 1);
    for (size_t i = 0; i < list->n; i++) {
        csid_read(call, list->items[i], json_pointer_at(&call->arena, STR("/csids"), i), &def->depends[i]);
        def->n_depends = i + 1;
    }
    def->depends_field = "csids";
}

/* target_find: that of the first one that is known; the engine refuses those of others. */
static bool target_find(struct call *call)
{
    struct reader *reader = call->api->config.reader;
    struct changeset_def *def = &call->command.in.changeset.def;
    int64_t id = 0;
    struct task row;
    bool found;
    enum lane_kind kind;
    for (size_t i = 0; i < def->n_depends && id == 0; i++)
        if (!reader_changeset_find(reader, call->actor.tenant, def->depends[i], &id, &call->err))
            return false;
    if (id > 0 && !reader_row(reader, &call->arena, id, &row, &found, &call->err))
        return false;
    if (id > 0 && found) {
        def->target = str_dup(&call->arena, target_name(lane_name_of(call->api, row.lane, &kind)));
        return true;
    }
    for (size_t i = 0; i < def->n_depends; i++)
        err_item(&call->err, ERR_invalid, json_pointer_at(&call->arena, STR("/csids"), i),
            "there is no change set '%.*s'", STR_ARG(def->depends[i]));
    return false;
}

/* --- the rollback --- */

static struct str csid_make(struct arena *arena)
{
    unsigned char random[CSID_RANDOM_BYTES];
    char hex[2 * CSID_RANDOM_BYTES + 1];
    clock_entropy(random, sizeof random);
    sodium_bin2hex(hex, sizeof hex, random, sizeof random);
    return str_fmt(arena, "rb-%s", hex);
}

static void def_complete(struct call *call, const struct rollback_post *post)
{
    struct changeset_def *def = &call->command.in.changeset.def;
    struct buf text;
    const struct changeset_name name = { .csid = csid_make(&call->arena),
        .tai = tai64n_from_ns(clock_wall_ms() * 1000000),
        .pid = getpid(),
        .host = changeset_name_part(&call->arena, str_of(call->api->config.host), CHANGESET_HOST_CHARS_MAX),
        .movetype = MOVE_RB,
        .extra = changeset_name_part(&call->arena, call->actor.name, CHANGESET_EXTRA_CHARS_MAX) };
    def->csid = name.csid;
    def->movetype = MOVE_RB;
    def->prio = changeset_priority(&name);
    (void)tai64n_to_ns(name.tai, &def->tai);
    def->submitter = call->actor.name;
    buf_init(&text, CHANGESET_NAME_BYTES_MAX);
    changeset_name_format(&text, &name);
    def->name = str_dup(&call->arena, buf_str(&text));
    buf_release(&text);
    buf_init(&text, 8 * MESSAGE_BYTES_MAX);
    struct json json = json_to(&text);
    json_object_begin(&json);
    if (post->message.len > 0)
        json_put_str(&json, "message", post->message);
    json_object_end(&json);
    def->body = str_dup(&call->arena, buf_str(&text));
    buf_release(&text);
}

static bool taken_show(struct call *call)
{
    struct changeset row;
    struct task_view view;
    call->arg = call->command.out.changeset.csid;
    if (!call_changeset(call, &row, &view))
        return false;
    struct str csid = row.csid, name = row.name;
    const struct {
        int64_t task;
        enum task_state state;
    } taken = { row.task, view.task.state }, *submission = &taken;
    ANSWER_RETURN(call->command.status, ANSWER_ChangesetAccepted);
}

static bool rollback_made(struct call *call)
{
    return call_on_thread(call, taken_show);
}

/* --- the plan --- */

static const char *const actions[] = { [MEMBER_RUNS] = "stop", [MEMBER_WAITS] = "abandon", [MEMBER_APPLIED] = "undo" };

struct plan {
    const struct rollback_member *members;
    size_t n;               /* that are shown */
    size_t *first, *last;   /* children of each: a range, since they came level by level */
    size_t *order, *depths; /* each behind its parent, as a tree is written */
};

RENDERER(member_render, RollbackMember, struct call *call, struct json *json, const struct rollback_member *member,
    const struct rollback_member *parent, size_t depth)

static void plan_row_render(struct call *call, struct json *json, const struct plan *plan, size_t i)
{
    const struct rollback_member *member = &plan->members[plan->order[i]];
    member_render(call, json, member, member->named ? NULL : &plan->members[member->parent], plan->depths[i]);
}

/* plan_order: depth first, without recursion: a chain may be as long as the list. */
static void plan_order(struct arena *arena, struct plan *plan)
{
    size_t n = plan->n, *stack = ARENA_ARRAY(arena, size_t, n + 1), *depth_of = ARENA_ARRAY(arena, size_t, n + 1);
    size_t n_stack = 0, at = 0;
    plan->first = ARENA_ARRAY(arena, size_t, n + 1);
    plan->last = ARENA_ARRAY(arena, size_t, n + 1);
    plan->order = ARENA_ARRAY(arena, size_t, n + 1);
    plan->depths = ARENA_ARRAY(arena, size_t, n + 1);
    memset(plan->first, 0, n * sizeof *plan->first);
    memset(plan->last, 0, n * sizeof *plan->last);
    for (size_t i = 0; i < n; i++) {
        const struct rollback_member *member = &plan->members[i];
        depth_of[i] = member->named ? 0 : depth_of[member->parent] + 1;
        if (member->named)
            continue;
        if (plan->last[member->parent] == 0)
            plan->first[member->parent] = i;
        plan->last[member->parent] = i + 1;
    }
    for (size_t i = n; i-- > 0;)
        if (plan->members[i].named)
            stack[n_stack++] = i;
    while (n_stack > 0) {
        size_t i = stack[--n_stack];
        plan->order[at] = i;
        plan->depths[at++] = depth_of[i];
        for (size_t k = plan->last[i]; k-- > plan->first[i];)
            stack[n_stack++] = k;
    }
    ASSERT(at == n);
}

static bool plan_show(struct call *call)
{
    const struct command *command = &call->command;
    size_t limit = command->out.plan.limit;
    struct plan plan = { .members = command->out.plan.members, .n = command->out.plan.n };
    bool exceeded = plan.n > limit;
    if (exceeded)
        plan.n = limit + 1;
    plan_order(&call->arena, &plan);
    ANSWER_RETURN(200, ANSWER_RollbackPlan);
}

static bool rollback_planned(struct call *call)
{
    return call_on_thread(call, plan_show);
}

bool serve_rollbacks_create(struct call *call)
{
    struct json_reader reader;
    struct rollback_post post = { 0 };
    struct changeset_def *def = &call->command.in.changeset.def;
    if (!call_idempotency(call) || !call_object(call, &reader))
        return false;
    csids_read(call, &reader);
    json_read_bool(&reader, "with_overlapping", &def->overlapping);
    json_read_bool(&reader, "dry_run", &post.dry_run);
    json_read_str(&reader, "message", MESSAGE_BYTES_MAX, &post.message);
    post.message = str_trim(post.message);
    if (!call_read_done(call, &reader))
        return false;
    if (!target_find(call))
        return call_problem(call);
    def_complete(call, &post);
    if (post.dry_run)
        call->command.idempotency.key = (struct str){ 0 };
    call->command.kind = post.dry_run ? CMD_ROLLBACK_PLAN : CMD_CHANGESET;
    return call_submit(call, post.dry_run ? rollback_planned : rollback_made);
}
