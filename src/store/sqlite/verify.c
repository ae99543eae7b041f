/* verify: a SQLite store as a source for the walk of its history (store/verify.c), in read transactions of its steps.
 */
#include <sodium.h>

#include "store/sqlite/reader.h"
#include "store/verify.h"

static bool source_begin(void *owner, struct err *err)
{
    return snapshot_begin(owner, err);
}

static void source_end(void *owner)
{
    (void)snapshot_end(owner, true);
}

static bool source_head(void *owner, struct store_head *out, uint8_t out_seal[STORE_HASH_BYTES], struct err *err)
{
    return rows_head(owner, out, out_seal, err);
}

static bool source_turns(void *owner, int64_t after, enum verify_visit (*visit)(void *, const struct verify_turn *),
    void *visitor, enum verify_visit *out_how, struct err *err)
{
    struct db *db = owner;
    enum db_step step = DB_DONE;
    *out_how = VERIFY_ON;
    bind_i64(db->stmts[SQL_turns_after], 1, after);
    while (*out_how == VERIFY_ON && (step = db_next(db, SQL_turns_after, err)) == DB_ROW) {
        struct cells c = cells_of(db, SQL_turns_after);
        struct verify_turn turn;
        turn.turn = next_i64(&c);
        turn.first_seq = next_i64(&c);
        turn.time = next_i64(&c);
        turn.hash = next_view(&c);
        turn.events = next_view(&c);
        turn.tags = next_view(&c);
        *out_how = visit(visitor, &turn);
    }
    db_reset(db, SQL_turns_after);
    return step != DB_ERROR;
}

static bool source_rows(void *owner, size_t table, const struct copy_cell *key,
    enum verify_visit (*visit)(void *, const struct copy_cell *), void *visitor, enum verify_visit *out_how,
    struct err *err)
{
    struct db *db = owner;
    const struct sql_table *facts = &sql_tables[table];
    sqlite3_stmt *stmt = db->stmts[facts->walk];
    struct copy_cell cells[COPY_COLUMNS_MAX];
    enum db_step step = DB_DONE;
    size_t n;
    *out_how = VERIFY_ON;
    do { /* the visitor moves the key on */
        for (int i = 0; i < facts->n_key; i++)
            if (facts->types[i] == 'i')
                bind_i64(stmt, i + 1, key[i].number);
            else
                bind_text(stmt, i + 1, key[i].bytes);
        for (n = 0; *out_how == VERIFY_ON && (step = db_next(db, facts->walk, err)) == DB_ROW; n++) {
            for (int i = 0; facts->types[i]; i++) {
                cells[i] = (struct copy_cell){ .null = sqlite3_column_type(stmt, i) == SQLITE_NULL };
                if (facts->types[i] == 'i')
                    cells[i].number = sqlite3_column_int64(stmt, i);
                else
                    cells[i].bytes = column_view(stmt, i);
            }
            *out_how = visit(visitor, cells);
        }
        db_reset(db, facts->walk);
    } while (n > 0 && step == DB_DONE && *out_how == VERIFY_ON);
    return step != DB_ERROR;
}

static bool source_ready(void *owner, const struct verify_ready *after,
    enum verify_visit (*visit)(void *, const struct verify_ready *), void *visitor, enum verify_visit *out_how,
    struct err *err)
{
    struct db *db = owner;
    enum db_step step = DB_DONE;
    size_t n;
    *out_how = VERIFY_ON;
    do {
        BIND_NUMBERS(db->stmts[SQL_ready_after], after->class_id, after->nprio, after->vt, after->task);
        for (n = 0; *out_how == VERIFY_ON && (step = db_next(db, SQL_ready_after, err)) == DB_ROW; n++) {
            struct cells c = cells_of(db, SQL_ready_after);
            struct verify_ready row;
            row.class_id = next_i64(&c);
            row.nprio = next_i64(&c);
            row.vt = next_i64(&c);
            row.task = next_i64(&c);
            row.state = row_state(next_view(&c));
            row.rest = next_view(&c);
            *out_how = visit(visitor, &row);
        }
        db_reset(db, SQL_ready_after);
    } while (n > 0 && step == DB_DONE && *out_how == VERIFY_ON);
    return step != DB_ERROR;
}

static bool slots_get(struct db *db, struct verify_small *out, struct err *err)
{
    struct cells c = cells_of(db, SQL_verify_slots);
    enum db_step step = db_next(db, SQL_verify_slots, err);
    int64_t *cells[] = { &out->slot.id, &out->slot.used, &out->slot.waiting, &out->slot.held, &out->slot.waits };
    for (size_t i = 0; step == DB_ROW && i < sizeof cells / sizeof cells[0]; i++)
        *cells[i] = next_i64(&c);
    db_reset(db, SQL_verify_slots);
    return step != DB_ERROR;
}

static bool number_get(struct db *db, enum sql_id id, int64_t *out, struct err *err)
{
    if (db_next(db, id, err) != DB_ROW)
        return false;
    struct cells c = cells_of(db, id);
    *out = next_i64(&c);
    db_reset(db, id);
    return true;
}

static bool source_small(void *owner, struct arena *arena, struct verify_small *out, struct err *err)
{
    struct db *db = owner;
    size_t cap_lanes = 0, cap_tokens = 0;
    enum db_step step;
    while ((step = db_next(db, SQL_verify_lanes, err)) == DB_ROW) {
        struct cells c = cells_of(db, SQL_verify_lanes);
        (void)row_lane(&c, arena, ARENA_PUSH(arena, out->lanes, out->n_lanes, cap_lanes));
    }
    while (step == DB_DONE && (step = db_next(db, SQL_verify_tokens, err)) == DB_ROW) {
        struct cells c = cells_of(db, SQL_verify_tokens);
        *ARENA_PUSH(arena, out->tokens, out->n_tokens, cap_tokens) = next_text(&c, arena);
        step = DB_DONE;
    }
    size_t cap_lives = 0;
    while (step == DB_DONE && (step = db_next(db, SQL_verify_live, err)) == DB_ROW) {
        struct cells c = cells_of(db, SQL_verify_live);
        *ARENA_PUSH(arena, out->lives, out->n_lives, cap_lives) = next_i64(&c);
        step = DB_DONE;
    }
    return step == DB_DONE && number_get(db, SQL_verify_ready, &out->n_ready, err) && slots_get(db, out, err);
}

bool verify_walk(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct verify_wish *wish,
    struct verify_report *out, struct err *err)
{
    const struct verify_source source = {
        .owner = db,
        .begin = source_begin,
        .end = source_end,
        .head = source_head,
        .turns = source_turns,
        .rows = source_rows,
        .ready = source_ready,
        .small = source_small,
    };
    return verify_run(&source, key, wish, out, err);
}

bool sqlite_verify(const char *data_dir, const struct verify_wish *wish, struct verify_report *out, struct err *err)
{
    struct db db = { 0 };
    uint8_t key[CHAIN_KEY_BYTES];
    char path[FILES_PATH_MAX];
    int64_t version;
    *out = (struct verify_report){ 0 };
    if (sodium_init() < 0 || !path_join(path, data_dir, "weir.db", err))
        return false;
    if (!file_exists(path))
        return err_set(err, ERR_not_found, "there is no store at %s", path);
    bool ok = chain_key_load(data_dir, key, err) && db_connect(&db, path, SQLITE_OPEN_READONLY, err) &&
              schema_check(&db, path, &version, err);
    if (ok && version != SQL_SCHEMA_VERSION)
        ok = err_set(err, ERR_unavailable, "%s has schema %d: start weir serve once to bring it to %d", path,
            (int)version, SQL_SCHEMA_VERSION);
    ok = ok && db_exec(&db, SQL_pragma_reader, err) && db_prepare(&db, SQL_FOR_READER | SQL_FOR_VERIFIER, err) &&
         verify_walk(&db, key, wish, out, err);
    db_close(&db);
    sodium_memzero(key, sizeof key);
    return verify_conclude(ok, out, err);
}

bool store_verify(
    const char *data_dir, int64_t witness_seq, const uint8_t *witness_hash, struct verify_report *out, struct err *err)
{
    return sqlite_verify(
        data_dir, &(struct verify_wish){ .witness_seq = witness_seq, .witness_hash = witness_hash }, out, err);
}
