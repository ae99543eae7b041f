/* Fences and `seen` as texts: only what a server of this site has sealed is read, and nothing follows from one text for
 * another. */
#include "check.h"

#include <sodium.h>

static const struct fence_key ours = { "0123456789abcde" }, theirs = { "1123456789abcde" };

static void test_goes_round(void **state)
{
    (void)state;
    static const struct fence fences[] = { { 0, 1, 1 }, { 0x0123456789abcdef, 42, 3 },
        { UINT64_MAX, INT64_MAX, INT64_MAX } };
    for (size_t i = 0; i < COUNT_OF(fences); i++) {
        struct fence_sealed text = fence_seal(&ours, fences[i]);
        struct fence back = { 0 };
        assert_true(strncmp(text.z, fence_format(fences[i]).z, strlen(fence_format(fences[i]).z)) == 0);
        assert_true(fence_open(&ours, str_of(text.z), &back));
        assert_memory_equal(&back, &fences[i], sizeof back);
        assert_false(fence_open(&theirs, str_of(text.z), &back)); /* another site's */
        for (size_t at = 0; text.z[at] != '\0'; at++) {           /* one letter changed, or cut off: never given out */
            struct fence_sealed forged = text;
            assert_false(fence_open(&ours, str_sub(str_of(text.z), 0, at), &back));
            for (const char *c = "0123456789abcdef-"; *c != '\0'; c++) {
                forged.z[at] = *c;
                assert_true(fence_open(&ours, str_of(forged.z), &back) == (*c == text.z[at]));
            }
        }
    }
}

/* A newer grant of a task sorts behind the older ones, whatever the tags are. */
static void test_sorts(void **state)
{
    (void)state;
    for (int64_t grant = 1; grant < 3000; grant++) {
        struct fence_sealed a = fence_seal(&ours, (struct fence){ 5, 7, grant }),
                            b = fence_seal(&ours, (struct fence){ 5, 7, grant + 1 });
        assert_true(strcmp(a.z, b.z) < 0);
    }
}

/* The tag of one grant is none of another, nor that of a `seen` with the same numbers. */
static void test_tags_differ(void **state)
{
    (void)state;
    struct fence_sealed own = fence_seal(&ours, (struct fence){ 5, 7, 1 });
    const char *tag = strrchr(own.z, '-');
    static const struct fence others[] = { { 5, 8, 1 }, { 5, 7, 2 }, { 6, 7, 1 } };
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        char forged[128];
        struct fence out;
        snprintf(forged, sizeof forged, "%s%s", fence_format(others[i]).z, tag);
        assert_false(fence_open(&ours, str_of(forged), &out));
    }
}

static void test_seen(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct str text = seen_seal(&ours, &arena, 0x0123456789abcdef, 77);
    uint64_t incarnation = 0;
    int64_t seq = 0;
    assert_true(seen_open(&ours, &arena, text, &incarnation, &seq));
    assert_true(incarnation == 0x0123456789abcdef && seq == 77);
    assert_false(seen_open(&theirs, &arena, text, &incarnation, &seq));
    struct fence_sealed fence = fence_seal(&ours, (struct fence){ 0x0123456789abcdef, 77, 1 });
    static const char *const strange[] = { "", "-", "77", "1000000000000000", "0123456789abcdef-77",
        "0123456789abcdef-78-0000000000000000" };
    for (size_t i = 0; i < COUNT_OF(strange); i++)
        assert_false(seen_open(&ours, &arena, str_of(strange[i]), &incarnation, &seq));
    assert_false(seen_open(&ours, &arena, str_of(fence.z), &incarnation, &seq));
    struct str forged = str_fmt(&arena, "0123456789abcdef-77%s", strrchr(fence.z, '-'));
    assert_false(seen_open(&ours, &arena, forged, &incarnation, &seq)); /* a fence's tag is none of these */
    arena_release(&arena);
}

int main(void)
{
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_round),
        cmocka_unit_test(test_sorts),
        cmocka_unit_test(test_tags_differ),
        cmocka_unit_test(test_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
