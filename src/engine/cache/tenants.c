/* tenants: what each tenant has, counted, and what the configuration says of it (command/site.c).
 *
 * What a tenant has is never counted by walking: tasks and kept bytes are the sum over its lanes, which each turn moves
 * in the transaction that moves the tasks; the rest are rows of small tables, counted as they come and go. So a
 * configuration that limits it is compared with what is known already (engine/quota.c). Running tasks are a semaphore
 * like any other (SLOT_RUNNING). */
#include "core/quota.h"
#include "engine/cache/cache.h"
#include "engine/grants.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

struct known_tenant *tenant_find(struct engine *engine, struct str name)
{
    struct known_tenant *known = engine->cache->n_conf ? smap_find(&engine->cache->tenants, name) : NULL;
    return known && known->listed ? known : NULL;
}

static struct known_tenant *tenant_get(struct engine *engine, struct str name)
{
    struct known_tenant *known = smap_find(&engine->cache->tenants, name);
    if (known)
        return known;
    known = ARENA_NEW(&engine->cache->arena, struct known_tenant);
    smap_put(&engine->cache->tenants, str_dup(&engine->cache->arena, name), known);
    return known;
}

int64_t tenant_quota(struct engine *engine, struct str name)
{
    const struct known_tenant *known = tenant_find(engine, name);
    return known ? known->running : 0;
}

bool tenant_is_listed(struct engine *engine, struct str name)
{
    return !engine->cache->n_listed || str_eqz(name, TENANT_DEFAULT) || tenant_find(engine, name);
}

bool tenant_of_executor(const struct executor *executor, struct str tenant)
{
    return str_eq(executor->tenant, str_eqz(tenant, TENANT_DEFAULT) ? (struct str){ 0 } : tenant);
}

struct str tenant_subject(struct arena *arena, struct str tenant, struct str name)
{
    if (!tenant.len || str_eqz(tenant, TENANT_DEFAULT))
        return name;
    return str_fmt(arena, "%.*s/%.*s", STR_ARG(tenant), STR_ARG(name));
}

/* Names are a tenant's: engine->cache->executor_names has them as events do, NAME or TENANT/NAME. */
struct known_executor *executor_named(struct engine *engine, struct arena *arena, struct str tenant, struct str name)
{
    return smap_find(&engine->cache->executor_names, tenant_subject(arena, tenant, name));
}

/* --- counts --- */

static void lane_counts(struct engine *engine, const struct lane *was, const struct lane *is)
{
    int64_t open = quota_open_tasks(is) - quota_open_tasks(was),
            queues = (is->kind == LANE_QUEUE) - (was->kind == LANE_QUEUE);
    int64_t logs = is->log_bytes - was->log_bytes, files = is->file_bytes - was->file_bytes;
    if (!is->tenant.len || !(open || queues || logs || files))
        return;
    struct known_tenant *known = tenant_get(engine, is->tenant);
    known->open += open;
    known->queues += queues;
    known->log_bytes += logs;
    known->file_bytes += files;
}

void tenant_lane_moved(struct engine *engine, const struct lane *was, const struct lane *is)
{
    lane_counts(engine, was, is);
}

void tenant_lane_made(struct engine *engine, const struct lane *lane)
{
    static const struct lane none;
    if (PLANT(quota_uncounted))
        return;
    lane_counts(engine, &none, lane);
}

void tenant_slot_made(struct engine *engine, const struct slot *slot)
{
    struct known_tenant *known = slot->tenant.len ? tenant_get(engine, slot->tenant) : NULL;
    if (known && str_eqz(slot->name, SLOT_RUNNING))
        known->running = slot->id; /* it stays, also without a limit */
    else if (known)
        known->slots++;
}

void tenant_slot_gone(struct engine *engine, const struct slot *slot)
{
    if (slot->tenant.len)
        tenant_get(engine, slot->tenant)->slots--;
}

void tenant_executors_moved(struct engine *engine, const struct executor *executor, int64_t by)
{
    tenant_get(engine, executor->tenant.len ? executor->tenant : STR(TENANT_DEFAULT))->executors += by;
}

void tenant_archives_moved(struct engine *engine, int64_t lane, int64_t by)
{
    const struct lane *row = map_find(&engine->cache->lanes, (uint64_t)lane + 1);
    if (row && by)
        tenant_get(engine, row->tenant)->archives += by;
}

struct known_tenant *tenant_now(struct turn *turn, struct str name)
{
    struct known_tenant *known = tenant_get(turn->engine, name);
    if (known->serial != turn->engine->serial)
        known->archives_more = known->tokens_more = 0;
    known->serial = turn->engine->serial;
    return known;
}

/* --- who is listed --- */

void tenants_set(struct engine *engine, const struct conf_tenants *conf)
{
    SMAP_EACH (&engine->cache->tenants, e)
        ((struct known_tenant *)e->value)->listed = false;
    engine->cache->limited = false;
    engine->cache->n_conf = conf->n;
    engine->cache->n_listed = 0;
    for (size_t i = 0; i < conf->n; i++) {
        struct known_tenant *known = tenant_get(engine, conf->items[i].name);
        known->listed = true;
        known->conf = conf->items[i];
        engine->cache->n_listed += !str_eqz(known->conf.name, TENANT_DEFAULT);
        for (int q = 0; q < QUOTA_COUNT; q++)
            engine->cache->limited |= known->conf.quotas[q] >= 0;
    }
    MAP_EACH (&engine->cache->slots, e) {
        struct slot *slot = e->value;
        slot->configured = slot->tenant.len && semaphore_is_configured(engine, slot->tenant, slot->name);
        slot_note(engine, slot);
    }
}

void tenants_drop(struct engine *engine)
{
    smap_clear(&engine->cache->tenants);
    engine->cache->limited = false;
    engine->cache->n_conf = engine->cache->n_listed = 0;
}

bool semaphore_is_configured(struct engine *engine, struct str tenant, struct str name)
{
    const struct known_tenant *known = tenant_find(engine, tenant);
    for (size_t i = 0; known && i < known->conf.semaphores.n; i++)
        if (str_eq(known->conf.semaphores.items[i].name, name))
            return true;
    return false;
}
