/* verify_all: a PostgreSQL store, its logs and its kept files, for store/verify_all.c. Reads only, on a connection of
 * its own. */
#include "store/verify_all.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "store/cells.h"
#include "store/postgres/bytes.h"
#include "store/postgres/rows.h"

enum { READ_BYTES = 1 << 20 };

bool postgres_verify_database(const struct store_config *config, struct verify_report *out, struct err *err)
{
    struct pg pg = { 0 };
    int64_t there = 0, n = 0, found = 1;
    struct err why = { 0 };
    bool ok = pg_connect(&pg, config->url, err) && pg_number(&pg, PG_amcheck_there, &there, err);
    while (ok && there && found && why.code == ERR_none) {
        if (pg_number_for(&pg, PG_amcheck_index, n, &found, &why))
            n += found;
        else if (why.code != ERR_forbidden)
            ok = err_set(err, why.code, "%s", why.text);
    }
    pg_close(&pg);
    if (!there)
        snprintf(out->database, sizeof out->database,
            "not checked: PostgreSQL's extension amcheck isn't installed (CREATE EXTENSION amcheck)");
    else if (why.code == ERR_forbidden)
        snprintf(out->database, sizeof out->database,
            "not checked: this user may not call amcheck (GRANT EXECUTE ON FUNCTION bt_index_check)");
    else
        snprintf(out->database, sizeof out->database,
            "ok: amcheck of %" PRId64 " indexes, each with the rows of its table", n);
    return ok;
}

static bool place_logs(
    void *owner, int64_t task, int64_t grant, struct verify_log *out, size_t max, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    arg_i64(&args, grant);
    arg_i64(&args, (int64_t)max);
    if (!bytes_ask(owner, PG_verify_logs_after, &args, &result, err))
        return false;
    *out_n = (size_t)PQntuples(result);
    for (int i = 0; i < (int)*out_n; i++) {
        struct cells c = cells_of(result, i);
        struct task row = { 0 };
        struct verify_log *log = &out[i];
        *log = (struct verify_log){ .task = next_i64(&c) };
        log->grant = next_i64(&c);
        log->number = next_i64(&c);
        log->bytes = next_i64(&c);
        log->pruned =
            task_unpack(next_view(&c), &row) && ((row.marks & MARK_PRUNED) || task_pruned(&row) >= log->grant);
        log->seal.bytes = next_i64(&c);
        (void)row_bytes(next_view(&c), log->seal.hash, LOG_HASH_BYTES);
    }
    return true;
}

static bool place_files(void *owner, int64_t task, struct arena *arena, struct verify_files *out, size_t max,
    size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    arg_i64(&args, (int64_t)max);
    if (!bytes_ask(owner, PG_verify_kept_after, &args, &result, err))
        return false;
    *out_n = (size_t)PQntuples(result);
    for (int i = 0; i < (int)*out_n; i++) {
        struct cells c = cells_of(result, i);
        out[i].task = next_i64(&c);
        out[i].list = next_text(&c, arena);
    }
    return true;
}

/* The hash of the first `end` bytes, or of fewer, if one is missing. */
static bool chunks_hash(void *owner, const struct verify_log *log, int64_t end, struct log_seal *out, struct err *err)
{
    crypto_generichash_state state;
    bool more = true;
    crypto_generichash_init(&state, NULL, 0, LOG_HASH_BYTES);
    for (out->bytes = 0; more && out->bytes < end;) {
        struct pg_args args = { 0 };
        PGresult *result;
        int64_t start = out->bytes;
        arg_i64(&args, log->task);
        arg_i64(&args, log->grant);
        arg_i64(&args, start);
        arg_i64(&args, end - start < READ_BYTES ? end : start + READ_BYTES);
        if (!bytes_ask(owner, PG_log_read, &args, &result, err))
            return false;
        for (int i = 0; i < PQntuples(result); i++) {
            struct str piece = cell_view(result, i, 1);
            crypto_generichash_update(&state, (const unsigned char *)piece.ptr, piece.len);
            out->bytes += (int64_t)piece.len;
        }
        more = out->bytes > start;
    }
    crypto_generichash_final(&state, out->hash, LOG_HASH_BYTES);
    return true;
}

static bool place_log(
    void *owner, const struct verify_log *log, int64_t *out_bytes, struct log_seal *out, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, log->task);
    arg_i64(&args, log->grant);
    if (!bytes_ask(owner, PG_verify_log, &args, &result, err))
        return false;
    struct cells c = cells_of(result, 0);
    int64_t sum = next_i64(&c), end = next_i64(&c), said = next_i64(&c), tail = next_i64(&c);
    if (sum != end || end != said)
        return err_set(
            err, ERR_corrupt, "%" PRId64 " bytes up to %" PRId64 ", where %" PRId64 " should be", sum, end, said);
    *out_bytes = tail > end ? tail : end;
    *out = (struct log_seal){ .bytes = end };
    return log->seal.bytes < 0 || chunks_hash(owner, log, end, out, err);
}

static bool place_file(void *owner, const char *hex, int64_t *out_bytes, char out_hex[BLOB_HEX + 1], struct err *err)
{
    crypto_hash_sha256_state state;
    uint8_t hash[crypto_hash_sha256_BYTES];
    int64_t next = 0;
    int n = 1;
    struct pg_args named = { 0 };
    PGresult *row;
    arg_text(&named, str_of(hex));
    if (!bytes_ask(owner, PG_blob_get, &named, &row, err))
        return false;
    *out_bytes = PQntuples(row) == 1 ? 0 : -1;
    crypto_hash_sha256_init(&state);
    while (n > 0 && *out_bytes >= 0) {
        struct pg_args args = { 0 };
        PGresult *result;
        arg_text(&args, str_of(hex));
        arg_i64(&args, next);
        if (!bytes_ask(owner, PG_verify_blob, &args, &result, err))
            return false;
        n = PQntuples(result);
        for (int i = 0; i < n; i++) {
            struct str piece = cell_view(result, i, 1);
            crypto_hash_sha256_update(&state, (const unsigned char *)piece.ptr, piece.len);
            *out_bytes += (int64_t)piece.len;
            next = cell_i64(result, i, 0) + 1;
        }
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(out_hex, BLOB_HEX + 1, hash, sizeof hash);
    return true;
}

bool postgres_verify_bytes(
    const struct store_config *config, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    struct bytes_pg from = { 0 };
    const struct bytes_source source = {
        .owner = &from, .logs = place_logs, .files = place_files, .log = place_log, .file = place_file
    };
    bool ok = bytes_open(&from, config->url, err) && bytes_verify(&source, wish, out, err);
    bytes_close(&from);
    return ok;
}
