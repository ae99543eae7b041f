/* when: times, durations and sizes as text. Times are milliseconds since 1970 UTC; durations are milliseconds.
 * Arithmetic only: clocks are read in io/clock. Readers take the whole string or return false and write nothing.
 * Formatters take what is below zero for 0 (and times after 9999 for the last millisecond of that year). */
#ifndef WEIR_BASE_WHEN_H
#define WEIR_BASE_WHEN_H

#include "base/str.h"

struct when_text {
    char z[32];
};

struct when_text when_format(int64_t ms);       /* 2026-11-15T05:46:00.123Z */
bool when_parse(struct str s, int64_t *out_ms); /* RFC 3339 with any offset; years 1970 to 9999 */
/* 250ms 90s 15m 2h 7d; a unit is required; sums such as 1h30m too, larger first */
bool duration_parse(struct str s, int64_t *out_ms);
/* exact, in one unit, read back by duration_parse: 90s, 15m, 1500ms */
struct when_text duration_format(int64_t ms);
struct when_text duration_human(int64_t ms);        /* rounded down to what one looks at: 1m 30s, 2h 5m, 1.5s, 340ms */
bool size_parse(struct str s, uint64_t *out_bytes); /* 64KiB 10MiB 1GiB 512B; a unit is required */
struct when_text size_format(uint64_t bytes);       /* exact when it is a multiple, else bytes: 10MiB, 1000B */

/* Dates as days since 1970-01-01 (proleptic Gregorian calendar), and back. */
int64_t civil_days(int64_t year, unsigned month, unsigned day);
void civil_of(int64_t days, int64_t *out_year, unsigned *out_month, unsigned *out_day);
bool civil_is_leap(int64_t year);

#endif
