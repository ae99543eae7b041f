/* asking: what the tests of what stays look at: a rig's database itself, SQLite or PostgreSQL, by connections of their
 * own. */
#ifndef WEIR_TEST_ASKING_H
#define WEIR_TEST_ASKING_H

#include "rig.h"

int64_t ask(const struct rig *rig, const char *sql); /* the number that it answers */
/* of the database's own catalogue */
void ask_tables(const struct rig *rig, void (*table)(void *context, const char *name), void *context);
/* rig_open on a new database of WEIR_TEST_POSTGRES; one at a time */
void postgres_open(struct rig *rig, const char *name);

#endif
