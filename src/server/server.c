/* server: the life of `weir serve`.
 *
 * Parts are opened from the store upwards and closed downwards, whatever of them there is. It promises that after
 * `listening on` everything answers, that SIGTERM leaves executor and tasks running, SIGINT ends them, and that a
 * failed disk ends the process within a second, after its answers. */
#include "server/server.h"

#include <errno.h>
#include <pthread.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/when.h"
#include "server/assembly.h"
#include "server/executor_process.h"
#include "server/server_name.h"
#include "coord/coord.h"
#include "io/clock.h"
#include "io/door.h"
#include "io/fsx.h"
#include "io/log.h"
#include "store/damage.h"
#include "text/conf_site.h"

enum {
    CONNECTIONS_MAX = 8192,
    DESCRIPTORS_KEPT = 64,
    FLUSH_MS = 150,
    FAILURE_MS = 200,
    INTERRUPT_EXTRA_MS = 10000,
    AUTH_BYTES_MAX = 1000,
    TELL_MS = 5000,
    CERTIFICATE_LOOK_MS = 3600 * 1000
};

struct server {
    const struct server_input *input;
    struct arena arena; /* of conf */
    struct conf conf;
    mode_t umask; /* as they were */
    struct rlimit files;
    const char *data;
    struct assembly parts;
    pthread_t checker; /* the database's own check after a start that checked little */
    bool checking;
    atomic_bool check_stop;
    struct executor_process executor;
    bool executor_open;
    struct loop_timer end, tell, certificate;
    struct str coordination_auth; /* USER:PASSWORD: told to nobody but the service */
    struct list reloads;          /* struct reload: of the site's keys, under way */
    unsigned site_silent;         /* keys of the site that the file said nothing of when it was read last */
    enum engine_health health;    /* as it was logged last, with: */
    int64_t health_since;
    uint64_t clock_jumps;
    bool coordination_away; /* as it was told last */
    int64_t coordination_since;
    int status;
};

/* --- opening, in this order --- */

static bool dir_check(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    if (st.st_uid != geteuid())
        return err_set(err, ERR_forbidden, "%s belongs to another user (uid %u)", path, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, ERR_forbidden, "%s can be written by others than its owner (mode %04o): chmod go-w it",
            path, (unsigned)(st.st_mode & 07777));
    return true;
}

/* auth_read: what is wrong is said without the words of the file. */
static bool auth_read(struct server *server, struct err *err)
{
    const char *path = str_dupz(&server->arena, server->conf.coordination_auth);
    struct stat st;
    struct str text;
    if (server->conf.coordination.len == 0)
        return err_set(err, ERR_usage,
            "coordination_auth is given without coordination: say which service it is for, or leave it out");
    if (!fsx_read(path, AUTH_BYTES_MAX, &server->arena, &text, err)) {
        err_context(err, "coordination_auth");
        return false;
    }
    if (stat(path, &st) == 0 && st.st_mode & (S_IRWXO | S_IWGRP))
        return err_set(err, ERR_forbidden,
            "coordination_auth: %s can be read or written by others (mode %04o): chmod 0600 it", path,
            (unsigned)(st.st_mode & 07777));
    server->coordination_auth = str_trim(text);
    ptrdiff_t colon = str_index(server->coordination_auth, ':');
    bool good = colon > 0 && (size_t)colon + 1 < server->coordination_auth.len &&
                str_index(server->coordination_auth, '\n') < 0;
    return good || err_set(err, ERR_invalid, "coordination_auth: %s must hold one line USER:PASSWORD", path);
}

static bool open_data(struct server *server, struct err *err)
{
    struct arena *arena = &server->arena;
    server->data = str_dupz(arena, server->conf.data);
    const char *run = str_dupz(arena, str_fmt(arena, "%s/run", server->data));
    /* Of a store elsewhere the key of the history, logs and blobs stay in the data directory. */
    struct str store_dir = server->conf.store_dir.len > 0 ? server->conf.store_dir : server->conf.data;
    bool alone = !str_starts(server->conf.store, STR("postgres"));
    if (server->conf.coordination.len > 0 && !coord_url_check(server->conf.coordination, alone, err))
        return false;
    if (server->conf.coordination_auth.len > 0 && !auth_read(server, err))
        return false;
    server->parts.store_config = (struct store_config){ .url = str_dupz(arena, server->conf.store),
        .data_dir = str_dupz(arena, store_dir),
        .create = true,
        .server = server->conf.name };
    return fsx_make_dirs(server->data, 0711, err) && dir_check(server->data, err) && fsx_make_dirs(run, 0755, err) &&
           (str_eq(store_dir, server->conf.data) || fsx_make_dirs(server->parts.store_config.data_dir, 0700, err));
}

static bool tls_wanted(const struct conf *conf)
{
    return conf->tls.certificate.len > 0; /* and then the key too: conf sees to it */
}

static struct tls_config tls_files(const struct conf *conf, struct arena *arena)
{
    return (struct tls_config){ .certificate = str_dupz(arena, conf->tls.certificate),
        .key = str_dupz(arena, conf->tls.key),
        .client_ca = str_dupz(arena, conf->tls.client_ca) };
}

static void tls_tell(const struct server *server, const char *event, const struct tls_config *files)
{
    log_event(event, "certificate=%s client_ca=%s", log_quote(str_of(files->certificate)).z,
        *files->client_ca ? log_quote(str_of(files->client_ca)).z : "none");
    if (server->parts.tls->warning[0])
        log_warn("tls.certificate", "note=%s", log_quote(str_of(server->parts.tls->warning)).z);
}

/* certificate_look: one line when the certificate begins to end, and one when it has. Its times are wall time, which
 * may be set. */
static void certificate_look(struct loop_timer *timer)
{
    struct server *server = timer->owner;
    int64_t wall = clock_wall_ms();
    if (tls_look(server->parts.tls, wall) && server->parts.tls->warning[0])
        log_warn("tls.certificate", "note=%s", log_quote(str_of(server->parts.tls->warning)).z);
    int64_t left = server->parts.tls->to_ms > wall ? server->parts.tls->to_ms - wall : CERTIFICATE_LOOK_MS;
    loop_arm(server->parts.loop, timer,
        loop_now(server->parts.loop) + (left < CERTIFICATE_LOOK_MS ? left : CERTIFICATE_LOOK_MS));
}

static bool open_tls(struct server *server, struct err *err)
{
    if (!tls_wanted(&server->conf))
        return true;
    struct tls_config files = tls_files(&server->conf, &server->arena);
    server->parts.tls = tls_open(&files, err);
    if (server->parts.tls != NULL)
        tls_tell(server, "tls.open", &files);
    server->certificate = (struct loop_timer){ .due = certificate_look, .owner = server };
    if (server->parts.tls != NULL)
        certificate_look(&server->certificate);
    return server->parts.tls != NULL;
}

/* modes_say: what only the server's user should read, and others can: copied there by hand, or made with another umask.
 */
static void modes_say(const struct server *server)
{
    static const char *const names[] = { "weir.db", "weir.db-wal", "verify.key", "token.key" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", server->parts.store_config.data_dir, names[i]);
        if (stat(path, &st) == 0 && st.st_mode & (S_IRWXG | S_IRWXO))
            log_warn("data.mode",
                "file=%s mode=%04o note=\"others than the server's user can read or write it: chmod 0600 it\"",
                log_quote(str_of(path)).z, (unsigned)(st.st_mode & 07777));
    }
}

static bool open_store(struct server *server, struct err *err)
{
    server->parts.store =
        server_name_open(&server->parts.store_config, server->data, &server->arena, &server->conf, err);
    if (server->parts.store)
        modes_say(server);
    unsigned weak = server->parts.store ? server->parts.store->weak : 0;
    for (unsigned one = 1; one <= weak; one <<= 1)
        if (weak & one)
            log_warn("store.weak", "note=%s", log_quote(str_of(store_weakness(one))).z);
    return server->parts.store != NULL;
}

static void *check_run(void *owner)
{
    struct server *server = owner;
    struct err err = { .code = ERR_none };
    int64_t rows, began = clock_boot_ms();
    if (!store_check_slowly(&server->parts.store_config, &server->check_stop, &rows, &err))
        log_error("store.check", "error=%s", log_quote(str_of(err.text)).z);
    else if (!atomic_load(&server->check_stop))
        log_event(
            "store.checked", "rows=%lld seconds=%lld", (long long)rows, (long long)(clock_boot_ms() - began) / 1000);
    return NULL;
}

static bool open_check(struct server *server, struct err *err)
{
    (void)err;
    server->checking = server->parts.store->unchecked && pthread_create(&server->checker, NULL, check_run, server) == 0;
    return true;
}

static bool open_readers(struct server *server, struct err *err)
{
    return assembly_readers(&server->parts, err);
}

static struct str host_name(struct arena *arena)
{
    char name[256] = "";
    (void)gethostname(name, sizeof name - 1);
    return str_dup(arena, str_of(name));
}

static bool open_engine(struct server *server, struct err *err)
{
    const struct conf *conf = &server->conf;
    struct engine_config config = { .lease_ms = conf->lease_ms,
        .server_name = conf->name,
        .coordination = conf->coordination,
        .coordination_auth = server->coordination_auth,
        .server_host = host_name(&server->arena),
        .server_version = STR(WEIR_VERSION),
        .server_instance = str_fmt(&server->arena, "%d", (int)getpid()) };
    site_of(conf, &config.site);
    server->site_silent = config.site.silent;
    return assembly_engine(&server->parts, config, err);
}

static bool open_watch(struct server *server, struct err *err)
{
    struct watch_config config = { .loop = server->parts.loop,
        .engine = server->parts.engine,
        .store = &server->parts.store_config,
        .data_dir = server->data,
        .scan_local_ms = server->conf.look.local_ms,
        .scan_remote_ms = server->conf.look.remote_ms };
    server->parts.watch = watch_open(&config, err);
    return server->parts.watch != NULL;
}

static bool open_api(struct server *server, struct err *err)
{
    struct api_config config = { .server_name = str_dupz(&server->arena, server->conf.name),
        .lease_ms = server->conf.lease_ms,
        .slots = server->conf.slots };
    return assembly_api(&server->parts, config, err);
}

static unsigned connections_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 512;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > CONNECTIONS_MAX + DESCRIPTORS_KEPT)
        return CONNECTIONS_MAX;
    return limit.rlim_cur > 2 * DESCRIPTORS_KEPT ? (unsigned)limit.rlim_cur - DESCRIPTORS_KEPT : DESCRIPTORS_KEPT;
}

/* check_address: before the engine, whose first turn says that this server has started: with an address in use it
 * can't. Nobody can connect until there is somebody to answer. */
static bool check_address(struct server *server, struct err *err)
{
    return server->conf.listen.len == 0 || door_check(str_dupz(&server->arena, server->conf.listen), err);
}

static bool open_http(struct server *server, struct err *err)
{
    struct http_config config = { .address = str_dupz(&server->arena, server->conf.listen),
        .socket_path = str_dupz(&server->arena, server->conf.socket),
        .connections_max = connections_max() };
    return assembly_http(&server->parts, config, err);
}

/* --- news from the engine --- */

static void end_due(struct loop_timer *timer)
{
    struct server *server = timer->owner;
    loop_stop(server->parts.loop);
}

static void on_failure(const struct err *err, void *owner)
{
    struct server *server = owner;
    log_error("server.failed", "error=%s", log_quote(str_of(err->text)).z);
    server->status = 1;
    /* the answers go out first */
    loop_arm(server->parts.loop, &server->end, loop_now(server->parts.loop) + FAILURE_MS);
}

static void others_committed(struct str note, void *owner)
{
    struct server *server = owner;
    if (note.len > 0)
        watch_hint_message(server->parts.watch, note);
    else
        engine_wake(server->parts.engine);
}

/* health_look: one line when the server stops taking new work, with what to do, and one when it takes work again; one
 * for each jump of the clock. */
static void health_look(void *owner)
{
    struct server *server = owner;
    enum engine_health now = engine_health(server->parts.engine);
    struct clock_jump jump;
    char text[ENGINE_TEXT_MAX];
    engine_clock(server->parts.engine, &jump);
    if (jump.count != server->clock_jumps)
        log_warn("clock.jumped", "by_ms=%+lld to=%s count=%llu", (long long)jump.by_ms, when_format(jump.wall).z,
            (unsigned long long)jump.count);
    server->clock_jumps = jump.count;
    if (now == server->health)
        return;
    if (engine_trouble(server->parts.engine, true, text))
        log_error("server.unready", "reason=%s note=%s", engine_health_name(now), log_quote(str_of(text)).z);
    else
        log_event("server.ready", "after=%s seconds=%lld", engine_health_name(server->health),
            (long long)(clock_boot_ms() - server->health_since) / 1000);
    server->health = now;
    server->health_since = clock_boot_ms();
}

/* Any thread. */
static void damage_met(void *owner)
{
    struct server *server = owner;
    loop_wake(server->parts.loop);
}

/* coordination_look: told when it changes: the service is advice, so nobody is hurt, but somebody should look after it.
 */
static void coordination_look(void *owner)
{
    struct server *server = owner;
    struct coord_status now;
    coord_status(engine_coord(server->parts.engine), &now);
    if (now.since == 0 || (now.away == server->coordination_away && now.since == server->coordination_since))
        return;
    server->coordination_away = now.away;
    server->coordination_since = now.since;
    if (now.away)
        log_warn("coordination.away", "service=%s error=%s note=\"duties go by the store alone\"", now.kind,
            log_quote(str_of(now.text)).z);
    else
        log_event("coordination.connected", "service=%s", now.kind);
}

/* coordination_tell: what onlookers of the service see of this server. */
static void coordination_tell(struct loop_timer *timer)
{
    struct server *server = timer->owner;
    struct buf text;
    double load[1] = { 0 };
    bool first = true;
    if (getloadavg(load, 1) != 1)
        load[0] = 0;
    buf_init(&text, COORD_CONTENT_MAX);
    buf_addf(&text,
        "{\"name\":\"%.*s\",\"role\":\"server\",\"version\":\"%s\",\"host\":\"%s\",\"address\":\"%s\",\"load\":%.2f",
        STR_ARG(server->conf.name), WEIR_VERSION, server->parts.host, http_server_address(server->parts.http), load[0]);
    buf_addf(&text, ",\"state\":\"%s\",\"epochs\":{",
        engine_health(server->parts.engine) == ENGINE_OK ? "active" : "failing");
    for (size_t i = 0; i < DUTY_COUNT; i++) {
        int64_t epoch = engine_duty(server->parts.engine, (enum duty_kind)i);
        if (epoch == 0)
            continue;
        buf_addf(&text, "%s\"%s\":%lld", first ? "" : ",", engine_duty_name((enum duty_kind)i), (long long)epoch);
        first = false;
    }
    buf_add_z(&text, "}}");
    coord_publish(engine_coord(server->parts.engine), buf_str(&text));
    buf_release(&text);
    loop_arm(server->parts.loop, timer, loop_now(server->parts.loop) + TELL_MS);
}

static bool open_coordination(struct server *server, struct err *err)
{
    (void)err;
    if (server->conf.coordination.len == 0)
        return true;
    loop_on_wake(server->parts.loop, coordination_look, server);
    server->tell = (struct loop_timer){ .due = coordination_tell, .owner = server };
    coordination_tell(&server->tell);
    return true;
}

static bool start_engine(struct server *server, struct err *err)
{
    loop_on_wake(server->parts.loop, health_look, server);
    damage_listen(damage_met, server);
    health_look(server);
    const struct store_ops *ops = server->parts.store->ops;
    return assembly_start(&server->parts, err) &&
           (!ops->on_others || ops->on_others(server->parts.store, others_committed, server, err));
}

/* --- signals --- */

static void executor_ended(void *owner)
{
    struct server *server = owner;
    loop_stop(server->parts.loop);
}

static void on_term(int signo, void *owner)
{
    struct server *server = owner;
    log_event("server.stopping", "signal=%d note=\"running tasks go on\"", signo);
    loop_stop(server->parts.loop);
}

static void on_int(int signo, void *owner)
{
    struct server *server = owner;
    log_event("server.stopping", "signal=%d note=\"running tasks end too\"", signo);
    if (server->executor.stopping || !executor_process_interrupt(&server->executor, executor_ended, server)) {
        loop_stop(server->parts.loop); /* a second one doesn't wait */
        return;
    }
    loop_arm(
        server->parts.loop, &server->end, loop_now(server->parts.loop) + server->conf.grace_ms + INTERRUPT_EXTRA_MS);
}

/* say_restart: settings that were read at the start and can't change under the parts that use them. */
static void say_restart(const struct conf *now, const struct conf *next)
{
    bool tls = tls_wanted(now) && tls_wanted(next);
    static const char *const live[] = { "semaphores", "slots", "grace", "zone", "labels", "containers.command",
        "containers.options", "log.limit", "tenants", "retention.history" };
    for (size_t i = 0; conf_setting_key(i) != NULL; i++) {
        const char *key = conf_setting_key(i);
        bool applied = tls && str_starts(str_of(key), STR("tls."));
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
    /* what it doesn't say any more is emptied; what it never said is somebody else's */
    conf.silent &= server->site_silent;
    server->site_silent = silent;
    /* the next configuration is gone before the engine has taken it */
    site_copy(&reload->arena, &conf, &command->in.site.conf);
    engine_lock(server->parts.engine, LOCK_config, &reload->waiter);
}

/* tls_again: the certificates, also when only the files' content is new. false: the old ones stay, which was said. */
static bool tls_again(struct server *server, const struct conf *next, struct arena *arena)
{
    struct err err = { .code = ERR_none };
    if (server->parts.tls == NULL || !tls_wanted(next))
        return true; /* TLS or not counts after a restart */
    struct tls_config files = tls_files(next, arena);
    if (!tls_reload(server->parts.tls, &files, &err)) {
        log_error("config.refused", "key=tls error=%s note=\"the old configuration and certificate stay in force\"",
            log_quote(str_of(err.text)).z);
        return false;
    }
    tls_tell(server, "tls.loaded", &files);
    certificate_look(&server->certificate);
    return true;
}

static void on_hup(int signo, void *owner)
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
    if (!tls_again(server, &next, &arena)) {
        arena_release(&arena);
        return;
    }
    say_restart(&server->conf, &next);
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

/* --- its life --- */

static bool server_open(struct server *server, struct err *err)
{
    static bool (*const steps[])(struct server * server, struct err * err) = { open_data, open_tls, open_store,
        open_readers, check_address, open_engine, open_watch, open_api, start_engine, open_http, open_coordination,
        open_check };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!steps[i](server, err))
            return false;
    return true;
}

/* say_unused: keys of parts that aren't there yet are read and checked; nobody shall believe that they do something. */
static void say_unused(const struct conf *conf)
{
    static const char *const later[] = { "hooks.", "changesets.", "targets", "resque", "screwdriver" };
    for (size_t i = 0; conf_setting_key(i) != NULL; i++)
        for (size_t k = 0; k < sizeof later / sizeof *later; k++)
            if (conf->values[i].origin != CONF_DEFAULT && str_starts(str_of(conf_setting_key(i)), str_of(later[k])))
                log_warn("config.unused", "key=%s note=\"this isn't supported yet\"", conf_setting_key(i));
}

static bool address_tell(struct server *server, struct err *err)
{
    const char *address = http_server_address(server->parts.http);
    struct arena *arena = &server->arena;
    const char *file = str_dupz(arena, str_fmt(arena, "%s/address", server->data));
    if (!fsx_replace(file, str_fmt(arena, "%s\n", address), 0600, err)) {
        if (err->code != ERR_disk_full)
            return false;
        log_warn("server.address", "error=%s note=\"the address is only on standard output\"",
            log_quote(str_of(err->text)).z);
    }
    log_event("server.start", "name=%s version=%s data=%s lease_ms=%lld", log_quote(server->conf.name).z, WEIR_VERSION,
        server->data, (long long)server->conf.lease_ms);
    log_event("server.trust", "sandbox=none note=\"tasks run as the executor's user (uid %u), with all its rights\"",
        (unsigned)geteuid());
    say_unused(&server->conf);
    if (engine_held(server->parts.engine))
        log_warn("server.paused",
            "note=\"this store was restored from a backup: nothing starts, no schedule fires, no repository is "
            "followed until: weir resume all\"");
    printf("listening on %s\n", address);
    fflush(stdout);
    return true;
}

static void server_close(struct server *server)
{
    damage_listen(NULL, NULL);
    atomic_store(&server->check_stop, true);
    if (server->checking)
        pthread_join(server->checker, NULL);
    if (server->executor_open)
        executor_process_release(&server->executor);
    assembly_close(&server->parts, FLUSH_MS);
    while (server->reloads.first != NULL) /* they waited for the lock, which went with the engine */
        reload_free(CONTAINER_OF(server->reloads.first, struct reload, node));
    arena_release(&server->arena);
}

static void signals_set(struct server *server)
{
    static const struct {
        int signo;
        void (*fn)(int signo, void *owner);
    } traps[] = { { SIGTERM, on_term }, { SIGINT, on_int }, { SIGHUP, on_hup } };
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file limit is a write error like any other: answered, then we end */
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++)
        loop_on_signal(server->parts.loop, traps[i].signo, traps[i].fn, server);
}

static void server_serve(struct server *server, struct err *err)
{
    if (!server_open(server, err) || !address_tell(server, err)) {
        fprintf(stderr, "weir serve: %s\n", err->text);
        if (err->code == ERR_corrupt)
            fprintf(stderr,
                "  next: weir verify --data %s names what is damaged; move the directory away and bring a backup back: "
                "weir restore FILE "
                "--data %s\n",
                server->data ? server->data : "DIR", server->data ? server->data : "DIR");
        server->status = err_exit(err->code);
        return;
    }
    executor_process_open(&server->executor, server->parts.loop, server->umask, server->files);
    server->executor_open = true;
    executor_process_set(&server->executor, &server->conf);
    loop_run(server->parts.loop);
    struct err ignored = { 0 };
    struct arena *arena = &server->arena;
    if (!fsx_remove(str_dupz(arena, str_fmt(arena, "%s/address", server->data)), &ignored))
        log_warn("server.address", "error=%s", log_quote(str_of(ignored.text)).z);
    log_event("server.end", "status=%d", server->status);
}

int server_run(const struct server_input *input)
{
    static struct server server;
    struct err err = { .code = ERR_none };
    server = (struct server){ .input = input };
    enum err_code unread = input->conf(input->owner, &server.arena, &server.conf);
    if (unread != ERR_none) {
        arena_release(&server.arena);
        return err_exit(unread);
    }
    if (input->show_config) {
        struct buf text;
        buf_init(&text, (size_t)1 << 20);
        conf_show(&text, &server.conf);
        fwrite(text.ptr, 1, text.len, stdout);
        buf_release(&text);
        arena_release(&server.arena);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    server.umask = umask(0077);
    getrlimit(RLIMIT_NOFILE, &server.files);
    assembly_init(&server.parts, on_failure, &server);
    server.end = (struct loop_timer){ .due = end_due, .owner = &server };
    signals_set(&server);
    server_serve(&server, &err);
    int status = server.status;
    server_close(&server);
    if (server.parts.hangs) { /* it may be anywhere in its libraries: nothing of theirs is taken down under it */
        fflush(NULL);
        _exit(status);
    }
    return status;
}
