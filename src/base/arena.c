/* arena: memory that lives and dies together.
 *
 * Owns a chain of blocks taken from malloc; a block is never moved, so pointers stay good until the reset.
 *
 * Promises zeroed memory. Blocks are cleared piece by piece as they are handed out: clearing whole blocks on reset
 * would cost more than a short request uses. Under AddressSanitizer what isn't handed out is poisoned, and a gap
 * follows every piece, so that running over an end and using memory after a reset are caught as they would be with
 * malloc.
 *
 * Fails only by abort: out of memory, or a size that overflows, is our bug or the machine's end (limits stand before).
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plant.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONED 1
#endif
#endif
#ifdef ARENA_POISONED
#include <sanitizer/asan_interface.h>
#define POISON(ptr, len) __asan_poison_memory_region((ptr), (len))
#define UNPOISON(ptr, len) __asan_unpoison_memory_region((ptr), (len))
#else
#define ARENA_POISONED 0
#define POISON(ptr, len) ((void)(ptr), (void)(len))
#define UNPOISON(ptr, len) ((void)(ptr), (void)(len))
#endif

enum {
    BLOCK_FIRST = 4096,
    BLOCK_MAX = 1 << 20,
    KEEP_MAX = 4 << 20, /* what arena_reset keeps: one big request must not hold its memory for ever */
    ALIGN = alignof(max_align_t),
    GAP = ARENA_POISONED ? ALIGN : 0
};

struct arena_block {
    struct arena_block *next;
    size_t size, used; /* of bytes[] */
    alignas(max_align_t) unsigned char bytes[];
};

static void memory_out(size_t size)
{
    if (PLANT(memory_unchecked))
        return;
    fprintf(stderr, "weir: out of memory (%zu bytes wanted)\n", size);
    abort();
}

void *mem_alloc(size_t size)
{
    void *ptr = malloc(size ? size : 1);
    if (!ptr)
        memory_out(size);
    return ptr;
}

void *mem_alloc_zero(size_t size)
{
    void *ptr = calloc(1, size ? size : 1);
    if (!ptr)
        memory_out(size);
    return ptr;
}

void *mem_realloc(void *ptr, size_t size)
{
    void *moved = realloc(ptr, size ? size : 1);
    if (!moved)
        memory_out(size);
    return moved;
}

void mem_free(void *ptr)
{
    free(ptr);
}

/* room: size rounded up, with the gap. */
static void *block_take(struct arena_block *block, size_t size, size_t room)
{
    void *ptr = block->bytes + block->used;
    block->used += room;
    UNPOISON(ptr, size);
    return ptr;
}

static void block_empty(struct arena_block *block)
{
    block->used = 0;
    POISON(block->bytes, block->size);
}

static void block_free(struct arena_block *block)
{
    UNPOISON(block->bytes, block->size);
    free(block);
}

/* Out of line: the current block is full. Kept blocks behind it come first; one that is too small is skipped (it is
 * used again after the next reset). */
static void *arena_grow(struct arena *arena, size_t size, size_t room)
{
    struct arena_block *block = arena->current;
    while (block && block->next) {
        block = block->next;
        if (block->size >= room) {
            arena->current = block;
            return block_take(block, size, room);
        }
    }
    size_t block_size = block ? block->size * 2 : BLOCK_FIRST;
    if (block_size > BLOCK_MAX) {
        block_size = BLOCK_MAX;
    }
    if (block_size < room) {
        block_size = room;
    }
    struct arena_block *fresh = mem_alloc(sizeof *fresh + block_size);
    fresh->next = NULL;
    fresh->size = block_size;
    block_empty(fresh);
    if (block) {
        block->next = fresh;
    } else {
        arena->first = fresh;
    }
    arena->current = fresh;
    return block_take(fresh, size, room);
}

/* Not cleared yet. */
static void *arena_room(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2) {
        memory_out(size);
    }
    size_t room = ((size ? size : 1) + ALIGN - 1) / ALIGN * ALIGN + GAP;
    arena->used_bytes += room;
    struct arena_block *block = arena->current;
    if (block && block->size - block->used >= room) {
        return block_take(block, size, room);
    }
    return arena_grow(arena, size, room);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    return memset(arena_room(arena, size), 0, size);
}

static size_t array_size(size_t size, size_t n)
{
    size_t total;
    if (__builtin_mul_overflow(size, n, &total)) {
        memory_out(SIZE_MAX);
    }
    return total;
}

void *arena_array(struct arena *arena, size_t size, size_t n)
{
    return arena_alloc(arena, array_size(size, n));
}

void arena_reset(struct arena *arena)
{
    size_t kept = 0;
    for (struct arena_block **link = &arena->first; *link;) {
        struct arena_block *block = *link;
        if (block->size > KEEP_MAX - kept) {
            *link = block->next;
            block_free(block);
        } else {
            kept += block->size;
            block_empty(block);
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
        block_free(block);
        block = next;
    }
    *arena = (struct arena){ 0 };
}

void *arena_push(struct arena *arena, void **items, size_t *n, size_t *cap, size_t size)
{
    if (*n == *cap) {
        size_t more = *cap ? *cap * 2 : 4; /* can't overflow before array_size's own check fails */
        char *moved = arena_room(arena, array_size(size, more)); /* each element is cleared when it is pushed */
        if (ARENA_POISONED) {
            memset(moved, 0xbe, size * more); /* who reads behind the last one is found out */
        }
        if (*n) {
            memcpy(moved, *items, *n * size);
        }
        *items = moved;
        *cap = more;
    }
    char *slot = (char *)*items + *n * size;
    ++*n;
    return memset(slot, 0, size); /* a caller may have taken elements off the end */
}
