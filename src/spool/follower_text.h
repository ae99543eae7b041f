/* follower_text: what stands in the sections of a job file, found or made. Private to follower*.c. */
#ifndef WEIR_SPOOL_FOLLOWER_TEXT_H
#define WEIR_SPOOL_FOLLOWER_TEXT_H

#include "spool/follower.h"
#include "store/read.h"

struct job_known { /* one change set, read from the store for one look at its job file */
    struct changeset row;
    struct task task;
    struct str target;
    const char *name; /* of its files */
    struct job_facts facts;
};

/* follower_meta: its meta: as the job file in the spool has it, if that is whole and nobody has changed it; else as the
 * tarball has it; where there is none, made of the row. */
bool follower_meta(struct follower *follower, const struct job_known *known, const struct job_place *place,
    struct str *out, struct err *err);

/* follower_tarball: data/NAME is there while the change set hasn't ended, and not afterwards. */
bool follower_tarball(struct follower *follower, const struct job_known *known, struct err *err);

enum { JOB_EXTRA_BYTES = 4 << 20 }; /* of the sections that the queue adds */

#endif
