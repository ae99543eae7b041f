/* executor_register: the executors in the coordination service: this server writes those that poll here, and reads
 * which server each of the others polls.
 *
 * Written every few seconds and soon after an executor comes or goes, never for a poll; the backend writes only what
 * has changed. Nothing depends on it: the store knows all executors, and without the service answers only lack `server`
 * and a silent executor is noticed later. */
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "coord/coord.h"
#include "io/clock.h"

enum { TELL_MS = 2000, SOON_MS = 200 };

struct str executor_member(struct arena *arena, const struct executor *executor)
{
    if (executor->tenant.len == 0)
        return executor->name;
    /* names are a tenant's, and have no '~' */
    return str_fmt(arena, "%.*s~%.*s", STR_ARG(executor->tenant), STR_ARG(executor->name));
}

static struct str content_of(
    struct api *api, struct arena *arena, const struct executor *executor, const struct executor_live *live)
{
    struct buf text;
    buf_init(&text, COORD_CONTENT_MAX - 1);
    struct json json = json_to(&text);
    int64_t running = live != NULL ? live->running : 0;
    json_object_begin(&json);
    json_put_str(&json, "name", executor->name);
    json_put_z(&json, "role", "executor");
    json_put_str(&json, "version", executor->version);
    json_put_str(&json, "host", executor->host);
    json_put_z(&json, "server", api->config.server_name);
    json_put_str(&json, "zone", executor->zone);
    json_key(&json, "load");
    json_f64(&json, executor->slots > 0 ? (double)running / (double)executor->slots : 0);
    json_put_i64(&json, "running", running);
    json_put_i64(&json, "slots", executor->slots);
    json_put_z(&json, "state", executor_state_now(api, executor, live));
    json_object_end(&json);
    struct str out = text.full ? (struct str){ 0 } : str_dup(arena, buf_str(&text));
    buf_release(&text);
    return out;
}

static bool rows_read(struct api *own, struct arena *arena, void *out)
{
    struct executor_rows *read = out;
    struct err ignored = { 0 };
    return reader_executors(own->config.reader, arena, &read->rows, &read->n, &ignored);
}

static void rows_tell(struct api *api, void *out)
{
    const struct executor_rows *read = out;
    struct executor **executors = read->rows;
    struct arena arena = { 0 };
    size_t n = read->n, n_told = 0;
    struct coord_member *told = ARENA_ARRAY(&arena, struct coord_member, n + 1);
    for (size_t i = 0; i < n; i++) {
        const struct executor_poll *poll = map_find(&api->polls, (uint64_t)executors[i]->id);
        struct executor_live heard;
        const struct executor_live *live =
            engine_executor(api->config.engine, executors[i]->id, &heard) ? &heard : NULL;
        if (poll == NULL ||
            strcmp(executor_state_now(api, executors[i], live), executor_state_name(EXECUTOR_LOST)) == 0)
            continue;
        /* Between polls it may have gone to another server: what is there stays. */
        told[n_told++] = (struct coord_member){ executor_member(&arena, executors[i]),
            poll->open > 0 ? content_of(api, &arena, executors[i], live) : (struct str){ 0 } };
    }
    coord_publish_executors(engine_coord(api->config.engine), told, n_told);
    arena_release(&arena);
}

/* While the store can't be read, the coordination service keeps what this server wrote there last. */
static void tell_due(struct loop_timer *timer)
{
    struct api *api = timer->owner;
    struct executor_rows none = { 0 };
    loop_arm(api->config.loop, timer, loop_now(api->config.loop) + TELL_MS);
    if (api->polls.n > 0)
        chore_run(api, api->executor_register.chore);
    else
        rows_tell(api, &none);
}

static bool is_advised(struct api *api)
{
    return engine_coord(api->config.engine)->ops->publish_executors != NULL;
}

void executor_register_begin(struct api *api)
{
    api->executor_register.tell = (struct loop_timer){ .due = tell_due, .owner = api };
    api->executor_register.chore = chore_new(rows_read, rows_tell, &api->executor_register.read);
    if (is_advised(api))
        loop_arm(api->config.loop, &api->executor_register.tell, loop_now(api->config.loop) + SOON_MS);
}

void executor_register_end(struct api *api)
{
    loop_disarm(api->config.loop, &api->executor_register.tell);
    chore_free(api->executor_register.chore);
}

void executor_register_soon(struct api *api)
{
    if (is_advised(api) && !api->closing)
        loop_arm(api->config.loop, &api->executor_register.tell, loop_now(api->config.loop) + SOON_MS);
}

bool executor_register_lost(struct api *api, const struct executor *executor, const struct executor_live *live)
{
    struct arena arena = { 0 };
    int64_t left = coord_executor_left(engine_coord(api->config.engine), executor_member(&arena, executor));
    arena_release(&arena);
    return left > 0 && (live == NULL || live->heard_ago_ms < 0 || clock_boot_ms() - live->heard_ago_ms < left);
}

void executor_register_read(struct call *call, struct smap *out)
{
    struct coord_member *members;
    size_t n;
    if (!coord_executors(engine_coord(call->api->config.engine), &call->arena, &members, &n))
        return;
    for (size_t i = 0; i < n; i++) {
        struct err ignored = { 0 };
        json_t *content = json_parse(members[i].content, 4, &ignored);
        const char *server = json_string_value(json_object_get(content, "server"));
        if (server != NULL && strlen(server) <= NAME_CHARS_MAX)
            smap_put(out, members[i].name, str_dupz(&call->arena, str_of(server)));
        json_decref(content);
    }
}
