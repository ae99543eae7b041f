/* query: rows of an answer, whichever database gave it, and what both the engine and readers ask for. See query.h. */
#include "store/query.h"

#include "store/damage.h"
#include "store/pack.h"

#define TABLE_FACTS(table, type, then) [ROWS_##table] = { #table, sizeof(struct type) },
static const struct {
    const char *name;
    size_t bytes;
} tables[ROWS_ID_COUNT] = { ROWS_READ(TABLE_FACTS) };

bool row_damaged(struct query *q, const char *table, int64_t row, struct err *err)
{
    q->ops->end(q);
    return damage_set(err, "row %lld of table %s can't be read", (long long)row, table);
}

bool query_row(struct query *q, enum rows_id table, struct arena *arena, void *out, struct err *err)
{
    int first = q->at;
    if (q->ops->rows[table](q, arena, out))
        return true;
    q->at = first;
    return row_damaged(q, tables[table].name, next_i64(q), err);
}

bool query_get(struct query *q, enum rows_id table, struct arena *arena, void *out, bool *out_found, struct err *err)
{
    enum query_step step = query_next(q, err);
    *out_found = step == QUERY_ROW;
    if (step != QUERY_ROW)
        return step == QUERY_DONE;
    if (!query_row(q, table, arena, out, err))
        return false;
    q->ops->end(q);
    return true;
}

bool query_list(struct query *q, enum rows_id table, struct arena *arena, void **out, size_t *out_n, struct err *err)
{
    size_t cap = (size_t)q->n_rows;
    enum query_step step;
    *out = cap ? arena_array(arena, tables[table].bytes, cap) : NULL;
    *out_n = 0;
    while ((step = query_next(q, err)) == QUERY_ROW)
        if (!query_row(q, table, arena, arena_push(arena, out, out_n, &cap, tables[table].bytes), err))
            return false;
    return step == QUERY_DONE;
}

bool query_each(struct query *q, enum rows_id table, struct arena *arena, void ***out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum query_step step;
    *out = NULL, *out_n = 0;
    while ((step = query_next(q, err)) == QUERY_ROW) {
        void *row = *ARENA_PUSH(arena, *out, *out_n, cap) = arena_alloc(arena, tables[table].bytes);
        if (!query_row(q, table, arena, row, err))
            return false;
    }
    return step == QUERY_DONE;
}

bool query_numbers(struct query *q, int64_t *out[], size_t n, bool *out_found, struct err *err)
{
    enum query_step step = query_next(q, err);
    for (size_t i = 0; i < n; i++)
        *out[i] = step == QUERY_ROW ? next_i64(q) : 0;
    if (out_found)
        *out_found = step == QUERY_ROW;
    q->ops->end(q);
    return step != QUERY_ERROR;
}

bool query_ids(struct query *q, struct arena *arena, int64_t **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum query_step step;
    *out = NULL, *out_n = 0;
    while ((step = query_next(q, err)) == QUERY_ROW)
        *ARENA_PUSH(arena, *out, *out_n, cap) = next_i64(q);
    return step == QUERY_DONE;
}

bool query_head(struct query *q, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    uint8_t seal[STORE_HASH_BYTES];
    enum query_step step = query_next(q, err);
    if (step == QUERY_ERROR)
        return false;
    bool ok = step == QUERY_ROW && q->ops->rows[ROWS_head](q, NULL, out);
    if (ok) {
        (void)row_bytes(next_view(q), out_seal ? out_seal : seal, STORE_HASH_BYTES);
        out->commit = next_i64(q);
        out->time = next_i64(q);
    }
    q->ops->end(q);
    return ok || damage_set(err, "the head row is missing or damaged: run weir verify");
}

bool query_events(struct query *q, struct arena *arena, struct event **out, size_t *out_n, struct err *err)
{
    int64_t turn = next_i64(q), first_seq = next_i64(q), time = next_i64(q);
    return unpack_events(next_view(q), first_seq, time, arena, out, out_n) ||
           damage_set(err, "the events of turn %lld can't be read: run weir verify", (long long)turn);
}

bool ask_head(const struct sql *sql, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    struct query q;
    return query_ask(&q, sql, SQL_head_get, NULL, 0, err) && query_head(&q, out, out_seal, err);
}

bool ask_task(
    const struct sql *sql, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, sql, SQL_task_get, err, NUM(id)) && get_task(&q, arena, out, out_found, err);
}

bool ask_spec(
    const struct sql *sql, struct arena *arena, int64_t id, struct spec *out, bool *out_found, struct err *err)
{
    struct query q;
    *out = (struct spec){ 0 };
    return ASK(&q, sql, SQL_spec_get, err, NUM(id)) && get_spec(&q, arena, out, out_found, err);
}

bool ask_outputs(const struct sql *sql, struct arena *arena, int64_t task, struct str *out, struct err *err)
{
    struct task_outputs row = { 0 };
    struct query q;
    bool found;
    if (!ASK(&q, sql, SQL_outputs_get, err, NUM(task)) || !get_outputs(&q, arena, &row, &found, err))
        return false;
    *out = row.json;
    return true;
}

bool ask_holds_of(const struct sql *sql, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, sql, SQL_holds_of, err, NUM(kind), NUM(key), NUM(n)) && list_hold(&q, arena, out, out_n, err);
}

bool ask_holds_of_task(
    const struct sql *sql, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, sql, SQL_holds_of_task, err, NUM(task)) && list_hold(&q, arena, out, out_n, err);
}

bool ask_revision(const struct sql *sql, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, sql, SQL_revision_get, err, NUM(lane), NUM(rev)) && get_revision(&q, arena, out, out_found, err);
}

bool ask_revision_of_ident(const struct sql *sql, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    struct query q;
    return ASK(&q, sql, SQL_revision_of_ident, err, NUM(lane), TXT(ident)) &&
           query_numbers(&q, (int64_t *[]){ out_rev }, 1, NULL, err);
}

bool ask_changeset(
    const struct sql *sql, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, sql, SQL_changeset_get, err, NUM(task)) && get_changeset(&q, arena, out, out_found, err);
}

bool ask_changeset_find(const struct sql *sql, struct str tenant, struct str csid, int64_t *out_task, struct err *err)
{
    struct query q;
    return ASK(&q, sql, SQL_changeset_of_csid, err, TXT(tenant), TXT(csid)) &&
           query_numbers(&q, (int64_t *[]){ out_task }, 1, NULL, err);
}
