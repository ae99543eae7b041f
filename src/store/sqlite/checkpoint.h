/* checkpoint: a thread that moves the WAL's pages into the database beside the writer; private to store/sqlite. */
#ifndef WEIR_STORE_SQLITE_CHECKPOINT_H
#define WEIR_STORE_SQLITE_CHECKPOINT_H

#include "store/sqlite/db.h"

struct checkpoint;
/* writer: its commits are watched; what it does between turns is done on its own thread. */
struct checkpoint *checkpoint_start(const char *path, struct db *writer, struct err *err);
void checkpoint_between_turns(struct checkpoint *cp); /* the writer, after each commit */
int checkpoint_failed(const struct checkpoint *cp);   /* SQLite's code of an I/O error that a checkpoint met; 0: none */
void checkpoint_stop(struct checkpoint *cp);          /* before the writer's connection is closed; NULL is taken */

#endif
