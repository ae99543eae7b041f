/* unpack: a change set's tarball checked, or unpacked into a directory, by a confined process of its own.
 *
 * The caller gives a descriptor of a regular file that it owns, best one without a name (O_TMPFILE, or unlinked). The
 * bytes are read from it once for each call, hashed while they are read, and given to the child: sha256 is the hash of
 * exactly the bytes that the result speaks of. A caller that wants the same bytes again compares the hash.
 *
 * The child is assumed to be in the hands of the tarball's author as soon as it has read it. It can then report other
 * files, sizes or another meta than the tarball has, which its author could have put there to begin with; it can't
 * report a path that a change set may not have, more than the limits allow, or a file that isn't in ##files, because
 * all that is decided here, from its reports; and it can't read, write or reach anything but the directory.
 *
 * Refusals are err with items (path; file `meta` and line where meta is at fault): invalid (422), body_too_large (413:
 * beyond a limit, or too slow), bad_request (400: empty). Others: io, disk_full, unavailable. After a refusal the
 * directory is empty again. Both calls block; unpack_start runs them beside a loop. How many run at a time is for the
 * caller to bound. */
#ifndef WEIR_UNPACK_UNPACK_H
#define WEIR_UNPACK_UNPACK_H

#include <pthread.h>
#include <stdatomic.h>

#include "text/changeset_meta.h"
#include "unpack/confine.h"
#include "unpack/process.h"

struct loop;

#define UNPACK_TIMEOUT_MS 120000

struct unpack_order {
    int tarball_fd;
    const struct changeset_limits *limits;
    struct str csid;                   /* empty: not known yet */
    const struct changeset_name *name; /* NULL: not known yet */
    const unsigned char *sha256;       /* the hash that the bytes must have; NULL: any */
    int64_t timeout_ms;                /* 0: UNPACK_TIMEOUT_MS */
    const char *program;               /* NULL: this one (/proc/self/exe), which knows the command `unpack` */
};

struct unpack_file {
    struct str path; /* below lroot/ */
    uint64_t size;
    bool is_executable;
};

struct unpack_result {
    struct changeset_meta meta; /* read, checked and compared with the files */
    struct unpack_file *files;  /* those of ##files, in the order of the tarball */
    size_t n_files, cap_files;
    uint64_t n_bytes; /* of all files */
    uint64_t tarball_bytes;
    unsigned char sha256[UNPACK_HASH_BYTES];
    struct confined confined; /* how the child was confined; set also when the tarball was refused */
};

/* unpack_check: stores nothing. Everything in the result lives in the arena; err->arena must be set. */
bool unpack_check(const struct unpack_order *order, struct arena *arena, struct unpack_result *out, struct err *err);

/* unpack_extract: the same, and writes `meta` and `lroot/` into the directory, which must be empty; syncs nothing. */
bool unpack_extract(
    const struct unpack_order *order, int dir_fd, struct arena *arena, struct unpack_result *out, struct err *err);

/* unpack_is_confined: false: this kernel (or build) lacks a part of the confinement; *out_missing says which. */
bool unpack_is_confined(const struct confined *confined, const char **out_missing);

/* unpack_start: one of the two on a thread of its own; `done` is called on the loop's thread. The job stays where it is
 * until then; unpack_release gives back what it holds. unpack_stop: kills the child and waits for the thread; `done`
 * isn't called. */
struct unpack_job {
    struct unpack_order order;
    int dir_fd; /* -1: check */
    void (*done)(struct unpack_job *job);
    void *owner;
    struct arena arena;
    struct unpack_result result;
    struct err err;
    bool is_good;
    struct loop *loop; /* the rest: private */
    pthread_t thread;
    atomic_bool has_ended;
    int stop_fd;
};
bool unpack_start(struct unpack_job *job, struct loop *loop, struct err *err);
void unpack_stop(struct unpack_job *job);
void unpack_release(struct unpack_job *job);

#endif
