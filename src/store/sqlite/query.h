/* query: a connection of SQLite's to be asked by store/query.h; private to store/sqlite. */
#ifndef WEIR_STORE_SQLITE_QUERY_H
#define WEIR_STORE_SQLITE_QUERY_H

#include "store/query.h"
#include "store/sqlite/db.h"

struct sql db_sql(struct db *db);                     /* as long as the connection stays where it is */
struct query db_query(struct db *db, enum sql_id id); /* of a statement that is bound */

#endif
