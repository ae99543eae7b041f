/* specs: what tasks of the same content share (body, attempts, slots, class), stored once. The cache is bounded: full,
 * or at the end of the hour, it is emptied, and specs that are still needed are read again. */
#include <string.h>

#include "engine/archives.h"
#include "engine/cache/parts.h"
#include "engine/shared/shared.h"

void caches_trim(struct engine *engine)
{
    bool full =
        engine->cache->specs.n >= SPECS_CACHED_MAX || engine->cache->spec_arena.used_bytes >= SPEC_BYTES_CACHED_MAX;
    bool over = engine->cache->hour_over;
    if (PLANT(caches_kept))
        over = false;
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

/* Names of semaphores, from which their slots can be made again (rows_slot_open). */
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
        return 0; /* the turn will be repeated, and the class or slots may not be there */
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

const struct spec *rows_spec(void *owner, int64_t id, struct err *err)
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
