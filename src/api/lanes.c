/* lanes: queues and archives with their counts, and pausing them. */
#include "api/answer.h"
#include "api/call.h"

void render_counts(struct json *json, const struct lane *lane)
{
    json_object_begin(json);
    for (int state = STATE_Q; state < STATE_COUNT; state++) {
        char letter[] = { state_letter((enum task_state)state), '\0' };
        json_put_i64(json, letter, lane->counts[state]);
    }
    json_object_end(json);
}

static const char *lane_kind_word(const struct lane *lane)
{
    static const char *const words[] = { [LANE_QUEUE] = "queue", [LANE_ARCHIVE] = "archive", [LANE_TARGET] = "target" };
    return lane->id == 0 ? "all" : words[lane->kind];
}

RENDERER(lane_render, Lane, struct json *json, const struct lane *lane, bool removed)

/* lane_is_over: a removed archive whose tasks have all ended is history, and history has its own place. */
static bool lane_is_over(const struct lane *lane, bool removed)
{
    int64_t open = 0;
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        open += state_ended((enum task_state)state) ? 0 : lane->counts[state];
    return removed && open == 0;
}

static bool lane_listed(struct call *call, struct json *json, const struct lane *lane)
{
    struct archive_view view = { 0 };
    bool found = false;
    if (lane->kind == LANE_ARCHIVE &&
        !reader_archive(call->api->config.reader, &call->arena, lane->tenant, lane->name, &view, &found, &call->err))
        return false;
    bool removed = found && view.archive.removed > 0;
    if (!lane_is_over(lane, removed))
        lane_render(json, lane, removed);
    return true;
}

bool serve_lanes_list(struct call *call)
{
    struct lane **lanes;
    struct list_page page;
    size_t n = 0;
    if (!call_page(call, -1, &page))
        return false;
    bool good = reader_lanes_page(call->api->config.reader, &call->arena, &page, &lanes, &n, &call->err);
    struct str next = { 0 };
    if (n == page.limit)
        next = call_cursor(call, lanes[--n - 1]->id);
    struct json out = json_to(&call->out), *json = &out;
    ANSWER_WRITE(ANSWER_LaneList);
    return call_end(call, good, 200);
}

static bool lane_show(struct call *call)
{
    struct str name = call->command.in.pause.lane;
    struct lane lane = { 0 };
    bool found = false;
    struct str tenant = str_eqz(name, "all") ? (struct str){ 0 } : call->actor.tenant;
    if (!reader_lane(call->api->config.reader, &call->arena, tenant, name, &lane, &found, &call->err))
        return call_problem(call);
    if (!found)
        lane = (struct lane){ .name = name, .kind = LANE_QUEUE };
    struct json json = json_to(&call->out);
    lane_render(&json, &lane, false);
    return call_answer(call, 200);
}

static bool lane_changed(struct call *call)
{
    loop_wake(call->api->config.loop); /* a restored store that is resumed follows its repositories from now on */
    return call_on_thread(call, lane_show);
}

static bool lane_command(struct call *call, bool pause)
{
    struct json_reader reader;
    struct command *command = &call->command;
    if (!name_is_valid(call->arg) || (name_is_reserved(call->arg) && !str_eqz(call->arg, "all")))
        return call_refuse(call, ERR_invalid, "'%.*s' can't be the name of a queue or an archive",
            STR_ARG(str_sub(call->arg, 0, 100)));
    if (str_eqz(call->arg, "all") && (!call->site || call->tenant_named))
        return call_refuse(call, ERR_forbidden,
            "'all' is everybody's: this needs the site's admin (a token of the tenant 'default' with 'admin'), who "
            "names no tenant");
    if (!call_object_or_nothing(call, &reader))
        return false;
    json_read_str(&reader, "reason", REASON_BYTES_MAX, &command->in.pause.reason);
    if (pause && call->err.code == ERR_none && str_trim(command->in.pause.reason).len == 0)
        err_item(&call->err, ERR_invalid, STR("/reason"), "'reason' is required");
    if (!call_read_done(call, &reader))
        return false;
    command->kind = CMD_LANE_PAUSE;
    command->in.pause.lane = str_dup(&call->arena, call->arg);
    command->in.pause.pause = pause;
    return call_submit(call, lane_changed);
}

HANDLER_OF(serve_lanes_pause, lane_command, true)
HANDLER_OF(serve_lanes_resume, lane_command, false)
