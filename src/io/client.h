/* client: HTTP requests to a Weir server (libcurl), over tcp or a unix socket; blocking for the command line, on the
 * loop for executors.
 *
 * server: "http://HOST:PORT", "https://...", "unix:PATH". Connections are kept and used again. */
#ifndef WEIR_IO_CLIENT_H
#define WEIR_IO_CLIENT_H

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"

struct client;

struct client_config {
    const char *server;
    const char *token;          /* NULL: none */
    const char *tenant;         /* header Weir-Tenant; NULL: none */
    const char *ca_file;        /* whose signature under the server's certificate counts; NULL: the system's CAs */
    const char *client_cert;    /* and its key: for servers that want one; NULL: none */
    const char *client_key;     /* NULL: in the certificate's file */
    int64_t connect_timeout_ms; /* 0: 3000 */
};

struct client_response {
    int status;      /* 0: no answer (err says why) */
    struct buf body; /* capped at 64 MiB */
    char content_type[64];
};

/* client_open: NULL and err when server or token can't be used (usage) or a file can't be read (not_found, forbidden,
 * io); nothing is connected yet. */
struct client *client_open(
    const struct client_config *config, struct loop *loop /* NULL: blocking only */, struct err *err);
void client_close(struct client *client); /* open requests are cancelled; may be called inside `done` */

/* Begins the words of `unreachable` when it is the server that isn't there. Also a server may say `unreachable`: of a
 * repository. */
#define CLIENT_NOBODY "no server answers at "

/* client_call: one request, waits for the answer. false: no answer, err is unreachable, or untrusted when
 * a certificate was refused, theirs or ours: trying again won't help then. A status that isn't 2xx is an answer.
 * body NULL ptr: none. timeout_ms 0: none. headers as in http_answer. */
bool client_call(struct client *client, const char *method, const char *path, struct str body, const char *content_type,
    const char *const *headers, int64_t timeout_ms, struct client_response *out, struct err *err);
void client_response_release(struct client_response *response);

/* client_upload: a POST whose body is a file, of any length: its first `bytes` bytes, read from the beginning as they
 * are sent. No time limit. io: the file can't be read, or is shorter. */
struct client_file {
    int fd; /* the caller's; may be read from any place, so no pipe */
    uint64_t bytes;
};
bool client_upload(struct client *client, const char *path, const struct client_file *file, const char *content_type,
    const char *const *headers, struct client_response *out, struct err *err);

/* client_stream: like client_call, body bytes are given to `piece` as they come (status known then); `piece` returns
 * false to stop. */
bool client_stream(struct client *client, const char *method, const char *path, const char *const *headers,
    bool (*piece)(int status, struct str bytes, void *owner), void *owner, int *out_status, struct err *err);

/* client_start: on the loop; `done` is called once, also for failures (status 0) and never before client_start
 * returned. The response is released after `done`. client_cancel: done won't be called. */
struct client_request;
struct client_request *client_start(struct client *client, const char *method, const char *path, struct str body,
    const char *content_type, int64_t timeout_ms, void (*done)(struct client_response *, struct err *, void *owner),
    void *owner);
void client_cancel(struct client *client, struct client_request *request);

/* client_follow: client_start for an answer that has no end: body bytes of a 2xx go to `piece` as they come (false:
 * stop, `done` is called with what was there), those of other answers are collected for `done`. headers: as in
 * http_answer. `piece` may cancel its request. */
struct client_request *client_follow(struct client *client, const char *method, const char *path,
    const char *const *headers, bool (*piece)(int status, struct str bytes, void *owner),
    void (*done)(struct client_response *, struct err *, void *owner), void *owner);

/* client_problem: turns a problem+json answer into err (code, text, items). */
void client_problem(const struct client_response *response, struct err *err);

/* client_encode: percent-encodes one path or query part. */
struct str client_encode(struct arena *arena, struct str part);

#endif
