/* blobs: kept files in PostgreSQL, for every server that shares the store. See blobs.h and bytes.h.
 *
 * Pieces of an upload are rows, whichever server receives them, of the same size as the rows of a blob. The upload's
 * row is locked while a piece is written. A seal first renames that row, so later pieces begin another upload; then it
 * reads the bytes back, hashes them, and turns them into a blob within the database, together with the record of what
 * the attempt has sealed. If the blob exists already, only its time of use is updated. Files that were kept before the
 * store was copied to PostgreSQL stay where they were and are found there.
 *
 * Promises what blobs.h does. Pieces aren't synced (if the database crashes and loses them, the sender learns where to
 * go on); seals are. A seal whose connection is lost is repeated once, from where it was. Fails like pg.h. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store/postgres/bytes.h"

enum { PIECE_BYTES = 256 << 10, PIECES_QUEUED = 16 };

struct pg_blobs {
    struct blobs port; /* first */
    struct blobs *files;
    pthread_mutex_t read_lock, write_lock, keep_lock;
    struct bytes_pg reader, writer, keeper; /* keeper: of long transactions, so that pieces don't wait for them */
};

static struct pg_blobs *blobs_of(struct blobs *port)
{
    return (struct pg_blobs *)(void *)port;
}

/* --- uploads --- */

/* pieces_write: the bytes from `offset` on as rows of the upload; the row that the offset is in keeps what stands
 * before it. */
static bool pieces_write(struct pg *pg, int64_t id, int64_t offset, struct str bytes, struct err *err)
{
    for (int n = 1; bytes.len > 0; n++) {
        int64_t within = offset % PIECE_BYTES;
        struct str part = str_sub(bytes, 0, (size_t)(PIECE_BYTES - within));
        pg_queue(pg, SQL_upload_piece_put, PG_ARGS(NUM(id), NUM(offset / PIECE_BYTES), NUM(within), TXT(part)));
        offset += (int64_t)part.len;
        bytes = str_sub(bytes, part.len, bytes.len);
        if (n % PIECES_QUEUED == 0 && !pg_exchange(pg, err))
            return false;
    }
    return true;
}

/* upload_lock: its row, made when there is none; in a transaction. */
static bool upload_lock(
    struct pg *pg, const struct upload *upload, const char *key, int64_t *out_id, int64_t *out_bytes, struct err *err)
{
    struct pg_args make = { 0 }, get = { 0 };
    arg_text(&make, str_of(key));
    arg_i64(&make, upload->task);
    arg_i64(&make, upload->grant);
    arg_text(&make, upload->tenant);
    arg_i64(&make, UPLOADS_MAX);
    arg_i64(&make, UPLOAD_SEALS_MAX);
    arg_text(&get, str_of(key));
    pg_queue(pg, SQL_bytes_begin, NULL);
    pg_queue(pg, SQL_bytes_loose, NULL);
    pg_queue(pg, SQL_upload_make, &make);
    pg_queue(pg, SQL_upload_lock, &get);
    if (!pg_exchange(pg, err))
        return false;
    if (PQntuples(pg->results[3]) == 0)
        return err_set(err, ERR_too_many, "%d files of this attempt are being sent already", UPLOADS_MAX);
    *out_id = cell_i64(pg->results[3], 0, 0);
    *out_bytes = cell_i64(pg->results[3], 0, 1);
    return true;
}

static bool room_check(struct pg *pg, const struct upload *upload, int64_t more, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, upload->tenant);
    return pg_run(pg, SQL_uploads_lock, &args, NULL, err) && pg_run(pg, SQL_uploads_waiting, &args, &result, err) &&
           upload_fits(upload, cell_i64(result, 0, 0) + more, err);
}

static bool piece_put(struct bytes_pg *self, const struct upload *upload, const char *key, int64_t offset,
    struct str bytes, struct err *err)
{
    struct pg *pg = &self->pg;
    int64_t id, size;
    if (!bytes_ready(self, err) || !upload_lock(pg, upload, key, &id, &size, err))
        return false;
    if (offset > size) {
        err->expected = size;
        return err_set(err, ERR_log_gap, "%lld bytes of the file are here, the piece begins at %lld", (long long)size,
            (long long)offset);
    }
    if (upload->room > 0 && !room_check(pg, upload, offset + (int64_t)bytes.len - size, err))
        return false;
    if (!pieces_write(pg, id, offset, bytes, err))
        return false;
    pg_queue(pg, SQL_upload_grow,
        PG_ARGS(NUM(id), NUM(offset + (int64_t)bytes.len),
            NUM((offset + (int64_t)bytes.len + PIECE_BYTES - 1) / PIECE_BYTES),
            NUM((offset + (int64_t)bytes.len) / PIECE_BYTES), NUM((offset + (int64_t)bytes.len) % PIECE_BYTES)));
    pg_queue(pg, SQL_bytes_commit, NULL);
    return pg_exchange(pg, err);
}

static bool pg_append(struct blobs *port, const struct upload *upload, int64_t offset, struct str bytes,
    int64_t bytes_max, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    char key[UPLOAD_KEY_BYTES];
    struct err why = { 0 };
    if (!upload_key(upload, key, err))
        return false;
    if (offset < 0 || offset > bytes_max || (int64_t)bytes.len > bytes_max - offset)
        return err_set(err, ERR_body_too_large, "the file is over %lld bytes", (long long)bytes_max);
    pthread_mutex_lock(&self->write_lock);
    bool ok = piece_put(&self->writer, upload, key, offset, bytes, &why);
    if (!ok)
        bytes_rollback(&self->writer);
    if (!ok && self->writer.pg.lost) { /* the piece may be there: it is written over */
        why = (struct err){ 0 };
        ok = piece_put(&self->writer, upload, key, offset, bytes, &why);
        if (!ok)
            bytes_rollback(&self->writer);
    }
    pthread_mutex_unlock(&self->write_lock);
    err->expected = why.expected;
    return ok || err_set(err, why.code, "%s", why.text);
}

/* --- keeping --- */

/* upload_take: from here on the upload is the seal's alone. */
static bool upload_take(struct bytes_pg *self, const char *key, int64_t *out_id, int64_t *out_bytes, struct err *err)
{
    PGresult *result;
    if (!bytes_ask(self, SQL_upload_take, PG_ARGS(TXT(str_of(key))), &result, err))
        return false;
    if (PQntuples(result) == 0) {
        err->expected = 0;
        return err_set(err, ERR_log_gap, "no piece of this file is here: it is sent again from its beginning");
    }
    *out_id = cell_i64(result, 0, 0);
    *out_bytes = cell_i64(result, 0, 1);
    return true;
}

static bool upload_hash(struct pg_blobs *self, int64_t id, struct blob *out, struct err *err)
{
    crypto_hash_sha256_state state;
    unsigned char digest[crypto_hash_sha256_BYTES];
    int64_t n_pieces = (out->bytes + PIECE_BYTES - 1) / PIECE_BYTES, seen = 0;
    bool ok = true;
    crypto_hash_sha256_init(&state);
    for (int64_t i = 0; ok && i < n_pieces; i++) {
        PGresult *result;
        pthread_mutex_lock(&self->write_lock);
        ok = bytes_ask(&self->writer, SQL_upload_piece, PG_ARGS(NUM(id), NUM(i)), &result, err);
        struct str bytes = ok && PQntuples(result) > 0 ? cell_view(result, 0, 0) : (struct str){ 0 };
        crypto_hash_sha256_update(&state, (const unsigned char *)bytes.ptr, bytes.len);
        seen += (int64_t)bytes.len;
        pthread_mutex_unlock(&self->write_lock);
    }
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(out->hex, sizeof out->hex, digest, sizeof digest);
    if (ok && seen != out->bytes)
        ok = err_set(err, ERR_log_gap, "pieces of the file are missing: it is sent again from its beginning");
    return ok;
}

static bool blob_write(
    struct bytes_pg *self, const struct upload *upload, int64_t id, const struct blob *blob, struct err *err)
{
    struct pg *pg = &self->pg;
    struct pg_args put = { 0 }, move = { 0 }, seal = { 0 }, drop = { 0 };
    if (!bytes_ready(self, err))
        return false;
    arg_text(&put, str_of(blob->hex));
    arg_i64(&put, blob->bytes);
    pg_queue(pg, SQL_bytes_begin, NULL);
    pg_queue(pg, SQL_blob_put, &put);
    bool ok = pg_exchange(pg, err), fresh = ok && cell_i64(pg->results[1], 0, 0);
    if (!ok)
        return false;
    arg_text(&move, str_of(blob->hex));
    arg_i64(&move, id);
    arg_i64(&move, (blob->bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    if (fresh)
        pg_queue(pg, SQL_blob_move, &move);
    if (upload->task > 0) {
        arg_i64(&seal, upload->task);
        arg_i64(&seal, upload->grant);
        arg_text(&seal, str_of(upload->name));
        arg_text(&seal, str_of(blob->hex));
        arg_i64(&seal, blob->bytes);
        arg_text(&seal, upload->tenant);
        pg_queue(pg, SQL_upload_seal_put, &seal);
    }
    arg_i64(&drop, id);
    pg_queue(pg, SQL_upload_drop, &drop);
    pg_queue(pg, SQL_bytes_commit, NULL);
    return pg_exchange(pg, err);
}

static void upload_drop(struct pg_blobs *self, int64_t id)
{
    PGresult *result;
    struct err ignored = { 0 };
    pthread_mutex_lock(&self->write_lock);
    (void)bytes_ask(
        &self->writer, SQL_upload_drop, PG_ARGS(NUM(id)), &result, &ignored); /* else it goes with its grant */
    pthread_mutex_unlock(&self->write_lock);
}

static bool pg_seal(struct blobs *port, const struct upload *upload, struct blob *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    char key[UPLOAD_KEY_BYTES];
    int64_t id;
    struct err why = { 0 };
    if (!upload_key(upload, key, err))
        return false;
    pthread_mutex_lock(&self->write_lock);
    bool ok = upload_take(&self->writer, key, &id, &out->bytes, err);
    pthread_mutex_unlock(&self->write_lock);
    if (!ok)
        return false;
    if (upload_hash(self, id, out, err)) {
        pthread_mutex_lock(&self->write_lock);
        ok = blob_write(&self->writer, upload, id, out, &why);
        if (!ok)
            bytes_rollback(&self->writer);
        /* when the lost one was committed the upload is gone, and there is nothing to move */
        if (!ok && self->writer.pg.lost) {
            ok = blob_write(&self->writer, upload, id, out, &why);
            if (!ok)
                bytes_rollback(&self->writer);
        }
        pthread_mutex_unlock(&self->write_lock);
        if (!ok)
            err_set(err, why.code, "%s", why.text);
    } else {
        ok = false;
    }
    if (!ok)
        upload_drop(self, id);
    return ok;
}

/* --- keeping a file as it is --- */

struct keeping {
    struct pg *pg;
    const char *hex;
    int n_queued;
    bool fresh;
};

static bool chunk_take(void *owner, int64_t offset, struct str bytes, struct err *err)
{
    struct keeping *keeping = owner;
    if (!keeping->fresh)
        return true;
    pg_queue(
        keeping->pg, SQL_blob_chunk_put, PG_ARGS(TXT(str_of(keeping->hex)), NUM(offset / PIECE_BYTES), TXT(bytes)));
    return ++keeping->n_queued % PIECES_QUEUED != 0 || pg_exchange(keeping->pg, err);
}

/* source_write: one transaction: of a file that isn't whole, or has other bytes, nothing is left. */
static bool source_write(
    struct bytes_pg *self, const struct blob_source *source, struct blob_hold *out, struct err *err)
{
    struct pg *pg = &self->pg;
    struct stat st;
    struct pg_args put = { 0 };
    char hex[BLOB_HEX + 1];
    sodium_bin2hex(hex, sizeof hex, source->sha256, crypto_hash_sha256_BYTES);
    if (fstat(source->fd, &st) != 0)
        return err_set(err, ERR_io, "can't read a file that is to be kept");
    if (!bytes_ready(self, err))
        return false;
    arg_text(&put, str_of(hex));
    arg_i64(&put, st.st_size);
    pg_queue(pg, SQL_bytes_begin, NULL);
    pg_queue(pg, SQL_blob_hold, &put);
    if (!pg_exchange(pg, err))
        return false;
    struct keeping keeping = { .pg = pg, .hex = hex, .fresh = cell_i64(pg->results[1], 0, 0) };
    out->stamp = keeping.fresh ? cell_i64(pg->results[1], 0, 1) : 0;
    struct source_taker taker = { chunk_take, &keeping };
    if (!source_hash(source, &taker, &out->blob, err))
        return false;
    if (out->blob.bytes != st.st_size)
        return err_set(err, ERR_corrupt, "the file was changed while it was read");
    pg_queue(pg, SQL_bytes_commit, NULL);
    return pg_exchange(pg, err);
}

static bool pg_keep(struct blobs *port, const struct blob_source *source, struct blob_hold *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    struct err why = { 0 };
    pthread_mutex_lock(&self->keep_lock);
    bool ok = source_write(&self->keeper, source, out, &why);
    if (!ok)
        bytes_rollback(&self->keeper);
    /* when the lost one was committed the blob is there already, and stays for a sweep if nobody names it */
    if (!ok && self->keeper.pg.lost) {
        why = (struct err){ 0 };
        ok = source_write(&self->keeper, source, out, &why);
        if (!ok)
            bytes_rollback(&self->keeper);
    }
    pthread_mutex_unlock(&self->keep_lock);
    return ok || err_set(err, why.code, "%s", why.text);
}

static void pg_settle(struct blobs *port, const struct blob_hold *hold, bool stays)
{
    struct pg_blobs *self = blobs_of(port);
    PGresult *result;
    struct err ignored = { 0 };
    if (stays)
        return;
    pthread_mutex_lock(&self->keep_lock);
    (void)bytes_ask(&self->keeper, SQL_blob_drop, PG_ARGS(TXT(str_of(hold->blob.hex)), NUM(hold->stamp)), &result,
        &ignored); /* else a sweep does */
    pthread_mutex_unlock(&self->keep_lock);
}

/* --- what attempts have sent --- */

static bool pg_sealed(struct blobs *port, int64_t task, int64_t grant, struct buf *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    PGresult *result;
    pthread_mutex_lock(&self->read_lock);
    bool ok = bytes_ask(&self->reader, SQL_upload_seals, PG_ARGS(NUM(task), NUM(grant)), &result, err);
    for (int i = 0; ok && i < PQntuples(result); i++) {
        struct upload_seal seal;
        memset(&seal, 0, sizeof seal);
        snprintf(seal.name, sizeof seal.name, "%.*s", STR_ARG(cell_view(result, i, 0)));
        snprintf(seal.blob.hex, sizeof seal.blob.hex, "%.*s", STR_ARG(cell_view(result, i, 1)));
        seal.blob.bytes = cell_i64(result, i, 2);
        buf_add(out, &seal, sizeof seal);
    }
    pthread_mutex_unlock(&self->read_lock);
    return ok;
}

static bool pg_waiting(struct blobs *port, struct str tenant, int64_t *out_bytes, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    PGresult *result;
    pthread_mutex_lock(&self->read_lock);
    bool ok = bytes_ask(&self->reader, SQL_uploads_waiting, PG_ARGS(TXT(tenant)), &result, err);
    if (ok)
        *out_bytes = cell_i64(result, 0, 0);
    pthread_mutex_unlock(&self->read_lock);
    return ok;
}

static bool pg_grants(struct blobs *port, struct buf *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    PGresult *result;
    pthread_mutex_lock(&self->read_lock);
    bool ok = bytes_ask(&self->reader, SQL_upload_grants, NULL, &result, err);
    for (int i = 0; ok && i < PQntuples(result); i++) {
        struct upload_grant grant = { cell_i64(result, i, 0), cell_i64(result, i, 1), cell_i64(result, i, 2) };
        buf_add(out, &grant, sizeof grant);
    }
    pthread_mutex_unlock(&self->read_lock);
    return ok;
}

static void pg_forget(struct blobs *port, int64_t task, int64_t grant)
{
    struct pg_blobs *self = blobs_of(port);
    PGresult *result;
    struct err ignored = { 0 };
    pthread_mutex_lock(&self->write_lock);
    (void)bytes_ask(&self->writer, SQL_uploads_forget, PG_ARGS(NUM(task), NUM(grant)), &result, &ignored);
    pthread_mutex_unlock(&self->write_lock);
}

/* --- reading --- */

static bool pg_find(struct blobs *port, const char *hex, struct blob *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    PGresult *result;
    pthread_mutex_lock(&self->read_lock);
    bool ok = bytes_ask(&self->reader, SQL_blob_get, PG_ARGS(TXT(str_of(hex))), &result, err);
    bool found = ok && PQntuples(result) > 0;
    if (found)
        out->bytes = cell_i64(result, 0, 0);
    pthread_mutex_unlock(&self->read_lock);
    return ok && (found || blobs_find(self->files, str_of(hex), out, err));
}

/* Fewer bytes than wanted only at the end; *out_n: how many. */
static bool pieces_read(
    struct pg_blobs *self, const char *hex, int64_t offset, size_t max, struct buf *out, size_t *out_n, struct err *err)
{
    *out_n = 0;
    while (*out_n < max) {
        PGresult *result;
        int64_t within = offset % PIECE_BYTES, left = PIECE_BYTES - within, want = (int64_t)(max - *out_n);
        if (!bytes_ask(&self->reader, SQL_blob_read,
                PG_ARGS(TXT(str_of(hex)), NUM(offset / PIECE_BYTES), NUM(within), NUM(left < want ? left : want)),
                &result, err))
            return false;
        struct str bytes = PQntuples(result) > 0 ? cell_view(result, 0, 0) : (struct str){ 0 };
        if (bytes.len == 0)
            break;
        buf_add_str(out, bytes);
        offset += (int64_t)bytes.len;
        *out_n += bytes.len;
    }
    return !out->full || err_set(err, ERR_internal, "no room for a file");
}

static bool pg_read(struct blobs *port, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    struct blob blob;
    size_t n;
    pthread_mutex_lock(&self->read_lock);
    bool ok = pieces_read(self, hex, offset, max, out, &n, err);
    pthread_mutex_unlock(&self->read_lock);
    if (!ok || n > 0)
        return ok;
    struct err ignored = { 0 };
    if (blobs_find(self->files, str_of(hex), &blob, &ignored))
        return blobs_read(self->files, hex, offset, max, out, err);
    return pg_find(port, hex, &blob, err); /* its end, or none */
}

/* --- what nobody wants any more --- */

static bool blob_delete(struct pg_blobs *self, struct str hex, int64_t min_age_s)
{
    PGresult *result;
    struct err ignored = { 0 };
    pthread_mutex_lock(&self->write_lock);
    bool gone = bytes_ask(&self->writer, SQL_blob_delete, PG_ARGS(TXT(hex), NUM(min_age_s)), &result, &ignored) &&
                cell_i64(result, 0, 0) > 0;
    pthread_mutex_unlock(&self->write_lock);
    return gone;
}

static size_t pg_sweep(struct blobs *port, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner)
{
    struct pg_blobs *self = blobs_of(port);
    PGresult *result;
    struct err ignored = { 0 };
    struct buf old;
    size_t n = 0;
    buf_init(&old, SIZE_MAX);
    pthread_mutex_lock(&self->write_lock);
    if (bytes_ask(&self->writer, SQL_blobs_old, PG_ARGS(NUM(min_age_s)), &result, &ignored))
        for (int i = 0; i < PQntuples(result); i++)
            buf_add(&old, PQgetvalue(result, i, 0), BLOB_HEX);
    pthread_mutex_unlock(&self->write_lock);
    for (size_t at = 0; at < old.len; at += BLOB_HEX) {
        char hex[BLOB_HEX + 1] = "";
        memcpy(hex, old.ptr + at, BLOB_HEX);
        if (!wanted(hex, owner))
            n += blob_delete(self, str_of(hex), min_age_s);
    }
    buf_release(&old);
    return n + blobs_sweep(self->files, min_age_s, wanted, owner);
}

/* --- life --- */

static void pg_blobs_close(struct blobs *port)
{
    struct pg_blobs *self = blobs_of(port);
    bytes_close(&self->reader);
    bytes_close(&self->writer);
    bytes_close(&self->keeper);
    blobs_close(self->files);
    pthread_mutex_destroy(&self->read_lock);
    pthread_mutex_destroy(&self->write_lock);
    pthread_mutex_destroy(&self->keep_lock);
    mem_free(self);
}

static const struct blobs_ops pg_blobs_ops = { .shared = true,
    .close = pg_blobs_close,
    .append = pg_append,
    .seal = pg_seal,
    .keep = pg_keep,
    .settle = pg_settle,
    .sealed = pg_sealed,
    .waiting = pg_waiting,
    .grants = pg_grants,
    .forget = pg_forget,
    .find = pg_find,
    .read = pg_read,
    .sweep = pg_sweep };

struct blobs *blobs_postgres_open(const struct store_config *config, struct err *err)
{
    struct pg_blobs *self = mem_alloc_zero(sizeof *self);
    self->port.ops = &pg_blobs_ops;
    pthread_mutex_init(&self->read_lock, NULL);
    pthread_mutex_init(&self->write_lock, NULL);
    pthread_mutex_init(&self->keep_lock, NULL);
    self->reader.hurried = true;
    bytes_open_later(&self->keeper, config->url);
    if ((self->files = blobs_open(config->data_dir, err)) == NULL || !bytes_open(&self->reader, config->url, err) ||
        !bytes_open(&self->writer, config->url, err)) {
        pg_blobs_close(&self->port);
        return NULL;
    }
    return &self->port;
}
