/* sqlite: the SQLite store's parts, for each other; private to store/sqlite (store.c calls the four that open and
 * operate). */
#ifndef WEIR_STORE_SQLITE_SQLITE_H
#define WEIR_STORE_SQLITE_SQLITE_H

#include "base/buf.h"
#include "store/chain.h"
#include "store/files.h"
#include "store/read_ops.h"
#include "store/sqlite/checkpoint.h"
#include "store/sqlite/db.h"
#include "store/tags.h"

struct sqlite_store {
    struct store port; /* first: a struct store * is one of these */
    struct db db;
    struct checkpoint *checkpoint;
    int lock_fd;
    char path[FILES_PATH_MAX]; /* of weir.db */
    uint8_t key[CHAIN_KEY_BYTES];
    struct store_head head; /* as of the last commit */
    sqlite3_int64 changes;  /* rows that were written before this turn */
    struct buf scratch;     /* lists on their way into a column */
    struct str rest;        /* of the task that is written next */
    struct tagger tagger;
};

static inline struct sqlite_store *sqlite_of(struct store *store)
{
    return (struct sqlite_store *)(void *)store;
}

struct store *sqlite_store_open(const struct store_config *config, const char *dir, struct err *err);
void sqlite_store_close(struct store *store);
struct reader *sqlite_reader_open(const char *dir, struct err *err);

/* schema_check: what kind of file this is. *out_version 0: empty. Refuses a foreign one and a newer schema. */
bool schema_check(struct db *db, const char *path, int64_t *out_version, struct err *err);
bool schema_ours(struct db *db, const char *path, struct err *err); /* checked, and the one that we write */
/* db_open_read: the store in a directory, to be read; db_close also when it failed. users: SQL_FOR_ bits */
bool db_open_read(struct db *db, const char *dir, unsigned users, struct err *err);
bool schema_migrate(struct db *db, int64_t version, struct err *err);

/* turn.c */
bool sqlite_begin(struct store *store, struct err *err);
void sqlite_rollback(struct store *store);
bool sqlite_commit(struct store *store, const struct changes *changes, struct err *err);
bool head_write(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, struct err *err);
bool turn_write(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const uint8_t before[STORE_HASH_BYTES], int64_t turn,
    int64_t first_seq, int64_t time, struct str events, struct str tags, uint8_t out_hash[STORE_HASH_BYTES],
    struct err *err);

/* incarnation_renew: inside a transaction; told in the history. place_check: a copy of the data directory takes a new
 * incarnation when it is opened. place_forget: the next opener is at home. */
bool incarnation_renew(
    struct db *db, const uint8_t key[CHAIN_KEY_BYTES], struct str actor, struct str reason, struct err *err);
/* incarnation_events: likewise, with events and tags of the caller's; the first event tells it. */
bool incarnation_events(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct event *events, size_t n,
    struct str tags, struct err *err);
bool place_check(struct sqlite_store *self, struct err *err);
bool place_forget(struct db *db, struct err *err);

/* verify_walk: store_verify on an open connection (prepared for reader and verifier). */
bool verify_walk(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct verify_wish *wish,
    struct verify_report *out, struct err *err);
bool sqlite_verify(const char *dir, const struct verify_wish *wish, struct verify_report *out, struct err *err);
/* SQL_quick_check and its kind: the answer must be ok */
bool integrity_check(struct db *db, enum sql_id id, struct err *err);

extern const struct store_ops sqlite_ops; /* load.c */

#endif
