/* prequeue: prequeue/ as a way in: its entries become change sets.
 *
 * A scan takes the entries in the order of the sort key, but a dependency that lies there first. An entry whose tarball
 * or dependency isn't there waits for 10 s from when it was first seen; a cycle, a name that isn't one, a refused
 * content and all that is foreign go to corrupt/. What was accepted stays where it is until the projection moves it to
 * the directory of its state; an entry whose content is known is removed.
 *
 * Scans are made when inotify says that something came, when somebody writes to ctrl/prequeue_fifo, when one is asked
 * for, at the start, and when the time of an entry is over. */
#ifndef WEIR_SPOOL_PREQUEUE_H
#define WEIR_SPOOL_PREQUEUE_H

#include "base/map.h"
#include "spool/arrival.h"
#include "spool/errand.h"
#include "spool/spool.h"

struct reader;

struct prequeue {
    const struct folders *folders;
    struct reader *reader;
    struct blobs *blobs;
    struct changeset_limits limits;
    struct errands *errands;
    int64_t patience_ms; /* 0: 10 s */
    struct smap seen;    /* name -> struct seen_entry: entries that wait, or were accepted and still lie there */
    int64_t next;        /* boot ms of the next scan that is needed; INT64_MAX: none */
};

/* prequeue_scan: every entry that lies there now; what became of them is added to *out. false: the store or a folder
 * can't be read; err. */
bool prequeue_scan(struct prequeue *prequeue, struct spool_counts *out, struct err *err);
void prequeue_release(struct prequeue *prequeue);

#endif
