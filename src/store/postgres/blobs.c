/* blobs: kept files in PostgreSQL, for every server that shares the store. See blobs.h and bytes.h.
 *
 * An upload is a file of the server that takes it (store/blobs.c) until blobs_seal puts it into the database, in pieces of PIECE_BYTES, in
 * one transaction; then the file goes. A file that is there already is only marked as used now. Kept files of the time before the store
 * came to PostgreSQL are found where they were.
 *
 * Promises what blobs.h does; a seal whose connection is lost is tried once more, which does no harm. Fails like pg.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "store/postgres/bytes.h"

enum { PIECE_BYTES = 256 << 10, PIECES_QUEUED = 16 };

struct pg_blobs {
    struct blobs port; /* first */
    struct blobs *files;
    pthread_mutex_t read_lock, write_lock;
    struct bytes_pg reader, writer;
};

static struct pg_blobs *blobs_of(struct blobs *port)
{
    return (struct pg_blobs *)(void *)port;
}

static bool pg_append(struct blobs *port, const char *key, int64_t offset, struct str bytes, int64_t bytes_max, struct err *err)
{
    return blobs_append(blobs_of(port)->files, key, offset, bytes, bytes_max, err);
}

/* ---- keeping ---- */

static bool piece_read(int fd, int64_t offset, struct buf *out, struct err *err)
{
    buf_reset(out);
    char *room = buf_reserve(out, PIECE_BYTES);
    ssize_t n;
    ASSERT(room != NULL);
    while ((n = pread(fd, room, PIECE_BYTES, offset)) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return err_set(err, ERR_io, "reading an upload: %s", strerrordesc_np(errno));
    buf_commit(out, (size_t)n);
    return true;
}

static bool pieces_write(struct pg *pg, int fd, const struct blob *blob, struct buf *piece, struct err *err)
{
    int64_t n_pieces = (blob->bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    for (int64_t i = 0; i < n_pieces; i++) {
        struct pg_args args = { 0 };
        if (!piece_read(fd, i * PIECE_BYTES, piece, err))
            return false;
        arg_text(&args, str_of(blob->hex));
        arg_i64(&args, i);
        arg_text(&args, buf_str(piece));
        pg_queue(pg, PG_blob_chunk_put, &args);
        if ((i % PIECES_QUEUED == PIECES_QUEUED - 1 || i == n_pieces - 1) && !pg_exchange(pg, err))
            return false;
    }
    return true;
}

static bool blob_write(struct bytes_pg *self, int fd, const struct blob *blob, struct buf *piece, struct err *err)
{
    struct pg *pg = &self->pg;
    struct pg_args args = { 0 };
    if (!bytes_ready(self, err))
        return false;
    arg_text(&args, str_of(blob->hex));
    arg_i64(&args, blob->bytes);
    pg_queue(pg, PG_bytes_begin, NULL);
    pg_queue(pg, PG_blob_put, &args);
    bool ok = pg_exchange(pg, err);
    if (ok && cell_i64(pg->results[1], 0, 0))
        ok = pieces_write(pg, fd, blob, piece, err);
    ok = ok && pg_run(pg, PG_bytes_commit, NULL, NULL, err);
    if (!ok)
        bytes_rollback(self);
    return ok;
}

static bool pg_seal(struct blobs *port, const char *key, struct blob *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    struct buf piece;
    int fd = blob_upload_open(self->files, key, out, err);
    if (fd < 0)
        return false;
    buf_init(&piece, PIECE_BYTES + 1);
    pthread_mutex_lock(&self->write_lock);
    struct err why = { 0 };
    bool ok = blob_write(&self->writer, fd, out, &piece, &why);
    if (!ok && self->writer.pg.lost)
        ok = blob_write(&self->writer, fd, out, &piece, err);
    else if (!ok)
        err_set(err, why.code, "%s", why.text);
    pthread_mutex_unlock(&self->write_lock);
    buf_release(&piece);
    close(fd);
    if (ok)
        blob_upload_drop(self->files, key);
    return ok;
}

/* ---- reading ---- */

static bool pg_find(struct blobs *port, const char *hex, struct blob *out, struct err *err)
{
    struct pg_blobs *self = blobs_of(port);
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, str_of(hex));
    pthread_mutex_lock(&self->read_lock);
    bool ok = bytes_ask(&self->reader, PG_blob_get, &args, &result, err);
    bool found = ok && PQntuples(result) > 0;
    if (found)
        out->bytes = cell_i64(result, 0, 0);
    pthread_mutex_unlock(&self->read_lock);
    return ok && (found || blobs_find(self->files, str_of(hex), out, err));
}

/* Fewer bytes than wanted only at the end; *out_n: how many. */
static bool pieces_read(struct pg_blobs *self, const char *hex, int64_t offset, size_t max, struct buf *out, size_t *out_n, struct err *err)
{
    *out_n = 0;
    while (*out_n < max) {
        struct pg_args args = { 0 };
        PGresult *result;
        int64_t within = offset % PIECE_BYTES, left = PIECE_BYTES - within, want = (int64_t)(max - *out_n);
        arg_text(&args, str_of(hex));
        arg_i64(&args, offset / PIECE_BYTES);
        arg_i64(&args, within);
        arg_i64(&args, left < want ? left : want);
        if (!bytes_ask(&self->reader, PG_blob_read, &args, &result, err))
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

/* ---- what nobody wants any more ---- */

static bool blob_delete(struct pg_blobs *self, struct str hex, int64_t min_age_s)
{
    struct pg_args args = { 0 };
    PGresult *result;
    struct err ignored = { 0 };
    arg_text(&args, hex);
    arg_i64(&args, min_age_s);
    pthread_mutex_lock(&self->write_lock);
    bool gone = bytes_ask(&self->writer, PG_blob_delete, &args, &result, &ignored) && cell_i64(result, 0, 0) > 0;
    pthread_mutex_unlock(&self->write_lock);
    return gone;
}

static size_t pg_sweep(struct blobs *port, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner)
{
    struct pg_blobs *self = blobs_of(port);
    struct pg_args args = { 0 };
    PGresult *result;
    struct err ignored = { 0 };
    struct buf old;
    size_t n = 0;
    buf_init(&old, SIZE_MAX);
    arg_i64(&args, min_age_s);
    pthread_mutex_lock(&self->write_lock);
    if (bytes_ask(&self->writer, PG_blobs_old, &args, &result, &ignored))
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

/* ---- life ---- */

static void pg_blobs_close(struct blobs *port)
{
    struct pg_blobs *self = blobs_of(port);
    bytes_close(&self->reader);
    bytes_close(&self->writer);
    blobs_close(self->files);
    pthread_mutex_destroy(&self->read_lock);
    pthread_mutex_destroy(&self->write_lock);
    mem_free(self);
}

static const struct blobs_ops pg_blobs_ops = {
    .close = pg_blobs_close, .append = pg_append, .seal = pg_seal, .find = pg_find, .read = pg_read, .sweep = pg_sweep
};

struct blobs *blobs_postgres_open(const struct store_config *config, struct err *err)
{
    struct pg_blobs *self = mem_alloc_zero(sizeof *self);
    self->port.ops = &pg_blobs_ops;
    pthread_mutex_init(&self->read_lock, NULL);
    pthread_mutex_init(&self->write_lock, NULL);
    if ((self->files = blobs_open(config->data_dir, err)) == NULL || !bytes_open(&self->reader, config->url, err) ||
        !bytes_open(&self->writer, config->url, err)) {
        pg_blobs_close(&self->port);
        return NULL;
    }
    return &self->port;
}
