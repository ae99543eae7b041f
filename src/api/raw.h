/* raw: values of a JSON document as the sender wrote them, found in text that is known to be valid JSON.
 *
 * A worker's `data` is handed on byte by byte (numbers keep their spelling), only blanks between the tokens are dropped. Total on any
 * input: what isn't found is the empty string. */
#ifndef WEIR_API_RAW_H
#define WEIR_API_RAW_H

#include "base/buf.h"

struct str raw_members(struct str object); /* what stands behind the brace */
bool raw_member_next(struct str *rest, struct str *out_name, struct str *out_value);
struct str raw_member(struct str object, struct str key); /* the value of the last member with this key, spelled without escapes */
bool raw_next(struct str *rest, struct str *out_item);    /* items of an array: start with raw_items */
struct str raw_items(struct str array);                   /* what stands behind the bracket */
void raw_compact(struct buf *out, struct str value);      /* without blanks between tokens */

#endif
