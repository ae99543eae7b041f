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

#include <stddef.h>
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

/* Both kinds of table have the same members; an entry of smap begins as one of map does, with the hash of its string
 * as the key, and is longer. What follows works on both: `size` is that of an entry, and constant where inlined. */
_Static_assert(
    sizeof(struct map) == sizeof(struct smap) && offsetof(struct map, n_index) == offsetof(struct smap, n_index),
    "one kind of table");
_Static_assert(offsetof(struct map_entry, key) == offsetof(struct smap_entry, hash) &&
                   offsetof(struct map_entry, value) == offsetof(struct smap_entry, value) &&
                   offsetof(struct map_entry, live) == offsetof(struct smap_entry, live),
    "an entry of smap begins as one of map");

static inline struct map_entry *entry_at(const struct map *map, size_t size, size_t i)
{
    return (struct map_entry *)(void *)((char *)map->entries + i * size);
}

static inline bool entry_is(const struct map_entry *e, uint64_t key, const struct str *name)
{
    return e->key == key && e->live && (!name || str_eq(((const struct smap_entry *)(const void *)e)->key, *name));
}

/* name: the string that was hashed, of smap. */
static inline struct map_entry *entry_find(const struct map *map, size_t size, uint64_t key, const struct str *name)
{
    if (!map->n_index) {
        for (size_t i = 0; i < map->n_entries; i++) {
            if (entry_is(entry_at(map, size, i), key, name)) {
                return entry_at(map, size, i);
            }
        }
        return NULL;
    }
    size_t at = index_start(map->n_index, key_hash(key));
    for (; map->index[at]; at = (at + 1) & (map->n_index - 1)) {
        struct map_entry *e = entry_at(map, size, map->index[at] - 1);
        if (entry_is(e, key, name)) {
            return e;
        }
    }
    return NULL;
}

static void table_grow(struct map *map, size_t size)
{
    size_t cap = cap_next(map->n, map->cap_entries), n = 0;
    for (size_t i = 0; i < map->n_entries; i++) {
        if (entry_at(map, size, i)->live) {
            memmove(entry_at(map, size, n++), entry_at(map, size, i), size);
        }
    }
    map->n_entries = n;
    if (cap != map->cap_entries) {
        map->entries = mem_realloc(map->entries, cap * size);
        map->cap_entries = cap;
    }
    map->index = index_new(map->index, map->n_index, cap, &map->n_index);
    for (size_t i = 0; map->n_index && i < n; i++) {
        index_set(map->index, map->n_index, key_hash(entry_at(map, size, i)->key), i);
    }
}

/* The place of a new entry, which the index names already; the caller fills it. */
static inline void *entry_add(struct map *map, size_t size, uint64_t key)
{
    if (map->n_entries == map->cap_entries) {
        table_grow(map, size);
    }
    if (map->n_index) {
        index_set(map->index, map->n_index, key_hash(key), map->n_entries);
    }
    map->n++;
    return entry_at(map, size, map->n_entries++);
}

static void table_clear(struct map *map, size_t size)
{
    if (map->n_index && map->n_entries < map->n_index / 16) {
        for (size_t i = 0; i < map->n_entries; i++) {
            index_unset(map->index, map->n_index, key_hash(entry_at(map, size, i)->key), i);
        }
    } else if (map->n_index) {
        memset(map->index, 0, map->n_index * sizeof *map->index);
    }
    map->n_entries = map->n = 0;
}

static inline void *entry_take(struct map *map, size_t size, struct map_entry *e)
{
    if (!e) {
        return NULL;
    }
    e->live = false;
    if (!--map->n) {
        table_clear(map, size); /* no holes to step over for the next comer */
    }
    return e->value;
}

void *map_find(const struct map *map, uint64_t key)
{
    const struct map_entry *e = entry_find(map, sizeof *e, key, NULL);
    return e ? e->value : NULL;
}

void map_put(struct map *map, uint64_t key, void *value)
{
    ASSERT(value);
    struct map_entry *e = entry_find(map, sizeof *e, key, NULL);
    if (!e) {
        e = entry_add(map, sizeof *e, key);
    }
    *e = (struct map_entry){ .key = key, .value = value, .live = true };
}

void *map_take(struct map *map, uint64_t key)
{
    struct map_entry *e = entry_find(map, sizeof *e, key, NULL);
    return entry_take(map, sizeof *e, e);
}

void map_clear(struct map *map)
{
    table_clear(map, sizeof(struct map_entry));
}

void map_release(struct map *map)
{
    mem_free(map->entries);
    mem_free(map->index);
    *map = (struct map){ 0 };
}

static struct map *table_of(struct smap *map)
{
    return (struct map *)(void *)map;
}

static struct smap_entry *smap_entry_find(const struct smap *map, struct str key, uint64_t hash)
{
    const struct map *table = (const struct map *)(const void *)map;
    return (struct smap_entry *)(void *)entry_find(table, sizeof(struct smap_entry), hash, &key);
}

void *smap_find(const struct smap *map, struct str key)
{
    const struct smap_entry *e = map->n ? smap_entry_find(map, key, str_hash(key)) : NULL;
    return e ? e->value : NULL;
}

void smap_put(struct smap *map, struct str key, void *value)
{
    ASSERT(value);
    uint64_t hash = str_hash(key);
    struct smap_entry *e = smap_entry_find(map, key, hash);
    if (!e) {
        e = entry_add(table_of(map), sizeof *e, hash);
    }
    /* the new view of the key too: the old one may live no longer than the old value */
    *e = (struct smap_entry){ .hash = hash, .value = value, .live = true, .key = key };
}

void *smap_take(struct smap *map, struct str key)
{
    struct smap_entry *e = map->n ? smap_entry_find(map, key, str_hash(key)) : NULL;
    if (e) {
        e->key = (struct str){ 0 }; /* its bytes belong to the caller, who may free them now */
    }
    return entry_take(table_of(map), sizeof *e, (struct map_entry *)(void *)e);
}

void smap_clear(struct smap *map)
{
    table_clear(table_of(map), sizeof(struct smap_entry));
}

void smap_release(struct smap *map)
{
    map_release(table_of(map));
}
