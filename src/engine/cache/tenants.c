/* tenants: what a tenant has and may have, as the site's keys say (site.c).
 *
 * What a tenant has is never counted by walking: tasks and kept bytes are the sum over its lanes, which each turn moves
 * in the transaction that moves the tasks; the rest are rows of small tables, counted as they come and go. So a
 * configuration that limits it is compared with what is known already. Running tasks are a semaphore like any other
 * (SLOT_RUNNING).
 *
 * It fails by refusing: quota_exceeded for what goes away by itself, quota_full for what somebody has to clear away;
 * both say the numbers and what to do. */
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/tenants.h"
#include "engine/tokens.h"
#include "engine/waiters.h"
#include "text/json_value.h"

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

static int64_t open_tasks(const struct lane *lane)
{
    return lane->counts[STATE_Q] + lane->counts[STATE_S] + lane->counts[STATE_P] + lane->counts[STATE_X];
}

static void lane_counts(struct engine *engine, const struct lane *was, const struct lane *is)
{
    int64_t open = open_tasks(is) - open_tasks(was), queues = (is->kind == LANE_QUEUE) - (was->kind == LANE_QUEUE);
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

/* --- quotas --- */

static int64_t tenant_used(struct turn *turn, const struct known_tenant *known, enum quota quota)
{
    struct known_tenant now = *known;
    if (quota == QUOTA_archives)
        return known->archives + tenant_now(turn, known->conf.name)->archives_more;
    if (quota == QUOTA_tokens)
        return tokens_of(turn, known->conf.name);
    if (quota == QUOTA_executors)
        return known->executors;
    if (quota == QUOTA_queues)
        return known->queues;
    if (quota == QUOTA_semaphores)
        return known->slots;
    MAP_EACH (&turn->slice->lanes, e) { /* what this turn has done so far */
        const struct lane *is = e->value, *was = map_find(&turn->engine->cache->lanes, e->key);
        if (!str_eq(is->tenant, known->conf.name))
            continue;
        now.open += open_tasks(is) - open_tasks(was);
        now.log_bytes += is->log_bytes - was->log_bytes;
        now.file_bytes += is->file_bytes - was->file_bytes;
    }
    return quota == QUOTA_logs ? now.log_bytes : quota == QUOTA_files ? now.file_bytes : now.open;
}

static const struct {
    const char *things, *remedy;
} quota_texts[QUOTA_COUNT] = {
    [QUOTA_tasks] = { "open tasks", "try again when some have ended" },
    [QUOTA_archives] = { "archives", "remove one: weir archive remove" },
    [QUOTA_queues] = { "queues", "use one that is there" },
    [QUOTA_semaphores] = { "semaphores and concurrency keys", "use one that is there" },
    [QUOTA_tokens] = { "tokens", "revoke one: weir token revoke" },
    [QUOTA_executors] = { "executors", "use the name of one that is there" },
    [QUOTA_logs] = { "bytes of logs", "clear away what is old: weir history prune --older-than 30d" },
    [QUOTA_files] = { "bytes of artifacts", "clear away what is old: weir history prune --older-than 30d" },
};

bool quota_refused(struct turn *turn, struct command *command, enum quota quota, int64_t more)
{
    const struct known_tenant *known =
        turn->engine->cache->limited ? tenant_find(turn->engine, command->actor.tenant) : NULL;
    if (!known || known->conf.quotas[quota] < 0 || more <= 0)
        return false;
    int64_t used = tenant_used(turn, known, quota), limit = known->conf.quotas[quota];
    if (used <= limit && more <= limit - used)
        return false;
    struct str asked = more > 1 ? str_fmt(turn->arena, ", and this is %lld more", (long long)more) : (struct str){ 0 };
    turn_refuse(turn, command, quota == QUOTA_tasks ? ERR_quota_exceeded : ERR_quota_full,
        "the tenant '%.*s' has %lld of %lld %s%.*s; %s, or have tenants.%.*s.quotas.%s raised",
        STR_ARG(known->conf.name), (long long)used, (long long)limit, quota_texts[quota].things, STR_ARG(asked),
        quota_texts[quota].remedy, STR_ARG(known->conf.name), quota_name(quota));
    return true;
}

bool quota_tasks_refused(struct turn *turn, struct command *command, int64_t more)
{
    return quota_refused(turn, command, QUOTA_tasks, more) || quota_refused(turn, command, QUOTA_logs, 1) ||
           quota_refused(turn, command, QUOTA_files, 1);
}

bool quota_tasks_full(struct turn *turn, struct str tenant)
{
    const struct known_tenant *known = turn->engine->cache->limited ? tenant_find(turn->engine, tenant) : NULL;
    return known && known->conf.quotas[QUOTA_tasks] >= 0 &&
           tenant_used(turn, known, QUOTA_tasks) >= known->conf.quotas[QUOTA_tasks];
}

/* Names that a call would make: each once. */
static void name_count(struct turn *turn, struct smap *seen, struct str name, bool there, int64_t *n)
{
    if (there || smap_find(seen, name))
        return;
    smap_put(seen, str_dup(turn->arena, name), turn);
    ++*n;
}

bool quota_enqueue_refused(struct turn *turn, struct command *command)
{
    const struct known_tenant *known =
        turn->engine->cache->limited ? tenant_find(turn->engine, command->actor.tenant) : NULL;
    const struct task_def *defs = command->in.enqueue.defs;
    struct str tenant = command->actor.tenant;
    struct smap queues = { 0 }, slots = { 0 };
    int64_t n = 0, n_queues = 0, n_slots = 0;
    if (!known)
        return false;
    for (size_t i = 0; i < command->in.enqueue.n_defs; i++) {
        if (defs[i].unique.len && unique_find(turn, tenant, defs[i].unique))
            continue;
        n++;
        name_count(turn, &queues, defs[i].queue, cache_lane_find(turn, tenant, defs[i].queue) != NULL, &n_queues);
        for (size_t k = 0; k < defs[i].n_semaphores; k++)
            name_count(turn, &slots, defs[i].semaphores[k],
                cache_slot_find(turn, tenant, defs[i].semaphores[k]) != NULL, &n_slots);
        if (!defs[i].concurrency.len)
            continue;
        bool used = map_find(&turn->engine->cache->slots, (uint64_t)slot_of_key(turn, tenant, defs[i].concurrency));
        name_count(turn, &slots, str_fmt(turn->arena, SLOT_KEY "%.*s", STR_ARG(defs[i].concurrency)), used, &n_slots);
    }
    smap_release(&queues);
    smap_release(&slots);
    if (PLANT(quota_by_call))
        n = 1;
    return quota_tasks_refused(turn, command, n) || quota_refused(turn, command, QUOTA_queues, n_queues) ||
           quota_refused(turn, command, QUOTA_semaphores, n_slots);
}

/* Of a revision: what it will make isn't known before it is opened, so it is taken while there is room for one more. */
bool quota_revision_refused(struct turn *turn, struct command *command, const struct definition *definition)
{
    const struct known_tenant *known =
        turn->engine->cache->limited ? tenant_find(turn->engine, command->actor.tenant) : NULL;
    const struct workflow *workflow = definition && definition->valid ? &definition->workflow : NULL;
    struct str tenant = command->actor.tenant;
    struct smap slots = { 0 };
    int64_t n_slots = 0;
    if (!known)
        return false;
    for (size_t i = 0; workflow && i < workflow->n_semaphores; i++)
        name_count(turn, &slots, workflow->semaphores[i].name,
            cache_slot_find(turn, tenant, workflow->semaphores[i].name) != NULL, &n_slots);
    for (size_t i = 0; workflow && i < workflow->n_tasks; i++)
        for (size_t k = 0; k < workflow->tasks[i].semaphores.n; k++) {
            struct str name = workflow->tasks[i].semaphores.items[k];
            name_count(turn, &slots, name, cache_slot_find(turn, tenant, name) != NULL, &n_slots);
        }
    smap_release(&slots);
    return quota_tasks_refused(turn, command, 1) || quota_refused(turn, command, QUOTA_semaphores, n_slots);
}

/* --- kept bytes --- */

/* artifacts_bytes: outputs are an object and, where files were kept, a second line with their list (api/artifacts.c).
 */
static int64_t artifacts_bytes(struct str outputs)
{
    ptrdiff_t cut = str_index(outputs, '\n');
    struct err ignored = { .code = ERR_none };
    int64_t bytes = 0;
    if (cut < 0)
        return 0;
    json_t *rows = json_parse(str_sub(outputs, (size_t)cut + 1, outputs.len), 4, &ignored);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_int_t n = json_integer_value(json_object_get(json_array_get(rows, i), "bytes"));
        if (n > 0)
            bytes += n;
    }
    json_decref(rows);
    return bytes;
}

static int64_t kept_files(struct turn *turn, const struct node *node)
{
    struct store *store = turn->engine->store;
    if (!(node->row.marks & MARK_OUTPUTS))
        return 0;
    struct str outputs = outputs_told(turn, node->row.id);
    if (!outputs.len && !store->ops->load_outputs(store, turn->arena, node->row.id, &outputs, turn->err))
        turn->slice->failed = true;
    return artifacts_bytes(outputs);
}

/* Who sends a log is asked how long it is, and one that says less, or never comes to say it, would have as much as it
 * likes. Where nothing is limited, which is nearly everywhere, nobody looks. */
static bool logs_limited(const struct turn *turn, const struct node *node)
{
    struct engine *engine = turn->engine;
    const struct known_tenant *known =
        engine->cache->limited ? tenant_find(engine, slice_lane(turn->slice, node->row.lane)->tenant) : NULL;
    return known && known->conf.quotas[QUOTA_logs] >= 0;
}

int64_t log_counted(struct turn *turn, const struct node *node, const struct attempt *attempt, int64_t said)
{
    const struct engine *engine = turn->engine;
    /* of one that was given up */
    int64_t stored = 0, before = attempt->finished && attempt->log_bytes > 0 ? attempt->log_bytes : 0;
    struct err ignored = { 0 };
    bool look = logs_limited(turn, node) && engine->config.logs && !turn->logs_away;
    if (look && !logs_size(engine->config.logs, node->row.id, attempt->grant, &stored, &ignored))
        turn->logs_away = true;
    if (before > stored)
        stored = before;
    return stored > 0 && stored > said ? stored : said;
}

void kept_add(struct turn *turn, struct node *node, const struct attempt *was, int64_t log_bytes, struct str outputs)
{
    struct lane *lane = slice_lane(turn->slice, node->row.lane);
    int64_t files = outputs.len ? artifacts_bytes(outputs) : 0,
            before = outputs.len && node->row.marks & MARK_KEPT ? kept_files(turn, node) : 0;
    /* when it was given up */
    bool counted = was && was->finished && was->log_bytes > 0 && task_pruned(&node->row) < node->row.grant;
    if (counted)
        log_bytes -= was->log_bytes;
    if (log_bytes <= 0 && files == before)
        return;
    /* a late result */
    if (task_pruned(&node->row) >= node->row.grant)
        task_pruned_set(&node->row, node->row.grant - 1);
    lane->log_bytes += log_bytes > 0 && log_bytes < INT64_MAX / 2 - lane->log_bytes ? log_bytes : 0;
    lane->file_bytes += files - before;
    node->row.marks |= MARK_KEPT;
    slice_touch(turn->slice, node);
}

void log_grown(struct turn *turn, struct node *node, int64_t grant, int64_t bytes)
{
    const struct pending_attempt *found = logs_limited(turn, node) ? attempt_find(turn, node->row.id, grant) : NULL;
    if (!found || !found->attempt.finished || found->attempt.log_bytes >= bytes || task_pruned(&node->row) >= grant)
        return;
    struct attempt was = found->attempt, longer = was;
    longer.log_bytes = bytes;
    attempt_change(turn, &longer)->ended = true;
    kept_add(turn, node, &was, bytes, (struct str){ 0 });
}

void command_log_grown(struct turn *turn, struct command *command)
{
    struct node *node = slice_find(turn->slice, command->in.log.task);
    if (node)
        log_grown(turn, node, command->in.log.grant, command->in.log.bytes);
    command->status = 200;
}

void kept_drop(struct turn *turn, struct node *node, int64_t log_bytes)
{
    struct lane *lane = slice_lane(turn->slice, node->row.lane);
    if (!(node->row.marks & MARK_KEPT))
        return;
    int64_t files = kept_files(turn, node);
    if (!PLANT(prune_bytes_kept))
        lane->log_bytes -= log_bytes < lane->log_bytes ? log_bytes : lane->log_bytes;
    lane->file_bytes -= files < lane->file_bytes ? files : lane->file_bytes;
    node->row.marks &= ~(unsigned)MARK_KEPT;
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
