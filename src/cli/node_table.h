/* node_table: nodes as rows, for `nodes` and `top`. */
#ifndef WEIR_CLI_NODE_TABLE_H
#define WEIR_CLI_NODE_TABLE_H

#include <jansson.h>

#include "cli/term.h"

/* node_table: role NULL: all, else only that one. */
void node_table(struct table *table, struct arena *arena, const json_t *nodes, const char *role);

#endif
