/* lint: are these workflow files right? All faults in one run, as a compiler tells them. Needs no server. */
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/term.h"
#include "cmd/workflow_files.h"

#define OUT_CAP ((size_t)16 << 20)

static const struct option_spec lint_options[] = {
    { "json", 0, NULL, "print the diagnostics on stdout as a JSON array of {file, line, column, severity, message, suggestion}", 0, NULL },
    { "schema", 0, NULL, "print a JSON Schema of workflow files, for editors, and nothing else", 0, NULL },
    { "quiet", 'q', NULL, "say nothing when all is well", 0, NULL },
    { "no-color", 0, NULL, "no colours (there are none)", OPTION_HIDDEN, NULL },
    { 0 },
};
static const char *const lint_examples[] = {
    "check the workflow of the archive whose working copy is here",
    "weir lint .",
    "help and checks in an editor",
    "weir lint --schema > workflow.schema.json",
    NULL,
};
const struct command_spec lint_spec = {
    .name = "lint",
    .operands = "PATH...",
    .operands_max = 1000000,
    .summary = "check workflow files",
    .description =
        "PATH is an archive's root (with _workflows in it) or a workflow file (.yaml, .yml, .json). All files of one _workflows folder are "
        "checked together, as a revision's are; any other file is checked for itself. Diagnostics go to stderr. Exit 0: no errors "
        "(warnings don't count), 1: errors, 66: there is no such file or folder.",
    .options = lint_options,
    .examples = lint_examples,
};

static int print(const struct buf *out)
{
    fwrite(out->ptr, 1, out->len, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int lint_schema(void)
{
    struct buf out;
    buf_init(&out, OUT_CAP);
    workflow_schema(&out);
    int status = print(&out);
    buf_release(&out);
    return status;
}

static int lint_print(const struct workflow_sets *sets, const struct options *options, bool whole)
{
    int status = sets->diags.n_errors > 0 ? 1 : 0;
    if (option_given(options, "json")) {
        struct buf out;
        buf_init(&out, OUT_CAP);
        diags_json(&out, &sets->diags);
        buf_add_char(&out, '\n');
        if (print(&out) != 0)
            status = 1;
        buf_release(&out);
        return status;
    }
    workflow_sets_say(sets);
    if (status == 0 && whole && !option_given(options, "quiet"))
        printf("%zu file%s, %zu task%s, no errors\n", sets->n_files, sets->n_files == 1 ? "" : "s", sets->n_tasks,
            sets->n_tasks == 1 ? "" : "s");
    return status;
}

int lint_main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct options options;
    struct workflow_sets sets;
    int status = options_parse(&options, &lint_spec, argc, argv, &arena), missing = 0;
    if (status == OPTIONS_RUN && option_given(&options, "schema"))
        status = lint_schema();
    else if (status == OPTIONS_RUN && options.n_operands == 0)
        status = usage_error(&lint_spec, "Nothing is named: which PATH?");
    if (status != OPTIONS_RUN) {
        arena_release(&arena);
        return status;
    }
    workflow_sets_init(&sets, &arena);
    for (size_t i = 0; i < options.n_operands; i++) {
        struct err err = { 0 };
        if (workflow_sets_add(&sets, options.operands[i], &err))
            continue;
        term_say(stderr, "weir lint: %s", err.text);
        if (missing == 0)
            missing = err.code == ERR_not_found ? err_exit(err.code) : 1;
    }
    workflow_sets_check(&sets);
    status = lint_print(&sets, &options, missing == 0);
    arena_release(&arena);
    return missing != 0 ? missing : status;
}
