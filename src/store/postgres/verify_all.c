/* verify_all: a PostgreSQL store, its logs and its kept files, for store/verify_all.c. Reads only, on a connection of
 * its own. */
#include "store/verify_all.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "store/postgres/bytes.h"

enum { READ_BYTES = 1 << 20 };

bool postgres_verify_database(const struct store_config *config, struct verify_report *out, struct err *err)
{
    struct pg pg = { 0 };
    int64_t there = 0, n = 0, found = 1;
    struct err why = { 0 };
    bool ok = pg_connect(&pg, config->url, err) && pg_number(&pg, SQL_amcheck_there, &there, err);
    while (ok && there && found && why.code == ERR_none) {
        if (pg_number_for(&pg, SQL_amcheck_index, n, &found, &why))
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

/* The hash of the first `end` bytes, or of fewer, if one is missing. */
static bool chunks_hash(
    const struct bytes_pg *from, const struct verify_log *log, int64_t end, struct log_seal *out, struct err *err)
{
    crypto_generichash_state state;
    bool more = true;
    crypto_generichash_init(&state, NULL, 0, LOG_HASH_BYTES);
    for (out->bytes = 0; more && out->bytes < end;) {
        struct query q;
        int64_t start = out->bytes, stop = end - start < READ_BYTES ? end : start + READ_BYTES;
        if (!ASK(&q, &from->sql, SQL_log_read, err, NUM(log->task), NUM(log->grant), NUM(start), NUM(stop)))
            return false;
        while (query_next(&q, err) == QUERY_ROW) {
            (void)next_i64(&q);
            struct str piece = next_view(&q);
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
    const struct bytes_pg *from = owner;
    int64_t sum, end, said, tail;
    struct query q;
    if (!ASK(&q, &from->sql, SQL_verify_log, err, NUM(log->task), NUM(log->grant)) ||
        !query_numbers(&q, (int64_t *[]){ &sum, &end, &said, &tail }, 4, NULL, err))
        return false;
    if (sum != end || end != said)
        return err_set(
            err, ERR_corrupt, "%" PRId64 " bytes up to %" PRId64 ", where %" PRId64 " should be", sum, end, said);
    *out_bytes = tail > end ? tail : end;
    *out = (struct log_seal){ .bytes = end };
    return log->seal.bytes < 0 || chunks_hash(from, log, end, out, err);
}

static bool place_file(void *owner, const char *hex, int64_t *out_bytes, char out_hex[BLOB_HEX + 1], struct err *err)
{
    crypto_hash_sha256_state state;
    uint8_t hash[crypto_hash_sha256_BYTES];
    const struct bytes_pg *from = owner;
    int64_t next = 0, last = -1;
    struct query q;
    if (!ASK(&q, &from->sql, SQL_blob_get, err, TXT(str_of(hex))))
        return false;
    *out_bytes = q.n_rows == 1 ? 0 : -1;
    crypto_hash_sha256_init(&state);
    while (next > last && *out_bytes >= 0) {
        last = next;
        if (!ASK(&q, &from->sql, SQL_verify_blob, err, TXT(str_of(hex)), NUM(next)))
            return false;
        while (query_next(&q, err) == QUERY_ROW) {
            next = next_i64(&q) + 1;
            struct str piece = next_view(&q);
            crypto_hash_sha256_update(&state, (const unsigned char *)piece.ptr, piece.len);
            *out_bytes += (int64_t)piece.len;
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
    bool ok = bytes_open(&from, config->url, err);
    const struct bytes_source source = { .sql = from.sql, .owner = &from, .log = place_log, .file = place_file };
    ok = ok && bytes_verify(&source, wish, out, err);
    bytes_close(&from);
    return ok;
}
