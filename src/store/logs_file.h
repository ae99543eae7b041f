/* logs_file: what the two halves of the log store share: logs.c (open files, appending, reading, syncing) and logs_seal.c (packing,
 * repair).
 *
 * Private to the log store. `lock` guards every field but `stop` and the descriptors of the folders; a function says so when it wants the
 * lock held. */
#ifndef WEIR_STORE_LOGS_FILE_H
#define WEIR_STORE_LOGS_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "store/logs_port.h"
#include "store/logs_seek.h"

enum { LOG_OPEN_MAX = 256, LOG_SHARD_TASKS = 1000, LOG_NAME_BYTES = 96 };

/* An open log. In the map (unless `gone`) and in the list of recent use; closed and freed when it is neither pinned nor in the map. */
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
};

struct pack_job {
    struct list_node node;
    struct log_key key;
};

struct sync_item {
    struct log_file *file;
    int64_t size;
    bool named, ok;
};

struct log_files {
    struct logs port; /* first */
    int root_fd, live_fd;
    pthread_mutex_t lock;
    pthread_cond_t to_sync, to_pack, changed; /* changed: something became durable, packed or closable */
    pthread_t sync_thread, pack_thread;
    atomic_bool stop;
    struct smap files;                /* key bytes -> struct log_file */
    struct smap plain;                /* key bytes -> struct log_plain: sealing a task that wrote nothing must not cost a system call */
    bool plain_known;                 /* the folder has been looked through: what isn't in `plain` isn't there */
    struct list recent, dirty, to_do; /* files by last use; files to sync; pack_jobs */
    bool syncing, packing, pack_failed;
    struct sync_item batch[LOG_OPEN_MAX];
    struct seek_reader reader;
    void (*synced)(void *owner);
    void *synced_owner;
};

static inline struct log_files *files_of(struct logs *port)
{
    return (struct log_files *)(void *)port;
}

void log_name_plain(char out[LOG_NAME_BYTES], struct log_key key);     /* in the folder `live` */
void log_name_packed(char out[LOG_NAME_BYTES], struct log_key key);    /* in the folder `logs` */
bool log_name_parse(const char *name, struct log_key *out, struct str *out_suffix); /* TASK.GRANT.SUFFIX: log, tmp or log.zst */
struct log_file *log_file_find(struct log_files *logs, struct log_key key); /* NULL: not open; lock held */
void log_plain_note(struct log_files *logs, struct log_key key);            /* lock held */
void log_plain_drop(struct log_files *logs, struct log_key key);            /* lock held */
void log_file_forget(struct log_files *logs, struct log_file *file);        /* the next comer opens it anew; lock held */
void log_synced_tell(struct log_files *logs);                               /* lock held, and let go while the listener is called */
void *log_pack_run(void *logs);                                        /* the pack thread */

/* logs_seal.c: of the port */
void log_files_seal(struct logs *port, int64_t task, int64_t grant);
void log_files_remove(struct logs *port, int64_t task, int64_t grant);
void log_files_each_open(struct logs *port, void (*each)(void *owner, int64_t task, int64_t grant), void *owner);

#endif
