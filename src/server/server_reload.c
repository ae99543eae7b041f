/* server_reload: SIGHUP: the configuration read again.
 *
 * The executor's settings, the certificate and the site's keys change at once, other settings after a restart, which is
 * logged. A configuration with a fault leaves the old one in force. */
#include "server/server_parts.h"

#include <string.h>

#include "coord/coord.h"
#include "io/log.h"
#include "text/conf_site.h"

/* changes_log: each changed setting, and whether it counts only after a restart: parts that read it at their start
 * can't take another value. */
static void changes_log(const struct conf *now, const struct conf *next)
{
    bool tls = server_tls_wanted(now) && server_tls_wanted(next);
    static const char *const live[] = { "semaphores", "slots", "grace", "zone", "labels", "containers.command",
        "containers.options", "log.limit", "tenants", "retention.history", "targets" };
    for (size_t i = 0; conf_setting_key(i) != NULL; i++) {
        const char *key = conf_setting_key(i);
        bool applied = (tls && str_starts(str_of(key), STR("tls."))) ||
                       (str_starts(str_of(key), STR("changesets.")) && !conf_setting_is_own(i));
        for (size_t k = 0; k < sizeof live / sizeof *live; k++)
            applied |= strcmp(key, live[k]) == 0;
        if (str_eq(now->values[i].text, next->values[i].text))
            continue;
        log_event("config.changed", "key=%s value=%s%s", key, log_quote(next->values[i].text).z,
            applied ? "" : " note=\"counts after a restart\"");
    }
}

struct reload { /* lives until the engine has taken it */
    struct command command;
    struct coord_waiter waiter; /* for the lock under which the site's keys are changed */
    struct server *server;
    struct list_node node; /* server->reloads */
    struct arena arena;
};

static void reload_free(struct reload *reload)
{
    list_remove(&reload->server->reloads, &reload->node);
    arena_release(&reload->arena);
    mem_free(reload);
}

static void reload_done(struct command *command)
{
    struct reload *reload = CONTAINER_OF(command, struct reload, command);
    if (command->err.code)
        log_error("config.refused", "error=%s", log_quote(str_of(command->err.text)).z);
    engine_unlock(reload->server->parts.engine, &reload->waiter);
    reload_free(reload);
}

static void reload_granted(struct coord_waiter *waiter, int64_t epoch)
{
    struct reload *reload = CONTAINER_OF(waiter, struct reload, waiter);
    reload->command.under.duty = LOCK_config;
    reload->command.under.epoch = epoch;
    engine_submit(reload->server->parts.engine, &reload->command);
}

static void site_reload(struct server *server, const struct conf *next)
{
    struct reload *reload = mem_alloc(sizeof *reload);
    *reload = (struct reload){
        .command = { .kind = CMD_SITE, .actor = { STR("configuration"), STR("default") }, .done = reload_done },
        .waiter = { .granted = reload_granted },
        .server = server
    };
    list_append(&server->reloads, &reload->node);
    struct command *command = &reload->command;
    struct site_conf conf;
    command->arena = &reload->arena;
    command->in.site.from_file = true;
    site_of(next, &conf);
    unsigned silent = conf.silent;
    /* a key that the file lost is emptied; one that it never had belongs to somebody else */
    conf.silent &= server->site_silent;
    server->site_silent = silent;
    /* the next configuration is gone before the engine has taken it */
    site_copy(&reload->arena, &conf, &command->in.site.conf);
    engine_lock(server->parts.engine, LOCK_config, &reload->waiter);
}

void server_reload(int signo, void *owner)
{
    struct server *server = owner;
    struct arena arena = { 0 };
    struct conf next;
    (void)signo;
    if (server->input->conf(server->input->owner, &arena, &next) != ERR_none) {
        log_error("config.refused", "note=\"the old configuration stays in force\"");
        arena_release(&arena);
        return;
    }
    if (!server_tls_again(server, &next, &arena)) {
        arena_release(&arena);
        return;
    }
    changes_log(&server->conf, &next);
    /* What is live is the executor's; where things are stays as it was when they were opened. */
    next.data = server->conf.data;
    next.socket = server->conf.socket;
    executor_process_set(&server->executor, &next);
    site_reload(server, &next);
    log_event("config.loaded", "slots=%lld", (long long)next.slots);
    server->conf.slots = next.slots;
    server->conf.grace_ms = next.grace_ms;
    arena_release(&arena);
}

void server_reloads_drop(struct server *server)
{
    while (server->reloads.first != NULL)
        reload_free(CONTAINER_OF(server->reloads.first, struct reload, node));
}
