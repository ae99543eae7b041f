/* cache: copies of the small tables (lanes, classes, slots, executors, archives, tenants), a bounded cache of specs and
 * definitions, and rows of tasks that were changed lately. The store is right: when a turn fails, they are dropped and
 * read again. */
#ifndef WEIR_ENGINE_CACHE_CACHE_H
#define WEIR_ENGINE_CACHE_CACHE_H

#include "engine/state.h"

struct peer_rows;

enum {
    SPECS_CACHED_MAX = 8192,
    TASKS_RECENT = 8192, /* a power of two */
    RECENT_TEXT_BYTES = 120,
    SPEC_BYTES_CACHED_MAX = 16 << 20,
};

struct recent { /* a task's row as the last turn that changed it left it; id 0: none */
    struct task row;
    uint64_t since;
    char text[RECENT_TEXT_BYTES]; /* its strings; a row with longer ones isn't kept */
};

struct cache {
    struct arena arena;      /* of the small tables: reset when they are reloaded */
    struct arena spec_arena; /* specs until the cache is full, or the hour is over */
    bool hour_over;          /* specs and definitions that are still needed are read again: idle memory is given back */
    struct map lanes, classes, slots, executors, specs; /* by id (lanes: id + 1) */
    struct smap lane_names, class_keys, slot_names, executor_names, spec_texts;
    ARRAY(void *) texts_old;     /* of executors that have registered again, or gone: until the next turn */
    bool *indexes;               /* of classes: which are taken */
    size_t n_indexes, index_low; /* below index_low: all */
    struct map archives;         /* lane -> known_archive */
    struct map definitions;      /* spec id -> definition, a few that were needed lately */
    struct smap tenants;         /* name -> known_tenant, in the cache's arena */
    size_t n_conf, n_listed;     /* of them: listed; but `default` */
    bool limited;                /* one of them has a quota */
    bool applies;                /* there is, or was, a class of change sets */
    struct rows rows;
    struct recent *recent; /* by the lower bits of the id */
    uint64_t recent_since; /* what was put there before isn't counted any more: another server has committed */
};

bool caches_load(struct engine *engine, struct err *err);
void caches_held(struct engine *engine); /* the lane `all` may have changed */
void caches_drop(struct engine *engine);
void caches_trim(struct engine *engine); /* specs and definitions, at the beginning of a turn */
void caches_specs_drop(struct engine *engine);
void caches_refresh(struct engine *engine, const struct others *others); /* by what other servers have committed */
void recent_open(struct engine *engine);
void recent_drop(struct engine *engine);
void recent_follow(struct turn *turn); /* rows that the turn wrote are remembered, after the commit */
bool recent_row(const struct engine *engine, int64_t id, const struct task **out); /* false: not remembered */
struct rows caches_rows(struct engine *engine);
struct lane *cache_lane_find(struct turn *turn, struct str tenant, struct str name); /* NULL: none */
/* a queue is made when there is none */
struct lane *cache_lane_get(struct turn *turn, struct str tenant, struct str name);
struct lane *cache_lane_make(struct turn *turn, struct str tenant, struct str name, enum lane_kind kind);
int64_t cache_class_get(struct turn *turn, struct str tenant, const struct task_def *def); /* 0: nothing to run */
/* a global one comes first; NULL: none */
struct slot *cache_slot_find(struct turn *turn, struct str tenant, struct str name);
void cache_slot_drop(struct engine *engine, int64_t id);
void cache_class_drop(struct engine *engine, int64_t id);
void cache_classes_drop(struct engine *engine);
bool caches_classes_again(struct engine *engine, struct err *err);
void cache_slots_drop(struct engine *engine);
struct slot *cache_slot_put(struct turn *turn, struct str tenant, struct str name, int64_t limit);
int64_t cache_spec_get(
    struct turn *turn, const struct task_def *def, int64_t class_id, const int64_t *slots, size_t n_slots);
struct known_executor *cache_executor_put(struct engine *engine, const struct executor *row);
void cache_executor_drop(struct engine *engine, int64_t id);
void caches_texts_free(struct engine *engine); /* at the end of a turn: what executors were called before */
bool cache_fits(struct engine *engine, struct known_executor *executor, int64_t class_id);
void slot_note(struct engine *engine, struct slot *slot); /* it was changed: the list of open slots follows */

#endif
