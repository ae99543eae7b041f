/* open: a data directory becomes a store: lock, key, file, schema, a quick check, statements, the checkpoint thread.
 *
 * Promises: one opener at a time (DIR/lock); DIR is 0711 and what is made in it 0600; a new store is durable, key
 * first, before true is returned. Fails with ERR_conflict (in use, foreign, newer), ERR_not_found (nothing there and
 * config.create is false), ERR_corrupt, ERR_io. */
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/clock.h"
#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

enum {
    SCRATCH_BYTES_MAX = 64 << 20,
    QUICK_CHECK_BYTES_MAX = 32 << 20, /* a whole check of more would delay the start; `weir verify` has the time */
};

static bool head_check(struct sqlite_store *self, struct err *err)
{
    uint8_t seal[STORE_HASH_BYTES];
    return ask_head(&self->port.sql, &self->head, seal, err) &&
           chain_head_check(
               self->key, &self->head, seal, "verify.key: the key, or the database, isn't this store's", err);
}

static bool new_head(struct sqlite_store *self, struct err *err)
{
    const struct store_head head = store_head_first();
    return head_write(&self->db, self->key, &head, err);
}

/* A store without its first head row was never used: a crash came between migration and head. */
static bool head_make(struct sqlite_store *self, struct err *err)
{
    int64_t rows;
    if (!db_number(&self->db, SQL_count_beginnings, &rows, err))
        return false;
    return rows || (db_run(&self->db, SQL_begin, err) && db_run(&self->db, SQL_head_insert, err) &&
                       new_head(self, err) && db_run(&self->db, SQL_commit, err));
}

static bool database_open(struct sqlite_store *self, const char *data_dir, bool create, struct err *err)
{
    int64_t version = 0;
    bool made;
    if (!create && !file_exists(self->path))
        return err_set(err, ERR_not_found, "there is no store at %s", self->path);
    if (!file_create(self->path, &made, err) || !db_connect_writer(&self->db, self->path, err) ||
        !schema_check(&self->db, self->path, &version, err))
        return false;
    if (version == 0 && !create)
        return err_set(err, ERR_not_found, "%s is empty", self->path);
    if (version == 0 && !db_exec(&self->db, SQL_pragma_create, err))
        return false;
    if (!chain_key_open(data_dir, self->key, version == 0, err) || !db_exec(&self->db, SQL_pragma_writer, err))
        return false;
    enum sql_id check = file_size(self->path) <= QUICK_CHECK_BYTES_MAX ? SQL_quick_check : SQL_quick_check_head;
    self->port.unchecked = version && check == SQL_quick_check_head;
    if (version && !integrity_check(&self->db, check, err))
        return false;
    sqlite3_db_release_memory(self->db.conn); /* the check has read every page, most of them for the last time */
    return schema_migrate(&self->db, version, err) && db_prepare(&self->db, SQL_FOR_WRITER, err) &&
           head_make(self, err) && head_check(self, err) && place_check(self, err);
}

struct store *sqlite_store_open(const struct store_config *config, const char *dir, struct err *err)
{
    struct sqlite_store *self = mem_alloc(sizeof *self);
    memset(self, 0, sizeof *self);
    self->port.ops = &sqlite_ops;
    self->port.sql = db_sql(&self->db);
    self->port.exclusive = true; /* DIR/lock */
    self->lock_fd = -1;
    buf_init(&self->scratch, SCRATCH_BYTES_MAX);
    const char *data_dir = config->data_dir ? config->data_dir : dir;
    bool ok = sodium_init() >= 0 && path_join(self->path, dir, "weir.db", err);
    if (ok && config->create)
        ok = dir_create(dir, 0711, err) && dir_create(data_dir, 0711, err);
    else if (ok && !file_exists(dir))
        ok = err_set(err, ERR_not_found, "there is no store at %s", dir);
    ok = ok && (self->lock_fd = lock_take(dir, err)) >= 0 && database_open(self, data_dir, config->create, err) &&
         (self->checkpoint = checkpoint_start(self->path, &self->db, err)) != NULL;
    self->port.commit = self->head.commit;
    if (!ok) {
        sqlite_store_close(&self->port);
        return NULL;
    }
    return &self->port;
}

void sqlite_store_close(struct store *store)
{
    struct sqlite_store *self = sqlite_of(store);
    if (self->db.conn)
        sqlite_rollback(store);
    checkpoint_stop(self->checkpoint);
    db_close(&self->db);
    if (self->lock_fd >= 0)
        close(self->lock_fd);
    buf_release(&self->scratch);
    tagger_release(&self->tagger);
    sodium_memzero(self->key, sizeof self->key);
    mem_free(self);
}
