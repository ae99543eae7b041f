/* blobs/port: what a place for kept files gives; private to store (users call the functions of store/blobs/blobs.h). */
#ifndef WEIR_STORE_BLOBS_PORT_H
#define WEIR_STORE_BLOBS_PORT_H

#include "store/blobs/blobs.h"

struct blobs_ops {
    bool shared;
    void (*close)(struct blobs *blobs);
    bool (*append)(struct blobs *blobs, const struct upload *upload, int64_t offset, struct str bytes,
        int64_t bytes_max, struct err *err);
    bool (*seal)(struct blobs *blobs, const struct upload *upload, struct blob *out, struct err *err);
    bool (*keep)(struct blobs *blobs, const struct blob_source *source, struct blob_hold *out, struct err *err);
    void (*settle)(struct blobs *blobs, const struct blob_hold *hold, bool stays); /* its stamp isn't 0 */
    bool (*sealed)(struct blobs *blobs, int64_t task, int64_t grant, struct buf *out, struct err *err);
    bool (*waiting)(struct blobs *blobs, struct str tenant, int64_t *out_bytes, struct err *err);
    bool (*grants)(struct blobs *blobs, struct buf *out, struct err *err);
    void (*forget)(struct blobs *blobs, int64_t task, int64_t grant);
    /* hex: out->hex, and valid */
    bool (*find)(struct blobs *blobs, const char *hex, struct blob *out, struct err *err);
    bool (*read)(struct blobs *blobs, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err);
    size_t (*sweep)(struct blobs *blobs, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner);
};

struct blobs {
    const struct blobs_ops *ops;
};

/* source_hash: reads the file once, each piece to `take` if there is one, and compares what it hashes to. */
struct source_taker {
    bool (*take)(void *owner, int64_t offset, struct str bytes, struct err *err);
    void *owner;
};
bool source_hash(const struct blob_source *source, const struct source_taker *taker, struct blob *out, struct err *err);

enum { UPLOAD_KEY_BYTES = 80 };
/* upload_key: "TASK-GRANT-NAME"; false: its name isn't one. */
bool upload_key(const struct upload *upload, char out[UPLOAD_KEY_BYTES], struct err *err);
/* upload_fits: waiting: bytes of the tenant's uploads as they would be with the piece. */
bool upload_fits(const struct upload *upload, int64_t waiting, struct err *err);

#endif
