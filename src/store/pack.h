/* pack: the events of one turn as bytes: pure, compact, total on damaged input. Strings that repeat within a turn are
 * written once. */
#ifndef WEIR_STORE_PACK_H
#define WEIR_STORE_PACK_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/model.h"

void pack_events(struct buf *out, const struct event *events, size_t n); /* seq and time are the turn's: not packed */
/* false: the bytes aren't a packed turn. seq is first_seq + i, time is the turn's. */
bool unpack_events(
    struct str bytes, int64_t first_seq, int64_t time, struct arena *arena, struct event **out, size_t *out_n);

#endif
