/* rows: cells of a result -> the structs of core/model.h. See rows.h. */
#include "store/postgres/rows.h"

#include "store/damage.h"

void cell_bytes(const PGresult *result, int row, int column, void *out, size_t n)
{
    (void)row_bytes(cell_view(result, row, column), out, n);
}

bool pg_row_damaged(const char *table, int64_t row, struct err *err)
{
    return damage_set(err, "row %lld of table %s can't be read", (long long)row, table);
}

/* Behind its columns stands whether it is a bit of live_many. */
static void live_is_read(struct cells *c, struct attempt *row)
{
    attempt_is_live(row);
    row->many = next_i64(c) != 0;
}

#define GET_NUMBER() next_i64(c)
#define GET_VIEW() next_view(c)
#define GET_TEXT() next_text(c, arena)
#define ROW_READER(table, type, then) \
    bool pg_row_##table(struct cells *c, struct arena *arena, struct type *row, struct err *err) \
    { \
        bool ok = true; \
        struct cells first = *c; \
        (void)arena; \
        *row = (struct type){ 0 }; \
        ROW_##table(ROW_GET) then \
        return ok || pg_row_damaged(#table, next_i64(&first), err); \
    } \
    bool pg_rows_get_##table(const PGresult *result, struct arena *arena, struct type *out, bool *out_found, \
        struct err *err) \
    { \
        struct cells c = cells_of(result, 0); \
        *out_found = PQntuples(result) > 0; \
        return !*out_found || pg_row_##table(&c, arena, out, err); \
    }
ROWS_READ(ROW_READER)

#define ROWS_EACH_READER(name, table, type) \
    bool pg_rows_##name(const PGresult *result, struct arena *arena, struct type ***out, size_t *out_n, \
        struct err *err) \
    { \
        *out_n = (size_t)PQntuples(result); \
        *out = *out_n ? ARENA_ARRAY(arena, struct type *, *out_n) : NULL; \
        for (size_t i = 0; i < *out_n; i++) { \
            struct cells c = cells_of(result, (int)i); \
            (*out)[i] = ARENA_NEW(arena, struct type); \
            if (!pg_row_##table(&c, arena, (*out)[i], err)) \
                return false; \
        } \
        return true; \
    }
ROWS_EACH(ROWS_EACH_READER)

#define ROWS_ARRAY_READER(name, table, type) \
    bool pg_rows_##name(const PGresult *result, struct arena *arena, struct type **out, size_t *out_n, \
        struct err *err) \
    { \
        *out_n = (size_t)PQntuples(result); \
        *out = *out_n ? ARENA_ARRAY(arena, struct type, *out_n) : NULL; \
        for (size_t i = 0; i < *out_n; i++) { \
            struct cells c = cells_of(result, (int)i); \
            if (!pg_row_##table(&c, arena, &(*out)[i], err)) \
                return false; \
        } \
        return true; \
    }
ROWS_ARRAY(ROWS_ARRAY_READER)

static bool row_head(struct cells *c, struct store_head *row)
{
    bool ok = true;
    *row = (struct store_head){ 0 };
    ROW_head(ROW_GET) return ok;
}

bool pg_row_head(const PGresult *result, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    uint8_t seal[STORE_HASH_BYTES];
    struct cells c = cells_of(result, 0);
    if (PQntuples(result) != 1 || !row_head(&c, out))
        return damage_set(err, "the head row is missing or damaged: run weir verify");
    (void)row_bytes(next_view(&c), out_seal ? out_seal : seal, STORE_HASH_BYTES);
    out->commit = next_i64(&c);
    out->time = next_i64(&c);
    return true;
}
