/* executor: the daemon that runs tasks here for a server here or elsewhere; and what operators tell executors: drain, pause, resume. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/when.h"
#include "cmd/command.h"
#include "cmd/session.h"
#include "exec/agent.h"
#include "io/log.h"
#include "text/conf.h"
#include "text/key.h"

enum { SLOTS_MAX = 4096, LOG_BYTES_MAX = 8 << 20 };

static const struct option_spec executor_options[] = {
    {"server", 0, "URL", "the server; when one of several doesn't answer, the next is tried, and kept while it does",
     OPTION_REPEATABLE | OPTION_NON_EMPTY, NULL},
    {"data", 0, "DIR", "what must survive a restart (default $XDG_STATE_HOME/weir-executor)", OPTION_NON_EMPTY, NULL},
    {"slots", 0, "N", "how many tasks run at the same time (default: number of cores)", 0, NULL},
    {"zone", 0, "Z", "the zone it stands in", OPTION_NON_EMPTY, NULL},
    {"label", 0, "K=V", "what tasks may ask for", OPTION_REPEATABLE | OPTION_NON_EMPTY, NULL},
    {"name", 0, "N", "its name (default: the host's plus a few letters, kept in DIR)", OPTION_NON_EMPTY, NULL},
    {"token-file", 0, "F", "the file with the token, scope execute", OPTION_NON_EMPTY, NULL},
    {"ca", 0, "F", "the CA of https servers, instead of the system's (env WEIR_CA)", OPTION_NON_EMPTY, NULL},
    {"client-cert", 0, "F", "our certificate, for servers that want one (env WEIR_CLIENT_CERT)", OPTION_NON_EMPTY, NULL},
    {"client-key", 0, "F", "its key (env WEIR_CLIENT_KEY; default: in the certificate's file)", OPTION_NON_EMPTY, NULL},
    {"log-limit", 0, "SIZE", "a task's log is cut, and marked so, after this much (default 1GiB)", 0, NULL},
    {"grace", 0, "D", "time between TERM and KILL (default " CONF_GRACE_DEFAULT ")", 0, NULL},
    {"container", 0, "PROGRAM", "runs images (default: podman, else docker)", OPTION_NON_EMPTY, NULL},
    {"container-option", 0, "O", "stands between `run` and the image", OPTION_REPEATABLE | OPTION_NON_EMPTY, NULL},
    {"beside", 0, NULL, "belongs to the server on this machine: ends when that is gone and no task runs", OPTION_HIDDEN, NULL},
    {0},
};
static const char *const executor_examples[] = {
    "an executor on another machine", "weir executor --server https://weir.example:8420 --token-file /etc/weir/token --label os=linux",
    "let it finish its tasks and end", "weir executor drain node-a", NULL,
};
static const struct command_spec drain_spec = {
    .name = "executor drain", .operands = "NAME", .operands_min = 1, .operands_max = 1, .flags = COMMAND_CLIENT,
    .summary = "it takes no new tasks and ends when its last one has ended",
};
static const struct command_spec executor_pause_spec = {
    .name = "executor pause", .operands = "NAME", .operands_min = 1, .operands_max = 1, .flags = COMMAND_CLIENT,
    .summary = "it takes no new tasks for now",
};
static const struct command_spec executor_resume_spec = {
    .name = "executor resume", .operands = "NAME", .operands_min = 1, .operands_max = 1, .flags = COMMAND_CLIENT,
    .summary = "it takes tasks again",
};
static const struct command_spec *const executor_parts[] = {&drain_spec, &executor_pause_spec, &executor_resume_spec, NULL};
const struct command_spec executor_spec = {
    .name = "executor",
    .operands = "",
    .summary = "run tasks on this machine",
    .description =
        "SIGTERM ends the executor and leaves its tasks running: the next one with the same DIR takes them over. SIGINT ends both. "
        "Tasks run as the user who started it, with that user's rights.",
    .options = executor_options,
    .examples = executor_examples,
    .parts = executor_parts,
};

static const struct {
    const char *verb, *word;
    const struct command_spec *spec;
} orders[] = {
    {"drain", "draining", &drain_spec},
    {"pause", "paused", &executor_pause_spec},
    {"resume", "active", &executor_resume_spec},
};

static int executor_order(size_t which, int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, orders[which].spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    const char *name = s.options.operands[0];
    struct str encoded = client_encode(&s.arena, str_of(name));
    struct str path = str_fmt(&s.arena, "/v1/executors/%.*s/%s", STR_ARG(encoded), orders[which].verb);
    json_t *answer = session_post(&s, str_dupz(&s.arena, path), NULL);
    if (!answer)
        return session_close(&s, s.status);
    if (s.json)
        session_print(&s, answer);
    else
        printf("%s is %s\n", term_safe_z(&s.arena, name), orders[which].word);
    json_decref(answer);
    return session_close(&s, 0);
}

static const char *default_dir(struct arena *arena)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/')
        return str_dupz(arena, str_fmt(arena, "%s/weir-executor", state));
    return str_dupz(arena, str_fmt(arena, "%s/.local/state/weir-executor", home && home[0] ? home : "/var/lib"));
}

static const char *const *list_of(const struct options *options, const char *name, size_t *out_n, struct arena *arena)
{
    size_t n = option_count(options, name);
    const char **list = ARENA_ARRAY(arena, const char *, n + 1);
    for (size_t i = 0; i < n; i++)
        list[i] = option_nth(options, name, i);
    *out_n = n;
    return list;
}

/* names_good: as the server will want them; a name that it refuses must not get into the directory, where it would stay. */
static bool names_good(const struct agent_config *config)
{
    const struct {
        const char *text, *what, *option;
    } names[] = { { config->name, "executor", "--name" }, { config->zone, "zone", "--zone" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct err fault = { 0 };
        if (names[i].text && !name_check(str_of(names[i].text), names[i].what, &fault)) {
            usage_error(&executor_spec, "%s: %s", names[i].option, fault.text);
            return false;
        }
    }
    return true;
}

static bool labels_good(const struct agent_config *config)
{
    for (size_t i = 0; i < config->n_labels; i++) {
        ptrdiff_t at = str_index(str_of(config->labels[i]), '=');
        if (at <= 0) {
            usage_error(&executor_spec, "--label '%s' must be K=V", config->labels[i]);
            return false;
        }
    }
    return true;
}

/* file_pass: the file by a name that holds everywhere, also in our environment: shims and tasks talk to the same server. */
static const char *file_pass(const char *variable, const char *path, struct arena *arena)
{
    char whole[PATH_MAX];
    if (!path)
        return NULL;
    if (!realpath(path, whole))
        return path; /* the client tells what is wrong with it */
    setenv(variable, whole, 1);
    return str_dupz(arena, str_of(whole));
}

/* executor_configure: options into *config; false: a usage error was printed. */
static bool executor_configure(struct session *s, struct agent_config *config)
{
    const struct options *options = &s->options;
    struct arena *arena = &s->arena;
    size_t n_options;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *config = (struct agent_config){ .slots = cores > 0 ? cores : 1, .log_bytes_max = (uint64_t)1 << 30 };
    ASSERT(duration_parse(STR(CONF_GRACE_DEFAULT), &config->grace_ms));
    config->servers = list_of(options, "server", &config->n_servers, arena);
    if (config->n_servers == 0) {
        const char **one = ARENA_ARRAY(arena, const char *, 1);
        one[0] = s->server;
        config->servers = one;
        config->n_servers = 1;
    }
    config->labels = list_of(options, "label", &config->n_labels, arena);
    config->container_options = list_of(options, "container-option", &n_options, arena);
    config->data = option_get(options, "data");
    if (!config->data)
        config->data = default_dir(arena);
    config->name = option_get(options, "name");
    config->zone = option_get(options, "zone");
    config->container = option_get(options, "container");
    config->beside = option_given(options, "beside");
    config->token = s->token;
    config->ca_file = file_pass("WEIR_CA", s->ca, arena);
    config->client_cert = file_pass("WEIR_CLIENT_CERT", s->client_cert, arena);
    config->client_key = file_pass("WEIR_CLIENT_KEY", s->client_key, arena);
    return option_i64(options, "slots", 1, SLOTS_MAX, &config->slots) && option_duration(options, "grace", &config->grace_ms) &&
           option_size(options, "log-limit", &config->log_bytes_max) && labels_good(config) && names_good(config);
}

/* log_keep_small: the log of an executor beside a server is a file of the server's, which nobody rotates. */
static void log_keep_small(void)
{
    char path[4000];
    ssize_t n = readlink("/proc/self/fd/2", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (str_ends(str_of(path), STR("/executor.log")))
        log_bound(path, LOG_BYTES_MAX);
}

int cmd_executor(int argc, char **argv)
{
    /* Like `token`: the part's name may stand behind common options that came before the command. */
    for (int at = 1; at < argc; at++)
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
            if (strcmp(argv[at], orders[i].verb) == 0 && (at == 1 || argv[at - 1][0] != '-')) {
                memmove(argv + 1, argv, sizeof *argv * (size_t)at);
                return executor_order(i, argc - 1, argv + 1);
            }
    struct session s = {0};
    struct agent_config config;
    s.err.arena = &s.arena;
    int status = options_parse(&s.options, &executor_spec, argc, argv, &s.arena);
    if (status == OPTIONS_RUN && !session_choose(&s))
        status = s.status;
    else if (status == OPTIONS_RUN && !executor_configure(&s, &config))
        status = EXIT_USAGE;
    if (status == OPTIONS_RUN && config.beside)
        log_keep_small();
    if (status == OPTIONS_RUN)
        status = agent_run(&config);
    arena_release(&s.arena);
    return status;
}
