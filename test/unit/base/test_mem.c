/* arena, list, heap, rng: each against a plain model, driven by seeded random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"

static void arena_pieces_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    enum { ROUNDS = 4, N = 2000 };
    struct arena arena = { 0 };
    struct rng rng;
    unsigned char *pieces[N];
    size_t sizes[N];
    rng_seed(&rng, 1);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < N; i++) {
            sizes[i] = (size_t)rng_below(&rng, i % 100 ? 200 : 70000);
            pieces[i] = arena_alloc(&arena, sizes[i]);
            assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
            for (size_t j = 0; j < sizes[i]; j++) {
                assert_int_equal(pieces[i][j], 0);
            }
            memset(pieces[i], (int)(i & 0xff), sizes[i]);
        }
        for (size_t i = 0; i < N; i++) {
            for (size_t j = 0; j < sizes[i]; j++) {
                assert_int_equal(pieces[i][j], i & 0xff);
            }
        }
        assert_true(arena.used_bytes > 0);
        arena_reset(&arena);
        assert_int_equal(arena.used_bytes, 0);
    }
    arena_release(&arena);
    assert_null(arena.first);
}

static void arena_reset_reuses_its_blocks(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    void *first = arena_alloc(&arena, 100);
    arena_alloc(&arena, 100000);
    void *first_block = arena.first;
    arena_reset(&arena);
    assert_ptr_equal(arena_alloc(&arena, 100), first);
    assert_ptr_equal(arena.first, first_block);
    arena_release(&arena);
}

static void arena_reset_gives_large_blocks_back(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    arena_alloc(&arena, 16 << 20);
    arena_reset(&arena);
    assert_null(arena.first);
    assert_non_null(arena_alloc(&arena, 1));
    arena_release(&arena);
}

static void arena_push_keeps_order_and_zeroes(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct pair {
        int a, b;
    } *items = NULL;
    size_t n = 0, cap = 0;
    for (int i = 0; i < 1000; i++) {
        struct pair *p = ARENA_PUSH(&arena, items, n, cap);
        assert_int_equal(p->a, 0);
        assert_int_equal(p->b, 0);
        p->a = i;
        p->b = -1;
    }
    n = 500; /* taking off the end, then pushing again */
    assert_int_equal(ARENA_PUSH(&arena, items, n, cap)->b, 0);
    assert_int_equal(n, 501);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(items[i].a, i);
    }
    arena_release(&arena);
}

struct thing {
    int number;
    struct list_node in_list;
    struct heap_node in_heap;
};

static void list_keeps_order_through_removals(void **state)
{
    (void)state;
    enum { N = 50 };
    struct thing things[N] = { 0 };
    struct thing *model[N];
    size_t n_model = 0;
    struct list list = { 0 };
    struct rng rng;
    rng_seed(&rng, 2);
    for (int step = 0; step < 20000; step++) {
        struct thing *t = &things[rng_below(&rng, N)];
        if (!t->in_list.in) {
            list_append(&list, &t->in_list);
            model[n_model++] = t;
        } else if (rng_below(&rng, 8) == 0) {
            t = CONTAINER_OF(list_take_first(&list), struct thing, in_list);
            assert_ptr_equal(t, model[0]);
            memmove(model, model + 1, --n_model * sizeof *model);
        } else {
            list_remove(&list, &t->in_list);
            size_t at = 0;
            while (model[at] != t) {
                at++;
            }
            memmove(model + at, model + at + 1, (--n_model - at) * sizeof *model);
        }
        assert_int_equal(list.n, n_model);
        struct list_node *node = list.first, *prev = NULL;
        for (size_t i = 0; i < n_model; i++, prev = node, node = node->next) {
            assert_ptr_equal(node, &model[i]->in_list);
            assert_ptr_equal(node->prev, prev);
        }
        assert_null(node);
        assert_ptr_equal(list.last, prev);
    }
}

static void list_empty_cases(void **state)
{
    (void)state;
    struct list list = { 0 };
    struct thing t = { 0 };
    assert_null(list_take_first(&list));
    list_remove(&list, &t.in_list);
    assert_int_equal(list.n, 0);
}

/* The model: an array searched for the least (key, order). */
static struct thing *model_first(struct thing *things, size_t n)
{
    struct thing *best = NULL;
    for (size_t i = 0; i < n; i++) {
        struct heap_node *h = &things[i].in_heap;
        if (h->pos &&
            (!best || h->key < best->in_heap.key || (h->key == best->in_heap.key && h->order < best->in_heap.order))) {
            best = &things[i];
        }
    }
    return best;
}

static void heap_agrees_with_a_search(void **state)
{
    (void)state;
    enum { N = 64 };
    struct thing things[N] = { 0 };
    struct heap heap = { 0 };
    struct rng rng;
    size_t in = 0;
    rng_seed(&rng, 3);
    for (int step = 0; step < 50000; step++) {
        struct thing *t = &things[rng_below(&rng, N)];
        in -= t->in_heap.pos != 0;
        if (rng_below(&rng, 3)) {
            heap_put(&heap, &t->in_heap, (int64_t)rng_below(&rng, 20) - 10);
            in++;
        } else {
            heap_take(&heap, &t->in_heap);
        }
        assert_int_equal(heap.n, in);
        struct thing *first = model_first(things, N);
        assert_ptr_equal(heap_first(&heap), first ? &first->in_heap : NULL);
    }
    heap_release(&heap);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(things[i].in_heap.pos, 0);
    }
}

static void heap_is_first_in_first_out_among_equals(void **state)
{
    (void)state;
    enum { N = 100 };
    struct thing things[N] = { 0 };
    struct heap heap = { 0 };
    for (int i = 0; i < N; i++) {
        heap_put(&heap, &things[i].in_heap, 7);
    }
    heap_put(&heap, &things[0].in_heap, 7); /* same key: keeps its place */
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(heap_first(&heap), &things[i].in_heap);
        heap_take(&heap, &things[i].in_heap);
        heap_take(&heap, &things[i].in_heap); /* the second does nothing */
    }
    assert_null(heap_first(&heap));
    heap_put(&heap, &things[0].in_heap, INT64_MAX);
    heap_put(&heap, &things[1].in_heap, INT64_MIN);
    assert_ptr_equal(heap_first(&heap), &things[1].in_heap);
    heap_release(&heap);
}

static void rng_is_what_its_authors_publish(void **state)
{
    (void)state;
    /* splitmix64(0): 0xe220a8397b1dcdaf, ...; then xoshiro256** on that state. */
    struct rng rng;
    rng_seed(&rng, 0);
    assert_true(rng.s[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(rng.s[1] == UINT64_C(0x6e789e6aa1b965f4));
    rng = (struct rng){ { 1, 2, 3, 4 } };
    static const uint64_t want[] = { 11520, 0, 1509978240, UINT64_C(1215971899390074240) };
    for (size_t i = 0; i < 4; i++) {
        assert_true(rng_u64(&rng) == want[i]);
    }
}

static void rng_below_is_even_and_in_range(void **state)
{
    (void)state;
    struct rng rng;
    unsigned counts[10] = { 0 };
    rng_seed(&rng, 4);
    for (int i = 0; i < 100000; i++) {
        counts[rng_below(&rng, 10)]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(counts[i], 9500, 10500);
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(rng_below(&rng, 1), 0);
        assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_reset_reuses_its_blocks),
        cmocka_unit_test(arena_reset_gives_large_blocks_back),
        cmocka_unit_test(arena_push_keeps_order_and_zeroes),
        cmocka_unit_test(list_keeps_order_through_removals),
        cmocka_unit_test(list_empty_cases),
        cmocka_unit_test(heap_agrees_with_a_search),
        cmocka_unit_test(heap_is_first_in_first_out_among_equals),
        cmocka_unit_test(rng_is_what_its_authors_publish),
        cmocka_unit_test(rng_below_is_even_and_in_range),
    };
    return cmocka_run_group_tests_name("base/mem", tests, NULL, NULL);
}
