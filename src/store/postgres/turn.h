/* turn: a turn on its way to the database; for the files of store/postgres that write. */
#ifndef WEIR_STORE_POSTGRES_TURN_H
#define WEIR_STORE_POSTGRES_TURN_H

#include "store/postgres/postgres.h"

struct write {
    struct postgres_store *self;
    const struct changes *c;
    bool full; /* an array went over its limit */
};

struct pg_bulk *write_begin(struct write *w, const char *types); /* the rows of one statement; its columns as in struct pg_bulk */
/* write_end: sends what was added, if anything was. counted: the statement has to meet as many rows. */
void write_end(struct write *w, enum pg_id id, bool counted);
void write_end_touched(struct write *w, enum pg_id id); /* and the number of this commit behind its columns */
void write_numbers(struct write *w, struct pg_bulk *b, const int64_t *numbers, size_t n); /* a list as one cell */

void pg_attempts_write(struct write *w); /* attempts.c */

#endif
