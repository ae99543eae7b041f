/* task_state: which moves are legal. The table of ARCHITECTURE.md section 3 and ENGINE.md, and the only copy of it. */
#ifndef WEIR_CORE_TASK_STATE_H
#define WEIR_CORE_TASK_STATE_H

#include "core/model.h"

bool move_legal(enum task_state from, enum task_state to); /* from STATE_NONE: creation, only to Q */

#endif
