/* term: what comes from elsewhere is harmless on a terminal, whatever it is and however it is cut. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "cli/task_text.h"
#include "cli/term.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

static const struct {
    const char *log, *shown;
} logs[] = {
    { "plain\ttext\r\n", "plain\ttext\r\n" },
    { "a\033[31mred\033[0mb", "a\033[31mred\033[0mb" },
    { "\033[1;38;5;200mx", "\033[1;38;5;200mx" },
    { "\033[38:2::1:2:3mx", "\033[38:2::1:2:3mx" },
    { "\033[2Jx", "x" },
    { "\033[?25lx", "x" },
    { "\033[>4;1mx", "x" }, /* ends in m, but isn't a colour */
    { "\033]0;title\007x", "x" },
    { "\033]8;;http://a\033\\link\033]8;;\033\\", "link" },
    { "\033P1$r\033\\x", "x" },
    { "\033(Bx", "x" },
    { "\033cx", "x" },
    { "\033[1\nx", "\nx" }, /* a broken sequence ends with the line */
    { "bell\007 back\b del\177", "bell back del" },
    { "\xC3\xA9\xC2\xA0\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xC2\xA0\xE2\x82\xAC\xF0\x9F\x98\x80" },
    { "\xC2\x9B"
      "31mx",
        "31mx" }, /* U+009B is CSI to some terminals */
    { "\x9B"
      "2Jx",
        "2Jx" }, /* so is the bare byte */
    /* what turns the direction of writing */
    { "a\xE2\x80\xAE"
      "b\xE2\x81\xA6"
      "c\xD8\x9C"
      "d\xEF\xBB\xBF"
      "e",
        "abcde" },
    /* cut short, and half a surrogate pair */
    { "a\xE2\x80"
      "b\xF0\x9F\xC3\xA9\xED\xA0\x80"
      "c",
        "ab\xC3\xA9"
        "c" },
};

static void logs_are_filtered(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(logs); i++) {
        struct str log = str_of(logs[i].log);
        for (size_t cut = 0; cut <= log.len; cut++) { /* in two pieces, at every place */
            struct term_filter filter = { 0 };
            struct buf out;
            buf_init(&out, 4096);
            term_filter_add(&filter, str_sub(log, 0, cut), &out);
            term_filter_add(&filter, str_sub(log, cut, log.len), &out);
            assert_string_equal(out.ptr ? out.ptr : "", logs[i].shown);
            buf_release(&out);
        }
    }
}

/* random_bytes: with many of those that matter. */
static size_t random_bytes(struct rng *rng, char *out, size_t size)
{
    static const char spice[] = "\033\033[];m?\007\\P0123\xC2\x9B\x80\n\t \xE2\x80\xAE";
    size_t n = rng_below(rng, size);
    for (size_t i = 0; i < n; i++)
        out[i] = rng_below(rng, 2) ? spice[rng_below(rng, sizeof spice - 1)] : (char)rng_below(rng, 256);
    return n;
}

/* Of whatever goes in, every escape that comes out begins ESC [ parameters m. */
static void nothing_else_gets_through(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < 20000; round++) {
        char bytes[64];
        size_t n = random_bytes(&rng, bytes, sizeof bytes);
        struct term_filter filter = { 0 };
        struct buf out;
        buf_init(&out, 4096);
        term_filter_add(&filter, (struct str){ bytes, n }, &out);
        assert_true(str_is_utf8(buf_str(&out)));
        assert_true(memmem(out.ptr ? out.ptr : "", out.len, "\xE2\x80\xAE", 3) == NULL);
        for (size_t i = 0; i < out.len; i++) {
            unsigned char c = (unsigned char)out.ptr[i];
            assert_true(c >= 0x20 || c == '\n' || c == '\t' || c == '\r' || c == 0x1B);
            assert_true(c != 0x7F);
            if (c != 0x1B)
                continue;
            assert_true(out.ptr[i + 1] == '[');
            size_t end = i + 2 + strspn(out.ptr + i + 2, "0123456789;:");
            assert_true(out.ptr[end] == 'm');
        }
        buf_release(&out);
    }
}

static void names_become_one_harmless_line(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    assert_string_equal(term_safe_z(&arena, "a\033[2Jb\nc\td"), "a?[2Jb c d");
    assert_string_equal(term_safe_z(&arena, "x\xE2\x80\xAEy"), "x?y"); /* right-to-left override */
    assert_string_equal(term_safe_z(&arena, "\xC2\x9B"
                                            "1m \xFF"),
        "?1m ?"); /* C1, broken UTF-8 */
    assert_string_equal(term_safe_z(&arena, "\xC3\xBC\xE4\xB8\xAD"), "\xC3\xBC\xE4\xB8\xAD");
    struct rng rng;
    rng_seed(&rng, 5);
    for (int round = 0; round < 20000; round++) {
        char bytes[64];
        size_t n = random_bytes(&rng, bytes, sizeof bytes);
        const char *safe = term_safe(&arena, (struct str){ bytes, n });
        assert_true(str_is_utf8(str_of(safe)));
        for (const char *c = safe; *c; c++)
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7F);
    }
    arena_release(&arena);
}

static void widths_and_cuts(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct term utf8 = { .utf8 = true }, plain = { .utf8 = false };
    assert_int_equal(term_width(STR("abc")), 3);
    assert_int_equal(term_width(STR("\xE4\xB8\xAD\xE6\x96\x87")), 4);
    static const struct {
        const char *text;
        int width;
        const char *utf8, *plain;
    } cuts[] = {
        { "abcdef", 6, "abcdef", "abcdef" },
        { "abcdef", 5, "abcd\xE2\x80\xA6", "ab..." },
        { "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97", 5, "\xE4\xB8\xAD\xE6\x96\x87\xE2\x80\xA6", "\xE4\xB8\xAD..." },
        { "abcdef", 0, "", "" },
    };
    for (size_t i = 0; i < N_OF(cuts); i++) {
        assert_string_equal(
            str_dupz(&arena, term_cut(&arena, &utf8, str_of(cuts[i].text), cuts[i].width)), cuts[i].utf8);
        assert_string_equal(
            str_dupz(&arena, term_cut(&arena, &plain, str_of(cuts[i].text), cuts[i].width)), cuts[i].plain);
    }
    arena_release(&arena);
}

static void keys_and_spans(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    static const struct {
        const char *json, *key;
    } keys[] = {
        { "{\"id\": 7, \"key\": {\"queue\": \"builds\", \"name\": \"a\"}}", "builds:7" },
        { "{\"id\": 7, \"key\": {\"archive\": \"docs\", \"rev\": 12, \"name\": \"pdf\"}}", "docs@12:pdf" },
        { "{\"id\": 7, \"key\": {\"archive\": \"docs\", \"rev\": 12, \"name\": \"pdf\", \"variant\": \"os=a,cc=b\"}}",
            "docs@12:pdf[os=a,cc=b]" },
        { "{\"id\": 7, \"key\": {\"archive\": \"docs\", \"rev\": 12, \"name\": \"pdf\", \"variant\": \"os=a\", "
          "\"run\": 2}}",
            "docs@12:pdf[os=a]#2" },
        { "{\"id\": 7, \"key\": \"docs@12:pdf\"}", "docs@12:pdf" },
        { "{\"id\": 7}", "7" },
        { "{}", "0" },
    };
    for (size_t i = 0; i < N_OF(keys); i++) {
        json_t *task = json_loads(keys[i].json, 0, NULL);
        assert_string_equal(task_key(&arena, task), keys[i].key);
        json_decref(task);
    }
    static const struct {
        int64_t ms;
        const char *text;
    } spans[] = { { 0, "0ms" }, { 999, "999ms" }, { 1000, "1.0s" }, { 59999, "59s" }, { 61000, "1m 1s" },
        { 3661000, "1h 1m" }, { 90000000, "1d 1h" }, { -5, "0ms" } };
    for (size_t i = 0; i < N_OF(spans); i++)
        assert_string_equal(span_text(spans[i].ms).z, spans[i].text);
    assert_string_equal(ago_text(1000, 3500).z, "2.5s ago");
    assert_string_equal(ago_text(13500, 1000).z, "in 12s");
    assert_string_equal(bytes_text(1536).z, "1.5KiB");
    arena_release(&arena);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_are_filtered),
        cmocka_unit_test(nothing_else_gets_through),
        cmocka_unit_test(names_become_one_harmless_line),
        cmocka_unit_test(widths_and_cuts),
        cmocka_unit_test(keys_and_spans),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
