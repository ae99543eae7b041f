/* blobs_port: what a place for kept files gives; private to store (users call the functions of store/blobs.h). */
#ifndef WEIR_STORE_BLOBS_PORT_H
#define WEIR_STORE_BLOBS_PORT_H

#include "store/blobs.h"

struct blobs_ops {
    void (*close)(struct blobs *blobs);
    bool (*append)(struct blobs *blobs, const char *key, int64_t offset, struct str bytes, int64_t bytes_max, struct err *err);
    bool (*seal)(struct blobs *blobs, const char *key, struct blob *out, struct err *err);
    bool (*find)(struct blobs *blobs, const char *hex, struct blob *out, struct err *err); /* hex: out->hex, and valid */
    bool (*read)(struct blobs *blobs, const char *hex, int64_t offset, size_t max, struct buf *out, struct err *err);
    size_t (*sweep)(struct blobs *blobs, int64_t min_age_s, bool (*wanted)(const char *hex, void *owner), void *owner);
};

struct blobs {
    const struct blobs_ops *ops;
};

/* Of the place in files, for one that takes uploads from there. blob_upload_open: a descriptor to read it from, and what it will be; < 0:
 * err. */
int blob_upload_open(struct blobs *files, const char *key, struct blob *out, struct err *err);
void blob_upload_drop(struct blobs *files, const char *key);

#endif
