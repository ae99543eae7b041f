/* executor: the daemon that runs tasks here for a server here or elsewhere; and what operators tell executors: drain,
 * pause, resume. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/when.h"
#include "cli/command.h"
#include "cli/session.h"
#include "exec/agent/agent.h"
#include "io/log.h"
#include "text/conf.h"
#include "text/key.h"

enum { SLOTS_MAX = 4096, LOG_BYTES_MAX = 8 << 20 };

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

/* names_good: as the server will want them; a name that it refuses must not get into the directory, where it would
 * stay. */
static bool names_good(const struct session *s, const struct agent_config *config)
{
    const struct {
        const char *text, *what, *option;
    } names[] = { { config->name, "executor", "--name" }, { config->zone, "zone", "--zone" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct err fault = { 0 };
        if (names[i].text && !name_check(str_of(names[i].text), names[i].what, &fault)) {
            usage_error(s->options.spec, "%s: %s", names[i].option, fault.text);
            return false;
        }
    }
    return true;
}

static bool labels_good(const struct session *s, const struct agent_config *config)
{
    for (size_t i = 0; i < config->n_labels; i++) {
        ptrdiff_t at = str_index(str_of(config->labels[i]), '=');
        if (at <= 0) {
            usage_error(s->options.spec, "--label '%s' must be K=V", config->labels[i]);
            return false;
        }
    }
    return true;
}

/* file_pass: the file by a name that holds everywhere, also in our environment: shims and tasks talk to the same
 * server. */
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
    config->apply = config->beside || option_given(options, "apply");
    config->token = s->token;
    config->ca_file = file_pass("WEIR_CA", s->ca, arena);
    config->client_cert = file_pass("WEIR_CLIENT_CERT", s->client_cert, arena);
    config->client_key = file_pass("WEIR_CLIENT_KEY", s->client_key, arena);
    return option_i64(options, "slots", 1, SLOTS_MAX, &config->slots) &&
           option_duration(options, "grace", &config->grace_ms) &&
           option_size(options, "log-limit", &config->log_bytes_max) && labels_good(s, config) && names_good(s, config);
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

int cmd_executor(const struct command_spec *spec, int argc, char **argv)
{
    struct session s = { 0 };
    struct agent_config config;
    s.err.arena = &s.arena;
    int status = options_parse(&s.options, spec, argc, argv, &s.arena);
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
