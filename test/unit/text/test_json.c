/* The JSON writer: commas, escapes, and bytes that aren't UTF-8. */
#include "check.h"

#include <jansson.h>

#include "base/rng.h"
#include "text/json.h"

static void writes_documents(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 4096);
    struct json json = json_to(&buf);
    json_object_begin(&json);
    json_put_str(&json, "name", STR("a"));
    json_put_z(&json, "z", "b");
    json_put_z(&json, "none", NULL);
    json_put_i64(&json, "n", INT64_MIN);
    json_put_bool(&json, "t", true);
    json_put_bool(&json, "f", false);
    json_put_time(&json, "never", 0);
    json_put_time(&json, "then", 1000);
    json_key_str(&json, STR("li\"st"));
    json_array_begin(&json);
    json_array_begin(&json);
    json_array_end(&json);
    json_object_begin(&json);
    json_object_end(&json);
    json_nil(&json);
    json_i64(&json, 1);
    json_raw(&json, STR("{\"x\":[]}"));
    json_z(&json, "");
    json_array_end(&json);
    json_object_end(&json);
    assert_int_equal(json.depth, 0);
    check_str(buf_str(&buf),
        "{\"name\":\"a\",\"z\":\"b\",\"none\":\"\",\"n\":-9223372036854775808,\"t\":true,\"f\":false,"
        "\"never\":null,\"then\":\"1970-01-01T00:00:01.000Z\",\"li\\\"st\":[[],{},null,1,{\"x\":[]},\"\"]}");
    buf_release(&buf);
}

static void escapes_strings(void **state)
{
    (void)state;
    const struct {
        struct str in;
        const char *out;
    } cases[] = {
        { STR(""), "\"\"" },
        { STR("plain / text ~ \x7f"), "\"plain / text ~ \x7f\"" },
        { STR("\""), "\"\\\"\"" },
        { STR("a\\b\"c"), "\"a\\\\b\\\"c\"" },
        { STR("\b\t\n\f\r"), "\"\\b\\t\\n\\f\\r\"" },
        { STR("x\0y"), "\"x\\u0000y\"" },
        { STR("\x01\x1f\x1b[m"), "\"\\u0001\\u001f\\u001b[m\"" },
        { STR("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { STR("\xff"), "\"\xef\xbf\xbd\"" },
        { STR("a\x80z"), "\"a\xef\xbf\xbdz\"" },
        { STR("\xe2\x82"), "\"\xef\xbf\xbd\"" }, /* a character cut off: one mark */
        { STR("\xe2\x82x"), "\"\xef\xbf\xbdx\"" },
        { STR("\xf0\x9f\x98"), "\"\xef\xbf\xbd\"" },
        { STR("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"" },                 /* overlong */
        { STR("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* a surrogate */
        { STR("\xf4\x90\x80\x80!"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!\"" },
        { STR("\xc3\xa4\n\xc3\xa4"), "\"\xc3\xa4\\n\xc3\xa4\"" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf buf;
        buf_init(&buf, 4096);
        struct json json = json_to(&buf);
        struct str in = exact(cases[i].in);
        json_str(&json, in);
        check_str(buf_str(&buf), cases[i].out);
        exact_free(in);
        buf_release(&buf);
    }
}

static void writes_fractions(void **state)
{
    (void)state;
    static const struct {
        double n;
        const char *out;
    } cases[] = {
        { 0, "0" },
        { 1, "1" },
        { -1, "-1" },
        { 0.5, "0.5" },
        { -0.25, "-0.25" },
        { 1.234567, "1.234567" },
        { 0.1234564, "0.123456" },
        { 0.1234567, "0.123457" },
        { 0.0000001, "0" },
        { -0.0000001, "0" },
        { 99.9999999, "100" },
        { 123456789.5, "123456789.5" },
        { 0.05, "0.05" },
        { 1e15, "1000000000000000" },
        { 1e300, "1.0000000000000001e+300" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf buf;
        buf_init(&buf, 4096);
        struct json json = json_to(&buf);
        json_f64(&json, cases[i].n);
        check_str(buf_str(&buf), cases[i].out);
        buf_release(&buf);
    }
}

/* Whatever the bytes are, what comes out is JSON; and for well-formed text jansson reads the same bytes back. */
static void any_bytes_are_json(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < 20000; round++) {
        char bytes[24];
        size_t len = rng_below(&rng, sizeof bytes + 1);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)(round % 3 == 0 ? rng_below(&rng, 128) : rng_u64(&rng) >> 13);
        struct buf buf;
        buf_init(&buf, 4096);
        struct json json = json_to(&buf);
        json_str(&json, (struct str){ bytes, len });
        assert_true(str_is_utf8(buf_str(&buf)));
        json_t *back = json_loadb(buf.ptr, buf.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(back);
        struct str text = { json_string_value(back), json_string_length(back) };
        if (str_is_utf8((struct str){ bytes, len }))
            assert_true(str_eq(text, (struct str){ bytes, len }));
        json_decref(back);
        buf_release(&buf);
    }
}

/* A full buf says so, whatever the cap, and never overflows. */
static void stops_at_the_cap(void **state)
{
    (void)state;
    for (size_t cap = 0; cap < 40; cap++) {
        struct buf buf;
        buf_init(&buf, cap);
        struct json json = json_to(&buf);
        json_object_begin(&json);
        json_put_str(&json, "key", STR("plain"));
        json_key_str(&json, STR("k\n"));
        json_str(&json, STR("\x01\xff"));
        json_object_end(&json);
        const char whole[] = "{\"key\":\"plain\",\"k\\n\":\"\\u0001\xef\xbf\xbd\"}";
        assert_true(buf.len <= cap);
        assert_int_equal(buf.full, cap < sizeof whole - 1);
        if (!buf.full)
            check_str(buf_str(&buf), whole);
        buf_release(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_documents),
        cmocka_unit_test(escapes_strings),
        cmocka_unit_test(writes_fractions),
        cmocka_unit_test(any_bytes_are_json),
        cmocka_unit_test(stops_at_the_cap),
    };
    return cmocka_run_group_tests_name("text-json", tests, NULL, NULL);
}
