/* Keys, names, variants and fences: one text for one thing, in both directions. */
#include "check.h"

#include "base/rng.h"
#include "text/key.h"

static void parses_keys(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum key_kind kind;
        const char *lane;
        int64_t rev;
        const char *name, *variant;
        int64_t run, id;
    } cases[] = {
        { "42", KEY_ID, "", 0, "", "", 0, 42 },
        { "9223372036854775807", KEY_ID, "", 0, "", "", 0, INT64_MAX },
        { "docs@7:build", KEY_TASK, "docs", 7, "build", "", 0, 0 },
        { "docs@7:build-PDF.x_1#2", KEY_TASK, "docs", 7, "build-PDF.x_1", "", 2, 0 },
        { "docs@7:test[os=a,cc=b]", KEY_TASK, "docs", 7, "test", "os=a,cc=b", 0, 0 },
        { "docs@7:test[os=a]#13", KEY_TASK, "docs", 7, "test", "os=a", 13, 0 },
        { "docs@7:test[img=a:b@c/d e]", KEY_TASK, "docs", 7, "test", "img=a:b@c/d e", 0, 0 },
        { "docs@7:test[v=\xc3\xa4]", KEY_TASK, "docs", 7, "test", "v=\xc3\xa4", 0, 0 },
        { "7@8:9", KEY_TASK, "7", 8, "9", "", 0, 0 },
        { "docs@7:COMMIT", KEY_TASK, "docs", 7, "COMMIT", "", 0, 0 },
        { "default:5", KEY_QUEUE_TASK, "default", 0, "", "", 0, 5 },
        { "docs:CS-1.2", KEY_CHANGESET, "docs", 0, "CS-1.2", "", 0, 0 },
        { "default:5a", KEY_CHANGESET, "default", 0, "5a", "", 0, 0 },
        { "docs@7", KEY_REVISION, "docs", 7, "", "", 0, 0 },
        { "docs", KEY_LANE, "docs", 0, "", "", 0, 0 },
        { "all", KEY_LANE, "all", 0, "", "", 0, 0 },
        { "4a", KEY_LANE, "4a", 0, "", "", 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct key key;
        struct err err = { 0 };
        struct str in = exact(str_of(cases[i].text));
        if (!key_parse(in, &key, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(key.kind, cases[i].kind);
        check_str(key.lane, cases[i].lane);
        assert_int_equal(key.rev, cases[i].rev);
        check_str(key.name, cases[i].name);
        check_str(key.variant, cases[i].variant);
        assert_int_equal(key.run, cases[i].run);
        assert_int_equal(key.id, cases[i].id);
        struct buf buf;
        buf_init(&buf, 2000);
        key_format(&buf, &key);
        check_str(buf_str(&buf), cases[i].text);
        buf_release(&buf);
        exact_free(in);
    }
}

static void refuses_keys(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "the key is empty" },
        { "0", "the task id must be at least 1" },
        { "007", "the task id '007' begins with a zero" },
        { "9223372036854775808", "the task id '9223372036854775808' is too large" },
        { "-1", "the archive or queue name '-1' must begin with a letter or a digit" },
        { "a b", "the archive or queue name 'a b' has a character that isn't allowed at place 2: only letters, digits, "
                 "'.', '_' and '-'" },
        { "\xc3\xa4@1", "the archive name '\xc3\xa4' must begin with a letter or a digit" },
        { "a\xc3\xa4/@1", "the archive name 'a\xc3\xa4/' has a character that isn't allowed at place 2: only letters, "
                          "digits, '.', '_' and '-'" },
        { "@1:x", "the archive name is empty" },
        { "docs@", "the revision is missing" },
        { "docs@x", "the revision 'x' isn't a number" },
        { "docs@0:x", "the revision must be at least 1" },
        { "docs@1:", "the task name is empty" },
        { "docs@1:a@b", "the task name 'a@b' has a character that isn't allowed at place 2: only letters, digits, '.', "
                        "'_' and '-'" },
        { "docs@1@2:x", "the revision '1@2' isn't a number" },
        { "docs@1:x#", "the number of the run after '#' is missing" },
        { "docs@1:x#1", "the number of the run after '#' must be at least 2" },
        { "docs@1:x#02", "the number of the run after '#' '02' begins with a zero" },
        { "docs@1:x#2#3", "the number of the run after '#' '2#3' isn't a number" },
        { "docs@1:x[", "the bracket after 'x' is never closed" },
        { "docs@1:x[]", "the brackets are empty" },
        { "docs@1:x[a]", "'a' in the brackets isn't NAME=VALUE" },
        { "docs@1:x[a=]", "'a' in the brackets has no value" },
        { "docs@1:x[a=b,]", "'' in the brackets isn't NAME=VALUE" },
        { "docs@1:x[a=b,,c=d]", "'' in the brackets isn't NAME=VALUE" },
        { "docs@1:x[a=b,a=c]", "'a' stands twice in the brackets" },
        { "docs@1:x[=b]", "the variant name is empty" },
        { "docs@1:x[a=b=c]", "the value of 'a' in the brackets has a character that isn't allowed" },
        { "docs@1:x[a=b\n]", "the value of 'a' in the brackets has a character that isn't allowed" },
        { "docs@1:x[a=\xff]", "the text in the brackets isn't UTF-8" },
        { "docs@1:x[a=b]y", "'y' after the bracket isn't understood" },
        { "q:", "the task id after ':' is missing" },
        { "q:x_y", "the task id after ':' 'x_y' isn't a number" },
        { ":CS1", "the target name is empty" },
        { ":5", "the queue name is empty" },
        { "q:5:6", "the task id after ':' '5:6' isn't a number" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct key key = { .id = 77 };
        struct err err = { 0 };
        struct str in = exact(str_of(cases[i][0]));
        assert_false(key_parse(in, &key, &err));
        exact_free(in);
        check_str(str_of(err.text), cases[i][1]);
        assert_int_equal(err.code, ERR_invalid);
        assert_int_equal(key.id, 77); /* written only on success */
    }
}

static void limits_lengths(void **state)
{
    (void)state;
    char text[KEY_BYTES_MAX + 2];
    memset(text, 'a', sizeof text);
    struct key key;
    struct err err = { 0 };
    assert_true(key_parse((struct str){ text, 100 }, &key, &err));
    assert_false(key_parse((struct str){ text, 101 }, &key, &err));
    check_str(str_of(err.text),
        "the archive or queue name 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' is longer than 100 characters");
    assert_false(key_parse((struct str){ text, sizeof text }, &key, &err));
    check_str(str_of(err.text), "the key is longer than 1500 bytes");
    memcpy(text, "a@1:b[k=", 8);
    text[8 + VARIANT_BYTES_MAX - 2] = ']';
    assert_true(key_parse((struct str){ text, 8 + VARIANT_BYTES_MAX - 1 }, &key, &err));
    text[8 + VARIANT_BYTES_MAX - 2] = 'a';
    text[8 + VARIANT_BYTES_MAX - 1] = ']';
    assert_false(key_parse((struct str){ text, 8 + VARIANT_BYTES_MAX }, &key, &err));
}

/* Random texts from the alphabet of keys: what is accepted formats back to the same bytes. */
static void round_trips(void **state)
{
    (void)state;
    static const char alphabet[] = "ab1029@:[]=,#.-_";
    struct rng rng;
    rng_seed(&rng, 11);
    size_t accepted = 0;
    for (int round = 0; round < 200000; round++) {
        char text[14];
        size_t len = rng_below(&rng, sizeof text + 1);
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[rng_below(&rng, sizeof alphabet - 1)];
        struct key key;
        struct err err = { 0 };
        if (!key_parse((struct str){ text, len }, &key, &err))
            continue;
        accepted++;
        struct buf buf;
        buf_init(&buf, 2000);
        key_format(&buf, &key);
        check_str_at(buf_str(&buf), (struct str){ text, len }, __FILE__, __LINE__);
        buf_release(&buf);
    }
    assert_true(accepted > 1000);
}

static void knows_reserved_names(void **state)
{
    (void)state;
    static const char *const reserved[] = { "all", "PREV", "WORKFLOW", "COMMIT", "0", "123" };
    static const char *const free_names[] = { "All", "prev", "commit", "1a", "workflow", "allx" };
    struct err err = { 0 };
    for (size_t i = 0; i < COUNT_OF(reserved); i++) {
        assert_true(name_is_reserved(str_of(reserved[i])));
        assert_true(name_check(str_of(reserved[i]), "archive", &err));
        assert_false(name_check_new(str_of(reserved[i]), "archive", &err));
    }
    check_str(str_of(err.text), "the archive name '123' consists of digits only, as ids do");
    assert_false(name_check_new(STR("PREV"), "task", &err));
    check_str(str_of(err.text), "the task name 'PREV' is a reserved word");
    for (size_t i = 0; i < COUNT_OF(free_names); i++) {
        assert_false(name_is_reserved(str_of(free_names[i])));
        assert_true(name_check_new(str_of(free_names[i]), "archive", &err));
    }
    assert_false(name_is_reserved(STR("")));
    assert_false(name_is_valid(STR("")));
}

static void parses_fences(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct fence fence;
    } good[] = {
        { "0000000000000000-1-00000001", { 0, 1, 1 } },
        { "ffffffffffffffff-9223372036854775807-9223372036854775807", { UINT64_MAX, INT64_MAX, INT64_MAX } },
        { "0123456789abcdef-42-00000003", { 0x0123456789abcdef, 42, 3 } },
        { "0123456789abcdef-42-99999999", { 0x0123456789abcdef, 42, 99999999 } },
        { "0123456789abcdef-42-100000000", { 0x0123456789abcdef, 42, 100000000 } },
    };
    static const char *const bad[] = {
        "",
        "x",
        "0123456789abcdef",
        "0123456789abcdef-",
        "0123456789abcdef-42",
        "0123456789abcdef-42-",
        "0123456789abcdef-42-3",
        "0123456789ABCDEF-42-00000003",
        "0123456789abcdeg-42-00000003",
        "123456789abcdef-42-00000003",
        "0123456789abcdef-042-00000003",
        "0123456789abcdef-0-00000003",
        "0123456789abcdef-42-00000000",
        "0123456789abcdef-42-000000003",
        "0123456789abcdef--1-00000003",
        "0123456789abcdef-42-00000003 ",
        " 0123456789abcdef-42-00000003",
        "0123456789abcdef-42-+0000003",
        "0123456789abcdef-9223372036854775808-00000003",
        "0123456789abcdef_42-00000003",
        "0123456789abcdef-42-00000003-1",
    };
    struct fence fence = { 0 };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct str in = exact(str_of(good[i].text));
        assert_true(fence_parse(in, &fence));
        assert_true(fence.incarnation == good[i].fence.incarnation);
        assert_int_equal(fence.task, good[i].fence.task);
        assert_int_equal(fence.grant, good[i].fence.grant);
        struct fence_text text = fence_format(fence);
        check_str(in, text.z);
        for (size_t len = 0; len < in.len; len++) { /* cut anywhere: refused, unless it is a shorter grant */
            struct str part = exact(str_sub(in, 0, len));
            struct fence cut;
            if (fence_parse(part, &cut))
                assert_true(cut.grant > 0 && part.len > 20);
            exact_free(part);
        }
        exact_free(in);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct str in = exact(str_of(bad[i]));
        if (fence_parse(in, &fence))
            fail_msg("accepted: %s", bad[i]);
        exact_free(in);
    }
    struct fence_text early = fence_format((struct fence){ 5, 7, 9 }), late = fence_format((struct fence){ 5, 7, 10 });
    assert_true(strcmp(early.z, late.z) < 0); /* it sorts */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_keys),
        cmocka_unit_test(refuses_keys),
        cmocka_unit_test(limits_lengths),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(knows_reserved_names),
        cmocka_unit_test(parses_fences),
    };
    return cmocka_run_group_tests_name("text-key", tests, NULL, NULL);
}
