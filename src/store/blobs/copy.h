/* blobs/copy: kept files leave a data directory for a backup, beside the server that keeps them, and come back by a
 * restore; private to store. As logs/copy.h for logs: whoever calls keeps the parts, in their order. */
#ifndef WEIR_STORE_BLOBS_COPY_H
#define WEIR_STORE_BLOBS_COPY_H

#include "base/map.h"
#include "store/blobs/blobs.h"

enum { BLOB_PART_BYTES = 1 << 20 };

struct blob_part {
    struct str hex; /* of its file */
    int64_t start;
    struct str bytes;
};

/* outputs_files: each file that a task's stored outputs list (their second line, api/artifacts.c), by its hash, until
 * `take` says false. */
bool outputs_files(
    struct str outputs, bool (*take)(void *owner, struct str hex, struct err *err), void *owner, struct err *err);

/* tarball_hex: of a change set's row (its hash) and that of its task; false: it has none, or it was pruned. */
struct task;
bool tarball_hex(const struct task *task, struct str hash, char out[BLOB_HEX + 1]);

/* blob_copy_out: the file's parts; *out_found false: it isn't there, or its bytes aren't those of its name (then parts
 * of it may have been put). put: its bytes are good until it returns. */
struct blob_taker {
    void *owner;
    bool (*put)(void *owner, const struct blob_part *part, struct err *err);
};
bool blob_copy_out(
    const char *data_dir, struct str hex, const struct blob_taker *taker, bool *out_found, struct err *err);

/* A restore: parts go to DATA/blobs.part, which takes its name when all are there, hashed and synced. begin:
 * ERR_conflict when DATA/blobs holds files. Parts of one file come together, in their order. Whoever began ends with
 * blobs_put_close; keep false takes away what was put. */
struct blob_put {
    const char *data_dir;
    int data_fd, root_fd, fd;
    char hex[BLOB_HEX + 1];
    int64_t bytes;
    void *hash; /* private */
    bool ended;
};
bool blobs_put_begin(struct blob_put *put, const char *data_dir, struct err *err);
bool blobs_put_part(struct blob_put *put, const struct blob_part *part, struct err *err);
bool blobs_put_end(struct blob_put *put, struct err *err);
bool blobs_put_has(const struct blob_put *put, struct str hex); /* after blobs_put_end */
void blobs_put_close(struct blob_put *put, bool keep);

#endif
