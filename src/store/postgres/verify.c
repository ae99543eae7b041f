/* verify: a PostgreSQL store as a source for the walk of its history (store/verify.c), in snapshots of its steps. */
#include <sodium.h>

#include "store/postgres/reader.h"
#include "store/verify.h"

enum { TURNS_STEP = 256 };

static bool source_begin(void *owner, struct err *err)
{
    struct postgres_reader *self = owner;
    return reader_ready(self, err) && pg_run(&self->pg, PG_begin_snapshot, NULL, NULL, err);
}

static void source_end(void *owner)
{
    pg_snapshot_end(owner);
}

static bool source_head(void *owner, struct store_head *out, uint8_t out_seal[STORE_HASH_BYTES], struct err *err)
{
    struct postgres_reader *self = owner;
    return head_read(&self->pg, out, out_seal, err);
}

static bool part_read(
    struct postgres_reader *self, enum pg_id id, int64_t after, int64_t n, PGresult **out, struct err *err)
{
    struct pg_args args = { 0 };
    arg_i64(&args, after);
    arg_i64(&args, n);
    return pg_run(&self->pg, id, &args, out, err);
}

static bool source_turns(void *owner, int64_t after, enum verify_visit (*visit)(void *, const struct verify_turn *),
    void *visitor, enum verify_visit *out_how, struct err *err)
{
    PGresult *result;
    int n;
    *out_how = VERIFY_ON;
    do {
        if (!part_read(owner, PG_turns_after, after, TURNS_STEP, &result, err))
            return false;
        n = PQntuples(result);
        for (int i = 0; i < n && *out_how == VERIFY_ON; i++) {
            struct cells c = cells_of(result, i);
            struct verify_turn turn;
            turn.turn = next_i64(&c);
            turn.first_seq = next_i64(&c);
            turn.time = next_i64(&c);
            turn.hash = next_view(&c);
            turn.events = next_view(&c);
            turn.tags = next_view(&c);
            after = turn.first_seq;
            *out_how = visit(visitor, &turn);
        }
    } while (n == TURNS_STEP && *out_how == VERIFY_ON);
    return true;
}

static bool source_rows(void *owner, size_t table, const struct copy_cell *key,
    enum verify_visit (*visit)(void *, const struct copy_cell *), void *visitor, enum verify_visit *out_how,
    struct err *err)
{
    struct postgres_reader *self = owner;
    const struct pg_table *facts = &pg_tables[table];
    struct copy_cell cells[COPY_COLUMNS_MAX];
    PGresult *result;
    int n;
    *out_how = VERIFY_ON;
    do { /* the visitor moves the key on */
        struct pg_args args = { 0 };
        for (int i = 0; i < facts->n_key; i++)
            if (facts->types[i] == 'i')
                arg_i64(&args, key[i].number);
            else
                arg_text(&args, key[i].bytes);
        if (!pg_run(&self->pg, facts->walk, &args, &result, err))
            return false;
        n = PQntuples(result);
        for (int r = 0; r < n && *out_how == VERIFY_ON; r++) {
            for (int i = 0; facts->types[i]; i++) {
                cells[i] = (struct copy_cell){ .null = PQgetisnull(result, r, i) };
                if (facts->types[i] == 'i')
                    cells[i].number = cells[i].null ? 0 : cell_i64(result, r, i);
                else
                    cells[i].bytes = cell_view(result, r, i);
            }
            *out_how = visit(visitor, cells);
        }
    } while (n > 0 && *out_how == VERIFY_ON);
    return true;
}

static bool source_ready(void *owner, const struct verify_ready *after,
    enum verify_visit (*visit)(void *, const struct verify_ready *), void *visitor, enum verify_visit *out_how,
    struct err *err)
{
    struct postgres_reader *self = owner;
    PGresult *result;
    int n;
    *out_how = VERIFY_ON;
    do {
        struct pg_args args = { 0 };
        const int64_t key[] = { after->class_id, after->nprio, after->vt, after->task };
        for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
            arg_i64(&args, key[i]);
        if (!pg_run(&self->pg, PG_ready_after, &args, &result, err))
            return false;
        n = PQntuples(result);
        for (int i = 0; i < n && *out_how == VERIFY_ON; i++) {
            struct cells c = cells_of(result, i);
            struct verify_ready row;
            row.class_id = next_i64(&c);
            row.nprio = next_i64(&c);
            row.vt = next_i64(&c);
            row.task = next_i64(&c);
            row.state = row_state(next_view(&c));
            row.rest = next_view(&c);
            *out_how = visit(visitor, &row);
        }
    } while (n > 0 && *out_how == VERIFY_ON);
    return true;
}

static bool source_small(void *owner, struct arena *arena, struct verify_small *out, struct err *err)
{
    struct postgres_reader *self = owner;
    PGresult *result;
    if (!pg_run(&self->pg, PG_verify_lanes, NULL, &result, err))
        return false;
    out->n_lanes = (size_t)PQntuples(result);
    out->lanes = ARENA_ARRAY(arena, struct lane, out->n_lanes + 1);
    for (int i = 0; i < (int)out->n_lanes; i++) {
        struct cells c = cells_of(result, i);
        if (!pg_row_lane(&c, arena, &out->lanes[i], err))
            return false;
    }
    if (!pg_run(&self->pg, PG_verify_tokens, NULL, &result, err))
        return false;
    out->n_tokens = (size_t)PQntuples(result);
    out->tokens = ARENA_ARRAY(arena, struct str, out->n_tokens + 1);
    for (int i = 0; i < (int)out->n_tokens; i++)
        out->tokens[i] = str_dup(arena, cell_view(result, i, 0));
    if (!pg_run(&self->pg, PG_verify_live, NULL, &result, err))
        return false;
    out->n_lives = (size_t)PQntuples(result);
    out->lives = ARENA_ARRAY(arena, int64_t, out->n_lives + 1);
    for (int i = 0; i < (int)out->n_lives; i++)
        out->lives[i] = cell_i64(result, i, 0);
    if (!pg_run(&self->pg, PG_verify_ready, NULL, &result, err))
        return false;
    out->n_ready = cell_i64(result, 0, 0);
    if (!pg_run(&self->pg, PG_verify_slots, NULL, &result, err))
        return false;
    int64_t *cells[] = { &out->slot.id, &out->slot.used, &out->slot.waiting, &out->slot.held, &out->slot.waits };
    struct cells c = cells_of(result, 0);
    for (size_t i = 0; PQntuples(result) > 0 && i < sizeof cells / sizeof cells[0]; i++)
        *cells[i] = next_i64(&c);
    return true;
}

static bool nothing_begin(void *owner, struct err *err)
{
    (void)owner, (void)err;
    return true;
}

static void nothing_end(void *owner)
{
    (void)owner;
}

bool pg_verify_inside(
    struct postgres_reader *self, const uint8_t key[CHAIN_KEY_BYTES], struct verify_report *out, struct err *err)
{
    const struct verify_source source = {
        .owner = self,
        .begin = nothing_begin,
        .end = nothing_end,
        .head = source_head,
        .turns = source_turns,
        .rows = source_rows,
        .ready = source_ready,
        .small = source_small,
    };
    return verify_run(&source, key, &(struct verify_wish){ 0 }, out, err);
}

bool postgres_verify(
    const struct store_config *config, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    uint8_t key[CHAIN_KEY_BYTES];
    *out = (struct verify_report){ 0 };
    if (sodium_init() < 0 || !chain_key_load(config->data_dir, key, err))
        return false;
    struct reader *reader = postgres_reader_open(config, err);
    bool ok = reader != NULL;
    if (ok) {
        const struct verify_source source = {
            .owner = reader,
            .begin = source_begin,
            .end = source_end,
            .head = source_head,
            .turns = source_turns,
            .rows = source_rows,
            .ready = source_ready,
            .small = source_small,
        };
        ok = verify_run(&source, key, wish, out, err);
        reader->ops->close(reader);
    }
    sodium_memzero(key, sizeof key);
    return verify_conclude(ok, out, err);
}
