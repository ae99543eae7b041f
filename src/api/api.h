/* api: HTTP in, commands and reads out. One table of routes (route.def); handlers by noun; every answer is JSON or
 * problem+json.
 *
 * All functions are called on the loop's thread. The api owns neither engine nor reader nor logs: they must outlive it.
 * An answer to a command is sent when the engine has answered; a client that goes away earlier changes nothing about
 * its command. */
#ifndef WEIR_API_API_H
#define WEIR_API_API_H

#include "base/err.h"
#include "io/http.h"
#include "io/loop.h"

struct engine;
struct logs;
struct reader;
struct store_config;
struct watch;
struct spool;
struct blobs;
struct api;

struct api_config {
    struct loop *loop;
    struct engine *engine;
    struct reader *reader;
    struct logs *logs;
    struct watch *watch;              /* NULL: repositories are neither added nor followed */
    const struct store_config *store; /* copied by pointer: lives as long as the api */
    const char *server_name, *host, *version;
    int64_t lease_ms, slots;
    struct tls *tls; /* of the address; NULL: it is plain */
};

struct api *api_new(const struct api_config *config, struct err *err);
/* api_blobs: the kept files; nobody opens them a second time. api_spool_set: before the loop runs;
 * NULL: it has gone. */
struct blobs *api_blobs(struct api *api);
void api_spool_set(struct api *api, struct spool *spool);
void api_threads_end(struct api *api); /* those that ask the engine: before it is freed */
void api_free(struct api *api); /* after the http server is closed and the engine stopped: open calls are dropped */

/* For http_config, with the api as owner. */
size_t api_body_limit(struct str method, struct str path, void *owner);
bool api_body_waits(struct str method, struct str path, void *owner);
void api_serve(struct http_request *request, void *owner);

/* For engine_start, with the api as owner: news for followers of events and logs. */
void api_on_commit(int64_t seq, void *owner);

/* api_closing: from now on /readyz says 503 and streams are ended, so that the server can stop in order. */
void api_closing(struct api *api);

#endif
