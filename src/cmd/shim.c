/* shim: the process between an executor and a job; started by the executor, of no use to anybody else. */
#include "cmd/command.h"
#include "exec/shim.h"

const struct command_spec shim_spec = {
    .name = "shim",
    .operands = "DIR",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "holds one job of an executor (started by the executor alone)",
    .flags = COMMAND_HIDDEN,
};

int cmd_shim(int argc, char **argv)
{
    struct arena arena = {0};
    struct options options;
    int status = options_parse(&options, &shim_spec, argc, argv, &arena);
    if (status == OPTIONS_RUN)
        status = shim_main(options.operands[0]);
    arena_release(&arena);
    return status;
}
