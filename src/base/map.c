/* map: hash tables from numbers (map) and from strings (smap) to pointers.
 *
 * Owns its arrays, never keys or values. Entries stand in order of insertion; an index of entry numbers (open
 * addressing, linear steps, at most half full) finds them. A removed entry stays as a hole, which the index
 * still names so that the steps go on; holes are squeezed out when the entries array is full. Up to eight entries there
 * is no index at all.
 *
 * Promises: taking an entry while walking with MAP_EACH is safe, putting is not. Clearing costs what was in, not what
 * fits in. Fails only by abort (no memory, or 2^31 entries). */
#include "base/map.h"

#include <string.h>

#include "base/arena.h"
#include "base/err.h"

enum { SCAN_MAX = 8 }; /* a linear look at so few is faster than an index */

static const size_t ENTRIES_MAX = (size_t)1 << 31;

/* The index: slots hold entry number + 1, 0 is free. n_index is a power of two. */

static size_t index_start(size_t n_index, uint64_t hash)
{
    return (size_t)(hash >> (__builtin_clzll(n_index) + 1));
}

static void index_set(uint32_t *index, size_t n_index, uint64_t hash, size_t entry)
{
    size_t at = index_start(n_index, hash);
    while (index[at]) {
        at = (at + 1) & (n_index - 1);
    }
    index[at] = (uint32_t)(entry + 1);
}

/* Only while everything is being cleared: other entries' slots may have gone already, so a free one doesn't end the
 * steps. */
static void index_unset(uint32_t *index, size_t n_index, uint64_t hash, size_t entry)
{
    size_t at = index_start(n_index, hash);
    while (index[at] != entry + 1) {
        at = (at + 1) & (n_index - 1);
    }
    index[at] = 0;
}

/* Sizes after the entries array (n_live of cap in use) is full: squeeze when that frees a third, else double. */
static size_t cap_next(size_t n_live, size_t cap)
{
    if (!cap) {
        return SCAN_MAX;
    }
    size_t next = n_live <= cap / 3 * 2 ? cap : cap * 2;
    ASSERT(next <= ENTRIES_MAX);
    return next;
}

static uint32_t *index_new(uint32_t *old, size_t n_old, size_t cap, size_t *out_n)
{
    size_t n = cap <= SCAN_MAX ? 0 : cap * 2;
    if (n != n_old) {
        mem_free(old);
        old = n ? mem_alloc(n * sizeof *old) : NULL;
    }
    if (n) {
        memset(old, 0, n * sizeof *old);
    }
    *out_n = n;
    return old;
}

static uint64_t key_hash(uint64_t key)
{
    key ^= key >> 32; /* else keys that differ in high bits only would share their slots */
    return key * UINT64_C(0x9e3779b97f4a7c15);
}

static struct map_entry *map_entry_find(const struct map *map, uint64_t key)
{
    if (!map->n_index) {
        for (size_t i = 0; i < map->n_entries; i++) {
            if (map->entries[i].key == key && map->entries[i].live) {
                return &map->entries[i];
            }
        }
        return NULL;
    }
    size_t at = index_start(map->n_index, key_hash(key));
    for (; map->index[at]; at = (at + 1) & (map->n_index - 1)) {
        struct map_entry *e = &map->entries[map->index[at] - 1];
        if (e->key == key && e->live) {
            return e;
        }
    }
    return NULL;
}

static void map_grow(struct map *map)
{
    size_t cap = cap_next(map->n, map->cap_entries), n = 0;
    for (size_t i = 0; i < map->n_entries; i++) {
        if (map->entries[i].live) {
            map->entries[n++] = map->entries[i];
        }
    }
    map->n_entries = n;
    if (cap != map->cap_entries) {
        map->entries = mem_realloc(map->entries, cap * sizeof *map->entries);
        map->cap_entries = cap;
    }
    map->index = index_new(map->index, map->n_index, cap, &map->n_index);
    for (size_t i = 0; map->n_index && i < n; i++) {
        index_set(map->index, map->n_index, key_hash(map->entries[i].key), i);
    }
}

void *map_find(const struct map *map, uint64_t key)
{
    const struct map_entry *e = map_entry_find(map, key);
    return e ? e->value : NULL;
}

void map_put(struct map *map, uint64_t key, void *value)
{
    ASSERT(value);
    struct map_entry *e = map_entry_find(map, key);
    if (e) {
        e->value = value;
        return;
    }
    if (map->n_entries == map->cap_entries) {
        map_grow(map);
    }
    map->entries[map->n_entries] = (struct map_entry){ .key = key, .value = value, .live = true };
    if (map->n_index) {
        index_set(map->index, map->n_index, key_hash(key), map->n_entries);
    }
    map->n_entries++;
    map->n++;
}

void *map_take(struct map *map, uint64_t key)
{
    struct map_entry *e = map_entry_find(map, key);
    if (!e) {
        return NULL;
    }
    void *value = e->value;
    e->live = false;
    if (!--map->n) {
        map_clear(map); /* no holes to step over for the next comer */
    }
    return value;
}

void map_clear(struct map *map)
{
    if (map->n_index && map->n_entries < map->n_index / 16) {
        for (size_t i = 0; i < map->n_entries; i++) {
            index_unset(map->index, map->n_index, key_hash(map->entries[i].key), i);
        }
    } else if (map->n_index) {
        memset(map->index, 0, map->n_index * sizeof *map->index);
    }
    map->n_entries = map->n = 0;
}

void map_release(struct map *map)
{
    mem_free(map->entries);
    mem_free(map->index);
    *map = (struct map){ 0 };
}

static struct smap_entry *smap_entry_find(const struct smap *map, struct str key, uint64_t hash)
{
    if (!map->n_index) {
        for (size_t i = 0; i < map->n_entries; i++) {
            struct smap_entry *e = &map->entries[i];
            if (e->hash == hash && e->live && str_eq(e->key, key)) {
                return e;
            }
        }
        return NULL;
    }
    size_t at = index_start(map->n_index, hash);
    for (; map->index[at]; at = (at + 1) & (map->n_index - 1)) {
        struct smap_entry *e = &map->entries[map->index[at] - 1];
        if (e->hash == hash && e->live && str_eq(e->key, key)) {
            return e;
        }
    }
    return NULL;
}

static void smap_grow(struct smap *map)
{
    size_t cap = cap_next(map->n, map->cap_entries), n = 0;
    for (size_t i = 0; i < map->n_entries; i++) {
        if (map->entries[i].live) {
            map->entries[n++] = map->entries[i];
        }
    }
    map->n_entries = n;
    if (cap != map->cap_entries) {
        map->entries = mem_realloc(map->entries, cap * sizeof *map->entries);
        map->cap_entries = cap;
    }
    map->index = index_new(map->index, map->n_index, cap, &map->n_index);
    for (size_t i = 0; map->n_index && i < n; i++) {
        index_set(map->index, map->n_index, map->entries[i].hash, i);
    }
}

void *smap_find(const struct smap *map, struct str key)
{
    if (!map->n) {
        return NULL;
    }
    const struct smap_entry *e = smap_entry_find(map, key, str_hash(key));
    return e ? e->value : NULL;
}

void smap_put(struct smap *map, struct str key, void *value)
{
    ASSERT(value);
    uint64_t hash = str_hash(key);
    struct smap_entry *e = smap_entry_find(map, key, hash);
    if (e) {
        e->value = value;
        e->key = key; /* the old key may live no longer than the old value */
        return;
    }
    if (map->n_entries == map->cap_entries) {
        smap_grow(map);
    }
    map->entries[map->n_entries] = (struct smap_entry){ .key = key, .hash = hash, .value = value, .live = true };
    if (map->n_index) {
        index_set(map->index, map->n_index, hash, map->n_entries);
    }
    map->n_entries++;
    map->n++;
}

void *smap_take(struct smap *map, struct str key)
{
    if (!map->n) {
        return NULL;
    }
    struct smap_entry *e = smap_entry_find(map, key, str_hash(key));
    if (!e) {
        return NULL;
    }
    void *value = e->value;
    e->live = false;
    e->key = (struct str){ 0 }; /* its bytes belong to the caller, who may free them now */
    if (!--map->n) {
        smap_clear(map);
    }
    return value;
}

void smap_clear(struct smap *map)
{
    if (map->n_index && map->n_entries < map->n_index / 16) {
        for (size_t i = 0; i < map->n_entries; i++) {
            index_unset(map->index, map->n_index, map->entries[i].hash, i);
        }
    } else if (map->n_index) {
        memset(map->index, 0, map->n_index * sizeof *map->index);
    }
    map->n_entries = map->n = 0;
}

void smap_release(struct smap *map)
{
    mem_free(map->entries);
    mem_free(map->index);
    *map = (struct smap){ 0 };
}
