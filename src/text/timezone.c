/* timezone: TZif files (RFC 8536) as offsets from UTC.
 *
 * Owns the binary form of the tz database and the POSIX rule at a file's end ("CET-1CEST,M3.5.0,M10.5.0/3"). It
 * promises that any bytes give a timezone or NULL, never a read outside of them. Leap seconds don't count, as in POSIX
 * time. */
#include "text/timezone.h"

#include <string.h>

enum { HEADER_BYTES = 44, TRANSITIONS_MAX = 10000, TYPES_MAX = 256 };
#define DAY_S ((int64_t)86400)
#define OFFSET_MAX_S ((int64_t)26 * 3600)

struct rule_day { /* one of the two yearly changes */
    char form;    /* 'J': 1..365 without 29 February, 'D': 0..365, 'M': month, week, weekday */
    unsigned month, week, day;
    int64_t time_s; /* local, may be negative or beyond a day */
};

struct rule {
    bool given, has_dst;
    int64_t standard_s, dst_s;
    struct rule_day begin, end;
};

struct timezone_table {
    struct time_zone tz;
    int64_t *times;
    int64_t *offsets; /* offsets[0] holds before times[0], offsets[i + 1] from times[i] on */
    size_t n;
    struct rule rule;
};

bool timezone_name_is_valid(struct str name)
{
    if (name.len == 0 || name.len > 100)
        return false;
    struct str rest = name, part;
    while (str_cut(&rest, '/', &part)) {
        if (part.len == 0 || !char_is_letter(part.ptr[0]))
            return false;
        for (size_t i = 0; i < part.len; i++)
            if (!char_is_alnum(part.ptr[i]) && str_index(STR("_+-"), part.ptr[i]) < 0)
                return false;
    }
    return name.ptr[name.len - 1] != '/';
}

static int64_t utc_offset_at(const struct time_zone *tz, int64_t utc_s, int64_t *out_until_s)
{
    (void)tz;
    (void)utc_s;
    *out_until_s = TIMEZONE_FOREVER;
    return 0;
}
const struct time_zone timezone_utc = { utc_offset_at };

/* -- the rule at the end of the file -- */

static bool skip_char(struct str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = str_sub(*s, 1, s->len);
    return true;
}

static bool cut_number(struct str *s, int64_t max, int64_t *out)
{
    int64_t n = 0;
    size_t i = 0;
    for (; i < s->len && i < 6 && char_is_digit(s->ptr[i]); i++)
        n = n * 10 + (s->ptr[i] - '0');
    if (i == 0 || n > max)
        return false;
    *s = str_sub(*s, i, s->len);
    *out = n;
    return true;
}

/* cut_time: [+-]h[:m[:s]] */
static bool cut_time(struct str *s, int64_t hours_max, int64_t *out_s)
{
    int64_t sign = skip_char(s, '-') ? -1 : 1, h = 0, m = 0, sec = 0;
    if (sign > 0)
        skip_char(s, '+');
    if (!cut_number(s, hours_max, &h) ||
        (skip_char(s, ':') && (!cut_number(s, 59, &m) || (skip_char(s, ':') && !cut_number(s, 59, &sec)))))
        return false;
    *out_s = sign * (h * 3600 + m * 60 + sec);
    return true;
}

/* cut_abbreviation: letters, or <anything> */
static bool cut_abbreviation(struct str *s)
{
    size_t i = 0;
    if (skip_char(s, '<')) {
        ptrdiff_t end = str_index(*s, '>');
        if (end < 1)
            return false;
        *s = str_sub(*s, (size_t)end + 1, s->len);
        return true;
    }
    while (i < s->len && char_is_letter(s->ptr[i]))
        i++;
    *s = str_sub(*s, i, s->len);
    return i >= 3;
}

static bool cut_day(struct str *s, struct rule_day *out)
{
    int64_t a = 0, b = 0, c = 0;
    out->time_s = 2 * 3600;
    if (!skip_char(s, ','))
        return false;
    if (skip_char(s, 'M')) {
        if (!cut_number(s, 12, &a) || !skip_char(s, '.') || !cut_number(s, 5, &b) || !skip_char(s, '.') ||
            !cut_number(s, 6, &c))
            return false;
        *out = (struct rule_day){ 'M', (unsigned)a, (unsigned)b, (unsigned)c, out->time_s };
        if (a < 1 || b < 1)
            return false;
    } else {
        out->form = skip_char(s, 'J') ? 'J' : 'D';
        if (!cut_number(s, 365, &a) || (out->form == 'J' && a < 1))
            return false;
        out->day = (unsigned)a;
    }
    return !skip_char(s, '/') || cut_time(s, 167, &out->time_s);
}

static bool rule_parse(struct str s, struct rule *out)
{
    int64_t west;
    if (!cut_abbreviation(&s) || !cut_time(&s, 24, &west))
        return false;
    *out = (struct rule){ .given = true, .standard_s = -west, .dst_s = -west + 3600 };
    if (s.len == 0)
        return true;
    out->has_dst = true;
    if (!cut_abbreviation(&s))
        return false;
    if (s.len > 0 && s.ptr[0] != ',') {
        if (!cut_time(&s, 24, &west))
            return false;
        out->dst_s = -west;
    }
    return cut_day(&s, &out->begin) && cut_day(&s, &out->end) && s.len == 0;
}

/* rule_day_at: seconds since 1970 of the change in that year, on the wall clock that holds before it. */
static int64_t rule_day_at(const struct rule_day *day, int64_t year)
{
    int64_t first = civil_days(year, 1, 1);
    if (day->form == 'J')
        return (first + day->day - 1 + (civil_is_leap(year) && day->day >= 60)) * DAY_S + day->time_s;
    if (day->form == 'D')
        return (first + day->day) * DAY_S + day->time_s;
    first = civil_days(year, day->month, 1);
    int64_t next = day->month == 12 ? civil_days(year + 1, 1, 1) : civil_days(year, day->month + 1, 1);
    int64_t weekday = ((first + 4) % 7 + 7) % 7;
    int64_t at = first + (day->day + 7 - weekday) % 7 + (int64_t)(day->week - 1) * 7;
    while (at >= next)
        at -= 7;
    return at * DAY_S + day->time_s;
}

static int64_t rule_offset_at(const struct rule *rule, int64_t utc_s, int64_t *out_until_s)
{
    int64_t year, found = INT64_MIN, offset = rule->standard_s, until = TIMEZONE_FOREVER;
    unsigned month, day;
    if (!rule->has_dst) {
        *out_until_s = TIMEZONE_FOREVER;
        return rule->standard_s;
    }
    civil_of((utc_s >= 0 ? utc_s : utc_s - DAY_S + 1) / DAY_S, &year, &month, &day);
    for (int64_t y = year - 2; y <= year + 2; y++) {
        for (int i = 0; i < 2; i++) {
            int64_t before = i == 0 ? rule->standard_s : rule->dst_s, after = i == 0 ? rule->dst_s : rule->standard_s;
            int64_t at = rule_day_at(i == 0 ? &rule->begin : &rule->end, y) - before;
            /* At the same second (DST all year: it ends when it begins) the beginning wins. */
            if (at <= utc_s && (at > found || (at == found && i == 0))) {
                found = at;
                offset = after;
            } else if (at > utc_s && at < until) {
                until = at;
            }
        }
    }
    *out_until_s = until;
    return offset;
}

/* -- the table -- */

static uint32_t read_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int64_t read_time(const char *p, size_t size)
{
    if (size == 4)
        return (int32_t)read_u32(p);
    return (int64_t)((uint64_t)read_u32(p) << 32 | read_u32(p + 4));
}

static int64_t table_offset_at(const struct time_zone *tz, int64_t utc_s, int64_t *out_until_s)
{
    const struct timezone_table *table = (const struct timezone_table *)(const void *)tz;
    size_t low = 0, high = table->n; /* the first change after utc_s */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->times[middle] <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == table->n && table->rule.given)
        return rule_offset_at(&table->rule, utc_s, out_until_s);
    *out_until_s = low < table->n ? table->times[low] : TIMEZONE_FOREVER;
    return table->offsets[low];
}

struct counts {
    size_t utc, standard, leaps, times, types, chars, size; /* size: bytes of a time */
};

static bool header_parse(struct str bytes, size_t time_size, struct counts *out)
{
    if (bytes.len < HEADER_BYTES || !str_starts(bytes, STR("TZif")))
        return false;
    const char *p = bytes.ptr + 20;
    *out = (struct counts){ read_u32(p), read_u32(p + 4), read_u32(p + 8), read_u32(p + 12), read_u32(p + 16),
        read_u32(p + 20), time_size };
    return out->times <= TRANSITIONS_MAX && out->types >= 1 && out->types <= TYPES_MAX && out->utc <= TYPES_MAX &&
           out->standard <= TYPES_MAX && out->leaps <= TRANSITIONS_MAX && out->chars <= 4096;
}

static size_t block_bytes(const struct counts *c)
{
    return HEADER_BYTES + c->times * (c->size + 1) + c->types * 6 + c->chars + c->leaps * (c->size + 4) + c->standard +
           c->utc;
}

static bool block_parse(struct str bytes, const struct counts *c, struct arena *arena, struct timezone_table *table)
{
    const char *times = bytes.ptr + HEADER_BYTES, *kinds = times + c->times * c->size, *types = kinds + c->times;
    table->times = ARENA_ARRAY(arena, int64_t, c->times + 1);
    table->offsets = ARENA_ARRAY(arena, int64_t, c->times + 1);
    table->n = c->times;
    for (size_t i = 0; i <= c->times; i++) {
        size_t kind = i == 0 ? 0 : (unsigned char)kinds[i - 1];
        if (kind >= c->types)
            return false;
        table->offsets[i] = (int32_t)read_u32(types + kind * 6);
        if (table->offsets[i] < -OFFSET_MAX_S || table->offsets[i] > OFFSET_MAX_S)
            return false;
        if (i > 0)
            table->times[i - 1] = read_time(times + (i - 1) * c->size, c->size);
        if (i > 1 && table->times[i - 1] <= table->times[i - 2])
            return false;
    }
    return true;
}

const struct time_zone *timezone_parse(struct str bytes, struct arena *arena)
{
    struct counts counts;
    struct timezone_table *table = ARENA_NEW(arena, struct timezone_table);
    table->tz.offset_at = table_offset_at;
    if (!header_parse(bytes, 4, &counts) || block_bytes(&counts) > bytes.len)
        return NULL;
    if (bytes.ptr[4] != '\0') { /* version 2 and later: the same again with longer times, then the rule */
        bytes = str_sub(bytes, block_bytes(&counts), bytes.len);
        if (!header_parse(bytes, 8, &counts) || block_bytes(&counts) > bytes.len)
            return NULL;
        struct str footer = str_sub(bytes, block_bytes(&counts), bytes.len), line;
        if (!skip_char(&footer, '\n') || str_index(footer, '\n') < 0)
            return NULL;
        str_cut(&footer, '\n', &line);
        if (line.len > 0 && !rule_parse(line, &table->rule))
            return NULL;
    }
    return block_parse(bytes, &counts, arena, table) ? &table->tz : NULL;
}
