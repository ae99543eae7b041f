/* Merging by lines: what both sides keep, where they conflict, and the same answers as git merge-file on random texts.
 * Differences as text: patch makes the new text of the old one. */
#include "bed.h"

#include "base/rng.h"
#include "source/apply_merge.h"

static struct arena arena;

static struct merge_lines merge(const char *base, const char *head, const char *mine)
{
    struct err err = { 0 };
    struct merge_lines out;
    must(merge_lines(&arena, str_of(base), str_of(head), str_of(mine), &out, &err), &err);
    return out;
}

static void test_lines(void **state)
{
    static const struct {
        const char *base, *head, *mine, *merged;
        unsigned first, last; /* of a conflict */
    } rows[] = {
        { "", "", "", "", 0, 0 },
        { "a\nb\nc\n", "a\nb\nc\n", "x\nb\nc\n", "x\nb\nc\n", 0, 0 },
        { "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", 0, 0 },
        { "a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n", "a\nB\nc\n", 0, 0 }, /* the same */
        { "a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n", NULL, 2, 2 },        /* the same line */
        { "a\nb\nc\n", "A\nb\nc\n", "a\nB\nc\n", NULL, 1, 2 },        /* neighbours */
        { "a\nb\nc\n", "a\nc\n", "a\nb\nx\nc\n", NULL, 2, 2 },        /* removed here, added to there */
        { "a\nb\nc\nd\n", "b\nc\nd\n", "a\nb\nc\nD\n", "b\nc\nD\n", 0, 0 },
        { "a\nb\nc\nd\n", "0\n1\na\nb\nc\nd\n", "a\nb\nc\nd\ne\n", "0\n1\na\nb\nc\nd\ne\n", 0, 0 },
        { "a\nb\nc\nd\n", "0\n1\na\nb\nc\nd\n", "a\nb\nx\nd\n", "0\n1\na\nb\nx\nd\n", 0, 0 },
        { "a\nb\nc\nd\n", "0\n1\na\nb\ny\nd\n", "a\nb\nx\nd\n", NULL, 5, 5 }, /* by the head's lines */
        { "", "a\n", "b\n", NULL, 1, 1 },
        { "a\nb\nc", "a\nb\nc\n", "A\nb\nc", "A\nb\nc\n", 0, 0 }, /* only the last newline */
        { "a\nb\nc", "a\nb\nc\n", "a\nb\nC", NULL, 3, 3 },
        { "a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n", "A\r\nb\r\nC\r\n", 0, 0 },
        { "a\nb\nc\nd\ne\n", "", "a\nb\nc\nd\ne\n", "", 0, 0 },
        { "a\nb\nc\nd\ne\n", "", "a\nb\nc\nd\nE\n", NULL, 1, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct merge_lines out = merge(rows[i].base, rows[i].head, rows[i].mine);
        if (rows[i].merged == NULL) {
            assert_true(out.conflict);
            assert_int_equal(out.first_line, rows[i].first);
            assert_int_equal(out.last_line, rows[i].last);
            assert_true(merge(rows[i].base, rows[i].mine, rows[i].head).conflict);
        } else {
            assert_false(out.conflict);
            assert_string_equal(str_dupz(&arena, out.text), rows[i].merged);
            out = merge(rows[i].base, rows[i].mine, rows[i].head); /* the sides may change places */
            assert_false(out.conflict);
            assert_string_equal(str_dupz(&arena, out.text), rows[i].merged);
        }
    }
    arena_release(&arena);
}

/* text_make: lines of few letters, so that they repeat; now and then without the last newline. */
static char *text_make(struct rng *rng, const char *from)
{
    struct buf text;
    buf_init(&text, 1 << 16);
    buf_add_z(&text, "");
    struct str rest = str_of(from), line;
    if (from == NULL)
        for (uint64_t n = rng_below(rng, 30); n > 0; n--)
            buf_addf(&text, "%c\n", (char)('a' + rng_below(rng, 8)));
    while (from != NULL && str_cut(&rest, '\n', &line)) {
        uint64_t what = rng_below(rng, 12);
        if (what == 0)
            buf_addf(&text, "%c\n", (char)('A' + rng_below(rng, 8)));
        if (what != 1)
            buf_addf(&text, "%.*s%s\n", STR_ARG(line), what == 2 ? "+" : "");
    }
    if (text.len > 0 && rng_below(rng, 5) == 0)
        text.ptr[--text.len] = '\0';
    char *out = str_keep(buf_str(&text));
    buf_release(&text);
    return out;
}

static void test_as_git(void **state)
{
    struct rng rng;
    unsigned clean = 0, conflicting = 0;
    (void)state;
    rng_seed(&rng, 14);
    for (int i = 0; i < 150; i++) {
        char *base = text_make(&rng, NULL), *head = text_make(&rng, base), *mine = text_make(&rng, base);
        file_put(in("base"), base, strlen(base));
        file_put(in("head"), head, strlen(head));
        file_put(in("mine"), mine, strlen(mine));
        int status = sh_status("cd $T && git merge-file -p -q head base mine >merged");
        struct merge_lines out = merge(base, head, mine);
        assert_int_equal(out.conflict, status != 0);
        if (status == 0) {
            file_put(in("ours"), out.text.len > 0 ? out.text.ptr : "", out.text.len);
            sh("cmp $T/merged $T/ours");
            clean++;
        } else {
            conflicting++;
        }
        mem_free(base);
        mem_free(head);
        mem_free(mine);
        arena_reset(&arena);
    }
    print_message("  %u clean, %u conflicts\n", clean, conflicting);
    assert_true(clean > 30 && conflicting > 30);
    arena_release(&arena);
}

static void test_diff_as_patch(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 15);
    for (int i = 0; i < 60; i++) {
        struct err err = { 0 };
        struct buf text;
        char *base = text_make(&rng, NULL), *head = text_make(&rng, base);
        struct apply_node before = { .kind = APPLY_FILE, .content = str_of(base) };
        struct apply_node after = { .kind = APPLY_FILE, .content = str_of(head), .executable = i % 4 == 0 };
        buf_init(&text, 1 << 20);
        must(merge_diff(&text, STR("d/a b"), &before, &after, &err), &err);
        sh("rm -rf $T/p && mkdir -p $T/p/d");
        file_put(in("p/d/a b"), base, strlen(base));
        file_put(in("new"), head, strlen(head));
        if (text.len > 0) {
            file_put(in("patch"), text.ptr, text.len);
            sh("cd $T/p && git init -q . && git apply $T/patch && cmp 'd/a b' $T/new");
        } else {
            assert_string_equal(base, head);
        }
        buf_release(&text);
        mem_free(base);
        mem_free(head);
    }
}

/* a large file with changes all over: seconds, not hours */
static void test_large(void **state)
{
    enum { N = 200000 };
    struct buf base, head, mine;
    (void)state;
    buf_init(&base, SIZE_MAX);
    buf_init(&head, SIZE_MAX);
    buf_init(&mine, SIZE_MAX);
    for (int i = 0; i < N; i++) {
        buf_addf(&base, "line %d\n", i);
        buf_addf(&head, "line %d%s\n", i, i % 10 == 0 ? " theirs" : "");
        buf_addf(&mine, "line %d%s\n", i, i % 10 == 5 ? " mine" : "");
    }
    uint64_t began = now_us();
    struct merge_lines out = merge(base.ptr, head.ptr, mine.ptr);
    uint64_t took = now_us() - began;
    print_message("  %d lines, %d changes a side: %llu ms\n", N, N / 10, (unsigned long long)(took / 1000));
    assert_false(out.conflict);
    assert_int_equal(out.text.len, base.len + N / 10 * (sizeof " theirs" - 1 + sizeof " mine" - 1));
    assert_true(took < 60 * 1000000u);
    buf_release(&base);
    buf_release(&head);
    buf_release(&mine);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test_setup_teardown(test_as_git, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_diff_as_patch, bed_make, bed_drop),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
