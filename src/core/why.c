#include "core/why.h"

#include "base/plant.h"
#include "core/hold.h"

const struct task_class *class_of_key(struct arena *arena, struct str key, struct task_class *out)
{
    struct str rest = key, kind = { 0 }, label;
    size_t cap = 0;
    *out = (struct task_class){ .key = key };
    if (!str_cut(&rest, '\x1f', &out->tenant) || !str_cut(&rest, '\x1f', &out->zone) || !str_cut(&rest, '\x1f', &kind))
        return NULL;
    out->kind = class_kind_find(kind);
    while (str_cut(&rest, '\x1f', &label)) {
        struct label *added = ARENA_PUSH(arena, out->labels, out->n_labels, cap);
        str_cut(&label, '=', &added->name);
        added->value = label;
    }
    return out;
}

bool class_fits(const struct task_class *class_, const struct executor *executor)
{
    if (!(executor->kinds & (1u << class_->kind)))
        return false;
    if (executor->tenant.len && !str_eq(class_->tenant, executor->tenant))
        return false;
    if (class_->zone.len && !str_eq(class_->zone, executor->zone))
        return false;
    for (size_t i = 0; i < class_->n_labels; i++) {
        bool has = str_eqz(class_->labels[i].name, CLASS_TARGET);
        for (size_t k = 0; k < executor->n_labels && !has; k++)
            has = str_eq(class_->labels[i].name, executor->labels[k].name) &&
                  str_eq(class_->labels[i].value, executor->labels[k].value);
        if (!has)
            return false;
    }
    return true;
}

struct why_condition *explain_add(struct explain *x, const char *kind, int64_t since)
{
    struct why_condition *c = ARENA_PUSH(x->arena, x->out->conditions, x->out->n_conditions, x->cap);
    c->kind = kind;
    c->since = since;
    return c;
}

static void range_add(struct why_gap *gap, int64_t first, int64_t last)
{
    if (first > last)
        return;
    if (gap->n_ranges < WHY_RANGES_MAX)
        gap->ranges[gap->n_ranges++] = (struct why_range){ first, last };
    else
        gap->more += last - first + 1;
}

void why_gap_ranges(struct why_gap *gap, const struct revision *known, size_t n_known, int64_t end)
{
    int64_t from = gap->rev + 1;
    for (size_t i = n_known; i-- > 0;) {
        if (known[i].rev < from || known[i].rev >= end)
            continue;
        range_add(gap, from, known[i].rev - 1);
        from = known[i].rev + 1;
    }
    range_add(gap, from, end - 1);
}

/* others_text: ", and so are 7, 9 to 12 and 3 more"; empty: none. */
static struct str others_text(struct arena *arena, const struct why_gap *gap)
{
    if (gap->n_ranges == 0)
        return gap->unread ? STR(", and perhaps more") : (struct str){ 0 };
    bool one = gap->n_ranges == 1 && gap->ranges[0].first == gap->ranges[0].last && !gap->unread;
    struct str text = one ? STR(", and so is ") : STR(", and so are ");
    for (size_t i = 0; i < gap->n_ranges; i++) {
        const struct why_range *range = &gap->ranges[i];
        bool last = i + 1 == gap->n_ranges && gap->more == 0 && !gap->unread;
        text = str_fmt(arena, "%.*s%s%lld", STR_ARG(text),
            i == 0 ? ""
            : last ? " and "
                   : ", ",
            (long long)range->first);
        if (range->last > range->first)
            text = str_fmt(arena, "%.*s to %lld", STR_ARG(text), (long long)range->last);
    }
    if (gap->unread)
        return str_fmt(arena, "%.*s and perhaps more", STR_ARG(text));
    return gap->more > 0 ? str_fmt(arena, "%.*s and %lld more", STR_ARG(text), (long long)gap->more) : text;
}

/* explain_gap: revisions are initialised in their order, whatever order they were told in. */
static void explain_gap(struct explain *x)
{
    const struct why_gap *gap = &x->facts->gap;
    struct str lane = x->facts->lane_name;
    if (gap->rev == 0)
        return;
    struct why_condition *c = explain_add(x, "gap", x->facts->task.created);
    c->holder = str_fmt(x->arena, "%.*s@%lld", STR_ARG(lane), (long long)gap->rev);
    if (!gap->missing) {
        c->detail =
            str_fmt(x->arena, "revision %lld of %.*s has to be initialised first", (long long)gap->rev, STR_ARG(lane));
        c->remedy = STR("it goes on by itself");
        return;
    }
    struct str others = others_text(x->arena, gap);
    bool several = others.len > 0;
    c->detail = str_fmt(x->arena, "revision %lld of %.*s is missing%.*s: nobody has told of %s yet",
        (long long)gap->rev, STR_ARG(lane), STR_ARG(others), several ? "them" : "it");
    c->remedy =
        gap->posted
            ? str_fmt(x->arena, "post revision %lld%s, or give %s up: weir archive skip %.*s %lld --reason TEXT",
                  (long long)gap->rev, several ? " and the others" : "", several ? "each" : "it", STR_ARG(lane),
                  (long long)gap->rev)
            : str_fmt(x->arena, "it is read from the repository; weir archive show %.*s tells what keeps it from that",
                  STR_ARG(lane));
}

/* What a task will supersede is ended at once, unless it executes: then it has to die first. */
static bool pred_unmet(const struct why_pred *pred)
{
    bool ended = state_ended(pred->state), due = pred->due && pred->state == STATE_X, lock_late = false;
    if (PLANT(why_supersedes_late))
        due = false;
    if (PLANT(why_lock_late))
        lock_late = pred->lock;
    if (lock_late)
        return pred->state == STATE_X;
    if (pred->untold)
        return pred->kind != EDGE_CANCELS || pred->fired;
    return pred->kind == EDGE_DEPENDS ? pred->state != STATE_D
           : pred->kind == EDGE_AFTER ? !ended
                                      : (pred->fired && !ended) || due;
}

static int pred_rank(const struct why_pred *pred)
{
    return pred->kind == EDGE_DEPENDS ? 0 : pred->kind == EDGE_AFTER ? 1 : pred->fired ? 2 : 3;
}

/* The same task is waited for already, by an edge that asks for more. */
static bool pred_twice(const struct why_facts *facts, size_t i)
{
    const struct why_pred *preds = facts->preds;
    for (size_t k = 0; k < facts->n_preds; k++) {
        int a = pred_rank(&preds[k]), b = pred_rank(&preds[i]);
        if (k != i && preds[k].id == preds[i].id && (a < b || (a == b && k < i)) && pred_unmet(&preds[k]))
            return true;
    }
    return false;
}

static void explain_edges(struct explain *x)
{
    const struct task *task = &x->facts->task;
    for (size_t i = 0; i < x->facts->n_preds; i++) {
        const struct why_pred *pred = &x->facts->preds[i];
        bool ended = state_ended(pred->state);
        if (!pred_unmet(pred))
            continue;
        if (pred_twice(x->facts, i))
            continue;
        const char *kind = pred->lock ? "lock" : pred->kind == EDGE_DEPENDS ? "dependency" : "precursor";
        struct why_condition *c = explain_add(x, kind, task->created);
        c->holder = pred->key;
        if (pred->untold && (pred->kind != EDGE_DEPENDS || pred->state == STATE_D)) {
            c->detail = str_fmt(x->arena,
                "%.*s has ended; very many wait for it and go on in their order, this one soon", STR_ARG(pred->key));
            c->remedy = STR("it goes on by itself");
        } else if (pred->kind == EDGE_CANCELS && !pred->fired) {
            c->detail = str_fmt(x->arena,
                "when it is ready it supersedes %.*s, which is executing and has to end first", STR_ARG(pred->key));
            c->remedy = str_fmt(x->arena, "weir why %.*s", STR_ARG(pred->key));
        } else if (pred->kind == EDGE_CANCELS) {
            c->detail = str_fmt(x->arena, "it supersedes %.*s, which is being put to an end", STR_ARG(pred->key));
            c->remedy = STR("its executor ends it; after a lost executor the lease has to run out");
        } else if (pred->lock) {
            c->detail = str_fmt(x->arena, "%.*s has the archive's lock, or has it first; it is %s", STR_ARG(pred->key),
                state_word(pred->state));
            c->remedy = str_fmt(x->arena, "weir why %.*s", STR_ARG(pred->key));
        } else if (ended) {
            c->detail =
                str_fmt(x->arena, "%.*s, which it depends on, is %s", STR_ARG(pred->key), state_word(pred->state));
            c->remedy = str_fmt(x->arena, "weir retry %.*s", STR_ARG(pred->key));
            x->never = true;
        } else {
            c->detail = str_fmt(x->arena, "%.*s has to %s; it is %s", STR_ARG(pred->key),
                pred->kind == EDGE_DEPENDS ? "succeed" : "leave the queue", state_word(pred->state));
            if (pred->path.len > 0)
                c->detail = str_fmt(x->arena, "%.*s; both have %.*s", STR_ARG(c->detail), STR_ARG(pred->path));
            c->remedy = str_fmt(x->arena, "weir why %.*s", STR_ARG(pred->key));
        }
    }
}

/* explain_target: change sets of a target are applied one at a time. */
static void explain_target(struct explain *x)
{
    const struct why_facts *f = x->facts;
    if (f->applying.len == 0 || f->task.state != STATE_P)
        return;
    struct why_condition *c = explain_add(x, "target", f->applying_since);
    c->holder = f->applying;
    c->detail = str_fmt(
        x->arena, "%.*s is being applied; change sets of a target are applied one at a time", STR_ARG(f->applying));
    c->remedy =
        str_fmt(x->arena, "it goes on by itself; weir log -f %.*s shows what that one does", STR_ARG(f->applying));
}

void why_explain(const struct why_facts *facts, struct arena *arena, struct why *out)
{
    *out = (struct why){ 0 };
    struct explain x = { .facts = facts, .arena = arena, .out = out };
    if (state_ended(facts->task.state)) {
        out->verdict = WHY_ENDED;
        return;
    }
    if (facts->task.state == STATE_X) {
        out->verdict = WHY_RUNNING;
        return;
    }
    explain_gap(&x);
    explain_edges(&x);
    explain_target(&x);
    for (enum hold_kind kind = 1; kind < HOLD_KIND_COUNT; kind++)
        if (hold_rule(kind)->explain)
            hold_rule(kind)->explain(&x);
    out->verdict = x.never ? WHY_NEVER : WHY_WAITING;
}
