/* Reports of ended attempts: what is read, what is refused, and when two reports are the same. */
#include "check.h"

#include <sodium.h>

#define FENCE "0123456789abcdef-7-00000003-ba1c97e5222aa661"

static const struct fence_key key; /* all zero: FENCE's */

struct fixture {
    struct arena arena;
    struct err err;
    struct finish_item item;
    bool good;
};

static void read_text(struct fixture *f, const char *text, int64_t task)
{
    *f = (struct fixture){ 0 };
    f->err.arena = &f->arena;
    struct err fault = { 0 };
    const struct doc_node *document = json_read_body(str_of(text), &f->arena, &fault);
    assert_non_null(document);
    f->good = finish_read(&key, &f->arena, document, (struct str){ 0 }, task, &f->item, &f->err);
}

static void test_all_fields(void **state)
{
    (void)state;
    struct fixture f;
    read_text(&f,
        "{\"task\":7,\"fence\":\"" FENCE
        "\",\"exit\":3,\"outputs\":{\"b\":\"2\",\"a\":\"1\"},\"usage\":{\"cpu_ms\":5,\"max_rss_bytes\":6},"
        "\"log_bytes\":9,\"revision\":\"r12\",\"log_offset\":4,\"log\":\"aGVsbG8=\",\"started\":\"2026-01-01T00:00:"
        "00Z\",\"finished\":"
        "\"2026-01-01T00:00:01Z\"}",
        7);
    assert_true(f.good);
    assert_false(f.item.malformed);
    assert_int_equal(f.item.fence.task, 7);
    assert_int_equal(f.item.fence.grant, 3);
    assert_true(f.item.fence.incarnation == 0x0123456789abcdefu);
    assert_int_equal(f.item.exit, 3);
    assert_int_equal(f.item.signal, -1);
    assert_int_equal(f.item.outcome, OUTCOME_none);
    check_str(f.item.outputs, "{\"a\":\"1\",\"b\":\"2\"}");
    assert_int_equal(f.item.cpu_ms, 5);
    assert_int_equal(f.item.max_rss_bytes, 6);
    assert_int_equal(f.item.log_bytes, 9);
    assert_int_equal(f.item.log_offset, 4);
    check_str(f.item.log, "hello");
    check_str(f.item.revision, "r12");
    arena_release(&f.arena);
}

static const struct {
    const char *text;
    int64_t task;
    const char *wanted;
} bad[] = {
    { "5", 0, "invalid | : the document must be an object, not a number" },
    { "{}", 0, "invalid | /fence: 'fence' is required" },
    { "{\"fence\":\"" FENCE "\"}", 0, "invalid | /exit: one of 'exit', 'signal' and 'outcome' is required" },
    { "{\"fence\":\"abc\",\"exit\":0}", 0, "invalid | /fence: 'fence' must be the fence of a grant, not \"abc\"" },
    { "{\"task\":8,\"fence\":\"" FENCE "\",\"exit\":0}", 7, "invalid | /task: 'task' must be 7 here, not 8" },
    { "{\"fence\":\"" FENCE "\",\"exit\":256}", 0, "invalid | /exit: 'exit' must be from 0 to 255, not 256" },
    { "{\"fence\":\"" FENCE "\",\"exit\":\"0\"}", 0, "invalid | /exit: 'exit' must be a whole number, not a string" },
    { "{\"fence\":\"" FENCE "\",\"signal\":0}", 0, "invalid | /signal: 'signal' must be from 1 to 64, not 0" },
    { "{\"fence\":\"" FENCE "\",\"outcome\":\"fine\"}", 0,
        "invalid | /outcome: 'outcome' must be done, skipped, failed, permanent, temporary, timeout, killed, lost or "
        "cancelled, not "
        "\"fine\"" },
    { "{\"fence\":\"" FENCE "\",\"exit\":0,\"outputs\":{\"a\":1}}", 0,
        "invalid | /outputs/a: an output must be a string of at most 65536 bytes" },
    { "{\"fence\":\"" FENCE "\",\"exit\":0,\"outputs\":[]}", 0,
        "invalid | /outputs: 'outputs' must be an object of at most 1000 strings" },
    { "{\"fence\":\"" FENCE "\",\"exit\":0,\"revision\":\"a b\"}", 0,
        "invalid | /revision: 'revision' must be printable, without blanks" },
    { "{\"fence\":\"" FENCE "\",\"exit\":0,\"revision\":7}", 0,
        "invalid | /revision: 'revision' must be a string, not a number" },
    { "{\"fence\":\"" FENCE "\",\"exit\":0,\"revision\":"
      "\"1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
      "9012345678901\"}",
        0, "invalid | /revision: 'revision' is longer than 100 bytes" },
    { "{\"fence\":\"" FENCE "\",\"exit\":0,\"log\":\"%%%\"}", 0,
        "invalid | /log: 'log' must be at most 16384 bytes in base64" },
    { "{\"fence\":\"" FENCE "\",\"exit\":0,\"exits\":0}", 0,
        "invalid | /exits: unknown field 'exits' [did you mean 'exit'?]" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct fixture f;
        read_text(&f, bad[i].text, bad[i].task);
        if (f.good)
            fail_msg("taken: %s", bad[i].text);
        assert_true(f.item.malformed);
        assert_int_equal(f.item.code, ERR_invalid);
        check_str(faults_text(&f.arena, &f.err), bad[i].wanted);
        arena_release(&f.arena);
    }
}

/* A fence is opaque to who sends it: one that was never given out for the task is read as one of no grant, which is
 * stale. */
static void test_strange_fences(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t task;
    } rows[] = {
        { "{\"fence\":\"abc\",\"exit\":0}", 8 },
        { "{\"fence\":\"\",\"exit\":0}", 8 },
        { "{\"fence\":\"" FENCE "\",\"exit\":0}", 8 },
        { "{\"task\":8,\"fence\":\"" FENCE "\",\"exit\":0}", 0 },
        { "{\"fence\":\"0123456789abcdef-8-00000003\",\"exit\":0}", 0 },
        { "{\"fence\":\"0123456789abcdef-8-00000003-ba1c97e5222aa661\",\"exit\":0}", 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fixture f;
        read_text(&f, rows[i].text, rows[i].task);
        if (!f.good)
            fail_msg("refused: %s", rows[i].text);
        assert_int_equal(f.item.task, 8);
        assert_int_equal(f.item.fence.task, 8);
        assert_int_equal(f.item.fence.grant, 0);
        assert_true(f.item.fence.incarnation == 0);
        arena_release(&f.arena);
    }
}

static void hash_of(const char *rest, uint8_t out[16])
{
    struct fixture f;
    char text[300];
    snprintf(text, sizeof text, "{\"fence\":\"" FENCE "\",%s}", rest);
    read_text(&f, text, 0);
    assert_true(f.good);
    memcpy(out, f.item.hash, 16);
    arena_release(&f.arena);
}

/* The meaning counts: order, spelling and resource use don't, verdict and outputs do. */
static void test_same_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {
        { "\"exit\":0", "\"exit\":0", true },
        { "\"exit\":0", "\"exit\":1", false },
        { "\"exit\":0", "\"outcome\":\"done\"", false },
        { "\"exit\":0", "\"exit\":0,\"outputs\":{}", true },
        { "\"exit\":0,\"outputs\":{\"a\":\"1\",\"b\":\"2\"}", "\"outputs\":{\"b\":\"2\",\"a\":\"\\u0031\"},\"exit\":0",
            true },
        { "\"exit\":0,\"outputs\":{\"a\":\"1\"}", "\"exit\":0,\"outputs\":{\"a\":\"2\"}", false },
        { "\"exit\":0,\"usage\":{\"cpu_ms\":1}", "\"exit\":0,\"usage\":{\"cpu_ms\":2}", true },
        { "\"signal\":9", "\"signal\":15", false },
        { "\"exit\":0,\"log_bytes\":1", "\"exit\":0,\"log_bytes\":2", false },
        { "\"exit\":0", "\"exit\":0,\"revision\":\"1\"", false },
        { "\"exit\":0,\"revision\":\"2\"", "\"exit\":0,\"revision\":\"1\"", false },
        { "\"exit\":0,\"revision\":\"2\",\"reason\":\"a\"", "\"revision\":\"2\",\"exit\":0", true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t a[16], b[16];
        hash_of(rows[i].a, a);
        hash_of(rows[i].b, b);
        if ((memcmp(a, b, 16) == 0) != rows[i].same)
            fail_msg("%s and %s should %sbe the same", rows[i].a, rows[i].b, rows[i].same ? "" : "not ");
    }
}

/* One bad item doesn't spoil the others. */
static void test_list(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    struct str text = STR("[{\"task\":9,\"exit\":0},{\"fence\":\"" FENCE "\",\"exit\":0},5]");
    const struct doc_node *list = json_read_body(text, &arena, &err);
    struct finish_item *items;
    size_t n;
    assert_true(finish_read_list(&key, &arena, list, STR("/items"), &items, &n, &err));
    assert_int_equal(n, 3);
    assert_true(items[0].malformed && !items[1].malformed && items[2].malformed);
    items[1].code = ERR_stale_fence;
    struct buf out;
    buf_init(&out, 1000);
    struct json json = json_to(&out);
    json_array_begin(&json);
    for (size_t i = 0; i < n; i++)
        render_finish(&json, &items[i]);
    json_array_end(&json);
    check_str(buf_str(&out), "[{\"task\":9,\"status\":422,\"code\":\"invalid\"},{\"task\":7,\"status\":"
                             "409,\"code\":\"stale_fence\"},"
                             "{\"task\":0,\"status\":422,\"code\":\"invalid\"}]");
    buf_release(&out);
    arena_release(&arena);
}

int main(void)
{
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_strange_fences),
        cmocka_unit_test(test_same_meaning),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
