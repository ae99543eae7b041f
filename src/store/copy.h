/* copy: a whole store into another one, whatever keeps either; private to store.
 *
 * A source gives the rows of one table after the other, a target takes them; tables are those of the generated lists
 * (sql_tables). A target is no store until its finish (a
 * database) or its settle (a file) has returned true: whoever closes it before leaves no rows behind. */
#ifndef WEIR_STORE_COPY_H
#define WEIR_STORE_COPY_H

#include "store/blobs/blobs.h"
#include "store/chain.h"
#include "store/logs/logs.h"
#include "store/query.h"

enum { COPY_COLUMNS_MAX = 20 };

struct copy_cell { /* by the column's letter a number or bytes */
    bool null;
    int64_t number;
    struct str bytes; /* good until the row was taken */
};

/* of the row that a query is at; types: as in struct sql_table */
void copy_cells(struct query *q, const char *types, struct copy_cell out[COPY_COLUMNS_MAX]);

struct copy_target {
    bool (*put)(struct copy_target *to, size_t table, const struct copy_cell *cells, struct err *err);
    bool (*table_end)(struct copy_target *to, size_t table, struct err *err);
    /* Verified with the key, a new incarnation, durable. The key is stored beside it by the caller, before. */
    bool (*finish)(struct copy_target *to, const uint8_t key[CHAIN_KEY_BYTES], struct err *err);
    /* After finish, and after logs and kept files are there: a file gets its name. A database, which keeps those in its
     * own tables, is a store since finish. */
    bool (*settle)(struct copy_target *to, struct err *err);
    void (*close)(struct copy_target *to);
};
struct copy_row { /* where the source's rows go */
    void *owner;
    bool (*take)(void *owner, const struct copy_cell *cells, struct err *err);
};
struct copy_source {
    /* Where the data directory has no key; NULL: there it is or nowhere. */
    bool (*key)(struct copy_source *from, uint8_t out[CHAIN_KEY_BYTES]);
    bool (*rows)(struct copy_source *from, size_t table, const struct copy_row *row, struct err *err);
    void (*close)(struct copy_source *from);
};

/* Opening a source keeps every server away from it; a target must be empty. */
struct copy_source *sqlite_copy_from(const struct store_config *config, const char *dir, struct err *err);
struct copy_target *sqlite_copy_to(const struct store_config *config, const char *dir, struct err *err);
struct copy_source *postgres_copy_from(const struct store_config *config, struct err *err);
struct copy_target *postgres_copy_to(const struct store_config *config, struct err *err);

bool copy_run(struct copy_source *from, struct copy_target *to, const struct store_config *from_config,
    const struct store_config *to_config, const struct copy_progress *progress, struct err *err);

/* Logs and kept files, beside the rows; both ends are open. listed: which logs, as struct log_listed. */
bool logs_copy_all(struct logs *from, const struct buf *listed, struct logs *to, struct err *err);
bool blobs_copy_all(struct blobs *from, struct blobs *to, struct err *err);

#endif
