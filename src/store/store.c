/* store: which store a URL means, and the way from the port's functions to it.
 *
 * Promises only to find the backend: everything else is the backend's (store/sqlite, store/postgres). A URL that no
 * backend takes is ERR_invalid. */
#include "store/store.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "io/clock.h"
#include "store/copy.h"
#include "store/logs/copy.h"
#include "store/postgres/bytes.h"
#include "store/postgres/timeline.h"
#include "store/read_ops.h"
#include "store/sqlite/check.h"
#include "store/sqlite/sqlite.h"
#include "store/verify.h"
#include "store/verify_all.h"

enum { EXECUTORS_BETWEEN = 1 << 20 }; /* more than register between a backup and its restore */

struct store_head store_head_first(void)
{
    struct store_head head = { .next_task = 1,
        .next_spec = 1,
        .next_lane = 1,
        .next_class = 1,
        .next_slot = 1,
        .next_executor = 1,
        .next_token = 1 };
    while (head.incarnation == 0)
        clock_entropy(&head.incarnation, sizeof head.incarnation);
    return head;
}

void store_head_renew(struct store_head *head)
{
    uint64_t before = head->incarnation;
    while (head->incarnation == before || head->incarnation == 0)
        clock_entropy(&head->incarnation, sizeof head->incarnation);
    /* by chance: one backup may be put back twice */
    head->next_executor += 1 + (int64_t)(head->incarnation % EXECUTORS_BETWEEN);
}

struct backend {
    const char *prefix; /* of its URLs */
    struct store *(*open)(const struct store_config *config, const char *place, struct err *err);
    struct reader *(*read)(const struct store_config *config, const char *place, struct err *err);
    bool (*verify)(const struct store_config *config, const char *place, const struct verify_wish *wish,
        struct verify_report *out, struct err *err);
    bool (*backup)(const struct store_config *config, const char *place, const char *to_file,
        struct backup_facts *facts, struct err *err);
    struct copy_source *(*copy_from)(const struct store_config *config, const char *place, struct err *err);
    struct copy_target *(*copy_to)(const struct store_config *config, const char *place, struct err *err);
};

const char *store_weakness(unsigned one)
{
    static const struct {
        unsigned weak;
        const char *text;
    } texts[] = {
        { STORE_WEAK_POWER, "fsync is off in PostgreSQL: a power cut loses accepted work" },
        { STORE_WEAK_PAGES, "full_page_writes is off in PostgreSQL: a power cut may damage the store" },
        { STORE_WEAK_FAILOVER,
            "no standby of PostgreSQL is synchronous: a failover loses accepted work (set synchronous_standby_names)" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].weak == one)
            return texts[i].text;
    return NULL;
}

/* --- SQLite: the place is a directory --- */

static struct reader *sqlite_read(const struct store_config *config, const char *dir, struct err *err)
{
    (void)config;
    return sqlite_reader_open(dir, err);
}

static bool sqlite_check(const struct store_config *config, const char *dir, const struct verify_wish *wish,
    struct verify_report *out, struct err *err)
{
    (void)config;
    return sqlite_verify(dir, wish, out, err);
}

static bool sqlite_backup(const struct store_config *config, const char *dir, const char *to_file,
    struct backup_facts *facts, struct err *err)
{
    (void)config;
    return store_backup(dir, to_file, facts, err);
}

/* --- PostgreSQL: the place is the whole URL --- */

static struct store *postgres_open(const struct store_config *config, const char *place, struct err *err)
{
    (void)place;
    return postgres_store_open(config, err);
}

static struct reader *postgres_read(const struct store_config *config, const char *place, struct err *err)
{
    (void)place;
    return postgres_reader_open(config, err);
}

static bool postgres_check(const struct store_config *config, const char *place, const struct verify_wish *wish,
    struct verify_report *out, struct err *err)
{
    (void)place;
    return postgres_verify(config, wish, out, err);
}

static bool postgres_backup(const struct store_config *config, const char *place, const char *to_file,
    struct backup_facts *facts, struct err *err)
{
    (void)place, (void)to_file, (void)facts;
    return err_set(err, ERR_invalid,
        "a store in PostgreSQL is backed up by PostgreSQL: pg_basebackup with its WAL; "
        "together with %s/verify.key",
        config->data_dir);
}

static struct copy_source *postgres_from(const struct store_config *config, const char *place, struct err *err)
{
    (void)place;
    return postgres_copy_from(config, err);
}

static struct copy_target *postgres_to(const struct store_config *config, const char *place, struct err *err)
{
    (void)place;
    return postgres_copy_to(config, err);
}

/* Prefixes of one backend stand longest first. */
static const struct backend backends[] = {
    { "sqlite://", sqlite_store_open, sqlite_read, sqlite_check, sqlite_backup, sqlite_copy_from, sqlite_copy_to },
    { "sqlite:", sqlite_store_open, sqlite_read, sqlite_check, sqlite_backup, sqlite_copy_from, sqlite_copy_to },
    { "postgresql://", postgres_open, postgres_read, postgres_check, postgres_backup, postgres_from, postgres_to },
    { "postgres://", postgres_open, postgres_read, postgres_check, postgres_backup, postgres_from, postgres_to },
};

/* backend_find: "sqlite:///DIR" -> SQLite and "/DIR"; without a URL SQLite in the data directory itself. */
static const struct backend *backend_find(const struct store_config *config, const char **out_place, struct err *err)
{
    if (!config->url || !*config->url) {
        *out_place = config->data_dir;
        if (config->data_dir && *config->data_dir)
            return &backends[0];
        err_set(err, ERR_invalid, "neither a store nor a data directory is given");
        return NULL;
    }
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        size_t n = strlen(backends[i].prefix);
        *out_place = config->url + n;
        if (strncmp(config->url, backends[i].prefix, n) == 0 && config->url[n])
            return &backends[i];
    }
    err_set(err, ERR_invalid, "the store \"%.200s\" isn't known: sqlite:///DIR and postgresql://USER@HOST/DATABASE are",
        config->url);
    return NULL;
}

bool store_is_postgres(const struct store_config *config)
{
    const char *place;
    struct err ignored = { 0 };
    const struct backend *backend = backend_find(config, &place, &ignored);
    return backend && backend->open == postgres_open;
}

struct logs *logs_open_store(const struct store_config *config, struct err *err)
{
    return store_is_postgres(config) ? logs_postgres_open(config, err) : logs_open(config->data_dir, err);
}

struct blobs *blobs_open_store(const struct store_config *config, struct err *err)
{
    return store_is_postgres(config) ? blobs_postgres_open(config, err) : blobs_open(config->data_dir, err);
}

/* A SQLite store doesn't begin where a server with a store in PostgreSQL has its files: its queue would look as if it
 * were gone. One that is there, by `weir store copy` or from before, is served. */
static bool beginning_check(const char *dir, struct err *err)
{
    char path[FILES_PATH_MAX];
    if (!path_join(path, dir, "weir.db", err))
        return false;
    return file_exists(path) || !timeline_there(dir) ||
           err_set(err, ERR_conflict,
               "%s is the data directory of a server with a store in PostgreSQL: name that store with --store "
               "postgresql://..., or give another directory with --data",
               dir);
}

struct store *store_open(const struct store_config *config, struct err *err)
{
    const char *place;
    const struct backend *backend = backend_find(config, &place, err);
    if (!backend || (backend->open == sqlite_store_open && !beginning_check(place, err)))
        return NULL;
    return backend->open(config, place, err);
}

struct reader *reader_open(const struct store_config *config, struct err *err)
{
    const char *place;
    const struct backend *backend = backend_find(config, &place, err);
    return backend ? backend->read(config, place, err) : NULL;
}

bool store_verify_at(const struct store_config *config, int64_t witness_seq, const uint8_t *witness_hash,
    struct verify_report *out, struct err *err)
{
    const char *place;
    const struct backend *backend = backend_find(config, &place, err);
    const struct verify_wish wish = { .witness_seq = witness_seq, .witness_hash = witness_hash };
    return backend && backend->verify(config, place, &wish, out, err);
}

/* Damage that the database names itself is a report, as a damaged history is. */
static bool database_verify(const struct store_config *config, const char *place, const struct verify_wish *wish,
    struct verify_report *out, struct err *err)
{
    bool ok = store_is_postgres(config) ? postgres_verify_database(config, out, err)
                                        : sqlite_verify_database(place, wish, out, err);
    if (!ok && err->code == ERR_corrupt)
        snprintf(out->database, sizeof out->database, "damaged");
    return verify_conclude(ok, out, err);
}

bool store_verify_all(
    const struct store_config *config, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    const char *place;
    const struct backend *backend = backend_find(config, &place, err);
    struct verify_report database = { .ok = true };
    *out = (struct verify_report){ 0 };
    if (!backend || (!wish->quick && !database_verify(config, place, wish, &database, err)))
        return false;
    if (!database.ok) {
        *out = database;
        return true;
    }
    if (!backend->verify(config, place, wish, out, err))
        return false;
    memcpy(out->database, database.database, sizeof out->database);
    if (!out->ok || wish->quick)
        return true;
    const char *data_dir = config->data_dir ? config->data_dir : place;
    return store_is_postgres(config) ? postgres_verify_bytes(config, wish, out, err)
                                     : sqlite_verify_bytes(place, data_dir, wish, out, err);
}

bool store_check_slowly(const struct store_config *config, const atomic_bool *stop, int64_t *out_rows, struct err *err)
{
    const char *place;
    char path[FILES_PATH_MAX];
    struct check_pace pace = { .stop = stop, .idle = 4 };
    *out_rows = 0;
    if (store_is_postgres(config))
        return true; /* its own checksums are checked with every page that is read */
    return backend_find(config, &place, err) && path_join(path, place, "weir.db", err) &&
           check_walk(path, &pace, out_rows, err);
}

bool store_backup_at(
    const struct store_config *config, const char *to_file, struct backup_facts *facts, struct err *err)
{
    const char *place;
    const struct backend *backend = backend_find(config, &place, err);
    return backend && backend->backup(config, place, to_file, facts, err);
}

/* What a target in PostgreSQL has is in the database: files of the source may be in the directory that it will be
 * served with. */
static struct logs *logs_open_target(const struct store_config *config, struct err *err)
{
    const struct store_config database = { .url = config->url };
    return store_is_postgres(config) ? logs_postgres_open(&database, err) : logs_open(config->data_dir, err);
}

/* Logs and kept files. The rows are there (in SQLite under a name that nobody serves yet), and the source is kept from
 * others. */
static bool bytes_copy(const struct store_config *from, const struct store_config *to, struct err *err)
{
    struct logs *from_logs = NULL, *to_logs = NULL;
    struct blobs *from_blobs = NULL, *to_blobs = NULL;
    struct buf listed;
    buf_init(&listed, SIZE_MAX);
    bool ok =
        (from_logs = logs_open_store(from, err)) != NULL &&
        (store_is_postgres(from) ? logs_postgres_list(from, &listed, err) : logs_list(from->data_dir, &listed, err)) &&
        (to_logs = logs_open_target(to, err)) != NULL && (from_blobs = blobs_open_store(from, err)) != NULL &&
        (to_blobs = blobs_open_store(to, err)) != NULL && logs_copy_all(from_logs, &listed, to_logs, err) &&
        blobs_copy_all(from_blobs, to_blobs, err);
    if (!ok && store_is_postgres(to))
        err_context(
            err, "the database has all rows, but not all logs and kept files: drop it, create it anew and copy again");
    else if (!ok)
        err_context(err, "not all logs and kept files could be copied, so there is no store at %s yet: copy again",
            to->data_dir);
    logs_close(to_logs);
    logs_close(from_logs);
    blobs_close(to_blobs);
    blobs_close(from_blobs);
    buf_release(&listed);
    return ok;
}

bool store_copy(const struct store_config *from, const struct store_config *to, const struct copy_progress *progress,
    struct err *err)
{
    const char *from_place, *to_place;
    const struct backend *a = backend_find(from, &from_place, err), *b = a ? backend_find(to, &to_place, err) : NULL;
    if (!a || !b || sodium_init() < 0)
        return false;
    struct copy_source *source = a->copy_from(from, from_place, err);
    struct copy_target *target = source ? b->copy_to(to, to_place, err) : NULL;
    bool ok = target && copy_run(source, target, from, to, progress, err) && bytes_copy(from, to, err) &&
              target->settle(target, err);
    if (target)
        target->close(target);
    if (source)
        source->close(source);
    return ok;
}
