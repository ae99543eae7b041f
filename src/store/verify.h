/* verify: the walk of a history, whatever store keeps it; private to store. */
#ifndef WEIR_STORE_VERIFY_H
#define WEIR_STORE_VERIFY_H

#include "store/copy.h"

struct verify_turn { /* one row of `turn`; its bytes live until the visit returns */
    int64_t turn, first_seq, time;
    struct str hash, events, tags; /* tags: empty: written by a server that doesn't know of them */
};
/* go on; enough for this snapshot; the report says why not */
enum verify_visit { VERIFY_ON, VERIFY_STOP, VERIFY_FAULT };

struct verify_small { /* tables that are compared as a whole */
    struct lane *lanes;
    size_t n_lanes; /* id, counts, paused_... */
    struct str *tokens;
    size_t n_tokens; /* as events name them: NAME, TENANT/NAME */
    int64_t *lives;
    size_t n_lives; /* tasks of the attempts that run */
    int64_t n_ready;
    /* one whose counts aren't those of its holds; id 0: there is none */
    struct {
        int64_t id, used, waiting, held, waits;
    } slot;
};
struct verify_ready { /* a row of `ready`, and of its task what it is made of; STATE_NONE: it has none */
    int64_t class_id, nprio, vt, task;
    enum task_state state;
    struct str rest;
};

/* verify_source.c: what the walk reads, in a snapshot. turns gives what is above `after` (an event), rows what is
 * behind a key of a table of sql_tables, ready what is behind a row, ascending, to `visit` until it stops them; the
 * visitor moves key and `after` on. *out_how is its last word, VERIFY_ON: there was no more in this snapshot. False:
 * could not be read. */
bool verify_turns(const struct sql *sql, int64_t after, enum verify_visit (*visit)(void *, const struct verify_turn *),
    void *visitor, enum verify_visit *out_how, struct err *err);
bool verify_table_rows(const struct sql *sql, size_t table, const struct copy_cell *key,
    enum verify_visit (*visit)(void *, const struct copy_cell *), void *visitor, enum verify_visit *out_how,
    struct err *err);
bool verify_readies(const struct sql *sql, const struct verify_ready *after,
    enum verify_visit (*visit)(void *, const struct verify_ready *), void *visitor, enum verify_visit *out_how,
    struct err *err);
bool verify_small_read(const struct sql *sql, struct arena *arena, struct verify_small *out, struct err *err);

bool verify_run(const struct sql *sql, const uint8_t key[CHAIN_KEY_BYTES], const struct verify_wish *wish,
    struct verify_report *out, struct err *err);
/* verify_conclude: a store that could be read well enough to know that it is damaged is a report, not an error. */
bool verify_conclude(bool ok, struct verify_report *out, struct err *err);

#endif
