/* turn: a turn on its way to the database; for the files of store/postgres that write. */
#ifndef WEIR_STORE_POSTGRES_TURN_H
#define WEIR_STORE_POSTGRES_TURN_H

#include "store/postgres/postgres.h"

struct write {
    struct postgres_store *self;
    const struct changes *c;
    struct str rest; /* of the task that is added next */
    bool full;       /* an array went over its limit */
};

/* the rows of one statement; its columns as in struct pg_bulk */
struct pg_bulk *write_begin(struct write *w, const char *types);
/* write_end: sends what was added, if anything was. with: what the statement takes behind its columns, or before them:
 * how many rows there are, which it has to meet; the number of this commit. */
enum { WITH_COUNT = 1, WITH_COMMIT = 2, WITH_FIRST = 4 };
void write_end(struct write *w, enum sql_id id, unsigned with);

/* write_rows: of a wide turn everything; of a narrow one what needs no head, and, once it has the head, what carries
 * the number of its commit. */
enum write_part { WRITE_WIDE, WRITE_NARROW, WRITE_LAST };
void write_rows(struct write *w, enum write_part part); /* turn_rows.c */

void pg_attempts_write(struct write *w); /* attempts.c */
/* attempts_alike.c: false: they differ, and are written row by row */
bool pg_attempts_alike_write(struct write *w, const struct attempt *attempts, size_t n);

#endif
