/* Splitting commands by shell rules, and quoting for display. */
#include "check.h"

#include "base/rng.h"
#include "text/words.h"

static void splits(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n;
        const char *words[8];
    } cases[] = {
        { "make pdf", 2, { "make", "pdf" } },
        { "  make\t\tpdf \n", 2, { "make", "pdf" } },
        { "echo 'a b' \"c d\"", 3, { "echo", "a b", "c d" } },
        { "a'b'\"c\"d", 1, { "abcd" } },
        { "''", 1, { "" } },
        { "a '' \"\" b", 4, { "a", "", "", "b" } },
        { "a\\ b", 1, { "a b" } },
        { "\\'x \\\"y \\\\", 3, { "'x", "\"y", "\\" } },
        { "'a\\b'", 1, { "a\\b" } },
        { "\"a\\b \\\" \\\\ \\$ \\` \\'\"", 1, { "a\\b \" \\ $ ` \\'" } },
        { "a\\\nb c", 2, { "ab", "c" } },
        { "a \\\n b", 2, { "a", "b" } },
        { "\"a\\\nb\"", 1, { "ab" } },
        { "'a\nb'", 1, { "a\nb" } },
        { "echo $HOME *.c ~ `x` $(y) # z", 8, { "echo", "$HOME", "*.c", "~", "`x`", "$(y)", "#", "z" } },
        { "a;b|c>d&", 1, { "a;b|c>d&" } },
        { "\xc3\xa4 '\xc3\xb6'", 2, { "\xc3\xa4", "\xc3\xb6" } },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        struct words words;
        struct str in = exact(str_of(cases[i].in));
        if (!words_split(in, &arena, &words, &err))
            fail_msg("%s: %s", cases[i].in, err.text);
        assert_int_equal(words.n, cases[i].n);
        for (size_t k = 0; k < cases[i].n; k++) {
            check_str(words.items[k], cases[i].words[k]);
            assert_int_equal(words.items[k].ptr[words.items[k].len], 0);
        }
        exact_free(in);
        arena_release(&arena);
    }
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t len, column;
        const char *text;
    } cases[] = {
        { "", 0, 1, "column 1: the command is empty" },
        { " \t\n", 3, 1, "column 1: the command is empty" },
        { "\\\n", 2, 1, "column 1: the command is empty" },
        { "echo 'a b", 9, 6, "column 6: the quote ' is never closed" },
        { "\xc3\xa4\xc3\xa4 \"a", 7, 4, "column 4: the quote \" is never closed" },
        { "a \"b\\\"", 6, 3, "column 3: the quote \" is never closed" },
        { "a \"b\\", 5, 3, "column 3: the quote \" is never closed" },
        { "a b\\", 4, 4, "column 4: nothing follows the backslash" },
        { "a\0b", 3, 2, "column 2: a NUL character isn't allowed" },
        { "'", 1, 1, "column 1: the quote ' is never closed" },
        { "\"", 1, 1, "column 1: the quote \" is never closed" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        struct words words;
        struct str in = exact((struct str){ cases[i].in, cases[i].len });
        assert_false(words_split(in, &arena, &words, &err));
        check_str(str_of(err.text), cases[i].text);
        assert_int_equal(words.fault_column, cases[i].column);
        assert_int_equal(err.code, ERR_invalid);
        exact_free(in);
        arena_release(&arena);
    }
}

static void quotes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "make", "make" },
        { "", "''" },
        { "a b", "'a b'" },
        { "it's", "'it'\\''s'" },
        { "--x=y", "--x=y" },
        { "A=b", "'A=b'" },
        { "$HOME", "'$HOME'" },
        { "a@b:/c,d+e%f.g_h-i", "a@b:/c,d+e%f.g_h-i" },
        { "\x1b[31m", "$'\\033[31m'" },
        { "a\nb'\\", "$'a\\nb\\'\\\\'" },
        { "\x7f\t\r", "$'\\177\\t\\r'" },
        { "\xc3\xa4", "'\xc3\xa4'" },
        { "~", "'~'" },
        { "*", "'*'" },
        { "#", "'#'" },
        { "!", "'!'" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf buf;
        buf_init(&buf, 200);
        words_quote(&buf, str_of(cases[i][0]));
        check_str(buf_str(&buf), cases[i][1]);
        buf_release(&buf);
    }
    struct buf buf;
    buf_init(&buf, 200);
    const struct str words[] = { STR("sh"), STR("-c"), STR("echo hi") };
    words_join(&buf, words, 3);
    check_str(buf_str(&buf), "sh -c 'echo hi'");
    buf_release(&buf);
}

/* Joining and splitting again gives the same words; splitting anything never reads outside. */
static void round_trips(void **state)
{
    (void)state;
    static const char alphabet[] = "ab '\"\\$`#~*;=-\xc3\xa4";
    struct rng rng;
    rng_seed(&rng, 5);
    for (int round = 0; round < 20000; round++) {
        char text[4][9];
        struct str words[4];
        size_t n = 1 + rng_below(&rng, 4);
        for (size_t k = 0; k < n; k++) {
            words[k] = (struct str){ text[k], rng_below(&rng, sizeof text[k] + 1) };
            for (size_t i = 0; i < words[k].len; i++)
                text[k][i] = alphabet[rng_below(&rng, sizeof alphabet - 1)];
        }
        struct buf buf;
        buf_init(&buf, 4000);
        words_join(&buf, words, n);
        struct arena arena = { 0 };
        struct err err = { 0 };
        struct words back;
        assert_true(words_split(buf_str(&buf), &arena, &back, &err));
        assert_int_equal(back.n, n);
        for (size_t k = 0; k < n; k++)
            assert_true(str_eq(back.items[k], words[k]));
        struct str raw = exact(words[0]);
        words_split(raw, &arena, &back, &err);
        exact_free(raw);
        buf_release(&buf);
        arena_release(&arena);
    }
}

/* A megabyte of one-letter words takes memory in proportion. */
static void stays_linear(void **state)
{
    (void)state;
    size_t len = 1 << 20;
    char *text = malloc(len);
    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = i % 2 == 0 ? 'a' : ' ';
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct words words;
    assert_true(words_split((struct str){ text, len }, &arena, &words, &err));
    assert_int_equal(words.n, len / 2);
    assert_true(arena.used_bytes < 64 * len);
    arena_release(&arena);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits),
        cmocka_unit_test(refuses),
        cmocka_unit_test(quotes),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(stays_linear),
    };
    return cmocka_run_group_tests_name("text-words", tests, NULL, NULL);
}
