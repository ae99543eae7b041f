/* What is believed of the wall clock, as a table of looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/wall.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define YEAR (366 * DAY)
#define NOW INT64_C(1800000000000)

/* A look an hour, for so many hours, with a wall clock that is `off` from the truth. */
static struct wall_known hours(struct wall_known known, int64_t *truth, int64_t off, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        *truth += HOUR;
        known = wall_next(&known, HOUR, *truth + off);
    }
    return known;
}

static void test_a_clock_that_agrees_is_taken_over(void **state)
{
    (void)state;
    static const int64_t offs[] = { 0, 1000, -1000, DAY, -DAY };
    for (size_t i = 0; i < sizeof offs / sizeof *offs; i++) {
        struct wall_known known = { .time = NOW };
        assert_true(wall_agrees(&known, HOUR, NOW + HOUR + offs[i]));
        assert_int_equal(wall_past(&known, HOUR, NOW + HOUR + offs[i]), NOW + HOUR + offs[i]);
        known = wall_next(&known, HOUR, NOW + HOUR + offs[i]);
        assert_int_equal(known.time, NOW + HOUR + offs[i]);
        assert_int_equal(known.seen, 0);
    }
}

static void test_a_jump_is_in_doubt_for_a_day_of_running(void **state)
{
    (void)state;
    for (int64_t off = -YEAR; off <= YEAR; off += 2 * YEAR) {
        int64_t truth = NOW;
        struct wall_known known = hours((struct wall_known){ .time = NOW }, &truth, off, 23);
        assert_false(wall_agrees(&known, 0, truth + off));
        assert_int_equal(wall_past(&known, 0, truth + off), off < 0 ? truth + off : truth); /* the earlier */
        assert_int_equal(wall_late(&known, 0, truth + off), off < 0 ? truth : truth + off); /* the later */
        struct wall_known back = wall_next(&known, HOUR, truth + HOUR);
        assert_true(back.time == truth + HOUR && back.seen == 0 && back.ran == 0);
        known = hours(known, &truth, off, 2);
        assert_true(wall_agrees(&known, 0, truth + off));
        assert_int_equal(wall_past(&known, 0, truth + off), truth + off);
    }
}

static void test_a_further_jump_counts_from_the_beginning(void **state)
{
    (void)state;
    int64_t truth = NOW;
    struct wall_known known = hours((struct wall_known){ .time = NOW }, &truth, YEAR, 20);
    known = hours(known, &truth, 3 * YEAR, 20);
    assert_int_equal(wall_past(&known, 0, truth + 3 * YEAR), truth);
    known = hours(known, &truth, 2 * YEAR, 20);
    assert_int_equal(wall_past(&known, 0, truth + 2 * YEAR), truth);
}

/* How long nobody ran isn't known: the time that passed by the boot clock of each life counts. */
static void test_the_doubt_outlives_restarts_and_ends(void **state)
{
    (void)state;
    int64_t truth = NOW;
    struct wall_known known = { .time = NOW };
    int lives = 0;
    for (; lives < 20 && !wall_agrees(&known, 0, truth + YEAR); lives++) {
        known = wall_next(&known, 0, truth + YEAR); /* a start */
        known = hours(known, &truth, YEAR, 6);
        truth += 5 * DAY; /* off */
    }
    assert_int_equal(lives, 20); /* off for five days each time: there is always a new doubt, */
    known = wall_next(&known, 0, truth + YEAR);
    known = hours(known, &truth, YEAR, 25);
    assert_true(wall_agrees(&known, 0, truth + YEAR)); /* which a day of running ends */
}

static void test_nothing_known_is_no_doubt(void **state)
{
    (void)state;
    struct wall_known none = { 0 };
    assert_true(wall_agrees(&none, 0, 5));
    assert_int_equal(wall_next(&none, 0, NOW).time, NOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clock_that_agrees_is_taken_over),
        cmocka_unit_test(test_a_jump_is_in_doubt_for_a_day_of_running),
        cmocka_unit_test(test_a_further_jump_counts_from_the_beginning),
        cmocka_unit_test(test_the_doubt_outlives_restarts_and_ends),
        cmocka_unit_test(test_nothing_known_is_no_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
