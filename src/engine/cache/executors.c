/* executors: copies of their rows, by number and by name. An executor may register again every minute, for years: each
 * has one piece of memory for its texts, and the former piece is freed at the end of the turn, whose events may refer
 * to it. GUARD_heard is held while maps and crews change: other threads read them under it. */
#include <string.h>

#include "engine/cache/parts.h"
#include "engine/grants.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

static size_t executor_bytes(const struct executor *row)
{
    size_t bytes =
        row->name.len + row->instance.len + row->host.len + row->version.len + row->zone.len + row->tenant.len;
    for (size_t i = 0; i < row->n_labels; i++)
        bytes += row->labels[i].name.len + row->labels[i].value.len;
    return bytes + row->n_labels * sizeof *row->labels + row->tenant.len + 1 + row->name.len;
}

static void executor_own(struct known_executor *known, const struct executor *row)
{
    struct executor *copy = &known->row;
    known->texts = mem_alloc(executor_bytes(row) + 1);
    char *at = (char *)((struct label *)known->texts + row->n_labels);
    *copy = *row;
    copy->labels = known->texts;
    for (size_t i = 0; i < row->n_labels; i++)
        copy->labels[i] = (struct label){ text_keep(&at, row->labels[i].name), text_keep(&at, row->labels[i].value) };
    struct str *texts[] = { &copy->name, &copy->instance, &copy->host, &copy->version, &copy->zone, &copy->tenant };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = text_keep(&at, *texts[i]);
    bool named = copy->tenant.len && !str_eqz(copy->tenant, TENANT_DEFAULT); /* as tenant_subject */
    char *subject = at;
    if (named)
        text_keep(&at, copy->tenant), *at++ = '/';
    text_keep(&at, copy->name);
    known->subject = (struct str){ subject, (size_t)(at - subject) };
}

void caches_texts_free(struct engine *engine)
{
    for (size_t i = 0; i < engine->cache->texts_old.n; i++)
        mem_free(engine->cache->texts_old.at[i]);
    engine->cache->texts_old.n = 0;
}

static void text_old(struct engine *engine, void *text)
{
    if (engine->cache->texts_old.n == engine->cache->texts_old.cap) {
        engine->cache->texts_old.cap = engine->cache->texts_old.cap ? 2 * engine->cache->texts_old.cap : 16;
        engine->cache->texts_old.at = mem_realloc(
            engine->cache->texts_old.at, engine->cache->texts_old.cap * sizeof *engine->cache->texts_old.at);
    }
    engine->cache->texts_old.at[engine->cache->texts_old.n++] = text;
}

struct known_executor *cache_executor_put(struct engine *engine, const struct executor *row)
{
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)row->id);
    guard_enter(engine, GUARD_heard);
    if (!known) {
        known = mem_alloc(sizeof *known);
        *known = (struct known_executor){ 0 };
        map_put(&engine->cache->executors, (uint64_t)row->id, known);
        tenant_executors_moved(engine, row, 1);
    } else {
        text_old(engine, known->texts); /* events of this turn may name it */
        if (smap_find(&engine->cache->executor_names, known->subject) == known)
            smap_take(&engine->cache->executor_names, known->subject);
    }
    executor_own(known, row);
    if (known->fits)
        memset(known->fits, 0, known->n_fits);
    smap_put(&engine->cache->executor_names, known->subject, known);
    crew_join(engine, known);
    guard_leave(engine, GUARD_heard);
    return known;
}

void cache_executor_drop(struct engine *engine, int64_t id)
{
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)id);
    if (!known)
        return;
    guard_enter(engine, GUARD_heard);
    map_take(&engine->cache->executors, (uint64_t)id);
    if (smap_find(&engine->cache->executor_names, known->subject) == known)
        smap_take(&engine->cache->executor_names, known->subject);
    known->row.state = EXECUTOR_LOST;
    crew_leave(engine, known);
    silence_forget(engine, known);
    guard_leave(engine, GUARD_heard);
    served_look(engine, NULL);
    tenant_executors_moved(engine, &known->row, -1);
    text_old(engine, known->texts);
    mem_free(known->fits);
    mem_free(known);
}

/* Drops executors that a failed turn made: their numbers will be given to others. */
void cache_executors_unmake(struct engine *engine)
{
    MAP_EACH (&engine->cache->executors, e) {
        const struct known_executor *known = e->value;
        if (known->row.id >= engine->head.next_executor)
            cache_executor_drop(engine, known->row.id);
    }
}

struct known_executor *cache_executor_refresh(struct engine *engine, const struct executor *row)
{
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)row->id);
    bool same = known && str_eq(known->row.name, row->name) && str_eq(known->row.instance, row->instance) &&
                str_eq(known->row.host, row->host) && str_eq(known->row.version, row->version) &&
                str_eq(known->row.zone, row->zone) && str_eq(known->row.tenant, row->tenant) &&
                known->row.kinds == row->kinds && known->row.n_labels == row->n_labels;
    for (size_t i = 0; same && i < row->n_labels; i++)
        same = str_eq(known->row.labels[i].name, row->labels[i].name) &&
               str_eq(known->row.labels[i].value, row->labels[i].value);
    if (!same)
        return cache_executor_put(engine, row);
    bool changed = known->row.state != row->state;
    known->row.slots = row->slots;
    known->row.state = row->state;
    known->row.registered = row->registered;
    known->row.processed = row->processed;
    known->row.failed = row->failed;
    known->row.owner = row->owner;
    known->row.silent = row->silent;
    if (changed)
        crew_state(engine, known);
    return changed ? known : NULL;
}
