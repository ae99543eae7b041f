/* query: PostgreSQL's answers, for store/query.h. A result is whole when it comes, and lives until the connection is
 * asked again. */
#include "store/postgres/query.h"

static struct str text_copy(struct str view, struct arena *arena)
{
    return view.len ? str_dup(arena, view) : (struct str){ 0 };
}

#define GET_NUMBER() cell_i64(q->result, q->row, q->at++)
#define GET_VIEW() cell_view(q->result, q->row, q->at++)
#define GET_TEXT() text_copy(GET_VIEW(), arena)
/* Behind its columns stands whether it is a bit of live_many. */
#define LIVE_IS_READ(row) \
    attempt_is_live(row); \
    row->many = GET_NUMBER() != 0;
ROWS_READ(ROW_READER)
static row_reader *const readers[ROWS_ID_COUNT] = { ROWS_READ(ROW_READER_OF) };

static enum query_step answer_next(struct query *q, struct err *err)
{
    (void)err;
    q->at = 0;
    return ++q->row < q->n_rows ? QUERY_ROW : QUERY_DONE;
}

static void answer_end(struct query *q)
{
    (void)q;
}

static int64_t answer_number(struct query *q)
{
    return GET_NUMBER();
}

static struct str answer_view(struct query *q)
{
    return GET_VIEW();
}

static bool answer_null(const struct query *q)
{
    return PQgetisnull(q->result, q->row, q->at);
}

const struct query_ops pg_query_ops = { answer_next, answer_end, answer_number, answer_view, answer_null, readers };

bool pg_answer(struct query *q, const PGresult *result)
{
    q->result = result;
    q->row = -1;
    q->n_rows = PQntuples(result);
    return true;
}

struct query pg_query(const PGresult *result)
{
    struct query q = { .ops = &pg_query_ops };
    pg_answer(&q, result);
    return q;
}

struct query pg_query_row(const PGresult *result, int n)
{
    struct query q = pg_query(result);
    q.row = n;
    return q;
}

bool pg_row_head(const PGresult *result, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    struct query q = pg_query(result);
    return query_head(&q, out, out_seal, err);
}

const struct pg_args *pg_args_fill(struct pg_args *out, const struct arg *args, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (args[i].type == ARG_NUMBER)
            arg_i64(out, args[i].number);
        else
            arg_text(out, args[i].text);
    return out;
}
