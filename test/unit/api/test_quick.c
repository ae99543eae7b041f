/* The quick check: what it takes, the general parser takes; what it hands out is what that one reads. */
#include "check.h"

#include "api/quick.h"
#include "base/rng.h"

static const char *const plain[] = {
    "{}",
    "[]",
    " { \"a\" : [ 1 , -2.5e+10 , \"x\\n\\\"\" , true , false , null , {} , [] ] } ",
    "\"ä\"",
    "0",
    "-0",
    "999999999999999999",
    "1e99",
    "0.1",
    "{\"a\":1,\"b\":1,\"A\":1}",
    "[[[[[[[[]]]]]]]]",
};
static const char *const other[] = {
    "",
    " ",
    "{",
    "}",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{,}",
    "[1,]",
    "[,]",
    "[1 2]",
    "{\"a\" 1}",
    "{a:1}",
    "'a'",
    "01",
    "-",
    "+1",
    ".5",
    "1.",
    "1e",
    "1e999",
    "1000000000000000000",
    "nul",
    "truefalse",
    "true false",
    "\"",
    "\"\\\"",
    "\"\\x\"",
    "\"\\u0041\"",
    "\"\n\"",
    "{\"a\":1,\"a\":2}",
    "{\"\\u0061\":1}",
    "{} {}",
    ("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,"
     "\"q\":1}"),
    "\"\xff\"",
    "\"\xc3\"",
    "\"\xed\xa0\x80\"",
    "NaN",
    "Infinity",
    "/**/1",
    "\xef\xbb\xbf{}",
};

static void test_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        struct err err = { 0 };
        if (!quick_check(str_of(plain[i])))
            fail_msg("not taken: %s", plain[i]);
        json_t *document = json_parse(str_of(plain[i]), JSON_DEPTH_MAX, &err);
        if (document == NULL)
            fail_msg("taken, but not JSON: %s", plain[i]);
        json_decref(document);
    }
    for (size_t i = 0; i < COUNT_OF(other); i++)
        if (quick_check(str_of(other[i])))
            fail_msg("taken: %s", other[i]);
    char deep[200];
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    assert_false(quick_check((struct str){ deep, 130 }));
    assert_true(quick_check((struct str){ deep + 1, 128 }));
    assert_false(quick_check((struct str){ "1\0", 2 }));
}

static void test_values(void **state)
{
    (void)state;
    static const char *const rows[] = { "\"a b\"", "\"\"", "\"a\\tb\"", "[\"a\",\"b\"]", "[]", "[1,\"a\"]", "[\"a\\\\\"]", "{\"a\":[1.5]}",
        "17", "-3", "1.5", "true", "null" };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_t *wanted = json_loads(rows[i], JSON_DECODE_ANY, NULL), *got = quick_value(str_of(rows[i]));
        assert_non_null(wanted);
        assert_non_null(got);
        if (!json_equal(wanted, got))
            fail_msg("%s", rows[i]);
        json_decref(wanted);
        json_decref(got);
    }
}

/* Documents with random bytes changed: yes is never said to what the general parser refuses. */
static void test_damage(void **state)
{
    (void)state;
    static const char whole[] =
        "{\"name\":\"a\",\"command\":[\"x\",\"\\n\"],\"data\":{\"a\":[1,-2.5,1e9,\"\xc3\xa4\"],\"b\":{\"c\":null,\"d\":true}},\"p\":0}";
    static const char bytes[] = "{}[]\",:0123456789.eE+-\\ntfu \n\x01\xc3\xff/a";
    struct rng rng;
    rng_seed(&rng, 7);
    size_t taken = 0;
    for (size_t i = 0; i < 200000; i++) {
        char text[sizeof whole];
        memcpy(text, whole, sizeof whole);
        for (uint64_t k = 1 + rng_below(&rng, 3); k > 0; k--)
            text[rng_below(&rng, sizeof whole - 1)] = bytes[rng_below(&rng, sizeof bytes - 1)];
        struct str str = { text, sizeof whole - 1 };
        if (!quick_check(str))
            continue;
        taken++;
        struct err err = { 0 };
        json_t *document = json_parse(str, JSON_DEPTH_MAX, &err);
        if (document == NULL)
            fail_msg("taken: %.*s: %s", STR_ARG(str), err.text);
        json_decref(document);
    }
    assert_true(taken > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tables), cmocka_unit_test(test_values), cmocka_unit_test(test_damage) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
