/* copy: a SQLite store as the source or the target of `weir store copy`. A target is written to weir.db.part, which
 * gets its name last. */
#include "store/copy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

struct sqlite_side { /* either end */
    union {
        struct copy_source source;
        struct copy_target target;
    } port; /* first */
    struct db db;
    int lock_fd;
    char path[FILES_PATH_MAX], part[FILES_PATH_MAX], dir[FILES_PATH_MAX];
};

static struct sqlite_side *side_of(void *port)
{
    return port;
}

static void side_close(struct sqlite_side *self)
{
    db_close(&self->db);
    if (self->part[0])
        unlink(self->part); /* not there any more when it has its name */
    if (self->lock_fd >= 0)
        close(self->lock_fd);
    mem_free(self);
}

static struct sqlite_side *side_open(const char *dir, struct err *err)
{
    struct sqlite_side *self = mem_alloc_zero(sizeof *self);
    self->lock_fd = -1;
    if (snprintf(self->dir, sizeof self->dir, "%s", dir) < FILES_PATH_MAX &&
        path_join(self->path, dir, "weir.db", err) && (self->lock_fd = lock_take(dir, err)) >= 0)
        return self;
    side_close(self);
    return NULL;
}

/* --- source --- */

static void source_close(struct copy_source *from)
{
    side_close(side_of(from));
}

static bool source_rows(struct copy_source *from, size_t table, const struct copy_row *row, struct err *err)
{
    struct query q = db_query(&side_of(from)->db, sql_tables[table].out);
    struct copy_cell cells[COPY_COLUMNS_MAX];
    enum query_step step;
    while ((step = query_next(&q, err)) == QUERY_ROW) {
        copy_cells(&q, sql_tables[table].types, cells);
        if (!row->take(row->owner, cells, err)) {
            q.ops->end(&q);
            return false;
        }
    }
    return step == QUERY_DONE;
}

struct copy_source *sqlite_copy_from(const struct store_config *config, const char *dir, struct err *err)
{
    char path[FILES_PATH_MAX];
    (void)config;
    if (!path_join(path, dir, "weir.db", err))
        return NULL;
    if (!file_exists(path)) {
        err_set(err, ERR_not_found, "there is no store at %s", path);
        return NULL;
    }
    struct sqlite_side *self = side_open(dir, err);
    if (!self)
        return NULL;
    if (!db_open_read(&self->db, dir, SQL_FOR_COPY, err)) {
        side_close(self);
        return NULL;
    }
    self->port.source = (struct copy_source){ .rows = source_rows, .close = source_close };
    return &self->port.source;
}

/* --- target --- */

static void target_close(struct copy_target *to)
{
    side_close(side_of(to));
}

static bool target_put(struct copy_target *to, size_t table, const struct copy_cell *cells, struct err *err)
{
    struct db *db = &side_of(to)->db;
    enum sql_id id = sql_tables[table].in;
    const char *types = sql_tables[table].types;
    sqlite3_stmt *stmt = db->stmts[id];
    for (int i = 0; types[i]; i++) {
        if (cells[i].null)
            sqlite3_bind_null(stmt, i + 1);
        else if (types[i] == 'i')
            bind_i64(stmt, i + 1, cells[i].number);
        else if (types[i] == 't')
            bind_text(stmt, i + 1, cells[i].bytes);
        else
            bind_blob(stmt, i + 1, cells[i].bytes.ptr, cells[i].bytes.len);
    }
    return db_run(db, id, err);
}

static bool target_table_end(struct copy_target *to, size_t table, struct err *err)
{
    (void)to, (void)table, (void)err;
    return true;
}

static bool target_finish(struct copy_target *to, const uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
    struct sqlite_side *self = side_of(to);
    struct verify_report report;
    if (!db_run(&self->db, SQL_commit, err) || !verify_walk(&self->db, key, &(struct verify_wish){ 0 }, &report, err))
        return false;
    if (!report.ok)
        return err_set(err, ERR_corrupt, "the copy doesn't verify: %s", report.fault);
    if (!db_run(&self->db, SQL_begin, err) ||
        !incarnation_renew(&self->db, key, STR("copy"), STR("copied from another store"), err) ||
        !db_run(&self->db, SQL_commit, err))
        return false;
    db_close(&self->db);
    return file_sync(self->part, err);
}

static bool target_settle(struct copy_target *to, struct err *err)
{
    struct sqlite_side *self = side_of(to);
    if (rename(self->part, self->path) < 0)
        return err_set(err, ERR_io, "%s: %s", self->path, strerror(errno));
    self->part[0] = '\0';
    return dir_sync(self->dir, err);
}

static bool target_make(struct sqlite_side *self, struct err *err)
{
    bool made;
    if (file_exists(self->path))
        return err_set(
            err, ERR_conflict, "%s holds a store: copy into another directory, or move it away first", self->dir);
    if (!path_join(self->part, self->dir, "weir.db.part", err))
        return false;
    if (unlink(self->part) < 0 && errno != ENOENT)
        return err_set(err, ERR_io, "%s: %s", self->part, strerror(errno));
    return file_create(self->part, &made, err) && db_connect(&self->db, self->part, SQLITE_OPEN_READWRITE, err) &&
           db_exec(&self->db, SQL_pragma_create, err) && db_exec(&self->db, SQL_pragma_single_file, err) &&
           schema_migrate(&self->db, 0, err) &&
           db_prepare(&self->db, SQL_FOR_WRITER | SQL_FOR_READER | SQL_FOR_VERIFIER | SQL_FOR_COPY, err) &&
           db_run(&self->db, SQL_begin, err);
}

struct copy_target *sqlite_copy_to(const struct store_config *config, const char *dir, struct err *err)
{
    (void)config;
    if (!dir_create(dir, 0711, err))
        return NULL;
    struct sqlite_side *self = side_open(dir, err);
    if (!self)
        return NULL;
    self->port.target = (struct copy_target){ .put = target_put,
        .table_end = target_table_end,
        .finish = target_finish,
        .settle = target_settle,
        .close = target_close };
    if (!target_make(self, err)) {
        side_close(self);
        return NULL;
    }
    return &self->port.target;
}
