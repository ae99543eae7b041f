/* What a tenant may have more of, as a table; and the sentences of refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "core/quota.h"

static void test_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        int64_t limit, used, more;
        bool allowed;
    } rows[] = {
        { 10, 0, 10, true },
        { 10, 9, 1, true },  /* to the limit */
        { 10, 9, 2, false }, /* one above */
        { 10, 10, 1, false },
        { 10, 10, 0, true }, /* nothing more is asked for */
        { 10, 10, -1, true },
        { 0, 0, 1, false }, /* none at all */
        { 0, 0, 0, true },
        { -1, 0, 1, true }, /* unlimited */
        { -1, INT64_MAX, INT64_MAX, true },
        { 5, 8, 1, false }, /* the limit was lowered below what it has */
        { 5, 8, 0, true },
        { INT64_MAX, INT64_MAX - 1, 1, true },
        { INT64_MAX, INT64_MAX - 1, 2, false }, /* the sum would overflow */
        { INT64_MAX, INT64_MAX, INT64_MAX, false },
        { 10, 5, INT64_MAX, false },
        { 10, INT64_MIN, 10, true }, /* a count below 0 is as good as none, no more */
        { 10, INT64_MIN, 11, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int q = 0; q < QUOTA_COUNT; q++) {
            struct quota_ask ask = { (enum quota)q, rows[i].limit, rows[i].used, rows[i].more };
            if (quota_allows(&ask) != rows[i].allowed)
                fail_msg(
                    "row %zu, quota %s: not %s", i, quota_name((enum quota)q), rows[i].allowed ? "allowed" : "refused");
        }
}

static void test_what_a_refusal_says(void **state)
{
    (void)state;
    static const struct {
        struct quota_ask ask;
        enum err_code code;
        const char *text;
    } rows[] = {
        { { QUOTA_tasks, 10, 10, 1 }, ERR_quota_exceeded,
            "the tenant 'acme' has 10 of 10 open tasks; try again when some have ended, or have "
            "tenants.acme.quotas.tasks raised" },
        { { QUOTA_tasks, 10, 8, 3 }, ERR_quota_exceeded,
            "the tenant 'acme' has 8 of 10 open tasks, and this is 3 more; try again when some have ended, or have "
            "tenants.acme.quotas.tasks raised" },
        { { QUOTA_archives, 2, 2, 1 }, ERR_quota_full,
            "the tenant 'acme' has 2 of 2 archives; remove one: weir archive remove, or have "
            "tenants.acme.quotas.archives raised" },
        { { QUOTA_queues, 3, 3, 1 }, ERR_quota_full,
            "the tenant 'acme' has 3 of 3 queues; use one that is there, or have tenants.acme.quotas.queues raised" },
        { { QUOTA_semaphores, 3, 2, 2 }, ERR_quota_full,
            "the tenant 'acme' has 2 of 3 semaphores and concurrency keys, and this is 2 more; use one that is there, "
            "or have tenants.acme.quotas.semaphores raised" },
        { { QUOTA_tokens, 1, 1, 1 }, ERR_quota_full,
            "the tenant 'acme' has 1 of 1 tokens; revoke one: weir token revoke, or have tenants.acme.quotas.tokens "
            "raised" },
        { { QUOTA_executors, 0, 0, 1 }, ERR_quota_full,
            "the tenant 'acme' has 0 of 0 executors; use the name of one that is there, or have "
            "tenants.acme.quotas.executors raised" },
        { { QUOTA_logs, 1000, 1001, 1 }, ERR_quota_full,
            "the tenant 'acme' has 1001 of 1000 bytes of logs; clear away what is old: weir history prune --older-than "
            "30d, or have tenants.acme.quotas.logs raised" },
        { { QUOTA_files, 1000, 1000, 1 }, ERR_quota_full,
            "the tenant 'acme' has 1000 of 1000 bytes of artifacts; clear away what is old: weir history prune "
            "--older-than 30d, or have tenants.acme.quotas.files raised" },
    };
    struct arena arena = { 0 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str text = quota_refusal(&rows[i].ask, STR("acme"), &arena);
        assert_false(quota_allows(&rows[i].ask));
        assert_int_equal(quota_error(rows[i].ask.quota), rows[i].code);
        if (!str_eqz(text, rows[i].text))
            fail_msg("row %zu says: %.*s", i, STR_ARG(text));
    }
    arena_release(&arena);
}

static void test_open_tasks_are_those_that_have_not_ended(void **state)
{
    (void)state;
    struct lane lane = { 0 };
    for (size_t i = 0; i < sizeof lane.counts / sizeof *lane.counts; i++)
        lane.counts[i] = 1000;
    lane.counts[STATE_Q] = 1;
    lane.counts[STATE_S] = 2;
    lane.counts[STATE_P] = 4;
    lane.counts[STATE_X] = 8;
    assert_int_equal(quota_open_tasks(&lane), 15);
}

static void test_kept_bytes_neither_overflow_nor_fall_below_zero(void **state)
{
    (void)state;
    assert_int_equal(quota_bytes_add(10, 5), 15);
    assert_int_equal(quota_bytes_add(10, 0), 10);
    assert_int_equal(quota_bytes_add(10, -5), 10);
    assert_int_equal(quota_bytes_add(10, INT64_MAX), 10);
    assert_int_equal(quota_bytes_add(INT64_MAX / 2, 1), INT64_MAX / 2);
    assert_int_equal(quota_bytes_add(0, INT64_MAX / 2 - 1), INT64_MAX / 2 - 1);
    assert_int_equal(quota_bytes_drop(10, 4), 6);
    assert_int_equal(quota_bytes_drop(10, 10), 0);
    assert_int_equal(quota_bytes_drop(10, INT64_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_allowed),
        cmocka_unit_test(test_what_a_refusal_says),
        cmocka_unit_test(test_open_tasks_are_those_that_have_not_ended),
        cmocka_unit_test(test_kept_bytes_neither_overflow_nor_fall_below_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
