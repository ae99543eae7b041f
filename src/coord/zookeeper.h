/* zookeeper: the client library's header, its functions behind pointers, and what the files of the ZooKeeper backend
 * share; private to this room.
 *
 * In the tree, under PATH: nodes/NAME (servers), executors/NAME, duties/DUTY/NAME-SEQUENCE, locks/LOCK/NAME-SEQUENCE.
 * All leaves are ephemeral; the backend's one thread creates and deletes them. */
#ifndef WEIR_COORD_ZOOKEEPER_H
#define WEIR_COORD_ZOOKEEPER_H

#include <pthread.h>
#include <stdbool.h>
#include <zookeeper/zookeeper.h>

#include "base/map.h"
#include "coord/coord.h"
#include "coord_zk.h" /* written by the build */

enum { ZK_PATH_BYTES = 512, ZK_NAMES_MAX = 16, ZK_EXECUTORS_MAX = 5000 };
/* parts of the tree that a watch reported a change of */
enum { NEWS_NODES = 1, NEWS_EXECUTORS = 2, NEWS_LOCKS = 4, NEWS_ALL = 7 };

struct roster { /* replaced as a whole */
    struct arena arena;
    struct coord_member *members;
    int64_t *sessions; /* of each member: the session that wrote its node */
    size_t n;
};

struct zookeeper {
    struct coord port;
    char *hosts, *root;
    struct str auth; /* USER:PASSWORD; empty: none */
    int64_t session_ms;
    pthread_t thread;
    bool started;
    void (*changed)(void *owner);
    void *owner;

    pthread_mutex_t lock;
    pthread_cond_t news_cond;
    /* under `lock` */
    bool stop, connected, expired, told;
    unsigned news;
    char content[COORD_CONTENT_MAX + 1];
    struct roster *roster;         /* NULL: not known */
    struct roster *executors_told; /* the newest list that this server published; NULL: the thread has taken it */
    struct smap executors;         /* name -> struct record; of all servers */
    struct smap left;              /* name -> struct record: its node was deleted by a server that still lives */
    bool executors_known;
    int64_t joined_at; /* boot ms */
    enum coord_advice *advice;
    /* locks; dropped: no longer wanted at some moment since the thread's last pass */
    bool wanted[ZK_NAMES_MAX], dropped[ZK_NAMES_MAX];
    struct coord_status status;

    /* the thread's own */
    zhandle_t *handle;
    bool joined;
    int64_t lost_at;                              /* boot ms since when there has been no connection; 0: there is one */
    int64_t opened_at;                            /* boot ms at which the handle was opened */
    int code;                                     /* of the last call that failed */
    struct roster *executors_mine;                /* executors that poll this server; NULL: not published yet */
    struct smap written;                          /* name -> struct record: nodes that this session wrote */
    char queued[ZK_NAMES_MAX][ZK_PATH_BYTES * 2]; /* our node in the queue for a lock; empty: none */
};

struct record { /* an executor */
    char *name, *content;
    int64_t session; /* that wrote the node */
    int64_t at;      /* boot ms: when it left */
    bool stale;      /* it has changed since it was read */
};

/* --- of coord_zookeeper.c --- */
const char *zk_path(char *out, const struct zookeeper *z, const char *folder, const char *name);
bool zk_went(struct zookeeper *z, int code);           /* true: ZOK; else keeps the code for the status */
bool zk_ensure(struct zookeeper *z, const char *path); /* creates every folder of the path */
bool zk_is_ours(const struct zookeeper *z, const char *path);
int zk_create(struct zookeeper *z, const char *path, const char *content, int flags, char *out_path, int out_size);
void zk_seen(zhandle_t *handle, int type, int state, const char *path, void *context); /* a watch */
/* zk_candidate: of "NAME-0000000012" the name and, in *out_number, the number. */
struct str zk_candidate(const char *child, int64_t *out_number);

/* --- of zookeeper_register.c: executors; on the backend's thread unless marked --- */
bool register_write(struct zookeeper *z, bool *out_more); /* false: a call failed */
bool register_look(struct zookeeper *z);
void register_forget(struct zookeeper *z);                  /* the session has ended, and all our nodes with it */
void register_away(struct zookeeper *z);                    /* forgets all executors; under lock */
void register_stale(struct zookeeper *z, const char *path); /* any thread, under lock */
void register_release(struct zookeeper *z);
void register_publish(struct coord *coord, const struct coord_member *list, size_t n); /* any thread */
bool register_list(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n);
int64_t register_left(struct coord *coord, struct str executor);
void roster_free(struct roster *roster);

/* --- of zookeeper_lock.c --- */
bool locks_turn(struct zookeeper *z); /* false: a call failed */
void locks_forget(struct zookeeper *z);

#endif
