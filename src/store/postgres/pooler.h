/* pooler: is this connection ours alone, or does a pooler (pgbouncer) lend one of its own for each transaction?
 *
 * Weir needs the connection itself: advisory locks, prepared statements, settings and LISTEN live in it. A pooler in
 * session mode keeps one for each client. In transaction or statement mode these would belong to another client a
 * moment later: refused when the connection is made. */
#ifndef WEIR_STORE_POSTGRES_POOLER_H
#define WEIR_STORE_POSTGRES_POOLER_H

#include "store/postgres/pg.h"

/* pooler_check: first thing on a new connection; sets pg->backend. keys, values: how the connection was made. Fails
 * with ERR_conflict when a pooler lends its connections to several clients in turn. */
bool pooler_check(struct pg *pg, const char *const *keys, const char *const *values, struct err *err);

/* pooler_lent: does this SQLSTATE say that the connection was lent to somebody else? Then it is lost, err says what to
 * do, and so does pooler_check for the next moments. */
bool pooler_lent(struct pg *pg, const char *state, struct err *err);
/* the pooler may have been started again with another mode: the next connection is checked in full */
void pooler_forget(void);

#endif
