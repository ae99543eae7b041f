/* job: one attempt as a shim sees it (argv, environment, limits), and the two records that outlive processes.
 *
 * `DIR/shims/N/job` is written by the agent before the job starts; `DIR/shims/N/status` by the shim when it started and
 * when it ended. A status counts only for the job with the same fence. Both are plain files on one machine, so numbers
 * are stored as the machine has them; a record that is torn, or was written by another version, is refused by its magic
 * and its hash. */
#ifndef WEIR_EXEC_JOB_H
#define WEIR_EXEC_JOB_H

#include "base/buf.h"
#include "base/err.h"
#include "core/model.h"

enum { FENCE_MAX = 200, JOB_STRINGS_MAX = 100000, REASON_MAX = 199 };
#define JOB_BYTES_MAX ((size_t)64 << 20)

struct job_limits { /* 0: none */
    int64_t memory_bytes, pids, cpu_s, files, file_bytes, disk_bytes;
};

struct tree_request { /* the archive's files, see tree_cache.h */
    int64_t kind;     /* enum archive_kind; ARCHIVE_NONE: an empty working directory */
    struct str archive, url;
    struct str branch, commit; /* git; branch empty: any */
    struct str server, token;  /* the server that sends the tree when the repository isn't on this machine */
    int64_t rev;
    bool copy; /* as plain files in work/, not as a mount */
};

struct job {
    int64_t task;
    struct str fence;
    bool holds;         /* holds a slot: must be dead before its lease expires */
    int64_t timeout_ms; /* 0: none */
    int64_t grace_ms;
    struct job_limits limits;
    uint64_t log_bytes_max;
    char **argv, **envp;     /* ended by NULL */
    struct str script;       /* goes to io/script; empty: none */
    struct str needs, input; /* go to io/needs and io/input; empty: none */
    char *container;         /* program that ends the container named in io/cid; NULL: no container */
    struct tree_request checkout;
    bool strict;        /* sandbox: strict */
    char **artifacts;   /* patterns of files to keep, ended by NULL; NULL: none */
    struct str refusal; /* not empty: why it can't be run */
    int64_t refusal_exit;
    struct str note; /* its log begins with it; empty: none */
    bool applies;    /* it is `weir apply`: its finish has a revision, and a reason from io/reason */
};

/* job_pack: the record with its head. job_unpack: *bytes must live as long as the job, whose strings point into it. */
void job_pack(const struct job *job, struct buf *out);
bool job_unpack(struct str bytes, struct arena *arena, struct job *out, struct err *err);

/* The head of the record: `released` is set in place once the server has everything of this job. */
struct job_head {
    char magic[4];
    uint32_t released;
    uint64_t body_bytes, hash;
};
#define JOB_RELEASED_AT offsetof(struct job_head, released)

enum status_state { STATUS_NONE, STATUS_RUNNING, STATUS_ENDED };
struct status {
    uint32_t magic;
    uint32_t state; /* enum status_state */
    char fence[FENCE_MAX + 1];
    int32_t pid;
    int32_t exit, signo; /* -1: none */
    /* enum outcome: none, timeout, lost, or temporary or permanent (it could not be checked out) */
    uint32_t outcome;
    int64_t task;
    int64_t started_ms, finished_ms; /* wall clock */
    int64_t cpu_us, max_rss_bytes;
    int64_t log_bytes; /* what the log file holds, the mark of a cut included */
    /* why it ended so, if the shim knows; empty: it doesn't. Earlier versions' records end before this member */
    char reason[REASON_MAX + 1];
};
#define STATUS_MAGIC 0x31545357U
bool status_fits(const struct status *status, struct str fence); /* readable, and of this fence */

#endif
