/* watch: follows the repositories of archives and brings their revisions to the engine, in order.
 *
 * What wakes it are hints: a datagram at DATA/run/notify.sock (`weir notify`, from hooks), watch_hint, inotify in a
 * local repository, and a look at the youngest revision now and then (local without inotify: 1 s; local with it: a slow
 * safety look; served: 60 s). A hint says no more than: look. The repository is what is true, the store says how far we
 * are; so hints may come in any order, twice, or never.
 *
 * An archive is worked on by one thread at a time; served and local repositories have threads of their own, so one that
 * hangs delays no other. Revisions are read in batches, handed to the engine as CMD_REVISION on the loop's thread, and
 * the next batch is read when these were answered. A repository that can't be read is a fault of that archive: kept for
 * watch_status, logged when it changes, tried again with growing pauses, gone by itself.
 *
 * Of servers that share a store one follows the repositories (DUTY_watch); what it brings carries the epoch, and hints
 * that others get are passed on to it. A repository must be within reach of each of them.
 *
 * All functions are called on the loop's thread but watch_status and watch_hint_message, which any thread may call. */
#ifndef WEIR_WATCH_WATCH_H
#define WEIR_WATCH_WATCH_H

#include "base/err.h"
#include "core/model.h"
#include "io/loop.h"

struct engine;
struct store_config;
struct watch;

#define WATCH_TAR_STREAMS_MAX 256   /* waiting and streaming */
#define WATCH_PROBES_MAX 64         /* likewise */
#define WATCH_TAR_PIECE_BYTES 65536 /* of a tree, at a time */

struct watch_config {
    struct loop *loop;
    struct engine *engine;                                 /* started before the loop runs */
    const struct store_config *store;                      /* for readers of its own; lives as long as the watch */
    const char *data_dir;                                  /* DATA/run is there; NULL: no notify socket */
    int64_t scan_local_ms, scan_safety_ms, scan_remote_ms; /* 0: 1000, 30000, 60000 */
};

/* watch_open: begins with the living svn and git archives of the store. */
struct watch *watch_open(const struct watch_config *config, struct err *err);
void watch_closing(struct watch *watch); /* before engine_stop: nothing more is submitted; trees end with unavailable */
/* watch_close: after engine_free, and after who asked for probes and trees is gone: none of them is called any more. A
 * thread that hangs in a served repository is left to the end of the process: false; then leave by _exit, since it may
 * be anywhere in its libraries. */
bool watch_close(struct watch *watch);

/* watch_archives_changed: after an archive was added, removed, or a revision was skipped: the store is asked which
 * archives there are. */
void watch_archives_changed(struct watch *watch);
/* watch_archive_changed: the same of one archive, at the cost of one, however many there are. */
void watch_archive_changed(struct watch *watch, struct str tenant, struct str name);
/* watch_archive_told: the same, by a caller that has read the archive. On PostgreSQL the two above read it later, on a
 * thread. */
struct archive_view;
void watch_archive_told(struct watch *watch, const struct archive_view *view);

/* watch_hint: somebody says that there is a revision. What it says of a revision's cause and transaction goes with the
 * revision when it is read; where that has happened, the engine is told of it afterwards. false: no svn or git archive
 * of this lane is followed. */
struct watch_hint {
    int64_t rev;       /* 0: not known which (git) */
    struct str commit; /* git: the newest of what it speaks of; empty: whatever is new */
    struct str txn;
    struct str cause; /* key of the task whose job made it; empty: a person's */
};
bool watch_hint(struct watch *watch, int64_t lane, const struct watch_hint *hint);

/* watch_hint_message: what another server passes on, because this one follows the repositories. Any thread, from
 * watch_open to watch_closing. */
void watch_hint_message(struct watch *watch, struct str text);

/* watch_notify_path: absolute; hooks call `weir --server unix:PATH notify ARCHIVE REV`. NULL: there is none. */
const char *watch_notify_path(const struct watch *watch);

enum watch_state { WATCH_NONE, WATCH_OK, WATCH_BEHIND, WATCH_FAULT, WATCH_STATE_COUNT };
const char *watch_state_name(enum watch_state state); /* ok behind fault */
struct watch_status {
    enum watch_state state; /* behind: revisions are there that the engine doesn't know yet */
    char text[480];         /* fault: what and where; behind: how many; else empty */
    int64_t since;          /* wall ms: when the state began */
    int64_t looked;         /* wall ms of the last look; 0: none yet */
    int64_t youngest;       /* svn: the youngest seen; git: the last number given; -1: not known yet */
    char tip[65];           /* git: the branch's commit; empty: none, or not known yet */
};
bool watch_status(struct watch *watch, int64_t lane, struct watch_status *out); /* false: it isn't followed */

/* watch_probe: opens a repository now, on a thread, and says what an archive of it would start with. `done` is called
 * once, on the loop's thread, unless the probe is cancelled. The probe and its strings live until done returns. */
struct watch_probe {
    /* in; copied */
    enum archive_kind kind;
    struct str url, branch;
    int64_t from; /* 0: from the next revision on; else the first revision that is wanted */
    void (*done)(struct watch_probe *probe);
    void *owner;
    /* out; err.code not ERR_none: nothing else is set but from_beyond */
    struct err err;
    bool from_beyond;        /* err is about `from` */
    struct str branch_found; /* git: the branch, also when none was named */
    struct str place;        /* local: the repository's folder, where hooks are installed; else the URL */
    bool local;
    int64_t youngest; /* svn: its number; git: commits of the branch along first parents */
    int64_t first;    /* for archive.first */
    struct str tip;   /* for archive.tip: git: the commit before `first`; empty: none */
};
/* The probe is given with its `in` set; NULL: refused (unavailable), done isn't called. What is returned is watch's own
 * copy, for cancelling and for done. */
struct watch_probe *watch_probe(struct watch *watch, const struct watch_probe *in, struct err *err);
void watch_probe_cancel(struct watch_probe *probe); /* done won't be called; the probe is gone for the caller */

/* watch_tar_stream: the tree of a revision as a tar, in pieces, at the pace of who takes them. */
struct watch_tar_stream;
struct watch_tar_stream_sink {
    /* bytes: one piece, valid during the call; the next one comes after watch_tar_stream_more (which may be called
     * inside). */
    void (*bytes)(void *owner, struct str bytes);
    /* end: called once, after the last piece was given, or on a failure, at any point; err->code ERR_none: whole. The
     * tree is gone then. */
    void (*end)(void *owner, const struct err *err);
    void *owner;
};
/* archive: kind, url and branch are used, and copied. ident: git's commit. NULL: refused (unavailable), nothing is
 * called. */
struct watch_tar_stream *watch_tar_stream(struct watch *watch, const struct archive *archive, int64_t rev,
    struct str ident, const struct watch_tar_stream_sink *sink, struct err *err);
void watch_tar_stream_more(struct watch_tar_stream *stream);
void watch_tar_stream_cancel(struct watch_tar_stream *stream); /* nothing is called any more */

#endif
