/* agent: the executor daemon. It registers with a server, keeps one long poll open, has shims run the granted tasks
 * (shim_handle.h), streams their logs and reports their ends.
 *
 * Everything happens on one loop in one thread. The agent may die at any moment: what it must not forget is in the
 * shims' directories, written by the agent before a job starts and by the shim before it reports an end. */
#ifndef WEIR_EXEC_AGENT_H
#define WEIR_EXEC_AGENT_H

#include "base/list.h"
#include "exec/shim/shim_handle.h"
#include "exec/kind.h"
#include "io/client.h"
#include "io/loop.h"

struct agent_config {
    const char *const *servers; /* in order of preference */
    size_t n_servers;
    const char *data;  /* the directory; created if it isn't there */
    const char *name;  /* NULL: the name stored in the directory, else one made from the host's name */
    const char *zone;  /* NULL: none */
    const char *token; /* NULL: none */
    const char *ca_file, *client_cert, *client_key; /* as in client.h */
    const char *const *labels;                      /* "K=V" */
    size_t n_labels;
    int64_t slots, grace_ms;
    uint64_t log_bytes_max;
    bool apply;            /* it takes change sets */
    bool beside;           /* started by a server on this machine: ends when that is gone and no job runs */
    const char *container; /* NULL: podman or docker, whichever is found */
    const char *const *container_options; /* NULL-ended; NULL: none */
};

int agent_run(const struct agent_config *config); /* runs until a signal or the server ends it; returns the exit code */

/* --- private to the agent's own files: agent.c (life), poll.c (talk with the server), report.c, send.c --- */

/* A grant that waits a moment for a slot. */
struct grant_ahead {
    struct list_node node;
    json_t *grant;
};

/* Grants beyond the slots, taken while jobs are very short, see poll.c. */
struct agent_ahead {
    struct list grants;  /* struct grant_ahead */
    int64_t until_ms;    /* boot time at which those that aren't started go back */
    int64_t job_us;      /* running average of how long a job takes; 0: not known */
    unsigned jobs_timed; /* jobs in that average */
};

/* A poll under way. */
struct poll_call {
    struct list_node node; /* of polls.all */
    struct agent *agent;
    int64_t seq, sent_ms, wait_ms;
    bool quick;                /* carries ends: the server answers at once and doesn't hold it */
    struct shim_handle **told; /* shims whose ends it carries, in order */
    size_t n_told;
    unsigned unread; /* answers to it that could not be read */
};

struct agent_polls {
    int64_t seq;     /* of the newest poll; grows for ever, also over restarts of the agent */
    char seen[96];   /* the newest event that the server named: a store that names an older one is an older copy */
    struct buf body; /* of the newest poll, for sending it again */
    struct list all; /* also overtaken polls that still wait for their answer */
    struct poll_call *newest; /* while it is under way */
    struct poll_call *ends;   /* ends that are sent beside the poll, while they are under way */
    struct poll_call *again;  /* the newest poll, while it waits to be sent again */
    int64_t free;             /* slots that the newest poll reported free */
    int64_t long_at_ms;       /* the next long poll isn't sent before */
};

struct agent {
    const struct agent_config *config;
    struct loop *loop;
    struct client **clients; /* one per server */
    size_t server;           /* index of the one in use */
    char *dir, *name, *path, *lang, *host;
    const char *container;
    char instance[33];
    int lock_fd, shims_fd;
    bool stopping; /* SIGINT: all jobs are to end, then the agent */
    bool draining;
    int64_t stop_at; /* boot ms; 0: none */
    int exit_status;

    bool registered;
    char id[64]; /* the server's id of this executor */
    int64_t lease_ms;
    int64_t heard_ms;          /* boot time at which the last answered poll was sent */
    int64_t silent_since_ms;   /* boot time of the first failure in a row; 0: the server answers */
    enum err_code silent_code; /* of the failure that was logged last */
    int64_t answer_by_ms;      /* boot time by which the newest registration or poll should be answered */
    unsigned failures;         /* in a row */
    unsigned refusals;         /* polls that the server refused since it accepted one */
    bool careful;              /* an answer could not be read: ask for one grant at a time until one can */
    bool hung;                 /* the last failure was a time-out: ask the next server at once */
    bool unheard;              /* no poll has been answered since we registered, or since the last failure */
    struct loop_timer retry, stop, idle;

    int64_t found_ms; /* boot time at which the shims of an earlier agent were adopted */
    struct agent_polls polls;
    struct agent_ahead ahead;
    int64_t sick_until_ms; /* boot time; a job could not be started here: take no new ones before */

    struct shim_handle **handles;
    size_t n_handles;
    struct arena scratch;
};

struct client *agent_client(struct agent *agent);
size_t agent_running(const struct agent *agent);
/* agent_poll_if_due, poll.c: sends what is due; false: nothing is, and *out_next is the boot ms of the next try. */
bool agent_poll_if_due(struct agent *agent, int64_t *out_next);
void agent_register(struct agent *agent); /* poll.c */
void agent_answered(struct agent *agent, int64_t sent_ms);
void agent_failed(struct agent *agent, const char *what, const struct err *err);
struct shim_handle *agent_find(struct agent *agent, struct str fence); /* NULL: no job of that grant is here */
struct shim_handle *agent_idle_handle(struct agent *agent); /* an idle one, or a new one; NULL: it can't be made */
void agent_timed(struct agent *agent, int64_t started_us);  /* a job has ended: its time goes into the average */
void agent_forget_ahead(struct agent *agent); /* poll.c: grants ahead go back to the server, by not being renewed */
void agent_check_end(struct agent *agent);    /* ends the agent if it has a reason to and nothing left to do */
struct place agent_place(const struct agent *agent, const struct shim_handle *handle);

/* send.c: a job's artifacts, one after the other, before its end is reported */
void send_begin(struct shim_handle *handle); /* the job has ended: reads which files there are */
bool send_done(const struct shim_handle *handle);
void send_next(struct shim_handle *handle); /* sends the next piece; no request of this job may be under way */
char *send_path(const struct shim_handle *handle, struct arena *arena); /* URL path of the request with that piece */
void send_add(struct shim_handle *handle, const char *hash);   /* the server has the whole file: the finish lists it */
void send_item(struct shim_handle *handle, struct json *json); /* `artifacts` of its finish */
void send_forget(struct shim_handle *handle);

/* report.c */
void report_later(struct shim_handle *handle, int64_t ms);
int64_t report_backoff(unsigned tries);
void report_log(struct shim_handle *handle);    /* sends what there is to send and may be sent now */
void report_forget(struct shim_handle *handle); /* cancels the request and the timer of its job */
/* report_before_end: how many bytes of its log the server must have stored before the end that was sent. */
int64_t report_before_end(const struct shim_handle *handle);
void report_doubt(struct shim_handle *handle);       /* the server failed: bytes that weren't durable may be lost */
bool report_ready(const struct shim_handle *handle); /* its end can go into the next poll */
void report_item(struct shim_handle *handle, struct json *json);
bool report_unreadable(int status); /* the HTTP status says that the server can't read the request */
void report_result(struct shim_handle *handle, int status, struct str code);
/* report_note: appends a line of ours to an ended job's log. */
void report_note(struct shim_handle *handle, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
