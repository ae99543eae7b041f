/* blobs: files kept by their content, under DATA/blobs/ab/abcd... or in the store's PostgreSQL: written once, never
 * changed, never replaced, named by their SHA-256.
 *
 * A file comes in pieces as an upload of an attempt and counts for nothing until blobs_seal has made it a blob; two
 * files with the same bytes are one. From the moment a seal begins no piece can change the bytes: a piece that comes
 * then begins another upload. What an attempt has sealed is remembered, durably and for every server of the store,
 * until blobs_forget: a finish may list only that. Half uploads are lost by a restart with SQLite: the sender is told
 * to begin again (ERR_log_gap with expected 0).
 *
 * Nothing here knows who refers to a file, or which attempts run: whoever prunes calls blobs_sweep with a list of what
 * is still wanted, and blobs_forget for attempts that are over. All functions may be called by any thread. */
#ifndef WEIR_STORE_BLOBS_H
#define WEIR_STORE_BLOBS_H

#include "base/buf.h"
#include "base/err.h"

enum {
    BLOB_HEX = 64,
    UPLOAD_NAME = 32,       /* digits */
    UPLOADS_MAX = 1000,     /* of an attempt, at a time */
    UPLOAD_SEALS_MAX = 4000 /* of an attempt: files may be sent again, up to a point */
};

struct blob {
    char hex[BLOB_HEX + 1]; /* of its SHA-256 */
    int64_t bytes;
};

struct upload {
    int64_t task, grant;        /* 0: nobody's; its seal isn't remembered */
    struct str tenant;          /* whose it is */
    char name[UPLOAD_NAME + 1]; /* stands for the file's name: upload_name; letters and digits */
    int64_t room;               /* bytes that all the tenant's uploads may have together; 0: any */
};
void upload_name(struct str file_name, char out[UPLOAD_NAME + 1]);

struct upload_seal { /* a file that an attempt has sealed */
    char name[UPLOAD_NAME + 1];
    struct blob blob;
};

struct blob_source { /* an open file whose bytes are to be kept */
    int fd;
    bool is_own;                 /* nobody else can write to it, and it has no name: it may become the kept file */
    const unsigned char *sha256; /* that its bytes must have */
};
struct blob_hold { /* of a file that is kept, and of which nobody knows yet whether it will be named */
    struct blob blob;
    int64_t stamp; /* private; 0: it was there before */
};

struct upload_grant { /* an attempt that has uploads or seals */
    int64_t task, grant;
    int64_t age_s; /* since its newest piece or seal */
};

struct blobs;
struct blobs *blobs_open(const char *data_dir, struct err *err);
/* blobs_open_store: where the store is: of one in PostgreSQL every server has the same files and uploads. */
struct store_config;
struct blobs *blobs_open_store(const struct store_config *config, struct err *err);
void blobs_close(struct blobs *blobs);
bool blobs_is_shared(const struct blobs *blobs); /* in PostgreSQL: calls wait for the network, so not on the loop */

/* blobs_append: a piece at an offset; what was there from the offset on is replaced, so a piece may be sent again.
 * Behind the end: ERR_log_gap with err->expected. Past bytes_max in all: ERR_body_too_large. More than UPLOADS_MAX at a
 * time: ERR_too_many. Over upload->room: ERR_quota_full. */
bool blobs_append(struct blobs *blobs, const struct upload *upload, int64_t offset, struct str bytes, int64_t bytes_max,
    struct err *err);
/* blobs_seal: the upload becomes a blob, on disk for good, and what it became is remembered. A blob of those bytes that
 * is there already stays, as one that was used now. When it fails the upload is gone. */
bool blobs_seal(struct blobs *blobs, const struct upload *upload, struct blob *out, struct err *err);

/* blobs_sealed: what the attempt has sealed, appended to out as struct upload_seal; the newest of each name. */
bool blobs_sealed(struct blobs *blobs, int64_t task, int64_t grant, struct buf *out, struct err *err);
/* blobs_waiting: bytes of a tenant's uploads and of what attempts have sealed and not been forgotten for. */
bool blobs_waiting(struct blobs *blobs, struct str tenant, int64_t *out_bytes, struct err *err);
/* blobs_grants: every attempt with uploads or seals, appended to out as struct upload_grant. */
bool blobs_grants(struct blobs *blobs, struct buf *out, struct err *err);
/* blobs_forget: its uploads go and its seals are forgotten; blobs stay. What can't be removed is asked for again by
 * blobs_grants. */
void blobs_forget(struct blobs *blobs, int64_t task, int64_t grant);

/* blobs_keep: a file's bytes become a blob, on disk for good, without an upload. Other bytes than those of sha256:
 * ERR_corrupt. After a failure nothing of it is left. blobs_settle follows each good one: with stays false the blob
 * goes again, unless it was there before, or somebody else has kept the same bytes since. */
bool blobs_keep(struct blobs *blobs, const struct blob_source *source, struct blob_hold *out, struct err *err);
void blobs_settle(struct blobs *blobs, const struct blob_hold *hold, bool stays);

/* hex: as in struct blob; anything else, and one that isn't there, is ERR_not_found. No error says a path. */
bool blobs_find(struct blobs *blobs, struct str hex, struct blob *out, struct err *err);
bool blobs_read(struct blobs *blobs, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err);

/* blobs_sweep: removes every blob that is older than min_age_s and that `wanted` doesn't want. Returns how many. */
size_t blobs_sweep(struct blobs *blobs, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner);

#endif
