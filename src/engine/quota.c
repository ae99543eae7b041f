/* quotas: before a command makes something, what its tenant has is compared with what it may have (core/quota.c); and
 * the bytes that ended tasks leave behind are counted on their lanes.
 *
 * What a tenant has is counted by cache/tenants.c; here what this turn has done so far is added. A log's size is what
 * its executor reports; where logs are limited, what is stored counts if it is more.
 *
 * It fails by refusing: quota_exceeded where waiting helps, quota_full where somebody has to clear something away. */
#include "core/quota.h"

#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/tenants.h"
#include "engine/tokens.h"
#include "engine/waiters.h"
#include "text/json_value.h"

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
        now.open += quota_open_tasks(is) - quota_open_tasks(was);
        now.log_bytes += is->log_bytes - was->log_bytes;
        now.file_bytes += is->file_bytes - was->file_bytes;
    }
    return quota == QUOTA_logs ? now.log_bytes : quota == QUOTA_files ? now.file_bytes : now.open;
}

/* The tenant, where it is listed and some tenant has a limit; NULL: nothing is limited for it. */
static const struct known_tenant *tenant_limited(struct turn *turn, struct str name)
{
    return turn->engine->cache->limited ? tenant_find(turn->engine, name) : NULL;
}

bool quota_refused(struct turn *turn, struct command *command, enum quota quota, int64_t more)
{
    const struct known_tenant *known = tenant_limited(turn, command->actor.tenant);
    struct quota_ask ask = { .quota = quota, .limit = known ? known->conf.quotas[quota] : -1, .more = more };
    if (ask.limit < 0 || more <= 0)
        return false; /* before anything is counted: nearly always */
    ask.used = tenant_used(turn, known, quota);
    if (quota_allows(&ask))
        return false;
    struct str text = quota_refusal(&ask, known->conf.name, turn->arena);
    return !turn_refuse(turn, command, quota_error(quota), "%.*s", STR_ARG(text));
}

bool quota_tasks_refused(struct turn *turn, struct command *command, int64_t more)
{
    return quota_refused(turn, command, QUOTA_tasks, more) || quota_refused(turn, command, QUOTA_logs, 1) ||
           quota_refused(turn, command, QUOTA_files, 1);
}

bool quota_tasks_full(struct turn *turn, struct str tenant)
{
    const struct known_tenant *known = tenant_limited(turn, tenant);
    if (!known || known->conf.quotas[QUOTA_tasks] < 0)
        return false;
    return !quota_allows(
        &(struct quota_ask){ QUOTA_tasks, known->conf.quotas[QUOTA_tasks], tenant_used(turn, known, QUOTA_tasks), 1 });
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
    const struct known_tenant *known = tenant_limited(turn, command->actor.tenant);
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

/* How many tasks a revision makes isn't known before it is opened: it is accepted while there is room for one more. */
bool quota_revision_refused(struct turn *turn, struct command *command, const struct definition *definition)
{
    const struct known_tenant *known = tenant_limited(turn, command->actor.tenant);
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

/* An executor reports how long its log is, and one that reports less, or never ends the attempt, could store as much as
 * it likes: where logs are limited the store is asked. Nearly everywhere nothing is limited, and nothing is asked. */
static bool logs_limited(struct turn *turn, const struct node *node)
{
    const struct known_tenant *known = tenant_limited(turn, slice_lane(turn->slice, node->row.lane)->tenant);
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

/* Bytes that a server has taken and not stored yet aren't seen here; the log store tells of them later (seals.c). */
int64_t log_lost(struct turn *turn, const struct node *node, const struct attempt *attempt)
{
    if (logs_limited(turn, node))
        *ARRAY_ADD(turn->arena, turn->logs_lost) = (struct log_name){ node->row.id, attempt->grant };
    return log_counted(turn, node, attempt, -1);
}

void kept_add(struct turn *turn, struct node *node, const struct attempt *was, int64_t log_bytes, struct str outputs)
{
    struct lane *lane = slice_lane(turn->slice, node->row.lane);
    int64_t files = outputs.len ? artifacts_bytes(outputs) : 0,
            before = outputs.len && node->row.marks & MARK_KEPT ? artifacts_bytes(outputs_of(turn, &node->row)) : 0;
    /* when it was given up */
    bool counted = was && was->finished && was->log_bytes > 0 && task_pruned(&node->row) < node->row.grant;
    if (counted)
        log_bytes -= was->log_bytes;
    if (log_bytes <= 0 && files == before)
        return;
    /* a late result */
    if (task_pruned(&node->row) >= node->row.grant)
        task_pruned_set(&node->row, node->row.grant - 1);
    lane->log_bytes = quota_bytes_add(lane->log_bytes, log_bytes);
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

bool command_log_grown(struct turn *turn, struct command *command)
{
    struct node *node = slice_find(turn->slice, command->in.log.task);
    if (node)
        log_grown(turn, node, command->in.log.grant, command->in.log.bytes);
    command->status = 200;
    return true;
}

void kept_tarball(struct turn *turn, struct node *node, int64_t bytes)
{
    if (bytes <= 0)
        return;
    slice_lane(turn->slice, node->row.lane)->file_bytes += bytes;
    node->row.marks |= MARK_KEPT;
}

/* tarball_bytes: of a change set, as its body says (spool/intake.c). */
static int64_t tarball_bytes(struct turn *turn, const struct node *node)
{
    struct err ignored = { .code = ERR_none };
    const struct spec *spec = node->row.marks & MARK_CHANGESET ? slice_spec(turn->slice, node) : NULL;
    json_t *body = spec ? json_parse(spec->body, 4, &ignored) : NULL;
    json_int_t bytes = json_integer_value(json_object_get(body, "tarball_bytes"));
    json_decref(body);
    return bytes > 0 ? bytes : 0;
}

void kept_drop(struct turn *turn, struct node *node, int64_t log_bytes)
{
    struct lane *lane = slice_lane(turn->slice, node->row.lane);
    if (!(node->row.marks & MARK_KEPT))
        return;
    int64_t files = artifacts_bytes(outputs_of(turn, &node->row)) + tarball_bytes(turn, node);
    if (PLANT(prune_bytes_kept))
        log_bytes = 0;
    lane->log_bytes = quota_bytes_drop(lane->log_bytes, log_bytes);
    lane->file_bytes = quota_bytes_drop(lane->file_bytes, files);
    node->row.marks &= ~(unsigned)MARK_KEPT;
}
