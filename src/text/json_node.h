/* json_node: a strict JSON file as nodes with places; same limits and same nodes as yaml.h. Numbers, true, false and
 * null are plain scalars, strings are quoted ones. NULL when there is any error, which is in diags. */
#ifndef WEIR_TEXT_JSON_NODE_H
#define WEIR_TEXT_JSON_NODE_H

#include "text/node.h"

const struct doc_node *json_node_parse(const struct diag_file *file, struct arena *arena, struct diags *diags);

bool text_is_json_number(struct str s); /* -?int frac? exp? and nothing else */

/* json_node_body: a text that came in a request, whose length was bounded there. Numbers must fit an int64 or a double,
 * texts may have NUL characters, lines aren't counted (`raw` says where a node stands). A list or mapping below the key
 * `kept`, at any level, is checked but gets no nodes. Nodes point into the text. NULL: it isn't strict JSON of at most
 * NODE_DEPTH_MAX levels. */
const struct doc_node *json_node_body(struct str text, struct str kept, struct arena *arena);

#endif
