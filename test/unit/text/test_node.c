/* What a schema asks of a document: typed getters, all faults in one go, suggestions. */
#include "document.h"

static void reads_values(void **state)
{
    (void)state;
    struct document d;
    document_parse(&d, "a.yaml",
        STR("s: 42\nq: 'x y'\ni: -7\nt: true\nf: FALSE\nd: 1h30m\nz: 64KiB\nl: [a, 2]\none: a\nc: shared\nm: {k: "
            "v}\nn: ~\ne:\n"));
    struct node_context context = { &d.file, &d.arena, &d.diags, NULL };
    struct node_reader reader;
    assert_true(node_read_begin(&reader, &context, d.root, "file"));
    struct str s, *list;
    int64_t n;
    uint64_t size;
    bool b;
    size_t n_list, choice;
    const struct str words[] = { STR("none"), STR("shared"), STR("exclusive") };
    assert_true(node_read_str(&reader, "s", &s));
    check_str(s, "42");
    assert_true(node_read_str(&reader, "q", &s));
    check_str(s, "x y");
    assert_true(node_read_i64(&reader, "i", -10, 10, &n));
    assert_int_equal(n, -7);
    assert_true(node_read_bool(&reader, "t", &b) && b);
    assert_true(node_read_bool(&reader, "f", &b) && !b);
    assert_true(node_read_duration(&reader, "d", &n));
    assert_int_equal(n, 5400000);
    assert_true(node_read_size(&reader, "z", &size));
    assert_int_equal(size, 65536);
    assert_true(node_read_strs(&reader, "l", &list, &n_list));
    assert_int_equal(n_list, 2);
    check_str(list[1], "2");
    assert_true(node_read_strs(&reader, "one", &list, &n_list));
    assert_int_equal(n_list, 1);
    check_str(list[0], "a");
    assert_true(node_read_choice(&reader, "c", words, 3, &choice));
    assert_int_equal(choice, 1);
    assert_non_null(node_read_mapping(&reader, "m"));
    assert_null(node_read_mapping(&reader, "n"));
    assert_false(node_read_str(&reader, "e", &s));
    assert_null(node_read_sequence(&reader, "absent"));
    node_read_end(&reader);
    assert_int_equal(d.diags.n, 0);
    check_str(node_find(d.root, STR("m"))->pairs[0].value->text, "v");
    assert_null(node_find(d.root, STR("zz")));
    assert_null(node_find(node_find(d.root, STR("s")), STR("zz")));
    document_release(&d);
}

static void tells_faults(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "1:4: 's' must be a string, not a list",
        "2:4: 'i' must be a whole number, not '1.5'",
        "3:4: 'j' must be a whole number, not '017'",
        "4:4: 'k' must be a whole number, not the text '5'",
        "5:4: 'r' must be from 0 to 9, not 10",
        "6:4: 'b' must be true or false, not 'yes' (did you mean 'true'?)",
        "7:4: 'c' must be true or false, not the text 'false' (write it without quotes)",
        "8:4: 'd' must be a duration with a unit, such as 90s, 15m, 2h or 7d, not '30' (did you mean '30s'?)",
        "9:4: 'z' must be a size with a unit, such as 64KiB, 10MiB or 1GiB, not '10' (did you mean '10B'?)",
        "10:7: 'l' must be a string, not a mapping",
        "10:11: 'l' must be a string, not nothing",
        "11:4: 'o' must be none, shared or exclusive, not 'exclusiv' (did you mean 'exclusive'?)",
        "12:4: 'm' must be a mapping, not 'x'",
        "13:4: 'q' must be a list, not a mapping",
        "14:1: unknown key 'comand' (did you mean 'command'?)",
        "15:1: unknown key '\xc3\xa4' (known here: s, i, j, k, r, b, c, d, z, l, o, m, q, command)",
    };
    struct document d;
    document_parse(&d, "a.yaml",
        STR("s: [x]\ni: 1.5\nj: 017\nk: '5'\nr: 10\nb: yes\nc: 'false'\nd: 30\nz: 10\nl: [a,{}, ~]\no: exclusiv\nm: "
            "x\nq: {}\ncomand: "
            "x\n\xc3\xa4: 1\n"));
    struct node_context context = { &d.file, &d.arena, &d.diags, NULL };
    struct node_reader reader;
    assert_true(node_read_begin(&reader, &context, d.root, "file"));
    struct str s, *list;
    int64_t n;
    uint64_t size;
    bool b;
    size_t n_list, choice;
    const struct str words[] = { STR("none"), STR("shared"), STR("exclusive") };
    assert_false(node_read_str(&reader, "s", &s));
    assert_false(node_read_i64(&reader, "i", 0, 9, &n));
    assert_false(node_read_i64(&reader, "j", 0, 9, &n));
    assert_false(node_read_i64(&reader, "k", 0, 9, &n));
    assert_false(node_read_i64(&reader, "r", 0, 9, &n));
    assert_false(node_read_bool(&reader, "b", &b));
    assert_false(node_read_bool(&reader, "c", &b));
    assert_false(node_read_duration(&reader, "d", &n));
    assert_false(node_read_size(&reader, "z", &size));
    assert_false(node_read_strs(&reader, "l", &list, &n_list));
    assert_false(node_read_choice(&reader, "o", words, 3, &choice));
    assert_null(node_read_mapping(&reader, "m"));
    assert_null(node_read_sequence(&reader, "q"));
    assert_false(node_read_str(&reader, "command", &s));
    node_read_end(&reader);
    assert_int_equal(d.diags.n, COUNT_OF(wanted));
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        check_str(fault_text(&d.arena, &d.diags, i), wanted[i]);
    assert_false(node_read_begin(&reader, &context, node_find(d.root, STR("s")), "task"));
    check_str(fault_text(&d.arena, &d.diags, COUNT_OF(wanted)), "1:4: 'task' must be a mapping, not a list");
    document_release(&d);
}

/* What a file says is cut short in sentences, and never spoils the terminal. */
static void bounds_what_it_quotes(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 20000);
    buf_add_z(&text, "? \"\\e[31m");
    for (int i = 0; i < 5000; i++)
        buf_add_z(&text, "\xc3\xa4");
    buf_add_z(&text, "\"\n: 1\n");
    struct document d;
    document_parse(&d, "a.yaml", buf_str(&text));
    struct node_context context = { &d.file, &d.arena, &d.diags, NULL };
    struct node_reader reader;
    assert_true(node_read_begin(&reader, &context, d.root, "file"));
    node_read_end(&reader);
    assert_int_equal(d.diags.n, 1);
    assert_true(d.diags.items[0].message.len < 100);
    assert_true(str_is_utf8(d.diags.items[0].message));
    assert_true(str_starts(d.diags.items[0].message, STR("unknown key '?[31m\xc3\xa4")));
    buf_release(&text);
    document_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reads_values), cmocka_unit_test(tells_faults),
        cmocka_unit_test(bounds_what_it_quotes) };
    return cmocka_run_group_tests_name("text-node", tests, NULL, NULL);
}
