/* help: the list of commands, the help of one, the version; and, for the build, completions and the man page out of the
 * same tables. */
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"
#include "text/task_doc.h"

static void help_group(const char *group)
{
    printf("\n%s\n", group);
    for (const struct command_spec *c = NULL; (c = command_next(c)) != NULL;)
        if (strcmp(c->group, group) == 0)
            printf("  %-12s %s\n", c->name, c->summary);
}

static void help_all(void)
{
    const char *group = "";
    puts("weir: a durable queue of tasks with dependencies, and the executors that run them\n\nusage: weir COMMAND "
         "[OPTION...] ...");
    for (const struct command_spec *c = NULL; (c = command_next(c)) != NULL; group = c->group)
        if (strcmp(c->group, group) != 0)
            help_group(c->group);
    puts("\n`weir COMMAND --help` tells how a command works, `weir help task` what a task can say. "
         "KEY is ARCHIVE@REV:NAME, QUEUE:ID or a task's id.\n"
         "Exit codes: 0 success, 1 the thing asked about failed, 2 usage, 65 bad input, 66 no such thing, 69 no "
         "server, 75 try again "
         "later, 77 not permitted.");
}

/* What a task can say, out of the table that reads it. */
static void help_task(void)
{
    struct task_doc_row row;
    puts("What a task can say, in a workflow (W) and when it is posted (Q); JSON Schema: `weir lint --schema`, GET "
         "/openapi.json\n");
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
    const struct command_spec *spec = command_find(options->operands[0]), *part = NULL;
    if (!spec)
        return usage_error(options->spec, "there is no command '%s'; `weir help` lists them", options->operands[0]);
    if (options->n_operands > 1 && !(part = command_part_find(spec, options->operands[1])))
        return usage_error(options->spec, "'%s' has no part '%s'", options->operands[0], options->operands[1]);
    options_print_help(stdout, part ? part : spec);
    return 0;
}

int help_command(struct session *s)
{
    if (option_given(&s->options, "completion"))
        completion_print(stdout, option_get(&s->options, "completion"));
    else if (option_given(&s->options, "man"))
        manual_print(stdout);
    else if (s->options.n_operands)
        return help_one(&s->options);
    else
        help_all();
    return 0;
}

int version_command(struct session *s)
{
    printf(s->json ? "{\"version\":\"%s\"}\n" : "weir %s\n", WEIR_VERSION);
    return 0;
}
