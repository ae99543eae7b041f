/* coord_alone: a store that nobody else writes to: this server holds everything, under the one epoch there is. */
#include "coord/coord.h"

static void alone_close(struct coord *coord)
{
    arena_release(&coord->arena);
    mem_free(coord);
}

static bool alone_members(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n)
{
    *out = ARENA_NEW(arena, struct coord_member);
    (*out)->name = str_dup(arena, coord->config.member);
    *out_n = 1;
    return true;
}

static enum coord_advice alone_advice(struct coord *coord, size_t name)
{
    (void)coord;
    (void)name;
    return COORD_LEAD;
}

struct coord *coord_alone_new(void)
{
    static const struct coord_ops ops = {
        .kind = "alone", .alone = true, .close = alone_close, .members = alone_members, .advice = alone_advice
    };
    struct coord *coord = mem_alloc_zero(sizeof *coord);
    coord->ops = &ops;
    return coord;
}
