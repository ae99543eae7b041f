/* Diagnostics as people and programs see them. */
#include "check.h"

#include "text/diag.h"

struct fixture {
    struct arena arena;
    struct diags diags;
    struct buf out;
};

static void fixture_init(struct fixture *fixture)
{
    *fixture = (struct fixture){ 0 };
    fixture->diags.arena = &fixture->arena;
    buf_init(&fixture->out, 1 << 20);
}

static void fixture_release(struct fixture *fixture)
{
    buf_release(&fixture->out);
    arena_release(&fixture->arena);
}

static const struct diag_file file = { { "a.yaml", 6 },
    { "tasks:\n  - name: x\n\tcomand: \xc3\xa4\xc3\xb6 y\r\nlast", 40 } };

static void shows_source_and_caret(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    static const struct diag_file option = { { "--lease", 7 }, { "", 0 } };
    const struct str keys[] = { STR("command"), STR("name") };
    diag_error(&f.diags, (struct diag_place){ &file, 3, 13 }, "what is '%s'?", "y");
    diag_error(&f.diags, (struct diag_place){ &file, 3, 2 }, "unknown key 'comand'");
    diag_suggest_closest(&f.diags, STR("comand"), keys, 2);
    diag_warning(&f.diags, (struct diag_place){ &file, 1, 1 }, "odd");
    diag_suggest(&f.diags, "leave it out");
    diag_error(&f.diags, (struct diag_place){ &option, 0, 0 }, "no unit");
    diag_error(&f.diags, (struct diag_place){ &file, 4, 5 }, "ends here");
    diag_error(&f.diags, (struct diag_place){ &file, 9, 1 }, "no such line");
    assert_int_equal(f.diags.n_errors, 5);
    diags_sort(&f.diags);
    diags_text(&f.out, &f.diags);
    check_str(buf_str(&f.out), "--lease: error: no unit\n"
                               "a.yaml:1:1: warning: odd\n"
                               "    tasks:\n"
                               "    ^\n"
                               "    leave it out\n"
                               "a.yaml:3:2: error: unknown key 'comand'\n"
                               "    \tcomand: \xc3\xa4\xc3\xb6 y\n"
                               "    \t^\n"
                               "    did you mean 'command'?\n"
                               "a.yaml:3:13: error: what is 'y'?\n"
                               "    \tcomand: \xc3\xa4\xc3\xb6 y\n"
                               "    \t           ^\n"
                               "a.yaml:4:5: error: ends here\n"
                               "    last\n"
                               "        ^\n"
                               "a.yaml:9:1: error: no such line\n");
    fixture_release(&f);
}

static void speaks_json(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    diags_json(&f.out, &f.diags);
    check_str(buf_str(&f.out), "[]");
    buf_reset(&f.out);
    diag_error(&f.diags, (struct diag_place){ &file, 3, 2 }, "a \"b\"");
    diag_suggest(&f.diags, "c");
    diag_warning(&f.diags, (struct diag_place){ &file, 1, 1 }, "d\x1b");
    diags_json(&f.out, &f.diags);
    check_str(buf_str(&f.out),
        "[{\"file\":\"a.yaml\",\"line\":3,\"column\":2,\"severity\":\"error\",\"message\":\"a "
        "\\\"b\\\"\",\"suggestion\":\"c\"},"
        "{\"file\":\"a.yaml\",\"line\":1,\"column\":1,\"severity\":\"warning\",\"message\":\"d?\"}]");
    struct err err = { .arena = &f.arena };
    assert_false(diags_to_err(&f.diags, &err));
    assert_int_equal(err.code, ERR_invalid);
    assert_int_equal(err.n_items, 1);
    check_str(err.items[0].file, "a.yaml");
    assert_int_equal(err.items[0].line, 3);
    assert_int_equal(err.items[0].column, 2);
    check_str(err.items[0].suggestion, "c");
    struct diags none = { 0 };
    assert_true(diags_to_err(&none, &err));
    fixture_release(&f);
}

static void shows_a_part_of_long_lines(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    char text[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('0' + i % 10);
    text[500] = '!';
    text[510] = '\x1b';
    struct diag_file wide = { STR("w"), { text, sizeof text } };
    diag_error(&f.diags, (struct diag_place){ &wide, 1, 501 }, "here");
    diags_text(&f.out, &f.diags);
    struct str rest = buf_str(&f.out), head = { 0 }, source = { 0 }, caret = { 0 };
    assert_true(str_cut(&rest, '\n', &head) && str_cut(&rest, '\n', &source) && str_cut(&rest, '\n', &caret));
    assert_true(source.len < 140);
    assert_int_equal(source.ptr[str_index(caret, '^')], '!');
    assert_true(str_index(source, '\x1b') < 0);
    fixture_release(&f);
}

static void keeps_a_hundred(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    for (unsigned i = 0; i < 250; i++) {
        diag_error(&f.diags, (struct diag_place){ &file, 1, i + 1 }, "no %u", i);
        diag_suggest(&f.diags, "s%u", i);
    }
    assert_int_equal(f.diags.n, DIAG_MAX);
    assert_int_equal(f.diags.n_errors, 250);
    check_str(f.diags.items[99].suggestion, "s99");
    diags_text(&f.out, &f.diags);
    assert_true(str_ends(buf_str(&f.out), STR("\n150 more not shown\n")));
    fixture_release(&f);
}

static void finds_places(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        unsigned line, column;
    } cases[] = {
        { 0, 1, 1 },
        { 6, 1, 7 },
        { 7, 2, 1 },
        { 19, 3, 1 },
        { 28, 3, 10 },
        { 30, 3, 11 },
        { 32, 3, 12 },
        { 37, 4, 2 },
        { 1000, 4, 5 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct diag_place place = diag_place_at(&file, cases[i].offset);
        assert_int_equal(place.line, cases[i].line);
        assert_int_equal(place.column, cases[i].column);
    }
    check_str(diag_shown(STR("short")), "short");
    char text[100];
    memset(text, 'a', sizeof text);
    text[59] = (char)0xc3;
    text[60] = (char)0xa4;
    assert_int_equal(diag_shown((struct str){ text, sizeof text }).len, 59);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_source_and_caret),
        cmocka_unit_test(speaks_json),
        cmocka_unit_test(shows_a_part_of_long_lines),
        cmocka_unit_test(keeps_a_hundred),
        cmocka_unit_test(finds_places),
    };
    return cmocka_run_group_tests_name("text-diag", tests, NULL, NULL);
}
