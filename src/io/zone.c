#include "io/zone.h"

#include <stdlib.h>

#include "io/fsx.h"

enum { ZONE_BYTES_MAX = 1 << 20 };

bool zone_load(const char *folder, struct str name, struct arena *arena, const struct zone **out, struct err *err)
{
    if (name.len == 0 || str_eqz(name, "UTC")) {
        *out = &zone_utc;
        return true;
    }
    if (!zone_name_is_valid(name))
        return err_set(err, ERR_invalid, "'%.*s' can't be the name of a time zone", STR_ARG(name));
    if (folder == NULL)
        folder = getenv("TZDIR");
    if (folder == NULL || folder[0] != '/')
        folder = "/usr/share/zoneinfo";
    struct str bytes, path = str_fmt(arena, "%s/%.*s", folder, STR_ARG(name));
    if (!fsx_read(str_dupz(arena, path), ZONE_BYTES_MAX, arena, &bytes, err)) {
        if (err->code == ERR_not_found)
            err_set(err, ERR_not_found, "there is no time zone '%.*s'", STR_ARG(name));
        return false;
    }
    const struct zone *zone = zone_parse(bytes, arena);
    if (zone == NULL)
        return err_set(err, ERR_corrupt, "%.*s isn't a file of the tz database", STR_ARG(path));
    *out = zone;
    return true;
}
