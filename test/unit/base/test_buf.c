/* buf and err: growth, caps, and texts that are cut where they may be cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

static void buf_holds_what_was_added(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 1 << 20);
    assert_int_equal(buf_str(&buf).len, 0);
    assert_string_equal(buf_str(&buf).ptr, "");
    buf_add_z(&buf, "");
    assert_string_equal(buf.ptr, "");
    buf_add_z(&buf, "a");
    buf_add_char(&buf, 'b');
    buf_add_str(&buf, STR("cd"));
    buf_add_str(&buf, (struct str){ 0 });
    buf_add_u64(&buf, 0);
    buf_add_u64(&buf, UINT64_MAX);
    buf_add_i64(&buf, INT64_MIN);
    buf_add_i64(&buf, INT64_MAX);
    buf_add_i64(&buf, -7);
    buf_addf(&buf, "<%s %d>", "x", 5);
    assert_string_equal(buf.ptr, "abcd018446744073709551615-92233720368547758089223372036854775807-7<x 5>");
    assert_int_equal(buf.len, strlen(buf.ptr));
    assert_false(buf.full);
    buf_drop(&buf, 4);
    assert_true(str_starts(buf_str(&buf), STR("0184")));
    assert_string_equal(i64_format(INT64_MIN).z, "-9223372036854775808");
    assert_string_equal(i64_format(0).z, "0");
    buf_drop(&buf, buf.len);
    assert_string_equal(buf.ptr, "");
    buf_release(&buf);
    assert_null(buf.ptr);
    buf_add_z(&buf, "again");
    assert_string_equal(buf.ptr, "again");
    buf_release(&buf);
}

/* Random pieces by every way in, against memory that is large enough: content is the pieces up to the first that didn't
 * fit. */
static void buf_is_whole_up_to_its_cap(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 31);
    for (int round = 0; round < 2000; round++) {
        char model[4096], piece[400];
        size_t model_len = 0, cap = (size_t)rng_below(&rng, 2000);
        bool model_full = false;
        struct buf buf;
        buf_init(&buf, cap);
        while (model_len + sizeof piece < sizeof model && rng_below(&rng, 20)) {
            size_t len = (size_t)rng_below(&rng, rng_below(&rng, 4) ? 20 : sizeof piece);
            memset(piece, 'a' + (int)rng_below(&rng, 26), len);
            switch (rng_below(&rng, 3)) {
            case 0:
                buf_add(&buf, piece, len);
                break;
            case 1:
                buf_addf(&buf, "%.*s", (int)len, piece);
                break;
            default: {
                char *room = buf_reserve(&buf, len);
                if (room) {
                    memcpy(room, piece, len);
                    buf_commit(&buf, len);
                }
            }
            }
            model_full = model_full || model_len + len > cap;
            if (!model_full) {
                memcpy(model + model_len, piece, len);
                model_len += len;
            }
            assert_int_equal(buf.len, model_len);
            assert_int_equal(buf.full, model_full);
            assert_memory_equal(buf_str(&buf).ptr, model, model_len);
            assert_int_equal(buf_str(&buf).ptr[model_len], '\0');
        }
        buf_reset(&buf);
        assert_false(buf.full);
        assert_string_equal(buf_str(&buf).ptr, "");
        buf_release(&buf);
    }
}

static void buf_of_zero_takes_nothing(void **state)
{
    (void)state;
    struct buf buf = { 0 };
    buf_add_z(&buf, "x");
    assert_true(buf.full);
    assert_int_equal(buf.len, 0);
    assert_null(buf_reserve(&buf, 1));
    buf_release(&buf);
    buf_init(&buf, SIZE_MAX);
    buf_add_z(&buf, "no cap");
    assert_false(buf.full);
    assert_string_equal(buf_str(&buf).ptr, "no cap");
    buf_release(&buf);
}

static void varints_come_back(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 32);
    struct buf buf;
    buf_init(&buf, 1000);
    for (int i = 0; i < 20000; i++) {
        uint64_t n = i < 3 ? (uint64_t)i - 1 : rng_u64(&rng) >> rng_below(&rng, 64), back;
        buf_reset(&buf);
        buf_add_varint(&buf, n);
        struct str rest = buf_str(&buf);
        assert_true(str_cut_varint(&rest, &back));
        assert_true(back == n);
        assert_int_equal(rest.len, 0);
        struct str part = str_sub(buf_str(&buf), 0, buf.len - 1); /* cut off: refused, and untouched */
        rest = part;
        assert_false(str_cut_varint(&rest, &back));
        assert_int_equal(rest.len, part.len);
    }
    static const struct str bad[] = { { "", 0 }, { "\x80", 1 }, { "\x80\x00", 2 }, { "\xff\x80\x00", 3 },
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10 }, { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 } };
    for (size_t i = 0; i < N_OF(bad); i++) {
        struct str rest = bad[i];
        uint64_t n;
        assert_false(str_cut_varint(&rest, &n));
    }
    buf_release(&buf);
}

static void err_table_is_sound(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ERR_COUNT; i++) {
        enum err_code code = (enum err_code)i;
        assert_true(err_find(str_of(err_name(code))) == code);
        assert_true(strlen(err_title(code)) > 3);
        if (code != ERR_none) {
            assert_in_range(err_http(code), 400, 599);
            assert_in_range(err_exit(code), 1, 77);
            /* 75 says to a script what retriable says to a program */
            assert_false(err_exit(code) == 75 && !err_retriable(code));
        }
    }
    assert_int_equal(err_find(STR("no_such_code")), ERR_none);
    assert_int_equal(err_http(ERR_stale_fence), 409);
    assert_int_equal(err_exit(ERR_unreachable), 69);
}

static void err_texts_grow_outwards(void **state)
{
    (void)state;
    struct err err = { 0 };
    assert_false(err_set(&err, ERR_invalid, "'%s' is no number", "x"));
    err_context(&err, "task %d", 3);
    assert_string_equal(err.text, "task 3: 'x' is no number");
    assert_int_equal(err.code, ERR_invalid);
    err_set(&err, ERR_internal, "again: %s", err.text); /* its own text as an argument */
    assert_string_equal(err.text, "again: task 3: 'x' is no number");
}

static void err_texts_are_cut_at_characters(void **state)
{
    (void)state;
    static const char *const letters[] = { "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x92\xa9" };
    for (size_t l = 0; l < N_OF(letters); l++) {
        for (int shift = 0; shift < 4; shift++) {
            struct buf buf;
            struct err err = { 0 };
            buf_init(&buf, 5000);
            buf_addf(&buf, "%.*s", shift, "xxx");
            for (int i = 0; i < 600; i++) {
                buf_add_z(&buf, letters[l]);
            }
            err_set(&err, ERR_invalid, "%s", buf.ptr);
            assert_in_range(strlen(err.text), sizeof err.text - 4, sizeof err.text - 1);
            assert_true(str_is_utf8(str_of(err.text)));
            err_context(&err, "context");
            assert_in_range(strlen(err.text), sizeof err.text - 4, sizeof err.text - 1);
            assert_true(str_is_utf8(str_of(err.text)));
            assert_true(str_starts(str_of(err.text), STR("context: ")));
            buf_release(&buf);
        }
    }
}

static void err_texts_are_clean(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    err_set(&err, ERR_invalid, "name '%s' is refused", "a\xff\x1b[31m\xc3\xa9\xc3\r\x7f");
    assert_string_equal(err.text, "name 'a?\?[31m\xc3\xa9?\?\?' is refused");
    err_item(&err, ERR_invalid, STR("/a"), "two\n\tlines\x01");
    assert_true(str_eqz(err_item_last(&err)->message, "two\n\tlines?"));
    err_context(&err, "in \xe2\x82");
    assert_true(str_starts(str_of(err.text), STR("in ?\?: name")));
    arena_release(&arena);
}

static void err_items_are_kept_up_to_a_hundred(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    assert_null(err_item_last(&err));
    for (int i = 0; i < 150; i++) {
        assert_false(err_item(&err, i ? ERR_cycle : ERR_invalid, STR("/tasks/0"), "fault %d", i));
        err_item_last(&err)->line = (unsigned)i + 1;
    }
    assert_int_equal(err.code, ERR_invalid);
    assert_string_equal(err.text, "fault 0");
    assert_int_equal(err.n_items, 100);
    for (size_t i = 0; i < err.n_items; i++) {
        assert_int_equal(err.items[i].line, i + 1);
        assert_true(str_eqz(err.items[i].path, "/tasks/0"));
    }
    assert_true(str_eqz(err.items[99].message, "fault 99"));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_holds_what_was_added),
        cmocka_unit_test(buf_is_whole_up_to_its_cap),
        cmocka_unit_test(buf_of_zero_takes_nothing),
        cmocka_unit_test(varints_come_back),
        cmocka_unit_test(err_table_is_sound),
        cmocka_unit_test(err_texts_grow_outwards),
        cmocka_unit_test(err_texts_are_cut_at_characters),
        cmocka_unit_test(err_texts_are_clean),
        cmocka_unit_test(err_items_are_kept_up_to_a_hundred),
    };
    return cmocka_run_group_tests_name("base/buf", tests, NULL, NULL);
}
