/* zone: the tz database of this machine.
 *
 * Zones are read on demand from the folder given (NULL: $TZDIR, else /usr/share/zoneinfo) into the arena given. Names
 * that aren't of the form of the database are refused before any file is opened. Failure: not_found (there is no such
 * zone), corrupt (the file is none), or what the file system says. */
#ifndef WEIR_IO_ZONE_H
#define WEIR_IO_ZONE_H

#include "base/err.h"
#include "text/zone.h"

/* zone_load: the zone of that name; UTC and the empty name need no database. */
bool zone_load(const char *folder, struct str name, struct arena *arena, const struct zone **out, struct err *err);

#endif
