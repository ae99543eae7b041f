/* apply: the process that applies one change set; started by an executor's shim, of no use to anybody else. */
#include "cli/command.h"
#include "cli/session.h"
#include "exec/apply/apply.h"

int apply_command(struct session *s)
{
    (void)s;
    return apply_main();
}
