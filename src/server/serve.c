/* serve: the command that runs a server; its options and where its configuration comes from. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "server/server.h"
#include "server/server_name.h"
#include "cli/term.h"
#include "io/fsx.h"
#include "io/log.h"

enum { CONFIG_BYTES_MAX = 1 << 20, PATH_BYTES = 4096 };

extern char **environ;

struct serve {
    struct options options;
    struct arena arena; /* of the options */
};

/* Options that are settings; the others are ours. */
static bool option_is_setting(const char *name)
{
    static const char *const ours[] = { "config", "show-config", "log-level", "help" };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(name, ours[i]) == 0)
            return false;
    return true;
}

static void settings_collect(const struct options *options, struct arena *arena, struct conf_input *input)
{
    struct conf_option *list = ARENA_ARRAY(arena, struct conf_option, options->n_values);
    for (size_t i = 0; i < options->n_values; i++)
        if (option_is_setting(options->values[i].spec->name))
            list[input->n_options++] =
                (struct conf_option){ str_of(options->values[i].spec->name), str_of(options->values[i].value) };
    input->options = list;
}

/* config_read: the file that was named, or the usual one if it is there. */
static enum err_code config_read(const struct options *options, struct arena *arena, struct conf_input *input)
{
    const char *named = option_get(options, "config"), *variable = getenv("WEIR_CONFIG");
    struct diag_file *file = ARENA_NEW(arena, struct diag_file);
    struct err err = { 0 };
    if (!named && variable && *variable)
        named = variable;
    const char *path = named ? named : CONF_FILE_DEFAULT;
    if (!fsx_read(path, CONFIG_BYTES_MAX, arena, &file->text, &err)) {
        if (!named && err.code == ERR_not_found)
            return ERR_none;
        term_say(stderr, "weir serve: %s", err.text);
        return err.code;
    }
    file->name = str_dup(arena, str_of(path));
    input->file = file;
    return ERR_none;
}

/* faults_code: what is wrong on the command line alone is a wrong call; anything in a file or variable is wrong data.
 */
static enum err_code faults_code(const struct diags *diags)
{
    for (size_t i = 0; i < diags->n; i++) {
        const struct diag_file *file = diags->items[i].place.file;
        bool on_command_line = file && str_starts(file->name, STR("--"));
        if (diags->items[i].severity == DIAG_ERROR && !on_command_line)
            return ERR_invalid;
    }
    return ERR_usage;
}

static enum err_code serve_conf(void *owner, struct arena *arena, struct conf *out)
{
    struct serve *serve = owner;
    char cwd[PATH_BYTES];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct conf_input input = { .environment = (const char *const *)environ, .default_slots = cores > 0 ? cores : 1 };
    struct diags diags = { .arena = arena };
    if (!getcwd(cwd, sizeof cwd)) {
        fprintf(stderr, "weir serve: the current directory has no name: %s\n", strerrordesc_np(errno));
        return ERR_io;
    }
    input.cwd = str_dup(arena, str_of(cwd));
    input.default_name = server_name_default(arena);
    settings_collect(&serve->options, arena, &input);
    enum err_code unread = config_read(&serve->options, arena, &input);
    if (unread != ERR_none)
        return unread;
    bool good = conf_parse(&input, arena, &diags, out);
    diags_say(&diags);
    return good ? ERR_none : faults_code(&diags);
}

static void level_set(const char *word)
{
    static const struct {
        const char *word;
        enum log_level level;
    } levels[] = { { "debug", LOG_DEBUG_ }, { "info", LOG_INFO_ }, { "warn", LOG_WARN_ }, { "error", LOG_ERROR_ } };
    for (size_t i = 0; word && i < sizeof levels / sizeof *levels; i++)
        if (strcmp(word, levels[i].word) == 0)
            log_set_level(levels[i].level);
}

int cmd_serve(const struct command_spec *spec, int argc, char **argv)
{
    struct serve serve = { 0 };
    int status = options_parse(&serve.options, spec, argc, argv, &serve.arena);
    if (status == OPTIONS_RUN) {
        level_set(option_get(&serve.options, "log-level"));
        struct server_input input = {
            .conf = serve_conf, .owner = &serve, .show_config = option_given(&serve.options, "show-config")
        };
        status = server_run(&input);
    }
    arena_release(&serve.arena);
    return status;
}
