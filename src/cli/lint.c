/* lint: are these workflow files right? All faults in one run, as a compiler tells them. Needs no server. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/workflow_files.h"

#define OUT_CAP ((size_t)16 << 20)

static void lint_print(const struct workflow_sets *sets, const struct session *s, bool whole)
{
    struct buf out;
    if (!s->json) {
        diags_say(&sets->diags);
        if (sets->diags.n_errors == 0 && whole && !s->quiet)
            printf("%zu file%s, %zu task%s, no errors\n", sets->n_files, sets->n_files == 1 ? "" : "s", sets->n_tasks,
                sets->n_tasks == 1 ? "" : "s");
        return;
    }
    buf_init(&out, OUT_CAP);
    diags_json(&out, &sets->diags);
    buf_add_char(&out, '\n');
    fwrite(out.ptr, 1, out.len, stdout);
    buf_release(&out);
}

static int lint_schema(void)
{
    struct buf out;
    buf_init(&out, OUT_CAP);
    workflow_schema(&out);
    fwrite(out.ptr, 1, out.len, stdout);
    buf_release(&out);
    return 0;
}

int lint_command(struct session *s)
{
    struct workflow_sets sets;
    int missing = 0;
    if (option_given(&s->options, "schema"))
        return lint_schema();
    if (s->options.n_operands == 0)
        return usage_error(s->options.spec, "Nothing is named: which PATH?");
    workflow_sets_init(&sets, &s->arena);
    for (size_t i = 0; i < s->options.n_operands; i++) {
        struct err err = { 0 };
        if (workflow_sets_add(&sets, s->options.operands[i], &err))
            continue;
        term_say(stderr, "weir lint: %s", err.text);
        if (missing == 0)
            missing = err.code == ERR_not_found ? err_exit(err.code) : 1;
    }
    workflow_sets_check(&sets);
    lint_print(&sets, s, missing == 0);
    return missing != 0 ? missing : sets.diags.n_errors > 0 ? 1 : 0;
}
