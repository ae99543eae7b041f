/* watch: follows the repositories of archives and brings their revisions to the engine, in order.
 *
 * Hints start a scan: a datagram at DATA/run/notify.sock (`weir notify`, sent by hooks), watch_hint, inotify in a local
 * repository, and a timer (local without inotify: 1 s; local with it: a slow safety scan; served: 60 s). A hint only
 * asks for a scan. The repository decides which revisions there are, and the store knows the last one that the engine
 * has; so hints may come in any order, twice, or never.
 *
 * One thread at a time works on an archive. Served and local repositories have separate threads, so a repository that
 * hangs delays no other. Revisions are read in batches and submitted to the engine as CMD_REVISION on the loop's
 * thread; the next batch is read after the engine has answered all of them. A repository that can't be read is a fault
 * of its archive: watch_status shows it, it is logged when it changes, and scans are retried with growing pauses until
 * one succeeds.
 *
 * Of several servers on one store, the holder of DUTY_watch follows the repositories; its commands carry the epoch, and
 * the other servers pass hints on to it. Each server must be able to reach every repository.
 *
 * All functions are called on the loop's thread, except watch_status and watch_hint_message: any thread may call these.
 */
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

/* watch_open: starts with the svn and git archives of the store that weren't removed. */
struct watch *watch_open(const struct watch_config *config, struct err *err);
void watch_closing(struct watch *watch); /* before engine_stop: nothing more is submitted; trees end with unavailable */
/* watch_close: call it after engine_free, when the owners of probes and trees are gone: no callback comes any more.
 * false: a thread hangs in a served repository and goes on until the process ends; then the process must end by _exit,
 * because that thread may be anywhere in its libraries. */
bool watch_close(struct watch *watch);

/* watch_archives_changed: called after an archive was added or removed or a revision was skipped: all archives are
 * read from the store again. */
void watch_archives_changed(struct watch *watch);
/* watch_archive_changed: the same for one archive; the cost doesn't depend on how many there are. */
void watch_archive_changed(struct watch *watch, struct str tenant, struct str name);
/* watch_archive_told: the same for a caller that has the archive's row. (On PostgreSQL the two functions above read it
 * later, on a thread.) */
struct archive_view;
void watch_archive_told(struct watch *watch, const struct archive_view *view);

/* watch_hint: a client reports a revision. Its cause and transaction are submitted with the revision when that is read,
 * or by a later command if it was read before. false: no svn or git archive of this lane is followed. */
struct watch_hint {
    int64_t rev;       /* svn; 0: not known */
    struct str commit; /* git: the newest commit that it reports; empty: all new ones */
    struct str txn;
    struct str cause; /* key of the task whose job made the commit; empty: a person made it */
};
bool watch_hint(struct watch *watch, int64_t lane, const struct watch_hint *hint);

/* watch_hint_message: a hint that another server passes on, because this one follows the repositories. Any thread may
 * call it between watch_open and watch_closing. */
void watch_hint_message(struct watch *watch, struct str text);

/* watch_notify_path: absolute; hooks call `weir --server unix:PATH notify ARCHIVE REV`. NULL: there is none. */
const char *watch_notify_path(const struct watch *watch);

enum watch_state { WATCH_NONE, WATCH_OK, WATCH_BEHIND, WATCH_FAULT, WATCH_STATE_COUNT };
const char *watch_state_name(enum watch_state state); /* ok behind fault */
struct watch_status {
    enum watch_state state; /* behind: the repository has revisions that the engine doesn't know yet */
    char text[480];         /* fault: what and where; behind: how many; else empty */
    int64_t since;          /* wall ms: when the state began */
    int64_t looked;         /* wall ms of the last scan; 0: none yet */
    int64_t youngest;       /* svn: the youngest revision; git: the last number given; -1: not known yet */
    char tip[65];           /* git: the branch's commit; empty: none, or not known yet */
};
bool watch_status(struct watch *watch, int64_t lane, struct watch_status *out); /* false: it isn't followed */

/* watch_probe: opens a repository on a thread and finds out with which revision an archive of it would start. `done` is
 * called once, on the loop's thread, unless the probe is cancelled. The probe and its strings live until it returns. */
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
/* The caller sets the `in` members. Returns watch's own copy, which `done` gets and watch_probe_cancel takes; NULL:
 * refused (unavailable), and done isn't called. */
struct watch_probe *watch_probe(struct watch *watch, const struct watch_probe *in, struct err *err);
void watch_probe_cancel(struct watch_probe *probe); /* frees the probe; done isn't called */

/* watch_tar_stream: streams the tree of a revision as a tar, in pieces, at the pace of the reader. */
struct watch_tar_stream;
struct watch_tar_stream_sink {
    /* bytes: one piece, valid during the call. The next piece comes after watch_tar_stream_more, which may be called
     * inside. */
    void (*bytes)(void *owner, struct str bytes);
    /* end: called once, after the last piece or, at any point, on a failure. err->code ERR_none: the tar is whole. The
     * stream is freed afterwards. */
    void (*end)(void *owner, const struct err *err);
    void *owner;
};
/* archive: its kind, url and branch are copied. ident: of git the commit. NULL: refused (unavailable), and no callback
 * comes. */
struct watch_tar_stream *watch_tar_stream(struct watch *watch, const struct archive *archive, int64_t rev,
    struct str ident, const struct watch_tar_stream_sink *sink, struct err *err);
void watch_tar_stream_more(struct watch_tar_stream *stream);
void watch_tar_stream_cancel(struct watch_tar_stream *stream); /* frees the stream; no callback comes */

#endif
