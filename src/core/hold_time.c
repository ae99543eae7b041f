/* hold_time: it isn't to start before a time: `not_before`, or the pause before the next attempt. */
#include "base/when.h"
#include "core/hold.h"
#include "core/verdict.h"

/* A back-off is a duration: when the wall clock was set back meanwhile it doesn't grow by that. */
static void backoff_limit(struct slice *slice, struct node *node)
{
    int64_t tries = node->row.attempts - node->row.base;
    if (tries <= 0 || node->row.not_before <= slice->now)
        return;
    int64_t longest = slice->now + backoff_ms(slice_spec(slice, node)->backoff_ms, tries);
    if (node->row.not_before > longest)
        node->row.not_before = longest;
}

bool hold_time_closed(struct slice *slice, struct node *node, int64_t *out_key)
{
    backoff_limit(slice, node);
    *out_key = node->row.not_before;
    return node->row.not_before > slice->now;
}

void hold_time_explain(struct explain *x)
{
    const struct task *task = &x->facts->task;
    if (task->marks & MARK_SKIPPED || task->not_before <= x->facts->now)
        return;
    bool again = task->attempts > 0;
    struct why_condition *c = explain_add(x, "not_before", again ? task->started : task->created);
    c->until = task->not_before;
    c->detail = str_fmt(x->arena, again ? "it waits before its next attempt, until %s" : "it isn't to start before %s",
        when_format(task->not_before).z);
    c->remedy = str_fmt(x->arena, "it goes on by itself in %s", duration_human(task->not_before - x->facts->now).z);
}
