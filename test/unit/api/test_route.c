/* The table of routes: who is found, what is allowed, and that the OpenAPI document has all of it. */
#include "check.h"

static const struct {
    const char *method, *path, *found, *arg, *allow;
} rows[] = {
    { "POST", "/v1/tasks", "/v1/tasks", "", "" },
    { "GET", "/v1/tasks", "/v1/tasks", "", "" },
    { "HEAD", "/v1/tasks/7", "/v1/tasks/{task}", "7", "" },
    { "GET", "/v1/tasks/q:7", "/v1/tasks/{task}", "q:7", "" },
    { "GET", "/v1/tasks/a@5:b[os=x/y]/log", "/v1/tasks/{task}/log", "a@5:b[os=x/y]", "" },
    { "GET", "/v1/tasks/a@5:b[os=x/y]", "/v1/tasks/{task}", "a@5:b[os=x/y]", "" },
    { "POST", "/v1/tasks/7/log", "/v1/tasks/{task}/log", "7", "" },
    { "PUT", "/v1/tasks", NULL, "", "POST, GET" },
    { "DELETE", "/v1/tasks/7", NULL, "", "GET" },
    { "GET", "/v1/tasks/7/cancel", NULL, "", "POST" },
    { "GET", "/v1/tasks/7/x", NULL, "", "" },
    { "GET", "/v1/tasks/", NULL, "", "" },
    { "GET", "/v1/tasks/7/log/", NULL, "", "" },
    { "GET", "/v1//tasks", NULL, "", "" },
    { "GET", "/", NULL, "", "" },
    { "GET", "", NULL, "", "" },
    { "POST", "/v1/executors/vm-1/poll", "/v1/executors/{executor}/poll", "vm-1", "" },
    { "DELETE", "/v1/tokens/ci", "/v1/tokens/{name}", "ci", "" },
    { "GET", "/v1/tasks/7/artifacts/out/a.log", "/v1/tasks/{task}/artifacts/{file}", "7", "" },
    { "POST", "/v1/tasks/a@5:b[os=x/artifacts/y]/artifacts/z", "/v1/tasks/{task}/artifacts/{file}",
        "a@5:b[os=x/artifacts/y]", "" },
    { "GET", "/v1/tasks/7/artifacts/", NULL, "", "" },
    { "OPTIONS", "/metrics", NULL, "", "GET" },
};

static void test_find(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str args[ROUTE_ARGS] = { { 0 }, { 0 } };
        struct buf allow;
        buf_init(&allow, 1000);
        const struct route *route = route_find(str_of(rows[i].method), str_of(rows[i].path), args, &allow);
        if ((route == NULL) != (rows[i].found == NULL))
            fail_msg("%s %s: %s", rows[i].method, rows[i].path, route != NULL ? route->path : "not found");
        if (route != NULL) {
            assert_string_equal(route->path, rows[i].found);
            check_str(args[0], rows[i].arg);
        } else {
            check_str(buf_str(&allow), rows[i].allow);
        }
        buf_release(&allow);
    }
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(api_body_limit(STR("POST"), STR("/v1/tasks"), NULL), 32 * MIB);
    assert_int_equal(api_body_limit(STR("POST"), STR("/v1/tokens"), NULL), MIB);
    assert_int_equal(api_body_limit(STR("POST"), STR("/v1/finishes"), NULL), MIB);
    assert_int_equal(api_body_limit(STR("GET"), STR("/v1/tasks"), NULL), MIB);
    assert_int_equal(api_body_limit(STR("POST"), STR("/nothing"), NULL), MIB);
}

static void refs_check(const json_t *value, const json_t *schemas)
{
    const char *key;
    json_t *item;
    size_t i;
    union {
        const json_t *in;
        json_t *plain;
    } cast = { .in = value };
    if (json_is_array(value)) {
        json_array_foreach (cast.plain, i, item)
            refs_check(item, schemas);
    } else if (json_is_object(value)) {
        json_object_foreach (cast.plain, key, item) {
            static const char prefix[] = "#/components/schemas/";
            if (strcmp(key, "$ref") == 0) {
                const char *name = json_string_value(item);
                assert_non_null(name);
                assert_memory_equal(name, prefix, sizeof prefix - 1);
                if (json_object_get(schemas, name + sizeof prefix - 1) == NULL)
                    fail_msg("no schema %s", name);
            }
            refs_check(item, schemas);
        }
    }
}

static void test_openapi(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, MIB);
    openapi_build(&out, "1.2.3");
    struct err err = { 0 };
    json_t *document = json_parse(buf_str(&out), 64, &err);
    if (document == NULL)
        fail_msg("%s", err.text);
    assert_string_equal(json_string_value(json_object_get(document, "openapi")), "3.1.0");
    const json_t *paths = json_object_get(document, "paths");
    for (size_t i = 0; i < n_routes; i++) {
        char method[10] = "";
        for (size_t k = 0; routes[i].method[k] != '\0'; k++)
            method[k] = (char)(routes[i].method[k] | 0x20);
        const json_t *operation = json_object_get(json_object_get(paths, routes[i].path), method);
        if (operation == NULL)
            fail_msg("%s %s is missing", routes[i].method, routes[i].path);
        assert_string_equal(json_string_value(json_object_get(operation, "summary")), routes[i].summary);
    }
    refs_check(document, json_object_get(json_object_get(document, "components"), "schemas"));
    json_decref(document);
    buf_release(&out);
}

/* A handler, a scope and a summary for each; nothing open but the two that must be. */
static void test_table(void **state)
{
    (void)state;
    size_t open = 0;
    for (size_t i = 0; i < n_routes; i++) {
        assert_non_null(routes[i].handler);
        assert_true(strlen(routes[i].summary) > 5);
        open += routes[i].scope == SCOPE_OPEN;
        for (size_t k = 0; k < i; k++)
            assert_false(
                strcmp(routes[i].method, routes[k].method) == 0 && strcmp(routes[i].path, routes[k].path) == 0);
    }
    assert_int_equal(open, 2);
}

static uint64_t source_of(const char *address)
{
    struct http_peer peer = { .local = false };
    snprintf(peer.address, sizeof peer.address, "%s", address);
    return auth_source(&peer);
}

/* Guesses of one address count together, whatever port they come from; of IPv6 a network of 64 bits is one. */
static void test_sources(void **state)
{
    (void)state;
    assert_true(source_of("10.0.0.1:5000") == source_of("10.0.0.1:5001"));
    assert_true(source_of("10.0.0.1:5000") != source_of("10.0.0.2:5000"));
    assert_true(source_of("[2001:db8:1:2::1]:5000") == source_of("[2001:db8:1:2:ffff::9]:1"));
    assert_true(source_of("[2001:db8:1:2::1]:5000") != source_of("[2001:db8:1:3::1]:5000"));
    assert_true(source_of("[::ffff:10.0.0.1]:5000") == source_of("10.0.0.1:9"));
    assert_true(source_of("[::ffff:10.0.0.1]:5000") != source_of("[::ffff:10.0.0.2]:5000"));
}

/* What a token is or may be is refused in an address; names that begin like one are not. */
static void test_tokens_in_addresses(void **state)
{
    (void)state;
#define FORTY "0123456789012345678901234567890123456789"
    static const char *const bad[] = { "token=x", "access_token=", "a=1&token=weir_x", "queue=weir_" FORTY "aB_",
        "x=y&z=qweir_" FORTY "aB-Q", "name=weirjob_0123456789abcdef-7-00000001" };
    static const char *const good[] = { "", "queue=weir_docs", "name=mytoken", "queue=weir_" FORTY "aB",
        "queue=weir_" FORTY ".aB", "name=weirjob_x", "name=token" };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (!url_has_token(str_of(bad[i])))
            fail_msg("taken: %s", bad[i]);
    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (url_has_token(str_of(good[i])))
            fail_msg("refused: %s", good[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_tokens_in_addresses),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_openapi),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
