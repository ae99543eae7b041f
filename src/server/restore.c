/* restore: a backup becomes the store of a data directory that has none. */
#include <stdlib.h>

#include "cli/command.h"
#include "cli/session.h"
#include "store/store.h"

int restore_command(struct session *s)
{
    const char *data = option_get(&s->options, "data");
    if (!data)
        data = state_path(&s->arena, "weir");
    if (!data)
        return usage_error(
            s->options.spec, "neither XDG_STATE_HOME nor HOME is set: name the data directory with --data DIR");
    struct backup_facts facts = { .active = option_get(&s->options, "active") != NULL };
    if (!store_restore(s->options.operands[0], data, &facts, &s->err)) {
        bool bad = s->err.code == ERR_corrupt; /* what was given isn't a backup, or not a whole one */
        s->status = err_exit(bad ? ERR_invalid : s->err.code);
        session_fail(s);
        if (bad)
            fputs("  give a file that `weir backup` has written; the directory is as it was\n", stderr);
        return s->status;
    }
    session_note(s, "%s is restored; start it with: weir serve --data %s", data, data);
    if (!facts.active)
        session_note(
            s, "it is paused: nothing starts, no schedule fires, no repository is followed until: weir resume all");
    if (facts.logs_missing > 0)
        session_note(s, "%lld logs that were sealed aren't in the backup: pruned while it was made, or lost before",
            (long long)facts.logs_missing);
    if (facts.missing > 0)
        session_note(s, "%lld artifacts that its tasks list aren't there: %s", (long long)facts.missing,
            facts.without_artifacts ? "the backup was made without them" : "the backup didn't have them");
    if (s->json) {
        json_t *document = json_pack("{s:o, s:b, s:I, s:I, s:I, s:b}", "data", session_string(str_of(data)), "paused",
            !facts.active, "logs_missing", (json_int_t)facts.logs_missing, "artifacts", (json_int_t)facts.artifacts,
            "artifacts_missing", (json_int_t)facts.missing, "without_artifacts", facts.without_artifacts);
        session_print(s, document);
        json_decref(document);
    }
    return 0;
}
