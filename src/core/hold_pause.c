/* hold_pause: somebody has paused its queue or archive, or all of them. */
#include "core/hold.h"
#include "core/settle.h"

const struct lane *lane_closed(struct slice *slice, int64_t lane)
{
    const struct lane *all = slice_lane(slice, 0), *own = slice_lane(slice, lane);
    return all->paused_since ? all : own->paused_since ? own : NULL;
}

bool hold_pause_closed(struct slice *slice, struct node *node, int64_t *out_key)
{
    const struct lane *closed = lane_closed(slice, node->row.lane);
    *out_key = closed ? closed->id : 0;
    return closed != NULL;
}

void hold_pause_explain(struct explain *x)
{
    const struct lane *lanes[] = { x->facts->all, x->facts->lane };
    if (x->facts->task.marks & MARK_SKIPPED)
        return; /* it starts nothing */
    for (size_t i = 0; i < 2; i++) {
        const struct lane *lane = lanes[i];
        if (!lane || !lane->paused_since)
            continue;
        struct why_condition *c = explain_add(x, "pause", lane->paused_since);
        c->holder = lane->paused_by;
        struct str name =
            lane->kind == LANE_TARGET ? str_sub(lane->name, sizeof TARGET_LANE - 1, lane->name.len) : lane->name;
        c->detail = str_fmt(x->arena, "%.*s is paused: %.*s", STR_ARG(name), STR_ARG(lane->paused_reason));
        c->remedy = str_fmt(x->arena, "weir resume %.*s", STR_ARG(name));
    }
}
