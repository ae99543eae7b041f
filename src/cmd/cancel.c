/* cancel: puts an end to tasks; they become T. */
#include "cmd/act.h"
#include "cmd/command.h"

static const struct option_spec cancel_options[] = {
    { "reason", 0, "T", "why; kept in the history", OPTION_REQUIRED | OPTION_NON_EMPTY, NULL },
    { 0 },
};
static const char *const cancel_examples[] = { "stop one task", "weir cancel default:42 --reason 'wrong branch'", NULL };
const struct command_spec cancel_spec = {
    .name = "cancel",
    .operands = "KEY...",
    .operands_min = 1,
    .operands_max = 1000,
    .summary = "put an end to tasks",
    .description = "A task that waits becomes T (terminated) at once. One that runs is told to end (SIGTERM, then SIGKILL after the grace "
                   "period) and becomes T when its process is gone. What depends on it fails.",
    .options = cancel_options,
    .flags = COMMAND_CLIENT,
    .examples = cancel_examples,
};

int cancel_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &cancel_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    json_t *body = json_pack("{s:s}", "reason", option_get(&s.options, "reason"));
    status = body ? act_on_tasks(&s, "/cancel", body) : session_err(&s, ERR_invalid, "the reason isn't UTF-8");
    json_decref(body);
    return session_close(&s, status);
}
