/* agent: its life: the directory and its lock, the shims of an earlier agent, signals, failures and the ways to end.
 *
 * Promises: one agent per directory; SIGTERM ends the agent and leaves jobs to their shims; SIGINT ends the jobs too. A
 * server can end the agent only by an order to drain, or, if it has started the agent (`beside`), by being gone. A job
 * never ends it.
 *
 * Fails at start only: when the directory can't be used, another agent has it, or a server's address isn't one. */
#include "exec/agent/agent.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/kind.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "io/log.h"

enum { RETRY_MIN_MS = 50, RETRY_MAX_MS = 2000, ALONE_MS = 2000, STOP_REPORT_MS = 2000, IDLE_KEEP_MS = 60000 };

/* --- small things the other files ask for --- */

struct client *agent_client(struct agent *agent)
{
    return agent->clients[agent->server];
}

size_t agent_running(const struct agent *agent)
{
    size_t n = 0;
    for (size_t i = 0; i < agent->n_handles; i++)
        n += agent->handles[i]->state == HANDLE_RUNNING || agent->handles[i]->state == HANDLE_DROPPED;
    return n;
}

struct shim_handle *agent_find(struct agent *agent, struct str fence)
{
    for (size_t i = 0; i < agent->n_handles; i++)
        if (agent->handles[i]->state > HANDLE_IDLE && str_eqz(fence, agent->handles[i]->fence))
            return agent->handles[i];
    return NULL;
}

struct shim_handle *agent_idle_handle(struct agent *agent)
{
    struct shim_handle *empty = NULL;
    unsigned number = 0;
    for (size_t i = 0; i < agent->n_handles; i++) {
        struct shim_handle *handle = agent->handles[i];
        if (handle->state == HANDLE_IDLE && !handle->unheard)
            return handle;
        if (handle->state == HANDLE_EMPTY && !empty)
            empty = handle;
        if (handle->number >= number)
            number = handle->number + 1;
    }
    struct err err = { .code = ERR_none };
    if (!empty && !(empty = shim_handle_new(agent, number, &err)))
        log_error("handle.new", "error=%s", log_quote(str_of(err.text)).z);
    return empty;
}

void agent_timed(struct agent *agent, int64_t started_us)
{
    int64_t us = clock_boot_us() - started_us;
    agent->ahead.job_us = agent->ahead.jobs_timed == 0 ? us : agent->ahead.job_us + (us - agent->ahead.job_us) / 8;
    agent->ahead.jobs_timed += agent->ahead.jobs_timed < 1000;
}

struct place agent_place(const struct agent *agent, const struct shim_handle *handle)
{
    return (struct place){
        .dir = handle->dir,
        .server = agent->config->servers[agent->server],
        .path = agent->path,
        .lang = agent->lang,
        .container = agent->container,
        .container_options = agent->config->container_options,
        .environ = environ,
        .log_bytes_max = agent->config->log_bytes_max,
        .grace_ms = agent->config->grace_ms,
        .apply = agent->config->apply,
    };
}

/* --- the server comes and goes --- */

void agent_answered(struct agent *agent, int64_t sent_ms)
{
    if (agent->silent_since_ms != 0)
        log_event("server.back", "server=%s", agent->config->servers[agent->server]);
    agent->silent_since_ms = 0;
    agent->failures = 0;
    agent->unheard = false;
    if (sent_ms > agent->heard_ms)
        agent->heard_ms = sent_ms;
}

void agent_failed(struct agent *agent, const char *what, const struct err *err)
{
    /* A silence is logged once. It is logged again if its reason changes to one that a person has to mend, as a server
     * that was restarted with an expired certificate. */
    bool refused = err->code == ERR_untrusted || err->code == ERR_unauthorized || err->code == ERR_forbidden;
    if (agent->silent_since_ms == 0 || (refused && err->code != agent->silent_code)) {
        agent->silent_since_ms = agent->silent_since_ms ? agent->silent_since_ms : clock_boot_ms();
        agent->silent_code = err->code;
        log_warn("server.failed", "server=%s request=%s error=%s", agent->config->servers[agent->server], what,
            log_quote(str_of(err->text)).z);
    }
    for (size_t i = 0; i < agent->n_handles; i++)
        report_doubt(agent->handles[i]);
    /* The pause grows each time all servers have failed once more. The random part keeps executors that lost the same
     * server from reaching the next one all at once. */
    unsigned round = agent->failures / (unsigned)agent->config->n_servers, shift = round < 6 ? round : 6, chance = 0;
    int64_t wait_ms = RETRY_MIN_MS << shift;
    wait_ms = wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
    clock_entropy(&chance, sizeof chance);
    wait_ms = wait_ms * 3 / 4 + (int64_t)(chance % 1024) * wait_ms / 2048;
    agent->failures++;
    agent->unheard = true;
    agent->hung = clock_boot_ms() >= agent->answer_by_ms;
    loop_arm(agent->loop, &agent->retry, loop_now(agent->loop) + wait_ms);
    agent_check_end(agent);
}

static void agent_retry(struct loop_timer *timer)
{
    struct agent *agent = timer->owner;
    size_t n = agent->config->n_servers;
    /* after the second failure in a row, or a time-out, the next server */
    if (n > 1 && (agent->failures > 1 || agent->hung)) {
        agent->server = (agent->server + 1) % n;
        agent->registered = false;
        /* this server may lag behind the other one, or have another store: only an event that it named itself shows
         * that its store has become an older copy */
        agent->polls.seen[0] = '\0';
    }
    if (!agent->registered)
        agent_register(agent);
}

/* --- the ways to end --- */

static bool agent_all_told(const struct agent *agent)
{
    for (size_t i = 0; i < agent->n_handles; i++)
        if (agent->handles[i]->state > HANDLE_IDLE)
            return false;
    return true;
}

static void agent_end(struct agent *agent, const char *why)
{
    log_event("executor.ends", "reason=\"%s\" running=%zu", why, agent_running(agent));
    loop_stop(agent->loop);
}

void agent_check_end(struct agent *agent)
{
    bool running = agent_running(agent) > 0;
    int64_t now = clock_boot_ms();
    if (agent->stopping && !running && (agent_all_told(agent) || (agent->silent_since_ms != 0 && now > agent->stop_at)))
        agent_end(agent, "interrupted");
    else if (agent->draining && !agent->config->beside && agent_all_told(agent))
        agent_end(agent, "drained");
    else if (agent->config->beside && !running && agent->silent_since_ms != 0 &&
             now - agent->silent_since_ms >= ALONE_MS)
        agent_end(agent, "the server is gone");
}

static void agent_stop_due(struct loop_timer *timer)
{
    agent_end(timer->owner, "interrupted, and something would not end in time");
}

static void agent_on_term(int signo, void *owner)
{
    (void)signo;
    agent_end(owner, "terminated");
}

static void agent_on_int(int signo, void *owner)
{
    (void)signo;
    struct agent *agent = owner;
    if (agent->stopping) {
        agent_end(agent, "interrupted twice");
        return;
    }
    agent->stopping = true;
    agent_forget_ahead(agent);
    int64_t grace_ms = agent->config->grace_ms;
    for (size_t i = 0; i < agent->n_handles; i++)
        shim_handle_signal(agent->handles[i], SIGTERM, grace_ms, OUTCOME_lost);
    agent->stop_at = clock_boot_ms() + grace_ms + STOP_REPORT_MS;
    loop_arm(agent->loop, &agent->stop, agent->stop_at);
    agent_check_end(agent);
}

static void agent_on_child(int signo, void *owner)
{
    (void)signo;
    (void)owner;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ; /* only so that no zombie stays: a shim's end is noticed on its connection */
}

/* agent_idle: ends shims that have been idle for IDLE_KEEP_MS; the timer is armed only while there are idle ones. */
static void agent_idle(struct loop_timer *timer)
{
    struct agent *agent = timer->owner;
    int64_t now = loop_now(agent->loop), next = INT64_MAX;
    for (size_t i = 0; i < agent->n_handles; i++) {
        struct shim_handle *handle = agent->handles[i];
        if (handle->state != HANDLE_IDLE)
            continue;
        int64_t at = handle->idle_since_ms + IDLE_KEEP_MS;
        if (at <= now)
            shim_handle_retire(handle);
        else if (at < next)
            next = at;
    }
    if (next != INT64_MAX)
        loop_arm(agent->loop, &agent->idle, next);
}

static int64_t agent_before_wait(void *owner)
{
    struct agent *agent = owner;
    int64_t next;
    while (agent_poll_if_due(agent, &next))
        ;
    if (agent->idle.node.pos == 0)
        for (size_t i = 0; i < agent->n_handles; i++)
            if (agent->handles[i]->state == HANDLE_IDLE) {
                loop_arm(agent->loop, &agent->idle, loop_now(agent->loop) + IDLE_KEEP_MS);
                break;
            }
    if (agent->stopping || agent->draining)
        agent_check_end(agent);
    return next;
}

/* --- the directory --- */

static bool make_dirs(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *at = copy + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        mkdir(copy, 0700);
        *at = '/';
    }
    return mkdir(copy, 0700) == 0 || errno == EEXIST;
}

static bool file_get(const char *dir, const char *name, char *out, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    fsx_read_text(AT_FDCWD, path, 0, out, size);
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

static bool file_set(const char *dir, const char *name, const char *text, struct err *err)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >= sizeof temporary)
        return err_set(err, ERR_io, "%s: the path is too long", dir);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok =
        fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    fsx_close(fd);
    if (!ok || rename(temporary, path) < 0)
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    return true;
}

/* agent_identify: name and instance must survive a restart: the server knows by them that our tasks are ours. */
static bool agent_identify(struct agent *agent, struct err *err)
{
    char text[300], host[65];
    if (!file_get(agent->dir, "instance", agent->instance, sizeof agent->instance)) {
        unsigned char random[16];
        clock_entropy(random, sizeof random);
        for (size_t i = 0; i < sizeof random; i++)
            snprintf(agent->instance + 2 * i, 3, "%02x", random[i]);
        if (!file_set(agent->dir, "instance", agent->instance, err))
            return false;
    }
    if (gethostname(host, sizeof host) < 0 || host[0] == '\0')
        snprintf(host, sizeof host, "localhost");
    host[sizeof host - 1] = '\0';
    agent->host = strdup(host);
    for (char *c = host; *c; c++) /* only characters that servers accept in a name */
        if (!isalnum((unsigned char)*c) && *c != '.' && (*c != '-' || c == host))
            *c = c == host ? 'h' : '-';
    if (agent->config->name)
        snprintf(text, sizeof text, "%s", agent->config->name);
    else if (!file_get(agent->dir, "name", text, sizeof text))
        snprintf(text, sizeof text, "%s-%.6s", host, agent->instance);
    agent->name = strdup(text);
    return file_set(agent->dir, "name", text, err);
}

static bool agent_open_dir(struct agent *agent, struct err *err)
{
    char path[PATH_MAX];
    if (!make_dirs(agent->config->data) || !realpath(agent->config->data, path))
        return err_set(err, ERR_io, "%s: %s", agent->config->data, strerrordesc_np(errno));
    agent->dir = strdup(path);
    snprintf(path, sizeof path, "%s/lock", agent->dir);
    agent->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (agent->lock_fd < 0)
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    if (flock(agent->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_too_many, "%s: another executor works in this directory", agent->dir);
    snprintf(path, sizeof path, "%s/shims", agent->dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    agent->shims_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (agent->shims_fd < 0)
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    return agent_identify(agent, err);
}

/* --- start and end --- */

static bool program_found(const char *program, const char *path)
{
    struct str rest = str_of(path), dir;
    char file[PATH_MAX];
    while (str_cut(&rest, ':', &dir)) {
        snprintf(file, sizeof file, "%.*s/%s", STR_ARG(dir), program);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}

static const char *container_program(const struct agent *agent)
{
    static const char *const programs[] = { "podman", "docker" };
    if (agent->config->container)
        return agent->config->container;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (program_found(programs[i], agent->path))
            return programs[i];
    return NULL;
}

static void agent_open_loop(struct agent *agent)
{
    static const struct {
        int signo;
        void (*fn)(int signo, void *owner);
    } traps[] = { { SIGTERM, agent_on_term }, { SIGINT, agent_on_int }, { SIGCHLD, agent_on_child } };
    agent->loop = loop_new();
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++)
        loop_on_signal(agent->loop, traps[i].signo, traps[i].fn, agent);
    signal(SIGHUP, SIG_IGN); /* a terminal that goes away is no reason to stop */
    agent->retry = (struct loop_timer){ .due = agent_retry, .owner = agent };
    agent->stop = (struct loop_timer){ .due = agent_stop_due, .owner = agent };
    agent->idle = (struct loop_timer){ .due = agent_idle, .owner = agent };
    loop_before_wait(agent->loop, agent_before_wait, agent);
}

/* Each shim costs a handful of descriptors; many slots need more than the usual limit. */
static void agent_raise_files(int64_t slots)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)slots * 24 + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool agent_open(struct agent *agent, const struct agent_config *config, struct err *err)
{
    const char *path = getenv("PATH"), *lang = getenv("LANG");
    *agent = (struct agent){ .config = config, .lock_fd = -1, .shims_fd = -1, .lease_ms = 15000 };
    agent->path = strdup(path && path[0] ? path : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    agent->lang = strdup(lang && lang[0] ? lang : "C.UTF-8");
    agent->container = container_program(agent);
    /* above every number of an earlier agent, else grants of that one would be kept until their leases expire */
    agent->polls.seq = clock_wall_ms() * 1000;
    buf_init(&agent->polls.body, (size_t)64 << 20);
    agent_raise_files(config->slots);
    agent_open_loop(agent);
    agent->clients = mem_alloc(config->n_servers * sizeof *agent->clients);
    memset(agent->clients, 0, config->n_servers * sizeof *agent->clients);
    for (size_t i = 0; i < config->n_servers; i++) {
        struct client_config one = { .server = config->servers[i],
            .token = config->token,
            .ca_file = config->ca_file,
            .client_cert = config->client_cert,
            .client_key = config->client_key };
        agent->clients[i] = client_open(&one, agent->loop, err);
        if (!agent->clients[i])
            return false;
    }
    if (!agent_open_dir(agent, err))
        return false;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* processes of a shim that dies become our children */
    agent->found_ms = loop_now(agent->loop);
    return shim_handle_find_all(agent, err);
}

static void agent_close(struct agent *agent)
{
    for (size_t i = 0; i < agent->n_handles; i++)
        shim_handle_free(agent->handles[i]);
    mem_free(agent->handles);
    for (size_t i = 0; agent->clients && i < agent->config->n_servers; i++)
        if (agent->clients[i])
            client_close(agent->clients[i]);
    mem_free(agent->clients);
    agent_forget_ahead(agent);
    for (struct list_node *node; (node = list_take_first(&agent->polls.all));) {
        struct poll_call *call = CONTAINER_OF(node, struct poll_call, node);
        mem_free(call->told);
        mem_free(call);
    }
    loop_free(agent->loop);
    buf_release(&agent->polls.body);
    arena_release(&agent->scratch);
    char *texts[] = { agent->dir, agent->name, agent->path, agent->lang, agent->host };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    fsx_close(agent->shims_fd);
    fsx_close(agent->lock_fd);
}

int agent_run(const struct agent_config *config)
{
    static struct agent agent;
    struct err err = { .code = ERR_none };
    if (!agent_open(&agent, config, &err)) {
        fprintf(stderr, "weir executor: %s\n", err.text);
        agent_close(&agent);
        return err_exit(err.code);
    }
    log_event("executor.start", "name=%s dir=%s slots=%lld sandbox=none found=%zu", log_quote(str_of(agent.name)).z,
        agent.dir, (long long)config->slots, agent_running(&agent));
    agent_register(&agent);
    loop_run(agent.loop);
    agent_close(&agent);
    return agent.exit_status;
}
