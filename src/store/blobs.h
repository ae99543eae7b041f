/* blobs: files kept by their content, under DATA/blobs/ab/abcd... or in the store's PostgreSQL: written once, never
 * changed, named by their SHA-256.
 *
 * A file comes in pieces under a key of the sender's choice and counts for nothing until blobs_seal has hashed, synced and renamed it; two
 * files with the same bytes are one. What an upload left behind when the server stopped is removed by blobs_open: the sender is told to
 * begin again (ERR_log_gap with expected 0). blobs_append and blobs_read are for one thread; blobs_seal may run on another.
 *
 * Nothing here knows who refers to a file: whoever prunes calls blobs_sweep with a list of what is still wanted. */
#ifndef WEIR_STORE_BLOBS_H
#define WEIR_STORE_BLOBS_H

#include "base/buf.h"
#include "base/err.h"

enum { BLOB_HEX = 64, BLOB_KEY_MAX = 120 };

struct blob {
    char hex[BLOB_HEX + 1]; /* of its SHA-256 */
    int64_t bytes;
};

struct blobs;
struct blobs *blobs_open(const char *data_dir, struct err *err);
/* blobs_open_store: where the store is: of one in PostgreSQL every server has the same files, but for uploads, which stay in DATA. */
struct store_config;
struct blobs *blobs_open_store(const struct store_config *config, struct err *err);
void blobs_close(struct blobs *blobs);

/* blobs_append: a piece at an offset; what was there from the offset on is replaced, so a piece may be sent again. Behind the end:
 * ERR_log_gap with err->expected. Past bytes_max in all: ERR_body_too_large. key: letters, digits and '-'. */
bool blobs_append(struct blobs *blobs, const char *key, int64_t offset, struct str bytes, int64_t bytes_max, struct err *err);
/* blobs_seal: the upload becomes a blob, on disk for good. */
bool blobs_seal(struct blobs *blobs, const char *key, struct blob *out, struct err *err);

/* hex: as in struct blob; anything else is ERR_not_found. */
bool blobs_find(struct blobs *blobs, struct str hex, struct blob *out, struct err *err);
bool blobs_read(struct blobs *blobs, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err);

/* blobs_sweep: removes every blob that is older than min_age_s and that `wanted` doesn't want. Returns how many. */
size_t blobs_sweep(struct blobs *blobs, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner);

#endif
