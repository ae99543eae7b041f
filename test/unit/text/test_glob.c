/* Patterns of paths: a table of what each means, lists with exceptions, and patterns that would be slow elsewhere. */
#include "check.h"

#include "base/rng.h"
#include "text/glob.h"

struct glob_case {
    const char *pattern, *path;
    bool matches;
};

static const struct glob_case cases[] = {
    { "a", "a", true },
    { "a", "b", false },
    { "a", "a/b", false },
    { "/a", "a", true },
    { "a", "/a", true },
    { "a", "aa", false },
    { "*.md", "x.md", true },
    { "*.md", ".md", true },
    { "*.md", "d/x.md", false },
    { "*", "a", true },
    { "*", "a/b", false },
    { "docs/**", "docs/a", true },
    { "docs/**", "docs/a/b/c", true },
    { "docs/**", "docs", false },
    { "docs/**", "docsx/a", false },
    { "docs/", "docs/a/b", true },
    { "docs/", "docs", false },
    { "**", "a/b/c", true },
    { "**", "a", true },
    { "**/x.c", "x.c", true },
    { "**/x.c", "a/x.c", true },
    { "**/x.c", "a/b/x.c", true },
    { "**/x.c", "ax.c", false },
    { "**/x.c", "a/ax.c", false },
    { "a/**/b", "a/b", true },
    { "a/**/b", "a/x/b", true },
    { "a/**/b", "a/x/y/b", true },
    { "a/**/b", "a/xb", false },
    { "a/**/b", "ab", false },
    { "a/**/**/b", "a/b", true },
    { "**.c", "a/b.c", true },
    { "a**", "a/b", true },
    { "a/*/c", "a/b/c", true },
    { "a/*/c", "a/c", false },
    { "a/*/c", "a/b/d/c", false },
    { "?", "a", true },
    { "?", "/", false },
    { "?", "\xc3\xa9", true },
    { "??", "\xc3\xa9", false },
    { "?", "\xff", true },
    { "a?c", "a/c", false },
    { "[a-c]x", "bx", true },
    { "[a-c]x", "dx", false },
    { "[!a-c]x", "dx", true },
    { "[!a-c]x", "ax", false },
    { "[^a]", "a", false },
    { "[!a]", "/", false },
    { "[]]", "]", true },
    { "[]-a]", "_", true },
    { "[a-]", "-", true },
    { "[\xc3\xa0-\xc3\xbc]", "\xc3\xa9", true },
    { "\\*", "*", true },
    { "\\*", "a", false },
    { "\\[a]", "[a]", true },
    { "a b", "a b", true },
    { "A", "a", false },
    { "{a,b}", "{a,b}", true },
    { "**/a/**", "x/a/y", true },
    { "**/a/**", "a/y", true },
    { "**/a/**", "xa/y", false },
    { "*a*b*", "xxaxxbxx", true },
    { "*a*b*", "xxbxxaxx", false },
};

static void test_the_table_of_patterns(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct glob glob;
        struct str pattern = exact(str_of(cases[i].pattern)), path = exact(str_of(cases[i].path));
        const char *fault = glob_parse(pattern, &arena, &glob);
        if (fault != NULL || glob_matches(&glob, path) != cases[i].matches)
            fail_msg("%s on %s: %s", cases[i].pattern, cases[i].path,
                fault != NULL      ? fault
                : cases[i].matches ? "no match"
                                   : "a match");
        exact_free(pattern);
        exact_free(path);
    }
    arena_release(&arena);
}

static void test_what_is_no_pattern(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "!", "/", "!/", "[a", "[]", "[!]", "a\\", "[a/b]" };
    struct arena arena = { 0 };
    struct glob glob;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (glob_parse(str_of(bad[i]), &arena, &glob) == NULL)
            fail_msg("accepted: %s", bad[i]);
    static char longest[GLOB_BYTES_MAX + 1];
    memset(longest, '*', sizeof longest);
    assert_non_null(glob_parse((struct str){ longest, sizeof longest }, &arena, &glob));
    assert_null(glob_parse((struct str){ longest, GLOB_BYTES_MAX }, &arena, &glob));
    assert_non_null(glob_parse((struct str){ "a\0b", 3 }, &arena, &glob));
    arena_release(&arena);
}

static bool list_matches(struct arena *arena, const char *list, const char *path)
{
    struct glob items[8];
    struct globs globs = { items, 0 };
    struct str rest = str_of(list), part;
    while (str_cut(&rest, ' ', &part))
        assert_null(glob_parse(part, arena, &items[globs.n++]));
    return globs_match(&globs, str_of(path));
}

static void test_the_last_pattern_that_matches_decides(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    assert_true(list_matches(&arena, "docs/** !docs/private/**", "docs/a"));
    assert_false(list_matches(&arena, "docs/** !docs/private/**", "docs/private/a"));
    assert_true(list_matches(&arena, "docs/** !docs/private/** docs/private/open", "docs/private/open"));
    assert_true(list_matches(&arena, "!docs/private/** docs/**", "docs/private/a"));
    assert_false(list_matches(&arena, "docs/** !docs/private/**", "src/a"));
    assert_true(list_matches(&arena, "!docs/**", "src/a"));
    assert_false(list_matches(&arena, "!docs/**", "docs/a"));
    assert_false(list_matches(&arena, "", "docs/a"));
    arena_release(&arena);
}

/* slow_matches: the definition, by trying everything; `begins`: at the beginning of a part. */
static bool slow_matches(const char *pattern, const char *path, bool begins)
{
    if (*pattern == '\0')
        return *path == '\0';
    if (begins && strncmp(pattern, "**/", 3) == 0) {
        if (slow_matches(pattern + 3, path, true))
            return true;
        const char *slash = strchr(path, '/');
        return slash != NULL && slash != path && slow_matches(pattern, slash + 1, true);
    }
    if (*pattern == '*') {
        bool deep = pattern[1] == '*';
        const char *rest = pattern + 1 + deep;
        for (;; path++) {
            if (slow_matches(rest, path, false))
                return true;
            if (*path == '\0' || (*path == '/' && !deep))
                return false;
        }
    }
    if (*path == '\0' || (*pattern == '?' ? *path == '/' : *pattern != *path))
        return false;
    return slow_matches(pattern + 1, path + 1, *pattern == '/');
}

static void test_random_patterns_equal_the_definition(void **state)
{
    (void)state;
    static const char *const parts[] = { "a", "b", "/", "*", "?", "**/", "/**", "/a", "b/" };
    struct arena arena = { 0 };
    struct rng rng;
    rng_seed(&rng, 5);
    size_t matched = 0;
    for (int round = 0; round < 200000; round++) {
        char pattern[64] = "", path[32] = "";
        for (uint64_t n = 1 + rng_below(&rng, 6); n > 0; n--)
            strcat(pattern, parts[rng_below(&rng, COUNT_OF(parts))]);
        for (uint64_t n = 0, len = 1 + rng_below(&rng, 8); n < len; n++)
            path[n] = "ab/"[rng_below(&rng, 3)];
        /* Runs of three stars and pieces that are empty have no meaning of their own. */
        if (strstr(pattern, "***") || strstr(pattern, "//") || strstr(path, "//") || pattern[0] == '/' ||
            path[0] == '/' || pattern[strlen(pattern) - 1] == '/')
            continue;
        struct glob glob;
        assert_null(glob_parse(str_of(pattern), &arena, &glob));
        bool wanted = slow_matches(pattern, path, true);
        if (glob_matches(&glob, str_of(path)) != wanted)
            fail_msg("%s on %s must %smatch", pattern, path, wanted ? "" : "not ");
        matched += wanted;
        arena_reset(&arena);
    }
    assert_true(matched > 1000);
    arena_release(&arena);
}

static void test_no_pattern_is_slow(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    static char pattern[GLOB_BYTES_MAX], path[4096];
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = 'b';
    struct glob glob;
    assert_null(glob_parse((struct str){ pattern, sizeof pattern }, &arena, &glob));
    assert_false(glob_matches(&glob, (struct str){ path, sizeof path }));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_of_patterns),
        cmocka_unit_test(test_what_is_no_pattern),
        cmocka_unit_test(test_the_last_pattern_that_matches_decides),
        cmocka_unit_test(test_random_patterns_equal_the_definition),
        cmocka_unit_test(test_no_pattern_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
