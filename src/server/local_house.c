/* local_house: what a server is made of, behind a socket that only this run knows: store, engine, api; no address, no
 * executor of its own.
 *
 * It promises that `ready` hears a byte when the tasks are there and the socket answers, or closes without one after
 * the reason was reported. It ends on SIGTERM, and when the process that started it dies: then it waits for the
 * executor and removes the folder. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "server/assembly.h"
#include "server/local.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "cli/term.h"

enum { LEASE_MS = 15000, CONNECTIONS_MAX = 4096, ORPHAN_STEP_MS = 50, ORPHAN_MS = 20000 };

struct house {
    const struct local *local;
    int ready;
    struct assembly parts;
    struct arena arena; /* of the commands */
    struct command archive, revision;
    int status;
};

static void house_fail(const struct err *err, void *owner)
{
    struct house *house = owner;
    term_say(stderr, "weir local: %s", err->text);
    house->status = err_exit(err->code);
    loop_stop(house->parts.loop);
}

/* -- its tasks -- */

static void revision_done(struct command *command)
{
    struct house *house = command->owner;
    if (command->err.code != ERR_none) {
        house_fail(&command->err, house);
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
        house_fail(&command->err, house);
        return;
    }
    house->revision = (struct command){
        .kind = CMD_REVISION, .actor = command->actor, .arena = &house->arena, .done = revision_done, .owner = house
    };
    house->revision.in.revision.archive = house->local->archive;
    house->revision.in.revision.row = (struct revision){ .rev = LOCAL_REV, .time = clock_wall_ms() };
    house->revision.in.revision.definition = house->local->definition;
    engine_submit(house->parts.engine, &house->revision);
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
    engine_submit(house->parts.engine, &house->archive);
}

/* -- its life -- */

static void on_end(int signo, void *owner)
{
    struct house *house = owner;
    (void)signo;
    loop_stop(house->parts.loop);
}

static bool house_open(struct house *house, struct err *err)
{
    struct assembly *parts = &house->parts;
    const char *data = str_dupz(&house->arena, str_fmt(&house->arena, "%s/data", house->local->folder));
    const char *url = str_dupz(&house->arena, str_fmt(&house->arena, "sqlite://%s", data));
    parts->store_config = (struct store_config){ .url = url, .data_dir = data, .create = true };
    struct engine_config engine = { .lease_ms = LEASE_MS, .server_name = STR("local") };
    struct api_config api = { .server_name = "local", .lease_ms = LEASE_MS, .slots = house->local->slots };
    struct http_config http = { .socket_path = house->local->socket, .connections_max = CONNECTIONS_MAX };
    return fsx_make_dirs(data, 0700, err) && (parts->store = store_open(&parts->store_config, err)) != NULL &&
           assembly_readers(parts, err) && assembly_engine(parts, engine, err) && assembly_api(parts, api, err) &&
           assembly_start(parts, err) && assembly_http(parts, http, err);
}

static void house_close(struct house *house)
{
    assembly_close(&house->parts, 0);
    if (house->ready >= 0)
        close(house->ready);
    arena_release(&house->arena);
}

/* orphan_clean: the process that would have removed the folder is dead. The executor got its signal too; its lock is
 * free when it is gone. */
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
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    assembly_init(&house.parts, house_fail, &house);
    loop_on_signal(house.parts.loop, SIGTERM, on_end, &house);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (house_open(&house, &err)) {
        archive_add(&house);
        loop_run(house.parts.loop);
    } else {
        house_fail(&err, &house);
    }
    int status = house.status;
    house_close(&house);
    if (getppid() != parent)
        orphan_clean(local);
    return status;
}
