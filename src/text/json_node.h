/* json_node: a strict JSON file as nodes with places; same limits and same nodes as yaml.h. Numbers, true, false and null are plain
 * scalars, strings are quoted ones. NULL when there is any error, which is in diags. */
#ifndef WEIR_TEXT_JSON_NODE_H
#define WEIR_TEXT_JSON_NODE_H

#include "text/node.h"

const struct node *json_node_parse(const struct diag_file *file, struct arena *arena, struct diags *diags);

#endif
