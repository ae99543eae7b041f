/* glob: which paths a list of patterns means.
 *
 *   *      any characters but /            ?     one character but /         [a-z] [!a-z]   one of these (not /)
 *   **     any characters, / too; as a whole part of a path followed by others: no folder, or any folders
 *   \c     the character c                 dir/  everything below dir
 *
 * Patterns are matched against the whole path from the root of the archive (a leading / changes nothing). Of a list,
 * the last pattern that matches decides; one that begins with ! takes out. A list that begins with ! starts from
 * everything. Time is linear in path times pattern, whatever the stars. */
#ifndef WEIR_TEXT_GLOB_H
#define WEIR_TEXT_GLOB_H

#include "base/arena.h"
#include "base/str.h"

#define GLOB_BYTES_MAX 1024

struct glob_token;
struct glob {
    struct glob_token *tokens;
    size_t n;
    bool negated; /* ! */
};

/* glob_parse: NULL when it is fine, else what is wrong, as a sentence. */
const char *glob_parse(struct str pattern, struct arena *arena, struct glob *out);
bool glob_matches(const struct glob *glob, struct str path); /* ignores `negated` */

struct globs {
    struct glob *items;
    size_t n;
};
bool globs_match(const struct globs *globs, struct str path);

#endif
