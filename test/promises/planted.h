/* planted: the bugs of src/base/plant.h in a server, one of which the variable WEIR_PLANT chooses, and the points of
 * failpoint.h.
 *
 * Nothing in src/ reads the variable: build-planted/ gets this file by `-include` (test/promises/build --planted), no
 * other build has anything of it. A name that isn't one of the bugs ends the process: a test with nothing planted would
 * show nothing. */
#ifndef WEIR_TEST_PLANTED_H
#define WEIR_TEST_PLANTED_H

#include "failpoint.h"

#define WEIR_PLANTED 1
#include "../../src/base/plant.h"

__attribute__((weak)) enum plant plant_selected; /* one for the whole program, whichever file's */

static void __attribute__((constructor, used)) plant_choose(void)
{
    static const struct { const char *name; enum plant plant; } plants[] = {
#define X(name, text) { #name, PLANT_##name },
        PLANTS(X) PLANTS_SERVER(X)
#undef X
    };
    const char *name = plant_selected ? NULL : getenv("WEIR_PLANT");
    for (size_t i = 0; name && i < sizeof plants / sizeof plants[0]; i++)
        if (strcmp(plants[i].name, name) == 0) plant_selected = plants[i].plant;
    if (!name || plant_selected) return;
    fprintf(stderr, "weir: WEIR_PLANT=%s is no planted bug\n", name);
    _exit(2);
}

#endif
