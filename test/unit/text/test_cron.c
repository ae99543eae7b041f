/* Patterns of minutes: what is read, what is refused and where, and when they fire: against a walk over every minute of
 * years, with clocks that change in every way that has happened somewhere. */
#include "check.h"

#include "base/rng.h"
#include "base/when.h"
#include "text/cron.h"

static struct cron cron_of(const char *text)
{
    struct cron cron = { 0 };
    struct cron_fault fault = { 0 };
    struct str copy = exact(str_of(text));
    if (!cron_parse(copy, STR("docs:nightly"), &cron, &fault))
        fail_msg("%s: %zu: %s", text, fault.at, fault.text);
    exact_free(copy);
    return cron;
}

static void check_refused(const char *text, size_t at, const char *wanted)
{
    struct cron cron = { 0 };
    struct cron_fault fault = { 0 };
    struct str copy = exact(str_of(text));
    if (cron_parse(copy, STR("k"), &cron, &fault))
        fail_msg("accepted: %s", text);
    exact_free(copy);
    check_str(str_of(fault.text), wanted);
    assert_int_equal(fault.at, at);
}

static void test_what_is_refused_and_where(void **state)
{
    (void)state;
    check_refused("", 0, "there are 0 fields, not 5 (minute hour day month weekday)");
    check_refused("* * * *", 7, "there are 4 fields, not 5 (minute hour day month weekday)");
    check_refused("* * * * * *", 10, "there are more than 5 fields (minute hour day month weekday)");
    check_refused("60 * * * *", 0, "the minute must be from 0 to 59, not 60");
    check_refused("0 24 * * *", 2, "the hour must be from 0 to 23, not 24");
    check_refused("0 0 0 * *", 4, "the day must be from 1 to 31, not 0");
    check_refused("0 0 * 13 *", 6, "the month must be from 1 to 12, not 13");
    check_refused("0 0 * * 8", 8, "the weekday must be from 0 to 7, not 8");
    check_refused("0 0 * FOO *", 6, "'FOO' is no month");
    check_refused("0 0 * * mo", 8, "'mo' is no weekday");
    check_refused("5-1 * * * *", 0, "the range of the minute goes backwards");
    check_refused("*/0 * * * *", 2, "the step of the minute must be from 1 to 59");
    check_refused("*/ * * * *", 2, "the step of the minute must be from 1 to 59");
    check_refused("1, * * * *", 2, "the minute is missing a value");
    check_refused("1-,2 * * * *", 2, "the minute is missing a value");
    check_refused("H(1-5 * * * *", 5, "')' is missing after H(");
    check_refused("1x * * * *", 1, "'x' doesn't belong into the minute");
    check_refused("0 0 30 2 *", 0, "there is no such date in any year");
    check_refused("0 0 31 FEB,apr *", 0, "there is no such date in any year");
    check_refused("@daily", 0, "the minute is missing a value");
    check_refused("-1 * * * *", 0, "the minute is missing a value");
    check_refused("99999999999 * * * *", 0, "the minute must be from 0 to 59, not 9999");
}

static void check_sets(
    const char *text, uint64_t minutes, uint32_t hours, uint32_t days, uint32_t months, uint32_t weekdays)
{
    struct cron cron = cron_of(text);
    assert_int_equal(cron.minutes, minutes);
    assert_int_equal(cron.hours, hours);
    assert_int_equal(cron.days, days);
    assert_int_equal(cron.months, months);
    assert_int_equal(cron.weekdays, weekdays);
}

static void test_what_the_fields_mean(void **state)
{
    (void)state;
    const uint64_t minutes = (UINT64_C(1) << 60) - 1;
    const uint32_t hours = (1u << 24) - 1, days = 0xfffffffe, months = 0x1ffe, weekdays = 0x7f;
    check_sets("* * * * *", minutes, hours, days, months, weekdays);
    check_sets(" ?\t? ? ? ? ", minutes, hours, days, months, weekdays);
    check_sets("0,5-7,50/5 1 2 3 4", 1 | 7 << 5 | UINT64_C(1) << 50 | UINT64_C(1) << 55, 2, 4, 8, 16);
    check_sets("*/20 */12 */15 */6 */3", UINT64_C(1) | 1 << 20 | UINT64_C(1) << 40, 1 | 1 << 12, 2 | 1 << 16 | 1u << 31,
        2 | 1 << 7, 1 | 8 | 64);
    check_sets("0 0 * jan,Dec SUN-tue", 1, 1, days, 2 | 1 << 12, 7);
    check_sets("0 0 * jan 7/2", 1, 1, days, 2, 1 | 4 | 16 | 64); /* found by the fuzzer: no day at all */
    check_sets("0 0 * * 5-7", 1, 1, days, months, 1 << 5 | 1 << 6 | 1);
    check_sets("0 0 * * 7", 1, 1, days, months, 1);
}

static unsigned bits_of(uint64_t bits)
{
    unsigned n = 0;
    for (; bits != 0; bits &= bits - 1)
        n++;
    return n;
}

static void test_hashed_values(void **state)
{
    (void)state;
    uint64_t seen = 0;
    for (int i = 0; i < 2000; i++) {
        char key[32];
        struct cron a, b, c, d;
        struct cron_fault fault;
        snprintf(key, sizeof key, "task-%d", i);
        assert_true(cron_parse(STR("H H H H H"), str_of(key), &a, &fault));
        assert_true(cron_parse(STR("H H H H H"), str_of(key), &b, &fault));
        assert_memory_equal(&a.minutes, &b.minutes, sizeof a.minutes);
        assert_true(bits_of(a.minutes) == 1 && bits_of(a.hours) == 1 && bits_of(a.days) == 1 &&
                    bits_of(a.months) == 1 && bits_of(a.weekdays) == 1);
        assert_int_equal(a.days & 0xe0000001u, 0); /* 1 to 28 */
        seen |= a.minutes;
        assert_true(cron_parse(STR("H(0-29)/10 H(8-17) * * H(1-5)"), str_of(key), &c, &fault));
        assert_int_equal(bits_of(c.minutes), 3);
        assert_int_equal(c.minutes >> 30, 0);
        assert_int_equal(c.hours & ~(((1u << 10) - 1) << 8), 0);
        assert_int_equal(c.weekdays & ~0x3eu, 0);
        assert_true(cron_parse(STR("H/15 * * * *"), str_of(key), &d, &fault));
        assert_int_equal(bits_of(d.minutes), 4);
    }
    assert_int_equal(seen, (UINT64_C(1) << 60) - 1); /* spread over the hour */
}

/* A timezone of the test's own: offsets that change at given times. */
struct steps {
    struct time_zone tz;
    size_t n;
    int64_t times[8], offsets[9];
};

static int64_t steps_offset_at(const struct time_zone *tz, int64_t utc_s, int64_t *out_until_s)
{
    const struct steps *steps = (const struct steps *)(const void *)tz;
    size_t i = 0;
    while (i < steps->n && steps->times[i] <= utc_s)
        i++;
    *out_until_s = i < steps->n ? steps->times[i] : TIMEZONE_FOREVER;
    return steps->offsets[i];
}

static int64_t at(const char *text)
{
    int64_t ms;
    assert_true(when_parse(str_of(text), &ms));
    return ms / 1000;
}

static void check_next(const char *pattern, const struct time_zone *tz, const char *after, const char *wanted)
{
    struct cron cron = cron_of(pattern);
    int64_t found;
    assert_true(cron_next(&cron, tz, at(after), &found));
    check_str(str_of(when_format(found * 1000).z), wanted);
}

static void test_next_in_utc(void **state)
{
    (void)state;
    check_next("* * * * *", &timezone_utc, "2026-01-01T00:00:00Z", "2026-01-01T00:01:00.000Z");
    check_next("* * * * *", &timezone_utc, "2026-01-01T00:00:59Z", "2026-01-01T00:01:00.000Z");
    check_next("0 0 29 2 *", &timezone_utc, "2026-01-01T00:00:00Z", "2028-02-29T00:00:00.000Z");
    check_next("0 0 29 2 *", &timezone_utc, "2096-03-01T00:00:00Z", "2104-02-29T00:00:00.000Z");
    check_next("0 12 13 * FRI", &timezone_utc, "2026-01-01T00:00:00Z", "2026-01-02T12:00:00.000Z"); /* either */
    check_next("0 12 13 * ?", &timezone_utc, "2026-01-01T00:00:00Z", "2026-01-13T12:00:00.000Z");
    check_next("59 23 31 12 *", &timezone_utc, "2026-12-31T23:59:00Z", "2027-12-31T23:59:00.000Z");
    check_next("0 3 * * *", &timezone_utc, "1970-01-01T03:00:00Z", "1970-01-02T03:00:00.000Z");
}

/* Berlin in 2026: forward at 01:00 UTC on 29 March (02:00 becomes 03:00), back at 01:00 UTC on 25 October (03:00
 * becomes 02:00). */
static struct steps berlin(void)
{
    struct steps steps = { { steps_offset_at }, 2, { at("2026-03-29T01:00:00Z"), at("2026-10-25T01:00:00Z") },
        { 3600, 7200, 3600 } };
    return steps;
}

static void test_the_clock_goes_forward(void **state)
{
    (void)state;
    struct steps tz = berlin();
    /* 02:30 doesn't exist: 03:00 */
    check_next("30 2 * * *", &tz.tz, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00.000Z");
    check_next("30 2 * * *", &tz.tz, "2026-03-29T01:00:00Z", "2026-03-30T00:30:00.000Z");
    check_next("*/10 2 * * *", &tz.tz, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00.000Z"); /* six slots, once */
    check_next("*/10 2 * * *", &tz.tz, "2026-03-29T01:00:00Z", "2026-03-30T00:00:00.000Z");
    check_next("30 2,3 * * *", &tz.tz, "2026-03-29T01:00:00Z", "2026-03-29T01:30:00.000Z");
    check_next("0 3 * * *", &tz.tz, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00.000Z");
    /* both slots at 03:00: once */
    check_next("0 2,3 * * *", &tz.tz, "2026-03-29T01:00:00Z", "2026-03-30T00:00:00.000Z");
    /* a rhythm: nothing is made up for */
    check_next("15 * * * *", &tz.tz, "2026-03-29T00:15:00Z", "2026-03-29T01:15:00.000Z");
}

static void test_the_clock_goes_back(void **state)
{
    (void)state;
    struct steps tz = berlin();
    check_next("30 2 * * *", &tz.tz, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00.000Z");
    /* not at 01:30 UTC again */
    check_next("30 2 * * *", &tz.tz, "2026-10-25T00:30:00Z", "2026-10-26T01:30:00.000Z");
    check_next("30 2,3 * * *", &tz.tz, "2026-10-25T00:30:00Z", "2026-10-25T02:30:00.000Z");
    /* a rhythm: both passes */
    check_next("15 * * * *", &tz.tz, "2026-10-25T00:15:00Z", "2026-10-25T01:15:00.000Z");
    /* a window is open in both */
    struct cron cron = cron_of("* 2 * * *");
    assert_true(cron_matches(&cron, &tz.tz, at("2026-10-25T00:30:00Z")));
    assert_true(cron_matches(&cron, &tz.tz, at("2026-10-25T01:30:00Z")));
    assert_false(cron_matches(&cron, &tz.tz, at("2026-10-25T02:00:00Z")));
}

/* walk: every minute of the span in order; the definition of cron.h, word by word. */
static void walk(const char *pattern, const struct time_zone *tz, int64_t from, int64_t to)
{
    struct cron cron = cron_of(pattern);
    bool rhythm = (cron.hours & 0xffffff) == 0xffffff;
    int64_t high = INT64_MIN, next = 0, fired = 0, until, last = from;
    bool has_next = false;
    for (int64_t t = from - 4 * 86400; t < to; t += 60) {
        int64_t local = t + tz->offset_at(tz, t, &until);
        bool fires = false;
        for (int64_t l = high == INT64_MIN || rhythm || local < high ? local : high;
             l <= local && (rhythm || local >= high); l += 60) {
            /* matches() of the wall-clock minute l, asked of a clock that shows it */
            fires = fires || cron_matches(&cron, &timezone_utc, l);
        }
        if (local + 60 > high)
            high = local + 60;
        if (t <= from)
            continue;
        if (!has_next) {
            assert_true(cron_next(&cron, tz, last, &next));
            has_next = true;
        }
        if (fires != (t == next))
            fail_msg("%s at %s: %s, but next after %s is %s", pattern, when_format(t * 1000).z,
                fires ? "fires" : "doesn't fire", when_format(last * 1000).z, when_format(next * 1000).z);
        if (fires) {
            last = t;
            has_next = false;
            fired++;
        }
    }
    if (fired == 0)
        fail_msg("%s never fired", pattern);
}

static const char *const patterns[] = { "* * * * *", "30 2 * * *", "0,30 1-3 * * *", "*/7 */5 * * 1-5",
    "H H(0-5) * * *", "59 23 31 * *", "0 0 1 1,7 MON", "15 * * * SUN", "* 1-2 * 3,10,11 *", "0 0 * * *" };

static void test_equals_a_walk_over_every_minute(void **state)
{
    (void)state;
    int64_t from = at("2026-01-01T00:00:00Z"), year = (int64_t)366 * 86400;
    struct steps tz = berlin();
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        walk(patterns[i], &timezone_utc, from, from + 2 * year);
        walk(patterns[i], &tz.tz, from, from + year);
    }
}

/* Clocks that jump by anything up to a day, several times a week: worse than history. */
static void test_wild_clocks(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 11);
    int64_t from = at("2026-03-01T00:00:00Z");
    for (int round = 0; round < 60; round++) {
        struct steps tz = { .tz = { steps_offset_at }, .n = 8 };
        for (size_t i = 0; i < 9; i++)
            tz.offsets[i] = ((int64_t)rng_below(&rng, 96) - 48) * 900;
        for (size_t i = 0; i < 8; i++)
            tz.times[i] = (i == 0 ? from : tz.times[i - 1]) + 60 * (int64_t)(1 + rng_below(&rng, 5 * 1440));
        walk(patterns[1 + rng_below(&rng, 4)], &tz.tz, from, from + 60 * 86400);
    }
}

static void test_the_calendar(void **state)
{
    (void)state;
    int64_t days = civil_days(1600, 1, 1);
    int64_t year;
    unsigned month, day;
    for (int64_t i = 0; i < 800 * 365; i++) {
        civil_of(days + i, &year, &month, &day);
        assert_int_equal(civil_days(year, month, day), days + i);
    }
    assert_int_equal(civil_days(1970, 1, 1), 0);
    assert_int_equal(civil_days(2026, 11, 15), 20772);
}

static void test_bytes_that_are_no_timezone(void **state)
{
    (void)state;
    static const char good[] = "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\1"
                               "\0\0\0\4"
                               "\0\0\0\0\0\0UTC\0"
                               "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\0"
                               "\0\0\0\1"
                               "\0\0\0\4"
                               "\0\0\0\0\0\0UTC\0"
                               "\n<+0330>-3:30<+0430>,J79/24,J263/24\n";
    struct str whole = { good, sizeof good - 1 };
    struct arena arena = { 0 };
    int64_t until;
    const struct time_zone *tz = timezone_parse(whole, &arena);
    assert_non_null(tz);
    assert_int_equal(tz->offset_at(tz, at("2026-01-10T00:00:00Z"), &until), 12600);
    assert_int_equal(until, at("2026-03-20T20:30:00Z")); /* the end of the day, local */
    assert_int_equal(tz->offset_at(tz, until, &until), 16200);
    for (size_t len = 0; len < whole.len; len++) {
        struct str cut = exact(str_sub(whole, 0, len));
        assert_null(timezone_parse(cut, &arena));
        exact_free(cut);
    }
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        char bytes[sizeof good - 1];
        memcpy(bytes, good, sizeof bytes);
        for (int k = 0; k < 3; k++)
            bytes[rng_below(&rng, sizeof bytes)] = (char)rng_u64(&rng);
        struct str copy = exact((struct str){ bytes, sizeof bytes });
        tz = timezone_parse(copy, &arena);
        if (tz != NULL)
            tz->offset_at(tz, (int64_t)rng_below(&rng, 4102444800), &until);
        exact_free(copy);
        arena_reset(&arena);
    }
    assert_true(
        timezone_name_is_valid(STR("America/Argentina/Buenos_Aires")) && timezone_name_is_valid(STR("Etc/GMT+5")));
    static const char *const bad[] = { "", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".hidden", "a b", "a\nb",
        "a/.b" };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(timezone_name_is_valid(str_of(bad[i])));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_refused_and_where),
        cmocka_unit_test(test_what_the_fields_mean),
        cmocka_unit_test(test_hashed_values),
        cmocka_unit_test(test_next_in_utc),
        cmocka_unit_test(test_the_clock_goes_forward),
        cmocka_unit_test(test_the_clock_goes_back),
        cmocka_unit_test(test_equals_a_walk_over_every_minute),
        cmocka_unit_test(test_wild_clocks),
        cmocka_unit_test(test_the_calendar),
        cmocka_unit_test(test_bytes_that_are_no_timezone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
