/* verify_all: a SQLite store, its logs and its kept files, for store/verify_all.c. Files are opened to be read and
 * nothing else: a server may run beside. */
#include "store/verify_all.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/cells.h"
#include "store/logs/file.h"
#include "store/sqlite/check.h"
#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

enum { READ_BYTES = 1 << 20 };

struct place {
    struct db db;
    struct sql sql;
    const char *data_dir;
    struct seek_reader seek;
    struct buf room;
};

bool sqlite_verify_database(const char *dir, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    char path[FILES_PATH_MAX];
    struct check_pace pace = { .tell = wish->tell, .owner = wish->owner };
    int64_t rows = 0;
    if (!path_join(path, dir, "weir.db", err))
        return false;
    if (!file_exists(path))
        return err_set(err, ERR_not_found, "there is no store at %s", path);
    bool served = check_is_served(dir);
    bool ok = served ? check_walk(path, &pace, &rows, err) : check_whole(path, err);
    if (ok && served)
        snprintf(out->database, sizeof out->database,
            "ok: every row can be read; indexes are checked when no server runs (weir verify --data)");
    else if (ok)
        snprintf(out->database, sizeof out->database, "ok: SQLite's integrity check");
    return ok;
}

static int log_file_open(const char *data_dir, int64_t task, int64_t grant, bool packed, struct err *err)
{
    char path[FILES_PATH_MAX];
    int n = packed ? snprintf(path, sizeof path, "%s/logs/%" PRId64 "/%" PRId64 ".%" PRId64 ".log.zst", data_dir,
                         task / LOG_SHARD_TASKS, task, grant)
                   : snprintf(path, sizeof path, "%s/logs/live/%" PRId64 ".%" PRId64 ".log", data_dir, task, grant);
    int fd = n > 0 && n < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0 && errno != ENOENT)
        err_set(err, ERR_io, "%s: %s", path, strerror(errno));
    return fd;
}

static bool packed_read(struct place *p, int fd, const struct verify_log *log, struct log_seal *out, struct err *err)
{
    struct seek_file file;
    crypto_generichash_state state;
    if (!seek_open(fd, &file, err))
        return false;
    crypto_generichash_init(&state, NULL, 0, LOG_HASH_BYTES);
    for (out->bytes = 0; out->bytes < file.bytes; out->bytes += (int64_t)p->room.len) {
        buf_reset(&p->room);
        if (!seek_read(&p->seek, &file, log->task, log->grant, out->bytes, READ_BYTES, &p->room, err))
            return false;
        if (p->room.len == 0)
            return err_set(err, ERR_corrupt, "it ends at byte %" PRId64 " of %" PRId64, out->bytes, file.bytes);
        crypto_generichash_update(&state, (const unsigned char *)p->room.ptr, p->room.len);
    }
    crypto_generichash_final(&state, out->hash, LOG_HASH_BYTES);
    return true;
}

static bool place_log(
    void *owner, const struct verify_log *log, int64_t *out_bytes, struct log_seal *out, struct err *err)
{
    struct place *p = owner;
    struct query q;
    int64_t end = 0;
    bool ok = true;
    *out = (struct log_seal){ 0 };
    int fd = log_file_open(p->data_dir, log->task, log->grant, true, err);
    if (fd >= 0) {
        /* its slots are found by the log's name: it may have been looked at before, and changed */
        seek_reader_release(&p->seek);
        p->seek = (struct seek_reader){ 0 };
        ok = packed_read(p, fd, log, out, err);
    } else if ((fd = log_file_open(p->data_dir, log->task, log->grant, false, err)) >= 0) {
        off_t size = lseek(fd, 0, SEEK_END);
        out->bytes = size > 0 ? size : 0; /* a log is packed before its seal is noted */
    }
    if (fd >= 0)
        close(fd);
    *out_bytes = out->bytes;
    if (!ok || err->code)
        return false;
    if (!ASK(&q, &p->sql, SQL_log_tail_end, err, NUM(log->task), NUM(log->grant)) ||
        !query_numbers(&q, (int64_t *[]){ &end }, 1, NULL, err))
        return false;
    if (end > *out_bytes)
        *out_bytes = end;
    return true;
}

static bool place_file(void *owner, const char *hex, int64_t *out_bytes, char out_hex[BLOB_HEX + 1], struct err *err)
{
    struct place *p = owner;
    char path[FILES_PATH_MAX];
    crypto_hash_sha256_state state;
    uint8_t hash[crypto_hash_sha256_BYTES];
    ssize_t n = 0;
    *out_bytes = -1;
    snprintf(path, sizeof path, "%s/blobs/%.2s/%s", p->data_dir, hex, hex);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP || err_set(err, ERR_io, "%s: %s", path, strerror(errno));
    crypto_hash_sha256_init(&state);
    buf_reset(&p->room);
    char *room = buf_reserve(&p->room, READ_BYTES);
    *out_bytes = 0;
    while ((n = read(fd, room, READ_BYTES)) > 0) {
        crypto_hash_sha256_update(&state, (const unsigned char *)room, (unsigned long long)n);
        *out_bytes += n;
    }
    close(fd);
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(out_hex, BLOB_HEX + 1, hash, sizeof hash);
    return n == 0 || err_set(err, ERR_io, "%s: %s", path, strerror(errno));
}

bool sqlite_verify_bytes(
    const char *dir, const char *data_dir, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    struct place p = { .data_dir = data_dir };
    p.sql = db_sql(&p.db);
    const struct bytes_source source = { .sql = p.sql, .owner = &p, .log = place_log, .file = place_file };
    buf_init(&p.room, 2 * READ_BYTES);
    bool ok = db_open_read(&p.db, dir, SQL_FOR_READER | SQL_FOR_VERIFIER, err) && bytes_verify(&source, wish, out, err);
    db_close(&p.db);
    seek_reader_release(&p.seek);
    buf_release(&p.room);
    return ok;
}
