/* assembly: the parts of a server, as `weir serve` and `weir local` both put them together: store, logs, reader,
 * engine, watch, api, HTTP.
 *
 * They are opened in the order of these functions and closed in the other one, whatever of them there is. The caller
 * fills in a part's own settings; what the part needs of other parts is filled in here. */
#ifndef WEIR_SERVER_ASSEMBLY_H
#define WEIR_SERVER_ASSEMBLY_H

#include "api/api.h"
#include "engine/engine.h"
#include "io/http.h"
#include "io/tls.h"
#include "spool/spool.h"
#include "store/logs/logs.h"
#include "store/read.h"
#include "watch/watch.h"

struct assembly {
    struct loop *loop;                /* the caller's until assembly_close */
    struct store_config store_config; /* the caller's words */
    char host[65];                    /* of this machine; may be empty */
    struct store *store;              /* opened by the caller */
    struct logs *logs;
    struct reader *reader;
    struct engine *engine;
    struct watch *watch; /* opened by the caller; NULL: no repositories are followed */
    struct api *api;
    struct spool *spool; /* NULL: none */
    struct tls *tls;     /* opened by the caller; NULL: plain HTTP */
    struct http_server *http;
    void (*failed)(const struct err *err, void *owner); /* the engine can't go on */
    void *owner;
    bool started, hangs; /* hangs: a thread that reads a repository doesn't come back */
};

void assembly_init(struct assembly *out, void (*failed)(const struct err *err, void *owner), void *owner);
bool assembly_readers(struct assembly *parts, struct err *err); /* logs and reader of the store */
bool assembly_engine(struct assembly *parts, struct engine_config config, struct err *err);
bool assembly_api(struct assembly *parts, struct api_config config, struct err *err);
bool assembly_spool(struct assembly *parts, struct spool_config config, struct err *err);
bool assembly_start(struct assembly *parts, struct err *err);
bool assembly_http(struct assembly *parts, struct http_config config, struct err *err);
/* assembly_close: answers that wait for the engine get theirs, and what is written gets `flush_ms` to be sent. */
void assembly_close(struct assembly *parts, int64_t flush_ms);

#endif
