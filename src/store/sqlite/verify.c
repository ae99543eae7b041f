/* verify: is the recorded history whole, and do the rows agree with it?
 *
 * Walks the turns in order: each hash must follow from the one before, turns must ascend, events must be dense, unpack, and move tasks
 * only along the table; at the end the head must be sealed and equal. Then every task's row must have the state that its events lead to,
 * and every task of the history its row. Works in steps, each a read transaction of STEP_US at most: each step first follows what a
 * running server has added, so that rows and history are compared as of one snapshot.
 *
 * A damaged store is a report with ok == false and the first fault in words, also where SQLite itself refuses to read on. */
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "core/task_state.h"
#include "io/clock.h"
#include "store/pack.h"
#include "store/sqlite/reader.h"

enum { CLOCK_STEPS = 256 };

struct verify {
    struct db *db;
    const uint8_t *key;
    struct verify_report *report;
    int64_t witness_seq;
    const uint8_t *witness_hash;
    bool witnessed;

    struct store_head head; /* of this step's snapshot */
    int64_t turn, seq;      /* how far the turns are walked */
    uint8_t hash[STORE_HASH_BYTES];
    uint8_t *states;        /* by task id: the state its events lead to */
    size_t n_states;
    int64_t compared;       /* tasks up to this id are */
    struct arena arena;
    int64_t deadline;
};

static bool fault(struct verify *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fault(struct verify *v, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(v->report->fault, sizeof v->report->fault, fmt, args);
    va_end(args);
    v->report->ok = false;
    return false;
}

/* NULL: the history can't know this task. */
static uint8_t *state_of(struct verify *v, int64_t task)
{
    if (task <= 0 || task >= v->head.next_task)
        return NULL;
    if ((size_t)task >= v->n_states) {
        size_t n = v->n_states ? v->n_states : 1024;
        while (n <= (size_t)task)
            n *= 2;
        v->states = mem_realloc(v->states, n);
        memset(v->states + v->n_states, STATE_NONE, n - v->n_states);
        v->n_states = n;
    }
    return &v->states[task];
}

static char letter_of(unsigned state)
{
    return state ? state_letter((enum task_state)state) : '-';
}

static bool event_fold(struct verify *v, int64_t turn, const struct event *e)
{
    if (e->kind != EVENT_created && e->kind != EVENT_move)
        return true;
    uint8_t *state = state_of(v, e->task);
    if (!state)
        return fault(v, "event %" PRId64 " (turn %" PRId64 ") names task %" PRId64 ", which can't exist", e->seq, turn, e->task);
    if (e->from != *state || (e->kind == EVENT_created) != (e->from == STATE_NONE) || e->to == STATE_NONE || !move_legal(e->from, e->to))
        return fault(v, "event %" PRId64 " (turn %" PRId64 ") moves task %" PRId64 " from %c to %c, which stood in %c", e->seq, turn,
                     e->task, letter_of(e->from), letter_of(e->to), letter_of(*state));
    *state = (uint8_t)e->to;
    return true;
}

/* The turn under the cursor: link, numbers, events. */
static bool turn_walk(struct verify *v)
{
    sqlite3_stmt *stmt = v->db->stmts[SQL_turns_after];
    int64_t turn = sqlite3_column_int64(stmt, 0), first_seq = sqlite3_column_int64(stmt, 1), time = sqlite3_column_int64(stmt, 2);
    struct str stored = column_view(stmt, 3), packed = column_view(stmt, 4);
    uint8_t expected[STORE_HASH_BYTES];
    struct event *events;
    size_t n;
    chain_link(v->key, v->hash, turn, first_seq, time, packed, expected);
    if (first_seq != v->seq + 1)
        return fault(v, "turn %" PRId64 " begins with event %" PRId64 ", but the one before ended with %" PRId64, turn, first_seq, v->seq);
    if (stored.len != STORE_HASH_BYTES || memcmp(stored.ptr, expected, STORE_HASH_BYTES) != 0)
        return fault(v, "turn %" PRId64 " (events from %" PRId64 ") doesn't match its hash: it, or the one before, was changed", turn,
                     first_seq);
    arena_reset(&v->arena);
    if (!unpack_events(packed, first_seq, time, &v->arena, &events, &n))
        return fault(v, "the events of turn %" PRId64 " can't be read", turn);
    for (size_t i = 0; i < n; i++)
        if (!event_fold(v, turn, &events[i]))
            return false;
    if (v->witness_seq >= first_seq && v->witness_seq < first_seq + (int64_t)n) {
        if (memcmp(expected, v->witness_hash, STORE_HASH_BYTES) != 0)
            return fault(v, "event %" PRId64 " has another hash than the witness saw: this is another history", v->witness_seq);
        v->witnessed = true;
    }
    memcpy(v->hash, expected, sizeof expected);
    v->turn = turn;
    v->seq = first_seq + (int64_t)n - 1;
    v->report->turns++;
    v->report->events += (int64_t)n;
    return true;
}

/* *out_end: the snapshot's last turn was reached. */
static bool turns_walk(struct verify *v, bool *out_end, struct err *err)
{
    enum db_step step = DB_DONE;
    bool ok = true;
    bind_i64(v->db->stmts[SQL_turns_after], 1, v->turn);
    *out_end = false;
    while (ok && (step = db_next(v->db, SQL_turns_after, err)) == DB_ROW) {
        ok = turn_walk(v);
        if (clock_boot_us() > v->deadline)
            break;
    }
    *out_end = ok && step == DB_DONE;
    db_reset(v->db, SQL_turns_after);
    return ok && step != DB_ERROR;
}

static bool head_compare(struct verify *v, const uint8_t seal[STORE_HASH_BYTES])
{
    uint8_t expected[STORE_HASH_BYTES];
    chain_seal(v->key, &v->head, expected);
    if (v->head.seq != v->seq)
        return fault(v, "the history ends with event %" PRId64 ", but the head says %" PRId64, v->seq, v->head.seq);
    if (v->head.turn < v->turn || memcmp(v->head.hash, v->hash, STORE_HASH_BYTES) != 0)
        return fault(v, "the head (turn %" PRId64 ") isn't the end of the history (turn %" PRId64 ")", v->head.turn, v->turn);
    if (sodium_memcmp(seal, expected, STORE_HASH_BYTES) != 0)
        return fault(v, "the head's seal is broken: turns may have been cut off after event %" PRId64, v->head.seq);
    return true;
}

/* Ids between two rows that exist: the history must not know them. */
static bool gap_compare(struct verify *v, int64_t from, int64_t to)
{
    for (int64_t id = from; id < to && id < (int64_t)v->n_states; id++)
        if (v->states[id] != STATE_NONE)
            return fault(v, "task %" PRId64 " is in the history (%c) but has no row", id, letter_of(v->states[id]));
    return true;
}

static bool tasks_compare(struct verify *v, bool *out_end, struct err *err)
{
    sqlite3_stmt *stmt = v->db->stmts[SQL_tasks_after];
    enum db_step step = DB_DONE;
    bool ok = true;
    bind_i64(stmt, 1, v->compared);
    *out_end = false;
    for (int steps = 1; ok && (step = db_next(v->db, SQL_tasks_after, err)) == DB_ROW; steps++) {
        int64_t id = sqlite3_column_int64(stmt, 0);
        enum task_state state = column_state(stmt, 1);
        ok = gap_compare(v, v->compared + 1, id);
        if (ok && (id <= 0 || id >= (int64_t)v->n_states || v->states[id] == STATE_NONE))
            ok = fault(v, "task %" PRId64 " has a row but no history", id);
        else if (ok && v->states[id] != state)
            ok = fault(v, "task %" PRId64 " stands in %c, but its history leads to %c", id, letter_of(state),
                       letter_of(v->states[id]));
        v->compared = id;
        v->report->tasks++;
        if (steps % CLOCK_STEPS == 0 && clock_boot_us() > v->deadline)
            break;
    }
    db_reset(v->db, SQL_tasks_after);
    *out_end = ok && step == DB_DONE;
    return ok && step != DB_ERROR && (!*out_end || gap_compare(v, v->compared + 1, (int64_t)v->n_states));
}

/* One snapshot. *out_end: everything is walked and compared. */
static bool step_in_snapshot(struct verify *v, bool *out_end, struct err *err)
{
    uint8_t seal[STORE_HASH_BYTES];
    v->deadline = clock_boot_us() + STEP_US;
    if (!rows_head(v->db, &v->head, seal, err) || !turns_walk(v, out_end, err))
        return false;
    if (!*out_end)
        return true;
    v->deadline = clock_boot_us() + STEP_US / 2;
    return head_compare(v, seal) && tasks_compare(v, out_end, err);
}

static bool steps_run(struct verify *v, struct err *err)
{
    bool end = false;
    while (!end)
        if (!snapshot_begin(v->db, err) || !snapshot_end(v->db, step_in_snapshot(v, &end, err)))
            return false;
    if (v->witness_seq > 0 && !v->witnessed)
        return fault(v, "the history ends with event %" PRId64 ", before the witness's %" PRId64 ": this is an older copy", v->seq,
                     v->witness_seq);
    return true;
}

bool verify_walk(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], int64_t witness_seq, const uint8_t *witness_hash,
                 struct verify_report *out,
                 struct err *err)
{
    struct verify v = { .db = db, .key = key, .report = out, .witness_seq = witness_seq, .witness_hash = witness_hash };
    *out = (struct verify_report){ .ok = true };
    bool ok = steps_run(&v, err) || !out->ok;
    out->head_seq = v.seq;
    memcpy(out->head_hash, v.hash, sizeof v.hash);
    mem_free(v.states);
    arena_release(&v.arena);
    return ok;
}

bool store_verify(const char *data_dir, int64_t witness_seq, const uint8_t *witness_hash, struct verify_report *out, struct err *err)
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
    bool ok = chain_key_load(data_dir, key, err) && db_connect(&db, path, SQLITE_OPEN_READONLY, err) && schema_check(&db, path, &version,
                                                                                                                     err);
    if (ok && version != SQL_SCHEMA_VERSION)
        ok = err_set(err, ERR_unavailable, "%s has schema %d: start weir serve once to bring it to %d", path, (int)version,
                     SQL_SCHEMA_VERSION);
    ok = ok && db_exec(&db, SQL_pragma_reader, err) && db_prepare(&db, SQL_FOR_READER | SQL_FOR_VERIFIER, err) &&
         verify_walk(&db, key, witness_seq, witness_hash, out, err);
    db_close(&db);
    sodium_memzero(key, sizeof key);
    if (!ok && err->code == ERR_corrupt) { /* it could be read well enough to know that it is damaged */
        out->ok = false;
        snprintf(out->fault, sizeof out->fault, "%.255s", err->text);
        return true;
    }
    return ok;
}
