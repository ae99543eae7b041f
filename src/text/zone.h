/* zone: how far the wall clock of a place is ahead of UTC, as a question that somebody else answers (io/zone reads the
 * tz database).
 *
 * Offsets are in seconds, constant in pieces: `until` is the first second at which the offset may be another one
 * (ZONE_FOREVER: never). A zone is only read, so several threads may ask it. */
#ifndef WEIR_TEXT_ZONE_H
#define WEIR_TEXT_ZONE_H

#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

#define ZONE_FOREVER INT64_MAX

struct zone {
    int64_t (*offset_at)(const struct zone *zone, int64_t utc_s, int64_t *out_until_s);
};

extern const struct zone zone_utc;

/* zone_name_is_valid: of the form of the tz database's names (Area/Place), and no path that leaves its folder. Whether
 * there is such a zone only the database knows. */
bool zone_name_is_valid(struct str name);

/* zone_parse: the bytes of a TZif file (RFC 8536, versions 1 to 4) as a zone in the arena; NULL when they aren't one.
 * Times after the last recorded change follow the rule at the file's end. */
const struct zone *zone_parse(struct str bytes, struct arena *arena);

/* The calendar, for those who ask in civil terms: days since 1970-01-01 (proleptic Gregorian). */
int64_t civil_days(int64_t year, unsigned month, unsigned day);
void civil_of(int64_t days, int64_t *out_year, unsigned *out_month, unsigned *out_day);

#endif
