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
    HANDLE_IDLE,     /* a shim that waits */
    HANDLE_RUNNING,  /* started; also while the shim ends it */
    HANDLE_ENDED,    /* the status is known, the server doesn't have it yet */
    HANDLE_SETTLING, /* the server has it, but not yet all of the log for good */
    HANDLE_DROPPED,  /* nobody wants the result: dies, then idle */
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
    bool adopted;          /* found by this agent, started by an earlier one */
    bool unheard;          /* adopted, and its shim has not said yet that it stays, and whether its job ever began */
    bool holds, contained; /* contained: it runs in a container */
    int64_t grace_ms;
    int signalled; /* the strongest signal sent so far; 0: none */
    int64_t lease_told_ms;
    int64_t started_us; /* boot time of START; 0: by an earlier agent */
    struct status status;

    int64_t log_bytes;       /* in the log file, as far as told */
    int64_t stored, durable; /* at the server */
    int64_t settle_bytes;    /* SETTLING: this much of it must be durable */
    bool probe;              /* what the server has isn't known: ask with one byte */
    bool log_dead;           /* the server won't take this log; the end is reported without */
    struct arena kept_arena; /* what its job wants kept, see artifacts.h and send.c */
    struct artifact *kept;
    size_t n_kept, kept_at; /* kept_at: the one that is being sent */
    int64_t kept_offset;
    bool wants, keeps;    /* its job has patterns; the finish lists what was sent */
    struct buf kept_list; /* members of that list so far */
    unsigned kept_rounds; /* how often the server has wanted bytes of it again */
    bool resent;          /* the server knew nothing of what was sent: all of it was sent once more */
    bool alone;           /* the server refused a request with its end among others: it is told by itself */
    /* the server refused its end as it was: 1: told without outputs and artifacts, 2: without its log too */
    unsigned bare;
    struct client_request *post; /* the log request on its way; NULL: none */
    struct client *post_client;
    struct loop_timer retry;
    unsigned tries;
    int64_t finish_at_ms; /* the end isn't told again before */
    bool told;            /* a poll with its end is on its way */
    int64_t inline_from;  /* offset of the log bytes that this poll carries; -1: none */
};

struct shim_handle *shim_handle_new(struct agent *agent, unsigned number, struct err *err);
void shim_handle_free(
    struct shim_handle *handle); /* leaves the shim alone: it ends by itself when it has nothing to do */
bool shim_handle_find_all(struct agent *agent, struct err *err);

/* shim_handle_start: writes the record and says START; spawns a shim first when there is none. */
bool shim_handle_start(struct shim_handle *handle, int64_t task, struct str fence, const json_t *spec, struct err *err);
void shim_handle_signal(struct shim_handle *handle, int signo, int64_t grace_ms, enum outcome outcome);
bool shim_handle_needs_lease(const struct shim_handle *handle); /* its job dies with the lease */
void shim_handle_lease(
    struct shim_handle *handle); /* tells the shim of a job that must not outlive its lease when that is */
void shim_handle_drop(struct shim_handle *handle);    /* kill and forget */
void shim_handle_release(struct shim_handle *handle); /* everything of its job is at the server */
void shim_handle_retire(struct shim_handle *handle);  /* an idle shim ends */

#endif
