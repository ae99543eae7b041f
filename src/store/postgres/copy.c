/* copy: a PostgreSQL store as the source or the target of `weir store copy`. A target is one transaction, schema and
 * all: it is there when it is committed, or not at all. Rows go in as arrays. Logs and kept files follow by other
 * connections, which see what is committed. */
#include "store/copy.h"

#include <sodium.h>
#include <string.h>

#include "io/clock.h"
#include "store/files.h"
#include "store/pack.h"
#include "store/postgres/reader.h"
#include "store/tags.h"

enum { BATCH_ROWS = 2000, BATCH_BYTES = 8 << 20 };

struct postgres_side { /* either end */
    union {
        struct copy_source source;
        struct copy_target target;
    } port;                    /* first */
    struct postgres_reader on; /* only its connection is used */
    size_t batch_bytes;
    bool begun;                   /* rows of a table wait in the connection's bulk */
    const char *data_dir;         /* of a target: where its key is; the caller's */
    uint8_t key[CHAIN_KEY_BYTES]; /* of a source */
    bool key_found;
};

static struct postgres_side *side_of(void *port)
{
    return port;
}

static void side_close(struct postgres_side *self)
{
    pg_close(&self->on.pg); /* ends what wasn't committed */
    sodium_memzero(self->key, sizeof self->key);
    mem_free(self);
}

/* --- source --- */

static void source_close(struct copy_source *from)
{
    side_close(side_of(from));
}

static bool source_rows(struct copy_source *from, size_t table, const struct copy_row *row, struct err *err)
{
    struct pg *pg = &side_of(from)->on.pg;
    struct copy_cell cells[COPY_COLUMNS_MAX];
    struct query q = { 0 };
    PGresult *result;
    if (!pg_run(pg, sql_tables[table].out, NULL, NULL, err))
        return false;
    do {
        if (!pg_run(pg, SQL_copy_fetch, NULL, &result, err))
            return false;
        q = pg_query(result);
        while (query_next(&q, err) == QUERY_ROW) {
            copy_cells(&q, sql_tables[table].types, cells);
            if (!row->take(row->owner, cells, err))
                return false;
        }
    } while (q.n_rows > 0);
    return pg_run(pg, SQL_copy_close, NULL, NULL, err);
}

static bool source_key(struct copy_source *from, uint8_t out[CHAIN_KEY_BYTES])
{
    const struct postgres_side *self = side_of(from);
    memcpy(out, self->key, sizeof self->key);
    return self->key_found;
}

struct copy_source *postgres_copy_from(const struct store_config *config, struct err *err)
{
    struct postgres_side *self = mem_alloc_zero(sizeof *self);
    struct pg *pg = &self->on.pg;
    int64_t version = 0;
    bool ok = pg_connect(pg, config->url, err) && pg_schema_check(pg, &version, err) &&
              pg_schema_ours(pg, version, true, err);
    ok = ok && writer_lock(pg, err);
    self->key_found = ok && pg_key_borrow(pg, self->key);
    ok = ok && pg_prepare(pg, SQL_FOR_READER | SQL_FOR_COPY, err) && pg_run(pg, SQL_begin_snapshot, NULL, NULL, err);
    if (!ok) {
        side_close(self);
        return NULL;
    }
    self->port.source = (struct copy_source){ .key = source_key, .rows = source_rows, .close = source_close };
    return &self->port.source;
}

/* --- target --- */

static void target_close(struct copy_target *to)
{
    side_close(side_of(to));
}

static bool batch_send(struct postgres_side *self, size_t table, struct err *err)
{
    struct pg *pg = &self->on.pg;
    struct pg_args args = { 0 };
    if (!self->begun)
        return true;
    self->begun = false;
    self->batch_bytes = 0;
    if (!bulk_args(&pg->bulk, &args))
        return err_set(err, ERR_invalid, "a row is larger than an array may be");
    return pg_run(pg, sql_tables[table].in, &args, NULL, err);
}

static bool target_put(struct copy_target *to, size_t table, const struct copy_cell *cells, struct err *err)
{
    struct postgres_side *self = side_of(to);
    struct pg_bulk *bulk = &self->on.pg.bulk;
    const char *types = sql_tables[table].types;
    if (!self->begun)
        bulk_begin(bulk, types);
    self->begun = true;
    for (int i = 0; types[i]; i++) {
        if (cells[i].null)
            bulk_null(bulk);
        else if (types[i] == 'i')
            bulk_i64(bulk, cells[i].number);
        else
            bulk_text(bulk, cells[i].bytes);
        self->batch_bytes += cells[i].bytes.len + 12;
    }
    return (bulk->n_rows < BATCH_ROWS && self->batch_bytes < BATCH_BYTES) || batch_send(self, table, err);
}

static bool target_table_end(struct copy_target *to, size_t table, struct err *err)
{
    return batch_send(side_of(to), table, err);
}

/* A new incarnation, recorded in the history; jobs that run count as begun. */
static bool incarnation_take(struct pg *pg, const uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
    struct store_head head, before;
    struct event event = {
        .kind = EVENT_incarnation, .actor = STR("copy"), .reason = STR("copied from another store")
    };
    struct pg_args args = { 0 };
    struct buf packed;
    int64_t now = clock_wall_ms();
    if (!head_read(pg, &before, NULL, err))
        return false;
    head = before;
    store_head_renew(&head);
    buf_init(&packed, 4096);
    pack_events(&packed, &event, 1);
    head.turn++;
    head.seq++;
    chain_link(key, before.hash, head.turn, head.seq, now, buf_str(&packed), TAGS_NONE, head.hash);
    arg_i64(&args, head.turn);
    arg_i64(&args, head.seq);
    arg_i64(&args, now);
    arg_bytes(&args, head.hash, sizeof head.hash);
    arg_text(&args, buf_str(&packed));
    arg_text(&args, TAGS_NONE);
    pg_queue(pg, SQL_copy_lives_forget, NULL);
    pg_queue(pg, SQL_turn_insert, &args);
    head_queue(pg, key, &head, &before, NULL);
    bool ok = pg_exchange(pg, err);
    buf_release(&packed);
    return ok;
}

static bool target_finish(struct copy_target *to, const uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
    struct postgres_side *self = side_of(to);
    struct verify_report report;
    if (!pg_verify_inside(&self->on, key, &report, err))
        return false;
    if (!report.ok)
        return err_set(err, ERR_corrupt, "the copy doesn't verify: %s", report.fault);
    if (!incarnation_take(&self->on.pg, key, err))
        return false;
    pg_key_queue(&self->on.pg, self->data_dir);
    return pg_exchange(&self->on.pg, err) && pg_run(&self->on.pg, SQL_commit, NULL, NULL, err);
}

/* The commit was it: logs and kept files go in by connections that must see the tables. */
static bool target_settle(struct copy_target *to, struct err *err)
{
    (void)to, (void)err;
    return true;
}

static bool target_make(struct pg *pg, const struct store_config *config, struct err *err)
{
    int64_t version;
    if (!dir_create(config->data_dir, 0711, err) || !pg_connect(pg, config->url, err) || !pg_writable(pg, err) ||
        !pg_exec(pg, SQL_session_durable, err) || !pg_exec(pg, SQL_exec_begin, err) ||
        !pg_exec(pg, SQL_schema_lock, err) || !pg_schema_check(pg, &version, err))
        return false;
    if (version)
        return err_set(err, ERR_conflict, "%s holds a store of Weir: copy into an empty database", pg->place);
    return pg_schema_make(pg, err) &&
           pg_prepare(pg, SQL_FOR_WRITER | SQL_FOR_READER | SQL_FOR_VERIFIER | SQL_FOR_COPY, err);
}

struct copy_target *postgres_copy_to(const struct store_config *config, struct err *err)
{
    struct postgres_side *self = mem_alloc_zero(sizeof *self);
    self->data_dir = config->data_dir;
    self->port.target = (struct copy_target){ .put = target_put,
        .table_end = target_table_end,
        .finish = target_finish,
        .settle = target_settle,
        .close = target_close };
    if (!target_make(&self->on.pg, config, err)) {
        side_close(self);
        return NULL;
    }
    return &self->port.target;
}
