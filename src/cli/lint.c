/* lint: are these workflow files right? All faults in one run, as a compiler tells them. Needs no server. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/term.h"
#include "cli/workflow_files.h"

#define OUT_CAP ((size_t)16 << 20)

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

int lint_main(const struct command_spec *spec, int argc, char **argv)
{
    struct arena arena = { 0 };
    struct options options;
    struct workflow_sets sets;
    int status = options_parse(&options, spec, argc, argv, &arena), missing = 0;
    if (status == OPTIONS_RUN && option_given(&options, "schema"))
        status = lint_schema();
    else if (status == OPTIONS_RUN && options.n_operands == 0)
        status = usage_error(spec, "Nothing is named: which PATH?");
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
