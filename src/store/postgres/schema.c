/* schema: what kind of database this is, and the way from an older schema to ours, also while servers of the version
 * before run on it.
 *
 * The table weir_schema says that the tables beside it are Weir's and which schema they have. Migrations only lead
 * forward and only add (README.md), so a server of version N works on schema N and on N + 1, which a newer server has
 * made meanwhile. All steps are one transaction under a lock: of servers that start at once one makes the schema, the
 * others wait for it. Who writes holds a lock that says which schema it knows, so nobody migrates a schema away from
 * under a server that is further behind than one step.
 *
 * Refused with what to do: a database of another program, a schema that is newer by two steps or too old to be led on,
 * servers that are too old for the step. */
#include <inttypes.h>
#include <time.h>

#include "io/clock.h"
#include "io/log.h"
#include "store/postgres/postgres.h"

#ifndef pg_schema_step /* test/versions has more of them */
#define pg_schema_step(version) pg_migrations[version]
#endif

enum {
    /* what the first migration that is still kept makes of an empty database; older ones can't be led on */
    SCHEMA_OLDEST = 1,
    SCHEMA_AHEAD_MAX = 1, /* steps that a newer server may be ahead of us */
    TRY_MS = 30000,
    PAUSE_MS = 50,
};

bool pg_schema_check(struct pg *pg, int64_t *out_version, struct err *err)
{
    int64_t ours, others, planted, version;
    /* In this order: a schema that is made between the two questions is seen whole. */
    if (!pg_number(pg, SQL_schema_strangers, &others, err) || !pg_number(pg, SQL_schema_exists, &ours, err))
        return false;
    *out_version = 0;
    if (!ours && others)
        return err_set(err, ERR_conflict,
            "%s holds %" PRId64 " tables of another program: give Weir a database of its own (createdb weir)",
            pg->place, others);
    if (!ours)
        return true;
    if (!pg_number(pg, SQL_schema_version, &version, err) || !pg_number(pg, SQL_schema_planted, &planted, err)) {
        if (err->code == ERR_forbidden)
            err_context(err,
                "%s holds a store of Weir that belongs to another user: name that one in the URL, or give this one its "
                "rights",
                pg->place);
        return false;
    }
    if (version > SQL_SCHEMA_VERSION + SCHEMA_AHEAD_MAX)
        return err_set(err, ERR_conflict,
            "%s has schema %" PRId64
            " and this weir knows %d, and runs on %d: run the weir that made it, or a newer one",
            pg->place, version, SQL_SCHEMA_VERSION, SQL_SCHEMA_VERSION + SCHEMA_AHEAD_MAX);
    if (version < SCHEMA_OLDEST)
        return err_set(err, ERR_corrupt,
            "%s has schema %" PRId64 " and this weir leads on from %d: bring it there with an older weir first",
            pg->place, version, SCHEMA_OLDEST);
    if (planted)
        return err_set(
            err, ERR_corrupt, "%s holds a trigger or a rule on Weir's tables: none of them is Weir's", pg->place);
    *out_version = version;
    return true;
}

bool pg_schema_ours(struct pg *pg, int64_t version, bool exactly, struct err *err)
{
    if (version == 0)
        return err_set(err, ERR_not_found, "%s is empty", pg->place);
    if (version < SQL_SCHEMA_VERSION)
        return err_set(err, ERR_unavailable, "%s has schema %" PRId64 ": start weir serve once to bring it to %d",
            pg->place, version, SQL_SCHEMA_VERSION);
    if (exactly && version > SQL_SCHEMA_VERSION)
        return err_set(err, ERR_conflict,
            "%s has schema %" PRId64 " and this weir knows all of %d only: use the weir that made it", pg->place,
            version, SQL_SCHEMA_VERSION);
    return true;
}

bool pg_schema_know(struct pg *pg, struct err *err)
{
    if (pg_exec(pg, SQL_lock_wait_long, err) && pg_number_for(pg, SQL_schema_know, SQL_SCHEMA_VERSION, NULL, err))
        return true;
    if (err->code == ERR_conflict)
        err_context(err, "%s is being brought to a newer schema: try again", pg->place);
    return false;
}

static bool steps_run(struct pg *pg, int64_t from, struct err *err)
{
    for (int64_t version = from; version < SQL_SCHEMA_VERSION; version++)
        if (!pg_exec_all(pg, pg_schema_step(version), err)) {
            err_context(err, "migration %" PRId64, version + 1);
            return false;
        }
    return true;
}

bool pg_schema_make(struct pg *pg, struct err *err)
{
    return steps_run(pg, 0, err);
}

bool pg_schema_older(int64_t version)
{
    return version < SQL_SCHEMA_VERSION;
}

/* Inside a transaction, with the schema's lock: who starts now with less than we may leave behind waits for the end of
 * it. */
static bool schema_fits_others(struct pg *pg, int64_t from, struct err *err)
{
    int64_t behind = 0;
    if (from && !pg_number_for(pg, SQL_schema_behind, SQL_SCHEMA_VERSION - SCHEMA_AHEAD_MAX - 1, &behind, err))
        return false;
    return !behind || err_set(err, ERR_conflict,
                          "%s is in use by a server that knows schema %" PRId64
                          ", and this weir would bring it to %d, too far for "
                          "that one: update that server first (weir nodes says which), one version at a time",
                          pg->place, behind, SQL_SCHEMA_VERSION);
}

/* The turn's lock comes first, so no turn is running. Readers are not waited for long: a session that waits for a
 * table's lock blocks all later ones, so the migration gives up and is repeated. */
static bool schema_lead(struct pg *pg, int64_t from, struct err *err)
{
    if (from && (!pg_exec(pg, SQL_schema_turn_lock, err) || !pg_exec(pg, SQL_schema_lock_brief, err)))
        return false;
    return steps_run(pg, from, err);
}

/* *out_busy: a lock was waited for too long, or two waited for each other: it may be tried again. */
static bool migrate_once(struct pg *pg, bool *out_busy, struct err *err)
{
    int64_t version;
    *out_busy = false;
    if (!pg_exec(pg, SQL_exec_begin, err) || !pg_exec(pg, SQL_schema_lock, err) || !pg_schema_check(pg, &version, err))
        return false;
    if (!pg_schema_older(version)) /* somebody else has done it while we waited */
        return pg_exec(pg, SQL_exec_rollback, err);
    if (!schema_fits_others(pg, version, err))
        return false;
    if (!schema_lead(pg, version, err) || !pg_exec(pg, SQL_exec_commit, err)) {
        *out_busy = err->code == ERR_conflict || err->code == ERR_unavailable;
        return false;
    }
    log_event("store.schema", "from=%" PRId64 " to=%d", version, SQL_SCHEMA_VERSION);
    return true;
}

bool pg_schema_migrate(struct pg *pg, struct err *err)
{
    int64_t deadline = clock_boot_ms() + TRY_MS;
    for (;;) {
        struct err why = { 0 }, ignored = { 0 };
        struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
        bool busy;
        if (migrate_once(pg, &busy, &why))
            return true;
        if (!pg->lost)
            (void)pg_exec(pg, SQL_exec_rollback, &ignored);
        if (pg->lost || !busy || clock_boot_ms() > deadline) {
            if (why.code == ERR_forbidden)
                err_context(&why,
                    "%s: the user needs a schema, and the right to create tables in it (GRANT CREATE ON SCHEMA)",
                    pg->place);
            return err_set(err, why.code, "%s", why.text);
        }
        nanosleep(&pause, NULL);
    }
}
