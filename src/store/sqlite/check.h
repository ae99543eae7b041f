/* check: SQLite's own view of its file; private to store. */
#ifndef WEIR_STORE_SQLITE_CHECK_H
#define WEIR_STORE_SQLITE_CHECK_H

#include <stdatomic.h>

#include "store/store.h"

struct check_pace {
    const atomic_bool *stop;                                    /* NULL: nothing stops it */
    int64_t idle;                                               /* it rests so many times as long as it works */
    void (*tell)(void *owner, const char *table, int64_t rows); /* NULL: nobody asks; after each table */
    void *owner;
};
/* beside a server, in steps */
bool check_walk(const char *path, const struct check_pace *pace, int64_t *out_rows, struct err *err);
bool check_whole(const char *path, struct err *err); /* one long read */
bool check_is_served(const char *dir);               /* another process, or this one, has the store open */

#endif
