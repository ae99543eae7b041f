/* Every timezone of the machine's tz database against the C library, which reads the same files with other code; and
 * schedules in them against a walk over every minute. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "io/timezone.h"
#include "text/cron.h"

#define FOLDER "/usr/share/zoneinfo"

static struct arena names_arena;
static struct str *names;
static size_t n_names, cap_names;

static void names_collect(const char *below)
{
    struct str path = str_fmt(&names_arena, FOLDER "/%s", below);
    DIR *folder = opendir(str_dupz(&names_arena, path));
    if (folder == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct str name = str_fmt(&names_arena, "%s%s%s", below, *below ? "/" : "", entry->d_name);
        struct stat st;
        if (!timezone_name_is_valid(name) || str_eqz(name, "posix") || str_eqz(name, "right"))
            continue;
        const char *whole = str_dupz(&names_arena, str_fmt(&names_arena, FOLDER "/%.*s", STR_ARG(name)));
        if (stat(whole, &st) != 0)
            continue;
        char head[4] = "";
        FILE *file = S_ISREG(st.st_mode) ? fopen(whole, "r") : NULL;
        if (S_ISDIR(st.st_mode))
            names_collect(str_dupz(&names_arena, name));
        else if (file != NULL && fread(head, 1, 4, file) == 4 && memcmp(head, "TZif", 4) == 0)
            *ARENA_PUSH(&names_arena, names, n_names, cap_names) = name;
        if (file != NULL)
            fclose(file);
    }
    closedir(folder);
}

static void timezone_set(struct str name)
{
    struct arena arena = { 0 };
    setenv("TZ", str_dupz(&arena, str_fmt(&arena, ":%.*s", STR_ARG(name))), 1);
    tzset();
    arena_release(&arena);
}

static int64_t libc_offset(int64_t utc_s)
{
    time_t t = (time_t)utc_s;
    struct tm tm;
    assert_non_null(localtime_r(&t, &tm));
    return (int64_t)tm.tm_gmtoff;
}

static void test_all_timezones_equal_the_c_library(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 17);
    size_t changes = 0;
    if (n_names == 0)
        fail_msg("there is no tz database in " FOLDER ": tools/setup installs tzdata");
    for (size_t i = 0; i < n_names; i++) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        const struct time_zone *tz;
        if (!timezone_load(FOLDER, names[i], &arena, &tz, &err))
            fail_msg("%.*s: %s", STR_ARG(names[i]), err.text);
        timezone_set(names[i]);
        /* every change from 1901 to 2100, from both sides, and points between */
        int64_t t = -2177452800, end = 4102444800;
        while (t < end) {
            int64_t until, offset = tz->offset_at(tz, t, &until);
            int64_t stop = until < end ? until : end, middle = t + (int64_t)rng_below(&rng, (uint64_t)(stop - t));
            if (offset != libc_offset(t) || offset != libc_offset(stop - 1) || offset != libc_offset(middle))
                fail_msg("%.*s: %lld to %lld: %lld, but the C library says %lld, %lld, %lld", STR_ARG(names[i]),
                    (long long)t, (long long)stop, (long long)offset, (long long)libc_offset(t),
                    (long long)libc_offset(middle), (long long)libc_offset(stop - 1));
            t = stop;
            changes++;
        }
        arena_release(&arena);
    }
    print_message("%zu timezones, %zu pieces\n", n_names, changes);
    assert_true(n_names > 300 && changes > 10000);
}

/* schedule_walk: the definition in cron.h over wall-clock times that the C library tells. */
static size_t schedule_walk(const struct time_zone *tz, const struct cron *cron, int64_t from, int64_t to)
{
    int64_t high = from - 86400 * 3 + libc_offset(from - 86400 * 3), next = 0;
    size_t fired = 0;
    assert_true(cron_next(cron, tz, from, &next));
    for (int64_t t = from - 86400 * 3; t < to; t += 60) {
        int64_t local = t + libc_offset(t);
        bool fires = false;
        for (int64_t l = high; l <= local; l += 60)
            fires = fires || cron_matches(cron, &timezone_utc, l);
        if (local + 60 > high)
            high = local + 60;
        if (t <= from)
            continue;
        if (fires != (t == next))
            return SIZE_MAX;
        if (fires) {
            fired++;
            assert_true(cron_next(cron, tz, t, &next));
        }
    }
    return fired;
}

static void test_schedules_in_timezones_that_changed_much(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t from;
    } places[] = {
        { "Europe/Berlin", 1767225600 },                                           /* 2026 */
        { "America/New_York", 1767225600 }, { "Australia/Lord_Howe", 1767225600 }, /* half an hour */
        { "Pacific/Apia", 1322697600 },                                            /* 30 December 2011 never was */
        { "Africa/Casablanca", 1767225600 },                                       /* back and forth around Ramadan */
        { "Asia/Pyongyang", 1420070400 },                                          /* half an hour for good */
        { "Pacific/Kwajalein", 744768000 },                                        /* a day skipped in August 1993 */
        { "America/Caracas", 1196000000 }, { "Antarctica/Troll", 1767225600 },     /* two hours */
    };
    static const char *const patterns[] = { "30 2 * * *", "*/15 0-4 * * *", "0 0 * * *", "10 12 31 * SAT" };
    if (n_names == 0)
        fail_msg("there is no tz database in " FOLDER ": tools/setup installs tzdata");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        const struct time_zone *tz;
        assert_true(timezone_load(NULL, str_of(places[i].name), &arena, &tz, &err));
        timezone_set(str_of(places[i].name));
        for (size_t k = 0; k < sizeof patterns / sizeof patterns[0]; k++) {
            struct cron cron = { 0 };
            struct cron_fault fault;
            assert_true(cron_parse(str_of(patterns[k]), STR("x"), &cron, &fault));
            size_t fired = schedule_walk(tz, &cron, places[i].from / 60 * 60, places[i].from / 60 * 60 + 86400 * 400);
            if (fired == SIZE_MAX || fired < 50)
                fail_msg("%s in %s: %zd", patterns[k], places[i].name, (ssize_t)fired);
        }
        arena_release(&arena);
    }
}

static void test_what_is_no_timezone(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err = { 0 };
    const struct time_zone *tz = NULL;
    assert_false(timezone_load(NULL, STR("Mars/Olympus"), &arena, &tz, &err));
    assert_int_equal(err.code, ERR_not_found);
    assert_string_equal(err.text, "there is no time zone 'Mars/Olympus'");
    err = (struct err){ 0 };
    assert_false(timezone_load(NULL, STR("../../etc/passwd"), &arena, &tz, &err));
    assert_int_equal(err.code, ERR_invalid);
    err = (struct err){ 0 };
    assert_false(timezone_load("/etc", STR("passwd"), &arena, &tz, &err));
    assert_int_equal(err.code, ERR_corrupt);
    assert_null(tz);
    assert_true(timezone_load("/nonexistent", STR("UTC"), &arena, &tz, &err) && tz == &timezone_utc);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_timezones_equal_the_c_library),
        cmocka_unit_test(test_schedules_in_timezones_that_changed_much),
        cmocka_unit_test(test_what_is_no_timezone),
    };
    names_collect("");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&names_arena);
    return failed;
}
