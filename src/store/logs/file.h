/* logs/file: what the parts of the log store share: logs.c (open files, appending, reading, syncing), logs/seal.c
 * (packing, repair) and logs/marks.c (what of each log is durable).
 *
 * Private to the log store. `lock` guards every field but `stop` and the descriptors of the folders; a function says so
 * when it wants the lock held. */
#ifndef WEIR_STORE_LOGS_FILE_H
#define WEIR_STORE_LOGS_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "store/logs/port.h"
#include "store/logs/seek.h"

enum { LOG_OPEN_MAX = 256, LOG_SHARD_TASKS = 1000, LOG_NAME_BYTES = 96 };

/* An open log. In the map (unless `gone`) and in the list of recent use; closed and freed when it is neither pinned nor
 * in the map. */
struct log_file {
    struct log_key key;
    struct list_node recent, dirty;
    int fd;
    unsigned pins; /* the sync thread holds it */
    bool packed;   /* `seek` describes it; it never changes again */
    bool sealed;
    bool named;  /* its name in the folder is durable */
    bool failed; /* a sync failed: the next append is told */
    bool dead;   /* and what wasn't durable couldn't be cut off: every append is told */
    bool gone;
    int64_t size, durable;
    int64_t found; /* size when it was opened: may have been durable in an earlier life, so it is never cut off */
    struct seek_file seek;
};

/* A plain file in the folder `live`. */
struct log_plain {
    struct log_key key;
    struct list_node spare; /* its file is gone: the slot is free */
    int64_t slot;           /* in the file of marks; -1: none yet */
    int64_t durable;        /* as found at the start */
    /* it has ended, and is short of this: bytes up to there are taken, then it is sealed; 0: as usual */
    int64_t ends;
};
#define LOG_PLAIN_OF(node_ptr) ((struct log_plain *)(void *)((char *)(node_ptr)-offsetof(struct log_plain, spare)))

struct pack_job {
    struct list_node node;
    struct log_key key;
    bool unnoted; /* found packed at the start, and not noted yet */
};

struct sync_item {
    struct log_file *file;
    struct log_plain mark; /* key and slot */
    int64_t size;
    bool named, ok;
};

struct log_files {
    struct logs port; /* first */
    int root_fd, live_fd, marks_fd;
    pthread_mutex_t lock;
    pthread_cond_t to_sync, to_pack, changed; /* changed: something became durable, packed or closable */
    pthread_t sync_thread, pack_thread;
    atomic_bool stop;
    struct smap files; /* key bytes -> struct log_file */
    /* key bytes -> struct log_plain: sealing a task that wrote nothing must not cost a system call */
    struct smap plain;
    bool plain_known;                 /* the folder has been looked through: what isn't in `plain` isn't there */
    struct list recent, dirty, to_do; /* files by last use; files to sync; pack_jobs */
    bool syncing, packing, pack_failed;
    struct list spare; /* log_plains that are only a free slot */
    int64_t n_slots;
    size_t n_expected; /* of `plain`: with an end that is waited for */
    struct sync_item batch[LOG_OPEN_MAX];
    struct seek_reader reader;
    struct seal_queue seals;
    void (*synced)(void *owner);
    void *synced_owner;
};

static inline struct log_files *files_of(struct logs *port)
{
    return (struct log_files *)(void *)port;
}

void log_name_plain(char out[LOG_NAME_BYTES], struct log_key key);   /* in the folder `live` */
void log_name_packed(char out[LOG_NAME_BYTES], struct log_key key);  /* in the folder `logs` */
void log_name_unnoted(char out[LOG_NAME_BYTES], struct log_key key); /* in the folder `live` */
/* TASK.GRANT.SUFFIX: log, tmp or log.zst */
bool log_name_parse(const char *name, struct log_key *out, struct str *out_suffix);
struct log_file *log_file_find(struct log_files *logs, struct log_key key);   /* NULL: not open; lock held */
struct log_plain *log_plain_find(struct log_files *logs, struct log_key key); /* NULL: not known; lock held */
struct log_plain *log_plain_note(struct log_files *logs, struct log_key key); /* lock held */
void log_plain_drop(struct log_files *logs, struct log_key key);              /* lock held */
/* the next comer opens it anew; lock held */
void log_file_forget(struct log_files *logs, struct log_file *file);
/* lock held, and let go while the listener is called */
void log_synced_tell(struct log_files *logs);
void *log_pack_run(void *logs); /* the pack thread */

/* log_live_each: calls each for every plain log, and for every one that isn't noted. Removes half-written packed files
 * when asked to.
 */
/* unnoted: it is packed, its hash isn't in the history yet */
enum log_found { LOG_FOUND_OPEN, LOG_FOUND_SEALED, LOG_FOUND_UNNOTED };
bool log_live_each(struct log_files *logs, bool clean,
    void (*each)(void *owner, struct log_key key, enum log_found found), void *owner);

/* log_pack_end: removes the plain log if it is there packed, too; before there are threads. */
bool log_pack_end(struct log_files *logs, struct log_key key);

/* logs/marks.c */
/* cuts what a power cut left; before there are threads */
bool log_marks_open(struct log_files *logs, struct err *err);
void log_mark_take(struct log_files *logs, struct sync_item *item); /* where its mark goes; lock held */
/* durably, for those that are ok */
bool log_marks_write(struct log_files *logs, const struct sync_item *items, size_t n);

/* logs/seal.c: of the port */
void log_seal_held(struct log_files *logs, struct log_key key); /* lock held */
void log_files_expect(struct logs *port, int64_t task, int64_t grant, int64_t ends);
void log_files_seal(struct logs *port, int64_t task, int64_t grant);
void log_files_remove(struct logs *port, int64_t task, int64_t grant);
void log_files_on_seal(struct logs *port, void (*sealed)(void *owner), void *owner);
void log_files_lost(struct logs *port, int64_t task, int64_t grant);
size_t log_files_sealed(struct logs *port, struct log_sealed *out, size_t max);
bool log_files_noted(struct logs *port, const struct log_sealed *sealed, size_t n);
void log_files_each_open(struct logs *port, void (*each)(void *owner, int64_t task, int64_t grant), void *owner);
bool log_files_each(
    struct logs *port, bool (*each)(void *owner, int64_t task, int64_t grant), void *owner, struct err *err);

#endif
