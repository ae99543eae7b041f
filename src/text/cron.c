/* cron: patterns of minutes, read strictly, and the arithmetic of when they fire.
 *
 * cron_next walks the timezone's periods of constant offset. Within a period, wall clock and UTC differ by a constant,
 * so the next matching wall-clock minute is found field by field. `high` is the latest wall-clock time reached so far:
 * minutes between it and the start of a period were skipped (clock set forward), minutes below it come a second time
 * (clock set back). */
#include "text/cron.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define DAY_S ((int64_t)86400)
#define LOOK_BACK_S (3 * DAY_S) /* longer than any repetition of the wall clock (at most a day) */
#define LOOK_AHEAD_S (40 * 366 * DAY_S)

struct field_spec {
    const char *name;
    unsigned min, max;
    unsigned hash_max;        /* H picks up to here: every month has day 28 */
    const char *const *names; /* NULL: none; names[0] is for `min` */
    unsigned n_names;
};
static const char *const month_names[] = { "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV",
    "DEC" };
static const char *const weekday_names[] = { "SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT" };
enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, N_FIELDS };
static const struct field_spec field_specs[N_FIELDS] = {
    [MINUTE] = { "minute", 0, 59, 59, NULL, 0 },
    [HOUR] = { "hour", 0, 23, 23, NULL, 0 },
    [DAY] = { "day", 1, 31, 28, NULL, 0 },
    [MONTH] = { "month", 1, 12, 12, month_names, 12 },
    [WEEKDAY] = { "weekday", 0, 7, 6, weekday_names, 7 },
};

struct reader {
    struct str text;
    size_t at, end; /* of the field being read */
    const struct field_spec *spec;
    uint64_t hash;
    struct cron_fault *fault;
};

static bool fault_at(struct cron_fault *fault, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fault_at(struct cron_fault *fault, size_t at, const char *fmt, ...)
{
    struct buf text;
    va_list args;
    buf_init(&text, sizeof fault->text - 1);
    va_start(args, fmt);
    buf_vaddf(&text, fmt, args);
    va_end(args);
    fault->at = at;
    memcpy(fault->text, text.len > 0 ? text.ptr : "", text.len);
    fault->text[text.len] = '\0';
    buf_release(&text);
    return false;
}

static bool take(struct reader *r, char c)
{
    if (r->at >= r->end || r->text.ptr[r->at] != c)
        return false;
    r->at++;
    return true;
}

static bool name_equal(struct str s, const char *name)
{
    for (size_t i = 0; i < s.len; i++)
        if ((s.ptr[i] & ~0x20) != name[i])
            return false;
    return s.len == 3;
}

/* number_read: up to four digits; false: none. */
static bool number_read(struct reader *r, unsigned *out)
{
    size_t from = r->at;
    for (*out = 0; r->at < r->end && char_is_digit(r->text.ptr[r->at]) && r->at - from < 4; r->at++)
        *out = *out * 10 + (unsigned)(r->text.ptr[r->at] - '0');
    return r->at > from;
}

/* value_read: a number or a name within the field's bounds. */
static bool value_read(struct reader *r, unsigned *out)
{
    size_t from = r->at;
    unsigned n;
    if (!number_read(r, &n)) {
        while (r->at < r->end && char_is_letter(r->text.ptr[r->at]))
            r->at++;
        struct str word = str_sub(r->text, from, r->at);
        for (unsigned i = 0; i < r->spec->n_names; i++) {
            if (name_equal(word, r->spec->names[i])) {
                *out = r->spec->min + i;
                return true;
            }
        }
        if (word.len == 0)
            return fault_at(r->fault, from, "the %s is missing a value", r->spec->name);
        return fault_at(r->fault, from, "'%.*s' is no %s", STR_ARG(str_sub(word, 0, 20)), r->spec->name);
    }
    if (n < r->spec->min || n > r->spec->max)
        return fault_at(
            r->fault, from, "the %s must be from %u to %u, not %u", r->spec->name, r->spec->min, r->spec->max, n);
    *out = n;
    return true;
}

static bool range_read(struct reader *r, unsigned *out_low, unsigned *out_high)
{
    size_t from = r->at;
    if (!value_read(r, out_low))
        return false;
    *out_high = *out_low;
    if (!take(r, '-'))
        return true;
    if (!value_read(r, out_high))
        return false;
    if (*out_low > *out_high)
        return fault_at(r->fault, from, "the range of the %s goes backwards", r->spec->name);
    return true;
}

static bool step_read(struct reader *r, unsigned *out)
{
    size_t from = r->at;
    if (!number_read(r, out) || *out < 1 || *out > r->spec->max)
        return fault_at(r->fault, from, "the step of the %s must be from 1 to %u", r->spec->name, r->spec->max);
    return true;
}

/* item_read: one part of a list. */
static bool item_read(struct reader *r, uint64_t *bits)
{
    unsigned low = r->spec->min, high = r->spec->max, step = 1;
    bool hashed = false, open = false;
    if (r->spec == &field_specs[WEEKDAY])
        high = 6;
    if (take(r, '*') || take(r, '?')) {
        open = true;
    } else if (r->at < r->end && r->text.ptr[r->at] == 'H' &&
               (r->at + 1 == r->end || !char_is_letter(r->text.ptr[r->at + 1]))) {
        hashed = open = true;
        high = r->spec->hash_max;
        r->at++;
        if (take(r, '(')) {
            if (!range_read(r, &low, &high))
                return false;
            if (!take(r, ')'))
                return fault_at(r->fault, r->at, "')' is missing after H(");
        }
    } else {
        size_t from = r->at;
        if (!range_read(r, &low, &high))
            return false;
        open = memchr(r->text.ptr + from, '-', r->at - from) != NULL;
    }
    if (take(r, '/')) {
        if (!step_read(r, &step))
            return false;
        if (!open) {
            high = r->spec == &field_specs[WEEKDAY] ? 6 : r->spec->max; /* a/n: from a on */
            if (low > high)
                low = 0; /* 7 is Sunday, as 0 is */
        }
        if (hashed && step <= high - low + 1)
            low += (unsigned)(r->hash % step);
        else if (hashed)
            low = high = low + (unsigned)(r->hash % (high - low + 1));
    } else if (hashed) {
        low = high = low + (unsigned)(r->hash % (high - low + 1));
    }
    for (unsigned n = low; n <= high; n += step)
        *bits |= (uint64_t)1 << n;
    return true;
}

static bool field_read(struct reader *r, uint64_t *bits, bool *any)
{
    struct str whole = str_sub(r->text, r->at, r->end);
    *any = str_eqz(whole, "*") || str_eqz(whole, "?");
    do {
        if (!item_read(r, bits))
            return false;
    } while (take(r, ','));
    if (r->at < r->end)
        return fault_at(r->fault, r->at, "'%.*s' doesn't belong into the %s",
            STR_ARG(str_sub(r->text, r->at, r->end < r->at + 20 ? r->end : r->at + 20)), r->spec->name);
    return true;
}

static uint64_t field_hash(struct str key, unsigned field)
{
    uint64_t x = str_hash(key) + (field + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* can_match: is there any date at all? 29 February counts. */
static bool can_match(const struct cron *cron)
{
    static const unsigned lengths[] = { 0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    if (cron->any_day || !cron->any_weekday)
        return true;
    for (unsigned month = 1; month <= 12; month++)
        if ((cron->months >> month & 1) != 0 && (cron->days & ((UINT64_C(1) << (lengths[month] + 1)) - 1)) != 0)
            return true;
    return false;
}

bool cron_parse(struct str text, struct str key, struct cron *out, struct cron_fault *fault)
{
    uint64_t bits[N_FIELDS] = { 0 };
    bool any[N_FIELDS] = { 0 };
    size_t at = 0, n = 0;
    for (;;) {
        while (at < text.len && (text.ptr[at] == ' ' || text.ptr[at] == '\t'))
            at++;
        if (at == text.len)
            break;
        size_t from = at;
        while (at < text.len && text.ptr[at] != ' ' && text.ptr[at] != '\t')
            at++;
        if (n == N_FIELDS)
            return fault_at(fault, from, "there are more than 5 fields (minute hour day month weekday)");
        struct reader reader = { text, from, at, &field_specs[n], field_hash(key, (unsigned)n), fault };
        if (!field_read(&reader, &bits[n], &any[n]))
            return false;
        n++;
    }
    if (n < N_FIELDS)
        return fault_at(fault, text.len, "there are %zu fields, not 5 (minute hour day month weekday)", n);
    uint64_t weekdays = (bits[WEEKDAY] | bits[WEEKDAY] >> 7) & 0x7f;
    struct cron cron = { bits[MINUTE], (uint32_t)bits[HOUR], (uint32_t)bits[DAY], (uint32_t)bits[MONTH],
        (uint32_t)weekdays, any[DAY], any[WEEKDAY] };
    if (!can_match(&cron))
        return fault_at(fault, 0, "there is no such date in any year");
    *out = cron;
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static bool day_matches(const struct cron *cron, int64_t days)
{
    int64_t year;
    unsigned month, day;
    civil_of(days, &year, &month, &day);
    unsigned weekday = (unsigned)(((days + 4) % 7 + 7) % 7);
    bool by_day = cron->days >> day & 1, by_weekday = cron->weekdays >> weekday & 1;
    if ((cron->months >> month & 1) == 0)
        return false;
    return cron->any_day || cron->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

static bool time_matches(const struct cron *cron, int64_t second_of_day)
{
    return (cron->hours >> (second_of_day / 3600) & 1) != 0 && (cron->minutes >> (second_of_day / 60 % 60) & 1) != 0;
}

static bool local_matches(const struct cron *cron, int64_t local_s)
{
    int64_t days = floor_div(local_s, DAY_S);
    return time_matches(cron, local_s - days * DAY_S) && day_matches(cron, days);
}

bool cron_matches(const struct cron *cron, const struct time_zone *tz, int64_t utc_s)
{
    int64_t until;
    return local_matches(cron, utc_s + tz->offset_at(tz, utc_s, &until));
}

/* local_next: the first matching minute in [from, to) on the wall clock; `to` if none. */
static int64_t local_next(const struct cron *cron, int64_t from, int64_t to)
{
    int64_t at = floor_div(from + 59, 60) * 60;
    while (at < to) {
        int64_t days = floor_div(at, DAY_S), second = at - days * DAY_S;
        if (!day_matches(cron, days)) {
            at = (days + 1) * DAY_S;
        } else if ((cron->hours >> (second / 3600) & 1) == 0) {
            at += 3600 - second % 3600;
        } else if ((cron->minutes >> (second / 60 % 60) & 1) == 0) {
            at += 60;
        } else {
            return at;
        }
    }
    return to;
}

bool cron_next(const struct cron *cron, const struct time_zone *tz, int64_t after_s, int64_t *out_s)
{
    bool rhythm = (cron->hours & 0xffffff) == 0xffffff;
    int64_t start = after_s - LOOK_BACK_S, until, end = after_s + LOOK_AHEAD_S;
    int64_t offset = tz->offset_at(tz, start, &until), high = start + offset;
    for (;;) {
        int64_t stop = until < end ? until : end;                /* of this piece, UTC */
        int64_t first = floor_div(start + offset + 59, 60) * 60; /* its first whole minute on the wall clock */
        if (!rhythm && first > high && first - offset > after_s && first - offset < stop &&
            local_next(cron, high, first) < first) {
            *out_s = first - offset;
            return true;
        }
        int64_t from = rhythm || first > high ? first : high;
        if (from <= after_s + offset)
            from = after_s + offset + 1;
        int64_t found = local_next(cron, from, stop + offset);
        if (found < stop + offset) {
            *out_s = found - offset;
            return true;
        }
        if (stop == end)
            return false;
        if (stop + offset > high)
            high = stop + offset;
        start = until;
        offset = tz->offset_at(tz, start, &until);
    }
}
