/* client_request: one request of a client, as libcurl sees it. Private to the client's files.
 *
 * A request is set up, performed by libcurl (client.c: blocking, or on the loop), and its outcome read. */
#ifndef WEIR_IO_CLIENT_REQUEST_H
#define WEIR_IO_CLIENT_REQUEST_H

#include <curl/curl.h>

#include "base/list.h"
#include "io/client.h"

enum { CLIENT_POOL_MAX = 16 };
#define CLIENT_ANSWER_BYTES_MAX ((size_t)64 << 20)

struct client {
    char *server, *base, *socket_path, *token, *tenant, *ca_file, *client_cert, *client_key;
    long connect_timeout_ms;
    bool local; /* loopback or unix socket: never through a proxy */
    CURL *blocking;
    struct loop *loop;
    CURLM *multi;
    struct loop_timer timer;
    struct list open;
    CURL *pool[CLIENT_POOL_MAX];
    size_t n_pool;
    bool in_curl, any_cancelled; /* libcurl is on the stack: no handle may be removed, only marked */
    bool in_done, closed;        /* a `done` is on the stack: client_close waits for its return */
};

struct client_request {
    struct list_node node;
    struct client *client;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    char fault[CURL_ERROR_SIZE];
    struct client_response response;
    struct client_response *sink; /* where the answer goes: our own, or the blocking caller's */
    bool stopped, cancelled, too_large;
    const struct client_file *file; /* a body that is read as it is sent; NULL: none, or `body` */
    uint64_t file_at;               /* so much of it was read */
    int file_fault;                 /* errno of that reading */
    bool (*piece)(int status, struct str bytes, void *owner);
    void (*done)(struct client_response *, struct err *, void *owner);
    void *owner;
};

/* client_header_safe: may the text stand in a header line? Nothing in it ends the line. */
bool client_header_safe(const char *z);

/* request_set: all options of request->easy; false and err (usage) when a header can't be sent. `body` must live until
 * the request has ended. */
bool request_set(struct client_request *request, const char *method, const char *path, struct str body,
    const char *content_type, const char *const *headers, int64_t timeout_ms, struct err *err);

/* request_outcome: when libcurl has ended the request: status and content type, or false and why there is no answer. */
bool request_outcome(struct client_request *request, CURLcode result, struct err *err);

#endif
