/* arrival: one entry of prequeue/: read, checked, and made into what the engine takes.
 *
 * An empty entry means the tarball data/NAME; one with a text is a job file, whose sections count: a rollback has no
 * tarball, and of any other move the tarball data/NAME must have the same move type, target, files and removed paths;
 * the entry's dependencies, precursors and approval are taken. The submitter is the owner of the entry's file. */
#ifndef WEIR_SPOOL_ARRIVAL_H
#define WEIR_SPOOL_ARRIVAL_H

#include "spool/folders.h"
#include "spool/intake.h"

enum arrival_end {
    ARRIVAL_GOOD,
    ARRIVAL_GONE,    /* somebody has taken it away */
    ARRIVAL_WAITS,   /* for its tarball, or for a dependency: `why` */
    ARRIVAL_LATER,   /* something of ours is away or full: again in a second, as often as needed */
    ARRIVAL_CORRUPT, /* `why` */
};

struct arrival {
    const char *name;
    struct changeset_name parsed; /* views of name */
    bool has_been_tried;          /* in this scan */
    bool is_under_way;            /* it waits for one of its dependencies that is tried now */
    struct arena arena;           /* of what is read */
    struct intake intake;
    bool is_kept; /* its tarball is; intake_settle has to be called */
    struct str why;
};

/* arrival_read: ARRIVAL_GOOD: entry->intake is filled, and its tarball kept; arrival_release gives all back, and
 * settles what wasn't. */
enum arrival_end arrival_read(
    struct arrival *entry, const struct folders *folders, const struct changeset_limits *limits, struct blobs *blobs);
void arrival_settle(struct arrival *entry, struct blobs *blobs, bool accepted);
void arrival_release(struct arrival *entry, struct blobs *blobs);

/* arrival_refused: what an error means for the entry. */
enum arrival_end arrival_refused(struct arrival *entry, const struct err *err);

#endif
