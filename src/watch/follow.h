/* follow: one archive that is followed, and what its two sides share; private to this room.
 *
 * The loop's side (follow.c) decides when to scan and submits batches to the engine; the thread pool's side (scan.c)
 * scans the repository and reads revisions. A follow is `busy` from the moment its job is given to the pool until the
 * engine has answered every command of its batch. While a pool thread has the job, only that thread touches the
 * members marked so. Members that both sides touch at any time are under watch->lock. */
#ifndef WEIR_WATCH_FOLLOW_H
#define WEIR_WATCH_FOLLOW_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "engine/engine.h"
#include "source/source.h"
#include "text/glob.h"
#include "watch/thread_pool.h"
#include "watch/watch.h"

enum {
    HINT_MESSAGES_MAX =
        1024, /* of other servers, not worked on yet; more are dropped, and a timed scan finds the revisions */
    BATCH_REVISIONS_MAX = 256, /* a batch ends at this many revisions, */
    BATCH_BYTES_MAX = 8 << 20, /* or this many bytes, */
    BATCH_MS_MAX = 250,        /* or after reading for so long */
    CAUSES_MAX = 256,          /* kept per archive */
    CAUSE_WAIT_MS = 200,       /* how long a scan waits for the hook's hint, unless hooks were seen to take longer */
    LATE_MAX = 64,             /* late causes in one batch */
    INTERESTS_MAX = 16,        /* folders that inotify reports on for one archive */
    SOURCES_OPEN_MAX = 128,    /* local repositories that stay open while nothing happens */
    IDENT_BYTES = 65,
};

struct batch { /* revisions on their way to the engine; lives until all were answered */
    struct follow *follow;
    struct arena arena;
    struct command *commands;
    size_t n, waiting; /* not answered yet */
    size_t n_late;     /* of n: causes that came after their revisions */
    struct err err;    /* of the first that was refused */
};

struct matcher { /* the definition that was read last, ready for the next revisions */
    struct arena arena;
    struct str content;            /* as source_workflows says; empty: nothing was read yet */
    struct definition *definition; /* NULL: the revision has none */
    struct globs *paths;           /* by task; NULL: no task names paths */
};

enum scan_end { SCAN_IDLE, SCAN_BATCH, SCAN_FAULT };

struct cause {                /* what a hint says of a revision */
    int64_t rev;              /* svn */
    char commit[IDENT_BYTES]; /* git: this commit, and the commits before it that no other hint names */
    char *key, *txn;          /* key of the task whose job committed it; its transaction; "": not known */
    int64_t at;               /* boot ms of the hint */
    bool settled;             /* nothing is left to do: the revision has it, or the commit is of another branch */
};

struct causes {                     /* of one archive; under watch->lock */
    struct cause items[CAUSES_MAX]; /* in the order of the hints; of two for one commit the first counts */
    size_t n;
    int64_t wait_ms;    /* how long a scan that inotify asked for waits for the hook's hint */
    int64_t wait_until; /* boot ms: revisions that no hint names aren't read before; 0: no wait */
    char *head;         /* git: key of the cause of the commits found next; NULL: none */
    uint64_t head_at;   /* grows with every hint that sets head */
};

struct inotify_interest { /* one folder of which a follow wants the events */
    int wd;
    char *name; /* only events of this name; empty: of any */
};

struct follow_inotify {    /* under watch->lock */
    struct list_node node; /* in the list of follows with events, while a read is worked on */
    struct inotify_interest interests[INTERESTS_MAX];
    size_t n;
    bool complete; /* inotify reports every change of the repository */
};

struct follow {
    struct watch *watch;
    struct list_node node;
    struct arena arena; /* of the strings */
    struct str name, tenant, url, branch;
    enum archive_kind kind;
    int64_t lane;
    bool served;

    /* the loop's */
    struct heap_node due;
    bool busy;
    bool gone;        /* followed no more; freed when it isn't busy */
    bool recheck;     /* the store's row may have changed: the next scan reads it even if nothing is new */
    int64_t seen_at;  /* boot ms of the first inotify event whose hook hasn't sent its hint; 0: none is awaited */
    int64_t again_at; /* busy: boot ms at which to scan once more; 0: no need */
    int64_t ended;    /* boot ms of the last scan's end */
    int64_t pause_ms; /* between tries while there is a fault; 0: no fault */
    struct batch *sent;
    int64_t epoch; /* of DUTY_watch when the scan began */

    /* the pool thread's during a scan, else the loop's */
    struct pool_job job;
    struct source *source;
    struct matcher matcher;
    bool caught; /* the engine has every revision up to: */
    int64_t caught_rev;
    char caught_tip[IDENT_BYTES];
    int64_t asked_next; /* archive.next when the last batch was read; 0: none was sent since */
    enum scan_end end;
    bool soon; /* the engine is still making tasks of the next revision: scan again in a moment */
    bool tidy; /* some transactions are still to be written to their revisions: scan again, without hurry */
    struct batch *batch;
    int64_t left; /* revisions after those of the batch */
    struct err err;

    /* under watch->lock */
    struct watch_status status;
    struct causes causes;
    struct follow_inotify inotify;
    bool hinted; /* a hint has come: this archive has a hook */
    char *place; /* local: the repository's folder; NULL: it wasn't open yet */
};

struct inotify_folder { /* a folder with an inotify watch, and the follows that want its events */
    int wd;
    struct follow **users;
    size_t n, cap;
};

struct watch {
    struct watch_config config;
    struct thread_pool *pool;
    struct reader *reader; /* the loop's */
    struct list follows;
    struct map by_lane; /* follows that aren't gone */
    struct heap dues;
    struct loop_timer timer;
    bool closing, closed;
    int64_t epoch;             /* of the duty; 0: another server follows the repositories */
    bool lapsed;               /* follows rest: our beat is late, and another server may have taken the duty */
    uint64_t archives_version; /* the engine's, when archives were read last */
    struct list probes, tar_streams, archive_reads;
    struct loop_timer archive_read_timer; /* at all archives, once more */
    struct watch *left_before;
    atomic_size_t sources_open;
    pthread_mutex_t lock;

    struct list hint_messages; /* passed on by other servers; under lock */
    size_t n_hint_messages;

    /* notify.c */
    char *notify_path;
    struct loop_fd notify_fd;
    struct loop_timer notify_timer;
    int64_t notify_window;
    unsigned notify_taken;

    /* inotify.c */
    struct loop_fd inotify_fd;
    struct map folders; /* by wd; under lock */
};

/* archive_read.c. then: called exactly once, on the loop's thread; view NULL: no such archive, or the read failed, or
 * the watch ends. */
typedef void archive_read_fn(struct watch *watch, const struct archive_view *view, void *owner);
void archive_reads_init(struct watch *watch);
void archive_read_lane(struct watch *watch, int64_t lane);
/* archive_read_name: the archive of that name, of any tenant: hooks name no tenant. */
void archive_read_name(struct watch *watch, struct str name, archive_read_fn *then, void *owner);
void archive_reads_release(struct watch *watch, bool all_joined);

/* follow.c: the loop's side */
bool place_is_served(enum archive_kind kind, struct str url);
struct follow *follow_new(struct watch *watch, const struct archive *archive, const struct lane *lane);
/* follows_hint: to every followed archive of that name, whatever its tenant; false: there is none. */
bool follows_hint(struct watch *watch, struct str archive, const struct watch_hint *hint);
void follow_end(struct follow *follow);  /* it is followed no more; freed when no thread works on it */
void follow_free(struct follow *follow); /* at once; no thread may work on it */
void follow_poke(struct follow *follow); /* scan soon */
void follow_seen(struct follow *follow); /* inotify reported a change: scan soon, but wait for the hook's hint */
void follow_hint(struct follow *follow, const struct watch_hint *hint);
void follow_due(struct follow *follow); /* its time in watch->dues has come */
void dues_arm(struct watch *watch);

/* scan.c: the thread pool's side */
void scan_work(struct pool_job *job, struct pool_worker *worker);
void follow_source_close(struct follow *follow);

/* causes.c. The caller of the first two holds watch->lock; the others are called on a thread of the pool. */
void causes_add(struct follow *follow, const struct watch_hint *hint);
void causes_release(struct follow *follow);
struct cause_text {
    struct str cause, txn;
};
/* causes_awaited: is the scan to wait for hints? true: it may read only revisions that a hint has named: up to *out_rev
 * (svn), or those that causes_find finds (git). false: it may read everything. */
bool causes_awaited(struct follow *follow, int64_t youngest, int64_t *out_rev);
void causes_wait_over(struct follow *follow); /* hints have named every revision: end the wait */
/* causes_pending: has a known revision to get a cause or transaction now? Sets tidy where a transaction can wait. */
bool causes_pending(struct follow *follow);
/* causes_find: what a hint says of this revision or commit; false: no hint has named it. */
bool causes_find(struct follow *follow, struct arena *arena, int64_t rev, struct str commit, struct cause_text *out);
/* causes_settle: hints about revisions that the store knows (svn: below `next`) become commands of follow->batch, where
 * the revision lacks the cause or transaction. causes_settle_head: the same for a hint about "HEAD", when nothing is
 * new and `commit` is the branch's. */
bool causes_settle(struct follow *follow, struct reader *reader, struct arena *arena, int64_t next, struct err *err);
bool causes_settle_head(struct follow *follow, struct reader *reader, struct arena *arena, struct str commit,
    struct str cause, struct err *err);

/* batch.c */
struct batch *batch_new(struct follow *follow);
void batch_free(struct batch *batch);
/* batch_add: reads one revision and makes its command. false: it could not be read. */
struct batch_item {
    int64_t rev;
    struct str ident; /* git */
    const int64_t *prevs;
    size_t n_prevs;
    struct str cause, txn; /* from a hint */
    bool rewritten;
    /* prevs_find: fills prevs from the revision that was read; NULL: prevs are set already */
    bool (*prevs_find)(void *context, struct batch *batch, const struct source_revision *revision,
        struct batch_item *item, struct err *err);
    void *context;
};
bool batch_add(struct batch *batch, struct batch_item *item, struct err *err);
void matcher_release(struct matcher *matcher);

/* inotify.c */
void inotify_start(struct watch *watch);
void inotify_stop(struct watch *watch);       /* no more events */
void inotify_release(struct watch *watch);    /* after the pool is closed */
void inotify_follow(struct follow *follow);   /* on a thread of the pool, before it reads the youngest revision */
void inotify_unfollow(struct follow *follow); /* removes its folders */

/* notify.c */
void hint_messages_take(struct watch *watch); /* works on the hints that other servers passed on */
/* hint_messages_pass: sends a hint to the server that holds DUTY_watch, as a note of a turn. */
void hint_messages_pass(struct watch *watch, const struct follow *follow, const struct watch_hint *hint);
void hint_messages_release(struct watch *watch);
bool notify_init(struct watch *watch, struct err *err);
void notify_release(struct watch *watch);

/* probe.c, tar_stream.c, when the watch closes. all_joined: no thread uses them any more, so they may be freed. */
void probes_release(struct watch *watch, bool all_joined);
void tar_streams_stop(struct watch *watch); /* threads that wait for their reader give up */
void tar_streams_release(struct watch *watch, bool all_joined);

#endif
