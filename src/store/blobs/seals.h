/* seals: which files the attempts that run have uploaded, with a store in files; private to store/blobs/blobs.c, which
 * has the lock.
 *
 * A seal is a line in DATA/blobs/sealed/TASK-GRANT, so it outlives the server. Half uploads are counted here and are
 * files elsewhere. */
#ifndef WEIR_STORE_SEALS_H
#define WEIR_STORE_SEALS_H

#include "store/blobs/blobs.h"

struct seals;
/* seals_open: DIR/sealed is made, or read. Lines that a crash cut off are as never written. */
struct seals *seals_open(const char *dir, struct err *err);
void seals_close(struct seals *seals);

bool seals_full(const struct seals *seals, int64_t task, int64_t grant); /* the attempt may begin no further upload */
void seals_uploading(struct seals *seals, const struct upload *upload, bool fresh, int64_t more_bytes);
void seals_taken(struct seals *seals, const struct upload *upload); /* one upload less */

/* seals_add: an open file for seals_sync, which need not be under the lock; < 0: err. */
int seals_add(
    struct seals *seals, const struct upload *upload, const struct blob *blob, bool *out_first, struct err *err);
bool seals_sync(struct seals *seals, int fd, bool first, struct err *err); /* durable, and closes fd */

void seals_list(const struct seals *seals, int64_t task, int64_t grant, struct buf *out); /* struct upload_seal */
int64_t seals_bytes(const struct seals *seals, struct str tenant);
void seals_grants(const struct seals *seals, struct buf *out);       /* struct upload_grant */
bool seals_forget(struct seals *seals, int64_t task, int64_t grant); /* false: nothing is known of it */

#endif
