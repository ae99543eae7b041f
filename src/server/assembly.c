/* assembly: see assembly.h. */
#include "server/assembly.h"

#include <unistd.h>

#include "io/clock.h"

enum { IDLE_S = 15, STEP_MS = 10 };

void assembly_init(struct assembly *out, void (*failed)(const struct err *err, void *owner), void *owner)
{
    *out = (struct assembly){ .loop = loop_new(), .failed = failed, .owner = owner };
    if (gethostname(out->host, sizeof out->host) < 0)
        out->host[0] = '\0';
    out->host[sizeof out->host - 1] = '\0';
}

bool assembly_readers(struct assembly *parts, struct err *err)
{
    struct store_config hurried = parts->store_config;
    hurried.hurried = true;
    return (parts->logs = logs_open_store(&parts->store_config, err)) != NULL &&
           (parts->reader = reader_open(&hurried, err)) != NULL;
}

bool assembly_engine(struct assembly *parts, struct engine_config config, struct err *err)
{
    config.store = parts->store;
    config.logs = parts->logs;
    config.data_dir = parts->store_config.data_dir;
    parts->engine = engine_new(&config, clock_wall_ms(), clock_boot_ms(), err);
    return parts->engine != NULL;
}

bool assembly_api(struct assembly *parts, struct api_config config, struct err *err)
{
    config.loop = parts->loop;
    config.engine = parts->engine;
    config.reader = parts->reader;
    config.watch = parts->watch;
    config.logs = parts->logs;
    config.store = &parts->store_config;
    config.host = parts->host;
    config.version = WEIR_VERSION;
    config.tls = parts->tls;
    parts->api = api_new(&config, err);
    return parts->api != NULL;
}

bool assembly_spool(struct assembly *parts, struct spool_config config, struct err *err)
{
    config.loop = parts->loop;
    config.engine = parts->engine;
    config.store = &parts->store_config;
    config.blobs = api_blobs(parts->api);
    parts->spool = spool_open(&config, err);
    api_spool_set(parts->api, parts->spool);
    return parts->spool != NULL;
}

static void on_commit(int64_t seq, void *owner)
{
    struct assembly *parts = owner;
    api_on_commit(seq, parts->api);
    if (parts->spool)
        spool_on_commit(parts->spool);
}

static void on_failure(const struct err *err, void *owner)
{
    struct assembly *parts = owner;
    parts->failed(err, parts->owner);
}

bool assembly_start(struct assembly *parts, struct err *err)
{
    parts->started = engine_start(parts->engine, parts->loop, on_commit, on_failure, parts, err);
    return parts->started;
}

bool assembly_http(struct assembly *parts, struct http_config config, struct err *err)
{
    config.idle_timeout_s = IDLE_S;
    config.body_limit = api_body_limit;
    config.body_waits = api_body_waits;
    config.serve = api_serve;
    config.owner = parts->api;
    config.tls = parts->tls;
    parts->http = http_server_open(parts->loop, &config, err);
    return parts->http != NULL;
}

static void assembly_drain(struct assembly *parts, int64_t flush_ms)
{
    api_closing(parts->api);
    if (parts->watch)
        watch_closing(parts->watch);
    if (parts->spool)
        spool_closing(parts->spool);
    engine_stop(parts->engine);
    int64_t until = clock_boot_ms() + flush_ms;
    do
        loop_step(parts->loop, flush_ms > 0 ? STEP_MS : 0);
    while (clock_boot_ms() < until);
}

void assembly_close(struct assembly *parts, int64_t flush_ms)
{
    struct err ignored = { 0 };
    if (parts->started)
        assembly_drain(parts, flush_ms);
    if (parts->store && parts->store->ops->shared)
        (void)parts->store->ops->shared->on_others(
            parts->store, NULL, NULL, &ignored); /* nobody wakes the engine any more */
    if (parts->api)
        api_threads_end(parts->api); /* they read bodies of requests */
    if (parts->http)
        http_server_close(parts->http);
    tls_close(parts->tls);
    if (parts->spool) {
        spool_close(parts->spool);
        api_spool_set(parts->api, NULL);
    }
    if (parts->engine)
        engine_free(parts->engine);
    if (parts->api)
        api_free(parts->api);
    if (parts->watch)
        parts->hangs = !watch_close(parts->watch);
    if (parts->reader)
        reader_close(parts->reader);
    if (parts->logs)
        logs_close(parts->logs);
    if (parts->store)
        parts->store->ops->close(parts->store);
    loop_free(parts->loop);
}
