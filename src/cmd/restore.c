/* restore: a backup becomes the store of a data directory that has none. */
#include <stdlib.h>

#include "cmd/command.h"
#include "cmd/session.h"
#include "store/store.h"

static const struct option_spec restore_options[] = {
    { "data", 0, "DIR", "the data directory (default: $XDG_STATE_HOME/weir)", OPTION_NON_EMPTY, NULL },
    { "active", 0, NULL, "the store goes to work when it is served; else it is paused until `weir resume all`", 0, NULL },
    { "json", 0, NULL, "print one JSON document: {data, paused, logs_missing, artifacts, artifacts_missing, without_artifacts}", 0, NULL },
    { "quiet", 'q', NULL, "say nothing but errors", 0, NULL },
    { 0 },
};
const struct command_spec restore_spec = {
    .name = "restore",
    .operands = "FILE",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "bring a backup back into an empty data directory",
    .description = "No server may run there, and a directory that holds a store is refused: move it away first. The restored store takes a "
                   "new incarnation, so that nothing granted before is believed, and is paused: it starts no task, fires no schedule and "
                   "follows no repository beside the store that it is a copy of, until `weir resume all`.",
    .options = restore_options,
};

static const char *data_default(struct arena *arena)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state)
        return str_dupz(arena, str_fmt(arena, "%s/weir", state));
    return home && *home ? str_dupz(arena, str_fmt(arena, "%s/.local/state/weir", home)) : NULL;
}

int restore_main(int argc, char **argv)
{
    struct session s = { 0 };
    int status = options_parse(&s.options, &restore_spec, argc, argv, &s.arena);
    if (status != OPTIONS_RUN) {
        arena_release(&s.arena);
        return status;
    }
    session_local(&s);
    const char *data = option_get(&s.options, "data");
    if (!data)
        data = data_default(&s.arena);
    if (!data)
        return session_close(
            &s, usage_error(&restore_spec, "neither XDG_STATE_HOME nor HOME is set: name the data directory with --data DIR"));
    struct backup_facts facts = { .active = option_get(&s.options, "active") != NULL };
    if (!store_restore(s.options.operands[0], data, &facts, &s.err)) {
        bool bad = s.err.code == ERR_corrupt; /* what was given isn't a backup, or not a whole one */
        s.status = err_exit(bad ? ERR_invalid : s.err.code);
        session_fail(&s);
        if (bad)
            fputs("  give a file that `weir backup` has written; the directory is as it was\n", stderr);
        return session_close(&s, s.status);
    }
    session_note(&s, "%s is restored; start it with: weir serve --data %s", data, data);
    if (!facts.active)
        session_note(&s, "it is paused: nothing starts, no schedule fires, no repository is followed until: weir resume all");
    if (facts.logs_missing > 0)
        session_note(&s, "%lld logs that were sealed aren't in the backup: pruned while it was made, or lost before",
            (long long)facts.logs_missing);
    if (facts.missing > 0)
        session_note(&s, "%lld artifacts that its tasks list aren't there: %s", (long long)facts.missing,
            facts.without_artifacts ? "the backup was made without them" : "the backup didn't have them");
    if (s.json) {
        json_t *document = json_pack("{s:o, s:b, s:I, s:I, s:I, s:b}", "data", session_string(str_of(data)), "paused", !facts.active,
            "logs_missing", (json_int_t)facts.logs_missing,
            "artifacts", (json_int_t)facts.artifacts, "artifacts_missing", (json_int_t)facts.missing,
            "without_artifacts", facts.without_artifacts);
        session_print(&s, document);
        json_decref(document);
    }
    return session_close(&s, 0);
}
