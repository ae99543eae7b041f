/* promote: puts a task at the front of its priority. */
#include "cmd/act.h"
#include "cmd/command.h"

static const struct option_spec promote_options[] = {
    { "reason", 0, "T", "why; kept in the history", OPTION_NON_EMPTY, NULL },
    { 0 },
};
const struct command_spec promote_spec = {
    .name = "promote",
    .operands = "KEY...",
    .operands_min = 1,
    .operands_max = 1000,
    .summary = "put tasks at the front of their priority",
    .options = promote_options,
    .flags = COMMAND_CLIENT,
};

int promote_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &promote_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    const char *reason = option_get(&s.options, "reason");
    json_t *body = json_object();
    if (reason && json_object_set_new(body, "reason", json_string(reason)) != 0)
        status = session_err(&s, ERR_invalid, "the reason isn't UTF-8");
    else
        status = act_on_tasks(&s, "/promote", body);
    json_decref(body);
    return session_close(&s, status);
}
