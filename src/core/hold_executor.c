/* hold_executor: it wants slots, and no active executor fits it. Without slots it is pending then, and waits as all
 * pending tasks do. */
#include "base/plant.h"
#include "core/hold.h"

bool executor_there(struct slice *slice, struct node *node)
{
    slice_class(slice, node);
    if (PLANT(slots_unserved))
        return true;
    return slice->rows->served(slice->rows->owner, node->row.class_id);
}

static struct str class_wish(struct arena *arena, const struct task_class *class_)
{
    struct str text = str_fmt(arena, "kind %s", class_kind_name(class_->kind));
    if (class_->zone.len)
        text = str_fmt(arena, "%.*s, zone %.*s", STR_ARG(text), STR_ARG(class_->zone));
    for (size_t i = 0; i < class_->n_labels && class_->kind != KIND_APPLY; i++)
        text = str_fmt(arena, "%.*s, label %.*s=%.*s", STR_ARG(text), STR_ARG(class_->labels[i].name),
            STR_ARG(class_->labels[i].value));
    return text;
}

/* class_remedy: which executor would fit, as it is started. */
static struct str class_remedy(struct arena *arena, const struct task_class *class_)
{
    if (class_->kind == KIND_DATA)
        return STR("start a worker of your own that registers: POST /v1/executors with kinds: [\"data\"]");
    if (class_->kind == KIND_APPLY)
        return STR("start one that applies change sets: weir executor --server URL --apply");
    struct str text = STR("start one: weir executor --server URL");
    for (size_t i = 0; i < class_->n_labels; i++)
        text = str_fmt(arena, "%.*s --label %.*s=%.*s", STR_ARG(text), STR_ARG(class_->labels[i].name),
            STR_ARG(class_->labels[i].value));
    return class_->zone.len ? str_fmt(arena, "%.*s --zone %.*s", STR_ARG(text), STR_ARG(class_->zone)) : text;
}

/* Asked of every task that hasn't started: a task that no executor fits shows that also while it waits for something
 * else. */
void hold_executor_explain(struct explain *x)
{
    const struct why_facts *f = x->facts;
    if (!f->class_)
        return;
    size_t fit = f->crew.fit, live = f->crew.live, open = f->crew.open;
    int64_t since = f->task.ready ? f->task.ready : f->task.created;
    bool waits = false;
    for (size_t i = 0; i < f->n_holds; i++)
        if (f->holds[i].kind == HOLD_executor)
            waits = true, since = f->holds[i].since;
    struct str wish = class_wish(x->arena, f->class_);
    if (fit == 0) {
        struct why_condition *c = explain_add(x, "executor", since);
        c->detail = str_fmt(x->arena, "no executor fits (%.*s)", STR_ARG(wish));
        c->remedy = class_remedy(x->arena, f->class_);
        x->never = true;
    } else if (live == 0) {
        struct why_condition *c = explain_add(x, "executor", since);
        c->detail = str_fmt(x->arena, "no executor that fits (%.*s) is alive; %zu known", STR_ARG(wish), fit);
        c->remedy = STR("start it again; weir nodes shows them");
    } else if (open == 0) {
        struct why_condition *c = explain_add(x, "executor", since);
        c->detail = str_fmt(x->arena, "every executor that fits (%.*s) is paused or draining", STR_ARG(wish));
        c->remedy = STR("weir executor resume NAME");
    } else if (waits) {
        struct why_condition *c = explain_add(x, "executor", since);
        c->detail = str_fmt(x->arena,
            "an executor that fits (%.*s) has come; those who waited for it go on in their order", STR_ARG(wish));
        c->remedy = STR("it goes on by itself");
    } else if (f->task.state == STATE_P && f->applying.len == 0) {
        struct why_condition *c = explain_add(x, "executor", since);
        c->detail = f->ready_ahead > 0
                        ? str_fmt(x->arena, "it waits for a free slot of %zu executor%s; %lld pending before it", open,
                              open == 1 ? "" : "s", (long long)f->ready_ahead)
                        : str_fmt(x->arena, "it waits for a free slot of %zu executor%s", open, open == 1 ? "" : "s");
        c->remedy = STR("more slots or executors; weir promote puts it first");
    }
}
