/* pg_bulk: the rows of one statement as arrays in PostgreSQL's binary form, a column each, and cells of results. See
 * pg.h.
 *
 * An array that would go over BULK_BYTES_MAX makes bulk_args false; nothing else fails. */
#include <arpa/inet.h>
#include <string.h>

#include "store/postgres/pg.h"

enum { BULK_BYTES_MAX = 256 << 20, ARRAY_HEAD_BYTES = 20 };
enum { OID_BYTEA = 17, OID_INT8 = 20, OID_TEXT = 25, OID_TID = 27 };

static void number_put(char *out, uint32_t n)
{
    n = htonl(n);
    memcpy(out, &n, sizeof n);
}

void bulk_begin(struct pg_bulk *bulk, const char *types)
{
    static const char room[ARRAY_HEAD_BYTES];
    bulk->types = types;
    bulk->n_columns = strlen(types);
    bulk->at = bulk->n_rows = 0;
    ASSERT(bulk->n_columns <= PG_ARGS_MAX);
    for (size_t i = 0; i < bulk->n_columns; i++) {
        if (!bulk->columns[i].cap)
            buf_init(&bulk->columns[i], BULK_BYTES_MAX);
        buf_reset(&bulk->columns[i]);
        buf_add(&bulk->columns[i], room, sizeof room);
        bulk->nulls[i] = false;
    }
}

static struct buf *bulk_next(struct pg_bulk *bulk)
{
    struct buf *column = &bulk->columns[bulk->at++];
    if (bulk->at == bulk->n_columns) {
        bulk->at = 0;
        bulk->n_rows++;
    }
    return column;
}

void bulk_bytes(struct pg_bulk *bulk, const void *bytes, size_t len)
{
    struct buf *column = bulk_next(bulk);
    char head[4];
    number_put(head, (uint32_t)len);
    buf_add(column, head, sizeof head);
    buf_add(column, len ? bytes : "", len);
}

void bulk_i64(struct pg_bulk *bulk, int64_t n)
{
    uint64_t swapped = pg_swap((uint64_t)n);
    bulk_bytes(bulk, &swapped, sizeof swapped);
}

void bulk_null(struct pg_bulk *bulk)
{
    bulk->nulls[bulk->at] = true;
    char head[4];
    number_put(head, UINT32_MAX);
    buf_add(bulk_next(bulk), head, sizeof head);
}

bool bulk_args(struct pg_bulk *bulk, struct pg_args *args)
{
    ASSERT(bulk->at == 0);
    for (size_t i = 0; i < bulk->n_columns; i++) {
        struct buf *column = &bulk->columns[i];
        uint32_t oid = bulk->types[i] == 'i'   ? OID_INT8
                       : bulk->types[i] == 't' ? OID_TEXT
                       : bulk->types[i] == 'p' ? OID_TID
                                               : OID_BYTEA;
        if (column->full)
            return false;
        number_put(column->ptr, 1); /* dimensions */
        number_put(column->ptr + 4, bulk->nulls[i]);
        number_put(column->ptr + 8, oid);
        number_put(column->ptr + 12, (uint32_t)bulk->n_rows);
        number_put(column->ptr + 16, 1); /* the first index */
        arg_bytes(args, column->ptr, column->len);
    }
    return true;
}

void bulk_release(struct pg_bulk *bulk)
{
    for (size_t i = 0; i < PG_ARGS_MAX; i++)
        buf_release(&bulk->columns[i]);
}

/* --- cells --- */

int64_t cell_i64(const PGresult *result, int row, int column)
{
    uint64_t n;
    if (PQgetisnull(result, row, column))
        return 0;
    ASSERT(PQgetlength(result, row, column) == sizeof n);
    memcpy(&n, PQgetvalue(result, row, column), sizeof n);
    return (int64_t)pg_swap(n);
}

struct str cell_view(const PGresult *result, int row, int column)
{
    return (struct str){ PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column) };
}
