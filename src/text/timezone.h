/* timezone: how far the wall clock of a place is ahead of UTC. This room parses a TZif file; io/timezone opens it.
 *
 * Offsets are in seconds and constant for a while: `until` is the first second at which the offset may differ
 * (TIMEZONE_FOREVER: never). A timezone is never written after it was parsed, so several threads may ask it. The struct
 * is `time_zone` because the C library has a `struct timezone`. */
#ifndef WEIR_TEXT_TIMEZONE_H
#define WEIR_TEXT_TIMEZONE_H

#include <stddef.h>

#include "base/arena.h"
#include "base/when.h"

#define TIMEZONE_FOREVER INT64_MAX

struct time_zone {
    int64_t (*offset_at)(const struct time_zone *tz, int64_t utc_s, int64_t *out_until_s);
};

extern const struct time_zone timezone_utc;

/* timezone_name_is_valid: does the name have the form of the tz database's names (Area/Place), without a path that
 * leaves its folder? Whether the database has that timezone isn't asked here. */
bool timezone_name_is_valid(struct str name);

/* timezone_parse: the bytes of a TZif file (RFC 8536, versions 1 to 4) as a timezone in the arena; NULL when they
 * aren't such a file. Times after the last recorded change follow the rule at the file's end. */
const struct time_zone *timezone_parse(struct str bytes, struct arena *arena);

#endif
