/* reader: a connection that only reads; private to store/sqlite. */
#ifndef WEIR_STORE_SQLITE_READER_H
#define WEIR_STORE_SQLITE_READER_H

#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

struct sqlite_reader {
    struct reader port; /* first */
    struct db db;
};

/* A read transaction on a struct db. An error on the way out doesn't matter to what was read. */
bool snapshot_begin(void *db, struct err *err);
void snapshot_end(void *db);

#endif
