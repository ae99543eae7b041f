/* map: hash tables from numbers (map) and from strings (smap) to pointers.
 *
 * Order of iteration is the order of insertion, so that the same input gives the same output. Keys of smap are
 * views: the caller keeps them alive while they are in the table (a put that replaces an entry stores the new
 * view). Entries may be removed, not added, while walking with _EACH. Clearing costs the number of entries. The
 * zero value is an empty table. Memory: malloc, given back by _release. */
#ifndef WEIR_BASE_MAP_H
#define WEIR_BASE_MAP_H

#include "base/str.h"

struct map_entry {
    uint64_t key;
    void *value;
    bool live;
};
struct map {
    struct map_entry *entries; /* in order of insertion, with holes where live is false */
    size_t n_entries, cap_entries, n;
    uint32_t *index;
    size_t n_index;
};
void *map_find(const struct map *map, uint64_t key);      /* NULL: none */
void map_put(struct map *map, uint64_t key, void *value); /* replaces; value must not be NULL */
void *map_take(struct map *map, uint64_t key);            /* removes; NULL: none */
void map_clear(struct map *map);                          /* empty, memory kept */
void map_release(struct map *map);
#define MAP_EACH(map, e) \
    for (struct map_entry *e = (map)->entries; e < (map)->entries + (map)->n_entries; e++) \
        if (e->live)

struct smap_entry {
    uint64_t hash;
    void *value;
    bool live;
    struct str key;
};
struct smap {
    struct smap_entry *entries;
    size_t n_entries, cap_entries, n;
    uint32_t *index;
    size_t n_index;
};
void *smap_find(const struct smap *map, struct str key);
void smap_put(struct smap *map, struct str key, void *value);
void *smap_take(struct smap *map, struct str key);
void smap_clear(struct smap *map);
void smap_release(struct smap *map);
#define SMAP_EACH(map, e) \
    for (struct smap_entry *e = (map)->entries; e < (map)->entries + (map)->n_entries; e++) \
        if (e->live)

#endif
