/* command: from argv to a command. Unknown names are usage errors with the nearest name as a suggestion. */
#include "cmd/command.h"

#include <locale.h>
#include <signal.h>
#include <string.h>

#include "cmd/term.h"

enum { COMMANDS_MAX = 64 };

static const struct command_row *rows;
static size_t n_rows;

const struct command_row *command_table(size_t *out_n)
{
    *out_n = n_rows;
    return rows;
}

const struct command_row *command_find(const char *name)
{
    for (size_t i = 0; i < n_rows; i++)
        if (strcmp(rows[i].spec->name, name) == 0)
            return &rows[i];
    return NULL;
}

static int command_unknown(const char *name)
{
    struct str candidates[COMMANDS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < n_rows && n < COMMANDS_MAX; i++)
        if (!(rows[i].spec->flags & COMMAND_HIDDEN))
            candidates[n++] = str_of(rows[i].spec->name);
    struct str near = str_closest(str_of(name), candidates, n);
    term_say(stderr, "weir: unknown command '%s'%s%.*s%s", name, near.len ? "; did you mean '" : "", STR_ARG(near), near.len ? "'?" : "");
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

int command_main(const struct command_row *commands, size_t n, int argc, char **argv)
{
    rows = commands;
    n_rows = n;
    setlocale(LC_CTYPE, "");
    int at = 1, words;
    while (at < argc && (words = common_words(argc, argv, at)) > 0)
        at += words;
    const char *name = at < argc ? argv[at] : NULL;
    if (!name) {
        const struct command_row *help = command_find("help");
        help->run(1, argv);
        return argc > 1 ? EXIT_USAGE : 0;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    const struct command_row *row = command_find(name);
    if (!row)
        return command_unknown(name);
    /* `weir --server X list --limit 3` becomes `list --server X --limit 3`: the words before the name move behind it. */
    char *own_name = argv[at];
    memmove(argv + 2, argv + 1, sizeof *argv * (size_t)(at - 1));
    argv[1] = own_name;
    return row->run(argc - 1, argv + 1);
}

int command_parts(const struct command_spec *spec, const struct command_part *parts, size_t n, int argc, char **argv)
{
    for (int at = 1; at < argc; at++)
        for (size_t i = 0; i < n; i++)
            if (strcmp(argv[at], parts[i].name) == 0) {
                memmove(argv + 1, argv, sizeof *argv * (size_t)at);
                return parts[i].run(argc - 1, argv + 1);
            }
    for (int at = 1; at < argc; at++)
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            options_print_help(stdout, spec);
            return 0;
        }
    struct arena arena = { 0 };
    struct str list = { 0 };
    for (size_t i = 0; i < n; i++)
        list = str_fmt(&arena, "%.*s%s%s", STR_ARG(list), i == 0 ? "" : i + 1 < n ? ", " : " or ", parts[i].name);
    int status = argc > 1 ? usage_error(spec, "'%s' isn't %.*s", argv[1], STR_ARG(list)) : usage_error(spec, "%.*s?", STR_ARG(list));
    arena_release(&arena);
    return status;
}
