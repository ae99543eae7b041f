/* logs/port: what a place for logs gives; private to store (users call the functions of store/logs/logs.h). */
#ifndef WEIR_STORE_LOGS_PORT_H
#define WEIR_STORE_LOGS_PORT_H

#include "store/logs/logs.h"

struct log_key {
    int64_t task, grant;
};

struct logs_ops {
    void (*close)(struct logs *logs);
    bool (*append)(struct logs *logs, int64_t task, int64_t grant, int64_t offset, struct str bytes,
        struct log_position *out, struct err *err);
    bool (*size)(struct logs *logs, int64_t task, int64_t grant, int64_t *out_bytes, struct err *err);
    bool (*read)(
        struct logs *logs, int64_t task, int64_t grant, int64_t offset, size_t max, struct buf *out, struct err *err);
    void (*remove)(struct logs *logs, int64_t task, int64_t grant);
    void (*seal)(struct logs *logs, int64_t task, int64_t grant);
    void (*expect)(struct logs *logs, int64_t task, int64_t grant, int64_t bytes); /* NULL: it just stays open */
    void (*lost)(struct logs *logs, int64_t task, int64_t grant);
    void (*each_open)(struct logs *logs, void (*each)(void *owner, int64_t task, int64_t grant), void *owner);
    bool (*each)(
        struct logs *logs, bool (*each)(void *owner, int64_t task, int64_t grant), void *owner, struct err *err);
    void (*wait)(struct logs *logs);
    void (*on_sync)(struct logs *logs, void (*synced)(void *owner), void *owner);
    void (*on_seal)(struct logs *logs, void (*sealed)(void *owner), void *owner);
    size_t (*sealed)(struct logs *logs, struct log_sealed *out, size_t max);
    bool (*noted)(struct logs *logs, const struct log_sealed *sealed, size_t n);
    uint64_t (*frames_unpacked)(struct logs *logs);
};

struct logs {
    const struct logs_ops *ops;
};

/* Seals that wait to be noted, oldest first; its owner's lock guards it. */
struct seal_queue {
    struct buf items; /* struct log_sealed */
    void (*told)(void *owner);
    void *owner;
};
void seal_queue_init(struct seal_queue *queue);
void seal_queue_listen(struct seal_queue *queue, void (*told)(void *owner), void *owner);
void seal_queue_add(struct seal_queue *queue, const struct log_sealed *sealed);
size_t seal_queue_first(const struct seal_queue *queue, struct log_sealed *out, size_t max);
bool seal_queue_drop(struct seal_queue *queue, size_t n); /* the first n; true: others wait */

#endif
