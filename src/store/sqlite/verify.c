/* verify: a SQLite store whose history is walked (store/verify.c), on a connection that only reads. */
#include "store/verify.h"

#include <sodium.h>

#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

bool verify_walk(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct verify_wish *wish,
    struct verify_report *out, struct err *err)
{
    const struct sql sql = db_sql(db);
    return verify_run(&sql, key, wish, out, err);
}

bool sqlite_verify(const char *data_dir, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    struct db db = { 0 };
    uint8_t key[CHAIN_KEY_BYTES];
    *out = (struct verify_report){ 0 };
    bool ok = sodium_init() >= 0 && db_open_read(&db, data_dir, SQL_FOR_READER | SQL_FOR_VERIFIER, err) &&
              chain_key_load(data_dir, key, err) && verify_walk(&db, key, wish, out, err);
    db_close(&db);
    sodium_memzero(key, sizeof key);
    return verify_conclude(ok, out, err);
}

bool store_verify(
    const char *data_dir, int64_t witness_seq, const uint8_t *witness_hash, struct verify_report *out, struct err *err)
{
    return sqlite_verify(
        data_dir, &(struct verify_wish){ .witness_seq = witness_seq, .witness_hash = witness_hash }, out, err);
}
