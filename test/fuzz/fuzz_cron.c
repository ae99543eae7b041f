/* Cron lines: any text is read or refused with a place inside it; what is read fires when a walk over every minute says
 * so, later and later. */
#include "fuzz.h"
#include "text/cron.h"

#define SHAPES(X) \
    X(accepted) X(refused) X(fires) X(names_hours) X(rhythm) X(days_or_weekdays) X(hashed) X(timezone_changes)
FUZZ_SHAPES(SHAPES)

enum { WALK_MINUTES = 3 * 24 * 60, FIRINGS = 5 };

/* A timezone with a change of the clock at CHANGE_S: an hour forward, an hour back, or none. */
#define CHANGE_S INT64_C(1700000000)
struct fuzz_timezone {
    struct time_zone tz; /* first */
    int64_t before, after;
};

static int64_t offset_at(const struct time_zone *tz, int64_t utc_s, int64_t *out_until_s)
{
    const struct fuzz_timezone *z = (const struct fuzz_timezone *)(const void *)tz;
    *out_until_s = utc_s < CHANGE_S ? CHANGE_S : TIMEZONE_FOREVER;
    return utc_s < CHANGE_S ? z->before : z->after;
}

static bool day_matches(const struct cron *cron, int64_t local_s)
{
    int64_t days = local_s / 86400 - (local_s % 86400 < 0), year;
    unsigned month, day, weekday = (unsigned)(((days + 4) % 7 + 7) % 7);
    civil_of(days, &year, &month, &day);
    bool by_day = cron->days >> day & 1, by_weekday = cron->weekdays >> weekday & 1;
    bool either = cron->any_day || cron->any_weekday ? by_day && by_weekday : by_day || by_weekday;
    return cron->months >> month & 1 && either;
}

/* The same question as cron_matches, answered field by field. */
static bool naive_matches(const struct cron *cron, int64_t local_s)
{
    int64_t second = (local_s % 86400 + 86400) % 86400;
    return cron->minutes >> (second / 60 % 60) & 1 && cron->hours >> (second / 3600) & 1 && day_matches(cron, local_s);
}

static void firings_check(const struct cron *cron, const struct time_zone *tz, int64_t from, bool plain)
{
    int64_t at = from, next;
    for (int i = 0; i < FIRINGS; i++) {
        bool fires = cron_next(cron, tz, at, &next);
        int64_t walked = 0;
        for (int64_t s = at - (at % 60 + 60) % 60 + 60; plain && s <= at + WALK_MINUTES * INT64_C(60) && !walked;
             s += 60)
            if (naive_matches(cron, s))
                walked = s;
        HOLDS(!walked || (fires && next == walked)); /* in UTC, where nothing is skipped or doubled */
        HOLDS(!plain || walked || !fires || next > at + WALK_MINUTES * INT64_C(60));
        if (!fires)
            return;
        SEEN(fires);
        HOLDS(next > at && next % 60 == 0);
        int64_t until;
        bool near_change = next >= CHANGE_S && next < CHANGE_S + 7200; /* what was skipped fires behind the gap */
        HOLDS(near_change || cron_matches(cron, tz, next));
        HOLDS(cron_matches(cron, tz, next) == naive_matches(cron, next + tz->offset_at(tz, next, &until)));
        at = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str rest = { (const char *)bytes, len };
    unsigned timezone_kind = take_byte(&rest) % 3, hours = take_u16(&rest);
    struct cron cron, again, other;
    struct cron_fault fault = { .at = SIZE_MAX };
    if (!cron_parse(rest, STR("key"), &cron, &fault)) {
        SEEN(refused);
        HOLDS(fault.at <= rest.len && fault.text[0] && memchr(fault.text, '\0', sizeof fault.text));
        return 0;
    }
    SEEN(accepted);
    HOLDS(cron.minutes && cron.hours && cron.days && cron.months && cron.weekdays);
    HOLDS(!(cron.minutes >> 60) && !(cron.hours >> 24) && !(cron.days & 1));
    HOLDS(!(cron.months & 1) && !(cron.months >> 13) && !(cron.weekdays >> 7));
    HOLDS(cron_parse(rest, STR("key"), &again, &fault) &&
          memcmp(&again.minutes, &cron.minutes, sizeof cron.minutes) == 0);
    HOLDS(again.hours == cron.hours && again.days == cron.days && again.months == cron.months &&
          again.weekdays == cron.weekdays);
    if (cron_parse(rest, STR("another key"), &other, &fault))
        SEEN_IF(hashed, other.minutes != cron.minutes || other.hours != cron.hours);
    SEEN_IF(rhythm, cron.hours == 0xffffff);
    SEEN_IF(names_hours, cron.hours != 0xffffff);
    SEEN_IF(days_or_weekdays, !cron.any_day && !cron.any_weekday);
    SEEN_IF(timezone_changes, timezone_kind > 0);
    static const int64_t after[] = { 3600, 7200, 0 };
    struct fuzz_timezone tz = { { offset_at }, 3600, after[timezone_kind] };
    int64_t from = CHANGE_S - 86400 + hours * INT64_C(97);
    firings_check(&cron, &timezone_utc, from, true);
    firings_check(&cron, &tz.tz, from, false);
    return 0;
}
