/* shim_handle: the agent's side of one shim: its directory DIR/shims/N, its process, and the job it runs.
 *
 * Directories and shims outlive agents: shim_handle_find_all opens every directory that an earlier agent left, adopts
 * the shims that live and reports what the dead ones recorded. A job whose shim died without recording its end is
 * lost; the agent kills its processes before it reports that. */
#ifndef WEIR_EXEC_SHIM_HANDLE_H
#define WEIR_EXEC_SHIM_HANDLE_H

#include <jansson.h>

#include "exec/job.h"
#include "exec/artifacts.h"
#include "exec/shim/shim_message.h"
#include "io/client.h"
#include "io/loop.h"
#include "text/json.h"

struct agent;

enum shim_handle_state {
    HANDLE_EMPTY,    /* no shim, no job */
    HANDLE_IDLE,     /* a shim that waits for a job */
    HANDLE_RUNNING,  /* started; also while the shim ends it */
    HANDLE_ENDED,    /* the status is known, the server doesn't have it yet */
    HANDLE_SETTLING, /* the server has the end, but hasn't reported the whole log durable yet */
    HANDLE_DROPPED,  /* the server doesn't want the result: the job is killed, then the shim is idle */
};

/* The artifacts of an ended job on their way to the server, see artifacts.h and send.c. */
struct upload {
    struct arena arena;
    struct artifact *files;
    size_t n, at;    /* at: the file that is being sent */
    int64_t offset;  /* in that file */
    bool wanted;     /* the job has patterns */
    bool listed;     /* the finish lists what was sent */
    struct buf list; /* members of that list so far, as JSON */
    unsigned rounds; /* how often the server has asked for bytes of this file again */
    bool resent;     /* the server had forgotten what was sent: everything was sent once more */
};

struct shim_handle {
    struct agent *agent;
    unsigned number;
    enum shim_handle_state state;
    char *dir;
    int dir_fd, job_fd, log_fd, status_fd;
    pid_t pid;           /* the shim, if it is our child; 0: it isn't, or there is none */
    struct loop_fd conn; /* fd -1: no shim */
    int64_t idle_since_ms;

    int64_t task;
    char fence[FENCE_MAX + 1];
    bool adopted; /* started by an earlier agent */
    bool unheard; /* adopted, and the shim hasn't sent HELLO yet: it may be ending, and its job may never have begun */
    bool holds;   /* the job must be dead before its lease expires */
    bool contained; /* the job runs in a container */
    bool applies;   /* it is a change set */
    int64_t grace_ms;
    int signalled;         /* the strongest signal sent so far; 0: none */
    int64_t lease_told_ms; /* boot time of the deadline that the shim was sent last */
    int64_t started_us;    /* boot time of START; 0: sent by an earlier agent */
    struct status status;

    int64_t log_bytes;       /* in the log file, as far as the shim has reported */
    int64_t stored, durable; /* of them at the server */
    int64_t settle_bytes;    /* SETTLING: so many must become durable */
    bool probe;              /* how many the server has isn't known: ask by sending one byte */
    bool log_dead;           /* the server refuses this log; the end is reported without it */
    struct upload upload;
    bool alone; /* the server could not read a request with this end among others: send it by itself */
    /* the server could not read this end: 1: send it without outputs and artifacts, 2: without its log too */
    unsigned bare;
    struct client_request *post; /* the log or artifact request under way; NULL: none */
    struct client *post_client;
    struct loop_timer retry;
    unsigned tries;
    int64_t finish_at_ms; /* the end isn't sent again before */
    bool told;            /* a request with its end is under way */
    int64_t inline_from;  /* offset of the log bytes that this request carries; -1: none */
};

struct shim_handle *shim_handle_new(struct agent *agent, unsigned number, struct err *err);
void shim_handle_free(struct shim_handle *handle); /* the shim lives on; it ends by itself when it has no job */
bool shim_handle_find_all(struct agent *agent, struct err *err);

/* shim_handle_start: writes the job record and sends START; spawns a shim first if there is none. */
bool shim_handle_start(struct shim_handle *handle, int64_t task, struct str fence, const json_t *spec, struct err *err);
void shim_handle_signal(struct shim_handle *handle, int signo, int64_t grace_ms, enum outcome outcome);
bool shim_handle_needs_lease(const struct shim_handle *handle); /* its job must not outlive the lease */
void shim_handle_lease(struct shim_handle *handle);             /* sends the shim of such a job its new deadline */
void shim_handle_drop(struct shim_handle *handle);              /* kills the job and forgets it */
void shim_handle_release(struct shim_handle *handle);           /* the server has everything of its job */
void shim_handle_retire(struct shim_handle *handle);            /* ends an idle shim */

#endif
