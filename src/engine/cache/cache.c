/* caches: the small tables in memory (lanes, classes, slots, executors), a bounded cache of specs, and the rows of
 * tasks that turns wrote lately: what was enqueued is soon claimed, what was claimed is soon finished, and neither is
 * read back from the store.
 *
 * They are copies: the store is right. New rows are put here as the turn makes them; when its commit fails, everything
 * is read anew (caches_drop, caches_load). Strings of lanes and archives live until then, in an arena of their own;
 * those of classes, slots and executors have memory of their own, since these come and go. */
#include <string.h>

#include "core/why.h"
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"
#include "store/row_copy.h"

static struct str parts_join(struct arena *arena, const struct str *parts, size_t n)
{
    size_t len = n - 1;
    for (size_t i = 0; i < n; i++)
        len += parts[i].len;
    char *text = arena_alloc(arena, len + 1), *at = text;
    for (size_t i = 0; i < n; i++) {
        if (i)
            *at++ = '\x1f';
        if (parts[i].len)
            memcpy(at, parts[i].ptr, parts[i].len);
        at += parts[i].len;
    }
    return (struct str){ text, len };
}

static struct str keyed(struct arena *arena, struct str tenant, struct str name)
{
    return parts_join(arena, (struct str[]){ tenant, name }, 2);
}

/* --- lanes --- */

static struct lane *lane_put(struct engine *engine, const struct lane *row)
{
    struct lane *lane = ARENA_NEW(&engine->cache->arena, struct lane);
    *lane = *row;
    lane->tenant = str_dup(&engine->cache->arena, row->tenant);
    lane->name = str_dup(&engine->cache->arena, row->name);
    lane->paused_by = str_dup(&engine->cache->arena, row->paused_by);
    lane->paused_reason = str_dup(&engine->cache->arena, row->paused_reason);
    map_put(&engine->cache->lanes, (uint64_t)lane->id + 1, lane);
    smap_put(&engine->cache->lane_names, keyed(&engine->cache->arena, lane->tenant, lane->name), lane);
    tenant_lane_made(engine, lane);
    return lane;
}

struct lane *cache_lane_find(struct turn *turn, struct str tenant, struct str name)
{
    if (str_eqz(name, "all"))
        return map_find(&turn->engine->cache->lanes, 1);
    return smap_find(&turn->engine->cache->lane_names, keyed(turn->arena, tenant, name));
}

struct lane *cache_lane_make(struct turn *turn, struct str tenant, struct str name, enum lane_kind kind)
{
    if (turn->narrow.is)
        return turn_widen(turn), map_find(&turn->engine->cache->lanes, 1);
    struct lane row = { .id = turn->head.next_lane++, .kind = kind, .tenant = tenant, .name = name };
    struct lane *lane = lane_put(turn->engine, &row);
    slice_lane(turn->slice, lane->id); /* so that it is written */
    return lane;
}

struct lane *cache_lane_get(struct turn *turn, struct str tenant, struct str name)
{
    struct lane *lane = cache_lane_find(turn, tenant, name);
    return lane ? lane : cache_lane_make(turn, tenant, name, LANE_QUEUE);
}

static const struct lane *rows_lane(void *owner, int64_t id)
{
    struct engine *engine = owner;
    struct lane *lane = map_find(&engine->cache->lanes, (uint64_t)id + 1);
    ASSERT(lane);
    lane->quota = tenant_quota(engine, lane->tenant); /* as it is configured now */
    return lane;
}

/* --- classes --- */

static struct str text_keep(char **at, struct str s)
{
    struct str kept = { *at, s.len };
    if (s.len)
        memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return kept;
}

/* One piece of memory of its own, as slots have. Its index is the first that no class has. */
static struct task_class *class_put(struct engine *engine, const struct task_class *row)
{
    size_t bytes = row->key.len + row->tenant.len + row->zone.len, i = 0;
    for (size_t k = 0; k < row->n_labels; k++)
        bytes += row->labels[k].name.len + row->labels[k].value.len;
    struct task_class *class_ = mem_alloc(sizeof *class_ + row->n_labels * sizeof *row->labels + bytes);
    struct label *labels = (struct label *)(void *)(class_ + 1);
    char *at = (char *)(labels + row->n_labels);
    *class_ = *row;
    class_->key = text_keep(&at, row->key);
    class_->tenant = text_keep(&at, row->tenant);
    class_->zone = text_keep(&at, row->zone);
    for (size_t k = 0; k < row->n_labels; k++)
        labels[k] = (struct label){ text_keep(&at, row->labels[k].name), text_keep(&at, row->labels[k].value) };
    class_->labels = labels;
    for (i = engine->cache->index_low; i < engine->cache->n_indexes && engine->cache->indexes[i];)
        i++;
    if (i == engine->cache->n_indexes) {
        engine->cache->n_indexes = 2 * i + 16;
        engine->cache->indexes =
            mem_realloc(engine->cache->indexes, engine->cache->n_indexes * sizeof *engine->cache->indexes);
        memset(engine->cache->indexes + i, 0, (engine->cache->n_indexes - i) * sizeof *engine->cache->indexes);
    }
    engine->cache->indexes[i] = true;
    engine->cache->index_low = i + 1;
    class_->index = i;
    class_->used = engine->boot;
    map_put(&engine->cache->classes, (uint64_t)class_->id, class_);
    smap_put(&engine->cache->class_keys, class_->key, class_);
    served_class_made(engine, class_);
    return class_;
}

void cache_class_drop(struct engine *engine, int64_t id)
{
    struct task_class *class_ = map_take(&engine->cache->classes, (uint64_t)id);
    if (!class_)
        return;
    if (smap_find(&engine->cache->class_keys, class_->key) == class_)
        smap_take(&engine->cache->class_keys, class_->key);
    served_class_gone(engine, class_);
    MAP_EACH (&engine->cache->executors, e) {
        struct known_executor *known = e->value;
        if (class_->index < known->n_fits)
            known->fits[class_->index] = 0;
    }
    engine->cache->indexes[class_->index] = false;
    if (class_->index < engine->cache->index_low)
        engine->cache->index_low = class_->index;
    mem_free(class_);
}

void cache_classes_drop(struct engine *engine)
{
    MAP_EACH (&engine->cache->classes, e)
        mem_free(e->value);
    map_clear(&engine->cache->classes);
    smap_clear(&engine->cache->class_keys);
    if (engine->cache->n_indexes)
        memset(engine->cache->indexes, 0, engine->cache->n_indexes * sizeof *engine->cache->indexes);
    engine->cache->index_low = 0;
}

/* Another server has removed some: those that are there are read, the others go. */
bool caches_classes_again(struct engine *engine, struct err *err)
{
    struct store *store = engine->store;
    struct arena scratch = { 0 };
    struct map there = { 0 };
    struct task_class **classes;
    size_t n;
    bool ok = store->ops->load_classes(store, &scratch, &classes, &n, err);
    for (size_t i = 0; ok && i < n; i++)
        map_put(&there, (uint64_t)classes[i]->id, classes[i]);
    MAP_EACH (&engine->cache->classes, e)
        if (ok && !map_find(&there, e->key))
            cache_class_drop(engine, (int64_t)e->key);
    for (size_t i = 0; ok && i < n; i++)
        if (!map_find(&engine->cache->classes, (uint64_t)classes[i]->id))
            class_put(engine, classes[i]);
    map_release(&there);
    arena_release(&scratch);
    return ok;
}

static struct task_class *class_new(struct turn *turn, const struct task_class *like)
{
    struct task_class row = *like;
    row.id = turn->head.next_class++;
    row.goes = true;
    struct task_class *class_ = class_put(turn->engine, &row);
    *ARRAY_ADD(turn->arena, turn->changes.classes) = class_;
    return class_;
}

int64_t cache_class_get(struct turn *turn, struct str tenant, const struct task_def *def)
{
    if (def->kind == KIND_NONE)
        return 0;
    struct str key =
        parts_join(turn->arena, (struct str[]){ tenant, def->zone, str_of(class_kind_name(def->kind)) }, 3);
    for (size_t i = 0; i < def->n_labels; i++)
        key = str_fmt(turn->arena, "%.*s\x1f%.*s=%.*s", STR_ARG(key), STR_ARG(def->labels[i].name),
            STR_ARG(def->labels[i].value));
    struct task_class *class_ = smap_find(&turn->engine->cache->class_keys, key);
    if (!class_ && turn->narrow.is)
        return turn_widen(turn), 0;
    if (!class_)
        class_ = class_new(turn, &(struct task_class){ .key = key,
                                     .tenant = tenant,
                                     .zone = def->zone,
                                     .kind = def->kind,
                                     .labels = def->labels,
                                     .n_labels = def->n_labels });
    class_->used = turn->boot;
    return class_->id;
}

static bool rows_class_there(void *owner, int64_t class_id)
{
    return map_find(&((struct engine *)owner)->cache->classes, (uint64_t)class_id) != NULL;
}

/* By its key there may be one already, under another number: whoever made the next task of that kind has made it. */
static int64_t rows_class_make(void *owner, int64_t class_id, struct str key)
{
    struct engine *engine = owner;
    struct task_class *class_ = key.len ? smap_find(&engine->cache->class_keys, key) : NULL, row;
    if (!class_ && engine->shared->narrow)
        return turn_widen(engine->shared->narrow), class_id;
    if (!class_ && !key.len) { /* one of an older store, which stays */
        engine->turn->slice->failed =
            !err_set(engine->turn->err, ERR_internal, "class %lld isn't there", (long long)class_id);
        return class_id;
    }
    if (!class_) {
        class_of_key(&engine->turn_arena, key, &row);
        class_ = class_new(engine->turn, &row);
    }
    class_->used = engine->turn->boot;
    return class_->id;
}

bool cache_fits(struct engine *engine, struct known_executor *executor, int64_t class_id)
{
    const struct task_class *class_ = map_find(&engine->cache->classes, (uint64_t)class_id);
    size_t i = class_ ? class_->index : 0;
    if (!class_)
        return false;
    if (i >= executor->n_fits) {
        size_t n = i + 32;
        executor->fits = mem_realloc(executor->fits, n);
        memset(executor->fits + executor->n_fits, 0, n - executor->n_fits);
        executor->n_fits = n;
    }
    if (executor->fits[i] == 0)
        executor->fits[i] = class_fits(class_, &executor->row) ? 2 : 1;
    return executor->fits[i] == 2 || PLANT(labels_ignored);
}

/* --- slots --- */

/* Each has memory of its own, with its name TENANT 0x1f NAME behind it: slots of concurrency keys come and go. */
static struct slot *slot_put(struct engine *engine, const struct slot *row)
{
    struct slot *slot = mem_alloc(sizeof *slot + row->tenant.len + 1 + row->name.len);
    char *text = (char *)(slot + 1);
    struct str key = { text, row->tenant.len + 1 + row->name.len };
    *slot = *row;
    if (row->tenant.len)
        memcpy(text, row->tenant.ptr, row->tenant.len);
    text[row->tenant.len] = '\x1f';
    if (row->name.len)
        memcpy(text + row->tenant.len + 1, row->name.ptr, row->name.len);
    slot->tenant = str_sub(key, 0, row->tenant.len);
    slot->name = str_sub(key, row->tenant.len + 1, key.len);
    slot->configured = slot->tenant.len && semaphore_is_configured(engine, slot->tenant, slot->name);
    map_put(&engine->cache->slots, (uint64_t)slot->id, slot);
    if (slot->id < SLOT_KEYED)
        smap_put(&engine->cache->slot_names, key, slot);
    slot_note(engine, slot);
    tenant_slot_made(engine, slot);
    return slot;
}

void cache_slot_drop(struct engine *engine, int64_t id)
{
    struct slot *slot = map_take(&engine->cache->slots, (uint64_t)id);
    if (!slot)
        return;
    map_take(&engine->slots->open, (uint64_t)id);
    map_take(&engine->slots->left, (uint64_t)id);
    map_take(&engine->slots->empty, (uint64_t)id);
    struct str key = { slot->tenant.ptr, slot->tenant.len + 1 + slot->name.len };
    if (id < SLOT_KEYED && smap_find(&engine->cache->slot_names, key) == slot)
        smap_take(&engine->cache->slot_names, key);
    tenant_slot_gone(engine, slot);
    mem_free(slot);
}

void cache_slots_drop(struct engine *engine)
{
    MAP_EACH (&engine->cache->slots, e)
        mem_free(e->value);
    map_clear(&engine->cache->slots);
    map_clear(&engine->slots->open);
    map_clear(&engine->slots->left);
    map_clear(&engine->slots->empty);
    smap_clear(&engine->cache->slot_names);
}

struct slot *cache_slot_put(struct turn *turn, struct str tenant, struct str name, int64_t limit)
{
    static struct slot none;
    if (turn->narrow.is)
        return turn_widen(turn), &none;
    bool named = tenant.len && !str_eqz(name, SLOT_RUNNING); /* what is the site's stays, and is counted */
    int64_t id = named ? slot_of_name(turn->arena, tenant, name) : turn->head.next_slot++;
    struct slot *slot =
        slot_put(turn->engine, &(struct slot){ .id = id, .tenant = tenant, .name = name, .limit = limit });
    slice_slot(turn->slice, slot->id);
    return slot;
}

struct slot *cache_slot_find(struct turn *turn, struct str tenant, struct str name)
{
    struct slot *slot = smap_find(&turn->engine->cache->slot_names, keyed(turn->arena, STR(""), name));
    return slot ? slot : smap_find(&turn->engine->cache->slot_names, keyed(turn->arena, tenant, name));
}

/* As it is now, and nobody else's until the turn is over: what waits for it too. */
static const struct slot *slot_own(struct turn *turn, struct slot *slot)
{
    struct store *store = turn->engine->store;
    struct slot row;
    if (turn->slice->failed || PLANT(slot_unlocked))
        return slot;
    if (!store->ops->slot_lock(store, turn->arena, slot->id, &row, turn->err)) {
        turn->slice->failed = true;
        return slot;
    }
    slot->limit = row.limit;
    slot->used = row.used;
    slot->waiting = row.waiting;
    slot_note(turn->engine, slot);
    return slot;
}

/* It is the same slot by its number, whoever makes it again. A narrow turn finds its row, or is taken once more, wide
 * (slot_own). */
static void rows_slot_open(void *owner, int64_t id, struct str tenant, const struct spec *spec)
{
    struct engine *engine = owner;
    if (map_find(&engine->cache->slots, (uint64_t)id))
        return;
    struct str names = spec->semaphores, name = { 0 };
    if (id >= SLOT_KEYED)
        name = str_fmt(&engine->turn_arena, SLOT_KEY "%.*s", STR_ARG(spec->slot_key));
    else
        while (str_cut(&names, SPEC_JOINT, &name) && slot_of_name(&engine->turn_arena, tenant, name) != id)
            continue;
    slot_put(engine, &(struct slot){ .id = id, .tenant = tenant, .name = name, .limit = 1 });
}

static const struct slot *rows_slot(void *owner, int64_t id)
{
    struct engine *engine = owner;
    struct slot *slot = map_find(&engine->cache->slots, (uint64_t)id);
    ASSERT(slot);
    return engine->shared->narrow ? slot_own(engine->shared->narrow, slot) : slot;
}

/* --- specs --- */

void caches_trim(struct engine *engine)
{
    bool full =
        engine->cache->specs.n >= SPECS_CACHED_MAX || engine->cache->spec_arena.used_bytes >= SPEC_BYTES_CACHED_MAX;
    bool over = engine->cache->hour_over && !PLANT(caches_kept);
    if (full || over)
        caches_specs_drop(engine);
    if (over)
        definitions_drop(engine);
    engine->cache->hour_over = false;
}

void caches_specs_drop(struct engine *engine)
{
    map_clear(&engine->cache->specs);
    smap_clear(&engine->cache->spec_texts);
    arena_reset(&engine->cache->spec_arena);
}

/* Names of semaphores, for who makes their slots again. */
static struct str semaphores_of(struct engine *engine, const struct task_def *def)
{
    if (!def->n_semaphores)
        return (struct str){ 0 };
    return parts_join(&engine->cache->spec_arena, def->semaphores, def->n_semaphores);
}

int64_t cache_spec_get(
    struct turn *turn, const struct task_def *def, int64_t class_id, const int64_t *slots, size_t n_slots)
{
    struct engine *engine = turn->engine;
    if (turn->narrow.widened)
        return 0; /* nothing will come of it, and what it refers to may not be there */
    const struct task_class *class_ = class_id ? map_find(&engine->cache->classes, (uint64_t)class_id) : NULL;
    struct str key = class_ ? class_->key : (struct str){ 0 };
    int64_t policy[4] = { def->attempts_max, def->backoff_ms, (int64_t)def->retry_on, (int64_t)key.len };
    size_t head = sizeof policy + n_slots * sizeof *slots + key.len;
    char *bytes = arena_alloc(turn->arena, head + def->body.len + 1);
    memcpy(bytes, policy, sizeof policy);
    if (n_slots)
        memcpy(bytes + sizeof policy, slots, n_slots * sizeof *slots);
    if (key.len)
        memcpy(bytes + head - key.len, key.ptr, key.len);
    if (def->body.len)
        memcpy(bytes + head, def->body.ptr, def->body.len);
    struct str text = { bytes, head + def->body.len };
    struct spec *spec = smap_find(&engine->cache->spec_texts, text);
    if (!spec) {
        int64_t *ids = ARENA_ARRAY(&engine->cache->spec_arena, int64_t, n_slots + 1);
        if (n_slots)
            memcpy(ids, slots, n_slots * sizeof *slots);
        spec = ARENA_NEW(&engine->cache->spec_arena, struct spec);
        struct str kept = str_dup(&engine->cache->spec_arena, text);
        *spec = (struct spec){ .id = spec_number(turn),
            .body = str_sub(kept, kept.len - def->body.len, kept.len),
            .attempts_max = def->attempts_max,
            .backoff_ms = def->backoff_ms,
            .retry_on = def->retry_on,
            .slots = ids,
            .n_slots = n_slots,
            .slot_key = str_dup(&engine->cache->spec_arena, def->concurrency),
            .semaphores = semaphores_of(engine, def),
            .class_key = str_sub(kept, head - key.len, head) };
        map_put(&engine->cache->specs, (uint64_t)spec->id, spec);
        smap_put(&engine->cache->spec_texts, kept, spec);
        *ARRAY_ADD(turn->arena, turn->changes.specs) = spec;
    }
    return spec->id;
}

static const struct spec *rows_spec(void *owner, int64_t id, struct err *err)
{
    struct engine *engine = owner;
    struct spec *spec = map_find(&engine->cache->specs, (uint64_t)id);
    if (spec)
        return spec;
    spec = ARENA_NEW(&engine->cache->spec_arena, struct spec);
    if (!engine->store->ops->load_spec(engine->store, &engine->cache->spec_arena, id, spec, err))
        return NULL;
    map_put(&engine->cache->specs, (uint64_t)id, spec);
    return spec;
}

/* --- executors --- */

static size_t executor_bytes(const struct executor *row)
{
    size_t bytes =
        row->name.len + row->instance.len + row->host.len + row->version.len + row->zone.len + row->tenant.len;
    for (size_t i = 0; i < row->n_labels; i++)
        bytes += row->labels[i].name.len + row->labels[i].value.len;
    return bytes + row->n_labels * sizeof *row->labels + row->tenant.len + 1 + row->name.len;
}

/* Its labels and texts are one piece of memory of its own: it may register again every minute, for years. */
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
    pthread_mutex_lock(&engine->heard_lock);
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
    pthread_mutex_unlock(&engine->heard_lock);
    return known;
}

void cache_executor_drop(struct engine *engine, int64_t id)
{
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)id);
    if (!known)
        return;
    pthread_mutex_lock(&engine->heard_lock);
    map_take(&engine->cache->executors, (uint64_t)id);
    if (smap_find(&engine->cache->executor_names, known->subject) == known)
        smap_take(&engine->cache->executor_names, known->subject);
    known->row.state = EXECUTOR_LOST;
    crew_leave(engine, known);
    silence_forget(engine, known);
    pthread_mutex_unlock(&engine->heard_lock);
    served_look(engine, NULL);
    tenant_executors_moved(engine, &known->row, -1);
    text_old(engine, known->texts);
    mem_free(known->fits);
    mem_free(known);
}

/* --- recent tasks --- */

static struct str recent_text_keep(char **at, struct str s)
{
    struct str kept = { *at, s.len };
    if (s.len)
        memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return s.len ? kept : (struct str){ 0 };
}

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
    recent->row.name = recent_text_keep(&at, row->name);
    recent->row.variant = recent_text_keep(&at, row->variant);
    recent->row.reason = recent_text_keep(&at, row->reason);
    recent->row.unique = recent_text_keep(&at, row->unique);
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
static bool recent_find(struct engine *engine, struct arena *arena, int64_t id, struct task *out)
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

/* --- the store's rows --- */

static bool rows_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct engine *engine = owner;
    struct store *store = engine->store;
    if (recent_find(engine, arena, id, out)) {
        *out_found = true;
        return true;
    }
    return store->ops->load_task(store, arena, id, out, out_found, err);
}

static bool rows_edges(
    void *owner, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->load_edges(store, arena, id, by_pred, out, out_n, err);
}

static bool rows_outs_after(void *owner, struct arena *arena, int64_t pred, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->load_outs(store, arena, pred, after, n, out, out_n, err);
}

static bool rows_outs_others(void *owner, struct arena *arena, int64_t pred, enum edge_kind but, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->load_others_outs(store, arena, pred, but, out, out_n, err);
}

static bool rows_holds_of(void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct engine *engine = owner;
    if (engine->shared->narrow && kind != HOLD_slot)
        turn_widen(engine->shared->narrow); /* those of a slot are its owner's */
    return engine->store->ops->holds_of(engine->store, arena, kind, key, n, out, out_n, err);
}

static bool rows_holds_of_task(
    void *owner, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->holds_of_task(store, arena, task, out, out_n, err);
}

static bool rows_served(void *owner, int64_t class_id)
{
    return class_is_served(owner, class_id);
}

struct rows caches_rows(struct engine *engine)
{
    return (struct rows){ .owner = engine,
        .task = rows_task,
        .edges = rows_edges,
        .outs_after = rows_outs_after,
        .outs_others = rows_outs_others,
        .spec = rows_spec,
        .holds_of = rows_holds_of,
        .holds_of_task = rows_holds_of_task,
        .lane = rows_lane,
        .slot = rows_slot,
        .slot_open = rows_slot_open,
        .class_there = rows_class_there,
        .class_make = rows_class_make,
        .served = rows_served };
}

/* Executors that a turn made which came to nothing: their numbers will be given to others. */
static void executors_unmake(struct engine *engine)
{
    MAP_EACH (&engine->cache->executors, e) {
        const struct known_executor *known = e->value;
        if (known->row.id >= engine->head.next_executor)
            cache_executor_drop(engine, known->row.id);
    }
}

void caches_drop(struct engine *engine)
{
    executors_unmake(engine);
    served_drop(engine);
    map_clear(&engine->cache->lanes);
    cache_classes_drop(engine);
    cache_slots_drop(engine);
    smap_clear(&engine->cache->lane_names);
    caches_specs_drop(engine);
    tenants_drop(engine);
    archives_drop(engine);
    schedules_drop(engine);
    recent_drop(engine);
    arena_reset(&engine->cache->arena);
    /* these stay */
    MAP_EACH (&engine->cache->executors, e)
        tenant_executors_moved(engine, &((const struct known_executor *)e->value)->row, 1);
}

/* text_refresh: the kept text when it is the same, so that following others for years doesn't fill the memory. */
static struct str text_refresh(struct engine *engine, struct str kept, struct str now)
{
    return str_eq(kept, now) ? kept : str_dup(&engine->cache->arena, now);
}

/* NULL: nothing has changed of what decides which tasks it may be given. */
static struct known_executor *executor_refresh(struct engine *engine, const struct executor *row)
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

void caches_held(struct engine *engine)
{
    const struct lane *all = map_find(&engine->cache->lanes, 1);
    atomic_store(&engine->site->held, all && all->paused_since && str_eqz(all->paused_by, PAUSED_BY_RESTORE));
}

void caches_refresh(struct engine *engine, const struct others *others)
{
    for (size_t i = 0; i < others->n_lanes; i++) {
        const struct lane *row = others->lanes[i];
        struct lane *lane = map_find(&engine->cache->lanes, (uint64_t)row->id + 1);
        if (!lane) {
            lane_put(engine, row);
            continue;
        }
        struct lane was = *lane;
        tenant_lane_moved(engine, lane, row);
        *lane = *row;
        lane->quota = was.quota;
        lane->tenant = was.tenant;
        lane->name = was.name;
        lane->paused_by = text_refresh(engine, was.paused_by, row->paused_by);
        lane->paused_reason = text_refresh(engine, was.paused_reason, row->paused_reason);
    }
    for (size_t i = 0; i < others->n_classes; i++)
        if (!map_find(&engine->cache->classes, (uint64_t)others->classes[i]->id))
            class_put(engine, others->classes[i]);
    for (size_t i = 0; i < others->n_slots; i++) {
        const struct slot *row = others->slots[i];
        struct slot *slot = map_find(&engine->cache->slots, (uint64_t)row->id);
        if (!slot)
            slot = slot_put(engine, row);
        slot->limit = row->limit;
        if (PLANT(slots_unfollowed))
            continue;
        slot->used = row->used;
        slot->waiting = row->waiting;
        slot_note(engine, slot);
    }
    for (size_t i = 0; i < others->n_executors; i++) {
        struct known_executor *changed = executor_refresh(engine, others->executors[i]);
        if (changed && !PLANT(served_unfollowed))
            served_look(engine, changed);
    }
    for (size_t i = 0; i < others->n_archives; i++)
        archive_put(engine, others->archives[i]);
    if (others->n_lanes)
        caches_held(engine);
}

bool caches_load(struct engine *engine, struct err *err)
{
    struct store *store = engine->store;
    struct arena scratch = { 0 };
    struct lane **lanes;
    struct task_class **classes;
    struct slot **slots;
    struct executor **executors;
    size_t n_lanes, n_classes, n_slots, n_executors;
    bool ok = store->ops->load_head(store, &engine->head, err) &&
              store->ops->load_lanes(store, &scratch, &lanes, &n_lanes, err) &&
              store->ops->load_classes(store, &scratch, &classes, &n_classes, err) &&
              store->ops->load_slots(store, &scratch, &slots, &n_slots, err) &&
              store->ops->load_executors(store, &scratch, &executors, &n_executors, err);
    engine->shared->taken = engine->head;
    engine->shared->own_seq = 0;
    if (ok) {
        recent_open(engine);
        /* unless it is stored */
        lane_put(engine, &(struct lane){ .id = 0, .kind = LANE_QUEUE, .tenant = STR(""), .name = STR("all") });
        for (size_t i = 0; i < n_lanes; i++)
            lane_put(engine, lanes[i]);
        caches_held(engine);
        for (size_t i = 0; i < n_classes; i++)
            class_put(engine, classes[i])->used = 0; /* nobody knows when */
        for (size_t i = 0; i < n_slots; i++)
            slot_put(engine, slots[i]);
        slots_admit_all(engine);
        engine->backlog->tells_due = true;
        for (size_t i = 0; i < n_executors; i++)
            executor_refresh(engine, executors[i]);
        MAP_EACH (
            &engine->cache->executors, e) { /* a class that came to nothing may have had the number of another one */
            struct known_executor *known = e->value;
            if (known->fits)
                memset(known->fits, 0, known->n_fits);
            silence_watch(engine, known);
        }
        served_load(engine);
    }
    arena_release(&scratch);
    return ok && tenants_load(engine, err) && archives_load(engine, err) && schedules_load(engine, err);
}
