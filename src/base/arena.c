/* arena: see arena.h.
 *
 * Owns chains of blocks taken from malloc; a block is never moved, so pointers stay good until the reset.
 *
 * Promises zeroed memory. Fresh blocks come from malloc and are cleared piece by piece as they are handed out: clearing a
 * whole block on reset would cost more than a short request uses.
 *
 * Fails only by abort: out of memory, or a size that overflows, is our bug or the machine's end (limits stand before). */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum {
    BLOCK_FIRST = 4096,
    BLOCK_MAX = 1 << 20,
    KEEP_MAX = 4 << 20, /* what arena_reset keeps: one big request must not hold its memory for ever */
    ALIGN = alignof(max_align_t)
};

struct arena_block {
    struct arena_block *next;
    size_t size, used; /* of bytes[] */
    alignas(max_align_t) unsigned char bytes[];
};

static _Noreturn void memory_out(size_t size)
{
    fprintf(stderr, "weir: out of memory (%zu bytes wanted)\n", size);
    abort();
}

void *mem_alloc(size_t size)
{
    void *ptr = malloc(size ? size : 1);
    if (!ptr) {
        memory_out(size);
    }
    return ptr;
}

void *mem_realloc(void *ptr, size_t size)
{
    void *moved = realloc(ptr, size ? size : 1);
    if (!moved) {
        memory_out(size);
    }
    return moved;
}

void mem_free(void *ptr)
{
    free(ptr);
}

static void *block_take(struct arena_block *block, size_t size)
{
    void *ptr = block->bytes + block->used;
    block->used += size;
    return memset(ptr, 0, size);
}

/* Out of line: the current block is full. Kept blocks behind it come first; one that is too small is skipped (it is used again
 * after the next reset). */
static void *arena_grow(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->current;
    while (block && block->next) {
        block = block->next;
        block->used = 0;
        if (block->size >= size) {
            arena->current = block;
            return block_take(block, size);
        }
    }
    size_t room = block ? block->size * 2 : BLOCK_FIRST;
    if (room > BLOCK_MAX) {
        room = BLOCK_MAX;
    }
    if (room < size) {
        room = size;
    }
    struct arena_block *fresh = mem_alloc(sizeof *fresh + room);
    fresh->next = NULL;
    fresh->size = room;
    fresh->used = 0;
    if (block) {
        block->next = fresh;
    } else {
        arena->first = fresh;
    }
    arena->current = fresh;
    return block_take(fresh, size);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2) {
        memory_out(size);
    }
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!size) {
        size = ALIGN;
    }
    arena->used_bytes += size;
    struct arena_block *block = arena->current;
    if (block && block->size - block->used >= size) {
        return block_take(block, size);
    }
    return arena_grow(arena, size);
}

void *arena_array(struct arena *arena, size_t size, size_t n)
{
    size_t total;
    if (__builtin_mul_overflow(size, n, &total)) {
        memory_out(SIZE_MAX);
    }
    return arena_alloc(arena, total);
}

void arena_reset(struct arena *arena)
{
    size_t kept = 0;
    for (struct arena_block **link = &arena->first; *link;) {
        struct arena_block *block = *link;
        if (block->size > KEEP_MAX - kept) {
            *link = block->next;
            free(block);
        } else {
            kept += block->size;
            block->used = 0;
            link = &block->next;
        }
    }
    arena->current = arena->first;
    arena->used_bytes = 0;
}

void arena_release(struct arena *arena)
{
    for (struct arena_block *block = arena->first; block;) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){ 0 };
}

void *arena_push(struct arena *arena, void **items, size_t *n, size_t *cap, size_t size)
{
    if (*n == *cap) {
        size_t more = *cap ? *cap * 2 : 4;
        char *moved = arena_array(arena, size, more);
        if (*n) {
            memcpy(moved, *items, *n * size);
        }
        *items = moved;
        *cap = more;
    }
    char *slot = (char *)*items + *n * size;
    ++*n;
    return slot;
}
