/* hold_rollback: a rollback has the change set as a member, or is one and waits until no member runs. */
#include "core/hold.h"
#include "core/rollback.h"

void hold_rollback_explain(struct explain *x)
{
    const struct why_facts *f = x->facts;
    for (size_t i = 0; i < f->n_holds; i++) {
        const struct hold *hold = &f->holds[i];
        if (hold->kind != HOLD_rollback || state_ended(f->task.state))
            continue;
        struct why_condition *c = explain_add(x, "rollback", hold->since);
        if (hold->key == f->task.id) {
            c->detail = STR("a change set that it takes back is being applied, and is stopped first");
            c->remedy = STR("it goes on by itself");
            continue;
        }
        c->holder = f->rollbacks ? f->rollbacks[i] : str_fmt(x->arena, "%lld", (long long)hold->key);
        c->detail = str_fmt(x->arena,
            "the rollback %.*s takes it back; it is abandoned when that is done, and goes on if that fails",
            STR_ARG(c->holder));
        c->remedy = str_fmt(x->arena, "weir why %.*s", STR_ARG(c->holder));
    }
}
