/* call: one request on its way through the api, and what the handlers share. Private to this room.
 *
 * A call has its own arena, because a command outlives a client that went away. It ends by exactly one of call_answer*,
 * call_problem, call_refuse or, for streams, call_stream_end; after that it must not be touched. A handler that submits
 * a command returns at once; the command's `done` ends the call. */
#ifndef WEIR_API_CALL_H
#define WEIR_API_CALL_H

#include <jansson.h>

#include "api/api.h"
#include "base/list.h"
#include "base/map.h"
#include "engine/engine.h"
#include "store/read.h"
#include "text/changeset.h"
#include "text/json.h"
#include "text/json_read.h"
#include "text/json_value.h"

enum { SCOPE_OPEN = 0, SCOPE_SITE = 16, /* the site's admin */ REASON_BYTES_MAX = 1000 };
#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)
#define BODY_IN_FILE SIZE_MAX

/* A handler ends its call, or hands it on: to the engine, a thread, the loop. True: it goes well so far; false: it was
 * refused. All functions below that end a call or hand it on say the same, so that a handler ends with
 * `return call_refuse(...)`. */
struct call;
typedef bool handler_fn(struct call *call);

struct route {
    const char *method, *path; /* at most two {name}; {file} takes slashes */
    unsigned scope;            /* one of SCOPE_; SCOPE_OPEN: anybody */
    handler_fn *handler;
    /* On PostgreSQL a handler that is ON_THREAD touches nothing of struct api but reader, names, scratch, tenants,
     * files_used, workflows, the keys and what is thread-safe (engine, logs, blobs, watch_status). */
    enum { ON_LOOP, ON_THREAD } where;
    size_t body_max;      /* BODY_IN_FILE: the handler runs at the head, and takes the body into a file */
    const char *params;   /* query parameters, blank-separated */
    const char *request;  /* schema of the body, NULL: none */
    const char *response; /* schema of the good answer, NULL: none */
    int status;
    const char *summary;
};
extern const struct route routes[];
extern const size_t n_routes;

/* route_find: NULL: none; *out_allow then lists the methods that the path knows, blank if it is unknown. */
enum { ROUTE_ARGS = 2 };
bool url_has_token(struct str query);
const struct route *route_find(
    struct str method, struct str path, struct str out_args[ROUTE_ARGS], struct buf *out_allow);

struct call {
    struct api *api;
    struct http_request *request; /* NULL: the client is gone */
    const struct route *route;
    struct str arg, arg2; /* what the {...} stand for */
    struct arena arena;
    struct actor actor;
    unsigned scopes;
    int64_t turn;            /* of the store: what the answer tells is at least as new */
    int64_t token;           /* the id of the token it was asked with; 0: none */
    int64_t token_expires;   /* wall ms; 0: never */
    bool streams;            /* its answer has begun and goes on */
    bool follows;            /* a stream without an end of its own: its client asks again when it ends */
    uint64_t tokens_version; /* of the engine's tokens, when the token was checked */
    /* what it waits or has waited for: nothing; the store; the store's newest commit; KNOWN: its client is known */
    enum { CALL_ASKS, CALL_MISSES, CALL_FOLLOWS, CALL_KNOWN } stage;
    bool site;         /* the site's admin asks: `admin` in the tenant `default` */
    bool tenant_named; /* actor.tenant comes from ?tenant=, not from the credential */
    int64_t job;       /* the task whose job asks, by its own token; 0: somebody else */
    struct err err;
    struct buf out;
    struct str text;             /* the body's bytes, kept as long as the call */
    const struct doc_node *body; /* read; points into text */
    struct command command;
    handler_fn *done;       /* what follows the command */
    void *state;            /* the handler's, in arena */
    struct str lane_wanted; /* QUEUE of a key QUEUE:ID: must be the task's */
    bool submitted;
    /* not NULL: a read thread has the call. `request` is then a copy; the client's own is here, for the loop alone */
    struct http_request **on_thread;
    struct call_reading { /* read_threads.c */
        struct call_param {
            struct str name, value;
        } * params, *headers; /* of that copy */
        size_t n_params, n_headers;
        int64_t since;         /* boot ms: when it was queued for this read; 0: nothing is read */
        int answered;          /* how it ended: with this status and `out` as its body; 0: with a problem; or one of: */
#define CALL_BACK_TO_LOOP (-1) /* `on_loop` goes on */
#define CALL_SUBMITS (-2)      /* its command is submitted, then `on_loop` */
        handler_fn *on_loop;
        const char *answer_type;
        struct read_item *item;
    } reading;
    struct call_asker *asker;              /* what was read of who asks (auth.c); NULL: nothing had to be */
    bool again;                            /* it was served before, and the store was lost on the way */
    void (*on_gone)(struct call *call);    /* the client went away; the call may stay until its command is done */
    void (*on_release)(struct call *call); /* the end, in any case */
    struct list_node node;                 /* api->calls or api->idle */
};

struct api_tenant {
    int64_t requests;  /* a second, at most; -1: any */
    int64_t files;     /* bytes of kept files, at most; -1: any */
    bool runs_limited; /* its running tasks are */
    int64_t quota;     /* the slot that they take; 0: not looked for */
    int64_t second, n; /* so many in this one */
};

struct guesses { /* bad tokens of one source in one second */
    uint64_t source;
    int64_t second;
    unsigned n;
};
enum { GUESS_SOURCES = 256, GUESSES_PER_SECOND = 20 };

struct executor_poll { /* what polls say about an executor's life, faster than its lease */
    unsigned open;
    int64_t last_ms;
    bool waits; /* its last poll was a long one */
};

struct fence_key {
    unsigned char bytes[16];
};

struct read_threads;
struct retention;
struct uploads;
struct blobs;
struct spool;
enum background_pool { POOL_LONG, POOL_FILES, POOL_CHECKS, POOL_COUNT };

struct api {
    struct api_config config;
    struct list calls, idle; /* struct call */
    struct list events_followers, log_followers;
    struct waits { /* wait_for_commit.c */
        struct list calls;
        struct loop_timer check;
        int64_t looked_ms; /* when the store's newest commit was last asked for, by the loop's clock */
        struct store_head head;
        struct site_read {
            struct site_key *keys;
            size_t n;
            uint64_t version;
        } site;
        struct chore *head_chore, *reader_chore, *site_chore;
    } waits;
    struct loop_timer heartbeat, log_check, events_check, token_expiry;
    uint64_t streams_version; /* of the engine's tokens, when those of streams were last checked */
    struct buf openapi, scratch;
    struct blobs *blobs;
    struct spool *spool; /* NULL: this server has none */
    uint64_t incarnation;
    /* of store/secret.h: for jobs' tokens, for tokens made with an Idempotency-Key */
    unsigned char job_key[32], token_key[32];
    struct fence_key fence_key; /* likewise */
    uint64_t requests, refused;
    bool closing;

    struct tenants_known {   /* those of the configuration (auth.c) */
        struct smap by_name; /* -> struct api_tenant in arena */
        struct arena arena;
        uint64_t version; /* the engine's of the site's keys, when they were read */
        bool known;
    } tenants;
    struct guesses guesses[GUESS_SOURCES];
    char uid_text[24]; /* "uid:N" of this process */

    struct map lanes;  /* id -> struct lane_name, malloc */
    struct map keys;   /* task id -> char * (key_keep), for tasks whose lane isn't at hand; emptied when it is large */
    struct map polls;  /* executor id -> struct executor_poll, malloc */
    size_t polls_left; /* of them, when those of executors that have gone went */
    struct {           /* work on other threads (background.c) */
        struct list running, queued[POOL_COUNT];
    } background;
    char *tmp_dir;                     /* where tarballs come in */
    bool unconfined_said;              /* that the kernel lacks a part of what confines the process that unpacks */
    size_t submissions;                /* change sets that come, or are checked (changeset_submit.c) */
    struct read_threads *read_threads; /* NULL: all reads are short, and the loop does them */
    struct retention *retention;
    struct uploads *uploads;
    struct servers {      /* of a shared store (servers.c) */
        struct smap seen; /* name -> struct server_seen, malloc */
        struct loop_timer look;
        struct server_rows {
            struct server_row *rows;
            size_t n;
        } read;
        struct chore *chore;
    } servers;
    struct { /* executor_register.c */
        struct loop_timer tell;
        struct executor_rows {
            struct executor **rows;
            size_t n;
        } read;
        struct chore *chore;
    } executor_register;
    struct files_used { /* bytes of kept files by tenant, as they were a moment ago (uploads.c) */
        struct smap by_tenant;
        struct arena arena;
        int64_t read_ms; /* boot time; 0: never */
        unsigned version;
    } files_used;
    struct posted_workflow { /* read lately: the same text again is the same definition */
        unsigned char hash[16];
        struct definition *definition;
        uint64_t used;
    } workflows[16];
    uint64_t workflows_used;
};

/* --- calls --- */
struct call *call_new(struct api *api, struct http_request *request);
bool call_answer(struct call *call, int status); /* call->out as JSON */
bool call_answer_as(
    struct call *call, int status, const char *content_type, struct str body, const char *const *headers);
bool call_problem(struct call *call);                    /* call->err */
bool call_end(struct call *call, bool good, int status); /* call_answer, or call_problem if not good */
bool call_refuse(struct call *call, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void call_released(struct call *call); /* gives a call back that needs no answer (its stream has ended) */
void call_stream_end(struct call *call);
void call_stream_break(struct call *call); /* the client sees that it isn't whole */
/* ptr NULL: none; on a read thread: only those that read_threads.c copies */
struct str call_header(const struct call *call, const char *name);

/* call_submit: hands call->command to the engine; kind and in are set. `done` ends the call; when the client is gone by
 * then the call is dropped without `done`. */
bool call_submit(struct call *call, handler_fn *done);
/* call_command: what a command is told of its call, which then stays until the command is done; for who submits it
 * itself. */
void call_command(struct call *call);

/* call_json: the body as JSON in call->body; false: answered. call_object: a reader on it. Both refuse what isn't
 * there. */
bool call_json(struct call *call);
bool call_object(struct call *call, struct json_reader *out);
/* call_object_or_nothing: an empty body is an empty object. */
bool call_object_or_nothing(struct call *call, struct json_reader *out);
/* call_read_done: unknown fields become faults; true: no fault so far, else answered. */
bool call_read_done(struct call *call, struct json_reader *reader);
/* call_name: a field that is a name by name_check or name_check_new; what: as its fault calls it. */
void call_name(struct json_reader *reader, const char *field, const char *what, size_t len_max,
    bool (*check)(struct str name, const char *what, struct err *err), struct str *out);
/* call_idempotency: reads the header into the command; false: answered. */
bool call_idempotency(struct call *call);

/* Query parameters. false and a fault in call->err when it is there and wrong; *out keeps its value when it isn't
 * there. */
bool call_param_i64(struct call *call, const char *name, int64_t min, int64_t max, int64_t *out);
bool call_param_str(struct call *call, const char *name, struct str *out); /* false: absent */
/* call_page: `limit` and `cursor` of a list whose first page begins behind `from`. The page has room for one row more
 * than is shown: if that one comes, there is a next page. False: answered. call_cursor: of the page that begins behind
 * the row `last`. */
enum { PAGE_MAX = 1000 };
bool call_page(struct call *call, int64_t from, struct list_page *out);
struct str call_cursor(struct call *call, int64_t last);
bool call_param_limit(struct call *call, int64_t most, int64_t *out); /* a larger one becomes `most` */
bool call_param_flag(struct call *call, const char *name, bool *out);
bool call_param_states(struct call *call, unsigned *out); /* `state`: letters as bits 1 << state (tasks.c) */

/* call_task_id: the id that call->arg (id or key) names; false: answered (404, or 400 for what can be no key). The
 * tenant isn't checked: call_task_view checks it, and call_task_of_executor for what executors send (executors of
 * `default` serve all tenants). */
bool call_task_id(struct call *call, int64_t *out_id);
bool call_task_of_executor(struct call *call, int64_t *out_id);
bool call_task_view(struct call *call, struct task_view *out);

/* call_stream_begin: the head of a stream. false: that was all (HEAD): the call has ended. While it lasts, its token is
 * checked again. */
bool call_stream_begin(
    struct call *call, int status, const char *content_type, void (*drained)(struct http_request *request));

/* --- answers sent piece by piece (stream.c) --- */
struct stream { /* the first member of the handler's own, which is call->state; its on_release releases `out` */
    struct call *call;
    /* read: the next piece into `out`, on a read thread where there are any; false: call->err. It says whether that was
     * the last one (over) and whether there may be more at once (again). sent: NULL, or called on the loop's thread
     * when a piece was sent and the stream goes on. */
    bool (*read)(struct stream *stream);
    void (*sent)(struct stream *stream);
    struct buf out;
    size_t pending_max; /* bytes that may wait for the client before another piece is read */
    bool follow;        /* what can't be read, or a stopping server, ends it instead of breaking it off */
    bool over, again, good;
    bool pumping, woken; /* pumping: also while a thread reads */
};
/* stream_begin: the head of the answer and what `out` holds; false: that was all (HEAD). stream_wake: there may be
 * something to send; the stream may be gone afterwards. */
bool stream_begin(struct stream *stream, int status, const char *content_type);
void stream_wake(struct stream *stream);

/* --- calls that wait for the store (wait_for_commit.c) --- */
bool wait_for_commit(struct call *call); /* ?at_least=N; false: the call waits, or was answered */
void wait_for_commit_check(struct api *api);
/* call_follows: before a call is refused for something that another server may have just made. True: it waits for the
 * others' commits, and call_serve begins it again; false: this server has all of them, or the call has waited already.
 */
bool call_follows(struct call *call);
/* true: the store can't be read at the moment; the call waits for it, and call_serve begins it again */
bool call_misses(struct call *call);
bool call_missed(struct call *call); /* true: the same, of a call that was refused for that on its way */
bool call_serve(struct call *call);  /* route.c */
void wait_for_commit_due(struct loop_timer *timer);

/* --- problems --- */
void problem_render(struct buf *out, const struct err *err);

/* --- auth --- */
/* job_token.c */
struct job_token_text {
    char z[160];
};
bool job_token_open(struct api *api, struct err *err);
struct job_token_text job_token_format(const struct api *api, const char *sealed); /* sealed: fence_seal of its grant */
bool job_token_is(const struct api *api, struct str text, struct fence *out);      /* is it one of this site's? */
bool job_token_check(struct call *call, struct fence fence);                       /* false: its job has ended; reads */
bool job_token_permits(const struct call *call);                                   /* may a job ask this? Reads */
/* tenants_refresh: those of the configuration, when it has changed. With read threads, the loop's api has what
 * site_looked brought last. */
bool tenants_refresh(struct api *api, struct err *err);
bool tenants_current(const struct api *api);
bool site_look(struct api *own, struct arena *arena, void *out); /* a chore: the same for the loop's api */
void site_looked(struct api *api, void *out);
/* a stream that comes back from a thread; false: its token isn't good any more: it was ended */
bool auth_lasts(struct call *call);
bool auth_check(struct call *call); /* fills actor and scopes; false: answered, or it waits (call_follows) */
/* auth_streams_look: streams and long polls whose token was revoked or has expired end. */
void auth_streams_look(struct api *api);
void auth_stream_began(struct call *call);
void auth_expiry_due(struct loop_timer *timer);
/* auth_source: whose guesses are counted together: an address without its port, an IPv6 /64, a local user. */
uint64_t auth_source(const struct http_peer *peer);
bool auth_stands(struct call *call); /* after a wait: is who was let in still to be let in? false: answered */
void auth_token_hash(struct str token, uint8_t out[32]);
const char *scope_text(unsigned scope); /* NULL: none */
extern const struct scope_name {
    const char *name;
    unsigned bit;
} scope_names[4];
void auth_release(struct api *api);

/* --- names (names.c): keys as text, cheaply --- */
struct str lane_name_of(struct api *api, int64_t lane, enum lane_kind *out_kind); /* empty: none */
struct str lane_tenant_of(struct api *api, int64_t lane);                         /* empty: none */
/* *out_id -1: none */
bool lane_id_of(struct api *api, struct str tenant, struct str name, int64_t *out_id, struct err *err);
bool tenant_has_lanes(struct api *api, struct str tenant);
bool task_row(struct api *api, struct arena *arena, int64_t task, struct task *out); /* false: none, or unreadable */
bool task_is_foreign(struct api *api, int64_t task, struct str tenant);              /* another tenant's, or nobody's */
void json_holder(struct call *call, struct json *json, int64_t task); /* its key; of another tenant's: only that */
void key_add(struct api *api, struct buf *out, int64_t lane, int64_t task); /* the key as text, by lane */
/* changeset_names_of: of a change set's task, until the next key is asked for; lane 0: the task is known to be one.
 * Empty: it is none, or can't be read. */
struct changeset_names {
    struct str csid, submitter;
};
struct changeset_names changeset_names_of(struct api *api, int64_t lane, int64_t task);
struct str target_name(struct str lane); /* of a target's lane, as people write it; others stay as they are */
void key_add_view(struct buf *out, const struct edge_view *view);
void key_add_task(struct buf *out, struct str lane_name, enum lane_kind kind, const struct task *task);
struct str render_reason(struct api *api, const struct task *task); /* names what made it end so; in api->scratch */
void json_key_text(struct api *api, struct json *json, int64_t lane, int64_t task); /* lane 0: looked up */
struct str key_text(struct api *api, struct arena *arena, int64_t lane, int64_t task);
void names_release(struct api *api);

/* --- render (render.c) --- */
void render_known(struct json *json, const char *key, int64_t n); /* below 0: null */
void render_number(struct json *json, const char *key, double n);
void render_plain(struct json *json, const char *key, const char *text);       /* nothing in it needs an escape */
void render_text_or_null(struct json *json, const char *key, struct str text); /* empty: null */
void render_outcome(struct json *json, const char *key, enum outcome outcome); /* none: null */
void render_state(struct json *json, const char *key, enum task_state state);
/* a task's key as an object, and as text */
void render_key(struct json *json, struct str lane_name, enum lane_kind kind, const struct task *task);
void render_key_text(
    struct api *api, struct json *json, struct str lane_name, enum lane_kind kind, const struct task *task);
/* existing: a post named its unique key */
void render_task(struct api *api, struct json *json, const struct task_view *view, struct str spec, bool existing);
bool task_answer(struct call *call, int64_t id, int status); /* tasks.c: ends the call with the task as it is now */
struct render_new { /* a task as just created: nothing is read from the store */
    const struct enqueued *tasks;
    const struct task_def *defs;
    size_t index;
};
void render_task_new(struct api *api, struct json *json, const struct render_new *task);
/* as the caller may read it */
void render_event(const struct call *call, struct json *json, const struct event *event);
void render_executor(
    struct json *json, const struct executor *executor, const struct executor_live *live, const char *state);

void render_counts(struct json *json, const struct lane *lane); /* its tasks by state (lanes.c) */

/* --- archives (archives.c) --- */
/* call_archive: the archive that call->arg names; false: answered. A removed one isn't there; call_archive_any gives it
 * too. */
bool call_archive(struct call *call, struct archive_view *out);
bool call_archive_any(struct call *call, struct archive_view *out);
/* archive_missing: the first revision that isn't there while younger ones are; 0: none. */
bool archive_missing(
    struct api *api, struct arena *arena, const struct archive *archive, int64_t *out_rev, struct err *err);

/* --- change sets (changesets.c) --- */
/* call_changeset: the one that call->arg names; false: answered. changeset_csid: of a change set's task; 0: empty. */
struct changeset_view; /* store/read.h */
bool call_changeset(struct call *call, struct changeset *out_row, struct task_view *out_view);
struct str changeset_csid(struct api *api, struct arena *arena, int64_t task);
/* Query parameters, as above: `type` and `target`. *out_lane -1: no change set of that target has come yet. */
bool call_param_movetype(struct call *call, enum movetype *out);
bool call_param_target(struct call *call, int64_t *out_lane);
bool target_lane_of(struct call *call, struct str target, int64_t *out_lane);
void render_changeset(struct call *call, struct json *json, const struct changeset_view *view, int64_t position);

/* revision_answer: (revisions.c) what is noted of it; of one without a state only its number. reason: why it was
 * skipped. */
bool revision_answer(struct call *call, int status, struct str archive, const struct revision *row, struct str reason);

/* --- workflows of posted revisions (posted_workflow.c) --- */
void posted_workflows_release(struct api *api);

/* --- posted tasks (task_body.c) --- */
struct key; /* text/key.h */
struct task_body {
    struct task_def *defs;
    size_t n;
    bool many; /* {tasks: [...]} */
    /* in: finds a task of an archive by its key; *out_id 0: there is none. NULL: all such keys are unknown */
    bool (*find)(void *owner, const struct key *key, int64_t *out_id, struct err *err);
    void *owner;
};
/* task_body_read: a document as task definitions, all faults of all tasks in err (bad_json: it isn't JSON). Nothing
 * points into `raw` afterwards. */
bool task_body_read(struct arena *arena, struct str raw, struct task_body *out, struct err *err);

/* --- fences (fence.c): what executors give back as they got it --- */
struct fence_sealed {
    char z[96];
}; /* INCARNATION-TASK-GRANT-TAG */
struct fence_sealed fence_seal(const struct fence_key *key, struct fence fence);
/* false: no server of this site has given it out */
bool fence_open(const struct fence_key *key, struct str text, struct fence *out);
int64_t fence_task(struct str text); /* the task that a text of this form names, sealed or not; 0: another form */
struct str seen_seal(const struct fence_key *key, struct arena *arena, uint64_t incarnation, int64_t seq);
bool seen_open(
    const struct fence_key *key, struct arena *arena, struct str text, uint64_t *out_incarnation, int64_t *out_seq);

/* --- finishes (finish.c) --- */
/* finish_read: one item; false: malformed, item->code and err say why. task 0: any. */
bool finish_read(const struct fence_key *key, struct arena *arena, const struct doc_node *value, struct str path,
    int64_t task, struct finish_item *out, struct err *err);
bool finish_read_list(const struct fence_key *key, struct arena *arena, const struct doc_node *list, struct str path,
    struct finish_item **out, size_t *out_n, struct err *err);
void render_finish(struct json *json, const struct finish_item *item); /* how it was judged */

/* --- change sets that come (changeset_submit.c) --- */
size_t submission_bytes_max(const struct api *api); /* the longest tarball that is taken */

/* --- executors (executors.c) --- */
struct executor *executor_find(struct call *call); /* the one that call->arg names, by id or name; NULL: answered */
bool executor_is_own(const struct call *call, const struct executor *executor); /* of the tenant that asks */
bool executor_visible(const struct call *call, const struct executor *executor);
struct list_page executors_page_of(struct call *call); /* whose of them are visible, for a reader */
/* executor_register.c: its name in the coordination service */
struct str executor_member(struct arena *arena, const struct executor *executor);
const char *executor_state_now(struct api *api, const struct executor *executor, const struct executor_live *live);

/* --- their polls (polls.c, grant.c) --- */
struct executor_poll *executor_poll_of(struct api *api, int64_t executor); /* made if it isn't there */
void render_grant(struct api *api, struct json *json, const struct grant *grant, int64_t lease_ms);

/* --- logs (logs.c): what executors send for a grant --- */
bool fence_param(struct call *call, int64_t task, struct fence *out); /* false: call->err */
/* is it the task's newest grant? false: call->err */
bool grant_check(struct call *call, struct fence fence);

/* --- artifacts (artifacts.c) --- */
/* artifacts_read: the `artifacts` of a finish: checked against what was sent; put behind the outputs (see
 * artifacts_split). */
/* artifacts_read: the list of a finish, behind its outputs. */
void artifacts_read(
    const struct doc_node *list, struct str path, struct arena *arena, struct err *err, struct finish_item *out);
/* artifacts_split: what the store keeps as outputs is a JSON object and, on a second line, the array of artifacts if
 * there are any. */
struct str artifacts_split(struct str *outputs);
/* blob_answer: a kept file as the answer, or the range of it that was asked for. */
struct blob;
bool blob_answer(struct call *call, const struct blob *blob);
/* artifacts_prove: notes which items list files that their attempts haven't uploaded, then calls `next`; or answers the
 * call itself. */
bool artifacts_prove(struct call *call, struct finish_item *items, size_t n, handler_fn *next);

/* --- followers --- */
void events_wake(struct api *api);
void logs_wake_followers(struct api *api, int64_t task);
void logs_check_due(struct loop_timer *timer);
void events_heartbeat_due(struct loop_timer *timer);

/* --- reads on threads, on PostgreSQL (read_threads.c) --- */
void read_threads_begin(struct api *api);
void read_threads_stop(struct read_threads *threads); /* its threads end; NULL: nothing */
void read_threads_free(struct read_threads *threads); /* before the calls are dropped */
bool call_handle(struct call *call);                  /* calls the route's handler, here or on a thread */
/* call_on_thread: runs `fn`, which reads and ends the call, on a read thread with that thread's api; here if there are
 * none. The caller may not touch the call afterwards. A call_submit in it is done by the loop. call_on_loop: runs `fn`
 * on the loop's thread: now, or when the thread gives the call back; it is the last thing that `fn` on a thread does.
 * call_moved: true: a thread has the call now; false: there are none, do it here. */
bool call_on_thread(struct call *call, handler_fn *fn);
bool call_moved(struct call *call, handler_fn *fn);
bool call_on_loop(struct call *call, handler_fn *fn);
/* call_read: `read` on a thread, with its api: nothing of the loop's is touched; false: call->err. Then `done` on the
 * loop's thread, which ends the call. */
bool call_read(struct call *call, bool (*read)(struct call *call), handler_fn *done);
/* A chore is a read that the loop needs from time to time; it never runs twice at once. read: on a thread, with that
 * thread's api; what it puts into `out` may live in the arena; false: it failed, and `done` isn't called. done: on the
 * loop's thread, with `out`. chore_begin false: there are no threads. */
struct chore;
struct chore *chore_new(
    bool (*read)(struct api *, struct arena *, void *), void (*done)(struct api *, void *), void *out);
bool chore_begin(struct api *api, struct chore *chore);
void chore_run(struct api *api, struct chore *chore); /* without threads here and now */
void chore_free(struct chore *chore);                 /* after read_threads_free */
bool chore_runs(const struct chore *chore);
/* store_there: can the loop read the store now? Never waits. If the loop's connection is lost, a thread reconnects it,
 * and the loop leaves the reader alone until then. */
bool store_there(struct api *api);
void wait_for_commit_begin(struct api *api); /* wait_for_commit.c */
void wait_for_commit_end(struct api *api);

/* --- work on another thread (background.c) --- */
struct background {
    bool (*work)(void *state, struct err *err);   /* on its own thread; touches only what `state` points to */
    bool (*done)(struct call *call, void *state); /* on the loop's thread, when the work was good: ends the call */
    bool goes_on; /* `done` also when the client is gone; it then hands the call on, or ends it by call_released. Never
                   * refused for others that wait: its caller counts */
};
/* background_start: long work; too many at once are refused (503). background_queue: short work with files, which
 * queues. background_check: checks of tarballs, which queue for threads of their own. Work that fails ends its call
 * with the error. */
bool background_check(struct call *call, const struct background *background, void *state);
bool background_start(struct call *call, const struct background *background, void *state);
bool background_queue(struct call *call, const struct background *background, void *state);
void background_release(struct api *api); /* waits for what is running */
void background_init(struct api *api);

/* --- what attempts have sent before their finish (uploads.c) --- */
struct uploads *uploads_new(struct api *api);
void uploads_free(struct uploads *uploads); /* NULL: nothing */
void uploads_touched(struct api *api);      /* a piece came */
/* answered finishes: what they sent is theirs now */
void uploads_ended(struct api *api, const struct finish_item *items, size_t n);
/* finish.c. revisions_applied: change sets have become revisions: their archives are looked at now. On the loop. */
void revisions_applied(struct api *api, const struct finish_item *items, size_t n);
/* uploads_room: bytes that uploads of the tenant's attempts may have together; 0: any. As many as its quota of files
 * while it has kept less than that, so that what runs isn't cut off by what was kept before; none (quota_full) from
 * then on. So it has twice its quota at most. */
bool uploads_room(struct api *api, struct str tenant, int64_t *out_room, struct err *err);
void files_used_release(struct files_used *used);

/* --- executors in the coordination service (executor_register.c) --- */
void executor_register_begin(struct api *api);
void executor_register_end(struct api *api);
void executor_register_soon(struct api *api); /* an executor came or went */
/* executor_register_lost: its server has taken it out, and it has polled no server since. */
bool executor_register_lost(struct api *api, const struct executor *executor, const struct executor_live *live);
/* executor_register_read: name of an executor -> char *: the server that it polls */
void executor_register_read(struct call *call, struct smap *out);

/* --- results of old tasks go (retention.c) --- */
struct retention *retention_new(struct api *api);
void retention_changed(struct retention *retention); /* looks whether the site has another rule now */
/* config_differs_render: texts into an array: which of the site's keys the server's file says otherwise */
void config_differs_render(struct call *call, struct json *json, struct str server, int64_t differs);
void retention_stop(struct retention *retention); /* its thread ends */
void retention_free(struct retention *retention); /* NULL: nothing */

/* --- openapi --- */
void openapi_build(struct buf *out, const char *version);

/* --- handlers, one for each row of route.def; HANDLER_OF: one that does what `act` does, with a word --- */
#define HANDLER_OF(handler, act, word) \
    bool handler(struct call *call) \
    { \
        return act(call, word); \
    }
#define ROUTE(method, path, scope, handler, where, body_max, params, request, response, status, summary) \
    handler_fn handler;
#include "api/route.def"
#undef ROUTE

/* --- stats.c: texts into an array: what keeps this server from taking work, that its clock jumped in the last hour ---
 */
void trouble_render(struct call *call, struct json *json);

/* --- servers.c: the servers that share the store; server_lives: of a row that servers_take had --- */
void servers_begin(struct api *api);
void servers_end(struct api *api);
void servers_take(struct api *api, const struct server_row *rows, size_t n); /* as they were read just now */
bool server_lives(struct api *api, const struct server_row *row);

#endif
