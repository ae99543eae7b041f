/* copy: a whole store into another one: every table, the history and its key. See copy.h.
 *
 * The history is followed and compared with the rows in the copy, before it becomes a store; so what was damaged isn't
 * copied. */
#include "store/copy.h"

#include <sodium.h>
#include <string.h>

struct copying {
    struct copy_target *to;
    const struct copy_progress *progress;
    size_t table;
    int64_t rows;
};

enum { PROGRESS_ROWS = 1000 };

/* Not copied: the places of weir.db and of the key, which the copy records when it is opened, and the secret of tokens,
 * of which the copy makes its own. */
static bool row_wanted(const struct copying *c, const struct copy_cell *cells)
{
    return strcmp(sql_tables[c->table].name, "meta") != 0 ||
           (!str_eqz(cells[0].bytes, "place") && !str_eqz(cells[0].bytes, "key_place") &&
               !str_eqz(cells[0].bytes, "token_salt"));
}

void copy_cells(struct query *q, const char *types, struct copy_cell out[COPY_COLUMNS_MAX])
{
    for (int i = 0; types[i]; i++) {
        out[i] = (struct copy_cell){ .null = q->ops->null(q) };
        if (types[i] == 'i')
            out[i].number = next_i64(q);
        else
            out[i].bytes = next_view(q);
    }
}

static bool row_take(void *owner, const struct copy_cell *cells, struct err *err)
{
    struct copying *c = owner;
    if (!row_wanted(c, cells))
        return true;
    if (!c->to->put(c->to, c->table, cells, err))
        return false;
    if (++c->rows % PROGRESS_ROWS == 0 && c->progress)
        c->progress->tell(c->progress->owner, sql_tables[c->table].name, c->rows);
    return true;
}

static bool table_copy(struct copy_source *from, struct copying *c, struct err *err)
{
    const struct copy_row row = { .owner = c, .take = row_take };
    c->rows = 0;
    if (!from->rows(from, c->table, &row, err) || !c->to->table_end(c->to, c->table, err)) {
        err_context(err, "table %s", sql_tables[c->table].name);
        return false;
    }
    if (c->progress)
        c->progress->tell(c->progress->owner, sql_tables[c->table].name, c->rows);
    return true;
}

/* The target's data directory has the same key, or none yet. */
static bool key_give(const char *data_dir, const uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
    uint8_t there[CHAIN_KEY_BYTES];
    struct err why = { 0 };
    if (chain_key_load(data_dir, there, &why)) {
        bool same = sodium_memcmp(there, key, sizeof there) == 0;
        sodium_memzero(there, sizeof there);
        return same || err_set(err, ERR_conflict,
                           "%s/verify.key belongs to another store: choose another data directory", data_dir);
    }
    if (why.code != ERR_not_found)
        return err_set(err, why.code, "%s", why.text);
    return chain_key_store(data_dir, key, err);
}

bool copy_run(struct copy_source *from, struct copy_target *to, const struct store_config *from_config,
    const struct store_config *to_config, const struct copy_progress *progress, struct err *err)
{
    struct copying c = { .to = to, .progress = progress };
    uint8_t key[CHAIN_KEY_BYTES];
    if (!chain_key_load(from_config->data_dir, key, err)) {
        if (err->code != ERR_not_found || !from->key || !from->key(from, key))
            return false;
        *err = (struct err){ .arena = err->arena };
    }
    bool ok = true;
    for (c.table = 0; c.table < SQL_TABLE_COUNT && ok; c.table++)
        ok = table_copy(from, &c, err);
    ok = ok && key_give(to_config->data_dir, key, err) && to->finish(to, key, err);
    sodium_memzero(key, sizeof key);
    return ok;
}
