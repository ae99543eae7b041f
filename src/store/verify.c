/* verify: is the recorded history whole, and do the rows agree with it? The same for every store.
 *
 * Walks the turns in order: each hash must follow from the one before, events must be dense, unpack, and move tasks
 * only along the table; at the end the head must be sealed and equal. Then every task's row must have the state, the
 * lane and the grant that its events lead to, and every task of the history its row; every row of the tables that turns
 * tell of must be as the last of them left it (verify_rows.h); last what follows from other rows: ready, counts and
 * pauses of lanes, live, slots.
 *
 * Works in steps, each a snapshot of STEP_US or so: each step first follows what a running server has added, so that
 * rows and history are compared as of one snapshot.
 *
 * A damaged store is a report with ok == false and the first fault in words, also where the database itself refuses to
 * read on. */
#include "store/verify.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/plant.h"
#include "core/task_state.h"
#include "io/clock.h"
#include "store/cells.h"
#include "store/pack.h"
#include "store/verify_rows.h"

enum { CLOCK_STEPS = 256, STEP_US = 25000 };

struct verify {
    const struct sql *sql;
    const uint8_t *key;
    struct verify_report *report;
    const struct verify_wish *wish;
    bool witnessed;

    struct store_head head; /* of this step's snapshot */
    int64_t turn, seq;      /* how far the turns are walked */
    uint8_t hash[STORE_HASH_BYTES];
    uint8_t *states; /* by task id: the state its events lead to */
    int32_t *lanes;  /* by task id: its lane */
    int32_t *grants; /* by task id: the last grant that its events name */
    size_t n_states;
    struct map counts;  /* lane + 1 -> struct lane_fold */
    struct smap tokens; /* subjects of tokens that were made and not revoked */
    struct arena words; /* of those */
    int64_t n_pending, n_executing;
    int64_t compared; /* tasks up to this id are */
    struct rows_known rows;
    int table;                     /* of ROW_TABLES: whose rows are being compared; TAG_COUNT: all are */
    bool walking;                  /* it was begun */
    const struct sql_table *facts; /* its columns */
    struct verify_ready ready;     /* how far those are compared */
    bool ready_done;
    struct arena arena;
    int64_t deadline;
    int steps;
};

struct lane_fold { /* what the events say of a lane */
    int64_t counts[STATE_COUNT];
    bool paused, seen;     /* seen: it has a row */
    struct str by, reason; /* of a pause */
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
        v->lanes = mem_realloc(v->lanes, n * sizeof *v->lanes);
        v->grants = mem_realloc(v->grants, n * sizeof *v->grants);
        memset(v->states + v->n_states, STATE_NONE, n - v->n_states);
        v->n_states = n;
    }
    return &v->states[task];
}

static char letter_of(unsigned state)
{
    return state ? state_letter((enum task_state)state) : '-';
}

static struct lane_fold *lane_of(struct verify *v, int64_t lane)
{
    struct lane_fold *fold = map_find(&v->counts, (uint64_t)lane + 1);
    if (!fold) {
        fold = ARENA_NEW(&v->words, struct lane_fold);
        *fold = (struct lane_fold){ 0 };
        map_put(&v->counts, (uint64_t)lane + 1, fold);
    }
    return fold;
}

/* What isn't about a task. */
static void site_fold(struct verify *v, const struct event *e)
{
    if (e->kind == EVENT_pause || e->kind == EVENT_resume) {
        struct lane_fold *lane = lane_of(v, e->lane);
        lane->paused = e->kind == EVENT_pause;
        lane->by = lane->paused ? str_dup(&v->words, e->actor) : (struct str){ 0 };
        lane->reason = lane->paused ? str_dup(&v->words, e->reason) : (struct str){ 0 };
    }
    if (e->kind == EVENT_token)
        smap_put(&v->tokens, str_dup(&v->words, e->subject), v);
    if (e->kind == EVENT_token_revoked)
        (void)smap_take(&v->tokens, e->subject);
}

static void counts_fold(struct verify *v, const struct event *e)
{
    struct lane_fold *lane = lane_of(v, e->lane);
    if (e->from != STATE_NONE)
        lane->counts[e->from]--;
    lane->counts[e->to]++;
    v->lanes[e->task] = (int32_t)e->lane;
    v->grants[e->task] = (int32_t)e->grant;
    v->n_pending += (e->to == STATE_P) - (e->from == STATE_P);
    v->n_executing += (e->to == STATE_X) - (e->from == STATE_X);
}

static bool event_fold(struct verify *v, int64_t turn, const struct event *e)
{
    site_fold(v, e);
    if (e->kind != EVENT_created && e->kind != EVENT_move)
        return true;
    uint8_t *state = state_of(v, e->task);
    if (!state)
        return fault(
            v, "event %" PRId64 " (turn %" PRId64 ") names task %" PRId64 ", which can't exist", e->seq, turn, e->task);
    if (e->from != *state || (e->kind == EVENT_created) != (e->from == STATE_NONE) || e->to == STATE_NONE ||
        !move_legal(e->from, e->to))
        return fault(v, "event %" PRId64 " (turn %" PRId64 ") moves task %" PRId64 " from %c to %c, which stood in %c",
            e->seq, turn, e->task, letter_of(e->from), letter_of(e->to), letter_of(*state));
    *state = (uint8_t)e->to;
    counts_fold(v, e);
    return true;
}

/* Link, numbers, events. */
static bool turn_check(struct verify *v, const struct verify_turn *t)
{
    uint8_t expected[STORE_HASH_BYTES];
    struct event *events;
    size_t n;
    chain_link(v->key, v->hash, t->turn, t->first_seq, t->time, t->events, t->tags, expected);
    if (t->first_seq != v->seq + 1)
        return fault(v, "turn %" PRId64 " begins with event %" PRId64 ", but the one before ended with %" PRId64,
            t->turn, t->first_seq, v->seq);
    bool sized = t->hash.len == STORE_HASH_BYTES, linked = sized && memcmp(t->hash.ptr, expected, t->hash.len) == 0;
    if (PLANT(chain_unchecked))
        linked = sized;
    if (!linked)
        return fault(v,
            "turn %" PRId64 " (events from %" PRId64 ") doesn't match its hash: it, or the one before, was changed",
            t->turn, t->first_seq);
    arena_reset(&v->arena);
    if (!unpack_events(t->events, t->first_seq, t->time, &v->arena, &events, &n))
        return fault(v, "the events of turn %" PRId64 " can't be read", t->turn);
    for (size_t i = 0; i < n; i++) {
        if (!event_fold(v, t->turn, &events[i]))
            return false;
        if (events[i].kind == EVENT_created && t->tags.len)
            rows_created(&v->rows, events[i].task);
    }
    if (!t->tags.len)
        rows_forget(&v->rows);
    else if (!rows_fold(&v->rows, t->tags, v->grants, v->n_states))
        return fault(v, "what turn %" PRId64 " tells of rows can't be read", t->turn);
    if (v->wish->witness_seq >= t->first_seq && v->wish->witness_seq < t->first_seq + (int64_t)n) {
        if (memcmp(expected, v->wish->witness_hash, STORE_HASH_BYTES) != 0)
            return fault(v, "event %" PRId64 " has another hash than the witness saw: this is another history",
                v->wish->witness_seq);
        v->witnessed = true;
    }
    memcpy(v->hash, expected, sizeof expected);
    v->turn = t->turn;
    v->seq = t->first_seq + (int64_t)n - 1;
    v->report->turns++;
    v->report->events += (int64_t)n;
    return true;
}

static enum verify_visit turn_visit(void *owner, const struct verify_turn *turn)
{
    struct verify *v = owner;
    if (!turn_check(v, turn))
        return VERIFY_FAULT;
    return clock_boot_us() > v->deadline ? VERIFY_STOP : VERIFY_ON;
}

static bool head_compare(struct verify *v, const uint8_t seal[STORE_HASH_BYTES])
{
    if (v->head.seq != v->seq)
        return fault(v, "the history ends with event %" PRId64 ", but the head says %" PRId64, v->seq, v->head.seq);
    if (v->head.turn < v->turn || memcmp(v->head.hash, v->hash, STORE_HASH_BYTES) != 0)
        return fault(
            v, "the head (turn %" PRId64 ") isn't the end of the history (turn %" PRId64 ")", v->head.turn, v->turn);
    if (!chain_seal_fits(v->key, &v->head, seal))
        return fault(v,
            "the head's seal is broken: turns may have been cut off after event %" PRId64 ", or its numbers changed",
            v->head.seq);
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

static bool task_check(struct verify *v, int64_t id, enum task_state state, int64_t lane, struct str rest)
{
    if (!gap_compare(v, v->compared + 1, id))
        return false;
    if (id <= 0 || id >= (int64_t)v->n_states || v->states[id] == STATE_NONE)
        return fault(v, "task %" PRId64 " has a row but no history", id);
    if (v->states[id] != state)
        return fault(v, "task %" PRId64 " stands in %c, but its history leads to %c", id, letter_of(state),
            letter_of(v->states[id]));
    if (v->lanes[id] != lane)
        return fault(
            v, "task %" PRId64 " is in lane %" PRId64 ", but its history is of lane %d", id, lane, (int)v->lanes[id]);
    struct task row = { 0 };
    if (!task_unpack(rest, &row))
        return fault(v, "the row of task %" PRId64 " can't be read", id);
    if (row.grant != v->grants[id])
        return fault(v, "task %" PRId64 " was granted %" PRId64 " times, but its history says %d", id, row.grant,
            (int)v->grants[id]);
    v->compared = id;
    v->report->tasks++;
    return true;
}

/* Columns of `task` as the first schema has them. */
static bool task_row_check(struct verify *v, const struct copy_cell *cells)
{
    enum task_state state = cells[3].bytes.len == 1 ? state_of_letter(cells[3].bytes.ptr[0]) : STATE_NONE;
    return task_check(v, cells[0].number, state, cells[1].number, cells[7].bytes);
}

static enum verify_visit row_visit(void *owner, const struct copy_cell *cells)
{
    struct verify *v = owner;
    char words[sizeof v->report->fault] = "";
    if (v->table == TAG_task && !task_row_check(v, cells))
        return VERIFY_FAULT;
    if (!rows_check(&v->rows, cells, v->facts->types, words, sizeof words)) {
        (void)fault(v, "%s", words);
        return VERIFY_FAULT;
    }
    return ++v->steps % CLOCK_STEPS == 0 && clock_boot_us() > v->deadline ? VERIFY_STOP : VERIFY_ON;
}

static enum verify_visit ready_visit(void *owner, const struct verify_ready *ready)
{
    struct verify *v = owner;
    struct task row = { 0 };
    v->ready = *ready;
    v->ready.rest = (struct str){ 0 };
    bool same = ready->state == STATE_P && task_unpack(ready->rest, &row) && row.class_id == ready->class_id &&
                -row.prio == ready->nprio && row.vt == ready->vt;
    if (!same) {
        (void)fault(v, "task %" PRId64 " is ready, but its row says otherwise, or another class, priority or place",
            ready->task);
        return VERIFY_FAULT;
    }
    return ++v->steps % CLOCK_STEPS == 0 && clock_boot_us() > v->deadline ? VERIFY_STOP : VERIFY_ON;
}

static bool lane_check(struct verify *v, const struct lane *lane)
{
    struct lane_fold *fold = lane_of(v, lane->id);
    fold->seen = true;
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        if (lane->counts[state] != fold->counts[state])
            return fault(v, "lane %" PRId64 " counts %" PRId64 " tasks in %c, but the history leads to %" PRId64,
                lane->id, lane->counts[state], letter_of((unsigned)state), fold->counts[state]);
    if ((lane->paused_since != 0) != fold->paused || !str_eq(lane->paused_by, fold->by) ||
        !str_eq(lane->paused_reason, fold->reason))
        return fault(v,
            "lane %" PRId64 " is %spaused, or by somebody else, or for another reason than the history says", lane->id,
            lane->paused_since ? "" : "not ");
    return true;
}

/* It must have a row. `all`, which has no tasks, gets one when it is paused for longer than a turn. */
static bool lane_told(const struct lane_fold *fold)
{
    bool any = fold->paused;
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        any |= fold->counts[state] != 0;
    return any;
}

/* The small tables, in the snapshot up to which the history was folded. */
static bool small_compare(struct verify *v, struct err *err)
{
    struct verify_small small = { 0 };
    arena_reset(&v->arena);
    if (!verify_small_read(v->sql, &v->arena, &small, err))
        return false;
    for (size_t i = 0; i < small.n_lanes; i++)
        if (!lane_check(v, &small.lanes[i]))
            return false;
    MAP_EACH (&v->counts, e)
        if (!((struct lane_fold *)e->value)->seen && lane_told(e->value))
            return fault(v, "lane %" PRIu64 " is in the history but has no row", e->key - 1);
    if (small.n_ready != v->n_pending)
        return fault(
            v, "%" PRId64 " tasks are ready, but the history has %" PRId64 " in P", small.n_ready, v->n_pending);
    if (small.slot.id)
        return fault(v,
            "slot %" PRId64 " counts %" PRId64 " that have it and %" PRId64 " that wait, but %" PRId64 " and %" PRId64
            " do",
            small.slot.id, small.slot.used, small.slot.waiting, small.slot.held, small.slot.waits);
    if ((int64_t)small.n_lives != v->n_executing)
        return fault(v, "%zu attempts run, but the history has %" PRId64 " tasks in X", small.n_lives, v->n_executing);
    for (size_t i = 0; i < small.n_lives; i++) {
        const uint8_t *state = state_of(v, small.lives[i]);
        if (!state || *state != STATE_X)
            return fault(v, "an attempt of task %" PRId64 " runs, but its history leads to %c", small.lives[i],
                state ? letter_of(*state) : '-');
    }
    for (size_t i = 0; i < small.n_tokens; i++)
        if (!smap_take(&v->tokens, small.tokens[i]))
            return fault(v, "there is a token '%.*s' that the history doesn't know", (int)small.tokens[i].len,
                small.tokens[i].ptr);
    SMAP_EACH (&v->tokens, e)
        return fault(v, "the token '%.*s' is in the history but has no row", (int)e->key.len, e->key.ptr);
    return true;
}

static void table_begin(struct verify *v)
{
    if (v->walking)
        return;
    v->walking = true;
    v->facts = sql_tables;
    while (strcmp(v->facts->name, tag_facts[v->table].table) != 0)
        v->facts++;
    rows_walk_begin(&v->rows, (enum tag_table)v->table, v->facts->columns, v->facts->types, v->facts->n_key);
}

/* In the snapshot that had no more of its rows. */
static bool table_end(struct verify *v)
{
    char words[sizeof v->report->fault] = "";
    if (v->table == TAG_task && !gap_compare(v, v->compared + 1, (int64_t)v->n_states))
        return false;
    if (!rows_walk_end(&v->rows, words, sizeof words))
        return fault(v, "%s", words);
    v->walking = false;
    v->table++;
    return true;
}

/* One snapshot. *out_end: everything is walked and compared. */
static bool step_in_snapshot(struct verify *v, bool *out_end, struct err *err)
{
    uint8_t seal[STORE_HASH_BYTES];
    enum verify_visit how;
    *out_end = false;
    v->deadline = clock_boot_us() + STEP_US;
    if (!ask_head(v->sql, &v->head, seal, err) || !verify_turns(v->sql, v->seq, turn_visit, v, &how, err))
        return false;
    if (how != VERIFY_ON)
        return how == VERIFY_STOP;
    v->deadline = clock_boot_us() + STEP_US / 2;
    if (!head_compare(v, seal))
        return false;
    while (v->table < TAG_COUNT) {
        table_begin(v);
        if (!verify_table_rows(v->sql, (size_t)(v->facts - sql_tables), v->rows.key, row_visit, v, &how, err) ||
            how == VERIFY_FAULT)
            return false;
        if (how == VERIFY_STOP)
            return true;
        if (!table_end(v))
            return false;
    }
    if (!v->ready_done && (!verify_readies(v->sql, &v->ready, ready_visit, v, &how, err) || how == VERIFY_FAULT))
        return false;
    if (how == VERIFY_STOP)
        return true;
    *out_end = v->ready_done = true;
    return small_compare(v, err);
}

/* After each step. */
static void progress_tell(const struct verify *v)
{
    const struct verify_wish *wish = v->wish;
    if (!wish->tell)
        return;
    if (v->rows.rows > 0)
        wish->tell(wish->owner, v->table < TAG_COUNT ? tag_facts[v->table].table : "ready", v->rows.rows);
    else
        wish->tell(wish->owner, "events", v->seq);
}

static bool steps_run(struct verify *v, struct err *err)
{
    bool end = false;
    while (!end) {
        if (!sql_begin(v->sql, err))
            return false;
        bool ok = step_in_snapshot(v, &end, err);
        sql_end(v->sql);
        if (!ok)
            return false;
        progress_tell(v);
    }
    if (v->wish->witness_seq > 0 && !v->witnessed)
        return fault(v,
            "the history ends with event %" PRId64 ", before the witness's %" PRId64 ": this is an older copy", v->seq,
            v->wish->witness_seq);
    return true;
}

bool verify_run(const struct sql *sql, const uint8_t key[CHAIN_KEY_BYTES], const struct verify_wish *wish,
    struct verify_report *out, struct err *err)
{
    struct verify v = { .sql = sql, .key = key, .report = out, .wish = wish };
    v.ready = (struct verify_ready){ INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, STATE_NONE, { 0 } };
    *out = (struct verify_report){ .ok = true };
    rows_known_init(&v.rows, key);
    bool ok = steps_run(&v, err) || !out->ok;
    out->head_seq = v.seq;
    memcpy(out->head_hash, v.hash, sizeof v.hash);
    mem_free(v.states);
    mem_free(v.lanes);
    mem_free(v.grants);
    rows_known_release(&v.rows);
    map_release(&v.counts);
    smap_release(&v.tokens);
    arena_release(&v.words);
    arena_release(&v.arena);
    return ok;
}

bool verify_conclude(bool ok, struct verify_report *out, struct err *err)
{
    if (ok || err->code != ERR_corrupt)
        return ok;
    out->ok = false;
    snprintf(out->fault, sizeof out->fault, "%.255s", err->text);
    return true;
}

bool store_witness_parse(struct str text, int64_t *out_seq, uint8_t out_hash[STORE_HASH_BYTES])
{
    struct str rest = text, seq;
    size_t n = 0;
    return str_cut(&rest, ':', &seq) && str_to_i64(seq, out_seq) && *out_seq > 0 &&
           rest.len == (size_t)2 * STORE_HASH_BYTES &&
           sodium_hex2bin(out_hash, STORE_HASH_BYTES, rest.ptr, rest.len, NULL, &n, NULL) == 0 && n == STORE_HASH_BYTES;
}

struct store_hash_text store_hash_format(const uint8_t hash[STORE_HASH_BYTES])
{
    struct store_hash_text text;
    sodium_bin2hex(text.z, sizeof text.z, hash, STORE_HASH_BYTES);
    return text;
}
