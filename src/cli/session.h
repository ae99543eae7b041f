/* session: one run of a client command: its options, its server, its terminal, and how errors are reported.
 *
 * session_open parses, chooses the server and reads the token; session_close gives everything back and passes the exit
 * code through. The calls print what went wrong, with what to do next, and leave the exit code in session.status. */
#ifndef WEIR_CLI_SESSION_H
#define WEIR_CLI_SESSION_H

#include <jansson.h>

#include "cli/options.h"
#include "cli/term.h"
#include "io/client.h"

struct session {
    struct options options;
    struct arena arena;
    struct term term;
    struct client *client;
    struct loop *loop;                         /* of a live command (wait, top); else NULL */
    const char *server;                        /* as chosen: "unix:PATH" or a URL */
    const char *token;                         /* NULL: none */
    const char *tenant;                        /* to speak for; NULL: the token's */
    const char *ca, *client_cert, *client_key; /* files; NULL: none */
    bool json, quiet;
    int status;     /* exit code of the last call that failed */
    struct err err; /* why */
};

/* session_open: OPTIONS_RUN, or the exit code (then nothing is left open). A command that is no client gets no server.
 */
int session_open(struct session *session, const struct command_spec *spec, int argc, char **argv);
/* session_local: after options_parse, for a command without a server: --json, -q, the terminal. */
void session_local(struct session *session);
/* session_connect: a client for the server that was chosen; OPTIONS_RUN, or the exit code. Part of session_open. */
int session_connect(struct session *session, bool live);
int session_close(struct session *session, int status); /* returns status, or 1 when stdout could not be written */

/* state_path: a path in the user's state directory; NULL: neither XDG_STATE_HOME nor HOME is set. */
const char *state_path(struct arena *arena, const char *tail);

/* session_choose: server, token and certificates by options, environment and defaults; false: reported, and
 * session.status is set. Part of session_open. */
bool session_choose(struct session *session);

/* session_client: what a client for that server needs; after session_choose. */
struct client_config session_client(const struct session *session);

struct session_request {
    const char *method, *path;
    struct str body;            /* JSON; NULL ptr: none */
    const char *const *headers; /* NULL, or name, value, ..., NULL */
    int64_t timeout_ms;         /* 0: none */
};

/* session_call: the JSON document of a 2xx answer (the caller frees it), or NULL: the failure is printed and in
 * session.status. */
json_t *session_call(struct session *session, const struct session_request *request);
json_t *session_get(struct session *session, const char *path);
/* session_post: with --idempotency-key as the header, where the command has that option. */
json_t *session_post(struct session *session, const char *path, json_t *body /* consumed; NULL: {} */);
/* session_put: the option's value as a field of the body, if it was given. */
void session_put(struct session *session, json_t *body, const char *option, const char *field);
/* session_upload: POSTs a file of any length. *out_http: the status of a 2xx answer. */
json_t *session_upload(struct session *session, const char *path, const struct client_file *file, int *out_http);
/* session_try: like session_call, but says nothing: the failure is in session.err and session.status. */
json_t *session_try(struct session *session, const struct session_request *request);
json_t *session_look(struct session *session, const char *path); /* the same, GET */
/* session_stream: GET, the bytes of a 2xx answer as they come, until `piece` says false. False: the answer didn't come,
 * or broke off; otherwise session.status says whether it was refused. Prints nothing. */
bool session_stream(
    struct session *session, const char *path, bool (*piece)(struct str bytes, void *owner), void *owner);
/* session_input: a file, or stdin for "-", up to what `out` holds; false: reported. limit: "32 MiB". */
bool session_input(struct session *session, const char *file, const char *limit, struct buf *out);

/* session_walk: every member of the list `name`, page by page, until `item` (which borrows it) says false. false: a
 * call failed, which was reported. */
bool session_walk(
    struct session *session, const char *path, const char *name, bool (*item)(json_t *item, void *owner), void *owner);
/* session_pages: follows `next` until `limit` (0: all) members of the list `name` are there. *out_more: the server has
 * more. */
json_t *session_pages(struct session *session, const char *path, const char *name, int64_t limit, bool *out_more);
/* session_try_pages: all pages as one document, which has the list `name`; NULL: one failed, which isn't
 * reported. */
json_t *session_try_pages(struct session *s, const char *path, const char *name, int64_t timeout_ms);

/* session_fail: prints session.err as an error of the command; returns session.status. */
int session_fail(struct session *session);
/* session_store_fail: the same for a store that was worked on without a server: no advice on servers and tokens. Sets
 * session.status. */
int session_store_fail(struct session *session);
/* session_err: an error of our own, in the same form. */
int session_err(struct session *session, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* session_note: to stderr unless -q. */
void session_note(struct session *session, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* warnings_say: a note for each text of the list; NULL: none. */
void warnings_say(struct session *session, const json_t *warnings);

/* session_print: a JSON document to stdout, in one line; pure ASCII on a terminal. */
void session_print(struct session *session, const json_t *document);

/* session_line: of a record: a label and a text; nothing when the text is empty. */
void session_line(struct session *session, const char *label, enum paint paint, const char *text);

/* session_answer: the end of a command that prints what it was answered, as JSON or by `print`; frees it. Returns the
 * exit code. */
int session_answer(
    struct session *session, json_t *answer, void (*print)(struct session *session, const json_t *answer));

/* session_string: bytes as a JSON string, the caller's; those that aren't UTF-8 become U+FFFD. */
json_t *session_string(struct str bytes);

/* session_utf8: whether this option's value can go into JSON; false: reported. Not given is fine. */
bool session_utf8(struct session *session, const char *option);

/* session_path: the address with `operand`, percent-encoded, in the place of its *. */
const char *session_path(struct session *session, const char *address, const char *operand);
/* session_task_path: "/v1/tasks/KEY" plus tail, the key percent-encoded. */
const char *session_task_path(struct session *session, const char *key, const char *tail);
/* session_query: the path with "?name=value" or "&name=value", encoded; value NULL: the path itself. */
const char *session_query(struct session *session, const char *path, const char *name, const char *value);
const char *session_query_i64(struct session *session, const char *path, const char *name, int64_t value);

#endif
