/* command: from argv to a command. Unknown names are usage errors with the nearest name as a suggestion. */
#include "cli/command.h"

#include <locale.h>
#include <signal.h>
#include <string.h>

#include "cli/session.h"

enum { COMMANDS_MAX = 64 };

static const struct command_spec *table;

static bool is_part(const struct command_spec *spec)
{
    return strchr(spec->name, ' ') != NULL;
}

const struct command_spec *command_next(const struct command_spec *after)
{
    const struct command_spec *next = after ? after + 1 : table;
    while (next->name && (is_part(next) || next->flags & COMMAND_HIDDEN))
        next++;
    return next->name ? next : NULL;
}

const struct command_spec *command_find(const char *name)
{
    for (const struct command_spec *spec = table; spec->name; spec++)
        if (!is_part(spec) && strcmp(spec->name, name) == 0)
            return spec;
    return NULL;
}

const struct command_spec *command_part_find(const struct command_spec *spec, const char *word)
{
    const struct command_spec *part;
    for (size_t i = 0; (part = command_part(spec, i)) != NULL; i++)
        if (strcmp(command_part_word(part), word) == 0)
            return part;
    return NULL;
}

static int command_unknown(const char *name)
{
    struct str candidates[COMMANDS_MAX];
    size_t n = 0;
    for (const struct command_spec *c = NULL; (c = command_next(c)) != NULL && n < COMMANDS_MAX;)
        candidates[n++] = str_of(c->name);
    struct str near = str_closest(str_of(name), candidates, n);
    term_say(stderr, "weir: unknown command '%s'%s%.*s%s", name, near.len ? "; did you mean '" : "", STR_ARG(near),
        near.len ? "'?" : "");
    fputs("  `weir help` lists the commands\n", stderr);
    return EXIT_USAGE;
}

/* common_words: how many words of argv from `at` are one common option with its value; 0: it isn't one. */
static int common_words(int argc, char **argv, int at)
{
    struct str word = str_of(argv[at]);
    if (str_eqz(word, "-q"))
        return 1;
    if (!str_starts(word, STR("--")))
        return 0;
    struct str name = str_sub(word, 2, word.len);
    ptrdiff_t equals = str_index(name, '=');
    struct str bare = equals < 0 ? name : str_sub(name, 0, (size_t)equals);
    for (const struct option_spec *o = options_common; o->name; o++)
        if (str_eqz(bare, o->name))
            return o->argument && equals < 0 && at + 1 < argc ? 2 : 1;
    return 0;
}

/* is_value: is the word the value of an option that stands before it? */
static bool is_value(const struct command_spec *spec, const char *before)
{
    const struct option_spec *o;
    if (strncmp(before, "--", 2) != 0)
        return false;
    for (size_t i = 0; (o = option_at(spec, i)) != NULL; i++)
        if (o->argument && strcmp(o->name, before + 2) == 0)
            return true;
    return false;
}

/* part_given: the part that the words name, which may stand behind options; its name becomes argv[0] of the rest. NULL:
 * none. */
static const struct command_spec *part_given(const struct command_spec *spec, int argc, char **argv)
{
    for (int at = 1; at < argc; at++) {
        const struct command_spec *part = command_part_find(spec, argv[at]);
        if (part && !is_value(spec, argv[at - 1])) {
            memmove(argv + 1, argv, sizeof *argv * (size_t)at);
            return part;
        }
    }
    return NULL;
}

/* part_missing: --help of the whole, or a usage error. */
static int part_missing(const struct command_spec *spec, int argc, char **argv)
{
    for (int at = 1; at < argc; at++)
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            options_print_help(stdout, spec);
            return 0;
        }
    struct arena arena = { 0 };
    struct str list = { 0 };
    const struct command_spec *part;
    for (size_t i = 0; (part = command_part(spec, i)) != NULL; i++)
        list = str_fmt(&arena, "%.*s%s%s", STR_ARG(list),
            i == 0                      ? ""
            : command_part(spec, i + 1) ? ", "
                                        : " or ",
            command_part_word(part));
    int status = argc > 1 ? usage_error(spec, "'%s' isn't %.*s", argv[1], STR_ARG(list))
                          : usage_error(spec, "%.*s?", STR_ARG(list));
    arena_release(&arena);
    return status;
}

static int command_run(const struct command_spec *spec, int argc, char **argv)
{
    const struct command_spec *part = part_given(spec, argc, argv);
    if (part)
        return command_run(part, argc - 1, argv + 1);
    if (spec->program)
        return spec->program(spec, argc, argv);
    int (*run)(struct session *) = spec->post ? verb_run : spec->get ? view_run : spec->run;
    if (!run)
        return part_missing(spec, argc, argv);
    struct session session;
    int status = session_open(&session, spec, argc, argv);
    return status == OPTIONS_RUN ? session_close(&session, run(&session)) : status;
}

/* Names of this program that mean one of its commands. */
static const struct {
    const char *program, *command, *part;
} aliases[] = {
    { "cscheckin", "cs", "submit" },
};

/* alias_find: the command that the program's own name means; NULL: none, it is called by what stands behind. */
static const struct command_spec *alias_find(const char *program)
{
    const char *slash = strrchr(program, '/');
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(slash ? slash + 1 : program, aliases[i].program) == 0)
            return command_part_find(command_find(aliases[i].command), aliases[i].part);
    return NULL;
}

int command_main(const struct command_spec *commands, int argc, char **argv)
{
    table = commands;
    setlocale(LC_CTYPE, "");
    const struct command_spec *alias = argc > 0 ? alias_find(argv[0]) : NULL;
    if (alias)
        return command_run(alias, argc, argv);
    int at = 1, words;
    while (at < argc && (words = common_words(argc, argv, at)) > 0)
        at += words;
    const char *name = at < argc ? argv[at] : NULL;
    if (!name) {
        command_run(command_find("help"), 1, argv);
        return argc > 1 ? EXIT_USAGE : 0;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    const struct command_spec *spec = command_find(name);
    if (!spec)
        return command_unknown(name);
    /* `weir --server X list --limit 3` becomes `list --server X --limit 3`: the words before the name move behind it.
     */
    char *own_name = argv[at];
    memmove(argv + 2, argv + 1, sizeof *argv * (size_t)(at - 1));
    argv[1] = own_name;
    return command_run(spec, argc - 1, argv + 1);
}
