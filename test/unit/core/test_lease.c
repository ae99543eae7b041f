/* Leases, silence and the numbers of polls, as tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/lease.h"

#define N(list) (sizeof(list) / sizeof *(list))

static void test_a_lease_lapses_at_its_deadline(void **state)
{
    (void)state;
    assert_false(lease_lapsed(1000, 999));
    assert_true(lease_lapsed(1000, 1000));
    assert_true(lease_lapsed(1000, 1001));
}

static void test_silence_begins_after_a_whole_lease(void **state)
{
    (void)state;
    static const struct {
        int64_t heard, lease_ms;
        bool poll_open;
        int64_t begins;
    } cases[] = {
        { 0, 15000, false, 15001 },
        { 500, 15000, false, 15501 },
        { 500, 15000, true, 30501 },
        { 7, 1, false, 9 },
    };
    for (size_t i = 0; i < N(cases); i++)
        assert_int_equal(silence_begins(cases[i].heard, cases[i].poll_open, cases[i].lease_ms), cases[i].begins);
}

static void test_only_a_larger_number_overtakes_a_poll(void **state)
{
    (void)state;
    static const struct {
        int64_t seq, newest;
        bool overtaken;
    } cases[] = { { 4, 5, true }, { 5, 5, false }, { 6, 5, false }, { 0, 1, true }, { -1, 5, false }, { 5, -1, false },
        { 0, -1, false }, { -1, -1, false } };
    for (size_t i = 0; i < N(cases); i++)
        assert_int_equal(poll_is_overtaken(cases[i].seq, cases[i].newest), cases[i].overtaken);
}

static void test_what_a_grant_means_that_a_poll_does_not_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t seq, given;
        bool forgotten, named;
        enum absence expected;
    } cases[] = {
        { "the poll is older than the grant", 4, 5, false, false, ABSENCE_NOTHING },
        { "older, and a poll named the grant since", 4, 5, false, true, ABSENCE_NOTHING },
        { "older, from before a restart", 4, 5, true, false, ABSENCE_NOTHING },
        { "the grant's poll had no number", 9, -1, false, false, ABSENCE_NOTHING },
        { "the answer was lost", 5, 5, false, false, ABSENCE_RESEND },
        { "the first poll's answer was lost", 0, 0, false, false, ABSENCE_RESEND },
        { "sent twice, and named in between", 5, 5, false, true, ABSENCE_RESEND },
        { "the same poll, late, from before a restart", 5, 5, true, false, ABSENCE_NOTHING },
        { "the grant never arrived", 6, 5, false, false, ABSENCE_REQUEUE },
        { "long after", 500, 5, false, false, ABSENCE_REQUEUE },
        { "the job had begun", 6, 5, false, true, ABSENCE_LOST },
        { "it may have begun: the executor forgot", 6, 5, true, false, ABSENCE_LOST },
        { "named, then forgotten", 6, 5, true, true, ABSENCE_LOST },
    };
    for (size_t i = 0; i < N(cases); i++)
        if (absence_of(cases[i].seq, cases[i].given, cases[i].forgotten, cases[i].named) != cases[i].expected)
            fail_msg("%s: not %d", cases[i].name, (int)cases[i].expected);
}

static void test_what_a_late_renewal_means(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum task_state state;
        int64_t newest, named;
        enum late_renewal expected;
    } cases[] = {
        { "requeued, granted to nobody since", STATE_P, 3, 3, LATE_LAPSED },
        { "active after all", STATE_X, 3, 3, LATE_ALIVE },
        { "granted to another executor", STATE_X, 4, 3, LATE_STALE },
        { "granted to another one and requeued again", STATE_P, 4, 3, LATE_STALE },
        { "a grant that was never made", STATE_P, 3, 4, LATE_STALE },
        { "it waits for its next try", STATE_S, 3, 3, LATE_STALE },
        { "done", STATE_D, 3, 3, LATE_STALE },
        { "failed", STATE_F, 3, 3, LATE_STALE },
        { "ended by an operator", STATE_T, 3, 3, LATE_STALE },
    };
    for (size_t i = 0; i < N(cases); i++) {
        struct task task = { .state = cases[i].state, .grant = cases[i].newest };
        if (late_renewal_of(&task, cases[i].named) != cases[i].expected)
            fail_msg("%s: not %d", cases[i].name, (int)cases[i].expected);
    }
}

static void test_only_its_own_lost_attempt_is_revived(void **state)
{
    (void)state;
    assert_true(attempt_revivable(OUTCOME_lost, 4, 4));
    assert_false(attempt_revivable(OUTCOME_lost, 4, 5));
    assert_false(attempt_revivable(OUTCOME_done, 4, 4));
    assert_false(attempt_revivable(OUTCOME_none, 4, 4));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lease_lapses_at_its_deadline),
        cmocka_unit_test(test_silence_begins_after_a_whole_lease),
        cmocka_unit_test(test_only_a_larger_number_overtakes_a_poll),
        cmocka_unit_test(test_what_a_grant_means_that_a_poll_does_not_name),
        cmocka_unit_test(test_what_a_late_renewal_means),
        cmocka_unit_test(test_only_its_own_lost_attempt_is_revived),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
