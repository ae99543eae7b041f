/* verify_source: what the walk of a history reads, in parts, of either database. See verify.h. */
#include "store/verify.h"

enum { TURNS_STEP = 256 };

bool verify_turns(const struct sql *sql, int64_t after, enum verify_visit (*visit)(void *, const struct verify_turn *),
    void *visitor, enum verify_visit *out_how, struct err *err)
{
    struct query q;
    enum query_step step = QUERY_DONE;
    int n = TURNS_STEP;
    *out_how = VERIFY_ON;
    while (n == TURNS_STEP && *out_how == VERIFY_ON) {
        if (!ASK(&q, sql, SQL_turns_after, err, NUM(after), NUM(TURNS_STEP)))
            return false;
        for (n = 0; *out_how == VERIFY_ON && (step = query_next(&q, err)) == QUERY_ROW; n++) {
            struct verify_turn turn = { .turn = next_i64(&q) };
            turn.first_seq = after = next_i64(&q);
            turn.time = next_i64(&q);
            turn.hash = next_view(&q);
            turn.events = next_view(&q);
            turn.tags = next_view(&q);
            *out_how = visit(visitor, &turn);
        }
        q.ops->end(&q);
    }
    return step != QUERY_ERROR;
}

static bool rows_ask(
    struct query *q, const struct sql *sql, const struct sql_table *table, const struct copy_cell *key, struct err *err)
{
    struct arg args[COPY_COLUMNS_MAX];
    for (int i = 0; i < table->n_key; i++)
        args[i] = (struct arg){ table->types[i] == 'i' ? ARG_NUMBER : ARG_TEXT, key[i].number, key[i].bytes };
    return query_ask(q, sql, table->walk, args, (size_t)table->n_key, err);
}

bool verify_table_rows(const struct sql *sql, size_t table, const struct copy_cell *key,
    enum verify_visit (*visit)(void *, const struct copy_cell *), void *visitor, enum verify_visit *out_how,
    struct err *err)
{
    struct copy_cell cells[COPY_COLUMNS_MAX];
    struct query q;
    enum query_step step;
    size_t n;
    *out_how = VERIFY_ON;
    do {
        step = QUERY_DONE;
        if (!rows_ask(&q, sql, &sql_tables[table], key, err))
            return false;
        for (n = 0; *out_how == VERIFY_ON && (step = query_next(&q, err)) == QUERY_ROW; n++) {
            copy_cells(&q, sql_tables[table].types, cells);
            *out_how = visit(visitor, cells);
        }
        q.ops->end(&q);
    } while (n > 0 && step == QUERY_DONE && *out_how == VERIFY_ON);
    return step != QUERY_ERROR;
}

bool verify_readies(const struct sql *sql, const struct verify_ready *after,
    enum verify_visit (*visit)(void *, const struct verify_ready *), void *visitor, enum verify_visit *out_how,
    struct err *err)
{
    struct query q;
    enum query_step step;
    size_t n;
    *out_how = VERIFY_ON;
    do {
        step = QUERY_DONE;
        if (!ASK(&q, sql, SQL_ready_after, err, NUM(after->class_id), NUM(after->nprio), NUM(after->vt),
                NUM(after->task)))
            return false;
        for (n = 0; *out_how == VERIFY_ON && (step = query_next(&q, err)) == QUERY_ROW; n++) {
            struct verify_ready row = { .class_id = next_i64(&q) };
            row.nprio = next_i64(&q);
            row.vt = next_i64(&q);
            row.task = next_i64(&q);
            row.state = row_state(next_view(&q));
            row.rest = next_view(&q);
            *out_how = visit(visitor, &row);
        }
        q.ops->end(&q);
    } while (n > 0 && step == QUERY_DONE && *out_how == VERIFY_ON);
    return step != QUERY_ERROR;
}

static bool tokens_read(const struct sql *sql, struct arena *arena, struct verify_small *out, struct err *err)
{
    struct query q;
    size_t cap = 0;
    enum query_step step = QUERY_ERROR;
    if (query_ask(&q, sql, SQL_verify_tokens, NULL, 0, err))
        while ((step = query_next(&q, err)) == QUERY_ROW)
            *ARENA_PUSH(arena, out->tokens, out->n_tokens, cap) = next_text(&q, arena);
    return step == QUERY_DONE;
}

bool verify_small_read(const struct sql *sql, struct arena *arena, struct verify_small *out, struct err *err)
{
    int64_t *slot[] = { &out->slot.id, &out->slot.used, &out->slot.waiting, &out->slot.held, &out->slot.waits };
    struct query q;
    return query_ask(&q, sql, SQL_verify_lanes, NULL, 0, err) &&
           list_lane(&q, arena, &out->lanes, &out->n_lanes, err) && tokens_read(sql, arena, out, err) &&
           query_ask(&q, sql, SQL_verify_live, NULL, 0, err) && query_ids(&q, arena, &out->lives, &out->n_lives, err) &&
           query_ask(&q, sql, SQL_verify_ready, NULL, 0, err) &&
           query_numbers(&q, (int64_t *[]){ &out->n_ready }, 1, NULL, err) &&
           query_ask(&q, sql, SQL_verify_slots, NULL, 0, err) &&
           query_numbers(&q, slot, sizeof slot / sizeof slot[0], NULL, err);
}
