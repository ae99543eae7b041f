/* secret: the key that tokens are made with. See secret.h.
 *
 * Promises: a key file is whole or not there (fsx_replace); one of another size is refused, never replaced. */
#include "store/secret.h"

#include <sodium.h>
#include <string.h>

#include "io/clock.h"
#include "io/fsx.h"
#include "store/chain.h"
#include "store/files.h"
#include "store/postgres/bytes.h"

static bool file_secret(const char *data_dir, uint8_t out[STORE_SECRET_BYTES], struct err *err)
{
    char path[FILES_PATH_MAX];
    struct arena arena = { 0 };
    struct err why = { 0 };
    struct str kept;
    if (!path_join(path, data_dir, "token.key", err))
        return false;
    bool found = fsx_read(path, 4096, &arena, &kept, &why), ok = true;
    if (found && kept.len != STORE_SECRET_BYTES) {
        ok = err_set(err, ERR_corrupt, "%s holds %zu bytes, not %d; remove it: jobs that run then lose their tokens",
            path, kept.len, STORE_SECRET_BYTES);
    } else if (found) {
        memcpy(out, kept.ptr, STORE_SECRET_BYTES);
        explicit_bzero((char *)(uintptr_t)kept.ptr, kept.len);
    } else if (why.code != ERR_not_found) {
        ok = err_set(err, why.code, "%s", why.text);
    } else {
        clock_entropy(out, STORE_SECRET_BYTES);
        ok = fsx_replace(path, (struct str){ (const char *)out, STORE_SECRET_BYTES }, 0600, err);
    }
    arena_release(&arena);
    return ok;
}

static bool shared_secret(const struct store_config *config, uint8_t out[STORE_SECRET_BYTES], struct err *err)
{
    struct bytes_pg conn = { 0 };
    struct pg_args args = { 0 };
    PGresult *result;
    uint8_t key[CHAIN_KEY_BYTES], fresh[STORE_SECRET_BYTES];
    char hex[2 * STORE_SECRET_BYTES + 1];
    clock_entropy(fresh, sizeof fresh);
    sodium_bin2hex(hex, sizeof hex, fresh, sizeof fresh);
    arg_text(&args, str_of(hex));
    bool ok = chain_key_load(config->data_dir, key, err) && bytes_open(&conn, config->url, err) &&
              bytes_ask(&conn, SQL_token_salt, &args, &result, err);
    if (ok) {
        struct str salt = cell_view(result, 0, 0); /* the first server's */
        crypto_generichash(out, STORE_SECRET_BYTES, (const unsigned char *)salt.ptr, salt.len, key, sizeof key);
    }
    bytes_close(&conn);
    sodium_memzero(key, sizeof key);
    return ok;
}

bool store_secret(const struct store_config *config, uint8_t out[STORE_SECRET_BYTES], struct err *err)
{
    if (sodium_init() < 0)
        return err_set(err, ERR_internal, "no cryptography");
    return store_is_postgres(config) ? shared_secret(config, out, err) : file_secret(config->data_dir, out, err);
}
