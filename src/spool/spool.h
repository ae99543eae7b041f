/* spool: the operator's window on the queue of change sets: directories under BASE in which each change set's job file
 * stands where its state is, FIFOs and PID files. The store is the truth; the spool is written after it.
 *
 * One process owns a BASE. A server without targets has no spool: no thread, no descriptor, no wake-up, until its first
 * archive is added. What can't be written (a full disk) stops the spool and nothing else: spool_trouble says so, and it
 * goes on by itself.
 *
 * Functions are called on the loop's thread. The threads of the spool touch nothing of the engine but through the
 * loop. */
#ifndef WEIR_SPOOL_SPOOL_H
#define WEIR_SPOOL_SPOOL_H

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

struct blobs;
struct engine;
struct spool;
struct store_config;

struct spool_config {
    struct loop *loop;
    struct engine *engine;            /* started before the loop runs */
    const struct store_config *store; /* for readers of its own; lives as long as the spool */
    struct blobs *blobs;              /* where tarballs are kept; NULL: they aren't */
    const char *base;                 /* absolute */
    struct str server_name;
};

/* spool_open: ERR_conflict: another process owns BASE; the text names it. spool_close: waits for its threads, and
 * removes the PID files. */
struct spool *spool_open(const struct spool_config *config, struct err *err);
void spool_closing(struct spool *spool); /* before engine_stop: nothing more is submitted */
void spool_close(struct spool *spool);   /* after it, before engine_free */

void spool_on_commit(struct spool *spool);     /* there are new events */
void spool_archive_added(struct spool *spool); /* it may be the first target */

struct spool_counts { /* of the entries of prequeue/ */
    int64_t accepted, known, corrupt, waiting;
};

/* spool_scan: prequeue/ is scanned from now on; `done` is called on the loop's thread when each entry that lay there is
 * accepted, known, in corrupt/, or waits for its tarball or a dependency; with err.code set when that isn't possible.
 * false: err: this server has no spool now; nothing is called. spool_scan_cancel: nothing is called any more. */
struct spool_scan {
    struct list_node node; /* private */
    void (*done)(struct spool_scan *scan);
    void *owner;
    struct spool_counts counts; /* out */
    struct err err;
};
bool spool_scan(struct spool *spool, struct spool_scan *scan, struct err *err);
void spool_scan_cancel(struct spool *spool, struct spool_scan *scan);

enum { SPOOL_TEXT_MAX = 480 };
/* spool_trouble: why the spool doesn't follow the queue now; false: it does. Any thread. */
bool spool_trouble(struct spool *spool, char out[SPOOL_TEXT_MAX]);

#endif
