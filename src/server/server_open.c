/* server_open: the parts of `weir serve`, opened one after the other, from the store upwards.
 *
 * What can't be opened ends the start with its error; parts that were opened before are closed by server_close. */
#include "server/server_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coord/coord.h"
#include "io/clock.h"
#include "io/door.h"
#include "io/fsx.h"
#include "io/log.h"
#include "server/server_name.h"
#include "text/conf_site.h"

enum { CONNECTIONS_MAX = 8192, DESCRIPTORS_KEPT = 64, AUTH_BYTES_MAX = 1000 };

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

/* auth_read: a fault is reported without the words of the file, which are secret. */
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
    return server->parts.store != NULL && assembly_readers(&server->parts, err);
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

static bool open_engine(struct server *server, struct err *err)
{
    const struct conf *conf = &server->conf;
    struct engine_config config = { .lease_ms = conf->lease_ms,
        .server_name = conf->name,
        .coordination = conf->coordination,
        .coordination_auth = server->coordination_auth,
        .server_host = str_of(server->parts.host),
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

/* open_spool: before the engine's first turn: a server whose spool is another's can't start. */
static bool open_spool(struct server *server, struct err *err)
{
    struct spool_config config = { .base = str_dupz(&server->arena, server->conf.spool.base),
        .server_name = server->conf.name };
    return server->conf.spool.base.len == 0 || assembly_spool(&server->parts, config, err);
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

static void others_committed(struct str note, void *owner)
{
    struct server *server = owner;
    if (note.len > 0)
        watch_hint_message(server->parts.watch, note);
    else
        engine_wake(server->parts.engine);
}

static bool start_engine(struct server *server, struct err *err)
{
    server_health_begin(server);
    const struct store_shared_ops *ops = server->parts.store->ops->shared;
    return assembly_start(&server->parts, err) &&
           (!ops || ops->on_others(server->parts.store, others_committed, server, err));
}

bool server_open(struct server *server, struct err *err)
{
    static bool (*const steps[])(struct server * server, struct err * err) = { open_data, server_tls_open, open_store,
        check_address, open_engine, open_watch, open_api, open_spool, start_engine, open_http, open_check };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!steps[i](server, err))
            return false;
    server_coordination_begin(server);
    return true;
}
