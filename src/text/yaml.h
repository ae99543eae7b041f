/* yaml: a YAML file composed into nodes, strictly (node.h has the limits): one document, no tags, no duplicate keys,
 * scalar keys only, UTF-8 without a byte order mark, few aliases. NULL when there is any error; all that were found are
 * in diags. */
#ifndef WEIR_TEXT_YAML_H
#define WEIR_TEXT_YAML_H

#include "text/node.h"

const struct doc_node *yaml_parse(const struct diag_file *file, struct arena *arena, struct diags *diags);

#endif
