/* json_value: whole JSON documents as jansson's values: what the store keeps, what other programs answer. Bodies of
 * requests are read as nodes (json_read.h, task_doc.h). */
#ifndef WEIR_TEXT_JSON_VALUE_H
#define WEIR_TEXT_JSON_VALUE_H

#include <jansson.h>

#include "base/err.h"

/* json_parse: NULL and err (bad_json with line and column as an item) when the bytes aren't one strict JSON value of at
 * most `depth_max` levels. Numbers beyond int64 are a fault. The caller frees with json_decref. */
json_t *json_parse(struct str bytes, unsigned depth_max, struct err *err);

/* A jansson value as compact JSON text (sorted keys when `canonical`). */
struct str json_text(struct arena *arena, const json_t *value, bool canonical);

#endif
