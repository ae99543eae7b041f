/* world: what the store's contract tests stand on: a folder, an open store with a reader, and turns built piece by
 * piece.
 *
 * A second store runs the same suite: add it to the table in world.c and name it in WEIR_TEST_STORE. */
#ifndef WEIR_TEST_CONTRACT_WORLD_H
#define WEIR_TEST_CONTRACT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "store/read.h"

struct backend {
    const char *name;
    void (*url)(const char *dir, char *out, size_t size); /* the URL of a new store of its own for this folder */
    void (*drop)(const char *dir);                        /* what is outside the folder */
};
const struct backend *backend_chosen(void);

enum { WORLD_EVENTS_MAX = 4096 };

struct world {
    char dir[128], url[192];
    struct store *store;
    struct reader *reader;
    struct arena arena; /* for the whole test */
    struct store_head head;
    struct changes c; /* the turn being built */
    struct event *events;
    size_t n_events;
    struct buf packed;
    int64_t now;
    struct err err;
};

void world_dir_make(char *out); /* 64 bytes */
void world_dir_remove(const char *dir);

void world_make(struct world *w);    /* new folder, new store, a reader */
void world_reopen(struct world *w);  /* as a restart would */
void world_release(struct world *w); /* closes and removes */
struct store_config world_config(const struct world *w, bool create);

void turn_begin(struct world *w);
void turn_event(struct world *w, struct event event); /* seq, time are the turn's */
bool turn_try(struct world *w);                       /* commits; w->err says why not; the head is as it was then */
void turn_end(struct world *w);                       /* commits, must work */

/* Rows with every field set, from a number: two numbers give two different rows in every field. */
struct task task_sample(struct world *w, int64_t id, int64_t salt);
struct attempt attempt_sample(int64_t task, int64_t grant, int64_t salt);
void task_same(const struct task *a, const struct task *b);
void attempt_same(const struct attempt *a, const struct attempt *b);
void str_same(struct str a, struct str b);

/* Tasks that live: created, moved along the table with events, rows and counts in step. */
struct life {
    struct lane lane;
    struct task *tasks; /* [id - 1] */
    size_t n, cap;
};
void life_begin(struct world *w, struct life *life); /* one turn: the lane and a class */
/* builds a turn; the caller commits */
void life_turn(struct world *w, struct life *life, struct rng *rng, size_t n_new, size_t n_moves);

#define MUST(w, call) \
    do { \
        if (!(call)) \
            fail_msg("%s: %s: %s", #call, err_name((w)->err.code), (w)->err.text); \
    } while (0)

#define OPS(w) ((w)->store->ops)

/* The parts of the suite, for main. */
extern const struct CMUnitTest contract_rows[], contract_attempts[], contract_archives[], contract_changesets[],
    contract_order[], contract_read[], contract_history[], contract_backup[], contract_crash[];
extern const size_t n_contract_rows, n_contract_attempts, n_contract_archives, n_contract_changesets, n_contract_order,
    n_contract_read, n_contract_history, n_contract_backup, n_contract_crash;

#endif
