/* verify_all: what `weir verify` looks at besides the history and the rows; private to store. A store gives it rows and
 * bytes. */
#ifndef WEIR_STORE_VERIFY_ALL_H
#define WEIR_STORE_VERIFY_ALL_H

#include "base/buf.h"
#include "store/blobs/blobs.h"
#include "store/query.h"

/* An ended attempt. bytes: as reported, -1: not; seal: what its log was when it was sealed, seal.bytes -1: that isn't
 * noted. */
struct verify_log {
    int64_t task, grant, number, bytes;
    bool pruned;
    struct log_seal seal;
};
/* the list of kept files of a task's outputs; or empty */
struct verify_files {
    int64_t task;
    struct str list;
};

/* Rows come in parts, each read for itself; bytes are read without any snapshot. */
struct bytes_source {
    struct sql sql;
    void *owner;
    /* log: all bytes that there are, log tail included, read through; 0: none. *out: those without the tail; their
     * hash, of a log whose seal is noted. ERR_corrupt: what is there can't be read. */
    bool (*log)(void *owner, const struct verify_log *log, int64_t *out_bytes, struct log_seal *out, struct err *err);
    /* file: its size and the hash of its bytes; -1: there is none. */
    bool (*file)(void *owner, const char *hex, int64_t *out_bytes, char out_hex[BLOB_HEX + 1], struct err *err);
};
bool bytes_verify(
    const struct bytes_source *source, const struct verify_wish *wish, struct verify_report *out, struct err *err);

bool sqlite_verify_database(
    const char *dir, const struct verify_wish *wish, struct verify_report *out, struct err *err);
bool sqlite_verify_bytes(
    const char *dir, const char *data_dir, const struct verify_wish *wish, struct verify_report *out, struct err *err);
bool postgres_verify_database(const struct store_config *config, struct verify_report *out, struct err *err);
bool postgres_verify_bytes(
    const struct store_config *config, const struct verify_wish *wish, struct verify_report *out, struct err *err);

#endif
