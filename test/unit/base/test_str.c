/* str: tables of cases, and properties against naive models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "base/str.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

static const struct str nothing = { NULL, 0 };

static void views_compare(void **state)
{
    (void)state;
    assert_true(str_eq(nothing, STR("")));
    assert_true(str_eq(str_of(NULL), nothing));
    assert_true(str_eqz(STR("abc"), "abc"));
    assert_false(str_eqz(STR("abc"), "ab"));
    assert_true(str_eqz(nothing, NULL));
    assert_true(str_cmp(STR("a"), STR("ab")) < 0);
    assert_true(str_cmp(STR("ab"), STR("a")) > 0);
    assert_true(str_cmp(STR("\xff"), STR("a")) > 0); /* bytes, not signed chars */
    assert_int_equal(str_cmp(nothing, STR("")), 0);
    assert_true(str_starts(STR("weir.conf"), STR("weir")));
    assert_true(str_starts(STR("x"), nothing));
    assert_false(str_starts(nothing, STR("x")));
    assert_true(str_ends(STR("weir.conf"), STR(".conf")));
    assert_true(str_ends(nothing, nothing));
    assert_false(str_ends(STR("conf"), STR(".conf")));
}

static void views_are_searched_and_cut(void **state)
{
    (void)state;
    assert_int_equal(str_index(STR("a:b:c"), ':'), 1);
    assert_int_equal(str_rindex(STR("a:b:c"), ':'), 3);
    assert_int_equal(str_index(nothing, ':'), -1);
    assert_int_equal(str_rindex(STR("abc"), ':'), -1);
    assert_int_equal(str_index(STR("a\xff"), '\xff'), 1);
    assert_true(str_eqz(str_sub(STR("abcdef"), 2, 4), "cd"));
    assert_true(str_eqz(str_sub(STR("abcdef"), 4, 99), "ef"));
    assert_int_equal(str_sub(STR("abcdef"), 4, 2).len, 0);
    assert_int_equal(str_sub(STR("abcdef"), 99, 100).len, 0);
    assert_true(str_eqz(str_trim(STR(" \t\r\n a b \n")), "a b"));
    assert_int_equal(str_trim(STR(" \n ")).len, 0);
    assert_int_equal(str_trim(nothing).len, 0);
}

static void cut_takes_the_parts(void **state)
{
    (void)state;
    struct str rest = STR("a,,bc,"), part;
    static const char *const want[] = { "a", "", "bc" };
    for (size_t i = 0; i < N_OF(want); i++) {
        assert_true(str_cut(&rest, ',', &part));
        assert_true(str_eqz(part, want[i]));
    }
    assert_false(str_cut(&rest, ',', &part));
    rest = STR("whole");
    assert_true(str_cut(&rest, ',', &part));
    assert_true(str_eqz(part, "whole"));
    assert_int_equal(rest.len, 0);
}

static void numbers_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool i_ok;
        int64_t i;
        bool u_ok;
        uint64_t u;
    } cases[] = {
        { "0", true, 0, true, 0 }, { "-0", true, 0, false, 0 }, { "007", true, 7, true, 7 },
        { "-1", true, -1, false, 0 }, { "9223372036854775807", true, INT64_MAX, true, INT64_MAX },
        { "9223372036854775808", false, 0, true, UINT64_C(9223372036854775808) },
        { "-9223372036854775808", true, INT64_MIN, false, 0 }, { "-9223372036854775809", false, 0, false, 0 },
        { "18446744073709551615", false, 0, true, UINT64_MAX }, { "18446744073709551616", false, 0, false, 0 },
        { "99999999999999999999999999", false, 0, false, 0 }, { "", false, 0, false, 0 }, { "-", false, 0, false, 0 },
        { "--1", false, 0, false, 0 }, { "+1", false, 0, false, 0 }, { " 1", false, 0, false, 0 },
        { "1 ", false, 0, false, 0 }, { "1.0", false, 0, false, 0 }, { "0x1", false, 0, false, 0 },
        { "1e3", false, 0, false, 0 }, { "\xd9\xa1", false, 0, false, 0 }, /* an Arabic digit */
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        int64_t signed_number = 42;
        uint64_t number = 42;
        assert_int_equal(str_to_i64(str_of(cases[i].text), &signed_number), cases[i].i_ok);
        assert_true(signed_number == (cases[i].i_ok ? cases[i].i : 42));
        assert_int_equal(str_to_u64(str_of(cases[i].text), &number), cases[i].u_ok);
        assert_true(number == (cases[i].u_ok ? cases[i].u : 42));
    }
}

static void hash_looks_at_every_byte_and_the_length(void **state)
{
    (void)state;
    char text[80];
    struct rng rng;
    rng_seed(&rng, 21);
    for (size_t len = 0; len < sizeof text; len++) {
        for (size_t i = 0; i < sizeof text; i++) {
            text[i] = (char)rng_u64(&rng);
        }
        uint64_t hash = str_hash((struct str){ text, len });
        assert_true(hash == str_hash((struct str){ text, len }));
        assert_true(hash != str_hash((struct str){ text, len + 1 }) || len + 1 == sizeof text);
        for (size_t i = 0; i < len; i++) {
            text[i] ^= 1;
            assert_true(hash != str_hash((struct str){ text, len }));
            text[i] ^= 1;
        }
    }
    assert_true(str_hash(nothing) == str_hash(STR("")));
    assert_true(str_hash(STR("\0")) != str_hash(STR("\0\0")));
}

/* Files of a running executor hold it: another value after an upgrade would make them look damaged. */
static void hash_values_are_fixed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t hash;
    } cases[] = {
        { "", UINT64_C(0xa5506ff52926ac13) },
        { "a", UINT64_C(0x37c0ab888779f5ba) },
        { "abc", UINT64_C(0xafb283181d8cea3f) },
        { "task", UINT64_C(0xf8e6cfa31bf214c0) },
        { "task-42", UINT64_C(0xdad99864fe3f15af) },
        { "0123456789abcdef", UINT64_C(0xe6093a35da64e5d3) },
        { "archive@12:build[os=a,cc=gcc]#2", UINT64_C(0x32d46dd18e29dbdb) },
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_true(str_hash(str_of(cases[i].text)) == cases[i].hash);
    }
}

/* 2^16 similar names into 2^16 slots by the high bits, as map does: near what chance gives (a slot gets more than 9:
 * never seen). */
static void hash_spreads_similar_names(void **state)
{
    (void)state;
    static unsigned char slots[1 << 16];
    memset(slots, 0, sizeof slots);
    unsigned most = 0;
    for (unsigned i = 0; i < 1 << 16; i++) {
        char name[24];
        int len = snprintf(name, sizeof name, "task-%u", i);
        unsigned n = ++slots[str_hash((struct str){ name, (size_t)len }) >> 48];
        most = n > most ? n : most;
    }
    assert_in_range(most, 2, 12);
}

/* Naive decoder: code point by arithmetic, then the three rules. */
static bool utf8_naive(const unsigned char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
        unsigned more = s[i] < 0x80             ? 0
                        : (s[i] & 0xe0) == 0xc0 ? 1
                        : (s[i] & 0xf0) == 0xe0 ? 2
                        : (s[i] & 0xf8) == 0xf0 ? 3
                                                : 9;
        if (more == 9 || len - i <= more) {
            return false;
        }
        uint32_t point = more ? s[i] & (0x3fu >> more) : s[i];
        for (unsigned k = 1; k <= more; k++) {
            if ((s[i + k] & 0xc0) != 0x80) {
                return false;
            }
            point = point << 6 | (s[i + k] & 0x3f);
        }
        if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

static void utf8_agrees_with_a_decoder(void **state)
{
    (void)state;
    static const unsigned char alphabet[] = { 'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
        0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff };
    unsigned char s[40];
    struct rng rng;
    unsigned good = 0;
    rng_seed(&rng, 22);
    for (size_t a = 0; a < N_OF(alphabet); a++) { /* all of up to three */
        for (size_t b = 0; b < N_OF(alphabet); b++) {
            for (size_t c = 0; c < N_OF(alphabet); c++) {
                s[0] = alphabet[a], s[1] = alphabet[b], s[2] = alphabet[c];
                for (size_t len = 1; len <= 3; len++) {
                    assert_int_equal(str_is_utf8((struct str){ (char *)s, len }), utf8_naive(s, len));
                }
            }
        }
    }
    for (int round = 0; round < 200000; round++) { /* four-byte forms, at any place among plain text */
        size_t len = 4 + (size_t)rng_below(&rng, 36), at = (size_t)rng_below(&rng, len - 3);
        memset(s, 'x', len);
        for (size_t i = 0; i < 4; i++) {
            s[at + i] = alphabet[rng_below(&rng, N_OF(alphabet))];
        }
        bool want = utf8_naive(s, len);
        good += want;
        assert_int_equal(str_is_utf8((struct str){ (char *)s, len }), want);
    }
    assert_true(good > 100);
    assert_true(str_is_utf8(nothing));
    assert_int_equal(str_char_len(nothing), 0);
    assert_int_equal(str_char_len(STR("\xc3\xa9x")), 2);
    assert_int_equal(str_char_len(STR("\xc3x")), 0);
    assert_int_equal(str_chars(STR("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x92\xa9")), 4);
}

static void copies_are_whole(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    char long_text[2000];
    memset(long_text, 'y', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    assert_true(str_eqz(str_dup(&arena, STR("abc")), "abc"));
    assert_int_equal(str_dup(&arena, nothing).len, 0);
    assert_string_equal(str_dupz(&arena, STR("abc")), "abc");
    assert_string_equal(str_dupz(&arena, nothing), "");
    assert_true(str_eqz(str_fmt(&arena, "%d-%.*s", 5, STR_ARG(STR("ab"))), "5-ab"));
    assert_true(str_eqz(str_fmt(&arena, "%.*s", STR_ARG(nothing)), ""));
    assert_int_equal(str_fmt(&arena, "%s!", long_text).len, sizeof long_text);
    assert_true(str_ends(str_fmt(&arena, "%s!", long_text), STR("y!")));
    arena_release(&arena);
}

static void closest_finds_misspellings_only(void **state)
{
    (void)state;
    static const struct str words[] = { { "depends", 7 }, { "after", 5 }, { "cancels", 7 }, { "command", 7 },
        { "script", 6 }, { "env", 3 }, { "timeout", 7 }, { "name", 4 }, { "not_before", 10 } };
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "depend", "depends" },
        { "dependes", "depends" },
        { "Depends", "depends" },
        { "dpeends", "depends" },
        { "cmmand", "command" },
        { "comand", "command" },
        { "ENV", "env" },
        { "enc", "env" },
        { "time-out", "timeout" },
        { "tiemout", "timeout" },
        { "notbefore", "not_before" },
        { "dep", "depends" },
        { "nmae", "name" },
        { "x", "" },
        { "", "" },
        { "colour", "" },
        { "zzzzzzzzz", "" },
        { "abcdefghijklmnopqrstuvwxyz", "" },
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct str got = str_closest(str_of(cases[i].text), words, N_OF(words));
        if (!str_eqz(got, cases[i].want)) {
            fail_msg("closest to '%s' is '%.*s', not '%s'", cases[i].text, STR_ARG(got), cases[i].want);
        }
    }
    assert_int_equal(str_closest(STR("depends"), NULL, 0).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_compare),
        cmocka_unit_test(views_are_searched_and_cut),
        cmocka_unit_test(cut_takes_the_parts),
        cmocka_unit_test(numbers_are_read_exactly),
        cmocka_unit_test(hash_looks_at_every_byte_and_the_length),
        cmocka_unit_test(hash_values_are_fixed),
        cmocka_unit_test(hash_spreads_similar_names),
        cmocka_unit_test(utf8_agrees_with_a_decoder),
        cmocka_unit_test(copies_are_whole),
        cmocka_unit_test(closest_finds_misspellings_only),
    };
    return cmocka_run_group_tests_name("base/str", tests, NULL, NULL);
}
