/* hold_approval: a change set whose move type needs a ticket, and which has none. */
#include "base/plant.h"
#include "core/hold.h"

bool hold_approval_closed(struct slice *slice, struct node *node, int64_t *out_key)
{
    (void)slice;
    *out_key = 0;
    if (PLANT(approval_skipped))
        return false;
    return node->row.marks & MARK_UNAPPROVED;
}

void hold_approval_explain(struct explain *x)
{
    const struct task *task = &x->facts->task;
    bool said = (task->marks & MARK_UNAPPROVED) != 0;
    if (PLANT(why_approval_early))
        said &= (task->holds & HOLD_BIT(approval)) != 0;
    if (!said)
        return;
    struct why_condition *c = explain_add(x, "approval", task->created);
    const char *type = movetype_name(x->facts->movetype);
    c->detail = *type ? str_fmt(x->arena, "change sets of move type %s need a ticket, and it has none", type)
                      : STR("change sets of its move type need a ticket, and it has none");
    c->remedy = str_fmt(x->arena, "weir cs approve %.*s --ticket TICKET", STR_ARG(task->name));
}
