/* unpack: the process that unpacks one tarball of a change set; started by a server or an executor, of no use to
 * anybody else. It ends by _exit: its rights are too few for what libraries do at an orderly end. */
#include <unistd.h>

#include "cli/command.h"
#include "unpack/child.h"

int cmd_unpack(const struct command_spec *spec, int argc, char **argv)
{
    struct arena arena = { 0 };
    struct options options;
    int status = options_parse(&options, spec, argc, argv, &arena);
    if (status != OPTIONS_RUN) {
        arena_release(&arena);
        return status;
    }
    _exit(child_main(options.operands));
}
