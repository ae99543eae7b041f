/* secret: the key that tokens are made with. It opens the API, so no backup carries it; verify.key, which backups
 * carry, tells nothing of it (doc/decisions/0004). */
#ifndef WEIR_STORE_SECRET_H
#define WEIR_STORE_SECRET_H

#include "store/store.h"

enum { STORE_SECRET_BYTES = 32 };

/* store_secret: the same for every server of a store, and after each restart. SQLite: DATA/token.key, made when it
 * isn't there: the first start, or the first after a restore. PostgreSQL: a keyed hash of a random value in the
 * database, keyed with DATA/verify.key, so that neither the database nor the key is enough. The store was opened
 * before. Fails like files and connections do. */
bool store_secret(const struct store_config *config, uint8_t out[STORE_SECRET_BYTES], struct err *err);

#endif
