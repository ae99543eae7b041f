/* verify: a PostgreSQL store whose history is walked (store/verify.c), on a reader's connection. */
#include "store/verify.h"

#include <sodium.h>

#include "store/postgres/reader.h"

bool pg_verify_inside(
    struct postgres_reader *self, const uint8_t key[CHAIN_KEY_BYTES], struct verify_report *out, struct err *err)
{
    const struct sql sql = pg_reader_sql(self, false);
    return verify_run(&sql, key, &(struct verify_wish){ 0 }, out, err);
}

bool postgres_verify(
    const struct store_config *config, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    uint8_t key[CHAIN_KEY_BYTES];
    *out = (struct verify_report){ 0 };
    if (sodium_init() < 0 || !chain_key_load(config->data_dir, key, err))
        return false;
    struct reader *reader = postgres_reader_open(config, err);
    bool ok = reader && verify_run(&reader->sql, key, wish, out, err);
    reader_close(reader);
    sodium_memzero(key, sizeof key);
    return verify_conclude(ok, out, err);
}
