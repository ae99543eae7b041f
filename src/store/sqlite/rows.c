/* rows: columns -> the structs of core/model.h, and lists packed into one column. See rows.h. */
#include "store/sqlite/rows.h"

#include <stddef.h>
#include <string.h>

struct str column_view(sqlite3_stmt *stmt, int column)
{
    const char *ptr = sqlite3_column_blob(stmt, column); /* a text column gives its UTF-8 bytes */
    return (struct str){ ptr, ptr ? (size_t)sqlite3_column_bytes(stmt, column) : 0 };
}

struct str column_text(sqlite3_stmt *stmt, int column, struct arena *arena)
{
    struct str view = column_view(stmt, column);
    return view.len ? str_dup(arena, view) : (struct str){ 0 };
}

void column_bytes(sqlite3_stmt *stmt, int column, void *out, size_t n)
{
    struct str view = column_view(stmt, column);
    memset(out, 0, n);
    if (view.len == n)
        memcpy(out, view.ptr, n);
}

struct str state_text(enum task_state state)
{
    static const char letters[STATE_COUNT] = {
#define X(name, letter, word, ended) [STATE_##name] = letter,
        TASK_STATES(X)
#undef X
    };
    return state == STATE_NONE ? (struct str){ 0 } : (struct str){ &letters[state], 1 };
}

enum task_state column_state(sqlite3_stmt *stmt, int column)
{
    struct str view = column_view(stmt, column);
    return view.len == 1 ? state_of_letter(view.ptr[0]) : STATE_NONE;
}

bool row_head(sqlite3_stmt *stmt, struct store_head *out)
{
    *out = (struct store_head){
        .incarnation = (uint64_t)sqlite3_column_int64(stmt, 0),
        .turn = sqlite3_column_int64(stmt, 1),
        .seq = sqlite3_column_int64(stmt, 2),
        .next_task = sqlite3_column_int64(stmt, 4),
        .next_spec = sqlite3_column_int64(stmt, 5),
        .next_lane = sqlite3_column_int64(stmt, 6),
        .next_class = sqlite3_column_int64(stmt, 7),
        .next_slot = sqlite3_column_int64(stmt, 8),
        .next_executor = sqlite3_column_int64(stmt, 9),
        .next_token = sqlite3_column_int64(stmt, 10),
        .v_now = sqlite3_column_int64(stmt, 11),
    };
    column_bytes(stmt, 3, out->hash, sizeof out->hash);
    return sqlite3_column_bytes(stmt, 3) == sizeof out->hash;
}

void row_lane(sqlite3_stmt *stmt, struct arena *arena, struct lane *out)
{
    *out = (struct lane){
        .id = sqlite3_column_int64(stmt, 0),
        .kind = (enum lane_kind)sqlite3_column_int(stmt, 1),
        .tenant = column_text(stmt, 2, arena),
        .name = column_text(stmt, 3, arena),
        .last_vt = sqlite3_column_int64(stmt, 4),
        .paused_since = sqlite3_column_int64(stmt, 13),
        .paused_by = column_text(stmt, 14, arena),
        .paused_reason = column_text(stmt, 15, arena),
    };
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        out->counts[state] = sqlite3_column_int64(stmt, 5 + state - STATE_Q);
}

/* A task's `rest`: the number of cells, then each as a varint; cells at the end that are 0 aren't written; then the bytes of the texts.
 * Numbers are folded so that small negative ones stay short; times are told from `created`. A cell more goes to the end of its group in no
 * released store: there is a migration for that. */
static const size_t rest_numbers[] = {
    offsetof(struct task, spec),   offsetof(struct task, class_id), offsetof(struct task, created),  offsetof(struct task, vt),
    offsetof(struct task, grant),  offsetof(struct task, attempts), offsetof(struct task, last_turn), offsetof(struct task, waits),
    offsetof(struct task, out),    offsetof(struct task, ins),      offsetof(struct task, prio),     offsetof(struct task, not_before),
    offsetof(struct task, base),   offsetof(struct task, cause),
};
static const size_t rest_times[] = { offsetof(struct task, ready), offsetof(struct task, started), offsetof(struct task, finished) };
enum {
    REST_NUMBERS = sizeof rest_numbers / sizeof rest_numbers[0],
    REST_TIMES = sizeof rest_times / sizeof rest_times[0],
    REST_OUTCOME = REST_NUMBERS + REST_TIMES, REST_ENDING, REST_HOLDS, REST_MARKS, REST_REASON, REST_UNIQUE, REST_CELLS,
    VARINT_BYTES_MAX = 10,
};

static inline uint64_t fold(int64_t n)
{
    return (uint64_t)n << 1 ^ (uint64_t)(n >> 63);
}

static inline int64_t unfold(uint64_t n)
{
    return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

static inline int64_t *task_number(struct task *task, size_t offset)
{
    return (int64_t *)(void *)((char *)task + offset);
}

static inline int64_t task_number_of(const struct task *task, size_t offset)
{
    int64_t n;
    memcpy(&n, (const char *)task + offset, sizeof n);
    return n;
}

void task_pack(struct buf *out, const struct task *task)
{
    uint64_t cells[REST_CELLS];
    for (size_t i = 0; i < REST_NUMBERS; i++)
        cells[i] = fold(task_number_of(task, rest_numbers[i]));
    for (size_t i = 0; i < REST_TIMES; i++) {
        int64_t time = task_number_of(task, rest_times[i]);
        cells[REST_NUMBERS + i] = time ? fold((int64_t)((uint64_t)time - (uint64_t)task->created)) + 1 : 0;
    }
    cells[REST_OUTCOME] = task->outcome;
    cells[REST_ENDING] = task->ending;
    cells[REST_HOLDS] = task->holds;
    cells[REST_MARKS] = task->marks;
    cells[REST_REASON] = task->reason.len;
    cells[REST_UNIQUE] = task->unique.len;
    size_t n = REST_CELLS;
    while (n > 0 && cells[n - 1] == 0)
        n--;
    unsigned char *start = (unsigned char *)buf_reserve(out, 1 + VARINT_BYTES_MAX * n), *at = start;
    ASSERT(at);
    *at++ = (unsigned char)n;
    for (size_t i = 0; i < n; i++) {
        uint64_t cell = cells[i];
        for (; cell >= 0x80; cell >>= 7)
            *at++ = (unsigned char)(cell | 0x80);
        *at++ = (unsigned char)cell;
    }
    buf_commit(out, (size_t)(at - start));
    buf_add_str(out, task->reason);
    buf_add_str(out, task->unique);
}

bool task_unpack(struct str rest, struct task *out)
{
    uint64_t cells[REST_CELLS] = { 0 }, n;
    if (!str_cut_varint(&rest, &n) || n > REST_CELLS)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!str_cut_varint(&rest, &cells[i]))
            return false;
    if (cells[REST_OUTCOME] >= OUTCOME_COUNT || cells[REST_ENDING] >= STATE_COUNT || cells[REST_REASON] > rest.len ||
        cells[REST_UNIQUE] != rest.len - cells[REST_REASON])
        return false;
    for (size_t i = 0; i < REST_NUMBERS; i++)
        *task_number(out, rest_numbers[i]) = unfold(cells[i]);
    for (size_t i = 0; i < REST_TIMES; i++) {
        uint64_t cell = cells[REST_NUMBERS + i];
        *task_number(out, rest_times[i]) = cell ? (int64_t)((uint64_t)unfold(cell - 1) + (uint64_t)out->created) : 0;
    }
    out->outcome = (enum outcome)cells[REST_OUTCOME];
    out->ending = (enum task_state)cells[REST_ENDING];
    out->holds = (unsigned)cells[REST_HOLDS];
    out->marks = (unsigned)cells[REST_MARKS];
    out->reason = str_sub(rest, 0, (size_t)cells[REST_REASON]);
    out->unique = str_sub(rest, (size_t)cells[REST_REASON], rest.len);
    return true;
}

/* False: no build of ours has written this. */
static bool row_task(sqlite3_stmt *stmt, struct arena *arena, struct task *out)
{
    *out = (struct task){
        .id = sqlite3_column_int64(stmt, 0),
        .lane = sqlite3_column_int64(stmt, 1),
        .rev = sqlite3_column_int64(stmt, 2),
        .state = column_state(stmt, 3),
        .name = column_text(stmt, 4, arena),
        .variant = column_text(stmt, 5, arena),
        .run = sqlite3_column_int64(stmt, 6),
    };
    if (!task_unpack(column_view(stmt, 7), out))
        return false;
    if (out->reason.len)
        out->reason = str_dup(arena, out->reason);
    if (out->unique.len)
        out->unique = str_dup(arena, out->unique);
    return out->state != STATE_NONE;
}

void row_live(sqlite3_stmt *stmt, struct attempt *out)
{
    *out = (struct attempt){
        .task = sqlite3_column_int64(stmt, 0),
        .grant = sqlite3_column_int64(stmt, 1),
        .number = sqlite3_column_int64(stmt, 2),
        .executor = sqlite3_column_int64(stmt, 3),
        .started = sqlite3_column_int64(stmt, 4),
        .exit = -1,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1,
    };
}

void row_attempt(sqlite3_stmt *stmt, struct attempt *out)
{
    row_live(stmt, out);
    out->finished = sqlite3_column_int64(stmt, 5);
    out->exit = sqlite3_column_int64(stmt, 6);
    out->signal = sqlite3_column_int64(stmt, 7);
    out->outcome = outcome_find(column_view(stmt, 8));
    out->cpu_ms = sqlite3_column_int64(stmt, 9);
    out->max_rss_bytes = sqlite3_column_int64(stmt, 10);
    out->log_bytes = sqlite3_column_int64(stmt, 11);
    column_bytes(stmt, 12, out->finish_hash, sizeof out->finish_hash);
}

void row_hold(sqlite3_stmt *stmt, struct hold *out)
{
    *out = (struct hold){
        .kind = (enum hold_kind)sqlite3_column_int(stmt, 0),
        .key = sqlite3_column_int64(stmt, 1),
        .rank = sqlite3_column_int64(stmt, 2),
        .task = sqlite3_column_int64(stmt, 3),
        .since = sqlite3_column_int64(stmt, 4),
    };
}

void row_edge(sqlite3_stmt *stmt, struct edge *out)
{
    *out = (struct edge){
        .waiter = sqlite3_column_int64(stmt, 0),
        .pred = sqlite3_column_int64(stmt, 1),
        .kind = (enum edge_kind)sqlite3_column_int(stmt, 2),
        .flags = (unsigned)sqlite3_column_int64(stmt, 3),
    };
}

/* Lists in one column: the number of entries, then each; all as varints, text with its length before it. */
static void text_pack(struct buf *out, struct str s)
{
    buf_add_varint(out, s.len);
    buf_add_str(out, s);
}

void labels_pack(struct buf *out, const struct label *labels, size_t n)
{
    buf_add_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        text_pack(out, labels[i].name);
        text_pack(out, labels[i].value);
    }
}

static bool text_unpack(struct str *rest, struct arena *arena, struct str *out)
{
    uint64_t len;
    if (!str_cut_varint(rest, &len) || len > rest->len)
        return false;
    *out = str_dup(arena, str_sub(*rest, 0, (size_t)len));
    *rest = str_sub(*rest, (size_t)len, rest->len);
    return true;
}

static bool labels_unpack(struct str bytes, struct arena *arena, struct label **out, size_t *out_n)
{
    uint64_t n;
    if (!str_cut_varint(&bytes, &n) || n > bytes.len)
        return false;
    *out = n ? ARENA_ARRAY(arena, struct label, (size_t)n) : NULL;
    *out_n = (size_t)n;
    for (size_t i = 0; i < n; i++)
        if (!text_unpack(&bytes, arena, &(*out)[i].name) || !text_unpack(&bytes, arena, &(*out)[i].value))
            return false;
    return bytes.len == 0;
}

void numbers_pack(struct buf *out, const int64_t *numbers, size_t n)
{
    buf_add_varint(out, n);
    for (size_t i = 0; i < n; i++)
        buf_add_varint(out, (uint64_t)numbers[i]);
}

bool numbers_unpack(struct str bytes, struct arena *arena, int64_t **out, size_t *out_n)
{
    uint64_t n;
    if (!str_cut_varint(&bytes, &n) || n > bytes.len)
        return false;
    *out = n ? ARENA_ARRAY(arena, int64_t, (size_t)n) : NULL;
    *out_n = (size_t)n;
    for (size_t i = 0; i < n; i++) {
        uint64_t number;
        if (!str_cut_varint(&bytes, &number))
            return false;
        (*out)[i] = (int64_t)number;
    }
    return bytes.len == 0;
}

static bool row_damaged(struct db *db, enum sql_id id, const char *table, int64_t row, struct err *err)
{
    db_reset(db, id);
    return err_set(err, ERR_corrupt, "row %lld of table %s can't be read", (long long)row, table);
}

bool rows_lanes(struct db *db, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, SQL_lanes, err)) == DB_ROW) {
        struct lane *lane = ARENA_NEW(arena, struct lane);
        row_lane(db->stmts[SQL_lanes], arena, lane);
        *ARENA_PUSH(arena, *out, *out_n, cap) = lane;
    }
    return step == DB_DONE;
}

bool rows_classes(struct db *db, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_classes];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, SQL_classes, err)) == DB_ROW) {
        struct task_class *item = ARENA_NEW(arena, struct task_class);
        item->id = sqlite3_column_int64(stmt, 0);
        item->key = column_text(stmt, 1, arena);
        item->tenant = column_text(stmt, 2, arena);
        item->zone = column_text(stmt, 3, arena);
        item->kind = (enum class_kind)sqlite3_column_int(stmt, 4);
        if (!labels_unpack(column_view(stmt, 5), arena, &item->labels, &item->n_labels))
            return row_damaged(db, SQL_classes, "class", item->id, err);
        *ARENA_PUSH(arena, *out, *out_n, cap) = item;
    }
    return step == DB_DONE;
}

bool rows_slots(struct db *db, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_slots];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, SQL_slots, err)) == DB_ROW) {
        struct slot *slot = ARENA_NEW(arena, struct slot);
        slot->id = sqlite3_column_int64(stmt, 0);
        slot->tenant = column_text(stmt, 1, arena);
        slot->name = column_text(stmt, 2, arena);
        slot->limit = sqlite3_column_int64(stmt, 3);
        slot->used = sqlite3_column_int64(stmt, 4);
        slot->waiting = sqlite3_column_int64(stmt, 5);
        *ARENA_PUSH(arena, *out, *out_n, cap) = slot;
    }
    return step == DB_DONE;
}

bool rows_executors(struct db *db, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_executors];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, SQL_executors, err)) == DB_ROW) {
        struct executor *executor = ARENA_NEW(arena, struct executor);
        *executor = (struct executor){
            .id = sqlite3_column_int64(stmt, 0),
            .name = column_text(stmt, 1, arena),
            .instance = column_text(stmt, 2, arena),
            .host = column_text(stmt, 3, arena),
            .version = column_text(stmt, 4, arena),
            .zone = column_text(stmt, 5, arena),
            .slots = sqlite3_column_int64(stmt, 6),
            .kinds = (unsigned)sqlite3_column_int64(stmt, 7),
            .state = (enum executor_state)sqlite3_column_int(stmt, 9),
            .registered = sqlite3_column_int64(stmt, 10),
            .processed = sqlite3_column_int64(stmt, 11),
            .failed = sqlite3_column_int64(stmt, 12),
        };
        if (!labels_unpack(column_view(stmt, 8), arena, &executor->labels, &executor->n_labels))
            return row_damaged(db, SQL_executors, "executor", executor->id, err);
        *ARENA_PUSH(arena, *out, *out_n, cap) = executor;
    }
    return step == DB_DONE;
}

bool rows_tokens(struct db *db, struct arena *arena, struct token ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_tokens];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, SQL_tokens, err)) == DB_ROW) {
        struct token *token = ARENA_NEW(arena, struct token);
        token->id = sqlite3_column_int64(stmt, 0);
        token->name = column_text(stmt, 1, arena);
        token->tenant = column_text(stmt, 2, arena);
        if (column_view(stmt, 3).len != sizeof token->hash) /* zeros instead would be a hash somebody could look for */
            return row_damaged(db, SQL_tokens, "token", token->id, err);
        column_bytes(stmt, 3, token->hash, sizeof token->hash);
        token->scopes = (unsigned)sqlite3_column_int64(stmt, 4);
        token->created = sqlite3_column_int64(stmt, 5);
        token->expires = sqlite3_column_int64(stmt, 6);
        *ARENA_PUSH(arena, *out, *out_n, cap) = token;
    }
    return step == DB_DONE;
}

bool rows_head(struct db *db, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    enum db_step step = db_next(db, SQL_head_get, err);
    if (step == DB_ERROR)
        return false;
    bool ok = step == DB_ROW && row_head(db->stmts[SQL_head_get], out);
    if (ok && out_seal)
        column_bytes(db->stmts[SQL_head_get], 12, out_seal, STORE_HASH_BYTES);
    db_reset(db, SQL_head_get);
    return ok || err_set(err, ERR_corrupt, "the head row is missing or damaged: run weir verify");
}

bool rows_task(struct db *db, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_task_get];
    bind_i64(stmt, 1, id);
    enum db_step step = db_next(db, SQL_task_get, err);
    if (step == DB_ERROR)
        return false;
    *out_found = step == DB_ROW;
    if (step == DB_ROW) {
        if (!row_task(stmt, arena, out))
            return row_damaged(db, SQL_task_get, "task", id, err);
        db_reset(db, SQL_task_get);
    }
    return true;
}

bool rows_task_rest(struct db *db, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_task_rest];
    bind_i64(stmt, 1, id);
    enum db_step step = db_next(db, SQL_task_rest, err);
    if (step == DB_ERROR)
        return false;
    *out_found = step == DB_ROW;
    *out = (struct task){ .id = id };
    if (step == DB_ROW) {
        out->state = column_state(stmt, 0);
        if (!task_unpack(column_view(stmt, 1), out))
            return row_damaged(db, SQL_task_rest, "task", id, err);
        out->reason = out->unique = (struct str){ 0 }; /* they end with the statement */
        db_reset(db, SQL_task_rest);
    }
    return true;
}

bool rows_outputs(struct db *db, struct arena *arena, int64_t task, struct str *out, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_outputs_get];
    bind_i64(stmt, 1, task);
    enum db_step step = db_next(db, SQL_outputs_get, err);
    if (step == DB_ERROR)
        return false;
    *out = step == DB_ROW ? column_text(stmt, 0, arena) : (struct str){ 0 };
    db_reset(db, SQL_outputs_get);
    return true;
}

bool rows_holds(struct db *db, enum sql_id id, struct arena *arena, struct hold **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, id, err)) == DB_ROW)
        row_hold(db->stmts[id], ARENA_PUSH(arena, *out, *out_n, cap));
    return step == DB_DONE;
}
