/* bytes_copy: logs and kept files leave PostgreSQL with the store that is copied. See bytes.h.
 *
 * Promises that all of them are at the target, and durable, when it returns true. What is there already isn't written again. Fails like the
 * places it reads and writes. */
#include <inttypes.h>

#include "store/postgres/bytes.h"

enum { PAGE = 1000, STEP_BYTES = 1 << 20, LONG_AGO_S = -1000 };

static bool chunk_put(struct logs *to, struct log_key key, int64_t offset, struct str bytes, struct err *err)
{
    struct log_position position;
    struct err why = { 0 };
    if (logs_append(to, key.task, key.grant, offset, bytes, &position, &why))
        return true;
    if (why.code != ERR_unavailable)
        return err_set(err, why.code, "%s", why.text);
    logs_wait(to); /* much was waiting */
    return logs_append(to, key.task, key.grant, offset, bytes, &position, err);
}

static bool log_copy(struct bytes_pg *from, struct logs *to, struct log_key key, int64_t size, struct err *err)
{
    for (int64_t offset = 0; offset < size;) {
        struct pg_args args = { 0 };
        PGresult *result;
        int64_t before = offset;
        arg_i64(&args, key.task);
        arg_i64(&args, key.grant);
        arg_i64(&args, offset);
        arg_i64(&args, size - offset < STEP_BYTES ? size : offset + STEP_BYTES);
        if (!bytes_ask(from, PG_log_read, &args, &result, err))
            return false;
        for (int i = 0; i < PQntuples(result); i++) {
            struct str bytes = cell_view(result, i, 1);
            if (!chunk_put(to, key, cell_i64(result, i, 0), bytes, err))
                return false;
            offset += (int64_t)bytes.len;
        }
        if (offset == before)
            return err_set(err, ERR_corrupt, "the log of task %" PRId64 ", grant %" PRId64 " has a hole at %" PRId64, key.task, key.grant,
                offset);
    }
    return true;
}

static bool logs_copy_all(struct bytes_pg *from, struct logs *to, struct err *err)
{
    struct log_key last = { -1, -1 };
    for (;;) {
        struct pg_args args = { 0 };
        struct log_key keys[PAGE];
        int64_t sizes[PAGE];
        bool sealed[PAGE];
        PGresult *result;
        arg_i64(&args, last.task);
        arg_i64(&args, last.grant);
        arg_i64(&args, PAGE);
        if (!bytes_ask(from, PG_logs_page, &args, &result, err))
            return false;
        int n = PQntuples(result);
        for (int i = 0; i < n; i++) {
            keys[i] = last = (struct log_key){ cell_i64(result, i, 0), cell_i64(result, i, 1) };
            sizes[i] = cell_i64(result, i, 2);
            sealed[i] = cell_i64(result, i, 3) != 0;
        }
        for (int i = 0; i < n; i++) {
            if (!log_copy(from, to, keys[i], sizes[i], err))
                return false;
            if (sealed[i])
                logs_seal(to, keys[i].task, keys[i].grant);
        }
        logs_wait(to);
        if (n < PAGE)
            return true;
    }
}

static bool blob_copy(struct bytes_pg *from, struct blobs *to, struct str hex, struct err *err)
{
    struct blob kept;
    int64_t offset = 0;
    if (!blobs_append(to, "copy", 0, (struct str){ 0 }, INT64_MAX, err))
        return false;
    for (int64_t i = 0;; i++) {
        struct pg_args args = { 0 };
        PGresult *result;
        arg_text(&args, hex);
        arg_i64(&args, i);
        arg_i64(&args, 0);
        arg_i64(&args, STEP_BYTES);
        if (!bytes_ask(from, PG_blob_read, &args, &result, err))
            return false;
        if (PQntuples(result) == 0)
            break;
        struct str bytes = cell_view(result, 0, 0);
        if (!blobs_append(to, "copy", offset, bytes, INT64_MAX, err))
            return false;
        offset += (int64_t)bytes.len;
    }
    if (!blobs_seal(to, "copy", &kept, err))
        return false;
    return str_eqz(hex, kept.hex) || err_set(err, ERR_corrupt, "the kept file %.*s has other bytes", STR_ARG(hex));
}

static bool blobs_copy_all(struct bytes_pg *from, struct blobs *to, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    struct buf names;
    bool ok = true;
    arg_i64(&args, LONG_AGO_S);
    if (!bytes_ask(from, PG_blobs_old, &args, &result, err))
        return false;
    buf_init(&names, SIZE_MAX);
    for (int i = 0; i < PQntuples(result); i++)
        buf_add_str(&names, cell_view(result, i, 0));
    for (size_t at = 0; ok && at + BLOB_HEX <= names.len; at += BLOB_HEX)
        ok = blob_copy(from, to, str_sub(buf_str(&names), at, at + BLOB_HEX), err);
    buf_release(&names);
    return ok;
}

bool bytes_copy(const struct store_config *from, const struct store_config *to, struct err *err)
{
    struct bytes_pg source = { 0 };
    struct logs *logs = NULL;
    struct blobs *blobs = NULL;
    bool ok = bytes_open(&source, from->url, err) && (logs = logs_open_store(to, err)) != NULL &&
              (blobs = blobs_open_store(to, err)) != NULL && logs_copy_all(&source, logs, err) && blobs_copy_all(&source, blobs, err);
    if (!ok)
        err_context(err, "logs and kept files");
    logs_close(logs);
    blobs_close(blobs);
    bytes_close(&source);
    return ok;
}
