/* history: what the files of this command share. */
#ifndef WEIR_CMD_HISTORY_H
#define WEIR_CMD_HISTORY_H

#include "cmd/options.h"

extern const struct command_spec history_prune_spec;
int history_prune(int argc, char **argv); /* argv[0] is its name */

#endif
