/* cron: five fields (minute hour day month weekday) as a set of minutes of a wall clock, and when it fires.
 *
 * Fields: `*`, `?` (the same), numbers, names (JAN..DEC, SUN..SAT, any case), ranges a-b, lists, steps (/n after `*`, a
 * range, or a value to start from), and `H`: a value that the hash of a key picks, the same for ever: H, H(0-29), H/10,
 * H(0-29)/10. Weekday 7 is Sunday, as 0 is. When day and weekday are both restricted, either makes a match, as cron has
 * always done.
 *
 * Changes of the clock. A pattern that names hours means times of day: each wall-clock minute that matches fires once.
 * One that is skipped (spring) fires in the first minute after the gap, together with the others that were skipped; one
 * that comes twice (autumn) fires the first time. A pattern with every hour (`*`, or all 24) means a rhythm: it fires
 * whenever the wall clock matches, so nothing is made up for in spring and both passes fire in autumn; it stays every
 * hour of real time. */
#ifndef WEIR_TEXT_CRON_H
#define WEIR_TEXT_CRON_H

#include "text/timezone.h"

struct cron { /* bit n: the value n */
    uint64_t minutes;
    uint32_t hours, days, months, weekdays;
    bool any_day, any_weekday; /* `*` or `?` */
};

struct cron_fault {
    size_t at; /* byte in the text */
    char text[160];
};

/* cron_parse: false and *fault when it isn't one, or when no date can ever match ("0 0 30 2 *"). `key` is what H
 * hashes. */
bool cron_parse(struct str text, struct str key, struct cron *out, struct cron_fault *fault);

/* cron_matches: does the wall clock of the timezone show a matching minute at utc_s? (For windows and freezes: an hour
 * that comes twice matches twice.) */
bool cron_matches(const struct cron *cron, const struct time_zone *tz, int64_t utc_s);

/* cron_next: the first firing later than after_s, in seconds since 1970 UTC. False: none within the next 40 years. */
bool cron_next(const struct cron *cron, const struct time_zone *tz, int64_t after_s, int64_t *out_s);

#endif
