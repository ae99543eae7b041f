/* Reading JSON bodies: strictness, all faults in one go, paths and suggestions. */
#include "check.h"

#include "text/json.h"
#include "text/json_read.h"
#include "text/json_value.h"

static json_t *parse(const char *z, struct arena *arena, struct err *err)
{
    *err = (struct err){ .arena = arena };
    struct str in = exact(str_of(z));
    json_t *value = json_parse(in, 5, err);
    exact_free(in);
    return value;
}

/* JSON, but no number of ours: the field is named. */
static void refuses_numbers_that_nothing_holds(void **state)
{
    (void)state;
    static const struct {
        const char *in, *path;
    } cases[] = {
        { "[99999999999999999999]", "/0" },
        { "[1, 1e999]", "/1" },
        { "99999999999999999999", "" },
        { "{\"a\":1,\"b\":[{\"c,\":2},{\"d\\\"e\":-99999999999999999999}]}", "/b/1/d\\\"e" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena = { 0 };
        struct err err;
        assert_null(parse(cases[i].in, &arena, &err));
        assert_int_equal(err.code, ERR_invalid);
        assert_int_equal(err.n_items, 1);
        if (!str_eqz(err.items[0].path, cases[i].path))
            fail_msg("%s: %.*s", cases[i].in, STR_ARG(err.items[0].path));
        arena_release(&arena);
    }
}

static void refuses_what_is_not_json(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        unsigned line, column;
    } cases[] = {
        { "", 1, 1 },
        { "{", 1, 1 },
        { "{\"a\":1,}", 1, 8 },
        { "[1,\n 2,,]", 2, 4 },
        { "{\"a\":1,\"a\":2}", 1, 10 },
        { "{'a':1}", 1, 2 },
        { "[1] x", 1, 5 },
        { "[NaN]", 1, 4 },
        { "[01]", 1, 2 },
        { "\"\\ud800\"", 1, 8 },
        { "[\"a\nb\"]", 1, 3 },
        { "[[[[[[1]]]]]]", 1, 6 },
        { "[\n\"\xc3\xa4[[\", [[[[[1]]]]]]", 2, 12 },
        { "\xff", 1, 1 },
        { "/* x */ 1", 1, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena = { 0 };
        struct err err;
        assert_null(parse(cases[i].in, &arena, &err));
        assert_int_equal(err.code, ERR_bad_json);
        assert_int_equal(err.n_items, 1);
        if (err.items[0].line != cases[i].line || err.items[0].column != cases[i].column)
            fail_msg("%s: at %u:%u: %s", cases[i].in, err.items[0].line, err.items[0].column, err.text);
        arena_release(&arena);
    }
}

/* jansson would skip these. */
static void refuses_nul_bytes(void **state)
{
    (void)state;
    const struct {
        struct str in;
        unsigned line, column;
    } cases[] = {
        { STR("null\0"), 1, 5 },
        { STR("[1\0,2]"), 1, 3 },
        { STR("{\n\"\xc3\xa4\":true\0}"), 2, 9 },
        { STR("\0"), 1, 1 },
        { STR("\"\0\""), 1, 2 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena = { 0 };
        struct err err = { .arena = &arena };
        assert_null(json_parse(cases[i].in, 5, &err));
        assert_int_equal(err.code, ERR_bad_json);
        assert_int_equal(err.items[0].line, cases[i].line);
        assert_int_equal(err.items[0].column, cases[i].column);
        arena_release(&arena);
    }
}

static void works_without_an_arena_for_items(void **state)
{
    (void)state;
    struct err err = { 0 };
    assert_null(json_parse(STR("[1,]"), 5, &err));
    assert_true(str_starts(str_of(err.text), STR("line 1, column 4: ")));
    assert_int_equal(err.n_items, 0);
}

static void accepts_any_value(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { " 1 ", "1" },
        { "null", "null" },
        { "\"a\\u0000b\"", "\"a\\u0000b\"" },
        { "[[[[[]]]]]", "[[[[[]]]]]" },
        { "1.0", "1.0" },
        { "0.1", "0.1" },
        { "1e2", "100.0" },
        { "3.141592653589793", "3.141592653589793" },
        { "1.7976931348623157e308", "1.7976931348623157e+308" },
        { "9223372036854775807", "9223372036854775807" },
        { "9007199254740993", "9007199254740993" },
        { "{\"b\":1,\"a\":[true,false]}", "{\"b\":1,\"a\":[true,false]}" },
        { "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"" },
        { "{\"\":{}}", "{\"\":{}}" },
        { "[\"]]]]]]]]\\\"[[[[[[\"]", "[\"]]]]]]]]\\\"[[[[[[\"]" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena = { 0 };
        struct err err;
        json_t *value = parse(cases[i][0], &arena, &err);
        assert_non_null(value);
        check_str(json_text(&arena, value, false), cases[i][1]);
        json_decref(value);
        arena_release(&arena);
    }
}

static void sorts_canonical_text(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err;
    json_t *value = parse("{\"b\":{\"z\":1,\"y\":2},\"a\":[{\"d\":1,\"c\":2}],\"aa\":0}", &arena, &err);
    check_str(json_text(&arena, value, true), "{\"a\":[{\"c\":2,\"d\":1}],\"aa\":0,\"b\":{\"y\":2,\"z\":1}}");
    json_decref(value);
    arena_release(&arena);
}

/* body_of: as handlers get it. */
static const struct doc_node *body_of(const char *text, struct arena *arena, struct err *err)
{
    *err = (struct err){ .arena = arena };
    const struct doc_node *value = json_read_body(str_of(text), arena, err);
    assert_non_null(value);
    return value;
}

static void reads_fields(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err;
    const struct doc_node *value = body_of("{\"s\":\"x\\u00e4\",\"i\":-5,\"b\":true,\"t\":\"1970-01-01T00:00:01Z\","
                                           "\"d\":\"90s\",\"a\":[1,2],\"o\":{\"k\":\"v\"},\"no\":null}",
        &arena, &err);
    struct json_reader reader, child;
    assert_true(json_read_object(&reader, value, (struct str){ 0 }, &arena, &err));
    struct str s, k;
    int64_t i, t, d;
    bool b;
    const struct doc_node *a;
    assert_true(json_read_str(&reader, "s", 3, &s));
    check_str(s, "x\xc3\xa4");
    assert_true(json_read_i64(&reader, "i", -5, 5, &i));
    assert_int_equal(i, -5);
    assert_true(json_read_bool(&reader, "b", &b) && b);
    assert_true(json_read_time(&reader, "t", &t));
    assert_int_equal(t, 1000);
    assert_true(json_read_duration(&reader, "d", &d));
    assert_int_equal(d, 90000);
    assert_true(json_read_array(&reader, "a", 2, &a));
    assert_int_equal(a->n, 2);
    assert_true(json_read_child(&reader, "o", &child));
    assert_true(json_read_str(&child, "k", 10, &k));
    check_str(json_read_path(&child, "k"), "/o/k");
    json_read_end(&child);
    assert_false(json_read_str(&reader, "no", 10, &s));
    assert_false(json_read_str(&reader, "absent", 10, &s));
    json_read_end(&reader);
    check_str(s, "x\xc3\xa4"); /* lives in the arena */
    assert_int_equal(err.code, ERR_none);
    assert_int_equal(err.n_items, 0);
    arena_release(&arena);
}

static void tells_all_faults(void **state)
{
    (void)state;
    static const struct {
        const char *path, *message, *suggestion;
    } wanted[] = {
        { "/t/3/s", "'s' must be a string, not a number", "" },
        { "/t/3/long", "'long' is longer than 2 bytes", "" },
        { "/t/3/nul", "'nul' must not contain a NUL character", "" },
        { "/t/3/i", "'i' must be a whole number, not a number with a fraction", "" },
        { "/t/3/big", "'big' must be from 1 to 10, not 11", "" },
        { "/t/3/b", "'b' must be true or false, not a string", "" },
        { "/t/3/time", "'time' must be a time such as \"2026-11-15T05:46:00Z\" (RFC 3339), not \"now\"", "" },
        { "/t/3/d", "'d' must be a duration with a unit, such as \"90s\", \"15m\", \"2h\" or \"7d\", not \"90\"", "" },
        { "/t/3/a", "'a' has 3 items; at most 2 are taken", "" },
        { "/t/3/o", "'o' must be an object, not an array", "" },
        { "/t/3/depnds", "unknown field 'depnds'", "did you mean 'depends'?" },
        { "/t/3/x~1y~0", "unknown field 'x/y~'", "" },
    };
    struct arena arena = { 0 };
    struct err err;
    const struct doc_node *value = body_of("{\"s\":1,\"long\":\"abc\",\"nul\":\"\\u0000\",\"i\":1.5,\"big\":11,\"b\":"
                                           "\"true\",\"time\":\"now\",\"d\":\"90\","
                                           "\"a\":[1,2,3],\"o\":[],"
                                           "\"depnds\":[],\"x/y~\":1}",
        &arena, &err);
    struct json_reader reader, child;
    struct str path = json_pointer_at(&arena, STR("/t"), 3);
    assert_true(json_read_object(&reader, value, path, &arena, &err));
    struct str s;
    int64_t n;
    bool b;
    const struct doc_node *a;
    assert_false(json_read_str(&reader, "s", 10, &s));
    assert_false(json_read_str(&reader, "long", 2, &s));
    assert_false(json_read_str(&reader, "nul", 2, &s));
    assert_false(json_read_i64(&reader, "i", 1, 10, &n));
    assert_false(json_read_i64(&reader, "big", 1, 10, &n));
    assert_false(json_read_bool(&reader, "b", &b));
    assert_false(json_read_time(&reader, "time", &n));
    assert_false(json_read_duration(&reader, "d", &n));
    assert_false(json_read_array(&reader, "a", 2, &a));
    assert_false(json_read_child(&reader, "o", &child));
    assert_null(json_read_any(&reader, "depends"));
    json_read_end(&reader);
    assert_int_equal(err.code, ERR_invalid);
    assert_int_equal(err.n_items, COUNT_OF(wanted));
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        check_str(err.items[i].path, wanted[i].path);
        check_str(err.items[i].message, wanted[i].message);
        check_str(err.items[i].suggestion, wanted[i].suggestion);
    }
    arena_release(&arena);
}

static void refuses_what_is_not_an_object(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err;
    const struct doc_node *value = body_of("[]", &arena, &err);
    struct json_reader reader;
    assert_false(json_read_object(&reader, value, (struct str){ 0 }, &arena, &err));
    check_str(str_of(err.text), "the document must be an object, not an array");
    assert_false(json_read_object(&reader, value, STR("/tasks/0"), &arena, &err));
    check_str(err.items[1].message, "'tasks/0' must be an object, not an array");
    check_str(json_pointer_at(&arena, (struct str){ 0 }, 10203), "/10203");
    arena_release(&arena);
}

/* Cut at any byte, a document is refused and nothing is read past its end. */
static void survives_truncation(void **state)
{
    (void)state;
    struct str whole = STR(
        "{\"name\": \"\\u00e4\\\"b\", \"n\": [-1.5e3, true, null, \"\xf0\x9f\x98\x80\"], \"o\": {\"k\": \"\\\\\"}}");
    for (size_t len = 0; len < whole.len; len++) {
        struct arena arena = { 0 };
        struct err err = { .arena = &arena };
        struct str in = exact(str_sub(whole, 0, len));
        assert_null(json_parse(in, 16, &err));
        exact_free(in);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_numbers_that_nothing_holds),
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(refuses_nul_bytes),
        cmocka_unit_test(works_without_an_arena_for_items),
        cmocka_unit_test(accepts_any_value),
        cmocka_unit_test(sorts_canonical_text),
        cmocka_unit_test(reads_fields),
        cmocka_unit_test(tells_all_faults),
        cmocka_unit_test(refuses_what_is_not_an_object),
        cmocka_unit_test(survives_truncation),
    };
    return cmocka_run_group_tests_name("text-json_read", tests, NULL, NULL);
}
