/* tenants: what a tenant has and may have, and the site's keys that say so (`semaphores:` and `tenants:` of weir.yaml).
 *
 * The keys are stored with a version; a reload changes them in a turn of its own kind, so under the store's lock, and servers that share
 * the store take the change over. What a tenant has is never counted by walking: tasks and kept bytes are the sum over its lanes, which
 * each turn moves in the transaction that moves the tasks; the rest are rows of small tables. Running tasks are a semaphore like any other
 * (SLOT_RUNNING). Sums are kept only while some tenant has a quota.
 *
 * It fails by refusing: quota_exceeded for what goes away by itself, quota_full for what somebody has to clear away; both say the numbers
 * and what to do. */
#include <string.h>

#include "engine/turn.h"
#include "io/log.h"
#include "text/json_read.h"

static struct str text_of(struct arena *arena, void (*write)(struct buf *, const struct site_conf *), const struct site_conf *conf)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    (write)(&text, conf); /* not the failure point of that name */
    struct str out = str_dup(arena, buf_str(&text));
    buf_release(&text);
    return out;
}

static void semaphores_text(struct buf *out, const struct site_conf *conf)
{
    conf_semaphores_write(out, &conf->semaphores);
}

static void tenants_text(struct buf *out, const struct site_conf *conf)
{
    conf_tenants_write(out, &conf->tenants);
}

static const struct {
    const char *name;
    void (*write)(struct buf *, const struct site_conf *);
} site_keys[SITE_KEYS] = { { "semaphores", semaphores_text }, { "tenants", tenants_text } };

struct known_tenant *tenant_find(struct engine *engine, struct str name)
{
    return engine->tenants.n ? smap_find(&engine->tenants, name) : NULL;
}

bool tenant_is_listed(struct engine *engine, struct str name)
{
    return !engine->n_listed || str_eqz(name, TENANT_DEFAULT) || tenant_find(engine, name);
}

bool tenant_of_executor(const struct executor *executor, struct str tenant)
{
    return str_eq(executor->tenant, str_eqz(tenant, TENANT_DEFAULT) ? (struct str){ 0 } : tenant);
}

struct str tenant_subject(struct arena *arena, struct str tenant, struct str name)
{
    if (!tenant.len || str_eqz(tenant, TENANT_DEFAULT)) return name;
    return str_fmt(arena, "%.*s/%.*s", STR_ARG(tenant), STR_ARG(name));
}

/* --- counts -------------------------------------------------------------------------------------------------------------------- */

static int64_t open_tasks(const struct lane *lane)
{
    return lane->counts[STATE_Q] + lane->counts[STATE_S] + lane->counts[STATE_P] + lane->counts[STATE_X];
}

void tenant_lane_moved(struct engine *engine, const struct lane *was, const struct lane *is)
{
    struct known_tenant *known = engine->limited ? tenant_find(engine, is->tenant) : NULL;
    if (!known) return;
    known->open += open_tasks(is) - open_tasks(was);
    known->log_bytes += is->log_bytes - was->log_bytes;
    known->file_bytes += is->file_bytes - was->file_bytes;
}

void tenant_lane_made(struct engine *engine, struct lane *lane)
{
    struct known_tenant *known = tenant_find(engine, lane->tenant);
    if (!known) return;
    lane->quota = known->running;
    known->queues += lane->kind == LANE_QUEUE;
    known->open += open_tasks(lane); /* none, unless another server made it */
    known->log_bytes += lane->log_bytes;
    known->file_bytes += lane->file_bytes;
}

void tenant_slot_made(struct engine *engine, const struct slot *slot)
{
    struct known_tenant *known = slot->tenant.len ? tenant_find(engine, slot->tenant) : NULL;
    if (known) known->slots++;
}

/* All of it anew; afterwards tenant_lane_moved and the like keep it right. A tenant that had a limit of running tasks keeps the slot. */
void tenants_count(struct engine *engine)
{
    SMAP_EACH(&engine->tenants, e) {
        struct known_tenant *known = e->value;
        known->open = known->log_bytes = known->file_bytes = known->queues = known->slots = known->running = 0;
    }
    MAP_EACH(&engine->slots, e) {
        const struct slot *slot = e->value;
        struct known_tenant *known = slot->tenant.len ? tenant_find(engine, slot->tenant) : NULL;
        if (known && str_eqz(slot->name, SLOT_RUNNING)) known->running = slot->id;
        else if (known) known->slots++;
    }
    MAP_EACH(&engine->lanes, e) {
        struct lane *lane = e->value;
        struct known_tenant *known = tenant_find(engine, lane->tenant);
        lane->quota = known ? known->running : 0;
        if (!known) continue;
        known->open += open_tasks(lane);
        known->log_bytes += lane->log_bytes;
        known->file_bytes += lane->file_bytes;
        known->queues += lane->kind == LANE_QUEUE;
    }
}

/* --- quotas -------------------------------------------------------------------------------------------------------------------- */

static int64_t archives_of(struct turn *turn, struct str tenant)
{
    int64_t n = 0;
    MAP_EACH(&turn->engine->archives, e) {
        const struct archive *archive = map_find(&turn->archives, e->key);
        if (!archive) archive = &((const struct known_archive *)e->value)->row;
        n += !archive->removed && str_eq(slice_lane(turn->slice, archive->lane)->tenant, tenant);
    }
    MAP_EACH(&turn->archives, e) { /* made by this very turn */
        const struct archive *archive = e->value;
        if (map_find(&turn->engine->archives, e->key)) continue;
        n += !archive->removed && str_eq(slice_lane(turn->slice, archive->lane)->tenant, tenant);
    }
    return n;
}

static int64_t tokens_of(const struct turn *turn, struct str tenant)
{
    int64_t n = 0;
    for (size_t i = 0; i < turn->engine->n_tokens; i++) n += str_eq(turn->engine->tokens[i].tenant, tenant);
    for (size_t i = 0; i < turn->n_tokens_new; i++) n += str_eq(turn->tokens_new[i]->tenant, tenant);
    return n;
}

static int64_t executors_of(const struct turn *turn, struct str tenant)
{
    int64_t n = 0;
    MAP_EACH(&turn->engine->executors, e) n += tenant_of_executor(&((const struct known_executor *)e->value)->row, tenant);
    return n;
}

static int64_t tenant_used(struct turn *turn, const struct known_tenant *known, enum quota quota)
{
    struct known_tenant now = *known;
    if (quota == QUOTA_archives) return archives_of(turn, known->conf.name);
    if (quota == QUOTA_tokens) return tokens_of(turn, known->conf.name);
    if (quota == QUOTA_executors) return executors_of(turn, known->conf.name);
    if (quota == QUOTA_queues) return known->queues;
    if (quota == QUOTA_semaphores) return known->slots;
    MAP_EACH(&turn->slice->lanes, e) { /* what this turn has done so far */
        const struct lane *is = e->value, *was = map_find(&turn->engine->lanes, e->key);
        if (!str_eq(is->tenant, known->conf.name)) continue;
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
    const struct known_tenant *known = turn->engine->limited ? tenant_find(turn->engine, command->actor.tenant) : NULL;
    if (!known || known->conf.quotas[quota] < 0 || more <= 0) return false;
    int64_t used = tenant_used(turn, known, quota), limit = known->conf.quotas[quota];
    if (used + more <= limit) return false;
    struct str asked = more > 1 ? str_fmt(turn->arena, ", and this is %lld more", (long long)more) : (struct str){ 0 };
    turn_refuse(turn, command, quota == QUOTA_tasks ? ERR_quota_exceeded : ERR_quota_full,
        "the tenant '%.*s' has %lld of %lld %s%.*s; %s, or have tenants.%.*s.quotas.%s raised", STR_ARG(known->conf.name), (long long)used,
        (long long)limit, quota_texts[quota].things, STR_ARG(asked),
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
    const struct known_tenant *known = turn->engine->limited ? tenant_find(turn->engine, tenant) : NULL;
    return known && known->conf.quotas[QUOTA_tasks] >= 0 && tenant_used(turn, known, QUOTA_tasks) >= known->conf.quotas[QUOTA_tasks];
}

/* Names that a call would make: each once. */
static void name_count(struct turn *turn, struct smap *seen, struct str name, bool there, int64_t *n)
{
    if (there || smap_find(seen, name)) return;
    smap_put(seen, str_dup(turn->arena, name), turn);
    ++*n;
}

bool quota_enqueue_refused(struct turn *turn, struct command *command)
{
    const struct known_tenant *known = turn->engine->limited ? tenant_find(turn->engine, command->actor.tenant) : NULL;
    const struct task_def *defs = command->in.enqueue.defs;
    struct str tenant = command->actor.tenant;
    struct smap queues = { 0 }, slots = { 0 };
    int64_t n = 0, n_queues = 0, n_slots = 0;
    if (!known) return false;
    for (size_t i = 0; i < command->in.enqueue.n_defs; i++) {
        if (defs[i].unique.len && unique_find(turn, tenant, defs[i].unique)) continue;
        n++;
        name_count(turn, &queues, defs[i].queue, cache_lane_find(turn, tenant, defs[i].queue) != NULL, &n_queues);
        for (size_t k = 0; k < defs[i].n_semaphores; k++)
            name_count(turn, &slots, defs[i].semaphores[k], cache_slot_find(turn, tenant, defs[i].semaphores[k]) != NULL, &n_slots);
        if (!defs[i].concurrency.len) continue;
        struct str key = str_fmt(turn->arena, "concurrency/%.*s", STR_ARG(defs[i].concurrency));
        name_count(turn, &slots, key, cache_slot_find(turn, tenant, key) != NULL, &n_slots);
    }
    smap_release(&queues);
    smap_release(&slots);
    return quota_tasks_refused(turn, command, n) || quota_refused(turn, command, QUOTA_queues, n_queues) ||
           quota_refused(turn, command, QUOTA_semaphores, n_slots);
}

/* Of a revision: what it will make isn't known before it is opened, so it is taken while there is room for one more. */
bool quota_revision_refused(struct turn *turn, struct command *command, const struct definition *definition)
{
    const struct known_tenant *known = turn->engine->limited ? tenant_find(turn->engine, command->actor.tenant) : NULL;
    const struct workflow *workflow = definition && definition->valid ? &definition->workflow : NULL;
    struct str tenant = command->actor.tenant;
    struct smap slots = { 0 };
    int64_t n_slots = 0;
    if (!known) return false;
    for (size_t i = 0; workflow && i < workflow->n_semaphores; i++)
        name_count(turn, &slots, workflow->semaphores[i].name, cache_slot_find(turn, tenant, workflow->semaphores[i].name) != NULL,
            &n_slots);
    for (size_t i = 0; workflow && i < workflow->n_tasks; i++)
        for (size_t k = 0; k < workflow->tasks[i].semaphores.n; k++) {
            struct str name = workflow->tasks[i].semaphores.items[k];
            name_count(turn, &slots, name, cache_slot_find(turn, tenant, name) != NULL, &n_slots);
        }
    smap_release(&slots);
    return quota_tasks_refused(turn, command, 1) || quota_refused(turn, command, QUOTA_semaphores, n_slots);
}

/* --- kept bytes ------------------------------------------------------------------------------------------------------------------ */

/* artifacts_bytes: outputs are an object and, where files were kept, a second line with their list (api/artifacts.c). */
static int64_t artifacts_bytes(struct str outputs)
{
    ptrdiff_t cut = str_index(outputs, '\n');
    struct err ignored = { .code = ERR_none };
    int64_t bytes = 0;
    if (cut < 0) return 0;
    json_t *rows = json_parse(str_sub(outputs, (size_t)cut + 1, outputs.len), 4, &ignored);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_int_t n = json_integer_value(json_object_get(json_array_get(rows, i), "bytes"));
        if (n > 0) bytes += n;
    }
    json_decref(rows);
    return bytes;
}

static int64_t kept_files(struct turn *turn, const struct node *node)
{
    struct store *store = turn->engine->store;
    struct str outputs = { 0 };
    if (!(node->row.marks & MARK_OUTPUTS)) return 0;
    for (size_t k = 0; k < turn->n_outputs; k++)
        if (turn->outputs[k].task == node->row.id) outputs = turn->outputs[k].json;
    if (!outputs.len && !store->ops->load_outputs(store, turn->arena, node->row.id, &outputs, turn->err)) turn->slice->failed = true;
    return artifacts_bytes(outputs);
}

void kept_add(struct turn *turn, struct node *node, int64_t log_bytes, struct str outputs)
{
    struct lane *lane = slice_lane(turn->slice, node->row.lane);
    if (node->row.marks & MARK_PRUNED) return; /* it isn't pruned twice, so it would never be taken off */
    int64_t files = outputs.len ? artifacts_bytes(outputs) : 0, before = outputs.len && node->row.marks & MARK_KEPT ? kept_files(turn,
        node) : 0;
    if (log_bytes <= 0 && files == before) return;
    lane->log_bytes += log_bytes > 0 ? log_bytes : 0;
    lane->file_bytes += files - before;
    node->row.marks |= MARK_KEPT;
    slice_touch(turn->slice, node);
}

void kept_drop(struct turn *turn, struct node *node, int64_t log_bytes)
{
    struct lane *lane = slice_lane(turn->slice, node->row.lane);
    if (!(node->row.marks & MARK_KEPT)) return;
    int64_t files = kept_files(turn, node);
    lane->log_bytes -= log_bytes < lane->log_bytes ? log_bytes : lane->log_bytes;
    lane->file_bytes -= files < lane->file_bytes ? files : lane->file_bytes;
    node->row.marks &= ~(unsigned)MARK_KEPT;
}

/* --- the site's keys --------------------------------------------------------------------------------------------------------------- */

static void tenants_set(struct engine *engine, const struct conf_tenants *conf)
{
    smap_clear(&engine->tenants);
    engine->limited = false;
    engine->n_listed = 0;
    for (size_t i = 0; i < conf->n; i++) {
        struct known_tenant *known = ARENA_NEW(&engine->site_arena, struct known_tenant);
        known->conf = conf->items[i];
        smap_put(&engine->tenants, known->conf.name, known);
        engine->n_listed += !str_eqz(known->conf.name, TENANT_DEFAULT);
        for (int q = 0; q < QUOTA_COUNT; q++) engine->limited |= known->conf.quotas[q] >= 0;
    }
    tenants_count(engine);
}

void tenants_drop(struct engine *engine)
{
    smap_clear(&engine->tenants);
    arena_reset(&engine->site_arena);
    engine->limited = false;
    engine->n_listed = 0;
    for (size_t i = 0; i < SITE_KEYS; i++) engine->site[i] = (struct site_key){ .body = STR("{}") };
}

bool tenants_load(struct engine *engine, struct err *err)
{
    struct store *store = engine->store;
    struct site_key *rows;
    size_t n;
    struct conf_tenants conf = { 0 };
    tenants_drop(engine);
    if (!store->ops->load_site(store, &engine->site_arena, &rows, &n, err)) return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < SITE_KEYS; k++)
            if (str_eqz(rows[i].name, site_keys[k].name)) engine->site[k] = rows[i];
    if (!conf_tenants_parse(engine->site[SITE_TENANTS].body, &engine->site_arena, &conf))
        return err_set(err, ERR_corrupt, "the stored key 'tenants' of the site can't be read");
    tenants_set(engine, &conf);
    return true;
}

static void semaphores_apply(struct turn *turn, struct str tenant, const struct conf_semaphores *conf, struct str actor)
{
    for (size_t i = 0; i < conf->n; i++) {
        struct str name = conf->items[i].name;
        int64_t limit = conf->items[i].limit;
        struct slot *known = smap_find(&turn->engine->slot_names, str_fmt(turn->arena, "%.*s\x1f%.*s", STR_ARG(tenant), STR_ARG(name)));
        if (!known) known = cache_slot_put(turn, tenant, name, 0);
        struct slot *slot = slice_slot(turn->slice, known->id);
        if (slot->limit == limit) continue;
        slot->limit = limit;
        if (!PLANT(limit_unheard)) slot_changed(turn->slice, slot->id);
        slice_event(turn->slice, &(struct event){ .kind = EVENT_semaphore, .subject = tenant_subject(turn->arena, tenant, slot->name),
                                                  .actor = actor, .reason = str_fmt(turn->arena, "limit %lld", (long long)limit) });
    }
}

/* Running tasks: the slot is made with the first limit, and stays. What runs or is pending already isn't in it. */
static void running_apply(struct turn *turn)
{
    struct engine *engine = turn->engine;
    SMAP_EACH(&engine->tenants, e) {
        struct known_tenant *known = e->value;
        int64_t limit = known->conf.quotas[QUOTA_running] >= 0 ? known->conf.quotas[QUOTA_running] : SLOT_FREE;
        if (!known->running && limit == SLOT_FREE) continue;
        if (!known->running) known->running = cache_slot_put(turn, known->conf.name, STR(SLOT_RUNNING), limit)->id;
        struct slot *slot = slice_slot(turn->slice, known->running);
        if (slot->limit != limit) slot_changed(turn->slice, slot->id);
        slot->limit = limit;
    }
    tenants_count(engine);
    MAP_EACH(&turn->slice->lanes, e) ((struct lane *)e->value)->quota = ((const struct lane *)map_find(&engine->lanes, e->key))->quota;
}

/* A tenant that isn't listed any more keeps what it has and isn't limited: its slot, if it had one, is open to all. */
static void unlisted_free(struct turn *turn)
{
    MAP_EACH(&turn->engine->slots, e) {
        const struct slot *known = e->value;
        if (!str_eqz(known->name, SLOT_RUNNING) || tenant_find(turn->engine, known->tenant)) continue;
        struct slot *slot = slice_slot(turn->slice, known->id);
        if (slot->limit == SLOT_FREE) continue;
        slot->limit = SLOT_FREE;
        slot_changed(turn->slice, slot->id);
    }
}

void site_apply(struct turn *turn, const struct site_conf *conf, struct str actor)
{
    struct engine *engine = turn->engine;
    struct site_conf kept = { 0 };
    for (size_t k = 0; k < SITE_KEYS; k++) {
        struct str body = text_of(&engine->site_arena, site_keys[k].write, conf);
        struct site_key *key = &engine->site[k];
        if (str_eq(body, key->body)) continue;
        *key = (struct site_key){ str_of(site_keys[k].name), body, key->version + 1, turn->wall, str_dup(&engine->site_arena, actor) };
        *ARENA_PUSH(turn->arena, turn->site, turn->n_site, turn->cap_site) = *key;
        slice_event(turn->slice, &(struct event){ .kind = EVENT_config, .subject = key->name, .actor = actor,
                                                  .reason = str_fmt(turn->arena, "version %lld", (long long)key->version) });
    }
    semaphores_apply(turn, (struct str){ 0 }, &conf->semaphores, actor);
    if (!turn->n_site) return;
    bool good = conf_tenants_parse(engine->site[SITE_TENANTS].body, &engine->site_arena, &kept.tenants);
    ASSERT(good); /* our own words */
    tenants_set(engine, &kept.tenants);
    for (size_t i = 0; i < kept.tenants.n; i++)
        semaphores_apply(turn, kept.tenants.items[i].name, &kept.tenants.items[i].semaphores, actor);
    running_apply(turn);
    unlisted_free(turn);
}

void cmd_site(struct turn *turn, struct command *command)
{
    site_apply(turn, &command->in.site.conf, command->actor.name);
    command->status = 200;
}

/* At the start a server alone goes by its file; one of several goes by what the site has, and says so where its file says otherwise. */
void site_start(struct turn *turn)
{
    struct engine *engine = turn->engine;
    const struct site_conf *conf = &engine->config.site;
    bool stored = false;
    for (size_t k = 0; k < SITE_KEYS; k++) stored |= engine->site[k].version > 0;
    if (engine->store->exclusive || !stored) {
        site_apply(turn, conf, STR("configuration"));
        return;
    }
    for (size_t k = 0; k < SITE_KEYS; k++) {
        struct str body = text_of(turn->arena, site_keys[k].write, conf);
        if (str_eqz(body, "{}") || str_eq(body, engine->site[k].body)) continue;
        log_warn("config.differs", "key=%s version=%lld note=\"the site goes by what is stored; send SIGHUP to this server to change it\"",
            site_keys[k].name, (long long)engine->site[k].version);
    }
}

bool semaphore_is_configured(struct engine *engine, struct str tenant, struct str name)
{
    const struct known_tenant *known = tenant_find(engine, tenant);
    for (size_t i = 0; known && i < known->conf.semaphores.n; i++)
        if (str_eq(known->conf.semaphores.items[i].name, name)) return true;
    return false;
}
