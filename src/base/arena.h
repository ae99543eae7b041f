/* arena: memory that lives and dies together.
 *
 * Everything allocated is zeroed and aligned for any type. arena_reset ends the life of all pieces and keeps up to 4
 * MiB of blocks for reuse; arena_release gives all back. Out of memory, or a size that overflows, aborts: every size
 * that an outsider drives has a limit before it gets here. The zero value is a valid empty arena. Not shared between
 * threads. */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *first, *current;
    size_t used_bytes; /* handed out since the last reset */
};

void *arena_alloc(struct arena *arena, size_t size);
void *arena_array(struct arena *arena, size_t size, size_t n); /* overflow-checked */
void arena_reset(struct arena *arena);
void arena_release(struct arena *arena);

#define ARENA_NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define ARENA_ARRAY(arena, type, n) ((type *)arena_array((arena), sizeof(type), (n)))

/* ARENA_PUSH: appends to a vector {type *name; size_t n_name, cap_name;} kept in an arena; evaluates to a pointer to
 * the new, zeroed element. Old storage stays in the arena until it is reset. */
void *arena_push(struct arena *arena, void **items, size_t *n, size_t *cap, size_t size);
#define ARENA_PUSH(arena, vec, n, cap) \
    ((__typeof__(vec))arena_push((arena), (void **)&(vec), &(n), &(cap), sizeof *(vec)))

/* ARRAY(type): such a vector as one member, {at, n, cap}. ARRAY_ADD: as ARENA_PUSH. */
#define ARRAY(type) \
    struct { \
        type *at; \
        size_t n, cap; \
    }
#define ARRAY_ADD(arena, array) ARENA_PUSH(arena, (array).at, (array).n, (array).cap)

/* Aborting malloc and realloc for the few things that outlive any arena. */
void *mem_alloc(size_t size);
void *mem_alloc_zero(size_t size); /* pages of a large piece are the kernel's until they are touched */
void *mem_realloc(void *ptr, size_t size);
void mem_free(void *ptr);

#endif
