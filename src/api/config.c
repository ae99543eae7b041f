/* config: the keys that all servers of a site share, shown and changed (`weir config`).
 *
 * A change is a document with site keys; if it has faults, all of them are answered with file, line and column, and
 * nothing is changed. The lock `config` (src/coord/lock.c) puts changes of all servers in order, first come, first
 * served. An answer lists exactly what was changed, and the history names the client that changed it. It fails with
 * `unavailable` when the lock can't be had in time. */
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "coord/coord.h"
#include "text/conf_site.h"
#include "text/diag.h"

enum { FILE_NAME_MAX = 1000, LOCK_WAIT_MS = 10000 };
#define TEXT_MAX (512 * KIB)

/* --- as it is --- */

/* key_render: a key as it is in force; one that was never set is empty. */
RENDERER(key_render, ConfigKey, struct json *json, const struct site_key *key)

static void keys_read(const struct site_key *rows, size_t n, struct site_key *out)
{
    for (size_t k = 0; k < SITE_KEYS; k++) {
        out[k] = (struct site_key){ .name = str_of(site_key_name(k)), .body = STR("{}") };
        for (size_t i = 0; i < n; i++)
            if (str_eq(rows[i].name, out[k].name))
                out[k] = rows[i];
    }
}

void config_differs_render(struct call *call, struct json *json, struct str server, int64_t differs)
{
    for (size_t k = 0; k < SITE_KEYS; k++)
        if (differs & 1 << k) {
            struct str text = str_fmt(&call->arena,
                "the file of server '%.*s' says another '%s' than the site goes by: see weir config show; mend the "
                "file, or apply it (weir "
                "config apply, or SIGHUP to that server)",
                STR_ARG(server), site_key_name(k));
            json_str(json, text);
        }
}

struct config_read {
    struct site_key keys[SITE_KEYS];
    struct server_row *servers;
    size_t n_servers;
};

/* differs_render: of the server that answers as it is now, of the others that live as their rows say. */
static void differs_render(struct call *call, struct json *json, const struct config_read *read)
{
    const struct api_config *config = &call->api->config;
    json_array_begin(json);
    config_differs_render(call, json, str_of(config->server_name), engine_site_differs(config->engine));
    for (size_t i = 0; i < read->n_servers; i++)
        if (!str_eqz(read->servers[i].name, config->server_name) && server_lives(call->api, &read->servers[i]))
            config_differs_render(call, json, read->servers[i].name, read->servers[i].differs);
    json_array_end(json);
}

static bool config_show(struct call *call)
{
    const struct config_read *read = call->state;
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (size_t k = 0; k < SITE_KEYS; k++)
        site_yaml(&text, &call->arena, k, read->keys[k].body);
    servers_take(call->api, read->servers, read->n_servers);
    ANSWER_CALL(200, ANSWER_Config);
    buf_release(&text);
    return true;
}

bool serve_config_get(struct call *call)
{
    struct config_read *read = ARENA_NEW(&call->arena, struct config_read);
    struct reader *reader = call->api->config.reader;
    struct site_key *rows;
    size_t n;
    if (!reader_site(reader, &call->arena, &rows, &n, &call->err) ||
        !reader_servers(reader, &call->arena, &read->servers, &read->n_servers, &call->err))
        return call_problem(call);
    keys_read(rows, n, read->keys);
    call->state = read;
    return call_on_loop(call, config_show);
}

/* --- changed --- */

RENDERER(change_render, ConfigEdit, struct json *json, const struct site_change *change)

static void changes_render(struct call *call, struct json *json)
{
    const struct command *command = &call->command;
    json_array_begin(json);
    for (size_t k = 0; k < SITE_KEYS; k++) {
        struct site_change *changes;
        size_t n =
            site_changes(&call->arena, k, command->out.site.before[k].body, command->out.site.after[k].body, &changes);
        for (size_t i = 0; i < n; i++)
            change_render(json, &changes[i]);
    }
    json_array_end(json);
}

static bool config_changed(struct call *call)
{
    const struct command *command = &call->command;
    ANSWER_RETURN(200, ANSWER_ConfigChanged);
}

static bool change_read(struct call *call)
{
    struct json_reader reader;
    struct diag_file *file = ARENA_NEW(&call->arena, struct diag_file);
    struct diags diags = { .arena = &call->arena };
    struct command *command = &call->command;
    if (!call_object(call, &reader))
        return false;
    file->name = STR("weir.yaml");
    if (json_read_need(&reader, "text", ": what a weir.yaml with the site's keys says"))
        json_read_str(&reader, "text", TEXT_MAX, &file->text);
    json_read_str(&reader, "file", FILE_NAME_MAX, &file->name);
    json_read_bool(&reader, "dry_run", &command->in.site.dry_run);
    if (!call_read_done(call, &reader))
        return false;
    file->name = str_dup(&call->arena, file->name);
    file->text = str_dup(&call->arena, file->text);
    command->in.site.file = file->name;
    if (site_parse(file, &call->arena, &diags, &command->in.site.conf))
        return true;
    (void)diags_to_err(&diags, &call->err);
    return call_problem(call);
}

struct change { /* one that waits for the lock or has it; in the call's arena */
    struct coord_waiter waiter;
    struct loop_timer late;
};

static void change_granted(struct coord_waiter *waiter, int64_t epoch)
{
    struct call *call = waiter->owner;
    struct change *change = CONTAINER_OF(waiter, struct change, waiter);
    loop_disarm(call->api->config.loop, &change->late);
    call->command.under.duty = LOCK_config;
    call->command.under.epoch = epoch;
    call_submit(call, config_changed);
}

static void change_late(struct loop_timer *timer)
{
    struct call *call = timer->owner;
    call_refuse(
        call, ERR_unavailable, "another server is changing the site's keys and doesn't come to an end; try again");
}

/* change_released: in any case, also when the client went away. */
static void change_released(struct call *call)
{
    struct change *change = call->state;
    loop_disarm(call->api->config.loop, &change->late);
    if (!call->api->closing) /* then the engine ends, or has ended, and gives up what it holds */
        engine_unlock(call->api->config.engine, &change->waiter);
}

bool serve_config_apply(struct call *call)
{
    struct loop *loop = call->api->config.loop;
    call->command.kind = CMD_SITE;
    if (!change_read(call))
        return false;
    if (call->command.in.site.dry_run) /* it changes nothing, so it needs no lock */
        return call_submit(call, config_changed);
    struct change *change = ARENA_NEW(&call->arena, struct change);
    *change = (struct change){ .waiter = { .granted = change_granted, .owner = call },
        .late = { .due = change_late, .owner = call } };
    call->state = change;
    call->on_release = change_released;
    loop_arm(loop, &change->late, loop_now(loop) + LOCK_WAIT_MS);
    engine_lock(call->api->config.engine, LOCK_config, &change->waiter);
    return true;
}
