/* shim: the process between an executor and a job; started by the executor, of no use to anybody else. */
#include "cli/command.h"
#include "cli/session.h"
#include "exec/shim/shim.h"

int shim_command(struct session *s)
{
    return shim_main(s->options.operands[0]);
}
