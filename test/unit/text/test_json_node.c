/* Strict JSON files: the same nodes and limits as YAML, with places. */
#include "document.h"
#include "text/json_node.h"

static void reads(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "1", "1" },
        { " [ ] ", "[]" },
        { "{}", "{}" },
        { "\t{\"a\":[1,-2.5e+3,0,0.5,true,false,null],\r\n\"b\":{\"\":\"\"}}\n",
            "{\"a\":[1,-2.5e+3,0,0.5,true,false,null],\"b\":{\"\":\"\"}}" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20AC\\ud83d\\ude00\x7f\"",
            "\"\\\"\\\\/\\b\\f\\n\\r\\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"" },
        { "[\"null\",\"true\",\"1\"]", "[\"null\",\"true\",\"1\"]" },
        { "99999999999999999999999999", "99999999999999999999999999" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        check_tree("a.json", str_of(cases[i][0]), cases[i][1]);
}

static void refuses(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "1:1: a value expected, not the end of the file" },
        { " \n ", "2:2: a value expected, not the end of the file" },
        { "[1,]", "1:4: a value expected, not ']' (JSON has no comma after the last item)" },
        { "{\"a\":1,}", "1:8: a key in double quotes expected, not '}' (JSON has no comma after the last item)" },
        { "{a:1}", "1:2: a key in double quotes expected, not 'a'" },
        { "{'a':1}", "1:2: a key in double quotes expected, not ''' (JSON strings have double quotes)" },
        { "['a']", "1:2: a value expected, not ''' (JSON strings have double quotes)" },
        { "{\"a\" 1}", "1:6: ':' expected, not '1'" },
        { "{\"a\":1 \"b\"}", "1:8: ',' or '}' expected, not '\"'" },
        { "[1\n 2]", "2:2: ',' or ']' expected, not '2'" },
        { "[1", "1:3: ',' or ']' expected, not the end of the file" },
        { "[1] 2", "1:5: the end of the file expected, not '2'" },
        { "// x\n1", "1:1: a value expected, not '/' (JSON has no comments)" },
        { "[01]", "1:2: a value expected, not '0'" },
        { "[1.]", "1:2: a value expected, not '1'" },
        { "[.5]", "1:2: a value expected, not '.'" },
        { "[+1]", "1:2: a value expected, not '+'" },
        { "[1e]", "1:2: a value expected, not '1'" },
        { "[-]", "1:2: a value expected, not '-'" },
        { "[0x1]", "1:2: a value expected, not '0'" },
        { "[truex]", "1:2: a value expected, not 't'" },
        { "[NaN]", "1:2: a value expected, not 'N'" },
        { "[\xc3\xa4]", "1:2: a value expected, not '\xc3\xa4'" },
        { "\"abc", "1:1: the string is never closed" },
        { "\"abc\\\"", "1:1: the string is never closed" },
        { "\"abc\\", "1:1: the string is never closed" },
        { "\"\xc3\xa4\n\"", "1:3: the control character U+000A must be written as an escape" },
        { "\"\\x41\"", "1:2: the escape isn't one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX" },
        { "\"\\u12g4\"", "1:2: four hex digits must follow \\u" },
        { "\"a\\ud800\"", "1:3: \\ud800 is half of a surrogate pair" },
        { "\"a\\ud800\\u0041\"", "1:3: \\ud800 is half of a surrogate pair" },
        { "\"\\udc00\"", "1:2: \\udc00 is half of a surrogate pair" },
        { "\"\\u0000\"", "1:2: the text contains a NUL character" },
        { "{\"a\":1,\n\"\\u0061\":2}", "2:1: the key 'a' stands here a second time; the first is in line 1" },
        { "\xef\xbb\xbf{}", "1:1: the file begins with a byte order mark; write it as plain UTF-8" },
        { "[\"\xc3\xa4\", \"\xff\"]", "1:8: byte 0xff isn't UTF-8" },
        { "tasks:\n  - a", "1:1: a value expected, not 't'" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        check_fault("a.json", str_of(cases[i][0]), cases[i][1]);
}

static void keeps_places(void **state)
{
    (void)state;
    struct document document;
    document_parse(&document, "a.json", STR("{\"\xc3\xa4\": [\"\xc3\xb6\", 1,\r\n  true],\n \"k\": {}}"));
    const struct doc_node *root = document.root, *list = root->pairs[0].value;
    static const struct {
        unsigned line, column;
        bool plain;
    } wanted[] = {
        { 1, 1, false },
        { 1, 2, false },
        { 1, 7, false },
        { 1, 8, false },
        { 1, 13, true },
        { 2, 3, true },
        { 3, 2, false },
        { 3, 7, false },
    };
    const struct doc_node *nodes[] = { root, root->pairs[0].key, list, list->items[0], list->items[1], list->items[2],
        root->pairs[1].key, root->pairs[1].value };
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_int_equal(nodes[i]->line, wanted[i].line);
        assert_int_equal(nodes[i]->column, wanted[i].column);
        assert_int_equal(nodes[i]->plain, wanted[i].plain);
    }
    document_release(&document);
}

static void has_limits(void **state)
{
    (void)state;
    static const struct {
        const char *open, *item, *close;
        size_t n_open, n_items;
        const char *fault;
    } cases[] = {
        { "[", "", "]", 64, 0, NULL },
        { "[", "", "]", 65, 0, "nested more than 64 levels deep" },
        { "[", "", "", 100000, 0, "nested more than 64 levels deep" },
        { "{\"a\":", "", "", 100000, 0, "nested more than 64 levels deep" },
        { "[", "1,", "1]", 1, 99998, NULL },
        { "[", "1,", "1]", 1, 99999, "the file has more than 100000 nodes" },
        { "[", "          ", "1]", 1, 104857, NULL },
        { "[", "           ", "1]", 1, 95325, "the file has 1048578 bytes; at most 1048576 are taken" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf buf;
        buf_init(&buf, (size_t)1 << 22);
        for (size_t k = 0; k < cases[i].n_open; k++)
            buf_add_z(&buf, cases[i].open);
        for (size_t k = 0; k < cases[i].n_items; k++)
            buf_add_z(&buf, cases[i].item);
        for (size_t k = 0; k < cases[i].n_open; k++)
            buf_add_z(&buf, cases[i].close);
        struct document document;
        document_parse(&document, "a.json", buf_str(&buf));
        assert_int_equal(document.root == NULL, cases[i].fault != NULL);
        if (cases[i].fault != NULL)
            check_str(document.diags.items[0].message, cases[i].fault);
        document_release(&document);
        buf_release(&buf);
    }
}

static void survives_truncation(void **state)
{
    (void)state;
    check_cuts("a.json",
        STR("{\"tasks\": [{\"name\": \"b\\u00e4\\ud83d\\ude00\\n\", \"n\": -1.5e-3, \"t\": [true, false, null]}, {}], "
            "\"\xc3\xa4\": \"\xf0\x9f\x98\x80\"}\n"));
}

/* Bodies of requests: as jansson takes them; nodes say where they stand. */
static void reads_bodies(void **state)
{
    (void)state;
    static const char *const refused[] = { "", "{", "[1] 2", "{\"a\":1,\"a\":2}", "{\"d\":{\"x\":1,\"\\u0078\":2}}",
        "{\"d\":[1,]}", "9223372036854775808", "-9223372036854775809", "1e999", "{\"a\\u0000\":1}", "{\"d\":1e309}",
        "\"\xff\"", "{\"d\":[\"\\ud800\"]}" };
    static const char *const taken[] = { "9223372036854775807", "-9223372036854775808", "1e308", "\"\\u0000\"",
        "{\"d\":{\"\":[]}}" };
    struct arena arena = { 0 };
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (json_node_body(str_of(refused[i]), STR("d"), &arena) != NULL)
            fail_msg("taken: %s", refused[i]);
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        if (json_node_body(str_of(taken[i]), STR("d"), &arena) == NULL)
            fail_msg("refused: %s", taken[i]);
    struct str text = STR(" {\"a/b\" : [ 1, {\"c~\":\"x\\ny\"} ], \"d\": { \"e\": [2] }, \"f\": {\"d\": [3]} }");
    const struct doc_node *root = json_node_body(text, STR("d"), &arena);
    const struct doc_node *kept = node_find(root, STR("d")), *list = node_find(root, STR("a/b"));
    assert_int_equal(kept->kind, NODE_MAPPING);
    assert_int_equal(kept->n, 0);
    check_str(kept->raw, "{ \"e\": [2] }");
    check_str(node_find(node_find(root, STR("f")), STR("d"))->raw, "[3]");
    check_str(node_find(list->items[1], STR("c~"))->text, "x\ny");
    check_str(node_pointer(&arena, root, list->items[1]->pairs[0].value->raw.ptr), "/a~1b/1/c~0");
    check_str(node_pointer(&arena, root, list->items[1]->pairs[0].key->raw.ptr), "/a~1b/1/c~0");
    check_str(node_pointer(&arena, root, list->raw.ptr), "/a~1b");
    check_str(node_pointer(&arena, root, kept->raw.ptr + 5), "/d");
    check_str(node_pointer(&arena, root, text.ptr), "");
    arena_release(&arena);
}

/* Many keys: beyond those that are compared one by one. */
static void bodies_have_no_key_twice(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    for (int twice = -1; twice < 40; twice++) {
        struct buf text;
        buf_init(&text, 4000);
        buf_add_z(&text, "{\"d\":{");
        for (int i = 0; i < 40; i++)
            buf_addf(&text, "\"k%d\":%d,", i, i);
        buf_addf(&text, "\"k%d\":0}}", twice < 0 ? 40 : twice);
        const struct doc_node *in_text = json_node_body(buf_str(&text), STR("d"), &arena);
        const struct doc_node *in_nodes = json_node_body(buf_str(&text), (struct str){ 0 }, &arena);
        assert_true((in_text != NULL) == (twice < 0) && (in_nodes != NULL) == (twice < 0));
        buf_release(&text);
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(reads_bodies),
        cmocka_unit_test(bodies_have_no_key_twice),
        cmocka_unit_test(refuses),
        cmocka_unit_test(keeps_places),
        cmocka_unit_test(has_limits),
        cmocka_unit_test(survives_truncation),
    };
    return cmocka_run_group_tests_name("text-json_node", tests, NULL, NULL);
}
