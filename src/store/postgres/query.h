/* query: results of PostgreSQL to be read by store/query.h; private to store/postgres. */
#ifndef WEIR_STORE_POSTGRES_QUERY_H
#define WEIR_STORE_POSTGRES_QUERY_H

#include "store/postgres/pg.h"
#include "store/query.h"

extern const struct query_ops pg_query_ops;
struct query pg_query(const PGresult *result);            /* all its rows, from before the first */
struct query pg_query_row(const PGresult *result, int n); /* at that row */
bool pg_row_head(const PGresult *result, struct store_head *out, uint8_t *out_seal, struct err *err);

/* pg_answer: a struct sql's ask ends with it; true. */
bool pg_answer(struct query *q, const PGresult *result);
/* PG_ARGS: parameters of a statement, for as long as the block that they stand in. */
const struct pg_args *pg_args_fill(struct pg_args *out, const struct arg *args, size_t n);
#define PG_ARGS(...) pg_args_fill(&(struct pg_args){ 0 }, ARGS(__VA_ARGS__))

#endif
