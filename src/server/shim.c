/* shim: the process between an executor and a job; started by the executor, of no use to anybody else. */
#include "cli/command.h"
#include "exec/shim/shim.h"

int cmd_shim(const struct command_spec *spec, int argc, char **argv)
{
    struct arena arena = { 0 };
    struct options options;
    int status = options_parse(&options, spec, argc, argv, &arena);
    if (status == OPTIONS_RUN)
        status = shim_main(options.operands[0]);
    arena_release(&arena);
    return status;
}
