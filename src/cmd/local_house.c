/* local_house: what a server is made of, behind a socket that only this run knows: store, engine, api; no address, no executor of its own.
 *
 * It promises that `ready` hears a byte when the tasks are there and the socket answers, or closes without one after the reason was
 * said. It ends on SIGTERM, and when the process that started it dies: then it waits for the executor and removes the folder. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "api/api.h"
#include "cmd/local.h"
#include "engine/engine.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "io/http.h"
#include "store/logs.h"
#include "store/read.h"
#include "cmd/term.h"

enum { LEASE_MS = 15000, CONNECTIONS_MAX = 4096, IDLE_S = 15, ORPHAN_STEP_MS = 50, ORPHAN_MS = 20000, HOST_MAX = 65 };

struct house {
    const struct local *local;
    int ready;
    const char *data;
    char host[HOST_MAX];
    struct store_config store_config;
    struct loop *loop;
    struct store *store;
    struct logs *logs;
    struct reader *reader;
    struct engine *engine;
    struct api *api;
    struct http_server *http;
    bool started;
    struct arena arena; /* of the commands */
    struct command archive, revision;
    int status;
};

static void house_fail(struct house *house, const struct err *err)
{
    term_say(stderr, "weir local: %s", err->text);
    house->status = err_exit(err->code);
    loop_stop(house->loop);
}

/* -- its tasks -- */

static void revision_done(struct command *command)
{
    struct house *house = command->owner;
    if (command->err.code != ERR_none) {
        house_fail(house, &command->err);
        return;
    }
    ssize_t n = write(house->ready, "1", 1);
    (void)n; /* nobody there: SIGTERM is on its way */
    close(house->ready);
    house->ready = -1;
}

static void archive_done(struct command *command)
{
    struct house *house = command->owner;
    if (command->err.code != ERR_none) {
        house_fail(house, &command->err);
        return;
    }
    house->revision =
        (struct command){ .kind = CMD_REVISION, .actor = command->actor, .arena = &house->arena, .done = revision_done, .owner = house };
    house->revision.in.revision.archive = house->local->archive;
    house->revision.in.revision.row = (struct revision){ .rev = LOCAL_REV, .time = clock_wall_ms() };
    house->revision.in.revision.definition = house->local->definition;
    engine_submit(house->engine, &house->revision);
}

static void archive_add(struct house *house)
{
    struct str actor = str_fmt(&house->arena, "uid:%u", (unsigned)geteuid());
    house->archive = (struct command){ .kind = CMD_ARCHIVE_ADD,
        .actor = { actor, STR("default") },
        .arena = &house->arena,
        .done = archive_done,
        .owner = house };
    house->archive.in.archive_add.name = house->local->archive;
    house->archive.in.archive_add.archive = (struct archive){ .kind = ARCHIVE_EXTERNAL, .first = LOCAL_REV };
    engine_submit(house->engine, &house->archive);
}

/* -- its life -- */

static void on_commit(int64_t seq, void *owner)
{
    struct house *house = owner;
    api_on_commit(seq, house->api);
}

static void on_failure(const struct err *err, void *owner)
{
    house_fail(owner, err);
}

static void on_end(int signo, void *owner)
{
    struct house *house = owner;
    (void)signo;
    loop_stop(house->loop);
}

static bool store_parts_open(struct house *house, struct err *err)
{
    house->data = str_dupz(&house->arena, str_fmt(&house->arena, "%s/data", house->local->folder));
    const char *url = str_dupz(&house->arena, str_fmt(&house->arena, "sqlite://%s", house->data));
    house->store_config = (struct store_config){ .url = url, .data_dir = house->data, .create = true };
    if (!fsx_make_dirs(house->data, 0700, err) || !(house->store = store_open(&house->store_config, err)) ||
        !(house->logs = logs_open(house->data, err)) || !(house->reader = reader_open(&house->store_config, err)))
        return false;
    struct engine_config config = {
        .store = house->store, .logs = house->logs, .lease_ms = LEASE_MS, .data_dir = house->data, .server_name = STR("local")
    };
    house->engine = engine_new(&config, clock_wall_ms(), clock_boot_ms(), err);
    return house->engine != NULL;
}

static bool house_open(struct house *house, struct err *err)
{
    if (!store_parts_open(house, err))
        return false;
    struct api_config api = { .loop = house->loop,
        .engine = house->engine,
        .reader = house->reader,
        .logs = house->logs,
        .store = &house->store_config,
        .server_name = "local",
        .host = house->host,
        .version = WEIR_VERSION,
        .lease_ms = LEASE_MS,
        .slots = house->local->slots };
    house->api = api_new(&api, err);
    house->started = house->api && engine_start(house->engine, house->loop, on_commit, on_failure, house, err);
    if (!house->started)
        return false;
    struct http_config http = { .socket_path = house->local->socket,
        .connections_max = CONNECTIONS_MAX,
        .idle_timeout_s = IDLE_S,
        .body_limit = api_body_limit,
        .serve = api_serve,
        .owner = house->api };
    house->http = http_server_open(house->loop, &http, err);
    return house->http != NULL;
}

static void house_close(struct house *house)
{
    if (house->started) {
        api_closing(house->api);
        engine_stop(house->engine);
        loop_step(house->loop, 0);
    }
    if (house->http)
        http_server_close(house->http);
    if (house->api)
        api_threads_end(house->api);
    if (house->engine)
        engine_free(house->engine);
    if (house->api)
        api_free(house->api);
    if (house->reader)
        reader_close(house->reader);
    if (house->logs)
        logs_close(house->logs);
    if (house->store)
        house->store->ops->close(house->store);
    loop_free(house->loop);
    if (house->ready >= 0)
        close(house->ready);
    arena_release(&house->arena);
}

/* orphan_clean: the one who would have removed the folder is dead. The executor got its signal too; its lock tells when it is gone. */
static void orphan_clean(const struct local *local)
{
    char lock[4096];
    int64_t until = clock_boot_ms() + ORPHAN_MS;
    snprintf(lock, sizeof lock, "%s/executor/lock", local->folder);
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && clock_boot_ms() < until)
        usleep(ORPHAN_STEP_MS * 1000);
    if (fd >= 0)
        close(fd);
    local_remove(local->folder);
}

int local_house(const struct local *local, int ready)
{
    static struct house house;
    struct err err = { .code = ERR_none };
    pid_t parent = getppid();
    house = (struct house){ .local = local, .ready = ready };
    if (gethostname(house.host, sizeof house.host - 1) < 0)
        house.host[0] = '\0';
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    house.loop = loop_new();
    loop_on_signal(house.loop, SIGTERM, on_end, &house);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (house_open(&house, &err)) {
        archive_add(&house);
        loop_run(house.loop);
    } else {
        house_fail(&house, &err);
    }
    int status = house.status;
    house_close(&house);
    if (getppid() != parent)
        orphan_clean(local);
    return status;
}
