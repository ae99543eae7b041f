/* seat: the agent's side of one shim: its directory DIR/shims/N, its process, and the job it runs.
 *
 * A seat outlives agents: seat_find_all opens every directory that an earlier agent left, adopts the shims that live
 * and takes over what the dead ones wrote. A job whose shim died without a word is lost; its processes are killed
 * before anybody is told. */
#ifndef WEIR_EXEC_SEAT_H
#define WEIR_EXEC_SEAT_H

#include <jansson.h>

#include "exec/job.h"
#include "exec/keep.h"
#include "exec/wire.h"
#include "io/client.h"
#include "io/loop.h"
#include "text/json.h"

struct agent;

enum seat_state {
    SEAT_EMPTY,    /* no shim, no job */
    SEAT_IDLE,     /* a shim that waits */
    SEAT_RUNNING,  /* started; also while the shim ends it */
    SEAT_ENDED,    /* the status is known, the server doesn't have it yet */
    SEAT_SETTLING, /* the server has it, but not yet all of the log for good */
    SEAT_DROPPED,  /* nobody wants the result: dies, then idle */
};

struct seat {
    struct agent *agent;
    unsigned number;
    enum seat_state state;
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

    int64_t spool_bytes;     /* in the log file, as far as told */
    int64_t stored, durable; /* at the server */
    int64_t settle_bytes;    /* SETTLING: this much of it must be durable */
    bool probe;              /* what the server has isn't known: ask with one byte */
    bool log_dead;           /* the server won't take this log; the end is reported without */
    struct arena kept_arena; /* what its job wants kept, see keep.h and send.c */
    struct kept *kept;
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

struct seat *seat_new(struct agent *agent, unsigned number, struct err *err);
void seat_free(struct seat *seat); /* leaves the shim alone: it ends by itself when it has nothing to do */
bool seat_find_all(struct agent *agent, struct err *err);

/* seat_start: writes the record and says START; spawns a shim first when there is none. */
bool seat_start(struct seat *seat, int64_t task, struct str fence, const json_t *spec, struct err *err);
void seat_signal(struct seat *seat, int signo, int64_t grace_ms, enum outcome outcome);
bool seat_needs_lease(const struct seat *seat); /* its job dies with the lease */
void seat_lease(struct seat *seat);   /* tells the shim of a job that must not outlive its lease when that is */
void seat_drop(struct seat *seat);    /* kill and forget */
void seat_release(struct seat *seat); /* everything of its job is at the server */
void seat_retire(struct seat *seat);  /* an idle shim ends */

#endif
