/* changeset: the words of change sets: identifiers (CSID), limits, and the paths that one may carry. Move types are in
 * core/model.h.
 *
 * The name of a change set's file is in text/changeset_name.h, its `meta` in text/changeset_meta.h. */
#ifndef WEIR_TEXT_CHANGESET_H
#define WEIR_TEXT_CHANGESET_H

#include "base/err.h"
#include "core/model.h"

/* changesets.limits of the configuration */
struct changeset_limits {
    uint64_t unpacked_bytes, meta_bytes;
    int64_t files, path_bytes, depth; /* files: paths of ##files and ##removed together; depth: parts of a path */
};

#define CSID_CHARS_MAX 64

/* csid_check: [A-Za-z0-9.-], at most 64 of them. A CSID is the name of its task, so it also begins with a letter or a
 * digit and is no reserved word, such as a number. */
bool csid_check(struct str csid, struct err *err);

enum path_fault {
    PATH_GOOD,
    PATH_EMPTY,
    PATH_ABSOLUTE,
    PATH_ENCODING,
    PATH_CONTROL,
    PATH_EMPTY_PART,
    PATH_DOT,
    PATH_DOT_DOT,
    PATH_REPOSITORY, /* a part .git or .svn, in any case of letters */
    PATH_LONG,       /* from here on: beyond a limit */
    PATH_PART_LONG,
    PATH_DEEP,
    PATH_FAULT_COUNT
};
#define PATH_PART_BYTES_MAX 255 /* no file system that we write to takes more */

/* changeset_path_check: may a change set carry this path? Linear in its length, and a path beyond path_bytes isn't
 * looked at. */
enum path_fault changeset_path_check(struct str path, const struct changeset_limits *limits);
bool path_fault_is_limit(enum path_fault fault);

/* path_fault_sentence: what is wrong, as the end of a sentence that begins with the path. */
struct str path_fault_sentence(struct arena *arena, enum path_fault fault, const struct changeset_limits *limits);

/* changeset_path_compare: bytewise, but `/` sorts before everything, so that the paths below a folder stand right
 * behind it. */
int changeset_path_compare(struct str a, struct str b);
bool changeset_path_is_below(struct str path, struct str folder);

#endif
