/* help: the list of commands, the help of one, the version; and, for the build, completions and the man page out of the same tables. */
#include <string.h>

#include "cmd/command.h"
#include "cmd/completion.h"
#include "text/task_doc.h"

static const struct option_spec help_options[] = {
    { "completion", 0, "SHELL", "the completion script of a shell", OPTION_HIDDEN, "bash|zsh|fish" },
    { "man", 0, NULL, "the man page weir(1) as scdoc source", OPTION_HIDDEN, NULL },
    { 0 },
};
const struct command_spec help_spec = {
    .name = "help",
    .operands = "[COMMAND [PART] | task]",
    .operands_max = 2,
    .summary = "what weir can do, how one command works, or what a task can say",
    .options = help_options,
};
static const struct option_spec version_options[] = { { "json", 0, NULL, "as a JSON document", 0, NULL }, { 0 } };
const struct command_spec version_spec = {
    .name = "version",
    .operands = "",
    .summary = "the version of this program",
    .options = version_options,
};

static void help_group(const char *group)
{
    size_t n;
    const struct command_row *rows = command_table(&n);
    printf("\n%s\n", group);
    for (size_t i = 0; i < n; i++)
        if (rows[i].group && strcmp(rows[i].group, group) == 0)
            printf("  %-12s %s\n", rows[i].spec->name, rows[i].spec->summary);
}

static void help_all(void)
{
    size_t n;
    const struct command_row *rows = command_table(&n);
    puts("weir: a durable queue of tasks with dependencies, and the executors that run them\n\nusage: weir COMMAND [OPTION...] ...");
    for (size_t i = 0; i < n; i++)
        if (rows[i].group && (i == 0 || !rows[i - 1].group || strcmp(rows[i].group, rows[i - 1].group) != 0))
            help_group(rows[i].group);
    puts("\n`weir COMMAND --help` tells how a command works, `weir help task` what a task can say. "
         "KEY is ARCHIVE@REV:NAME, QUEUE:ID or a task's id.\n"
         "Exit codes: 0 success, 1 the thing asked about failed, 2 usage, 65 bad input, 66 no such thing, 69 no server, 75 try again "
         "later, 77 not permitted.");
}

static const struct command_spec *part_find(const struct command_spec *spec, const char *part)
{
    for (const struct command_spec *const *p = spec->parts; p && *p; p++) {
        const char *blank = strrchr((*p)->name, ' ');
        if (blank && strcmp(blank + 1, part) == 0)
            return *p;
    }
    return NULL;
}

/* What a task can say, out of the table that reads it. */
static void help_task(void)
{
    struct task_doc_row row;
    puts("What a task can say, in a workflow (W) and when it is posted (Q); JSON Schema: `weir lint --schema`, GET /openapi.json\n");
    for (size_t i = 0; task_doc_row(i, &row); i++)
        printf("  %-14s %s%s  %s%s\n", row.name, row.in_workflow ? "W" : " ", row.in_queue ? "Q" : " ", row.sentence,
            row.reserved ? " (reserved for a later version)" : "");
}

static int help_one(const struct options *options)
{
    if (strcmp(options->operands[0], "task") == 0 && options->n_operands == 1) {
        help_task();
        return 0;
    }
    const struct command_row *row = command_find(options->operands[0]);
    if (!row)
        return usage_error(&help_spec, "there is no command '%s'; `weir help` lists them", options->operands[0]);
    const struct command_spec *spec = row->spec;
    if (options->n_operands > 1 && !(spec = part_find(row->spec, options->operands[1])))
        return usage_error(&help_spec, "'%s' has no part '%s'", options->operands[0], options->operands[1]);
    options_print_help(stdout, spec);
    return 0;
}

int help_main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct options options;
    int status = options_parse(&options, &help_spec, argc, argv, &arena);
    if (status == OPTIONS_RUN) {
        status = 0;
        if (option_given(&options, "completion"))
            completion_print(stdout, option_get(&options, "completion"));
        else if (option_given(&options, "man"))
            manual_print(stdout);
        else if (options.n_operands)
            status = help_one(&options);
        else
            help_all();
    }
    arena_release(&arena);
    return fflush(stdout) == 0 ? status : 1;
}

int version_main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct options options;
    int status = options_parse(&options, &version_spec, argc, argv, &arena);
    if (status == OPTIONS_RUN) {
        printf(option_given(&options, "json") ? "{\"version\":\"%s\"}\n" : "weir %s\n", WEIR_VERSION);
        status = 0;
    }
    arena_release(&arena);
    return fflush(stdout) == 0 ? status : 1;
}
