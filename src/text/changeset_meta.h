/* changeset_meta: the file `meta` of a change set, and the job file of the spool, which is the same with three sections
 * more.
 *
 *   ##movetype
 *   BF
 *   ##target
 *   docs
 *   ##files
 *   intro/first.txt
 *
 * A line that begins with `##` begins a section; blanks around its name don't count. Sections that aren't known are
 * kept. A section with one value (movetype, target, approval, base, csid, state) has one line that isn't blank;
 * dependencies and precursors have one CSID a line; paths of files and removed are taken byte for byte, empty lines
 * between them don't count; message is the text up to the next section.
 *
 * Reading changes nothing: the text is kept, sections are views of it, and changeset_meta_put replaces one section and
 * leaves every other byte as it was. All faults are in diags, each with its line; those of a path carry it as pointer.
 * Time is n log n in the bytes of meta. */
#ifndef WEIR_TEXT_CHANGESET_META_H
#define WEIR_TEXT_CHANGESET_META_H

#include "text/changeset_name.h"
#include "text/diag.h"

enum meta_kind {
    META_UNKNOWN,
    META_MOVETYPE,
    META_TARGET,
    META_FILES,
    META_DEPENDENCIES,
    META_APPROVAL,
    META_PRECURSORS,
    META_REMOVED,
    META_OVERLAPPING,
    META_MESSAGE,
    META_BASE,
    META_CSID, /* from here on: of job files; their content is never a fault, as nobody relies on it */
    META_STATE,
    META_HISTORY,
    META_KIND_COUNT
};

struct meta_section {
    enum meta_kind kind;
    struct str name;
    struct str whole; /* from the `##` to the next section */
    struct str body;  /* without its first line */
    unsigned line;    /* of the `##` */
};

struct meta_line {
    struct str text;
    unsigned line;
};

struct meta_lines {
    struct meta_line *at;
    size_t n, cap;
};

struct changeset_meta {
    struct diag_file *file; /* "meta" and its text */
    struct {
        struct meta_section *at;
        size_t n, cap;
    } sections;                                        /* in the order of the text */
    const struct meta_section *known[META_KIND_COUNT]; /* NULL: not there */
    enum movetype movetype;                            /* MOVE_NONE: no such section */
    struct str target, approval, base, csid, state;    /* empty: no such section, or nothing in it */
    struct str message;                                /* without blank lines at both ends */
    struct meta_lines files, removed;
    struct meta_lines dependencies, precursors; /* each CSID once */
    struct meta_lines history;
    bool overlapping;
    bool is_over_limit; /* a fault is about a limit: the refusal is 413 */
};

/* changeset_meta_read: false when there is any error; then *out holds what was good. Everything lives in the arena, but
 * for the text, which the caller keeps. diags->arena must be set. */
bool changeset_meta_read(struct str text, const struct changeset_limits *limits, struct arena *arena,
    struct diags *diags, struct changeset_meta *out);

/* changeset_meta_check: what a change set needs beyond a meta that can be read: a move type (that of the name, if there
 * is a name), a target, something to do, no dependency on itself. csid may be empty and name NULL: not known yet. */
bool changeset_meta_check(
    const struct changeset_meta *meta, struct str csid, const struct changeset_name *name, struct diags *diags);

/* changeset_meta_refuse: the faults as err items; its code is body_too_large if one of them is about a limit, else
 * invalid. False if there was an error. */
bool changeset_meta_refuse(const struct changeset_meta *meta, const struct diags *diags, struct err *err);

/* changeset_meta_put: `text` with the section `name` (without `##`) replaced, or added at the end. Lines of the body
 * that begin with `##` get a blank in front, CR becomes LF. False: the body isn't UTF-8 or has a NUL, or the result
 * doesn't fit into out. */
bool changeset_meta_put(struct buf *out, struct str text, struct str name, struct str body, struct err *err);

struct str meta_kind_name(enum meta_kind kind);

#endif
