/* when: times, durations and sizes as text.
 *
 * Owns the tables of units. Promises that what it formats it reads back (times from 1970 to 9999). Readers take the
 * whole string or nothing and say false, without a word about why: the caller knows the field. */
#include "base/when.h"

#include <stdio.h>
#include <string.h>

enum { DAY_MS = 24 * 60 * 60 * 1000 };
static const int64_t WHEN_MAX = INT64_C(253402300799999); /* 9999-12-31T23:59:59.999Z */

/* By Howard Hinnant's method: years begin in March, so that the leap day comes last. */
int64_t civil_days(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + (int64_t)day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void civil_of(int64_t days, int64_t *out_year, unsigned *out_month, unsigned *out_day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    *out_day = (unsigned)(of_year - (153 * month + 2) / 5 + 1);
    *out_month = (unsigned)(month < 10 ? month + 3 : month - 9);
    *out_year = year + era * 400 + (*out_month <= 2);
}

bool civil_is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static char *digits_put(char *at, unsigned n, unsigned width)
{
    for (unsigned i = width; i-- > 0; n /= 10) {
        at[i] = (char)('0' + n % 10);
    }
    return at + width;
}

/* By hand: every event and every task shows several times. */
struct when_text when_format(int64_t ms)
{
    struct when_text text = { { 0 } };
    ms = ms < 0 ? 0 : ms > WHEN_MAX ? WHEN_MAX : ms;
    int64_t year;
    unsigned month, day, of_day = (unsigned)(ms % DAY_MS);
    civil_of(ms / DAY_MS, &year, &month, &day);
    char *at = digits_put(text.z, (unsigned)year, 4);
    *at++ = '-';
    at = digits_put(at, month, 2);
    *at++ = '-';
    at = digits_put(at, day, 2);
    *at++ = 'T';
    at = digits_put(at, of_day / 3600000, 2);
    *at++ = ':';
    at = digits_put(at, of_day / 60000 % 60, 2);
    *at++ = ':';
    at = digits_put(at, of_day / 1000 % 60, 2);
    *at++ = '.';
    at = digits_put(at, of_day % 1000, 3);
    *at = 'Z';
    return text;
}

static bool digits_cut(struct str *rest, size_t width, int64_t *out)
{
    uint64_t n;
    if (rest->len < width || !str_to_u64(str_sub(*rest, 0, width), &n)) {
        return false;
    }
    *rest = str_sub(*rest, width, rest->len);
    *out = (int64_t)n;
    return true;
}

static bool char_cut(struct str *rest, const char *one_of)
{
    if (!rest->len || !rest->ptr[0] || !strchr(one_of, rest->ptr[0])) {
        return false;
    }
    *rest = str_sub(*rest, 1, rest->len);
    return true;
}

static bool date_cut(struct str *rest, int64_t *out_days)
{
    static const unsigned char lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int64_t year, month, day;
    bool shape = digits_cut(rest, 4, &year) && char_cut(rest, "-") && digits_cut(rest, 2, &month) &&
                 char_cut(rest, "-") && digits_cut(rest, 2, &day);
    if (!shape || year < 1970 || month < 1 || month > 12 || day < 1) {
        return false;
    }
    if (day > lengths[month - 1] + (month == 2 && civil_is_leap(year))) {
        return false;
    }
    *out_days = civil_days(year, (unsigned)month, (unsigned)day);
    return true;
}

static bool clock_cut(struct str *rest, int64_t *out_ms)
{
    int64_t hour, minute, second, ms = 0, weight = 100;
    bool shape = digits_cut(rest, 2, &hour) && char_cut(rest, ":") && digits_cut(rest, 2, &minute) &&
                 char_cut(rest, ":") && digits_cut(rest, 2, &second);
    if (!shape || hour > 23 || minute > 59 || second > 60) { /* :60 is a leap second; it counts as the next :00 */
        return false;
    }
    if (char_cut(rest, ".")) {
        int64_t digit;
        if (!digits_cut(rest, 1, &digit)) {
            return false;
        }
        do {
            ms += digit * weight;
            weight /= 10; /* what is finer than a millisecond is cut off */
        } while (digits_cut(rest, 1, &digit));
    }
    *out_ms = ((hour * 60 + minute) * 60 + second) * 1000 + ms;
    return true;
}

static bool offset_cut(struct str *rest, int64_t *out_ms)
{
    int64_t hour, minute;
    if (char_cut(rest, "Zz")) {
        *out_ms = 0;
        return true;
    }
    int64_t sign = rest->len && rest->ptr[0] == '-' ? -1 : 1;
    bool shape =
        char_cut(rest, "+-") && digits_cut(rest, 2, &hour) && char_cut(rest, ":") && digits_cut(rest, 2, &minute);
    if (!shape || hour > 23 || minute > 59) {
        return false;
    }
    *out_ms = sign * (hour * 60 + minute) * 60000;
    return true;
}

bool when_parse(struct str s, int64_t *out_ms)
{
    int64_t days, clock_ms, offset_ms;
    if (!date_cut(&s, &days) || !char_cut(&s, "Tt ") || !clock_cut(&s, &clock_ms) || !offset_cut(&s, &offset_ms) ||
        s.len) {
        return false;
    }
    int64_t ms = days * DAY_MS + clock_ms - offset_ms;
    if (ms < 0 || ms > WHEN_MAX) {
        return false;
    }
    *out_ms = ms;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first. Among durations a larger unit must stand before a smaller one. */
static const struct unit duration_units[] = { { "d", DAY_MS }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 },
    { "ms", 1 } };
static const struct unit size_units[] = {
    { "TiB", UINT64_C(1) << 40 },
    { "GiB", 1 << 30 },
    { "MiB", 1 << 20 },
    { "KiB", 1 << 10 },
    { "B", 1 },
};
enum {
    N_DURATION_UNITS = sizeof duration_units / sizeof *duration_units,
    N_SIZE_UNITS = sizeof size_units / sizeof *size_units
};

/* Takes NUMBER UNIT off the front of *rest; *unit is the unit's place in the table. */
static bool quantity_cut(struct str *rest, const struct unit *units, size_t n_units, size_t *unit, uint64_t *out)
{
    size_t digits = 0, end;
    while (digits < rest->len && char_is_digit(rest->ptr[digits])) {
        digits++;
    }
    for (end = digits; end < rest->len && !char_is_digit(rest->ptr[end]);) {
        end++;
    }
    uint64_t n;
    if (!str_to_u64(str_sub(*rest, 0, digits), &n)) {
        return false;
    }
    struct str name = str_sub(*rest, digits, end);
    for (size_t i = 0; i < n_units; i++) {
        if (str_eqz(name, units[i].name)) {
            *rest = str_sub(*rest, end, rest->len);
            *unit = i;
            return !__builtin_mul_overflow(n, units[i].factor, out);
        }
    }
    return false;
}

bool duration_parse(struct str s, int64_t *out_ms)
{
    uint64_t total = 0;
    size_t from = 0;
    do {
        uint64_t part;
        size_t unit;
        if (!quantity_cut(&s, duration_units + from, N_DURATION_UNITS - from, &unit, &part)) {
            return false;
        }
        if (__builtin_add_overflow(total, part, &total)) {
            return false;
        }
        from += unit + 1;
    } while (s.len);
    if (total > INT64_MAX) {
        return false;
    }
    *out_ms = (int64_t)total;
    return true;
}

static const struct unit *unit_largest(const struct unit *units, size_t n_units, uint64_t n)
{
    for (size_t i = 0; i < n_units; i++) {
        if (n && n % units[i].factor == 0) {
            return &units[i];
        }
    }
    return &units[n_units - 1];
}

struct when_text duration_format(int64_t ms)
{
    struct when_text text;
    uint64_t n = ms < 0 ? 0 : (uint64_t)ms;
    const struct unit *unit = n ? unit_largest(duration_units, N_DURATION_UNITS, n) : &duration_units[3];
    snprintf(text.z, sizeof text.z, "%llu%s", (unsigned long long)(n / unit->factor), unit->name);
    return text;
}

struct when_text duration_human(int64_t ms)
{
    struct when_text text;
    uint64_t n = ms < 0 ? 0 : (uint64_t)ms;
    if (n < 1000) {
        snprintf(text.z, sizeof text.z, "%ums", (unsigned)n);
    } else if (n < 10000 && n / 100 % 10) {
        snprintf(text.z, sizeof text.z, "%u.%us", (unsigned)(n / 1000), (unsigned)(n / 100 % 10));
    } else if (n < 60000) {
        snprintf(text.z, sizeof text.z, "%us", (unsigned)(n / 1000));
    } else {
        const struct unit *unit = duration_units;
        while (n < unit->factor) {
            unit++;
        }
        unsigned long long big = n / unit->factor;
        unsigned small = (unsigned)(n % unit->factor / unit[1].factor) % 60;
        if (small) {
            snprintf(text.z, sizeof text.z, "%llu%s %u%s", big, unit->name, small, unit[1].name);
        } else {
            snprintf(text.z, sizeof text.z, "%llu%s", big, unit->name);
        }
    }
    return text;
}

bool size_parse(struct str s, uint64_t *out_bytes)
{
    uint64_t bytes;
    size_t unit;
    if (!quantity_cut(&s, size_units, N_SIZE_UNITS, &unit, &bytes) || s.len) {
        return false;
    }
    *out_bytes = bytes;
    return true;
}

struct when_text size_format(uint64_t bytes)
{
    struct when_text text;
    const struct unit *unit = unit_largest(size_units, N_SIZE_UNITS, bytes);
    snprintf(text.z, sizeof text.z, "%llu%s", (unsigned long long)(bytes / unit->factor), unit->name);
    return text;
}
