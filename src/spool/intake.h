/* intake: a tarball becomes a change set that the engine can be given: checked, kept as a blob, its row filled.
 *
 * A tarball comes over HTTP (api/changeset_submit.c) or lies in the spool's data/. intake_read syncs it, has it checked
 * by a confined process (unpack), keeps exactly the bytes that were checked as a blob, and fills a changeset_def; the
 * caller then submits CMD_CHANGESET and calls intake_settle with what the engine said. What it says of other change
 * sets (its target, its dependencies, a CSID that is taken, content that is known) is checked by the engine, in its
 * turn.
 *
 * It blocks (a disk, a process, on PostgreSQL the network), holds no lock of the server, and is called on a thread of
 * its own; several may run at once. Memory is bounded by the limits of `meta` and of paths: the tarball streams.
 *
 * Refusals are those of unpack/unpack.h (invalid, body_too_large, bad_request with items: path, line of meta), of a
 * name that isn't one or whose label is ahead of the clock (invalid), and of blobs: disk_full, io, unavailable. After a
 * refusal nothing of it is left. A server that is killed before the turn's commit leaves at most a blob that nobody
 * names, which a sweep removes. */
#ifndef WEIR_SPOOL_INTAKE_H
#define WEIR_SPOOL_INTAKE_H

#include "engine/engine.h"
#include "store/blobs/blobs.h"
#include "unpack/unpack.h"

struct intake_order {
    int tarball_fd;     /* a regular file */
    bool is_own;        /* it has no name, and nobody else can write to it: it may become the kept file itself */
    struct str name;    /* of the spool's entry; empty: the server makes one, and the CSID */
    const char *host;   /* of a name that is made */
    int64_t now_ns;     /* since 1970, UTC */
    struct actor actor; /* the submitter, and whose tenant it is */
    const struct changeset_limits *limits;
    bool again;          /* also if a change set with the same content has ended */
    struct blobs *blobs; /* NULL: a check, nothing is kept */
    const char *program; /* as unpack_order's; NULL: this one */
};

struct intake {
    struct changeset_def def;
    struct unpack_result content;
    struct blob_hold hold; /* of the kept tarball */
};

/* intake_read: everything in *out lives in the arena; err->arena must be set. */
bool intake_read(const struct intake_order *order, struct arena *arena, struct intake *out, struct err *err);

/* intake_settle: what intake_read has kept stays (accepted, or it isn't known), or goes if it is nobody else's. It may
 * wait for the disk or the network. Once for each good intake_read with blobs. */
void intake_settle(struct blobs *blobs, const struct intake *intake, bool accepted);

/* intake_meta: a change set without a tarball, of its `meta` alone: a rollback (a job file of the spool). */
bool intake_meta(
    const struct intake_order *order, struct str meta, struct arena *arena, struct intake *out, struct err *err);

/* intake_conflicts: what would be in the way of a change set now, if it were applied to this place: looks into the
 * repository, writes nothing there. The files are unpacked below `temp_dir` and removed again. A repository that can't
 * be looked into now is false, with an error; a change set that can't be applied at all is a conflict. It takes as long
 * as the repository's server. */
struct intake_place {
    enum archive_kind kind; /* svn or git */
    struct str url, branch, path;
};
struct intake_conflict {
    struct str path, revision, csid, text; /* revision, csid: that are in the way, if they are known */
    unsigned first_line, last_line;        /* 0: not by lines */
};
bool intake_conflicts(const struct intake_order *order, const struct intake *intake, const struct intake_place *place,
    const char *temp_dir, struct arena *arena, struct intake_conflict **out, size_t *out_n, struct err *err);

/* intake_diff: what a change set changes, as a unified diff: of the branch as it is, or, if it is applied, as it was
 * before it. The text ends early when `out` is full. Refusals as those of intake_conflicts; not_found: a forced push
 * has taken its commit away. */
struct intake_diff_order {
    int tarball_fd;
    const unsigned char *sha256; /* of the tarball */
    const struct changeset_limits *limits;
    const struct intake_place *place;
    struct str revision; /* that it became; empty: it isn't applied */
    struct str before;   /* git: the head that its first attempt recorded; empty: none did */
    const char *program; /* as unpack_order's */
};
bool intake_diff(
    const struct intake_diff_order *order, const char *temp_dir, struct arena *arena, struct buf *out, struct err *err);

/* intake_temp_file: a file without a name, for a tarball that comes; -1: err. Where the file system has no such files
 * it has one for a moment, and a crash then leaves it: intake_temp_open removes it.
 * The folder is made if it isn't there (0700). */
#define INTAKE_TEMP_PREFIX "intake." /* of the names of all that is made there */
bool intake_temp_open(const char *dir, struct err *err);
int intake_temp_file(const char *dir, struct err *err);

/* intake_tarball_bytes_max: the longest tarball that may hold what the limits allow. */
uint64_t intake_tarball_bytes_max(const struct changeset_limits *limits);

#endif
