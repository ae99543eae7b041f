/* wall: see wall.h. Total: any numbers are taken. */
#include "core/wall.h"

static bool near(int64_t a, int64_t b)
{
    return a > b ? a - b <= WALL_JUMP_MS : b - a <= WALL_JUMP_MS;
}

bool wall_agrees(const struct wall_known *known, int64_t passed, int64_t wall)
{
    return known->time == 0 || near(known->time + passed, wall);
}

int64_t wall_past(const struct wall_known *known, int64_t passed, int64_t wall)
{
    return wall_agrees(known, passed, wall) || wall < known->time + passed ? wall : known->time + passed;
}

int64_t wall_late(const struct wall_known *known, int64_t passed, int64_t wall)
{
    return wall > known->time + passed ? wall : known->time + passed;
}

struct wall_known wall_next(const struct wall_known *known, int64_t passed, int64_t wall)
{
    if (wall_agrees(known, passed, wall))
        return (struct wall_known){ .time = wall };
    /* How long no server ran isn't known at a start: then only a step back is a further jump. */
    bool on = known->seen && (passed ? near(known->seen + passed, wall) : wall >= known->seen - WALL_JUMP_MS);
    int64_t ran = on ? known->ran + passed : 0;
    if (ran >= WALL_CONFIRM_MS)
        return (struct wall_known){ .time = wall };
    return (struct wall_known){ known->time + passed, ran, wall };
}
