/* hold_approval: a change set whose move type needs a ticket, and which has none. */
#include "core/hold.h"

bool hold_approval_closed(struct slice *slice, struct node *node, int64_t *out_key)
{
    (void)slice;
    *out_key = 0;
    return node->row.marks & MARK_UNAPPROVED;
}

void hold_approval_explain(struct explain *x)
{
    const struct task *task = &x->facts->task;
    if (!(task->marks & MARK_UNAPPROVED))
        return;
    struct why_condition *c = explain_add(x, "approval", task->created);
    c->detail = STR("change sets of its move type need a ticket, and it has none");
    c->remedy = str_fmt(x->arena, "weir cs approve %.*s --ticket TICKET", STR_ARG(task->name));
}
