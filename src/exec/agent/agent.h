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
    const char *data;  /* the directory; made when it isn't there */
    const char *name;  /* NULL: the one stored in the directory, else made from the host's name */
    const char *zone;  /* NULL: none */
    const char *token; /* NULL: none */
    const char *ca_file, *client_cert, *client_key; /* as in client.h */
    const char *const *labels;                      /* "K=V" */
    size_t n_labels;
    int64_t slots, grace_ms;
    uint64_t log_bytes_max;
    bool beside;           /* belongs to a server on this machine: ends when that is gone and no job runs */
    const char *container; /* NULL: podman or docker, whichever is found */
    const char *const *container_options; /* NULL-ended; NULL: none */
};

int agent_run(const struct agent_config *config); /* until it is told to end; the exit code */

/* --- private to the agent's own files: agent.c (life), poll.c (talk), report.c (logs and ends) --- */

/* A grant that waits a moment for a slot. */
struct grant_ahead {
    struct list_node node;
    json_t *grant;
};

/* One poll on its way. */
struct poll_call {
    struct list_node node; /* of agent.calls */
    struct agent *agent;
    int64_t seq, sent_ms, wait_ms;
    bool quick;                /* carries ends: answered at once, never parked */
    struct shim_handle **told; /* handles whose end it carries, in order */
    size_t n_told;
    unsigned unread; /* answers to it that brought nothing */
};

struct agent {
    const struct agent_config *config;
    struct loop *loop;
    struct client **clients; /* one per server */
    size_t server;           /* the one in use */
    char *dir, *name, *path, *lang, *host;
    const char *container;
    char instance[33];
    int lock_fd, shims_fd;
    bool stopping; /* SIGINT: everything ends */
    bool draining;
    int64_t stop_at; /* boot ms; 0: none */
    int exit_status;

    bool registered;
    char id[64]; /* as the server calls us */
    int64_t lease_ms;
    int64_t heard_ms;          /* boot time when the last poll that was answered was sent */
    int64_t silent_since_ms;   /* boot time of the first failure in a row; 0: the server answers */
    enum err_code silent_code; /* why, as it was logged last */
    int64_t answer_by_ms;      /* boot time when the newest registration or poll should have an answer */
    unsigned failures;
    unsigned refusals; /* polls that the server refused since it took one */
    bool careful;      /* an answer could not be read: one grant at a time until one is */
    bool hung;         /* the last failure was such a silence: the next server is asked at once */
    bool unheard;      /* we registered, or something failed, and no poll has been answered since */
    struct loop_timer retry, pause, stop, idle;

    int64_t found_ms; /* boot time when shims of an earlier life were looked for */
    int64_t seq;      /* of polls: upwards for ever, also over our own restarts */
    /* the newest event that the server told us of, as it said it: a store below it is an older copy */
    char seen[96];
    struct buf body;         /* of the newest poll, for sending it again */
    struct list calls;       /* all polls, also overtaken ones that still wait for their answer */
    struct poll_call *call;  /* the newest poll, while it is on its way */
    struct poll_call *ends;  /* ends that go beside the poll, while they are on their way */
    struct poll_call *again; /* the newest poll, while it waits for being sent again */
    int64_t told_free;
    int64_t long_at_ms; /* the next long poll isn't opened before */

    struct list waiting; /* grants ahead of their slot, see poll.c */
    int64_t waiting_until_ms;
    int64_t sick_until_ms; /* a job could not be started here: no new ones before */
    int64_t job_us;        /* how long a job takes these days; 0: not known */
    unsigned jobs_timed;

    struct shim_handle **handles;
    size_t n_handles;
    struct arena scratch;
};

struct client *agent_client(struct agent *agent);
size_t agent_running(const struct agent *agent);
bool agent_poll_if_due(
    /* poll.c: sends what there is to say; *out_next: boot ms of the next look */
    struct agent *agent, int64_t *out_next);
void agent_register(struct agent *agent); /* poll.c */
void agent_answered(struct agent *agent, int64_t sent_ms);
void agent_failed(struct agent *agent, const char *what, const struct err *err);
struct shim_handle *agent_find(struct agent *agent, struct str fence);
struct shim_handle *agent_idle_handle(struct agent *agent); /* an idle one, or a new one; NULL: none can be made */
void agent_timed(struct agent *agent, int64_t started_us);  /* a job has ended */
void agent_forget_ahead(struct agent *agent);               /* poll.c: grants that wait go back, by not being renewed */
void agent_check_end(struct agent *agent);                  /* is there a reason to end, and nothing left to do? */
struct place agent_place(const struct agent *agent, const struct shim_handle *handle);

/* send.c: the files that a job keeps, one after the other, before its end is told */
void send_begin(struct shim_handle *handle); /* the job has ended: what is there? */
bool send_done(const struct shim_handle *handle);
void send_next(struct shim_handle *handle); /* the next piece, when no request of the handle is on its way */
char *send_path(const struct shim_handle *handle, struct arena *arena); /* of the request with that piece */
void send_add(
    struct shim_handle *handle, const char *hash); /* the server has taken the whole file: the finish lists it */
void send_item(struct shim_handle *handle, struct json *json); /* `artifacts` of its finish */
void send_forget(struct shim_handle *handle);

/* report.c */
void report_later(struct shim_handle *handle, int64_t ms);
int64_t report_backoff(unsigned tries);
void report_log(struct shim_handle *handle);    /* sends what is there and may be sent now */
void report_forget(struct shim_handle *handle); /* stops whatever is under way for the handle's job */
/* so many bytes of its log were to be stored before the end that was told */
int64_t report_before_end(const struct shim_handle *handle);
void report_doubt(struct shim_handle *handle); /* the server failed: what it had not made durable may be gone with it */
bool report_ready(const struct shim_handle *handle); /* its end can go into the next poll */
void report_item(struct shim_handle *handle, struct json *json);
bool report_unreadable(int status); /* the server says by it that it can't read what it was sent */
void report_result(struct shim_handle *handle, int status, struct str code);
/* report_note: a line of ours behind an ended job's log. */
void report_note(struct shim_handle *handle, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
