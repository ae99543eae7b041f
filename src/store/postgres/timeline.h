/* timeline: which PostgreSQL a connection has reached: the cluster and its timeline, and whether this process may
 * believe it.
 *
 * A primary that was replaced by its standby may come back as a primary: libpq would take it, for it can be written.
 * But its timeline is older than the one that this process (or an earlier one of the same data directory) has worked
 * on, so it is refused. */
#ifndef WEIR_STORE_POSTGRES_TIMELINE_H
#define WEIR_STORE_POSTGRES_TIMELINE_H

#include "store/postgres/pg.h"

/* timeline_check: after connecting. ERR_unavailable: an older timeline. A new cluster or a newer timeline is remembered
 * from now on. */
bool timeline_check(struct pg *pg, struct err *err);

bool timeline_known(void); /* something was reached, by this process or an earlier one */

/* The engine's connection goes ahead: while it is being made anew the others of the process don't try (their threads
 * mustn't wait), and once it is there theirs count as lost too: they would find out one by one, after seconds, or be
 * left with a primary of the past. */
void writer_gone(void);
void writer_back(void);
bool writer_is_away(void);
int writer_epoch(void);                     /* how often it was made anew */
bool timeline_current(const struct pg *pg); /* false: made before the engine's */

/* What is remembered outlives the process in DIR/timeline. timeline_load: none is no error; one that can't be read is
 * (ERR_corrupt). */
bool timeline_load(const char *dir, struct err *err);
bool timeline_there(const char *dir); /* a server with a store in PostgreSQL has worked with this directory */
bool timeline_keep(const char *dir, struct err *err);

#endif
