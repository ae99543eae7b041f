/* when: tables of texts, and the C library's calendar as the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/when.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

static const int64_t last_ms = INT64_C(253402300799999);

static void times_agree_with_the_c_library(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 41);
    for (int i = 0; i < 50000; i++) {
        int64_t ms = i == 0 ? 0 : i == 1 ? last_ms : (int64_t)rng_below(&rng, (uint64_t)last_ms + 1);
        if (i % 3 == 2) {
            ms = ms / 86400000 * 86400000; /* midnights, where days turn */
        }
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;
        char date[32], want[64];
        assert_non_null(gmtime_r(&seconds, &tm));
        assert_true(strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm) > 0);
        snprintf(want, sizeof want, "%s.%03dZ", date, (int)(ms % 1000));
        struct when_text text = when_format(ms);
        assert_string_equal(text.z, want);
        int64_t back = -1;
        assert_true(when_parse(str_of(text.z), &back));
        assert_true(back == ms);
    }
    assert_string_equal(when_format(-5).z, "1970-01-01T00:00:00.000Z");
    assert_string_equal(when_format(INT64_MAX).z, "9999-12-31T23:59:59.999Z");
}

static void times_are_read_with_any_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "1970-01-01t00:00:01z", 1000 },
        { "1970-01-01 00:00:01Z", 1000 },
        { "2026-11-15T05:46:00.123Z", INT64_C(1794721560123) },
        { "2026-11-15T06:46:00.123+01:00", INT64_C(1794721560123) },
        { "2026-11-14T23:46:00.123-06:00", INT64_C(1794721560123) },
        { "2026-11-15T05:46:00.123456789-00:00", INT64_C(1794721560123) },
        { "2026-11-15T05:46:00.1Z", INT64_C(1794721560100) },
        { "2024-02-29T00:00:00Z", INT64_C(1709164800000) },
        { "2016-12-31T23:59:60Z", INT64_C(1483228800000) },
        { "1969-12-31T23:00:00-01:00", -1 }, /* the year is out of range, though the moment isn't */
        { "1970-01-01T00:00:00+01:00", -1 },
        { "9999-12-31T23:59:59-01:00", -1 },
        { "2023-02-29T00:00:00Z", -1 },
        { "2100-02-29T00:00:00Z", -1 },
        { "2026-00-15T05:46:00Z", -1 },
        { "2026-13-15T05:46:00Z", -1 },
        { "2026-11-00T05:46:00Z", -1 },
        { "2026-11-31T05:46:00Z", -1 },
        { "2026-11-15T24:00:00Z", -1 },
        { "2026-11-15T05:60:00Z", -1 },
        { "2026-11-15T05:46:61Z", -1 },
        { "2026-11-15T05:46:00", -1 },
        { "2026-11-15T05:46:00.Z", -1 },
        { "2026-11-15T05:46Z", -1 },
        { "2026-11-15", -1 },
        { "2026-11-15T05:46:00+24:00", -1 },
        { "2026-11-15T05:46:00+01:60", -1 },
        { "2026-11-15T05:46:00+0100", -1 },
        { "2026-11-15T05:46:00Zx", -1 },
        { " 2026-11-15T05:46:00Z", -1 },
        { "2026-1-15T05:46:00Z", -1 },
        { "+026-11-15T05:46:00Z", -1 },
        { "tomorrow", -1 },
        { "", -1 },
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        int64_t ms = -1;
        if (when_parse(str_of(cases[i].text), &ms) != (cases[i].ms >= 0) || ms != cases[i].ms) {
            fail_msg("'%s' gives %lld", cases[i].text, (long long)ms);
        }
    }
    int64_t ms = 7;
    assert_false(when_parse((struct str){ "2026\0"
                                          "11-15T05:46:00Z",
                                20 },
        &ms));
    assert_true(ms == 7);
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        { "250ms", 250 },
        { "90s", 90000 },
        { "15m", 900000 },
        { "2h", 7200000 },
        { "7d", 604800000 },
        { "0s", 0 },
        { "1h30m", 5400000 },
        { "1d2h3m4s5ms", 93784005 },
        { "007s", 7000 },
        { "1s500ms", 1500 },
        { "106751991167d", INT64_C(9223372036828800000) },
        { "106751991168d", -1 },
        { "9223372036854775807ms", INT64_MAX },
        { "9223372036854775808ms", -1 },
        { "18446744073709551615d", -1 },
        { "", -1 },
        { "90", -1 },
        { "s", -1 },
        { "90 s", -1 },
        { " 90s", -1 },
        { "90s ", -1 },
        { "-90s", -1 },
        { "+90s", -1 },
        { "1.5h", -1 },
        { "90S", -1 },
        { "90sec", -1 },
        { "30m1h", -1 },
        { "1h1h", -1 },
        { "1w", -1 },
        { "1h30", -1 },
        { "1e3s", -1 },
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        int64_t ms = -1;
        if (duration_parse(str_of(cases[i].text), &ms) != (cases[i].ms >= 0) || ms != cases[i].ms) {
            fail_msg("'%s' gives %lld", cases[i].text, (long long)ms);
        }
    }
}

static void durations_are_shown(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *exact, *human;
    } cases[] = {
        { 0, "0s", "0ms" },
        { 340, "340ms", "340ms" },
        { 1000, "1s", "1s" },
        { 1500, "1500ms", "1.5s" },
        { 1049, "1049ms", "1s" },
        { 12700, "12700ms", "12s" },
        { 90000, "90s", "1m 30s" },
        { 900000, "15m", "15m" },
        { 7500000, "125m", "2h 5m" },
        { 86400000, "1d", "1d" },
        { 90000000, "25h", "1d 1h" },
        { 86460000, "1441m", "1d" },
        { -1, "0s", "0ms" },
        { INT64_MAX, "9223372036854775807ms", "106751991167d 7h" },
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_string_equal(duration_format(cases[i].ms).z, cases[i].exact);
        assert_string_equal(duration_human(cases[i].ms).z, cases[i].human);
    }
}

static void durations_and_sizes_come_back(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 42);
    for (int i = 0; i < 50000; i++) {
        uint64_t n = rng_u64(&rng) >> (1 + rng_below(&rng, 62));
        n -= rng_below(&rng, 2) ? n % 60000 : 0;
        int64_t ms = -1;
        uint64_t bytes = 1;
        assert_true(duration_parse(str_of(duration_format((int64_t)n).z), &ms));
        assert_true(ms == (int64_t)n);
        n = rng_below(&rng, 2) ? n & ~UINT64_C(0xfffff) : n;
        assert_true(size_parse(str_of(size_format(n).z), &bytes));
        assert_true(bytes == n);
    }
}

static void sizes_are_read_and_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t bytes;
        const char *shown;
    } cases[] = {
        { "512B", true, 512, "512B" },
        { "64KiB", true, 65536, "64KiB" },
        { "10MiB", true, 10485760, "10MiB" },
        { "1GiB", true, 1073741824, "1GiB" },
        { "2TiB", true, UINT64_C(2) << 40, "2TiB" },
        { "1024KiB", true, 1048576, "1MiB" },
        { "1000B", true, 1000, "1000B" },
        { "0B", true, 0, "0B" },
        { "18446744073709551615B", true, UINT64_MAX, "18446744073709551615B" },
        { "16777216TiB", false, 0, NULL },
        { "10", false, 0, NULL },
        { "10MB", false, 0, NULL },
        { "10mib", false, 0, NULL },
        { "10 MiB", false, 0, NULL },
        { "1MiB1KiB", false, 0, NULL },
        { "-1B", false, 0, NULL },
        { "", false, 0, NULL },
        { "1.5MiB", false, 0, NULL },
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        uint64_t bytes = 42;
        assert_int_equal(size_parse(str_of(cases[i].text), &bytes), cases[i].ok);
        assert_true(bytes == (cases[i].ok ? cases[i].bytes : 42));
        if (cases[i].ok) {
            assert_string_equal(size_format(bytes).z, cases[i].shown);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_agree_with_the_c_library),
        cmocka_unit_test(times_are_read_with_any_offset),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(durations_are_shown),
        cmocka_unit_test(durations_and_sizes_come_back),
        cmocka_unit_test(sizes_are_read_and_shown),
    };
    return cmocka_run_group_tests_name("base/when", tests, NULL, NULL);
}
