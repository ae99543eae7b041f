/* map and smap against a plain array: same finds, same order of iteration, whatever happens in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/rng.h"

enum { KEYS = 600 };

static int values[KEYS + 1];

/* The model: keys in order of insertion with their values. */
struct model {
    size_t keys[KEYS];
    void *values[KEYS];
    size_t n;
};

static size_t model_at(const struct model *m, size_t key)
{
    size_t i = 0;
    while (i < m->n && m->keys[i] != key) {
        i++;
    }
    return i;
}

static void model_put(struct model *m, size_t key, void *value)
{
    size_t at = model_at(m, key);
    m->keys[at] = key;
    m->values[at] = value;
    m->n += at == m->n;
}

static void *model_take(struct model *m, size_t key)
{
    size_t at = model_at(m, key);
    if (at == m->n) {
        return NULL;
    }
    void *value = m->values[at];
    m->n--;
    memmove(m->keys + at, m->keys + at + 1, (m->n - at) * sizeof *m->keys);
    memmove(m->values + at, m->values + at + 1, (m->n - at) * sizeof *m->values);
    return value;
}

static uint64_t key_of(size_t i)
{
    /* dense, spread over high bits only, and both: shapes that a bad hash handles badly */
    return i % 3 == 0 ? i : i % 3 == 1 ? (uint64_t)i << 48 : (uint64_t)i << 20 | i;
}

static void map_check(const struct map *map, const struct model *m)
{
    size_t i = 0;
    assert_int_equal(map->n, m->n);
    MAP_EACH (map, e) {
        assert_true(i < m->n);
        assert_true(e->key == key_of(m->keys[i]));
        assert_ptr_equal(e->value, m->values[i]);
        i++;
    }
    assert_int_equal(i, m->n);
}

static void map_agrees_with_an_array(void **state)
{
    (void)state;
    static struct model m;
    struct map map = { 0 };
    struct rng rng;
    rng_seed(&rng, 11);
    m.n = 0;
    for (int step = 0; step < 60000; step++) {
        /* The number of keys in play breathes, so that the table grows, squeezes and gets nearly empty. */
        size_t span = step / 10000 % 2 ? 5 : KEYS;
        size_t key = (size_t)rng_below(&rng, span);
        switch (rng_below(&rng, 4)) {
        case 0:
            assert_ptr_equal(map_take(&map, key_of(key)), model_take(&m, key));
            break;
        case 1:
            assert_ptr_equal(map_find(&map, key_of(key)), model_at(&m, key) < m.n ? m.values[model_at(&m, key)] : NULL);
            break;
        default:
            map_put(&map, key_of(key), &values[step % KEYS]);
            model_put(&m, key, &values[step % KEYS]);
            break;
        }
        if (rng_below(&rng, 3000) == 0) {
            map_clear(&map);
            m.n = 0;
        }
        if (step % 50 == 0) {
            map_check(&map, &m);
        }
    }
    map_check(&map, &m);
    map_release(&map);
    assert_int_equal(map.n, 0);
}

static void smap_agrees_with_an_array(void **state)
{
    (void)state;
    static struct model m;
    static char names[KEYS][24];
    struct smap map = { 0 };
    struct rng rng;
    rng_seed(&rng, 12);
    m.n = 0;
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof names[i], "%.*s%zu", (int)(i % 15), "aaaaaaaaaaaaaaa", i);
    }
    for (int step = 0; step < 60000; step++) {
        size_t key = (size_t)rng_below(&rng, step / 10000 % 2 ? 5 : KEYS);
        struct str name = str_of(names[key]);
        switch (rng_below(&rng, 4)) {
        case 0:
            assert_ptr_equal(smap_take(&map, name), model_take(&m, key));
            break;
        case 1:
            assert_ptr_equal(smap_find(&map, name), model_at(&m, key) < m.n ? m.values[model_at(&m, key)] : NULL);
            break;
        default:
            smap_put(&map, name, &values[step % KEYS]);
            model_put(&m, key, &values[step % KEYS]);
            break;
        }
        if (rng_below(&rng, 3000) == 0) {
            smap_clear(&map);
            m.n = 0;
        }
        if (step % 50 == 0) {
            size_t i = 0;
            SMAP_EACH (&map, e) {
                assert_true(str_eqz(e->key, names[m.keys[i]]));
                assert_ptr_equal(e->value, m.values[i]);
                i++;
            }
            assert_int_equal(i, m.n);
        }
    }
    smap_release(&map);
}

static void map_may_lose_entries_during_a_walk(void **state)
{
    (void)state;
    struct map map = { 0 };
    for (uint64_t i = 0; i < 100; i++) {
        map_put(&map, i, &values[i]);
    }
    size_t seen = 0;
    MAP_EACH (&map, e) {
        seen++;
        map_take(&map, e->key);
    }
    assert_int_equal(seen, 100);
    assert_int_equal(map.n, 0);
    map_release(&map);
}

static void map_takes_the_odd_keys(void **state)
{
    (void)state;
    struct map map = { 0 };
    struct smap names = { 0 };
    assert_null(map_find(&map, 0));
    assert_null(map_take(&map, 0));
    map_put(&map, 0, &values[0]);
    map_put(&map, UINT64_MAX, &values[1]);
    assert_ptr_equal(map_find(&map, 0), &values[0]);
    assert_ptr_equal(map_find(&map, UINT64_MAX), &values[1]);
    assert_null(smap_find(&names, STR("")));
    smap_put(&names, (struct str){ 0 }, &values[2]);
    assert_ptr_equal(smap_find(&names, STR("")), &values[2]);
    assert_null(smap_find(&names, STR("\0")));
    map_release(&map);
    smap_release(&names);
}

/* A table that was large once must not cost its size again on every clear: this would take minutes then. */
static void map_clears_cheaply_when_nearly_empty(void **state)
{
    (void)state;
    struct map map = { 0 };
    for (uint64_t i = 0; i < 1000000; i++) {
        map_put(&map, i * 7, &values[0]);
    }
    for (int i = 0; i < 200000; i++) {
        map_clear(&map);
        map_put(&map, (uint64_t)i, &values[1]);
        map_put(&map, (uint64_t)i + 1, &values[2]);
        assert_ptr_equal(map_find(&map, (uint64_t)i), &values[1]);
    }
    assert_int_equal(map.n, 2);
    map_release(&map);
}

/* A queue of work through a table: memory follows what is in, not what ever was. */
static void map_does_not_grow_under_churn(void **state)
{
    (void)state;
    struct map map = { 0 };
    for (uint64_t i = 0; i < 200000; i++) {
        map_put(&map, i, &values[0]);
        if (i >= 100) {
            assert_non_null(map_take(&map, i - 100));
        }
    }
    assert_int_equal(map.n, 100);
    assert_true(map.cap_entries <= 512);
    map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_agrees_with_an_array),
        cmocka_unit_test(smap_agrees_with_an_array),
        cmocka_unit_test(map_may_lose_entries_during_a_walk),
        cmocka_unit_test(map_takes_the_odd_keys),
        cmocka_unit_test(map_clears_cheaply_when_nearly_empty),
        cmocka_unit_test(map_does_not_grow_under_churn),
    };
    return cmocka_run_group_tests_name("base/map", tests, NULL, NULL);
}
