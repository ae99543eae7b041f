/* verify_rows: what the history says of rows (store/tags.h), folded turn by turn, and rows compared with it; private to
 * store.
 *
 * Memory: 16 bytes a task, 40 a turn that made specs, about 30 a row of the other tables; what was removed is given
 * back. */
#ifndef WEIR_STORE_VERIFY_ROWS_H
#define WEIR_STORE_VERIFY_ROWS_H

#include "store/copy.h"
#include "store/tags.h"

struct known_tag {
    uint64_t key, tag;
}; /* tag: with the bits of verify_rows.c */
struct known_table {
    struct known_tag *slots;
    size_t n_slots, n_used;
    bool walking; /* its rows are being compared: what comes now need not be met */
};
struct known_range {
    int64_t first, n;
    uint64_t fold, found;
    int64_t n_found;
    bool late;
};

struct rows_known {
    struct tagger tagger;
    bool whole; /* every turn so far has told of rows: one that none has told of was added */
    struct known_table tables[TAG_COUNT];
    uint64_t *tasks, *attempts; /* by task id: the tag of its row; those of its attempts' rows, together */
    size_t n_tasks;
    struct known_range *ranges; /* of specs, by their first id */
    size_t n_ranges, cap_ranges, n_sorted;
    /* the walk of one table: */
    enum tag_table at;
    int columns[COPY_COLUMNS_MAX]; /* where those under the tag stand in a row */
    int n_columns;
    int64_t last; /* task: attempts up to this one are compared; spec: rows up to this id */
    uint64_t fold;
    struct copy_cell key[4]; /* behind which the walk goes on */
    struct buf key_texts[4];
    int64_t rows;
};

void rows_known_init(struct rows_known *k, const uint8_t key[CHAIN_KEY_BYTES]);
void rows_known_release(struct rows_known *k);

void rows_created(struct rows_known *k, int64_t task); /* by a turn that tells of rows; before rows_fold */
/* rows_fold: the next turn. grant_of: the last grant of a task. False: it can't be read. */
bool rows_fold(struct rows_known *k, struct str tags, const int32_t *grants, size_t n_grants);
void rows_forget(struct rows_known *k); /* a turn that tells nothing */

/* The walk of one table, over as many snapshots as it takes, each folded before. False: a fault, in words. */
void rows_walk_begin(struct rows_known *k, enum tag_table table, const char *columns, const char *types, int n_key);
bool rows_check(struct rows_known *k, const struct copy_cell *cells, const char *types, char *out_fault, size_t size);
bool rows_walk_end(struct rows_known *k, char *out_fault, size_t size);

#endif
