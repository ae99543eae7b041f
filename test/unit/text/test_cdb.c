/* A constant database that is written is read as its format says: every key by two reads, and none that isn't there. */
#include "check.h"

#include "text/cdb.h"

static struct arena arena;

static uint32_t number(struct str all, size_t at)
{
    assert_true(at + 4 <= all.len);
    const unsigned char *p = (const unsigned char *)all.ptr + at;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* find: a reader by the description at cr.yp.to, on its own; the nth value of the key; false: there is none. */
static bool find(struct str all, struct str key, size_t nth, struct str *out)
{
    uint32_t hash = 5381;
    for (size_t i = 0; i < key.len; i++)
        hash = (hash * 33) ^ (unsigned char)key.ptr[i];
    size_t table = number(all, hash % 256 * 8), slots = number(all, hash % 256 * 8 + 4);
    for (size_t i = 0; i < slots; i++) {
        size_t slot = table + (hash / 256 + i) % slots * 8, at = number(all, slot + 4);
        if (at == 0)
            return false;
        if (number(all, slot) != hash)
            continue;
        size_t key_len = number(all, at), len = number(all, at + 4);
        if (str_eq(str_sub(all, at + 8, at + 8 + key_len), key) && nth-- == 0) {
            *out = str_sub(all, at + 8 + key_len, at + 8 + key_len + len);
            return true;
        }
    }
    return false;
}

static void round_trip(void **state)
{
    (void)state;
    static const size_t counts[] = { 0, 1, 2, 255, 256, 257, 5000 };
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        struct cdb_writer cdb;
        struct buf out;
        struct str value;
        buf_init(&out, 1 << 24);
        cdb_begin(&cdb, &out, &arena);
        for (size_t i = 0; i < counts[c]; i++)
            cdb_add(&cdb, str_fmt(&arena, "d%zu", i), str_fmt(&arena, "value %zu\n", i * i));
        cdb_add(&cdb, STR("twice"), STR("one"));
        cdb_add(&cdb, STR("twice"), STR(""));
        assert_true(cdb_end(&cdb));
        struct str all = buf_str(&out);
        for (size_t i = 0; i < counts[c]; i++) {
            assert_true(find(all, str_fmt(&arena, "d%zu", i), 0, &value));
            assert_true(str_eq(value, str_fmt(&arena, "value %zu\n", i * i)));
            assert_false(find(all, str_fmt(&arena, "s%zu", i), 0, &value));
        }
        assert_true(find(all, STR("twice"), 0, &value) && str_eqz(value, "one"));
        assert_true(find(all, STR("twice"), 1, &value) && value.len == 0);
        assert_false(find(all, STR("twice"), 2, &value));
        buf_release(&out);
        arena_reset(&arena);
    }
}

static void too_large(void **state)
{
    (void)state;
    for (size_t room = 0; room < 4000; room += 100) {
        struct cdb_writer cdb;
        struct buf out;
        buf_init(&out, room);
        cdb_begin(&cdb, &out, &arena);
        cdb_add(&cdb, STR("key"), str_fmt(&arena, "%03000d", 1));
        assert_false(cdb_end(&cdb));
        buf_release(&out);
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
