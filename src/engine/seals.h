/* seals: hashes of complete logs become part of the history, many in one turn: seals.c. */
#ifndef WEIR_ENGINE_SEALS_H
#define WEIR_ENGINE_SEALS_H

#include "engine/state.h"

/* on: when the engine opens and its thread starts; off: before they end */
void seals_listen(struct engine *engine, bool on);
int64_t seals_next(struct engine *engine); /* boot ms */
void seals_note(struct turn *turn);        /* last, when it is known whether the turn commits anyway */
void seals_follow(struct turn *turn);

#endif
