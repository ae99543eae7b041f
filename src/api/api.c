/* api: putting it up and taking it down, and the news from the engine that followers wait for. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/call.h"
#include "spool/intake.h"
#include "store/blobs/blobs.h"
#include "text/key.h"

enum { LOG_CHECK_MS = 20, EVENTS_EAGER_MAX = 2, EVENTS_CHECK_MS = 5 };

static void events_check_due(struct loop_timer *timer)
{
    events_wake(timer->owner);
}

/* tmp_open: beside the kept files, which tarballs become by a link. */
static bool tmp_open(struct api *api, struct err *err)
{
    size_t size = strlen(api->config.store->data_dir) + sizeof "/tmp";
    api->tmp_dir = mem_alloc(size);
    snprintf(api->tmp_dir, size, "%s/tmp", api->config.store->data_dir);
    return intake_temp_open(api->tmp_dir, err);
}

struct api *api_new(const struct api_config *config, struct err *err)
{
    struct store_head head;
    if (sodium_init() < 0) {
        err_set(err, ERR_internal, "libsodium can't be used");
        return NULL;
    }
    if (!reader_head(config->reader, &head, err))
        return NULL;
    struct api *api = mem_alloc_zero(sizeof *api);
    api->config = *config;
    api->incarnation = head.incarnation;
    api->heartbeat = (struct loop_timer){ .due = events_heartbeat_due, .owner = api };
    api->events_check = (struct loop_timer){ .due = events_check_due, .owner = api };
    api->token_expiry = (struct loop_timer){ .due = auth_expiry_due, .owner = api };
    api->waits.check = (struct loop_timer){ .due = wait_for_commit_due, .owner = api };
    api->log_check = (struct loop_timer){ .due = logs_check_due, .owner = api };
    snprintf(api->uid_text, sizeof api->uid_text, "uid:%u", (unsigned)geteuid());
    buf_init(&api->openapi, MIB);
    buf_init(&api->scratch, 4 * KEY_BYTES_MAX);
    openapi_build(&api->openapi, config->version);
    background_init(api);
    api->retention = retention_new(api);
    wait_for_commit_begin(api);
    servers_begin(api);
    executor_register_begin(api);
    api->blobs = blobs_open_store(config->store, err);
    if (api->blobs == NULL || !tmp_open(api, err) || !job_token_open(api, err)) {
        api_free(api);
        return NULL;
    }
    api->uploads = uploads_new(api);
    read_threads_begin(api);
    return api;
}

struct blobs *api_blobs(struct api *api)
{
    return api->blobs;
}

void api_spool_set(struct api *api, struct spool *spool)
{
    api->spool = spool;
}

void api_threads_end(struct api *api)
{
    read_threads_stop(api->read_threads);
    retention_stop(api->retention);
}

void api_free(struct api *api)
{
    if (api == NULL)
        return;
    background_release(api);
    read_threads_free(api->read_threads);
    retention_free(api->retention);
    uploads_free(api->uploads);
    servers_end(api);
    wait_for_commit_end(api);
    executor_register_end(api);
    while (api->calls.first != NULL) {
        struct call *call = CONTAINER_OF(api->calls.first, struct call, node);
        call->request = NULL; /* the server that it belonged to is closed */
        call_released(call);
    }
    for (struct list_node *node; (node = list_take_first(&api->idle)) != NULL;) {
        struct call *call = CONTAINER_OF(node, struct call, node);
        arena_release(&call->arena);
        buf_release(&call->out);
        mem_free(call);
    }
    loop_disarm(api->config.loop, &api->heartbeat);
    loop_disarm(api->config.loop, &api->log_check);
    loop_disarm(api->config.loop, &api->events_check);
    loop_disarm(api->config.loop, &api->waits.check);
    loop_disarm(api->config.loop, &api->token_expiry);
    names_release(api);
    posted_workflows_release(api);
    auth_release(api);
    files_used_release(&api->files_used);
    MAP_EACH (&api->polls, entry)
        mem_free(entry->value);
    map_release(&api->polls);
    blobs_close(api->blobs);
    buf_release(&api->openapi);
    buf_release(&api->scratch);
    mem_free(api->tmp_dir);
    mem_free(api);
}

void api_on_commit(int64_t seq, void *owner)
{
    struct api *api = owner;
    (void)seq;
    auth_streams_look(api);
    wait_for_commit_check(api);
    retention_changed(api->retention);
    engine_locks_look(api->config.engine);
    /* Commits come by the thousand. A few followers hear of each at once; many are served together a little later.
     * Whether a followed attempt has ended is looked up at most fifty times a second. */
    if (api->events_followers.n <= EVENTS_EAGER_MAX)
        events_wake(api);
    else if (api->events_check.node.pos == 0)
        loop_arm(api->config.loop, &api->events_check, loop_now(api->config.loop) + EVENTS_CHECK_MS);
    if (api->log_followers.n > 0 && api->log_check.node.pos == 0)
        loop_arm(api->config.loop, &api->log_check, loop_now(api->config.loop) + LOG_CHECK_MS);
}

void api_closing(struct api *api)
{
    api->closing = true;
    wait_for_commit_check(api);
    events_wake(api);
    logs_wake_followers(api, 0);
}
