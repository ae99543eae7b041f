/* manual: the man page weir(1) as scdoc source, from the command table; doc/man/weir.1.scd is its output, and a test
 * compares the two. */
#include <string.h>

#include "cli/command.h"
#include "text/task_doc.h"

/* scd_text: scdoc gives meaning to _ * \ and to # at the beginning of a line. */
static void scd_text(FILE *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (strchr("_*\\[]", *c))
            fputc('\\', out);
        fputc(*c, out);
        if (*c == '\n')
            fputc('\n', out);
    }
}

static void scd_option(FILE *out, const struct option_spec *o)
{
    if (o->letter)
        fprintf(out, "*-%c*, ", o->letter);
    fprintf(out, "*--%s*", o->name);
    if (o->argument) {
        fputs(" _", out);
        scd_text(out, o->argument);
        fputc('_', out);
    }
    fputs("\n\t", out);
    scd_text(out, o->help);
    if (o->choices) {
        fputs(": ", out);
        scd_text(out, o->choices);
    }
    if (o->flags & OPTION_REQUIRED)
        fputs(" (required)", out);
    if (o->flags & OPTION_REPEATABLE)
        fputs(" (may be repeated)", out);
    fputs("\n\n", out);
}

static void scd_synopsis(FILE *out, const struct command_spec *spec)
{
    fprintf(out, "*weir %s*", spec->name);
    for (const struct option_spec *o = spec->options; o && o->name; o++) {
        if (o->flags & OPTION_HIDDEN)
            continue;
        fputs(o->flags & OPTION_REQUIRED ? " " : " \\[", out);
        fprintf(out, "*--%s*", o->name);
        if (o->argument) {
            fputc(' ', out);
            scd_text(out, o->argument);
        }
        fputs(o->flags & OPTION_REQUIRED ? "" : "\\]", out);
        fputs(o->flags & OPTION_REPEATABLE ? "..." : "", out);
    }
    if (spec->operands && *spec->operands) {
        fputc(' ', out);
        scd_text(out, spec->operands);
    }
    fputs("\n\n", out);
}

static void scd_command(FILE *out, const struct command_spec *spec)
{
    fprintf(out, "## weir %s\n\n", spec->name);
    scd_synopsis(out, spec);
    scd_text(out, spec->summary);
    fputs(".\n\n", out);
    if (spec->description) {
        scd_text(out, spec->description);
        fputs("\n\n", out);
    }
    for (const struct option_spec *o = spec->options; o && o->name; o++)
        if (!(o->flags & OPTION_HIDDEN))
            scd_option(out, o);
    if (spec->examples) {
        fputs("Examples:\n\n```\n", out);
        for (const char *const *e = spec->examples; e[0]; e += 2)
            fprintf(out, "# %s\n%s\n", e[0], e[1]);
        fputs("```\n\n", out);
    }
    const struct command_spec *part;
    for (size_t i = 0; (part = command_part(spec, i)) != NULL; i++)
        scd_command(out, part);
}

static void scd_task_keys(FILE *out)
{
    struct task_doc_row row;
    fputs("# WHAT A TASK CAN SAY\n\n", out);
    for (size_t i = 0; task_doc_row(i, &row); i++) {
        fputc('*', out);
        scd_text(out, row.name);
        fputs("*\n\t", out);
        scd_text(out, row.sentence);
        fputs(row.reserved ? " (reserved for a later version)" : "", out);
        fputs(!row.in_queue ? "; only in workflows" : !row.in_workflow ? "; only of posted tasks" : "", out);
        fputs("\n\n", out);
    }
}

static const char manual_head[] =
    "weir(1)\n\n# NAME\n\nweir - a durable queue of tasks with dependencies, and the executors that run them\n\n"
    "# SYNOPSIS\n\n*weir* _COMMAND_ \\[_OPTION_...\\] ...\n\n"
    "# DESCRIPTION\n\nWeir keeps tasks with their dependencies in an embedded store and runs them on executors. *weir "
    "serve* starts a "
    "server with one executor; all "
    "other commands talk to a server over HTTP.\n\n"
    "A task is in one of eight states: Q queued, S staged, P pending, X executing, D done, F failed, T terminated, A "
    "abandoned.\n\n"
    "A _KEY_ is ARCHIVE@REV:NAME, ARCHIVE@REV:NAME\\[k=v,...\\], QUEUE:ID, or the task's id. Durations are written "
    "90s, 15m, 2h, 7d; sizes "
    "64KiB, 10MiB.\n\n"
    "Data goes to stdout, everything else to stderr.\n\n# COMMON OPTIONS\n\nThe commands that talk to a server take "
    "these, also before the "
    "command's name.\n\n";

static const char manual_tail[] =
    "# EXIT STATUS\n\n*0* success; *1* the thing asked about failed; *2* usage; *65* bad input data; *66* no such "
    "archive, task or file; "
    "*69* server not reachable; "
    "*75* try again later, also when *weir wait --timeout* ran out; *77* not permitted, also when a certificate isn't "
    "trusted.\n\n"
    "# ENVIRONMENT\n\n*WEIR\\_SERVER*\n\tthe server, as *--server*\n\n*WEIR\\_TOKEN\\_FILE*\n\ta file that holds the "
    "token, as "
    "*--token-file*\n\n"
    "*WEIR\\_CA*, *WEIR\\_CLIENT\\_CERT*, *WEIR\\_CLIENT\\_KEY*\n\tfiles for servers that speak TLS, as *--ca*, "
    "*--client-cert*, "
    "*--client-key*\n\n"
    "*WEIR\\_TOKEN*\n\tthe token itself\n\n*XDG\\_STATE\\_HOME*\n\twhere the data directory *weir* lies (default: "
    "~/.local/state)\n\n"
    "*NO\\_COLOR*\n\tno colours when set\n\n"
    "# FILES\n\n_$XDG\\_STATE\\_HOME/weir_\n\tthe default data directory: the store, the logs, the socket _weir.sock_, "
    "and _address_ with "
    "the server's address\n";

void manual_print(FILE *out)
{
    fputs(manual_head, out);
    for (const struct option_spec *o = options_common; o->name; o++)
        scd_option(out, o);
    fputs("# COMMANDS\n\n", out);
    for (const struct command_spec *c = NULL; (c = command_next(c)) != NULL;)
        scd_command(out, c);
    scd_task_keys(out);
    fputs(manual_tail, out);
}
