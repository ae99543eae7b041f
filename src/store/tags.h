/* tags: what a turn makes of rows, told in the history beside its events; private to store.
 *
 * Each turn lists the rows that it writes and removes: table, key, and a tag, a keyed hash of the columns that change
 * only in turns with events. The list is a column of the turn (`tags`), under its hash, so that `verify` knows of every
 * row how it was left by the turn that wrote it last, and finds any edit, row by row, without a rule for each table.
 * The key is made of verify.key: who lacks it can neither make a tag nor find another row that has it, so six bytes are
 * enough.
 *
 * Rows of `spec` are written once and by the hundred: neighbours share a tag. */
#ifndef WEIR_STORE_TAGS_H
#define WEIR_STORE_TAGS_H

#include "base/buf.h"
#include "store/chain.h"
#include "store/rows.def"

/* How a row is named: by one number, by two, or by a hash of its key's columns; range: neighbours by one number,
 * together. */
enum tag_key { TAG_KEY_ID, TAG_KEY_PAIR, TAG_KEY_HASH, TAG_KEY_RANGE };

/* The tables, how each is named and which columns are under the tag: rows.def. What isn't there is said in
 * doc/manual.md. */
enum tag_table {
#define X(table, type, key) TAG_##table,
    ROW_TABLES(X)
#undef X
    TAG_COUNT
};
struct tag_facts {
    const char *table;
    enum tag_key key;
    int n_key;
    const char *columns; /* under the tag, those of the key first; a blank behind each */
};
extern const struct tag_facts tag_facts[TAG_COUNT];

enum { TAG_BYTES = 6 };
#define TAG_MASK ((UINT64_C(1) << 8 * TAG_BYTES) - 1)

struct tagger { /* makes tags; the zero value: tagger_init is to come */
    uint8_t key[16];
    uint8_t *cells;          /* of the row at hand: numbers as varints, texts with their length before them */
    size_t len, size, n_key; /* n_key: bytes of its key */
    struct buf packed;       /* a list on its way into a cell */
    struct buf list;         /* what tags_pack made last */
    /* `rest` of the tasks that tags_pack has met, one behind the other: the store writes the same bytes */
    struct buf rests;
    size_t *rest_ends, n_rests, cap_rests;
};
void tagger_init(struct tagger *t, const uint8_t key[CHAIN_KEY_BYTES]);
void tagger_release(struct tagger *t);
/* A row: tag_begin, its columns in order (tag_key_end behind those of the key), then what is asked for. */
void tag_begin(struct tagger *t, enum tag_table table);
void tag_number(struct tagger *t, int64_t n);
void tag_text(struct tagger *t, struct str s);
void tag_key_end(struct tagger *t);
uint64_t tag_of(const struct tagger *t);    /* never above TAG_MASK */
uint64_t tag_id_of(const struct tagger *t); /* TAG_KEY_HASH: by the columns of the key */

/* tags_pack: the column `tags` of the turn that writes these changes, until the next call; never empty: a turn without
 * it was written by a server that doesn't know of tags. Calls tagger_init if that wasn't done. */
struct str tags_pack(struct tagger *t, const uint8_t key[CHAIN_KEY_BYTES], const struct changes *c);
/* tags_rest: `rest` of the i-th task of tasks_new, then tasks_changed, of the last tags_pack. */
struct str tags_rest(const struct tagger *t, size_t i);
#define TAGS_NONE STR("\x01") /* of a turn that writes no such row */

/* What a list says, entry by entry; in the order in which the store writes. */
/* REMOVE_SAME: if it has this tag; AGAIN: a put that may not be the last. */
enum tag_op { TAG_PUT, TAG_REMOVE, TAG_REMOVE_SAME, TAG_AGAIN };
struct tag_entry {
    enum tag_table table;
    enum tag_op op;
    int64_t a, b;     /* ID, PAIR, RANGE (the first; how many) */
    uint64_t id, tag; /* id: HASH */
};
struct tag_reader {
    struct str rest;
    int64_t last[TAG_COUNT];
};
bool tags_open(struct tag_reader *r, struct str tags); /* false: not such a list */
/* false: the end, or bytes that can't be read */
bool tags_next(struct tag_reader *r, struct tag_entry *out, bool *out_bad);

#endif
