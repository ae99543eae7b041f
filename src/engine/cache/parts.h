/* parts: what the files of cache/ use of each other; the other files of the engine see cache.h. */
#ifndef WEIR_ENGINE_CACHE_PARTS_H
#define WEIR_ENGINE_CACHE_PARTS_H

#include "engine/cache/cache.h"

/* cache.c. parts_join: with 0x1f between them; cache_key: TENANT 0x1f NAME */
struct str parts_join(struct arena *arena, const struct str *parts, size_t n);
struct str cache_key(struct arena *arena, struct str tenant, struct str name);
struct str text_keep(char **at, struct str s); /* copies the text to *at, which moves behind it */

/* classes.c */
struct task_class *cache_class_put(struct engine *engine, const struct task_class *row);
bool rows_class_there(void *owner, int64_t class_id);
int64_t rows_class_make(void *owner, int64_t class_id, struct str key);

/* slot_rows.c */
struct slot *cache_slot_keep(struct engine *engine, const struct slot *row);
void rows_slot_open(void *owner, int64_t id, struct str tenant, const struct spec *spec);
const struct slot *rows_slot(void *owner, int64_t id);

/* specs.c */
const struct spec *rows_spec(void *owner, int64_t id, struct err *err);

/* executors.c */
void cache_executors_unmake(struct engine *engine);
/* NULL: nothing has changed of what decides which tasks the executor may be granted. */
struct known_executor *cache_executor_refresh(struct engine *engine, const struct executor *row);

/* recent.c */
bool recent_find(struct engine *engine, struct arena *arena, int64_t id, struct task *out);

#endif
