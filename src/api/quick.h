/* quick: JSON that needs no second look.
 *
 * A posted task is small and plain nearly always; reading it with a general parser costs more than everything else that happens to it on
 * its way in. quick_check says in one pass whether a text is strict JSON of the plain kind: valid UTF-8, no key twice in one object, keys
 * without escapes, at most 64 levels, numbers that every reader takes. Such a text can be walked by its bytes (raw.h). For anything else
 * the answer is no, and the general parser finds out what is wrong, if anything is. */
#ifndef WEIR_API_QUICK_H
#define WEIR_API_QUICK_H

#include <jansson.h>

#include "base/str.h"

bool quick_check(struct str text);

/* quick_value: a value of a text that quick_check liked; the caller frees it with json_decref. NULL: it can't be read after all. */
json_t *quick_value(struct str raw);

#endif
