/* recent: rows of tasks as the last turns left them: a task that was enqueued is soon claimed, one that was claimed is
 * soon finished, and neither is read back from the store. A place is found by the lower bits of the id; the newest task
 * has it. A commit of another server makes all of them old (recent_since). */
#include "engine/cache/parts.h"
#include "engine/shared/shared.h"
#include "store/row_copy.h"

static void recent_put(struct engine *engine, const struct task *row)
{
    struct recent *recent = &engine->cache->recent[(size_t)row->id & (TASKS_RECENT - 1)];
    if (row->name.len + row->variant.len + row->reason.len + row->unique.len > sizeof recent->text) {
        if (recent->row.id == row->id)
            recent->row.id = 0;
        return;
    }
    char *at = recent->text;
    recent->row = *row;
    recent->since = engine->cache->recent_since;
    recent->row.name = text_keep(&at, row->name);
    recent->row.variant = text_keep(&at, row->variant);
    recent->row.reason = text_keep(&at, row->reason);
    recent->row.unique = text_keep(&at, row->unique);
}

void recent_follow(struct turn *turn)
{
    if (!turn->engine->cache->recent)
        return;
    MAP_EACH (&turn->slice->nodes, e) {
        const struct node *node = e->value;
        if (node->dirty)
            recent_put(turn->engine, &node->row);
    }
}

bool recent_row(const struct engine *engine, int64_t id, const struct task **out)
{
    const struct recent *recent =
        engine->cache->recent ? &engine->cache->recent[(size_t)id & (TASKS_RECENT - 1)] : NULL;
    if (!recent || recent->row.id != id || id <= 0 || recent->since != engine->cache->recent_since ||
        engine->shared->narrow)
        return false;
    *out = &recent->row;
    return true;
}

/* Strings are copied: the place may be taken by another task while this turn's rows are remembered. */
bool recent_find(struct engine *engine, struct arena *arena, int64_t id, struct task *out)
{
    const struct task *row;
    if (!recent_row(engine, id, &row))
        return false;
    *out = *row;
    row_copy_task(arena, out);
    return true;
}

void recent_drop(struct engine *engine)
{
    mem_free(engine->cache->recent);
    engine->cache->recent = NULL;
}

void recent_open(struct engine *engine)
{
    recent_drop(engine);
    engine->cache->recent = mem_alloc_zero(TASKS_RECENT * sizeof *engine->cache->recent);
}
