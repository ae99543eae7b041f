/* schema: what kind of database this is, and the way from an older schema to ours.
 *
 * The table weir_schema says that the tables beside it are Weir's and which schema they have. Migrations only lead forward, all in one
 * transaction under a lock: two servers that start at once make one schema. A newer schema, and a database with tables of another program,
 * are refused with what to do. */
#include <inttypes.h>

#include "store/postgres/postgres.h"

bool pg_schema_check(struct pg *pg, int64_t *out_version, struct err *err)
{
    int64_t ours, others, planted, version;
    if (!pg_number(pg, PG_schema_exists, &ours, err) || !pg_number(pg, PG_schema_strangers, &others, err))
        return false;
    *out_version = 0;
    if (!ours && others)
        return err_set(err, ERR_conflict, "%s holds %" PRId64 " tables of another program: give Weir a database of its own (createdb weir)",
                       pg->place, others);
    if (!ours)
        return true;
    if (!pg_number(pg, PG_schema_version, &version, err) || !pg_number(pg, PG_schema_planted, &planted, err))
        return false;
    if (version > PG_SCHEMA_VERSION)
        return err_set(err, ERR_conflict,
                       "%s has schema %" PRId64 " and this weir knows up to %d: run the weir that wrote it, or a newer one", pg->place,
                       version, PG_SCHEMA_VERSION);
    if (version < 1)
        return err_set(err, ERR_corrupt, "%s has schema %" PRId64, pg->place, version);
    if (planted)
        return err_set(err, ERR_corrupt, "%s holds a trigger or a rule on Weir's tables: none of them is Weir's", pg->place);
    *out_version = version;
    return true;
}

static bool steps_run(struct pg *pg, struct err *err)
{
    int64_t version;
    if (!pg_exec(pg, PG_schema_lock, err) || !pg_schema_check(pg, &version, err)) /* somebody else may have done it while we waited */
        return false;
    for (; version < PG_SCHEMA_VERSION; version++)
        if (!pg_exec_all(pg, pg_migrations[version], err)) {
            err_context(err, "migration %" PRId64, version + 1);
            return false;
        }
    return pg_exec(pg, PG_exec_commit, err);
}

bool pg_schema_migrate(struct pg *pg, struct err *err)
{
    struct err ignored = { 0 };
    if (!pg_exec(pg, PG_exec_begin, err))
        return false;
    if (steps_run(pg, err))
        return true;
    (void)pg_exec(pg, PG_exec_rollback, &ignored);
    if (err->code == ERR_forbidden)
        err_context(err, "%s: the user needs the right to create tables (GRANT CREATE ON SCHEMA)", pg->place);
    return false;
}
