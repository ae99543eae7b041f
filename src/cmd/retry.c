/* retry: runs ended tasks again; what ended because of them goes back to S. */
#include "cmd/act.h"
#include "cmd/command.h"

static const struct option_spec retry_options[] = {
    { "force", 0, NULL, "also when a later task of the same order has started; needs --reason", 0, NULL },
    { "reason", 0, "T", "why; kept in the history", OPTION_NON_EMPTY, NULL },
    { 0 },
};
const struct command_spec retry_spec = {
    .name = "retry",
    .operands = "KEY...",
    .operands_min = 1,
    .operands_max = 1000,
    .summary = "run ended tasks again",
    .description = "A task that ended as F, T or A gets a new attempt; the tasks that ended because of it go back to S and wait for it "
                   "again. Refused (order_passed) when a later task that is ordered after it has started, unless forced.",
    .options = retry_options,
    .flags = COMMAND_CLIENT,
};

int retry_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &retry_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    const char *reason = option_get(&s.options, "reason");
    bool force = option_given(&s.options, "force");
    if (force && !reason)
        return session_close(&s, usage_error(&retry_spec, "--force needs a reason: --reason T"));
    json_t *body = json_object();
    if (force)
        json_object_set_new(body, "force", json_true());
    if (reason && json_object_set_new(body, "reason", json_string(reason)) != 0)
        status = session_err(&s, ERR_invalid, "the reason isn't UTF-8");
    else
        status = act_on_tasks(&s, "/retry", body);
    json_decref(body);
    return session_close(&s, status);
}
