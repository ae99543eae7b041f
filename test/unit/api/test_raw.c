/* Raw values: found in valid JSON as the sender wrote them; nothing bad happens on other bytes. */
#include "check.h"

#include "api/raw.h"

static void test_member(void **state)
{
    (void)state;
    static const struct { const char *object, *key, *wanted; } rows[] = {
        { "{\"a\":1}", "a", "1" },
        { " { \"a\" : 1.50 , \"b\" : [1, {\"a\":2}] } ", "a", "1.50" },
        { " { \"a\" : 1.50 , \"b\" : [1, {\"a\":2}] } ", "b", "[1, {\"a\":2}]" },
        { "{\"x\":{\"a\":1},\"a\":\"}\\\"]\"}", "a", "\"}\\\"]\"" },
        { "{\"x\":\"\\\\\",\"a\":true}", "a", "true" },
        { "{\"x\":1}", "a", "" },
        { "{}", "a", "" },
        { "", "a", "" },
        { "{\"a", "a", "" },
        { "{\"a\":", "a", "" },
        { "{\"a\"", "a", "" },
        { "[", "a", "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_str(raw_member(str_of(rows[i].object), str_of(rows[i].key)), rows[i].wanted);
}

static void test_items(void **state)
{
    (void)state;
    static const char *const wanted[] = { "1", "\"a,]\"", "{ \"x\": [2] }", "[]", "null" };
    struct str rest = raw_items(STR(" [ 1 ,\"a,]\",{ \"x\": [2] } , [],null ] ")), item;
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_true(raw_next(&rest, &item));
        check_str(item, wanted[i]);
    }
    assert_false(raw_next(&rest, &item));
    rest = raw_items(STR("[]"));
    assert_false(raw_next(&rest, &item));
    rest = raw_items(STR("["));
    assert_false(raw_next(&rest, &item));
}

static void test_compact(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1000);
    raw_compact(&out, STR("{ \"a b\" :\t[ 1 , \" x \\\" y \" ]\r\n}"));
    check_str(buf_str(&out), "{\"a b\":[1,\" x \\\" y \"]}");
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_member), cmocka_unit_test(test_items), cmocka_unit_test(test_compact) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
