/* next: the part of the store that knows the schema, as a later version of Weir would have it: NEXT_STEPS more
 * migrations than this source has. Linked into a weir of its own (weir-next1, weir-next2), so that servers of two
 * versions can be run on one database (t5800). The migrations are what the rules allow (src/store/README.md), in the
 * tables that every turn writes. */
#include "store_sql.h"

static const char *const step_1[] = {
    "ALTER TABLE task ADD COLUMN next_note TEXT COLLATE \"C\" NOT NULL DEFAULT '';",
    "ALTER TABLE lane ADD COLUMN next_weight BIGINT NOT NULL DEFAULT 7;",
    "ALTER TABLE head ADD COLUMN next_mark BIGINT NOT NULL DEFAULT 0;",
    "ALTER TABLE ready ADD COLUMN next_rank BIGINT;",
    "ALTER TABLE executor ADD COLUMN next_zone TEXT COLLATE \"C\" NOT NULL DEFAULT 'here';",
    "ALTER TABLE turn ADD COLUMN next_size BIGINT NOT NULL DEFAULT 0;",
    "CREATE TABLE next_thing (id BIGINT PRIMARY KEY, lane BIGINT NOT NULL);",
    "CREATE INDEX next_lane ON task (lane, rev);",
    "INSERT INTO next_thing (id, lane) SELECT id, id FROM lane;",
    0,
};
static const char *const step_2[] = { "CREATE TABLE next_more (id BIGINT PRIMARY KEY);", 0 };

enum { NEXT_VERSION = SQL_SCHEMA_VERSION + NEXT_STEPS };
static const char *const version_text[] = { "UPDATE weir_schema SET version = version + 1;", 0 };

/* Each step of ours is two: its statements, and the new version, in the same transaction. */
static const char *const *next_step(long long version)
{
    static const char *joined[2][16];
    const char *const *steps[] = { step_1, step_2 };
    if (version < SQL_SCHEMA_VERSION)
        return pg_migrations[version];
    const char **out = joined[version - SQL_SCHEMA_VERSION];
    int n = 0;
    for (const char *const *at = steps[version - SQL_SCHEMA_VERSION]; *at; at++)
        out[n++] = *at;
    out[n++] = version_text[0];
    out[n] = 0;
    return out;
}

#define SQL_SCHEMA_VERSION NEXT_VERSION
#define pg_schema_step(version) next_step(version)
#include "store/postgres/schema.c"
