/* YAML files: what is taken, what is refused, and where. */
#include "document.h"

static void composes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "null" },
        { "# only a comment\n", "null" },
        { "---\n...\n", "null" },
        { "a: 1\nb: [x, 'y', \"z\"]\nc: {d: e}\n", "{\"a\":1,\"b\":[\"x\",\"y\",\"z\"],\"c\":{\"d\":\"e\"}}" },
        { "%YAML 1.2\n---\na\n", "\"a\"" },
        { "no: no\non: off\noct: 017\nsexagesimal: 1:30\nt: true\nf: False\nn: ~\ne:\nq: 'null'\n",
            "{\"no\":\"no\",\"on\":\"off\",\"oct\":\"017\",\"sexagesimal\":\"1:30\",\"t\":true,\"f\":false,\"n\":null,"
            "\"e\":null,\"q\":"
            "\"null\"}" },
        { "s: |\n  a\n   b\nf: >\n  c\n  d\n", "{\"s\":\"a\\n b\\n\",\"f\":\"c d\\n\"}" },
        { "- &x {a: 1}\n- *x\n- [*x]\n", "[{\"a\":1},{\"a\":1},[{\"a\":1}]]" },
        { "{\"json\": [1, -2.5e3, true, null, \"\\u00e4\"]}", "{\"json\":[1,-2.5e3,true,null,\"\xc3\xa4\"]}" },
        { "a: \"x\\ty\\x1b\"\r\nb: 2\r\n", "{\"a\":\"x\\ty\\u001b\",\"b\":2}" },
        { "n: [0x10, 1e, +1, 1_000, .5, 5., -0, 00]",
            "{\"n\":[\"0x10\",\"1e\",\"+1\",\"1_000\",\".5\",\"5.\",-0,\"00\"]}" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        check_tree("a.yaml", str_of(cases[i][0]), cases[i][1]);
}

static void refuses(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "a: 1\nb: 2\na: 3\n", "3:1: the key 'a' stands here a second time; the first is in line 1" },
        { "a: 1\n'a': 3\n", "2:1: the key 'a' stands here a second time; the first is in line 1" },
        { "x: {k: 1,\n    k: 2}", "2:5: the key 'k' stands here a second time; the first is in line 1" },
        { "a: !!str 1", "1:4: tags such as 'tag:yaml.org,2002:str' aren't taken" },
        { "a: !mine {}", "1:4: tags such as '!mine' aren't taken" },
        { "- ! x", "1:3: tags such as '!' aren't taken" },
        { "%TAG ! tag:x,1:\n---\na", "1:1: %TAG directives aren't taken" },
        { "a: 1\n---\nb: 2\n", "2:1: a second document begins here; a file holds only one" },
        { "a: 1\n...\n---\n", "3:1: a second document begins here; a file holds only one" },
        { "\xef\xbb\xbf"
          "a: 1",
            "1:1: the file begins with a byte order mark; write it as plain UTF-8" },
        { "a: 1\n\xc3\xa4: \xff", "2:4: byte 0xff isn't UTF-8" },
        { "a: \xed\xa0\x80", "1:4: byte 0xed isn't UTF-8" },
        { "a: \x07", "1:4: the character U+0007 must be written as an escape in quotes" },
        { "a: \xc2\x85", "1:4: the character U+0085 must be written as an escape in quotes" },
        { "a: \xe2\x80\xa8x", "1:4: the character U+2028 must be written as an escape in quotes" },
        { "a: b\rc: d", "1:5: a carriage return without a newline isn't allowed" },
        { "a: \"\\0\"", "1:4: the text contains a NUL character" },
        { "? [a]\n: b", "1:3: a key must be a plain word or a string, not a list" },
        { "? {a: b}\n: b", "1:3: a key must be a plain word or a string, not a mapping" },
        { "a: &x k\n*x : b", "1:4: a key must be a plain word or a string, not an alias" },
        { "?\n: b", "1:2: the key is missing" },
        { "a: &x {b: c}\nd:\n  <<: *x\n", "3:3: merge keys ('<<') aren't taken; write the keys out" },
        { "a: *x", "1:4: the alias '*x' has no anchor before it" },
        { "a: &x [*x]", "1:8: the alias '*x' stands inside what it names" },
        { "a: &x 1\nb: &x 2", "2:4: the anchor '&x' is defined twice" },
        { "a: [1, 2", "2:1: did not find expected ',' or ']' while parsing a flow sequence that begins in line 1" },
        { "a:\n\tb: 1", "2:1: found character that cannot start any token while scanning for the next token (indent "
                        "with blanks: a tab "
                        "isn't allowed there)" },
        { "a: @b", "1:4: found character that cannot start any token while scanning for the next token (a value that "
                   "begins with '@' needs "
                   "quotes)" },
        { "a: [*.c]", "1:6: did not find expected alphabetic or numeric character while scanning an alias (a value "
                      "that begins with '*' or "
                      "'&' needs quotes)" },
        { "a: 'b", "1:6: found unexpected end of stream while scanning a quoted scalar" },
        { "a: b: c", "1:5: mapping values are not allowed in this context" },
        { "a: b\n c: d\n", "2:3: mapping values are not allowed in this context" },
        { "a:\n  - b\n c: d", "3:2: did not find expected key while parsing a block mapping that begins in line 1" },
        { "\xc3\xa4\xc3\xb6: \xc3\xbc: x", "1:6: mapping values are not allowed in this context" },
        { "%YAML 1.3\n---\na", "1:1: found incompatible YAML document" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        check_fault("a.yaml", str_of(cases[i][0]), cases[i][1]);
}

static void tells_several_faults(void **state)
{
    (void)state;
    struct document document;
    document_parse(&document, "a.yml", STR("a: 1\na: 2\nb: {c: 1, c: 2}\nd: [\n"));
    assert_int_equal(document.diags.n, 3);
    check_str(fault_text(&document.arena, &document.diags, 1),
        "3:11: the key 'c' stands here a second time; the first is in line 3");
    assert_int_equal(document.diags.items[2].place.line, 5);
    document_release(&document);
}

static void keeps_places(void **state)
{
    (void)state;
    struct document document;
    document_parse(&document, "a.yaml", STR("\xc3\xa4: [x,\n  '\xc3\xb6', y]\nk:\n  - z: \"q\"\n"));
    const struct doc_node *root = document.root, *list = root->pairs[0].value, *z = root->pairs[1].value->items[0];
    static const struct {
        unsigned line, column;
    } wanted[] = { { 1, 1 }, { 1, 4 }, { 1, 5 }, { 2, 3 }, { 2, 8 }, { 4, 5 }, { 4, 8 } };
    const struct doc_node *nodes[] = { root, list, list->items[0], list->items[1], list->items[2], z->pairs[0].key,
        z->pairs[0].value };
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_int_equal(nodes[i]->line, wanted[i].line);
        assert_int_equal(nodes[i]->column, wanted[i].column);
    }
    assert_true(list->items[0]->plain);
    assert_false(list->items[1]->plain);
    assert_false(z->pairs[0].value->plain);
    document_release(&document);
}

/* repeated: n times text in the middle of before and after. */
static struct str repeated(struct arena *arena, const char *before, const char *text, size_t n, const char *after)
{
    struct buf buf;
    buf_init(&buf, (size_t)1 << 26);
    buf_add_z(&buf, before);
    for (size_t i = 0; i < n; i++)
        buf_add_z(&buf, text);
    buf_add_z(&buf, after);
    struct str out = str_dup(arena, buf_str(&buf));
    buf_release(&buf);
    return out;
}

static void check_limit(struct str text, const char *wanted_fault)
{
    struct document document;
    document_parse(&document, "a.yaml", text);
    if (wanted_fault == NULL) {
        if (document.root == NULL)
            fail_msg("refused: %.*s", STR_ARG(document.diags.items[0].message));
    } else {
        assert_null(document.root);
        assert_int_equal(document.diags.n, 1);
        check_str(document.diags.items[0].message, wanted_fault);
    }
    document_release(&document);
}

static void has_limits(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    static const char deep[] = "nested more than 64 levels deep";
    check_limit(repeated(&arena, "", "[", 64, repeated(&arena, "", "]", 64, "").ptr), NULL);
    check_limit(repeated(&arena, "", "[", 65, repeated(&arena, "", "]", 65, "").ptr), deep);
    check_limit(repeated(&arena, "", "[", 100000, ""), deep);
    check_limit(repeated(&arena, "", "{", 100000, ""), deep);
    check_limit(repeated(&arena, "", "{a: ", 100000, ""), deep);
    check_limit(repeated(&arena, "", "- ", 100000, ""), deep);
    check_limit(repeated(&arena, "a:\n", "- x\n", 99997, ""), NULL);
    check_limit(repeated(&arena, "a:\n", "- x\n", 99998, ""), "the file has more than 100000 nodes");
    check_limit(repeated(&arena, "#", "x", ((size_t)1 << 20) - 1, ""), NULL);
    check_limit(
        repeated(&arena, "#", "x", (size_t)1 << 20, ""), "the file has 1048577 bytes; at most 1048576 are taken");
    arena_release(&arena);
}

static void defuses_alias_bombs(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    static const char large[] = "aliases write the file out to more than 10 times its size";
    check_limit(repeated(&arena, "a: &a x\nc: [1, 2, 3]\nb: [", "*a,", 64, "]"), NULL);
    check_limit(repeated(&arena, "a: &a x\nb: [", "*a,", 65, "]"), "the file has more than 64 aliases");
    check_limit(
        STR("a: &a [l,l,l,l,l,l,l,l,l]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: "
            "[*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"),
        large);
    /* 12 nodes are written, each alias stands for 8 */
    check_limit(repeated(&arena, "{a: &a [l,l,l,l,l,l,l],b: [", "*a,", 14, "]}"), large);
    check_limit(repeated(&arena, "{a: &a [l,l,l,l,l,l,l],b: [", "*a,", 13, "]}"), NULL);
    /* eight levels more with each line, always within ten times the size */
    char text[4000] = "x0: &x0 [[[[[[[[a]]]]]]]]\n";
    struct buf buf;
    buf_init(&buf, sizeof text);
    buf_add_z(&buf, text);
    for (int i = 1; i < 9; i++)
        buf_addf(&buf, "x%d: &x%d [[[[[[[[*x%d]]]]]]]]\n", i, i, i - 1);
    check_limit(buf_str(&buf), "with the alias '*x6' the file is nested more than 64 levels deep");
    buf_release(&buf);
    arena_release(&arena);
}

static void finds_duplicates_among_many(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, (size_t)1 << 20);
    for (int i = 0; i < 20000; i++)
        buf_addf(&buf, "k%d: v\n", i);
    buf_add_z(&buf, "k19000: w\nk3: w\nk16: w\nk17: w\n");
    struct document document;
    document_parse(&document, "a.yaml", buf_str(&buf));
    assert_int_equal(document.diags.n, 4);
    check_str(fault_text(&document.arena, &document.diags, 0),
        "20001:1: the key 'k19000' stands here a second time; the first is in line 19001");
    check_str(fault_text(&document.arena, &document.diags, 3),
        "20004:1: the key 'k17' stands here a second time; the first is in line 18");
    document_release(&document);
    buf_release(&buf);
}

static void survives_truncation(void **state)
{
    (void)state;
    check_cuts("a.yaml", STR("%YAML 1.2\n---\non: [commit, {message: \"x\\u00e4\\n\"}]\ndefaults: &d {shell: bash, "
                             "timeout: 1h}\ntasks:\n  - name: 'b''c'\n"
                             "    script: |-\n      echo \"$X\"\n\n      \xc3\xa4\n    env: *d\n    ? k\n    : >+\n    "
                             "  folded\n      text\n\n  # "
                             "end\n...\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composes),
        cmocka_unit_test(refuses),
        cmocka_unit_test(tells_several_faults),
        cmocka_unit_test(keeps_places),
        cmocka_unit_test(has_limits),
        cmocka_unit_test(defuses_alias_bombs),
        cmocka_unit_test(finds_duplicates_among_many),
        cmocka_unit_test(survives_truncation),
    };
    return cmocka_run_group_tests_name("text-yaml", tests, NULL, NULL);
}
