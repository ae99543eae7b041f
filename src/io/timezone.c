#include "io/timezone.h"

#include <stdlib.h>

#include "io/fsx.h"

enum { TIMEZONE_BYTES_MAX = 1 << 20 };

bool timezone_load(
    const char *folder, struct str name, struct arena *arena, const struct time_zone **out, struct err *err)
{
    if (name.len == 0 || str_eqz(name, "UTC")) {
        *out = &timezone_utc;
        return true;
    }
    if (!timezone_name_is_valid(name))
        return err_set(err, ERR_invalid, "'%.*s' can't be the name of a time zone", STR_ARG(name));
    if (folder == NULL)
        folder = getenv("TZDIR");
    if (folder == NULL || folder[0] != '/')
        folder = "/usr/share/zoneinfo";
    struct str bytes, path = str_fmt(arena, "%s/%.*s", folder, STR_ARG(name));
    if (!fsx_read(str_dupz(arena, path), TIMEZONE_BYTES_MAX, arena, &bytes, err)) {
        if (err->code == ERR_not_found)
            err_set(err, ERR_not_found, "there is no time zone '%.*s'", STR_ARG(name));
        return false;
    }
    const struct time_zone *tz = timezone_parse(bytes, arena);
    if (tz == NULL)
        return err_set(err, ERR_corrupt, "%.*s isn't a file of the tz database", STR_ARG(path));
    *out = tz;
    return true;
}
