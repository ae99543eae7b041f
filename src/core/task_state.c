#include "core/task_state.h"

#include "base/err.h"

#define TO(state) (1u << STATE_##state)

/* An absent bit is a move that cannot happen. */
static const unsigned legal[STATE_COUNT] = {
    [STATE_NONE] = TO(Q),
    [STATE_Q] = TO(S) | TO(F) | TO(A) | TO(T),
    [STATE_S] = TO(P) | TO(D) | TO(F) | TO(A) | TO(T),
    [STATE_P] = TO(X) | TO(S) | TO(A) | TO(T),
    [STATE_X] = TO(D) | TO(F) | TO(T) | TO(A) | TO(P) | TO(S),
    [STATE_D] = 0,
    [STATE_F] = TO(P) | TO(S),
    [STATE_T] = TO(P) | TO(S),
    [STATE_A] = TO(P) | TO(S),
};

bool move_legal(enum task_state from, enum task_state to)
{
    ASSERT(from < STATE_COUNT && to > STATE_NONE && to < STATE_COUNT);
    return (legal[from] & (1u << to)) != 0;
}
