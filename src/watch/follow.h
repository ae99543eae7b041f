/* follow: one archive that is followed, and what its two sides share; private to this room.
 *
 * The loop's side (follow.c) decides when to look and hands batches to the engine; the crew's side (round.c) looks and
 * reads. A follow is `busy` from the moment its job is given to the crew until the answers of its batch are there;
 * while it is with the crew, only the crew touches what is marked so. What both may touch at any time is under
 * watch->lock. */
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
#include "watch/crew.h"
#include "watch/watch.h"

enum {
    NOTES_MAX = 1024, /* of other servers, not taken yet; more are lost, and a slow look finds what they told of */
    BATCH_REVISIONS_MAX = 256, /* of one batch; also no more than */
    BATCH_BYTES_MAX = 8 << 20, /* and what was read in */
    BATCH_MS_MAX = 250,
    MARKS_MAX = 256,        /* what hints said, kept per archive */
    SETTLE_MS = 200,        /* how long inotify lets the hook speak first, unless hooks were seen to take longer */
    LATE_MAX = 64,          /* of them that one batch brings to revisions which are known */
    SIGHTS_MAX = 16,        /* folders that inotify looks at for one archive */
    SOURCES_OPEN_MAX = 128, /* local repositories that stay open while nothing happens */
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

enum round_end { ROUND_IDLE, ROUND_BATCH, ROUND_FAULT };

struct mark {                 /* what a hint said of a revision */
    int64_t rev;              /* svn */
    char commit[IDENT_BYTES]; /* git: it speaks of this one and of those before it that nobody else has spoken of */
    char *cause, *txn;        /* "": none */
    int64_t at;               /* boot ms */
    bool settled;             /* its revision was known, and has it or was given it; or it isn't of this branch */
};

struct sight { /* one folder under inotify */
    int wd;
    char *name; /* only this name; empty: any */
};

struct follow {
    struct watch *watch;
    struct list_node node;
    struct list_node sighted; /* eyes.c: inotify saw something */
    struct arena arena;       /* of the strings */
    struct str name, tenant, url, branch;
    enum archive_kind kind;
    int64_t lane;
    bool served;

    /* the loop's */
    struct heap_node due;
    bool busy, gone, recheck;
    int64_t seen_at;  /* boot ms: since when the hook of what inotify saw is awaited; 0: it isn't */
    int64_t again_at; /* busy: when to look once more; 0: no need */
    int64_t ended;    /* boot ms of the last look's end */
    int64_t pause_ms; /* between tries while there is a fault; 0: none */
    struct batch *sent;
    int64_t epoch; /* under which the look was begun */

    /* the crew's while it is at work, else the loop's */
    struct crew_job job;
    struct source *source;
    struct matcher matcher;
    bool caught; /* everything up to this is the engine's already: */
    int64_t caught_rev;
    char caught_tip[IDENT_BYTES];
    int64_t asked_next; /* archive.next before the last batch; 0: none was sent since */
    enum round_end end;
    bool soon; /* the engine is at it: look again in a moment */
    bool tidy; /* transactions are still to be brought to their revisions: look again, there is no hurry */
    struct batch *batch;
    int64_t left; /* revisions after those of the batch */
    struct err err;

    /* under watch->lock */
    struct watch_status status;
    struct mark marks[MARKS_MAX]; /* in the order they came; of two for the same commit the first counts */
    size_t n_marks;
    int64_t settle_ms;      /* how long inotify lets the hook speak first */
    int64_t quiet_until;    /* boot ms: what nobody has spoken of isn't read before; 0: it is */
    char *head_cause;       /* git: of what is found next; NULL: none */
    uint64_t head_cause_at; /* changes with every hint that brings one */
    struct sight sights[SIGHTS_MAX];
    size_t n_sights;
    bool eyes_open; /* inotify tells us of everything */
    bool hinted;    /* somebody did */
    char *place;    /* local: the repository's folder; NULL: it wasn't open yet */
};

struct eye { /* a folder under inotify, and who wants to know */
    int wd;
    struct follow **users;
    size_t n, cap;
};

struct watch {
    struct watch_config config;
    struct crew *crew;
    struct reader *reader; /* the loop's */
    struct list follows;
    struct map by_lane; /* of the living */
    struct heap dues;
    struct loop_timer timer;
    bool closing, closed;
    int64_t epoch;             /* of the duty; 0: another server follows the repositories */
    bool lapsed;               /* follows rest because the duty may be another's; whether it is isn't known yet */
    uint64_t archives_version; /* the engine's, when the store was asked last */
    struct list probes, trees, looks;
    struct loop_timer look_timer; /* at all archives, once more */
    struct watch *left_before;
    atomic_size_t sources_open;
    pthread_mutex_t lock;

    struct list notes; /* told by other servers; under lock */
    size_t n_notes;

    /* notify.c */
    char *notify_path;
    struct loop_fd notify_fd;
    struct loop_timer notify_timer;
    int64_t notify_window;
    unsigned notify_taken;

    /* eyes.c */
    struct loop_fd eyes_fd;
    struct map eyes; /* by wd; under lock */
};

/* look.c. then: when it was read, once and in any case; view NULL: there is none, or it couldn't be read, or the watch
 * ends. */
typedef void look_fn(struct watch *watch, const struct archive_view *view, void *owner);
void looks_begin(struct watch *watch);
void look_at_lane(struct watch *watch, int64_t lane);
void look_for(struct watch *watch, struct str name, look_fn *then, void *owner); /* whoever has one of that name */
void looks_release(struct watch *watch, bool all_joined);

/* follow.c: the loop's side */
bool place_is_served(enum archive_kind kind, struct str url);
struct follow *follow_new(struct watch *watch, const struct archive *archive, const struct lane *lane);
/* by name: whoever has one of that name */
bool follows_hint(struct watch *watch, struct str archive, const struct watch_hint *hint);
void follow_end(struct follow *follow);  /* it is followed no more; freed as soon as nobody works on it */
void follow_free(struct follow *follow); /* now */
void follow_poke(struct follow *follow); /* a hint: look soon */
void follow_seen(struct follow *follow); /* inotify says so: look soon, but let the hook speak first */
void follow_hint(struct follow *follow, const struct watch_hint *hint);
void follow_due(struct follow *follow); /* its time has come */
void dues_arm(struct watch *watch);

/* round.c: the crew's side */
void round_work(struct crew_job *job, struct crew_hand *hand);
void follow_source_close(struct follow *follow);

/* marks.c. The first two under watch->lock, the others on the crew's side */
void marks_take(struct follow *follow, const struct watch_hint *hint);
void marks_release(struct follow *follow);
struct mark_text {
    struct str cause, txn;
};
/* marks_hold: false: everything may be read. true: only what was spoken of: up to *out_rev (svn), or as marks_find says
 * (git). */
bool marks_hold(struct follow *follow, int64_t youngest, int64_t *out_rev);
void marks_quiet_over(struct follow *follow); /* all was spoken of: what comes next has its own time */
/* is there something to bring to revisions that are known? Sets tidy when that has time */
bool marks_wait(struct follow *follow);
/* false: none */
bool marks_find(struct follow *follow, struct arena *arena, int64_t rev, struct str commit, struct mark_text *out);
/* marks_settle: those of known revisions (svn: below `next`) become commands of follow->batch, where the revision lacks
 * what was said. marks_settle_head: likewise what was said of "HEAD", when nothing is new and `commit` is the branch's.
 */
bool marks_settle(struct follow *follow, struct reader *reader, struct arena *arena, int64_t next, struct err *err);
bool marks_settle_head(struct follow *follow, struct reader *reader, struct arena *arena, struct str commit,
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
    /* prevs_find: NULL: prevs are as they are */
    bool (*prevs_find)(void *context, struct batch *batch, const struct source_revision *revision,
        struct batch_item *item, struct err *err);
    void *context;
};
bool batch_add(struct batch *batch, struct batch_item *item, struct err *err);
void matcher_release(struct matcher *matcher);

/* eyes.c */
void eyes_init(struct watch *watch);
void eyes_shut(struct watch *watch);    /* no more events */
void eyes_release(struct watch *watch); /* after the crew */
void eyes_look(struct follow *follow);  /* on the crew's thread, before it asks for the youngest revision */
void eyes_close(struct follow *follow); /* nothing of it is looked at any more */

/* notify.c */
void notes_take(struct watch *watch); /* what other servers were told */
/* to the server that follows */
void notes_pass(struct watch *watch, const struct follow *follow, const struct watch_hint *hint);
void notes_release(struct watch *watch);
bool notify_init(struct watch *watch, struct err *err);
void notify_release(struct watch *watch);

/* probe.c, tree.c: at the end */
void probes_release(struct watch *watch, bool all_joined);
void trees_stop(struct watch *watch); /* no thread waits for a taker any more */
void trees_release(struct watch *watch, bool all_joined);

#endif
