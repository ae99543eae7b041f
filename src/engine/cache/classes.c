/* classes: the kinds of tasks by what an executor must have for them (tenant, zone, kind, labels), and which executors
 * fit. Each has one piece of memory, since classes come and go, and an index below which an executor remembers whether
 * it fits; an index is used again when its class has gone. */
#include <string.h>

#include "core/why.h"
#include "engine/cache/parts.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/waiters.h"

/* The class gets the first index that no class has. */
struct task_class *cache_class_put(struct engine *engine, const struct task_class *row)
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
    engine->cache->applies |= class_->kind == KIND_APPLY;
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

/* Another server has removed classes: those that are stored are read, the others are dropped. */
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
            cache_class_put(engine, classes[i]);
    map_release(&there);
    arena_release(&scratch);
    return ok;
}

static struct task_class *class_new(struct turn *turn, const struct task_class *like)
{
    struct task_class row = *like;
    row.id = turn->head.next_class++;
    row.goes = true;
    struct task_class *class_ = cache_class_put(turn->engine, &row);
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

bool rows_class_there(void *owner, int64_t class_id)
{
    return map_find(&((struct engine *)owner)->cache->classes, (uint64_t)class_id) != NULL;
}

/* A class with this key may exist under another number: a later task of that kind has made it again. */
int64_t rows_class_make(void *owner, int64_t class_id, struct str key)
{
    struct engine *engine = owner;
    struct task_class *class_ = key.len ? smap_find(&engine->cache->class_keys, key) : NULL, row;
    if (!class_ && engine->shared->narrow)
        return turn_widen(engine->shared->narrow), class_id;
    if (!class_ && !key.len) { /* written by an older version: such a class is never removed */
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
    if (PLANT(labels_ignored))
        return true;
    if (i >= executor->n_fits) {
        size_t n = i + 32;
        executor->fits = mem_realloc(executor->fits, n);
        memset(executor->fits + executor->n_fits, 0, n - executor->n_fits);
        executor->n_fits = n;
    }
    if (executor->fits[i] == 0)
        executor->fits[i] = class_fits(class_, &executor->row) ? 2 : 1;
    return executor->fits[i] == 2;
}
