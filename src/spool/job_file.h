/* job_file: one change set in the spool: the text of its job file, and the directory that it stands in.
 *
 * The text is the tarball's `meta` with the sections csid, state and history (and precursors and approval, as the queue
 * has them) replaced or added; every other byte stays. A line of the history is `TAI64N LETTER ACTOR REASON`.
 *
 * A job file moves so that a reader of the directories sees it in its old place or in its new one, never in both and
 * never in none: the new text is written in tmp/, takes the place of the old text by one rename(2), and moves by
 * another. A crash between them leaves a whole file in one place; what stands there then is compared with the store at
 * the next start. */
#ifndef WEIR_SPOOL_JOB_FILE_H
#define WEIR_SPOOL_JOB_FILE_H

#include "base/buf.h"
#include "spool/folders.h"

struct job_facts { /* what the queue knows of the change set */
    struct str csid, ticket;
    enum task_state state;
    const struct event *events; /* newest first */
    size_t n_events;
    struct str precursors; /* CSIDs, one a line */
};

/* job_text: err: the result is longer than `out` may be, or not UTF-8. */
bool job_text(struct buf *out, struct str meta, const struct job_facts *facts, struct err *err);

/* job_time: of the newest event: the file's time of change. */
int64_t job_time(const struct job_facts *facts);

struct job_place {
    bool is_there;
    enum spool_folder folder; /* one of the states', or prequeue/: it was taken from there */
    struct stat st;
};

/* job_find: where it stands. What is foreign goes to corrupt/, and so does a second file of that name: the one in
 * `wanted` stays, else the first. */
bool job_find(
    const struct folders *folders, const char *name, enum spool_folder wanted, struct job_place *out, struct err *err);

/* job_put: the text, and the file into `to`. */
bool job_put(const struct folders *folders, const char *name, const struct job_place *place, enum spool_folder to,
    struct str text, int64_t mtime_ms, struct err *err);

#endif
