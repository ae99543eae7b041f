/* rows: cells of a result -> the structs of core/model.h. See rows.h. */
#include "store/postgres/rows.h"

#include <string.h>

#include "store/damage.h"

struct str cell_text(const PGresult *result, int row, int column, struct arena *arena)
{
    struct str view = cell_view(result, row, column);
    return view.len ? str_dup(arena, view) : (struct str){ 0 };
}

void cell_bytes(const PGresult *result, int row, int column, void *out, size_t n)
{
    struct str view = cell_view(result, row, column);
    memset(out, 0, n);
    if (view.len == n)
        memcpy(out, view.ptr, n);
}

enum task_state cell_state(const PGresult *result, int row, int column)
{
    struct str view = cell_view(result, row, column);
    return view.len == 1 ? state_of_letter(view.ptr[0]) : STATE_NONE;
}

bool pg_row_damaged(const char *table, int64_t row, struct err *err)
{
    return damage_set(err, "row %lld of table %s can't be read", (long long)row, table);
}

bool pg_row_head(const PGresult *result, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    if (PQntuples(result) != 1 || PQgetlength(result, 0, 3) != (int)sizeof out->hash)
        return damage_set(err, "the head row is missing or damaged: run weir verify");
    *out = (struct store_head){
        .incarnation = (uint64_t)cell_i64(result, 0, 0),
        .turn = cell_i64(result, 0, 1),
        .seq = cell_i64(result, 0, 2),
        .next_task = cell_i64(result, 0, 4),
        .next_spec = cell_i64(result, 0, 5),
        .next_lane = cell_i64(result, 0, 6),
        .next_class = cell_i64(result, 0, 7),
        .next_slot = cell_i64(result, 0, 8),
        .next_executor = cell_i64(result, 0, 9),
        .next_token = cell_i64(result, 0, 10),
        .v_now = cell_i64(result, 0, 11),
        .commit = cell_i64(result, 0, 13),
        .time = cell_i64(result, 0, 14),
    };
    cell_bytes(result, 0, 3, out->hash, sizeof out->hash);
    if (out_seal)
        cell_bytes(result, 0, 12, out_seal, STORE_HASH_BYTES);
    return true;
}

bool pg_row_task(const PGresult *result, int row, struct arena *arena, struct task *out, struct err *err)
{
    *out = (struct task){
        .id = cell_i64(result, row, 0),
        .lane = cell_i64(result, row, 1),
        .rev = cell_i64(result, row, 2),
        .state = cell_state(result, row, 3),
        .name = cell_text(result, row, 4, arena),
        .variant = cell_text(result, row, 5, arena),
        .run = cell_i64(result, row, 6),
    };
    if (!task_unpack(cell_view(result, row, 7), out) || out->state == STATE_NONE)
        return pg_row_damaged("task", out->id, err);
    out->reason = out->reason.len ? str_dup(arena, out->reason) : (struct str){ 0 };
    out->unique = out->unique.len ? str_dup(arena, out->unique) : (struct str){ 0 };
    return true;
}

void pg_row_lane(const PGresult *result, int row, struct arena *arena, struct lane *out)
{
    *out = (struct lane){
        .id = cell_i64(result, row, 0),
        .kind = (enum lane_kind)cell_i64(result, row, 1),
        .tenant = cell_text(result, row, 2, arena),
        .name = cell_text(result, row, 3, arena),
        .last_vt = cell_i64(result, row, 4),
        .paused_since = cell_i64(result, row, 13),
        .paused_by = cell_text(result, row, 14, arena),
        .paused_reason = cell_text(result, row, 15, arena),
        .log_bytes = cell_i64(result, row, 16),
        .file_bytes = cell_i64(result, row, 17),
    };
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        out->counts[state] = cell_i64(result, row, 5 + state - STATE_Q);
}

static void row_begun(const PGresult *result, int row, struct attempt *out)
{
    *out = (struct attempt){
        .task = cell_i64(result, row, 0),
        .grant = cell_i64(result, row, 1),
        .number = cell_i64(result, row, 2),
        .executor = cell_i64(result, row, 3),
        .started = cell_i64(result, row, 4),
        .exit = -1,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1,
        .poll_seq = -1,
    };
}

void pg_row_live(const PGresult *result, int row, struct attempt *out)
{
    row_begun(result, row, out);
    out->poll_seq = cell_i64(result, row, 5);
    out->many = cell_i64(result, row, 6) != 0;
}

void pg_row_attempt(const PGresult *result, int row, struct attempt *out)
{
    row_begun(result, row, out);
    out->finished = cell_i64(result, row, 5);
    out->exit = cell_i64(result, row, 6);
    out->signal = cell_i64(result, row, 7);
    out->outcome = outcome_find(cell_view(result, row, 8));
    out->cpu_ms = cell_i64(result, row, 9);
    out->max_rss_bytes = cell_i64(result, row, 10);
    out->log_bytes = cell_i64(result, row, 11);
    cell_bytes(result, row, 12, out->finish_hash, sizeof out->finish_hash);
    out->ended_before = true;
}

static void pg_row_hold(const PGresult *result, int row, struct hold *out)
{
    *out = (struct hold){
        .kind = (enum hold_kind)cell_i64(result, row, 0),
        .key = cell_i64(result, row, 1),
        .rank = cell_i64(result, row, 2),
        .task = cell_i64(result, row, 3),
        .since = cell_i64(result, row, 4),
    };
}

void pg_row_edge(const PGresult *result, int row, struct edge *out)
{
    *out = (struct edge){
        .waiter = cell_i64(result, row, 0),
        .pred = cell_i64(result, row, 1),
        .kind = (enum edge_kind)cell_i64(result, row, 2),
        .flags = (unsigned)cell_i64(result, row, 3),
    };
}

/* ROWS_NEW: an array of pointers to zeroed items, one for each row. */
#define ROWS_NEW(result, arena, out, out_n) \
    do { \
        *(out_n) = (size_t)PQntuples(result); \
        *(out) = *(out_n) ? (__typeof__(*(out)))arena_array((arena), sizeof **(out), *(out_n)) : NULL; \
        for (size_t made = 0; made < *(out_n); made++) \
            (*(out))[made] = arena_alloc((arena), sizeof ***(out)); \
    } while (0)

bool pg_rows_lanes(const PGresult *result, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err)
{
    (void)err;
    ROWS_NEW(result, arena, out, out_n);
    for (size_t i = 0; i < *out_n; i++)
        pg_row_lane(result, (int)i, arena, (*out)[i]);
    return true;
}

bool pg_rows_classes(const PGresult *result, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err)
{
    ROWS_NEW(result, arena, out, out_n);
    for (int i = 0; i < (int)*out_n; i++) {
        struct task_class *item = (*out)[i];
        *item = (struct task_class){
            .id = cell_i64(result, i, 0),
            .key = cell_text(result, i, 1, arena),
            .tenant = cell_text(result, i, 2, arena),
            .zone = cell_text(result, i, 3, arena),
            .kind = (enum class_kind)cell_i64(result, i, 4),
            .goes = cell_i64(result, i, 6) != 0,
        };
        if (!labels_unpack(cell_view(result, i, 5), arena, &item->labels, &item->n_labels))
            return pg_row_damaged("class", item->id, err);
    }
    return true;
}

bool pg_rows_slots(const PGresult *result, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err)
{
    (void)err;
    ROWS_NEW(result, arena, out, out_n);
    for (int i = 0; i < (int)*out_n; i++)
        *(*out)[i] = (struct slot){
            .id = cell_i64(result, i, 0),
            .tenant = cell_text(result, i, 1, arena),
            .name = cell_text(result, i, 2, arena),
            .limit = cell_i64(result, i, 3),
            .used = cell_i64(result, i, 4),
            .waiting = cell_i64(result, i, 5),
        };
    return true;
}

bool pg_rows_executors(const PGresult *result, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err)
{
    ROWS_NEW(result, arena, out, out_n);
    for (int i = 0; i < (int)*out_n; i++) {
        struct executor *item = (*out)[i];
        *item = (struct executor){
            .id = cell_i64(result, i, 0),
            .name = cell_text(result, i, 1, arena),
            .instance = cell_text(result, i, 2, arena),
            .host = cell_text(result, i, 3, arena),
            .version = cell_text(result, i, 4, arena),
            .zone = cell_text(result, i, 5, arena),
            .slots = cell_i64(result, i, 6),
            .kinds = (unsigned)cell_i64(result, i, 7),
            .state = (enum executor_state)cell_i64(result, i, 9),
            .registered = cell_i64(result, i, 10),
            .processed = cell_i64(result, i, 11),
            .failed = cell_i64(result, i, 12),
            .tenant = cell_text(result, i, 13, arena),
            .owner = cell_i64(result, i, 14),
            .silent = cell_i64(result, i, 15),
        };
        if (!labels_unpack(cell_view(result, i, 8), arena, &item->labels, &item->n_labels))
            return pg_row_damaged("executor", item->id, err);
    }
    return true;
}

bool pg_rows_site(const PGresult *result, struct arena *arena, struct site_key **out, size_t *out_n)
{
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct site_key, *out_n) : NULL;
    for (int i = 0; i < (int)*out_n; i++)
        (*out)[i] = (struct site_key){ .name = cell_text(result, i, 0, arena),
            .body = cell_text(result, i, 1, arena),
            .version = cell_i64(result, i, 2),
            .changed = cell_i64(result, i, 3),
            .changed_by = cell_text(result, i, 4, arena) };
    return true;
}

bool pg_rows_tokens(const PGresult *result, struct arena *arena, struct token ***out, size_t *out_n, struct err *err)
{
    ROWS_NEW(result, arena, out, out_n);
    for (int i = 0; i < (int)*out_n; i++) {
        struct token *item = (*out)[i];
        item->id = cell_i64(result, i, 0);
        item->name = cell_text(result, i, 1, arena);
        item->tenant = cell_text(result, i, 2, arena);
        if (PQgetlength(result, i, 3) != (int)sizeof item->hash) /* zeros instead would be a hash somebody could look for */
            return pg_row_damaged("token", item->id, err);
        cell_bytes(result, i, 3, item->hash, sizeof item->hash);
        item->scopes = (unsigned)cell_i64(result, i, 4);
        item->created = cell_i64(result, i, 5);
        item->expires = cell_i64(result, i, 6);
    }
    return true;
}

bool pg_rows_holds(const PGresult *result, struct arena *arena, struct hold **out, size_t *out_n)
{
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct hold, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++)
        pg_row_hold(result, (int)i, &(*out)[i]);
    return true;
}
