#include "core/pick.h"

#include "base/plant.h"

struct ready_row ready_row_of(const struct task *task)
{
    return (struct ready_row){ .task = task->id, .prio = task->prio, .vt = task->vt };
}

int ready_order(const struct ready_row *a, const struct ready_row *b)
{
    bool by_prio = a->prio != b->prio;
    if (PLANT(prio_ignored))
        by_prio = false;
    if (by_prio)
        return a->prio > b->prio ? -1 : 1;
    if (a->vt != b->vt)
        return a->vt < b->vt ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

const struct ready_row *ready_earlier(const struct ready_row *a, const struct ready_row *b)
{
    if (!a || !b)
        return a ? a : b;
    return ready_order(a, b) < 0 ? a : b;
}

static bool pick_swap(struct picks *picks, size_t upper, size_t lower)
{
    struct pick *a = &picks->list[upper], *b = &picks->list[lower], was = *a;
    if (ready_order(&a->head, &b->head) <= 0)
        return false;
    *a = *b;
    *b = was;
    return true;
}

void picks_add(struct picks *picks, struct arena *arena, const struct ready_row *head, void *supply)
{
    size_t at = picks->n;
    *ARENA_PUSH(arena, picks->list, picks->n, picks->cap) = (struct pick){ *head, supply };
    while (at > 0 && pick_swap(picks, (at - 1) / 2, at))
        at = (at - 1) / 2;
}

const struct pick *picks_first(const struct picks *picks)
{
    return picks->n ? &picks->list[0] : NULL;
}

void picks_replace(struct picks *picks, const struct ready_row *head)
{
    if (head)
        picks->list[0].head = *head;
    else
        picks->list[0] = picks->list[--picks->n];
    for (size_t at = 0, child; (child = 2 * at + 1) < picks->n; at = child) {
        if (child + 1 < picks->n && ready_order(&picks->list[child + 1].head, &picks->list[child].head) < 0)
            child++;
        if (!pick_swap(picks, at, child))
            return;
    }
}
