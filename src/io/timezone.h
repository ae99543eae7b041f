/* timezone: the tz database of this machine.
 *
 * A timezone is read from the folder (NULL: $TZDIR, else /usr/share/zoneinfo) into the caller's arena. A name that
 * doesn't have the database's form is refused before any file is opened. Failure: invalid (the name), not_found,
 * corrupt (not a TZif file), or the error of the file system. */
#ifndef WEIR_IO_TIMEZONE_H
#define WEIR_IO_TIMEZONE_H

#include "base/err.h"
#include "text/timezone.h"

/* timezone_load: the timezone of that name; UTC and the empty name need no database. */
bool timezone_load(
    const char *folder, struct str name, struct arena *arena, const struct time_zone **out, struct err *err);

#endif
